/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with 32-element blocks on vectors of 4 rows x 4 inputs (NEON, sdot): class i8x32, the
 * arithmetic of x86/gemm_i8_avx512.c to the bit.
 *
 * Needs: the products of a dot_*_impl.h.
 * Gives: run_q4_0 and so on.
 */
#ifndef LUTRA_CPU_ARM_GEMM_I8_QUADS_TMPL_H
#define LUTRA_CPU_ARM_GEMM_I8_QUADS_TMPL_H

#include "cpu/arm/gemm_i8_form_impl.h"

/* Bits from `first` on at `to`, those of mask. */
LUTRA_INLINE uint8x16_t choose_bits(const uint8_t *codes, int first, int to, int mask)
{
    return vandq_u8(vshlq_u8(vld1q_u8(codes), vdupq_n_s8((int8_t)(to - first))), vdupq_n_u8((uint8_t)mask));
}

/* Codes of step v of a quad, within int8. */
LUTRA_INLINE int8x16_t load_codes(struct form f, const struct group *g, int v, int quad, int8x16_t table)
{
    if (f.codes == BYTES)
        return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(g->code + STEP_BYTES * v + 16 * quad), vdupq_n_u8(0x80)));
    if (f.codes == ONE_BIT) return vreinterpretq_s8_u8(choose_bits(g->code + 16 * quad, v, 4, 16));
    if (f.codes == TWO_BITS || f.codes == THREE_BITS) {
        uint8x16_t low = choose_bits(g->code + STEP_BYTES * (v / 4) + 16 * quad, 2 * (v % 4), 3, 24);
        if (f.codes == THREE_BITS) low = vorrq_u8(low, choose_bits(g->bits + 16 * quad, v, 5, 32));
        return vreinterpretq_s8_u8(low);
    }
    if (f.codes == NIBBLES && f.shared)
        return vreinterpretq_s8_u8(choose_bits(g->code + STEP_BYTES * (v % 4) + 16 * quad, v / 4 * 4, 3, 120));
    uint8x16_t c = vld1q_u8(g->code + STEP_BYTES * (v & 3) + 16 * quad);
    c = v < 4 ? vandq_u8(c, vdupq_n_u8(15)) : vshrq_n_u8(c, 4);
    if (f.codes == TABLE) return vqtbl1q_s8(table, c);
    if (f.codes == FIVE_BITS) {
        uint8x16_t b = vshlq_u8(vld1q_u8(g->bits + 16 * quad), vdupq_n_s8((int8_t)(4 - v)));
        c = vorrq_u8(c, vandq_u8(b, vdupq_n_u8(16)));
    }
    return vreinterpretq_s8_u8(c);
}

/* One group for the columns. */
LUTRA_INLINE void add_group(struct form f, const struct group *g, struct columns in, int first, int n_quad,
    int8x16_t table, float32x4_t sum[TILE_SUMS])
{
    struct dots dots;
    const int n = in.n;
    const size_t width = in.width;
    const uint8_t *x = in.x, *tail = x + 32 * width, *start = tail + 4 * width;
    dot_begin(&dots, start, f.start_shift, n_quad, n);
    UNROLL
    for (int q = 0; q < n_quad; q++) {
        if (f.scales != F16_SCALE_AND_ZERO) continue;
        int32x4_t zero = load_zero(g, first + q);
        UNROLL
        for (int c = 0; c < n; c++) {
            int32x4_t *s = &dots.sum[tile_at(q, c, n)];
            *s = vmulq_s32(*s, zero);
        }
    }
    UNROLL
    for (int v = 0; v < 8; v += 2, x += 8 * width) {
        int8x16_t w0[QUADS], w1[QUADS];
        UNROLL
        for (int q = 0; q < n_quad; q++) {
            w0[q] = load_codes(f, g, v, first + q, table);
            w1[q] = load_codes(f, g, v + 1, first + q, table);
        }
        dot_pair(&dots, w0, w1, x, width, n_quad, n, false);
    }
    UNROLL
    for (int q = 0; q < n_quad; q++) {
        float32x4_t scale = load_scale(f, g->d, first + q);
        UNROLL
        for (int c = 0; c < n; c++) {
            float32x4_t *s = &sum[tile_at(q, c, n)];
            float32x4_t dot = vcvtq_f32_s32(dot_of(&dots, q, c, n));
            *s = vfmaq_f32(*s, dot, vmulq_f32(scale, broadcast_f32(tail + 4 * c)));
        }
        if (f.scales != F16_SCALE_AND_MIN) continue;
        float32x4_t min = load_f16(g->m + 8 * (first + q));
        UNROLL
        for (int c = 0; c < n; c++) {
            float32x4_t *s = &sum[tile_at(q, c, n)];
            *s = vfmaq_f32(*s, min, broadcast_f32(start + 4 * width + 4 * c));
        }
    }
}

/* All inputs of n_quad quads of a panel for the columns. */
LUTRA_INLINE void run_quads(
    struct form f, const struct cpu_gemm_args *a, size_t panel, size_t row, struct columns in, int first, int n_quad)
{
    const uint8_t *tile = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in);
    int8x16_t table = code_table(f);
    float32x4_t sum[TILE_SUMS];
    UNROLL
    for (int i = 0; i < TILE_SUMS; i++) sum[i] = vdupq_n_f32(0);
    for (size_t left = a->n_in / 32; left > 0;) {
        size_t groups = left < 8 ? left : 8;
        struct group g = group_at(f, tile, groups, 0);
        tile += groups * group_bytes(f);
        left -= groups;
        for (size_t i = 0; i < groups; i++, in.x += ACT32_BYTES * in.width, next_group(f, &g, i)) {
            add_group(f, &g, in, first, n_quad, table, sum);
        }
    }
    store_tile(a, panel, row, first, n_quad, in.n, sum);
}

LUTRA_INLINE void run_tile(const void *form, const struct cpu_gemm_args *a, size_t panel, size_t row, struct columns in)
{
    struct form f = *(const struct form *)form;
    int n_quad = in.n == 1 ? 4 : 2;
    UNROLL
    for (int first = 0; first < QUADS; first += n_quad) run_quads(f, a, panel, row, in, first, n_quad);
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    f = in_int8(f);
    run_rows(a, a->n_in / 32 * ACT32_BYTES, 4, TILE_COLUMNS, run_tile, &f);
}

#include "cpu/gemm_i8_runs_tmpl.h"

#include "cpu/gemm_i8_low_runs_tmpl.h"

#endif
