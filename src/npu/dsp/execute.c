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
    if (npu_weights_layout(op->kind, op->k, op->n, &w)) return NPU_BAD_SHAPE;
    take(isa, op, op->weights, w.n_blocks * w.block_bytes);
    for (uint32_t b = 0; b < w.n_blocks; b++)
        npu_dequant(
            isa, w.kind, isa_ptr(op->dst + b * op->dst_stride), isa_ptr(op->weights + b * w.block_bytes), w.n_units);
    give(isa, op, span(w.n_blocks, op->dst_stride, w.k * 64));
    return NPU_OK;
}

static uint32_t quantize(struct isa *isa, const struct npu_op *op)
{
    struct npu_act8 a;
    if (!op->k || op->k % NPU_UNIT_K) return NPU_BAD_SHAPE;
    npu_act8_layout(op->k, &a);
    take(isa, op, op->src, 4 * op->k);
    take(isa, op, op->dst, a.bytes); /* its lines are written in parts */
    npu_quantize(isa, isa_ptr(op->dst), isa_ptr(op->src), op->k);
    give(isa, op, a.bytes);
    return NPU_OK;
}

/* Weights stream through TCM, two chunks ahead of the one in use. */
static uint32_t gemv(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct npu_weights w;
    struct npu_gemv_plan plan;
    struct npu_act8 a;
    uint32_t ticket[3] = {0, 0, 0}, bytes;
    if (npu_weights_layout(op->kind, op->k, op->n, &w) || !npu_weights_integer(w.kind)) return NPU_BAD_SHAPE;
    if (npu_gemv_plan(&w, machine->tcm_kept, machine->tcm_bytes, &plan)) return NPU_NO_ROOM;
    npu_act8_layout(op->k, &a);
    take(isa, op, op->src, a.bytes);
    uint8_t *tcm = isa_ptr(machine->tcm_start);
    bytes = plan.chunk_blocks * w.block_bytes;
    for (uint32_t c = 0; c < plan.n_chunks + 2; c++) {
        uint32_t ahead = c * plan.chunk_blocks, first = ahead - 2 * plan.chunk_blocks;
        uint32_t n = w.n_blocks - ahead < plan.chunk_blocks ? w.n_blocks - ahead : plan.chunk_blocks;
        if (c >= 2) dma_wait(ticket[(c - 2) % 3]);
        if (c < plan.n_chunks)
            ticket[c % 3] =
                dma_start_1d(tcm + plan.packed[c % 3], isa_ptr(op->weights) + (size_t)c * bytes, n * w.block_bytes);
        if (c < 2) continue;
        n = w.n_blocks - first < plan.chunk_blocks ? w.n_blocks - first : plan.chunk_blocks;
        npu_gemv(isa, &w, isa_ptr(op->dst) + first * 128, tcm + plan.packed[(c - 2) % 3], isa_ptr(op->src), n);
    }
    give(isa, op, w.n_blocks * 128);
    return NPU_OK;
}

static uint32_t gemm(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    uint32_t blocks = (op->n + 31) / 32;
    if (!op->m) return NPU_BAD_SHAPE;
    take(isa, op, op->src, span(op->m, op->src_stride, 4 * op->k));
    uint32_t status = npu_gemm(isa, machine, op);
    if (status == NPU_OK) give(isa, op, span(op->m, op->dst_stride, 128 * blocks));
    return status;
}

/* m rows of n: add, swiglu, rms_norm. */
static uint32_t rows(struct isa *isa, const struct npu_op *op)
{
    if (!op->m || !op->n || op->n % 32) return NPU_BAD_SHAPE;
    uint32_t second = op->code == NPU_OP_RMS_NORM ? 0 : op->src_stride;
    take(isa, op, op->src, span(op->m, op->src_stride, 4 * op->n));
    take(isa, op, op->weights, span(op->m, second, 4 * op->n));
    for (uint32_t r = 0; r < op->m; r++) {
        uint8_t *y = isa_ptr(op->dst) + (size_t)r * op->dst_stride;
        const uint8_t *a = isa_ptr(op->src) + (size_t)r * op->src_stride,
                      *b = isa_ptr(op->weights) + (size_t)r * second;
        if (op->code == NPU_OP_ADD)
            npu_add(isa, y, a, b, op->n);
        else if (op->code == NPU_OP_SWIGLU)
            npu_swiglu(isa, y, a, b, op->n);
        else
            npu_rms_norm(isa, y, a, b, op->n, op->param);
    }
    give(isa, op, span(op->m, op->dst_stride, 4 * op->n));
    return NPU_OK;
}

