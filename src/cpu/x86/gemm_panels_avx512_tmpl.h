/* SPDX-License-Identifier: MIT
 *
 * The loops around an AVX-512 int8 kernel: two panels, tiles of 256 inputs, groups of four columns.
 *
 *     for each pass of up to PASS_ROWS rows, each panel of the first half of the unit with its fellow of the second
 *     half, each tile of 256 inputs, each group of 4 columns
 *
 * So memory is read as two streams without gaps; for up to FEW_COLUMNS rows as four, one from each quarter of the unit.
 * A tile's weights stay in L1 while all columns of the pass use them; meanwhile what lies AHEAD_BYTES further on is
 * prefetched, spread over the columns, so that memory works all the time.  Streams are prefetched and read in turn, a
 * line of each: one after the other costs a sixth of the bandwidth.  Sums of all columns live in L1
 * and pass through registers once per tile.
 *
 * Needs:
 *     struct form, always a compile-time constant; size_t group_bytes(form): packed bytes per 32 inputs of a panel
 *     enum { RECORD_BYTES }: activation bytes per 256 inputs and column
 *     enum { FEW_COLUMNS }: 0, 1 or 2; up to as many rows take MOST_PANELS panels at once
 *     struct scratch; void begin_call(form, struct scratch *): once; void begin_tile(form, struct scratch *, const
 *         struct tile *, int np): once per tile
 *     void run_tile(form, const struct scratch *, const struct tile *, int np, int n, __m512 sum[][COLUMNS])
 * Gives: run_all.
 */
#ifndef LUTRA_CPU_X86_GEMM_PANELS_AVX512_TMPL_H
#define LUTRA_CPU_X86_GEMM_PANELS_AVX512_TMPL_H

#include "cpu/x86/gemm_tile_avx512_impl.h"

/* The place of rows from r on in the activations at input k, which starts a tile. */
LUTRA_INLINE const uint8_t *place_columns(const struct cpu_gemm_args *a, size_t r, size_t k, size_t *width)
{
    struct act_place p = act_place_of(r, a->n_row);
    size_t row_bytes = a->n_in / 32 * (RECORD_BYTES / 8);
    *width = p.width;
    return (const uint8_t *)a->act + (r - p.column) * row_bytes + k / 32 * (RECORD_BYTES / 8) * p.width + 4 * p.column;
}

/* A tile for `left` columns, 4 at most, or 2 of more than PANELS panels. */
LUTRA_INLINE void run_columns(
    struct form f, const struct scratch *s, const struct tile *t, int np, size_t left, __m512 sum[MOST_PANELS][COLUMNS])
{
    if (left == 1) {
        run_tile(f, s, t, np, 1, sum);
    } else if (left == 2 || np > PANELS) {
        run_tile(f, s, t, np, 2, sum);
    } else if (left == 3) {
        run_tile(f, s, t, np, 3, sum);
    } else {
        run_tile(f, s, t, np, 4, sum);
    }
}

/* np panels, `panel` and every `hop` after, for rows first .. end - 1. */
LUTRA_INLINE void run_panels(struct form f, const struct cpu_gemm_args *a, struct scratch *scratch, size_t panel,
    size_t hop, int np, size_t first, size_t end)
{
    __m512 sum[PASS_ROWS / COLUMNS][MOST_PANELS][COLUMNS];
    size_t panel_bytes = cpu_panel_bytes(a->gemm->type, a->n_in);
    struct tile t = {.w = (const uint8_t *)a->packed + panel * panel_bytes,
        .panel_bytes = hop * panel_bytes,
        .shares = (end - first + COLUMNS - 1) / COLUMNS,
        .full = (end - first) / COLUMNS};
    for (size_t g = 0; g < t.shares; g++) {
        UNROLL
        for (int p = 0; p < np; p++) {
            UNROLL
            for (int c = 0; c < COLUMNS; c++) sum[g][p][c] = _mm512_setzero_ps();
        }
    }
    for (size_t k = 0; k < a->n_in; k += TILE_K, t.w += t.groups * group_bytes(f)) {
        t.groups = a->n_in - k < TILE_K ? (a->n_in - k) / 32 : TILE_K / 32;
        t.ahead = t.w + AHEAD_BYTES;
        bool last_but_one = k + TILE_K < a->n_in && k + 2 * TILE_K >= a->n_in;
        for (size_t p = 0; last_but_one && p < (size_t)np; p++)
            prefetch_outputs(a, panel + p * hop, first, end - first);
        begin_tile(f, scratch, &t, np);
        for (size_t r = first, g = 0; r < end; r += COLUMNS, g++) {
            t.x = place_columns(a, r, k, &t.width);
            t.mine = share_of(g, t.shares);
            run_columns(f, scratch, &t, np, end - r, sum[g]);
        }
    }
    for (size_t r = first, g = 0; r < end; r += COLUMNS, g++) {
        int n = end - r < COLUMNS ? (int)(end - r) : COLUMNS;
        for (int p = 0; p < np; p++) store_panel_avx512(a, panel + (size_t)p * hop, r, n, sum[g][p]);
    }
}

/* All panels of the call, np side by side and equally far apart, for rows first .. end - 1. */
LUTRA_INLINE void run_pass(
    struct form f, const struct cpu_gemm_args *a, struct scratch *scratch, int np, size_t first, size_t end)
{
    size_t hop = a->n_panel / (size_t)np;
    for (size_t p = 0; p < hop; p++) run_panels(f, a, scratch, a->panel + p, hop, np, first, end);
    for (size_t p = hop * (size_t)np; p < a->n_panel; p++) run_panels(f, a, scratch, a->panel + p, 0, 1, first, end);
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    const size_t few = FEW_COLUMNS;
    struct scratch scratch;
    begin_call(f, &scratch);
    if (a->n_row - 1 < few) {
        run_pass(f, a, &scratch, MOST_PANELS, 0, a->n_row);
        return;
    }
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS)
        run_pass(f, a, &scratch, PANELS, pass, a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS);
}

#endif
