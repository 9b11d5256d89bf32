/* SPDX-License-Identifier: MIT
 *
 * Lookup (gemm_lookup_impl.h) in class i8x32: Q1_0, Q2_0, W2.
 */
#include "cpu/arm/gemm_i8_form_impl.h"
#include "cpu/arm/gemm_lookup_impl.h"

/* Of 16 rows: their scales, and their zeros less the 1 that values of codes of 2 bits are below the codes. */
struct rows {
    float32x4_t scale[QUADS];
    int16x8_t zero[2];
};

LUTRA_INLINE void load_rows(struct form f, const struct group *g, struct rows *out)
{
    UNROLL
    for (int q = 0; q < QUADS; q++) out->scale[q] = load_scale(f, g->d, q);
    if (f.scales != F16_SCALE_AND_ZERO) return;
    UNROLL
    for (int h = 0; h < 2; h++) out->zero[h] = vreinterpretq_s16_u16(vsubl_u8(vld1_u8(g->m + 8 * h), vdup_n_u8(1)));
}

/* Adds a group of one column, whose codes are worth `codes`; tail: the rest of its record. */
LUTRA_INLINE void add_group(struct form f, const struct rows *rows, const int16x8_t codes[2], const uint8_t *tail,
    size_t width, float32x4_t sum[QUADS])
{
    UNROLL
    for (int q = 0; q < QUADS; q++) {
        int32x4_t dot = vshll_n_s16(quad_of(codes, q), 3);
        if (f.scales == F16_SCALE_AND_ZERO) {
            int16x4_t start = vld1_dup_s16((const int16_t *)(const void *)(tail + 4 * width));
            dot = vmlal_s16(dot, quad_of(rows->zero, q), start);
        }
        sum[q] = vfmaq_f32(sum[q], vcvtq_f32_s32(dot), vmulq_f32(rows->scale[q], broadcast_f32(tail)));
    }
}

LUTRA_INLINE void add_tile(const void *form, const uint8_t *w, size_t groups, const struct tables *t, struct columns in,
    float32x4_t (*sum)[QUADS])
{
    const struct form f = *(const struct form *)form;
    const size_t vectors = f.codes == ONE_BIT ? 1 : 2;
    struct group g = group_at(f, w, groups, 0);
    float32x4_t s[PAIR][QUADS];
    memcpy(s, sum, sizeof s[0] * (size_t)in.n);
    for (size_t i = 0; i < groups;) {
        struct rows rows;
        load_rows(f, &g, &rows);
        for (size_t end = i + groups_of_scale(f); i < end; in.x += ACT32_BYTES * in.width, next_group(f, &g, ++i)) {
            int16x8_t codes[PAIR][2];
            UNROLL
            for (int c = 0; c < in.n; c++) codes[c][0] = codes[c][1] = vdupq_n_s16(0);
            UNROLL
            for (size_t v = 0; v < vectors; v++) look_up(g.code + STEP_BYTES * v, t, vectors * i + v, in.n, codes);
            UNROLL
            for (int c = 0; c < in.n; c++) add_group(f, &rows, codes[c], in.x + 32 * in.width + 4 * c, in.width, s[c]);
        }
    }
    memcpy(sum, s, sizeof s[0] * (size_t)in.n);
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    struct lookup l = {.add_tile = add_tile,
        .form = &f,
        .one_bit = f.codes == ONE_BIT,
        .tile_bytes = 8 * group_bytes(f),
        .record_inputs = 32,
        .record_bytes = ACT32_BYTES,
        .run_vectors = f.codes == ONE_BIT ? 1 : 2,
        .run_bytes = ACT32_BYTES,
        .vector_bytes = 16,
        .neighbor_bytes = 4};
    run_lookup(l, a);
}

static void run_q1_0(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q1_0, a);
}

static void run_q2_0(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q2_0, a);
}

static void run_w2(const struct cpu_gemm_args *a)
{
    run_all(FORM_W2, a);
}

void cpu_gemm_init_i8_lookup_neon(struct cpu_kernels *k)
{
    k->gemm[QUANT_Q1_0] = cpu_gemm_i8x32(QUANT_Q1_0, "gemm_q1_0_q8x32_lookup_neon", run_q1_0);
    k->gemm[QUANT_Q2_0] = cpu_gemm_i8x32(QUANT_Q2_0, "gemm_q2_0_q8x32_lookup_neon", run_q2_0);
    k->gemm[QUANT_W2] = cpu_gemm_i8x32(QUANT_W2, "gemm_w2_q8x32_lookup_neon", run_w2);
}
