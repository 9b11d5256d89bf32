/* SPDX-License-Identifier: MIT
 *
 * 256-bit matmul of the formats with codebooks; the arithmetic of gemm_book_avx512.c, to the bit.
 *
 * Included by one file per instruction set, which defines before:
 *     enum { MOST_SUM };   what a part of a sum may reach
 *     __m256i dot_step(__m256i part, __m256i w, __m256i x);      part + products of 4 inputs; w unsigned, x signed
 *     __m256i times(__m256i part, __m256i scale);                sums of 4 inputs times scale_operand
 *     __m256i scale_operand(__m256i scale);                      of a scale that is in both halves of each word
 *
 *     for each pass of up to PASS_ROWS rows, each panel, each tile of 256 inputs: read it; each group of 4 columns
 *
 * One column takes signs to its inputs, and magnitudes as they are read, 8 inputs of a row at a time; the two words of
 * a row are added once a tile.  More columns have codes, value + offset, which are stored; what the offset adds is
 * taken off by the inputs' sums.
 */
#ifndef LUTRA_CPU_X86_GEMM_BOOK_YMM_H
#define LUTRA_CPU_X86_GEMM_BOOK_YMM_H

#include "cpu/x86/gemm_book_form_ymm_impl.h"

enum { TILE_COLUMNS = 4, AHEAD_BYTES = 2304 };

/* A tile as it is read. */
struct unpacked {
    LUTRA_ALIGNED(64) uint8_t code[STEPS][STEP_BYTES];
    __m256i scale[2][16]; /* scale_operand */
    __m256i pair[2][8];   /* scales of two sums in a word's halves */
    __m256 d[2];
};

LUTRA_INLINE __m256i broadcast(const uint8_t *p)
{
    return _mm256_set1_epi32(*(const int *)(const void *)p);
}

/* Codes are value + 1 << this, and below twice that. */
LUTRA_INLINE int offset_bits(struct form f)
{
    return f.book == BOOK_IQ3_S ? 4 : 6;
}

LUTRA_INLINE int code_part_steps(struct form f)
{
    return part_steps(group_steps(f), (1 << offset_bits(f)) + largest_magnitude(f), MOST_SUM);
}

/* Prefetches group g's share, for one half, of what comes later. */
LUTRA_INLINE void prefetch_of(struct form f, const uint8_t *tile, int half, int g)
{
    const uint8_t *ahead = tile + AHEAD_BYTES + (size_t)(8 * half + g) * (tile_bytes(f) / 16);
    LUTRA_PREFETCH(ahead);
    LUTRA_PREFETCH(ahead + tile_bytes(f) / 32);
}

LUTRA_INLINE void unpack_codes(struct form f, const struct tables *t, const uint8_t *tile, int half, uint8_t *to)
{
    const __m256i offset = _mm256_set1_epi8((char)(1 << offset_bits(f)));
    struct indices in[8];
    load_indices(f, tile, half, in);
    for (int g = 0; g < 8; g++) {
        struct signs signs = spread_signs(load_signs(f, tile, g, half));
        __m256i step[4];
        prefetch_of(f, tile, half, g);
        UNROLL
        for (int v = 0; v < 8; v++, to += STEP_BYTES) {
            if (v % 4 == 0) four_steps(f, t, tile, &in[g], g, v, half, step);
            __m256i value = _mm256_sign_epi8(step[v % 4], signs_of_step(signs, v));
            _mm256_store_si256((__m256i *)to, _mm256_add_epi8(value, offset));
        }
    }
}

LUTRA_INLINE void unpack(struct form f, const struct tables *t, const uint8_t *tile, struct unpacked *u)
{
    const int sums = STEPS / group_steps(f);
    for (int half = 0; half < 2; half++) {
        unpack_codes(f, t, tile, half, u->code[0] + 32 * half);
        UNROLL
        for (int i = 0; i < sums; i += 2) {
            const uint8_t *bytes = scale_bytes(f, tile, i);
            __m256i a = scale_of(f, tile, bytes, i, half), b = scale_of(f, tile, bytes, i + 1, half);
            u->scale[half][i] = scale_operand(a);
            u->scale[half][i + 1] = scale_operand(b);
            u->pair[half][i / 2] = _mm256_blend_epi16(a, b, 0xaa);
        }
        u->d[half] = load_d(f, tile, half);
    }
}

