/* SPDX-License-Identifier: MIT
 *
 * Packs weights into the layout of cpu/layout.h and reads single rows back: tables of fields, and one loop.
 */
#include <string.h>

#include "base/compiler.h"
#include "cpu/layout.h"
#include "quant/quant.h"

/* What happens to an element on its way. */
enum change {
    AS_IS,
    CODES,       /* elements of 8 bytes where steps are 8 inputs */
    FLIP_SIGNS,  /* the same; where steps are 4 inputs, int8 codes become code + 128 */
    SPREAD_BITS, /* single bits of 32 elements: bit 4v + j goes to bit v of byte j, j = 0..3 */
    SPREAD_PAIRS /* 2 bits of each of 16: pair 4v + j goes to pair v of byte j */
};

/* A field of a file block: count elements of `size` bytes from byte `from`. */
struct field {
    uint8_t size, count, from;
    enum change change;
};

enum { MAX_FIELDS = 5 };

static const struct field FIELDS[QUANT_TYPE_END][MAX_FIELDS] = {
    [QUANT_F32] = {{4, 1, 0, AS_IS}},
    [QUANT_F16] = {{2, 1, 0, AS_IS}},
    [QUANT_BF16] = {{2, 1, 0, AS_IS}},
    [QUANT_Q4_0] = {{4, 4, 2, CODES}, {2, 1, 0, AS_IS}},
    [QUANT_Q4_1] = {{4, 4, 4, CODES}, {2, 1, 0, AS_IS}, {2, 1, 2, AS_IS}},
    [QUANT_Q5_0] = {{4, 4, 6, CODES}, {4, 1, 2, SPREAD_BITS}, {2, 1, 0, AS_IS}},
    [QUANT_Q5_1] = {{4, 4, 8, CODES}, {4, 1, 4, SPREAD_BITS}, {2, 1, 0, AS_IS}, {2, 1, 2, AS_IS}},
    [QUANT_Q8_0] = {{4, 8, 2, FLIP_SIGNS}, {2, 1, 0, AS_IS}},
    [QUANT_IQ4_NL] = {{4, 4, 2, CODES}, {2, 1, 0, AS_IS}},
    [QUANT_MXFP4] = {{4, 4, 1, CODES}, {1, 1, 0, AS_IS}},
    [QUANT_Q1_0] = {{4, 4, 2, SPREAD_BITS}, {2, 1, 0, AS_IS}},
    [QUANT_Q2_0] = {{4, 4, 2, SPREAD_PAIRS}, {2, 1, 0, AS_IS}},
    [QUANT_W2] = {{4, 4, 3, SPREAD_PAIRS}, {2, 1, 0, AS_IS}, {1, 1, 2, AS_IS}},
    [QUANT_W3] = {{4, 4, 11, SPREAD_PAIRS}, {4, 2, 3, SPREAD_BITS}, {2, 1, 0, AS_IS}, {1, 1, 2, AS_IS}},
    [QUANT_W4] = {{4, 8, 3, AS_IS}, {2, 1, 0, AS_IS}, {1, 1, 2, AS_IS}},
    [QUANT_Q2_K] = {{4, 16, 16, CODES}, {4, 4, 0, AS_IS}, {2, 1, 80, AS_IS}, {2, 1, 82, AS_IS}},
    [QUANT_Q3_K] = {{4, 16, 32, CODES}, {4, 8, 0, CODES}, {4, 3, 96, AS_IS}, {2, 1, 108, AS_IS}},
    [QUANT_Q4_K] = {{4, 32, 16, CODES}, {4, 3, 4, AS_IS}, {2, 1, 0, AS_IS}, {2, 1, 2, AS_IS}},
    [QUANT_Q5_K] = {{4, 32, 48, CODES}, {4, 8, 16, CODES}, {4, 3, 4, AS_IS}, {2, 1, 0, AS_IS}, {2, 1, 2, AS_IS}},
    [QUANT_Q6_K] = {{4, 32, 0, CODES}, {4, 16, 128, CODES}, {1, 16, 192, CODES}, {2, 1, 208, AS_IS}},
    [QUANT_IQ2_XXS] = {{4, 16, 2, AS_IS}, {2, 1, 0, AS_IS}},
    [QUANT_IQ2_XS] = {{4, 16, 2, AS_IS}, {4, 2, 66, AS_IS}, {2, 1, 0, AS_IS}},
    [QUANT_IQ2_S] = {{4, 8, 2, AS_IS}, {4, 8, 34, AS_IS}, {4, 2, 66, AS_IS}, {4, 2, 74, AS_IS}, {2, 1, 0, AS_IS}},
    [QUANT_IQ3_XXS] = {{4, 16, 2, AS_IS}, {4, 8, 66, AS_IS}, {2, 1, 0, AS_IS}},
    [QUANT_IQ3_S] = {{4, 16, 2, AS_IS}, {4, 2, 66, AS_IS}, {4, 8, 74, AS_IS}, {4, 1, 106, AS_IS}, {2, 1, 0, AS_IS}},
    [QUANT_IQ4_XS] = {{4, 32, 8, CODES}, {4, 1, 4, AS_IS}, {2, 1, 2, AS_IS}, {2, 1, 0, AS_IS}},
    [QUANT_TQ1_0] = {{4, 16, 0, CODES}, {2, 1, 64, AS_IS}},
    [QUANT_TQ2_0] = {{4, 16, 0, CODES}, {2, 1, 64, AS_IS}},
};

