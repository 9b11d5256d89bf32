/* SPDX-License-Identifier: MIT
 *
 * Few rows times packed weights with integer dot products: codes stay unsigned bytes, four activations are a scalar,
 * and the offset of the codes is folded into where the sum starts.  Floats appear once per 32 inputs.
 *
 * Per vector of 256 4-bit codes: 1 load, a mask, a shift, 1 scalar load of two quads and 2 multiplications.
 */
#include "npu/dsp/kernels.h"

#include "quant/formats.h"

/* IQ4_NL's values plus 127, in the low bytes of halves 0..15. */
#define B(x) ((x) + 127)
static const uint16_t nl_bytes[64] __attribute__((aligned(128))) = {B(-127), B(-104), B(-83), B(-65), B(-49), B(-35),
    B(-22), B(-10), B(1), B(13), B(25), B(38), B(53), B(69), B(89), B(113)};
#undef B

/* Adds one tile's 4 code vectors to an integer sum; q: its 8 quads. */
ISA_INLINE vec dot_4(
    struct isa *isa, vec sum, const uint8_t *restrict codes, const uint8_t *restrict q, vec mask, vec table, int lookup)
{
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        vec x = v_load(codes + 128 * j), low = v_and(x, mask), high = v_lsr_ub(x, 4);
        uint64_t quads = s_load_u64(q + 8 * j);
        if (lookup) low = v_lut32(low, table, 0), high = v_lut32(high, table, 0);
        sum = v_rmpyacc_ub_rb(sum, low, (uint32_t)quads);
        sum = v_rmpyacc_ub_rb(sum, high, (uint32_t)(quads >> 32));
    }
    (void)isa;
    return sum;
}

ISA_INLINE vec dot_8(struct isa *isa, vec sum, const uint8_t *restrict codes, const uint8_t *restrict q)
{
#pragma GCC unroll 4
    for (int j = 0; j < 8; j += 2) {
        uint64_t quads = s_load_u64(q + 4 * j);
        sum = v_rmpyacc_ub_rb(sum, v_load(codes + 128 * j), (uint32_t)quads);
        sum = v_rmpyacc_ub_rb(sum, v_load(codes + 128 * j + 128), (uint32_t)(quads >> 32));
    }
    (void)isa;
    return sum;
}

/* What is constant in a product. */
struct constants {
    vec mask, one, table;
};

/* One unit of 64 inputs added to sum, which is in the unit's form; kind is a constant where this is called. */
ISA_INLINE vec unit(struct isa *isa, const uint32_t kind, vec sum, const struct constants *c, const uint8_t *restrict w,
    const uint8_t *restrict q, const uint8_t *restrict sums)
{
    const int32_t offset = kind == NPU_W_Q4_0 ? -8 : kind == NPU_W_IQ4_NL ? -127 : kind == NPU_W_Q8_0 ? -128 : 0;
    const uint32_t code = kind == NPU_W_Q8_0 ? 2048 : 1024;
    int32_t s0 = (int32_t)s_load_u32(sums), s1 = (int32_t)s_load_u32(sums + 4);
    vec i0 = v_splat_w(s0 * offset), i1 = v_splat_w(s1 * offset);
    i0 = kind == NPU_W_Q8_0 ? dot_8(isa, i0, w, q) : dot_4(isa, i0, w, q, c->mask, c->table, kind == NPU_W_IQ4_NL);
    i1 = kind == NPU_W_Q8_0 ? dot_8(isa, i1, w + 1024, q + 32)
                            : dot_4(isa, i1, w + 512, q + 32, c->mask, c->table, kind == NPU_W_IQ4_NL);
    vec2 d = q32_mul_f16(v_load(w + code), c->one);
    sum = q32_add_qq(sum, q32_mul(f32_of_i32(i0), f32_of_q32(v_lo(d))));
    if (kind == NPU_W_Q4_1) {
        vec2 m = q32_mul_f16(v_load(w + code + 128), c->one);
        sum = q32_add_qq(sum, q32_mul(f32_of_i32(v_splat_w(s0)), f32_of_q32(v_lo(m))));
        sum = q32_add_qq(sum, q32_mul(f32_of_i32(i1), f32_of_q32(v_hi(d))));
        return q32_add_qq(sum, q32_mul(f32_of_i32(v_splat_w(s1)), f32_of_q32(v_hi(m))));
    }
    return q32_add_qq(sum, q32_mul(f32_of_i32(i1), f32_of_q32(v_hi(d))));
}