/* sum += dot, scaled; scale_x: of the column. */
LUTRA_INLINE __m256 add_dot(__m256 sum, __m256i dot, __m256 d, const uint8_t *scale_x)
{
    __m256 s = _mm256_mul_ps(d, _mm256_castsi256_ps(broadcast(scale_x)));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), s, sum);
}

/* dot += group g of 32 inputs for one column and 8 rows, half of 8 inputs of a row in each word (eight_of_rows); x: the
 * group's inputs. */
LUTRA_INLINE void add_group_of_one(struct form f, const struct tables *t, const uint8_t *tile, const struct indices *in,
    int g, int half, const uint8_t *x, __m256i dot[2])
{
    const int eights = group_steps(f) / 2, part = part_steps(eights, largest_magnitude(f), MOST_SUM);
    struct row_signs signs = signs_of_rows(load_signs(f, tile, g, half));
    __m256i scale[2][2];
    const uint8_t *scales = scale_bytes(f, tile, g * (4 / eights));
    prefetch_of(f, tile, half, g);
    UNROLL
    for (int k = 0; k < 2; k++) {
        if (k * eights >= 4) continue;
        __m256i s = scale_of(f, tile, scales, g * (4 / eights) + k, half);
        scale[0][k] = scale_operand(_mm256_unpacklo_epi32(s, s));
        scale[1][k] = scale_operand(_mm256_unpackhi_epi32(s, s));
    }
    UNROLL
    for (int p = 0; p < 2; p++) {
        __m256i acc = _mm256_setzero_si256();
        UNROLL
        for (int i = 0; i < 4; i++) {
            __m256i inputs = _mm256_set1_epi64x((long long)load_u64(x + 32 * g + 8 * i));
            inputs = _mm256_sign_epi8(inputs, signs_of_eight(signs.rows[p], i));
            if (i % part == 0) acc = _mm256_setzero_si256();
            acc = dot_step(acc, eight_of_rows(f, t, tile, in, g, i, half, p), inputs);
            if (i % part == part - 1) dot[p] = _mm256_add_epi32(dot[p], times(acc, scale[p][i / eights]));
        }
    }
}

