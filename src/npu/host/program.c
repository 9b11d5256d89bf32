/* SPDX-License-Identifier: MIT
 *
 * A segment of operations as one submission: tables, then messages.
 *
 * The messages of a step refer to tables that the host writes anew each time: tokens, rotations, slots, masks.  They lie
 * one behind another in one region, which the first message invalidates.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "npu/host/device_impl.h"

/* A submission in the making. */
struct program {
    struct npu_device *d;
    const struct segment *s;
    int n_op;
    uint32_t used;        /* of the tables */
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

uint32_t npu_window_offset(const struct npu_device *d, const void *host)
{
    const uint8_t *p = host, *base = d->link->base;
    if (p < base + d->link->first || p >= base + d->link->end) return 0;
    return (uint32_t)(p - base);
}

/* ---- memory ---- */

/* Gives back an old region of the window and takes a larger one. */
static int renew(struct npu_device *d, uint32_t *at, uint32_t *have, size_t want, struct lutra_error *err)
{
    if (want <= *have) return 0;
    npu_transport_free(d->link, *at);
    *have = 0;
    *at = want < UINT32_MAX ? npu_transport_alloc(d->link, (uint32_t)want) : 0;
    if (!*at)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: %zu MiB of scratch do not fit, %u MiB are left", d->base.name,
            want >> 20, (unsigned)(npu_transport_free_bytes(d->link) >> 20));
    *have = (uint32_t)want;
    return 0;
}

static size_t round_up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

/* Tables that a list's steps can need at most. */
static size_t table_bytes(const struct npu_device *d, const struct op_list *list)
{
    size_t rows = (size_t)d->max_rows, sum = rows * 32 + (size_t)d->max_out * 32 + 1024, rope = 0, attention = 0;
    for (int i = 0; i < list->n_op; i++) {
        const struct op *op = &list->op[i];
        if (op->kind == OP_ROPE) {
            size_t n = 4 * (size_t)npu_rope_period(&op->rope) * (1 + 2 * rows) + 128;
            rope = n > rope ? n : rope;
        } else if (op->kind == OP_ATTENTION && op->attention.n_kv_head > 0) {
            int heads = op->attention.n_head / op->attention.n_kv_head;
            if (heads < 1 || heads > NPU_ATTENTION_ROWS) continue;
            size_t n = npu_attention_bytes(d->max_rows, d->n_ctx, heads) + 128;
            attention = n > attention ? n : attention;
        }
    }
    /* Different rotations and windows in one model are rare: room for two of each. */
    return sum + 2 * rope + 2 * attention;
}

int npu_program_reserve(struct npu_device *d, const struct op_list *list, struct lutra_error *err)
{
    struct npu_act8 act;
    size_t widest = 64, out = (size_t)d->max_out, vocab = round_up((size_t)list->n_vocab, 32);
    for (int v = 0; v < list->n_value; v++)
        if ((size_t)list->value[v].dim > widest) widest = (size_t)list->value[v].dim;
    npu_act8_layout((uint32_t)round_up(widest, 64), &act);
    TRY(renew(d, &d->tables, &d->tables_bytes, table_bytes(d, list), err));
    TRY(renew(d, &d->acts, &d->acts_bytes, NPU_GEMV_ROWS * (size_t)act.bytes, err));
    TRY(renew(d, &d->scratch, &d->scratch_bytes, out * NPU_HEAD_SCRATCH + NPU_GEMV_ROWS * (size_t)act.bytes, err));
    TRY(renew(d, &d->results, &d->results_bytes, out * sizeof(struct npu_head_result), err));
    TRY(renew(d, &d->logits, &d->logits_bytes, out * vocab * 4, err));
    int most = 8 * list->n_op + 2 * VALUE_MAX + 64 + 2 * d->max_out;
    if (most <= d->max_op) return 0;
    struct npu_op *op = realloc(d->op, (size_t)most * sizeof *op);
    if (!op) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", d->base.name);
    d->op = op, d->max_op = most;
    return 0;
}

