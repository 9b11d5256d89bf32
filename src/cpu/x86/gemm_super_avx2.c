/* SPDX-License-Identifier: MIT
 *
 * AVX2 matmul of the formats with 256-element blocks: gemm_super_ymm_impl.h by multiply-add pairs, exact for codes up
 * to 63. Those of a table are signed, up to 127 in magnitude: |w| times x with w's sign.
 */
#include <immintrin.h>
#include <stdint.h>

#include "base/compiler.h"

enum { WIDE_CODES = 0, MOST_SUM = INT16_MAX };

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
    return _mm256_blend_epi16(scale, _mm256_slli_epi32(scale, 16), 0xaa);
}

#include "cpu/x86/gemm_super_ymm_impl.h"

void cpu_gemm_init_super_avx2(struct cpu_kernels *k)
{
    FILL_I8X256(set_i8x256, k, "16x4_avx2");
    FILL_I8X256_LOW(set_i8x256, k, "16x4_avx2");
}
