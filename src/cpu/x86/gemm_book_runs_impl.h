/* SPDX-License-Identifier: MIT
 *
 * One function per format with a codebook, and their slots.
 *
 * Included after run_all(struct form f, const struct cpu_gemm_args *a).
 */
#ifndef LUTRA_CPU_X86_GEMM_BOOK_RUNS_IMPL_H
#define LUTRA_CPU_X86_GEMM_BOOK_RUNS_IMPL_H

static void run_iq2_xxs(const struct cpu_gemm_args *a)
{
    run_all((struct form){BOOK_IQ2_XXS}, a);
}

static void run_iq2_xs(const struct cpu_gemm_args *a)
{
    run_all((struct form){BOOK_IQ2_XS}, a);
}

static void run_iq2_s(const struct cpu_gemm_args *a)
{
    run_all((struct form){BOOK_IQ2_S}, a);
}

static void run_iq3_xxs(const struct cpu_gemm_args *a)
{
    run_all((struct form){BOOK_IQ3_XXS}, a);
}

static void run_iq3_s(const struct cpu_gemm_args *a)
{
    run_all((struct form){BOOK_IQ3_S}, a);
}

/* tile: "32x4_avx512". */
#define FILL_BOOKS(k, tile)                                                                                            \
    ((k)->gemm[QUANT_IQ2_XXS] = cpu_gemm_i8x256(QUANT_IQ2_XXS, "gemm_iq2_xxs_q8x256_" tile, run_iq2_xxs),              \
        (k)->gemm[QUANT_IQ2_XS] = cpu_gemm_i8x256(QUANT_IQ2_XS, "gemm_iq2_xs_q8x256_" tile, run_iq2_xs),               \
        (k)->gemm[QUANT_IQ2_S] = cpu_gemm_i8x256(QUANT_IQ2_S, "gemm_iq2_s_q8x256_" tile, run_iq2_s),                   \
        (k)->gemm[QUANT_IQ3_XXS] = cpu_gemm_i8x256(QUANT_IQ3_XXS, "gemm_iq3_xxs_q8x256_" tile, run_iq3_xxs),           \
        (k)->gemm[QUANT_IQ3_S] = cpu_gemm_i8x256(QUANT_IQ3_S, "gemm_iq3_s_q8x256_" tile, run_iq3_s))

#endif
