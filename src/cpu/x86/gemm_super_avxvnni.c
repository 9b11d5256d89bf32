/* SPDX-License-Identifier: MIT
 *
 * AVX-VNNI matmul of the formats with 256-element blocks: gemm_super_ymm_impl.h by vpdpbusd on 256 bits.
 */
#include <immintrin.h>
#include <stdint.h>

#include "base/compiler.h"

enum { WIDE_CODES = 1, MOST_SUM = INT32_MAX };

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
    return scale;
}

#include "cpu/x86/gemm_super_ymm_impl.h"

void cpu_gemm_init_super_avxvnni(struct cpu_kernels *k)
{
    FILL_I8X256(set_i8x256, k, "16x4_avxvnni");
    FILL_I8X256_LOW(set_i8x256, k, "16x4_avxvnni");
}
