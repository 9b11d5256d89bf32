/* SPDX-License-Identifier: MIT
 *
 * The formats with 32-element blocks (class i8x32) as every int8 kernel sees them: which codes, which scales, and where
 * a group of 32 inputs lies in a packed tile.
 *
 * Included where STEP_BYTES (of a step of 16 rows x 4 inputs) is known; cpu/gemm_i8_runs_impl.h makes the entry points.
 */
#ifndef LUTRA_CPU_GEMM_I8_FORM_IMPL_H
#define LUTRA_CPU_GEMM_I8_FORM_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum codes { NIBBLES, TABLE, FIVE_BITS, BYTES };
enum scales { F16_SCALE, F16_SCALE_AND_MIN, E8M0_SCALE };

/* What differs between formats; always a compile-time constant of an inlined call. */
struct form {
    enum codes codes;
    enum scales scales;
    int start_shift; /* unsigned codes are value + offset, offset = 8 << this, or 0 if -1; start = stored start << this */
};

#define FORM_Q4_0 ((struct form){NIBBLES, F16_SCALE, 0})
#define FORM_Q4_1 ((struct form){NIBBLES, F16_SCALE_AND_MIN, -1})
#define FORM_Q5_0 ((struct form){FIVE_BITS, F16_SCALE, 1})
#define FORM_Q5_1 ((struct form){FIVE_BITS, F16_SCALE_AND_MIN, -1})
#define FORM_Q8_0 ((struct form){BYTES, F16_SCALE, 4})
#define FORM_IQ4_NL ((struct form){TABLE, F16_SCALE, 4})
#define FORM_MXFP4 ((struct form){TABLE, E8M0_SCALE, 1})

struct group {
    const uint8_t *code, *bits, *d, *m; /* of one group */
};

/* Bytes of one group's part of each section of a tile. */
LUTRA_INLINE size_t code_bytes(struct form f)
{
    return f.codes == BYTES ? 512 : 256;
}

LUTRA_INLINE size_t bit_bytes(struct form f)
{
    return f.codes == FIVE_BITS ? STEP_BYTES : 0;
}

LUTRA_INLINE size_t scale_bytes(struct form f)
{
    return f.scales == E8M0_SCALE ? 16 : 32;
}

LUTRA_INLINE size_t min_bytes(struct form f)
{
    return f.scales == F16_SCALE_AND_MIN ? 32 : 0;
}

LUTRA_INLINE size_t group_bytes(struct form f)
{
    return code_bytes(f) + bit_bytes(f) + scale_bytes(f) + min_bytes(f);
}

/* Group g of a tile of `groups`. */
LUTRA_INLINE struct group group_at(struct form f, const uint8_t *tile, size_t groups, size_t g)
{
    const uint8_t *bits = tile + groups * code_bytes(f), *d = bits + groups * bit_bytes(f);
    const uint8_t *m = d + groups * scale_bytes(f);
    return (struct group){tile + g * code_bytes(f), bits + g * STEP_BYTES, d + g * scale_bytes(f), m + g * 32};
}

LUTRA_INLINE void next_group(struct form f, struct group *g)
{
    g->code += code_bytes(f);
    g->bits += STEP_BYTES;
    g->d += scale_bytes(f);
    g->m += 32;
}

#endif
