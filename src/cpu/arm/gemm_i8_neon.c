/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with 32-element blocks by plain NEON: pairs of byte products.
 */
#include "cpu/arm/dot_neon_impl.h"
#include "cpu/arm/gemm_i8_quads_tmpl.h"

void cpu_gemm_init_i8_neon(struct cpu_kernels *k)
{
    FILL_I8X32(set_i8x32, k, "8x4_neon");
    FILL_I8X32_LOW(set_i8x32, k, "8x4_neon");
}
