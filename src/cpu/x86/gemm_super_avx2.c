/* SPDX-License-Identifier: MIT
 *
 * AVX2 matmul of the formats with 256-element blocks: gemm_super_ymm_impl.h by multiply-add pairs, exact for codes up
 * to 63. Those of a table are signed, up to 127 in magnitude: |w| times x with w's sign.
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

#include "cpu/x86/gemm_super_ymm_impl.h"

void cpu_gemm_init_super_avx2(struct cpu_kernels *k)
{
    FILL_I8X256(set_i8x256, k, "16x4_avx2");
    FILL_I8X256_LOW(set_i8x256, k, "16x4_avx2");
}
