/* SPDX-License-Identifier: MIT
 *
 * One function per format with 32-element blocks, for the bodies that use gemm_i8_form_impl.h.
 *
 * Included after run_all(struct form f, const struct cpu_gemm_args *a).
 */
#ifndef LUTRA_CPU_ARM_GEMM_I8_RUNS_H
#define LUTRA_CPU_ARM_GEMM_I8_RUNS_H

static void run_q4_0(const struct cpu_gemm_args *a)
{
    run_all((struct form){NIBBLES, F16_SCALE, 0}, a);
}

static void run_q4_1(const struct cpu_gemm_args *a)
{
    run_all((struct form){NIBBLES, F16_SCALE_AND_MIN, -1}, a);
}

static void run_q5_0(const struct cpu_gemm_args *a)
{
    run_all((struct form){FIVE_BITS, F16_SCALE, 1}, a);
}

static void run_q5_1(const struct cpu_gemm_args *a)
{
    run_all((struct form){FIVE_BITS, F16_SCALE_AND_MIN, -1}, a);
}

static void run_q8_0(const struct cpu_gemm_args *a)
{
    run_all((struct form){BYTES, F16_SCALE, -1}, a);
}

static void run_iq4_nl(const struct cpu_gemm_args *a)
{
    run_all((struct form){TABLE, F16_SCALE, -1}, a);
}

static void run_mxfp4(const struct cpu_gemm_args *a)
{
    run_all((struct form){TABLE, E8M0_SCALE, -1}, a);
}

#endif
