/* SPDX-License-Identifier: MIT
 *
 * K-quants: units of 256 k whose groups have integer scales under one pair of halves.
 *
 * Dequantization makes each group's scale (and minimum) a half first, then treats codes as the simple types do.
 */
#include "npu/dsp/expand.h"
#include "npu/dsp/kernels.h"

enum { CODES_2 = 2048, CODES_4 = 4096, CODES_8 = 8192, MINIMA = 256, SUPER = 512, TAIL = 640 };

/* Of 0 .. 3, two codes to a word (expand_2). */
static const uint16_t pairs_table[64] __attribute__((aligned(128))) = {0, 0, 0x3c00, 0, 0x4000, 0, 0x4200, 0, 0, 0x3c00,
    0x3c00, 0x3c00, 0x4000, 0x3c00, 0x4200, 0x3c00, 0, 0x4000, 0x3c00, 0x4000, 0x4000, 0x4000, 0x4200, 0x4000, 0,
    0x4200, 0x3c00, 0x4200, 0x4000, 0x4200, 0x4200, 0x4200};

/* Scales or minima of 4 groups of k, [0 .. 3]: each a tile vector of halves, the nearest to `byte x factor`. */
struct spread {
    vec group[4];
};

ISA_INLINE struct spread spread(struct isa *isa, vec2 bytes, vec factor)
{
    vec2 low = v_shuffoe_h(v_lo(bytes), v_lo(bytes)), high = v_shuffoe_h(v_hi(bytes), v_hi(bytes));
    (void)isa;
    return (struct spread){{f16_mul(f16_of_i16(v_lo(low)), factor), f16_mul(f16_of_i16(v_hi(low)), factor),
        f16_mul(f16_of_i16(v_lo(high)), factor), f16_mul(f16_of_i16(v_hi(high)), factor)}};
}

/* n x 8 k of 4-bit codes. */
ISA_INLINE void codes_4(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, const int n, vec table,
    vec s, const vec *least)
{
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) expand_4(isa, dst + 512 * j, v_load(src + 128 * j), table, s, least);
}

/* A tile of 5-bit codes in bytes. */
ISA_INLINE void tile_5(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, vec s, vec least)
{
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++, dst += 256) {
        vec2 h = v_zxt_ub(v_load(src + 128 * j));
        v_store(dst, f16_of_q16(q16_add_q(q16_mul(f16_of_i16(v_lo(h)), s), least)));
        v_store(dst + 128, f16_of_q16(q16_add_q(q16_mul(f16_of_i16(v_hi(h)), s), least)));
    }
    (void)isa;
}

/* Half a tile, 16 k, of 6-bit codes in bytes. */
ISA_INLINE void half_tile_6(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, vec middle, vec s)
{
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++, dst += 256) {
        vec2 h = v_sxt_b(v_sub_b(v_load(src + 128 * j), middle));
        v_store(dst, f16_mul(f16_of_i16(v_lo(h)), s));
        v_store(dst + 128, f16_mul(f16_of_i16(v_hi(h)), s));
    }
    (void)isa;
}

static void dequant_q2(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units)
{
    const vec table = v_const(pairs_table), sign = v_splat_h((int16_t)0x8000), low = v_splat_b(15);
    for (uint32_t u = 0; u < n_units; u++, src += CODES_2 + TAIL, dst += 8 * TILE_BYTES) {
        vec pairs = v_load(src + CODES_2 + SUPER);
        vec2 d = v_shuffoe_h(pairs, pairs);
        vec scale = v_lo(d), least = v_xor(v_hi(d), sign);
#pragma GCC unroll 1
        for (uint32_t g = 0; g < 4; g++) {
            vec both = v_load(src + CODES_2 + 128 * g);
            struct spread s = spread(isa, v_zxt_ub(v_and(both, low)), scale);
            struct spread m = spread(isa, v_zxt_ub(v_lsr_ub(both, 4)), least);
#pragma GCC unroll 4
            for (uint32_t t = 0; t < 4; t++)
                expand_2(
                    isa, dst + (4 * g + t) * 1024, v_load(src + (4 * g + t) * 128), table, s.group[t], &m.group[t]);
        }
    }
}

static void dequant_q3(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units)
{
    const vec table = v_const(signed_table);
    for (uint32_t u = 0; u < n_units; u++, src += CODES_4 + TAIL, dst += 8 * TILE_BYTES) {
        vec pairs = v_load(src + CODES_4 + SUPER), d = v_lo(v_shuffoe_h(pairs, pairs));
#pragma GCC unroll 1
        for (uint32_t g = 0; g < 4; g++) {
            struct spread s = spread(isa, v_sxt_b(v_load(src + CODES_4 + 128 * g)), d);
#pragma GCC unroll 4
            for (uint32_t t = 0; t < 4; t++)
                codes_4(isa, dst + (4 * g + t) * 1024, src + (4 * g + t) * 256, 2, table, s.group[t], NULL);
        }
    }
}

/* Q4_K, Q5_K; wide is a constant where this is called. */
ISA_INLINE void dequant_min(
    struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units, const int wide)
{
    const vec table = v_const(unsigned_table), sign = v_splat_h((int16_t)0x8000);
    const uint32_t codes = wide ? CODES_8 : CODES_4, tile = codes / 8;
    for (uint32_t u = 0; u < n_units; u++, src += codes + TAIL, dst += 8 * TILE_BYTES) {
        vec pairs = v_load(src + codes + SUPER);
        vec2 d = v_shuffoe_h(pairs, pairs);
        vec scale = v_lo(d), least = v_xor(v_hi(d), sign);
#pragma GCC unroll 1
        for (uint32_t g = 0; g < 2; g++) {
            struct spread s = spread(isa, v_zxt_ub(v_load(src + codes + 128 * g)), scale);
            struct spread m = spread(isa, v_zxt_ub(v_load(src + codes + MINIMA + 128 * g)), least);
#pragma GCC unroll 4
            for (uint32_t t = 0; t < 4; t++) {
                uint8_t *to = dst + (4 * g + t) * TILE_BYTES;
                const uint8_t *from = src + (4 * g + t) * tile;
                if (wide)
                    tile_5(isa, to, from, s.group[t], m.group[t]);
                else
                    codes_4(isa, to, from, 4, table, s.group[t], &m.group[t]);
            }
        }
    }
}

static void dequant_6(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units)
{
    const vec middle = v_splat_b(32);
    for (uint32_t u = 0; u < n_units; u++, src += CODES_8 + TAIL, dst += 8 * TILE_BYTES) {
        vec pairs = v_load(src + CODES_8 + SUPER), d = v_lo(v_shuffoe_h(pairs, pairs));
#pragma GCC unroll 1
        for (uint32_t g = 0; g < 4; g++) {
            struct spread s = spread(isa, v_sxt_b(v_load(src + CODES_8 + 128 * g)), d);
#pragma GCC unroll 4
            for (uint32_t t = 0; t < 4; t++)
                half_tile_6(isa, dst + (4 * g + t) * 1024, src + (4 * g + t) * 512, middle, s.group[t]);
        }
    }
}

void npu_dequant_k(struct isa *isa, uint32_t kind, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units)
{
    switch (kind) {
    case NPU_W_Q4_K: dequant_min(isa, dst, src, n_units, 0); break;
    case NPU_W_Q5_K: dequant_min(isa, dst, src, n_units, 1); break;
    case NPU_W_Q2_K: dequant_q2(isa, dst, src, n_units); break;
    case NPU_W_Q3_K: dequant_q3(isa, dst, src, n_units); break;
    default: dequant_6(isa, dst, src, n_units); break;
    }
}
