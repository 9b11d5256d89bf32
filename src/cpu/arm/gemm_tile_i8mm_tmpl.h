/* SPDX-License-Identifier: MIT
 *
 * Matmul by smmla of a tile of weights that is read once for all columns, into signed values and scales: class i8x256.
 *
 *     for each pass of up to PASS_ROWS rows, each panel, each tile of 256 inputs: read it; each block of 8 columns
 *
 * Needs, of a format:
 *     is_summed        whether a tile as it is read has its scales in its values, so that they are only to be summed
 *     is_negated       whether its values have the other sign
 *     sum_pair_steps   steps of 8 inputs of a sum that is scaled at once
 *     add_floats       a quad's integers to its sums, less the minima
 *     unpack           declared here: reads a tile
 * Gives: run_tiles.
 */
#ifndef LUTRA_CPU_ARM_GEMM_TILE_I8MM_TMPL_H
#define LUTRA_CPU_ARM_GEMM_TILE_I8MM_TMPL_H

#include "cpu/arm/pairs_i8mm_impl.h"

enum { PAIRS = 2 * QUADS, PAIR_STEPS = TILE_K / 8 };

/* Of a panel: [PAIRS] are pairs of rows. */
struct unpacked {
    LUTRA_ALIGNED(64) int8_t value[PAIR_STEPS][PAIR_STEP_BYTES];
    int32x4_t scale[16][PAIRS]; /* of each sum */
    int8x16_t min[2][PAIRS];    /* of 16 groups in halves: [row][8 groups] */
    float32x4_t d[QUADS], dmin[QUADS];
};

/* What reading looks up, made once per call; or nothing, and NULL. */
struct tables;

/* Reads the tile at `w`. */
LUTRA_INLINE void unpack(struct form f, const struct tables *t, const uint8_t *w, struct unpacked *u);

/* One tile for the columns and a quad. */
LUTRA_INLINE void add_unpacked(struct form f, const struct unpacked *u, struct columns in, int quad, float32x4_t *sum)
{
    const int n_cell = 2 * cell_columns(in.n), steps = sum_pair_steps(f);
    int32x4_t cell[2 * MAX_CELL_COLUMNS], dot[2 * MAX_CELL_COLUMNS];
    const uint8_t *x = in.x;
    UNROLL
    for (int i = 0; i < n_cell; i++) cell[i] = vdupq_n_s32(0);
    for (int i = 0; i < PAIR_STEPS / steps; i++) {
        UNROLL
        for (int c = 0; c < n_cell; c++) dot[c] = vdupq_n_s32(0);
        UNROLL
        for (int v = 0; v < steps; v++, x += 8 * in.width) {
            const int8_t *value = u->value[steps * i + v] + 32 * quad;
            const int8x16_t rows[2] = {vld1q_s8(value), vld1q_s8(value + 16)};
            multiply(rows, x, in.n, false, is_summed(f) ? cell : dot);
        }
        if (is_summed(f)) continue;
        UNROLL
        for (int c = 0; c < n_cell; c++) cell[c] = vmlaq_s32(cell[c], dot[c], u->scale[i][2 * quad + c / (n_cell / 2)]);
    }
    UNROLL
    for (int c = 0; c < n_cell; c++) cell[c] = is_negated(f) ? vnegq_s32(cell[c]) : cell[c];
    add_floats(f, u->d[quad], u->dmin[quad], u->min, 2 * quad, in, cell, sum);
}

/* Sums of a quad and n columns. */
LUTRA_INLINE int quad_sums(int n)
{
    return n == 1 ? 1 : 2 * cell_columns(n);
}

/* All quads of a tile for n columns, 1 or even. */
LUTRA_INLINE void add_quads(struct form f, const struct unpacked *u, const uint8_t *x, const int n, float32x4_t *sum)
{
    for (int quad = 0; quad < QUADS; quad++)
        add_unpacked(f, u, (struct columns){x, (size_t)n, n}, quad, sum + quad * quad_sums(n));
}

static LUTRA_NOINLINE void store_block(
    const struct cpu_gemm_args *a, size_t panel, size_t row, int n, const float32x4_t *sum)
{
    for (int first = 0; first < QUADS; first += tile_quads(n))
        store_cells(a, panel, row, first, n, sum + first * quad_sums(n));
}

/* One panel for rows first .. end - 1. */
LUTRA_INLINE void run_panel(
    struct form f, const struct tables *t, const struct cpu_gemm_args *a, size_t panel, size_t first, size_t end)
{
    float32x4_t sum[PASS_ROWS / ACT_COLUMNS][2 * QUADS * MAX_CELL_COLUMNS];
    struct unpacked u;
    const uint8_t *w = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in);
    const size_t tiles = a->n_in / TILE_K;
    memset(sum, 0, (end - first + ACT_COLUMNS - 1) / ACT_COLUMNS * sizeof *sum);
    for (size_t k = 0; k < tiles; k++, w += tile_bytes(f)) {
        unpack(f, t, w, &u);
        for (size_t r = first; r < end; r += ACT_COLUMNS) {
            const size_t n = end - r < ACT_COLUMNS ? end - r : ACT_COLUMNS, width = n == 1 ? 1 : (n + 1) / 2 * 2;
            const uint8_t *x = (const uint8_t *)a->act + (r * tiles + k * width) * PAIRS256_BYTES;
            float32x4_t *s = sum[(r - first) / ACT_COLUMNS];
            switch (width) {
            case 1: add_quads(f, &u, x, 1, s); break;
            case 2: add_quads(f, &u, x, 2, s); break;
            case 4: add_quads(f, &u, x, 4, s); break;
            case 6: add_quads(f, &u, x, 6, s); break;
            default: add_quads(f, &u, x, 8, s); break;
            }
        }
    }
    for (size_t r = first; r < end; r += ACT_COLUMNS) {
        const size_t n = end - r < ACT_COLUMNS ? end - r : ACT_COLUMNS;
        store_block(a, panel, r, (int)n, sum[(r - first) / ACT_COLUMNS]);
    }
}

LUTRA_INLINE void run_tiles(struct form f, const struct tables *t, const struct cpu_gemm_args *a)
{
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS;
        for (size_t p = a->panel; p < a->panel + a->n_panel; p++) run_panel(f, t, a, p, pass, end);
    }
}

#endif
