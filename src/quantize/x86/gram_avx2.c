/* SPDX-License-Identifier: MIT */
#include <immintrin.h>

#include "quantize/gram_impl.h"

enum { PART = 12 }; /* 4 x 12 at a time: 12 sums, 3 of b, 1 of a are the 16 registers */

static void part(const double *a, const double *b, size_t n_row, double *c, size_t ldc)
{
    __m256d sum[4][3];
    UNROLL
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) sum[i][k] = _mm256_loadu_pd(c + (size_t)i * ldc + 4 * k);
    for (size_t p = 0; p < n_row; p++, a += GRAM_I, b += GRAM_K) {
        __m256d b0 = _mm256_loadu_pd(b), b1 = _mm256_loadu_pd(b + 4), b2 = _mm256_loadu_pd(b + 8);
        UNROLL
        for (int i = 0; i < 4; i++) {
            __m256d x = _mm256_set1_pd(a[i]);
            sum[i][0] = _mm256_fmadd_pd(x, b0, sum[i][0]);
            sum[i][1] = _mm256_fmadd_pd(x, b1, sum[i][1]);
            sum[i][2] = _mm256_fmadd_pd(x, b2, sum[i][2]);
        }
    }
    UNROLL
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) _mm256_storeu_pd(c + (size_t)i * ldc + 4 * k, sum[i][k]);
}

void gram_tile_avx2(const void *a_panel, const void *b_panel, size_t n_row, double *c, size_t ldc)
{
    const double *a = a_panel, *b = b_panel;
    for (size_t i = 0; i < GRAM_I; i += 4)
        for (size_t k = 0; k < GRAM_K; k += PART) part(a + i, b + k, n_row, c + i * ldc + k, ldc);
}

static void add_floats(double *c, __m256 sum)
{
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(sum)), high = _mm256_cvtps_pd(_mm256_extractf128_ps(sum, 1));
    _mm256_storeu_pd(c, _mm256_add_pd(_mm256_loadu_pd(c), low));
    _mm256_storeu_pd(c + 4, _mm256_add_pd(_mm256_loadu_pd(c + 4), high));
}

static void part_f32(const float *a, const float *b, size_t n_row, double *c, size_t ldc)
{
    __m256 sum[4][3];
    UNROLL
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) sum[i][k] = _mm256_setzero_ps();
    for (size_t p = 0; p < n_row; p++, a += GRAM_I, b += GRAM_KF) {
        __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8), b2 = _mm256_loadu_ps(b + 16);
        UNROLL
        for (int i = 0; i < 4; i++) {
            __m256 x = _mm256_set1_ps(a[i]);
            sum[i][0] = _mm256_fmadd_ps(x, b0, sum[i][0]);
            sum[i][1] = _mm256_fmadd_ps(x, b1, sum[i][1]);
            sum[i][2] = _mm256_fmadd_ps(x, b2, sum[i][2]);
        }
    }
    UNROLL
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) add_floats(c + (size_t)i * ldc + 8 * k, sum[i][k]);
}

void gram_tile_f32_avx2(const void *a_panel, const void *b_panel, size_t n_row, double *c, size_t ldc)
{
    const float *a = a_panel, *b = b_panel;
    for (size_t i = 0; i < GRAM_I; i += 4)
        for (size_t k = 0; k < GRAM_KF; k += 2 * PART) part_f32(a + i, b + k, n_row, c + i * ldc + k, ldc);
}

/* Two registers are the rows, four sums of each hide the latency of fma. */
void gram_errors_avx2(const float *a, size_t n, const float *e, float *sum)
{
    for (int half = 0; half < GRAM_ROWS; half += 8) {
        const float *at = e + half;
        __m256 s[4] = {_mm256_loadu_ps(sum + half), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
        size_t j = 0;
        for (; j + 4 <= n; j += 4, at += 4 * GRAM_ROWS) {
            UNROLL
            for (int k = 0; k < 4; k++)
                s[k] = _mm256_fmadd_ps(_mm256_set1_ps(a[j + (size_t)k]), _mm256_loadu_ps(at + k * GRAM_ROWS), s[k]);
        }
        for (; j < n; j++, at += GRAM_ROWS) s[0] = _mm256_fmadd_ps(_mm256_set1_ps(a[j]), _mm256_loadu_ps(at), s[0]);
        _mm256_storeu_ps(sum + half, _mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3])));
    }
}
