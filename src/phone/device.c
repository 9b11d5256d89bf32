/* SPDX-License-Identifier: MIT */
#include "phone/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "phone/graphs.h"

enum { ROWS_MOST = 4096 }; /* of one pass, where nothing is computed */
enum { LISTS = 4 };        /* models that have graphs: a draft model has its own */

struct sim_unit {
    struct device device;
    struct sim_device_settings set;
    struct sim_event *event; /* [n_event] of room */
    int n_event, room;
    struct graphs *graphs[LISTS]; /* of the NPU, where they are switched */
    int last_op;                  /* of the pass, submitted */
    const struct op_list *last_list;
};

static struct sim_unit *unit_of(const struct device *d)
{
    return (struct sim_unit *)d;
}

/* ---- how long ---- */

/* Of the segment's share. */
static int rows_of(const struct segment *s, int value)
{
    return share_count_rows(s->pass, s->list->value[value].rows, s->share);
}

static double share_of(struct share share, int64_t n)
{
    return (double)share_columns(share, n).n / (double)n;
}

/* Of a weight's time what it takes at least through the memory of all that read it at the same time; a device's pieces
 * of one operation follow each other, and each has its part of that.  0: nobody else reads it. */
static double beside_us(const struct sim_unit *u, const struct segment *s, const struct op *op, double bytes)
{
    const struct plan *plan = u->set.plan;
    const int64_t n = op->weight[0]->tensor.ne[1];
    const int at = (int)(op - s->list->op);
    double all = 1, own = 1, mine = 1;
    if (!plan) return share_is_all(s->share) ? 0 : bytes / 1e3 / sim_figure(u->set.profile, SOC_TWO_GBS, u->set.end);
    mine = share_of(s->share, n), all = own = 0;
    for (const struct plan_piece *p = plan->piece; p < plan->piece + plan->n_piece; p++) {
        const bool reads = at >= p->first && at < p->first + p->n &&
                           share_count_rows(s->pass, s->list->value[op->in[0]].rows, p->share) > 0;
        const double part = reads ? share_of(p->share, n) : 0;
        all += part, own += plan->device[p->device] == &u->device ? part : 0;
    }
    return all > own ? bytes * all * mine / own / 1e3 / sim_figure(u->set.profile, SOC_TWO_GBS, u->set.end) : 0;
}

/* One product of so many rows. */
static double product_us(const struct sim_unit *u, const struct segment *s, const struct op *op, int rows)
{
    double us = 0;
    for (int i = 0; rows > 0 && i < op->n_weight; i++) {
        const struct weight *w = op->weight[i];
        const int k = (int)w->tensor.ne[0], n = (int)w->tensor.ne[1];
        double weights = (double)k * n, bytes = (double)weight_bytes(w);
        double own = sim_product_us(
            u->set.profile, false, u->set.end, u->set.kind, k, n, 8 * bytes / weights, rows, share_of(s->share, n));
        us += fmax(own, beside_us(u, s, op, bytes));
    }
    return us;
}

static struct graphs *graphs_of(const struct sim_unit *u, const struct op_list *list)
{
    for (int i = 0; i < LISTS; i++)
        if (u->graphs[i] && u->graphs[i]->list == list) return u->graphs[i];
    return NULL;
}

/* As often as the block's graph runs for these rows; other products have graphs of any size. */
static double graph_us(const struct sim_unit *u, const struct segment *s, const struct op *op)
{
    const struct graphs *g = graphs_of(u, s->list);
    const int rows = rows_of(s, op->in[0]), block = g ? graphs_block(g, op) : -1;
    int runs;
    if (block < 0 || rows < 1) return product_us(u, s, op, rows);
    const int each = graphs_rows(g, block, rows, &runs);
    return runs * product_us(u, s, op, each);
}

