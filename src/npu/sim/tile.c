/* SPDX-License-Identifier: MIT */
#include "npu/sim/tile.h"

#include "npu/dsp/soft.h"

#include <string.h>

void npu_tile_clear(struct npu_tile_acc *acc)
{
    memset(acc->c, 0, sizeof acc->c);
    acc->set = 1;
}

/* Tile to a plain 32x32 matrix of floats. */
static void unpack(float m[32][32], const uint8_t *tile)
{
    for (uint32_t r = 0; r < 32; r++)
        for (uint32_t c = 0; c < 32; c++) {
            uint16_t h;
            memcpy(&h, tile + npu_tile_offset(r, c), 2);
            m[r][c] = f16_to_f32(h);
        }
}

void npu_tile_mac(struct npu_tile_acc *acc, const void *act, const void *weight, uint32_t n_pairs)
{
    float a[32][32], b[32][32];
    for (uint32_t t = 0; t < n_pairs; t++) {
        unpack(a, (const uint8_t *)act + 2048 * t);
        unpack(b, (const uint8_t *)weight + 2048 * t);
        for (int r = 0; r < 32; r++)
            for (int k = 0; k < 32; k++)
                for (int c = 0; c < 32; c++) acc->c[r][c] += a[r][k] * b[k][c];
    }
}

void npu_tile_store(const struct npu_tile_acc *acc, void *dst)
{
    for (uint32_t r = 0; r < 32; r++)
        for (uint32_t c = 0; c < 32; c++) {
            uint16_t h = soft_half(acc->c[r][c]);
            memcpy((uint8_t *)dst + npu_tile_offset(r, c), &h, 2);
        }
}
