/* SPDX-License-Identifier: MIT
 *
 * One function per float format, and their slots.
 *
 * Needs: run_all(enum quant_type type, const struct cpu_gemm_args *a).
 * Gives: the entry points.
 */
#ifndef LUTRA_CPU_GEMM_FLOAT_RUNS_TMPL_H
#define LUTRA_CPU_GEMM_FLOAT_RUNS_TMPL_H

static void run_f32(const struct cpu_gemm_args *a)
{
    run_all(QUANT_F32, a);
}

static void run_f16(const struct cpu_gemm_args *a)
{
    run_all(QUANT_F16, a);
}

static void run_bf16(const struct cpu_gemm_args *a)
{
    run_all(QUANT_BF16, a);
}

#define FILL_FLOAT(slot, tile)                                                                                         \
    ((slot)[QUANT_F32] = cpu_gemm_f32(QUANT_F32, "gemm_f32_f32_" tile, run_f32),                                       \
        (slot)[QUANT_F16] = cpu_gemm_f32(QUANT_F16, "gemm_f16_f32_" tile, run_f16),                                    \
        (slot)[QUANT_BF16] = cpu_gemm_f32(QUANT_BF16, "gemm_bf16_f32_" tile, run_bf16))

#endif
