/* SPDX-License-Identifier: MIT
 *
 * 256-bit matmul of class i8x256: a tile of weights is read once, into codes and scales, and multiplied by all columns.
 *
 *     for each pass of up to PASS_ROWS rows, each panel, each tile of 256 inputs: read it; each group of 4 columns
 *
 * Up to few_columns take codes as they are read instead (add_few).  Integers are exact, so the bits are those of the
 * 512-bit kernels.
 *
 * gemm_super_ymm_tmpl.h and gemm_book_ymm_tmpl.h include it: each knows how to read a kind of formats.
 *
 * Needs, of an instruction set:
 *     enum { MOST_SUM };   what a part of a sum may reach
 *     enum { SUMS_AT_ONCE };   sums made side by side: 2 where a step waits several cycles for the one before it
 *     __m256i dot_step(__m256i part, __m256i w, __m256i x);    part + products of 4 inputs; w unsigned, x signed
 *     __m256i dot_signed(__m256i part, __m256i w, __m256i x);  the same for signed w, where is_signed
 *     __m256i times(__m256i part, __m256i scale);              sums of 4 inputs times scale_operand
 *     __m256i scale_operand(__m256i scale);                    of a scale that is in both halves of each word
 * and of a format:
 *     group_steps      steps of a sum that is scaled at once
 *     sum_steps        the same in a tile as it is read: more, if sums that follow each other have one scale
 *     largest_code     of codes as they are multiplied, in magnitude
 *     offset_bits      codes are value + 1 << this; -1: codes are values
 *     is_signed        whether codes are signed
 *     has_minima       whether minima of 16 or 32 inputs are taken off
 *     is_summed        whether a tile as it is read has its scales in its codes, so that they are only to be summed
 *     sum_start        whether sums start from what the activations have for ternary codes, and times what; or 0
 *     few_columns      1 to 4
 * Gives: run_tiles.
 */
#ifndef LUTRA_CPU_X86_GEMM_TILE_YMM_TMPL_H
#define LUTRA_CPU_X86_GEMM_TILE_YMM_TMPL_H

#include "cpu/x86/gemm_x86_impl.h"

enum { TILE_COLUMNS = 4, AHEAD_BYTES = 2304 };

/* A tile as it is read, [2]: rows 0 .. 7 and 8 .. 15. */
struct unpacked {
    LUTRA_ALIGNED(64) uint8_t code[TILE_K / 4][STEP_BYTES];
    __m256i scale[2][16]; /* scale_operand of each sum */
    __m256i pair[2][8];   /* scales of two sums in a word's halves, with an offset */
    __m256i min[2][8];    /* minima likewise */
    __m256 d[2], dmin[2];
    const uint8_t *ahead; /* a tile's bytes, to be prefetched while this one is multiplied */
};

/* What reading looks up, made once per call. */
struct tables;

/* Reads the tile at `tile`. */
LUTRA_INLINE void unpack(struct form f, const struct tables *t, const uint8_t *tile, struct unpacked *u);

/* sum += the tile at `tile` times n columns, up to few_columns; x: their record, alone in it if 1. */
LUTRA_INLINE void add_few(struct form f, const struct tables *t, const uint8_t *tile, const uint8_t *x, size_t width,
    const int n, __m256 sum[2][TILE_COLUMNS]);

LUTRA_INLINE __m256i broadcast(const uint8_t *p)
{
    return _mm256_set1_epi32(*(const int *)(const void *)p);
}

LUTRA_INLINE __m256 broadcast_f32(const uint8_t *p)
{
    return _mm256_broadcast_ss((const float *)(const void *)p);
}

/* Prefetches one of a pair of lines of group g of what comes AHEAD_BYTES later, if it has that pair: one at a time,
 * since more wait for each other. */
LUTRA_INLINE void prefetch_line(struct form f, const uint8_t *tile, int g, int pair, int which)
{
    const size_t group = tile_bytes(f) / 8, at = 128 * (size_t)pair;
    if (at < group) compiler_prefetch_here(tile + AHEAD_BYTES + (size_t)g * group + at + 64 * (size_t)which);
}

/* A column's record of 256 inputs (cpu/layout.h): codes, their scale, what ternary sums start from, the inputs' sums by
 * 32 and by 16, as pairs of 16 bits. */
LUTRA_INLINE const uint8_t *scale_of_inputs(const uint8_t *x, size_t width)
{
    return x + 256 * width;
}

LUTRA_INLINE const uint8_t *start_of_inputs(const uint8_t *x, size_t width)
{
    return x + 260 * width;
}

LUTRA_INLINE const uint8_t *sums_of_inputs(struct form f, const uint8_t *x, size_t width)
{
    return x + (group_steps(f) == 8 ? 264 : 344) * width;
}

/* sum += dot, scaled; scale_x: of the column. */
LUTRA_INLINE __m256 add_dot(__m256 sum, __m256i dot, __m256 d, const uint8_t *scale_x)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(d, broadcast_f32(scale_x)), sum);
}

