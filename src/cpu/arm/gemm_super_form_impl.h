/* SPDX-License-Identifier: MIT
 *
 * The sections of a packed tile of the formats with 256-element blocks, and shifts of their codes.
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

#endif