/* The fields of a kernel's type as its steps want them. */
struct fields {
    struct field f[MAX_FIELDS + 1]; /* the last has size 0 */
};

static struct fields fields_of(const struct cpu_gemm *gemm)
{
    struct fields all = {0};
    for (int i = 0; i < MAX_FIELDS && FIELDS[gemm->type][i].size; i++) {
        struct field *f = &all.f[i];
        *f = FIELDS[gemm->type][i];
        if (gemm->kr != 8 || (f->change != CODES && f->change != FLIP_SIGNS)) continue;
        *f = (struct field){8, (uint8_t)(f->count * f->size / 8), f->from, CODES};
    }
    return all;
}

/* The type whose blocks the packed form holds. */
static const struct quant_info *packed_info(enum quant_type type)
{
    return quant_info_of(type == QUANT_TQ1_0 ? QUANT_TQ2_0 : type);
}

size_t cpu_tile_bytes(enum quant_type type)
{
    const struct quant_info *q = packed_info(type);
    return TILE_K / q->block_elems * q->block_bytes * LANES;
}

size_t cpu_panel_bytes(enum quant_type type, size_t n_in)
{
    const struct quant_info *q = packed_info(type);
    return (n_in / q->block_elems * q->block_bytes * LANES + 63) & ~(size_t)63;
}

size_t cpu_packed_bytes(const struct cpu_gemm *self, size_t n_out, size_t n_in)
{
    const struct quant_info *q = packed_info(self->type);
    size_t bytes;
    if (n_out == 0 || n_in == 0 || n_in % q->block_elems) return 0;
    if (n_in > SIZE_MAX / 256 || n_out > SIZE_MAX - LANES) return 0;
    if (LUTRA_MUL_OVERFLOWS(cpu_panel_bytes(self->type, n_in), (n_out + LANES - 1) / LANES, &bytes)) return 0;
    return bytes;
}

/* A transposition of an 8 x 4 matrix of bits, or of a 4 x 4 matrix of pairs; `back` undoes it. */
static uint32_t spread(uint32_t x, enum change change, int back)
{
    const int width = change == SPREAD_PAIRS ? 2 : 1;
    const uint32_t mask = (1u << width) - 1;
    uint32_t y = 0;
    for (int v = 0; v < 8 / width; v++) {
        for (int j = 0; j < 4; j++) {
            int a = (4 * v + j) * width, b = 8 * j + v * width;
            y |= back ? (x >> b & mask) << a : (x >> a & mask) << b;
        }
    }
    return y;
}

/* ---- packing: an element of all rows at a time ---- */

