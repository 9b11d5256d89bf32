/* SPDX-License-Identifier: MIT
 *
 * 256-bit matmul of the formats with codebooks; the arithmetic of gemm_book_avx512.c, to the bit.
 *
 * Included by one file per instruction set, which defines before:
 *     __m256i dot_step(__m256i acc, __m256i w, __m256i x);    acc + 4 products per lane; w up to 126, x signed
 *
 *     for each pass of up to PASS_ROWS rows, each panel, each tile of 256 inputs: read it; each group of 4 columns
 */
#ifndef LUTRA_CPU_X86_GEMM_BOOK_YMM_H
#define LUTRA_CPU_X86_GEMM_BOOK_YMM_H

#include "cpu/x86/gemm_book_form_ymm_impl.h"

enum { TILE_COLUMNS = 4, AHEAD_BYTES = 2304 };

/* A tile as it is read. */
struct unpacked {
    LUTRA_ALIGNED(64) uint8_t code[STEPS][STEP_BYTES];
    __m256i scale[2][16];
    __m256 d[2];
};

LUTRA_INLINE __m256i broadcast(const uint8_t *p)
{
    return _mm256_set1_epi32(*(const int *)(const void *)p);
}

LUTRA_INLINE void unpack(struct form f, const struct tables *t, const uint8_t *tile, struct unpacked *u)
{
    const int sums = STEPS / group_steps(f);
    for (int half = 0; half < 2; half++) {
        read_codes(f, t, tile, half, u->code[0]);
        UNROLL
        for (int i = 0; i < sums; i++) u->scale[half][i] = load_scale(f, tile, i, half);
        u->d[half] = load_d(f, tile, half);
    }
    for (size_t i = 0; i < tile_bytes(f); i += 64) LUTRA_PREFETCH(tile + AHEAD_BYTES + i);
}

/* What a sum that is scaled at once starts from. */
LUTRA_INLINE __m256i start_of(struct form f, const uint8_t *start16, size_t width)
{
    __m256i start = broadcast(start16);
    if (group_steps(f) == 8) start = _mm256_add_epi32(start, broadcast(start16 + 4 * width));
    return _mm256_slli_epi32(start, START_SHIFT);
}

/* One tile for n columns and 8 rows; x: the columns' record. */
LUTRA_INLINE void add_tile(
    struct form f, const struct unpacked *u, const uint8_t *x, size_t width, const int n, int half, __m256 *sum)
{
    const uint8_t *scale_x = x + 256 * width, *start16 = x + 280 * width;
    const int steps = group_steps(f);
    __m256i dot[TILE_COLUMNS];
    UNROLL
    for (int c = 0; c < n; c++) dot[c] = _mm256_setzero_si256();
    for (int i = 0; i < STEPS / steps; i++, start16 += steps * width) {
        __m256i acc[TILE_COLUMNS];
        UNROLL
        for (int c = 0; c < n; c++) acc[c] = start_of(f, start16 + 4 * c, width);
        UNROLL
        for (int v = 0; v < steps; v++, x += 4 * width) {
            __m256i w = _mm256_load_si256((const __m256i *)(u->code[steps * i + v] + 32 * half));
            UNROLL
            for (int c = 0; c < n; c++) acc[c] = dot_step(acc[c], w, broadcast(x + 4 * c));
        }
        UNROLL
        for (int c = 0; c < n; c++) dot[c] = _mm256_add_epi32(dot[c], _mm256_mullo_epi32(acc[c], u->scale[half][i]));
    }
    UNROLL
    for (int c = 0; c < n; c++) {
        __m256 s = _mm256_mul_ps(u->d[half], _mm256_castsi256_ps(broadcast(scale_x + 4 * c)));
        sum[c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[c]), s, sum[c]);
    }
}

LUTRA_INLINE void add_columns(
    struct form f, const struct unpacked *u, const uint8_t *x, size_t width, size_t n, __m256 sum[2][TILE_COLUMNS])
{
    for (int half = 0; half < 2; half++) {
        switch (n) {
        case 1: add_tile(f, u, x, width, 1, half, sum[half]); break;
        case 2: add_tile(f, u, x, width, 2, half, sum[half]); break;
        case 3: add_tile(f, u, x, width, 3, half, sum[half]); break;
        default: add_tile(f, u, x, width, 4, half, sum[half]); break;
        }
    }
}

/* One panel for rows first .. end - 1. */
LUTRA_INLINE void run_panel(
    struct form f, const struct tables *t, const struct cpu_gemm_args *a, size_t panel, size_t first, size_t end)
{
    __m256 sum[PASS_ROWS / TILE_COLUMNS][2][TILE_COLUMNS];
    struct unpacked u;
    size_t row_bytes = a->n_in / TILE_K * ACT256_BYTES;
    const uint8_t *w = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in);
    for (size_t s = 0; s < PASS_ROWS / TILE_COLUMNS; s++) {
        for (int c = 0; c < TILE_COLUMNS; c++) sum[s][0][c] = sum[s][1][c] = _mm256_setzero_ps();
    }
    for (size_t k = 0; k < a->n_in / TILE_K; k++, w += tile_bytes(f)) {
        unpack(f, t, w, &u);
        for (size_t r = first; r < end; r += TILE_COLUMNS) {
            struct act_place place = act_place_of(r, a->n_row);
            const uint8_t *x = (const uint8_t *)a->act + (r - place.column) * row_bytes +
                               k * ACT256_BYTES * place.width + 4 * place.column;
            add_columns(f, &u, x, place.width, end - r, sum[(r - first) / TILE_COLUMNS]);
        }
    }
    for (size_t r = first, s = 0; r < end; r += TILE_COLUMNS, s++)
        store_panel_ymm(a, panel, r, end - r < TILE_COLUMNS ? (int)(end - r) : TILE_COLUMNS, sum[s]);
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    struct tables tables;
    make_tables(f, &tables);
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS;
        for (size_t p = a->panel; p < a->panel + a->n_panel; p++) run_panel(f, &tables, a, p, pass, end);
    }
}

#include "cpu/x86/gemm_book_runs_impl.h"

#endif