void npu_program_fini(struct npu_device *d)
{
    free(d->op);
    d->op = NULL;
}

/* A table of the step; NULL: no room, which reserve has not foreseen. */
static void *take(struct program *p, size_t bytes, uint32_t *at)
{
    if (bytes > p->d->tables_bytes - p->used) return NULL;
    *at = p->d->tables + p->used;
    p->used += (uint32_t)round_up(bytes, 128);
    if (p->used > p->d->tables_bytes) p->used = p->d->tables_bytes;
    return p->d->link->base + *at;
}

static int no_room(const struct program *p, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_INTERNAL, "%s: the tables of a step do not fit", p->d->base.name);
}

static struct npu_op *push(struct program *p, uint32_t code)
{
    struct npu_op *op = &p->d->op[p->n_op++];
    *op = (struct npu_op){.code = code};
    return op;
}

/* ---- values ---- */

static uint32_t rows_of(const struct program *p, int value)
{
    const struct step *step = p->s->step;
    return (uint32_t)(p->s->list->value[value].rows == ROWS_OUT ? step->n_out : step->batch->n_row);
}

static uint32_t stride_of(const struct program *p, int value)
{
    return 4 * (uint32_t)p->s->list->value[value].dim;
}

static uint32_t at_of(const struct program *p, int value)
{
    return npu_window_offset(p->d, p->s->step->value[value].host);
}

/* ---- operations ---- */

static int emit_embed(struct program *p, const struct op *op, struct lutra_error *err)
{
    const struct batch *b = p->s->step->batch;
    const struct packed *w = op->embed.weight->packed;
    if (!p->tokens) {
        int32_t *token = take(p, (size_t)b->n_row * 4, &p->tokens);
        if (!token) return no_room(p, err);
        for (int r = 0; r < b->n_row; r++) token[r] = b->row[r].token;
    }
    struct npu_op *m = push(p, NPU_OP_EMBED);
    m->m = (uint32_t)b->n_row, m->n = w->layout.n, m->k = stride_of(p, op->out) / 4;
    m->kind = w->layout.kind, m->weights = w->at, m->rows = p->tokens;
    m->dst = at_of(p, op->out), m->dst_stride = stride_of(p, op->out);
    memcpy(&m->param, &op->embed.scale, 4);
    return 0;
}

static void emit_norm(struct program *p, const struct op *op)
{
    uint32_t n = (uint32_t)op->norm.n_norm;
    struct npu_op *m = push(p, NPU_OP_RMS_NORM);
    m->m = rows_of(p, op->in) * (stride_of(p, op->in) / 4 / n), m->n = n;
    m->src = at_of(p, op->in), m->dst = at_of(p, op->out), m->src_stride = m->dst_stride = 4 * n;
    m->weights = npu_constant_at(p->d, p->s->list, op->norm.weight);
    memcpy(&m->param, &op->norm.eps, 4);
}

/* Element-wise: all rows as one. */
static void emit_pointwise(struct program *p, const struct op *op, uint32_t code)
{
    struct npu_op *m = push(p, code);
    m->m = 1, m->n = (uint32_t)round_up(rows_of(p, op->out) * (size_t)stride_of(p, op->out) / 4, 32);
    m->src = at_of(p, op->in), m->weights = at_of(p, op->in2), m->dst = at_of(p, op->out);
    m->src_stride = m->dst_stride = 4 * m->n;
}

