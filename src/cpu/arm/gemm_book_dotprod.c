/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with codebooks by sdot.
 */
#include "cpu/arm/dot_dotprod_impl.h"
#include "cpu/arm/gemm_book_quads_tmpl.h"

void cpu_gemm_init_book_dotprod(struct cpu_kernels *k)
{
    FILL_BOOKS(set_book, k, "8x4_dotprod");
}
