/* SPDX-License-Identifier: MIT
 *
 * 256-bit matmul of the formats with codebooks; the arithmetic of gemm_book_avx512.c, to the bit.
 *
 * One column takes signs to its inputs, and magnitudes as they are read, 8 inputs of a row at a time; the two words of
 * a row are added once a tile.  More columns have codes, value + offset.
 *
 * Needs: the instructions that gemm_tile_ymm_tmpl.h needs.
 * Gives: run_iq2_xxs and so on.
 */
#ifndef LUTRA_CPU_X86_GEMM_BOOK_YMM_TMPL_H
#define LUTRA_CPU_X86_GEMM_BOOK_YMM_TMPL_H

#include "cpu/x86/gemm_book_form_ymm_impl.h"

LUTRA_INLINE int offset_bits(struct form f)
{
    return f.book == BOOK_IQ3_S ? 4 : 6;
}

LUTRA_INLINE int largest_code(struct form f)
{
    return (1 << offset_bits(f)) + largest_magnitude(f);
}

LUTRA_INLINE bool is_signed(struct form f)
{
    (void)f;
    return false;
}

LUTRA_INLINE bool has_minima(struct form f)
{
    (void)f;
    return false;
}

LUTRA_INLINE int sum_steps(struct form f)
{
    return group_steps(f);
}

LUTRA_INLINE bool is_summed(struct form f)
{
    (void)f;
    return false;
}

LUTRA_INLINE int sum_start(struct form f)
{
    (void)f;
    return 0;
}

LUTRA_INLINE int few_columns(struct form f)
{
    (void)f;
    return 1;
}

#include "cpu/x86/gemm_tile_ymm_tmpl.h"

LUTRA_INLINE void unpack_codes(struct form f, const struct tables *t, const uint8_t *tile, int half, uint8_t *to)
{
    const __m256i offset = _mm256_set1_epi8((char)(1 << offset_bits(f)));
    struct indices in[8];
    load_indices(f, tile, half, in);
    for (int g = 0; g < 8; g++) {
        struct signs signs = spread_signs(load_signs(f, tile, g, half));
        __m256i step[4];
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

/* dot += group g of 32 inputs for one column and 8 rows, half of 8 inputs of a row in each word (eight_of_rows); x: the
 * group's inputs. */
LUTRA_INLINE void add_group_of_one(struct form f, const struct tables *t, const uint8_t *tile, const struct indices *in,
    int g, int half, const uint8_t *x, __m256i dot[2])
{
    const int eights = group_steps(f) / 2, part = part_steps(eights, largest_magnitude(f), MOST_SUM);
    struct row_signs signs = signs_of_rows(load_signs(f, tile, g, half));
    __m256i scale[2][2];
    const uint8_t *scales = scale_bytes(f, tile, g * (4 / eights));
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
            prefetch_line(f, tile, g, 4 * p + i, half);
            __m256i inputs = _mm256_set1_epi64x((long long)load_u64(x + 32 * g + 8 * i));
            inputs = _mm256_sign_epi8(inputs, signs_of_eight(signs.rows[p], i));
            if (i % part == 0) acc = _mm256_setzero_si256();
            acc = dot_step(acc, eight_of_rows(f, t, tile, in, g, i, half, p), inputs);
            COMPILER_UNKNOWN_VECTOR(acc); /* one sum after the other, in one register */
            if (i % part < part - 1) continue;
            dot[p] = _mm256_add_epi32(dot[p], times(acc, scale[p][i / eights]));
            COMPILER_UNKNOWN_VECTOR(dot[p]);
        }
    }
}

LUTRA_INLINE void add_few(struct form f, const struct tables *t, const uint8_t *tile, const uint8_t *x, size_t width,
    const int n, __m256 sum[2][TILE_COLUMNS])
{
    (void)n;
    for (int half = 0; half < 2; half++) {
        __m256i dot[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        struct indices in[8];
        load_indices(f, tile, half, in);
        for (int g = 0; g < 8; g++) add_group_of_one(f, t, tile, &in[g], g, half, x, dot);
        __m256i rows = _mm256_hadd_epi32(dot[0], dot[1]);
        sum[half][0] = add_dot(sum[half][0], rows, load_d(f, tile, half), scale_of_inputs(x, width));
    }
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    struct tables tables;
    make_tables(f, &tables);
    run_tiles(f, &tables, a);
}

#include "cpu/gemm_book_runs_tmpl.h"

#endif
