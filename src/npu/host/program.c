/* SPDX-License-Identifier: MIT
 *
 * A segment of operations as one submission: tables, then messages.
 *
 * The messages of a pass refer to tables that the host writes anew each time: tokens, rotations, slots, masks.  They
 * lie one behind another in one region, which the first message invalidates.
 */
#include <string.h>

#include "base/clock.h"
#include "npu/host/device_impl.h"
#include "npu/wire/planes.h"

/* What the messages of a pass refer to in one window. */
struct tables {
    uint32_t used, sent;  /* bytes; the first `sent` are published */
    uint32_t pool, draft; /* window offsets of the cache */
    uint32_t tokens, out_rows, slots;
    struct {
        const struct op_rope *rope;
        uint32_t at;
    } rope[NPU_TABLES];
    struct {
        int window, n_heads;
        uint32_t at;
    } attention[NPU_TABLES];
    int n_rope, n_attention;
};

/* A submission in the making. */
struct program {
    struct npu_device *d;
    const struct segment *s;
    struct npu_buffer *value[VALUE_MAX];
    struct npu_window *w; /* of the run at work */
    struct tables *t;
    int fresh; /* its operation that invalidates tables */
    struct tables tables[NPU_WINDOWS];
};

static size_t round_up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

/* ---- tables ---- */

size_t npu_program_tables(const struct npu_device *d, const struct op_list *list)
{
    size_t rows = (size_t)d->most.max_rows, sum = rows * 32 + (size_t)d->most.max_out * 32 + 1024, rope = 0,
           attention = 0;
    for (int i = 0; i < list->n_op; i++) {
        const struct op *op = &list->op[i];
        if (op->kind == OP_ROPE) {
            size_t n = 4 * (size_t)npu_rope_period(&op->rope) * (1 + 2 * rows) + 128;
            rope = n > rope ? n : rope;
        } else if (op->kind == OP_ATTENTION && op->attention.n_kv_head > 0) {
            int heads = op->attention.n_head / op->attention.n_kv_head;
            if (heads < 1 || heads > NPU_ATTENTION_ROWS) continue;
            size_t n = npu_attention_bytes(d->most.max_rows, d->most.n_ctx, heads) + 128;
            attention = n > attention ? n : attention;
        }
    }
    /* Different rotations and windows in one model are rare: room for two of each. */
    return sum + 2 * rope + 2 * attention;
}

/* Operations that one of a list becomes: six and two values brought; and those around a run.  With lookups, tables and
 * products of every so many rows, and of every stretch. */
int npu_program_ops(const struct npu_device *d, const struct op_list *list)
{
    int all = 8 * list->n_op + 2 * VALUE_MAX + 64;
    for (int i = 0; i < list->n_op; i++)
        for (int w = 0; list->op[i].kind == OP_MATMUL && w < list->op[i].n_weight; w++) {
            const struct packed *p = npu_packed_of(d, list->op[i].weight[w]);
            all += 4 * (d->most.max_rows / 32 + 1); /* with a share of one class, and of the gate behind it */
            if (p && p->lookup_rows) all += 6 * (d->most.max_rows / (int)p->lookup_rows + d->most.max_rows / 16 + 2);
        }
    return all;
}

/* A table of the pass; NULL: no room, which reserve has not foreseen. */
static void *take(struct program *p, size_t bytes, uint32_t *at)
{
    struct tables *t = p->t;
    if (bytes > p->w->tables.bytes - t->used) return NULL;
    *at = p->w->tables.at + t->used;
    t->used += (uint32_t)round_up(bytes, 128);
    if (t->used > p->w->tables.bytes) t->used = p->w->tables.bytes;
    return p->w->link->base + *at;
}

static int no_room(const struct program *p, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_INTERNAL, "%s: the tables of a pass do not fit", p->d->base.name);
}

static uint32_t rows_of(const struct program *p, int value)
{
    const struct pass_args *pass = p->s->pass;
    return (uint32_t)(p->s->list->value[value].rows == ROWS_OUT ? pass->n_out : pass->batch->n_row);
}

/* What it has of an operation's weight: all outputs, or those of its share. */
static const struct packed *packed_of(const struct program *p, const struct op *op, int i)
{
    return npu_packed_of(p->d, op->weight[i]);
}

static uint32_t stride_of(const struct program *p, int value)
{
    return 4 * (uint32_t)p->s->list->value[value].dim;
}

