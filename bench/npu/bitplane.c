/* SPDX-License-Identifier: MIT */
#include "bitplane.h"

int bitplane_layout(uint32_t kind, uint32_t k, uint32_t n, struct bitplane *out)
{
    struct bitplane w = {.bits = kind & 255, .group = kind >> 8 & 255, .minima = kind >> 16, .k = k, .n = n};
    if (w.bits < 1 || w.bits > 4 || (w.group != 32 && w.group != 64 && w.group != 128) || w.minima > 1) return -1;
    if (!k || k % w.group || !n || k > 1u << 20 || n > 1u << 24) return -1;
    w.n_tiles = (k + BITPLANE_K - 1) / BITPLANE_K;
    w.n_blocks = (n + BITPLANE_COLS - 1) / BITPLANE_COLS;
    w.code_bytes = w.bits * w.group / 8 * 128;
    w.group_bytes = w.code_bytes + 256 * (1 + w.minima);
    w.unit_bytes = BITPLANE_K / w.group * w.group_bytes;
    uint64_t bytes = (uint64_t)w.n_tiles * w.n_blocks * w.unit_bytes;
    if (bytes >= 1u << 31) return -1;
    w.bytes = (uint32_t)bytes;
    *out = w;
    return 0;
}

static uint32_t group_offset(const struct bitplane *w, uint32_t k, uint32_t n)
{
    uint32_t unit = k / BITPLANE_K * w->n_blocks + n / BITPLANE_COLS;
    return unit * w->unit_bytes + k % BITPLANE_K / w->group * w->group_bytes;
}

uint32_t bitplane_bit(const struct bitplane *w, uint32_t plane, uint32_t k, uint32_t n, uint32_t *bit)
{
    uint32_t c = n % BITPLANE_COLS, v = c / 32, j = (w->bits - 1 - plane) * (w->group / 8) + k % w->group / 8;
    *bit = k % 8;
    return group_offset(w, k, n) + 128 * j + 4 * (c % 32) + 2 * (v & 1) + (v >> 1);
}

uint32_t bitplane_scale(const struct bitplane *w, uint32_t k, uint32_t n)
{
    uint32_t c = n % BITPLANE_COLS;
    return group_offset(w, k, n) + w->code_bytes + c / 64 * 128 + 2 * (2 * (c % 32) + c / 32 % 2);
}

static void put_half(uint8_t *p, uint16_t h)
{
    p[0] = (uint8_t)h, p[1] = (uint8_t)(h >> 8);
}

void bitplane_pack(
    const struct bitplane *w, uint8_t *dst, const uint8_t *codes, const uint16_t *scales, const uint16_t *minima)
{
    for (uint32_t i = 0; i < w->bytes; i++) dst[i] = 0;
    for (uint32_t n = 0; n < w->n; n++)
        for (uint32_t k = 0; k < w->k; k++) {
            uint32_t q = codes[(uint64_t)n * w->k + k], g = n * (w->k / w->group) + k / w->group, bit;
            for (uint32_t p = 0; p < w->bits; p++) {
                uint32_t at = bitplane_bit(w, p, k, n, &bit);
                dst[at] |= (uint8_t)((q >> p & 1) << bit);
            }
            if (k % w->group) continue;
            put_half(dst + bitplane_scale(w, k, n), scales[g]);
            if (w->minima) put_half(dst + bitplane_scale(w, k, n) + 256, minima[g]);
        }
}
