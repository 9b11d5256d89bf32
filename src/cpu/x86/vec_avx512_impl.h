/* SPDX-License-Identifier: MIT
 *
 * Vectors of f32 on AVX-512, in the names that the shared kernel bodies (*_tmpl.h) are written in.
 * vec_avx2_impl.h has the same names.  A file of kernels includes exactly one of the two.
 */
#ifndef LUTRA_CPU_VEC_IMPL_H
#define LUTRA_CPU_VEC_IMPL_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

typedef __m512 vec;
typedef __mmask16 vmask;

/* Lanes; register tile of attention: queries x vectors of keys or of output elements. */
enum { VEC = 16, TILE_Q = 6, TILE_V = 4 };

LUTRA_INLINE vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
LUTRA_INLINE void vec_store(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}
LUTRA_INLINE vec vec_set1(float x)
{
    return _mm512_set1_ps(x);
}
LUTRA_INLINE vec vec_zero(void)
{
    return _mm512_setzero_ps();
}
LUTRA_INLINE vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}
LUTRA_INLINE vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}
LUTRA_INLINE vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}
LUTRA_INLINE vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}
LUTRA_INLINE vec vec_fma(vec a, vec b, vec c) /* a b + c */
{
    return _mm512_fmadd_ps(a, b, c);
}
LUTRA_INLINE vec vec_fnma(vec a, vec b, vec c) /* c - a b */
{
    return _mm512_fnmadd_ps(a, b, c);
}
LUTRA_INLINE vec vec_max(vec a, vec b) /* b where either is NaN */
{
    return _mm512_max_ps(a, b);
}
LUTRA_INLINE vec vec_round(vec a) /* to nearest integer, ties to even */
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
LUTRA_INLINE vec vec_scale2(vec a, vec n) /* a 2^n for integers n; exact when a is about 1 and -126 <= n <= 127 */
{
    return _mm512_scalef_ps(a, n);
}
LUTRA_INLINE vmask vec_less(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
LUTRA_INLINE bool vec_any(vmask m)
{
    return m != 0;
}
LUTRA_INLINE vec vec_select(vmask m, vec yes, vec no)
{
    return _mm512_mask_blend_ps(m, no, yes);
}

/* Lanes lo <= i < hi; any lo, hi. */
LUTRA_INLINE vmask vec_lanes(int lo, int hi)
{
    int from = lo < 0 ? 0 : lo > VEC ? VEC : lo, to = hi < 0 ? 0 : hi > VEC ? VEC : hi;
    return (vmask)((0xffffu << from) & ~(0xffffu << to));
}

/* The first n elements, 0 <= n <= VEC; 0 in the other lanes.  Nothing else is read or written. */
LUTRA_INLINE vec vec_load_part(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(vec_lanes(0, n), p);
}
LUTRA_INLINE void vec_store_part(float *p, vec v, int n)
{
    _mm512_mask_storeu_ps(p, vec_lanes(0, n), v);
}
LUTRA_INLINE vec vec_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
LUTRA_INLINE vec vec_load_f16_part(const uint16_t *p, int n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vec_lanes(0, n), p));
}
LUTRA_INLINE vec vec_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
LUTRA_INLINE void vec_store_f16(uint16_t *p, vec v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

/* In one fixed order: halves, quarters, eighths, sixteenths. */
LUTRA_INLINE float vec_sum(vec v)
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
LUTRA_INLINE float vec_largest(vec v)
{
    __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
LUTRA_INLINE double vec_sum_double(vec v)
{
    __m512d lo = _mm512_cvtps_pd(_mm512_castps512_ps256(v)), hi = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
    return _mm512_reduce_add_pd(_mm512_add_pd(lo, hi));
}

/* [a0 a1 a2 ...] [b0 b1 b2 ...] <-> even and odd elements of the two. */
LUTRA_INLINE void vec_split_pairs(vec a, vec b, vec *even, vec *odd)
{
    const __m512i e = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i o = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    *even = _mm512_permutex2var_ps(a, e, b);
    *odd = _mm512_permutex2var_ps(a, o, b);
}
LUTRA_INLINE void vec_join_pairs(vec even, vec odd, vec *a, vec *b)
{
    const __m512i lo = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i hi = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    *a = _mm512_permutex2var_ps(even, lo, odd);
    *b = _mm512_permutex2var_ps(even, hi, odd);
}

/* r[i] lane j <-> r[j] lane i.  Pairs of rows, then pairs of pairs, within 128-bit lanes; then the lanes. */
LUTRA_INLINE void vec_transpose(vec r[VEC])
{
    vec t[VEC];
    for (int i = 0; i < VEC; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < VEC; i += 4) {
        r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) { /* r[4g + i], 128-bit lane l = rows 4g..4g+3, column 4l + i */
        vec a = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88), b = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        vec c = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88), d = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
        t[i] = _mm512_shuffle_f32x4(a, c, 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
        t[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
        t[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
    for (int i = 0; i < VEC; i++) r[i] = t[i];
}

#endif
