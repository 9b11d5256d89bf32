/* SPDX-License-Identifier: MIT
 *
 * Plain floats, and the 32-element formats with one scale (and one minimum) per block.  The quantizers follow the
 * rules of ggml's reference quantizers step by step, rounding included, so that files come out bit for bit alike.
 */
#include "base/f16.h"
#include "quant/formats_impl.h"

#include <string.h>

void quant_f32_dequantize(const void *src, float *dst, size_t n)
{
    memcpy(dst, src, n * sizeof *dst);
}

void quant_f32_quantize(const float *src, void *dst, size_t n)
{
    memcpy(dst, src, n * sizeof *src);
}

void quant_f16_dequantize(const void *src, float *dst, size_t n)
{
    const uint16_t *h = src;
    for (size_t i = 0; i < n; i++) dst[i] = f16_to_f32(h[i]);
}

void quant_f16_quantize(const float *src, void *dst, size_t n)
{
    uint16_t *h = dst;
    for (size_t i = 0; i < n; i++) h[i] = f32_to_f16(src[i]);
}

void quant_bf16_dequantize(const void *src, float *dst, size_t n)
{
    const uint16_t *h = src;
    for (size_t i = 0; i < n; i++) dst[i] = bf16_to_f32(h[i]);
}

void quant_bf16_quantize(const float *src, void *dst, size_t n)
{
    uint16_t *h = dst;
    for (size_t i = 0; i < n; i++) h[i] = f32_to_bf16(src[i]);
}

/* ---- 4 bits ---- */

void quant_q4_0_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_q4_0 *b = src;
    for (size_t k = 0; k < n / QUANT_BLOCK; k++, dst += QUANT_BLOCK) {
        float d = f16_to_f32(b[k].d);
        for (int i = 0; i < 16; i++) {
            dst[i] = (float)((b[k].qs[i] & 15) - 8) * d;
            dst[i + 16] = (float)((b[k].qs[i] >> 4) - 8) * d;
        }
    }
}

void quant_q4_0_quantize(const float *src, void *dst, size_t n)
{
    struct quant_q4_0 *b = dst;
    for (size_t k = 0; k < n / QUANT_BLOCK; k++, src += QUANT_BLOCK) {
        float d = quant_signed_max(src, QUANT_BLOCK) / -8, id = d != 0 ? 1.0f / d : 0.0f;
        b[k].d = f32_to_f16(d);
        for (int i = 0; i < 16; i++) {
            int lo = quant_clamp(src[i] * id + 8.5f, 0, 15), hi = quant_clamp(src[i + 16] * id + 8.5f, 0, 15);
            b[k].qs[i] = (uint8_t)(lo | hi << 4);
        }
    }
}

void quant_q4_1_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_q4_1 *b = src;
    for (size_t k = 0; k < n / QUANT_BLOCK; k++, dst += QUANT_BLOCK) {
        float d = f16_to_f32(b[k].d), m = f16_to_f32(b[k].m);
        for (int i = 0; i < 16; i++) {
            dst[i] = (float)(b[k].qs[i] & 15) * d + m;
            dst[i + 16] = (float)(b[k].qs[i] >> 4) * d + m;
        }
    }
}

void quant_q4_1_quantize(const float *src, void *dst, size_t n)
{
    struct quant_q4_1 *b = dst;
    for (size_t k = 0; k < n / QUANT_BLOCK; k++, src += QUANT_BLOCK) {
        float min, max;
        quant_min_max(src, QUANT_BLOCK, &min, &max);
        float d = (max - min) / 15, id = d != 0 ? 1.0f / d : 0.0f;
        b[k].d = f32_to_f16(d);
        b[k].m = f32_to_f16(min);
        for (int i = 0; i < 16; i++) {
            int lo = quant_clamp((src[i] - min) * id + 0.5f, 0, 15);
            int hi = quant_clamp((src[i + 16] - min) * id + 0.5f, 0, 15);
            b[k].qs[i] = (uint8_t)(lo | hi << 4);
        }
    }
}

/* ---- 5 bits: the fifth bits of 32 elements are one little-endian u32 ---- */

static uint32_t load32(const uint8_t p[4])
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

