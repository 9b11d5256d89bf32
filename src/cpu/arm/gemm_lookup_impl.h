/* SPDX-License-Identifier: MIT
 *
 * Matmul of codes of 1 and 2 bits by table lookup ([TMAN] section 4.3, on a CPU), for plain NEON, which takes four
 * instructions for 16 byte products: half a byte of codes stands for one of 16 sums of 4 inputs, or 2, and one tbl
 * looks them up for 16 output rows.  Integers, so the bits are those of gemm_*_quads_tmpl.h.
 *
 * A sum of -508 .. 508 is kept as its low 5 bits and the rest, a byte each: either adds up 8 times in a byte.
 * Tables are made of TILE_K inputs of up to 4 columns and serve up to 16 panels before the next: they stay in L1.
 */
#ifndef LUTRA_CPU_ARM_GEMM_LOOKUP_H
#define LUTRA_CPU_ARM_GEMM_LOOKUP_H

#include <stdbool.h>

#include "cpu/arm/gemm_arm_impl.h"

enum {
    LOW_BITS = 5,                    /* of a sum */
    LOOKUP_PANELS = 16,              /* that tables serve */
    PAIR = 2,                        /* columns that a vector of codes is loaded for */
    VECTOR_TABLES = 8,               /* one for each half of the 4 bytes that a row has in a vector */
    MAX_VECTORS = TILE_K * 2 / 8 / 4 /* of codes of 2 bits in a tile */
};

/* What half a byte of codes is worth. */
struct table {
    uint8_t low[16];
    int8_t high[16];
};

/* The same of all vectors [16 rows][4 bytes] of a tile, for one column. */
struct tables {
    struct table of[MAX_VECTORS][VECTOR_TABLES];
};

/* Adds a tile of `groups` groups of 32 inputs for the columns, one or a pair (a constant): weights w, and in.x the
 * columns' records. */
typedef void lookup_tile(const void *form, const uint8_t *w, size_t groups, const struct tables *t, struct columns in,
    float32x4_t (*sum)[QUADS]);

/* How a type's codes lie; bytes of activations are those of one column.  A run of vectors is what add_tile scales at
 * once. */
struct lookup {
    lookup_tile *add_tile;
    const void *form;
    bool one_bit;                        /* codes, for -1 and 1; else of 2 bits for -1 .. 2 */
    size_t tile_bytes;                   /* of a panel's tile of TILE_K inputs */
    size_t record_inputs, record_bytes;  /* of activations: 32 or 256 */
    size_t run_vectors, run_bytes;       /* from a run's inputs to the next one's */
    size_t vector_bytes, neighbor_bytes; /* from a vector's inputs to the next one's; from a byte's code to the next */
};

/* What the n codes in a half byte stand for, where its highest bit is 0; n is 4 or 2. */
LUTRA_INLINE void load_values(int n, int16x8_t value[4])
{
    static const int16_t VALUES[2][4][8] = {{{-1, 0, 1, 2, -1, 0, 1, 2}, {-1, -1, -1, -1, 0, 0, 0, 0}},
        {{-1, 1, -1, 1, -1, 1, -1, 1}, {-1, -1, 1, 1, -1, -1, 1, 1}, {-1, -1, -1, -1, 1, 1, 1, 1},
            {-1, -1, -1, -1, -1, -1, -1, -1}}};
    UNROLL
    for (int i = 0; i < n; i++) {
        value[i] = vld1q_s16(VALUES[n == 4][i]);
        COMPILER_UNKNOWN_VECTOR(value[i]);
    }
}

/* The table of n inputs, 4 apart. */
LUTRA_INLINE void make_table(const int16_t *in, int n, const int16x8_t value[4], struct table *out)
{
    int16x8_t early = vmulq_n_s16(value[0], in[0]);
    UNROLL
    for (int i = 1; i < n; i++) early = vmlaq_n_s16(early, value[i], in[4 * i]);
    int16x8_t late = vmlaq_n_s16(early, vdupq_n_s16(2), in[4 * (n - 1)]); /* the highest bit adds 2 */
    uint8x16_t low = vuzp1q_u8(vreinterpretq_u8_s16(early), vreinterpretq_u8_s16(late));
    vst1q_u8(out->low, vandq_u8(low, vdupq_n_u8((1 << LOW_BITS) - 1)));
    vst1q_s8(out->high, vshrn_high_n_s16(vshrn_n_s16(early, LOW_BITS), late, LOW_BITS));
}

/* Tables of the first n_vector vectors of a tile; x: the tile's records in a block of `width` columns. */
LUTRA_INLINE void make_tables(struct lookup l, size_t n_vector, const uint8_t *x, size_t width, struct tables *out)
{
    const int half = l.one_bit ? 4 : 2; /* a byte, in codes */
    int16x8_t value[4];
    load_values(half, value);
    for (size_t v = 0; v < n_vector; v++) {
        const uint8_t *from = x + (v / l.run_vectors * l.run_bytes + v % l.run_vectors * l.vector_bytes) * width;
        int16_t in[8 * 4]; /* [code of a byte][byte of a row] */
        UNROLL
        for (int i = 0; i < 2 * half; i++, from += l.neighbor_bytes * width)
            vst1_s16(in + 4 * i, vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vget_low_s32(broadcast(from))))));
        UNROLL
        for (int i = 0; i < VECTOR_TABLES; i++) make_table(in + i % 2 * half * 4 + i / 2, half, value, &out->of[v][i]);
    }
}

