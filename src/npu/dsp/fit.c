/* SPDX-License-Identifier: MIT
 *
 * Rows with massive activations, as real models have them at the input of ffn_down: a power of two makes them fit
 * halves. Ordinary rows keep every bit.
 */
#include "npu/dsp/kernels.h"

enum { ONE = 127, LIMIT = ONE + 13, INFINITE = 255 }; /* biased exponents */

static void times(struct isa *isa, uint8_t *y, uint32_t n, vec factor)
{
    for (uint32_t i = 0; i < 4 * n; i += 128) v_store(y + i, f32_mul(v_load(y + i), factor));
    (void)isa;
}

void npu_fit(struct isa *isa, uint8_t *y, uint8_t *restrict factor, uint32_t n)
{
    const vec magnitude = v_splat_w(0x7fffffff);
    vec most = v_zero();
    for (uint32_t i = 0; i < 4 * n; i += 128) most = v_max_w(most, v_and(v_load(y + i), magnitude));
#pragma GCC unroll 5
    for (int i = 64; i >= 4; i >>= 1) most = v_max_w(most, v_ror(most, i));
    uint32_t exponent = (uint32_t)v_get_w(most, 0) >> 23, up = ONE;
    if (exponent >= LIMIT && exponent != INFINITE) { /* infinities and NaN are the row's own */
        up = ONE + exponent - (LIMIT - 1);
        times(isa, y, n, v_splat_w((int32_t)((2 * ONE - up) << 23)));
    }
    v_store(factor, v_splat_w((int32_t)(up << 23)));
}

void npu_unfit(struct isa *isa, uint8_t *y, const uint8_t *restrict factor, uint32_t n)
{
    if (s_load_u32(factor) != (uint32_t)ONE << 23) times(isa, y, n, v_load(factor));
}
