/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with 256-element blocks by smmla: class i8x256, the arithmetic of x86/gemm_super_avx512.c to
 * the bit.
 *
 * Tiles as in gemm_i8_i8mm.c; their integer sums are cells, too.  Minima and the offset of Q3_K's and Q6_K's codes are
 * dot products of 8 or 16 bytes per row with the inputs' sums: smmla again.
 */
#include <stdbool.h>

#include "cpu/arm/gemm_super_form_impl.h"
#include "cpu/arm/pairs_i8mm_impl.h"

/* Scales and minima of a quad's pairs of rows: [row][8 groups], of 16 groups in halves. */
struct factors {
    int8x16_t scale[2][2], min[2][2]; /* [half][pair] */
};

/* Groups of 32 inputs whose codes share bytes. */
LUTRA_INLINE int part_groups(struct form f)
{
    return f.codes == TABLE ? 1 : f.scales == BOTH_6 ? 2 : 4;
}

/* Scales of 16 inputs each. */
LUTRA_INLINE bool in_sixteens(struct form f)
{
    return f.scales == BOTH_4 || f.scales == SCALE_6 || f.scales == SCALE_8;
}

/* ---- factors ---- */

/* 4 + 4 bytes of each of four rows, of which those of a pair are wanted. */
LUTRA_INLINE int8x16_t join_words(uint8x16_t first, uint8x16_t last, int pair)
{
    uint32x4_t a = vreinterpretq_u32_u8(first), b = vreinterpretq_u32_u8(last);
    return vreinterpretq_s8_u32(pair ? vzip2q_u32(a, b) : vzip1q_u32(a, b));
}

/* Fields 0..3 in the lower bits of `own`, 4..7 of four bits in `low` and two in the upper bits of `own`: of four rows,
 * of which those of a pair are wanted. */
LUTRA_INLINE int8x16_t join_fields(uint8x16_t own, uint8x16_t low, int pair)
{
    uint8x16_t last = vorrq_u8(vandq_u8(low, vdupq_n_u8(15)), vandq_u8(vshrq_n_u8(own, 2), vdupq_n_u8(0x30)));
    return join_words(vandq_u8(own, vdupq_n_u8(63)), last, pair);
}

/* Q3_K: four bits of scales 0-3 and 8-11, of 4-7 and 12-15, then two upper bits of all. */
LUTRA_INLINE int8x16_t three_bit_scales(const uint8_t *p, int half, int pair)
{
    uint8x16_t word[2], rest = vld1q_u8(p + 2 * STEP_BYTES);
    UNROLL
    for (int i = 0; i < 2; i++) {
        uint8x16_t low = vld1q_u8(p + STEP_BYTES * i),
                   high = vshlq_u8(rest, vdupq_n_s8((int8_t)(4 - 4 * half - 2 * i)));
        low = half ? vshrq_n_u8(low, 4) : vandq_u8(low, vdupq_n_u8(15));
        word[i] = vorrq_u8(low, vandq_u8(high, vdupq_n_u8(0x30)));
    }
    return vsubq_s8(join_words(word[0], word[1], pair), vdupq_n_s8(32));
}

