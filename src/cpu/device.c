/* SPDX-License-Identifier: MIT
 *
 * The CPU device: what it can run, prepared weights, scratch, and the front door of a pass.
 */
#include "cpu/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuinfo.h"
#include "base/hash.h"
#include "base/pages.h"
#include "cpu/peaks.h"
#include "cpu/program_impl.h"

enum {
    CUT_KINDS =
        SHARED_BY_OUTPUTS | 1 << OP_HEAD | 1 << OP_ATTENTION | 1 << OP_KV_APPEND | 1 << OP_ROPE | 1 << OP_RMS_NORM,
};
enum { MAX_ROWS = 4096, PROMPT_ROWS = 96, PACK_PANELS = 4, STREAM_BYTES = 512 << 20, LARGE_BYTES = 32 << 20 };

static struct cpu_device *self_of(struct device *d)
{
    return (struct cpu_device *)d;
}

/* ---- what it can run ---- */

static int check_weight(struct cpu_device *d, const struct weight *w, struct lutra_error *err)
{
    uint32_t type = (uint32_t)w->tensor.type;
    if (type < QUANT_TYPE_END && d->kernels.gemm[type].run) return 0;
    return lutra_fail(
        err, LUTRA_E_UNSUPPORTED, "cpu: tensor '%s' has type %u, which has no kernel", w->tensor.name, type);
}

static int check_rope(const struct op_rope *p, struct lutra_error *err)
{
    bool sane = p->n_head > 0 && p->n_rot > 0 && p->n_rot % 2 == 0 && p->n_rot <= p->d_head;
    if (sane && (p->kind == ROPE_NORM || p->kind == ROPE_NEOX)) return 0;
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "cpu: rope: kind %d, %d heads, %d of %d elements rotated", (int)p->kind,
        p->n_head, p->n_rot, p->d_head);
}

static int check_attention(const struct op_attention *p, struct lutra_error *err)
{
    if (p->d_head < 8 || p->d_head > ATTENTION_MAX_D_HEAD || p->d_head % 2) {
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "cpu: attention: head size %d is not an even number from 8 to %d",
            p->d_head, ATTENTION_MAX_D_HEAD);
    }
    if (p->n_kv_head > 0 && p->n_head > 0 && p->n_head % p->n_kv_head == 0) return 0;
    return lutra_fail(
        err, LUTRA_E_UNSUPPORTED, "cpu: attention: %d query heads over %d key heads", p->n_head, p->n_kv_head);
}

/* Experts begin at panels of their own. */
static int check_experts(struct cpu_device *d, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    const struct op_experts *e = &op->matmul.experts;
    for (int i = 0; i < op->n_weight; i++) {
        int n_out = list->value[op->out[i]].dim / e->n_used, mr = d->kernels.gemm[op->weight[i]->tensor.type].mr;
        if (n_out % mr == 0) continue;
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "cpu: tensor '%s': experts of %d outputs, no multiple of %d",
            op->weight[i]->tensor.name, n_out, mr);
    }
    return 0;
}

static int cpu_supports(struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    for (int i = 0; i < op->n_weight; i++) TRY(check_weight(self_of(self), op->weight[i], err));
    switch (op->kind) {
    case OP_ROPE: return check_rope(&op->rope, err);
    case OP_ATTENTION: return check_attention(&op->attention, err);
    case OP_EXPERTS: return check_experts(self_of(self), list, op, err);
    case OP_EMBED:
    case OP_HEAD:
    case OP_MATMUL:
    case OP_RMS_NORM:
    case OP_KV_APPEND:
    case OP_SWIGLU:
    case OP_GEGLU:
    case OP_GELU:
    case OP_GELU_ERF:
    case OP_LAYER_NORM:
    case OP_SCALE:
    case OP_ADD_SCALED:
    case OP_RELU2:
    case OP_SWIGLU_OAI:
    case OP_ROUTE:
    case OP_COMBINE:
    case OP_MUL:
    case OP_GATE:
    case OP_CONV:
    case OP_DELTA_NET:
    case OP_ADD:
    case OP_PERMUTE:
    case OP_TAKE: return 0;
    default: return lutra_fail(err, LUTRA_E_UNSUPPORTED, "cpu: %s does not run on this device", op_name(op->kind));
    }
}

