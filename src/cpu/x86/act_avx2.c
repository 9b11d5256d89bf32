/* SPDX-License-Identifier: MIT
 *
 * Activations to int8, one scale per 32 or per 256 inputs: d = max|x| / 127, q = round to even of x * (127 / max|x|).
 * A group whose largest value is below 1e-30 (or not a number) becomes zero.  Used at every x86 level.
 */
#include <immintrin.h>
#include <string.h>

#include "base/compiler.h"
#include "cpu/layout.h"

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

/* Stores 8 steps of 4 bytes, `width` columns apart. */
LUTRA_INLINE void scatter(uint8_t *to, size_t width, __m256i q)
{
    int32_t word[8];
    _mm256_storeu_si256((__m256i *)word, q);
    for (int i = 0; i < 8; i++) memcpy(to + (size_t)i * width * 4, &word[i], 4);
}

LUTRA_INLINE float inverse_of(float max)
{
    return max > SMALLEST && max < LARGEST ? 127.0f / max : 0;
}

LUTRA_INLINE float scale_of(float max)
{
    return max > SMALLEST && max < LARGEST ? max / 127.0f : 0;
}

void cpu_act_row_q8x32_avx2(const float *x, size_t n_in, size_t row, size_t n_row, void *act)
{
    struct act_place p = act_place_of(row, n_row);
    uint8_t *r = (uint8_t *)act + p.block * ACT_COLUMNS * (n_in / 32) * ACT32_BYTES;
    for (size_t k = 0; k < n_in; k += 32, r += p.width * ACT32_BYTES) {
        float max = max_abs(x + k, 32), scale = scale_of(max);
        __m256i q = quantize32(x + k, inverse_of(max));
        int32_t sum[2];
        sum16(q, sum);
        scatter(r + 4 * p.column, p.width, q);
        int32_t start = -8 * (sum[0] + sum[1]);
        float scaled = scale * (float)(sum[0] + sum[1]);
        uint8_t *tail = r + 32 * p.width + 4 * p.column;
        memcpy(tail, &scale, 4);
        memcpy(tail + 4 * p.width, &start, 4);
        memcpy(tail + 8 * p.width, &scaled, 4);
    }
}

void cpu_act_row_q8x256_avx2(const float *x, size_t n_in, size_t row, size_t n_row, void *act)
{
    struct act_place p = act_place_of(row, n_row);
    uint8_t *r = (uint8_t *)act + p.block * ACT_COLUMNS * (n_in / 256) * ACT256_BYTES;
    for (size_t k = 0; k < n_in; k += 256, r += p.width * ACT256_BYTES) {
        float max = max_abs(x + k, 256), scale = scale_of(max), inverse = inverse_of(max);
        uint8_t *tail = r + 256 * p.width + 4 * p.column;
        int32_t start = 0;
        memcpy(tail, &scale, 4);
        for (size_t g = 0; g < 8; g++) {
            __m256i q = quantize32(x + k + 32 * g, inverse);
            int32_t sum[2];
            sum16(q, sum);
            scatter(r + 32 * g * p.width + 4 * p.column, p.width, q);
            int16_t both = (int16_t)(sum[0] + sum[1]);
            memcpy(tail + (2 + g / 2) * 4 * p.width + 2 * (g % 2), &both, 2);
            for (size_t h = 0; h < 2; h++) {
                int32_t start16 = -32 * sum[h];
                memcpy(tail + (6 + 2 * g + h) * 4 * p.width, &start16, 4);
            }
            start -= both;
        }
        memcpy(tail + 4 * p.width, &start, 4);
    }
}
