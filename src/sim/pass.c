/* SPDX-License-Identifier: MIT
 *
 * Whole passes of a model as the sum of operations that were counted: in rows between two counted row counts linearly,
 * in keys along the line through two counted lengths (a segment of keys costs the same wherever it is), elements and
 * outputs of the vocabulary in proportion.
 */
#include "sim/counts.h"

#include <math.h>
#include <string.h>

#include "npu/wire/layout.h"
#include "npu/wire/planes.h"

const char *const npu_part_names[NPU_PARTS] = {"products", "attention", "rows", "head", "message"};

enum { HEAD_OUTPUTS = 8192, ELEMENTS = 8192, SEGMENT = 64, TILE_ROWS = 32 };

/* a + t (b - a) in everything but how it is divided. */
static struct npu_work between(const struct npu_work *a, const struct npu_work *b, double t)
{
    struct npu_work w = *a;
    w.packets += t * (b->packets - a->packets);
    w.alone += t * (b->alone - a->alone);
    w.gathers += t * (b->gathers - a->gathers);
    w.scatters += t * (b->scatters - a->scatters);
    w.tile_pairs += t * (b->tile_pairs - a->tile_pairs);
    w.dma_bytes += t * (b->dma_bytes - a->dma_bytes);
    w.l2_bytes += t * (b->l2_bytes - a->l2_bytes);
    return w;
}

static struct npu_work times(const struct npu_work *a, double t)
{
    const struct npu_work none = {0};
    return between(&none, a, t);
}

/* An operation at m rows, between the two nearest that were counted. */
static int at_rows(
    const struct npu_counts *b, const char *kernel, const char *kind, double m, int k, int n, struct npu_work *out)
{
    const struct npu_count *below = NULL, *above = NULL;
    for (int i = 0; i < b->n_row; i++) {
        const struct npu_count *c = &b->row[i];
        if (c->k != k || c->n != n || strcmp(c->kernel, kernel) != 0 || strcmp(c->kind, kind) != 0) continue;
        if (c->m <= m && (!below || c->m > below->m)) below = c;
        if (c->m >= m && (!above || c->m < above->m)) above = c;
    }
    if (!below || !above) return -1;
    *out = between(&below->work, &above->work, above->m > below->m ? (m - below->m) / (above->m - below->m) : 0);
    return 0;
}

static void add(struct modelled *sum, const struct modelled *t, double n)
{
    sum->low_us += n * t->low_us, sum->high_us += n * t->high_us;
    sum->low_mj += n * t->low_mj, sum->high_mj += n * t->high_mj;
}

static void add_work(const struct soc_profile *p, struct modelled *sum, const struct npu_work *w, double n)
{
    struct modelled t = model_work(p, w);
    add(sum, &t, n);
}

/* An operation on rows from its counted elements. */
static int row_work(const struct npu_counts *b, const char *kernel, double n, struct npu_work *w)
{
    for (int i = 0; i < b->n_row; i++) {
        const struct npu_count *c = &b->row[i];
        if (strcmp(c->kernel, kernel) != 0 || c->n != ELEMENTS) continue;
        *w = times(&c->work, n / ELEMENTS);
        return 0;
    }
    return -1;
}

/* All KV heads of one layer for a group of `rows` rows of the batch. */
static int group_work(
    const struct npu_counts *b, const struct npu_model *m, double rows, double keys, struct npu_work *out)
{
    enum { SHORT = 1024, LONG = 4096 };
    struct npu_work a, z;
    char kind[32];
    snprintf(kind, sizeof kind, "%d x %d heads", m->n_head / m->n_kv_head, m->n_kv_head);
    if (at_rows(b, "attention pass", kind, rows, SHORT, m->d_head, &a) ||
        at_rows(b, "attention pass", kind, rows, LONG, m->d_head, &z))
        return -1;
    *out = between(&a, &z, (keys - SHORT) / (LONG - SHORT));
    return 0;
}

