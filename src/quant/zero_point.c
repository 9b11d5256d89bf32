/* SPDX-License-Identifier: MIT */
#include "quant/zero_point.h"

#include "base/f16.h"
#include "quant/formats_impl.h"

#include <string.h>

enum { N = QUANT_GROUP64 };

/* The byte of a block and the bit in it where code i begins; of W3 its low bits. */
static size_t place_of(enum quant_type type, int i, int *shift)
{
    size_t qs = type == QUANT_W3 ? offsetof(struct quant_w3, qs) : offsetof(struct quant_w2, qs);
    *shift = type == QUANT_W4 ? i % 32 / 16 * 4 : i % 4 * 2;
    return qs + (size_t)(type == QUANT_W4 ? i / 32 * 16 + i % 16 : i / 4);
}

void quant_zero_point_pack(enum quant_type type, uint16_t d, int zero, const uint8_t *code, void *block)
{
    uint8_t *to = block, *high = to + offsetof(struct quant_w3, qh);
    const int mask = type == QUANT_W4 ? 15 : 3;
    memset(to, 0, quant_info_of(type)->block_bytes);
    to[0] = (uint8_t)d, to[1] = (uint8_t)(d >> 8), to[2] = (uint8_t)zero;
    for (int i = 0; i < N; i++) {
        int shift;
        size_t at = place_of(type, i, &shift);
        to[at] |= (uint8_t)((code[i] & mask) << shift);
        if (type == QUANT_W3) high[i / 8] |= (uint8_t)(code[i] >> 2 << i % 8);
    }
}

void quant_zero_point_unpack(enum quant_type type, const void *block, uint16_t *d, int *zero, uint8_t *code)
{
    const uint8_t *from = block, *high = from + offsetof(struct quant_w3, qh);
    const int mask = type == QUANT_W4 ? 15 : 3;
    *d = (uint16_t)(from[0] | from[1] << 8);
    *zero = from[2];
    for (int i = 0; i < N; i++) {
        int shift;
        size_t at = place_of(type, i, &shift);
        code[i] = (uint8_t)(from[at] >> shift & mask);
        if (type == QUANT_W3) code[i] |= (uint8_t)((high[i / 8] >> i % 8 & 1) << 2);
    }
}

static void dequantize(enum quant_type type, const uint8_t *src, float *dst, size_t n)
{
    const size_t bytes = quant_info_of(type)->block_bytes;
    uint8_t code[N];
    uint16_t d;
    int zero;
    for (size_t k = 0; k < n / N; k++, src += bytes, dst += N) {
        quant_zero_point_unpack(type, src, &d, &zero, code);
        float scale = f16_to_f32(d);
        for (int i = 0; i < N; i++) dst[i] = (float)(code[i] - zero) * scale;
    }
}

void quant_w2_dequantize(const void *src, float *dst, size_t n)
{
    dequantize(QUANT_W2, src, dst, n);
}

void quant_w3_dequantize(const void *src, float *dst, size_t n)
{
    dequantize(QUANT_W3, src, dst, n);
}

void quant_w4_dequantize(const void *src, float *dst, size_t n)
{
    dequantize(QUANT_W4, src, dst, n);
}

enum quant_type quant_gguf_type(enum quant_type type)
{
    if (type == QUANT_W4) return QUANT_Q5_0;
    return type == QUANT_W2 || type == QUANT_W3 ? QUANT_Q4_0 : type;
}

void quant_zero_point_pack_wide(enum quant_type type, uint16_t d, int zero, const uint8_t *code, void *block)
{
    const int offset = (type == QUANT_Q4_0 ? 8 : 16) - zero;
    struct quant_q4_0 b4 = {.d = d};
    struct quant_q5_0 b5 = {.d = d};
    uint8_t x[QUANT_BLOCK];
    for (int i = 0; i < QUANT_BLOCK; i++) x[i] = (uint8_t)(code[i] + offset);
    if (type == QUANT_Q5_0) {
        quant_pack5(x, b5.qs, b5.qh);
        memcpy(block, &b5, sizeof b5);
        return;
    }
    for (int i = 0; i < 16; i++) b4.qs[i] = (uint8_t)((x[i] & 15) | (x[i + 16] & 15) << 4);
    memcpy(block, &b4, sizeof b4);
}

void quant_zero_point_widen(enum quant_type type, const void *src, void *dst, size_t n)
{
    const enum quant_type wide = quant_gguf_type(type);
    const size_t from = quant_info_of(type)->block_bytes, to = quant_info_of(wide)->block_bytes;
    const uint8_t *block = src;
    uint8_t *out = dst, code[N];
    uint16_t d;
    int zero;
    for (size_t k = 0; k < n / N; k++, block += from) {
        quant_zero_point_unpack(type, block, &d, &zero, code);
        for (int half = 0; half < N; half += QUANT_BLOCK, out += to)
            quant_zero_point_pack_wide(wide, d, zero, code + half, out);
    }
}
