/* SPDX-License-Identifier: MIT
 *
 * K-quants to tile32: codes, group scales, group minima and the super-block's halves, each exactly GGUF's.
 */
#include "npu/host/pack.h"

#include "quant/formats.h"

#include <string.h>

/* A GGUF block of 256 taken apart. */
struct super {
    uint8_t code[256];
    uint8_t scale[16], minimum[8]; /* 8 of each, or 16 as the layout has them (wire/layout.h) */
    uint16_t d, dmin;
};

/* Six bits each of scale and minimum of 8 groups; see quant/formats.h. */
static void unpack_scales(struct super *s, const uint8_t *p)
{
    for (int j = 0; j < 4; j++) {
        s->scale[j] = p[j] & 63;
        s->minimum[j] = p[4 + j] & 63;
        s->scale[j + 4] = (uint8_t)((p[8 + j] & 15) | p[j] >> 6 << 4);
        s->minimum[j + 4] = (uint8_t)(p[8 + j] >> 4 | p[4 + j] >> 6 << 4);
    }
}

static void unpack_nibbles(struct super *s, const uint8_t *qs)
{
    for (int i = 0; i < 128; i++) {
        s->code[i / 32 * 64 + i % 32] = qs[i] & 15;
        s->code[i / 32 * 64 + 32 + i % 32] = qs[i] >> 4;
    }
}

/* The low two bits of Q2_K and Q3_K: four quarters of a half side by side. */
static void unpack_pairs(struct super *s, const uint8_t *qs)
{
    for (int i = 0; i < 256; i++) s->code[i] = qs[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

static void unpack_q2_k(struct super *s, const uint8_t *block)
{
    struct quant_q2_k b;
    memcpy(&b, block, sizeof b);
    s->d = b.d, s->dmin = b.dmin;
    memcpy(s->scale, b.scales, 16);
    unpack_pairs(s, b.qs);
}

static void unpack_q3_k(struct super *s, const uint8_t *block)
{
    struct quant_q3_k b;
    memcpy(&b, block, sizeof b);
    s->d = b.d, s->dmin = 0;
    for (int g = 0; g < 16; g++) {
        int low = b.scales[g % 8] >> g / 8 * 4 & 15, high = b.scales[8 + g % 4] >> g / 4 * 2 & 3;
        s->scale[g] = (uint8_t)((low | high << 4) - 32);
    }
    unpack_pairs(s, b.qs);
    for (int i = 0; i < 256; i++) s->code[i] = (uint8_t)((s->code[i] | (b.hmask[i % 32] >> i / 32 & 1) << 2) + 4);
}

static void unpack_q4_k(struct super *s, const uint8_t *block)
{
    struct quant_q4_k b;
    memcpy(&b, block, sizeof b);
    s->d = b.d, s->dmin = b.dmin;
    unpack_scales(s, b.scales);
    unpack_nibbles(s, b.qs);
}

static void unpack_q5_k(struct super *s, const uint8_t *block)
{
    struct quant_q5_k b;
    memcpy(&b, block, sizeof b);
    s->d = b.d, s->dmin = b.dmin;
    unpack_scales(s, b.scales);
    unpack_nibbles(s, b.qs);
    for (int i = 0; i < 256; i++) s->code[i] |= (uint8_t)((b.qh[i % 32] >> (i / 32) & 1) << 4);
}

static void unpack_q6_k(struct super *s, const uint8_t *block)
{
    struct quant_q6_k b;
    memcpy(&b, block, sizeof b);
    s->d = b.d, s->dmin = 0;
    memcpy(s->scale, b.scales, 16);
    for (int i = 0; i < 256; i++) {
        int h = i / 128, quarter = i % 128 / 32, l = i % 32;
        uint8_t low = b.ql[64 * h + 32 * (quarter & 1) + l];
        low = quarter < 2 ? low & 15 : low >> 4;
        s->code[i] = (uint8_t)(low | (b.qh[32 * h + l] >> 2 * quarter & 3) << 4);
    }
}

static void put(const struct npu_weights *w, uint8_t *dst, const struct super *s, uint32_t k, uint32_t n)
{
    uint32_t n_groups = npu_weights_groups(w->kind), group = NPU_SUPER_K / n_groups;
    for (uint32_t i = 0; i < NPU_SUPER_K; i += 32) npu_pack_codes(w, dst, s->code + i, k + i, n);
    for (uint32_t g = 0; g < n_groups; g++) {
        uint32_t at = npu_scale_offset(w, k + g * group, n);
        dst[at] = s->scale[g];
        if (n_groups == 8) dst[at + 256] = s->minimum[g];
    }
    memcpy(dst + npu_super_offset(w, k, n), &s->d, 2);
    memcpy(dst + npu_super_offset(w, k, n) + 2, &s->dmin, 2);
}

void npu_pack_k(
    const struct npu_weights *w, const void *rows, size_t row_bytes, uint8_t *dst, uint32_t first, uint32_t last)
{
    static void (*const unpack_kind[NPU_W_END])(struct super *, const uint8_t *) = {[NPU_W_Q2_K] = unpack_q2_k,
        [NPU_W_Q3_K] = unpack_q3_k,
        [NPU_W_Q4_K] = unpack_q4_k,
        [NPU_W_Q5_K] = unpack_q5_k,
        [NPU_W_Q6_K] = unpack_q6_k};
    void (*const unpack)(struct super *, const uint8_t *) = unpack_kind[w->kind];
    size_t block_bytes = row_bytes / w->n_units;
    struct super s;
    for (uint32_t u = 0; u < w->n_units; u++)
        for (uint32_t n = first; n < last; n++) {
            unpack(&s, (const uint8_t *)rows + n * row_bytes + u * block_bytes);
            put(w, dst, &s, u * NPU_SUPER_K, n);
        }
}
