/* SPDX-License-Identifier: MIT
 *
 * Puts the row kernels of one ISA into the table.
 *
 * Needs: those of small_tmpl.h, or their like.
 * Gives: fill_small.
 */
#ifndef LUTRA_CPU_SMALL_SLOTS_TMPL_H
#define LUTRA_CPU_SMALL_SLOTS_TMPL_H

#include "base/compiler.h"
#include "cpu/kernels.h"

LUTRA_INLINE void fill_small(struct cpu_kernels *out, const char *isa)
{
    out->small_isa = isa;
    out->rms_norm = rms_norm;
    out->layer_norm = layer_norm;
    out->rope = rope;
    out->swiglu = swiglu;
    out->geglu = geglu;
    out->relu2 = relu2;
    out->swiglu_oai = swiglu_oai;
    out->add = add;
    out->mul = mul;
    out->gate = gate;
    out->conv = conv;
    out->l2_norm = l2_norm;
    out->delta_step = delta_step;
    out->gelu = gelu;
    out->gelu_erf = gelu_erf;
    out->add_scaled = add_scaled;
    out->f32_to_f16 = to_f16;
    out->f16_to_f32 = to_f32;
    out->max_row = max_row;
    out->sum_exp = sum_exp;
}

#endif
