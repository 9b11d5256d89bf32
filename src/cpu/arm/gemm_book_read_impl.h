/* SPDX-License-Identifier: MIT
 *
 * Reading a tile of a format with a codebook, four rows (a quad) at a time: entries are loaded one by one, from a table
 * in L1 that has magnitudes instead of fields; signs come by tbl and a mask.
 *
 * in_pairs, a constant: vectors are two rows x 8 inputs, as smmla wants them, instead of four rows x 4 inputs.
 */
#ifndef LUTRA_CPU_ARM_GEMM_BOOK_READ_H
#define LUTRA_CPU_ARM_GEMM_BOOK_READ_H

#include "cpu/arm/gemm_arm_impl.h"
#include "cpu/gemm_book_form_impl.h"

/* Indices are bytes of their own, and scales are in the words of the signs. */
LUTRA_INLINE bool has_bytes(struct form f)
{
    return f.book == BOOK_IQ2_XXS || f.book == BOOK_IQ3_XXS;
}

/* ---- tables ---- */

/* The codebook as magnitudes, first input in the lowest byte. */
struct tables {
    LUTRA_ALIGNED(16) uint8_t entry[1024 * 8];
};

/* 8 entries of 8 fields of 2 bits: each byte of the entries four times, shifted. */
LUTRA_INLINE void spread_eights(uint8x16_t entries, uint8x16_t magnitudes, uint8_t *to)
{
    static const uint8_t AT[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    static const int8_t SHIFT[16] = {0, -2, -4, -6, 0, -2, -4, -6, 0, -2, -4, -6, 0, -2, -4, -6};
    UNROLL
    for (int i = 0; i < 4; i++) {
        uint8x16_t e = vqtbl1q_u8(entries, vaddq_u8(vld1q_u8(AT), vdupq_n_u8((uint8_t)(4 * i))));
        e = vandq_u8(vshlq_u8(e, vld1q_s8(SHIFT)), vdupq_n_u8(3));
        vst1q_u8(to + 16 * i, vqtbl1q_u8(magnitudes, e));
    }
}

/* 4 entries of 4 fields of 3 bits. */
LUTRA_INLINE void spread_fours(uint32x4_t e, uint8x16_t magnitudes, uint8_t *to)
{
    e = vandq_u32(vorrq_u32(e, vshlq_n_u32(e, 10)), vdupq_n_u32(0x3f003f));
    e = vandq_u32(vorrq_u32(e, vshlq_n_u32(e, 5)), vdupq_n_u32(0x07070707));
    vst1q_u8(to, vqtbl1q_u8(magnitudes, vreinterpretq_u8_u32(e)));
}

LUTRA_INLINE void make_tables(struct form f, struct tables *t)
{
    const uint8x8_t few = vld1_u8((const uint8_t *)magnitudes_of(f));
    const uint8x16_t magnitudes = vcombine_u8(few, few);
    for (int i = 0; i < n_entries(f); i += 8) {
        uint16x8_t e = vld1q_u16(entries_of(f) + i);
        if (has_eights(f)) {
            spread_eights(vreinterpretq_u8_u16(e), magnitudes, t->entry + 8 * i);
        } else {
            spread_fours(vmovl_u16(vget_low_u16(e)), magnitudes, t->entry + 4 * i);
            spread_fours(vmovl_high_u16(e), magnitudes, t->entry + 4 * i + 16);
        }
    }
}

/* ---- words of a tile ---- */

/* Word i of the rows of a quad. */
LUTRA_INLINE uint8x16_t word(const uint8_t *tile, int i, int quad)
{
    return vld1q_u8(tile + STEP_BYTES * i + 16 * quad);
}

/* ---- indices ---- */

/* All indices of a tile, where it does not have each in a byte of its own.  They are made long before they are used:
 * what is stored can be loaded only after a while. */
struct indices {
    LUTRA_ALIGNED(16) uint16_t at[64 * LANES];
};

/* 9 or 10 bits: bytes of `low` and `bits` more each of byte `byte` of a word of `high`, from bit `from` on. */
LUTRA_INLINE void join_indices(
    uint8x16_t low, uint8x16_t high, int byte, const int from, const int bits, uint16_t to[16])
{
    static const uint8_t ROWS[16] = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
    static const int8_t SHIFT[2][16] = {{0, -1, -2, -3, 0, -1, -2, -3, 0, -1, -2, -3, 0, -1, -2, -3},
        {0, -2, -4, -6, 0, -2, -4, -6, 0, -2, -4, -6, 0, -2, -4, -6}};
    uint8x16_t h = vqtbl1q_u8(high, vaddq_u8(vld1q_u8(ROWS), vdupq_n_u8((uint8_t)byte)));
    h = vshlq_u8(h, vsubq_s8(vld1q_s8(SHIFT[bits - 1]), vdupq_n_s8((int8_t)from)));
    h = vandq_u8(h, vdupq_n_u8((uint8_t)((1 << bits) - 1)));
    vst1q_u16(to, vreinterpretq_u16_u8(vzip1q_u8(low, h)));
    vst1q_u16(to + 8, vreinterpretq_u16_u8(vzip2q_u8(low, h)));
}

LUTRA_INLINE void load_indices(struct form f, const uint8_t *tile, struct indices *to)
{
    if (has_bytes(f)) return;
    for (int i = 0; i < 16; i++) { /* words of low bits, of which IQ2_S has 8 */
        if (f.book == BOOK_IQ2_S && i >= 8) break;
        UNROLL
        for (int q = 0; q < QUADS; q++) {
            const uint8x16_t low = word(tile, i, q);
            if (f.book == BOOK_IQ2_XS) {
                vst1q_u16(to->at + 8 * (QUADS * i + q), vandq_u16(vreinterpretq_u16_u8(low), vdupq_n_u16(511)));
            } else {
                const int g = f.book == BOOK_IQ2_S ? i : i / 2;
                const uint8x16_t high = word(tile, sections_of(f).high + g / 4, q);
                join_indices(low, high, g % 4, f.book == BOOK_IQ2_S ? 0 : i % 2 * 4, f.book == BOOK_IQ2_S ? 2 : 1,
                    to->at + 16 * (QUADS * i + q));
            }
        }
    }
}

/* Where the indices of group g of a quad begin, in the tile or apart. */
LUTRA_INLINE const void *group_indices(struct form f, const uint8_t *tile, const struct indices *in, int g, int quad)
{
    if (has_bytes(f)) return tile + 2 * STEP_BYTES * g + 16 * quad;
    return in->at + (f.book == BOOK_IQ3_S ? 8 : 4) * LANES * g + (f.book == BOOK_IQ2_XS ? 8 : 16) * quad;
}

/* Index i of them, of row r of the quad. */
LUTRA_INLINE size_t index_of(struct form f, const void *group, const int i, const int r)
{
    const uint16_t *in = group;
    if (f.book == BOOK_IQ2_XS) return in[2 * LANES * (i / 2) + 2 * r + i % 2];
    const int at = STEP_BYTES * (i / 4) + 4 * r + i % 4;
    return has_bytes(f) ? ((const uint8_t *)group)[at] : in[at];
}

/* ---- signs ---- */

/* 7 signs in each byte, whatever its highest bit: an eighth there makes them even. */
LUTRA_INLINE uint8x16_t even_signs(uint8x16_t seven)
{
    return veorq_u8(seven, vshlq_n_u8(vcntq_u8(seven), 7));
}

/* Four fields of 7 bits to the lower bits of bytes; the highest has whatever came after. */
LUTRA_INLINE uint8x16_t sevens(uint8x16_t words)
{
    const uint32x4_t w = vreinterpretq_u32_u8(words);
    uint32x4_t fourteens = vbslq_u32(vdupq_n_u32(0xffff), w, vshlq_n_u32(w, 2));
    uint8x16_t second = vreinterpretq_u8_u32(vaddq_u32(fourteens, fourteens));
    return vbslq_u8(vreinterpretq_u8_u16(vdupq_n_u16(0xff)), vreinterpretq_u8_u32(fourteens), second);
}

/* The signs of group g, 32 inputs, of a quad: a byte for 8 inputs each, the first in its lowest bit. */
LUTRA_INLINE uint8x16_t load_signs(struct form f, const uint8_t *tile, int g, int quad)
{
    switch (f.book) {
    case BOOK_IQ2_XXS: return even_signs(sevens(word(tile, 2 * g + 1, quad)));
    case BOOK_IQ2_XS: return even_signs(vshrq_n_u8(vuzp2q_u8(word(tile, 2 * g, quad), word(tile, 2 * g + 1, quad)), 1));
    case BOOK_IQ3_XXS: return even_signs(sevens(word(tile, sections_of(f).signs + g, quad)));
    default: return word(tile, sections_of(f).signs + g, quad);
    }
}

/* Constants: which byte of load_signs a vector's bytes want for inputs 8 l .. 8 l + 7, for the rows of a quad or of its
 * pairs, and which bit of it. */
struct sign_places {
    uint8x16_t byte[4][2], bit[2];
};

LUTRA_INLINE struct sign_places sign_places_of(struct form f, const bool in_pairs)
{
    static const uint8_t ROWS[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    static const uint8_t BITS[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    static const uint8_t LOW_BITS[16] = {1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8};
    const uint8x16_t rows = vmulq_u8(vld1q_u8(ROWS), vdupq_n_u8(f.book == BOOK_IQ2_XS ? 2 : 4));
    struct sign_places p;
    p.bit[0] = vld1q_u8(in_pairs ? BITS : LOW_BITS);
    p.bit[1] = in_pairs ? p.bit[0] : vshlq_n_u8(p.bit[0], 4);
    UNROLL
    for (int l = 0; l < 4; l++) {
        const uint8x16_t at = vaddq_u8(rows, vdupq_n_u8((uint8_t)(f.book == BOOK_IQ2_XS ? l / 2 * 8 + l % 2 : l)));
        p.byte[l][0] = in_pairs ? vzip1q_u8(at, at) : at;
        COMPILER_UNKNOWN_VECTOR(p.byte[l][0]);
        p.byte[l][1] = in_pairs ? vzip2q_u8(at, at) : p.byte[l][0];
        if (in_pairs) COMPILER_UNKNOWN_VECTOR(p.byte[l][1]);
    }
    return p;
}

/* ---- scales ---- */

/* 2 s + 1 of the 8 groups of 32 inputs, a nibble each at the top of words first, first + 2 .. or, `every` 1, first,
 * first + 1 ..: four of them as bytes of each row's word, first those of groups 0 .. 3. */
LUTRA_INLINE void top_scales(const uint8_t *tile, int first, int every, int quad, uint8x16_t to[2])
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        uint32x4_t all = vreinterpretq_u32_u8(word(tile, first + (4 * i + 3) * every, quad));
        all = vsriq_n_u32(all, vreinterpretq_u32_u8(word(tile, first + (4 * i + 2) * every, quad)), 8);
        all = vsriq_n_u32(all, vreinterpretq_u32_u8(word(tile, first + (4 * i + 1) * every, quad)), 16);
        all = vsriq_n_u32(all, vreinterpretq_u32_u8(word(tile, first + 4 * i * every, quad)), 24);
        to[i] = vorrq_u8(vshrq_n_u8(vreinterpretq_u8_u32(all), 3), vdupq_n_u8(1));
    }
}

/* The same of nibbles, 8 in a word. */
LUTRA_INLINE void nibble_scales(uint8x16_t words, uint8x16_t to[2])
{
    uint8x16_t low = vandq_u8(vaddq_u8(words, words), vdupq_n_u8(30)), high = vshrq_n_u8(words, 3);
    low = vorrq_u8(low, vdupq_n_u8(1));
    high = vorrq_u8(high, vdupq_n_u8(1));
    uint32x4_t a = vreinterpretq_u32_u8(vzip1q_u8(low, high)), b = vreinterpretq_u32_u8(vzip2q_u8(low, high));
    to[0] = vreinterpretq_u8_u32(vuzp1q_u32(a, b));
    to[1] = vreinterpretq_u8_u32(vuzp2q_u32(a, b));
}

/* Scales 8 i .. 8 i + 7 of a quad, as bytes of each row's word: the first four, the others. */
LUTRA_INLINE void load_scales(struct form f, const uint8_t *tile, int i, int quad, uint8x16_t to[2])
{
    const struct sections at = sections_of(f);
    if (f.book == BOOK_IQ2_XXS) {
        top_scales(tile, 1, 2, quad, to);
    } else if (f.book == BOOK_IQ3_XXS) {
        top_scales(tile, at.signs, 1, quad, to);
    } else {
        nibble_scales(word(tile, at.scales + i, quad), to);
    }
}

/* Byte i of words of four, by a shift that is known or not. */
LUTRA_INLINE int32x4_t byte_of(uint8x16_t words, int i)
{
    uint32x4_t w = vshlq_u32(vreinterpretq_u32_u8(words), vdupq_n_s32(-8 * i));
    return vreinterpretq_s32_u32(vandq_u32(w, vdupq_n_u32(255)));
}

LUTRA_INLINE float32x4_t load_d(struct form f, const uint8_t *tile, int quad)
{
    return vmulq_n_f32(load_f16(tile + STEP_BYTES * sections_of(f).d + 8 * quad), unit_of(f));
}

/* ---- codes ---- */

LUTRA_INLINE uint32x2_t load_eight(const struct tables *t, size_t i)
{
    return vld1_u32((const uint32_t *)(const void *)(t->entry + 8 * i));
}

LUTRA_INLINE uint32x2_t two_fours(const struct tables *t, size_t i, size_t j)
{
    uint32x2_t a = vld1_dup_u32((const uint32_t *)(const void *)(t->entry + 4 * i));
    return vld1_lane_u32((const uint32_t *)(const void *)(t->entry + 4 * j), a, 1);
}

/* Magnitudes of inputs 8 l .. 8 l + 7 of a group of a quad: of its pairs of rows, or those of 4 inputs and the next. */
LUTRA_INLINE void load_magnitudes(
    struct form f, const struct tables *t, const void *group, const int l, const bool in_pairs, uint8x16_t to[2])
{
    UNROLL
    for (int k = 0; k < 2; k++) {
        uint32x2_t part[2];
        UNROLL
        for (int i = 0; i < 2; i++) {
            const int r = in_pairs || has_eights(f) ? 2 * k + i : 2 * i, from = in_pairs ? 2 * l : 2 * l + k;
            part[i] = has_eights(f) ? load_eight(t, index_of(f, group, l, r))
                                    : two_fours(t, index_of(f, group, from, r),
                                          index_of(f, group, from + in_pairs, r + !in_pairs));
        }
        to[k] = vreinterpretq_u8_u32(vcombine_u32(part[0], part[1]));
    }
    if (!has_eights(f) || in_pairs) return;
    uint32x4_t first = vreinterpretq_u32_u8(to[0]), last = vreinterpretq_u32_u8(to[1]);
    to[0] = vreinterpretq_u8_u32(vuzp1q_u32(first, last));
    to[1] = vreinterpretq_u8_u32(vuzp2q_u32(first, last));
}

/* The same with their signs. */
LUTRA_INLINE void load_values(struct form f, const struct tables *t, const void *group, uint8x16_t signs,
    const struct sign_places *places, const int l, const bool in_pairs, int8x16_t to[2])
{
    uint8x16_t size[2], sign = vqtbl1q_u8(signs, places->byte[l][0]);
    load_magnitudes(f, t, group, l, in_pairs, size);
    UNROLL
    for (int k = 0; k < 2; k++) {
        if (k && in_pairs) sign = vqtbl1q_u8(signs, places->byte[l][1]);
        uint8x16_t negative = vtstq_u8(sign, places->bit[k]);
        to[k] = vreinterpretq_s8_u8(vsubq_u8(veorq_u8(size[k], negative), negative));
    }
}

/* All values of a tile, step after step. */
LUTRA_INLINE void read_values(
    struct form f, const struct tables *t, const uint8_t *tile, const bool in_pairs, int8_t *to)
{
    const struct sign_places places = sign_places_of(f, in_pairs);
    struct indices in;
    load_indices(f, tile, &in);
    for (int g = 0; g < 8; g++) {
        for (int q = 0; q < QUADS; q++) {
            /* Unknown: else gcc loads indices of the next quads, too. */
            const void *group = compiler_unknown(group_indices(f, tile, &in, g, q));
            const uint8x16_t signs = load_signs(f, tile, g, q);
            int8_t *at = to + 8 * STEP_BYTES * g + (in_pairs ? 32 : 16) * q;
            UNROLL
            for (int l = 0; l < 4; l++) {
                int8x16_t v[2];
                load_values(f, t, group, signs, &places, l, in_pairs, v);
                vst1q_s8(at + 2 * STEP_BYTES * l, v[0]);
                vst1q_s8(at + 2 * STEP_BYTES * l + (in_pairs ? 16 : STEP_BYTES), v[1]);
            }
        }
    }
}

/* ---- what loops over tiles that were read ask of every form (gemm_tile_quads_tmpl.h, gemm_tile_i8mm_tmpl.h) ---- */

LUTRA_INLINE bool is_summed(struct form f)
{
    (void)f;
    return false;
}

LUTRA_INLINE bool is_negated(struct form f)
{
    (void)f;
    return false;
}

#endif
