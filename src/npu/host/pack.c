/* SPDX-License-Identifier: MIT */
#include "npu/host/pack.h"

#include "base/f16.h"
#include "base/status.h"
#include "quant/quant.h"
#include "quant/zero_point.h"

#include <math.h>
#include <string.h>

/* ---- 32 weights of a GGUF row, from input k on ---- */

/* Codes as their kind has them; d and m: halves; zero: of kinds with one. */
struct group {
    uint8_t code[32];
    uint16_t d, m;
    int zero;
};

static void split_nibbles(const uint8_t qs[16], uint8_t code[32])
{
    for (uint32_t i = 0; i < 16; i++) {
        code[i] = qs[i] & 15;
        code[i + 16] = qs[i] >> 4;
    }
}

static void read_zero_point(enum quant_type type, const uint8_t *row, uint32_t k, struct group *g)
{
    uint8_t code[QUANT_GROUP64];
    quant_zero_point_unpack(type, row + k / 64 * quant_info_of(type)->block_bytes, &g->d, &g->zero, code);
    memcpy(g->code, code + k % 64, 32);
}

static void read_w2(const uint8_t *row, uint32_t k, struct group *g)
{
    read_zero_point(QUANT_W2, row, k, g);
}

static void read_w3(const uint8_t *row, uint32_t k, struct group *g)
{
    read_zero_point(QUANT_W3, row, k, g);
}

static void read_w4(const uint8_t *row, uint32_t k, struct group *g)
{
    read_zero_point(QUANT_W4, row, k, g);
}

/* Q4_0 and IQ4_NL: the codes mean different things, the blocks are alike. */
static void read_q4_0(const uint8_t *row, uint32_t k, struct group *g)
{
    const struct quant_q4_0 *b = (const struct quant_q4_0 *)(const void *)row + k / 32;
    g->d = b->d;
    split_nibbles(b->qs, g->code);
}

static void read_q4_1(const uint8_t *row, uint32_t k, struct group *g)
{
    const struct quant_q4_1 *b = (const struct quant_q4_1 *)(const void *)row + k / 32;
    g->d = b->d, g->m = b->m;
    split_nibbles(b->qs, g->code);
}

static void read_q8_0(const uint8_t *row, uint32_t k, struct group *g)
{
    const struct quant_q8_0 *b = (const struct quant_q8_0 *)(const void *)row + k / 32;
    g->d = b->d;
    for (uint32_t i = 0; i < 32; i++) g->code[i] = (uint8_t)b->qs[i] ^ 0x80u;
}

/* The group's scale becomes one half, the nearest. */
static void read_iq4_xs(const uint8_t *row, uint32_t k, struct group *g)
{
    const struct quant_iq4_xs *b = (const struct quant_iq4_xs *)(const void *)row + k / 256;
    uint32_t i = k / 32 % 8;
    int scale = ((b->scales_l[i / 2] >> i % 2 * 4 & 15) | (b->scales_h >> 2 * i & 3) << 4) - 32;
    g->d = f32_to_f16(f16_to_f32(b->d) * (float)scale);
    split_nibbles(b->qs + 16 * i, g->code);
}

/* 2^-24 to 2^15 are halves; smaller scales count as 0. */
static void read_mxfp4(const uint8_t *row, uint32_t k, struct group *g)
{
    const struct quant_mxfp4 *b = (const struct quant_mxfp4 *)(const void *)row + k / 32;
    g->d = f32_to_f16(e8m0_half_to_f32(b->e));
    split_nibbles(b->qs, g->code);
}

/* One bit is -d or d: the codes 0 and 2 of two bits. */
static void read_q1_0(const uint8_t *row, uint32_t k, struct group *g)
{
    const struct quant_q1_0 *b = (const struct quant_q1_0 *)(const void *)row + k / 128;
    g->d = b->d;
    for (uint32_t i = 0; i < 32; i++) g->code[i] = (uint8_t)((b->qs[(k % 128 + i) / 8] >> i % 8 & 1) << 1);
}