/* ---- weights ---- */

struct pack_job {
    const struct weight *weight;
    const struct packed *packed;
    const void *source; /* of the first of its outputs */
    void *data;
    size_t panels;
    atomic_size_t next;
    atomic_uint_least64_t sum;
};

/* Experts' sources go one by one as they are packed: they may be copies in memory (MXFP4 of a folder), of which a
 * matrix has hundreds of megabytes. */
static void pack_some(void *arg, int ith, int nth)
{
    struct pack_job *j = arg;
    const struct packed *p = j->packed;
    const struct tensor *t = &j->weight->tensor;
    size_t some = j->weight->n_expert ? j->panels / (size_t)j->weight->n_expert : PACK_PANELS;
    size_t bytes = t->bytes / (size_t)t->ne[1] * (size_t)p->gemm->mr; /* of a panel's source */
    (void)ith, (void)nth;
    for (;;) {
        size_t panel = atomic_fetch_add_explicit(&j->next, some, memory_order_relaxed);
        if (panel >= j->panels) return;
        size_t n = j->panels - panel < some ? j->panels - panel : some;
        p->gemm->pack(p->gemm, j->source, p->n_out, p->n_in, panel, n, j->data);
        if (!j->weight->n_expert || j->weight->copied) continue;
        pages_drop((const uint8_t *)j->source + panel * bytes, n * bytes);
    }
}

/* Copies the stored copy to j->data, if there is such a place, and sums up what will be used. */
static void read_stored(void *arg, int ith, int nth)
{
    struct pack_job *j = arg;
    const uint8_t *stored = j->weight->stored;
    size_t bytes = j->packed->bytes, part;
    (void)ith, (void)nth;
    while ((part = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) * HASH_PART < bytes) {
        size_t at = part * HASH_PART, n = bytes - at < HASH_PART ? bytes - at : HASH_PART;
        if (j->data) memcpy((uint8_t *)j->data + at, stored + at, n);
        atomic_fetch_add_explicit(&j->sum, hash_part(j->data ? j->data : stored, bytes, part), memory_order_relaxed);
    }
}

static void free_packed(struct cpu_device *d, struct packed *p)
{
    slab_give(&d->slabs, p->slab);
    expert_cache_close(&p->cache);
    free(p);
    d->n_change++;
}

static void cpu_release(struct device *self, struct weight *weight)
{
    struct held *h = weight_held(weight, self);
    if (!h || !h->packed) return;
    free_packed(self_of(self), h->packed);
    weight_forget(h);
}

/* False: the source is all it needs. */
static bool cpu_packed(struct device *self, const struct weight *w, struct packed_view *out)
{
    struct cpu_device *d = self_of(self);
    if (!(w->use & WEIGHT_MATMUL) || check_weight(d, w, NULL) < 0) return false;
    if (w->tensor.ne[0] <= 0 || w->tensor.ne[1] <= 0) return false;
    const struct cpu_gemm *g = &d->kernels.gemm[w->tensor.type];
    const struct packed *p = weight_packed(w, self);
    *out = (struct packed_view){.layout = g->layout,
        .data = p && p->n_out == (size_t)w->tensor.ne[1] ? p->data : NULL,
        .bytes = g->packed_bytes(g, (size_t)w->tensor.ne[1], (size_t)w->tensor.ne[0])};
    return out->layout && out->bytes > 0;
}

