/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with codebooks on vectors of 4 rows x 4 inputs (NEON, sdot): class i8x256, the arithmetic of
 * x86/gemm_book_avx512.c to the bit.  A single row takes values as they are read; for more a tile is read once.
 *
 * Included after a dot_*_impl.h, by one file per instruction set; gives run_iq2_xxs and so on.
 */
#ifndef LUTRA_CPU_ARM_GEMM_BOOK_QUADS_H
#define LUTRA_CPU_ARM_GEMM_BOOK_QUADS_H

#include "cpu/arm/gemm_book_read_impl.h"

LUTRA_INLINE bool is_summed(struct form f)
{
    (void)f;
    return false;
}

LUTRA_INLINE bool is_negated(struct form f)
{
    (void)f;
    return false;
}

LUTRA_INLINE int sum_steps(struct form f)
{
    return group_steps(f);
}

LUTRA_INLINE bool in_order(struct form f)
{
    (void)f;
    return true;
}

LUTRA_INLINE bool has_minima(struct form f)
{
    (void)f;
    return false;
}

LUTRA_INLINE int minimum_steps(struct form f)
{
    return group_steps(f);
}

#include "cpu/arm/gemm_tile_quads_impl.h"

/* Byte i of words of four, by a shift that is known or not. */
LUTRA_INLINE int32x4_t byte_of(uint8x16_t words, int i)
{
    uint32x4_t w = vshlq_u32(vreinterpretq_u32_u8(words), vdupq_n_s32(-8 * i));
    return vreinterpretq_s32_u32(vandq_u32(w, vdupq_n_u32(255)));
}

LUTRA_INLINE void unpack(struct form f, const struct tables *t, const uint8_t *w, struct unpacked *u)
{
    read_values(f, t, w, false, u->value[0]);
    for (int q = 0; q < QUADS; q++) {
        UNROLL
        for (int i = 0; i < TILE_K / 4 / group_steps(f); i += 8) {
            uint8x16_t four[2];
            load_scales(f, w, i / 8, q, four);
            UNROLL
            for (int k = 0; k < 8; k++) u->scale[i + k][q] = byte_of(four[k / 4], k % 4);
        }
        u->d[q] = load_d(f, w, q);
    }
}

/* Group g of a tile for a single row; scales: [4 groups each][quad]. */
LUTRA_INLINE void add_group(struct form f, const struct tables *t, const uint8_t *w, const struct indices *in,
    const struct sign_places *places, uint8x16_t scales[4][QUADS], int g, const uint8_t *x, int32x4_t dot[QUADS])
{
    const int eights = group_steps(f) / 2;
    const int8x16_t inputs[2] = {vld1q_s8((const int8_t *)x + 32 * g), vld1q_s8((const int8_t *)x + 32 * g + 16)};
    UNROLL
    for (int q = 0; q < QUADS; q++) {
        const void *group = compiler_unknown(group_indices(f, w, in, g, q));
        const uint8x16_t signs = load_signs(f, w, g, q);
        int32x4_t sum = vdupq_n_s32(0);
        UNROLL
        for (int l = 0; l < 4; l++) {
            const int i = (4 * g + l) / eights;
            int8x16_t v[2];
            load_values(f, t, group, signs, places, l, false, v);
            if (l % eights == 0) sum = vdupq_n_s32(0);
            sum = dot_lane(sum, v[0], inputs[l / 2], l % 2 * 2);
            sum = dot_lane(sum, v[1], inputs[l / 2], l % 2 * 2 + 1);
            if (l % eights == eights - 1) dot[q] = vmlaq_s32(dot[q], sum, byte_of(scales[i / 4][q], i % 4));
        }
    }
}

/* One panel for a single row. */
LUTRA_INLINE void run_single(struct form f, const struct tables *t, const struct cpu_gemm_args *a, size_t panel)
{
    const uint8_t *w = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in), *x = a->act;
    const struct sign_places places = sign_places_of(f, false);
    float32x4_t sum[QUADS];
    struct indices in;
    for (int q = 0; q < QUADS; q++) sum[q] = vdupq_n_f32(0);
    for (size_t k = 0; k < a->n_in; k += TILE_K, w += tile_bytes(f), x += ACT256_BYTES) {
        uint8x16_t scales[4][QUADS], four[2];
        int32x4_t dot[QUADS];
        load_indices(f, w, &in);
        for (int q = 0; q < QUADS; q++) {
            dot[q] = vdupq_n_s32(0);
            for (int i = 0; i < 8 / group_steps(f); i++) {
                load_scales(f, w, i, q, four);
                scales[2 * i][q] = four[0];
                scales[2 * i + 1][q] = four[1];
            }
        }
        for (int g = 0; g < 8; g++) add_group(f, t, w, &in, &places, scales, g, x, dot);
        UNROLL
        for (int q = 0; q < QUADS; q++) {
            float32x4_t scale = vmulq_f32(load_d(f, w, q), broadcast_f32(x + TILE_K));
            sum[q] = vfmaq_f32(sum[q], vcvtq_f32_s32(dot[q]), scale);
        }
    }
    store_tile(a, panel, 0, 0, QUADS, 1, sum);
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    struct tables tables;
    make_tables(f, &tables);
    if (a->n_row > 1) {
        run_tiles(f, &tables, a);
    } else {
        for (size_t p = a->panel; p < a->panel + a->n_panel; p++) run_single(f, &tables, a, p);
    }
}

#include "cpu/gemm_book_runs_impl.h"

#endif
