/* SPDX-License-Identifier: MIT
 *
 * The engine's plans on a phone: an op list of the shape's sizes, the plan that sched/plan.h makes of it for the
 * phone's processors (phone/device.h), and a pass through the executor on their virtual clock.  Pieces, what they wait
 * for and what is handed over are the engine's own.
 *
 * Layers are alike: of a deeper model LAYERS are run, and one in the middle of them counts for those left out.
 */
#include "sim/pieces.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "phone/device.h"
#include "sched/plan.h"

/* As in phone.c queries, keys and values are one product, and every row goes through the last layer. */
enum { LAYERS = 4, LAYER_OPS = 11, ENDING = 3, OPS = LAYERS * LAYER_OPS + ENDING, WEIGHTS = 5 * LAYERS + 1 };
enum { ROWS = SIM_LAST_ROWS + SIM_BESIDE_MAX }; /* of a pass at most */
enum { X, NORM, QKV, HEADS, GATE, UP, LAST, N_VALUES };

static const char *const names[LAYER_OPS] = {
    "norm", "qkv", "rope", "attention", "o", "add", "norm", "gate, up", "swiglu", "down", "add"};
static const int of_layer[LAYER_OPS] = {0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9}; /* its place in phone.c's list */

struct world {
    struct op op[OPS];
    struct weight weight[WEIGHTS];
    int n_weight, n_layer; /* that are run */
    struct op_layer layer[LAYERS];
    struct op_list list;
    struct weight *head;
    const struct sim_question *q;
    struct row row[ROWS];
    struct kv_row seen[ROWS];
    int32_t mark[ROWS], out_row[ROWS];
    struct row_result result[ROWS];
    struct batch batch;
    struct kv_view view;
    struct pass_args pass;
    int part[SIM_OPS][SIM_UNITS]; /* of whole blocks */
    struct plan plan;
    struct virtual_time time;
    struct device *device[SIM_UNITS];
};

/* ---- the list ---- */

static struct op *push(struct world *w, enum op_kind kind, int in, int in2, int out)
{
    const int i = w->list.n_op++, layer = i / LAYER_OPS;
    w->op[i] = op_make(kind, layer < w->n_layer ? layer : -1, in, in2, out);
    return &w->op[i];
}

static struct weight *add_weight(struct world *w, int n_in, int n_out, double bits)
{
    struct weight *x = &w->weight[w->n_weight++];
    *x = (struct weight){.use = WEIGHT_MATMUL, .tensor = {.name = "weight", .n_dim = 2, .ne = {n_in, n_out, 1, 1}}};
    x->tensor.bytes = (size_t)((double)n_in * n_out * bits / 8);
    return x;
}

static void push_product(struct world *w, int in, int out, int out2, double bits)
{
    const struct value *v = w->list.value;
    struct op *op = push(w, OP_MATMUL, in, -1, -1);
    op_add_part(op, add_weight(w, v[in].dim, v[out].dim, bits), NULL, out);
    if (out2 >= 0) op_add_part(op, add_weight(w, v[in].dim, v[out2].dim, bits), NULL, out2);
}

static void push_layer(struct world *w, int layer)
{
    const struct sim_shape *s = w->q->shape;
    w->layer[layer] = (struct op_layer){.cache = layer, .n_kv_head = s->n_kv_head, .d_head = s->d_head};
    push(w, OP_RMS_NORM, X, -1, NORM);
    push_product(w, NORM, QKV, -1, s->layer_bits);
    push(w, OP_ROPE, QKV, -1, QKV);
    push(w, OP_ATTENTION, QKV, -1, HEADS)->attention =
        (struct op_attention){.n_head = s->n_head, .n_kv_head = s->n_kv_head, .d_head = s->d_head};
    push_product(w, HEADS, NORM, -1, s->layer_bits);
    push(w, OP_ADD, X, NORM, X);
    push(w, OP_RMS_NORM, X, -1, NORM);
    push_product(w, NORM, GATE, UP, s->layer_bits);
    push(w, OP_SWIGLU, GATE, UP, GATE);
    push_product(w, GATE, NORM, -1, s->down_bits);
    push(w, OP_ADD, X, NORM, X);
}

