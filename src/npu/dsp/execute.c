/* SPDX-License-Identifier: MIT
 *
 * One operation of a message: cache maintenance around it, buffers as pointers, the kernel.
 */
#include "npu/dsp/kernels.h"

/* Bytes of m rows, of which the last has n elements. */
static uint32_t span(uint32_t m, uint32_t stride, uint32_t row_bytes)
{
    return (m - 1) * stride + row_bytes;
}

static void take(struct isa *isa, const struct npu_op *op, uint32_t offset, uint32_t bytes)
{
    if (op->flags & NPU_FROM_HOST && offset) cache_invalidate(isa_ptr(offset), bytes);
    (void)isa;
}

static void give(struct isa *isa, const struct npu_op *op, uint32_t bytes)
{
    if (op->flags & NPU_TO_HOST) cache_flush(isa_ptr(op->dst), bytes);
    (void)isa;
}

static uint32_t dequant(struct isa *isa, const struct npu_op *op)
{
    struct npu_weights w;
    const int planes = npu_is_planes(op->kind);
    uint32_t stride;
    if (npu_weights_layout(op->kind, op->k, op->n, &w)) return NPU_BAD_SHAPE;
    take(isa, op, op->weights, w.bytes);
    for (uint32_t b = 0; !planes && b < w.n_blocks; b++)
        npu_dequant(
            isa, w.kind, isa_ptr(op->dst + b * op->dst_stride), isa_ptr(op->weights + b * w.block_bytes), w.n_units);
    for (uint32_t b = 0; planes && b < npu_planes_blocks(&w); b++) {
        uint32_t at = op->weights + npu_planes_unit(&w, 0, b, &stride);
        npu_planes_dequant(
            isa, &w, isa_ptr(op->dst + 4 * b * op->dst_stride), op->dst_stride, isa_ptr(at), stride, w.n_units);
    }
    give(isa, op, span(npu_weights_outputs(&w) / NPU_COLS, op->dst_stride, w.k * 64));
    return NPU_OK;
}

/* A thread's share of an operation: its part of npu_op_parts. */
struct shared {
    const struct npu_op *op;
    const struct npu_machine *machine;
    const struct npu_weights *w;
    struct npu_shares parts;
    struct npu_scratch_plan scratch; /* of thread 0; the others' follow */
};

/* Runs it on as many threads as there are parts. */
static void run_shared(struct isa *isa, struct shared *s, isa_thread *fn)
{
    uint32_t n = npu_op_threads(s->op, s->machine);
    s->parts = npu_shares(npu_op_parts(s->op), n);
    isa_threads(n, fn, s);
}

static uint32_t gemm(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    uint32_t blocks = (op->n + 31) / 32;
    if (!op->m) return NPU_BAD_SHAPE;
    take(isa, op, op->src, span(op->m, op->src_stride, 4 * op->k));
    take(isa, op, op->bias, 128 * blocks);
    uint32_t status = npu_gemm(isa, machine, op);
    if (status == NPU_OK) give(isa, op, span(op->m, op->dst_stride, 128 * blocks));
    return status;
}

static void share_of_tables(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct shared *s = user;
    const struct npu_op *op = s->op;
    uint32_t each = npu_op_row_parts(op), from = npu_share_start(s->parts, thread),
             to = npu_share_start(s->parts, thread + 1);
    uint8_t *lut = isa_ptr(s->machine->tcm_start + s->scratch.at);
    (void)n;
    for (uint32_t r = 0, at = 0; at < to; r++, at += each) {
        uint32_t first = from > at ? from - at : 0, last = to - at < each ? to - at : each;
        if (first < last)
            npu_tables(isa, lut + (size_t)r * npu_lut_bytes(each), isa_ptr(op->src) + (size_t)r * op->src_stride, op->k,
                first, last);
    }
}

static uint32_t tables(struct isa *isa, struct npu_machine *machine, const struct npu_op *op)
{
    struct shared s = {.op = op, .machine = machine};
    if (!op->m || op->m > NPU_LOOKUP_ROWS || !op->k || op->k % 32) return NPU_BAD_SHAPE;
    if (npu_scratch_plan((uint64_t)op->m * npu_lut_bytes(npu_op_row_parts(op)), machine, &s.scratch))
        return NPU_NO_ROOM;
    take(isa, op, op->src, span(op->m, op->src_stride, 4 * op->k));
    run_shared(isa, &s, share_of_tables);
    machine->tables_m = op->m, machine->tables_k = op->k;
    return NPU_OK;
}