/* Keys that the rows see, and those that are read: once for rows of one sequence. */
static void count_keys(const struct pass_args *pass, double *seen, double *read)
{
    const struct batch *batch = pass->batch;
    *seen = *read = 0;
    for (int r = 0; pass->kv && r < batch->n_row; r++) {
        double n = pass->kv->row[r].n_paged + pass->kv->row[r].n_path;
        bool last = r + 1 == batch->n_row || batch->row[r + 1].seq != batch->row[r].seq;
        *seen += n, *read += last ? n : 0;
    }
}

static double attention_us(const struct sim_unit *u, const struct segment *s, const struct op *op, double bytes)
{
    const struct op_attention *a = &op->attention;
    const bool cpu = u->set.kind == SIM_CPU; /* operations per us, as in products */
    double rate =
        2e6 * (cpu ? 128 : 256) / sim_figure(u->set.profile, cpu ? SOC_CPU_US_128 : SOC_GPU_US_256, u->set.end);
    double seen, read;
    count_keys(s->pass, &seen, &read);
    return fmax(
        bytes / 1e3 / sim_figure(u->set.profile, SOC_ONE_GBS, u->set.end), 4 * seen * a->n_head * a->d_head / rate);
}

/* Bytes of halves that rows of a value are. */
static double value_bytes(const struct segment *s, int value)
{
    return 2.0 * rows_of(s, value) * (double)share_columns(s->share, s->list->value[value].dim).n;
}

/* What an operation moves through memory: a product its weights, an attention its cache, others their values. */
static double op_bytes(const struct segment *s, const struct op *op)
{
    double bytes = 0, seen, read;
    if (op_info_of(op->kind)->use & WEIGHT_MATMUL) {
        for (int i = 0; i < op->n_weight; i++)
            bytes += (double)weight_bytes(op->weight[i]) * share_of(s->share, op->weight[i]->tensor.ne[1]);
    } else if (op->kind == OP_ATTENTION) {
        count_keys(s->pass, &seen, &read);
        bytes = 2 * 2 * read * op->attention.n_kv_head * op->attention.d_head;
    } else {
        for (int i = 0; i < op->n_in; i++) bytes += value_bytes(s, op->in[i]);
        for (int i = 0; i < op->n_out; i++) bytes += value_bytes(s, op->out[i]);
    }
    return bytes;
}

double sim_device_op_us(const struct device *device, const struct segment *segment, const struct op *op)
{
    const struct sim_unit *u = unit_of(device);
    if (op_info_of(op->kind)->use & WEIGHT_MATMUL) return graph_us(u, segment, op);
    const double bytes = op_bytes(segment, op);
    if (op->kind == OP_ATTENTION) return attention_us(u, segment, op, bytes);
    return bytes / 1e3 / sim_figure(u->set.profile, SOC_ONE_GBS, u->set.end);
}

/* ---- graphs ---- */

/* What a prompt's blocks cost, of which this device has the segment's share. */
static void cost_blocks(const struct sim_unit *u, struct graphs *g, const struct segment *s, int n_row)
{
    struct blocks_problem *p = &g->cost;
    const int many = (n_row + GRAPHS_MANY - 1) / GRAPHS_MANY, few = (n_row + GRAPHS_FEW - 1) / GRAPHS_FEW;
    const double mbs = sim_figure(u->set.profile, SOC_STORAGE_MBS, u->set.end);
    for (int b = 0; b < p->n_block; b++) p->prefill_us[b] = p->decode_us[b] = p->load_us[b] = 0;
    for (int i = 0; i < g->list->n_op; i++) {
        const struct op *op = &g->list->op[i];
        const int b = graphs_block(g, op);
        if (b < 0) continue;
        p->prefill_us[b] += many * product_us(u, s, op, GRAPHS_MANY);
        p->decode_us[b] += few * product_us(u, s, op, GRAPHS_FEW);
        p->load_us[b] += op_bytes(s, op) / mbs;
    }
}

