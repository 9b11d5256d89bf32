/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with 256-element blocks by sdot.
 */
#include "cpu/arm/dot_dotprod_impl.h"
#include "cpu/arm/gemm_super_quads_tmpl.h"

void cpu_gemm_init_super_dotprod(struct cpu_kernels *k)
{
    FILL_I8X256(set_i8x256, k, "8x4_dotprod");
    FILL_I8X256_LOW(set_i8x256, k, "8x4_dotprod");
}
