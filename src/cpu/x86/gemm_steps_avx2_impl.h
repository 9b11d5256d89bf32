/* SPDX-License-Identifier: MIT
 *
 * What gemm_tile_ymm_tmpl.h multiplies with, on AVX2: multiply-add pairs in 16 bits, exact for unsigned codes up to
 * 128. Signed ones go as |w| times x with w's sign.
 */
#ifndef LUTRA_CPU_X86_GEMM_STEPS_AVX2_IMPL_H
#define LUTRA_CPU_X86_GEMM_STEPS_AVX2_IMPL_H

#include <immintrin.h>
#include <stdint.h>

#include "base/compiler.h"

enum { WIDE_CODES = 0, MOST_SUM = INT16_MAX, SUMS_AT_ONCE = 1 };

LUTRA_INLINE __m256i dot_step(__m256i part, __m256i w, __m256i x)
{
    return _mm256_add_epi16(part, _mm256_maddubs_epi16(w, x));
}

LUTRA_INLINE __m256i dot_signed(__m256i part, __m256i w, __m256i x)
{
    return dot_step(part, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

LUTRA_INLINE __m256i times(__m256i part, __m256i scale)
{
    return _mm256_madd_epi16(part, scale);
}

LUTRA_INLINE __m256i scale_operand(__m256i scale)
{
    return scale;
}

#endif