/* Before a segment: where a pass begins its prompt is planned.  *ready: when the segment's block has its graph. */
static int begin_segment(
    struct sim_unit *u, const struct segment *s, uint64_t now, uint64_t *ready, struct lutra_error *err)
{
    struct graphs *g = graphs_of(u, s->list);
    const int first = (int)(s->op - s->list->op), n_row = s->pass->batch->n_row;
    const bool again = u->last_list == s->list && first > u->last_op;
    *ready = 0;
    u->last_list = s->list, u->last_op = first;
    if (!g) return 0;
    if (!again && graphs_begin(g, n_row, s->pass->n_ahead)) {
        cost_blocks(u, g, s, n_row);
        TRY(graphs_prompt(g, now, err));
    }
    const int block = graphs_block(g, s->op);
    if (block >= 0) *ready = g->block[block].ready_us;
    return 0;
}

/* ---- a device ---- */

static void unit_close(struct device *self)
{
    struct sim_unit *u = unit_of(self);
    for (int i = 0; i < LISTS; i++) free(u->graphs[i]);
    free(u->event);
    free(u);
}

static int unit_supports(struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    struct sim_unit *u = unit_of(self);
    if (u->set.kind == SIM_NPU && !(op_info_of(op->kind)->use & WEIGHT_MATMUL) && op->kind != OP_SWIGLU)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: graphs of products have no %s", self->name, op_name(op->kind));
    return u->set.inner ? u->set.inner->ops->supports(u->set.inner, list, op, err) : 0;
}

static int unit_prepare(struct device *self, struct weight *weight, bool *keeps_source, struct lutra_error *err)
{
    struct device *inner = unit_of(self)->set.inner;
    *keeps_source = false;
    if (!inner) return 0;
    struct held *own = weight_to_prepare(weight, self, err);
    if (!own) return LUTRA_E_UNSUPPORTED;
    TRY(weight_give(weight, inner, own->want, err));
    TRY(inner->ops->prepare(inner, weight, keeps_source, err));
    const struct held *values = weight_held(weight, inner);
    own->has = values->has, own->packed = values->packed; /* whose bytes are counted there */
    return 0;
}

static void unit_release(struct device *self, struct weight *weight)
{
    struct device *inner = unit_of(self)->set.inner;
    struct held *own = weight_held(weight, self);
    if (inner) inner->ops->release(inner, weight);
    if (own) weight_forget(own);
}

/* A list that is reserved for again keeps its graphs. */
static int hold_graphs(struct sim_unit *u, const struct op_list *list, struct lutra_error *err)
{
    int i = 0;
    if (u->set.kind != SIM_NPU || u->set.graphs == SIM_GRAPHS_ALL || graphs_of(u, list)) return 0;
    while (i < LISTS && u->graphs[i]) i++;
    if (i == LISTS)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: graphs of more than %d models", u->device.name, LISTS);
    struct graphs *g = malloc(sizeof *g);
    if (!g) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for graphs", u->device.name);
    if (!graphs_open(g, list)) {
        free(g);
        return 0;
    }
    g->synchronous = u->set.graphs == SIM_GRAPHS_SYNCHRONOUS;
    u->graphs[i] = g;
    return 0;
}

static int unit_reserve(
    struct device *self, const struct op_list *list, int max_rows, int max_out, int n_ctx, struct lutra_error *err)
{
    struct device *inner = unit_of(self)->set.inner;
    TRY(hold_graphs(unit_of(self), list, err));
    return inner ? inner->ops->reserve(inner, list, max_rows, max_out, n_ctx, err) : 0;
}

/* Room for one more event: a model has its memory before, a timeline grows. */
static int grow(struct sim_unit *u, struct lutra_error *err)
{
    int room = u->room ? 2 * u->room : 1024;
    if (u->n_event < u->room) return 0;
    struct sim_event *event = realloc(u->event, (size_t)room * sizeof *event);
    if (!event) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for a timeline", u->device.name);
    u->event = event, u->room = room;
    return 0;
}