/* Columns of a value that the segment's share is. */
static struct columns own_of(const struct program *p, int value)
{
    return share_columns(p->s->share, p->s->list->value[value].dim);
}

/* ---- runs ---- */

static struct npu_op *push(struct program *p, uint32_t code)
{
    struct npu_op *op = &p->d->op[p->d->n_op++];
    *op = (struct npu_op){.code = code};
    return op;
}

static void flush(struct program *p, uint32_t at, uint32_t bytes)
{
    struct npu_op *m = push(p, NPU_OP_FLUSH);
    m->src = at, m->k = bytes;
}

static void begin_run(struct program *p, int window)
{
    struct npu_device *d = p->d;
    d->at = window;
    d->n_op = d->n_sent = 0;
    p->w = &d->window[window], p->t = &p->tables[window];
    p->fresh = d->n_op;
    push(p, NPU_OP_INVALIDATE);
}

/* Publishes the run's tables, writes back what others will read, and sends the first messages. */
static int end_run(struct program *p, struct lutra_error *err)
{
    struct npu_device *d = p->d;
    struct tables *t = p->t;
    for (int v = 0; v < p->s->list->n_value; v++) {
        struct npu_buffer *b = p->value[v];
        if (!b->shared || !b->dirty[d->at]) continue;
        flush(p, b->at[d->at], b->dirty[d->at]);
        b->dirty[d->at] = 0;
    }
    d->op[p->fresh].src = p->w->tables.at + t->sent, d->op[p->fresh].k = t->used - t->sent;
    if (t->used > t->sent) npu_transport_publish(p->w->link, p->w->tables.at + t->sent, t->used - t->sent);
    t->sent = t->used;
    return npu_run_feed(d, err);
}

/* Whether what stands between two turns, and what ends a run, would fit.  Rows of two classes in turn are many
 * stretches. */
static bool has_room(const struct npu_device *d)
{
    return d->n_op + 2 * d->most.max_out + VALUE_MAX + 64 <= d->max_op;
}

/* What follows runs in this window. */
static int turn(struct program *p, int window, struct lutra_error *err)
{
    if (p->w && window == p->d->at && has_room(p->d)) return 0;
    if (p->w) {
        TRY(end_run(p, err));
        TRY(npu_run_drain(p->d, err));
    }
    begin_run(p, window);
    return 0;
}

/* ---- values ---- */

static uint32_t at_of(const struct program *p, int value)
{
    return p->value[value]->at[p->d->at];
}

/* Makes a value current in the run's window. */
static int bring(struct program *p, int value, struct lutra_error *err)
{
    struct npu_buffer *b = p->value[value];
    if (b->fresh >> p->d->at & 1 && !b->n_come) return 0;
    uint32_t bytes = rows_of(p, value) * stride_of(p, value);
    if (!bytes) return 0;
    TRY(npu_value_to_window(p->d, b, p->d->at, bytes, err));
    struct npu_op *m = push(p, NPU_OP_INVALIDATE);
    m->src = at_of(p, value), m->k = bytes;
    return 0;
}

static void wrote(struct program *p, int value)
{
    struct npu_buffer *b = p->value[value];
    uint32_t bytes = rows_of(p, value) * stride_of(p, value), *dirty = &b->dirty[p->d->at];
    b->fresh = 1u << p->d->at, b->host_fresh = false, b->n_come = 0;
    *dirty = bytes > *dirty ? bytes : *dirty;
}

/* A constant of the run's window. */
static int constant(const struct program *p, const float *host, uint32_t *at, struct lutra_error *err)
{
    *at = host ? npu_constant_at(p->d, p->s->list, host, p->d->at) : 0;
    if (*at || !host) return 0;
    return lutra_fail(err, LUTRA_E_INTERNAL, "%s: a constant is not in session %d", p->d->base.name, p->d->at + 1);
}

/* ---- operations ---- */

/* The rows of the segment's share that an operation writes, those side by side at once. */
static bool next_rows(const struct program *p, const struct op *op, struct row_run *r)
{
    return share_next_rows(p->s->pass, p->s->list->value[op->out[0]].rows, p->s->share, r);
}

