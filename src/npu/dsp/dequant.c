/* SPDX-License-Identifier: MIT
 *
 * Packed weights to f16 tiles.  4-bit codes go through a 16-entry table of halves (one instruction for 128 codes), so a
 * codebook is a table and nothing else [TTS 5.2.2].  Per vector of 256 codes: 2 lookups, 5 products, 4 conversions, 4
 * stores; lookups and conversions share the shifter, hence 6 packets at best.
 */
#include "npu/dsp/expand.h"
#include "npu/dsp/kernels.h"

#include "quant/formats.h"

/* IQ4_NL's values, in the places of expand.h. */
static const uint16_t nl_table[64]
    __attribute__((aligned(128))) = {0xd7f0, 0, 0xd680, 0, 0xd530, 0, 0xd410, 0, 0xd220, 0, 0xd060, 0, 0xcd80, 0,
        0xc900, 0, 0x3c00, 0, 0x4a80, 0, 0x4e40, 0, 0x50c0, 0, 0x52a0, 0, 0x5450, 0, 0x5590, 0, 0x5710, 0};

/* Twice the values of FP4. */
static const uint16_t fp4_table[64]
    __attribute__((aligned(128))) = {0x0000, 0, 0x3c00, 0, 0x4000, 0, 0x4200, 0, 0x4400, 0, 0x4600, 0, 0x4800, 0,
        0x4a00, 0, 0x0000, 0, 0xbc00, 0, 0xc000, 0, 0xc200, 0, 0xc400, 0, 0xc600, 0, 0xc800, 0, 0xca00, 0};

/* Integers 0 .. 15. */
static const uint16_t integers[64] __attribute__((aligned(128))) = {
    0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15, 0};

/* Which steps two codes take off, two codes to a word as in expand_2. */
#define STEPS(q) NPU_W2_STEPS((q)&3), NPU_W2_STEPS((q) >> 2)
static const uint16_t pair_steps[64] __attribute__((aligned(128))) = {STEPS(0), STEPS(1), STEPS(2), STEPS(3), STEPS(4),
    STEPS(5), STEPS(6), STEPS(7), STEPS(8), STEPS(9), STEPS(10), STEPS(11), STEPS(12), STEPS(13), STEPS(14), STEPS(15)};
#undef STEPS

/* Two codes to a word, the masks of mask_4. */
static const uint16_t pair_masks[64] __attribute__((aligned(128))) = {0xffff, 0xffff, 0x0000, 0xffff, 0x7fff, 0xffff,
    0x0000, 0xffff, 0xffff, 0x0000, 0x0000, 0x0000, 0x7fff, 0x0000, 0x0000, 0x0000, 0xffff, 0x7fff, 0x0000, 0x7fff,
    0x7fff, 0x7fff, 0x0000, 0x7fff, 0xffff, 0x0000, 0x0000, 0x0000, 0x7fff, 0x0000, 0x0000, 0x0000};

static void dequant_4(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units, vec table)
{
    for (uint32_t u = 0; u < n_units; u++, src += 1152, dst += 2 * TILE_BYTES) {
        vec s = v_load(src + 1024);
        vec2 scale = v_shuffoe_h(s, s);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) expand_4(isa, dst + 512 * j, v_load(src + 128 * j), table, v_lo(scale), NULL);
#pragma GCC unroll 4
        for (int j = 4; j < 8; j++) expand_4(isa, dst + 512 * j, v_load(src + 128 * j), table, v_hi(scale), NULL);
    }
    (void)isa;
}

/* What a group of W2 has of each output. */
struct steps {
    vec top, steps, sign;
};

/* Four tile vectors: the bits that codes leave of the steps come off the top.  Halves of the same sign are as far apart
 * as their bits, and what is taken off beyond 0 is 0: so a row of four around any zero takes no float at all. */
ISA_INLINE void descend_4(struct isa *isa, uint8_t *restrict dst, vec2 low, vec2 high, const struct steps *s)
{
    vec x[4] = {v_lo(low), v_hi(low), v_lo(high), v_hi(high)};
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) v_store(dst + 128 * i, v_xor(v_sub_uh(s->top, v_and(x[i], s->steps)), s->sign));
    (void)isa;
}

static void dequant_w2(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units)
{
    const vec table = v_const(pair_steps), sign = v_splat_h((int16_t)0x8000), eight = v_splat_h(8);
    for (uint32_t u = 0; u < n_units; u++, src += 640) {
        vec pairs = v_load(src + 512);
        vec2 both = v_shuffoe_h(pairs, pairs);
        const struct steps s = {v_lo(both), v_hi(both), v_and(v_mpyi_h(v_hi(both), eight), sign)};
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++, dst += 1024) {
            vec low = v_load(src + 128 * j), high = upper(isa, low);
            descend_4(isa, dst, v_lut16(low, table, 0), v_lut16(low, table, 2), &s);
            descend_4(isa, dst + 512, v_lut16(high, table, 0), v_lut16(high, table, 2), &s);
        }
    }
    (void)isa;
}

/* What a group of W4 has of each output: 11 bits of the scale, minus zero times them, and the exponents that an
 * integer is too high. */
