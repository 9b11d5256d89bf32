/* SPDX-License-Identifier: MIT
 *
 * The mixed-precision product on tiles [TTS 3.2, 5.1]: for each chunk of output blocks, packed weights arrive by DMA (two
 * chunks ahead), are dequantized to f16 tiles, multiplied with up to 32 rows per tile, and stored as f32 rows.  A chunk
 * serves every block of rows that fits in TCM beside it; further rows are further passes over the weights.
 */
#include "npu/dsp/kernels.h"

/* Two rows of f32 to one vector of halves, interleaved as a tile wants them. */
ISA_INLINE vec interleave(struct isa *isa, vec even, vec odd)
{
    const vec zero = v_zero();
    (void)isa;
    return f16_of_q32(v_pair(q32_add(odd, zero), q32_add(even, zero)));
}

void npu_tiles_of_rows(struct isa *isa, uint8_t *restrict tiles, const uint8_t *restrict x, uint32_t stride, uint32_t m,
    uint32_t k, uint32_t n_tiles)
{
    for (uint32_t r = 0; r < (m + 31) / 32 * 32; r += 2) {
        uint8_t *to = tiles + (size_t)(r / 32) * n_tiles * TILE_BYTES + r % 32 / 2 * 128;
        const uint8_t *from = x + (size_t)r * stride;
        for (uint32_t t = 0; t < n_tiles; t++) {
            vec even = r < m && 32 * t < k ? v_load(from + 128 * t) : v_zero();
            vec odd = r + 1 < m && 32 * t < k ? v_load(from + stride + 128 * t) : v_zero();
            v_store(to + t * TILE_BYTES, interleave(isa, even, odd));
        }
    }
}

void npu_rows_of_tile(
    struct isa *isa, uint8_t *restrict y, uint32_t stride, const uint8_t *restrict tile, uint32_t m, vec bias)
{
    const vec one = v_splat_h(0x3c00);
    for (uint32_t r = 0; r < m && r < 32; r += 2) {
        vec2 rows = q32_mul_f16(v_load(tile + r / 2 * 128), one);
        v_store(y + (size_t)r * stride, f32_of_q32(q32_add_q(v_lo(rows), bias)));
        if (r + 1 < m) v_store(y + (size_t)(r + 1) * stride, f32_of_q32(q32_add_q(v_hi(rows), bias)));
    }
    (void)isa;
}

/* All k of one tile of output. */
static void multiply(struct isa *isa, uint8_t *out, const uint8_t *act, const uint8_t *weight, uint32_t n_tiles)
{
    tile_clear();
    for (uint32_t t = 0; t < n_tiles; t += TILE_PAIRS_MAX) {
        uint32_t n = n_tiles - t < TILE_PAIRS_MAX ? n_tiles - t : TILE_PAIRS_MAX;
        tile_mac(act + t * TILE_BYTES, weight + t * TILE_BYTES, n);
    }
    tile_store(out);
    (void)isa;
}

/* One pass: rows first .. first + m of X, all outputs. */
struct pass {
    const struct npu_weights *w;
    const struct npu_gemm_plan *plan;
    const uint8_t *packed; /* in memory */
    uint8_t *tcm, *y;
    const uint8_t *bias; /* f32 [n], or NULL */
    uint32_t stride, m;
};

static uint32_t start(struct isa *isa, const struct pass *p, uint32_t chunk)
{
    uint32_t first = chunk * p->plan->chunk_blocks, left = p->w->n_blocks - first;
    uint32_t n = left < p->plan->chunk_blocks ? left : p->plan->chunk_blocks;
    return dma_start_1d(
        p->tcm + p->plan->packed[chunk % 3], p->packed + (size_t)first * p->w->block_bytes, n * p->w->block_bytes);
}

static void compute(struct isa *isa, const struct pass *p, uint32_t chunk)
{
    const struct npu_gemm_plan *plan = p->plan;
    uint32_t first = chunk * plan->chunk_blocks, n_tiles = p->w->k / 32, rows = (p->m + 31) / 32;
    uint8_t *tiles = p->tcm + plan->tiles[chunk % 2], *out = p->tcm + plan->out[chunk % 2];
    const uint8_t *packed = p->tcm + plan->packed[chunk % 3];
    for (uint32_t b = 0; b < plan->chunk_blocks && first + b < p->w->n_blocks; b++) {
        uint8_t *weight = tiles + (size_t)b * n_tiles * TILE_BYTES;
        const uint8_t *from = packed + (size_t)b * p->w->block_bytes;
        vec bias = p->bias ? v_load(p->bias + (size_t)(first + b) * 128) : v_zero();
        if (p->w->kind != NPU_W_F16) npu_dequant(isa, p->w->kind, weight, from, p->w->n_units);
        for (uint32_t r = 0; r < rows; r++) {
            uint8_t *to = out + (size_t)(b * plan->row_blocks + r) * TILE_BYTES;
            multiply(isa, to, p->tcm + plan->act + (size_t)r * n_tiles * TILE_BYTES,
                p->w->kind == NPU_W_F16 ? from : weight, n_tiles);
            npu_rows_of_tile(
                isa, p->y + (size_t)32 * r * p->stride + (size_t)(first + b) * 128, p->stride, to, p->m - 32 * r, bias);
        }
    }
}

uint32_t npu_gemm(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct npu_weights w;
    struct npu_gemm_plan plan;
    if (op->k % 32 || npu_weights_layout(op->kind, npu_weights_k(op->k), op->n, &w) || !op->m) return NPU_BAD_SHAPE;
    if (npu_gemm_plan(&w, op->m, machine->tcm_kept, machine->tcm_bytes, 1, &plan)) return NPU_NO_ROOM;
    for (uint32_t i = 0; i < plan.n_passes; i++) {
        uint32_t first = i * plan.row_blocks * 32, left = op->m - first, ticket[3] = {0, 0, 0};
        struct pass p = {&w, &plan, isa_ptr(op->weights), isa_ptr(machine->tcm_start),
            isa_ptr(op->dst) + (size_t)first * op->dst_stride, op->bias ? isa_ptr(op->bias) : 0, op->dst_stride,
            left < plan.row_blocks * 32 ? left : plan.row_blocks * 32};
        for (uint32_t c = 0; c < 2 && c < plan.n_chunks; c++) ticket[c] = start(isa, &p, c);
        npu_tiles_of_rows(isa, p.tcm + plan.act, isa_ptr(op->src) + (size_t)first * op->src_stride, op->src_stride, p.m,
            op->k, w.k / 32);
        for (uint32_t c = 0; c < plan.n_chunks; c++) {
            dma_wait(ticket[c % 3]);
            if (c + 2 < plan.n_chunks) ticket[(c + 2) % 3] = start(isa, &p, c + 2);
            compute(isa, &p, c);
        }
    }
    return NPU_OK;
}