static void open_list(struct world *w)
{
    const struct sim_shape *s = w->q->shape;
    const int dim[N_VALUES] = {s->d_model, s->d_model, (s->n_head + 2 * s->n_kv_head) * s->d_head,
        s->n_head * s->d_head, s->d_ff, s->d_ff, s->d_model};
    w->n_layer = s->n_layer < LAYERS ? s->n_layer : LAYERS;
    w->list = (struct op_list){.op = w->op,
        .n_value = N_VALUES,
        .layer = w->layer,
        .n_layer = w->n_layer,
        .d_model = s->d_model,
        .n_vocab = s->n_vocab,
        .given = 1 << X};
    for (int v = 0; v < N_VALUES; v++) w->list.value[v] = (struct value){dim[v], v == LAST ? ROWS_OUT : ROWS_ALL};
    for (int l = 0; l < w->n_layer; l++) push_layer(w, l);
    push(w, OP_TAKE, X, -1, LAST);
    push(w, OP_RMS_NORM, LAST, -1, LAST);
    w->head = add_weight(w, s->d_model, s->n_vocab, s->head_bits);
    push(w, OP_HEAD, LAST, LAST, -1)->weight[0] = w->head;
}

/* ---- the rows ---- */

static int32_t count_past(const void *ctx, int32_t seq)
{
    const struct sim_question *q = ctx;
    return seq == 0 || q->many ? q->past : q->beside_past;
}

/* A prompt's, or one of each sequence; then those beside them. */
static int fill_rows(struct world *w, struct lutra_error *err)
{
    const struct sim_question *q = w->q;
    const int n = q->rows + q->beside;
    w->pass = (struct pass_args){.batch = &w->batch, .kv = &w->view, .out_row = w->out_row, .result = w->result};
    w->view.row = w->seen;
    for (int i = 0; i < n; i++) {
        const bool prompt = i < q->rows && !q->many, wanted = i >= q->rows - q->n_out;
        struct row *r = &w->row[i];
        *r = (struct row){.parent = prompt ? i - 1 : -1, .seq = prompt ? 0 : q->many ? i : i - q->rows + 1};
        r->pos = prompt ? q->past + i : count_past(q, r->seq);
        r->want = (prompt ? ROW_BULK : 0) | (wanted ? WANT_TOPK : 0);
        w->seen[i] = (struct kv_row){.n_paged = r->pos + 1};
        if (wanted) w->out_row[w->pass.n_out++] = i;
    }
    w->batch = (struct batch){.row = w->row, .mark = w->mark, .n_row = n, .bulk = plan_bulk_rows(&w->plan)};
    return batch_check(&w->batch, w->list.n_vocab, count_past, q, err);
}

/* ---- the plan ---- */

static int open_plan(struct world *w, struct lutra_error *err)
{
    const struct sim_question *q = w->q;
    struct plan_cut cut[OPS] = {0};
    for (int i = 0; i < w->list.n_op; i++) {
        cut[i].apart = q->plan == SIM_ONE || w->op[i].kind == OP_HEAD;
        if (q->plan == SIM_ONE || w->op[i].kind != OP_MATMUL) continue;
        cut[i].n = q->n_device, cut[i].by_class = true;
        for (int d = 0; d < q->n_device; d++) {
            cut[i].device[d] = w->device[d];
            cut[i].part[d] = d == q->n_device - 1;
            cut[i].bulk[d] = q->plan == SIM_CLASS ? d == 0 : (float)w->part[of_layer[i % LAYER_OPS]][q->device[d]];
        }
    }
    return plan_open_cut(&w->plan, &w->list, w->device, q->n_device, cut, err);
}

/* ---- what came of it ---- */

/* Of a layer, or of all. */
struct work {
    double busy_us[SIM_UNITS], bytes;
    int waits;
};

static void add_event(struct work *to, enum sim_device kind, const struct sim_event *e)
{
    to->busy_us[kind] += (double)(e->end_us - e->begin_us);
    to->bytes += e->bytes, to->waits += e->waited;
}

static const char *name_of(const struct world *w, int op)
{
    return op == w->list.n_op - 1 ? "head" : op >= w->n_layer * LAYER_OPS ? "last rows" : names[op % LAYER_OPS];
}

/* A piece in the picture of a layer. */
static void fill_entry(struct sim_op *s, const struct world *w, const struct plan_piece *p, enum sim_device kind,
    const struct sim_event *e, enum sim_end end)
{
    const struct op *op = &w->op[p->first];
    const double us = (double)(e->end_us - e->begin_us);
    const int rows = share_count_rows(&w->pass, w->list.value[op->in[0]].rows, p->share);
    const bool whole = share_is_whole(p->share), product = op->kind == OP_MATMUL;
    snprintf(s->name, sizeof s->name,
        p->n > 2   ? "%s .. %s"
        : p->n > 1 ? "%s, %s"
                   : "%s",
        name_of(w, p->first), name_of(w, p->first + p->n - 1));
    s->of = p->share.rows == SHARE_BULK ? "blocks" : p->share.rows == SHARE_ORDINARY ? "others" : "all";
    s->product = product;
    *sim_at(&s->us, end) = us, s->device_us[end][kind] = us;
    if (end != SIM_MIDDLE) return;
    s->choice.kind = !whole ? SOLVE_OUTPUTS : p->share.rows != SHARE_ALL_ROWS ? SOLVE_ROWS : SOLVE_ONE;
    s->choice.us[kind] = us;
    s->choice.part[kind] =
        whole ? SIM_GRID : (int)((p->share.to - p->share.from) * SIM_GRID / (double)SHARE_WHOLE + 0.5);
    s->choice.rows[kind] = rows;
}

