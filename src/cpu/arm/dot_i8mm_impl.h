/* SPDX-License-Identifier: MIT
 *
 * Integer dot products of two steps (8 inputs) by smmla: 2 rows x 2 columns x 8 inputs per instruction, twice sdot's
 * work.  The words of two steps, interleaved, are its operands: no other layout is needed.  One column takes sdot.
 */
#ifndef LUTRA_CPU_ARM_DOT_H
#define LUTRA_CPU_ARM_DOT_H

#include "cpu/arm/gemm_arm_impl.h"

/* More than one column: [quad][rows 0 1, rows 2 3][column pair], each row-major 2 x 2. */
struct dots {
    int32x4_t sum[TILE_SUMS];
};

/* Starts every dot product at its column's start[c] << shift; a negative shift: at 0.  Behind the last column's start
 * lies more of the record. */
LUTRA_INLINE void dot_begin(struct dots *d, const uint8_t *start, int shift, int n_quad, int n)
{
    (void)n_quad;
    int32x4_t by = vdupq_n_s32(shift < 0 ? 0 : shift);
    for (int i = 0; i < TILE_SUMS; i++) {
        const int64_t *two = (const int64_t *)(const void *)(start + i % 2 * 8);
        int32x4_t s = n == 1 ? broadcast(start) : vreinterpretq_s32_s64(vld1q_dup_s64(two));
        d->sum[i] = shift < 0 ? vdupq_n_s32(0) : vshlq_s32(s, by);
    }
}

LUTRA_INLINE int8x16_t words_low(int8x16_t a, int8x16_t b)
{
    return vreinterpretq_s8_s32(vzip1q_s32(vreinterpretq_s32_s8(a), vreinterpretq_s32_s8(b)));
}

LUTRA_INLINE int8x16_t words_high(int8x16_t a, int8x16_t b)
{
    return vreinterpretq_s8_s32(vzip2q_s32(vreinterpretq_s32_s8(a), vreinterpretq_s32_s8(b)));
}

LUTRA_INLINE void dot_pair(
    struct dots *d, const int8x16_t *w0, const int8x16_t *w1, const uint8_t *x, size_t width, int n_quad, int n)
{
    const uint8_t *next = x + 4 * width;
    if (n == 1) {
        int8x16_t x0 = vreinterpretq_s8_s32(broadcast(x)), x1 = vreinterpretq_s8_s32(broadcast(next));
        UNROLL
        for (int q = 0; q < n_quad; q++) d->sum[q] = vdotq_s32(vdotq_s32(d->sum[q], w0[q], x0), w1[q], x1);
        return;
    }
    /* As in dot_dotprod_impl.h, 16 bytes are always there. */
    int8x16_t x0 = vld1q_s8((const int8_t *)x), x1 = vld1q_s8((const int8_t *)next);
    int8x16_t pair[2] = {words_low(x0, x1), words_high(x0, x1)};
    UNROLL
    for (int q = 0; q < n_quad; q++) {
        int8x16_t rows[2] = {words_low(w0[q], w1[q]), words_high(w0[q], w1[q])};
        UNROLL
        for (int i = 0; i < 4; i++) {
            if (i % 2 * 2 >= n) continue;
            int32x4_t *sum = &d->sum[4 * q + i];
            *sum = vmmlaq_s32(*sum, rows[i / 2], pair[i % 2]);
        }
    }
}

LUTRA_INLINE int32x4_t dot_of(const struct dots *d, int quad, int c, int n)
{
    if (n == 1) return d->sum[quad];
    int32x4_t upper = d->sum[4 * quad + c / 2], lower = d->sum[4 * quad + 2 + c / 2];
    return c % 2 ? vuzp2q_s32(upper, lower) : vuzp1q_s32(upper, lower);
}

#endif
