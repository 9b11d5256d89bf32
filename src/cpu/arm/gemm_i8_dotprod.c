/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with 32-element blocks by sdot.
 */
#include "cpu/arm/dot_dotprod_impl.h"
#include "cpu/arm/gemm_i8_quads_tmpl.h"

void cpu_gemm_init_i8_dotprod(struct cpu_kernels *k)
{
    FILL_I8X32(set_i8x32, k, "8x4_dotprod");
    FILL_I8X32_LOW(set_i8x32, k, "8x4_dotprod");
}