static int emit_embed(struct program *p, const struct op *op, struct lutra_error *err)
{
    const struct batch *b = p->s->pass->batch;
    const struct packed *w = packed_of(p, op, 0);
    if (!p->t->tokens) {
        int32_t *token = take(p, (size_t)b->n_row * 4, &p->t->tokens);
        if (!token) return no_room(p, err);
        for (int r = 0; r < b->n_row; r++) token[r] = b->row[r].token;
    }
    struct npu_op *m = push(p, NPU_OP_EMBED);
    m->m = (uint32_t)b->n_row, m->n = w->layout.n, m->k = stride_of(p, op->out[0]) / 4;
    m->kind = w->layout.kind, m->weights = w->at, m->rows = p->t->tokens;
    m->dst = at_of(p, op->out[0]), m->dst_stride = stride_of(p, op->out[0]);
    memcpy(&m->param, &op->embed.scale, 4);
    return 0;
}

static void push_norm(struct program *p, const struct op *op, uint32_t weight, struct row_run rows)
{
    const uint32_t n = (uint32_t)op->norm.n_norm, stride = stride_of(p, op->in[0]);
    struct npu_op *m = push(p, NPU_OP_RMS_NORM);
    m->m = (uint32_t)rows.n * (stride / 4 / n), m->n = n, m->src_stride = m->dst_stride = 4 * n;
    m->src = at_of(p, op->in[0]) + (uint32_t)rows.first * stride;
    m->dst = at_of(p, op->out[0]) + (uint32_t)rows.first * stride;
    m->weights = weight;
    memcpy(&m->param, &op->norm.eps, 4);
}

static int emit_norm(struct program *p, const struct op *op, struct lutra_error *err)
{
    uint32_t weight;
    TRY(constant(p, op->norm.weight, &weight, err));
    for (struct row_run r = {0}; next_rows(p, op, &r);) {
        TRY(turn(p, p->d->at, err));
        push_norm(p, op, weight, r);
    }
    return 0;
}

/* The share's columns of rows side by side. */
static void push_pointwise(struct program *p, const struct op *op, uint32_t code, struct row_run rows)
{
    const uint32_t stride = stride_of(p, op->out[0]);
    const struct columns own = own_of(p, op->out[0]);
    const uint32_t first = (uint32_t)rows.first * stride + 4 * (uint32_t)own.first;
    struct npu_op *m = push(p, code);
    m->m = (uint32_t)rows.n, m->n = (uint32_t)own.n;
    m->src_stride = m->dst_stride = stride;
    m->src = at_of(p, op->in[0]) + first, m->weights = at_of(p, op->in[1]) + first,
    m->dst = at_of(p, op->out[0]) + first;
}

/* Element-wise: all rows as one, or those of the share. */
static int emit_pointwise(struct program *p, const struct op *op, uint32_t code, struct lutra_error *err)
{
    if (!share_is_all(p->s->share)) {
        for (struct row_run r = {0}; next_rows(p, op, &r);) {
            TRY(turn(p, p->d->at, err));
            push_pointwise(p, op, code, r);
        }
        return 0;
    }
    struct npu_op *m = push(p, code);
    m->m = 1, m->n = (uint32_t)round_up(rows_of(p, op->out[0]) * (size_t)stride_of(p, op->out[0]) / 4, 32);
    m->src_stride = m->dst_stride = 4 * m->n;
    m->src = at_of(p, op->in[0]), m->weights = at_of(p, op->in[1]), m->dst = at_of(p, op->out[0]);
    return 0;
}

static bool is_gate(const struct op *op)
{
    return op->kind == OP_SWIGLU || op->kind == OP_GEGLU || op->kind == OP_RELU2;
}

/* May rows of this product's input be massive?  A gate's may.  They are changed in place: nobody else reads them. */
static bool massive(const struct op_list *list, const struct op *op)
{
    const struct op *from = op;
    if (op->n_weight != 1 || op->matmul.bias[0]) return false;
    while (from > list->op && !op_writes(--from, op->in[0])) continue;
    return op_writes(from, op->in[0]) && is_gate(from) && op_list_is_dead(list, (int)(op - list->op) + 1, op->in[0]);
}

/* Rows of a product. */
struct stretch {
    uint32_t first, n;
};

static struct columns all_of(const struct program *p, int value)
{
    return (struct columns){0, p->s->list->value[value].dim};
}

