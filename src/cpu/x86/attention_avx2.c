/* SPDX-License-Identifier: MIT
 *
 * Attention on AVX2.  K and V are widened to f32 once per block: its tile of 12 fma is too small to convert in.
 */
#include "cpu/attention.h"

#include "cpu/x86/vec_avx2_impl.h"
#include "cpu/vec_math_tmpl.h"
#include "cpu/attention_tmpl.h"

void attention_init_avx2(struct cpu_attention *out)
{
    *out = (struct cpu_attention){.name = "attention_avx2",
        .numerics = "f32",
        .max_query = 6,
        .load = load_as_f32,
        .segment = segment_of_f32,
        .merge = attention_merge};
}
