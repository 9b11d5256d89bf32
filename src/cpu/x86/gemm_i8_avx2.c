/* SPDX-License-Identifier: MIT
 *
 * AVX2 matmul of the formats with 32-element blocks: gemm_i8_ymm_tmpl.h by multiply-add pairs, exact: a pair of
 * products stays within int16 for codes up to 128 (128 * 127 * 2 = 32512), so wider codes go as |w| times x with w's
 * sign.
 */
#include <immintrin.h>

#include "base/compiler.h"

enum { WIDE_CODES = 0 };

LUTRA_INLINE __m256i dot_step(__m256i acc, __m256i w, __m256i x)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1)));
}

LUTRA_INLINE __m256i dot_signed(__m256i acc, __m256i w, __m256i x)
{
    return dot_step(acc, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

LUTRA_INLINE __m256i short_step(__m256i part, __m256i w, __m256i x)
{
    return _mm256_add_epi16(part, _mm256_maddubs_epi16(w, x));
}

LUTRA_INLINE __m256i add_short(__m256i acc, __m256i part, int unit)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(part, _mm256_set1_epi16((short)unit)));
}

#include "cpu/x86/gemm_i8_ymm_tmpl.h"

void cpu_gemm_init_i8_avx2(struct cpu_kernels *k)
{
    FILL_I8X32(set_i8x32, k, "16x4_avx2");
    FILL_I8X32_LOW(set_i8x32, k, "16x4_avx2");
}
