/* SPDX-License-Identifier: MIT
 *
 * Does an operation stay inside of shared memory?  Every buffer of every operation, as execute.c and the kernels use
 * it, in 64-bit arithmetic; then the tables that an operation names.
 */
#include "npu/dsp/kernels.h"
#include "npu/dsp/server.h"

enum { MOST_ROWS = 1 << 16, MOST_SIZE = 1 << 24 };

struct judge {
    struct isa *isa;
    const struct npu_memory *memory;
    const struct npu_op *op;
    uint32_t table_bytes; /* at op->rows: nothing else may be written there, or what was judged would change */
};

static int inside(struct judge *j, uint64_t at, uint64_t bytes)
{
    uint64_t end = (uint64_t)j->memory->end - 128;
    return at % 4 == 0 && at >= j->memory->first && at <= end && bytes <= end - at;
}

/* Memory that is written. */
static int writable(struct judge *j, uint64_t at, uint64_t bytes)
{
    return inside(j, at, bytes) && (at >= (uint64_t)j->op->rows + j->table_bytes || at + bytes <= j->op->rows);
}

/* m rows of `bytes`, `stride` apart. */
static int rows(struct judge *j, uint32_t at, uint32_t m, uint32_t stride, uint64_t bytes)
{
    return stride % 4 == 0 && m && inside(j, at, (uint64_t)(m - 1) * stride + bytes);
}

static int dst_rows(struct judge *j, uint64_t bytes)
{
    const struct npu_op *op = j->op;
    uint64_t all = (uint64_t)(op->m - 1) * op->dst_stride + bytes;
    return rows(j, op->dst, op->m, op->dst_stride, bytes) && writable(j, op->dst, all);
}

static int src_rows(struct judge *j, uint64_t bytes)
{
    return rows(j, j->op->src, j->op->m, j->op->src_stride, bytes);
}

/* A table of the operation, ready to be read. */
static const uint8_t *table(struct judge *j, uint64_t bytes)
{
    struct isa *isa = j->isa;
    if (j->op->rows % 8 || !inside(j, j->op->rows, bytes)) return 0;
    if (j->op->flags & NPU_FROM_HOST) cache_invalidate(isa_ptr(j->op->rows), (uint32_t)bytes);
    j->table_bytes = (uint32_t)bytes;
    return isa_ptr(j->op->rows);
}

static uint32_t word(struct judge *j, const uint8_t *p, uint32_t i)
{
    struct isa *isa = j->isa;
    (void)isa;
    return s_load_u32(p + 4 * i);
}

static int weights(struct judge *j, uint32_t k, struct npu_weights *w)
{
    if (npu_weights_layout(j->op->kind, k, j->op->n, w)) return 0;
    return inside(j, j->op->weights, w->bytes);
}

static int product(struct judge *j)
{
    const struct npu_op *op = j->op;
    struct npu_weights w;
    if (!weights(j, npu_weights_k(op->k), &w)) return 0;
    if (op->bias && !inside(j, op->bias, 128 * (uint64_t)w.n_blocks)) return 0;
    return src_rows(j, 4 * (uint64_t)op->k) && dst_rows(j, 128 * (uint64_t)w.n_blocks);
}

/* Its rows are in TCM. */
static int lookup(struct judge *j)
{
    const struct npu_op *op = j->op;
    struct npu_weights w;
    if (!weights(j, op->k, &w) || (op->bias && !inside(j, op->bias, 128 * (uint64_t)w.n_blocks))) return 0;
    return dst_rows(j, 128 * (uint64_t)w.n_blocks);
}

static int dequant(struct judge *j)
{
    struct npu_weights w;
    if (!weights(j, j->op->k, &w)) return 0;
    return rows(j, j->op->dst, npu_weights_outputs(&w) / NPU_COLS, j->op->dst_stride, 64 * (uint64_t)w.k);
}

/* `second`: bytes between rows of the second operand. */
static int elements(struct judge *j, uint32_t second)
{
    uint64_t bytes = 4 * (uint64_t)j->op->n;
    return src_rows(j, bytes) && rows(j, j->op->weights, j->op->m, second, bytes) && dst_rows(j, bytes);
}