/* The product of one block of outputs. */
ISA_INLINE vec block(struct isa *isa, const uint32_t kind, const uint8_t *restrict w, const uint8_t *restrict q,
    const uint8_t *restrict sums, const uint8_t *restrict scales, uint32_t n_units)
{
    const uint32_t bytes = (kind == NPU_W_Q8_0 ? 2048 : 1024) + (kind == NPU_W_Q4_1 ? 256 : 128);
    const struct constants c = {v_splat_b(15), v_splat_h(0x3c00), kind == NPU_W_IQ4_NL ? v_const(nl_bytes) : v_zero()};
    vec acc = v_zero();
    for (uint32_t left = n_units; left; scales += 4) {
        vec sum = q32_add(v_zero(), v_zero());
        if (left >= 4) { /* a whole activation block, straight on */
#pragma GCC unroll 4
            for (uint32_t u = 0; u < 4; u++) sum = unit(isa, kind, sum, &c, w + u * bytes, q + 64 * u, sums + 8 * u);
            w += 4 * bytes, q += 256, sums += 32, left -= 4;
        } else {
            for (; left; left--, w += bytes, q += 64, sums += 8) sum = unit(isa, kind, sum, &c, w, q, sums);
        }
        acc = f32_add(acc, f32_mul(f32_of_q32(sum), v_splat_w((int32_t)s_load_u32(scales))));
    }
    (void)isa;
    return acc;
}

/* Two rows share what does not depend on them: loads, masks, shifts, lookups and the scales' conversion. */
enum { ROWS = 2 };

/* One tile of 32 inputs added to the rows' integer sums. */
ISA_INLINE void tile_rows(struct isa *isa, const uint32_t kind, vec sum[ROWS], const struct constants *c,
    const uint8_t *restrict codes, const uint8_t *restrict q, uint32_t stride)
{
    const uint32_t wide = kind == NPU_W_Q8_0;
#pragma GCC unroll 4
    for (uint32_t j = 0; j < 4; j++) {
        vec x = v_load(codes + 128 * (wide ? 2 * j : j)), low = wide ? x : v_and(x, c->mask);
        vec high = wide ? v_load(codes + 256 * j + 128) : v_lsr_ub(x, 4);
        if (kind == NPU_W_IQ4_NL) low = v_lut32(low, c->table, 0), high = v_lut32(high, c->table, 0);
#pragma GCC unroll 2
        for (uint32_t r = 0; r < ROWS; r++) {
            uint64_t quads = s_load_u64(q + r * stride + 8 * j);
            sum[r] = v_rmpyacc_ub_rb(sum[r], low, (uint32_t)quads);
            sum[r] = v_rmpyacc_ub_rb(sum[r], high, (uint32_t)(quads >> 32));
        }
    }
    (void)isa;
}

/* The rows' sums of one tile times its scale and minimum, added to their float sums. */
ISA_INLINE void weigh_rows(struct isa *isa, const uint32_t kind, vec sum[ROWS], const struct constants *c,
    const uint8_t *restrict codes, const uint8_t *restrict q, const uint8_t *restrict sums, uint32_t stride, vec d,
    vec m)
{
    const int32_t offset = kind == NPU_W_Q4_0 ? -8 : kind == NPU_W_IQ4_NL ? -127 : kind == NPU_W_Q8_0 ? -128 : 0;
    int32_t s[ROWS];
    vec i[ROWS];
#pragma GCC unroll 2
    for (uint32_t r = 0; r < ROWS; r++) s[r] = (int32_t)s_load_u32(sums + r * stride), i[r] = v_splat_w(s[r] * offset);
    tile_rows(isa, kind, i, c, codes, q, stride);
#pragma GCC unroll 2
    for (uint32_t r = 0; r < ROWS; r++) {
        sum[r] = q32_add_qq(sum[r], q32_mul(f32_of_i32(i[r]), d));
        if (kind == NPU_W_Q4_1) sum[r] = q32_add_qq(sum[r], q32_mul(f32_of_i32(v_splat_w(s[r])), m));
    }
    (void)isa;
}

/* One unit of 64 inputs added to the rows' sums. */
ISA_INLINE void unit_rows(struct isa *isa, const uint32_t kind, vec sum[ROWS], const struct constants *c,
    const uint8_t *restrict w, const uint8_t *restrict q, const uint8_t *restrict sums, uint32_t stride)
{
    const uint32_t code = kind == NPU_W_Q8_0 ? 2048 : 1024;
    vec2 d = q32_mul_f16(v_load(w + code), c->one), m = d;
    if (kind == NPU_W_Q4_1) m = q32_mul_f16(v_load(w + code + 128), c->one);
    weigh_rows(isa, kind, sum, c, w, q, sums, stride, f32_of_q32(v_lo(d)), f32_of_q32(v_lo(m)));
    weigh_rows(isa, kind, sum, c, w + code / 2, q + 32, sums + 4, stride, f32_of_q32(v_hi(d)), f32_of_q32(v_hi(m)));
}