static void emit_product(struct program *p, const struct op *op)
{
    uint32_t m_rows = rows_of(p, op->in), k = stride_of(p, op->in) / 4;
    struct npu_act8 act;
    bool quantized = false;
    npu_act8_layout(k, &act);
    for (int i = 0; i < op->matmul.n_part; i++) {
        const struct packed *w = op->matmul.part[i].weight->packed;
        bool integer = npu_product_integer(w->layout.kind, k, m_rows);
        if (integer && !quantized) {
            struct npu_op *q = push(p, NPU_OP_QUANTIZE);
            q->m = m_rows, q->k = k, q->src = at_of(p, op->in), q->src_stride = 4 * k;
            q->dst = p->d->acts, q->dst_stride = act.bytes;
            quantized = true;
        }
        struct npu_op *m = push(p, integer ? NPU_OP_GEMV : NPU_OP_GEMM);
        m->m = m_rows, m->n = w->layout.n, m->k = k, m->kind = w->layout.kind, m->weights = w->at;
        m->src = integer ? p->d->acts : at_of(p, op->in), m->src_stride = integer ? act.bytes : 4 * k;
        m->dst = at_of(p, op->matmul.part[i].out), m->dst_stride = stride_of(p, op->matmul.part[i].out);
        m->bias = npu_constant_at(p->d, p->s->list, op->matmul.part[i].bias);
    }
}

static bool same_rotation(const struct op_rope *a, const struct op_rope *b)
{
    return a->kind == b->kind && a->d_head == b->d_head && a->n_rot == b->n_rot && a->freq_base == b->freq_base &&
           a->freq_scale == b->freq_scale && a->factors == b->factors && a->magnitude == b->magnitude;
}

static int rope_tables(struct program *p, const struct op_rope *rope, uint32_t *at, struct lutra_error *err)
{
    const struct batch *b = p->s->step->batch;
    uint32_t period = npu_rope_period(rope);
    for (int i = 0; i < p->n_rope; i++) {
        *at = p->rope[i].at;
        if (same_rotation(p->rope[i].rope, rope)) return 0;
    }
    float *t = take(p, (size_t)period * 4 * (1 + 2 * (size_t)b->n_row), at);
    if (!t || p->n_rope == NPU_TABLES) return no_room(p, err);
    npu_rope_mask(rope, (uint32_t *)(void *)t);
    for (int r = 0; r < b->n_row; r++) npu_rope_row(rope, b->row[r].pos, t + period * (1 + 2 * (size_t)r));
    p->rope[p->n_rope].rope = rope;
    p->rope[p->n_rope++].at = *at;
    return 0;
}

static int emit_rope(struct program *p, const struct op *op, struct lutra_error *err)
{
    uint32_t tables = 0;
    TRY(rope_tables(p, &op->rope, &tables, err));
    struct npu_op *m = push(p, NPU_OP_ROPE);
    m->m = rows_of(p, op->in), m->n = stride_of(p, op->in) / 4, m->k = npu_rope_distance(&op->rope);
    m->param = npu_rope_period(&op->rope), m->weights = tables;
    m->src = at_of(p, op->in), m->dst = at_of(p, op->out), m->src_stride = m->dst_stride = stride_of(p, op->in);
    return 0;
}

static int emit_append(struct program *p, const struct op *op, struct lutra_error *err)
{
    const struct kv_view *kv = p->s->step->kv;
    int n_row = p->s->step->batch->n_row;
    if (!p->slots) {
        struct npu_slot *slot = take(p, (size_t)n_row * sizeof *slot, &p->slots);
        if (!slot) return no_room(p, err);
        npu_kv_slots(kv, p->pool, p->draft, n_row, slot);
    }
    struct npu_op *m = push(p, NPU_OP_KV_APPEND);
    m->m = (uint32_t)n_row, m->n = (uint32_t)kv->d_head, m->k = (uint32_t)kv->n_kv_head, m->param = (uint32_t)op->layer;
    m->src = at_of(p, op->in), m->weights = at_of(p, op->in2), m->src_stride = stride_of(p, op->in);
    m->rows = p->slots;
    p->d->append = true;
    return 0;
}