static int fit(struct judge *j)
{
    return dst_rows(j, 4 * (uint64_t)j->op->n) && rows(j, j->op->weights, j->op->m, 128, 128);
}

static int rope(struct judge *j)
{
    uint64_t period = j->op->param, bytes = 4 * (uint64_t)j->op->n;
    return period <= MOST_SIZE && src_rows(j, bytes) && dst_rows(j, bytes) &&
           inside(j, j->op->weights, 4 * period + ((uint64_t)j->op->rows + j->op->m) * 8 * period);
}

static int embed(struct judge *j)
{
    struct npu_weights w;
    return weights(j, npu_weights_k(j->op->k), &w) && inside(j, j->op->rows, 4 * (uint64_t)j->op->m) &&
           dst_rows(j, 4 * (uint64_t)j->op->k);
}

static int take_rows(struct judge *j)
{
    const uint8_t *t = table(j, 4 * (uint64_t)j->op->m);
    uint64_t bytes = 4 * (uint64_t)j->op->n;
    for (uint32_t r = 0; t && r < j->op->m; r++)
        if (!inside(j, j->op->src + (uint64_t)word(j, t, r) * j->op->src_stride, bytes)) return 0;
    return t && dst_rows(j, bytes);
}

/* Keys and values of a slot: of a layer all of `heads` heads, `bytes` of each, as one range. */
static int slot(struct judge *j, const uint8_t *p, uint32_t layer, uint32_t heads, uint64_t bytes)
{
    uint64_t further = (uint64_t)layer * word(j, p, 2);
    if (word(j, p, 2) % 4 || word(j, p, 3) % 4 || further > UINT32_MAX) return 0;
    bytes += (uint64_t)(heads - 1) * word(j, p, 3);
    return writable(j, word(j, p, 0) + further, bytes) && writable(j, word(j, p, 1) + further, bytes);
}

static int kv_append(struct judge *j)
{
    const struct npu_op *op = j->op;
    uint64_t bytes = 4 * (uint64_t)op->n * op->k;
    const uint8_t *t = table(j, op->m * (uint64_t)sizeof(struct npu_slot));
    if (!t || !op->k || !src_rows(j, bytes) || !rows(j, op->weights, op->m, op->src_stride, bytes)) return 0;
    for (uint32_t r = 0; r < op->m; r++)
        if (!slot(j, t + r * sizeof(struct npu_slot), op->param, op->k, 2 * (uint64_t)op->n)) return 0;
    return 1;
}

static int head(struct judge *j)
{
    const struct npu_op *op = j->op;
    struct npu_weights w;
    uint64_t scratch = (uint64_t)op->m * NPU_HEAD_SCRATCH;
    const uint8_t *t = table(j, op->m * (uint64_t)sizeof(struct npu_head_row));
    if (!t || !weights(j, npu_weights_k(op->k), &w) || !src_rows(j, 4 * (uint64_t)op->k)) return 0;
    if (!writable(j, op->scratch, scratch)) return 0;
    for (uint32_t r = 0; r < op->m; r++) {
        uint32_t logits = word(j, t, 3 * r + 2);
        if (logits && !writable(j, logits, 128 * (uint64_t)w.n_blocks)) return 0;
    }
    return writable(j, op->dst, op->m * (uint64_t)sizeof(struct npu_head_result));
}

/* [first, first + n) of entries of `size` bytes from `at` on, inside of a table of `bytes`. */
static int entries(uint32_t bytes, uint32_t at, uint32_t first, uint32_t n, uint32_t size)
{
    return at % 4 == 0 && at + ((uint64_t)first + n) * size <= bytes;
}

/* A segment of the attention table t: its runs and the masks of n_rows rows. */
static int segment(struct judge *j, const uint8_t *t, const uint8_t *s, uint32_t n_rows)
{
    uint32_t bytes = word(j, t, 0), n_runs = word(j, s, 1);
    if (!entries(bytes, word(j, t, 4), word(j, s, 0), n_runs, sizeof(struct npu_run))) return 0;
    if (!entries(bytes, word(j, t, 5), word(j, s, 2), n_rows, 8)) return 0;
    const uint8_t *run = t + word(j, t, 4) + word(j, s, 0) * sizeof(struct npu_run);
    for (uint32_t i = 0; i < n_runs; i++, run += sizeof(struct npu_run)) {
        uint32_t n = word(j, run, 4) < NPU_SEGMENT ? word(j, run, 4) : NPU_SEGMENT;
        if (!slot(j, run, j->op->k, word(j, t, 6), 2 * (uint64_t)j->op->n * n)) return 0;
    }
    return 1;
}

