/* SPDX-License-Identifier: MIT
 *
 * Vectors of f32 on NEON: the same names as x86/vec_avx2_impl.h, and as many lanes (two registers), so that sums have
 * the same order and results the same bits.
 */
#ifndef LUTRA_CPU_VEC_IMPL_H
#define LUTRA_CPU_VEC_IMPL_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

typedef struct {
    float32x4_t lo, hi;
} vec;
typedef struct {
    uint32x4_t lo, hi; /* all ones or all zeros per lane */
} vmask;

/* 12 of the 16 pairs of registers accumulate. */
enum { VEC = 8, TILE_Q = 6, TILE_V = 2 };

LUTRA_INLINE vec vec_load(const float *p)
{
    return (vec){vld1q_f32(p), vld1q_f32(p + 4)};
}
LUTRA_INLINE void vec_store(float *p, vec v)
{
    vst1q_f32(p, v.lo);
    vst1q_f32(p + 4, v.hi);
}
LUTRA_INLINE vec vec_set1(float x)
{
    return (vec){vdupq_n_f32(x), vdupq_n_f32(x)};
}
LUTRA_INLINE vec vec_zero(void)
{
    return vec_set1(0);
}
LUTRA_INLINE vec vec_add(vec a, vec b)
{
    return (vec){vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)};
}
LUTRA_INLINE vec vec_sub(vec a, vec b)
{
    return (vec){vsubq_f32(a.lo, b.lo), vsubq_f32(a.hi, b.hi)};
}
LUTRA_INLINE vec vec_mul(vec a, vec b)
{
    return (vec){vmulq_f32(a.lo, b.lo), vmulq_f32(a.hi, b.hi)};
}
LUTRA_INLINE vec vec_div(vec a, vec b)
{
    return (vec){vdivq_f32(a.lo, b.lo), vdivq_f32(a.hi, b.hi)};
}
LUTRA_INLINE vec vec_fma(vec a, vec b, vec c) /* a b + c */
{
    return (vec){vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)};
}
LUTRA_INLINE vec vec_fnma(vec a, vec b, vec c) /* c - a b */
{
    return (vec){vfmsq_f32(c.lo, a.lo, b.lo), vfmsq_f32(c.hi, a.hi, b.hi)};
}
LUTRA_INLINE vmask vec_less(vec a, vec b)
{
    return (vmask){vcltq_f32(a.lo, b.lo), vcltq_f32(a.hi, b.hi)};
}
LUTRA_INLINE bool vec_any(vmask m)
{
    return vmaxvq_u32(vorrq_u32(m.lo, m.hi)) != 0;
}
LUTRA_INLINE vec vec_select(vmask m, vec yes, vec no)
{
    return (vec){vbslq_f32(m.lo, yes.lo, no.lo), vbslq_f32(m.hi, yes.hi, no.hi)};
}
LUTRA_INLINE vec vec_max(vec a, vec b) /* b where either is NaN */
{
    return vec_select(vec_less(b, a), a, b);
}
LUTRA_INLINE vec vec_round(vec a) /* to nearest integer, ties to even */
{
    return (vec){vrndnq_f32(a.lo), vrndnq_f32(a.hi)};
}
LUTRA_INLINE float32x4_t quad_scale2(float32x4_t a, float32x4_t n)
{
    int32x4_t bits = vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23);
    return vmulq_f32(a, vreinterpretq_f32_s32(bits));
}
LUTRA_INLINE vec vec_scale2(vec a, vec n) /* a 2^n for integers n; exact when a is about 1 and -126 <= n <= 127 */
{
    return (vec){quad_scale2(a.lo, n.lo), quad_scale2(a.hi, n.hi)};
}

