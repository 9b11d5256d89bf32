/* SPDX-License-Identifier: MIT
 *
 * Formats with codebooks: IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S.
 *
 * A block is read into one form, whatever its format: indices, signs, the integer scale of each 16 elements.  The
 * quantizers fill that form and write it back.  They search each group's scale among a few, every index among all
 * entries, by plain squared error.
 */
#include "quant/codebooks.h"

#include <stdbool.h>
#include <string.h>

#include "base/f16.h"
#include "quant/formats_impl.h"

enum { MOST = 2048, GROUP = 16, GROUPS = QUANT_SUPER / GROUP };

/* A format: its codebook of n entries of `elems` elements with `bits` bits each, what those bits stand for, the
 * groups of 16 that share a scale, its largest integer s, and the power of two that d is divided by. */
struct book {
    const uint16_t *entry;
    int n, elems, bits;
    int8_t value[8];
    int shared, s_max;
    float unit;
    enum { EVEN, FREE, DELTA_PER_32, DELTA_PER_8 } signs;
};

static const struct book IQ2_XXS = {quant_iq2_xxs_book, 256, 8, 2, QUANT_IQ2_MAGNITUDES, 2, 15, 0.125f, EVEN};
static const struct book IQ2_XS = {quant_iq2_xs_book, 512, 8, 2, QUANT_IQ2_MAGNITUDES, 1, 15, 0.125f, EVEN};
static const struct book IQ2_S = {quant_iq2_s_book, 1024, 8, 2, QUANT_IQ2_MAGNITUDES, 1, 15, 0.125f, FREE};
static const struct book IQ3_XXS = {quant_iq3_xxs_book, 256, 4, 3, QUANT_IQ3_XXS_MAGNITUDES, 2, 15, 0.25f, EVEN};
static const struct book IQ3_S = {quant_iq3_s_book, 512, 4, 3, QUANT_IQ3_S_MAGNITUDES, 2, 15, 1, FREE};
static const struct book IQ1_S = {quant_iq1_book, 2048, 8, 2, {-8, 0, 8}, 2, 7, 0.125f, DELTA_PER_32};
static const struct book IQ1_M = {quant_iq1_book, 2048, 8, 2, {-8, 0, 8}, 1, 7, 0.125f, DELTA_PER_8};

/* A block.  index: of elements e .. e + elems - 1 at e / elems.  signs: of 8 elements each; of IQ1 all or none:
 * delta < 0. */
struct block {
    uint16_t d;
    uint8_t s[GROUPS], signs[32];
    uint16_t index[64];
};

/* ---- values ---- */

static bool has_delta(const struct book *k)
{
    return k->signs == DELTA_PER_32 || k->signs == DELTA_PER_8;
}

/* Element i of an entry, unsigned or without its delta. */
static int element(const struct book *k, int entry, int i)
{
    return k->value[k->entry[entry] >> k->bits * i & ((1 << k->bits) - 1)];
}

static int value_of(const struct book *k, const struct block *b, int e)
{
    int v = element(k, b->index[e / k->elems], e % k->elems), negative = b->signs[e / 8] >> e % 8 & 1;
    return has_delta(k) ? v + (negative ? -1 : 1) : negative ? -v : v;
}

/* All exact: d has 11 bits, the integers 11. */
static void dequantize(const struct book *k, const struct block *b, float *dst)
{
    float d = f16_to_f32(b->d) * k->unit;
    for (int e = 0; e < QUANT_SUPER; e++) dst[e] = d * (float)((2 * b->s[e / GROUP] + 1) * value_of(k, b, e));
}

/* ---- search ---- */

/* The entries of a format as numbers. */
struct table {
    float v[MOST][8], vv[MOST];
};

static void expand(const struct book *k, struct table *t)
{
    for (int i = 0; i < k->n; i++) {
        t->vv[i] = 0;
        for (int j = 0; j < k->elems; j++) {
            t->v[i][j] = (float)element(k, i, j);
            t->vv[i] += t->v[i][j] * t->v[i][j];
        }
    }
}

/* The entry nearest to x[elems]; *far gets its squared distance less that of x itself. */
static int nearest(const struct book *k, const struct table *t, const float *x, float *far)
{
    int best = 0;
    *far = INFINITY;
    for (int i = 0; i < k->n; i++) {
        float xv = 0;
        for (int j = 0; j < k->elems; j++) xv += x[j] * t->v[i][j];
        float distance = t->vv[i] - 2 * xv;
        if (distance < *far) {
            *far = distance;
            best = i;
        }
    }
    return best;
}

