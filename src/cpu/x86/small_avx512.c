/* SPDX-License-Identifier: MIT */
#include "cpu/x86/vec_avx512_impl.h"
#include "cpu/vec_math_tmpl.h"
#include "cpu/small_tmpl.h"
#include "cpu/small_slots_tmpl.h"

void cpu_small_init_avx512(struct cpu_kernels *out)
{
    fill_small(out, "avx512");
    attention_init_avx512(&out->attention);
}