struct integral {
    vec scale, start, less;
};

ISA_INLINE struct integral integral_of(struct isa *isa, vec pairs)
{
    vec2 both = v_shuffoe_h(pairs, pairs);
    vec zero = v_and(v_hi(both), v_splat_h(15));
    (void)isa;
    return (struct integral){
        v_lo(both), v_sub_h(v_zero(), v_mpyi_h(v_lo(both), zero)), v_and(v_hi(both), v_splat_h(0x7c00))};
}

/* Four tile vectors of 256 codes: (q - zero) times the scale's bits is an exact integer, rounded once as it becomes a
 * half; its exponent is set by a subtraction that leaves 0 what is 0. */
ISA_INLINE void integral_4(struct isa *isa, uint8_t *restrict dst, vec codes, vec table, const struct integral *s)
{
    vec2 low = v_lut16(codes, table, 0), high = v_lut16(upper(isa, codes), table, 0);
    vec x[4] = {v_lo(low), v_hi(low), v_lo(high), v_hi(high)};
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        v_store(dst + 128 * i, v_sub_uh(f16_of_i16(v_add_h(v_mpyi_h(x[i], s->scale), s->start)), s->less));
}

static void dequant_w4(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units)
{
    const vec table = v_const(integers);
    for (uint32_t u = 0; u < n_units; u++, src += 1152, dst += 2 * TILE_BYTES) {
        const struct integral s = integral_of(isa, v_load(src + 1024));
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) integral_4(isa, dst + 512 * j, v_load(src + 128 * j), table, &s);
    }
}

/* Codes of 3 bits and what their zero lacks to 8 are codes of Q4_0, and no nibble overflows. */
static void dequant_w3(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units)
{
    const vec table = v_const(signed_table), own = v_splat_b(0x77);
    const vec bit_0 = v_splat_b(0x11), bit_1 = v_splat_b(0x22), bit_2 = v_splat_b(0x44);
    for (uint32_t u = 0; u < n_units; u++, src += 896) {
        vec pairs = v_load(src + 768);
        vec2 both = v_shuffoe_h(pairs, pairs);
        vec scale = v_lo(both), lacks = v_hi(both);
#pragma GCC unroll 2
        for (int t = 0; t < 2; t++, dst += TILE_BYTES) {
            const uint8_t *from = src + 384 * t;
            vec a = v_load(from), b = v_load(from + 128), c = v_load(from + 256);
            expand_4(isa, dst, v_add_b(v_and(a, own), lacks), table, scale, NULL);
            expand_4(isa, dst + 512, v_add_b(v_and(b, own), lacks), table, scale, NULL);
            expand_4(isa, dst + 1024, v_add_b(v_and(c, own), lacks), table, scale, NULL);
            vec last = v_or(v_and(v_mpyf_rh(a, 1 << 12), bit_0), v_and(v_mpyf_rh(b, 1 << 13), bit_1));
            last = v_or(last, v_and(v_mpyf_rh(c, 1 << 14), bit_2)); /* products shift, as in upper */
            expand_4(isa, dst + 1536, v_add_b(last, lacks), table, scale, NULL);
        }
    }
    (void)isa;
}

static void dequant_ternary(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units)
{
    const vec table = v_const(pair_masks), sign = v_splat_h((int16_t)0x8000);
    for (uint32_t u = 0; u < n_units; u++, src += 640) {
        vec s = v_or(v_load(src + 512), sign);
        vec2 scale = v_shuffoe_h(s, s);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++, dst += 1024) {
            vec low = v_load(src + 128 * j), high = upper(isa, low), under = j < 2 ? v_lo(scale) : v_hi(scale);
            mask_4(isa, dst, v_lut16(low, table, 0), v_lut16(low, table, 2), under);
            mask_4(isa, dst + 512, v_lut16(high, table, 0), v_lut16(high, table, 2), under);
        }
    }
    (void)isa;
}

static void dequant_4m(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units, vec table)
{
    for (uint32_t u = 0; u < n_units; u++, src += 1280, dst += 2 * TILE_BYTES) {
        vec s = v_load(src + 1024), m = v_load(src + 1152);
        vec2 scale = v_shuffoe_h(s, s), least = v_shuffoe_h(m, m);
        vec least_0 = v_lo(least), least_1 = v_hi(least);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) expand_4(isa, dst + 512 * j, v_load(src + 128 * j), table, v_lo(scale), &least_0);
#pragma GCC unroll 4
        for (int j = 4; j < 8; j++) expand_4(isa, dst + 512 * j, v_load(src + 128 * j), table, v_hi(scale), &least_1);
    }
    (void)isa;
}

/* Two tile vectors of 128 8-bit codes. */
ISA_INLINE void expand_8(struct isa *isa, uint8_t *restrict dst, vec codes, vec flip, vec scale)
{
    vec2 h = v_sxt_b(v_xor(codes, flip));
    v_store(dst, f16_mul(f16_of_i16(v_lo(h)), scale));
    v_store(dst + 128, f16_mul(f16_of_i16(v_hi(h)), scale));
    (void)isa;
}