static uint32_t lookup(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    uint32_t bytes = (op->n + 31) / 32 * 128;
    if (!op->m || machine->tables_m != op->m || machine->tables_k != op->k) return NPU_NO_TABLES;
    take(isa, op, op->bias, bytes);
    uint32_t status = npu_lookup(isa, machine, op);
    if (status == NPU_OK) give(isa, op, span(op->m, op->dst_stride, bytes));
    return status;
}

/* Vectors of one row of an element-wise operation; whole rows of rms_norm. */
static void share_of_rows(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct shared *s = user;
    const struct npu_op *op = s->op;
    int norm = op->code == NPU_OP_RMS_NORM;
    uint32_t start = npu_share_start(s->parts, thread), end = npu_share_start(s->parts, thread + 1);
    uint32_t first = norm ? 0 : start, n_elem = norm ? op->n : 32 * (end - start), second = norm ? 0 : op->src_stride;
    (void)n;
    for (uint32_t r = norm ? start : 0; r < (norm ? end : op->m); r++) {
        uint8_t *y = isa_ptr(op->dst) + (size_t)r * op->dst_stride + 128 * first;
        const uint8_t *a = isa_ptr(op->src) + (size_t)r * op->src_stride + 128 * first;
        const uint8_t *b = isa_ptr(op->weights) + (size_t)r * second + 128 * first;
        switch (op->code) {
        case NPU_OP_ADD: npu_add(isa, y, a, b, n_elem); break;
        case NPU_OP_SWIGLU: npu_swiglu(isa, y, a, b, n_elem); break;
        case NPU_OP_GEGLU: npu_geglu(isa, y, a, b, n_elem); break;
        case NPU_OP_RELU2: npu_relu2(isa, y, a, b, n_elem); break;
        default: npu_rms_norm(isa, y, a, b, n_elem, op->param); break;
        }
    }
}

/* m rows of n: element-wise operations, rms_norm. */
static uint32_t rows(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct shared s = {.op = op, .machine = machine};
    if (!op->m || !op->n || op->n % 32) return NPU_BAD_SHAPE;
    take(isa, op, op->src, span(op->m, op->src_stride, 4 * op->n));
    take(isa, op, op->weights, span(op->m, op->code == NPU_OP_RMS_NORM ? 0 : op->src_stride, 4 * op->n));
    run_shared(isa, &s, share_of_rows);
    give(isa, op, span(op->m, op->dst_stride, 4 * op->n));
    return NPU_OK;
}

static void share_of_fit(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct shared *s = user;
    const struct npu_op *op = s->op;
    (void)n;
    for (uint32_t r = npu_share_start(s->parts, thread); r < npu_share_start(s->parts, thread + 1); r++) {
        uint8_t *y = isa_ptr(op->dst) + (size_t)r * op->dst_stride, *factor = isa_ptr(op->weights) + (size_t)r * 128;
        if (op->code == NPU_OP_FIT)
            npu_fit(isa, y, factor, op->n);
        else
            npu_unfit(isa, y, factor, op->n);
    }
}

static uint32_t fit(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct shared s = {.op = op, .machine = machine};
    if (!op->m || !op->n || op->n % 32) return NPU_BAD_SHAPE;
    take(isa, op, op->dst, span(op->m, op->dst_stride, 4 * op->n));
    if (op->code == NPU_OP_UNFIT) take(isa, op, op->weights, op->m * 128);
    run_shared(isa, &s, share_of_fit);
    if (op->flags & NPU_TO_HOST) cache_flush(isa_ptr(op->weights), op->m * 128);
    give(isa, op, span(op->m, op->dst_stride, 4 * op->n));
    return NPU_OK;
}