/* IQ4_XS: four bits of 8 scales in a word, two upper bits in a half of one. */
LUTRA_INLINE int8x16_t table_scales(const struct tile *t, int quad, int pair)
{
    static const int8_t SHIFT[16] = {0, -2, -4, -6, 0, -2, -4, -6, 0, -2, -4, -6, 0, -2, -4, -6};
    static const uint8_t AT[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    uint8x8_t four = vld1_u8(t->scales + 16 * quad + 8 * pair), two = vld1_u8(t->scales + STEP_BYTES + 8 * quad);
    uint8x8_t even = vand_u8(four, vdup_n_u8(15)), odd = vshr_n_u8(four, 4);
    uint8x16_t low = vcombine_u8(vzip1_u8(even, odd), vzip2_u8(even, odd));
    uint8x16_t high = vqtbl1q_u8(vcombine_u8(two, two), vaddq_u8(vld1q_u8(AT), vdupq_n_u8((uint8_t)(4 * pair))));
    high = vandq_u8(vshlq_u8(high, vld1q_s8(SHIFT)), vdupq_n_u8(3));
    return vsubq_s8(vreinterpretq_s8_u8(vorrq_u8(low, vshlq_n_u8(high, 4))), vdupq_n_s8(32));
}

LUTRA_INLINE struct factors load_factors(struct form f, const struct tile *t, int quad)
{
    const uint8_t *p = t->scales + 16 * quad;
    const uint8x16_t low = vdupq_n_u8(15);
    struct factors all = {0};
    UNROLL
    for (int pair = 0; pair < 2; pair++) {
        if (f.scales == BOTH_6) {
            uint8x16_t rest = vld1q_u8(p + 2 * STEP_BYTES);
            all.scale[0][pair] = join_fields(vld1q_u8(p), rest, pair);
            all.min[0][pair] = join_fields(vld1q_u8(p + STEP_BYTES), vshrq_n_u8(rest, 4), pair);
        }
        if (f.scales == SCALE_6_APART) all.scale[0][pair] = table_scales(t, quad, pair);
        UNROLL
        for (int half = 0; half < 2; half++) {
            if (f.scales == SCALE_6) all.scale[half][pair] = three_bit_scales(p, half, pair);
            if (f.scales != BOTH_4) continue;
            uint8x16_t first = vld1q_u8(p + 2 * STEP_BYTES * half), last = vld1q_u8(p + STEP_BYTES * (2 * half + 1));
            all.scale[half][pair] = join_words(vandq_u8(first, low), vandq_u8(last, low), pair);
            all.min[half][pair] = join_words(vshrq_n_u8(first, 4), vshrq_n_u8(last, 4), pair);
        }
    }
    return all;
}

/* 8 scales of a pair of rows, of a half of 16 groups.  Q6_K's need no unpacking, and are loaded when they are used. */
LUTRA_INLINE int8x16_t scales_of(
    struct form f, const struct tile *t, const struct factors *factors, int half, int quad, int pair)
{
    if (f.scales != SCALE_8) return factors->scale[half][pair];
    return vld1q_s8((const int8_t *)t->scales + PAIR_STEP_BYTES * half + 32 * quad + 16 * pair);
}

/* Byte i of both rows as words [0 0 1 1].  Signed bytes go to the top of the word and come down with their sign. */
LUTRA_INLINE int32x4_t spread_scale(int8x16_t scales, int i, bool is_signed)
{
    /* From 128 on, an index gives 0. */
    uint64_t row0 = is_signed ? 0x0080808000808080u : 0x8080800080808000u,
             row1 = row0 + (is_signed ? 0x0800000008000000u : 0x0000000800000008u);
    uint8x16_t at = vaddq_u8(vcombine_u8(vcreate_u8(row0), vcreate_u8(row1)), vdupq_n_u8((uint8_t)i));
    int32x4_t words = vreinterpretq_s32_s8(vqtbl1q_s8(scales, at));
    return is_signed ? vshrq_n_s32(words, 24) : words;
}

/* ---- products ---- */

/* Where the codes of a part (groups that share bytes) begin, for a quad, and in add_part the columns' inputs. */
struct part {
    const uint8_t *code, *high, *x;
    int i;
};

LUTRA_INLINE struct part part_of(struct form f, const struct tile *t, int quad, int i)
{
    size_t group = 4 * PAIR_STEP_BYTES, at = 32 * (size_t)quad;
    size_t codes = f.codes == SIX_BITS ? 2 * group : f.codes == TABLE ? group / 2 : group;
    struct part p = {.code = t->code + at + codes * (size_t)i,
        .high = t->high + at + (f.codes == SIX_BITS ? group * (size_t)i : 0),
        .i = i};
    return p;
}

/* Codes of step u (8 inputs) of group j of a part, of one of the quad's pairs of rows. */
LUTRA_INLINE int8x16_t load_codes(struct form f, const struct part *p, int j, int u, int pair)
{
    const uint8_t *code = p->code + 16 * pair + PAIR_STEP_BYTES * u, *high = p->high + 16 * pair + PAIR_STEP_BYTES * u;
    uint8x16_t c;
    switch (f.codes) {
    case TWO_BITS:
    case THREE_BITS:
        c = vld1q_u8(code);
        if (j > 0) c = vshrq_n_u8(c, 2 * j);
        if (j < 3) c = vandq_u8(c, vdupq_n_u8(3));
        if (f.codes == THREE_BITS) c = vbslq_u8(vdupq_n_u8(4), shifted(high, 2 - (4 * p->i + j)), c);
        return vreinterpretq_s8_u8(c);
    case TABLE: {
        static const int8_t VALUES[16] = QUANT_IQ4_NL_VALUES;
        c = vld1q_u8(p->code + 16 * pair + PAIR_STEP_BYTES * (u % 2));
        return vqtbl1q_s8(vld1q_s8(VALUES), u < 2 ? vandq_u8(c, vdupq_n_u8(15)) : vshrq_n_u8(c, 4));
    }
    case SIX_BITS:
        c = vld1q_u8(code + j % 2 * (4 * PAIR_STEP_BYTES));
        c = j < 2 ? vandq_u8(c, vdupq_n_u8(15)) : vshrq_n_u8(c, 4);
        return vreinterpretq_s8_u8(vbslq_u8(vdupq_n_u8(0x30), shifted(high, 4 - 2 * j), c));
    default:
        c = vld1q_u8(code);
        c = j == 0 ? vandq_u8(c, vdupq_n_u8(15)) : vshrq_n_u8(c, 4);
        if (f.codes == FIVE_BITS) c = vbslq_u8(vdupq_n_u8(16), shifted(high, 4 - (2 * p->i + j)), c);
        return vreinterpretq_s8_u8(c);
    }
}

/* Adds the products of step u of group j of a part to a quad's cells. */
LUTRA_INLINE void add_step(
    struct form f, const struct part *p, int j, int u, struct columns in, int32x4_t dot[2 * MAX_CELL_COLUMNS])
{
    const int8x16_t rows[2] = {load_codes(f, p, j, u, 0), load_codes(f, p, j, u, 1)};
    const bool in_order = in.n > 2 && (f.scales == BOTH_6 || f.codes == THREE_BITS);
    multiply(rows, p->x + (size_t)(32 * j + 8 * u) * in.width, in.n, in_order, dot);
}

/* Adds steps from .. to - 1 of group j of a part to a quad's cells, scaled (one scale per pair of rows). */
LUTRA_INLINE void add_scaled(struct form f, const struct part *p, int j, int from, int to, struct columns in,
    const int32x4_t scale[2], int32x4_t cell[2 * MAX_CELL_COLUMNS])
{
    const int n_cell = cell_columns(in.n);
    int32x4_t dot[2 * MAX_CELL_COLUMNS];
    UNROLL
    for (int i = 0; i < 2 * n_cell; i++) dot[i] = vdupq_n_s32(0);
    UNROLL
    for (int u = from; u < to; u++) add_step(f, p, j, u, in, dot);
    UNROLL
    for (int i = 0; i < 2 * n_cell; i++) cell[i] = vmlaq_s32(cell[i], dot[i], scale[i / n_cell]);
}

/* Adds a part to a quad's cells. */
LUTRA_INLINE void add_part(struct form f, const struct tile *t, const struct factors *factors, int part,
    struct columns in, int quad, int32x4_t cell[2 * MAX_CELL_COLUMNS])
{
    struct part p = part_of(f, t, quad, part);
    p.x = reload(in.x + (size_t)(32 * part_groups(f) * part) * in.width, in.n);
    UNROLL
    for (int i = 0; i < 8; i++) {
        int32x4_t scale[2];
        if (in_sixteens(f) || (in.n > 4 && (f.scales != NO_SCALES || i % 2 == 0))) {
            p.code = compiler_unknown(p.code);
            p.high = compiler_unknown(p.high);
        }
        if (f.scales == NO_SCALES) {
            add_step(f, &p, i % 2 * 2, i / 2, in, cell);
            add_step(f, &p, i % 2 * 2 + 1, i / 2, in, cell);
        } else if (in_sixteens(f)) {
            for (int k = 0; k < 2; k++)
                scale[k] = spread_scale(scales_of(f, t, factors, part, quad, k), i, !has_minima(f));
            add_scaled(f, &p, i / 2, i % 2 * 2, i % 2 * 2 + 2, in, scale, cell);
        } else if (i < part_groups(f)) {
            for (int k = 0; k < 2; k++)
                scale[k] = spread_scale(factors->scale[0][k], part_groups(f) * part + i, !has_minima(f));
            add_scaled(f, &p, i, 0, 4, in, scale, cell);
        }
    }
}

/* ---- what a whole tile needs once ---- */

/* Products of n_8 x 8 factors per row with sums of inputs (pairs_i8mm_impl.h), for cell column i. */
LUTRA_INLINE int32x4_t multiply_sums(const int8x16_t *factors, int n_8, const uint8_t *low, struct columns in, int i)
{
    const uint8_t *high = low + (size_t)(8 * n_8) * in.width;
    int32x4_t sum = vdupq_n_s32(0);
    UNROLL
    for (int k = 0; k < n_8; k++)
        sum = add_products(sum, factors[k], load_inputs(high + (size_t)(8 * k) * in.width, i, in.n), in.n);
    sum = vshlq_n_s32(sum, SUM_BITS);
    UNROLL
    for (int k = 0; k < n_8; k++)
        sum = add_products(sum, factors[k], load_inputs(low + (size_t)(8 * k) * in.width, i, in.n), in.n);
    return sum;
}

/* The sums of a pair of rows become floats, or with one column those of its quad. */
LUTRA_INLINE float32x4_t cell_to_f32(const int32x4_t *cell, int n)
{
    return vcvtq_f32_s32(n == 1 ? fold_quad(cell) : *cell);
}

/* sum += the integers of a quad, whose first pair is `pair`, less the minima ([half][pair], as in struct factors). */
LUTRA_INLINE void add_floats(struct form f, float32x4_t d, float32x4_t dmin, const int8x16_t (*minima)[2 * QUADS],
    int pair, struct columns in, const int32x4_t cell[2 * MAX_CELL_COLUMNS], float32x4_t sum[2 * MAX_CELL_COLUMNS])
{
    const int n = in.n, n_cell = cell_columns(n), n_sum = n == 1 ? 1 : 2 * n_cell;
    const uint8_t *scales = in.x + 256 * in.width, *low32 = scales + 8 * in.width, *low16 = low32 + 16 * in.width;
    int32x4_t min[2 * MAX_CELL_COLUMNS];
    UNROLL
    for (int c = 0; c < 2 * n_cell; c++) {
        if (!has_minima(f)) continue;
        const int k = pair + c / n_cell, i = c % n_cell;
        const int8x16_t both[2] = {minima[0][k], minima[1][k]};
        min[c] = multiply_sums(both, f.scales == BOTH_6 ? 1 : 2, f.scales == BOTH_6 ? low32 : low16, in, i);
    }
    UNROLL
    for (int c = 0; c < n_sum; c++) {
        float32x4_t scale_x = n == 1 ? broadcast_f32(scales) : load_pair(scales, c % n_cell);
        float32x4_t rows = n == 1 ? d : pair_rows(d, c / n_cell);
        sum[c] = vfmaq_f32(sum[c], cell_to_f32(&cell[c], n), vmulq_f32(rows, scale_x));
        if (!has_minima(f)) continue;
        rows = n == 1 ? dmin : pair_rows(dmin, c / n_cell);
        sum[c] = vfmsq_f32(sum[c], cell_to_f32(&min[c], n), vmulq_f32(rows, scale_x));
    }
}

/* Takes the offset of Q3_K's and Q6_K's codes off a quad's cells. */
LUTRA_INLINE void take_offset(struct form f, const struct tile *t, const struct factors *factors, struct columns in,
    int quad, int32x4_t cell[2 * MAX_CELL_COLUMNS])
{
    const int n_cell = cell_columns(in.n);
    if (f.codes != SIX_BITS && f.codes != THREE_BITS) return;
    UNROLL
    for (int c = 0; c < 2 * n_cell; c++) {
        const int pair = c / n_cell;
        const int8x16_t scale[2] = {scales_of(f, t, factors, 0, quad, pair), scales_of(f, t, factors, 1, quad, pair)};
        int32x4_t offset = multiply_sums(scale, 2, in.x + (256 + 8 + 16) * in.width, in, c % n_cell);
        cell[c] = vsubq_s32(cell[c], f.codes == SIX_BITS ? vshlq_n_s32(offset, 5) : vshlq_n_s32(offset, 2));
    }
}

/* One tile of weights for the columns, some quads at a time: 8 cells of them, and 8 of a group. */
LUTRA_INLINE void add_tile(
    struct form f, const uint8_t *w, struct columns in, int first, float32x4_t sum[TILE_MAX_SUMS])
{
    const int n = in.n, n_cell = cell_columns(n), n_quad = tile_quads(n), some = n > 4 ? 1 : n > 1 ? 2 : 4;
    const uint8_t *start = in.x + 260 * in.width;
    const struct tile t = split_tile(f, w);
    for (int q = 0; q < n_quad; q += some) {
        struct factors factors[QUADS];
        int32x4_t cell[2 * MAX_CELL_COLUMNS];
        for (int i = 0; i < some && f.scales != NO_SCALES && f.scales != SCALE_8; i++)
            factors[i] = load_factors(f, &t, first + q + i);
        UNROLL
        for (int c = 0; c < 2 * n_cell * some; c++)
            cell[c] = f.scales != NO_SCALES ? vdupq_n_s32(0)
                      : n == 1              ? start_single(start)
                                            : vreinterpretq_s32_f32(load_pair(start, c % n_cell));
        for (int part = 0; part < 8 / part_groups(f); part++) {
            UNROLL
            for (int i = 0; i < some; i++) add_part(f, &t, &factors[i], part, in, first + q + i, &cell[2 * n_cell * i]);
        }
        UNROLL
        for (int i = 0; i < some; i++) {
            const int quad = first + q + i;
            int8x16_t minima[2][2 * QUADS] = {
                {factors[i].min[0][0], factors[i].min[0][1]}, {factors[i].min[1][0], factors[i].min[1][1]}};
            float32x4_t d = load_f16(t.d + 8 * quad), dmin = has_minima(f) ? load_f16(t.dmin + 8 * quad) : d;
            take_offset(f, &t, &factors[i], in, quad, &cell[2 * n_cell * i]);
            add_floats(f, d, dmin, minima, 0, in, &cell[2 * n_cell * i], &sum[(q + i) * (n == 1 ? 1 : 2 * n_cell)]);
        }
    }
}

LUTRA_INLINE void run_tile(const void *form, const struct cpu_gemm_args *a, size_t panel, size_t row, struct columns in)
{
    const struct form f = *(const struct form *)form;
    const uint8_t *packed = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in);
    UNROLL
    for (int first = 0; first < QUADS; first += tile_quads(in.n)) {
        const uint8_t *w = packed;
        struct columns at = in;
        float32x4_t sum[TILE_MAX_SUMS];
        UNROLL
        for (int i = 0; i < TILE_MAX_SUMS; i++) sum[i] = vdupq_n_f32(0);
        for (size_t k = 0; k < a->n_in; k += TILE_K, w += tile_bytes(f), at.x += in.width * PAIRS256_BYTES) {
            add_tile(f, w, at, first, sum);
        }
        store_cells(a, panel, row, first, in.n, sum);
    }
}

#include "cpu/arm/gemm_super_tile_i8mm_tmpl.h"

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    /* Codes that take one or two instructions are used as they are read by a whole block, others by half of one. */
    const size_t few = f.codes == FOUR_BITS || f.codes == TABLE || f.scales == NO_SCALES ? ACT_COLUMNS : 4;
    if (a->n_row > few) {
        run_tiles(f, NULL, a);
    } else {
        run_rows(a, a->n_in / TILE_K * PAIRS256_BYTES, 8, few, run_tile, &f);
    }
}

#include "cpu/gemm_super_low_runs_tmpl.h"
#include "cpu/gemm_super_runs_tmpl.h"

LUTRA_INLINE void set_pairs(struct cpu_kernels *k, enum quant_type type, const char *name, cpu_gemm_run *run)
{
    k->gemm[type] = in_pairs(cpu_gemm_i8x256(type, name, run), act_bytes_q8x256_pairs, act_row_q8x256_pairs);
}

void cpu_gemm_init_super_i8mm(struct cpu_kernels *k)
{
    FILL_I8X256(set_pairs, k, "8x8_i8mm");
    FILL_I8X256_LOW(set_pairs, k, "8x8_i8mm");
}