/* Groups of as many rows as fill a tile, and what is left. */
static int attention_work(
    const struct npu_counts *b, const struct npu_model *m, int batch, double keys, struct npu_work *out)
{
    struct npu_work full = {0}, rest = {0};
    int per = TILE_ROWS * m->n_kv_head / m->n_head, n_full = batch / per, left = batch - n_full * per;
    keys = keys > SEGMENT ? keys : SEGMENT;
    if (n_full && group_work(b, m, per, keys, &full)) return -1;
    if (left && group_work(b, m, left, keys, &rest)) return -1;
    *out = times(&full, n_full);
    out->packets += rest.packets, out->gathers += rest.gathers, out->tile_pairs += rest.tile_pairs;
    out->dma_bytes += rest.dma_bytes;
    return 0;
}

/* Outputs in proportion; more rows than were counted as further passes. */
static int head_work(const struct npu_counts *b, const struct npu_model *m, int rows, struct npu_work *out)
{
    enum { COUNTED_ROWS = 16 };
    double passes = rows > COUNTED_ROWS ? (double)rows / COUNTED_ROWS : 1;
    struct npu_work w;
    if (at_rows(b, "head", m->head, rows / passes, m->d_model, HEAD_OUTPUTS, &w)) return -1;
    *out = times(&w, passes * m->n_vocab / HEAD_OUTPUTS);
    return 0;
}

static int gemm_work(
    const struct npu_counts *b, const struct npu_model *m, const struct npu_pass_op *o, struct npu_work *w)
{
    enum { F16_BYTES = 2 };
    if (at_rows(b, "gemm", npu_name_of_kind(o->kind), o->m, o->k, o->n, w)) return -1;
    if (m->bytes_per_weight) w->dma_bytes *= m->bytes_per_weight / F16_BYTES, w->tile_pairs *= m->tile_share;
    return 0;
}

/* A row each: its block of 32 outputs is brought and becomes tiles, of which two are gathered from at a time. */
static void embed_work(const struct npu_counts *b, const struct npu_pass_op *o, struct npu_work *w)
{
    enum { K = 1536, N = 256, BLOCK = 32, GATHERED = 64 }; /* K, N: counted */
    const struct npu_count *c = npu_count_of(b, "dequant", npu_name_of_kind(o->kind), 1, K, N);
    struct npu_weights weights;
    if (npu_weights_layout(o->kind, npu_weights_k((uint32_t)o->k), (uint32_t)o->n, &weights)) return;
    w->dma_bytes = (double)o->m * weights.block_bytes;
    w->gathers = (double)o->m * ((o->k + GATHERED - 1) / GATHERED);
    if (c) w->packets = o->m * c->work.packets * ((double)o->k / K) / ((double)N / BLOCK);
}

/* What an operation of a pass does, once; 0 packets: not counted. */
static int op_work(const struct npu_counts *b, const struct npu_model *m, const struct npu_pass_op *o, double keys,
    struct npu_work *w, enum npu_part *part)
{
    const char *weights = npu_name_of_kind(o->kind);
    double n = (double)o->m * o->n;
    *w = (struct npu_work){0}, *part = NPU_ROWS;
    switch (o->code) {
    case NPU_OP_GEMM: *part = NPU_PRODUCTS; return gemm_work(b, m, o, w);
    case NPU_OP_LOOKUP: *part = NPU_PRODUCTS; return at_rows(b, "lookup", weights, o->m, o->k, o->n, w);
    case NPU_OP_MASKS: *part = NPU_PRODUCTS; return at_rows(b, "masks", weights, o->m, o->k, o->n, w);
    case NPU_OP_TABLES: *part = NPU_PRODUCTS; return at_rows(b, "tables", "lut16", o->m, o->k, 0, w);
    case NPU_OP_ACT8: *part = NPU_PRODUCTS; return row_work(b, "quantize", (double)o->m * o->k, w);
    case NPU_OP_ATTENTION: *part = NPU_ATTENTION; return attention_work(b, m, o->m, keys, w);
    case NPU_OP_HEAD: *part = NPU_HEAD; return head_work(b, m, o->m, w);
    case NPU_OP_RMS_NORM: return row_work(b, "rms_norm", n, w);
    case NPU_OP_ROPE: return row_work(b, "rope", n, w);
    case NPU_OP_SWIGLU: return row_work(b, "swiglu", n, w);
    case NPU_OP_RELU2: return row_work(b, "relu2", n, w);
    case NPU_OP_ADD: return row_work(b, "add", n, w);
    case NPU_OP_EMBED: embed_work(b, o, w); return 0;
    case NPU_OP_FIT: return row_work(b, "fit", n, w);
    case NPU_OP_UNFIT: return row_work(b, "unfit", n, w);
    default: return 0;
    }
}

