/* SPDX-License-Identifier: MIT */
#include "cpu/x86/vec_avx2_impl.h"
#include "cpu/vec_math_impl.h"
#include "cpu/small_body_impl.h"

void cpu_small_init_avx2(struct cpu_kernels *out)
{
    out->rms_norm_name = "rms_norm_avx2";
    out->rms_norm = rms_norm;
    out->rope_name = "rope_avx2";
    out->rope = rope;
    out->glu_name = "glu_avx2";
    out->swiglu = swiglu;
    out->geglu = geglu;
    out->relu2 = relu2;
    out->add = add;
    out->convert_name = "convert_avx2";
    out->f32_to_f16 = to_f16;
    out->f16_to_f32 = to_f32;
    out->head_name = "head_avx2";
    out->max_row = max_row;
    out->sum_exp = sum_exp;
    attention_init_avx2(&out->attention);
}
