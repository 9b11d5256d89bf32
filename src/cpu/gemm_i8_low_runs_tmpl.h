/* SPDX-License-Identifier: MIT
 *
 * As gemm_i8_runs_tmpl.h, which has its "needs" and "gives", for the formats that AMX does not know.
 */
#ifndef LUTRA_CPU_GEMM_I8_LOW_RUNS_TMPL_H
#define LUTRA_CPU_GEMM_I8_LOW_RUNS_TMPL_H

static void run_q1_0(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q1_0, a);
}

static void run_q2_0(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q2_0, a);
}

static void run_w2(const struct cpu_gemm_args *a)
{
    run_all(FORM_W2, a);
}

static void run_w3(const struct cpu_gemm_args *a)
{
    run_all(FORM_W3, a);
}

static void run_w4(const struct cpu_gemm_args *a)
{
    run_all(FORM_W4, a);
}

#define FILL_I8X32_LOW(fill, k, tile)                                                                                  \
    (fill(k, QUANT_Q1_0, "gemm_q1_0_q8x32_" tile, run_q1_0), fill(k, QUANT_Q2_0, "gemm_q2_0_q8x32_" tile, run_q2_0),   \
        fill(k, QUANT_W2, "gemm_w2_q8x32_" tile, run_w2), fill(k, QUANT_W3, "gemm_w3_q8x32_" tile, run_w3),            \
        fill(k, QUANT_W4, "gemm_w4_q8x32_" tile, run_w4))

#endif
