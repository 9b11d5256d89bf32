/* SPDX-License-Identifier: MIT
 *
 * AVX2 matmul of the formats with codebooks.
 */
#include "cpu/x86/gemm_steps_avx2_impl.h"

#include "cpu/x86/gemm_book_ymm_tmpl.h"

void cpu_gemm_init_book_avx2(struct cpu_kernels *k)
{
    FILL_BOOKS(set_book, k, "16x4_avx2");
}
