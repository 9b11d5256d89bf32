/* SPDX-License-Identifier: MIT */
#include "cpu/attention.h"

#include "cpu/x86/vec_avx2_impl.h"
#include "cpu/x86/vec_math_impl.h"
#include "cpu/x86/attention_body_impl.h"

void attention_init_avx2(struct cpu_attention *out)
{
    *out = (struct cpu_attention){
        .name = "attention_avx2", .load = attention_load, .segment = attention_segment, .merge = attention_merge};
}
