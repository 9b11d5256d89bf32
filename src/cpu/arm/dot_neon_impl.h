/* SPDX-License-Identifier: MIT
 *
 * Integer dot products of two steps (8 inputs) on plain NEON: byte products added in pairs, exact in 16 bits for codes
 * of -128 .. 127 and activations of -127 .. 127 (2 x 128 x 127 = 32512).
 *
 * The same names are in dot_dotprod_impl.h.
 */
#ifndef LUTRA_CPU_ARM_DOT_H
#define LUTRA_CPU_ARM_DOT_H

#include "cpu/arm/gemm_arm_impl.h"

/* Accumulators of a tile, in whatever order the instructions like. */
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

LUTRA_INLINE int32x4_t dot_step(int32x4_t acc, int8x16_t w, int8x16_t x)
{
    int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(x)), high = vmull_high_s8(w, x);
    return vpadalq_s16(acc, vpaddq_s16(low, high));
}

/* By the inputs at word c of x; c is a constant once unrolled. */
LUTRA_INLINE int32x4_t dot_lane(int32x4_t acc, int8x16_t w, int8x16_t x, int c)
{
    const int32x4_t words = vreinterpretq_s32_s8(x);
    switch (c) {
    case 0: return dot_step(acc, w, vreinterpretq_s8_s32(vdupq_laneq_s32(words, 0)));
    case 1: return dot_step(acc, w, vreinterpretq_s8_s32(vdupq_laneq_s32(words, 1)));
    case 2: return dot_step(acc, w, vreinterpretq_s8_s32(vdupq_laneq_s32(words, 2)));
    default: return dot_step(acc, w, vreinterpretq_s8_s32(vdupq_laneq_s32(words, 3)));
    }
}

/* Adds steps w0 and w1 of n_quad quads for n columns; x: [2 steps][width][4 inputs].  in_order: the compiler keeps the
 * order of the source, where it would run out of registers otherwise. */
LUTRA_INLINE void dot_pair(struct dots *d, const int8x16_t *w0, const int8x16_t *w1, const uint8_t *x, size_t width,
    int n_quad, int n, const bool in_order)
{
    UNROLL
    for (int c = 0; c < n; c++) {
        int8x16_t x0 = vreinterpretq_s8_s32(broadcast(x + 4 * c));
        int8x16_t x1 = vreinterpretq_s8_s32(broadcast(x + 4 * width + 4 * c));
        UNROLL
        for (int q = 0; q < n_quad; q++) {
            int32x4_t *sum = &d->sum[tile_at(q, c, n)];
            *sum = dot_step(dot_step(*sum, w0[q], x0), w1[q], x1);
            if (in_order) COMPILER_UNKNOWN_VECTOR(*sum);
        }
    }
}

/* The four rows of a quad and column. */
LUTRA_INLINE int32x4_t dot_of(const struct dots *d, int quad, int c, int n)
{
    return d->sum[tile_at(quad, c, n)];
}

#endif
