/* SPDX-License-Identifier: MIT
 *
 * The pass of nucleus_impl.h over a row: plain C that compilers turn into vectors, built once per instruction set.
 */
#ifndef LUTRA_DECODE_SAMPLE_NUCLEUS_FILL_IMPL_H
#define LUTRA_DECODE_SAMPLE_NUCLEUS_FILL_IMPL_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "decode/sample/nucleus_impl.h"

/* shallow: no logit is 87 or more below the largest, at either temperature. */
LUTRA_INLINE void weigh_block(
    const struct nucleus_row *row, const float *x, float temperature, bool shallow, uint16_t *bucket, float (*mass)[2])
{
    float model[NUCLEUS_BLOCK], heated[NUCLEUS_BLOCK], max = row->max;
    for (int i = 0; i < NUCLEUS_BLOCK; i++) bucket[i] = (uint16_t)nucleus_bucket(row, x[i]);
    if (shallow)
        for (int i = 0; i < NUCLEUS_BLOCK; i++) model[i] = exp_minus(max - x[i]);
    else
        for (int i = 0; i < NUCLEUS_BLOCK; i++) model[i] = exp_nonpos(x[i] - max);
    if (temperature == 1)
        memcpy(heated, model, sizeof heated);
    else if (shallow)
        for (int i = 0; i < NUCLEUS_BLOCK; i++) heated[i] = exp_minus((max - x[i]) / temperature);
    else
        for (int i = 0; i < NUCLEUS_BLOCK; i++) heated[i] = exp_nonpos((x[i] - max) / temperature);
    for (int i = 0; i < NUCLEUS_BLOCK; i++) {
        mass[i][OF_MODEL] = model[i];
        mass[i][OF_DRAW] = heated[i];
    }
}

LUTRA_INLINE void fill(struct nucleus *out, const struct nucleus_row *row, float temperature)
{
    float rest[NUCLEUS_BLOCK], mass[NUCLEUS_BLOCK][2];
    memset(out->mass, 0, sizeof out->mass);
    for (int at = 0; at < row->n; at += NUCLEUS_BLOCK) {
        const float *x = row->logit + at;
        if (row->n - at < NUCLEUS_BLOCK) {
            for (int i = 0; i < NUCLEUS_BLOCK; i++) rest[i] = at + i < row->n ? x[i] : -INFINITY;
            x = rest;
        }
        weigh_block(row, x, temperature, row->shallow && x != rest, out->bucket + at, mass);
        for (int i = 0; i < NUCLEUS_BLOCK; i += NUCLEUS_COPIES)
            for (int c = 0; c < NUCLEUS_COPIES; c++) {
                double *sum = out->mass[c][out->bucket[at + i + c]];
                sum[OF_MODEL] += mass[i + c][OF_MODEL];
                sum[OF_DRAW] += mass[i + c][OF_DRAW];
            }
    }
    for (int b = 0; b < NUCLEUS_BUCKETS; b++)
        for (int c = 1; c < NUCLEUS_COPIES; c++)
            for (int of = OF_MODEL; of <= OF_DRAW; of++) out->mass[0][b][of] += out->mass[c][b][of];
}

#endif
