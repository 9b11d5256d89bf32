/* SPDX-License-Identifier: MIT
 *
 * A single row times a format with a codebook: values are multiplied as they are read, 4 rows x 4 inputs at a time.
 *
 * Needs: the products of a dot_*_impl.h.
 * Gives: run_single.
 */
#ifndef LUTRA_CPU_ARM_GEMM_BOOK_SINGLE_TMPL_H
#define LUTRA_CPU_ARM_GEMM_BOOK_SINGLE_TMPL_H

#include "cpu/arm/gemm_book_read_impl.h"

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

LUTRA_INLINE void run_panel_single(
    struct form f, const struct tables *t, const struct cpu_gemm_args *a, size_t panel, size_t record_bytes)
{
    const uint8_t *w = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in), *x = a->act;
    const struct sign_places places = sign_places_of(f, false);
    float32x4_t sum[QUADS];
    struct indices in;
    for (int q = 0; q < QUADS; q++) sum[q] = vdupq_n_f32(0);
    for (size_t k = 0; k < a->n_in; k += TILE_K, w += tile_bytes(f), x += record_bytes) {
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

/* A call with a single row, whose activations are records of record_bytes: inputs, then their scale. */
LUTRA_INLINE void run_single(struct form f, const struct tables *t, const struct cpu_gemm_args *a, size_t record_bytes)
{
    for (size_t p = a->panel; p < a->panel + a->n_panel; p++) run_panel_single(f, t, a, p, record_bytes);
}

#endif
