/* SPDX-License-Identifier: MIT
 *
 * 256-bit matmul of the formats with 256-element blocks; the arithmetic of gemm_super_avx512.c, to the bit.
 *
 * Needs: the instructions that gemm_tile_ymm_tmpl.h needs, and
 *     enum { WIDE_CODES };   1 if dot_step takes unsigned codes up to 255, 0 if only up to 128
 * Gives: run_q4_k and so on.
 */
#ifndef LUTRA_CPU_X86_GEMM_SUPER_YMM_TMPL_H
#define LUTRA_CPU_X86_GEMM_SUPER_YMM_TMPL_H

#include <immintrin.h>

#include "cpu/x86/gemm_super_form_ymm_impl.h"
#include "quant/formats.h"

/* Values of a table are up to 127 in magnitude. */
LUTRA_INLINE bool is_signed(struct form f)
{
    return f.codes == TABLE && !WIDE_CODES;
}

LUTRA_INLINE int largest_code(struct form f)
{
    if (f.codes == TABLE) return is_signed(f) ? 127 : 255;
    return high_bytes(f) ? code_mask(f) | high_mask(f) : code_mask(f);
}

LUTRA_INLINE int offset_bits(struct form f)
{
    return has_offset(f) && !is_signed(f) ? 5 + start_shift(f) : -1;
}

/* Both halves of a group of IQ4_XS have its scale. */
LUTRA_INLINE int sum_steps(struct form f)
{
    return f.codes == TABLE && WIDE_CODES ? 8 : group_steps(f);
}

LUTRA_INLINE bool is_summed(struct form f)
{
    return WIDE_CODES && scales_fit_values(f);
}

/* Added to codes of Q3_K times their scales. */
enum { SCALED_OFFSET = 124 };

LUTRA_INLINE int sum_start(struct form f)
{
    if (f.scales == NO_SCALES) return 1;
    return is_summed(f) && f.scales == SCALE_6 ? SCALED_OFFSET : 0;
}

/* Where codes stay in place, they take so few instructions to read that two columns or more read them anew. */
LUTRA_INLINE int few_columns(struct form f)
{
    if (!WIDE_CODES) return 1;
    if (f.scales == NO_SCALES) return 4;
    return f.codes == FOUR_BITS || f.codes == FIVE_BITS ? 2 : 1;
}

#include "cpu/x86/gemm_tile_ymm_tmpl.h"

struct tables {
    __m256i iq4; /* IQ4_NL's values, + 128 unless is_signed */
};

LUTRA_INLINE struct tables make_tables(struct form f)
{
    static const int8_t VALUES[16] = QUANT_IQ4_NL_VALUES;
    const __m128i values = _mm_loadu_si128((const __m128i *)VALUES);
    const __m128i codes = is_signed(f) ? values : _mm_xor_si128(values, _mm_set1_epi8((char)0x80));
    return (struct tables){_mm256_broadcastsi128_si256(codes)};
}

/* Codes of inputs 32 g + 4 v .. 32 g + 4 v + 3 of 8 rows, as they are multiplied. */
LUTRA_INLINE __m256i operand(struct form f, const struct tables *t, const struct tile *tile, int g, int v)
{
    __m256i codes = load_codes(f, tile, g, v);
    return f.codes == TABLE ? _mm256_shuffle_epi8(t->iq4, codes) : codes;
}

/* Groups share bytes: what the compiler kept of them in registers, it would have to store elsewhere. */
LUTRA_INLINE void forget_codes(struct tile *tile)
{
    tile->code = compiler_unknown(tile->code);
    tile->high = compiler_unknown(tile->high);
}

/* Codes times their scales.  Two codes are a word; those of Q3_K have an offset of 4, which is taken off. */
LUTRA_INLINE __m256i scaled_codes(struct form f, __m256i codes, __m256i scale)
{
    __m256i c = _mm256_mullo_epi16(codes, scale);
    if (f.scales != SCALE_6) return c;
    __m256i offset = _mm256_mullo_epi16(scale, _mm256_set1_epi16(0x0404));
    return _mm256_add_epi16(c, _mm256_sub_epi16(_mm256_set1_epi8(SCALED_OFFSET), offset));
}

