/* SPDX-License-Identifier: MIT
 *
 * Reading a tile of the formats with 256-element blocks for gemm_tile_i8mm_tmpl.h.  Part of gemm_super_i8mm.c.
 *
 * Needs: the form functions of that file.
 * Gives: unpack, and what gemm_tile_i8mm_tmpl.h needs.
 */
#ifndef LUTRA_CPU_ARM_GEMM_SUPER_TILE_I8MM_TMPL_H
#define LUTRA_CPU_ARM_GEMM_SUPER_TILE_I8MM_TMPL_H

/* Steps of 8 inputs of a sum that is scaled at once. */
LUTRA_INLINE int sum_pair_steps(struct form f)
{
    return in_sixteens(f) ? 2 : 4;
}

#include "cpu/arm/gemm_tile_i8mm_tmpl.h"

/* Scale i of 8 of each row of a pair in all bytes of the row. */
LUTRA_INLINE int8x16_t scale_bytes(struct form f, int8x16_t scales, int i)
{
    uint8x16_t at = vcombine_u8(vdup_n_u8((uint8_t)i), vdup_n_u8((uint8_t)(8 + i)));
    int8x16_t bytes = vqtbl1q_s8(scales, at);
    return is_negated(f) ? vnegq_s8(bytes) : bytes;
}

LUTRA_INLINE void unpack_pair(
    struct form f, const struct tile *t, const struct factors *factors, int quad, int pair, struct unpacked *u)
{
    const int steps = sum_pair_steps(f), of = 2 * quad + pair;
    UNROLL
    for (int g = 0; g < 8; g++) {
        const struct part p = part_of(f, t, quad, g / part_groups(f));
        int8x16_t factor = vdupq_n_s8(1);
        UNROLL
        for (int v = 0; v < 4; v++) {
            const int sum = (4 * g + v) / steps, half = sum / 8;
            if (v % steps == 0 && f.scales != NO_SCALES) {
                int8x16_t scales = scales_of(f, t, factors, half, quad, pair);
                if (is_summed(f)) factor = scale_bytes(f, scales, sum % 8);
                if (!is_summed(f)) u->scale[sum][of] = spread_scale(scales, sum % 8, !has_minima(f));
            }
            int8x16_t value = values_of(f, load_codes(f, &p, g % part_groups(f), v, pair));
            if (is_summed(f) && f.scales != NO_SCALES) value = vmulq_s8(value, factor);
            vst1q_s8(u->value[4 * g + v] + 16 * of, value);
        }
    }
    for (int half = 0; half < 2 && has_minima(f); half++) u->min[half][of] = factors->min[half][pair];
}

LUTRA_INLINE void unpack(struct form f, const struct tables *none, const uint8_t *w, struct unpacked *u)
{
    (void)none;
    const struct tile t = split_tile(f, w);
    for (int quad = 0; quad < QUADS; quad++) {
        struct factors factors;
        if (f.scales != NO_SCALES && f.scales != SCALE_8) factors = load_factors(f, &t, quad);
        unpack_pair(f, &t, &factors, quad, 0, u);
        unpack_pair(f, &t, &factors, quad, 1, u);
        u->d[quad] = load_f16(t.d + 8 * quad);
        if (has_minima(f)) u->dmin[quad] = load_f16(t.dmin + 8 * quad);
    }
}

#endif
