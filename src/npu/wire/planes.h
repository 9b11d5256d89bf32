/* SPDX-License-Identifier: MIT
 *
 * The bit-serial weight layout of [TMAN 4.1], one copy for tiles and for products by lookup, and the tables that those
 * look up.
 *
 * Pure functions of shape and kind, no allocation, any thread.  W is [n][k].  struct npu_weights describes a matrix
 * (npu_weights_layout takes these kinds, too): its units are 128 k x 128 outputs.
 *
 * bitplane: 1 to 4 planes; groups of 32, 64 or 128 k have a scale d, a half, and in two forms a minimum m, a half, or
 *   a zero z, an integer of 16 bits.
 *   [panel][tile of 128 k][block of 128 outputs][group]; a group is
 *
 *     planes, the highest bit first, group / 8 vectors each | 128 scales, f16 | 128 minima or zeros (if any)
 *
 *   A panel is `panel` blocks, the last one less: at most as many as DMA's stride lets a product on tiles take a block
 *   out of, and of those the best (npu/wire/tiling.h).
 *   So one tile of a panel lies together: the 16 tables of 64 inputs stay in 4 registers while their plane of it
 *   streams past.
 *   Vector j of a plane holds k = 8j .. 8j+7 of 128 outputs, a byte each: bit i of the low nibble k = 8j + 2i, of the
 *   high nibble k = 8j + 2i + 1.  Output c = 32 v + i is byte 4i + 2 (v & 1) + (v >> 1): a lookup sends even bytes one
 *   way and odd ones another, a widening sum even and odd halves, and results come out in order.
 *   Scale of output c = 64 u + 32 h + i is half 2i + h of vector u.
 *   Codes past k or n are 0, with scale 0.
 *
 * lut16: a row of activations as tables.  128 inputs are rounded to integers of 14 bits with one scale, so a table of
 *   their 16 partial sums is exact in 16 bits.
 *   [tile of 128 k]: 8 vectors of 4 tables, those of the low nibbles before those of the high ones; entry e of table j
 *   is half 2 (e + 16 (j & 1)) + (j >> 1)
 *   side, a vector per tile: sums of 32 inputs (words 0 .. 3), of 64 (4, 5), of 128 (6), int32; the scale (7), f32
 */
#ifndef LUTRA_NPU_WIRE_PLANES_H
#define LUTRA_NPU_WIRE_PLANES_H

#include "npu/wire/layout.h"
#include "npu/wire/message.h"

enum { NPU_PLANES_K = 128, NPU_PLANES_COLS = 128, NPU_LUT_TILE = 1024, NPU_PLANES_STRIDE = 65535 /* of v73's DMA */ };

/* What a code q of b bits stands for.  CENTRED: (q - c) d where c is 1 at 2 bits, else 2^(b-1); at 1 bit (2q - 1) d.
 * MINIMA: q d + m.  TERNARY: as CENTRED of 2 bits, q at most 2 and d not negative.  ZEROS: (q - z) d, z less than 2^b:
 * GPTQ's asymmetric groups [TMAN 6.1]. */
enum npu_planes_form { NPU_PLANES_CENTRED, NPU_PLANES_MINIMA, NPU_PLANES_TERNARY, NPU_PLANES_ZEROS };

/* Kinds of weights, beside enum npu_weight_kind.  Without a panel and a chunk one of any tiling; npu_planes_layout puts
 * the best into the kind of what it lays out, so that whoever reads that kind again need not search. */
