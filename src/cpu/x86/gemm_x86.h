/* SPDX-License-Identifier: MIT
 *
 * What the x86 matmul files share: descriptors of a numerics class, and how a panel's sums are stored.
 */
#ifndef LUTRA_CPU_X86_GEMM_X86_H
#define LUTRA_CPU_X86_GEMM_X86_H

#include "base/compiler.h"
#include "cpu/layout.h"

/* Columns in passes of PASS_ROWS, whose activations stay in L2 while a unit's panels pass over them. */
enum { PASS_ROWS = 64 };

typedef void cpu_gemm_run(const struct cpu_gemm_args *a);

struct cpu_gemm cpu_gemm_i8x32(enum quant_type type, const char *name, cpu_gemm_run *run);
struct cpu_gemm cpu_gemm_i8x256(enum quant_type type, const char *name, cpu_gemm_run *run);
struct cpu_gemm cpu_gemm_f32(enum quant_type type, const char *name, cpu_gemm_run *run);

/* Fillers of one file each. */
void cpu_gemm_init_i8_avx512(struct cpu_kernels *k);
void cpu_gemm_init_super_avx512(struct cpu_kernels *k);
void cpu_gemm_init_float_avx512(struct cpu_kernels *k);
void cpu_gemm_init_i8_avx2(struct cpu_kernels *k);
void cpu_gemm_init_super_avx2(struct cpu_kernels *k);
void cpu_gemm_init_float_avx2(struct cpu_kernels *k);

#if defined(__AVX512F__)
#include <immintrin.h>

/* sum[n] -> outputs of a panel for rows row .. row + n - 1, bias added. */
LUTRA_INLINE void store_panel_avx512(const struct cpu_gemm_args *a, size_t panel, size_t row, int n, const __m512 *sum)
{
    size_t o = panel * LANES, left = a->n_out - o;
    __mmask16 mask = left < LANES ? (__mmask16)((1u << left) - 1) : 0xffff;
    float *out = a->out + (panel - a->panel) * LANES + row * a->out_stride;
    for (int c = 0; c < n; c++, out += a->out_stride) {
        __m512 y = a->bias ? _mm512_add_ps(sum[c], _mm512_maskz_loadu_ps(mask, a->bias + o)) : sum[c];
        _mm512_mask_storeu_ps(out, mask, y);
    }
}
#endif

#endif