static void read_q2_0(const uint8_t *row, uint32_t k, struct group *g)
{
    const struct quant_q2_0 *b = (const struct quant_q2_0 *)(const void *)row + k / 64;
    g->d = b->d;
    g->zero = 1;
    for (uint32_t i = 0; i < 32; i++) g->code[i] = b->qs[(k % 64 + i) / 4] >> i % 4 * 2 & 3;
}

static void read_tq1_0(const uint8_t *row, uint32_t k, struct group *g)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    const struct quant_tq1_0 *b = (const struct quant_tq1_0 *)(const void *)row + k / 256;
    g->d = b->d;
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t e = k % 256 + i, digit = e < 160 ? e / 32 : e < 240 ? (e - 160) / 16 : (e - 240) / 4;
        uint8_t byte = e < 160 ? b->qs[e % 32] : e < 240 ? b->qs[32 + e % 16] : b->qh[e % 4];
        g->code[i] = (uint8_t)((uint8_t)(byte * power[digit]) * 3 >> 8);
    }
}

static void read_tq2_0(const uint8_t *row, uint32_t k, struct group *g)
{
    const struct quant_tq2_0 *b = (const struct quant_tq2_0 *)(const void *)row + k / 256;
    g->d = b->d;
    for (uint32_t i = 0; i < 32; i++) g->code[i] = b->qs[k % 256 / 128 * 32 + i] >> k % 128 / 32 * 2 & 3;
}

/* read: NULL of what is not groups of 32 under halves.  wide: of codes with a zero, the kind that takes any scale; 0:
 * codes have no zero.  planes: the kind as bit planes; 0: none. */
static const struct source {
    uint32_t type, kind;
    void (*read)(const uint8_t *row, uint32_t k, struct group *g);
    uint32_t wide, planes;
} sources[] = {{QUANT_Q4_0, NPU_W_Q4_0, read_q4_0, 0, NPU_PLANES(4, 32, NPU_PLANES_CENTRED)},
    {QUANT_Q4_1, NPU_W_Q4_1, read_q4_1, 0, NPU_PLANES(4, 32, NPU_PLANES_MINIMA)},
    {QUANT_W2, NPU_W_W2, read_w2, NPU_W_Q4_0, NPU_PLANES(2, 64, NPU_PLANES_ZEROS)},
    {QUANT_W3, NPU_W_W3, read_w3, NPU_W_W3, NPU_PLANES(3, 64, NPU_PLANES_ZEROS)},
    {QUANT_W4, NPU_W_W4, read_w4, NPU_W_Q8_0, NPU_PLANES(4, 64, NPU_PLANES_ZEROS)},
    {QUANT_IQ4_NL, NPU_W_IQ4_NL, read_q4_0, 0, 0}, {QUANT_IQ4_XS, NPU_W_IQ4_NL, read_iq4_xs, 0, 0},
    {QUANT_MXFP4, NPU_W_MXFP4, read_mxfp4, 0, 0}, {QUANT_Q8_0, NPU_W_Q8_0, read_q8_0, 0, 0},
    {QUANT_Q1_0, NPU_W_TERNARY, read_q1_0, 0, NPU_PLANES(1, 128, NPU_PLANES_CENTRED)},
    {QUANT_Q2_0, NPU_W_W2, read_q2_0, NPU_W_Q4_0, NPU_PLANES(2, 64, NPU_PLANES_CENTRED)},
    {QUANT_TQ1_0, NPU_W_TERNARY, read_tq1_0, 0, NPU_PLANES(2, 128, NPU_PLANES_TERNARY)},
    {QUANT_TQ2_0, NPU_W_TERNARY, read_tq2_0, 0, NPU_PLANES(2, 128, NPU_PLANES_TERNARY)},
    {QUANT_F16, NPU_W_F16, NULL, 0, 0}, {QUANT_Q2_K, NPU_W_Q2_K, NULL, 0, 0}, {QUANT_Q3_K, NPU_W_Q3_K, NULL, 0, 0},
    {QUANT_Q4_K, NPU_W_Q4_K, NULL, 0, 0}, {QUANT_Q5_K, NPU_W_Q5_K, NULL, 0, 0}, {QUANT_Q6_K, NPU_W_Q6_K, NULL, 0, 0}};

static const struct source *source_of(uint32_t quant_type)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (sources[i].type == quant_type) return &sources[i];
    return NULL;
}

