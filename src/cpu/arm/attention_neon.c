/* SPDX-License-Identifier: MIT
 *
 * Attention on NEON.  K and V are widened to f32 once per block.
 */
#include "cpu/attention.h"

#include "cpu/arm/vec_neon_impl.h"
#include "cpu/vec_math_tmpl.h"
#include "cpu/attention_tmpl.h"

void attention_init_neon(struct cpu_attention *out)
{
    *out = (struct cpu_attention){.name = "attention_neon",
        .numerics = "f32",
        .max_query = 6,
        .load = load_as_f32,
        .segment = segment_of_f32,
        .merge = attention_merge};
}