static void push_fit(struct program *p, uint32_t code, int value, struct columns columns, struct stretch rows)
{
    struct npu_op *m = push(p, code);
    m->m = rows.n, m->n = (uint32_t)columns.n;
    m->dst = at_of(p, value) + rows.first * stride_of(p, value) + 4 * (uint32_t)columns.first;
    m->dst_stride = stride_of(p, value);
    m->weights = p->w->factors.at + rows.first * NPU_LINE;
    wrote(p, value);
}

/* The plan of a product on tiles where finding it takes a search; else 0: the NPU finds it. */
static uint32_t tiling_of(const struct program *p, const struct packed *w, const struct npu_weights *layout, uint32_t m)
{
    const struct npu_machine *machine = &p->d->window[w->window].link->machine;
    struct npu_gemm_plan plan;
    if (!npu_is_planes(layout->kind) || npu_gemm_plan(layout, m, machine->tcm_kept, machine->tcm_bytes, &plan))
        return 0;
    return npu_gemm_tiling(plan.lead, plan.row_blocks, plan.chunk_blocks);
}

/* The outputs of a part that the share is, from a packed block's first on, as a weight; of bit planes all. */
static int find_outputs(const struct program *p, const struct op *op, int i, struct npu_weights *layout,
    uint32_t *first, struct lutra_error *err)
{
    const struct packed *w = packed_of(p, op, i);
    const struct columns own = own_of(p, op->out[i]);
    const int64_t begin = own.first - w->first, end = begin + own.n;
    *layout = w->layout, *first = w->first;
    if (begin < 0 || end > w->layout.n)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: tensor '%s': outputs %lld to %lld are not prepared",
            p->d->base.name, w->name, (long long)own.first, (long long)(own.first + own.n - 1));
    const uint32_t before = (uint32_t)begin / w->layout.cols * w->layout.cols;
    *first += before;
    if (own.n == w->layout.n) return 0;
    if (npu_weights_layout(w->layout.kind, w->layout.k, (uint32_t)end - before, layout) == 0) return 0;
    return lutra_fail(err, LUTRA_E_INTERNAL, "%s: tensor '%s': no layout of its part", p->d->base.name, w->name);
}

/* One part's product, of rows in `in` or in tables. */
static int push_product(
    struct program *p, uint32_t code, const struct op *op, int i, struct stretch rows, struct lutra_error *err)
{
    const struct packed *w = packed_of(p, op, i);
    int in = op->in[0], out = op->out[i];
    struct npu_weights layout;
    uint32_t first;
    TRY(find_outputs(p, op, i, &layout, &first, err));
    struct npu_op *m = push(p, code);
    m->m = rows.n, m->n = layout.n, m->k = stride_of(p, in) / 4;
    m->kind = layout.kind, m->weights = w->at + (first - w->first) / layout.cols * layout.block_bytes;
    m->param = code == NPU_OP_GEMM ? tiling_of(p, w, &layout, rows.n) : 0;
    m->src = at_of(p, in) + rows.first * stride_of(p, in), m->src_stride = stride_of(p, in);
    m->dst = at_of(p, out) + rows.first * stride_of(p, out) + 4 * first, m->dst_stride = stride_of(p, out);
    TRY(constant(p, op->matmul.bias[i], &m->bias, err));
    if (m->bias) m->bias += 4 * first;
    wrote(p, out);
    return 0;
}

/* Where the part's weight lies. */
static int emit_tiles(struct program *p, const struct op *op, int i, struct stretch rows, struct lutra_error *err)
{
    bool fit = massive(p->s->list, op);
    TRY(turn(p, packed_of(p, op, i)->window, err));
    TRY(bring(p, op->in[0], err));
    if (fit) push_fit(p, NPU_OP_FIT, op->in[0], all_of(p, op->in[0]), rows);
    TRY(push_product(p, NPU_OP_GEMM, op, i, rows, err));
    if (fit) push_fit(p, NPU_OP_UNFIT, op->out[i], own_of(p, op->out[i]), rows);
    return 0;
}

/* Tables once for all parts in a window that follow each other. */
static int emit_lookups(struct program *p, const struct op *op, struct stretch rows, struct lutra_error *err)
{
    int window = -1;
    for (int i = 0; i < op->n_weight; i++) {
        const struct packed *w = packed_of(p, op, i);
        if (!w->lookup_rows) continue;
        TRY(turn(p, w->window, err));
        TRY(bring(p, op->in[0], err));
        if (w->window != window) {
            struct npu_op *m = push(p, NPU_OP_TABLES);
            uint32_t stride = stride_of(p, op->in[0]);
            m->m = rows.n, m->k = stride / 4;
            m->src = at_of(p, op->in[0]) + rows.first * stride, m->src_stride = stride;
        }
        window = w->window;
        TRY(push_product(p, NPU_OP_LOOKUP, op, i, rows, err));
    }
    return 0;
}