/* Signs of x[8]; where they have to be even, the smallest element gives way. */
static uint8_t signs_of(const struct book *k, const float *x)
{
    int signs = 0, least = 0, odd = 0;
    for (int j = 0; j < 8; j++) {
        signs |= (x[j] < 0) << j;
        odd ^= x[j] < 0;
        if (fabsf(x[j]) < fabsf(x[least])) least = j;
    }
    return (uint8_t)(k->signs == EVEN && odd ? signs ^ 1 << least : signs);
}

/* Codes of elements from .. from + n - 1 for the scale 1 / inverse; n: 8, or 32 where they share a delta. */
static float choose(const struct book *k, const struct table *t, const float *x, float inverse, int from, int n,
    uint8_t delta, struct block *b)
{
    float far, all = 0, y[8];
    for (int e = from; e < from + n; e += 8) {
        for (int j = 0; j < 8; j++) y[j] = x[e + j] * inverse;
        b->signs[e / 8] = has_delta(k) ? delta : signs_of(k, y);
        for (int j = 0; j < 8; j++)
            y[j] = has_delta(k) ? y[j] - (delta ? -1 : 1) : b->signs[e / 8] >> j & 1 ? -y[j] : y[j];
        for (int j = 0; j < 8; j += k->elems) {
            b->index[(e + j) / k->elems] = (uint16_t)nearest(k, t, y + j, &far);
            all += far;
        }
        for (int j = 0; has_delta(k) && j < 8; j++) all += y[j] * y[j]; /* what distances leave out depends on delta */
    }
    return all;
}

/* The best codes of a group of `n` elements from `from` on. */
static void choose_group(
    const struct book *k, const struct table *t, const float *x, float inverse, int from, int n, struct block *b)
{
    int step = k->signs == DELTA_PER_32 ? 32 : 8;
    for (int e = from; e < from + n; e += step) {
        float below = has_delta(k) ? choose(k, t, x, inverse, e, step, 0xff, b) : INFINITY;
        if (choose(k, t, x, inverse, e, step, 0, b) > below) choose(k, t, x, inverse, e, step, 0xff, b);
    }
}

/* Sums of x v and v v over a group. */
static void products(const struct book *k, const struct block *b, const float *x, int from, int n, float *xv, float *vv)
{
    *xv = *vv = 0;
    for (int e = from; e < from + n; e++) {
        float v = (float)value_of(k, b, e);
        *xv += x[e] * v;
        *vv += v * v;
    }
}

/* The best scale for the codes of a trial scale is xv / vv and lowers the squared error by xv^2 / vv. */
static float search_scale(const struct book *k, const struct table *t, const float *x, int from, int n, struct block *b)
{
    float max = fabsf(quant_signed_max(x + from, n)), top = (float)k->value[(1 << k->bits) - 1], gain = 0, best = 0;
    if (k->bits == 2) top = (float)k->value[2];
    if (!(max > 0) || isinf(max)) return 0;
    for (int trial = 0; trial < 12; trial++, top *= 0.86f) {
        float xv, vv;
        choose_group(k, t, x, top / max, from, n, b);
        products(k, b, x, from, n, &xv, &vv);
        if (vv > 0 && xv > 0 && xv * xv > gain * vv) {
            gain = xv * xv / vv;
            best = xv / vv;
        }
        if (k->value[0] < 0 && trial == 5) break; /* IQ1: fewer magnitudes */
    }
    return best;
}

/* The integers s whose 2 s + 1 times d come nearest to the scales, and codes for them; returns the best d for those. */
static float choose_block(
    const struct book *k, const struct table *t, const float *x, const float scale[GROUPS], float d, struct block *b)
{
    double xu = 0, uu = 0;
    int n = GROUP * k->shared;
    for (int from = 0; from < QUANT_SUPER; from += n) {
        int s = quant_clamp((scale[from / n] / (d != 0 ? d : 1) - 1) / 2 + 0.5f, 0, k->s_max);
        float xv, vv, own = d * (float)(2 * s + 1);
        for (int i = 0; i < k->shared; i++) b->s[from / GROUP + i] = (uint8_t)s;
        choose_group(k, t, x, own > 0 ? 1 / own : 0, from, n, b);
        products(k, b, x, from, n, &xv, &vv);
        xu += (2 * s + 1) * (double)xv;
        uu += (2 * s + 1) * (2 * s + 1) * (double)vv;
    }
    return uu > 0 && xu > 0 ? (float)(xu / uu) : d;
}

