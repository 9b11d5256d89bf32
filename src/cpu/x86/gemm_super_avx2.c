/* SPDX-License-Identifier: MIT
 *
 * AVX2 matmul of the formats with 256-element blocks.
 */
#include "cpu/x86/gemm_steps_avx2_impl.h"

#include "cpu/x86/gemm_super_ymm_tmpl.h"

void cpu_gemm_init_super_avx2(struct cpu_kernels *k)
{
    FILL_I8X256(set_i8x256, k, "16x4_avx2");
    FILL_I8X256_LOW(set_i8x256, k, "16x4_avx2");
}