static void dequant_8(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units)
{
    vec flip = v_splat_b(0x80);
    for (uint32_t u = 0; u < n_units; u++, src += 2176, dst += 2 * TILE_BYTES) {
        vec s = v_load(src + 2048);
        vec2 scale = v_shuffoe_h(s, s);
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) expand_8(isa, dst + 256 * j, v_load(src + 128 * j), flip, v_lo(scale));
#pragma GCC unroll 8
        for (int j = 8; j < 16; j++) expand_8(isa, dst + 256 * j, v_load(src + 128 * j), flip, v_hi(scale));
    }
    (void)isa;
}

/* Vector j of a unit in supergroups: two more lookups put each of 8 scales before its 32 values. */
ISA_INLINE void expand_super(
    struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, vec table, vec scales, vec spread, int j)
{
    const int sel = (j >> 1 & 1) | (j >> 2) << 1;
    vec codes = v_load(src + 128 * j), next = v_add_b(spread, v_splat_b(4));
    vec2 low = v_lut16(codes, table, 0), high = v_lut16(upper(isa, codes), table, 0);
    vec2 s_low = v_lut16(spread, scales, sel), s_high = v_lut16(next, scales, sel);
    dst += 512 * j;
    v_store(dst, f16_mul(v_lo(low), v_lo(s_low)));
    v_store(dst + 128, f16_mul(v_hi(low), v_hi(s_low)));
    v_store(dst + 256, f16_mul(v_lo(high), v_lo(s_high)));
    v_store(dst + 384, f16_mul(v_hi(high), v_hi(s_high)));
    (void)isa;
}

/* Vector j of 8-bit codes: half of the groups of 4-bit vector j / 2. */
ISA_INLINE void expand_super_8(
    struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, vec flip, vec scales, vec spread, int j)
{
    const int sel = (j >> 2 & 1) | (j >> 3) << 1;
    vec2 h = v_sxt_b(v_xor(v_load(src + 128 * j), flip));
    vec2 s = v_lut16(j & 1 ? v_add_b(spread, v_splat_b(4)) : spread, scales, sel);
    v_store(dst + 256 * j, f16_mul(f16_of_i16(v_lo(h)), v_lo(s)));
    v_store(dst + 256 * j + 128, f16_mul(f16_of_i16(v_hi(h)), v_hi(s)));
    (void)isa;
}

static void dequant_super_8(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units)
{
    const vec even = v_mux(m_first(64), v_splat_h(0x0200), v_splat_h(0x0301)), odd = v_add_b(even, v_splat_b(8));
    const vec flip = v_splat_b(0x80);
    for (uint32_t u = 0; u < n_units; u++, src += 2176, dst += 2 * TILE_BYTES) {
        vec scales = v_load(src + 2048);
#pragma GCC unroll 8
        for (int j = 0; j < 16; j++) expand_super_8(isa, dst, src, flip, scales, j & 2 ? odd : even, j);
    }
    (void)isa;
}

static void dequant_super(
    struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units, vec table)
{
    /* Even bytes select the low result vector's scale, odd bytes the high one's: groups 0 | 1 and 2 | 3. */
    const vec even = v_mux(m_first(64), v_splat_h(0x0200), v_splat_h(0x0301)), odd = v_add_b(even, v_splat_b(8));
    for (uint32_t u = 0; u < n_units; u++, src += 1152, dst += 2 * TILE_BYTES) {
        vec scales = v_load(src + 1024);
#pragma GCC unroll 4
        for (int j = 0; j < 8; j++) expand_super(isa, dst, src, table, scales, j & 1 ? odd : even, j);
    }
    (void)isa;
}

/* Halves are tiles already. */
static void copy(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units)
{
    for (uint32_t i = 0; i < n_units * 2 * TILE_BYTES; i += 128) v_store(dst + i, v_load(src + i));
    (void)isa;
}

void npu_dequant(struct isa *isa, uint32_t kind, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units)
{
    switch (kind) {
    case NPU_W_Q4_0: dequant_4(isa, dst, src, n_units, v_const(signed_table)); break;
    case NPU_W_IQ4_NL: dequant_4(isa, dst, src, n_units, v_const(nl_table)); break;
    case NPU_W_MXFP4: dequant_4(isa, dst, src, n_units, v_const(fp4_table)); break;
    case NPU_W_W2: dequant_w2(isa, dst, src, n_units); break;
    case NPU_W_W3: dequant_w3(isa, dst, src, n_units); break;
    case NPU_W_W4: dequant_w4(isa, dst, src, n_units); break;
    case NPU_W_TERNARY: dequant_ternary(isa, dst, src, n_units); break;
    case NPU_W_Q4_1: dequant_4m(isa, dst, src, n_units, v_const(unsigned_table)); break;
    case NPU_W_Q8_0: dequant_8(isa, dst, src, n_units); break;
    case NPU_W_SUPER4: dequant_super(isa, dst, src, n_units, v_const(signed_table)); break;
    case NPU_W_SUPER8: dequant_super_8(isa, dst, src, n_units); break;
    case NPU_W_F16: copy(isa, dst, src, n_units); break;
    default: npu_dequant_k(isa, kind, dst, src, n_units); break;
    }
}
