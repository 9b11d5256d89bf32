/* SPDX-License-Identifier: MIT
 *
 * As gemm_super_runs_tmpl.h, which has its "needs" and "gives", for the formats that AMX does not know.
 */
#ifndef LUTRA_CPU_GEMM_SUPER_LOW_RUNS_TMPL_H
#define LUTRA_CPU_GEMM_SUPER_LOW_RUNS_TMPL_H

static void run_q2_k(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q2_K, a);
}

static void run_q3_k(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q3_K, a);
}

static void run_iq4_xs(const struct cpu_gemm_args *a)
{
    run_all(FORM_IQ4_XS, a);
}

#define FILL_I8X256_LOW(fill, k, tile)                                                                                 \
    (fill(k, QUANT_Q2_K, "gemm_q2_k_q8x256_" tile, run_q2_k), fill(k, QUANT_Q3_K, "gemm_q3_k_q8x256_" tile, run_q3_k), \
        fill(k, QUANT_IQ4_XS, "gemm_iq4_xs_q8x256_" tile, run_iq4_xs))

#endif