/* Adds what vector v of codes is worth to 16 rows of n columns. */
LUTRA_INLINE void look_up(const uint8_t *code, const struct tables *t, size_t v, int n, int16x8_t rows[PAIR][2])
{
    const uint8x16x4_t codes = vld4q_u8(code);
    const int8x16_t unit = vdupq_n_s8(1 << LOW_BITS);
    uint8x16_t low[PAIR];
    int8x16_t high[PAIR];
    UNROLL
    for (int i = 0; i < VECTOR_TABLES; i++) {
        uint8x16_t half = i % 2 ? vshrq_n_u8(codes.val[i / 2], 4) : vandq_u8(codes.val[i / 2], vdupq_n_u8(15));
        UNROLL
        for (int c = 0; c < n; c++) {
            const struct table *table = &t[c].of[v][i];
            uint8x16_t l = vqtbl1q_u8(vld1q_u8(table->low), half);
            int8x16_t h = vqtbl1q_s8(vld1q_s8(table->high), half);
            low[c] = i == 0 ? l : vaddq_u8(low[c], l);
            high[c] = i == 0 ? h : vaddq_s8(high[c], h);
            COMPILER_UNKNOWN_VECTOR(low[c]);
            COMPILER_UNKNOWN_VECTOR(high[c]);
        }
    }
    UNROLL
    for (int c = 0; c < n; c++) {
        uint16x8_t first = vreinterpretq_u16_s16(vmlal_s8(rows[c][0], vget_low_s8(high[c]), vget_low_s8(unit)));
        uint16x8_t last = vreinterpretq_u16_s16(vmlal_high_s8(rows[c][1], high[c], unit));
        rows[c][0] = vreinterpretq_s16_u16(vaddw_u8(first, vget_low_u8(low[c])));
        rows[c][1] = vreinterpretq_s16_u16(vaddw_high_u8(last, low[c]));
    }
}

LUTRA_INLINE int16x4_t quad_of(const int16x8_t rows[2], int quad)
{
    return quad % 2 ? vget_high_s16(rows[quad / 2]) : vget_low_s16(rows[quad / 2]);
}

/* Some panels for some columns: those whose tables lie side by side. */
LUTRA_INLINE void run_panels(
    struct lookup l, const struct cpu_gemm_args *a, size_t panel, size_t n_panel, size_t row, struct columns in)
{
    float32x4_t sum[LOOKUP_PANELS][TILE_COLUMNS][QUADS];
    struct tables t[TILE_COLUMNS];
    const size_t panel_bytes = cpu_panel_bytes(a->gemm->type, a->n_in), vectors = l.one_bit ? 1 : 2;
    const uint8_t *w = (const uint8_t *)a->packed + panel * panel_bytes;
    memset(sum, 0, n_panel * sizeof sum[0]);
    for (size_t left = a->n_in / 32; left > 0;) {
        size_t groups = left < 8 ? left : 8;
        for (int c = 0; c < in.n; c++) make_tables(l, vectors * groups, in.x + 4 * c, in.width, &t[c]);
        for (size_t p = 0; p < n_panel; p++) {
            const uint8_t *tile = w + p * panel_bytes;
            for (int c = 0; c < in.n; c += PAIR) {
                const uint8_t *x = in.x + 4 * c;
                if (in.n - c == 1)
                    l.add_tile(l.form, tile, groups, &t[c], (struct columns){x, in.width, 1}, &sum[p][c]);
                else
                    l.add_tile(l.form, tile, groups, &t[c], (struct columns){x, in.width, PAIR}, &sum[p][c]);
            }
        }
        w += groups * l.tile_bytes / 8;
        in.x += groups * 32 / l.record_inputs * l.record_bytes * in.width;
        left -= groups;
    }
    for (size_t p = 0; p < n_panel; p++) {
        for (size_t c = 0; c < (size_t)in.n; c++) store_tile(a, panel + p, row + c, 0, QUADS, 1, sum[p][c]);
    }
}

LUTRA_INLINE void run_lookup(struct lookup l, const struct cpu_gemm_args *a)
{
    const size_t row_bytes = a->n_in / l.record_inputs * l.record_bytes, end = a->panel + a->n_panel;
    for (size_t p = a->panel; p < end; p += LOOKUP_PANELS) {
        size_t panels = end - p < LOOKUP_PANELS ? end - p : LOOKUP_PANELS;
        for (size_t r = 0; r < a->n_row; r += TILE_COLUMNS) {
            struct act_place at = act_place_of(r, a->n_row);
            size_t n = a->n_row - r < TILE_COLUMNS ? a->n_row - r : TILE_COLUMNS;
            const uint8_t *x = (const uint8_t *)a->act + (r - at.column) * row_bytes + 4 * at.column;
            run_panels(l, a, p, panels, r, (struct columns){x, at.width, (int)n});
        }
    }
}

#endif
