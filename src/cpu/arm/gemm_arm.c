/* SPDX-License-Identifier: MIT
 *
 * The Arm levels of matmul: which files fill them.
 */
#include "cpu/arm/gemm_arm_impl.h"

void cpu_gemm_init_neon(struct cpu_kernels *out)
{
    cpu_gemm_init_i8_neon(out);
    cpu_gemm_init_super_neon(out);
    cpu_gemm_init_float_neon(out);
}

void cpu_gemm_init_dotprod(struct cpu_kernels *out)
{
    cpu_gemm_init_i8_dotprod(out);
    cpu_gemm_init_super_dotprod(out);
}

void cpu_gemm_init_i8mm(struct cpu_kernels *out)
{
    cpu_gemm_init_i8_i8mm(out);
    cpu_gemm_init_super_i8mm(out);
}
