/* SPDX-License-Identifier: MIT */
#include "cpu/x86/vec_avx2_impl.h"
#include "cpu/vec_math_tmpl.h"
#include "cpu/small_tmpl.h"
#include "cpu/small_slots_tmpl.h"

void cpu_small_init_avx2(struct cpu_kernels *out)
{
    fill_small(out, "avx2");
    attention_init_avx2(&out->attention);
}