/* Uses the stored copy, in place or copied to p->data.  False: its sum is wrong. */
static bool use_stored(struct cpu_device *d, const struct weight *w, struct packed *p, void *data)
{
    struct pack_job job = {.weight = w, .packed = p, .data = data};
    if (!data) p->data = w->stored;
    if (!data && !w->check_stored) return true;
    pool_run(d->pool, read_stored, &job);
    return atomic_load_explicit(&job.sum, memory_order_relaxed) == w->stored_sum;
}

static void pack_all(struct cpu_device *d, const struct weight *w, const struct packed *p, void *data)
{
    size_t panels = (p->n_out + (size_t)p->gemm->mr - 1) / (size_t)p->gemm->mr;
    const uint8_t *rows = w->tensor.data;
    size_t row_bytes = p->first ? w->tensor.bytes / (size_t)w->tensor.ne[1] : 0;
    struct pack_job job = {
        .weight = w, .packed = p, .source = rows + p->first * row_bytes, .data = data, .panels = panels};
    pool_run(d->pool, pack_some, &job);
}

/* Outputs first .. first + n - 1 of the weight, at `data`, which is `whole`'s place for its first. */
static void pack_range(
    struct cpu_device *d, const struct weight *w, const struct packed *whole, size_t first, size_t n, uint8_t *data)
{
    struct packed part = *whole;
    part.first = first, part.n_out = n;
    size_t before = first - whole->first;
    if (n) pack_all(d, w, &part, data + (before ? whole->gemm->packed_bytes(whole->gemm, before, whole->n_in) : 0));
}

/* As pack_all; what `had` has of it is taken from there. */
static void pack_rest(
    struct cpu_device *d, const struct weight *w, const struct packed *p, const struct packed *had, uint8_t *data)
{
    size_t end = had->first + had->n_out, before = had->first - p->first;
    pack_range(d, w, p, p->first, before, data);
    memcpy(data + (before ? p->gemm->packed_bytes(p->gemm, before, p->n_in) : 0), had->data, had->bytes);
    pack_range(d, w, p, end, p->first + p->n_out - end, data);
}

static const struct cpu_gemm *bulk_of(const struct cpu_device *d, const struct weight *w)
{
    const struct cpu_gemm *bulk = &d->kernels.bulk[w->tensor.type];
    return bulk->run && !w->i8row ? bulk : NULL;
}

/* had: what there is of it, or NULL. */
static int pack_weight(
    struct cpu_device *d, struct weight *w, struct packed *p, const struct packed *had, struct lutra_error *err)
{
    const bool whole = p->n_out == (size_t)w->tensor.ne[1]; /* a stored copy is */
    void *data;
    p->gemm = &d->kernels.gemm[w->tensor.type];
    p->i8row = w->i8row;
    p->bulk = bulk_of(d, w);
    p->bytes = p->gemm->packed_bytes(p->gemm, p->n_out, p->n_in);
    if (p->bytes == 0) {
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "cpu: tensor '%s' of %zu x %zu cannot be packed", w->tensor.name,
            p->n_out, p->n_in);
    }
    const bool some = w->n_packed < w->n_expert; /* experts */
    if (w->stored && whole && (some || !w->copy_stored)) {
        if (!use_stored(d, w, p, NULL)) p->data = w->stored = NULL;
        if (p->data && !some) return 0;
    }
    if (some) return expert_cache_open(&p->cache, p->gemm, w, w->stored, d->pool, err);
    TRY(slab_take(&d->slabs, p->bytes, w->tensor.name, &p->slab, &data, err));
    p->data = data;
    if (w->stored && whole) {
        if (use_stored(d, w, p, data)) return 0;
        w->stored = NULL;
        memset(data, 0, p->bytes); /* as a slab gives it */
    }
    if (had && had->data && had->gemm == p->gemm)
        pack_rest(d, w, p, had, data);
    else
        pack_all(d, w, p, data);
    return 0;
}

static void cpu_repack(struct device *self, struct weight *weight)
{
    const struct packed *p = weight_packed(weight, self);
    pack_all(self_of(self), weight, p, (void *)p->data); /* a slab's, never a stored copy */
}

