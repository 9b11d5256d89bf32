/* SPDX-License-Identifier: MIT
 *
 * 256-bit matmul of the formats with 256-element blocks; the arithmetic of gemm_super_avx512.c, to the bit.
 *
 * Included by one file per instruction set, which defines before:
 *     __m256i dot_step(__m256i acc, __m256i w, __m256i x);    acc + 4 products per lane; w unsigned, up to 63; x signed
 * and gets run_q4_k and so on.  A tile is 8 rows (half a panel) x 4 columns.
 */
#ifndef LUTRA_CPU_X86_GEMM_SUPER_YMM_H
#define LUTRA_CPU_X86_GEMM_SUPER_YMM_H

#include <immintrin.h>

#include "cpu/x86/gemm_x86_impl.h"

enum { STEP_BYTES = 64, TILE_COLUMNS = 4 };
enum codes { FOUR_BITS, FIVE_BITS, SIX_BITS, TWO_BITS };

/* One tile of a panel, by section. */
struct tile {
    const uint8_t *code, *high, *scales, *d, *dmin;
};

LUTRA_INLINE __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

LUTRA_INLINE __m256 load_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

LUTRA_INLINE __m256i broadcast(const uint8_t *p)
{
    return _mm256_set1_epi32(*(const int *)(const void *)p);
}

LUTRA_INLINE size_t tile_bytes(enum codes f)
{
    static const size_t BYTES[] = {144 * LANES, 176 * LANES, 210 * LANES, 66 * LANES};
    return BYTES[f];
}

/* The tile at p, for rows 8 half .. 8 half + 7. */
LUTRA_INLINE struct tile tile_at(enum codes f, const uint8_t *p, int half)
{
    const uint8_t *code = p + 32 * half, *d = p + 16 * half;
    switch (f) {
    case FOUR_BITS: return (struct tile){code, code, code + 2048, d + 2240, d + 2272};
    case FIVE_BITS: return (struct tile){code, code + 2048, code + 2560, d + 2752, d + 2784};
    case SIX_BITS: return (struct tile){code, code + 2048, p + 3072 + 8 * half, d + 3328, p};
    default: return (struct tile){code, code, p, d + 1024, p};
    }
}

/* Unsigned codes of inputs 32g + 4v .. 32g + 4v + 3 of 16 rows. */
LUTRA_INLINE __m256i load_codes(enum codes f, const struct tile *t, int g, int v)
{
    const __m256i low = _mm256_set1_epi8(15);
    if (f == TWO_BITS) {
        __m256i c = load(t->code + STEP_BYTES * (g / 4 * 8 + v));
        return _mm256_and_si256(_mm256_srl_epi16(c, _mm_cvtsi32_si128(2 * (g % 4))), _mm256_set1_epi8(3));
    }
    if (f == SIX_BITS) {
        __m256i c = load(t->code + STEP_BYTES * (g / 4 * 16 + g % 2 * 8 + v));
        __m256i h = load(t->high + STEP_BYTES * (g / 4 * 8 + v));
        c = _mm256_and_si256(_mm256_srl_epi16(c, _mm_cvtsi32_si128(g % 4 / 2 * 4)), low);
        int up = 4 - 2 * (g % 4); /* bits 2 (g % 4) and the next go to bits 4 and 5 */
        h = up >= 0 ? _mm256_sll_epi16(h, _mm_cvtsi32_si128(up)) : _mm256_srli_epi16(h, 2);
        return _mm256_or_si256(c, _mm256_and_si256(h, _mm256_set1_epi8(0x30))); /* c | (h & 0x30) */
    }
    __m256i c = load(t->code + STEP_BYTES * (g / 2 * 8 + v));
    c = _mm256_and_si256(_mm256_srl_epi16(c, _mm_cvtsi32_si128(g % 2 * 4)), low);
    if (f == FIVE_BITS) {
        __m256i h = load(t->high + STEP_BYTES * v);
        h = g < 4 ? _mm256_sll_epi16(h, _mm_cvtsi32_si128(4 - g)) : _mm256_srl_epi16(h, _mm_cvtsi32_si128(g - 4));
        c = _mm256_or_si256(c, _mm256_and_si256(h, _mm256_set1_epi8(16)));
    }
    return c;
}