/* Whole periods, row after row: a partner is in the same one. */
static void share_of_rope(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct shared *s = user;
    const struct npu_op *op = s->op;
    const uint32_t period = op->param, each = npu_op_row_parts(op);
    uint32_t from = npu_share_start(s->parts, thread), to = npu_share_start(s->parts, thread + 1);
    uint8_t *scratch = isa_ptr(s->machine->tcm_start + s->scratch.at) + thread * (size_t)npu_rope_scratch(op->n);
    (void)n;
    for (uint32_t r = 0, at = 0; at < to; r++, at += each) {
        uint32_t first = from > at ? from - at : 0, last = to - at < each ? to - at : each;
        if (first >= last) continue;
        npu_rope(isa, isa_ptr(op->dst) + (size_t)r * op->dst_stride + (size_t)first * 4 * period,
            isa_ptr(op->src) + (size_t)r * op->src_stride + (size_t)first * 4 * period, isa_ptr(op->weights),
            isa_ptr(op->weights) + 4 * period + (size_t)(op->rows + r) * 8 * period, (last - first) * period, period,
            op->k, scratch);
    }
}

static uint32_t rope(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct shared s = {.op = op, .machine = machine};
    const uint32_t period = op->param;
    if (!op->m || !op->n || !period || period % 32 || op->n % period || op->k > 1024) return NPU_BAD_SHAPE;
    if (npu_scratch_plan(npu_op_threads(op, machine) * npu_rope_scratch(op->n), machine, &s.scratch))
        return NPU_NO_ROOM;
    take(isa, op, op->src, span(op->m, op->src_stride, 4 * op->n));
    take(isa, op, op->weights, 4 * period + (op->rows + op->m) * 8 * period);
    run_shared(isa, &s, share_of_rope);
    give(isa, op, span(op->m, op->dst_stride, 4 * op->n));
    return NPU_OK;
}

/* Weights of which outputs are taken one by one, or by slices: blocks of 32.  0: fine. */
static int rows_layout(const struct npu_op *op, struct npu_weights *w)
{
    return op->k % 32 || npu_weights_layout(op->kind, npu_weights_k(op->k), op->n, w) || w->cols != NPU_COLS;
}

static uint32_t embed(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct npu_weights w;
    struct npu_scratch_plan plan;
    if (!op->m || rows_layout(op, &w)) return NPU_BAD_SHAPE;
    if (npu_scratch_plan(npu_embed_scratch(&w), machine, &plan)) return NPU_NO_ROOM;
    take(isa, op, op->rows, 4 * op->m);
    for (uint32_t r = 0; r < op->m; r++) {
        uint32_t token = s_load_u32(isa_ptr(op->rows) + 4 * r);
        if (token >= op->n) return NPU_BAD_SHAPE;
        npu_embed(isa, &w, isa_ptr(op->dst) + (size_t)r * op->dst_stride, isa_ptr(op->weights), token, op->k, op->param,
            isa_ptr(machine->tcm_start + plan.at));
    }
    give(isa, op, span(op->m, op->dst_stride, 4 * op->k));
    return NPU_OK;
}

/* The rows a table names; a source row may be anywhere. */
static uint32_t take_rows(struct isa *isa, const struct npu_op *op)
{
    if (!op->m || !op->n) return NPU_BAD_SHAPE;
    take(isa, op, op->rows, 4 * op->m);
    take(isa, op, op->dst, span(op->m, op->dst_stride, 4 * op->n)); /* its lines are written in parts */
    for (uint32_t r = 0; r < op->m; r++) {
        uint32_t from = op->src + s_load_u32(isa_ptr(op->rows) + 4 * r) * op->src_stride;
        take(isa, op, from, 4 * op->n);
        npu_copy(isa, isa_ptr(op->dst) + (size_t)r * op->dst_stride, isa_ptr(from), 4 * op->n);
    }
    give(isa, op, span(op->m, op->dst_stride, 4 * op->n));
    return NPU_OK;
}

/* Both sides of one row and head.  A slot may share its cache lines with others, which the host may have written; DMA
 * reads memory: so lines are fetched anew before and written back behind. */
