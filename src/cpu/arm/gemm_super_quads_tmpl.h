/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with 256-element blocks on vectors of 4 rows x 4 inputs (NEON, sdot): class i8x256, the
 * arithmetic of x86/gemm_super_avx512.c to the bit.
 *
 * Needs: the products of a dot_*_impl.h.
 * Gives: run_q4_k and so on.
 */
#ifndef LUTRA_CPU_ARM_GEMM_SUPER_QUADS_TMPL_H
#define LUTRA_CPU_ARM_GEMM_SUPER_QUADS_TMPL_H

#include "cpu/arm/gemm_super_form_impl.h"

LUTRA_INLINE bool in_order(struct form f)
{
    (void)f;
    return false;
}

/* Both halves of a group of IQ4_XS have its scale. */
LUTRA_INLINE int sum_steps(struct form f)
{
    return f.codes == TABLE ? 8 : group_steps(f);
}

LUTRA_INLINE int minimum_steps(struct form f)
{
    return group_steps(f);
}

#include "cpu/arm/gemm_tile_quads_tmpl.h"

/* Codes of inputs 32g + 4v .. 32g + 4v + 3 of a quad. */
LUTRA_INLINE int8x16_t load_codes(struct form f, const struct tile *t, int g, int v, int quad)
{
    const uint8_t *code = t->code + 16 * quad, *high = t->high + 16 * quad;
    uint8x16_t c = shifted(code + STEP_BYTES * code_vector(f, g, v), -code_bit(f, g, v));
    c = vandq_u8(c, vdupq_n_u8(code_mask(f)));
    if (f.codes == TABLE) {
        static const int8_t VALUES[16] = QUANT_IQ4_NL_VALUES;
        return vqtbl1q_s8(vld1q_s8(VALUES), c);
    }
    if (high_bytes(f) == 0) return vreinterpretq_s8_u8(c);
    uint8x16_t h = shifted(high + STEP_BYTES * high_vector(f, g, v), high_place(f) - high_bit(f, g));
    return vreinterpretq_s8_u8(vorrq_u8(c, vandq_u8(h, vdupq_n_u8(high_mask(f)))));
}

/* Scales or minima (side 0 or 1) of group g of a quad, from the 6-bit fields of Q4_K and Q5_K. */
LUTRA_INLINE int32x4_t load_six_bits(const struct tile *t, int g, int side, int quad)
{
    const uint8_t *p = t->scales + 16 * quad;
    uint32x4_t own = vreinterpretq_u32_u8(vld1q_u8(p + STEP_BYTES * side));
    own = vshlq_u32(own, vdupq_n_s32(-8 * (g % 4)));
    if (g < 4) return vreinterpretq_s32_u32(vandq_u32(own, vdupq_n_u32(63)));
    uint32x4_t rest = vreinterpretq_u32_u8(vld1q_u8(p + STEP_BYTES * 2));
    uint32x4_t low = vshlq_u32(rest, vdupq_n_s32(-(8 * (g % 4) + 4 * side)));
    uint32x4_t high = vandq_u32(vshrq_n_u32(own, 2), vdupq_n_u32(0x30));
    return vreinterpretq_s32_u32(vorrq_u32(high, vandq_u32(low, vdupq_n_u32(15))));
}

/* `bits` bits of each word of a quad from bit `from` on. */
LUTRA_INLINE uint32x4_t field(const uint8_t *words, int from, int bits)
{
    uint32x4_t w = vshlq_u32(vreinterpretq_u32_u8(vld1q_u8(words)), vdupq_n_s32(-from));
    return vandq_u32(w, vdupq_n_u32((1u << bits) - 1));
}

/* Scale i of 16 inputs each, for formats whose sums are scaled per 16 (group_steps). */
LUTRA_INLINE int32x4_t load_scale16(struct form f, const struct tile *t, int i, int quad)
{
    const uint8_t *p = t->scales + 16 * quad;
    uint32_t bytes;
    uint32x4_t low, high;
    switch (f.scales) {
    case SCALE_8:
        memcpy(&bytes, t->scales + LANES * i + 4 * quad, 4);
        return vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(bytes))));
    case BOTH_4: return vreinterpretq_s32_u32(field(p + STEP_BYTES * (i / 4), 8 * (i % 4), 4));
    case SCALE_6:
        low = field(p + STEP_BYTES * (i / 4 % 2), 8 * (i % 4) + i / 8 * 4, 4);
        high = field(p + STEP_BYTES * 2, 8 * (i % 4) + i / 4 * 2, 2);
        break;
    default: /* SCALE_6_APART */
        low = field(p, i / 2 * 4, 4);
        high = vmovl_u16(vreinterpret_u16_u8(vld1_u8(t->scales + STEP_BYTES + 8 * quad)));
        high = vandq_u32(vshlq_u32(high, vdupq_n_s32(-(i / 2 * 2))), vdupq_n_u32(3));
    }
    return vsubq_s32(vreinterpretq_s32_u32(vorrq_u32(low, vshlq_n_u32(high, 4))), vdupq_n_s32(32));
}

