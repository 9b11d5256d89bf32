/* SPDX-License-Identifier: MIT
 *
 * The sections of a packed tile of the formats with 256-element blocks, shifts of their codes, and their values.
 */
#ifndef LUTRA_CPU_ARM_GEMM_SUPER_FORM_H
#define LUTRA_CPU_ARM_GEMM_SUPER_FORM_H

#include "cpu/arm/gemm_arm_impl.h"

#include "cpu/gemm_super_form_impl.h"

/* One tile of a panel, by section; d and dmin are halves of 16 rows. */
struct tile {
    const uint8_t *code, *high, *scales, *d, *dmin;
};

LUTRA_INLINE struct tile split_tile(struct form f, const uint8_t *p)
{
    return (struct tile){p, p + high_at(f), p + scales_at(f), p + d_at(f), p + dmin_at(f)};
}

/* Bytes shifted left by n, right by -n. */
LUTRA_INLINE uint8x16_t shifted(const uint8_t *p, int n)
{
    return vshlq_u8(vld1q_u8(p), vdupq_n_s8((int8_t)n));
}

/* ---- a tile that is read once for all columns (gemm_tile_quads_tmpl.h, gemm_tile_i8mm_tmpl.h) ---- */

LUTRA_INLINE bool is_summed(struct form f)
{
    return scales_fit_values(f);
}

/* Q3_K's largest product fits int8 only so. */
LUTRA_INLINE bool is_negated(struct form f)
{
    return f.scales == SCALE_6;
}

/* The values that codes stand for. */
LUTRA_INLINE int8x16_t values_of(struct form f, int8x16_t codes)
{
    const int offset = f.scales == NO_SCALES ? 1 : f.codes == THREE_BITS ? 4 : f.codes == SIX_BITS ? 32 : 0;
    return offset ? vsubq_s8(codes, vdupq_n_s8((int8_t)offset)) : codes;
}

#endif
