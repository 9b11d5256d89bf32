/* SPDX-License-Identifier: MIT
 *
 * Activations to int8, one scale per group: d = max|x| / 127, q = round to even of x * (127 / max|x|).  A group whose
 * largest value is below 1e-30 (or not a number) becomes zero.  The same at every x86 level; the levels differ in where
 * they put the codes.
 */
#ifndef LUTRA_CPU_X86_ACT_QUANT_IMPL_H
#define LUTRA_CPU_X86_ACT_QUANT_IMPL_H

#include <immintrin.h>

#include "base/compiler.h"

static const float SMALLEST = 1e-30f, LARGEST = 1e38f;

LUTRA_INLINE float max_abs(const float *x, int n)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 m = _mm256_setzero_ps();
    for (int i = 0; i < n; i += 8) m = _mm256_max_ps(_mm256_andnot_ps(sign, _mm256_loadu_ps(x + i)), m);
    __m128 h = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
    h = _mm_max_ps(h, _mm_movehl_ps(h, h));
    h = _mm_max_ss(h, _mm_movehdup_ps(h));
    return _mm_cvtss_f32(h);
}

/* 32 inputs to int8, in order. */
LUTRA_INLINE __m256i quantize32(const float *x, float inverse)
{
    const __m256 s = _mm256_set1_ps(inverse);
    __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), s));
    __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), s));
    __m256i c = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 16), s));
    __m256i d = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 24), s));
    /* Packing works within 128-bit halves; the permutation puts the 8 groups of 4 back in order. */
    __m256i q = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    q = _mm256_permutevar8x32_epi32(q, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    return _mm256_max_epi8(q, _mm256_set1_epi8(-127));
}

/* Sums of 16 and 16. */
LUTRA_INLINE void sum16(__m256i q, int32_t sum[2])
{
    __m256i s = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), q), _mm256_set1_epi16(1));
    __m128i lo = _mm256_castsi256_si128(s), hi = _mm256_extracti128_si256(s, 1);
    __m128i t = _mm_hadd_epi32(lo, hi);
    t = _mm_hadd_epi32(t, t);
    sum[0] = _mm_cvtsi128_si32(t);
    sum[1] = _mm_extract_epi32(t, 1);
}

LUTRA_INLINE float inverse_of(float max)
{
    return max > SMALLEST && max < LARGEST ? 127.0f / max : 0;
}

LUTRA_INLINE float scale_of(float max)
{
    return max > SMALLEST && max < LARGEST ? max / 127.0f : 0;
}

#endif
