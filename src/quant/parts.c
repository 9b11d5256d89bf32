/* SPDX-License-Identifier: MIT
 *
 * Blocks put together from scales and codes; the layouts are drawn in quant/formats.h.
 */
#include <stddef.h>
#include <string.h>

#include "base/f16.h"
#include "quant/formats_impl.h"
#include "quant/parts.h"

static void nibbles32(const uint8_t *code, uint8_t qs[16])
{
    for (int i = 0; i < 16; i++) qs[i] = (uint8_t)((code[i] & 15) | (code[i + 16] & 15) << 4);
}

static void pack_q4_0(const struct solved *s, void *block)
{
    struct quant_q4_0 *b = block;
    b->d = f32_to_f16(s->d);
    nibbles32(s->code, b->qs);
}

static void pack_q4_1(const struct solved *s, void *block)
{
    struct quant_q4_1 *b = block;
    b->d = f32_to_f16(s->d);
    b->m = f32_to_f16(-s->dmin);
    nibbles32(s->code, b->qs);
}

static void pack_q5_0(const struct solved *s, void *block)
{
    struct quant_q5_0 *b = block;
    b->d = f32_to_f16(s->d);
    quant_pack5(s->code, b->qs, b->qh);
}

static void pack_q5_1(const struct solved *s, void *block)
{
    struct quant_q5_1 *b = block;
    b->d = f32_to_f16(s->d);
    b->m = f32_to_f16(-s->dmin);
    quant_pack5(s->code, b->qs, b->qh);
}

static void pack_iq4_nl(const struct solved *s, void *block)
{
    struct quant_iq4_nl *b = block;
    b->d = f32_to_f16(s->d);
    nibbles32(s->code, b->qs);
}

static void k_scales(const struct solved *s, uint8_t out[QUANT_K_SCALES_BYTES])
{
    for (int j = 0; j < 4; j++) {
        out[j] = (uint8_t)(s->sc[j] | (s->sc[j + 4] >> 4) << 6);
        out[j + 4] = (uint8_t)(s->mn[j] | (s->mn[j + 4] >> 4) << 6);
        out[j + 8] = (uint8_t)((s->sc[j + 4] & 15) | (s->mn[j + 4] & 15) << 4);
    }
}

static void k_nibbles(const uint8_t *code, uint8_t qs[128])
{
    for (int i = 0; i < 128; i++) {
        const uint8_t *c = code + i / 32 * 64 + i % 32;
        qs[i] = (uint8_t)((c[0] & 15) | (c[32] & 15) << 4);
    }
}

static void pack_q4_k(const struct solved *s, void *block)
{
    struct quant_q4_k *b = block;
    b->d = f32_to_f16(s->d);
    b->dmin = f32_to_f16(s->dmin);
    k_scales(s, b->scales);
    k_nibbles(s->code, b->qs);
}

static void pack_q5_k(const struct solved *s, void *block)
{
    struct quant_q5_k *b = block;
    b->d = f32_to_f16(s->d);
    b->dmin = f32_to_f16(s->dmin);
    k_scales(s, b->scales);
    k_nibbles(s->code, b->qs);
    memset(b->qh, 0, sizeof b->qh);
    for (int i = 0; i < QUANT_SUPER; i++) b->qh[i % 32] |= (uint8_t)(s->code[i] >> 4 << i / 32);
}

static void pack_q6_k(const struct solved *s, void *block)
{
    struct quant_q6_k *b = block;
    memset(b, 0, sizeof *b);
    b->d = f32_to_f16(s->d);
    for (int g = 0; g < 16; g++) b->scales[g] = (int8_t)s->sc[g];
    for (int e = 0; e < QUANT_SUPER; e++) {
        int h = e / 128, quarter = e % 128 / 32, l = e % 32;
        b->ql[64 * h + quarter % 2 * 32 + l] |= (uint8_t)((s->code[e] & 15) << quarter / 2 * 4);
        b->qh[32 * h + l] |= (uint8_t)(s->code[e] >> 4 << quarter * 2);
    }
}

static void pairs_of_bits(const uint8_t *code, uint8_t qs[64])
{
    memset(qs, 0, 64);
    for (int i = 0; i < QUANT_SUPER; i++) qs[i / 128 * 32 + i % 32] |= (uint8_t)((code[i] & 3) << i % 128 / 32 * 2);
}

static void pack_q2_k(const struct solved *s, void *block)
{
    struct quant_q2_k *b = block;
    b->d = f32_to_f16(s->d);
    b->dmin = f32_to_f16(s->dmin);
    for (int g = 0; g < 16; g++) b->scales[g] = (uint8_t)(s->sc[g] | s->mn[g] << 4);
    pairs_of_bits(s->code, b->qs);
}

static void pack_q3_k(const struct solved *s, void *block)
{
    struct quant_q3_k *b = block;
    memset(b, 0, sizeof *b);
    b->d = f32_to_f16(s->d);
    for (int g = 0; g < 16; g++) {
        int sc = s->sc[g] + 32;
        b->scales[g % 8] |= (uint8_t)((sc & 15) << g / 8 * 4);
        b->scales[8 + g % 4] |= (uint8_t)(sc >> 4 << g / 4 * 2);
    }
    pairs_of_bits(s->code, b->qs);
    for (int i = 0; i < QUANT_SUPER; i++) b->hmask[i % 32] |= (uint8_t)(s->code[i] >> 2 << i / 32);
}

static void pack_iq4_xs(const struct solved *s, void *block)
{
    struct quant_iq4_xs *b = block;
    memset(b, 0, sizeof *b);
    b->d = f32_to_f16(s->d);
    for (int g = 0; g < 8; g++) {
        int sc = s->sc[g] + 32;
        b->scales_l[g / 2] |= (uint8_t)((sc & 15) << g % 2 * 4);
        b->scales_h |= (uint16_t)(sc >> 4 << 2 * g);
        nibbles32(s->code + 32 * g, b->qs + 16 * g);
    }
}

static const struct solve_type types[] = {
    /* type, n, group, groups; lo, codes; codebook, affine, any minimum; integers; pack */
    {QUANT_Q4_0, 32, 32, 1, -8, 16, false, false, false, 0, 0, pack_q4_0},
    {QUANT_Q4_1, 32, 32, 1, 0, 16, false, true, true, 0, 0, pack_q4_1},
    {QUANT_Q5_0, 32, 32, 1, -16, 32, false, false, false, 0, 0, pack_q5_0},
    {QUANT_Q5_1, 32, 32, 1, 0, 32, false, true, true, 0, 0, pack_q5_1},
    {QUANT_IQ4_NL, 32, 32, 1, 0, 16, true, false, false, 0, 0, pack_iq4_nl},
    {QUANT_Q4_K, 256, 32, 8, 0, 16, false, true, false, 0, 63, pack_q4_k},
    {QUANT_Q5_K, 256, 32, 8, 0, 32, false, true, false, 0, 63, pack_q5_k},
    {QUANT_Q2_K, 256, 16, 16, 0, 4, false, true, false, 0, 15, pack_q2_k},
    {QUANT_Q3_K, 256, 16, 16, -4, 8, false, false, false, -32, 31, pack_q3_k},
    {QUANT_IQ4_XS, 256, 32, 8, 0, 16, true, false, false, -32, 31, pack_iq4_xs},
    {QUANT_Q6_K, 256, 16, 16, -32, 64, false, false, false, -128, 127, pack_q6_k},
};

const struct solve_type *quant_solve_type(enum quant_type type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) return &types[i];
    return NULL;
}