static void append(struct isa *isa, const struct npu_op *op, uint32_t slot, uint32_t from, const uint8_t *x)
{
    uint8_t *to = isa_ptr(slot + from);
    cache_invalidate(to, 2 * op->n);
    npu_store_halves(isa, to, x, op->n);
    cache_flush(to, 2 * op->n);
}

static uint32_t kv_append(struct isa *isa, const struct npu_op *op)
{
    if (!op->m || !op->n || op->n % 8 || !op->k) return NPU_BAD_SHAPE;
    take(isa, op, op->rows, op->m * sizeof(struct npu_slot));
    take(isa, op, op->src, span(op->m, op->src_stride, 4 * op->n * op->k));
    take(isa, op, op->weights, span(op->m, op->src_stride, 4 * op->n * op->k));
    for (uint32_t r = 0; r < op->m; r++) {
        const uint8_t *slot = isa_ptr(op->rows) + r * sizeof(struct npu_slot);
        for (uint32_t h = 0; h < op->k; h++) {
            uint32_t from = op->param * s_load_u32(slot + 8) + h * s_load_u32(slot + 12);
            uint32_t at = r * op->src_stride + 4 * op->n * h;
            append(isa, op, s_load_u32(slot), from, isa_ptr(op->src + at));
            append(isa, op, s_load_u32(slot + 4), from, isa_ptr(op->weights + at));
        }
    }
    return NPU_OK;
}

/* One slice of the vocabulary: logits of all rows to the scratch. */
static uint32_t slice(
    struct isa *isa, const struct npu_machine *machine, const struct npu_op *op, uint32_t first, uint32_t block_bytes)
{
    struct npu_op s = {.m = op->m,
        .n = op->n - first < NPU_HEAD_SLICE ? op->n - first : NPU_HEAD_SLICE,
        .k = op->k,
        .kind = op->kind,
        .src = op->src,
        .src_stride = op->src_stride,
        .weights = op->weights + first / NPU_COLS * block_bytes,
        .dst = op->scratch,
        .dst_stride = NPU_HEAD_SCRATCH};
    return npu_gemm(isa, machine, &s);
}

static uint32_t head(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct npu_weights w;
    uint32_t status = NPU_OK;
    if (!op->m || rows_layout(op, &w)) return NPU_BAD_SHAPE;
    take(isa, op, op->src, span(op->m, op->src_stride, 4 * op->k));
    take(isa, op, op->rows, op->m * sizeof(struct npu_head_row));
    for (uint32_t r = 0; r < op->m; r++)
        npu_head_begin(isa, isa_ptr(op->scratch) + (size_t)r * NPU_HEAD_SCRATCH,
            isa_ptr(op->dst) + r * sizeof(struct npu_head_result));
    for (uint32_t first = 0; first < op->n && status == NPU_OK; first += NPU_HEAD_SLICE) {
        uint32_t left = op->n - first < NPU_HEAD_SLICE ? op->n - first : NPU_HEAD_SLICE;
        status = slice(isa, machine, op, first, w.block_bytes);
        if (status == NPU_OK) npu_head_slice(isa, machine, op, first, (left + 31) / 32);
    }
    for (uint32_t r = 0; r < op->m; r++)
        npu_head_end(isa, isa_ptr(op->scratch) + (size_t)r * NPU_HEAD_SCRATCH,
            isa_ptr(op->dst) + r * sizeof(struct npu_head_result));
    give(isa, op, op->m * sizeof(struct npu_head_result));
    return status;
}

static uint32_t exponential(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    uint8_t *y = isa_ptr(op->dst), *tcm = isa_ptr(machine->tcm_start);
    struct npu_scratch_plan plan;
    const uint8_t *x = isa_ptr(op->src);
    if (!op->n || op->n % 64) return NPU_BAD_SHAPE;
    if (op->kind == NPU_EXP_TABLE && machine->tcm_kept < 65536) return NPU_NO_ROOM;
    if (npu_scratch_plan(4 * NPU_LINE, machine, &plan)) return NPU_NO_ROOM;
    take(isa, op, op->src, 2 * op->n);
    switch (op->kind) {
    case NPU_EXP_TABLE: npu_exp_by_table(isa, y, x, op->n, tcm, tcm + plan.at); break;
    case NPU_EXP_F16: npu_exp_by_f16(isa, y, x, op->n); break;
    case NPU_EXP_F32: npu_exp_by_f32(isa, y, x, op->n); break;
    default: return NPU_BAD_OP;
    }
    give(isa, op, 2 * op->n);
    return NPU_OK;
}

