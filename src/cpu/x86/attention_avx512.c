/* SPDX-License-Identifier: MIT
 *
 * Attention on AVX-512.  A half-float cache stays in half floats: K is transposed as such, V is read where it lies, and
 * the tile converts (four conversions per 24 fma), which costs less than a wider transposition and its traffic.
 */
#include "cpu/attention.h"

#include <string.h>

#include "cpu/x86/vec_avx512_impl.h"
#include "cpu/vec_math_tmpl.h"
#include "cpu/attention_tmpl.h"
#include "cpu/x86/transpose_avx512_impl.h"

static void load(const struct attention_load *a, struct attention_segment *s)
{
    if (!attention_is_f16(a->type)) {
        load_as_f32(a, s);
        return;
    }
    size_t row = (size_t)a->d_head, padded = (size_t)attention_padded(a->d_head);
    transpose_f16(a->k, a->d_head, a->n_pos, a->kt);
    s->type = QUANT_F16;
    s->kt = a->kt;
    s->v_stride = padded;
    s->v = a->v;
    if (padded == row) return;
    for (size_t j = 0; j < (size_t)a->n_pos; j++) {
        memcpy((uint16_t *)a->vt + j * padded, (const uint16_t *)a->v + j * row, row * sizeof(uint16_t));
    }
    s->v = a->vt;
}

static LUTRA_NOINLINE void segment_of_f16(const struct attention_segment *a)
{
    for (int first = 0; first < a->n_query; first += TILE_Q) {
        int left = a->n_query - first;
        segment_queries(a, QUANT_F16, first, left < TILE_Q ? left : TILE_Q);
    }
}

static void segment(const struct attention_segment *a)
{
    if (a->type == QUANT_F16) {
        segment_of_f16(a);
    } else {
        segment_of_f32(a);
    }
}

void attention_init_avx512(struct cpu_attention *out)
{
    *out = (struct cpu_attention){.name = "attention_avx512",
        .numerics = "f32",
        .max_query = 6,
        .load = load,
        .segment = segment,
        .merge = attention_merge};
}
