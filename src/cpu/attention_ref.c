/* SPDX-License-Identifier: MIT
 *
 * The attention kernels in scalar C: the arithmetic of cpu/attention.h, lane by lane, without fused operations.
 */
#include "cpu/attention.h"

#include <math.h>
#include <stdbool.h>

#include "quant/quant.h"

static void load(const struct attention_load *a, struct attention_segment *s)
{
    const struct quant_info *type[2] = {quant_info_of(a->type[KV_K]), quant_info_of(a->type[KV_V])};
    float *kt = a->kt, *vt = a->vt, k[ATTENTION_MAX_D_HEAD];
    size_t d_head = (size_t)a->d_head, padded = (size_t)attention_padded(a->d_head);
    size_t k_bytes = d_head / type[KV_K]->block_elems * type[KV_K]->block_bytes;
    size_t v_bytes = d_head / type[KV_V]->block_elems * type[KV_V]->block_bytes;
    for (size_t j = 0; j < (size_t)a->n_pos; j++) {
        type[KV_K]->dequantize((const uint8_t *)a->k + j * k_bytes, k, d_head);
        type[KV_V]->dequantize((const uint8_t *)a->v + j * v_bytes, vt + j * padded, d_head);
        for (size_t d = 0; d < d_head; d++) kt[d * KV_BLOCK + j] = k[d];
    }
    s->type = QUANT_F32;
    s->kt = kt;
    s->v = vt;
    s->v_stride = padded;
}

/* One segment of one query; o: [padded], its (m, l) in *m and *l. */
static void attend(const struct attention_segment *a, int r, float *m, float *l, float *o)
{
    const float *kt = a->kt, *v = a->v, *q = a->q[r];
    float *p = a->p + r * KV_BLOCK;
    *m = -INFINITY;
    *l = 0;
    for (int j = a->lo[r]; j < a->hi[r]; j++) {
        float s = 0;
        for (int d = 0; d < a->from.d_head; d++) s += q[d] * kt[d * KV_BLOCK + j];
        s *= a->scale;
        if (a->softcap != 0) s = a->softcap * tanhf(s / a->softcap);
        p[j] = s;
        if (s > *m) *m = s;
    }
    int padded = attention_padded(a->from.d_head);
    for (int d = 0; d < padded; d++) o[d] = 0;
    for (int j = a->lo[r]; j < a->hi[r]; j++) {
        p[j] = expf(p[j] - *m);
        *l += p[j];
        for (int d = 0; d < a->from.d_head; d++) o[d] += p[j] * v[(size_t)j * a->v_stride + (size_t)d];
    }
}

static void merge_into(float *state, float m, float l, const float *o, int d_head)
{
    float old = state[ATTENTION_STATE_M], top = m > old ? m : old;
    float into = expf(old - top), from = expf(m - top);
    state[ATTENTION_STATE_M] = top;
    state[ATTENTION_STATE_L] = state[ATTENTION_STATE_L] * into + l * from;
    for (int d = 0; d < attention_padded(d_head); d++) {
        state[ATTENTION_STATE_O + d] = state[ATTENTION_STATE_O + d] * into + (o[d] + 0.0f) * from;
    }
}

static void segment(const struct attention_segment *a)
{
    for (int r = 0; r < a->n_query; r++) {
        float m, l, o[ATTENTION_MAX_D_HEAD];
        attend(a, r, &m, &l, o);
        merge_into(a->state[r], m, l, o, a->from.d_head);
    }
}

static void merge(float *into, const float *from, int d_head)
{
    merge_into(into, from[ATTENTION_STATE_M], from[ATTENTION_STATE_L], from + ATTENTION_STATE_O, d_head);
}

void attention_init_ref(struct cpu_attention *out)
{
    *out = (struct cpu_attention){.name = "attention_ref",
        .numerics = "f32",
        .max_query = ATTENTION_MAX_QUERY,
        .load = load,
        .segment = segment,
        .merge = merge};
}