/* The same, divided. */
static int divided_work(const struct npu_counts *b, const struct npu_model *m, const struct npu_pass_op *o, double keys,
    struct npu_work *w, enum npu_part *part)
{
    struct npu_op op = {
        .code = o->code, .kind = o->kind, .m = (uint32_t)o->m, .k = (uint32_t)o->k, .n = (uint32_t)o->n};
    op.param = (uint32_t)o->param;
    if (op_work(b, m, o, keys, w, part)) return -1;
    npu_divide(&op, (int)keys, m->n_kv_head, m->n_head / m->n_kv_head, w);
    return 0;
}

static int add_op(const struct npu_counts *b, const struct soc_profile *p, const struct npu_model *m,
    const struct npu_pass_op *o, double keys, struct npu_pass *s)
{
    struct npu_work w;
    enum npu_part part;
    if (divided_work(b, m, o, keys, &w, &part)) return -1;
    add_work(p, &s->part[part], &w, o->times);
    return 0;
}

int npu_pass_work(
    const struct npu_counts *b, const struct npu_model *m, int batch, double context, struct npu_work *out)
{
    struct npu_pass_op op[NPU_PASS_OPS_MAX];
    int n = npu_pass_ops(m, batch, batch, op);
    *out = (struct npu_work){0};
    for (int i = 0; i < n; i++) {
        const double n_time = op[i].times;
        struct npu_work w;
        enum npu_part part;
        if (divided_work(b, m, &op[i], context, &w, &part)) return -1;
        out->packets += n_time * w.packets, out->alone += n_time * w.alone;
        out->gathers += n_time * w.gathers, out->scatters += n_time * w.scatters;
        out->tile_pairs += n_time * w.tile_pairs, out->tile_calls += n_time * w.tile_calls;
        out->dma_bytes += n_time * w.dma_bytes, out->l2_bytes += n_time * w.l2_bytes;
    }
    return 0;
}

/* A pass's messages: the host takes one round trip for the first, and beside those on their way it only shows where
 * they take the NPU less time than the way takes. */
static void finish(const struct soc_profile *p, const struct npu_model *m, double n_pass, struct npu_pass *s)
{
    struct modelled all = {0};
    double n = npu_pass_messages(m) * n_pass, rounds = ceil(n / n_pass / NPU_AHEAD) - 1;
    struct npu_interval way = npu_cost_message_us(p, 1);
    for (int i = 0; i < NPU_MESSAGE; i++) add(&all, &s->part[i], 1);
    double low = way.low - (NPU_AHEAD - 1) * all.low_us / n, high = way.high - (NPU_AHEAD - 1) * all.high_us / n;
    struct modelled a = model_messages(p, n_pass * (1 + (low > 0 ? rounds * low / way.low : 0)));
    struct modelled z = model_messages(p, n_pass * (1 + (high > 0 ? rounds * high / way.high : 0)));
    s->part[NPU_MESSAGE] = (struct modelled){a.low_us, z.high_us, a.low_mj, z.high_mj, "host", "host"};
    for (int i = 0; i < NPU_PARTS; i++) add(&s->whole, &s->part[i], 1);
}

