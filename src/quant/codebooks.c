/* SPDX-License-Identifier: MIT
 *
 * Formats with codebooks: IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S.
 *
 * A block is read into one form, whatever its format: indices, signs, the integer scale of each 16 elements.  Those of
 * 2 and 3 bits are written, too: codebooks_write.c.
 */
#include "quant/codebooks.h"

#include <stdbool.h>
#include <string.h>

#include "base/f16.h"
#include "base/rng.h"
#include "quant/formats_impl.h"
#include "quant/quant.h"

enum { GROUP = 16, GROUPS = QUANT_SUPER / GROUP };

/* A block.  index: of elements e .. e + elems - 1 at e / elems.  signs: of 8 elements each; of IQ1 all or none:
 * delta < 0. */
struct block {
    uint16_t d;
    uint8_t s[GROUPS], signs[32];
    uint16_t index[64];
};

/* ---- 7 signs of 8 ---- */

static uint8_t with_eighth(uint32_t seven)
{
    uint32_t odd = seven ^ seven >> 4;
    odd ^= odd >> 2;
    odd ^= odd >> 1;
    return (uint8_t)(seven | (odd & 1) << 7);
}

/* 4 x 7 signs and a scale, of 32 elements. */
static void read_word(const uint8_t p[4], uint8_t signs[4], uint8_t s[2])
{
    uint32_t w = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    for (int l = 0; l < 4; l++) signs[l] = with_eighth(w >> 7 * l & 127);
    s[0] = s[1] = (uint8_t)(w >> 28);
}

static void read_nibbles(const uint8_t *p, int n, int each, uint8_t s[GROUPS])
{
    for (int i = 0; i < n * each; i++) s[i] = p[i / each / 2] >> i / each % 2 * 4 & 15;
}

/* ---- each format's bytes ---- */

static void read_iq2_xxs(const void *src, struct block *b)
{
    const struct quant_iq2_xxs *in = src;
    b->d = in->d;
    for (int g = 0; g < 8; g++) {
        for (int l = 0; l < 4; l++) b->index[4 * g + l] = in->qs[8 * g + l];
        read_word(in->qs + 8 * g + 4, b->signs + 4 * g, b->s + 2 * g);
    }
}

static void read_iq2_xs(const void *src, struct block *b)
{
    const struct quant_iq2_xs *in = src;
    b->d = in->d;
    for (int i = 0; i < 32; i++) {
        int q = in->qs[2 * i] | in->qs[2 * i + 1] << 8;
        b->index[i] = (uint16_t)(q & 511);
        b->signs[i] = with_eighth((uint32_t)q >> 9);
    }
    read_nibbles(in->scales, 16, 1, b->s);
}

static void read_iq2_s(const void *src, struct block *b)
{
    const struct quant_iq2_s *in = src;
    b->d = in->d;
    for (int i = 0; i < 32; i++) b->index[i] = (uint16_t)(in->qs[i] | (in->qh[i / 4] >> i % 4 * 2 & 3) << 8);
    memcpy(b->signs, in->signs, sizeof b->signs);
    read_nibbles(in->scales, 16, 1, b->s);
}

static void read_iq3_xxs(const void *src, struct block *b)
{
    const struct quant_iq3_xxs *in = src;
    b->d = in->d;
    for (int i = 0; i < 64; i++) b->index[i] = in->qs[i];
    for (int g = 0; g < 8; g++) read_word(in->signs + 4 * g, b->signs + 4 * g, b->s + 2 * g);
}

static void read_iq3_s(const void *src, struct block *b)
{
    const struct quant_iq3_s *in = src;
    b->d = in->d;
    for (int i = 0; i < 64; i++) b->index[i] = (uint16_t)(in->qs[i] | (in->qh[i / 8] >> i % 8 & 1) << 8);
    memcpy(b->signs, in->signs, sizeof b->signs);
    read_nibbles(in->scales, 8, 2, b->s);
}

static void read_iq1_s(const void *src, struct block *b)
{
    const struct quant_iq1_s *in = src;
    b->d = in->d;
    for (int i = 0; i < 32; i++) {
        b->index[i] = (uint16_t)(in->qs[i] | (in->qh[i / 4] >> i % 4 * 3 & 7) << 8);
        b->signs[i] = in->qh[i / 4] >> 15 ? 0xff : 0;
    }
    for (int i = 0; i < GROUPS; i++) b->s[i] = in->qh[i / 2] >> 12 & 7;
}

static void read_iq1_m(const void *src, struct block *b)
{
    const struct quant_iq1_m *in = src;
    b->d = 0;
    for (int i = 0; i < 4; i++) b->d |= (uint16_t)(in->scales[i] >> 12 << 4 * i);
    for (int i = 0; i < 32; i++) {
        int high = in->qh[i / 2] >> i % 2 * 4;
        b->index[i] = (uint16_t)(in->qs[i] | (high & 7) << 8);
        b->signs[i] = high & 8 ? 0xff : 0;
    }
    for (int g = 0; g < GROUPS; g++) b->s[g] = in->scales[g / 4] >> g % 4 * 3 & 7;
}

/* ---- values ---- */

/* A format: its codebook of entries of `elems` elements with `bits` bits each, what those bits stand for, whether signs
 * are a delta added to the value, and the power of two that d is multiplied by. */
struct book {
    size_t block_bytes;
    void (*read)(const void *src, struct block *b);
    const uint16_t *entry;
    int elems, bits;
    int8_t value[8];
    bool delta;
    float unit;
};

