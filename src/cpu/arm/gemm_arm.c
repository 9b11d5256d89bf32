/* SPDX-License-Identifier: MIT
 *
 * The Arm levels of matmul: which files fill them, and how their tiles end.
 */
#include "cpu/arm/gemm_arm_impl.h"

void cpu_gemm_init_neon(struct cpu_kernels *out)
{
    cpu_gemm_init_i8_neon(out);
    cpu_gemm_init_super_neon(out);
    cpu_gemm_init_book_neon(out);
    cpu_gemm_init_i8_lookup_neon(out); /* over the products of 1 and 2 bits */
    cpu_gemm_init_super_lookup_neon(out);
    cpu_gemm_init_float_neon(out);
}

void cpu_gemm_init_dotprod(struct cpu_kernels *out)
{
    cpu_gemm_init_i8_dotprod(out);
    cpu_gemm_init_super_dotprod(out);
    cpu_gemm_init_book_dotprod(out);
}

void cpu_gemm_init_i8mm(struct cpu_kernels *out)
{
    cpu_gemm_init_i8_i8mm(out);
    cpu_gemm_init_super_i8mm(out);
    cpu_gemm_init_book_i8mm(out);
}

/* Four outputs of a row, or the first `left` of them. */
static void store_quad(float *out, const float *bias, size_t left, float32x4_t y)
{
    if (left >= 4) {
        vst1q_f32(out, bias ? vaddq_f32(y, vld1q_f32(bias)) : y);
        return;
    }
    float part[4];
    vst1q_f32(part, y);
    for (size_t i = 0; i < left; i++) out[i] = bias ? part[i] + bias[i] : part[i];
}

void gemm_arm_store(
    const struct cpu_gemm_args *a, size_t panel, size_t row, int first, int n_quad, int n, const float *sum)
{
    for (int q = 0; q < n_quad; q++) {
        size_t o = panel * LANES + 4 * (size_t)(first + q);
        if (o >= a->n_out) return;
        float *out = a->out + (o - a->panel * LANES) + row * a->out_stride;
        for (int c = 0; c < n; c++, out += a->out_stride, sum += 4)
            store_quad(out, a->bias ? a->bias + o : NULL, a->n_out - o, vld1q_f32(sum));
    }
}
