/* SPDX-License-Identifier: MIT
 *
 * AVX-VNNI matmul of the formats with 256-element blocks: gemm_super_ymm_impl.h by vpdpbusd on 256 bits.
 */
#include <immintrin.h>

#include "base/compiler.h"

LUTRA_INLINE __m256i dot_step(__m256i acc, __m256i w, __m256i x)
{
    return _mm256_dpbusd_avx_epi32(acc, w, x);
}

#include "cpu/x86/gemm_super_ymm_impl.h"

void cpu_gemm_init_super_avxvnni(struct cpu_kernels *k)
{
    k->gemm[QUANT_Q4_K] = cpu_gemm_i8x256(QUANT_Q4_K, "gemm_q4_k_q8x256_16x4_avxvnni", run_q4_k);
    k->gemm[QUANT_Q5_K] = cpu_gemm_i8x256(QUANT_Q5_K, "gemm_q5_k_q8x256_16x4_avxvnni", run_q5_k);
    k->gemm[QUANT_Q6_K] = cpu_gemm_i8x256(QUANT_Q6_K, "gemm_q6_k_q8x256_16x4_avxvnni", run_q6_k);
    k->gemm[QUANT_TQ1_0] = cpu_gemm_i8x256(QUANT_TQ1_0, "gemm_tq1_0_q8x256_16x4_avxvnni", run_ternary);
    k->gemm[QUANT_TQ2_0] = cpu_gemm_i8x256(QUANT_TQ2_0, "gemm_tq2_0_q8x256_16x4_avxvnni", run_ternary);
}