static int attention_tables(struct program *p, const struct op_attention *a, uint32_t *at, struct lutra_error *err)
{
    const struct step *step = p->s->step;
    int n_heads = a->n_head / a->n_kv_head;
    for (int i = 0; i < p->n_attention; i++) {
        *at = p->attention[i].at;
        if (p->attention[i].window == a->window && p->attention[i].n_heads == n_heads) return 0;
    }
    struct npu_attention_request r = {step->kv, p->pool, p->draft, step->batch->n_row, n_heads, a->window};
    size_t bytes = npu_attention_bytes(r.n_row, p->d->n_ctx, n_heads);
    uint32_t used = p->used;
    struct npu_attention *t = take(p, bytes, at);
    if (!t || p->n_attention == NPU_TABLES) return no_room(p, err);
    npu_attention_tables(&r, t, bytes);
    p->used = used + (uint32_t)round_up(t->bytes, 128);
    p->attention[p->n_attention].window = a->window;
    p->attention[p->n_attention].n_heads = n_heads;
    p->attention[p->n_attention++].at = *at;
    return 0;
}

static int emit_attention(struct program *p, const struct op *op, struct lutra_error *err)
{
    const struct op_attention *a = &op->attention;
    uint32_t tables = 0;
    TRY(attention_tables(p, a, &tables, err));
    struct npu_op *m = push(p, NPU_OP_ATTENTION);
    m->m = rows_of(p, op->in), m->n = (uint32_t)a->d_head, m->k = (uint32_t)op->layer, m->kind = NPU_EXP_TABLE;
    m->src = at_of(p, op->in), m->dst = at_of(p, op->out);
    m->src_stride = stride_of(p, op->in), m->dst_stride = stride_of(p, op->out);
    m->rows = tables, m->bias = npu_constant_at(p->d, p->s->list, a->sinks);
    memcpy(&m->param, &a->scale, 4);
    memcpy(&m->param2, &a->softcap, 4);
    return 0;
}

static int emit_take(struct program *p, const struct op *op, struct lutra_error *err)
{
    const struct step *step = p->s->step;
    if (!p->out_rows) {
        int32_t *row = take(p, (size_t)step->n_out * 4, &p->out_rows);
        if (!row) return no_room(p, err);
        memcpy(row, step->out_row, (size_t)step->n_out * 4);
    }
    struct npu_op *m = push(p, NPU_OP_TAKE);
    m->m = (uint32_t)step->n_out, m->n = stride_of(p, op->in) / 4, m->rows = p->out_rows;
    m->src = at_of(p, op->in), m->src_stride = stride_of(p, op->in);
    m->dst = at_of(p, op->out), m->dst_stride = stride_of(p, op->out);
    return 0;
}

static uint32_t want_of(const struct step *step, int i)
{
    return step->batch->row[step->result[i].row].want;
}

static void flush(struct program *p, uint32_t at, uint32_t bytes)
{
    struct npu_op *m = push(p, NPU_OP_FLUSH);
    m->src = at, m->k = bytes;
}

