/* SPDX-License-Identifier: MIT
 *
 * exp of halves <= 0 for the softmax, three ways [TTS 5.2.1, Figure 14]: a table in TCM read by gathers, a polynomial in
 * halves, and f32 arithmetic.
 *
 * The table is indexed by the IEEE bits of the half without its sign: entry i is the nearest half of exp(-half(i)), 0 for
 * infinity, NaN for NaN.  (Never by the unit's own form, whose bits differ between generations.)
 */
#include "npu/dsp/kernels.h"
#include "npu/dsp/vmath.h"

enum { TABLE_BYTES = 65536, SIGN = (int32_t)0x80008000 };

/* exp of 64 halves in f32. */
ISA_INLINE vec exp_wide(struct isa *isa, vec x)
{
    vec2 w = q32_mul_f16(x, v_splat_h(0x3c00));
    const vec zero = v_zero();
    vec even = v_exp(isa, f32_of_q32(v_lo(w))), odd = v_exp(isa, f32_of_q32(v_hi(w)));
    (void)isa;
    return f16_of_q32(v_pair(q32_add(odd, zero), q32_add(even, zero)));
}

void npu_exp_table(struct isa *isa, uint8_t *table)
{
    static const uint16_t ramp[64] __attribute__((aligned(128))) = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
        15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42,
        43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    const vec infinity = v_splat_h(0x7c00);
    vec index = v_const(ramp);
    for (uint32_t i = 0; i < TABLE_BYTES; i += 128, index = v_add_h(index, v_splat_h(64))) {
        vec y = exp_wide(isa, v_or(index, v_splat_w(SIGN)));
        y = v_mux(v_eq_h(index, infinity), v_zero(), y);
        v_store(table + i, v_mux(v_gt_h(index, infinity), v_splat_h(0x7e00), y));
    }
}

void npu_exp_by_table(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict x, uint32_t n, const uint8_t *table,
    uint8_t *restrict scratch)
{
    /* Four gathers are under way before the first result is read. */
    for (uint32_t i = 0; i < 2 * n; i += 512) {
        uint32_t left = 2 * n - i < 512 ? 2 * n - i : 512;
        if (left == 512) {
#pragma GCC unroll 4
            for (uint32_t j = 0; j < 512; j += 128)
                v_gather_h(scratch + j, table, TABLE_BYTES, v_asl_h(v_load(x + i + j), 1));
#pragma GCC unroll 4
            for (uint32_t j = 0; j < 512; j += 128) v_store(y + i + j, v_load(scratch + j));
        } else {
            for (uint32_t j = 0; j < left; j += 128)
                v_gather_h(scratch + j, table, TABLE_BYTES, v_asl_h(v_load(x + i + j), 1));
            for (uint32_t j = 0; j < left; j += 128) v_store(y + i + j, v_load(scratch + j));
        }
    }
    (void)isa;
}

/* 2^t by halves: t = x log2(e), rounded to an integer by a magic sum, the rest by a series to f^4.  Below -24 the result
 * is 0, between -14 and -24 it is built from a normal number by a product, so that it rounds once more. */
ISA_INLINE vec exp_half(struct isa *isa, vec x)
{
    static const int16_t series[5] = {0x20ed, 0x2b1b, 0x33b0, 0x398c, 0x3c00}; /* ln(2)^n / n!, n = 4 .. 0 */
    const vec magic = v_splat_h(0x6600); /* 1.5 * 2^10: the sum's last place is 1 */
    vec t = f16_max(f16_mul(x, v_splat_h(0x3dc5)), v_splat_h((int16_t)0xce40)); /* at least -25 */
    vec whole = f16_add(t, magic), e = v_sub_h(whole, magic);
    vec f = q16_sub(t, f16_sub(whole, magic)),
        p = q16_add_q(q16_mul(v_splat_h(series[0]), f16_of_q16(f)), v_splat_h(series[1]));
#pragma GCC unroll 3
    for (int i = 2; i < 5; i++) p = q16_add_q(q16_mul_qq(p, f), v_splat_h(series[i]));
    /* 2^e in two factors, each normal: e is between -25 and 0. */
    vec first = v_max_h(e, v_splat_h(-12)), second = v_sub_h(e, first), bias = v_splat_h(15);
    vec r = f16_mul(f16_of_q16(p), v_asl_h(v_add_h(first, bias), 10));
    (void)isa;
    return f16_mul(r, v_asl_h(v_add_h(second, bias), 10));
}

void npu_exp_by_f16(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict x, uint32_t n)
{
    for (uint32_t i = 0; i < 2 * n; i += 128) v_store(y + i, exp_half(isa, v_load(x + i)));
}

void npu_exp_by_f32(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict x, uint32_t n)
{
    for (uint32_t i = 0; i < 2 * n; i += 128) v_store(y + i, exp_wide(isa, v_load(x + i)));
}
