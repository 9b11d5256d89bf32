/* SPDX-License-Identifier: MIT
 *
 * Rows that change place and form: a token's embedding out of packed weights, chosen rows, keys and values to the cache.
 */
#include "npu/dsp/kernels.h"
#include "npu/dsp/vpart.h"

#include "quant/formats.h"

static const int8_t nl_values[16] = QUANT_IQ4_NL_VALUES;

/* A code of a word as a 16-bit integer. */
ISA_INLINE uint32_t value_of(uint32_t kind, uint32_t code)
{
    if (kind == NPU_W_Q4_0) return (code - 8) & 0xffff;
    if (kind == NPU_W_IQ4_NL) return (uint32_t)(int32_t)nl_values[code] & 0xffff;
    return kind == NPU_W_Q8_0 ? (code - 128) & 0xffff : code;
}

/* Two neighbouring codes, which lie two bytes apart. */
ISA_INLINE uint32_t pair_of(uint32_t kind, uint32_t word, uint32_t shift, uint32_t mask)
{
    return value_of(kind, word >> shift & mask) | value_of(kind, word >> (shift + 16) & mask) << 16;
}

/* The codes of one output of a unit, 64 integers of 16 bits; column: its words, one per vector of the unit. */
static void unit_codes(struct isa *isa, uint32_t kind, uint8_t *restrict codes, const uint8_t *restrict column)
{
    const uint32_t wide = kind == NPU_W_Q8_0, mask = wide ? 255 : 15, step = wide ? 4 : 8;
    for (uint32_t k = 0; k < NPU_UNIT_K; k += step, codes += 2 * step, column += 4) {
        uint32_t w = s_load_u32(column);
        s_store_u32(codes, pair_of(kind, w, 0, mask));
        s_store_u32(codes + 4, pair_of(kind, w, 8, mask));
        if (wide) continue;
        s_store_u32(codes + 8, pair_of(kind, w, 4, mask));
        s_store_u32(codes + 12, pair_of(kind, w, 12, mask));
    }
    (void)isa;
}

/* A word's two halves, each for the 32 k of its tile. */
ISA_INLINE vec spread(struct isa *isa, uint32_t word)
{
    (void)isa;
    return v_mux(m_first(64), v_splat_h((int32_t)(word & 0xffff)), v_splat_h((int32_t)(word >> 16)));
}

/* 64 values of a unit as halves, as npu_dequant makes them. */
static vec unit_values(struct isa *isa, uint32_t kind, const uint8_t *column, uint8_t *scratch)
{
    if (kind == NPU_W_F16) return v_load(column);
    uint32_t n_codes = kind == NPU_W_Q8_0 ? 16 : 8;
    unit_codes(isa, kind, scratch, column);
    vec value = f16_of_i16(v_load(scratch)), scale = spread(isa, s_load_u32(column + 4 * n_codes));
    if (kind != NPU_W_Q4_1) return f16_mul(value, scale);
    return f16_of_q16(q16_add_q(q16_mul(value, scale), spread(isa, s_load_u32(column + 4 * n_codes + 4))));
}

void npu_embed(struct isa *isa, const struct npu_weights *w, uint8_t *restrict y, const uint8_t *restrict weights,
    uint32_t token, uint32_t k, uint32_t scale_bits, uint8_t *restrict tcm)
{
    /* A column's part of every vector is one word, its scales included: one DMA with steps of a vector. */
    uint32_t words = w->unit_bytes / NPU_LINE;
    const vec scale = v_splat_w((int32_t)scale_bits);
    const uint8_t *column = weights + (size_t)(token / NPU_COLS) * w->block_bytes + 4 * (token % NPU_COLS);
    uint8_t *scratch = tcm + (size_t)4 * words * w->n_units + 128;
    scratch -= (uintptr_t)scratch & 127;
    dma_wait(dma_start_2d(tcm, 4, column, NPU_LINE, 4, words * w->n_units));
    for (uint32_t u = 0; u < w->n_units; u++, y += 256) {
        vec2 x = v_floats(isa, unit_values(isa, w->kind, tcm + (size_t)4 * words * u, scratch));
        v_store(y, f32_mul(v_lo(x), scale));
        if (NPU_UNIT_K * u + 32 < k) v_store(y + 128, f32_mul(v_hi(x), scale));
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