static bool is_bulk(const struct program *p, int value, uint32_t i)
{
    const struct pass_args *pass = p->s->pass;
    int row = p->s->list->value[value].rows == ROWS_ALL ? (int)i : pass->out_row[i];
    return (pass->batch->row[row].want & ROW_BULK) != 0;
}

/* Rows of one class that follow each other, from `first` on. */
static struct stretch stretch_of(const struct program *p, int value, uint32_t first, bool *bulk)
{
    const uint32_t n = rows_of(p, value);
    uint32_t end = first;
    *bulk = is_bulk(p, value, first);
    while (end < n && is_bulk(p, value, end) == *bulk) end++;
    return (struct stretch){first, end - first};
}

/* All rows of a product that go to tiles at every row count: with a share of one class, stretch by stretch. */
static int emit_dense(struct program *p, const struct op *op, struct lutra_error *err)
{
    const enum value_rows rows = p->s->list->value[op->in[0]].rows;
    for (struct row_run r = {0}; share_next_rows(p->s->pass, rows, p->s->share, &r);)
        for (int i = 0; i < op->n_weight; i++)
            if (!packed_of(p, op, i)->lookup_rows)
                TRY(emit_tiles(p, op, i, (struct stretch){(uint32_t)r.first, (uint32_t)r.n}, err));
    return 0;
}

/* The least of its parts'; 0: all go to tiles. */
static uint32_t lookup_rows(const struct program *p, const struct op *op)
{
    uint32_t least = 0;
    for (int i = 0; i < op->n_weight; i++) {
        uint32_t n = packed_of(p, op, i)->lookup_rows;
        if (n && (!least || n < least)) least = n;
    }
    return least;
}

/* On tiles at every row count: a row's bits are the same beside any others (docs/NPU.md).  Where lookups are asked for,
 * rows that are not in bulk go to them. */
static int emit_product(struct program *p, const struct op *op, struct lutra_error *err)
{
    const uint32_t n = rows_of(p, op->in[0]), each = lookup_rows(p, op);
    bool bulk;
    TRY(emit_dense(p, op, err));
    for (uint32_t at = 0; each && at < n;) {
        struct stretch s = stretch_of(p, op->in[0], at, &bulk);
        const bool own = share_has(p->s->share, bulk);
        if (!bulk && s.n > each) s.n = each;
        if (own && !bulk) TRY(emit_lookups(p, op, s, err));
        for (int i = 0; own && bulk && i < op->n_weight; i++)
            if (packed_of(p, op, i)->lookup_rows) TRY(emit_tiles(p, op, i, s, err));
        at += s.n;
    }
    return 0;
}

static bool same_rotation(const struct op_rope *a, const struct op_rope *b)
{
    return a->kind == b->kind && a->d_head == b->d_head && a->n_rot == b->n_rot && a->freq_base == b->freq_base &&
           a->freq_scale == b->freq_scale && a->factors == b->factors && a->magnitude == b->magnitude &&
           a->growth == b->growth && a->growth_every == b->growth_every;
}

static int rope_tables(struct program *p, const struct op_rope *rope, uint32_t *at, struct lutra_error *err)
{
    const struct batch *b = p->s->pass->batch;
    uint32_t period = npu_rope_period(rope);
    for (int i = 0; i < p->t->n_rope; i++) {
        *at = p->t->rope[i].at;
        if (same_rotation(p->t->rope[i].rope, rope)) return 0;
    }
    float *t = take(p, (size_t)period * 4 * (1 + 2 * (size_t)b->n_row), at);
    if (!t || p->t->n_rope == NPU_TABLES) return no_room(p, err);
    npu_rope_mask(rope, (uint32_t *)(void *)t);
    for (int r = 0; r < b->n_row; r++) npu_rope_row(rope, b->row[r].pos, t + period * (1 + 2 * (size_t)r));
    p->t->rope[p->t->n_rope].rope = rope;
    p->t->rope[p->t->n_rope++].at = *at;
    return 0;
}