int npu_decode_pass(const struct npu_counts *b, const struct soc_profile *p, const struct npu_model *m, int batch,
    double context, struct npu_pass *out)
{
    struct npu_pass_op op[NPU_PASS_OPS_MAX];
    int n = npu_pass_ops(m, batch, batch, op);
    *out = (struct npu_pass){0};
    for (int i = 0; i < n; i++)
        if (add_op(b, p, m, &op[i], context, out)) return -1;
    finish(p, m, 1, out);
    return 0;
}

/* Attention of rows first .. first + n - 1: a group sees what is before its last row, and pays for masks in the
 * segments that its rows do not all see. */
static int add_causal(const struct npu_counts *b, const struct soc_profile *p, const struct npu_model *m, int first,
    int n, struct npu_pass *s)
{
    struct npu_work one, sum = {0};
    int per = TILE_ROWS * m->n_kv_head / m->n_head, groups = 0;
    const struct npu_count *masks = npu_count_of(b, "attention stage", "masks", 32, 4096, 128);
    if (!masks) return -1;
    double mask_packets = masks->work.packets / (4096.0 / SEGMENT) * m->n_kv_head;
    for (int r = 0; r < n; r += per, groups++) {
        int rows = n - r < per ? n - r : per, from = (first + r) / SEGMENT, to = (first + r + rows - 1) / SEGMENT + 1;
        if (group_work(b, m, rows, to * SEGMENT, &one)) return -1;
        sum.packets += one.packets + mask_packets * (to - from);
        sum.gathers += one.gathers, sum.tile_pairs += one.tile_pairs, sum.dma_bytes += one.dma_bytes;
    }
    const struct npu_op op = {.code = NPU_OP_ATTENTION, .m = (uint32_t)(groups * per), .n = (uint32_t)m->d_head};
    npu_divide(&op, first, m->n_kv_head, m->n_head / m->n_kv_head, &sum);
    add_work(p, &s->part[NPU_ATTENTION], &sum, m->n_layer);
    return 0;
}

/* Passes of up to NPU_CHUNK rows, of which the last takes one row to the head. */
int npu_prefill(
    const struct npu_counts *b, const struct soc_profile *p, const struct npu_model *m, int n, struct npu_pass *out)
{
    *out = (struct npu_pass){0};
    for (int at = 0; at < n; at += NPU_CHUNK) {
        int rows = n - at < NPU_CHUNK ? n - at : NPU_CHUNK;
        struct npu_pass_op op[NPU_PASS_OPS_MAX];
        int n_op = npu_pass_ops(m, rows, 1, op);
        for (int i = 0; i < n_op; i++) {
            if (op[i].code == NPU_OP_ATTENTION || (op[i].code == NPU_OP_HEAD && at + rows < n)) continue;
            if (add_op(b, p, m, &op[i], 0, out)) return -1;
        }
        if (add_causal(b, p, m, at, rows, out)) return -1;
    }
    finish(p, m, (n + NPU_CHUNK - 1) / NPU_CHUNK, out);
    return 0;
}

/* Of a matrix as it is packed. */
static double bytes_of(const char *kind, int k, int n)
{
    struct npu_weights w;
    return npu_weights_layout(npu_kind_of(kind), (uint32_t)k, (uint32_t)n, &w) ? 0 : w.bytes;
}

void npu_memory(const struct npu_model *m, int n_ctx, double bytes[3])
{
    const char *kind = m->weights;
    int d = m->d_model, kv = m->n_kv_head * m->d_head;
    bytes[0] = m->n_layer * (2 * bytes_of(kind, d, d) + 2 * bytes_of(kind, d, kv) + 2 * bytes_of(kind, d, m->d_ff) +
                                bytes_of(m->down, m->d_ff, d));
    bytes[1] = (m->tied ? 1 : 2) * bytes_of(m->head, d, m->n_vocab);
    bytes[2] = 4.0 * n_ctx * m->n_layer * kv;
}
