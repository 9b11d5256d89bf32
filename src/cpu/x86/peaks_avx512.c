/* SPDX-License-Identifier: MIT */
#include <immintrin.h>

enum { CHAINS = 16, INT8_MACS = 64, F32_MACS = 16 };
typedef __m512i vec_i;
typedef __m512 vec_f;

static inline vec_i int_all(int x)
{
    return _mm512_set1_epi8((char)x);
}

static inline vec_f float_all(float x)
{
    return _mm512_set1_ps(x);
}

static inline vec_i dot(vec_i acc, vec_i w, vec_i x)
{
    return _mm512_dpbusd_epi32(acc, w, x);
}

static inline vec_f fma_all(vec_f acc, vec_f a, vec_f b)
{
    return _mm512_fmadd_ps(a, b, acc);
}

#include "cpu/peaks_tmpl.h"

static void measure(struct cpu_peaks *out)
{
    measure_peaks(out, "vpdpbusd");
}

void cpu_peaks_init_avx512(struct cpu_kernels *out)
{
    out->peaks = measure;
}