static int emit_rope(struct program *p, const struct op *op, struct lutra_error *err)
{
    const uint32_t stride = stride_of(p, op->in[0]);
    uint32_t tables = 0;
    TRY(rope_tables(p, &op->rope, &tables, err));
    for (struct row_run r = {0}; next_rows(p, op, &r);) {
        TRY(turn(p, p->d->at, err));
        struct npu_op *m = push(p, NPU_OP_ROPE);
        m->m = (uint32_t)r.n, m->n = stride / 4, m->k = npu_rope_distance(&op->rope);
        m->param = npu_rope_period(&op->rope), m->weights = tables, m->rows = (uint32_t)r.first;
        m->src = at_of(p, op->in[0]) + m->rows * stride, m->dst = at_of(p, op->out[0]) + m->rows * stride;
        m->src_stride = m->dst_stride = stride;
    }
    return 0;
}

static int emit_append(struct program *p, const struct op *op, struct lutra_error *err)
{
    const struct kv_view *kv = p->s->pass->kv;
    int n_row = p->s->pass->batch->n_row;
    if (!p->t->slots) {
        struct npu_slot *slot = take(p, (size_t)n_row * sizeof *slot, &p->t->slots);
        if (!slot) return no_room(p, err);
        npu_kv_slots(kv, p->t->pool, p->t->draft, n_row, slot);
    }
    struct npu_op *m = push(p, NPU_OP_KV_APPEND);
    m->m = (uint32_t)n_row, m->n = (uint32_t)kv->layer[op->layer].d_head,
    m->k = (uint32_t)kv->layer[op->layer].n_kv_head;
    m->param = p->d->cache->layer[op->layer].index;
    m->src = at_of(p, op->in[0]), m->weights = at_of(p, op->in[1]), m->src_stride = stride_of(p, op->in[0]);
    m->rows = p->t->slots;
    return 0;
}

static int attention_tables(struct program *p, const struct op_attention *a, uint32_t *at, struct lutra_error *err)
{
    const struct pass_args *pass = p->s->pass;
    int n_heads = a->n_head / a->n_kv_head;
    for (int i = 0; i < p->t->n_attention; i++) {
        *at = p->t->attention[i].at;
        if (p->t->attention[i].window == a->window && p->t->attention[i].n_heads == n_heads) return 0;
    }
    struct npu_attention_request r = {pass->kv, p->t->pool, p->t->draft, pass->batch->n_row, n_heads, a->window};
    size_t bytes = npu_attention_bytes(r.n_row, p->d->most.n_ctx, n_heads);
    uint32_t used = p->t->used;
    struct npu_attention *t = take(p, bytes, at);
    if (!t || p->t->n_attention == NPU_TABLES) return no_room(p, err);
    npu_attention_tables(&r, t, bytes);
    p->t->used = used + (uint32_t)round_up(t->bytes, 128);
    p->t->attention[p->t->n_attention].window = a->window;
    p->t->attention[p->t->n_attention].n_heads = n_heads;
    p->t->attention[p->t->n_attention++].at = *at;
    return 0;
}

static int emit_attention(struct program *p, const struct op *op, struct lutra_error *err)
{
    const struct op_attention *a = &op->attention;
    uint32_t tables = 0;
    TRY(attention_tables(p, a, &tables, err));
    struct npu_op *m = push(p, NPU_OP_ATTENTION);
    /* exp by table: of the three it takes the fewest packets (12.9 per 64 scores; 26.6 in f16, 49.2 in f32) and is as
     * near to exp as f32.  Only gathers that are slow on silicon would speak for f16 (bench/npu/counts.json). */
    m->m = rows_of(p, op->in[0]), m->n = (uint32_t)a->d_head, m->kind = NPU_EXP_TABLE;
    m->k = p->d->cache->layer[op->layer].index;
    m->src = at_of(p, op->in[0]), m->dst = at_of(p, op->out[0]);
    m->src_stride = stride_of(p, op->in[0]), m->dst_stride = stride_of(p, op->out[0]);
    m->rows = tables;
    memcpy(&m->param, &a->scale, 4);
    memcpy(&m->param2, &a->softcap, 4);
    return constant(p, a->sinks, &m->bias, err);
}

