/* SPDX-License-Identifier: MIT */
#include <immintrin.h>

enum { CHAINS = 12, INT8_MACS = 32, F32_MACS = 8 };
typedef __m256i vec_i;
typedef __m256 vec_f;

static inline vec_i int_all(int x)
{
    return _mm256_set1_epi8((char)x);
}

static inline vec_f float_all(float x)
{
    return _mm256_set1_ps(x);
}

static inline vec_i dot(vec_i acc, vec_i w, vec_i x)
{
    return _mm256_dpbusd_avx_epi32(acc, w, x);
}

static inline vec_f fma_all(vec_f acc, vec_f a, vec_f b)
{
    return _mm256_fmadd_ps(a, b, acc);
}

#include "cpu/peaks_body_impl.h"

static void measure(struct cpu_peaks *out)
{
    measure_peaks(out, "vpdpbusd (256 bits)");
}

void cpu_peaks_init_avxvnni(struct cpu_kernels *out)
{
    out->peaks = measure;
}
