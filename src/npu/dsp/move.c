/* SPDX-License-Identifier: MIT
 *
 * Rows that change place and form: a token's embedding out of packed weights, chosen rows, keys and values to the
 * cache.
 */
#include "npu/dsp/kernels.h"
#include "npu/dsp/vpart.h"

static const uint32_t column_steps[32]
    __attribute__((aligned(128))) = {0, 128, 256, 384, 512, 640, 768, 896, 1024, 1152, 1280, 1408, 1536, 1664, 1792,
        1920, 2048, 2176, 2304, 2432, 2560, 2688, 2816, 2944, 3072, 3200, 3328, 3456, 3584, 3712, 3840, 3968};

void npu_embed(struct isa *isa, const struct npu_weights *w, uint8_t *restrict y, const uint8_t *restrict weights,
    uint32_t token, uint32_t k, uint32_t scale_bits, uint8_t *restrict tcm)
{
    /* The token's block of 32 becomes tiles; a column of two tiles is one word in each of their 32 vectors. */
    const vec scale = v_splat_w((int32_t)scale_bits);
    const vec at = v_add_w(v_const(column_steps), v_splat_w((int32_t)(4 * (token % NPU_COLS))));
    uint8_t *tiles = tcm + 2048, *packed = tiles + (size_t)w->k * 64;
    dma_wait(dma_start_1d(packed, weights + (size_t)(token / NPU_COLS) * w->block_bytes, w->block_bytes));
    npu_dequant(isa, w->kind, tiles, packed, w->n_units);
    for (uint32_t i = 0; i < k; i += 64, y += 256, tiles += 2 * TILE_BYTES) {
        v_gather_w(tcm, tiles, 2 * TILE_BYTES, at);
        vec2 x = v_floats(isa, v_load(tcm));
        v_store(y, f32_mul(v_lo(x), scale));
        if (i + 32 < k) v_store(y + 128, f32_mul(v_hi(x), scale));
    }
}

void npu_copy(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict x, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i += 128) v_store_part(isa, y + i, v_loadu(x + i), bytes - i);
}

void npu_store_halves(struct isa *isa, uint8_t *restrict to, const uint8_t *restrict x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 64) {
        vec lo = v_loadu(x + 4 * i), hi = n - i > 32 ? v_loadu(x + 4 * i + 128) : v_zero();
        v_store_part(isa, to + 2 * i, v_halves(isa, hi, lo), 2 * (n - i));
    }
}
