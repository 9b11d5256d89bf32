/* SPDX-License-Identifier: MIT
 *
 * AVX-VNNI matmul of the formats with 32-element blocks: gemm_i8_ymm_impl.h by vpdpbusd on 256 bits.
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

#include "cpu/x86/gemm_i8_ymm_impl.h"

void cpu_gemm_init_i8_avxvnni(struct cpu_kernels *k)
{
    k->gemm[QUANT_Q4_0] = cpu_gemm_i8x32(QUANT_Q4_0, "gemm_q4_0_q8x32_16x4_avxvnni", run_q4_0);
    k->gemm[QUANT_Q4_1] = cpu_gemm_i8x32(QUANT_Q4_1, "gemm_q4_1_q8x32_16x4_avxvnni", run_q4_1);
    k->gemm[QUANT_Q5_0] = cpu_gemm_i8x32(QUANT_Q5_0, "gemm_q5_0_q8x32_16x4_avxvnni", run_q5_0);
    k->gemm[QUANT_Q5_1] = cpu_gemm_i8x32(QUANT_Q5_1, "gemm_q5_1_q8x32_16x4_avxvnni", run_q5_1);
    k->gemm[QUANT_Q8_0] = cpu_gemm_i8x32(QUANT_Q8_0, "gemm_q8_0_q8x32_16x4_avxvnni", run_q8_0);
    k->gemm[QUANT_IQ4_NL] = cpu_gemm_i8x32(QUANT_IQ4_NL, "gemm_iq4_nl_q8x32_16x4_avxvnni", run_iq4_nl);
    k->gemm[QUANT_MXFP4] = cpu_gemm_i8x32(QUANT_MXFP4, "gemm_mxfp4_q8x32_16x4_avxvnni", run_mxfp4);
}
