/* SPDX-License-Identifier: MIT
 *
 * The formats with codebooks (class i8x256) as the x86 kernels see them: where things lie in a packed tile, which has
 * the file's bytes.  A tile is read into codes of 4 inputs x 16 rows and integer scales, once for all columns
 * (gemm_book_form_ymm_impl.h, gemm_book_form_avx512_impl.h; few columns on 512
 * bits use codes as they are read).  Codes are unsigned, value + OFFSET.
 */
#ifndef LUTRA_CPU_X86_GEMM_BOOK_FORM_IMPL_H
#define LUTRA_CPU_X86_GEMM_BOOK_FORM_IMPL_H

#include "cpu/kernels.h"

/* Fillers of one file each. */
void cpu_gemm_init_book_avx2(struct cpu_kernels *k);
void cpu_gemm_init_book_avxvnni(struct cpu_kernels *k);
void cpu_gemm_init_book_avx512(struct cpu_kernels *k);

#if defined(__AVX2__)
#include <immintrin.h>
#include <stdbool.h>

#if defined(__AVX512F__)
#include "cpu/x86/gemm_tile_avx512_impl.h"
#else
#include "cpu/x86/gemm_x86_impl.h"

enum { STEP_BYTES = 64 };
#endif
#include "quant/codebooks.h"

enum { OFFSET = 64, START_SHIFT = 1, STEPS = 64 };

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
    return (size_t)sections_of(f).d * STEP_BYTES + 2 * LANES;
}

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

/* Steps of a sum that is scaled at once. */
LUTRA_INLINE int group_steps(struct form f)
{
    return f.book == BOOK_IQ2_XS || f.book == BOOK_IQ2_S ? 4 : 8;
}

#endif

#endif
