/* SPDX-License-Identifier: MIT
 *
 * The loops around an AVX-512 int8 kernel: pairs of panels, tiles of 256 inputs, groups of four columns.
 *
 *     for each pass of up to PASS_ROWS rows, each pair of panels, each tile of 256 inputs, each group of 4 columns
 *
 * A tile's weights stay in L1 while all columns of the pass use them; meanwhile the tile AHEAD_BYTES or more further on is
 * prefetched, spread over the columns, so that memory works all the time.  Sums of all columns live in L1 and pass
 * through registers once per tile.
 *
 * Included by one file per family of formats, which defines before:
 *     struct form, always a compile-time constant; size_t group_bytes(form): packed bytes per 32 inputs of a panel
 *     enum { RECORD_BYTES }: activation bytes per 256 inputs and column
 *     struct scratch; void begin_tile(form, struct scratch *, const struct tile *, int np): once per tile
 *     void run_tile(form, const struct scratch *, const struct tile *, int np, int n, __m512 sum[PANELS][COLUMNS])
 */
#ifndef LUTRA_CPU_X86_GEMM_PANELS_AVX512_IMPL_H
#define LUTRA_CPU_X86_GEMM_PANELS_AVX512_IMPL_H

#include "cpu/x86/gemm_tile_avx512_impl.h"

/* The place of rows from r on in the activations at input k, which starts a tile. */
LUTRA_INLINE const uint8_t *place_columns(const struct cpu_gemm_args *a, size_t r, size_t k, size_t *width)
{
    struct act_place p = act_place_of(r, a->n_row);
    size_t row_bytes = a->n_in / 32 * (RECORD_BYTES / 8);
    *width = p.width;
    return (const uint8_t *)a->act + (r - p.column) * row_bytes + k / 32 * (RECORD_BYTES / 8) * p.width + 4 * p.column;
}

/* Panels panel .. panel + np - 1 for rows first .. end - 1. */
LUTRA_INLINE void run_panels(
    struct form f, const struct cpu_gemm_args *a, size_t panel, int np, size_t first, size_t end)
{
    __m512 sum[PASS_ROWS / COLUMNS][PANELS][COLUMNS];
    struct scratch scratch;
    size_t panel_bytes = cpu_panel_bytes(a->gemm->type, a->n_in), tile_bytes = 8 * group_bytes(f);
    size_t ahead_bytes = (AHEAD_BYTES + tile_bytes - 1) / tile_bytes * tile_bytes;
    const uint8_t *base = (const uint8_t *)a->packed + panel * panel_bytes;
    struct tile t = {.w = base, .panel_bytes = panel_bytes, .shares = (end - first + COLUMNS - 1) / COLUMNS};
    for (size_t g = 0; g < t.shares; g++) {
        UNROLL
        for (int p = 0; p < PANELS; p++) {
            UNROLL
            for (int c = 0; c < COLUMNS; c++) sum[g][p][c] = _mm512_setzero_ps();
        }
    }
    for (size_t k = 0; k < a->n_in; k += TILE_K, t.w += t.groups * group_bytes(f)) {
        t.groups = a->n_in - k < TILE_K ? (a->n_in - k) / 32 : TILE_K / 32;
        t.ahead = t.w + ahead_bytes;
        /* Past the end of the panels: the start of the next ones. */
        if ((size_t)(t.ahead - base) >= panel_bytes) t.ahead += (size_t)(np - 1) * panel_bytes;
        bool last_but_one = k + TILE_K < a->n_in && k + 2 * TILE_K >= a->n_in;
        for (size_t p = 0; last_but_one && p < (size_t)np; p++) prefetch_outputs(a, panel + p, first, end - first);
        begin_tile(f, &scratch, &t, np);
        for (size_t r = first, g = 0; r < end; r += COLUMNS, g++) {
            t.x = place_columns(a, r, k, &t.width);
            t.share = g;
            switch (end - r) {
            case 1: run_tile(f, &scratch, &t, np, 1, sum[g]); break;
            case 2: run_tile(f, &scratch, &t, np, 2, sum[g]); break;
            case 3: run_tile(f, &scratch, &t, np, 3, sum[g]); break;
            default: run_tile(f, &scratch, &t, np, 4, sum[g]); break;
            }
        }
    }
    for (size_t r = first, g = 0; r < end; r += COLUMNS, g++) {
        int n = end - r < COLUMNS ? (int)(end - r) : COLUMNS;
        for (int p = 0; p < np; p++) store_panel_avx512(a, panel + (size_t)p, r, n, sum[g][p]);
    }
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    size_t last = a->panel + a->n_panel;
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS, p = a->panel;
        for (; p + 2 <= last; p += 2) run_panels(f, a, p, 2, pass, end);
        if (p < last) run_panels(f, a, p, 1, pass, end);
    }
}

#endif
