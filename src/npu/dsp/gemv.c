/* SPDX-License-Identifier: MIT
 *
 * One row times packed weights with integer dot products: codes stay unsigned bytes, four activations are a scalar, and
 * the offset of the codes is folded into where the sum starts.  Floats appear once per 32 inputs.
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

void npu_gemv(struct isa *isa, const struct npu_weights *w, uint8_t *restrict y, const uint8_t *restrict src,
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