/* The next event of a device, where it is this piece's: one without rows was not run. */
static const struct sim_event *event_of(
    const struct plan_piece *p, const struct sim_event **next, const struct sim_event *end)
{
    const bool is = *next < end && (*next)->first == p->first && share_is_same((*next)->share, p->share);
    return is ? (*next)++ : NULL;
}

static void add_work(
    const struct world *w, enum sim_end end, const struct work *x, double times, double us, struct sim_result *r)
{
    const enum soc_figure sync = w->q->slow_sync ? SOC_SYNC_US : SOC_FAST_SYNC_US;
    sim_add_work(
        r, w->q->profile, end, times, us, x->busy_us, x->waits * sim_figure(w->q->profile, sync, end), x->bytes);
    if (end == SIM_MIDDLE) r->hand_overs += times * x->waits;
}

static void collect(const struct world *w, enum sim_end end, struct sim_result *r)
{
    const struct sim_question *q = w->q;
    const int shown = w->n_layer > 2;
    const struct sim_event *next[SIM_UNITS], *last[SIM_UNITS];
    double begin[LAYERS + 1];
    struct work all = {0}, layer = {0};
    int n = 0;
    for (int l = 0; l <= LAYERS; l++) begin[l] = INFINITY;
    for (int d = 0; d < q->n_device; d++) {
        const int events = sim_device_events(w->device[d], &next[d]);
        last[d] = next[d] + events;
    }
    for (const struct plan_piece *p = w->plan.piece; p < w->plan.piece + w->plan.n_piece; p++) {
        int d = 0;
        while (w->device[d] != w->plan.device[p->device]) d++;
        const struct sim_event *e = event_of(p, &next[d], last[d]);
        const int l = p->first / LAYER_OPS;
        if (!e) continue;
        begin[l] = fmin(begin[l], (double)e->begin_us);
        add_event(&all, q->device[d], e);
        if (l == shown) add_event(&layer, q->device[d], e);
        if (l != shown && w->op[p->first].kind != OP_HEAD) continue;
        *sim_at(&r->op[n].start_us, end) = (double)e->begin_us - begin[l];
        fill_entry(&r->op[n++], w, p, q->device[d], e, end);
    }
    add_work(w, end, &all, 1, (double)w->time.now_us, r);
    if (q->shape->n_layer > w->n_layer)
        add_work(w, end, &layer, q->shape->n_layer - w->n_layer, begin[shown + 1] - begin[shown], r);
}

static int run_end(struct world *w, enum sim_end end, struct sim_result *r, struct lutra_error *err)
{
    const struct sim_question *q = w->q;
    int rc = 0;
    w->time.now_us = 0;
    for (int d = 0; d < q->n_device && !rc; d++) {
        const struct sim_device_settings s = {.profile = q->profile,
            .kind = q->device[d],
            .end = end,
            .time = &w->time,
            .plan = &w->plan,
            .slow_sync = q->slow_sync};
        rc = sim_device_open(&w->device[d], &s, err);
        /* The head's weights are no graph of the NPU's. */
        if (!rc && q->device[d] != SIM_NPU && !w->head->only) w->head->only = w->device[d];
    }
    if (!rc) rc = open_plan(w, err);
    if (!rc) rc = fill_rows(w, err);
    if (!rc) rc = plan_run(&w->plan, &w->pass, NULL, NULL, err);
    if (!rc) collect(w, end, r);
    for (int d = 0; d < q->n_device; d++) {
        if (w->device[d]) w->device[d]->ops->close(w->device[d]);
        w->device[d] = w->head->only = NULL;
    }
    return rc;
}

int sim_add_pieces(const struct sim_question *q, struct sim_result *r, struct lutra_error *err)
{
    if (q->plan != SIM_ONE && q->n_device < 2)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "plan '%s' needs two processors or three, not %d",
            sim_plan_name(q->plan), q->n_device);
    if (q->rows + q->beside > ROWS)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "more than %d rows in a pass of the engine", ROWS);
    struct world *w = calloc(1, sizeof *w);
    if (!w) return lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for a plan");
    w->q = q;
    open_list(w);
    int rc = q->plan == SIM_HYBRID ? sim_cut_blocks(q, w->part, err) : 0;
    for (int end = 0; !rc && end < SIM_ENDS; end++) rc = run_end(w, (enum sim_end)end, r, err);
    free(w);
    if (!rc) r->n_pass++;
    return rc;
}