static int group(struct judge *j, const uint8_t *t, const uint8_t *g)
{
    uint32_t row = word(j, g, 0), n_rows = word(j, g, 1), first = word(j, g, 2), n = word(j, g, 3);
    if ((uint64_t)row + n_rows > j->op->m || n_rows > NPU_ATTENTION_ROWS) return 0;
    if (!entries(word(j, t, 0), word(j, t, 3), first, n, sizeof(struct npu_segment))) return 0;
    for (uint32_t i = first; i < first + n; i++)
        if (!segment(j, t, t + word(j, t, 3) + i * sizeof(struct npu_segment), n_rows)) return 0;
    return 1;
}

static int attention(struct judge *j)
{
    const struct npu_op *op = j->op;
    const uint8_t *t = table(j, sizeof(struct npu_attention));
    uint32_t bytes = t ? word(j, t, 0) : 0;
    if (bytes < sizeof(struct npu_attention) || !table(j, bytes)) return 0;
    uint32_t n_kv = word(j, t, 6), n_heads = word(j, t, 7), n_groups = word(j, t, 1), groups = word(j, t, 2);
    if (!n_kv || n_kv > MOST_ROWS || !n_heads || n_heads > NPU_ATTENTION_ROWS || word(j, t, 5) % 8) return 0;
    uint64_t all = (uint64_t)n_kv * n_heads;
    if (!src_rows(j, 4 * all * op->n) || !dst_rows(j, 4 * all * op->n)) return 0;
    if (op->bias && !inside(j, op->bias, 4 * all)) return 0;
    if (!entries(bytes, groups, 0, n_groups, sizeof(struct npu_group))) return 0;
    for (uint32_t i = 0; i < n_groups; i++)
        if (!group(j, t, t + groups + i * sizeof(struct npu_group))) return 0;
    return 1;
}

static int judge(struct judge *j)
{
    const struct npu_op *op = j->op;
    if (op->code == NPU_OP_INVALIDATE || op->code == NPU_OP_FLUSH) return inside(j, op->src, op->k);
    if (op->m > MOST_ROWS || op->n > MOST_SIZE || op->k > MOST_SIZE) return 0;
    switch (op->code) {
    case NPU_OP_NOP:
    case NPU_OP_EXP_TABLE: return 1;
    case NPU_OP_DEQUANT: return dequant(j);
    case NPU_OP_GEMM: return product(j);
    case NPU_OP_ADD:
    case NPU_OP_SWIGLU:
    case NPU_OP_GEGLU:
    case NPU_OP_RELU2: return elements(j, op->src_stride);
    case NPU_OP_RMS_NORM: return elements(j, 0);
    case NPU_OP_FIT:
    case NPU_OP_UNFIT: return fit(j);
    case NPU_OP_ROPE: return rope(j);
    case NPU_OP_EXP16: return inside(j, op->src, 2 * (uint64_t)op->n) && inside(j, op->dst, 2 * (uint64_t)op->n);
    case NPU_OP_ATTENTION: return attention(j);
    case NPU_OP_EMBED: return embed(j);
    case NPU_OP_TAKE: return take_rows(j);
    case NPU_OP_KV_APPEND: return kv_append(j);
    case NPU_OP_HEAD: return head(j);
    case NPU_OP_TABLES: return src_rows(j, 4 * (uint64_t)op->k);
    case NPU_OP_LOOKUP: return lookup(j);
    case NPU_OP_CLOCK: return inside(j, op->dst, 16);
    case NPU_OP_READ: return inside(j, op->src, op->k) && inside(j, op->dst, 128 * (1 + NPU_THREADS_MAX));
    default: return 0;
    }
}

uint32_t npu_op_check(struct isa *isa, const struct npu_memory *memory, const struct npu_op *op)
{
    struct judge j = {isa, memory, op, 0};
    return judge(&j) ? NPU_OK : NPU_OUT_OF_WINDOW;
}
