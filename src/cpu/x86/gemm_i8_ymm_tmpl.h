/* SPDX-License-Identifier: MIT
 *
 * 256-bit matmul of the formats with 32-element blocks; the arithmetic of gemm_i8_avx512.c, to the bit.
 *
 * Needs:
 *     enum { WIDE_CODES };   1 if dot_step takes unsigned codes up to 255, 0 if only up to 128; then small ones
 *                            are summed in parts of 16 bits (short_steps):
 *     __m256i short_step(__m256i part, __m256i w, __m256i x);  part + 2 products per lane of 16 bits
 *     __m256i add_short(__m256i acc, __m256i part, int unit);  acc + unit times each lane's two
 *     __m256i dot_step(__m256i acc, __m256i w, __m256i x);    acc + 4 products per lane, w unsigned, x signed
 *     __m256i dot_signed(__m256i acc, __m256i w, __m256i x);  the same for signed w (only without WIDE_CODES)
 * Gives: run_q4_0 and so on.
 *
 * A tile is 16 rows (a panel, in two halves) x 4 columns.
 *
 *     for each pass of up to PASS_ROWS rows, each panel, each tile of 256 inputs, each group of 4 columns
 *
 * A tile's weights stay in L1 for all columns, as codes where many_shares full groups of them expand them once; what
 * comes AHEAD_BYTES or, since expanding takes its time, two tiles later is prefetched meanwhile, spread over them.
 */
#ifndef LUTRA_CPU_X86_GEMM_I8_YMM_TMPL_H
#define LUTRA_CPU_X86_GEMM_I8_YMM_TMPL_H

#include <immintrin.h>
#include <stdint.h>

#include "cpu/x86/gemm_x86_impl.h"

enum { STEP_BYTES = 64, TILE_COLUMNS = 4, AHEAD_BYTES = 2304 };

#include "cpu/gemm_i8_form_tmpl.h"

LUTRA_INLINE __m256i code_table(struct form f)
{
    const __m128i iq4_nl = _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, (char)129, (char)141, (char)153, (char)166,
        (char)181, (char)197, (char)217, (char)241);
    const __m128i mxfp4 = _mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4);
    return _mm256_broadcastsi128_si256(f.scales == E8M0_SCALE ? mxfp4 : iq4_nl);
}

LUTRA_INLINE __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* Whether codes go to dot_signed: they have offset 128 and are up to 255. */
LUTRA_INLINE bool is_signed(struct form f)
{
    return f.start_shift == 4 && !WIDE_CODES;
}

/* Steps that are summed in 16 bits, 8 or 4; 0: none. */
LUTRA_INLINE int short_steps(struct form f)
{
    const int largest = f.codes == FIVE_BITS ? 31 : f.codes == TABLE ? 28 : 15;
    return WIDE_CODES || is_signed(f) ? 0 : part_steps(8, largest, INT16_MAX);
}

/* Codes of forms with `shared` are times 8, but for those in short sums. */
LUTRA_INLINE int code_place(struct form f)
{
    return f.shared && !short_steps(f) ? 3 : 0;
}

/* Bits from `first` on at `to`, those of mask. */
LUTRA_INLINE __m256i choose_bits(const uint8_t *codes, const int first, const int to, const int mask)
{
    __m256i c = load(codes);
    if (first < to) c = _mm256_slli_epi16(c, to - first);
    if (first > to) c = _mm256_srli_epi16(c, first - to);
    return _mm256_and_si256(c, _mm256_set1_epi8((char)mask));
}

/* Codes of step v of rows 8 half .. 8 half + 7, unsigned. */
LUTRA_INLINE __m256i load_codes(struct form f, const struct group *g, int v, int half, __m256i table)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    if (f.codes == BYTES) return load(g->code + STEP_BYTES * v + 32 * half);
    const int at = code_place(f);
    if (f.codes == ONE_BIT) return choose_bits(g->code + 32 * half, v, at + 1, 2 << at);
    if (f.codes == TWO_BITS || f.codes == THREE_BITS) {
        __m256i low = choose_bits(g->code + STEP_BYTES * (v / 4) + 32 * half, 2 * (v % 4), at, 3 << at);
        if (f.codes == TWO_BITS) return low;
        return _mm256_or_si256(low, choose_bits(g->bits + 32 * half, v, at + 2, 4 << at));
    }
    if (f.codes == NIBBLES && f.shared)
        return choose_bits(g->code + STEP_BYTES * (v % 4) + 32 * half, v / 4 * 4, at, 15 << at);
    __m256i c = load(g->code + STEP_BYTES * (v & 3) + 32 * half);
    c = _mm256_and_si256(v < 4 ? c : _mm256_srli_epi16(c, 4), nibble);
    if (f.codes == TABLE) return _mm256_shuffle_epi8(table, c);
    if (f.codes == FIVE_BITS) {
        __m256i b = load(g->bits + 32 * half);
        b = v < 4 ? _mm256_slli_epi16(b, 4 - (v & 3)) : _mm256_srli_epi16(b, v & 3);
        c = _mm256_or_si256(c, _mm256_and_si256(b, _mm256_set1_epi8(16)));
    }
    return c;
}

