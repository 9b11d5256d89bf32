/* SPDX-License-Identifier: MIT
 *
 * 256-bit matmul of the formats with 256-element blocks; the arithmetic of gemm_super_avx512.c, to the bit.
 *
 * Included by one file per instruction set, which defines before:
 *     enum { WIDE_CODES };   1 if dot_step takes unsigned codes up to 255, 0 if only up to 63
 *     enum { MOST_SUM };     what a part of a sum may reach
 *     __m256i dot_step(__m256i part, __m256i w, __m256i x);    part + products of 4 inputs; w unsigned, x signed
 *     __m256i dot_signed(__m256i part, __m256i w, __m256i x);  the same for signed w (only without WIDE_CODES)
 *     __m256i times(__m256i part, __m256i scale);              sums of 4 inputs times scale_operand
 *     __m256i scale_operand(__m256i scale);                    of scales of 16 bits, one in each word
 * and gets run_q4_k and so on.  A tile is 8 rows (half a panel) x 4 columns; all columns of a pass use a tile's weights
 * before the next, and prefetch meanwhile.
 */
#ifndef LUTRA_CPU_X86_GEMM_SUPER_YMM_H
#define LUTRA_CPU_X86_GEMM_SUPER_YMM_H

#include <immintrin.h>

#include "cpu/x86/gemm_super_form_ymm_impl.h"

enum { TILE_COLUMNS = 4, AHEAD_BYTES = 2304 };

/* A tile of weights, and which of its groups to prefetch meanwhile. */
struct work {
    const uint8_t *w; /* the tile */
    unsigned mine;    /* share_of */
};

/* At step v of a group: every other line of a group at `ahead`, if any; the other half of the panel takes the rest. */
LUTRA_INLINE void prefetch_step(struct form f, const struct tile *t, const uint8_t *ahead, int v)
{
    size_t line = (size_t)(2 * v + t->half) * 64;
    if (line < group_bytes(f) && ahead) LUTRA_PREFETCH(ahead + line);
}

/* Whether codes go to dot_signed. */
LUTRA_INLINE bool is_signed(struct form f)
{
    return f.codes == TABLE && !WIDE_CODES;
}

LUTRA_INLINE int largest_code(struct form f)
{
    if (f.codes == TABLE) return is_signed(f) ? 127 : 255;
    return high_bytes(f) ? code_mask(f) | high_mask(f) : code_mask(f);
}

/* Of sum h of group g. */
LUTRA_INLINE __m256i load_scale(struct form f, const struct tile *t, int g, int h)
{
    if (f.scales == NO_SCALES) return _mm256_set1_epi32(1);
    return f.scales == BOTH_6 ? load_six_bits(t, g, 0) : load_scale16(f, t, 2 * g + h);
}

/* dot[c] += group g, 32 inputs; x: the columns' record. */
LUTRA_INLINE void add_group(struct form f, const struct work *work, const struct tile *t, int g, const uint8_t *x,
    size_t width, int n, __m256i *dot)
{
    const uint8_t *ahead = work->mine >> g & 1 ? work->w + AHEAD_BYTES + (size_t)g * group_bytes(f) : NULL;
    const uint8_t *sums = x + (344 + 4 * (size_t)g) * width; /* of 16 inputs each, i16 pairs */
    x += 32 * (size_t)g * width;
    const int steps = group_steps(f), part = part_steps(steps, largest_code(f), MOST_SUM);
    __m256i acc[TILE_COLUMNS], scale[2], operand = _mm256_setzero_si256();
    UNROLL
    for (int v = 0; v < 8; v++, x += 4 * width) {
        prefetch_step(f, t, ahead, v);
        if (v % steps == 0) scale[v / steps] = load_scale(f, t, g, v / steps);
        if (v % steps == 0) operand = scale_operand(scale[v / steps]);
        __m256i w = load_codes(f, t, g, v);
        UNROLL
        for (int c = 0; c < n; c++) {
            __m256i b = broadcast(x + 4 * c);
            if (v % part == 0) acc[c] = _mm256_setzero_si256();
            acc[c] = is_signed(f) ? dot_signed(acc[c], w, b) : dot_step(acc[c], w, b);
            if (v % part == part - 1) dot[c] = _mm256_add_epi32(dot[c], times(acc[c], operand));
        }
    }
    if (!has_offset(f) || is_signed(f)) return;
    /* Codes are values and an offset, of 32 << start_shift. */
    __m256i pair = _mm256_blend_epi16(scale[0], _mm256_slli_epi32(scale[1], 16), 0xaa);
    pair = _mm256_slli_epi16(pair, 5 + start_shift(f));
    UNROLL
    for (int c = 0; c < n; c++) dot[c] = _mm256_sub_epi32(dot[c], _mm256_madd_epi16(pair, broadcast(sums + 4 * c)));
}

