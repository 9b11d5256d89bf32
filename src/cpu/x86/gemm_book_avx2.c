/* SPDX-License-Identifier: MIT
 *
 * AVX2 matmul of the formats with codebooks: gemm_book_ymm_impl.h by multiply-add pairs.
 */
#include <immintrin.h>

#include "base/compiler.h"

LUTRA_INLINE __m256i dot_step(__m256i acc, __m256i w, __m256i x)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1)));
}

#include "cpu/x86/gemm_book_ymm_impl.h"

void cpu_gemm_init_book_avx2(struct cpu_kernels *k)
{
    FILL_BOOKS(k, "16x4_avx2");
}