/* Scales or minima (side 0 or 1) of group g of 16 rows, from the 6-bit fields of Q4_K and Q5_K. */
LUTRA_INLINE __m256i load_six_bits(const struct tile *t, int g, int side)
{
    __m256i own = load(t->scales + STEP_BYTES * side), rest = load(t->scales + STEP_BYTES * 2);
    __m128i shift = _mm_cvtsi32_si128(8 * (g % 4));
    if (g < 4) return _mm256_and_si256(_mm256_srl_epi32(own, shift), _mm256_set1_epi32(63));
    __m256i high = _mm256_and_si256(_mm256_srli_epi32(_mm256_srl_epi32(own, shift), 2), _mm256_set1_epi32(0x30));
    __m256i low = _mm256_srl_epi32(rest, _mm_cvtsi32_si128(8 * (g % 4) + 4 * side));
    return _mm256_or_si256(high, _mm256_and_si256(low, _mm256_set1_epi32(15)));
}

/* dot[c] += groups of 32 inputs with one scale each. */
LUTRA_INLINE void add_group32(
    enum codes f, const struct tile *t, int g, const uint8_t *x, size_t width, int n, __m256i *dot)
{
    __m256i acc[TILE_COLUMNS], scale = load_six_bits(t, g, 0);
    UNROLL
    for (int c = 0; c < n; c++) acc[c] = _mm256_setzero_si256();
    UNROLL
    for (int v = 0; v < 8; v++, x += 4 * width) {
        __m256i w = load_codes(f, t, g, v);
        UNROLL
        for (int c = 0; c < n; c++) acc[c] = dot_step(acc[c], w, broadcast(x + 4 * c));
    }
    UNROLL
    for (int c = 0; c < n; c++) dot[c] = _mm256_add_epi32(dot[c], _mm256_mullo_epi32(acc[c], scale));
}

/* Q6_K: 32 inputs with a scale per 16; start: [2][width]. */
LUTRA_INLINE void add_group16(
    const struct tile *t, int g, const uint8_t *x, const uint8_t *start, size_t width, int n, __m256i *dot)
{
    UNROLL
    for (int h = 0; h < 2; h++, start += 4 * width) {
        __m256i acc[TILE_COLUMNS];
        __m256i scale = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(t->scales + LANES * (2 * g + h))));
        UNROLL
        for (int c = 0; c < n; c++) acc[c] = broadcast(start + 4 * c);
        UNROLL
        for (int v = 4 * h; v < 4 * h + 4; v++, x += 4 * width) {
            __m256i w = load_codes(SIX_BITS, t, g, v);
            UNROLL
            for (int c = 0; c < n; c++) acc[c] = dot_step(acc[c], w, broadcast(x + 4 * c));
        }
        UNROLL
        for (int c = 0; c < n; c++) dot[c] = _mm256_add_epi32(dot[c], _mm256_mullo_epi32(acc[c], scale));
    }
}

LUTRA_INLINE void add_group_ternary(const struct tile *t, int g, const uint8_t *x, size_t width, int n, __m256i *dot)
{
    UNROLL
    for (int v = 0; v < 8; v++, x += 4 * width) {
        __m256i w = load_codes(TWO_BITS, t, g, v);
        UNROLL
        for (int c = 0; c < n; c++) dot[c] = dot_step(dot[c], w, broadcast(x + 4 * c));
    }
}

