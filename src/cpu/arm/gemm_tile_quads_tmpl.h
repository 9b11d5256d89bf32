/* SPDX-License-Identifier: MIT
 *
 * Matmul on vectors of 4 rows x 4 inputs (NEON, sdot) of a tile of weights that is read once for all columns, into
 * signed values and scales: class i8x256.
 *
 *     for each pass of up to PASS_ROWS rows, each panel, each tile of 256 inputs: read it; each group of 4 columns
 *
 * Integers are exact, so the bits are those of kernels that read a tile anew for each group.
 *
 * Needs: the products of a dot_*_impl.h, and of a format:
 *     is_summed        whether a tile as it is read has its scales in its values, so that they are only to be summed
 *     is_negated       whether its values have the other sign
 *     sum_steps        steps of a sum that is scaled at once
 *     in_order         whether sums keep the order of the source (dot_pair)
 *     has_minima       whether minima of minimum_steps steps are taken off
 *     unpack           declared here: reads a tile
 * Gives: run_tiles.
 */
#ifndef LUTRA_CPU_ARM_GEMM_TILE_QUADS_TMPL_H
#define LUTRA_CPU_ARM_GEMM_TILE_QUADS_TMPL_H

#include "cpu/arm/gemm_arm_impl.h"

/* Of a panel: what is [QUADS] has 4 rows each. */
struct unpacked {
    LUTRA_ALIGNED(64) int8_t value[TILE_K / 4][STEP_BYTES];
    int32x4_t scale[16][QUADS]; /* of each sum */
    int16x4_t min[16][QUADS];
    float32x4_t d[QUADS], dmin[QUADS];
};

/* What reading looks up, made once per call; or nothing, and NULL. */
struct tables;

/* Reads the tile at `w`. */
LUTRA_INLINE void unpack(struct form f, const struct tables *t, const uint8_t *w, struct unpacked *u);

enum { TILE_QUADS = TILE_SUMS / TILE_COLUMNS };

/* Pairs of sums of inputs, of n columns. */
LUTRA_INLINE int16x8_t load_sums(const uint8_t *sums, const int n)
{
    int16_t pairs[8] = {0};
    memcpy(pairs, sums, 4 * (size_t)n);
    return vld1q_s16(pairs);
}

/* sum + min times sum i of 8. */
LUTRA_INLINE int32x4_t add_lane(int32x4_t sum, int16x4_t min, int16x8_t sums, const int i)
{
    switch (i) {
    case 0: return vmlal_laneq_s16(sum, min, sums, 0);
    case 1: return vmlal_laneq_s16(sum, min, sums, 1);
    case 2: return vmlal_laneq_s16(sum, min, sums, 2);
    case 3: return vmlal_laneq_s16(sum, min, sums, 3);
    case 4: return vmlal_laneq_s16(sum, min, sums, 4);
    case 5: return vmlal_laneq_s16(sum, min, sums, 5);
    case 6: return vmlal_laneq_s16(sum, min, sums, 6);
    default: return vmlal_laneq_s16(sum, min, sums, 7);
    }
}

/* sum -= the tile's minima times the inputs' sums, scaled. */
LUTRA_INLINE void subtract_unpacked(
    struct form f, const struct unpacked *u, struct columns in, int first, float32x4_t sum[TILE_SUMS])
{
    const int n = in.n, pairs = TILE_K / 8 / minimum_steps(f);
    const uint8_t *scale_x = in.x + 256 * in.width, *sums = scale_x + (minimum_steps(f) == 8 ? 8 : 88) * in.width;
    int32x4_t min[TILE_SUMS];
    UNROLL
    for (int i = 0; i < TILE_QUADS * n; i++) min[i] = vdupq_n_s32(0);
    for (int p = 0; p < pairs; p++, sums += 4 * in.width) {
        const int16x8_t x = load_sums(sums, n);
        UNROLL
        for (int q = 0; q < TILE_QUADS; q++) {
            UNROLL
            for (int c = 0; c < n; c++) {
                int32x4_t *m = &min[tile_at(q, c, n)];
                *m = add_lane(
                    add_lane(*m, u->min[2 * p][first + q], x, 2 * c), u->min[2 * p + 1][first + q], x, 2 * c + 1);
            }
        }
    }
    UNROLL
    for (int q = 0; q < TILE_QUADS; q++) {
        UNROLL
        for (int c = 0; c < n; c++) {
            float32x4_t *s = &sum[tile_at(q, c, n)];
            float32x4_t scale = vmulq_f32(u->dmin[first + q], broadcast_f32(scale_x + 4 * c));
            *s = vfmsq_f32(*s, vcvtq_f32_s32(min[tile_at(q, c, n)]), scale);
        }
    }
}

