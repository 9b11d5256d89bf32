/* SPDX-License-Identifier: MIT
 *
 * AVX-VNNI matmul of the formats with 32-element blocks: gemm_i8_ymm_tmpl.h by vpdpbusd on 256 bits.
 */
#include <immintrin.h>

#include "base/compiler.h"

enum { WIDE_CODES = 1 };

LUTRA_INLINE __m256i dot_step(__m256i acc, __m256i w, __m256i x)
{
    return _mm256_dpbusd_avx_epi32(acc, w, x);
}

/* Never called with WIDE_CODES. */
LUTRA_INLINE __m256i dot_signed(__m256i acc, __m256i w, __m256i x)
{
    return dot_step(acc, w, x);
}

/* Never called with WIDE_CODES. */
LUTRA_INLINE __m256i short_step(__m256i part, __m256i w, __m256i x)
{
    return dot_step(part, w, x);
}

LUTRA_INLINE __m256i add_short(__m256i acc, __m256i part, int unit)
{
    (void)unit;
    return _mm256_add_epi32(acc, part);
}

#include "cpu/x86/gemm_i8_ymm_tmpl.h"

void cpu_gemm_init_i8_avxvnni(struct cpu_kernels *k)
{
    FILL_I8X32(set_i8x32, k, "16x4_avxvnni");
    FILL_I8X32_LOW(set_i8x32, k, "16x4_avxvnni");
}
