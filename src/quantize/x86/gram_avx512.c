/* SPDX-License-Identifier: MIT */
#include <immintrin.h>

#include "quantize/gram_impl.h"

void gram_tile_avx512(const void *a_panel, const void *b_panel, size_t n_row, double *c, size_t ldc)
{
    const double *a = a_panel, *b = b_panel;
    __m512d sum[GRAM_I][3];
    UNROLL
    for (int i = 0; i < GRAM_I; i++)
        for (int k = 0; k < 3; k++) sum[i][k] = _mm512_loadu_pd(c + (size_t)i * ldc + 8 * k);
    for (size_t p = 0; p < n_row; p++, a += GRAM_I, b += GRAM_K) {
        __m512d b0 = _mm512_loadu_pd(b), b1 = _mm512_loadu_pd(b + 8), b2 = _mm512_loadu_pd(b + 16);
        UNROLL
        for (int i = 0; i < GRAM_I; i++) {
            __m512d x = _mm512_set1_pd(a[i]);
            sum[i][0] = _mm512_fmadd_pd(x, b0, sum[i][0]);
            sum[i][1] = _mm512_fmadd_pd(x, b1, sum[i][1]);
            sum[i][2] = _mm512_fmadd_pd(x, b2, sum[i][2]);
        }
    }
    UNROLL
    for (int i = 0; i < GRAM_I; i++)
        for (int k = 0; k < 3; k++) _mm512_storeu_pd(c + (size_t)i * ldc + 8 * k, sum[i][k]);
}

static void add_floats(double *c, __m512 sum)
{
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(sum));
    __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(sum, 1));
    _mm512_storeu_pd(c, _mm512_add_pd(_mm512_loadu_pd(c), low));
    _mm512_storeu_pd(c + 8, _mm512_add_pd(_mm512_loadu_pd(c + 8), high));
}

void gram_tile_f32_avx512(const void *a_panel, const void *b_panel, size_t n_row, double *c, size_t ldc)
{
    const float *a = a_panel, *b = b_panel;
    __m512 sum[GRAM_I][3];
    UNROLL
    for (int i = 0; i < GRAM_I; i++)
        for (int k = 0; k < 3; k++) sum[i][k] = _mm512_setzero_ps();
    for (size_t p = 0; p < n_row; p++, a += GRAM_I, b += GRAM_KF) {
        __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + 16), b2 = _mm512_loadu_ps(b + 32);
        UNROLL
        for (int i = 0; i < GRAM_I; i++) {
            __m512 x = _mm512_set1_ps(a[i]);
            sum[i][0] = _mm512_fmadd_ps(x, b0, sum[i][0]);
            sum[i][1] = _mm512_fmadd_ps(x, b1, sum[i][1]);
            sum[i][2] = _mm512_fmadd_ps(x, b2, sum[i][2]);
        }
    }
    UNROLL
    for (int i = 0; i < GRAM_I; i++)
        for (int k = 0; k < 3; k++) add_floats(c + (size_t)i * ldc + 16 * k, sum[i][k]);
}

/* Four sums, for the latency of fma. */
void gram_errors_avx512(const float *a, size_t n, const float *e, float *sum)
{
    __m512 s[4] = {_mm512_loadu_ps(sum), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    size_t j = 0;
    for (; j + 4 <= n; j += 4, e += 4 * GRAM_ROWS) {
        UNROLL
        for (int k = 0; k < 4; k++)
            s[k] = _mm512_fmadd_ps(_mm512_set1_ps(a[j + (size_t)k]), _mm512_loadu_ps(e + k * GRAM_ROWS), s[k]);
    }
    for (; j < n; j++, e += GRAM_ROWS) s[0] = _mm512_fmadd_ps(_mm512_set1_ps(a[j]), _mm512_loadu_ps(e), s[0]);
    _mm512_storeu_ps(sum, _mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
}
