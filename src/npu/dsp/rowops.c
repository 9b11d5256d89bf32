/* SPDX-License-Identifier: MIT
 *
 * Element-wise operations of f32 rows: n is a multiple of 32.
 */
#include "npu/dsp/kernels.h"
#include "npu/dsp/vmath.h"

void npu_add(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict a, const uint8_t *restrict b, uint32_t n)
{
    for (uint32_t i = 0; i < 4 * n; i += 128) v_store(y + i, f32_add(v_load(a + i), v_load(b + i)));
    (void)isa;
}

void npu_swiglu(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict a, const uint8_t *restrict b, uint32_t n)
{
    const vec one = v_splat_w(F32_ONE), sign = v_splat_w((int32_t)0x80000000);
    for (uint32_t i = 0; i < 4 * n; i += 128) {
        vec x = v_load(a + i);
        vec gate = v_reciprocal(isa, f32_add(one, v_exp(isa, v_xor(x, sign))));
        v_store(y + i, f32_mul(f32_mul(x, gate), v_load(b + i)));
    }
}

void npu_rms_norm(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict x, const uint8_t *restrict gain,
    uint32_t n, uint32_t eps_bits)
{
    vec squares = q32_add(v_zero(), v_zero());
    for (uint32_t i = 0; i < 4 * n; i += 128) {
        vec v = v_load(x + i);
        squares = q32_add_qq(squares, q32_mul(v, v));
    }
    vec mean = f32_mul(v_sum_w(isa, f32_of_q32(squares)), v_reciprocal(isa, f32_of_i32(v_splat_w((int32_t)n))));
    vec scale = v_rsqrt(isa, f32_add(mean, v_splat_w((int32_t)eps_bits)));
    for (uint32_t i = 0; i < 4 * n; i += 128) v_store(y + i, f32_mul(f32_mul(v_load(x + i), scale), v_load(gain + i)));
}

/* Rotates (a, b) by (c, s). */
ISA_INLINE vec2 rotate(struct isa *isa, vec a, vec b, vec c, vec s)
{
    vec first = f32_sub(f32_mul(a, c), f32_mul(b, s)), second = f32_add(f32_mul(a, s), f32_mul(b, c));
    (void)isa;
    return v_pair(second, first);
}

void npu_rope(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict x, const uint8_t *restrict table,
    uint32_t n, int neox)
{
    uint32_t half = 2 * n;
    for (uint32_t i = 0; i < half; i += 128) {
        vec c = v_load(table + i), s = v_load(table + half + i);
        if (neox) {
            vec2 r = rotate(isa, v_load(x + i), v_load(x + half + i), c, s);
            v_store(y + i, v_lo(r));
            v_store(y + half + i, v_hi(r));
        } else {
            vec2 pairs = v_deal2(v_load(x + 2 * i + 128), v_load(x + 2 * i), -4);
            vec2 r = rotate(isa, v_lo(pairs), v_hi(pairs), c, s);
            r = v_shuff2(v_hi(r), v_lo(r), -4);
            v_store(y + 2 * i, v_lo(r));
            v_store(y + 2 * i + 128, v_hi(r));
        }
    }
    (void)isa;
}
