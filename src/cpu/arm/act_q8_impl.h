/* SPDX-License-Identifier: MIT
 *
 * 16 activations to int8 with a given scale on NEON: what both forms of prepared activations share.
 */
#ifndef LUTRA_CPU_ARM_ACT_Q8_H
#define LUTRA_CPU_ARM_ACT_Q8_H

#include <arm_neon.h>
#include <string.h>

#include "base/compiler.h"
#include "cpu/layout.h"

LUTRA_INLINE float max_abs(const float *x, int n)
{
    float32x4_t m = vdupq_n_f32(0);
    for (int i = 0; i < n; i += 4) m = vmaxnmq_f32(m, vabsq_f32(vld1q_f32(x + i)));
    return vmaxnmvq_f32(m);
}

/* 16 inputs to int8, in order. */
LUTRA_INLINE int8x16_t quantize16(const float *x, float inverse)
{
    int16x8_t half[2];
    for (int i = 0; i < 2; i++) {
        int32x4_t a = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 8 * i), inverse));
        int32x4_t b = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 8 * i + 4), inverse));
        half[i] = vcombine_s16(vqmovn_s32(a), vqmovn_s32(b));
    }
    int8x16_t q = vcombine_s8(vqmovn_s16(half[0]), vqmovn_s16(half[1]));
    return vmaxq_s8(q, vdupq_n_s8(-127));
}

/* Quantizes 16 inputs and stores their steps of `step` inputs, `width` columns apart.  Returns their sum. */
LUTRA_INLINE int32_t put16(const float *x, float inverse, uint8_t *to, size_t width, size_t step)
{
    int8x16_t q = quantize16(x, inverse);
    uint8_t bytes[16];
    vst1q_u8(bytes, vreinterpretq_u8_s8(q));
    for (size_t i = 0; i < 16; i += step) memcpy(to + i * width, bytes + i, step);
    return vaddlvq_s8(q);
}

/* A largest value outside 1e-30 .. 1e38 makes its whole group zero. */
LUTRA_INLINE float inverse_of(float max)
{
    return max > 1e-30f && max < 1e38f ? 127.0f / max : 0;
}

LUTRA_INLINE float scale_of(float max)
{
    return max > 1e-30f && max < 1e38f ? max / 127.0f : 0;
}

/* What the 32 inputs of a q8x32 record have in common. */
struct scale32 {
    float scale, scaled; /* scaled: their sum times the scale */
    int32_t start;       /* -8 times their sum */
};

/* Quantizes 32 inputs as put16 does. */
LUTRA_INLINE struct scale32 put32(const float *x, float row_max, uint8_t *to, size_t width, size_t step)
{
    float max = row_max ? row_max : max_abs(x, 32), inverse = inverse_of(max);
    int32_t sum = put16(x, inverse, to, width, step) + put16(x + 16, inverse, to + 16 * width, width, step);
    float scale = scale_of(max);
    return (struct scale32){scale, scale * (float)sum, -8 * sum};
}

#endif
