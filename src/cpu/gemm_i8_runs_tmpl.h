/* SPDX-License-Identifier: MIT
 *
 * One function per format with 32-element blocks, and their slots.
 *
 * Needs: run_all(struct form f, const struct cpu_gemm_args *a).
 * Gives: the entry points.
 */
#ifndef LUTRA_CPU_GEMM_I8_RUNS_TMPL_H
#define LUTRA_CPU_GEMM_I8_RUNS_TMPL_H

static void run_q4_0(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q4_0, a);
}

static void run_q4_1(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q4_1, a);
}

static void run_q5_0(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q5_0, a);
}

static void run_q5_1(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q5_1, a);
}

static void run_q8_0(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q8_0, a);
}

static void run_iq4_nl(const struct cpu_gemm_args *a)
{
    run_all(FORM_IQ4_NL, a);
}

static void run_mxfp4(const struct cpu_gemm_args *a)
{
    run_all(FORM_MXFP4, a);
}

LUTRA_INLINE void set_i8x32(struct cpu_kernels *k, enum quant_type type, const char *name, cpu_gemm_run *run)
{
    k->gemm[type] = cpu_gemm_i8x32(type, name, run);
}

/* All formats by fill(k, type, name, run), such as set_i8x32; tile: "32x4_avx512". */
#define FILL_I8X32(fill, k, tile)                                                                                      \
    (fill(k, QUANT_Q4_0, "gemm_q4_0_q8x32_" tile, run_q4_0), fill(k, QUANT_Q4_1, "gemm_q4_1_q8x32_" tile, run_q4_1),   \
        fill(k, QUANT_Q5_0, "gemm_q5_0_q8x32_" tile, run_q5_0),                                                        \
        fill(k, QUANT_Q5_1, "gemm_q5_1_q8x32_" tile, run_q5_1),                                                        \
        fill(k, QUANT_Q8_0, "gemm_q8_0_q8x32_" tile, run_q8_0),                                                        \
        fill(k, QUANT_IQ4_NL, "gemm_iq4_nl_q8x32_" tile, run_iq4_nl),                                                  \
        fill(k, QUANT_MXFP4, "gemm_mxfp4_q8x32_" tile, run_mxfp4))

#endif