static uint32_t attention(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    if (!op->m) return NPU_BAD_SHAPE;
    take(isa, op, op->rows, sizeof(struct npu_attention));
    uint32_t n_heads = s_load_u32(isa_ptr(op->rows) + 24) * s_load_u32(isa_ptr(op->rows) + 28);
    uint32_t bytes = 4 * n_heads * op->n;
    take(isa, op, op->rows, s_load_u32(isa_ptr(op->rows)));
    take(isa, op, op->bias, 4 * n_heads);
    take(isa, op, op->src, span(op->m, op->src_stride, bytes + (op->n % 32 ? NPU_LINE : 0))); /* whole vectors */
    uint32_t status = npu_attention(isa, machine, op);
    if (status == NPU_OK) give(isa, op, span(op->m, op->dst_stride, bytes));
    return status;
}

static uint32_t read_clock(struct isa *isa, const struct npu_op *op)
{
    const uint64_t now[2] = {isa_cycles(), isa_ticks()};
    uint8_t *to = isa_ptr(op->dst);
    take(isa, op, op->dst, sizeof now); /* its line is written in part */
    for (uint32_t i = 0; i < 4; i++) s_store_u32(to + 4 * i, (uint32_t)(now[i / 2] >> 32 * (i % 2)));
    give(isa, op, sizeof now);
    return NPU_OK;
}

static uint32_t read_memory(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    take(isa, op, op->src, op->k);
    uint32_t status = npu_read(isa, machine, op);
    if (status == NPU_OK) give(isa, op, 128 * (1 + npu_machine_threads(machine)));
    return status;
}

/* Operations that leave TCM as it is, or read tables there. */
static int keeps_tables(uint32_t code)
{
    return code == NPU_OP_NOP || code == NPU_OP_LOOKUP || code == NPU_OP_INVALIDATE || code == NPU_OP_FLUSH ||
           code == NPU_OP_CLOCK;
}

uint32_t npu_execute(struct isa *isa, struct npu_machine *machine, const struct npu_op *op)
{
    if (!keeps_tables(op->code)) machine->tables_m = 0;
    switch (op->code) {
    case NPU_OP_NOP: return NPU_OK;
    case NPU_OP_DEQUANT: return dequant(isa, op);
    case NPU_OP_GEMM: return gemm(isa, machine, op);
    case NPU_OP_ADD:
    case NPU_OP_SWIGLU:
    case NPU_OP_GEGLU:
    case NPU_OP_RELU2:
    case NPU_OP_RMS_NORM: return rows(isa, machine, op);
    case NPU_OP_FIT:
    case NPU_OP_UNFIT: return fit(isa, machine, op);
    case NPU_OP_ROPE: return rope(isa, machine, op);
    case NPU_OP_EXP16: return exponential(isa, machine, op);
    case NPU_OP_ATTENTION: return attention(isa, machine, op);
    case NPU_OP_EMBED: return embed(isa, machine, op);
    case NPU_OP_TAKE: return take_rows(isa, op);
    case NPU_OP_KV_APPEND: return kv_append(isa, op);
    case NPU_OP_HEAD: return head(isa, machine, op);
    case NPU_OP_TABLES: return tables(isa, machine, op);
    case NPU_OP_LOOKUP: return lookup(isa, machine, op);
    case NPU_OP_CLOCK: return read_clock(isa, op);
    case NPU_OP_READ: return read_memory(isa, machine, op);
    case NPU_OP_INVALIDATE: cache_invalidate(isa_ptr(op->src), op->k); return NPU_OK;
    case NPU_OP_FLUSH: cache_flush(isa_ptr(op->src), op->k); return NPU_OK;
    case NPU_OP_EXP_TABLE:
        if (machine->tcm_kept < 65536) return NPU_NO_ROOM;
        npu_exp_table(isa, isa_ptr(machine->tcm_start));
        return NPU_OK;
    default: return NPU_BAD_OP;
    }
}
