/* SPDX-License-Identifier: MIT */
#include "cpu/arm/vec_neon_impl.h"
#include "cpu/vec_math_impl.h"
#include "cpu/small_body_impl.h"

void cpu_small_init_neon(struct cpu_kernels *out)
{
    out->rms_norm_name = "rms_norm_neon";
    out->rms_norm = rms_norm;
    out->rope_name = "rope_neon";
    out->rope = rope;
    out->glu_name = "glu_neon";
    out->swiglu = swiglu;
    out->geglu = geglu;
    out->relu2 = relu2;
    out->add = add;
    out->convert_name = "convert_neon";
    out->f32_to_f16 = to_f16;
    out->f16_to_f32 = to_f32;
    out->head_name = "head_neon";
    out->max_row = max_row;
    out->sum_exp = sum_exp;
    attention_init_neon(&out->attention);
}
