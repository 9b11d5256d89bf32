/* SPDX-License-Identifier: MIT
 *
 * Vectors and fma of the peaks at 256 bits; cpu/peaks_tmpl.h says what a file adds.
 */
#ifndef LUTRA_CPU_X86_PEAKS_YMM_IMPL_H
#define LUTRA_CPU_X86_PEAKS_YMM_IMPL_H

#include <immintrin.h>

#include "base/compiler.h"

enum { CHAINS = 12, F32_MACS = 8 };
typedef __m256i vec_i;
typedef __m256 vec_f;

LUTRA_INLINE vec_i int_all(int x)
{
    return _mm256_set1_epi8((char)x);
}

LUTRA_INLINE vec_f float_all(float x)
{
    return _mm256_set1_ps(x);
}

LUTRA_INLINE vec_f fma_all(vec_f acc, vec_f a, vec_f b)
{
    return _mm256_fmadd_ps(a, b, acc);
}

#endif