/* The zeros of 8 outputs. */
LUTRA_INLINE __m256i load_zero(const struct group *g, int half)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(g->m + 8 * half)));
}

LUTRA_INLINE __m256 load_scale(struct form f, const uint8_t *d, int half)
{
    if (f.scales != E8M0_SCALE) {
        __m256 scale = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(d + 16 * half)));
        return f.shared ? _mm256_mul_ps(scale, _mm256_set1_ps(value_scale(f))) : scale;
    }
    /* 2^(e - 128): the exponent field e - 1, or a subnormal for e = 0 and 1. */
    __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(d + 8 * half)));
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, tiny, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}

LUTRA_INLINE __m256i broadcast(const uint8_t *p)
{
    return _mm256_set1_epi32(*(const int *)(const void *)p);
}

LUTRA_INLINE __m256 broadcast_f32(const uint8_t *p)
{
    return _mm256_broadcast_ss((const float *)(const void *)p);
}

/* Codes as the dot product takes them. */
LUTRA_INLINE __m256i operand(struct form f, const struct group *g, int v, int half, __m256i table)
{
    __m256i w = load_codes(f, g, v, half, table);
    return is_signed(f) ? _mm256_xor_si256(w, _mm256_set1_epi8((char)0x80)) : w;
}

/* Full groups of columns from which on codes are expanded once, for these. */
LUTRA_INLINE size_t many_shares(struct form f)
{
    if (f.codes == BYTES && !is_signed(f)) return SIZE_MAX;
    return !WIDE_CODES || f.codes == FIVE_BITS || f.codes == THREE_BITS ? 2 : 4;
}

/* What the sum of half h of a group starts from; start: of the column. */
LUTRA_INLINE __m256i start_of(struct form f, const struct group *g, int h, const uint8_t *start)
{
    if (f.start_shift < 0 || is_signed(f)) return _mm256_setzero_si256();
    __m256i s = _mm256_slli_epi32(broadcast(start), f.start_shift);
    return f.scales == F16_SCALE_AND_ZERO ? _mm256_madd_epi16(load_zero(g, h), s) : s;
}

/* One group for n of a block's `width` columns, the first at x: one broadcast of 4 inputs serves both halves of the
 * panel. codes: the group's operands [8 steps][16 rows][4], or NULL.  Prefetches a group at `ahead`, up to two lines
 * per step, if any. */
LUTRA_INLINE void add_group(struct form f, const struct group *g, const uint8_t *codes, const uint8_t *x, size_t width,
    int n, __m256i table, const uint8_t *ahead, __m256 (*sum)[TILE_COLUMNS])
{
    const int steps = short_steps(f);
    __m256i acc[2][TILE_COLUMNS], part[2][TILE_COLUMNS];
    const uint8_t *tail = x + 32 * width, *start = tail + 4 * width;
    UNROLL
    for (int v = 0; v < 8; v++, x += 4 * width) {
        __m256i w[2];
        UNROLL
        for (int h = 0; h < 2; h++) {
            size_t line = (size_t)(8 * h + v) * 64;
            if (line < group_bytes(f) && ahead) LUTRA_PREFETCH(ahead + line);
            w[h] = codes ? load(codes + STEP_BYTES * v + 32 * h) : operand(f, g, v, h, table);
        }
        UNROLL
        for (int c = 0; c < n; c++) {
            __m256i b = broadcast(x + 4 * c);
            UNROLL
            for (int h = 0; h < 2; h++) {
                if (!steps) {
                    if (v == 0) acc[h][c] = start_of(f, g, h, start + 4 * c);
                    acc[h][c] = is_signed(f) ? dot_signed(acc[h][c], w[h], b) : dot_step(acc[h][c], w[h], b);
                    COMPILER_UNKNOWN_VECTOR(acc[h][c]); /* one sum after the other, in one register */
                    continue;
                }
                part[h][c] = short_step(v % steps ? part[h][c] : _mm256_setzero_si256(), w[h], b);
                COMPILER_UNKNOWN_VECTOR(part[h][c]);
                if (v % steps < steps - 1) continue;
                if (v == steps - 1) acc[h][c] = start_of(f, g, h, start + 4 * c);
                acc[h][c] = add_short(acc[h][c], part[h][c], f.shared ? 8 : 1);
            }
        }
    }
    UNROLL
    for (int h = 0; h < 2; h++) {
        __m256 scale = load_scale(f, g->d, h);
        UNROLL
        for (int c = 0; c < n; c++) {
            sum[h][c] = _mm256_fmadd_ps(
                _mm256_cvtepi32_ps(acc[h][c]), _mm256_mul_ps(scale, broadcast_f32(tail + 4 * c)), sum[h][c]);
        }
        if (f.scales != F16_SCALE_AND_MIN) continue;
        __m256 min = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(g->m + 16 * h)));
        UNROLL
        for (int c = 0; c < n; c++)
            sum[h][c] = _mm256_fmadd_ps(min, broadcast_f32(start + 4 * width + 4 * c), sum[h][c]);
    }
}

