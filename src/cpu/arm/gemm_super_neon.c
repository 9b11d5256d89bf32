/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with 256-element blocks by plain NEON: pairs of byte products.
 */
#include "cpu/arm/dot_neon_impl.h"
#include "cpu/arm/gemm_super_quads_tmpl.h"

void cpu_gemm_init_super_neon(struct cpu_kernels *k)
{
    FILL_I8X256(set_i8x256, k, "8x4_neon");
    FILL_I8X256_LOW(set_i8x256, k, "8x4_neon");
}