/* One element of n_lane rows, row_bytes apart, side by side.  `size` and n_lane are constants where it counts. */
LUTRA_INLINE void gather(const uint8_t *from, size_t row_bytes, size_t n_lane, size_t size, uint32_t flip, uint8_t *to)
{
    for (size_t lane = 0; lane < n_lane; lane++, from += row_bytes, to += size) {
        uint32_t x = 0;
        if (size > sizeof x) {
            memcpy(to, from, size);
            continue;
        }
        memcpy(&x, from, size);
        x ^= flip;
        memcpy(to, &x, size);
    }
}

static void gather_spread(const uint8_t *from, size_t row_bytes, size_t n_lane, enum change change, uint8_t *to)
{
    for (size_t lane = 0; lane < n_lane; lane++) {
        uint32_t x;
        memcpy(&x, from + lane * row_bytes, 4);
        x = spread(x, change, 0);
        memcpy(to + 4 * lane, &x, 4);
    }
}

static void gather_element(const struct field *f, const uint8_t *from, size_t row_bytes, size_t n_lane, uint8_t *to)
{
    uint32_t flip = f->change == FLIP_SIGNS ? 0x80808080u : 0;
    if (f->change == SPREAD_BITS || f->change == SPREAD_PAIRS)
        gather_spread(from, row_bytes, n_lane, f->change, to);
    else if (n_lane < LANES)
        gather(from, row_bytes, n_lane, f->size, flip, to);
    else if (f->size == 8)
        gather(from, row_bytes, LANES, 8, 0, to);
    else if (f->size == 4)
        gather(from, row_bytes, LANES, 4, flip, to);
    else if (f->size == 2)
        gather(from, row_bytes, LANES, 2, 0, to);
    else
        gather(from, row_bytes, LANES, 1, 0, to);
}

/* A tile of n_block blocks per row from n_lane rows; rows that are missing stay as they are. */
static void pack_tile(const struct field *f, size_t block_bytes, const uint8_t *src, size_t row_bytes, size_t n_lane,
    size_t n_block, uint8_t *tile)
{
    for (; f->size; f++) {
        for (size_t b = 0; b < n_block; b++) {
            const uint8_t *from = src + b * block_bytes + f->from;
            for (int e = 0; e < f->count; e++, from += f->size, tile += (size_t)f->size * LANES)
                gather_element(f, from, row_bytes, n_lane, tile);
        }
    }
}

/* A TQ1_0 block as the TQ2_0 block of the same values. */
static void tq1_to_tq2(const uint8_t *src, struct quant_tq2_0 *out)
{
    static const uint8_t POWER[5] = {1, 3, 9, 27, 81};
    struct quant_tq1_0 in;
    uint8_t code[QUANT_SUPER];
    memcpy(&in, src, sizeof in);
    for (int n = 0; n < 5; n++) {
        for (int i = 0; i < 48; i++) {
            int e = i < 32 ? 32 * n + i : 160 + 16 * n + i - 32;
            code[e] = (uint8_t)((uint8_t)(in.qs[i] * POWER[n]) * 3 >> 8);
        }
        for (int i = 0; i < 4 && n < 4; i++) code[240 + 4 * n + i] = (uint8_t)((uint8_t)(in.qh[i] * POWER[n]) * 3 >> 8);
    }
    for (int i = 0; i < 64; i++) {
        const uint8_t *c = code + i / 32 * 128 + i % 32;
        out->qs[i] = (uint8_t)(c[0] | c[32] << 2 | c[64] << 4 | c[96] << 6);
    }
    out->d = in.d;
}

static void pack_panel(
    const struct cpu_gemm *gemm, const uint8_t *src, size_t row_bytes, size_t n_lane, size_t n_in, uint8_t *panel)
{
    const struct quant_info *q = packed_info(gemm->type), *file = quant_info_of(gemm->type);
    const struct fields fields = fields_of(gemm);
    size_t n_block = n_in / q->block_elems, per_tile = TILE_K / q->block_elems;
    for (size_t b = 0; b < n_block; b += per_tile) {
        size_t n = n_block - b < per_tile ? n_block - b : per_tile;
        const uint8_t *from = src + b * file->block_bytes;
        uint8_t *tile = panel + b * q->block_bytes * LANES;
        struct quant_tq2_0 block[LANES];
        size_t distance = row_bytes;
        if (gemm->type == QUANT_TQ1_0) {
            for (size_t lane = 0; lane < n_lane; lane++) tq1_to_tq2(from + lane * row_bytes, &block[lane]);
            from = (const uint8_t *)block;
            distance = sizeof *block;
        }
        pack_tile(fields.f, q->block_bytes, from, distance, n_lane, n, tile);
    }
}

