/* SPDX-License-Identifier: MIT
 *
 * The cache as a row sees it, and attention over it (ops/kv_view.h).
 */
#include "ops/ref/ref.h"

#include <math.h>
#include <string.h>

#include "quant/quant.h"

void ref_kv_append(const struct kv_view *kv, int layer, int row, const float *k, const float *v)
{
    const struct kv_layer *l = &kv->layer[layer];
    for (int h = 0; h < l->n_kv_head; h++) {
        kv_round(kv->type[KV_K], k + h * l->d_head, kv_slot_at(kv, layer, KV_K, h, row), l->d_head);
        kv_round(kv->type[KV_V], v + h * l->d_head, kv_slot_at(kv, layer, KV_V, h, row), l->d_head);
    }
}

void ref_kv_read(const struct kv_view *kv, int layer, enum kv_side side, int head, int row, int32_t pos, float *out)
{
    const struct kv_row *r = &kv->row[row];
    size_t vec = kv->layer[layer].vec_bytes[side];
    const uint8_t *src;
    if (pos < r->n_paged) {
        int32_t block = kv->table[r->table + pos / KV_BLOCK];
        src = kv_block_at(kv, layer, side, block) + ((size_t)head * KV_BLOCK + pos % KV_BLOCK) * vec;
    } else {
        src = kv_draft_at(kv, layer, side, head) + (size_t)kv->row[kv_draft_row(kv, row, pos)].slot * vec;
    }
    quant_info_of(kv->type[side])->dequantize(src, out, (size_t)kv->layer[layer].d_head);
    if (kv_is_rotated(kv->type[side])) kv_rotate(out, kv->layer[layer].d_head);
}

/* The scores of one head at positions first .. n - 1; returns the largest. */
static double score_head(const struct kv_view *kv, int layer, const struct op_attention *p, int row, int head,
    const float *q, int32_t first, int32_t n, double *score, float *vec)
{
    double max = p->sinks ? (double)p->sinks[head] : -INFINITY;
    for (int32_t pos = first; pos < n; pos++) {
        ref_kv_read(kv, layer, KV_K, head / (p->n_head / p->n_kv_head), row, pos, vec);
        double s = 0;
        for (int d = 0; d < p->d_head; d++) s += (double)q[d] * vec[d];
        s *= p->scale;
        if (p->softcap != 0) s = p->softcap * tanh(s / p->softcap);
        score[pos] = s;
        if (s > max) max = s;
    }
    return max;
}

void ref_attention(const struct kv_view *kv, int layer, const struct op_attention *p, int row, const float *q,
    float *out, double *scratch)
{
    int32_t first, n;
    kv_row_sees(&kv->row[row], p->window, &first, &n);
    double *score = scratch, *sum_v = scratch + n;
    float *vec = (float *)(sum_v + p->d_head);
    for (int h = 0; h < p->n_head; h++) {
        double max = score_head(kv, layer, p, row, h, q + h * p->d_head, first, n, score, vec);
        double sum = p->sinks ? exp(p->sinks[h] - max) : 0;
        for (int d = 0; d < p->d_head; d++) sum_v[d] = 0;
        for (int32_t pos = first; pos < n; pos++) {
            double weight = exp(score[pos] - max);
            sum += weight;
            ref_kv_read(kv, layer, KV_V, h / (p->n_head / p->n_kv_head), row, pos, vec);
            for (int d = 0; d < p->d_head; d++) sum_v[d] += weight * vec[d];
        }
        for (int d = 0; d < p->d_head; d++) out[h * p->d_head + d] = (float)(sum_v[d] / sum);
    }
}
