/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with 32-element blocks on Arm: class i8x32, the arithmetic of x86/gemm_i8_avx512.c to the bit.
 *
 * Included after a dot_*_impl.h, by one file per instruction set; gives run_q4_0 and so on.
 */
#ifndef LUTRA_CPU_ARM_GEMM_I8_BODY_H
#define LUTRA_CPU_ARM_GEMM_I8_BODY_H

#include <stdbool.h>

#include "cpu/arm/gemm_arm_impl.h"

enum codes { NIBBLES, TABLE, FIVE_BITS, BYTES };
enum scales { F16_SCALE, F16_SCALE_AND_MIN, E8M0_SCALE };

/* What differs between formats; always a compile-time constant of an inlined call. */
struct form {
    enum codes codes;
    enum scales scales;
    int start_shift; /* the dot product starts at the record's start << this (codes are offset); -1: at 0 */
};

struct group {
    const uint8_t *code, *bits, *d, *m; /* of one group */
};

LUTRA_INLINE int8x16_t code_table(enum quant_type type)
{
    static const int8_t IQ4_NL[16] = QUANT_IQ4_NL_VALUES;
    static const int8_t MXFP4[16] = QUANT_MXFP4_VALUES;
    return vld1q_s8(type == QUANT_MXFP4 ? MXFP4 : IQ4_NL);
}

/* Codes of step v of a quad, within int8. */
LUTRA_INLINE int8x16_t load_codes(struct form f, const struct group *g, int v, int quad, int8x16_t table)
{
    if (f.codes == BYTES)
        return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(g->code + STEP_BYTES * v + 16 * quad), vdupq_n_u8(0x80)));
    uint8x16_t c = vld1q_u8(g->code + STEP_BYTES * (v & 3) + 16 * quad);
    c = v < 4 ? vandq_u8(c, vdupq_n_u8(15)) : vshrq_n_u8(c, 4);
    if (f.codes == TABLE) return vqtbl1q_s8(table, c);
    if (f.codes == FIVE_BITS) {
        uint8x16_t b = vshlq_u8(vld1q_u8(g->bits + 16 * quad), vdupq_n_s8((int8_t)(4 - v)));
        c = vorrq_u8(c, vandq_u8(b, vdupq_n_u8(16)));
    }
    return vreinterpretq_s8_u8(c);
}

LUTRA_INLINE float32x4_t load_scale(struct form f, const uint8_t *d, int quad)
{
    if (f.scales != E8M0_SCALE) return load_f16(d + 8 * quad);
    /* 2^(e - 128): the exponent field e - 1, or a subnormal for e = 0 and 1. */
    uint32_t bytes;
    memcpy(&bytes, d + 4 * quad, 4);
    uint32x4_t e = vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
    uint32x4_t normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
    uint32x4_t tiny = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(e));
    return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), tiny, normal));
}

/* One group for n of a block's `width` columns, the first at x. */
LUTRA_INLINE void add_group(struct form f, const struct group *g, const uint8_t *x, size_t width, int first, int n_quad,
    int n, int8x16_t table, float32x4_t sum[TILE_SUMS])
{
    struct dots dots;
    const uint8_t *tail = x + 32 * width, *start = tail + 4 * width;
    dot_begin(&dots, start, f.start_shift, n_quad, n);
    UNROLL
    for (int v = 0; v < 8; v += 2, x += 8 * width) {
        int8x16_t w0[QUADS], w1[QUADS];
        UNROLL
        for (int q = 0; q < n_quad; q++) {
            w0[q] = load_codes(f, g, v, first + q, table);
            w1[q] = load_codes(f, g, v + 1, first + q, table);
        }
        dot_pair(&dots, w0, w1, x, width, n_quad, n);
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

LUTRA_INLINE size_t code_bytes(struct form f)
{
    return f.codes == BYTES ? 512 : 256;
}

LUTRA_INLINE size_t scale_bytes(struct form f)
{
    return f.scales == E8M0_SCALE ? 16 : 32;
}

/* All inputs of n_quad quads of a panel for n columns. */
LUTRA_INLINE void run_tile(struct form f, const struct cpu_gemm_args *a, size_t panel, size_t row, const uint8_t *x,
    size_t width, int first, int n_quad, int n)
{
    const uint8_t *w = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in);
    int8x16_t table = code_table(a->gemm->type);
    float32x4_t sum[TILE_SUMS];
    UNROLL
    for (int i = 0; i < TILE_SUMS; i++) sum[i] = vdupq_n_f32(0);
    for (size_t left = a->n_in / 32; left > 0;) {
        size_t groups = left < 8 ? left : 8;
        struct group g = {.code = w};
        g.bits = g.code + groups * code_bytes(f);
        g.d = g.bits + (f.codes == FIVE_BITS ? groups * STEP_BYTES : 0);
        g.m = g.d + groups * scale_bytes(f);
        w = g.m + (f.scales == F16_SCALE_AND_MIN ? groups * 32 : 0);
        left -= groups;
        for (; groups > 0; groups--) {
            add_group(f, &g, x, width, first, n_quad, n, table, sum);
            x += ACT32_BYTES * width;
            g.code += code_bytes(f);
            g.bits += STEP_BYTES;
            g.d += scale_bytes(f);
            g.m += 32;
        }
    }
    store_tile(a, panel, row, first, n_quad, n, sum);
}

LUTRA_INLINE void run_block(
    struct form f, const struct cpu_gemm_args *a, size_t panel, size_t row, const uint8_t *x, size_t width, int n)
{
    if (n == 1) {
        run_tile(f, a, panel, row, x, width, 0, 4, 1);
        return;
    }
    run_tile(f, a, panel, row, x, width, 0, 2, n);
    run_tile(f, a, panel, row, x, width, 2, 2, n);
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    size_t row_bytes = a->n_in / 32 * ACT32_BYTES;
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS;
        for (size_t p = a->panel; p < a->panel + a->n_panel; p++) {
            for (size_t r = pass; r < end; r += TILE_COLUMNS) {
                struct act_place place = act_place_of(r, a->n_row);
                const uint8_t *x = (const uint8_t *)a->act + (r - place.column) * row_bytes + 4 * place.column;
                switch (end - r) {
                case 1: run_block(f, a, p, r, x, place.width, 1); break;
                case 2: run_block(f, a, p, r, x, place.width, 2); break;
                case 3: run_block(f, a, p, r, x, place.width, 3); break;
                default: run_block(f, a, p, r, x, place.width, 4); break;
                }
            }
        }
    }
}

static void run_q4_0(const struct cpu_gemm_args *a)
{
    run_all((struct form){NIBBLES, F16_SCALE, 0}, a);
}

static void run_q4_1(const struct cpu_gemm_args *a)
{
    run_all((struct form){NIBBLES, F16_SCALE_AND_MIN, -1}, a);
}

static void run_q5_0(const struct cpu_gemm_args *a)
{
    run_all((struct form){FIVE_BITS, F16_SCALE, 1}, a);
}

static void run_q5_1(const struct cpu_gemm_args *a)
{
    run_all((struct form){FIVE_BITS, F16_SCALE_AND_MIN, -1}, a);
}

static void run_q8_0(const struct cpu_gemm_args *a)
{
    run_all((struct form){BYTES, F16_SCALE, -1}, a);
}

static void run_iq4_nl(const struct cpu_gemm_args *a)
{
    run_all((struct form){TABLE, F16_SCALE, -1}, a);
}

static void run_mxfp4(const struct cpu_gemm_args *a)
{
    run_all((struct form){TABLE, E8M0_SCALE, -1}, a);
}

#endif