void cpu_pack(
    const struct cpu_gemm *self, const void *src, size_t n_out, size_t n_in, size_t panel, size_t n_panel, void *dst)
{
    const struct quant_info *file = quant_info_of(self->type);
    size_t row_bytes = n_in / file->block_elems * file->block_bytes, stride = cpu_panel_bytes(self->type, n_in);
    for (size_t p = panel; p < panel + n_panel; p++) {
        uint8_t *to = (uint8_t *)dst + p * stride;
        size_t left = n_out - p * LANES, n_lane = left < LANES ? left : LANES;
        if (n_lane < LANES) memset(to, 0, stride);
        pack_panel(self, (const uint8_t *)src + p * LANES * row_bytes, row_bytes, n_lane, n_in, to);
    }
}

/* ---- reading one row back ---- */

/* One element of all places, side by side in the file's block.  `size` is a constant. */
LUTRA_INLINE void scatter(
    const uint8_t *lane, size_t n_block, size_t count, size_t size, uint32_t flip, uint8_t *to, size_t block_bytes)
{
    for (size_t b = 0; b < n_block; b++, to += block_bytes) {
        for (size_t e = 0; e < count; e++, lane += size * LANES) {
            uint64_t x = 0;
            memcpy(&x, lane, size);
            x ^= flip;
            memcpy(to + e * size, &x, size);
        }
    }
}

static void scatter_spread(const struct field *f, const uint8_t *lane, size_t n_block, uint8_t *to, size_t block_bytes)
{
    for (size_t b = 0; b < n_block; b++, to += block_bytes) {
        for (size_t e = 0; e < f->count; e++, lane += 4 * LANES) {
            uint32_t x;
            memcpy(&x, lane, 4);
            x = spread(x, f->change, 1);
            memcpy(to + 4 * e, &x, 4);
        }
    }
}

static void unpack_field(
    const struct field *f, const uint8_t *lane, size_t n_block, uint8_t *row_block, size_t block_bytes)
{
    uint8_t *to = row_block + f->from;
    uint32_t flip = f->change == FLIP_SIGNS ? 0x80808080u : 0;
    if (f->change == SPREAD_BITS || f->change == SPREAD_PAIRS)
        scatter_spread(f, lane, n_block, to, block_bytes);
    else if (f->size == 8)
        scatter(lane, n_block, f->count, 8, 0, to, block_bytes);
    else if (f->size == 4)
        scatter(lane, n_block, f->count, 4, flip, to, block_bytes);
    else if (f->size == 2)
        scatter(lane, n_block, f->count, 2, 0, to, block_bytes);
    else
        scatter(lane, n_block, f->count, 1, 0, to, block_bytes);
}

void cpu_unpack_row(const struct cpu_gemm *self, const void *packed, size_t n_out, size_t n_in, size_t row, float *dst)
{
    const struct quant_info *q = packed_info(self->type);
    const uint8_t *panel = (const uint8_t *)packed + row / LANES * cpu_panel_bytes(self->type, n_in);
    size_t n_block = n_in / q->block_elems, per_tile = TILE_K / q->block_elems;
    const struct fields fields = fields_of(self);
    uint32_t block[TILE_K]; /* a tile of one row in file order, at most 256 F32 */
    (void)n_out;
    for (size_t b = 0; b < n_block; b += per_tile) {
        size_t n = n_block - b < per_tile ? n_block - b : per_tile;
        const uint8_t *tile = panel + b * q->block_bytes * LANES;
        for (const struct field *f = fields.f; f->size; f++) {
            unpack_field(f, tile + row % LANES * f->size, n, (uint8_t *)block, q->block_bytes);
            tile += (size_t)f->size * f->count * n * LANES;
        }
        q->dequantize(block, dst + b * q->block_elems, n * q->block_elems);
    }
}