static int emit_head(struct program *p, const struct op *op, struct lutra_error *err)
{
    const struct step *step = p->s->step;
    struct npu_device *d = p->d;
    const struct packed *w = op->head.weight->packed;
    uint32_t all = 0, rows, n_out = (uint32_t)step->n_out;
    d->n_vocab = w->layout.n;
    d->logits_stride = (uint32_t)round_up(w->layout.n, 32) * 4;
    struct npu_head_row *row = take(p, n_out * sizeof *row, &rows);
    if (!row) return no_room(p, err);
    for (uint32_t i = 0; i < n_out; i++) {
        uint32_t want = want_of(step, (int)i);
        all |= want;
        row[i] = (struct npu_head_row){
            .want = (want & WANT_TOPK ? NPU_HEAD_TOPK : 0) | (want & (WANT_TOPK | WANT_LOGPROB) ? NPU_HEAD_SUM : 0),
            .target = want & WANT_LOGPROB ? (uint32_t)step->batch->row[step->result[i].row].target : UINT32_MAX,
            .logits = want & WANT_LOGITS ? d->logits + i * d->logits_stride : 0};
    }
    if (all & WANT_HIDDEN) {
        d->hidden = at_of(p, op->in), d->hidden_bytes = n_out * stride_of(p, op->in);
        d->d_model = p->s->list->value[op->in].dim;
        flush(p, d->hidden, d->hidden_bytes);
    }
    if (!(all & (WANT_LOGITS | WANT_TOPK | WANT_LOGPROB))) return 0;
    struct npu_op *m = push(p, NPU_OP_HEAD);
    m->m = n_out, m->n = w->layout.n, m->k = stride_of(p, op->in) / 4, m->kind = w->layout.kind, m->weights = w->at;
    m->src = at_of(p, op->in), m->src_stride = stride_of(p, op->in);
    m->rows = rows, m->dst = d->results, m->scratch = d->scratch;
    memcpy(&m->param2, &op->head.softcap, 4);
    flush(p, d->results, n_out * (uint32_t)sizeof(struct npu_head_result));
    for (uint32_t i = 0; i < n_out; i++)
        if (row[i].logits) flush(p, row[i].logits, d->logits_stride);
    d->head = true;
    return 0;
}

static int emit(struct program *p, const struct op *op, struct lutra_error *err)
{
    int value = op->in >= 0 && op->kind != OP_TAKE ? op->in : op->out;
    if (!rows_of(p, value)) return 0;
    switch (op->kind) {
    case OP_EMBED: return emit_embed(p, op, err);
    case OP_RMS_NORM: emit_norm(p, op); return 0;
    case OP_MATMUL: emit_product(p, op); return 0;
    case OP_ROPE: return emit_rope(p, op, err);
    case OP_KV_APPEND: return emit_append(p, op, err);
    case OP_ATTENTION: return emit_attention(p, op, err);
    case OP_SWIGLU: emit_pointwise(p, op, NPU_OP_SWIGLU); return 0;
    case OP_GEGLU: emit_pointwise(p, op, NPU_OP_GEGLU); return 0;
    case OP_RELU2: emit_pointwise(p, op, NPU_OP_RELU2); return 0;
    case OP_ADD: emit_pointwise(p, op, NPU_OP_ADD); return 0;
    case OP_TAKE: return emit_take(p, op, err);
    case OP_HEAD: return emit_head(p, op, err);
    default: return lutra_fail(err, LUTRA_E_INTERNAL, "npu: no message for operation %s", op_name(op->kind));
    }
}

/* ---- a submission ---- */

static int check(const struct program *p, struct lutra_error *err)
{
    const struct npu_device *d = p->d;
    const struct step *step = p->s->step;
    if (step->kv->type != QUANT_F16)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: the cache must be f16", d->base.name);
    if (step->batch->n_row > d->max_rows || step->n_out > d->max_out)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: a step of %d rows, %d wanted; reserved for %d and %d",
            d->base.name, step->batch->n_row, step->n_out, d->max_rows, d->max_out);
    for (int v = 0; v < p->s->list->n_value; v++)
        if (!at_of(p, v))
            return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: value %d is not in its window", d->base.name, v);
    if (!p->pool) return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: the cache is not in its window", d->base.name);
    return 0;
}

/* Blocks that the host copied or committed to. */
static void publish_cache(const struct program *p)
{
    const struct kv_view *kv = p->s->step->kv;
    uint32_t bytes = 2 * (uint32_t)kv->n_kv_head * KV_BLOCK * (uint32_t)kv->vec_bytes;
    for (int b = 0; kv->host_wrote && b < kv->n_block; b++)
        for (int layer = 0; kv->host_wrote[b] && layer < kv->n_layer; layer++)
            npu_transport_publish(p->d->link, npu_window_offset(p->d, kv_block_at(kv, layer, KV_K, b)), bytes);
}