static int emit_take(struct program *p, const struct op *op, struct lutra_error *err)
{
    const struct pass_args *pass = p->s->pass;
    if (!p->t->out_rows) {
        int32_t *row = take(p, (size_t)pass->n_out * 4, &p->t->out_rows);
        if (!row) return no_room(p, err);
        memcpy(row, pass->out_row, (size_t)pass->n_out * 4);
    }
    struct npu_op *m = push(p, NPU_OP_TAKE);
    m->m = (uint32_t)pass->n_out, m->n = stride_of(p, op->in[0]) / 4, m->rows = p->t->out_rows;
    m->src = at_of(p, op->in[0]), m->src_stride = stride_of(p, op->in[0]);
    m->dst = at_of(p, op->out[0]), m->dst_stride = stride_of(p, op->out[0]);
    return 0;
}

static uint32_t want_of(const struct pass_args *pass, int i)
{
    return pass->batch->row[pass->result[i].row].want;
}

const int32_t *npu_head_target(const struct pass_args *pass, int i)
{
    const struct row *row = &pass->batch->row[pass->result[i].row];
    return row->want & WANT_LOGPROB && row->n_listed == 1 ? row->listed : NULL;
}

bool npu_head_brings_logits(const struct pass_args *pass, int i)
{
    const struct row *row = &pass->batch->row[pass->result[i].row];
    return row->want & WANT_LOGITS || (row->want & WANT_LOGPROB && row->n_listed > 1);
}

static int emit_head(struct program *p, const struct op *op, struct lutra_error *err)
{
    const struct pass_args *pass = p->s->pass;
    struct npu_device *d = p->d;
    const struct packed *w = packed_of(p, op, 0);
    uint32_t all = 0, rows, n_out = (uint32_t)pass->n_out;
    d->n_vocab = w->layout.n, d->head_window = d->at;
    d->logits_stride = (uint32_t)round_up(w->layout.n, 32) * 4;
    struct npu_head_row *row = take(p, n_out * sizeof *row, &rows);
    if (!row) return no_room(p, err);
    for (uint32_t i = 0; i < n_out; i++) {
        uint32_t want = want_of(pass, (int)i);
        const int32_t *target = npu_head_target(pass, (int)i);
        all |= want;
        row[i] = (struct npu_head_row){
            .want = (want & WANT_TOPK ? NPU_HEAD_TOPK : 0) | (want & (WANT_TOPK | WANT_LOGPROB) ? NPU_HEAD_SUM : 0),
            .target = target ? (uint32_t)*target : UINT32_MAX,
            .logits = npu_head_brings_logits(pass, (int)i) ? p->w->logits.at + i * d->logits_stride : 0};
    }
    if (all & WANT_HIDDEN) {
        d->hidden = at_of(p, op->in[1]), d->hidden_bytes = n_out * stride_of(p, op->in[1]);
        d->d_model = p->s->list->value[op->in[1]].dim;
        flush(p, d->hidden, d->hidden_bytes);
    }
    if (!(all & (WANT_LOGITS | WANT_TOPK | WANT_LOGPROB))) return 0;
    struct npu_op *m = push(p, NPU_OP_HEAD);
    m->m = n_out, m->n = w->layout.n, m->k = stride_of(p, op->in[0]) / 4, m->kind = w->layout.kind, m->weights = w->at;
    m->src = at_of(p, op->in[0]), m->src_stride = stride_of(p, op->in[0]);
    m->rows = rows, m->dst = p->w->results.at, m->scratch = p->w->scratch.at;
    memcpy(&m->param2, &op->head.softcap, 4);
    flush(p, p->w->results.at, n_out * (uint32_t)sizeof(struct npu_head_result));
    for (uint32_t i = 0; i < n_out; i++)
        if (row[i].logits) flush(p, row[i].logits, d->logits_stride);
    d->head = true;
    return 0;
}

static int emit_one(struct program *p, const struct op *op, struct lutra_error *err)
{
    switch (op->kind) {
    case OP_EMBED: return emit_embed(p, op, err);
    case OP_RMS_NORM: return emit_norm(p, op, err);
    case OP_ROPE: return emit_rope(p, op, err);
    case OP_KV_APPEND: return emit_append(p, op, err);
    case OP_ATTENTION: return emit_attention(p, op, err);
    case OP_SWIGLU: return emit_pointwise(p, op, NPU_OP_SWIGLU, err);
    case OP_GEGLU: return emit_pointwise(p, op, NPU_OP_GEGLU, err);
    case OP_RELU2: return emit_pointwise(p, op, NPU_OP_RELU2, err);
    case OP_ADD: return emit_pointwise(p, op, NPU_OP_ADD, err);
    case OP_TAKE: return emit_take(p, op, err);
    case OP_HEAD: return emit_head(p, op, err);
    default: return lutra_fail(err, LUTRA_E_INTERNAL, "npu: no message for operation %s", op_name(op->kind));
    }
}

