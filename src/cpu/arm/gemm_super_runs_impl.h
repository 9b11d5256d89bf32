/* SPDX-License-Identifier: MIT
 *
 * One function per format with 256-element blocks, for the bodies that use gemm_super_form_impl.h.
 *
 * Included after run_all(enum codes f, const struct cpu_gemm_args *a).
 */
#ifndef LUTRA_CPU_ARM_GEMM_SUPER_RUNS_H
#define LUTRA_CPU_ARM_GEMM_SUPER_RUNS_H

static void run_q4_k(const struct cpu_gemm_args *a)
{
    run_all(FOUR_BITS, a);
}

static void run_q5_k(const struct cpu_gemm_args *a)
{
    run_all(FIVE_BITS, a);
}

static void run_q6_k(const struct cpu_gemm_args *a)
{
    run_all(SIX_BITS, a);
}

static void run_ternary(const struct cpu_gemm_args *a)
{
    run_all(TWO_BITS, a);
}

#endif