#define NPU_PLANES(bits, group, form) ((uint32_t)(bits) | (uint32_t)(group) << 8 | (uint32_t)(form) << 16)
static inline int npu_is_planes(uint32_t kind)
{
    return kind > 255;
}
static inline uint32_t npu_planes_bits(uint32_t kind)
{
    return kind & 255;
}
static inline uint32_t npu_planes_group(uint32_t kind)
{
    return kind >> 8 & 255;
}
static inline uint32_t npu_planes_groups(uint32_t kind) /* of 128 k; without a division */
{
    return npu_planes_group(kind) == 32 ? 4 : npu_planes_group(kind) == 64 ? 2 : 1;
}
static inline uint32_t npu_planes_form(uint32_t kind)
{
    return kind >> 16 & 3;
}
static inline uint32_t npu_planes_chunk(uint32_t kind)
{
    return kind >> 18 & 63;
}
static inline uint32_t npu_planes_panel(uint32_t kind)
{
    return kind >> 24;
}
static inline uint32_t npu_planes_untiled(uint32_t kind)
{
    return kind & 0x3ffff;
}
static inline uint32_t npu_planes_tiled(uint32_t kind, uint32_t panel, uint32_t chunk)
{
    return npu_planes_untiled(kind) | chunk << 18 | panel << 24;
}
/* Have groups more than a scale? */
static inline int npu_planes_offset(uint32_t kind)
{
    return npu_planes_form(kind) == NPU_PLANES_MINIMA || npu_planes_form(kind) == NPU_PLANES_ZEROS;
}
static inline uint32_t npu_planes_centre(uint32_t bits)
{
    return bits < 3 ? 1 : 1u << (bits - 1);
}

/* 0, or -1: bits not 1 .. 4 (ZEROS: 2 .. 4), another group or form, a panel or chunk that DMA cannot bring, k or n not
 * positive, 2^31 bytes or more.  k is rounded up. */
int npu_planes_layout(uint32_t kind, uint32_t k, uint32_t n, struct npu_weights *out);

/* Blocks of 128 outputs; bytes of a group. */
static inline uint32_t npu_planes_blocks(const struct npu_weights *w)
{
    return (w->n_blocks + 3) / 4;
}
static inline uint32_t npu_planes_group_bytes(const struct npu_weights *w)
{
    return w->code_bytes + (npu_planes_offset(w->kind) ? 512 : 256);
}

/* Where a unit is; *stride: from one tile of k to the next. */
uint32_t npu_planes_unit(const struct npu_weights *w, uint32_t tile, uint32_t block, uint32_t *stride);

/* Byte and bit of plane `plane` (0: the lowest) of (k, n); the scale of k's group, the minimum or zero 256 bytes
 * further. */
uint32_t npu_planes_bit(const struct npu_weights *w, uint32_t plane, uint32_t k, uint32_t n, uint32_t *bit);
uint32_t npu_planes_scale(const struct npu_weights *w, uint32_t k, uint32_t n);

/* Where the vectors behind the tables start; the whole. */
static inline uint32_t npu_lut_side(uint32_t n_tiles)
{
    return n_tiles * NPU_LUT_TILE;
}
static inline uint32_t npu_lut_bytes(uint32_t n_tiles)
{
    return n_tiles * (NPU_LUT_TILE + NPU_LINE);
}

/* Bytes of TCM, from its start, that stay between operations: the exp table, and tables of rows (NPU_OP_TABLES). */
uint32_t npu_tcm_keeps(const struct npu_machine *machine);

/* TCM plan of products by lookup of m rows, behind their tables.  Offsets from the start of TCM. */
enum { NPU_LOOKUP_ROWS = 8, NPU_LOOKUP_CHUNK = 65536 }; /* rows at once; bytes by one DMA at most */
struct npu_lookup_plan {
    uint32_t tables;       /* lut16 [m] */
    uint32_t spill[2];     /* f32 sums so far and those to be, [m][outputs] */
    uint32_t threads;      /* thread 0's: int32 sums of a panel, twice; a ring of three chunks */
    uint32_t thread_bytes; /* the next thread's are this much further */
    uint32_t bytes;
};
int npu_lookup_plan(
    const struct npu_weights *w, uint32_t m, const struct npu_machine *machine, struct npu_lookup_plan *out);

/* Tiles of k of n_blocks blocks that one DMA brings.  No division: the NPU has no instruction for it. */
static inline uint32_t npu_lookup_tiles(const struct npu_weights *w, uint32_t n_blocks)
{
    const uint32_t bytes = n_blocks * w->unit_bytes;
    uint32_t each = 1;
    while (each < w->chunk && (each + 1) * bytes <= NPU_LOOKUP_CHUNK) each++;
    return each;
}

#endif