/* sum -= min, scaled. */
LUTRA_INLINE __m256 subtract_min(__m256 sum, __m256i min, __m256 dmin, const uint8_t *scale_x)
{
    return _mm256_fnmadd_ps(_mm256_cvtepi32_ps(min), _mm256_mul_ps(dmin, broadcast_f32(scale_x)), sum);
}

/* part + products of 4 inputs. */
LUTRA_INLINE __m256i dot_codes(struct form f, __m256i part, __m256i codes, __m256i x)
{
    return is_signed(f) ? dot_signed(part, codes, x) : dot_step(part, codes, x);
}

/* dot[c] = pairs times the inputs' sums. */
LUTRA_INLINE void sum_pairs(
    struct form f, const __m256i pair[8], const uint8_t *sums, size_t width, const int n, __m256i dot[TILE_COLUMNS])
{
    UNROLL
    for (int c = 0; c < n; c++) dot[c] = _mm256_setzero_si256();
    for (int p = 0; p < TILE_K / 8 / group_steps(f); p++, sums += 4 * width) {
        UNROLL
        for (int c = 0; c < n; c++)
            dot[c] = _mm256_add_epi32(dot[c], _mm256_madd_epi16(pair[p], broadcast(sums + 4 * c)));
    }
}

/* What sums of one tile start from. */
LUTRA_INLINE void start_sums(struct form f, const struct unpacked *u, const uint8_t *x, size_t width, const int n,
    const int half, __m256i dot[TILE_COLUMNS])
{
    const bool pairs = offset_bits(f) >= 0 && !is_summed(f);
    if (pairs) sum_pairs(f, u->pair[half], sums_of_inputs(f, x, width), width, n, dot);
    UNROLL
    for (int c = 0; c < n; c++) {
        if (pairs)
            dot[c] = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(dot[c], offset_bits(f)));
        else
            dot[c] = sum_start(f) ? broadcast(start_of_inputs(x, width) + 4 * c) : _mm256_setzero_si256();
        if (!pairs && sum_start(f) > 1) dot[c] = _mm256_mullo_epi32(dot[c], _mm256_set1_epi32(sum_start(f)));
    }
}

/* sum += a tile's integers, scaled, less the minima, for half of its rows. */
LUTRA_INLINE void finish_half(struct form f, const struct unpacked *u, const uint8_t *x, size_t width, const int n,
    const int half, __m256i dot[TILE_COLUMNS], __m256 sum[TILE_COLUMNS])
{
    const uint8_t *scale_x = scale_of_inputs(x, width);
    UNROLL
    for (int c = 0; c < n; c++) sum[c] = add_dot(sum[c], dot[c], u->d[half], scale_x + 4 * c);
    if (!has_minima(f)) return;
    sum_pairs(f, u->min[half], sums_of_inputs(f, x, width), width, n, dot);
    UNROLL
    for (int c = 0; c < n; c++) sum[c] = subtract_min(sum[c], dot[c], u->dmin[half], scale_x + 4 * c);
}

/* One tile for n columns and half of its rows: their sums stay in registers; x: the columns' record. */
LUTRA_INLINE void add_half(struct form f, const struct unpacked *u, const uint8_t *x, size_t width, const int n,
    const int half, __m256 sum[TILE_COLUMNS])
{
    const int steps = sum_steps(f), part = part_steps(steps, largest_code(f), MOST_SUM), sums = SUMS_AT_ONCE;
    const int n_sum = TILE_K / 4 / steps, scales = steps / group_steps(f);
    const size_t piece = tile_bytes(f) / (size_t)(2 * n_sum) * (size_t)sums;
    __m256i dot[TILE_COLUMNS];
    start_sums(f, u, x, width, n, half, dot);
    const uint8_t *ahead = u->ahead + piece * (size_t)(n_sum / sums * half), *at = x;
    for (int i = 0; i < n_sum; i += sums, at += 4 * (size_t)(sums * steps) * width, ahead += piece) {
        __m256i acc[SUMS_AT_ONCE][TILE_COLUMNS];
        UNROLL
        for (size_t line = 0; line < piece; line += 64) LUTRA_PREFETCH(ahead + line);
        UNROLL
        for (int v = 0; v < steps; v++) {
            UNROLL
            for (int j = 0; j < sums; j++) {
                const int step = j * steps + v;
                __m256i codes = _mm256_load_si256((const __m256i *)(u->code[steps * i + step] + 32 * half));
                UNROLL
                for (int c = 0; c < n; c++) {
                    __m256i *a = &acc[j][c];
                    if (v % part == 0) *a = _mm256_setzero_si256();
                    *a = dot_codes(f, *a, codes, broadcast(at + 4 * (size_t)step * width + 4 * c));
                    COMPILER_UNKNOWN_VECTOR(*a); /* one sum after the other, in one register */
                    if (v % part < part - 1) continue;
                    dot[c] = _mm256_add_epi32(dot[c], times(*a, u->scale[half][scales * (i + j)]));
                    COMPILER_UNKNOWN_VECTOR(dot[c]);
                }
            }
        }
    }
    finish_half(f, u, x, width, n, half, dot, sum);
}

