/* SPDX-License-Identifier: MIT
 *
 * Small functions of vectors of f32, from the operations of isa.h alone: the same bits in the emulator and under QEMU.
 */
#ifndef LUTRA_NPU_DSP_VMATH_H
#define LUTRA_NPU_DSP_VMATH_H

#include "npu/dsp/isa.h"

#define F32_ONE 0x3f800000

/* 1 / x for normal x: a bit trick and three Newton steps; within 2 ulp. */
ISA_INLINE vec v_reciprocal(struct isa *isa, vec x)
{
    const vec two = v_splat_w(0x40000000);
    vec r = v_sub_w(v_splat_w(0x7ef311c7), x);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) r = f32_mul(r, f32_sub(two, f32_mul(x, r)));
    (void)isa;
    return r;
}

/* 1 / sqrt(x) for normal x > 0: within 2 ulp. */
ISA_INLINE vec v_rsqrt(struct isa *isa, vec x)
{
    const vec half = v_splat_w(0x3f000000), three_halves = v_splat_w(0x3fc00000);
    vec r = v_sub_w(v_splat_w(0x5f3759df), v_lsr_uw(x, 1)), h = f32_mul(x, half);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) r = f32_mul(r, f32_sub(three_halves, f32_mul(f32_mul(h, r), r)));
    (void)isa;
    return r;
}

/* Sum of 32 lanes in every lane: halves, quarters, ... */
ISA_INLINE vec v_sum_w(struct isa *isa, vec x)
{
#pragma GCC unroll 5
    for (int n = 64; n >= 4; n >>= 1) x = f32_add(x, v_ror(x, n));
    (void)isa;
    return x;
}

/* exp(x), |relative error| < 2e-7 for |x| <= 87; clamped beyond.  2^f by its series to f^6 on [-1/2, 1/2]. */
ISA_INLINE vec v_exp(struct isa *isa, vec x)
{
    /* ln(2)^n / n!, n = 6 .. 1, and 1; a magic number whose addition rounds to an integer. */
    static const int32_t series[7] = {0x39218489, 0x3aaec3ff, 0x3c1d955b, 0x3d635847, 0x3e75fdf0, 0x3f317218, F32_ONE};
    const vec magic = v_splat_w(0x4b400000);
    x = f32_min(f32_max(x, v_splat_w((int32_t)0xc2ae0000)), v_splat_w(0x42ae0000)); /* +-87 */
    vec whole = f32_of_q32(q32_add_q(q32_mul(x, v_splat_w(0x3fb8aa3b)), magic));
    /* f = x log2(e) - whole, computed as (x - whole ln2_high - whole ln2_low) log2(e) to keep its last bits. */
    vec n = f32_sub(whole, magic);
    vec r = f32_of_q32(q32_add_q(q32_mul(n, v_splat_w((int32_t)0xbf318000)), x));
    vec f = f32_of_q32(q32_add_q(q32_mul(n, v_splat_w(0x395e8083)), r));
    vec q = q32_mul(f, v_splat_w(0x3fb8aa3b)),
        p = q32_add_q(q32_mul(v_splat_w(series[0]), f32_of_q32(q)), v_splat_w(series[1]));
#pragma GCC unroll 5
    for (int i = 2; i < 7; i++) p = q32_add_q(q32_mul_qq(p, q), v_splat_w(series[i]));
    (void)isa;
    return v_add_w(f32_of_q32(p), v_asl_w(v_sub_w(whole, magic), 23));
}

/* tanh(x), absolute error < 1e-6. */
ISA_INLINE vec v_tanh(struct isa *isa, vec x)
{
    const vec one = v_splat_w(F32_ONE), two = v_splat_w(0x40000000);
    vec t = f32_min(f32_max(x, v_splat_w((int32_t)0xc1200000)), v_splat_w(0x41200000)); /* +-10 */
    return f32_sub(one, f32_mul(two, v_reciprocal(isa, f32_add(v_exp(isa, f32_add(t, t)), one))));
}

#endif