/* Where an operation runs: with its weight, with its layer's cache, a norm with the next weight, the rest where the
 * last one ran. */
static int place(const struct program *p, const struct op *op)
{
    const struct op_info *info = op_info_of(op->kind);
    if (op->n_weight) return packed_of(p, op, 0)->window;
    if (info->reads_cache || info->writes_cache) return p->d->cache->layer[op->layer].window;
    if (op->kind == OP_RMS_NORM) return npu_home(p->d, p->s->list, (int)(op - p->s->list->op));
    return p->w ? p->d->at : 0;
}

static int emit(struct program *p, const struct op *op, struct lutra_error *err)
{
    if (!rows_of(p, op->n_out ? op->out[0] : op->in[0])) return 0;
    if (op->kind == OP_MATMUL) return emit_product(p, op, err);
    TRY(turn(p, place(p, op), err));
    for (int i = 0; i < op->n_in; i++) TRY(bring(p, op->in[i], err));
    TRY(emit_one(p, op, err));
    for (int i = 0; i < op->n_out; i++) wrote(p, op->out[i]);
    return 0;
}

/* ---- a submission ---- */

static bool uses_cache(const struct segment *s)
{
    for (int i = 0; i < s->n_op; i++)
        if (op_info_of(s->op[i].kind)->reads_cache || op_info_of(s->op[i].kind)->writes_cache) return true;
    return false;
}

static int begin(struct program *p, struct lutra_error *err)
{
    struct npu_device *d = p->d;
    const struct pass_args *pass = p->s->pass;
    d->cache = NULL;
    if (pass->batch->n_row > d->most.max_rows || pass->n_out > d->most.max_out)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: a pass of %d rows, %d wanted; reserved for %d and %d",
            d->base.name, pass->batch->n_row, pass->n_out, d->most.max_rows, d->most.max_out);
    for (int v = 0; v < p->s->list->n_value; v++) {
        p->value[v] = npu_buffer_of(d, pass->value[v].host);
        if (!p->value[v])
            return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: value %d is not in its window", d->base.name, v);
    }
    if (!uses_cache(p->s)) return 0;
    if (pass->kv->type[KV_K] != QUANT_F16 || pass->kv->type[KV_V] != QUANT_F16)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: the cache must be f16", d->base.name);
    d->cache = npu_buffer_of(d, pass->kv->pool);
    if (!d->cache || d->cache->n_layer != pass->kv->n_layer)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: the cache is not in its window", d->base.name);
    for (int w = 0; w < d->n_window; w++)
        npu_cache_offsets(d->cache, pass->kv, w, &p->tables[w].pool, &p->tables[w].draft);
    return 0;
}

/* Blocks that the host copied or committed to, of layers read here. */
static void publish_cache(const struct program *p)
{
    const struct kv_view *kv = p->s->pass->kv;
    for (int i = 0; i < p->s->n_op; i++) {
        int layer = p->s->op[i].layer;
        if (!op_info_of(p->s->op[i].kind)->reads_cache) continue;
        for (int b = 0; kv->host_wrote && b < kv->n_block; b++)
            if (kv->host_wrote[b])
                npu_cache_publish(p->d, p->d->cache, kv, layer, kv_block_at(kv, layer, KV_K, b),
                    (uint32_t)kv->layer[layer].block_bytes);
    }
}

int npu_program_submit(struct npu_device *d, const struct segment *segment, struct lutra_error *err)
{
    struct program p = {.d = d, .s = segment};
    TRY(begin(&p, err));
    d->head = false, d->hidden = 0;
    d->pass = segment->pass, d->segment = segment->op, d->n_seg = segment->n_op;
    publish_cache(&p);
    for (int i = 0; i < segment->n_op; i++) TRY(emit(&p, &segment->op[i], err));
    return p.w ? end_run(&p, err) : 0;
}