int npu_pack_kind(uint32_t quant_type, uint32_t *kind, struct lutra_error *err)
{
    const struct source *source = source_of(quant_type);
    const char *name = quant_type_name(quant_type);
    if (!source)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: no weight layout for %s", name ? name : "an unknown type");
    *kind = source->kind;
    return 0;
}

uint32_t npu_pack_kind_of_rows(uint32_t quant_type, uint32_t kind, const void *rows, size_t bytes)
{
    const struct source *source = source_of(quant_type);
    const size_t block = quant_info_of((enum quant_type)quant_type)->block_bytes;
    if (!source->wide || source->wide == kind) return kind;
    for (size_t at = 0; at < bytes; at += block) { /* a block begins with its scale */
        uint16_t d;
        memcpy(&d, (const uint8_t *)rows + at, 2);
        d &= 0x7fff;
        if (d && (d < NPU_ZERO_LEAST || d >= NPU_ZERO_END)) return source->wide;
    }
    return kind;
}

uint32_t npu_pack_planes_kind(uint32_t quant_type)
{
    const struct source *source = source_of(quant_type);
    return source ? source->planes : 0;
}

uint32_t npu_pack_planes_of_rows(uint32_t quant_type, const void *rows, size_t bytes, uint32_t k)
{
    const uint32_t kind = npu_pack_planes_kind(quant_type);
    const size_t block = quant_info_of((enum quant_type)quant_type)->block_bytes;
    if (!kind || npu_planes_form(kind) != NPU_PLANES_ZEROS || k % 128) return kind;
    for (const uint8_t *at = rows, *end = at + bytes; at < end; at += 2 * block)
        if (memcmp(at, at + block, 3) != 0) return kind; /* a block begins with its scale and its zero */
    return NPU_PLANES(npu_planes_bits(kind), 128, NPU_PLANES_ZEROS);
}

/* Ternary codes under a scale without a sign. */
static void turn_positive(struct group *g)
{
    if (!(g->d & 0x8000)) return;
    for (uint32_t i = 0; i < 32; i++) g->code[i] = (2 - g->code[i]) & 3;
    g->d ^= 0x8000;
}

/* Codes whose zero is `centre`. */
static void centre(struct group *g, uint32_t centre)
{
    for (uint32_t i = 0; i < 32; i++) g->code[i] = (uint8_t)(g->code[i] - g->zero + (int)centre);
}

/* W2's codes, `top` in d and `steps` in m (wire/layout.h). */
static void to_steps(struct group *g)
{
    static const uint8_t code_of[4][4] = {{0, 2, 3, 1}, {1, 0, 3, 2}, {2, 3, 0, 1}, {1, 3, 2, 0}}; /* [zero][code] */
    const uint32_t s = g->d & 0x7fff, twice = s + 0x400, turned = (g->d >> 15) ^ (g->zero > 1);
    const uint32_t thrice = f32_to_f16(3 * f16_to_f32((uint16_t)s));
    for (uint32_t i = 0; i < 32; i++) g->code[i] = code_of[g->zero][g->code[i]];
    if (!s)
        g->d = g->m = 0;
    else if (g->zero % 3)
        g->d = (uint16_t)(0x8000 | twice), g->m = (uint16_t)(0xe400 | turned << 12);
    else
        g->d = (uint16_t)(thrice + 0x400), g->m = (uint16_t)(0x6c00 | turned << 12 | (thrice - twice));
}

/* W4's integer in d, the exponent and the zero in m. */
static void to_integer(struct group *g)
{
    const int bits = (g->d & 0x3ff) | 0x400, exponent = g->d & 0x7c00;
    g->m = exponent ? (uint16_t)((0x6400 - exponent) | g->zero) : 0;
    g->d = exponent ? (uint16_t)(g->d >> 15 ? -bits : bits) : 0;
}

/* What was read of a type with a zero, as the kind has it. */
static void to_kind(uint32_t kind, struct group *g)
{
    if (kind == NPU_W_W2)
        to_steps(g);
    else if (kind == NPU_W_W4)
        to_integer(g);
    else if (kind == NPU_W_W3)
        g->m = (uint16_t)((8 - g->zero) * 0x1111);
    else
        centre(g, kind == NPU_W_Q8_0 ? 128 : 8);
}