LUTRA_INLINE void unpack(struct form f, const struct tables *t, const uint8_t *w, struct unpacked *u)
{
    const int sums = TILE_K / 4 / group_steps(f);
    for (int half = 0; half < 2; half++) {
        struct tile tile = tile_at(f, w, half);
        UNROLL
        for (int g = 0; g < 8; g++) {
            forget_codes(&tile);
            UNROLL
            for (int v = 0; v < 8; v++) {
                __m256i codes = operand(f, t, &tile, g, v);
                if (is_summed(f) && f.scales != NO_SCALES)
                    codes = scaled_codes(f, codes, load_scale(f, &tile, (8 * g + v) / group_steps(f)));
                _mm256_store_si256((__m256i *)(u->code[8 * g + v] + 32 * half), codes);
            }
        }
        UNROLL
        for (int i = 0; i < sums; i += 2) {
            __m256i a = load_scale(f, &tile, i), b = load_scale(f, &tile, i + 1);
            if (!is_summed(f)) {
                u->scale[half][i] = scale_operand(a);
                u->scale[half][i + 1] = scale_operand(b);
                if (offset_bits(f) >= 0) u->pair[half][i / 2] = _mm256_blend_epi16(a, b, 0xaa);
            }
            if (has_minima(f)) u->min[half][i / 2] = load_min_pair(f, &tile, i);
        }
        u->d[half] = load_f16(tile.d);
        if (has_minima(f)) u->dmin[half] = load_f16(tile.dmin);
    }
}

/* Where all unsigned bytes may be multiplied, codes stay where they lie in theirs: their sums are shifted instead. */
LUTRA_INLINE bool stays_in_place(struct form f)
{
    return WIDE_CODES && f.codes != TABLE;
}

/* Part 0 of codes in place, and part 1, what they have besides. */
LUTRA_INLINE __m256i codes_in_place(struct form f, const struct tile *tile, int g, int v, const int part)
{
    if (part)
        return _mm256_and_si256(load(tile->high + STEP_BYTES * high_vector(f, g, v)),
            _mm256_set1_epi8((char)((high_mask(f) >> high_place(f)) << high_bit(f, g))));
    return _mm256_and_si256(load(tile->code + STEP_BYTES * code_vector(f, g, v)),
        _mm256_set1_epi8((char)(code_mask(f) << code_bit(f, g, v))));
}

/* The sum of codes' products from those of their parts. */
LUTRA_INLINE __m256i join_parts(struct form f, int g, __m256i low, __m256i high)
{
    low = _mm256_sra_epi32(low, _mm_cvtsi32_si128(code_bit(f, g, 0)));
    if (!high_bytes(f)) return low;
    const int up = high_place(f) - high_bit(f, g);
    high = up >= 0 ? _mm256_sll_epi32(high, _mm_cvtsi32_si128(up)) : _mm256_sra_epi32(high, _mm_cvtsi32_si128(-up));
    return _mm256_add_epi32(low, high);
}

/* What part p of sum i of a tile, in group g, starts from where codes stay in place; x: of the column. */
LUTRA_INLINE __m256i start_in_place(struct form f, const uint8_t *x, size_t width, int g, int i, const int p)
{
    if (p || !has_offset(f)) return _mm256_setzero_si256();
    const int up = start_shift(f) + code_bit(f, g, 0);
    __m256i start = broadcast(x + (280 + 4 * (size_t)i) * width);
    return up < 0 ? _mm256_sra_epi32(start, _mm_cvtsi32_si128(-up)) : _mm256_sll_epi32(start, _mm_cvtsi32_si128(up));
}

/* dot += group g (32 inputs) of the tile at w, for n columns and some halves of its rows; x: the columns' record. */
LUTRA_INLINE void add_group(struct form f, const struct tables *t, struct tile tile[2], const uint8_t *w, int g,
    const uint8_t *x, size_t width, const int n, const int halves, __m256i dot[2][TILE_COLUMNS])
{
    const int steps = group_steps(f), part = part_steps(steps, largest_code(f), MOST_SUM);
    const bool in_place = stays_in_place(f);
    const int parts = in_place && high_bytes(f) ? 2 : 1;
    const uint8_t *at = x + 32 * (size_t)g * width;
    __m256i acc[2][2][TILE_COLUMNS], scale[2][2];
    UNROLL
    for (int h = 0; h < halves; h++) forget_codes(&tile[h]);
    UNROLL
    for (int v = 0; v < 8; v++, at += 4 * width) {
        const int i = v / steps, of_tile = 8 / steps * g + i;
        __m256i b[TILE_COLUMNS];
        if (halves == 2) prefetch_line(f, w, g, v / 2, v % 2);
        if (halves == 1) prefetch_line(f, w, g, v, tile->half);
        UNROLL
        for (int c = 0; c < n; c++) b[c] = broadcast(at + 4 * c);
        UNROLL
        for (int h = 0; h < halves; h++) {
            UNROLL
            for (int p = 0; p < parts; p++) {
                __m256i codes = in_place ? codes_in_place(f, &tile[h], g, v, p) : operand(f, t, &tile[h], g, v);
                UNROLL
                for (int c = 0; c < n; c++) {
                    __m256i *a = &acc[p][h][c];
                    if (v % part == 0) {
                        *a = in_place ? start_in_place(f, x + 4 * c, width, g, of_tile, p) : _mm256_setzero_si256();
                    }
                    *a = dot_codes(f, *a, codes, b[c]);
                    COMPILER_UNKNOWN_VECTOR(*a); /* one sum after the other, in one register */
                }
            }
            /* In place there are more sums: fewer registers for scales, which are read when they are wanted. */
            if (v % steps == (in_place ? steps - 1 : 0)) scale[h][i] = load_scale(f, &tile[h], of_tile);
            if (v % part < part - 1) continue;
            UNROLL
            for (int c = 0; c < n; c++) {
                __m256i sum = in_place ? join_parts(f, g, acc[0][h][c], acc[1][h][c]) : acc[0][h][c];
                if (f.scales != NO_SCALES || !WIDE_CODES) sum = times(sum, scale_operand(scale[h][i]));
                dot[h][c] = _mm256_add_epi32(dot[h][c], sum);
                COMPILER_UNKNOWN_VECTOR(dot[h][c]);
            }
        }
    }
    if (offset_bits(f) < 0 || in_place) return;
    const uint8_t *sums = sums_of_inputs(f, x, width) + 4 * (size_t)g * width;
    UNROLL
    for (int h = 0; h < halves; h++) {
        __m256i pair = _mm256_slli_epi16(_mm256_blend_epi16(scale[h][0], scale[h][1], 0xaa), offset_bits(f));
        UNROLL
        for (int c = 0; c < n; c++)
            dot[h][c] = _mm256_sub_epi32(dot[h][c], _mm256_madd_epi16(pair, broadcast(sums + 4 * c)));
    }
}