static void quantize(const struct book *k, const struct table *t, const float *x, struct block *b)
{
    float scale[GROUPS], max = 0;
    int n = GROUP * k->shared;
    for (int from = 0; from < QUANT_SUPER; from += n) {
        scale[from / n] = search_scale(k, t, x, from, n, b);
        max = fmaxf(max, scale[from / n]);
    }
    float d = max / (float)(2 * k->s_max + 1);
    b->d = f32_to_f16(choose_block(k, t, x, scale, d, b) / k->unit);
    choose_block(k, t, x, scale, f16_to_f32(b->d) * k->unit, b);
}

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

static void write_word(const uint8_t signs[4], const uint8_t s[2], uint8_t p[4])
{
    uint32_t w = (uint32_t)s[0] << 28;
    for (int l = 0; l < 4; l++) w |= (uint32_t)(signs[l] & 127) << 7 * l;
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(w >> 8 * i);
}

static void read_nibbles(const uint8_t *p, int n, int each, uint8_t s[GROUPS])
{
    for (int i = 0; i < n * each; i++) s[i] = p[i / each / 2] >> i / each % 2 * 4 & 15;
}

static void write_nibbles(const uint8_t s[GROUPS], int n, int each, uint8_t *p)
{
    for (int i = 0; i < n; i += 2) p[i / 2] = (uint8_t)(s[i * each] | s[(i + 1) * each] << 4);
}

/* ---- each format's bytes ---- */

static void read_iq2_xxs(const struct quant_iq2_xxs *in, struct block *b)
{
    b->d = in->d;
    for (int g = 0; g < 8; g++) {
        for (int l = 0; l < 4; l++) b->index[4 * g + l] = in->qs[8 * g + l];
        read_word(in->qs + 8 * g + 4, b->signs + 4 * g, b->s + 2 * g);
    }
}

static void write_iq2_xxs(const struct block *b, struct quant_iq2_xxs *out)
{
    out->d = b->d;
    for (int g = 0; g < 8; g++) {
        for (int l = 0; l < 4; l++) out->qs[8 * g + l] = (uint8_t)b->index[4 * g + l];
        write_word(b->signs + 4 * g, b->s + 2 * g, out->qs + 8 * g + 4);
    }
}

static void read_iq2_xs(const struct quant_iq2_xs *in, struct block *b)
{
    b->d = in->d;
    for (int i = 0; i < 32; i++) {
        int q = in->qs[2 * i] | in->qs[2 * i + 1] << 8;
        b->index[i] = (uint16_t)(q & 511);
        b->signs[i] = with_eighth((uint32_t)q >> 9);
    }
    read_nibbles(in->scales, 16, 1, b->s);
}

static void write_iq2_xs(const struct block *b, struct quant_iq2_xs *out)
{
    out->d = b->d;
    for (int i = 0; i < 32; i++) {
        int q = b->index[i] | (b->signs[i] & 127) << 9;
        out->qs[2 * i] = (uint8_t)q;
        out->qs[2 * i + 1] = (uint8_t)(q >> 8);
    }
    write_nibbles(b->s, 16, 1, out->scales);
}

static void read_iq2_s(const struct quant_iq2_s *in, struct block *b)
{
    b->d = in->d;
    for (int i = 0; i < 32; i++) b->index[i] = (uint16_t)(in->qs[i] | (in->qh[i / 4] >> i % 4 * 2 & 3) << 8);
    memcpy(b->signs, in->signs, sizeof b->signs);
    read_nibbles(in->scales, 16, 1, b->s);
}

static void write_iq2_s(const struct block *b, struct quant_iq2_s *out)
{
    memset(out, 0, sizeof *out);
    out->d = b->d;
    for (int i = 0; i < 32; i++) {
        out->qs[i] = (uint8_t)b->index[i];
        out->qh[i / 4] |= (uint8_t)(b->index[i] >> 8 << i % 4 * 2);
    }
    memcpy(out->signs, b->signs, sizeof b->signs);
    write_nibbles(b->s, 16, 1, out->scales);
}

static void read_iq3_xxs(const struct quant_iq3_xxs *in, struct block *b)
{
    b->d = in->d;
    for (int i = 0; i < 64; i++) b->index[i] = in->qs[i];
    for (int g = 0; g < 8; g++) read_word(in->signs + 4 * g, b->signs + 4 * g, b->s + 2 * g);
}

