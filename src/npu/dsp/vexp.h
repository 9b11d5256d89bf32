/* SPDX-License-Identifier: MIT
 *
 * exp of a vector of 64 halves <= 0: by a polynomial of halves and by f32 arithmetic; the third way is dsp/exp.c's
 * table.
 */
#ifndef LUTRA_NPU_DSP_VEXP_H
#define LUTRA_NPU_DSP_VEXP_H

#include "npu/dsp/vmath.h"

enum { EXP_TABLE_BYTES = 65536 };

/* exp of 64 halves in f32. */
ISA_INLINE vec v_exp_wide(struct isa *isa, vec x)
{
    vec2 w = q32_mul_f16(x, v_splat_h(0x3c00));
    const vec zero = v_zero();
    vec even = v_exp(isa, f32_of_q32(v_lo(w))), odd = v_exp(isa, f32_of_q32(v_hi(w)));
    (void)isa;
    return f16_of_q32(v_pair(q32_add(odd, zero), q32_add(even, zero)));
}

/* 2^t by halves: t = x log2(e), rounded to an integer by a magic sum, the rest by a series to f^4.  Below -24 the
 * result is 0, between -14 and -24 it is built from a normal number by a product, so that it rounds once more. */
ISA_INLINE vec v_exp_half(struct isa *isa, vec x)
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

#endif
