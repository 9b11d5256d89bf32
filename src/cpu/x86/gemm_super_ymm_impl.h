/* SPDX-License-Identifier: MIT
 *
 * 256-bit matmul of the formats with 256-element blocks; the arithmetic of gemm_super_avx512.c, to the bit.
 *
 * Included by one file per instruction set, which defines before what gemm_tile_ymm_impl.h wants, and
 *     enum { WIDE_CODES };   1 if dot_step takes unsigned codes up to 255, 0 if only up to 128
 * and gets run_q4_k and so on.
 */
#ifndef LUTRA_CPU_X86_GEMM_SUPER_YMM_H
#define LUTRA_CPU_X86_GEMM_SUPER_YMM_H

#include <immintrin.h>

#include "cpu/x86/gemm_super_form_ymm_impl.h"

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

LUTRA_INLINE bool has_start(struct form f)
{
    return f.scales == NO_SCALES;
}

#include "cpu/x86/gemm_tile_ymm_impl.h"

struct tables {
    __m256i iq4; /* IQ4_NL's values, + 128 unless is_signed */
};

LUTRA_INLINE struct tables make_tables(struct form f)
{
    const __m128i values = _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    const __m128i codes = is_signed(f) ? values : _mm_xor_si128(values, _mm_set1_epi8((char)0x80));
    return (struct tables){_mm256_broadcastsi128_si256(codes)};
}

/* Codes of inputs 32 g + 4 v .. 32 g + 4 v + 3 of 8 rows, as they are multiplied. */
LUTRA_INLINE __m256i operand(struct form f, const struct tables *t, const struct tile *tile, int g, int v)
{
    __m256i codes = load_codes(f, tile, g, v);
    return f.codes == TABLE ? _mm256_shuffle_epi8(t->iq4, codes) : codes;
}

LUTRA_INLINE void unpack(struct form f, const struct tables *t, const uint8_t *w, struct unpacked *u)
{
    const int sums = TILE_K / 4 / group_steps(f);
    for (int half = 0; half < 2; half++) {
        const struct tile tile = tile_at(f, w, half);
        UNROLL
        for (int g = 0; g < 8; g++) {
            prefetch_of(f, w, 8 * half + g, 16);
            UNROLL
            for (int v = 0; v < 8; v++)
                _mm256_store_si256((__m256i *)(u->code[8 * g + v] + 32 * half), operand(f, t, &tile, g, v));
        }
        UNROLL
        for (int i = 0; i < sums; i += 2) {
            __m256i a = load_scale(f, &tile, i), b = load_scale(f, &tile, i + 1);
            u->scale[half][i] = scale_operand(a);
            u->scale[half][i + 1] = scale_operand(b);
            if (offset_bits(f) >= 0) u->pair[half][i / 2] = _mm256_blend_epi16(a, b, 0xaa);
            if (has_minima(f)) u->min[half][i / 2] = load_min_pair(f, &tile, i);
        }
        u->d[half] = load_f16(tile.d);
        if (has_minima(f)) u->dmin[half] = load_f16(tile.dmin);
    }
}

/* dot += group g of 32 inputs for one column and both halves; x: its record. */
LUTRA_INLINE void add_group_of_one(
    struct form f, const struct tables *t, const struct tile tile[2], const int g, const uint8_t *x, __m256i dot[2])
{
    const int steps = group_steps(f), part = code_part_steps(f);
    __m256i acc[2], scale[2][2];
    UNROLL
    for (int v = 0; v < 8; v++) {
        __m256i b = broadcast(x + 32 * g + 4 * v);
        UNROLL
        for (int h = 0; h < 2; h++) {
            const int i = v / steps;
            if (v % steps == 0) scale[h][i] = load_scale(f, &tile[h], 8 / steps * g + i);
            if (v % part == 0) acc[h] = _mm256_setzero_si256();
            __m256i w = operand(f, t, &tile[h], g, v);
            acc[h] = is_signed(f) ? dot_signed(acc[h], w, b) : dot_step(acc[h], w, b);
            if (v % part == part - 1) dot[h] = _mm256_add_epi32(dot[h], times(acc[h], scale_operand(scale[h][i])));
        }
    }
    if (offset_bits(f) < 0) return;
    __m256i sums = broadcast(sums_of_inputs(f, x, 1) + 4 * g);
    UNROLL
    for (int h = 0; h < 2; h++) {
        __m256i pair = _mm256_slli_epi16(_mm256_blend_epi16(scale[h][0], scale[h][1], 0xaa), offset_bits(f));
        dot[h] = _mm256_sub_epi32(dot[h], _mm256_madd_epi16(pair, sums));
    }
}

LUTRA_INLINE void add_one(struct form f, const struct tables *t, const uint8_t *w, const uint8_t *x, __m256 sum[2])
{
    const struct tile tile[2] = {tile_at(f, w, 0), tile_at(f, w, 1)};
    __m256i dot[2];
    dot[0] = dot[1] = has_start(f) ? broadcast(start_of_inputs(x, 1)) : _mm256_setzero_si256();
    UNROLL
    for (int g = 0; g < 8; g++) {
        prefetch_of(f, w, g, 8);
        add_group_of_one(f, t, tile, g, x, dot);
    }
    UNROLL
    for (int h = 0; h < 2; h++) {
        sum[h] = add_dot(sum[h], dot[h], load_f16(tile[h].d), scale_of_inputs(x, 1));
        if (!has_minima(f)) continue;
        __m256i min = _mm256_setzero_si256();
        UNROLL
        for (int p = 0; p < TILE_K / 8 / group_steps(f); p++) {
            __m256i sums = broadcast(sums_of_inputs(f, x, 1) + 4 * p);
            min = _mm256_add_epi32(min, _mm256_madd_epi16(load_min_pair(f, &tile[h], 2 * p), sums));
        }
        sum[h] = subtract_min(sum[h], min, load_f16(tile[h].dmin), scale_of_inputs(x, 1));
    }
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    const struct tables tables = make_tables(f);
    run_tiles(f, &tables, a);
}

#include "cpu/gemm_super_runs_impl.h"

#include "cpu/gemm_super_low_runs_impl.h"

#endif