/* The minima of a tile, times the inputs' sums; sums: i16 pairs [4][width]. */
LUTRA_INLINE void subtract_minima(
    const struct tile *t, const uint8_t *sums, const uint8_t *scale_x, size_t width, int n, __m256 *sum)
{
    __m256i min[TILE_COLUMNS];
    UNROLL
    for (int c = 0; c < n; c++) min[c] = _mm256_setzero_si256();
    UNROLL
    for (int p = 0; p < 4; p++, sums += 4 * width) {
        __m256i pair =
            _mm256_or_si256(load_six_bits(t, 2 * p, 1), _mm256_slli_epi32(load_six_bits(t, 2 * p + 1, 1), 16));
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
LUTRA_INLINE void add_tile(enum codes f, const uint8_t *w, const uint8_t *x, size_t width, int n, int half, __m256 *sum)
{
    struct tile t = tile_at(f, w, half);
    const uint8_t *scale_x = x + 256 * width, *start = scale_x + 4 * width, *sums = start + 4 * width;
    const uint8_t *start16 = sums + 16 * width;
    __m256i dot[TILE_COLUMNS];
    UNROLL
    for (int c = 0; c < n; c++) dot[c] = f == TWO_BITS ? broadcast(start + 4 * c) : _mm256_setzero_si256();
    for (int g = 0; g < 8; g++, x += 32 * width) {
        if (f == TWO_BITS) {
            add_group_ternary(&t, g, x, width, n, dot);
        } else if (f == SIX_BITS) {
            add_group16(&t, g, x, start16 + (size_t)g * 8 * width, width, n, dot);
        } else {
            add_group32(f, &t, g, x, width, n, dot);
        }
    }
    __m256 d = load_f16(t.d);
    UNROLL
    for (int c = 0; c < n; c++) {
        __m256 s = _mm256_mul_ps(d, _mm256_castsi256_ps(broadcast(scale_x + 4 * c)));
        sum[c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[c]), s, sum[c]);
    }
    if (f == FOUR_BITS || f == FIVE_BITS) subtract_minima(&t, sums, scale_x, width, n, sum);
}

LUTRA_INLINE void run_block(enum codes f, const struct cpu_gemm_args *a, const uint8_t *w, size_t panel, size_t row,
    const uint8_t *x, size_t width, int n)
{
    __m256 sum[2][TILE_COLUMNS];
    UNROLL
    for (int c = 0; c < n; c++) sum[0][c] = sum[1][c] = _mm256_setzero_ps();
    for (size_t k = 0; k < a->n_in; k += TILE_K, w += tile_bytes(f), x += width * ACT256_BYTES) {
        add_tile(f, w, x, width, n, 0, sum[0]);
        add_tile(f, w, x, width, n, 1, sum[1]);
    }
    store_panel_ymm(a, panel, row, n, sum);
}

LUTRA_INLINE void run_all(enum codes f, const struct cpu_gemm_args *a)
{
    size_t panel_bytes = cpu_panel_bytes(a->gemm->type, a->n_in), row_bytes = a->n_in / TILE_K * ACT256_BYTES;
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS;
        for (size_t p = a->panel; p < a->panel + a->n_panel; p++) {
            const uint8_t *w = (const uint8_t *)a->packed + p * panel_bytes;
            for (size_t r = pass; r < end; r += TILE_COLUMNS) {
                struct act_place place = act_place_of(r, a->n_row);
                const uint8_t *x = (const uint8_t *)a->act + (r - place.column) * row_bytes + 4 * place.column;
                switch (end - r) {
                case 1: run_block(f, a, w, p, r, x, place.width, 1); break;
                case 2: run_block(f, a, w, p, r, x, place.width, 2); break;
                case 3: run_block(f, a, w, p, r, x, place.width, 3); break;
                default: run_block(f, a, w, p, r, x, place.width, 4); break;
                }
            }
        }
    }
}

static void run_q4_k(const struct cpu_gemm_args *a)
{
    run_all(FOUR_BITS, a);
}

static void run_q5_k(const struct cpu_gemm_args *a)
{
    run_all(FIVE_BITS, a);
}

static void run_q6_k(const struct cpu_gemm_args *a)
{
    run_all(SIX_BITS, a);
}

static void run_ternary(const struct cpu_gemm_args *a)
{
    run_all(TWO_BITS, a);
}

#endif
