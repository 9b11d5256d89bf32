/* SPDX-License-Identifier: MIT
 *
 * The formats with 256-element blocks on Arm, class i8x256: what differs between them, and a packed tile's sections.
 *
 * Included by a body that defines run_all(enum codes f, const struct cpu_gemm_args *a), and that includes
 * gemm_super_runs_impl.h after it.
 */
#ifndef LUTRA_CPU_ARM_GEMM_SUPER_FORM_H
#define LUTRA_CPU_ARM_GEMM_SUPER_FORM_H

#include "cpu/arm/gemm_arm_impl.h"

/* Always a compile-time constant of an inlined call. */
enum codes { FOUR_BITS, FIVE_BITS, SIX_BITS, TWO_BITS };

/* One tile of a panel, by section; d and dmin are halves of 16 rows. */
struct tile {
    const uint8_t *code, *high, *scales, *d, *dmin;
};

LUTRA_INLINE size_t tile_bytes(enum codes f)
{
    static const size_t BYTES[] = {144 * LANES, 176 * LANES, 210 * LANES, 66 * LANES};
    return BYTES[f];
}

LUTRA_INLINE struct tile split_tile(enum codes f, const uint8_t *p)
{
    switch (f) {
    case FOUR_BITS: return (struct tile){p, p, p + 2048, p + 2240, p + 2272};
    case FIVE_BITS: return (struct tile){p, p + 2048, p + 2560, p + 2752, p + 2784};
    case SIX_BITS: return (struct tile){p, p + 2048, p + 3072, p + 3328, p};
    default: return (struct tile){p, p, p, p + 1024, p};
    }
}

/* Bytes shifted left by n, right by -n. */
LUTRA_INLINE uint8x16_t shifted(const uint8_t *p, int n)
{
    return vshlq_u8(vld1q_u8(p), vdupq_n_s8((int8_t)n));
}

#endif
