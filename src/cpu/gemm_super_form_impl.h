/* SPDX-License-Identifier: MIT
 *
 * The formats with 256-element blocks (class i8x256) as every kernel sees them: which codes, which scales, and where
 * they lie in a packed tile, which is one block of each of 16 rows.
 *
 * Included where STEP_BYTES (of a step of 16 rows x 4 inputs) is known; cpu/gemm_super_runs_tmpl.h makes the entry
 * points.
 */
#ifndef LUTRA_CPU_GEMM_SUPER_FORM_IMPL_H
#define LUTRA_CPU_GEMM_SUPER_FORM_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "cpu/layout.h"

/* THREE_BITS: codes + 4.  SIX_BITS: codes + 32.  TABLE: nibbles for IQ4_NL's values.  The others: unsigned codes. */
enum codes { TWO_BITS, THREE_BITS, FOUR_BITS, FIVE_BITS, SIX_BITS, TABLE };

/* Integers that groups of inputs have: none (ternary, codes + 1); of 16 inputs a scale and a minimum of 4 bits; of 32 a
 * scale and a minimum of 6 bits; a scale + 32 of 6 bits, of 16 inputs as Q3_K or of 32 as IQ4_XS; of 16 a scale of
 * 8. */
enum scales { NO_SCALES, BOTH_4, BOTH_6, SCALE_6, SCALE_6_APART, SCALE_8 };

/* What differs between formats; always a compile-time constant of an inlined call. */
struct form {
    enum codes codes;
    enum scales scales;
};

#define FORM_Q2_K ((struct form){TWO_BITS, BOTH_4})
#define FORM_Q3_K ((struct form){THREE_BITS, SCALE_6})
#define FORM_Q4_K ((struct form){FOUR_BITS, BOTH_6})
#define FORM_Q5_K ((struct form){FIVE_BITS, BOTH_6})
#define FORM_Q6_K ((struct form){SIX_BITS, SCALE_8})
#define FORM_IQ4_XS ((struct form){TABLE, SCALE_6_APART})
#define FORM_TERNARY ((struct form){TWO_BITS, NO_SCALES}) /* TQ2_0, and TQ1_0 as it is packed */

LUTRA_INLINE bool has_minima(struct form f)
{
    return f.scales == BOTH_4 || f.scales == BOTH_6;
}

/* Steps of a sum that is scaled at once, 16 or 32 inputs.  IQ4_XS's groups go in halves: their codes share bytes. */
LUTRA_INLINE int group_steps(struct form f)
{
    return f.scales == NO_SCALES || f.scales == BOTH_6 ? 8 : 4;
}

/* Whether values times their scales fit bytes, so that sums need no scaling: of Q2_K at most 3 * 15, of Q3_K -124 ..
 * 128; ternary has none. */
LUTRA_INLINE bool scales_fit_values(struct form f)
{
    return f.scales == NO_SCALES || f.scales == BOTH_4 || f.scales == SCALE_6;
}

/* Codes that are value + offset as unsigned bytes start from -offset times the inputs' sum: start16, shifted. */
LUTRA_INLINE bool has_offset(struct form f)
{
    return f.codes == THREE_BITS || f.codes == SIX_BITS || f.codes == TABLE;
}

LUTRA_INLINE int start_shift(struct form f)
{
    return f.codes == THREE_BITS ? -3 : f.codes == TABLE ? 2 : 0;
}

/* ---- sections of a tile ---- */

LUTRA_INLINE size_t code_bytes(struct form f)
{
    return LANES * (f.codes == TWO_BITS || f.codes == THREE_BITS ? 64 : 128);
}

LUTRA_INLINE size_t high_bytes(struct form f)
{
    return LANES * (f.codes == THREE_BITS || f.codes == FIVE_BITS ? 32 : f.codes == SIX_BITS ? 64 : 0);
}

LUTRA_INLINE size_t scales_bytes(struct form f)
{
    static const uint8_t BYTES[] = {
        [NO_SCALES] = 0, [BOTH_4] = 16, [BOTH_6] = 12, [SCALE_6] = 12, [SCALE_6_APART] = 6, [SCALE_8] = 16};
    return (size_t)LANES * BYTES[f.scales];
}

/* Where each begins: codes, their high bits, the groups' scales, f16 d and dmin of the rows. */
LUTRA_INLINE size_t high_at(struct form f)
{
    return code_bytes(f);
}

LUTRA_INLINE size_t scales_at(struct form f)
{
    return high_at(f) + high_bytes(f);
}

LUTRA_INLINE size_t d_at(struct form f)
{
    return scales_at(f) + scales_bytes(f);
}

LUTRA_INLINE size_t dmin_at(struct form f)
{
    return d_at(f) + 2 * LANES;
}

LUTRA_INLINE size_t tile_bytes(struct form f)
{
    return has_minima(f) ? dmin_at(f) + 2 * LANES : dmin_at(f);
}

/* Of 32 inputs, on average. */
LUTRA_INLINE size_t group_bytes(struct form f)
{
    return tile_bytes(f) / 8;
}

/* ---- codes ---- */

/* A group of 32 inputs has 8 steps.  Which vector of the section has step v of group g, and the bit of each byte where
 * its codes begin. */
LUTRA_INLINE int code_vector(struct form f, int g, int v)
{
    switch (f.codes) {
    case TWO_BITS:
    case THREE_BITS: return g / 4 * 8 + v;
    case SIX_BITS: return g / 4 * 16 + g % 2 * 8 + v;
    case TABLE: return g * 4 + v % 4;
    default: return g / 2 * 8 + v;
    }
}

LUTRA_INLINE int code_bit(struct form f, int g, int v)
{
    switch (f.codes) {
    case TWO_BITS:
    case THREE_BITS: return 2 * (g % 4);
    case SIX_BITS: return g % 4 / 2 * 4;
    case TABLE: return v / 4 * 4;
    default: return g % 2 * 4;
    }
}

LUTRA_INLINE uint8_t code_mask(struct form f)
{
    return f.codes == TWO_BITS || f.codes == THREE_BITS ? 3 : 15;
}

/* Of codes with high bits, which go to bits high_place and up (high_mask). */
LUTRA_INLINE int high_vector(struct form f, int g, int v)
{
    return f.codes == SIX_BITS ? g / 4 * 8 + v : v;
}

LUTRA_INLINE int high_bit(struct form f, int g)
{
    return f.codes == SIX_BITS ? 2 * (g % 4) : g;
}

LUTRA_INLINE int high_place(struct form f)
{
    return f.codes == THREE_BITS ? 2 : 4;
}

LUTRA_INLINE uint8_t high_mask(struct form f)
{
    return f.codes == THREE_BITS ? 4 : f.codes == FIVE_BITS ? 16 : f.codes == SIX_BITS ? 0x30 : 0;
}

#endif