/* One tile for one column, which is alone in its record x, and all rows. */
LUTRA_INLINE void add_one(struct form f, const struct tables *t, const uint8_t *tile, const uint8_t *x, __m256 sum[2])
{
    for (int half = 0; half < 2; half++) {
        __m256i dot[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        struct indices in[8];
        load_indices(f, tile, half, in);
        for (int g = 0; g < 8; g++) {
            add_group_of_one(f, t, tile, &in[g], g, half, x, dot);
        }
        sum[half] = add_dot(sum[half], _mm256_hadd_epi32(dot[0], dot[1]), load_d(f, tile, half), x + 256);
    }
}

/* One tile for n columns and 8 `halves` rows; x: the columns' record. */
LUTRA_INLINE void add_halves(struct form f, const struct unpacked *u, const uint8_t *x, size_t width, const int n,
    const int half, const int halves, __m256 sum[2][TILE_COLUMNS])
{
    const uint8_t *scale_x = x + 256 * width, *sums = x + (group_steps(f) == 8 ? 264 : 344) * width;
    const int steps = group_steps(f), part = code_part_steps(f);
    __m256i dot[2][TILE_COLUMNS];
    UNROLL
    for (int h = 0; h < halves; h++) {
        UNROLL
        for (int c = 0; c < n; c++) dot[h][c] = _mm256_setzero_si256();
    }
    for (int p = 0; p < STEPS / steps / 2; p++, sums += 4 * width) {
        UNROLL
        for (int c = 0; c < n; c++) {
            __m256i sum_x = broadcast(sums + 4 * c);
            UNROLL
            for (int h = 0; h < halves; h++)
                dot[h][c] = _mm256_sub_epi32(dot[h][c], _mm256_madd_epi16(u->pair[half + h][p], sum_x));
        }
    }
    UNROLL
    for (int h = 0; h < halves; h++) {
        UNROLL
        for (int c = 0; c < n; c++) dot[h][c] = _mm256_slli_epi32(dot[h][c], offset_bits(f));
    }
    for (int i = 0; i < STEPS / steps; i++) {
        __m256i acc[2][TILE_COLUMNS];
        UNROLL
        for (int v = 0; v < steps; v++, x += 4 * width) {
            const uint8_t *w = u->code[steps * i + v] + 32 * half;
            UNROLL
            for (int c = 0; c < n; c++) {
                __m256i b = broadcast(x + 4 * c);
                UNROLL
                for (int h = 0; h < halves; h++) {
                    if (v % part == 0) acc[h][c] = _mm256_setzero_si256();
                    acc[h][c] = dot_step(acc[h][c], _mm256_load_si256((const __m256i *)(w + 32 * h)), b);
                    if (v % part == part - 1)
                        dot[h][c] = _mm256_add_epi32(dot[h][c], times(acc[h][c], u->scale[half + h][i]));
                }
            }
        }
    }
    UNROLL
    for (int h = 0; h < halves; h++) {
        UNROLL
        for (int c = 0; c < n; c++)
            sum[half + h][c] = add_dot(sum[half + h][c], dot[h][c], u->d[half + h], scale_x + 4 * c);
    }
}

/* One tile for n columns; both halves at once where registers hold their sums. */
LUTRA_INLINE void add_tile(
    struct form f, const struct unpacked *u, const uint8_t *x, size_t width, const int n, __m256 sum[2][TILE_COLUMNS])
{
    if (code_part_steps(f) == 1) {
        add_halves(f, u, x, width, n, 0, 2, sum);
    } else {
        add_halves(f, u, x, width, n, 0, 1, sum);
        add_halves(f, u, x, width, n, 1, 1, sum);
    }
}

LUTRA_INLINE void add_columns(
    struct form f, const struct unpacked *u, const uint8_t *x, size_t width, size_t n, __m256 sum[2][TILE_COLUMNS])
{
    switch (n) {
    case 1: add_tile(f, u, x, width, 1, sum); break;
    case 2: add_tile(f, u, x, width, 2, sum); break;
    case 3: add_tile(f, u, x, width, 3, sum); break;
    default: add_tile(f, u, x, width, 4, sum); break;
    }
}

/* The record of tile k for row r and those beside it. */
LUTRA_INLINE const uint8_t *record_of(const struct cpu_gemm_args *a, size_t r, size_t k, size_t *width)
{
    struct act_place place = act_place_of(r, a->n_row);
    *width = place.width;
    return (const uint8_t *)a->act + (r - place.column) * (a->n_in / TILE_K) * ACT256_BYTES +
           k * ACT256_BYTES * place.width + 4 * place.column;
}

/* One panel for rows first .. end - 1. */
LUTRA_INLINE void run_panel(
    struct form f, const struct tables *t, const struct cpu_gemm_args *a, size_t panel, size_t first, size_t end)
{
    __m256 sum[PASS_ROWS / TILE_COLUMNS][2][TILE_COLUMNS];
    struct unpacked u;
    const uint8_t *w = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in);
    for (size_t s = 0; s < PASS_ROWS / TILE_COLUMNS; s++) {
        for (int c = 0; c < TILE_COLUMNS; c++) sum[s][0][c] = sum[s][1][c] = _mm256_setzero_ps();
    }
    for (size_t k = 0; k < a->n_in / TILE_K; k++, w += tile_bytes(f)) {
        unpack(f, t, w, &u);
        for (size_t r = first; r < end; r += TILE_COLUMNS) {
            size_t width;
            const uint8_t *x = record_of(a, r, k, &width);
            add_columns(f, &u, x, width, end - r, sum[(r - first) / TILE_COLUMNS]);
        }
    }
    for (size_t r = first, s = 0; r < end; r += TILE_COLUMNS, s++)
        store_panel_ymm(a, panel, r, end - r < TILE_COLUMNS ? (int)(end - r) : TILE_COLUMNS, sum[s]);
}

/* One panel for row r. */
LUTRA_INLINE void run_panel_once(
    struct form f, const struct tables *t, const struct cpu_gemm_args *a, size_t panel, size_t r)
{
    const uint8_t *w = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, out[2][TILE_COLUMNS];
    for (size_t k = 0; k < a->n_in / TILE_K; k++, w += tile_bytes(f)) {
        size_t width;
        const uint8_t *x = record_of(a, r, k, &width);
        add_one(f, t, w, x, sum);
    }
    out[0][0] = sum[0], out[1][0] = sum[1];
    store_panel_ymm(a, panel, r, 1, out);
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    struct tables tables;
    make_tables(f, &tables);
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS;
        for (size_t p = a->panel; p < a->panel + a->n_panel; p++) {
            if (end - pass == 1)
                run_panel_once(f, &tables, a, p, pass);
            else
                run_panel(f, &tables, a, p, pass, end);
        }
    }
}

#include "cpu/x86/gemm_book_runs_impl.h"

#endif
