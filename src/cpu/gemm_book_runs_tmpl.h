/* SPDX-License-Identifier: MIT
 *
 * One function per format with a codebook, and their slots.
 *
 * Needs: run_all(struct form f, const struct cpu_gemm_args *a).
 * Gives: the entry points.
 */
#ifndef LUTRA_CPU_GEMM_BOOK_RUNS_TMPL_H
#define LUTRA_CPU_GEMM_BOOK_RUNS_TMPL_H

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

LUTRA_INLINE void set_book(struct cpu_kernels *k, enum quant_type type, const char *name, cpu_gemm_run *run)
{
    k->gemm[type] = cpu_gemm_i8x256(type, name, run);
}

/* All of them by fill(k, type, name, run), such as set_book; tile: "32x4_avx512". */
#define FILL_BOOKS(fill, k, tile)                                                                                      \
    (fill(k, QUANT_IQ2_XXS, "gemm_iq2_xxs_q8x256_" tile, run_iq2_xxs),                                                 \
        fill(k, QUANT_IQ2_XS, "gemm_iq2_xs_q8x256_" tile, run_iq2_xs),                                                 \
        fill(k, QUANT_IQ2_S, "gemm_iq2_s_q8x256_" tile, run_iq2_s),                                                    \
        fill(k, QUANT_IQ3_XXS, "gemm_iq3_xxs_q8x256_" tile, run_iq3_xxs),                                              \
        fill(k, QUANT_IQ3_S, "gemm_iq3_s_q8x256_" tile, run_iq3_s))

#endif