static int cpu_prepare(struct device *self, struct weight *weight, bool *keeps_source, struct lutra_error *err)
{
    struct cpu_device *d = self_of(self);
    const struct tensor *t = &weight->tensor;
    *keeps_source = false;
    if (weight_is_ready(weight, self))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "cpu: tensor '%s' is prepared already", t->name);
    TRY(check_weight(d, weight, err));
    if (t->ne[0] <= 0 || t->ne[1] <= 0) return lutra_fail(err, LUTRA_E_ARGUMENT, "cpu: tensor '%s' is empty", t->name);
    struct held *h = weight_to_prepare(weight, self, err);
    if (!h) return LUTRA_E_UNSUPPORTED;
    struct packed *p = calloc(1, sizeof *p);
    if (!p) return lutra_fail(err, LUTRA_E_NO_MEMORY, "cpu: no memory for tensor '%s'", t->name);
    p->n_in = (size_t)t->ne[0];
    p->first = (size_t)h->want.first;
    p->n_out = (size_t)h->want.n;
    *keeps_source = !(weight->use & WEIGHT_MATMUL);
    int rc = *keeps_source ? 0 : pack_weight(d, weight, p, h->packed, err);
    if (rc < 0) {
        free_packed(d, p);
        return rc;
    }
    *keeps_source |= p->cache != NULL;
    if (h->packed) free_packed(d, h->packed);
    h->packed = p, h->has = h->want, h->bytes = p->bytes;
    d->n_change++;
    return 0;
}

/* ---- passes ---- */

static int cpu_reserve(
    struct device *self, const struct op_list *list, int max_rows, int max_out, int n_ctx, struct lutra_error *err)
{
    TRY(cpu_scratch_reserve(self_of(self), list, max_rows, max_out, n_ctx, err));
    return cpu_program_reserve(self_of(self), list, err);
}

static bool has_bulk(const struct pass_args *pass, enum value_rows rows)
{
    const struct row *row = pass->batch->row;
    int n = rows == ROWS_ALL ? pass->batch->n_row : pass->n_out;
    for (int i = 0; i < n; i++)
        if (row[rows == ROWS_ALL ? i : pass->out_row[i]].want & ROW_BULK) return true;
    return false;
}

/* A prompt's values and scratch: its matmuls write rows apart.  Few rows would only touch a huge page of each. */
static void want_huge_pages(const struct cpu_device *d, const struct segment *s)
{
    arena_want_huge_pages(d->scratch.memory.start, d->scratch.memory.size_bytes);
    for (int v = 0; v < s->list->n_value; v++)
        if (s->pass->value[v].host) arena_want_huge_pages(s->pass->value[v].host, s->pass->value[v].bytes);
}

/* About how long a run takes, in bytes of weights: a row costs what reading an eighth of them does. */
static double work_of(const struct run *r)
{
    const struct span *span = r->span;
    return span->all_row_bytes * (1 + r->n_own / 8.0) + span->out_row_bytes * (1 + r->n_rows[ROWS_OUT] / 8.0);
}

int cpu_run_now(struct cpu_device *d, const struct segment *segment, struct lutra_error *err)
{
    const struct pass_args *pass = segment->pass;
    const struct program *program;
    const struct span *span;
    if (pass->batch->n_row > d->scratch.max_rows || pass->n_out > d->scratch.max_out) {
        return lutra_fail(err, LUTRA_E_ARGUMENT, "cpu: a pass of %d rows, %d wanted; reserved for %d and %d",
            pass->batch->n_row, pass->n_out, d->scratch.max_rows, d->scratch.max_out);
    }
    TRY(cpu_program_find(d, segment, &program, &span, err));
    const bool prompt = pass->batch->n_row >= PROMPT_ROWS;
    if (prompt) want_huge_pages(d, segment);
    struct run run = {.device = d,
        .segment = segment,
        .program = program,
        .span = span,
        .n_rows = {pass->batch->n_row, pass->n_out},
        .n_own = share_count_rows(pass, ROWS_ALL, segment->share),
        .bulk = {has_bulk(pass, ROWS_ALL), has_bulk(pass, ROWS_OUT)}};
    pool_run_measured(d->pool, cpu_run_segment, &run, prompt, work_of(&run));
    if (run.stopped) return lutra_fail(err, LUTRA_E_CANCELLED, "cpu: the pass was cancelled");
    return 0;
}

