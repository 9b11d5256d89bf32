/* SPDX-License-Identifier: MIT
 *
 * Vectors of f32 on AVX2 + FMA + F16C: the same names as vec_avx512_impl.h.
 */
#ifndef LUTRA_CPU_VEC_IMPL_H
#define LUTRA_CPU_VEC_IMPL_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

typedef __m256 vec;
typedef __m256 vmask; /* all ones or all zeros per lane */

/* As in vec_avx512_impl.h. */
enum { VEC = 8, TILE_Q = 3, TILE_V = 4 };

LUTRA_INLINE vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
LUTRA_INLINE void vec_store(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}
LUTRA_INLINE vec vec_set1(float x)
{
    return _mm256_set1_ps(x);
}
LUTRA_INLINE vec vec_zero(void)
{
    return _mm256_setzero_ps();
}
LUTRA_INLINE vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}
LUTRA_INLINE vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}
LUTRA_INLINE vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}
LUTRA_INLINE vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}
LUTRA_INLINE vec vec_fma(vec a, vec b, vec c) /* a b + c */
{
    return _mm256_fmadd_ps(a, b, c);
}
LUTRA_INLINE vec vec_fnma(vec a, vec b, vec c) /* c - a b */
{
    return _mm256_fnmadd_ps(a, b, c);
}
LUTRA_INLINE vec vec_max(vec a, vec b) /* b where either is NaN */
{
    return _mm256_max_ps(a, b);
}
LUTRA_INLINE vec vec_round(vec a) /* to nearest integer, ties to even */
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
LUTRA_INLINE vec vec_scale2(vec a, vec n) /* a 2^n for integers n; exact when a is about 1 and -126 <= n <= 127 */
{
    __m256i bits = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(a, _mm256_castsi256_ps(bits));
}
LUTRA_INLINE vmask vec_less(vec a, vec b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
LUTRA_INLINE bool vec_any(vmask m)
{
    return _mm256_movemask_ps(m) != 0;
}
LUTRA_INLINE vec vec_select(vmask m, vec yes, vec no)
{
    return _mm256_blendv_ps(no, yes, m);
}

/* Lanes lo <= i < hi; any lo, hi. */
LUTRA_INLINE vmask vec_lanes(int lo, int hi)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(lo), lane),
            within = _mm256_cmpgt_epi32(_mm256_set1_epi32(hi), lane);
    return _mm256_castsi256_ps(_mm256_andnot_si256(below, within));
}

/* The first n elements, n <= VEC (negative: none); 0 in the other lanes.  Nothing else is read or written. */
LUTRA_INLINE vec vec_load_part(const float *p, int n)
{
    return _mm256_maskload_ps(p, _mm256_castps_si256(vec_lanes(0, n)));
}
LUTRA_INLINE void vec_store_part(float *p, vec v, int n)
{
    _mm256_maskstore_ps(p, _mm256_castps_si256(vec_lanes(0, n)), v);
}
LUTRA_INLINE vec vec_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
LUTRA_INLINE vec vec_load_f16_part(const uint16_t *p, int n)
{
    uint16_t part[VEC] = {0};
    if (n > 0) memcpy(part, p, (size_t)(n < VEC ? n : VEC) * sizeof *part);
    return vec_load_f16(part);
}
LUTRA_INLINE vec vec_load_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
LUTRA_INLINE void vec_store_f16(uint16_t *p, vec v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

/* In one fixed order: halves, quarters, eighths. */
LUTRA_INLINE float vec_sum(vec v)
{
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
LUTRA_INLINE float vec_largest(vec v)
{
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
LUTRA_INLINE double vec_sum_double(vec v)
{
    __m256d a = _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(v)), _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
    __m128d b = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(b, _mm_unpackhi_pd(b, b)));
}

/* [a0 a1 a2 ...] [b0 b1 b2 ...] <-> even and odd elements of the two. */
LUTRA_INLINE void vec_split_pairs(vec a, vec b, vec *even, vec *odd)
{
    vec lo = _mm256_permute2f128_ps(a, b, 0x20), hi = _mm256_permute2f128_ps(a, b, 0x31);
    vec e = _mm256_shuffle_ps(lo, hi, 0x88), o = _mm256_shuffle_ps(lo, hi, 0xdd); /* a0 a2 a4 a6 | b0 b2 b4 b6 */
    *even = e;
    *odd = o;
}
LUTRA_INLINE void vec_join_pairs(vec even, vec odd, vec *a, vec *b)
{
    vec lo = _mm256_unpacklo_ps(even, odd), hi = _mm256_unpackhi_ps(even, odd);
    *a = _mm256_permute2f128_ps(lo, hi, 0x20);
    *b = _mm256_permute2f128_ps(lo, hi, 0x31);
}

/* r[i] lane j <-> r[j] lane i. */
LUTRA_INLINE void vec_transpose(vec r[VEC])
{
    vec t[VEC];
    for (int i = 0; i < VEC; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < VEC; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        vec a = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20), b = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
        r[i] = a;
        r[i + 4] = b;
    }
}

#endif