/* ---- tile32 ---- */

/* 3 vectors of nibbles, whose upper bits are the codes of a fourth. */
static void pack_codes_3(uint8_t *to, const uint8_t *code, const uint8_t order[4])
{
    for (uint32_t j = 0; j < 3; j++, to += NPU_LINE)
        for (uint32_t i = 0; i < 4; i++) {
            const uint8_t *low = code + order[i], *high = low + 4;
            to[i] = (uint8_t)(low[8 * j] | (low[24] >> j & 1) << 3 | high[8 * j] << 4 | (high[24] >> j & 1) << 7);
        }
}

void npu_pack_codes(const struct npu_weights *w, uint8_t *dst, const uint8_t *code, uint32_t k, uint32_t n)
{
    static const uint8_t order[4] = {0, 2, 1, 3};
    const uint32_t bits = npu_weights_bits(w->kind);
    uint32_t shift;
    uint8_t *to = dst + npu_code_offset(w, k, n, &shift);
    if (bits == 3) {
        pack_codes_3(to, code, order);
        return;
    }
    for (uint32_t j = 0; j < bits; j++, to += NPU_LINE, code += 32 / bits)
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t byte = 0;
            for (uint32_t f = 0; f < 8 / bits; f++) byte |= (uint32_t)code[4 * f + order[i]] << bits * f;
            to[i] = (uint8_t)byte;
        }
}

static void put_halves(const struct npu_weights *w, uint8_t *dst, const uint8_t *half, uint32_t k, uint32_t n)
{
    uint32_t shift;
    uint8_t *to = dst + npu_code_offset(w, k, n, &shift);
    for (uint32_t j = 0; j < 16; j++) memcpy(to + j * NPU_LINE, half + 4 * j, 4);
}

static void put_group32(const struct npu_weights *w, uint8_t *dst, const struct group *g, uint32_t k, uint32_t n)
{
    uint32_t scale = npu_scale_offset(w, k, n);
    memcpy(dst + scale, &g->d, 2);
    if (w->kind == NPU_W_Q4_1) memcpy(dst + scale + 128, &g->m, 2);
    if (npu_weights_zero(w->kind)) memcpy(dst + scale + 2, &g->m, 2);
    npu_pack_codes(w, dst, g->code, k, n);
}

void npu_pack_tile32(const struct npu_weights *w, uint32_t quant_type, const void *rows, size_t row_bytes, uint8_t *dst,
    uint32_t first, uint32_t last)
{
    const struct source *source = source_of(quant_type);
    for (uint32_t b = first; b < last; b++) {
        uint32_t from = b * NPU_COLS, end = from + NPU_COLS < w->n ? from + NPU_COLS : w->n;
        if (end - from < NPU_COLS) memset(dst + (size_t)b * w->block_bytes, 0, w->block_bytes);
        if (w->unit_k == NPU_SUPER_K) {
            npu_pack_k(w, rows, row_bytes, dst, from, end);
            continue;
        }
        for (uint32_t k = 0; k < w->k; k += 32)
            for (uint32_t n = from; n < end; n++) {
                const uint8_t *row = (const uint8_t *)rows + n * row_bytes;
                struct group g;
                if (source->read) {
                    source->read(row, k, &g);
                    if (source->wide) to_kind(w->kind, &g);
                    if (w->kind == NPU_W_TERNARY) turn_positive(&g);
                    put_group32(w, dst, &g, k, n);
                } else {
                    put_halves(w, dst, row + 2 * (size_t)k, k, n);
                }
            }
    }
}

/* ---- bit planes ---- */

/* 32 codes and, where a group begins, its scale and minimum. */
static void put_planes(const struct npu_weights *w, uint8_t *dst, const struct group *g, uint32_t k, uint32_t n)
{
    for (uint32_t p = 0; p < npu_planes_bits(w->kind); p++)
        for (uint32_t i = 0; i < 32; i += 8) {
            uint32_t bit, at = npu_planes_bit(w, p, k + i, n, &bit), byte = 0;
            for (uint32_t j = 0; j < 8; j++) byte |= (uint32_t)(g->code[i + j] >> p & 1) << (j / 2 + 4 * (j & 1));
            dst[at] = (uint8_t)byte;
        }
    if (k % npu_planes_group(w->kind)) return;
    uint8_t *scale = dst + npu_planes_scale(w, k, n);
    memcpy(scale, &g->d, 2);
    if (npu_planes_offset(w->kind)) memcpy(scale + 256, &g->m, 2);
}