static const struct book IQ2_XXS = {
    sizeof(struct quant_iq2_xxs), read_iq2_xxs, quant_iq2_xxs_book, 8, 2, QUANT_IQ2_MAGNITUDES, false, 0.125f};
static const struct book IQ2_XS = {
    sizeof(struct quant_iq2_xs), read_iq2_xs, quant_iq2_xs_book, 8, 2, QUANT_IQ2_MAGNITUDES, false, 0.125f};
static const struct book IQ2_S = {
    sizeof(struct quant_iq2_s), read_iq2_s, quant_iq2_s_book, 8, 2, QUANT_IQ2_MAGNITUDES, false, 0.125f};
static const struct book IQ3_XXS = {
    sizeof(struct quant_iq3_xxs), read_iq3_xxs, quant_iq3_xxs_book, 4, 3, QUANT_IQ3_XXS_MAGNITUDES, false, 0.25f};
static const struct book IQ3_S = {
    sizeof(struct quant_iq3_s), read_iq3_s, quant_iq3_s_book, 4, 3, QUANT_IQ3_S_MAGNITUDES, false, 1};
static const struct book IQ1_S = {
    sizeof(struct quant_iq1_s), read_iq1_s, quant_iq1_book, 8, 2, {-8, 0, 8}, true, 0.125f};
static const struct book IQ1_M = {
    sizeof(struct quant_iq1_m), read_iq1_m, quant_iq1_book, 8, 2, {-8, 0, 8}, true, 0.125f};

static int value_of(const struct book *k, const struct block *b, int e)
{
    int field = k->entry[b->index[e / k->elems]] >> k->bits * (e % k->elems) & ((1 << k->bits) - 1);
    int v = k->value[field], negative = b->signs[e / 8] >> e % 8 & 1;
    return k->delta ? v + (negative ? -1 : 1) : negative ? -v : v;
}

/* All exact: d has 11 bits, the integers 11. */
static void dequantize(const struct book *k, const void *src, float *dst, size_t n)
{
    struct block b;
    for (size_t i = 0; i < n / QUANT_SUPER; i++, dst += QUANT_SUPER) {
        k->read((const uint8_t *)src + i * k->block_bytes, &b);
        float d = f16_to_f32(b.d) * k->unit;
        for (int e = 0; e < QUANT_SUPER; e++) dst[e] = d * (float)((2 * b.s[e / GROUP] + 1) * value_of(k, &b, e));
    }
}

void quant_iq2_xxs_dequantize(const void *src, float *dst, size_t n)
{
    dequantize(&IQ2_XXS, src, dst, n);
}

void quant_iq2_xs_dequantize(const void *src, float *dst, size_t n)
{
    dequantize(&IQ2_XS, src, dst, n);
}

void quant_iq2_s_dequantize(const void *src, float *dst, size_t n)
{
    dequantize(&IQ2_S, src, dst, n);
}

void quant_iq3_xxs_dequantize(const void *src, float *dst, size_t n)
{
    dequantize(&IQ3_XXS, src, dst, n);
}

void quant_iq3_s_dequantize(const void *src, float *dst, size_t n)
{
    dequantize(&IQ3_S, src, dst, n);
}

void quant_iq1_s_dequantize(const void *src, float *dst, size_t n)
{
    dequantize(&IQ1_S, src, dst, n);
}

void quant_iq1_m_dequantize(const void *src, float *dst, size_t n)
{
    dequantize(&IQ1_M, src, dst, n);
}

/* ---- random blocks ---- */

/* Of a block of random bytes.  NVFP4's scales have 4 bits of precision and fewer below 2^-6: the nearest. */
static void set_d(enum quant_type type, uint8_t *block, float d)
{
    uint16_t half = f32_to_f16(d), *scales = (uint16_t *)(void *)(block + offsetof(struct quant_iq1_m, scales));
    if (type == QUANT_NVFP4) {
        int power;
        float mantissa = roundf(16 * frexpf(d, &power)); /* 8 to 16 */
        int code = power > -6 ? (int)mantissa + 8 * (power + 5) : (int)roundf(ldexpf(d, 9));
        memset(block, code < 0 ? 0 : code > 0x7e ? 0x7e : code, 4);
    } else if (type == QUANT_NVFP4_SCALED) {
        memset(block + 4, 0x38, 4);
        memcpy(block, &d, 4);
    } else if (type != QUANT_IQ1_M) {
        memcpy(block, &half, sizeof half);
    }
    if (type >= QUANT_W2 && type <= QUANT_W4) block[offsetof(struct quant_w2, zero)] &= (4 << (type - QUANT_W2)) - 1;
    for (int i = 0; i < 4 && type == QUANT_IQ1_M; i++)
        scales[i] = (uint16_t)((scales[i] & 0xfff) | (half >> 4 * i & 15) << 12);
}

void quant_random_blocks(const struct quant_info *q, uint64_t seed, float deviation, void *dst, size_t n)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint8_t *block = dst;
    for (size_t i = 0; i < n / q->block_elems; i++, block += q->block_bytes) {
        float x[QUANT_SUPER], square = 0;
        uint32_t word[4];
        for (uint32_t k = 0; k < q->block_bytes; k++) {
            if (k % 16 == 0) rng_philox((uint32_t[4]){(uint32_t)i, (uint32_t)(i >> 32), k, q->type}, key, word);
            block[k] = (uint8_t)(word[k / 4 % 4] >> k % 4 * 8);
        }
        set_d(q->type, block, 1);
        q->dequantize(block, x, q->block_elems);
        for (uint32_t e = 0; e < q->block_elems; e++) square += x[e] * x[e];
        set_d(q->type, block, deviation / sqrtf(square / (float)q->block_elems));
    }
}
