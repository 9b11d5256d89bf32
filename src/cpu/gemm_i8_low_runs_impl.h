/* SPDX-License-Identifier: MIT
 *
 * As gemm_i8_runs_impl.h, for the formats that AMX does not know.
 */
#ifndef LUTRA_CPU_GEMM_I8_LOW_RUNS_IMPL_H
#define LUTRA_CPU_GEMM_I8_LOW_RUNS_IMPL_H

static void run_q1_0(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q1_0, a);
}

static void run_q2_0(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q2_0, a);
}

#define FILL_I8X32_LOW(fill, k, tile)                                                                                  \
    (fill(k, QUANT_Q1_0, "gemm_q1_0_q8x32_" tile, run_q1_0), fill(k, QUANT_Q2_0, "gemm_q2_0_q8x32_" tile, run_q2_0))

#endif
