/* SPDX-License-Identifier: MIT
 *
 * The passes of nucleus_impl.h over a row: plain C that compilers turn into vectors, built once per instruction set.
 */
#ifndef LUTRA_DECODE_SAMPLE_NUCLEUS_PASSES_IMPL_H
#define LUTRA_DECODE_SAMPLE_NUCLEUS_PASSES_IMPL_H

#include <math.h>
#include <string.h>

#include "decode/sample/nucleus_impl.h"

LUTRA_INLINE struct row_extent extent_of(const float *logit, int n)
{
    enum { LANES = 32 };
    const int32_t magnitude = 0x7fffffff, infinite = 0x7f800000; /* gcc makes no vectors of isnan() */
    float max[LANES], min[LANES];
    int bad = 0, i = 0;
    for (int j = 0; j < LANES; j++) max[j] = -INFINITY, min[j] = INFINITY;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) max[j] = logit[i + j] > max[j] ? logit[i + j] : max[j];
        for (int j = 0; j < LANES; j++) min[j] = logit[i + j] < min[j] ? logit[i + j] : min[j];
        for (int j = 0; j < LANES; j++) bad |= ((int32_t)f32_bits(logit[i + j]) & magnitude) > infinite;
    }
    for (; i < n; i++) {
        max[0] = logit[i] > max[0] ? logit[i] : max[0];
        min[0] = logit[i] < min[0] ? logit[i] : min[0];
        bad |= isnan(logit[i]);
    }
    for (int j = 1; j < LANES; j++) max[0] = max[j] > max[0] ? max[j] : max[0];
    for (int j = 1; j < LANES; j++) min[0] = min[j] < min[0] ? min[j] : min[0];
    return (struct row_extent){max[0], min[0], bad != 0};
}

/* Block `at` of the row; one cut short is filled up with what weighs nothing. */
LUTRA_INLINE const float *block_of(const struct nucleus_row *row, int at, float rest[NUCLEUS_BLOCK])
{
    if (row->n - at >= NUCLEUS_BLOCK) return row->logit + at;
    for (int i = 0; i < NUCLEUS_BLOCK; i++) rest[i] = at + i < row->n ? row->logit[at + i] : -INFINITY;
    return rest;
}

LUTRA_INLINE void sort_row(struct nucleus *out, const struct nucleus_row *row)
{
    float rest[NUCLEUS_BLOCK];
    double mass[NUCLEUS_BLOCK];
    memset(out->copy, 0, sizeof out->copy);
    for (int at = 0; at < row->n; at += NUCLEUS_BLOCK) {
        const float *x = block_of(row, at, rest);
        uint16_t *bucket = out->bucket + at;
        for (int i = 0; i < NUCLEUS_BLOCK; i++) bucket[i] = (uint16_t)nucleus_bucket(row, x[i]);
        for (int i = 0; i < NUCLEUS_BLOCK; i++) mass[i] = (double)weight_of(x[i], row->max, LOG2_E);
        for (int i = 0; i < NUCLEUS_BLOCK; i += NUCLEUS_COPIES)
            for (int c = 0; c < NUCLEUS_COPIES; c++) out->copy[c][bucket[i + c]] += mass[i + c];
    }
    for (int b = 0; b < NUCLEUS_BUCKETS; b++)
        out->mass[b] = out->copy[0][b] + out->copy[1][b] + (out->copy[2][b] + out->copy[3][b]);
}

/* The weights of block `at`: 0 of those worse than end. */
LUTRA_INLINE void weigh_block(
    const struct nucleus_row *row, int at, struct sample_cand end, float weight[NUCLEUS_BLOCK])
{
    float rest[NUCLEUS_BLOCK];
    const float *x = block_of(row, at, rest);
    int32_t least = select_key(end.logit) + (at > end.id); /* of equal ones those up to end.id are kept */
    for (int i = 0; i < NUCLEUS_BLOCK; i++) {
        uint32_t keep = 0u - (uint32_t)(select_key(x[i]) >= least);
        weight[i] = f32_from_bits(f32_bits(weight_of(x[i], row->max, row->heat)) & keep);
    }
    if (at > end.id || end.id - at >= NUCLEUS_BLOCK) return;
    for (int i = end.id - at + 1; i < NUCLEUS_BLOCK; i++)
        if (x[i] == end.logit) weight[i] = 0;
}

LUTRA_INLINE void weigh_row(struct nucleus *out, const struct nucleus_row *row, struct sample_cand end)
{
    enum { LANES = 16 };
    float weight[NUCLEUS_BLOCK];
    for (int at = 0; at < row->n; at += NUCLEUS_BLOCK) {
        double sum[LANES] = {0};
        weigh_block(row, at, end, weight);
        for (int i = 0; i < NUCLEUS_BLOCK; i += LANES)
            for (int j = 0; j < LANES; j++) sum[j] += (double)weight[i + j];
        for (int half = LANES / 2; half > 0; half /= 2)
            for (int j = 0; j < half; j++) sum[j] += sum[j + half];
        out->weight[at / NUCLEUS_BLOCK] = sum[0];
    }
}

#endif