/* Its segments run in order, whoever runs them: nothing to do for `after`. */
static int cpu_submit(struct device *self, const struct segment *segment, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    struct cpu_device *d = self_of(self);
    (void)after, (void)n_after;
    *out = (struct ticket){self, 0};
    if (!d->driver) return cpu_run_now(d, segment, err);
    if (!cpu_driver_is_lost(d->driver)) out->id = cpu_driver_post(d->driver, segment);
    return out->id ? 0 : lutra_fail(err, LUTRA_E_DEVICE_LOST, "%s takes up no work", d->name);
}

static int cpu_wait(struct device *self, const struct ticket *ticket, struct lutra_error *err)
{
    struct cpu_device *d = self_of(self);
    return d->driver && ticket->id ? cpu_driver_wait(d->driver, ticket->id, err) : 0;
}

static bool cpu_done(struct device *self, const struct ticket *ticket)
{
    struct cpu_device *d = self_of(self);
    return !d->driver || !ticket->id || cpu_driver_done(d->driver, ticket->id);
}

static bool cpu_ran(struct device *self, const struct ticket *ticket, uint64_t *begin_us, uint64_t *end_us)
{
    struct cpu_device *d = self_of(self);
    return d->driver && ticket->id && cpu_driver_ran(d->driver, ticket->id, begin_us, end_us);
}

/* Reserved, zero, and touched only when used.  Large ones, a cache above all, are in huge pages: attention's page walks
 * cost 8 % at depth 4096. */
static int cpu_buffer_alloc(struct device *self, size_t bytes, struct buffer *out, struct lutra_error *err)
{
    (void)self;
    memset(out, 0, sizeof *out);
    struct arena *memory = malloc(sizeof *memory);
    if (!memory) return lutra_fail(err, LUTRA_E_NO_MEMORY, "cpu: no memory for a buffer of %zu bytes", bytes);
    unsigned pages = bytes < LARGE_BYTES ? ARENA_HUGE_LATER : ARENA_HUGE_PAGES;
    int rc = arena_open(memory, "cpu buffer", bytes ? bytes : 1, pages, err);
    if (rc < 0) {
        free(memory);
        return rc;
    }
    out->host = memory->start;
    out->handle = memory;
    out->bytes = bytes;
    return 0;
}

static void cpu_buffer_free(struct device *self, struct buffer *buffer)
{
    (void)self;
    if (buffer->handle) arena_close(buffer->handle);
    free(buffer->handle);
    memset(buffer, 0, sizeof *buffer);
}

static void cpu_measure_peaks(struct device *self, struct device_peaks *out)
{
    struct cpu_device *d = self_of(self);
    struct cpu_peaks p = cpu_peaks_measure(&d->kernels, d->pool);
    *out = (struct device_peaks){.int8_name = p.int8_name,
        .int8_gmac = p.int8_gmac,
        .f32_gmac = p.f32_gmac,
        .bf16_name = p.bf16_name,
        .bf16_gmac = p.bf16_gmac,
        .stream_gbs = cpu_stream_measure(d->pool, STREAM_BYTES / (size_t)pool_size(d->pool))};
}

static void cpu_close(struct device *self)
{
    struct cpu_device *d = self_of(self);
    cpu_driver_close(&d->driver);
    arena_close(&d->scratch.memory);
    cpu_program_forget(self, NULL);
    free(d);
}