/* The 1-bit codes that read gives as 0 and 2. */
static void to_bits(struct group *g)
{
    for (uint32_t i = 0; i < 32; i++) g->code[i] >>= 1;
}

void npu_pack_planes(const struct npu_weights *w, uint32_t quant_type, const void *rows, size_t row_bytes, uint8_t *dst,
    uint32_t first, uint32_t last)
{
    const struct source *source = source_of(quant_type);
    for (uint32_t b = first; b < last; b++) {
        uint32_t end = (b + 1) * w->cols < w->n ? (b + 1) * w->cols : w->n, stride,
                 at = npu_planes_unit(w, 0, b, &stride);
        for (uint32_t u = 0; end % w->cols && u < w->n_units; u++)
            memset(dst + at + (size_t)u * stride, 0, w->unit_bytes);
        for (uint32_t n = b * w->cols; n < end; n++)
            for (uint32_t k = 0; k < w->k; k += 32) {
                struct group g;
                source->read((const uint8_t *)rows + n * row_bytes, k, &g);
                if (npu_planes_form(w->kind) == NPU_PLANES_ZEROS)
                    g.m = (uint16_t)g.zero;
                else if (source->wide)
                    centre(&g, npu_planes_centre(npu_planes_bits(w->kind)));
                if (npu_planes_form(w->kind) == NPU_PLANES_TERNARY) turn_positive(&g);
                if (npu_planes_bits(w->kind) == 1) to_bits(&g);
                put_planes(w, dst, &g, k, n);
            }
    }
}

/* ---- supergroups ---- */

static void put_half(uint8_t *dst, uint32_t offset, uint16_t h)
{
    memcpy(dst + offset, &h, 2);
}

static void put_code(const struct npu_weights *w, uint8_t *dst, uint32_t k, uint32_t n, uint32_t code)
{
    uint32_t shift, at = npu_code_offset(w, k, n, &shift);
    dst[at] = (uint8_t)(dst[at] | code << shift);
}

/* Group: k, k + 1 and outputs n .. n + 15; outputs past the last one count as 0. */
static void put_group(
    const struct npu_weights *w, const float *rows, size_t stride, uint8_t *dst, uint32_t k, uint32_t n)
{
    const int wide = w->kind == NPU_W_SUPER8;
    float extreme = 0;
    for (uint32_t i = 0; i < 32; i++) {
        float x = n + i / 2 < w->n ? rows[(n + i / 2) * stride + k + i % 2] : 0;
        if (fabsf(x) > fabsf(extreme)) extreme = x;
    }
    float d = wide ? fabsf(extreme) / 127 : extreme / -8, inverse = d != 0 ? 1 / d : 0;
    put_half(dst, npu_scale_offset(w, k, n), f32_to_f16(d));
    for (uint32_t i = 0; i < 32; i++) {
        float x = n + i / 2 < w->n ? rows[(n + i / 2) * stride + k + i % 2] : 0;
        float q = floorf(x * inverse + (wide ? 128.5f : 8.5f)), most = wide ? 255 : 15;
        put_code(w, dst, k + i % 2, n + i / 2, (uint32_t)(q < 0 ? 0 : q > most ? most : q));
    }
}

void npu_pack_supergroup(
    const struct npu_weights *w, const float *rows, size_t row_stride, uint8_t *dst, uint32_t first, uint32_t last)
{
    for (uint32_t b = first; b < last; b++) {
        memset(dst + (size_t)b * w->block_bytes, 0, w->block_bytes);
        for (uint32_t k = 0; k < w->k; k += 2)
            for (uint32_t n = b * NPU_COLS; n < (b + 1) * NPU_COLS; n += 16) put_group(w, rows, row_stride, dst, k, n);
    }
}
