/* SPDX-License-Identifier: MIT
 *
 * What the smmla kernels share.  A cell is the result of smmla: 2 rows x 2 columns x 8 inputs, row-major.
 *
 *     weights      [row 0: 8 inputs][row 1: 8 inputs]            CPU_PANEL8_LAYOUT; a quad has two such pairs of rows
 *     activations  [column 0: 8 inputs][column 1: 8 inputs]      steps of 8 inputs, columns side by side
 *
 * Sums stay in cells until a tile is stored.  A single column, where smmla would waste half, takes sdot over the same
 * weights; its cell is 2 rows x 2 halves of the 8 inputs, added up by fold_quad.
 *
 * Records of activations are those of cpu/layout.h in this order.  w is even or 1: an odd block has a column more, of
 * whatever was there.  What a cell multiplies by lies as it multiplies it, and sums of inputs are bytes where they are
 * factors of smmla themselves (Q4_K's minima, Q6_K's offset): sum = low + 128 high, low in -64..63.
 *
 *     q8x32:  int8 [4 steps][w][8], f32 scale, i32 start, f32 sum, each [w / 2][twice][2] (w = 1: [1], a gap)
 *     q8x256: int8 [32 steps][w][8], f32 scale[w], i32 start[w], int8 low32[w][8], high32[w][8] of 32 inputs each,
 *             int8 low16[2][w][8], high16[2][w][8] of 16 inputs each
 */
#ifndef LUTRA_CPU_ARM_PAIRS_I8MM_H
#define LUTRA_CPU_ARM_PAIRS_I8MM_H

#include "cpu/arm/gemm_arm_impl.h"

enum {
    MAX_CELL_COLUMNS = 4,
    PAIR_STEP_BYTES = 128,              /* 16 rows x 8 inputs */
    PAIRS32_BYTES = 32 + 24,            /* of a q8x32 record, per column */
    PAIRS256_BYTES = 256 + 8 + 16 + 32, /* of a q8x256 record, per column */
    SUM_BITS = 7                        /* of the lower part of a sum */
};

/* Slots of struct cpu_gemm. */
size_t act_bytes_q8x32_pairs(size_t n_in, size_t n_row);
size_t act_bytes_q8x256_pairs(size_t n_in, size_t n_row);
cpu_act_row act_row_q8x32_pairs, act_row_q8x256_pairs;

/* A kernel over weights and activations in pairs. */
LUTRA_INLINE struct cpu_gemm in_pairs(
    struct cpu_gemm g, size_t (*act_bytes)(size_t n_in, size_t n_row), cpu_act_row *act_row)
{
    g.layout = CPU_PANEL8_LAYOUT;
    g.kr = 8;
    g.act_bytes = act_bytes;
    g.act_row = act_row;
    return g;
}

/* Cells per row pair of n columns. */
LUTRA_INLINE int cell_columns(int n)
{
    return (n + 1) / 2;
}

/* Quads of a tile: 16 cells at most. */
LUTRA_INLINE int tile_quads(int n)
{
    return n <= 4 ? 4 : 2;
}

/* The cell of a tile's pair of rows and cell column i. */
LUTRA_INLINE int cell_at(int pair, int i, int n)
{
    return pair * cell_columns(n) + i;
}

/* The activations of a step for cell column i. */
LUTRA_INLINE int8x16_t load_inputs(const uint8_t *step, int i, int n)
{
    if (n == 1) return vreinterpretq_s8_s64(vld1q_dup_s64((const int64_t *)(const void *)step));
    return vld1q_s8((const int8_t *)step + 16 * i);
}

LUTRA_INLINE int32x4_t add_products(int32x4_t cell, int8x16_t rows, int8x16_t inputs, int n)
{
    return n == 1 ? vdotq_s32(cell, rows, inputs) : vmmlaq_s32(cell, rows, inputs);
}

/* Adds the products of a step to a quad's cells; in_order: as dot_pair's of dot_neon_impl.h. */
LUTRA_INLINE void multiply(
    const int8x16_t rows[2], const uint8_t *step, int n, const bool in_order, int32x4_t cell[2 * MAX_CELL_COLUMNS])
{
    const int n_cell = cell_columns(n);
    UNROLL
    for (int i = 0; i < n_cell; i += 2) {
        const int last = i + 1 < n_cell; /* two vectors of inputs, one after the other, are one load */
        const int8x16_t inputs[2] = {load_inputs(step, i, n), load_inputs(step, i + last, n)};
        UNROLL
        for (int k = 0; k < 4; k++) {
            int32x4_t *c = &cell[cell_at(k % 2, i + k / 2, n)];
            if (k / 2 > last) continue;
            *c = add_products(*c, rows[k % 2], inputs[k / 2], n);
            if (in_order) COMPILER_UNKNOWN_VECTOR(*c);
        }
    }
}

/* One 32-bit value per column, [0 1 0 1] for cell column i. */
LUTRA_INLINE float32x4_t load_pair(const uint8_t *columns, int i)
{
    return vreinterpretq_f32_f64(vld1q_dup_f64((const double *)(const void *)(columns + 8 * i)));
}

/* What a cell starts at: [0 1 0 1], of a single column one half 0. */
LUTRA_INLINE int32x4_t start_single(const uint8_t *start)
{
    uint32_t once;
    memcpy(&once, start, 4);
    return vreinterpretq_s32_u64(vdupq_n_u64(once));
}

/* Values of a quad's rows as its pair 0 or 1 wants them: [0 0 1 1] or [2 2 3 3]. */
LUTRA_INLINE float32x4_t pair_rows(float32x4_t quad, int pair)
{
    return pair ? vzip2q_f32(quad, quad) : vzip1q_f32(quad, quad);
}

/* A single column: the sums of a quad's rows from its two cells. */
LUTRA_INLINE int32x4_t fold_quad(const int32x4_t cell[2])
{
    return vpaddq_s32(cell[0], cell[1]);
}

/* The same address, but the compiler does not know: values loaded through it are not kept in registers from before. */
LUTRA_INLINE const uint8_t *reload(const uint8_t *p, int n)
{
    return n > 4 ? compiler_unknown(p) : p;
}

/* Takes the cells apart (of a single column they are quads already) and stores them. */
LUTRA_INLINE void store_cells(
    const struct cpu_gemm_args *a, size_t panel, size_t row, int first, int n, const float32x4_t cell[TILE_MAX_SUMS])
{
    float32x4_t sum[TILE_MAX_SUMS];
    int n_quad = tile_quads(n);
    UNROLL
    for (int q = 0; q < n_quad; q++) {
        UNROLL
        for (int c = 0; c < n; c++) {
            float32x4_t upper = cell[cell_at(2 * q, c / 2, n)], lower = cell[cell_at(2 * q + 1, c / 2, n)];
            sum[tile_at(q, c, n)] = n == 1 ? cell[q] : c % 2 ? vuzp2q_f32(upper, lower) : vuzp1q_f32(upper, lower);
        }
    }
    store_tile(a, panel, row, first, n_quad, n, sum);
}

#endif