/* Minimum i: of 32 inputs (BOTH_6) or of 16 (BOTH_4). */
LUTRA_INLINE int32x4_t load_min(struct form f, const struct tile *t, int i, int quad)
{
    if (f.scales == BOTH_6) return load_six_bits(t, i, 1, quad);
    return vreinterpretq_s32_u32(field(t->scales + 16 * quad + STEP_BYTES * (i / 4), 8 * (i % 4) + 4, 4));
}

/* The scale of sum i of group_steps steps. */
LUTRA_INLINE int32x4_t load_scale(struct form f, const struct tile *t, int i, int quad)
{
    if (f.scales == NO_SCALES) return vdupq_n_s32(1);
    return f.scales == BOTH_6 ? load_six_bits(t, i, 0, quad) : load_scale16(f, t, i, quad);
}

/* ---- a tile that is read once for all columns ---- */

/* What values of a sum are multiplied by if is_summed: its scale in each byte. */
LUTRA_INLINE int8x16_t scale_bytes(struct form f, int32x4_t scale)
{
    uint32x4_t low = vandq_u32(vreinterpretq_u32_s32(is_negated(f) ? vnegq_s32(scale) : scale), vdupq_n_u32(255));
    return vreinterpretq_s8_u32(vmulq_n_u32(low, 0x01010101));
}

LUTRA_INLINE void unpack_quad(struct form f, const struct tile *t, int quad, struct unpacked *u)
{
    const int steps = sum_steps(f), minima = TILE_K / 4 / minimum_steps(f);
    UNROLL
    for (int g = 0; g < 8; g++) {
        int8x16_t factor = vdupq_n_s8(0);
        UNROLL
        for (int v = 0; v < 8; v++) {
            const int sum = (8 * g + v) / steps;
            int8x16_t value = values_of(f, load_codes(f, t, g, v, quad));
            if (v % steps == 0) {
                int32x4_t scale = load_scale(f, t, sum * (steps / group_steps(f)), quad);
                factor = scale_bytes(f, scale);
                if (!is_summed(f)) u->scale[sum][quad] = scale;
            }
            if (is_summed(f) && f.scales != NO_SCALES) value = vmulq_s8(value, factor);
            vst1q_s8(u->value[8 * g + v] + 16 * quad, value);
        }
    }
    UNROLL
    for (int i = 0; i < minima; i++) {
        if (has_minima(f)) u->min[i][quad] = vmovn_s32(load_min(f, t, i, quad));
    }
    u->d[quad] = load_f16(t->d + 8 * quad);
    if (has_minima(f)) u->dmin[quad] = load_f16(t->dmin + 8 * quad);
}

LUTRA_INLINE void unpack(struct form f, const struct tables *none, const uint8_t *w, struct unpacked *u)
{
    (void)none;
    const struct tile t = split_tile(f, w);
    for (int quad = 0; quad < QUADS; quad++) unpack_quad(f, &t, quad, u);
}

/* ---- few columns, which read a tile as they use it ---- */

/* Steps from .. to - 1 of group g added to dots. */
LUTRA_INLINE void add_steps(struct form f, const struct tile *t, int g, int from, int to, struct columns in, int first,
    int n_quad, struct dots *dots)
{
    in.x += (size_t)(32 * g + 4 * from) * in.width;
    UNROLL
    for (int v = from; v < to; v += 2, in.x += 8 * in.width) {
        int8x16_t w0[QUADS], w1[QUADS];
        UNROLL
        for (int q = 0; q < n_quad; q++) {
            w0[q] = load_codes(f, t, g, v, first + q);
            w1[q] = load_codes(f, t, g, v + 1, first + q);
        }
        dot_pair(dots, w0, w1, in.x, in.width, n_quad, in.n, f.scales == BOTH_6);
    }
}

/* Integer sum of a tile, scales included, of group g. */
LUTRA_INLINE void add_integers(
    struct form f, const struct tile *t, int g, struct columns in, int first, int n_quad, int32x4_t dot[TILE_SUMS])
{
    const uint8_t *start16 = in.x + (256 + 24) * in.width + (size_t)g * 8 * in.width;
    const int part = group_steps(f);
    const int start = has_offset(f) && f.codes != TABLE ? start_shift(f) : NO_START; /* tables are signed */
    UNROLL
    for (int from = 0; from < 8; from += part, start16 += 4 * in.width) {
        struct dots dots;
        dot_begin(&dots, start16, start, n_quad, in.n);
        add_steps(f, t, g, from, from + part, in, first, n_quad, &dots);
        UNROLL
        for (int q = 0; q < n_quad; q++) {
            int32x4_t scale = load_scale(f, t, 8 / part * g + from / part, first + q);
            UNROLL
            for (int c = 0; c < in.n; c++) {
                int32x4_t *sum = &dot[tile_at(q, c, in.n)], some = dot_of(&dots, q, c, in.n);
                *sum = f.scales == NO_SCALES ? vaddq_s32(*sum, some) : vmlaq_s32(*sum, some, scale);
            }
        }
    }
}