/* One tile for n columns, if is_summed.  Few columns have two chains of sums for each output: one waits for itself. */
LUTRA_INLINE void add_summed(
    struct form f, const struct unpacked *u, const uint8_t *x, size_t width, const int n, __m256 sum[2][TILE_COLUMNS])
{
    const int chains = n <= 2 ? 2 : 1;
    __m256i dot[2][2][TILE_COLUMNS];
    UNROLL
    for (int h = 0; h < 2; h++) {
        start_sums(f, u, x, width, n, h, dot[0][h]);
        for (int c = 0; c < n; c++) dot[1][h][c] = _mm256_setzero_si256();
    }
    const uint8_t *at = x;
    for (int g = 0; g < 8; g++) {
        const uint8_t *ahead = u->ahead + tile_bytes(f) / 8 * (size_t)g;
        UNROLL
        for (size_t line = 0; line < tile_bytes(f) / 8; line += 64) LUTRA_PREFETCH(ahead + line);
        UNROLL
        for (int v = 0; v < 8; v++, at += 4 * width) {
            __m256i codes[2];
            UNROLL
            for (int h = 0; h < 2; h++) codes[h] = _mm256_load_si256((const __m256i *)(u->code[8 * g + v] + 32 * h));
            UNROLL
            for (int c = 0; c < n; c++) {
                __m256i b = broadcast(at + 4 * c);
                UNROLL
                for (int h = 0; h < 2; h++) {
                    __m256i *d = &dot[v % chains][h][c];
                    *d = dot_codes(f, *d, codes[h], b);
                    COMPILER_UNKNOWN_VECTOR(*d); /* one sum after the other, in one register */
                }
            }
        }
    }
    UNROLL
    for (int h = 0; h < 2; h++) {
        UNROLL
        for (int c = 0; c < n && chains == 2; c++) dot[0][h][c] = _mm256_add_epi32(dot[0][h][c], dot[1][h][c]);
        finish_half(f, u, x, width, n, h, dot[0][h], sum[h]);
    }
}

/* One tile for n columns of a record of `width`; u: the tile as it was read, or NULL. */
LUTRA_INLINE void add_some(struct form f, const struct tables *t, const uint8_t *tile, const struct unpacked *u,
    const uint8_t *x, size_t width, const int n, __m256 sum[2][TILE_COLUMNS])
{
    if (u && is_summed(f)) {
        add_summed(f, u, x, width, n, sum);
    } else if (u) {
        add_half(f, u, x, width, n, 0, sum[0]);
        add_half(f, u, x, width, n, 1, sum[1]);
    } else if (n <= few_columns(f))
        add_few(f, t, tile, x, n == 1 ? 1 : width, n, sum);
}

LUTRA_INLINE void add_columns(struct form f, const struct tables *t, const uint8_t *tile, const struct unpacked *u,
    const uint8_t *x, size_t width, size_t n, __m256 sum[2][TILE_COLUMNS])
{
    switch (n) {
    case 1: add_some(f, t, tile, u, x, width, 1, sum); break;
    case 2: add_some(f, t, tile, u, x, width, 2, sum); break;
    case 3: add_some(f, t, tile, u, x, width, 3, sum); break;
    default: add_some(f, t, tile, u, x, width, 4, sum); break;
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
    const size_t n = end - first, shares = (n + TILE_COLUMNS - 1) / TILE_COLUMNS;
    const bool few = n <= (size_t)few_columns(f);
    for (size_t s = 0; s < shares; s++) {
        for (int c = 0; c < TILE_COLUMNS; c++) sum[s][0][c] = sum[s][1][c] = _mm256_setzero_ps();
    }
    for (size_t k = 0; k < a->n_in / TILE_K; k++, w += tile_bytes(f)) {
        u.ahead = w + 2 * tile_bytes(f);
        if (!few) unpack(f, t, w, &u);
        for (size_t s = 0; s < shares; s++) {
            size_t width, r = first + s * TILE_COLUMNS;
            const uint8_t *x = record_of(a, r, k, &width);
            add_columns(f, t, w, few ? NULL : &u, x, width, end - r, sum[s]);
        }
    }
    for (size_t r = first, s = 0; r < end; r += TILE_COLUMNS, s++)
        store_panel_ymm(a, panel, r, end - r < TILE_COLUMNS ? (int)(end - r) : TILE_COLUMNS, sum[s]);
}

LUTRA_INLINE void run_tiles(struct form f, const struct tables *t, const struct cpu_gemm_args *a)
{
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS;
        for (size_t p = a->panel; p < a->panel + a->n_panel; p++) run_panel(f, t, a, p, pass, end);
    }
}

#endif