static void write_iq3_xxs(const struct block *b, struct quant_iq3_xxs *out)
{
    out->d = b->d;
    for (int i = 0; i < 64; i++) out->qs[i] = (uint8_t)b->index[i];
    for (int g = 0; g < 8; g++) write_word(b->signs + 4 * g, b->s + 2 * g, out->signs + 4 * g);
}

static void read_iq3_s(const struct quant_iq3_s *in, struct block *b)
{
    b->d = in->d;
    for (int i = 0; i < 64; i++) b->index[i] = (uint16_t)(in->qs[i] | (in->qh[i / 8] >> i % 8 & 1) << 8);
    memcpy(b->signs, in->signs, sizeof b->signs);
    read_nibbles(in->scales, 8, 2, b->s);
}

static void write_iq3_s(const struct block *b, struct quant_iq3_s *out)
{
    memset(out, 0, sizeof *out);
    out->d = b->d;
    for (int i = 0; i < 64; i++) {
        out->qs[i] = (uint8_t)b->index[i];
        out->qh[i / 8] |= (uint8_t)(b->index[i] >> 8 << i % 8);
    }
    memcpy(out->signs, b->signs, sizeof b->signs);
    write_nibbles(b->s, 8, 2, out->scales);
}

static void read_iq1_s(const struct quant_iq1_s *in, struct block *b)
{
    b->d = in->d;
    for (int i = 0; i < 32; i++) {
        b->index[i] = (uint16_t)(in->qs[i] | (in->qh[i / 4] >> i % 4 * 3 & 7) << 8);
        b->signs[i] = in->qh[i / 4] >> 15 ? 0xff : 0;
    }
    for (int i = 0; i < GROUPS; i++) b->s[i] = in->qh[i / 2] >> 12 & 7;
}

static void write_iq1_s(const struct block *b, struct quant_iq1_s *out)
{
    memset(out, 0, sizeof *out);
    out->d = b->d;
    for (int i = 0; i < 32; i++) {
        out->qs[i] = (uint8_t)b->index[i];
        out->qh[i / 4] |= (uint16_t)(b->index[i] >> 8 << i % 4 * 3);
    }
    for (int g = 0; g < 8; g++) out->qh[g] |= (uint16_t)(b->s[2 * g] << 12 | (b->signs[4 * g] & 1) << 15);
}

static void read_iq1_m(const struct quant_iq1_m *in, struct block *b)
{
    b->d = 0;
    for (int i = 0; i < 4; i++) b->d |= (uint16_t)(in->scales[i] >> 12 << 4 * i);
    for (int i = 0; i < 32; i++) {
        int high = in->qh[i / 2] >> i % 2 * 4;
        b->index[i] = (uint16_t)(in->qs[i] | (high & 7) << 8);
        b->signs[i] = high & 8 ? 0xff : 0;
    }
    for (int g = 0; g < GROUPS; g++) b->s[g] = in->scales[g / 4] >> g % 4 * 3 & 7;
}

static void write_iq1_m(const struct block *b, struct quant_iq1_m *out)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 4; i++) out->scales[i] = (uint16_t)((b->d >> 4 * i & 15) << 12);
    for (int i = 0; i < 32; i++) {
        out->qs[i] = (uint8_t)b->index[i];
        out->qh[i / 2] |= (uint8_t)((b->index[i] >> 8 | (b->signs[i] & 8)) << i % 2 * 4);
    }
    for (int g = 0; g < GROUPS; g++) out->scales[g / 4] |= (uint16_t)(b->s[g] << g % 4 * 3);
}

void quant_iq2_xxs_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_iq2_xxs *in = src;
    struct block b;
    for (size_t i = 0; i < n / QUANT_SUPER; i++, dst += QUANT_SUPER) {
        read_iq2_xxs(&in[i], &b);
        dequantize(&IQ2_XXS, &b, dst);
    }
}

void quant_iq2_xxs_quantize(const float *src, void *dst, size_t n)
{
    struct quant_iq2_xxs *out = dst;
    struct block b;
    struct table t;
    expand(&IQ2_XXS, &t);
    for (size_t i = 0; i < n / QUANT_SUPER; i++, src += QUANT_SUPER) {
        quantize(&IQ2_XXS, &t, src, &b);
        write_iq2_xxs(&b, &out[i]);
    }
}

