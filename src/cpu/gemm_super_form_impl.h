/* SPDX-License-Identifier: MIT
 *
 * The formats with 256-element blocks (class i8x256) as every kernel sees them: which codes, which scales, and where they
 * lie in a packed tile, which is one block of each of 16 rows.
 *
 * Included where STEP_BYTES (of a step of 16 rows x 4 inputs) is known; cpu/gemm_super_runs_impl.h makes the entry points.
 */
#ifndef LUTRA_CPU_GEMM_SUPER_FORM_IMPL_H
#define LUTRA_CPU_GEMM_SUPER_FORM_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "cpu/layout.h"

/* FOUR_BITS and FIVE_BITS: unsigned codes, 8 scales and minima of 6 bits.  SIX_BITS: codes + 32, 16 scales of 8 bits.
 * TWO_BITS: codes + 1, no scales but the block's. */
enum codes { FOUR_BITS, FIVE_BITS, SIX_BITS, TWO_BITS };

/* What differs between formats; always a compile-time constant of an inlined call. */
struct form {
    enum codes codes;
};

#define FORM_Q4_K ((struct form){FOUR_BITS})
#define FORM_Q5_K ((struct form){FIVE_BITS})
#define FORM_Q6_K ((struct form){SIX_BITS})
#define FORM_TERNARY ((struct form){TWO_BITS}) /* TQ2_0, and TQ1_0 as it is packed */

LUTRA_INLINE bool has_minima(struct form f)
{
    return f.codes == FOUR_BITS || f.codes == FIVE_BITS;
}

/* ---- sections of a tile ---- */

LUTRA_INLINE size_t code_bytes(struct form f)
{
    return LANES * (f.codes == TWO_BITS ? 64 : 128);
}

LUTRA_INLINE size_t high_bytes(struct form f)
{
    return LANES * (f.codes == FIVE_BITS ? 32 : f.codes == SIX_BITS ? 64 : 0);
}

LUTRA_INLINE size_t scales_bytes(struct form f)
{
    return LANES * (f.codes == SIX_BITS ? 16 : f.codes == TWO_BITS ? 0 : 12);
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

/* A group of 32 inputs has 8 steps; the vectors of a step, and of its high bits, follow one another.  Which vector of the
 * section is the first of group g's, and the bit of each byte where its codes begin. */
LUTRA_INLINE int code_vector(struct form f, int g)
{
    return f.codes == TWO_BITS ? g / 4 * 8 : f.codes == SIX_BITS ? g / 4 * 16 + g % 2 * 8 : g / 2 * 8;
}

LUTRA_INLINE int code_bit(struct form f, int g)
{
    return f.codes == TWO_BITS ? 2 * (g % 4) : f.codes == SIX_BITS ? g % 4 / 2 * 4 : g % 2 * 4;
}

LUTRA_INLINE uint8_t code_mask(struct form f)
{
    return f.codes == TWO_BITS ? 3 : 15;
}

/* Of codes with high bits, which go to bits 4 and 5 (high_mask). */
LUTRA_INLINE int high_vector(struct form f, int g)
{
    return f.codes == SIX_BITS ? g / 4 * 8 : 0;
}

LUTRA_INLINE int high_bit(struct form f, int g)
{
    return f.codes == SIX_BITS ? 2 * (g % 4) : g;
}

LUTRA_INLINE uint8_t high_mask(struct form f)
{
    return f.codes == FIVE_BITS ? 16 : f.codes == SIX_BITS ? 0x30 : 0;
}

#endif
