/* SPDX-License-Identifier: MIT
 *
 * One function per format with 256-element blocks, and their slots.
 *
 * Needs: run_all(struct form f, const struct cpu_gemm_args *a).
 * Gives: the entry points.
 */
#ifndef LUTRA_CPU_GEMM_SUPER_RUNS_TMPL_H
#define LUTRA_CPU_GEMM_SUPER_RUNS_TMPL_H

static void run_q4_k(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q4_K, a);
}

static void run_q5_k(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q5_K, a);
}

static void run_q6_k(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q6_K, a);
}

static void run_ternary(const struct cpu_gemm_args *a)
{
    run_all(FORM_TERNARY, a);
}

LUTRA_INLINE void set_i8x256(struct cpu_kernels *k, enum quant_type type, const char *name, cpu_gemm_run *run)
{
    k->gemm[type] = cpu_gemm_i8x256(type, name, run);
}

/* All formats by fill(k, type, name, run), such as set_i8x256; tile: "32x4_avx512". */
#define FILL_I8X256(fill, k, tile)                                                                                     \
    (fill(k, QUANT_Q4_K, "gemm_q4_k_q8x256_" tile, run_q4_k), fill(k, QUANT_Q5_K, "gemm_q5_k_q8x256_" tile, run_q5_k), \
        fill(k, QUANT_Q6_K, "gemm_q6_k_q8x256_" tile, run_q6_k),                                                       \
        fill(k, QUANT_TQ1_0, "gemm_tq1_0_q8x256_" tile, run_ternary),                                                  \
        fill(k, QUANT_TQ2_0, "gemm_tq2_0_q8x256_" tile, run_ternary))

#endif