void quant_pack5(const uint8_t code[QUANT_BLOCK], uint8_t qs[16], uint8_t qh[4])
{
    uint32_t high = 0;
    for (int i = 0; i < QUANT_BLOCK; i++) high |= (uint32_t)(code[i] >> 4) << i;
    for (int i = 0; i < 16; i++) qs[i] = (uint8_t)((code[i] & 15) | (code[i + 16] & 15) << 4);
    for (int i = 0; i < 4; i++) qh[i] = (uint8_t)(high >> 8 * i);
}

static void unpack5(const uint8_t qs[16], const uint8_t qh[4], uint8_t code[QUANT_BLOCK])
{
    uint32_t high = load32(qh);
    for (int i = 0; i < 16; i++) {
        code[i] = (uint8_t)((qs[i] & 15) | (high >> i & 1) << 4);
        code[i + 16] = (uint8_t)(qs[i] >> 4 | (high >> (i + 16) & 1) << 4);
    }
}

void quant_q5_0_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_q5_0 *b = src;
    uint8_t code[QUANT_BLOCK];
    for (size_t k = 0; k < n / QUANT_BLOCK; k++, dst += QUANT_BLOCK) {
        float d = f16_to_f32(b[k].d);
        unpack5(b[k].qs, b[k].qh, code);
        for (int i = 0; i < QUANT_BLOCK; i++) dst[i] = (float)(code[i] - 16) * d;
    }
}

void quant_q5_0_quantize(const float *src, void *dst, size_t n)
{
    struct quant_q5_0 *b = dst;
    uint8_t code[QUANT_BLOCK];
    for (size_t k = 0; k < n / QUANT_BLOCK; k++, src += QUANT_BLOCK) {
        float d = quant_signed_max(src, QUANT_BLOCK) / -16, id = d != 0 ? 1.0f / d : 0.0f;
        b[k].d = f32_to_f16(d);
        for (int i = 0; i < QUANT_BLOCK; i++) code[i] = (uint8_t)quant_clamp(src[i] * id + 16.5f, 0, 31);
        quant_pack5(code, b[k].qs, b[k].qh);
    }
}

void quant_q5_1_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_q5_1 *b = src;
    uint8_t code[QUANT_BLOCK];
    for (size_t k = 0; k < n / QUANT_BLOCK; k++, dst += QUANT_BLOCK) {
        float d = f16_to_f32(b[k].d), m = f16_to_f32(b[k].m);
        unpack5(b[k].qs, b[k].qh, code);
        for (int i = 0; i < QUANT_BLOCK; i++) dst[i] = (float)code[i] * d + m;
    }
}

void quant_q5_1_quantize(const float *src, void *dst, size_t n)
{
    struct quant_q5_1 *b = dst;
    uint8_t code[QUANT_BLOCK];
    for (size_t k = 0; k < n / QUANT_BLOCK; k++, src += QUANT_BLOCK) {
        float min, max;
        quant_min_max(src, QUANT_BLOCK, &min, &max);
        float d = (max - min) / 31, id = d != 0 ? 1.0f / d : 0.0f;
        b[k].d = f32_to_f16(d);
        b[k].m = f32_to_f16(min);
        for (int i = 0; i < QUANT_BLOCK; i++) code[i] = (uint8_t)quant_clamp((src[i] - min) * id + 0.5f, 0, 31);
        quant_pack5(code, b[k].qs, b[k].qh);
    }
}

/* ---- 8 bits ---- */

void quant_q8_0_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_q8_0 *b = src;
    for (size_t k = 0; k < n / QUANT_BLOCK; k++, dst += QUANT_BLOCK) {
        float d = f16_to_f32(b[k].d);
        for (int i = 0; i < QUANT_BLOCK; i++) dst[i] = (float)b[k].qs[i] * d;
    }
}

void quant_q8_0_quantize(const float *src, void *dst, size_t n)
{
    struct quant_q8_0 *b = dst;
    for (size_t k = 0; k < n / QUANT_BLOCK; k++, src += QUANT_BLOCK) {
        float d = fabsf(quant_signed_max(src, QUANT_BLOCK)) / 127, id = d != 0 ? 1.0f / d : 0.0f;
        b[k].d = f32_to_f16(d);
        /* Halves away from zero, as roundf does. */
        for (int i = 0; i < QUANT_BLOCK; i++) b[k].qs[i] = (int8_t)quant_clamp(roundf(src[i] * id), -127, 127);
    }
}
