/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with 256-element blocks by plain NEON: pairs of byte products.
 */
#include "cpu/arm/dot_neon_impl.h"
#include "cpu/arm/gemm_super_quads_impl.h"

void cpu_gemm_init_super_neon(struct cpu_kernels *k)
{
    k->gemm[QUANT_Q4_K] = cpu_gemm_i8x256(QUANT_Q4_K, "gemm_q4_k_q8x256_8x4_neon", run_q4_k);
    k->gemm[QUANT_Q5_K] = cpu_gemm_i8x256(QUANT_Q5_K, "gemm_q5_k_q8x256_8x4_neon", run_q5_k);
    k->gemm[QUANT_Q6_K] = cpu_gemm_i8x256(QUANT_Q6_K, "gemm_q6_k_q8x256_8x4_neon", run_q6_k);
    k->gemm[QUANT_TQ1_0] = cpu_gemm_i8x256(QUANT_TQ1_0, "gemm_tq1_0_q8x256_8x4_neon", run_ternary);
    k->gemm[QUANT_TQ2_0] = cpu_gemm_i8x256(QUANT_TQ2_0, "gemm_tq2_0_q8x256_8x4_neon", run_ternary);
}