/* Results of a head that nobody computed: all tokens are as likely as each other. */
static void leave_nothing(const struct segment *s)
{
    const int n_vocab = s->list->n_vocab;
    for (int i = 0; s->op[s->n_op - 1].kind == OP_HEAD && i < s->pass->n_out; i++) {
        struct row_result *r = &s->pass->result[i];
        if (r->logits) memset(r->logits, 0, (size_t)n_vocab * sizeof *r->logits);
        if (r->hidden) memset(r->hidden, 0, (size_t)s->list->d_model * sizeof *r->hidden);
        r->log_sum_exp = logf((float)n_vocab);
        for (int k = 0; r->listed_logit && k < r->n_listed; k++) r->listed_logit[k] = 0;
        r->n_top = n_vocab < ROW_TOPK ? n_vocab : ROW_TOPK;
        for (int k = 0; r->top_id && k < r->n_top; k++) r->top_id[k] = k, r->top_logit[k] = 0;
    }
}

static int unit_submit(struct device *self, const struct segment *segment, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    struct sim_unit *u = unit_of(self);
    struct device *inner = u->set.inner;
    double us = 0, bytes = 0;
    uint64_t ready;
    const uint64_t now = clock_now_us(clock_virtual(u->set.time));
    (void)after, (void)n_after; /* its own: segments follow each other */
    TRY(grow(u, err));
    TRY(begin_segment(u, segment, now, &ready, err));
    if (inner) {
        struct ticket done;
        TRY(inner->ops->submit(inner, segment, NULL, 0, &done, err));
        TRY(inner->ops->wait(inner, &done, err));
    }
    for (const struct op *op = segment->op; op < segment->op + segment->n_op; op++)
        us += sim_device_op_us(self, segment, op), bytes += op_bytes(segment, op);
    if (!inner) leave_nothing(segment);
    const uint64_t idle = u->n_event ? u->event[u->n_event - 1].end_us : 0, free_us = now > idle ? now : idle;
    struct sim_event *e = &u->event[u->n_event];
    *e = (struct sim_event){.first = (int)(segment->op - segment->list->op),
        .n = segment->n_op,
        .share = segment->share,
        .bytes = bytes,
        .begin_us = free_us > ready ? free_us : ready};
    e->end_us = e->begin_us + (uint64_t)(us + 0.5);
    struct graphs *g = graphs_of(u, segment->list);
    if (g) {
        g->count.wait_us += e->begin_us - free_us;
        graphs_computed(g, e->first, e->n, segment->pass->batch->n_row, e->end_us);
    }
    *out = (struct ticket){self, (uint64_t)++u->n_event};
    return 0;
}

/* Of the host's time. */
static void spend(const struct sim_unit *u, double us)
{
    clock_virtual_advance(u->set.time, (uint64_t)(us + 0.5));
}

static bool unit_done(struct device *self, const struct ticket *ticket)
{
    const struct sim_unit *u = unit_of(self);
    return !ticket->id || clock_now_us(clock_virtual(u->set.time)) >= u->event[ticket->id - 1].end_us;
}

static int unit_wait(struct device *self, const struct ticket *ticket, struct lutra_error *err)
{
    struct sim_unit *u = unit_of(self);
    (void)err;
    if (!ticket->id || u->event[ticket->id - 1].waited) return 0;
    clock_sleep_until(clock_virtual(u->set.time), u->event[ticket->id - 1].end_us);
    spend(u, sim_figure(u->set.profile, u->set.slow_sync ? SOC_SYNC_US : SOC_FAST_SYNC_US, u->set.end));
    u->event[ticket->id - 1].waited = true;
    return 0;
}

static int unit_buffer_alloc(struct device *self, size_t bytes, struct buffer *out, struct lutra_error *err)
{
    struct device *inner = unit_of(self)->set.inner;
    if (inner) return inner->ops->buffer_alloc(inner, bytes, out, err);
    /* Nothing is ever computed into it: addresses, and no memory behind them. */
    void *host = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no address space for %zu bytes", self->name, bytes);
    *out = (struct buffer){.host = host, .bytes = bytes};
    return 0;
}

