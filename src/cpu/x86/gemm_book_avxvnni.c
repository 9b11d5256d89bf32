/* SPDX-License-Identifier: MIT
 *
 * AVX-VNNI matmul of the formats with codebooks: gemm_book_ymm_impl.h by vpdpbusd on 256 bits.
 */
#include <immintrin.h>

#include "base/compiler.h"

LUTRA_INLINE __m256i dot_step(__m256i acc, __m256i w, __m256i x)
{
    return _mm256_dpbusd_avx_epi32(acc, w, x);
}

#include "cpu/x86/gemm_book_ymm_impl.h"

void cpu_gemm_init_book_avxvnni(struct cpu_kernels *k)
{
    FILL_BOOKS(k, "16x4_avxvnni");
}
