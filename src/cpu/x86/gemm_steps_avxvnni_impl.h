/* SPDX-License-Identifier: MIT
 *
 * What gemm_tile_ymm_tmpl.h multiplies with, on AVX-VNNI: vpdpbusd on 256 bits, exact for all unsigned codes.
 */
#ifndef LUTRA_CPU_X86_GEMM_STEPS_AVXVNNI_IMPL_H
#define LUTRA_CPU_X86_GEMM_STEPS_AVXVNNI_IMPL_H

#include <immintrin.h>
#include <stdint.h>

#include "base/compiler.h"

enum { WIDE_CODES = 1, MOST_SUM = INT32_MAX, SUMS_AT_ONCE = 2 };

LUTRA_INLINE __m256i dot_step(__m256i part, __m256i w, __m256i x)
{
    return _mm256_dpbusd_avx_epi32(part, w, x);
}

/* Never called with WIDE_CODES. */
LUTRA_INLINE __m256i dot_signed(__m256i part, __m256i w, __m256i x)
{
    return dot_step(part, w, x);
}

LUTRA_INLINE __m256i times(__m256i part, __m256i scale)
{
    return _mm256_mullo_epi32(part, scale);
}

LUTRA_INLINE __m256i scale_operand(__m256i scale)
{
    return _mm256_srai_epi32(scale, 16);
}

#endif
