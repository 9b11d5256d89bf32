/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with 32-element blocks by sdot.
 */
#include "cpu/arm/dot_dotprod_impl.h"
#include "cpu/arm/gemm_i8_quads_impl.h"

void cpu_gemm_init_i8_dotprod(struct cpu_kernels *k)
{
    k->gemm[QUANT_Q4_0] = cpu_gemm_i8x32(QUANT_Q4_0, "gemm_q4_0_q8x32_8x4_dotprod", run_q4_0);
    k->gemm[QUANT_Q4_1] = cpu_gemm_i8x32(QUANT_Q4_1, "gemm_q4_1_q8x32_8x4_dotprod", run_q4_1);
    k->gemm[QUANT_Q5_0] = cpu_gemm_i8x32(QUANT_Q5_0, "gemm_q5_0_q8x32_8x4_dotprod", run_q5_0);
    k->gemm[QUANT_Q5_1] = cpu_gemm_i8x32(QUANT_Q5_1, "gemm_q5_1_q8x32_8x4_dotprod", run_q5_1);
    k->gemm[QUANT_Q8_0] = cpu_gemm_i8x32(QUANT_Q8_0, "gemm_q8_0_q8x32_8x4_dotprod", run_q8_0);
    k->gemm[QUANT_IQ4_NL] = cpu_gemm_i8x32(QUANT_IQ4_NL, "gemm_iq4_nl_q8x32_8x4_dotprod", run_iq4_nl);
    k->gemm[QUANT_MXFP4] = cpu_gemm_i8x32(QUANT_MXFP4, "gemm_mxfp4_q8x32_8x4_dotprod", run_mxfp4);
}
