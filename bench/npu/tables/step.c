/* SPDX-License-Identifier: MIT
 *
 * Whole steps of a model as the sum of operations that were counted: in rows between two counted row counts linearly, in
 * keys along the line through two counted lengths (a segment of keys costs the same wherever it is), elements and outputs
 * of the vocabulary in proportion.
 */
#include "tables.h"

#include <string.h>

/* [TTS 7.1]: Q4_0, ffn_down Q8_0; the models of this project as they are, F16. */
const struct npu_model npu_models[NPU_MODELS] = {
    {"Qwen2.5-1.5B", "Q4_0", "Q8_0", "Q8_0", 28, 1536, 8960, 12, 2, 128, 151936, 1},
    {"Qwen2.5-3B", "Q4_0", "Q8_0", "Q8_0", 36, 2048, 11008, 16, 2, 128, 151936, 1},
    {"Qwen2.5-7B", "Q4_0", "Q8_0", "Q8_0", 28, 3584, 18944, 28, 4, 128, 152064, 0},
    {"Llama-3.2-1B", "Q4_0", "Q8_0", "Q8_0", 16, 2048, 8192, 32, 8, 64, 128256, 1},
    {"Llama-3.2-3B", "Q4_0", "Q8_0", "Q8_0", 28, 3072, 8192, 24, 8, 128, 128256, 1},
    {"abacus-xs", "F16", "F16", "F16", 3, 64, 192, 4, 2, 16, 1024, 1},
    {"abacus-1m", "F16", "F16", "F16", 4, 128, 384, 4, 2, 32, 1024, 1},
    {"abacus-3m", "F16", "F16", "F16", 4, 256, 768, 4, 2, 64, 1024, 1},
};

const char *const npu_part_names[NPU_PARTS] = {"products", "attention", "rows", "head", "message"};

enum { HEAD_OUTPUTS = 8192, ELEMENTS = 8192, SEGMENT = 64, TILE_ROWS = 32 };

/* a + t (b - a) in everything but threads and stages. */
static struct npu_work between(const struct npu_work *a, const struct npu_work *b, double t)
{
    struct npu_work w = *a;
    w.packets += t * (b->packets - a->packets);
    w.gathers += t * (b->gathers - a->gathers);
    w.scatters += t * (b->scatters - a->scatters);
    w.tile_pairs += t * (b->tile_pairs - a->tile_pairs);
    w.dma_bytes += t * (b->dma_bytes - a->dma_bytes);
    w.l2_bytes += t * (b->l2_bytes - a->l2_bytes);
    return w;
}

static struct npu_work times(const struct npu_work *a, double t)
{
    const struct npu_work none = {.threads = a->threads, .stages = a->stages};
    return between(&none, a, t);
}

/* An operation at m rows, between the two nearest that were counted. */
static int at_rows(
    const struct npu_bench *b, const char *kernel, const char *kind, double m, int k, int n, struct npu_work *out)
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

static void add_work(const struct npu_profile *p, struct modelled *sum, const struct npu_work *w, double n)
{
    struct modelled t = model_work(p, w);
    add(sum, &t, n);
}

/* n elements of an operation on rows. */
static int add_rows(
    const struct npu_bench *b, const struct npu_profile *p, const char *kernel, double n, struct npu_step *s)
{
    const struct npu_count *c = NULL;
    for (int i = 0; i < b->n_row && !c; i++)
        if (!strcmp(b->row[i].kernel, kernel) && b->row[i].n == ELEMENTS) c = &b->row[i];
    if (!c) return -1;
    struct npu_work w = times(&c->work, n / ELEMENTS);
    add_work(p, &s->part[NPU_ROWS], &w, 1);
    return 0;
}

/* One matrix, all layers. */
static int add_product(const struct npu_bench *b, const struct npu_profile *p, const struct npu_model *m,
    const char *kind, double rows, int k, int n, struct npu_step *s)
{
    struct npu_work w;
    if (at_rows(b, "gemm", kind, rows, k, n, &w)) return -1;
    add_work(p, &s->part[NPU_PRODUCTS], &w, m->n_layer);
    return 0;
}

static int add_products(
    const struct npu_bench *b, const struct npu_profile *p, const struct npu_model *m, double rows, struct npu_step *s)
{
    int d = m->d_model, kv = m->n_kv_head * m->d_head;
    return add_product(b, p, m, m->weights, rows, d, d, s) || add_product(b, p, m, m->weights, rows, d, d, s) ||
           add_product(b, p, m, m->weights, rows, d, kv, s) || add_product(b, p, m, m->weights, rows, d, kv, s) ||
           add_product(b, p, m, m->weights, rows, d, m->d_ff, s) ||
           add_product(b, p, m, m->weights, rows, d, m->d_ff, s) || add_product(b, p, m, m->down, rows, m->d_ff, d, s);
}

/* Rows of ffn_down on tiles are made to fit halves, before and after; ordinary ones do. */
static int add_fits(
    const struct npu_bench *b, const struct npu_profile *p, const struct npu_model *m, double rows, struct npu_step *s)
{
    return add_rows(b, p, "fit", rows * m->n_layer * m->d_ff, s) ||
           add_rows(b, p, "unfit", rows * m->n_layer * m->d_model, s);
}

static int add_row_operations(
    const struct npu_bench *b, const struct npu_profile *p, const struct npu_model *m, double rows, struct npu_step *s)
{
    double n = rows * m->n_layer, kv = m->n_kv_head * m->d_head;
    return add_rows(b, p, "rms_norm", 2 * n * m->d_model + rows * m->d_model, s) ||
           add_rows(b, p, "rope", n * (m->d_model + kv), s) || add_rows(b, p, "swiglu", n * m->d_ff, s) ||
           add_rows(b, p, "add", 2 * n * m->d_model, s) || add_fits(b, p, m, rows, s);
}

