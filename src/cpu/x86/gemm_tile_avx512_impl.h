/* SPDX-License-Identifier: MIT
 *
 * The register tile of the AVX-512 int8 kernels: 32 output rows (two panels) x 4 columns, so that one broadcast of 4
 * inputs serves two dot products; and what a kernel is told about the tile of weights it works on.
 */
#ifndef LUTRA_CPU_X86_GEMM_TILE_AVX512_IMPL_H
#define LUTRA_CPU_X86_GEMM_TILE_AVX512_IMPL_H

#include <immintrin.h>

#include "cpu/x86/gemm_x86_impl.h"

enum { STEP_BYTES = 64, PANELS = 2, COLUMNS = 4, AHEAD_BYTES = 3456 };

/* Panels at once for one or two columns: as many sums, more streams. */
enum { MOST_PANELS = 4 };

struct tile {
    const uint8_t *w;           /* of the first panel; panel_bytes further: of the next */
    size_t panel_bytes, groups; /* groups of 32 inputs, 8 but for the last tile of a panel */
    const uint8_t *x;           /* the first of the columns, in its block */
    size_t width;               /* columns of the block */
    const uint8_t *ahead;       /* to prefetch meanwhile: the groups of `mine` (share_of), of each panel */
    unsigned mine;
    size_t shares, full; /* groups of columns that share the tile, and those of COLUMNS */
};

/* For n columns that nobody shares the tile with: they are a block by themselves.  n is a constant, and so is the width
 * then. */
LUTRA_INLINE struct tile own_columns(const struct tile *t, int n)
{
    struct tile own = *t;
    own.width = (size_t)n;
    return own;
}

LUTRA_INLINE __m512i broadcast(const uint8_t *p)
{
    return _mm512_set1_epi32(*(const int *)(const void *)p);
}

LUTRA_INLINE __m512 broadcast_f32(const uint8_t *p)
{
    return _mm512_set1_ps(*(const float *)(const void *)p);
}

LUTRA_INLINE __m512 load_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

/* Line i of what is prefetched with group g of `bytes` bytes, if it is this share's. */
LUTRA_INLINE void prefetch_line(const struct tile *t, size_t g, size_t i, size_t bytes, int np)
{
    if (i * 64 >= bytes || !(t->mine >> g & 1)) return;
    UNROLL
    for (int p = 0; p < np; p++) LUTRA_PREFETCH(t->ahead + g * bytes + i * 64 + (size_t)p * t->panel_bytes);
}

LUTRA_INLINE void prefetch_group(const struct tile *t, size_t g, size_t bytes, int np)
{
    UNROLL
    for (size_t i = 0; i < (bytes + 63) / 64; i++) prefetch_line(t, g, i, bytes, np);
}

#endif
