/* SPDX-License-Identifier: MIT */
#include "cpu/arm/vec_neon_impl.h"
#include "cpu/vec_math_tmpl.h"
#include "cpu/small_tmpl.h"
#include "cpu/small_slots_tmpl.h"

void cpu_small_init_neon(struct cpu_kernels *out)
{
    fill_small(out, "neon");
    attention_init_neon(&out->attention);
}