/* m tokens of k heads of n; the table has a row of n per token. */
static uint32_t rope(struct isa *isa, const struct npu_op *op)
{
    if (!op->m || !op->k || !op->n || op->n % 64) return NPU_BAD_SHAPE;
    take(isa, op, op->src, span(op->m, op->src_stride, 4 * op->n * op->k));
    take(isa, op, op->weights, 4 * op->n * op->m);
    for (uint32_t r = 0; r < op->m; r++)
        for (uint32_t h = 0; h < op->k; h++)
            npu_rope(isa, isa_ptr(op->dst) + (size_t)r * op->dst_stride + 4 * (size_t)op->n * h,
                isa_ptr(op->src) + (size_t)r * op->src_stride + 4 * (size_t)op->n * h,
                isa_ptr(op->weights) + 4 * (size_t)op->n * r, op->n, op->kind == 1);
    give(isa, op, span(op->m, op->dst_stride, 4 * op->n * op->k));
    return NPU_OK;
}

static uint32_t exponential(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    uint8_t *y = isa_ptr(op->dst), *tcm = isa_ptr(machine->tcm_start);
    const uint8_t *x = isa_ptr(op->src);
    if (!op->n || op->n % 64) return NPU_BAD_SHAPE;
    if (op->kind == NPU_EXP_TABLE && machine->tcm_kept < 65536) return NPU_NO_ROOM;
    take(isa, op, op->src, 2 * op->n);
    switch (op->kind) {
    case NPU_EXP_TABLE: npu_exp_by_table(isa, y, x, op->n, tcm, tcm + machine->tcm_kept); break;
    case NPU_EXP_F16: npu_exp_by_f16(isa, y, x, op->n); break;
    case NPU_EXP_F32: npu_exp_by_f32(isa, y, x, op->n); break;
    default: return NPU_BAD_OP;
    }
    give(isa, op, 2 * op->n);
    return NPU_OK;
}

static uint32_t attention(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    if (!op->m || !op->k) return NPU_BAD_SHAPE;
    take(isa, op, op->src, span(op->m, op->src_stride, 4 * op->n));
    take(isa, op, op->weights, (op->k + NPU_SEGMENT - 1) / NPU_SEGMENT * sizeof(struct npu_segment));
    take(isa, op, op->rows, op->m * sizeof(struct npu_row));
    uint32_t status = npu_attention(isa, machine, op);
    if (status == NPU_OK) give(isa, op, span(op->m, op->dst_stride, 4 * op->n));
    return status;
}

uint32_t npu_execute(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    switch (op->code) {
    case NPU_OP_NOP: return NPU_OK;
    case NPU_OP_DEQUANT: return dequant(isa, op);
    case NPU_OP_QUANTIZE: return quantize(isa, op);
    case NPU_OP_GEMV: return gemv(isa, machine, op);
    case NPU_OP_GEMM: return gemm(isa, machine, op);
    case NPU_OP_ADD:
    case NPU_OP_SWIGLU:
    case NPU_OP_RMS_NORM: return rows(isa, op);
    case NPU_OP_ROPE: return rope(isa, op);
    case NPU_OP_EXP16: return exponential(isa, machine, op);
    case NPU_OP_ATTENTION: return attention(isa, machine, op);
    case NPU_OP_EXP_TABLE:
        if (machine->tcm_kept < 65536) return NPU_NO_ROOM;
        npu_exp_table(isa, isa_ptr(machine->tcm_start));
        return NPU_OK;
    default: return NPU_BAD_OP;
    }
}