/* Before its weights are prepared, too. */
static int cpu_bulk_rows(struct device *self, const struct op *op)
{
    const struct cpu_device *d = self_of(self);
    for (int i = 0; op->kind == OP_MATMUL && i < op->n_weight; i++)
        if (bulk_of(d, op->weight[i])) return CPU_BULK_ROWS;
    return 0;
}

static const struct device_ops CPU_OPS = {.close = cpu_close,
    .supports = cpu_supports,
    .prepare = cpu_prepare,
    .release = cpu_release,
    .reserve = cpu_reserve,
    .submit = cpu_submit,
    .wait = cpu_wait,
    .done = cpu_done,
    .buffer_alloc = cpu_buffer_alloc,
    .buffer_free = cpu_buffer_free};

/* Of experts that are packed as they are used. */
static bool cpu_account(struct device *self, const struct op_list *list, int line, char *text, size_t size)
{
    uint64_t use = 0, hit = 0, pack = 0, ahead = 0, ahead_used = 0;
    for (int i = 0; i < list->n_op; i++) {
        const struct op *op = &list->op[i];
        const struct packed *p = op->kind == OP_EXPERTS ? weight_packed(op->weight[0], self) : NULL;
        const struct expert_cache *s = p ? p->cache : NULL;
        if (!s || op->matmul.experts.by_slot) continue; /* the layer's others are used with its first */
        use += s->n_use, hit += s->n_hit, pack += s->n_pack, ahead += s->n_ahead, ahead_used += s->n_ahead_used;
    }
    if (line > 0 || use == 0) return false;
    snprintf(text, size,
        "experts: used %llu times, %.1f %% of that packed; %llu packed while running; %llu read ahead, %llu of them "
        "used",
        (unsigned long long)use, 100.0 * (double)hit / (double)use, (unsigned long long)pack, (unsigned long long)ahead,
        (unsigned long long)ahead_used);
    return true;
}

static const struct device_extras CPU_EXTRAS = {.bulk_rows = cpu_bulk_rows,
    .packed = cpu_packed,
    .account = cpu_account,
    .ran = cpu_ran,
    .peaks = cpu_measure_peaks,
    .forget = cpu_program_forget,
    .repack = cpu_repack};

/* Rows that a DDR-fed core computes in the time its share of the weights takes to arrive (measured; of Arm
 * modelled from counted instructions, 3 per cycle at 3 GHz and 10 GB/s per core). */
static int flat_rows(uint32_t isa)
{
    if (isa & CPU_AVX512) return 8;
    if (isa & CPU_I8MM) return 4;
    if (isa & CPU_DOTPROD) return 2;
    return isa & CPU_AVX2 ? 3 : 1;
}

int cpu_device_open(
    struct device **out, struct pool *pool, const struct cpu_device_settings *settings, struct lutra_error *err)
{
    *out = NULL;
    struct cpu_device *d = calloc(1, sizeof *d);
    if (!d) return lutra_fail(err, LUTRA_E_NO_MEMORY, "cpu: no memory for the device");
    cpu_kernels_init(&d->kernels, settings->isa & cpu_isa());
    d->pool = pool;
    d->repeat = settings->repeat > 1 ? settings->repeat : 1;
    d->ahead.left = AHEAD_OPS;
    snprintf(d->name, sizeof d->name, "%s", settings->name ? settings->name : "cpu");
    d->base = (struct device){.ops = &CPU_OPS,
        .extras = &CPU_EXTRAS,
        .name = d->name,
        .store = settings->store,
        .caps = {.max_rows = MAX_ROWS,
            .masks = true,
            .flat_rows = flat_rows(d->kernels.isa),
            .async = settings->async,
            .speed = settings->speed,
            .shares = CUT_KINDS,
            .class_shares = SHARED_BY_CLASS}};
    int rc = settings->async ? cpu_driver_open(&d->driver, d, settings->cpu, err) : 0;
    if (rc < 0) {
        free(d);
        return rc;
    }
    *out = &d->base;
    return 0;
}
