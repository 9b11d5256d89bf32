/* SPDX-License-Identifier: MIT
 *
 * The formats with 32-element blocks (class i8x32) as every int8 kernel sees them: which codes, which scales, and where
 * a group of 32 inputs lies in a packed tile.
 *
 * Needs: STEP_BYTES, of a step of 16 rows x 4 inputs.
 * Gives: struct form, and what is asked of one; cpu/gemm_i8_runs_tmpl.h makes the entry points.
 */
#ifndef LUTRA_CPU_GEMM_I8_FORM_TMPL_H
#define LUTRA_CPU_GEMM_I8_FORM_TMPL_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum codes { ONE_BIT, TWO_BITS, THREE_BITS, NIBBLES, TABLE, FIVE_BITS, BYTES };
enum scales { F16_SCALE, F16_SCALE_AND_MIN, F16_SCALE_AND_ZERO, E8M0_SCALE };

/* What differs between formats; always a compile-time constant of an inlined call. */
struct form {
    enum codes codes;
    enum scales scales;
    /* Unsigned codes are value + offset, offset = 8 << this, or 0 if -1; start = stored start << this, and times the
     * output's zero if it has one. */
    int start_shift;
    int shared; /* groups that a scale is for, if not 1; then codes stand for 8 times their values (value_scale) */
};

#define FORM_Q4_0 ((struct form){NIBBLES, F16_SCALE, 0, 0})
#define FORM_Q4_1 ((struct form){NIBBLES, F16_SCALE_AND_MIN, -1, 0})
#define FORM_Q5_0 ((struct form){FIVE_BITS, F16_SCALE, 1, 0})
#define FORM_Q5_1 ((struct form){FIVE_BITS, F16_SCALE_AND_MIN, -1, 0})
#define FORM_Q8_0 ((struct form){BYTES, F16_SCALE, 4, 0})
#define FORM_IQ4_NL ((struct form){TABLE, F16_SCALE, 4, 0})
#define FORM_MXFP4 ((struct form){TABLE, E8M0_SCALE, 1, 0})

/* Codes 0 and 16 are -1 and 1, codes 0 8 16 24 are -1 .. 2, so that their offset is that of Q4_0. */
#define FORM_Q1_0 ((struct form){ONE_BIT, F16_SCALE, 0, 4})
#define FORM_Q2_0 ((struct form){TWO_BITS, F16_SCALE, 0, 2})

/* As those, above a zero of each output: 8 code - 8 zero. */
#define FORM_W2 ((struct form){TWO_BITS, F16_SCALE_AND_ZERO, 0, 2})
#define FORM_W3 ((struct form){THREE_BITS, F16_SCALE_AND_ZERO, 0, 2})
#define FORM_W4 ((struct form){NIBBLES, F16_SCALE_AND_ZERO, 0, 2})

/* What the file's scale is multiplied by: a power of two, exact. */
LUTRA_INLINE float value_scale(struct form f)
{
    return f.shared ? 0.125f : 1.0f;
}

struct group {
    const uint8_t *code, *bits, *d, *m; /* of one group; m: minima, or zeros of a byte each */
};

/* Bytes of one group's part of each section of a tile. */
LUTRA_INLINE size_t code_bytes(struct form f)
{
    return f.codes == ONE_BIT ? 64 : f.codes == TWO_BITS || f.codes == THREE_BITS ? 128 : f.codes == BYTES ? 512 : 256;
}

LUTRA_INLINE size_t bit_bytes(struct form f)
{
    return f.codes == FIVE_BITS || f.codes == THREE_BITS ? STEP_BYTES : 0;
}

/* Groups that a scale is for. */
LUTRA_INLINE size_t groups_of_scale(struct form f)
{
    return f.shared ? (size_t)f.shared : 1;
}

LUTRA_INLINE size_t scale_bytes(struct form f)
{
    return f.scales == E8M0_SCALE ? 16 : 32 / groups_of_scale(f);
}

LUTRA_INLINE size_t min_bytes(struct form f)
{
    return f.scales == F16_SCALE_AND_MIN ? 32 : f.scales == F16_SCALE_AND_ZERO ? 16 / groups_of_scale(f) : 0;
}

LUTRA_INLINE size_t group_bytes(struct form f)
{
    return code_bytes(f) + bit_bytes(f) + scale_bytes(f) + min_bytes(f);
}

/* Group g of a tile of `groups`. */
LUTRA_INLINE struct group group_at(struct form f, const uint8_t *tile, size_t groups, size_t g)
{
    const uint8_t *bits = tile + groups * code_bytes(f), *d = bits + groups * bit_bytes(f);
    const uint8_t *m = d + groups * scale_bytes(f), *code = tile + g * code_bytes(f);
    bits += g * STEP_BYTES;
    g -= g % groups_of_scale(f);
    return (struct group){code, bits, d + g * scale_bytes(f), m + g * min_bytes(f)};
}

/* To group `to` from the one before. */
LUTRA_INLINE void next_group(struct form f, struct group *g, size_t to)
{
    g->code += code_bytes(f);
    g->bits += STEP_BYTES;
    if (to % groups_of_scale(f)) return;
    g->d += groups_of_scale(f) * scale_bytes(f);
    g->m += groups_of_scale(f) * min_bytes(f);
}

#endif
