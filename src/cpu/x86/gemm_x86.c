/* SPDX-License-Identifier: MIT
 *
 * The x86 levels of matmul: which files fill them.
 */
#include "cpu/x86/gemm_book_form_impl.h"
#include "cpu/x86/gemm_x86_impl.h"

void cpu_gemm_init_avx2(struct cpu_kernels *out)
{
    cpu_gemm_init_i8_avx2(out);
    cpu_gemm_init_super_avx2(out);
    cpu_gemm_init_book_avx2(out);
    cpu_gemm_init_float_avx2(out);
}

void cpu_gemm_init_avxvnni(struct cpu_kernels *out)
{
    cpu_gemm_init_i8_avxvnni(out);
    cpu_gemm_init_super_avxvnni(out);
    cpu_gemm_init_book_avxvnni(out);
}

void cpu_gemm_init_avx512(struct cpu_kernels *out)
{
    cpu_gemm_init_i8_avx512(out);
    cpu_gemm_init_super_avx512(out);
    cpu_gemm_init_book_avx512(out);
    cpu_gemm_init_float_avx512(out);
}

void cpu_gemm_init_amx(struct cpu_kernels *out)
{
    cpu_gemm_init_i8_amx(out);
    cpu_gemm_init_super_amx(out);
    cpu_gemm_init_bf16_amx(out);
}
