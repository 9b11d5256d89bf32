/* SPDX-License-Identifier: MIT
 *
 * Activations to int8, one scale per 32 or per 256 inputs; the arithmetic of x86/act_avx2.c to the bit (but for NaN,
 * whose group that file spoils in another way).
 */
#include <arm_neon.h>
#include <string.h>

#include "base/compiler.h"
#include "cpu/layout.h"

static const float SMALLEST = 1e-30f, LARGEST = 1e38f;

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

/* Quantizes 16 inputs and stores their 4 steps, `width` columns apart.  Returns their sum. */
LUTRA_INLINE int32_t put16(const float *x, float inverse, uint8_t *to, size_t width)
{
    int8x16_t q = quantize16(x, inverse);
    uint8_t bytes[16];
    vst1q_u8(bytes, vreinterpretq_u8_s8(q));
    for (size_t i = 0; i < 4; i++) memcpy(to + i * width * 4, bytes + 4 * i, 4);
    return vaddlvq_s8(q);
}

LUTRA_INLINE float inverse_of(float max)
{
    return max > SMALLEST && max < LARGEST ? 127.0f / max : 0;
}

LUTRA_INLINE float scale_of(float max)
{
    return max > SMALLEST && max < LARGEST ? max / 127.0f : 0;
}

void cpu_act_row_q8x32(const float *x, size_t n_in, size_t row, size_t n_row, void *act)
{
    struct act_place p = act_place_of(row, n_row);
    uint8_t *r = (uint8_t *)act + p.block * ACT_COLUMNS * (n_in / 32) * ACT32_BYTES;
    for (size_t k = 0; k < n_in; k += 32, r += p.width * ACT32_BYTES) {
        float max = max_abs(x + k, 32), scale = scale_of(max), inverse = inverse_of(max);
        uint8_t *to = r + 4 * p.column, *tail = to + 32 * p.width;
        int32_t sum = put16(x + k, inverse, to, p.width);
        sum += put16(x + k + 16, inverse, to + 16 * p.width, p.width);
        int32_t start = -8 * sum;
        float scaled = scale * (float)sum;
        memcpy(tail, &scale, 4);
        memcpy(tail + 4 * p.width, &start, 4);
        memcpy(tail + 8 * p.width, &scaled, 4);
    }
}

void cpu_act_row_q8x256(const float *x, size_t n_in, size_t row, size_t n_row, void *act)
{
    struct act_place p = act_place_of(row, n_row);
    uint8_t *r = (uint8_t *)act + p.block * ACT_COLUMNS * (n_in / 256) * ACT256_BYTES;
    for (size_t k = 0; k < n_in; k += 256, r += p.width * ACT256_BYTES) {
        float max = max_abs(x + k, 256), scale = scale_of(max), inverse = inverse_of(max);
        uint8_t *to = r + 4 * p.column, *tail = to + 256 * p.width;
        int32_t start = 0, sum[2];
        memcpy(tail, &scale, 4);
        for (size_t g = 0; g < 8; g++) {
            for (size_t h = 0; h < 2; h++) {
                sum[h] = put16(x + k + 32 * g + 16 * h, inverse, to + (32 * g + 16 * h) * p.width, p.width);
                int32_t start16 = -32 * sum[h];
                memcpy(tail + (6 + 2 * g + h) * 4 * p.width, &start16, 4);
            }
            int16_t both = (int16_t)(sum[0] + sum[1]);
            memcpy(tail + (2 + g / 2) * 4 * p.width + 2 * (g % 2), &both, 2);
            start -= both;
        }
        memcpy(tail + 4 * p.width, &start, 4);
    }
}