/* dots += `steps` steps from `step` on. */
LUTRA_INLINE void add_values(
    struct form f, const struct unpacked *u, int step, const int steps, struct columns in, int first, struct dots *dots)
{
    const uint8_t *x = in.x + 4 * (size_t)step * in.width;
    UNROLL
    for (int v = 0; v < steps; v += 2, x += 8 * in.width) {
        int8x16_t w0[TILE_QUADS], w1[TILE_QUADS];
        UNROLL
        for (int q = 0; q < TILE_QUADS; q++) {
            w0[q] = vld1q_s8(u->value[step + v] + 16 * (first + q));
            w1[q] = vld1q_s8(u->value[step + v + 1] + 16 * (first + q));
        }
        dot_pair(dots, w0, w1, x, in.width, TILE_QUADS, in.n, in_order(f));
    }
}

/* One tile for the columns and quads first .. first + TILE_QUADS - 1. */
LUTRA_INLINE void add_unpacked(
    struct form f, const struct unpacked *u, struct columns in, int first, float32x4_t sum[TILE_SUMS])
{
    const int n = in.n, steps = is_summed(f) ? 8 : sum_steps(f);
    const uint8_t *scale_x = in.x + 256 * in.width;
    int32x4_t dot[TILE_SUMS];
    struct dots dots;
    UNROLL
    for (int i = 0; i < TILE_QUADS * n; i++) dot[i] = vdupq_n_s32(0);
    if (is_summed(f)) dot_begin(&dots, in.x, NO_START, TILE_QUADS, n);
    for (int i = 0; i < TILE_K / 4 / steps; i++) {
        if (!is_summed(f)) dot_begin(&dots, in.x, NO_START, TILE_QUADS, n);
        add_values(f, u, steps * i, steps, in, first, &dots);
        if (is_summed(f)) continue;
        UNROLL
        for (int q = 0; q < TILE_QUADS; q++) {
            UNROLL
            for (int c = 0; c < n; c++) {
                int32x4_t *d = &dot[tile_at(q, c, n)];
                *d = vmlaq_s32(*d, dot_of(&dots, q, c, n), u->scale[i][first + q]);
            }
        }
    }
    UNROLL
    for (int q = 0; q < TILE_QUADS; q++) {
        UNROLL
        for (int c = 0; c < n; c++) {
            float32x4_t *s = &sum[tile_at(q, c, n)];
            int32x4_t all = is_summed(f) ? dot_of(&dots, q, c, n) : dot[tile_at(q, c, n)];
            if (is_negated(f)) all = vnegq_s32(all);
            *s = vfmaq_f32(*s, vcvtq_f32_s32(all), vmulq_f32(u->d[first + q], broadcast_f32(scale_x + 4 * c)));
        }
    }
    if (has_minima(f)) subtract_unpacked(f, u, in, first, sum);
}

/* All quads of a tile for n columns of a block's `width`. */
LUTRA_INLINE void add_quads(struct form f, const struct unpacked *u, const uint8_t *x, size_t width, const int n,
    float32x4_t sum[QUADS / TILE_QUADS][TILE_SUMS])
{
    for (int i = 0; i < QUADS / TILE_QUADS; i++)
        add_unpacked(f, u, (struct columns){x, width, n}, TILE_QUADS * i, sum[i]);
}

/* One panel for rows first .. end - 1. */
LUTRA_INLINE void run_panel(
    struct form f, const struct tables *t, const struct cpu_gemm_args *a, size_t panel, size_t first, size_t end)
{
    float32x4_t sum[PASS_ROWS / TILE_COLUMNS][QUADS / TILE_QUADS][TILE_SUMS];
    struct unpacked u;
    const uint8_t *w = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in);
    const size_t tiles = a->n_in / TILE_K, tile = cpu_tile_bytes(a->gemm->type);
    memset(sum, 0, (end - first + TILE_COLUMNS - 1) / TILE_COLUMNS * sizeof *sum);
    for (size_t k = 0; k < tiles; k++, w += tile) {
        unpack(f, t, w, &u);
        for (size_t r = first; r < end; r += TILE_COLUMNS) {
            struct act_place at = act_place_of(r, a->n_row);
            const uint8_t *x = (const uint8_t *)a->act + (r - at.column) * tiles * ACT256_BYTES +
                               k * ACT256_BYTES * at.width + 4 * at.column;
            float32x4_t(*s)[TILE_SUMS] = sum[(r - first) / TILE_COLUMNS];
            switch (end - r) {
            case 1: add_quads(f, &u, x, at.width, 1, s); break;
            case 2: add_quads(f, &u, x, at.width, 2, s); break;
            case 3: add_quads(f, &u, x, at.width, 3, s); break;
            default: add_quads(f, &u, x, at.width, 4, s); break;
            }
        }
    }
    for (size_t r = first; r < end; r += TILE_COLUMNS) {
        const int n = end - r < TILE_COLUMNS ? (int)(end - r) : TILE_COLUMNS;
        for (int i = 0; i < QUADS / TILE_QUADS; i++)
            store_tile(a, panel, r, TILE_QUADS * i, TILE_QUADS, n, sum[(r - first) / TILE_COLUMNS][i]);
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