/* A tile of weights, and which of its groups to prefetch meanwhile. */
struct tile {
    const uint8_t *w;
    size_t groups;                                          /* 8 but for the last tile of a panel */
    unsigned mine;                                          /* share_of */
    LUTRA_ALIGNED(64) uint8_t code[TILE_K / 4][STEP_BYTES]; /* expanded, for many columns */
};

LUTRA_INLINE void expand_tile(struct form f, struct tile *t, __m256i table)
{
    for (size_t g = 0; g < t->groups; g++) {
        struct group group = group_at(f, t->w, t->groups, g);
        UNROLL
        for (int v = 0; v < 8; v++) {
            uint8_t *to = t->code[8 * g + (size_t)v];
            _mm256_store_si256((__m256i *)to, operand(f, &group, v, 0, table));
            _mm256_store_si256((__m256i *)(to + 32), operand(f, &group, v, 1, table));
        }
    }
}

/* One tile for n of a block's `width` columns. */
LUTRA_INLINE void run_tile(struct form f, const struct tile *t, const bool expanded, const uint8_t *x, size_t width,
    int n, __m256i table, __m256 out[2][TILE_COLUMNS])
{
    __m256 sum[2][TILE_COLUMNS];
    struct group group = group_at(f, t->w, t->groups, 0);
    UNROLL
    for (int c = 0; c < n; c++) sum[0][c] = out[0][c], sum[1][c] = out[1][c];
    const uint8_t *next = t->w + (expanded ? 2 * t->groups * group_bytes(f) : AHEAD_BYTES);
    for (size_t g = 0; g < t->groups; g++, x += ACT32_BYTES * width, next_group(f, &group, g)) {
        const uint8_t *ahead = t->mine >> g & 1 ? next + g * group_bytes(f) : NULL;
        add_group(f, &group, expanded ? t->code[8 * g] : NULL, x, width, n, table, ahead, sum);
    }
    UNROLL
    for (int c = 0; c < n; c++) out[0][c] = sum[0][c], out[1][c] = sum[1][c];
}

/* One panel for rows first .. end - 1. */
LUTRA_INLINE void run_panel(
    struct form f, const struct cpu_gemm_args *a, size_t panel, size_t first, size_t end, __m256i table)
{
    __m256 sum[PASS_ROWS / TILE_COLUMNS][2][TILE_COLUMNS];
    size_t row_bytes = a->n_in / 32 * ACT32_BYTES;
    struct tile t;
    t.w = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in);
    size_t shares = (end - first + TILE_COLUMNS - 1) / TILE_COLUMNS;
    bool many = (end - first) / TILE_COLUMNS >= many_shares(f);
    for (size_t s = 0; s < shares; s++) {
        for (int c = 0; c < TILE_COLUMNS; c++) sum[s][0][c] = sum[s][1][c] = _mm256_setzero_ps();
    }
    for (size_t k = 0; k < a->n_in; k += TILE_K, t.w += t.groups * group_bytes(f)) {
        t.groups = a->n_in - k < TILE_K ? (a->n_in - k) / 32 : TILE_K / 32;
        if (many) expand_tile(f, &t, table);
        for (size_t s = 0; s < shares; s++) {
            size_t r = first + s * TILE_COLUMNS;
            t.mine = share_of(s, shares);
            struct act_place place = act_place_of(r, a->n_row);
            const uint8_t *x = (const uint8_t *)a->act + (r - place.column) * row_bytes +
                               k / 32 * ACT32_BYTES * place.width + 4 * place.column;
            switch (end - r) {
            case 1: run_tile(f, &t, false, x, place.width, 1, table, sum[s]); break;
            case 2: run_tile(f, &t, false, x, place.width, 2, table, sum[s]); break;
            case 3: run_tile(f, &t, false, x, place.width, 3, table, sum[s]); break;
            default:
                if (many) run_tile(f, &t, true, x, place.width, 4, table, sum[s]);
                if (!many) run_tile(f, &t, false, x, place.width, 4, table, sum[s]);
            }
        }
    }
    for (size_t r = first, s = 0; r < end; r += TILE_COLUMNS, s++)
        store_panel_ymm(a, panel, r, end - r < TILE_COLUMNS ? (int)(end - r) : TILE_COLUMNS, sum[s]);
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    __m256i table = code_table(f);
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS;
        for (size_t p = a->panel; p < a->panel + a->n_panel; p++) run_panel(f, a, p, pass, end, table);
    }
}

#include "cpu/gemm_i8_runs_tmpl.h"

#include "cpu/gemm_i8_low_runs_tmpl.h"

#endif
