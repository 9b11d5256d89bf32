/* SPDX-License-Identifier: MIT
 *
 * Peak of one core at AVX2: maddubs, madd, add and fma on registers, 12 independent chains.
 */
#include <immintrin.h>

#include "checkkern.h"

enum { CHAINS = 12, LOOPS = 100000 };

struct peaks measure_peaks_avx2(void)
{
    volatile int seed = 3;
    __m256i w = _mm256_set1_epi8((char)seed), x = _mm256_set1_epi8((char)(seed + 1)), a[CHAINS];
    __m256 f[CHAINS], g = _mm256_set1_ps((float)seed * 1e-9f);
    struct peaks best = {0, 0};
    for (int rep = 0; rep < 40; rep++) {
        for (int c = 0; c < CHAINS; c++) {
            a[c] = _mm256_set1_epi32(c); /* chains differ, or the compiler would run one for all */
            f[c] = _mm256_set1_ps((float)c);
        }
        double t0 = now_seconds();
        for (int i = 0; i < LOOPS; i++) {
#pragma GCC unroll 12
            for (int c = 0; c < CHAINS; c++)
                a[c] = _mm256_add_epi32(a[c], _mm256_madd_epi16(_mm256_maddubs_epi16(a[c], x), w));
        }
        double t1 = now_seconds();
        for (int i = 0; i < LOOPS; i++) {
#pragma GCC unroll 12
            for (int c = 0; c < CHAINS; c++) f[c] = _mm256_fmadd_ps(f[c], g, g);
        }
        double t2 = now_seconds();
        for (int c = 0; c < CHAINS; c++) seed += _mm256_extract_epi32(a[c], 0) + (int)_mm256_cvtss_f32(f[c]);
        double int8 = 32.0 * CHAINS * LOOPS / (t1 - t0) * 1e-9, f32 = 8.0 * CHAINS * LOOPS / (t2 - t1) * 1e-9;
        if (int8 > best.int8_gmac) best.int8_gmac = int8;
        if (f32 > best.f32_gmac) best.f32_gmac = f32;
    }
    return best;
}
