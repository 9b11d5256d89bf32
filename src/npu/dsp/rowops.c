/* SPDX-License-Identifier: MIT
 *
 * Element-wise operations of f32 rows: n is a multiple of 32.
 */
#include "npu/dsp/kernels.h"
#include "npu/dsp/vmath.h"

void npu_add(struct isa *isa, uint8_t *y, const uint8_t *a, const uint8_t *b, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 512 <= 4 * n; i += 512) { /* loads before stores: y may be a, which the compiler cannot know */
        vec sum[4];
#pragma GCC unroll 4
        for (uint32_t j = 0; j < 4; j++) sum[j] = f32_add(v_load(a + i + 128 * j), v_load(b + i + 128 * j));
#pragma GCC unroll 4
        for (uint32_t j = 0; j < 4; j++) v_store(y + i + 128 * j, sum[j]);
    }
    for (; i < 4 * n; i += 128) v_store(y + i, f32_add(v_load(a + i), v_load(b + i)));
    (void)isa;
}

void npu_swiglu(struct isa *isa, uint8_t *y, const uint8_t *a, const uint8_t *b, uint32_t n)
{
    const vec one = v_splat_w(F32_ONE), sign = v_splat_w((int32_t)0x80000000);
    for (uint32_t i = 0; i < 4 * n; i += 128) {
        vec x = v_load(a + i);
        vec gate = v_reciprocal(isa, f32_add(one, v_exp(isa, v_xor(x, sign))));
        v_store(y + i, f32_mul(f32_mul(x, gate), v_load(b + i)));
    }
}

/* gelu by tanh is x times the logistic function of sqrt(8 / pi) (x + 0.044715 x^3). */
void npu_geglu(struct isa *isa, uint8_t *y, const uint8_t *a, const uint8_t *b, uint32_t n)
{
    const vec one = v_splat_w(F32_ONE), linear = v_splat_w((int32_t)0xbfcc422a), cubic = v_splat_w(0x3d372713);
    for (uint32_t i = 0; i < 4 * n; i += 128) {
        vec x = v_load(a + i), inner = f32_add(x, f32_mul(f32_mul(f32_mul(x, x), x), cubic));
        vec gate = v_reciprocal(isa, f32_add(one, v_exp(isa, f32_mul(inner, linear))));
        v_store(y + i, f32_mul(f32_mul(x, gate), v_load(b + i)));
    }
}

void npu_relu2(struct isa *isa, uint8_t *y, const uint8_t *a, const uint8_t *b, uint32_t n)
{
    for (uint32_t i = 0; i < 4 * n; i += 128) {
        vec x = f32_max(v_load(a + i), v_zero());
        v_store(y + i, f32_mul(f32_mul(x, x), v_load(b + i)));
    }
    (void)isa;
}

void npu_rms_norm(
    struct isa *isa, uint8_t *y, const uint8_t *x, const uint8_t *restrict gain, uint32_t n, uint32_t eps_bits)
{
    vec squares = q32_add(v_zero(), v_zero());
    for (uint32_t i = 0; i < 4 * n; i += 128) {
        vec v = v_load(x + i);
        squares = q32_add_qq(squares, q32_mul(v, v));
    }
    vec mean = f32_mul(v_sum_w(isa, f32_of_q32(squares)), v_reciprocal(isa, f32_of_i32(v_splat_w((int32_t)n))));
    vec scale = v_rsqrt(isa, f32_add(mean, v_splat_w((int32_t)eps_bits)));
    uint32_t i = 0;
    for (; i + 512 <= 4 * n; i += 512) {
        vec out[4];
#pragma GCC unroll 4
        for (uint32_t j = 0; j < 4; j++)
            out[j] = f32_mul(f32_mul(v_load(x + i + 128 * j), scale), v_load(gain + i + 128 * j));
#pragma GCC unroll 4
        for (uint32_t j = 0; j < 4; j++) v_store(y + i + 128 * j, out[j]);
    }
    for (; i < 4 * n; i += 128) v_store(y + i, f32_mul(f32_mul(v_load(x + i), scale), v_load(gain + i)));
}

void npu_rope(struct isa *isa, uint8_t *y, const uint8_t *x, const uint8_t *restrict mask,
    const uint8_t *restrict table, uint32_t n, uint32_t period, uint32_t distance, uint8_t *restrict scratch)
{
    uint8_t *row = scratch + 4096;
    /* y may be x: the row is read before any of it is written.  As far as partners go, what lies before and behind it
     * is 0. */
    for (uint32_t i = 4096 - (4 * distance + 127) / 128 * 128; i < 4096; i += 128) {
        v_store(scratch + i, v_zero());
        v_store(row + 4 * n + 4096 - 128 - i, v_zero());
    }
    for (uint32_t i = 0; i < 4 * n; i += 128) v_store(row + i, v_load(x + i));
    for (uint32_t i = 0, at = 0; i < 4 * n; i += 128, at = at + 128 < 4 * period ? at + 128 : 0) {
        vec up = v_loadu(row + i + 4 * distance), down = v_loadu(row + i - 4 * distance);
        vec partner = v_mux(v_gt_ub(v_load(mask + at), v_zero()), up, down);
        vec c = v_load(table + at), s = v_load(table + 4 * period + at);
        v_store(y + i, f32_add(f32_mul(v_load(row + i), c), f32_mul(partner, s)));
    }
    (void)isa;
}
