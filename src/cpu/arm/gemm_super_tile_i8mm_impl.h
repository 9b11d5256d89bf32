/* SPDX-License-Identifier: MIT
 *
 * A tile of the formats with 256-element blocks that is read once for all columns, into signed values and scales, and
 * multiplied by smmla, 8 columns at a time.  Part of gemm_super_i8mm.c.
 *
 *     for each pass of up to PASS_ROWS rows, each panel, each tile of 256 inputs: read it; each block of 8 columns
 */
#ifndef LUTRA_CPU_ARM_GEMM_SUPER_TILE_I8MM_H
#define LUTRA_CPU_ARM_GEMM_SUPER_TILE_I8MM_H

enum { PAIRS = 2 * QUADS, PAIR_STEPS = TILE_K / 8 };

/* Of a panel: [PAIRS] are pairs of rows. */
struct unpacked {
    LUTRA_ALIGNED(64) int8_t value[PAIR_STEPS][PAIR_STEP_BYTES];
    int32x4_t scale[16][PAIRS]; /* of each sum */
    int8x16_t min[2][PAIRS];    /* as in struct factors */
    float32x4_t d[QUADS], dmin[QUADS];
};

/* Values times scales that fit bytes: of Q2_K at most 3 * 15; of Q3_K -124 .. 128, negated. */
LUTRA_INLINE bool is_summed(struct form f)
{
    return f.scales == NO_SCALES || f.scales == BOTH_4 || f.scales == SCALE_6;
}

LUTRA_INLINE bool is_negated(struct form f)
{
    return f.scales == SCALE_6;
}

/* Steps of 8 inputs of a sum that is scaled at once. */
LUTRA_INLINE int sum_pair_steps(struct form f)
{
    return in_sixteens(f) ? 2 : 4;
}

/* The values that codes stand for. */
LUTRA_INLINE int8x16_t values_of(struct form f, int8x16_t codes)
{
    const int offset = f.scales == NO_SCALES ? 1 : f.codes == THREE_BITS ? 4 : f.codes == SIX_BITS ? 32 : 0;
    return offset ? vsubq_s8(codes, vdupq_n_s8((int8_t)offset)) : codes;
}

/* Scale i of 8 of each row of a pair in all bytes of the row. */
LUTRA_INLINE int8x16_t scale_bytes(struct form f, int8x16_t scales, int i)
{
    uint8x16_t at = vcombine_u8(vdup_n_u8((uint8_t)i), vdup_n_u8((uint8_t)(8 + i)));
    int8x16_t bytes = vqtbl1q_s8(scales, at);
    return is_negated(f) ? vnegq_s8(bytes) : bytes;
}

LUTRA_INLINE void unpack_pair(
    struct form f, const struct tile *t, const struct factors *factors, int quad, int pair, struct unpacked *u)
{
    const int steps = sum_pair_steps(f), of = 2 * quad + pair;
    UNROLL
    for (int g = 0; g < 8; g++) {
        const struct part p = part_of(f, t, quad, g / part_groups(f));
        int8x16_t factor = vdupq_n_s8(1);
        UNROLL
        for (int v = 0; v < 4; v++) {
            const int sum = (4 * g + v) / steps, half = sum / 8;
            if (v % steps == 0 && f.scales != NO_SCALES) {
                int8x16_t scales = scales_of(f, t, factors, half, quad, pair);
                if (is_summed(f)) factor = scale_bytes(f, scales, sum % 8);
                if (!is_summed(f)) u->scale[sum][of] = spread_scale(scales, sum % 8, !has_minima(f));
            }
            int8x16_t value = values_of(f, load_codes(f, &p, g % part_groups(f), v, pair));
            if (is_summed(f) && f.scales != NO_SCALES) value = vmulq_s8(value, factor);
            vst1q_s8(u->value[4 * g + v] + 16 * of, value);
        }
    }
    for (int half = 0; half < 2 && has_minima(f); half++) u->min[half][of] = factors->min[half][pair];
}

LUTRA_INLINE void unpack(struct form f, const uint8_t *w, struct unpacked *u)
{
    const struct tile t = split_tile(f, w);
    for (int quad = 0; quad < QUADS; quad++) {
        struct factors factors;
        if (f.scales != NO_SCALES && f.scales != SCALE_8) factors = load_factors(f, &t, quad);
        unpack_pair(f, &t, &factors, quad, 0, u);
        unpack_pair(f, &t, &factors, quad, 1, u);
        u->d[quad] = load_f16(t.d + 8 * quad);
        if (has_minima(f)) u->dmin[quad] = load_f16(t.dmin + 8 * quad);
    }
}

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
LUTRA_INLINE void run_panel(struct form f, const struct cpu_gemm_args *a, size_t panel, size_t first, size_t end)
{
    float32x4_t sum[PASS_ROWS / ACT_COLUMNS][2 * QUADS * MAX_CELL_COLUMNS];
    struct unpacked u;
    const uint8_t *w = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in);
    const size_t tiles = a->n_in / TILE_K;
    memset(sum, 0, (end - first + ACT_COLUMNS - 1) / ACT_COLUMNS * sizeof *sum);
    for (size_t k = 0; k < tiles; k++, w += tile_bytes(f)) {
        unpack(f, w, &u);
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

LUTRA_INLINE void run_tiles(struct form f, const struct cpu_gemm_args *a)
{
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS;
        for (size_t p = a->panel; p < a->panel + a->n_panel; p++) run_panel(f, a, p, pass, end);
    }
}

#endif