/* The product of one block of outputs with two rows, `stride` apart. */
ISA_INLINE void block_rows(struct isa *isa, const uint32_t kind, vec acc[ROWS], const uint8_t *restrict w,
    const uint8_t *restrict q, const uint8_t *restrict sums, const uint8_t *restrict scales, uint32_t stride,
    uint32_t n_units)
{
    const uint32_t bytes = (kind == NPU_W_Q8_0 ? 2048 : 1024) + (kind == NPU_W_Q4_1 ? 256 : 128);
    const struct constants c = {v_splat_b(15), v_splat_h(0x3c00), kind == NPU_W_IQ4_NL ? v_const(nl_bytes) : v_zero()};
    for (uint32_t r = 0; r < ROWS; r++) acc[r] = v_zero();
    for (uint32_t left = n_units; left; scales += 4) {
        vec sum[ROWS];
        for (uint32_t r = 0; r < ROWS; r++) sum[r] = q32_add(v_zero(), v_zero());
        if (left >= 4) {
#pragma GCC unroll 4
            for (uint32_t u = 0; u < 4; u++)
                unit_rows(isa, kind, sum, &c, w + u * bytes, q + 64 * u, sums + 8 * u, stride);
            w += 4 * bytes, q += 256, sums += 32, left -= 4;
        } else {
            for (; left; left--, w += bytes, q += 64, sums += 8) unit_rows(isa, kind, sum, &c, w, q, sums, stride);
        }
        for (uint32_t r = 0; r < ROWS; r++)
            acc[r] = f32_add(acc[r], f32_mul(f32_of_q32(sum[r]), v_splat_w((int32_t)s_load_u32(scales + r * stride))));
    }
}

/* Two rows; K-quants: not here. */
static void gemv_rows(struct isa *isa, const struct npu_weights *w, uint8_t *restrict y, uint32_t y_stride,
    const uint8_t *restrict src, const uint8_t *restrict act8, uint32_t stride, uint32_t n_blocks)
{
    struct npu_act8 a;
    vec acc[ROWS];
    npu_act8_layout(w->k, &a);
    const uint8_t *sums = act8 + a.sums, *scales = act8 + a.scales;
    for (uint32_t b = 0; b < n_blocks; b++, src += w->block_bytes, y += 128) {
        switch (w->kind) {
        case NPU_W_Q4_0: block_rows(isa, NPU_W_Q4_0, acc, src, act8, sums, scales, stride, w->n_units); break;
        case NPU_W_Q4_1: block_rows(isa, NPU_W_Q4_1, acc, src, act8, sums, scales, stride, w->n_units); break;
        case NPU_W_IQ4_NL: block_rows(isa, NPU_W_IQ4_NL, acc, src, act8, sums, scales, stride, w->n_units); break;
        default: block_rows(isa, NPU_W_Q8_0, acc, src, act8, sums, scales, stride, w->n_units); break;
        }
        for (uint32_t r = 0; r < ROWS; r++) v_store(y + (size_t)r * y_stride, acc[r]);
    }
}

static void gemv_row(struct isa *isa, const struct npu_weights *w, uint8_t *restrict y, const uint8_t *restrict src,
    const uint8_t *restrict act8, uint32_t n_blocks)
{
    struct npu_act8 a;
    if (w->unit_k == NPU_SUPER_K) {
        npu_gemv_k(isa, w, y, src, act8, n_blocks);
        return;
    }
    npu_act8_layout(w->k, &a);
    const uint8_t *sums = act8 + a.sums, *scales = act8 + a.scales;
    for (uint32_t b = 0; b < n_blocks; b++, src += w->block_bytes, y += 128) {
        vec r;
        switch (w->kind) {
        case NPU_W_Q4_0: r = block(isa, NPU_W_Q4_0, src, act8, sums, scales, w->n_units); break;
        case NPU_W_Q4_1: r = block(isa, NPU_W_Q4_1, src, act8, sums, scales, w->n_units); break;
        case NPU_W_IQ4_NL: r = block(isa, NPU_W_IQ4_NL, src, act8, sums, scales, w->n_units); break;
        default: r = block(isa, NPU_W_Q8_0, src, act8, sums, scales, w->n_units); break;
        }
        v_store(y, r);
    }
}

void npu_gemv(struct isa *isa, const struct npu_weights *w, uint8_t *restrict y, uint32_t y_stride,
    const uint8_t *restrict src, const uint8_t *restrict act8, uint32_t stride, uint32_t n_blocks, uint32_t m)
{
    for (; m >= ROWS && w->unit_k == NPU_UNIT_K; m -= ROWS, y += ROWS * y_stride, act8 += ROWS * stride)
        gemv_rows(isa, w, y, y_stride, src, act8, stride, n_blocks);
    for (; m; m--, y += y_stride, act8 += stride) gemv_row(isa, w, y, src, act8, n_blocks);
}