/* sum -= a tile's minima times the inputs' sums.  They are used as they are read: by way of memory, as sum_pairs has
 * them, Q4_K took 5 % longer. */
LUTRA_INLINE void subtract_minima(
    struct form f, const struct tile *tile, const uint8_t *x, size_t width, const int n, __m256 sum[TILE_COLUMNS])
{
    const uint8_t *sums = sums_of_inputs(f, x, width);
    __m256i min[TILE_COLUMNS];
    UNROLL
    for (int c = 0; c < n; c++) min[c] = _mm256_setzero_si256();
    UNROLL
    for (int p = 0; p < TILE_K / 8 / group_steps(f); p++, sums += 4 * width) {
        __m256i pair = load_min_pair(f, tile, 2 * p);
        UNROLL
        for (int c = 0; c < n; c++) min[c] = _mm256_add_epi32(min[c], _mm256_madd_epi16(pair, broadcast(sums + 4 * c)));
    }
    UNROLL
    for (int c = 0; c < n; c++)
        sum[c] = subtract_min(sum[c], min[c], load_f16(tile->dmin), scale_of_inputs(x, width) + 4 * c);
}

/* `halves` of a tile, from `first` on. */
LUTRA_INLINE void add_few_halves(struct form f, const struct tables *t, const uint8_t *w, const uint8_t *x,
    size_t width, const int n, const int first, const int halves, __m256 sum[2][TILE_COLUMNS])
{
    struct tile tile[2] = {tile_at(f, w, first), tile_at(f, w, 1)};
    __m256i dot[2][TILE_COLUMNS];
    UNROLL
    for (int c = 0; c < n; c++) {
        dot[0][c] = f.scales == NO_SCALES ? broadcast(start_of_inputs(x, width) + 4 * c) : _mm256_setzero_si256();
        dot[1][c] = dot[0][c];
    }
    /* One column is worth constants for shifts and places; more would only be too long for the decoded instructions. */
    if (n == 1) {
        UNROLL
        for (int g = 0; g < 8; g++) add_group(f, t, tile, w, g, x, width, n, halves, dot);
    } else {
        for (int g = 0; g < 8; g++) add_group(f, t, tile, w, g, x, width, n, halves, dot);
    }
    UNROLL
    for (int h = 0; h < halves; h++) {
        UNROLL
        for (int c = 0; c < n; c++) {
            sum[first + h][c] =
                add_dot(sum[first + h][c], dot[h][c], load_f16(tile[h].d), scale_of_inputs(x, width) + 4 * c);
        }
        if (has_minima(f)) subtract_minima(f, &tile[h], x, width, n, sum[first + h]);
    }
}

LUTRA_INLINE void add_few(struct form f, const struct tables *t, const uint8_t *w, const uint8_t *x, size_t width,
    const int n, __m256 sum[2][TILE_COLUMNS])
{
    if (n <= 2) { /* registers hold the sums of both halves */
        add_few_halves(f, t, w, x, width, n, 0, 2, sum);
    } else {
        add_few_halves(f, t, w, x, width, n, 0, 1, sum);
        add_few_halves(f, t, w, x, width, n, 1, 1, sum);
    }
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    const struct tables tables = make_tables(f);
    run_tiles(f, &tables, a);
}

#include "cpu/gemm_super_runs_tmpl.h"

#include "cpu/gemm_super_low_runs_tmpl.h"

#endif
