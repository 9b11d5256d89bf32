/* SPDX-License-Identifier: MIT
 *
 * AVX-VNNI matmul of the formats with codebooks: gemm_book_ymm_impl.h by vpdpbusd on 256 bits.
 */
#include <immintrin.h>
#include <stdint.h>

#include "base/compiler.h"

enum { MOST_SUM = INT32_MAX };

LUTRA_INLINE __m256i dot_step(__m256i part, __m256i w, __m256i x)
{
    return _mm256_dpbusd_avx_epi32(part, w, x);
}

LUTRA_INLINE __m256i times(__m256i part, __m256i scale)
{
    return _mm256_mullo_epi32(part, scale);
}

LUTRA_INLINE __m256i scale_operand(__m256i scale)
{
    return _mm256_srli_epi32(scale, 16);
}

#include "cpu/x86/gemm_book_ymm_impl.h"

void cpu_gemm_init_book_avxvnni(struct cpu_kernels *k)
{
    FILL_BOOKS(k, "16x4_avxvnni");
}