/* All KV heads of one layer for a group of `rows` rows of the batch. */
static int group_work(
    const struct npu_bench *b, const struct npu_model *m, double rows, double keys, struct npu_work *out)
{
    enum { SHORT = 1024, LONG = 4096 };
    struct npu_work a, z;
    char kind[32];
    snprintf(kind, sizeof kind, "%d x %d heads", m->n_head / m->n_kv_head, m->n_kv_head);
    if (at_rows(b, "attention step", kind, rows, SHORT, m->d_head, &a) ||
        at_rows(b, "attention step", kind, rows, LONG, m->d_head, &z))
        return -1;
    *out = between(&a, &z, (keys - SHORT) / (LONG - SHORT));
    out->stages = keys > SEGMENT ? (int)(keys / SEGMENT) : 1;
    out->threads = m->n_kv_head;
    return 0;
}

static int add_attention(const struct npu_bench *b, const struct npu_profile *p, const struct npu_model *m,
    double batch, double keys, struct npu_step *s)
{
    struct npu_work full = {0}, rest = {0}, all;
    int per = TILE_ROWS * m->n_kv_head / m->n_head, n_full = (int)(batch / per);
    double left = batch - n_full * per;
    keys = keys > SEGMENT ? keys : SEGMENT;
    if (n_full && group_work(b, m, per, keys, &full)) return -1;
    if (left > 0 && group_work(b, m, left < 1 ? 1 : left, keys, &rest)) return -1;
    const struct npu_work none = {0};
    all = times(&full, n_full);
    rest = between(&none, &rest, 1);
    all.packets += rest.packets, all.gathers += rest.gathers, all.tile_pairs += rest.tile_pairs;
    all.dma_bytes += rest.dma_bytes;
    all.stages = keys > SEGMENT ? (int)(keys / SEGMENT) : 1;
    all.threads = m->n_kv_head * (n_full + (left > 0));
    add_work(p, &s->part[NPU_ATTENTION], &all, m->n_layer);
    return 0;
}

static int add_head(
    const struct npu_bench *b, const struct npu_profile *p, const struct npu_model *m, double rows, struct npu_step *s)
{
    enum { COUNTED_ROWS = 16 };
    double passes = rows > COUNTED_ROWS ? rows / COUNTED_ROWS : 1;
    struct npu_work w;
    if (at_rows(b, "head", m->head, rows / passes, m->d_model, HEAD_OUTPUTS, &w)) return -1;
    double outputs = (double)m->n_vocab / HEAD_OUTPUTS;
    w = times(&w, outputs);
    w.stages = outputs > 1 ? (uint32_t)(w.stages * outputs) : w.stages;
    add_work(p, &s->part[NPU_HEAD], &w, passes);
    return 0;
}

static void finish(const struct npu_profile *p, double messages, struct npu_step *s)
{
    struct modelled t = model_messages(p, messages);
    add(&s->part[NPU_MESSAGE], &t, 1);
    for (int i = 0; i < NPU_PARTS; i++) add(&s->whole, &s->part[i], 1);
}

int npu_decode_step(const struct npu_bench *b, const struct npu_profile *p, const struct npu_model *m, double batch,
    double context, struct npu_step *out)
{
    *out = (struct npu_step){0};
    if (add_products(b, p, m, batch, out) || add_row_operations(b, p, m, batch, out) ||
        add_attention(b, p, m, batch, context, out) || add_head(b, p, m, batch, out))
        return -1;
    finish(p, 1, out);
    return 0;
}

/* Attention of rows first .. first + n - 1: a group sees what is before its last row, and pays for masks in the segments
 * that its rows do not all see. */
static int add_causal(const struct npu_bench *b, const struct npu_profile *p, const struct npu_model *m, int first,
    int n, struct npu_step *s)
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
    sum.stages = first / SEGMENT + 1;
    sum.threads = m->n_kv_head * groups;
    add_work(p, &s->part[NPU_ATTENTION], &sum, m->n_layer);
    return 0;
}

int npu_prefill(
    const struct npu_bench *b, const struct npu_profile *p, const struct npu_model *m, int n, struct npu_step *out)
{
    *out = (struct npu_step){0};
    for (int at = 0; at < n; at += NPU_CHUNK) {
        int rows = n - at < NPU_CHUNK ? n - at : NPU_CHUNK;
        if (add_products(b, p, m, rows, out) || add_row_operations(b, p, m, rows, out) ||
            add_causal(b, p, m, at, rows, out))
            return -1;
    }
    if (add_head(b, p, m, 1, out)) return -1;
    finish(p, (n + NPU_CHUNK - 1) / NPU_CHUNK, out);
    return 0;
}

/* Bytes of a weight as it is packed. */
static double weight_bytes(const char *kind)
{
    return !strcmp(kind, "Q4_0") ? 18 / 32.0 : !strcmp(kind, "Q8_0") ? 34 / 32.0 : 2;
}

void npu_memory(const struct npu_model *m, int n_ctx, double bytes[3])
{
    double d = m->d_model, kv = m->n_kv_head * m->d_head;
    double most = 2 * d * d + 2 * d * kv + 2 * d * m->d_ff, down = d * m->d_ff;
    bytes[0] = m->n_layer * (most * weight_bytes(m->weights) + down * weight_bytes(m->down));
    bytes[1] = (m->tied ? 1 : 2) * d * m->n_vocab * weight_bytes(m->head);
    bytes[2] = 4.0 * n_ctx * m->n_layer * kv;
}