void quant_iq2_xs_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_iq2_xs *in = src;
    struct block b;
    for (size_t i = 0; i < n / QUANT_SUPER; i++, dst += QUANT_SUPER) {
        read_iq2_xs(&in[i], &b);
        dequantize(&IQ2_XS, &b, dst);
    }
}

void quant_iq2_xs_quantize(const float *src, void *dst, size_t n)
{
    struct quant_iq2_xs *out = dst;
    struct block b;
    struct table t;
    expand(&IQ2_XS, &t);
    for (size_t i = 0; i < n / QUANT_SUPER; i++, src += QUANT_SUPER) {
        quantize(&IQ2_XS, &t, src, &b);
        write_iq2_xs(&b, &out[i]);
    }
}

void quant_iq2_s_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_iq2_s *in = src;
    struct block b;
    for (size_t i = 0; i < n / QUANT_SUPER; i++, dst += QUANT_SUPER) {
        read_iq2_s(&in[i], &b);
        dequantize(&IQ2_S, &b, dst);
    }
}

void quant_iq2_s_quantize(const float *src, void *dst, size_t n)
{
    struct quant_iq2_s *out = dst;
    struct block b;
    struct table t;
    expand(&IQ2_S, &t);
    for (size_t i = 0; i < n / QUANT_SUPER; i++, src += QUANT_SUPER) {
        quantize(&IQ2_S, &t, src, &b);
        write_iq2_s(&b, &out[i]);
    }
}

void quant_iq3_xxs_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_iq3_xxs *in = src;
    struct block b;
    for (size_t i = 0; i < n / QUANT_SUPER; i++, dst += QUANT_SUPER) {
        read_iq3_xxs(&in[i], &b);
        dequantize(&IQ3_XXS, &b, dst);
    }
}

void quant_iq3_xxs_quantize(const float *src, void *dst, size_t n)
{
    struct quant_iq3_xxs *out = dst;
    struct block b;
    struct table t;
    expand(&IQ3_XXS, &t);
    for (size_t i = 0; i < n / QUANT_SUPER; i++, src += QUANT_SUPER) {
        quantize(&IQ3_XXS, &t, src, &b);
        write_iq3_xxs(&b, &out[i]);
    }
}

void quant_iq3_s_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_iq3_s *in = src;
    struct block b;
    for (size_t i = 0; i < n / QUANT_SUPER; i++, dst += QUANT_SUPER) {
        read_iq3_s(&in[i], &b);
        dequantize(&IQ3_S, &b, dst);
    }
}

void quant_iq3_s_quantize(const float *src, void *dst, size_t n)
{
    struct quant_iq3_s *out = dst;
    struct block b;
    struct table t;
    expand(&IQ3_S, &t);
    for (size_t i = 0; i < n / QUANT_SUPER; i++, src += QUANT_SUPER) {
        quantize(&IQ3_S, &t, src, &b);
        write_iq3_s(&b, &out[i]);
    }
}

void quant_iq1_s_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_iq1_s *in = src;
    struct block b;
    for (size_t i = 0; i < n / QUANT_SUPER; i++, dst += QUANT_SUPER) {
        read_iq1_s(&in[i], &b);
        dequantize(&IQ1_S, &b, dst);
    }
}

void quant_iq1_s_quantize(const float *src, void *dst, size_t n)
{
    struct quant_iq1_s *out = dst;
    struct block b;
    struct table t;
    expand(&IQ1_S, &t);
    for (size_t i = 0; i < n / QUANT_SUPER; i++, src += QUANT_SUPER) {
        quantize(&IQ1_S, &t, src, &b);
        write_iq1_s(&b, &out[i]);
    }
}

void quant_iq1_m_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_iq1_m *in = src;
    struct block b;
    for (size_t i = 0; i < n / QUANT_SUPER; i++, dst += QUANT_SUPER) {
        read_iq1_m(&in[i], &b);
        dequantize(&IQ1_M, &b, dst);
    }
}

void quant_iq1_m_quantize(const float *src, void *dst, size_t n)
{
    struct quant_iq1_m *out = dst;
    struct block b;
    struct table t;
    expand(&IQ1_M, &t);
    for (size_t i = 0; i < n / QUANT_SUPER; i++, src += QUANT_SUPER) {
        quantize(&IQ1_M, &t, src, &b);
        write_iq1_m(&b, &out[i]);
    }
}