/* The minima of a tile, times the inputs' sums; sums: i16 pairs [4 or 8][width]. */
LUTRA_INLINE void subtract_minima(
    struct form f, const struct tile *t, const uint8_t *sums, const uint8_t *scale_x, size_t width, int n, __m256 *sum)
{
    __m256i min[TILE_COLUMNS];
    UNROLL
    for (int c = 0; c < n; c++) min[c] = _mm256_setzero_si256();
    const int n_pair = f.scales == BOTH_6 ? 4 : 8;
    UNROLL
    for (int p = 0; p < n_pair; p++, sums += 4 * width) {
        __m256i pair = _mm256_or_si256(load_min(f, t, 2 * p), _mm256_slli_epi32(load_min(f, t, 2 * p + 1), 16));
        UNROLL
        for (int c = 0; c < n; c++) min[c] = _mm256_add_epi32(min[c], _mm256_madd_epi16(pair, broadcast(sums + 4 * c)));
    }
    __m256 dmin = load_f16(t->dmin);
    UNROLL
    for (int c = 0; c < n; c++) {
        __m256 s = _mm256_mul_ps(dmin, _mm256_castsi256_ps(broadcast(scale_x + 4 * c)));
        sum[c] = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(min[c]), s, sum[c]);
    }
}

/* One tile for n columns; x: the columns' record. */
LUTRA_INLINE void add_tile(
    struct form f, const struct work *work, const uint8_t *x, size_t width, int n, int half, __m256 *sum)
{
    struct tile t = tile_at(f, work->w, half);
    const uint8_t *scale_x = x + 256 * width, *start = scale_x + 4 * width, *sums = start + 4 * width;
    const uint8_t *sums16 = sums + 80 * width;
    __m256i dot[TILE_COLUMNS];
    UNROLL
    for (int c = 0; c < n; c++) dot[c] = f.scales == NO_SCALES ? broadcast(start + 4 * c) : _mm256_setzero_si256();
    /* One column is worth constants for shifts and places; more would only be too long for the decoded instructions. */
    if (n == 1) {
        UNROLL
        for (int g = 0; g < 8; g++) add_group(f, work, &t, g, x, width, n, dot);
    } else {
        for (int g = 0; g < 8; g++) add_group(f, work, &t, g, x, width, n, dot);
    }
    __m256 d = load_f16(t.d);
    UNROLL
    for (int c = 0; c < n; c++) {
        __m256 s = _mm256_mul_ps(d, _mm256_castsi256_ps(broadcast(scale_x + 4 * c)));
        sum[c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[c]), s, sum[c]);
    }
    if (has_minima(f)) subtract_minima(f, &t, f.scales == BOTH_6 ? sums : sums16, scale_x, width, n, sum);
}

LUTRA_INLINE void add_halves(
    struct form f, const struct work *work, const uint8_t *x, size_t width, int n, __m256 sum[2][TILE_COLUMNS])
{
    add_tile(f, work, x, width, n, 0, sum[0]);
    add_tile(f, work, x, width, n, 1, sum[1]);
}

/* One panel for rows first .. end - 1. */
LUTRA_INLINE void run_panel(struct form f, const struct cpu_gemm_args *a, size_t panel, size_t first, size_t end)
{
    __m256 sum[PASS_ROWS / TILE_COLUMNS][2][TILE_COLUMNS];
    size_t row_bytes = a->n_in / TILE_K * ACT256_BYTES;
    struct work work = {.w = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in)};
    size_t shares = (end - first + TILE_COLUMNS - 1) / TILE_COLUMNS;
    for (size_t s = 0; s < shares; s++) {
        for (int c = 0; c < TILE_COLUMNS; c++) sum[s][0][c] = sum[s][1][c] = _mm256_setzero_ps();
    }
    for (size_t k = 0; k < a->n_in / TILE_K; k++, work.w += tile_bytes(f)) {
        for (size_t s = 0; s < shares; s++) {
            size_t r = first + s * TILE_COLUMNS;
            work.mine = share_of(s, shares);
            struct act_place place = act_place_of(r, a->n_row);
            const uint8_t *x = (const uint8_t *)a->act + (r - place.column) * row_bytes +
                               k * ACT256_BYTES * place.width + 4 * place.column;
            switch (end - r) {
            case 1: add_halves(f, &work, x, place.width, 1, sum[s]); break;
            case 2: add_halves(f, &work, x, place.width, 2, sum[s]); break;
            case 3: add_halves(f, &work, x, place.width, 3, sum[s]); break;
            default: add_halves(f, &work, x, place.width, 4, sum[s]); break;
            }
        }
    }
    for (size_t r = first, s = 0; r < end; r += TILE_COLUMNS, s++)
        store_panel_ymm(a, panel, r, end - r < TILE_COLUMNS ? (int)(end - r) : TILE_COLUMNS, sum[s]);
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS;
        for (size_t p = a->panel; p < a->panel + a->n_panel; p++) run_panel(f, a, p, pass, end);
    }
}

#include "cpu/gemm_super_runs_impl.h"

#include "cpu/gemm_super_low_runs_impl.h"

#endif
