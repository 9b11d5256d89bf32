/* SPDX-License-Identifier: MIT
 *
 * The formats with codebooks (class i8x256) as every kernel sees them: where things lie in a packed tile, which has the
 * file's bytes (quant/codebooks.h), and their tables.
 *
 * gemm_book_runs_tmpl.h makes the entry points.
 */
#ifndef LUTRA_CPU_GEMM_BOOK_FORM_IMPL_H
#define LUTRA_CPU_GEMM_BOOK_FORM_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "cpu/layout.h"
#include "quant/codebooks.h"

enum book { BOOK_IQ2_XXS, BOOK_IQ2_XS, BOOK_IQ2_S, BOOK_IQ3_XXS, BOOK_IQ3_S };

/* Always a compile-time constant of an inlined call. */
struct form {
    enum book book;
};

/* Sections of a tile (cpu/pack.c), in words of all rows: indices, then these; the rows' f16 d are last. */
struct sections {
    int signs, high, scales, d;
};

LUTRA_INLINE struct sections sections_of(struct form f)
{
    switch (f.book) {
    case BOOK_IQ2_XXS: return (struct sections){.d = 16};
    case BOOK_IQ2_XS: return (struct sections){.scales = 16, .d = 18};
    case BOOK_IQ2_S: return (struct sections){.signs = 8, .high = 16, .scales = 18, .d = 20};
    case BOOK_IQ3_XXS: return (struct sections){.signs = 16, .d = 24};
    default: return (struct sections){.high = 16, .signs = 18, .scales = 26, .d = 27};
    }
}

LUTRA_INLINE size_t tile_bytes(struct form f)
{
    return (size_t)LANES * (4 * (size_t)sections_of(f).d + 2);
}

/* Entries of 8 inputs, or of 4. */
LUTRA_INLINE bool has_eights(struct form f)
{
    return f.book <= BOOK_IQ2_S;
}

/* d is times this: a power of two. */
LUTRA_INLINE float unit_of(struct form f)
{
    return has_eights(f) ? 0.125f : f.book == BOOK_IQ3_XXS ? 0.25f : 1.0f;
}

LUTRA_INLINE const uint16_t *entries_of(struct form f)
{
    switch (f.book) {
    case BOOK_IQ2_XXS: return quant_iq2_xxs_book;
    case BOOK_IQ2_XS: return quant_iq2_xs_book;
    case BOOK_IQ2_S: return quant_iq2_s_book;
    case BOOK_IQ3_XXS: return quant_iq3_xxs_book;
    default: return quant_iq3_s_book;
    }
}

LUTRA_INLINE int n_entries(struct form f)
{
    return f.book == BOOK_IQ2_S ? 1024 : f.book == BOOK_IQ2_XS || f.book == BOOK_IQ3_S ? 512 : 256;
}

/* What the fields of an entry stand for. */
LUTRA_INLINE const int8_t *magnitudes_of(struct form f)
{
    static const int8_t MAGNITUDES[3][8] = {QUANT_IQ2_MAGNITUDES, QUANT_IQ3_XXS_MAGNITUDES, QUANT_IQ3_S_MAGNITUDES};
    return MAGNITUDES[has_eights(f) ? 0 : f.book == BOOK_IQ3_XXS ? 1 : 2];
}

/* Steps of 4 inputs of a sum that is scaled at once. */
LUTRA_INLINE int group_steps(struct form f)
{
    return f.book == BOOK_IQ2_XS || f.book == BOOK_IQ2_S ? 4 : 8;
}

#endif