/* Lanes lo <= i < hi; any lo, hi. */
LUTRA_INLINE vmask vec_lanes(int lo, int hi)
{
    static const int32_t LANE[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    int32x4_t low = vld1q_s32(LANE), high = vld1q_s32(LANE + 4), from = vdupq_n_s32(lo), to = vdupq_n_s32(hi);
    return (vmask){
        vandq_u32(vcgeq_s32(low, from), vcltq_s32(low, to)), vandq_u32(vcgeq_s32(high, from), vcltq_s32(high, to))};
}

/* The first n elements, n <= VEC (negative: none); 0 in the other lanes.  Nothing else is read or written. */
LUTRA_INLINE vec vec_load_part(const float *p, int n)
{
    float part[VEC] = {0};
    if (n >= VEC) return vec_load(p);
    for (int i = 0; i < n; i++) part[i] = p[i];
    return vec_load(part);
}
LUTRA_INLINE void vec_store_part(float *p, vec v, int n)
{
    float part[VEC];
    if (n >= VEC) {
        vec_store(p, v);
        return;
    }
    vec_store(part, v);
    for (int i = 0; i < n; i++) p[i] = part[i];
}
LUTRA_INLINE vec vec_load_f16(const uint16_t *p)
{
    float16x8_t h = vreinterpretq_f16_u16(vld1q_u16(p));
    return (vec){vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h)};
}
LUTRA_INLINE vec vec_load_f16_part(const uint16_t *p, int n)
{
    uint16_t part[VEC] = {0};
    if (n > 0) memcpy(part, p, (size_t)(n < VEC ? n : VEC) * sizeof *part);
    return vec_load_f16(part);
}
LUTRA_INLINE vec vec_load_i8(const int8_t *p)
{
    int16x8_t x = vmovl_s8(vld1_s8(p));
    return (vec){vcvtq_f32_s32(vmovl_s16(vget_low_s16(x))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(x)))};
}
LUTRA_INLINE void vec_store_f16(uint16_t *p, vec v)
{
    vst1q_u16(p, vreinterpretq_u16_f16(vcombine_f16(vcvt_f16_f32(v.lo), vcvt_f16_f32(v.hi))));
}

/* In one fixed order: halves, quarters, eighths. */
LUTRA_INLINE float vec_sum(vec v)
{
    float32x4_t a = vaddq_f32(v.lo, v.hi);
    float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}
LUTRA_INLINE float vec_largest(vec v)
{
    return vmaxnmvq_f32(vmaxnmq_f32(v.lo, v.hi));
}
LUTRA_INLINE double vec_sum_double(vec v)
{
    float64x2_t a = vaddq_f64(vcvt_f64_f32(vget_low_f32(v.lo)), vcvt_f64_f32(vget_low_f32(v.hi)));
    float64x2_t b = vaddq_f64(vcvt_high_f64_f32(v.lo), vcvt_high_f64_f32(v.hi));
    return vaddvq_f64(vaddq_f64(a, b));
}

/* [a0 a1 a2 ...] [b0 b1 b2 ...] <-> even and odd elements of the two. */
LUTRA_INLINE void vec_split_pairs(vec a, vec b, vec *even, vec *odd)
{
    *even = (vec){vuzp1q_f32(a.lo, a.hi), vuzp1q_f32(b.lo, b.hi)};
    *odd = (vec){vuzp2q_f32(a.lo, a.hi), vuzp2q_f32(b.lo, b.hi)};
}
LUTRA_INLINE void vec_join_pairs(vec even, vec odd, vec *a, vec *b)
{
    *a = (vec){vzip1q_f32(even.lo, odd.lo), vzip2q_f32(even.lo, odd.lo)};
    *b = (vec){vzip1q_f32(even.hi, odd.hi), vzip2q_f32(even.hi, odd.hi)};
}

/* q[i] lane j <-> q[j] lane i, 4 x 4. */
LUTRA_INLINE void quad_transpose(float32x4_t *a, float32x4_t *b, float32x4_t *c, float32x4_t *d)
{
    float64x2_t ab0 = vreinterpretq_f64_f32(vtrn1q_f32(*a, *b)), ab1 = vreinterpretq_f64_f32(vtrn2q_f32(*a, *b));
    float64x2_t cd0 = vreinterpretq_f64_f32(vtrn1q_f32(*c, *d)), cd1 = vreinterpretq_f64_f32(vtrn2q_f32(*c, *d));
    *a = vreinterpretq_f32_f64(vtrn1q_f64(ab0, cd0));
    *b = vreinterpretq_f32_f64(vtrn1q_f64(ab1, cd1));
    *c = vreinterpretq_f32_f64(vtrn2q_f64(ab0, cd0));
    *d = vreinterpretq_f32_f64(vtrn2q_f64(ab1, cd1));
}

/* r[i] lane j <-> r[j] lane i. */
LUTRA_INLINE void vec_transpose(vec r[VEC])
{
    quad_transpose(&r[0].lo, &r[1].lo, &r[2].lo, &r[3].lo);
    quad_transpose(&r[0].hi, &r[1].hi, &r[2].hi, &r[3].hi);
    quad_transpose(&r[4].lo, &r[5].lo, &r[6].lo, &r[7].lo);
    quad_transpose(&r[4].hi, &r[5].hi, &r[6].hi, &r[7].hi);
    for (int i = 0; i < 4; i++) {
        float32x4_t t = r[i].hi;
        r[i].hi = r[i + 4].lo;
        r[i + 4].lo = t;
    }
}

#endif