/* The minima of a tile, times the inputs' sums: subtracted. */
LUTRA_INLINE void subtract_minima(
    struct form f, const struct tile *t, struct columns in, int first, int n_quad, float32x4_t sum[TILE_SUMS])
{
    const uint8_t *scale_x = in.x + 256 * in.width, *sums = scale_x + (f.scales == BOTH_6 ? 8 : 88) * in.width;
    const int n_min = TILE_K / 4 / minimum_steps(f);
    UNROLL
    for (int q = 0; q < n_quad; q++) {
        int32x4_t min[TILE_COLUMNS];
        UNROLL
        for (int c = 0; c < in.n; c++) min[c] = vdupq_n_s32(0);
        UNROLL
        for (int g = 0; g < n_min; g++) {
            int32x4_t m = load_min(f, t, g, first + q);
            UNROLL
            for (int c = 0; c < in.n; c++) {
                int16_t x;
                memcpy(&x, sums + (size_t)(g / 2) * 4 * in.width + 4 * c + 2 * (g % 2), 2);
                min[c] = vmlaq_n_s32(min[c], m, x);
            }
        }
        float32x4_t dmin = load_f16(t->dmin + 8 * (first + q));
        UNROLL
        for (int c = 0; c < in.n; c++) {
            float32x4_t *s = &sum[tile_at(q, c, in.n)];
            *s = vfmsq_f32(*s, vcvtq_f32_s32(min[c]), vmulq_f32(dmin, broadcast_f32(scale_x + 4 * c)));
        }
    }
}

/* One tile for the columns. */
LUTRA_INLINE void add_tile(
    struct form f, const uint8_t *w, struct columns in, int first, int n_quad, float32x4_t sum[TILE_SUMS])
{
    struct tile t = split_tile(f, w);
    const uint8_t *scale_x = in.x + 256 * in.width, *start = scale_x + 4 * in.width;
    int32x4_t dot[TILE_SUMS];
    UNROLL
    for (int q = 0; q < n_quad; q++) {
        UNROLL
        for (int c = 0; c < in.n; c++) {
            dot[tile_at(q, c, in.n)] = f.scales == NO_SCALES ? broadcast(start + 4 * c) : vdupq_n_s32(0);
        }
    }
    for (int g = 0; g < 8; g++) add_integers(f, &t, g, in, first, n_quad, dot);
    UNROLL
    for (int q = 0; q < n_quad; q++) {
        float32x4_t d = load_f16(t.d + 8 * (first + q));
        UNROLL
        for (int c = 0; c < in.n; c++) {
            float32x4_t *s = &sum[tile_at(q, c, in.n)];
            float32x4_t scale = vmulq_f32(d, broadcast_f32(scale_x + 4 * c));
            *s = vfmaq_f32(*s, vcvtq_f32_s32(dot[tile_at(q, c, in.n)]), scale);
        }
    }
    if (has_minima(f)) subtract_minima(f, &t, in, first, n_quad, sum);
}

LUTRA_INLINE void run_quads(
    struct form f, const struct cpu_gemm_args *a, size_t panel, size_t row, struct columns in, int first, int n_quad)
{
    const uint8_t *w = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in);
    float32x4_t sum[TILE_SUMS];
    UNROLL
    for (int i = 0; i < TILE_SUMS; i++) sum[i] = vdupq_n_f32(0);
    for (size_t k = 0; k < a->n_in; k += TILE_K, w += tile_bytes(f), in.x += in.width * ACT256_BYTES) {
        add_tile(f, w, in, first, n_quad, sum);
    }
    store_tile(a, panel, row, first, n_quad, in.n, sum);
}

LUTRA_INLINE void run_tile(const void *form, const struct cpu_gemm_args *a, size_t panel, size_t row, struct columns in)
{
    int n_quad = in.n == 1 ? 4 : 2;
    UNROLL
    for (int first = 0; first < QUADS; first += n_quad) {
        run_quads(*(const struct form *)form, a, panel, row, in, first, n_quad);
    }
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    if (a->n_row > TILE_COLUMNS) {
        run_tiles(f, NULL, a);
    } else {
        run_rows(a, a->n_in / TILE_K * ACT256_BYTES, 4, TILE_COLUMNS, run_tile, &f);
    }
}

#include "cpu/gemm_super_runs_tmpl.h"

#include "cpu/gemm_super_low_runs_tmpl.h"

#endif
