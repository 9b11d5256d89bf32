/* SPDX-License-Identifier: MIT
 *
 * AVX2 matmul of the formats with codebooks: gemm_book_ymm_impl.h by multiply-add pairs.
 */
#include <immintrin.h>
#include <stdint.h>

#include "base/compiler.h"

enum { MOST_SUM = INT16_MAX };

LUTRA_INLINE __m256i dot_step(__m256i part, __m256i w, __m256i x)
{
    return _mm256_add_epi16(part, _mm256_maddubs_epi16(w, x));
}

LUTRA_INLINE __m256i times(__m256i part, __m256i scale)
{
    return _mm256_madd_epi16(part, scale);
}

LUTRA_INLINE __m256i scale_operand(__m256i scale)
{
    return scale;
}

#include "cpu/x86/gemm_book_ymm_impl.h"

void cpu_gemm_init_book_avx2(struct cpu_kernels *k)
{
    FILL_BOOKS(k, "16x4_avx2");
}
