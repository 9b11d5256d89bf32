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
    uint32_t k, uint32_t n_tiles, uint32_t first, uint32_t last)
{
    for (uint32_t r = 0; r < (m + 31) / 32 * 32; r += 2) {
        uint8_t *to = tiles + (size_t)(r / 32) * n_tiles * TILE_BYTES + r % 32 / 2 * 128;
        const uint8_t *from = x + (size_t)r * stride;
        for (uint32_t t = first; t < last; t++) {
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

/* One pass: rows of X, all outputs; what threads share. */
struct pass {
    const struct npu_op *op;
    const struct npu_weights *w;
    const struct npu_gemm_plan *plan;
    uint8_t *tcm, *y;
    const uint8_t *x;
    uint32_t m;
};

/* A thread's part of the rings: chunk c of all goes into slot c / n. */
static uint32_t start(struct isa *isa, const struct pass *p, uint8_t *rings, uint32_t chunk, uint32_t slot)
{
    uint32_t first = chunk * p->plan->chunk_blocks, left = p->w->n_blocks - first;
    uint32_t n = left < p->plan->chunk_blocks ? left : p->plan->chunk_blocks;
    return dma_start_1d(rings + p->plan->packed[slot % 3], isa_ptr(p->op->weights) + (size_t)first * p->w->block_bytes,
        n * p->w->block_bytes);
}

static void compute(struct isa *isa, const struct pass *p, uint8_t *rings, uint32_t chunk, uint32_t slot)
{
    const struct npu_gemm_plan *plan = p->plan;
    uint32_t first = chunk * plan->chunk_blocks, n_tiles = p->w->k / 32, rows = (p->m + 31) / 32;
    uint32_t stride = p->op->dst_stride;
    uint8_t *tiles = rings + plan->tiles[slot % 2], *out = rings + plan->out[slot % 2];
    const uint8_t *packed = rings + plan->packed[slot % 3];
    for (uint32_t b = 0; b < plan->chunk_blocks && first + b < p->w->n_blocks; b++) {
        uint8_t *weight = tiles + (size_t)b * n_tiles * TILE_BYTES;
        const uint8_t *from = packed + (size_t)b * p->w->block_bytes;
        vec bias = p->op->bias ? v_load(isa_ptr(p->op->bias) + (size_t)(first + b) * 128) : v_zero();
        if (p->w->kind != NPU_W_F16) npu_dequant(isa, p->w->kind, weight, from, p->w->n_units);
        for (uint32_t r = 0; r < rows; r++) {
            uint8_t *to = out + (size_t)(b * plan->row_blocks + r) * TILE_BYTES;
            multiply(isa, to, p->tcm + plan->act + (size_t)r * n_tiles * TILE_BYTES,
                p->w->kind == NPU_W_F16 ? from : weight, n_tiles);
            npu_rows_of_tile(
                isa, p->y + (size_t)32 * r * stride + (size_t)(first + b) * 128, stride, to, p->m - 32 * r, bias);
        }
    }
}

/* Each thread turns some columns of X into tiles. */
static void convert(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct pass *p = user;
    uint32_t n_tiles = p->w->k / 32;
    npu_tiles_of_rows(isa, p->tcm + p->plan->act, p->x, p->op->src_stride, p->m, p->op->k, n_tiles,
        n_tiles * thread / n, n_tiles * (thread + 1) / n);
}

/* Each thread has every n-th chunk of outputs, with a ring of its own. */
static void products(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct pass *p = user;
    uint8_t *rings = p->tcm + (size_t)thread * p->plan->thread_stride;
    uint32_t ticket[3] = {0, 0, 0}, end = p->plan->n_chunks;
    for (uint32_t c = thread, slot = 0; c < end && slot < 2; c += n, slot++)
        ticket[slot] = start(isa, p, rings, c, slot);
    for (uint32_t c = thread, slot = 0; c < end; c += n, slot++) {
        dma_wait(ticket[slot % 3]);
        if (c + 2 * n < end) ticket[(slot + 2) % 3] = start(isa, p, rings, c + 2 * n, slot + 2);
        compute(isa, p, rings, c, slot);
    }
}

uint32_t npu_gemm(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct npu_weights w;
    struct npu_gemm_plan plan;
    uint32_t n;
    if (op->k % 32 || npu_weights_layout(op->kind, npu_weights_k(op->k), op->n, &w) || !op->m) return NPU_BAD_SHAPE;
    n = npu_gemm_threads(&w, op->m, machine, &plan);
    if (!n) return NPU_NO_ROOM;
    for (uint32_t i = 0; i < plan.n_passes; i++) {
        uint32_t first = i * plan.row_blocks * 32, left = op->m - first;
        struct pass p = {op, &w, &plan, isa_ptr(machine->tcm_start), isa_ptr(op->dst) + (size_t)first * op->dst_stride,
            isa_ptr(op->src) + (size_t)first * op->src_stride,
            left < plan.row_blocks * 32 ? left : plan.row_blocks * 32};
        isa_threads(n, convert, &p);
        isa_threads(n, products, &p);
    }
    return NPU_OK;
}