static void unit_buffer_free(struct device *self, struct buffer *buffer)
{
    struct device *inner = unit_of(self)->set.inner;
    if (inner) inner->ops->buffer_free(inner, buffer);
    if (!inner && buffer->host) munmap(buffer->host, buffer->bytes);
    *buffer = (struct buffer){0};
}

/* Values in memory of its own [HETERO 4.3, before]: what others wrote is copied before it is read. */
static int unit_publish(struct device *self, struct buffer *buffer, struct area area, struct lutra_error *err)
{
    (void)self, (void)buffer, (void)area, (void)err;
    return 0;
}

static void unit_acquire(struct device *self, struct buffer *buffer, struct area area)
{
    const struct sim_unit *u = unit_of(self);
    (void)buffer;
    spend(u, 2.0 * area.rows * (double)area.columns.n / 1e3 / sim_figure(u->set.profile, SOC_COPY_GBS, u->set.end));
}

static const struct device_memory unit_memory = {.publish = unit_publish, .acquire = unit_acquire};

static void unit_forget(struct device *self, const struct op_list *list)
{
    struct sim_unit *u = unit_of(self);
    struct device *inner = u->set.inner;
    for (int i = 0; i < LISTS; i++)
        if (u->graphs[i] && u->graphs[i]->list == list) free(u->graphs[i]), u->graphs[i] = NULL;
    if (u->last_list == list) u->last_list = NULL;
    if (inner && inner->extras && inner->extras->forget) inner->extras->forget(inner, list);
}

static bool unit_account(struct device *self, const struct op_list *list, int line, char *text, size_t size)
{
    const struct graphs *g = graphs_of(unit_of(self), list);
    return g && graphs_text(g, line, self->name, text, size);
}

static bool unit_ran(struct device *self, const struct ticket *ticket, uint64_t *begin_us, uint64_t *end_us)
{
    const struct sim_unit *u = unit_of(self);
    if (!ticket->id) return false;
    *begin_us = u->event[ticket->id - 1].begin_us, *end_us = u->event[ticket->id - 1].end_us;
    return true;
}

static const struct device_extras unit_extras = {.forget = unit_forget, .account = unit_account, .ran = unit_ran};

static const struct device_ops unit_ops = {.close = unit_close,
    .supports = unit_supports,
    .prepare = unit_prepare,
    .release = unit_release,
    .reserve = unit_reserve,
    .submit = unit_submit,
    .wait = unit_wait,
    .done = unit_done,
    .buffer_alloc = unit_buffer_alloc,
    .buffer_free = unit_buffer_free};

int sim_device_open(struct device **out, const struct sim_device_settings *settings, struct lutra_error *err)
{
    static const char *const names[SIM_UNITS] = {"sim.gpu", "sim.npu", "sim.cpu"};
    struct sim_unit *u = calloc(1, sizeof *u);
    *out = NULL;
    if (!u) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory", names[settings->kind]);
    u->set = *settings;
    u->device = (struct device){
        .ops = &unit_ops, .extras = &unit_extras, .name = names[settings->kind], .store = settings->store};
    if (settings->slow_sync) u->device.memory = &unit_memory;
    int rows = settings->inner ? settings->inner->caps.max_rows : ROWS_MOST;
    if (settings->kind == SIM_NPU && settings->graphs != SIM_GRAPHS_ALL && rows > GRAPHS_MANY) rows = GRAPHS_MANY;
    u->device.caps = (struct device_caps){.max_rows = rows,
        .flat_rows = 1,
        .async = true,
        .masks = settings->inner && settings->inner->caps.masks,
        .speed = settings->kind != SIM_CPU,
        .shares = SHARED_BY_OUTPUTS,
        .class_shares = SHARED_BY_CLASS};
    *out = &u->device;
    return 0;
}

const struct graphs_count *sim_device_graphs(const struct device *device, const struct op_list *list)
{
    const struct graphs *g = graphs_of(unit_of(device), list);
    return g ? &g->count : NULL;
}

int sim_device_events(const struct device *device, const struct sim_event **out)
{
    *out = unit_of(device)->event;
    return unit_of(device)->n_event;
}
