/* SPDX-License-Identifier: MIT
 *
 * The tile machine: C (32x32, one accumulator) += A (32 x 32n) B (32n x 32) over up to 32 tile pairs.
 *
 * A tile is 32x32 halves in 2048 bytes; element (r, c) at byte (r >> 1) * 128 + c * 4 + (r & 1) * 2: two rows
 * interleaved per 128-byte vector [TTS 3.1.2].  In A rows are batch rows and columns k; in B rows are k.
 *
 * Arithmetic, the same wherever this file is compiled: products of halves are exact in f32; each is added to the f32
 * accumulator in ascending k with one rounding to nearest even (no fused form: the product is exact anyway); a store
 * rounds once to half.  Denormals are kept, a NaN is stored as 0x7e00.  Equality with silicon is not claimed.
 *
 * Pure functions over host memory (native byte order: little endian); any thread.
 */
#ifndef LUTRA_NPU_SIM_TILE_H
#define LUTRA_NPU_SIM_TILE_H

#include <stdint.h>

struct npu_tile_acc {
    float c[32][32];
    int set;
};

void npu_tile_clear(struct npu_tile_acc *acc);
void npu_tile_mac(struct npu_tile_acc *acc, const void *act, const void *weight, uint32_t n_pairs);
void npu_tile_store(const struct npu_tile_acc *acc, void *dst);

static inline uint32_t npu_tile_offset(uint32_t r, uint32_t c)
{
    return (r >> 1) * 128 + c * 4 + (r & 1) * 2;
}

#endif
