/* SPDX-License-Identifier: MIT
 *
 * Integer dot products of two steps (8 inputs) by sdot: a step of 4 inputs x 4 rows per instruction.
 */
#ifndef LUTRA_CPU_ARM_DOT_H
#define LUTRA_CPU_ARM_DOT_H

#include "cpu/arm/gemm_arm_impl.h"

struct dots {
    int32x4_t sum[TILE_SUMS];
};

/* Starts every dot product at its column's start[c] << shift, or >> -shift, or at 0. */
LUTRA_INLINE void dot_begin(struct dots *d, const uint8_t *start, int shift, int n_quad, int n)
{
    UNROLL
    for (int c = 0; c < n; c++) {
        int32x4_t s = shift == NO_START ? vdupq_n_s32(0) : vshlq_s32(broadcast(start + 4 * c), vdupq_n_s32(shift));
        UNROLL
        for (int q = 0; q < n_quad; q++) d->sum[tile_at(q, c, n)] = s;
    }
}

/* By the inputs at word c of x (column c of four); c is a constant once unrolled. */
LUTRA_INLINE int32x4_t dot_lane(int32x4_t acc, int8x16_t w, int8x16_t x, int c)
{
    switch (c) {
    case 0: return vdotq_laneq_s32(acc, w, x, 0);
    case 1: return vdotq_laneq_s32(acc, w, x, 1);
    case 2: return vdotq_laneq_s32(acc, w, x, 2);
    default: return vdotq_laneq_s32(acc, w, x, 3);
    }
}

/* One step.  16 bytes of activations are read whatever n is: behind the last column lie the record's scales. */
LUTRA_INLINE void dot_step(struct dots *d, const int8x16_t *w, const uint8_t *x, int n_quad, int n, const bool in_order)
{
    int8x16_t in = n == 1 ? vreinterpretq_s8_s32(broadcast(x)) : vld1q_s8((const int8_t *)x);
    UNROLL
    for (int c = 0; c < n; c++) {
        UNROLL
        for (int q = 0; q < n_quad; q++) {
            int32x4_t *sum = &d->sum[tile_at(q, c, n)];
            *sum = n == 1 ? vdotq_s32(*sum, w[q], in) : dot_lane(*sum, w[q], in, c);
            if (in_order) COMPILER_UNKNOWN_VECTOR(*sum);
        }
    }
}

/* As in dot_neon_impl.h. */
LUTRA_INLINE void dot_pair(struct dots *d, const int8x16_t *w0, const int8x16_t *w1, const uint8_t *x, size_t width,
    int n_quad, int n, const bool in_order)
{
    dot_step(d, w0, x, n_quad, n, in_order);
    dot_step(d, w1, x + 4 * width, n_quad, n, in_order);
}

LUTRA_INLINE int32x4_t dot_of(const struct dots *d, int quad, int c, int n)
{
    return d->sum[tile_at(quad, c, n)];
}

#endif
