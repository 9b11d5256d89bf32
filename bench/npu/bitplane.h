/* SPDX-License-Identifier: MIT
 *
 * The bit-serial weight layout of [TMAN 4.1], and the tables that its product looks up.
 *
 * Pure functions of shape and width, no allocation, any thread: they can move to npu/wire as they are.  W is [n][k].
 *
 * bitplane: 1 to 4 planes; groups of 32, 64 or 128 k have a scale and, if `minima`, a minimum: w = q d + m, both f16.
 *   [tile of 128 k][block of 128 outputs][group]; a group is
 *
 *     planes, the highest bit first, group / 8 vectors each | 128 scales, f16 | 128 minima, f16 (if any)
 *
 *   So one tile of all outputs lies together: the tables of 128 inputs stay in 8 registers while it streams past.
 *   Vector j of a plane holds k = 8j .. 8j+7 of 128 outputs, a byte each: bit i of the low nibble k = 8j + i, of the
 *   high nibble k = 8j + 4 + i.  Output c = 32 v + i is byte 4i + 2 (v & 1) + (v >> 1): a lookup sends even bytes one
 *   way and odd ones another, a widening sum even and odd halves, and results come out in order.
 *   Scale of output c = 64 u + 32 h + i is half 2i + h of vector u.
 *   Codes past k or n are 0, with scale 0.
 *
 * lut16: a row of activations as tables.  128 inputs are rounded to integers of 14 bits with one scale, so a table of
 *   their 16 partial sums is exact in 16 bits.
 *   [tile of 128 k]: 8 vectors of 4 tables; entry e of table j is half 2 (e + 16 (j & 1)) + (j >> 1)
 *   side, a vector per tile: sums of 32 inputs (words 0 .. 3), of 64 (4, 5), of 128 (6), the scale (7), all f32
 */
#ifndef LUTRA_BENCH_NPU_BITPLANE_H
#define LUTRA_BENCH_NPU_BITPLANE_H

#include <stdint.h>

enum { BITPLANE_K = 128, BITPLANE_COLS = 128, LUT_TILE = 1024, LUT_INPUT_MAX = 8191 };

struct bitplane {
    uint32_t bits, group, minima; /* minima: 0 or 1 */
    uint32_t k, n;
    uint32_t n_tiles, n_blocks;       /* of 128 k, of 128 outputs */
    uint32_t code_bytes;              /* of a group */
    uint32_t group_bytes, unit_bytes; /* of a block: of a group, of a tile */
    uint32_t bytes;
};

/* What struct npu_op says in its field `kind`. */
#define BITPLANE_KIND(bits, group, minima) ((bits) | (group) << 8 | (minima) << 16)

/* 0, or -1: bits not 1 .. 4, another group, k not a positive multiple of the group, n not positive, 2^31 bytes or
 * more. */
int bitplane_layout(uint32_t kind, uint32_t k, uint32_t n, struct bitplane *out);

/* Byte and bit of plane `plane` (0: the lowest) of (k, n); the scale of k's group, the minimum 256 bytes further. */
uint32_t bitplane_bit(const struct bitplane *w, uint32_t plane, uint32_t k, uint32_t n, uint32_t *bit);
uint32_t bitplane_scale(const struct bitplane *w, uint32_t k, uint32_t n);

/* codes [n][k] below 2^bits, scales and minima [n][k / group] halves; dst has w->bytes. */
void bitplane_pack(
    const struct bitplane *w, uint8_t *dst, const uint8_t *codes, const uint16_t *scales, const uint16_t *minima);

/* Where the vectors behind the tables start; the whole. */
static inline uint32_t lut_side(uint32_t n_tiles)
{
    return n_tiles * LUT_TILE;
}
static inline uint32_t lut_bytes(uint32_t n_tiles)
{
    return n_tiles * (LUT_TILE + 128);
}

#endif