int npu_program_submit(struct npu_device *d, const struct segment *segment, struct lutra_error *err)
{
    const struct kv_view *kv = segment->step->kv;
    struct program p = {.d = d, .s = segment, .pool = npu_window_offset(d, kv->pool)};
    p.draft = kv->n_draft ? npu_window_offset(d, kv->draft) : p.pool;
    TRY(check(&p, err));
    d->head = d->append = false, d->hidden = 0, d->step = NULL;
    struct npu_op *fresh = push(&p, NPU_OP_INVALIDATE);
    for (int i = 0; i < d->n_written; i++) {
        struct npu_op *m = push(&p, NPU_OP_INVALIDATE);
        m->src = d->written[i].offset, m->k = d->written[i].bytes;
    }
    d->n_written = 0;
    for (int i = 0; i < segment->n_op; i++) TRY(emit(&p, &segment->op[i], err));
    fresh->src = d->tables, fresh->k = p.used;
    if (p.used) npu_transport_publish(d->link, d->tables, p.used);
    publish_cache(&p);
    TRY(npu_transport_submit(d->link, d->op, (uint32_t)p.n_op, &d->ticket, err));
    d->step = segment->step;
    return 0;
}

/* ---- what comes back ---- */

/* New keys and values; rows that lie behind one another at once. */
static void acquire_cache(const struct npu_device *d, const struct step *step)
{
    const struct kv_view *kv = step->kv;
    int n_row = step->batch->n_row;
    for (int r = 0, n; r < n_row; r += n) {
        const struct kv_row *row = &kv->row[r];
        for (n = 1; r + n < n_row && row[n].block == row->block && row[n].slot == row->slot + n;) n++;
        for (int layer = 0; layer < kv->n_layer; layer++)
            for (int h = 0; h < kv->n_kv_head; h++)
                for (int side = KV_K; side <= KV_V; side++)
                    npu_transport_acquire(d->link,
                        npu_window_offset(d, kv_slot_at(kv, layer, (enum kv_side)side, h, r)),
                        (uint32_t)n * (uint32_t)kv->vec_bytes);
    }
}

static void take_result(const struct npu_device *d, const struct step *step, int i)
{
    struct row_result *to = &step->result[i];
    uint32_t want = want_of(step, i), logits = d->logits + (uint32_t)i * d->logits_stride;
    const struct npu_head_result *from = (const struct npu_head_result *)(const void *)(d->link->base + d->results) + i;
    float most, sum;
    memcpy(&most, &from->most, 4);
    memcpy(&sum, &from->sum, 4);
    if (want & (WANT_TOPK | WANT_LOGPROB)) to->log_sum_exp = most + logf(sum);
    if (want & WANT_LOGPROB) memcpy(&to->target_logit, &from->target, 4);
    if (want & WANT_TOPK) {
        to->n_top = (int)from->n_top;
        memcpy(to->top_id, from->id, (size_t)to->n_top * 4);
        memcpy(to->top_logit, from->logit, (size_t)to->n_top * 4);
    }
    if (!(want & WANT_LOGITS)) return;
    npu_transport_acquire(d->link, logits, d->logits_stride);
    memcpy(to->logits, d->link->base + logits, (size_t)d->n_vocab * 4);
}

void npu_program_finish(struct npu_device *d)
{
    const struct step *step = d->step;
    d->step = NULL;
    if (!step) return;
    if (d->append) acquire_cache(d, step);
    if (d->hidden) npu_transport_acquire(d->link, d->hidden, d->hidden_bytes);
    if (d->head)
        npu_transport_acquire(d->link, d->results, (uint32_t)step->n_out * (uint32_t)sizeof(struct npu_head_result));
    for (int i = 0; i < step->n_out; i++) {
        if (d->head) take_result(d, step, i);
        if (d->hidden && want_of(step, i) & WANT_HIDDEN)
            memcpy(step->result[i].hidden, d->link->base + d->hidden + (size_t)i * 4 * (size_t)d->d_model,
                4 * (size_t)d->d_model);
    }
}
