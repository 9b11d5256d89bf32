/* SPDX-License-Identifier: MIT
 *
 * The formats with 256-element blocks as the 512-bit kernels see them: a panel's packed tile, unpacked to bytes and
 * 32-bit scales; and the minima, which need no dot product.
 */
#ifndef LUTRA_CPU_X86_GEMM_SUPER_FORM_IMPL_H
#define LUTRA_CPU_X86_GEMM_SUPER_FORM_IMPL_H

#include "cpu/x86/gemm_tile_avx512_impl.h"

#include "cpu/gemm_super_form_impl.h"

/* A panel's tile, unpacked. */
struct unpacked {
    __m512i code[64];    /* step v of group g at 8 g + v: unsigned bytes, with unpack_scaled_codes times the scale */
    __m512i scale[16];   /* of each sum that is scaled at once: group_steps; 0 above 16 bits if fits_half */
    __m512i min_pair[8]; /* i16: minima of groups 2p and 2p + 1 */
    __m512 d, dmin;
};

LUTRA_INLINE __m512i load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

/* c | (h & bits) */
LUTRA_INLINE __m512i merge(__m512i c, __m512i h, int bits)
{
    return _mm512_ternarylogic_epi64(c, h, _mm512_set1_epi8((char)bits), 0xf8);
}

/* 6-bit scales (side 0) or minima (1) of groups 0 .. 3 and 4 .. 7, a byte each: three words per row
 * (quant/formats.h). */
LUTRA_INLINE void six_bits(const uint8_t *words, int side, __m512i group[2])
{
    __m512i own = load(words + STEP_BYTES * side), rest = load(words + STEP_BYTES * 2);
    __m512i high = _mm512_and_si512(_mm512_srli_epi32(own, 2), _mm512_set1_epi8(0x30));
    group[0] = _mm512_and_si512(own, _mm512_set1_epi8(63));
    group[1] = merge(high, side ? _mm512_srli_epi32(rest, 4) : rest, 15);
}

/* Bytes 2p and 2p + 1 of each word to its halves. */
LUTRA_INLINE __m512i byte_pair(__m512i words, int p)
{
    const __m128i low = _mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1);
    const __m128i high = _mm_setr_epi8(2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, -1);
    return _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(p ? high : low));
}

LUTRA_INLINE void unpack_six_bits(struct unpacked *u, const uint8_t *words)
{
    __m512i scale[2], min[2];
    six_bits(words, 0, scale);
    six_bits(words, 1, min);
    UNROLL
    for (int g = 0; g < 8; g++) {
        __m512i s = _mm512_srli_epi32(scale[g / 4], (unsigned)(8 * (g % 4)));
        u->scale[g] = g % 4 < 3 ? _mm512_and_si512(s, _mm512_set1_epi32(63)) : s;
    }
    UNROLL
    for (int p = 0; p < 4; p++) u->min_pair[p] = byte_pair(min[p / 2], p % 2);
}

/* Q2_K: a byte for each group of 16, four words per row; with the minima in the upper halves. */
LUTRA_INLINE __m512i four_bit_scales(const uint8_t *words, int i)
{
    return _mm512_and_si512(load(words + STEP_BYTES * i), _mm512_set1_epi8(15));
}

LUTRA_INLINE void unpack_four_bit_scales(struct unpacked *u, const uint8_t *words)
{
    UNROLL
    for (int g = 0; g < 16; g++) {
        __m512i scales = _mm512_srli_epi32(four_bit_scales(words, g / 4), (unsigned)(g % 4 * 8));
        u->scale[g] = _mm512_and_si512(scales, _mm512_set1_epi32(15));
    }
}

LUTRA_INLINE void unpack_four_bit_minima(struct unpacked *u, const uint8_t *words)
{
    UNROLL
    for (int p = 0; p < 8; p++) {
        __m512i both = _mm512_srli_epi16(load(words + STEP_BYTES * (p / 2)), 4);
        u->min_pair[p] = byte_pair(_mm512_and_si512(both, _mm512_set1_epi8(15)), p % 2);
    }
}

/* A group's sum fits 16 bits (at most 4 * 128 * 16), so that one instruction multiplies it by its scale and adds. */
LUTRA_INLINE bool fits_half(struct form f)
{
    return f.scales == BOTH_4 || f.scales == SCALE_6;
}

/* Q3_K: nibbles of 16 groups in two words per row, their upper 2 bits in the third. */
LUTRA_INLINE void unpack_q3_scales(struct unpacked *u, const uint8_t *words)
{
    const __m512i offset = _mm512_set1_epi16(32), byte = _mm512_set1_epi32(0xff);
    __m512i rest = load(words + STEP_BYTES * 2);
    UNROLL
    for (int i = 0; i < 4; i++) {
        __m512i own = _mm512_srli_epi32(load(words + STEP_BYTES * (i % 2)), (unsigned)(i / 2 * 4));
        __m512i high = _mm512_slli_epi16(_mm512_srli_epi16(rest, (unsigned)(2 * i)), 4);
        own = merge(_mm512_and_si512(high, _mm512_set1_epi8(0x30)), own, 15);
        UNROLL
        for (int j = 0; j < 4; j++) {
            __m512i s = _mm512_and_si512(_mm512_srli_epi32(own, (unsigned)(8 * j)), byte);
            u->scale[4 * i + j] = _mm512_maskz_sub_epi16(0x55555555, s, offset);
        }
    }
}

/* IQ4_XS: a word of nibbles per row, then a half word of upper 2 bits; a scale is that of both halves of its group. */
LUTRA_INLINE void unpack_iq4_scales(struct unpacked *u, const uint8_t *words)
{
    const __m512i low = _mm512_set1_epi32(15), high = _mm512_set1_epi32(0x30), offset = _mm512_set1_epi32(32);
    __m512i own = load(words);
    __m512i rest = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(words + STEP_BYTES)));
    rest = _mm512_slli_epi32(rest, 4);
    UNROLL
    for (int g = 0; g < 8; g++) {
        __m512i s = _mm512_and_si512(_mm512_srli_epi32(rest, (unsigned)(2 * g)), high);
        s = _mm512_or_si512(s, _mm512_and_si512(_mm512_srli_epi32(own, (unsigned)(4 * g)), low));
        u->scale[2 * g] = u->scale[2 * g + 1] = _mm512_sub_epi32(s, offset);
    }
}

/* Codes that a vector of a tile holds, each of another group. */
LUTRA_INLINE int vector_codes(struct form f)
{
    return f.codes == TWO_BITS || f.codes == THREE_BITS ? 4 : 2;
}

/* The group whose codes are q-th in the vectors of run r, that is vectors 8r .. 8r + 7 of a tile: Q4_K and Q5_K have
 * groups 2r and 2r + 1 side by side, Q6_K quarters q and q + 2 of a half, 2 and 3 bits all four quarters
 * (code_vector). */
LUTRA_INLINE int group_of(struct form f, int r, int q)
{
    if (f.codes == SIX_BITS) return 4 * (r / 2) + r % 2 + 2 * q;
    return vector_codes(f) * r + q;
}

/* IQ4_XS has the halves of a group side by side, two groups in a run. */
LUTRA_INLINE int step_of(struct form f, int r, int v, int q)
{
    if (f.codes == TABLE) return 16 * r + v / 4 * 8 + 4 * q + v % 4;
    return 8 * group_of(f, r, q) + v;
}

/* expand leaves codes q times 1 << code_shift, which saves shifts. */
LUTRA_INLINE int code_shift(struct form f, int q)
{
    return f.codes == TWO_BITS || f.codes == THREE_BITS ? q % 2 * 2 : 0;
}

/* The bits that codes of group g have besides their low ones, at 2 + shift (Q3_K), 4 (Q5_K) or 4 and 5 (Q6_K) of a
 * byte. A matrix of bits for each 8 bytes: byte 7 - i of it says which bits of h make bit i.  is_signed (Q6_K): the
 * offset is taken off, so that bit 5, inverted, is the sign. */
LUTRA_INLINE __m512i high_bits(struct form f, __m512i h, int g, int shift, bool is_signed)
{
    if (f.codes == THREE_BITS)
        return _mm512_gf2p8affine_epi64_epi8(h, _mm512_set1_epi64(1LL << high_bit(f, g) << 8 * (5 - shift)), 0);
    const int64_t bit4 = 1LL << high_bit(f, g), bit5 = f.codes == SIX_BITS ? 2 * bit4 : 0;
    if (!is_signed) return _mm512_gf2p8affine_epi64_epi8(h, _mm512_set1_epi64(bit4 << 24 | bit5 << 16), 0);
    return _mm512_gf2p8affine_epi64_epi8(h, _mm512_set1_epi64(bit4 << 24 | bit5 << 16 | bit5 << 8 | bit5), 0xe0);
}

/* The values of IQ4_NL's codes + 128. */
LUTRA_INLINE __m512i iq4_table(void)
{
    return _mm512_broadcast_i32x4(_mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, (char)129, (char)141, (char)153,
        (char)166, (char)181, (char)197, (char)217, (char)241));
}

/* Vector v of run r of the tile at w to unsigned bytes, or for Q6_K, if is_signed, to the values. */
LUTRA_INLINE void expand(struct form f, const uint8_t *w, int r, int v, bool is_signed, __m512i code[4])
{
    const __m512i low = _mm512_set1_epi8((char)code_mask(f));
    __m512i c = load(w + STEP_BYTES * (8 * r + v)), up = _mm512_srli_epi16(c, 4);
    if (high_bytes(f) > 0) {
        __m512i h = load(w + high_at(f) + (size_t)(STEP_BYTES * high_vector(f, group_of(f, r, 0), v)));
        UNROLL
        for (int q = 0; q < vector_codes(f); q++) {
            int shift = code_shift(f, q);
            __m512i high = high_bits(f, h, group_of(f, r, q), shift, is_signed);
            code[q] = merge(high, q < vector_codes(f) / 2 ? c : up, code_mask(f) << shift);
        }
        return;
    }
    if (f.codes == TABLE) {
        code[0] = _mm512_shuffle_epi8(iq4_table(), _mm512_and_si512(c, low));
        code[1] = _mm512_shuffle_epi8(iq4_table(), _mm512_and_si512(up, low));
        return;
    }
    code[0] = _mm512_and_si512(c, low);
    if (f.codes == TWO_BITS) {
        code[1] = _mm512_and_si512(c, _mm512_set1_epi8(12));
        code[2] = _mm512_and_si512(up, low);
        code[3] = _mm512_and_si512(up, _mm512_set1_epi8(12));
    } else {
        code[1] = _mm512_and_si512(up, low);
    }
}

/* Code q as it is. */
LUTRA_INLINE __m512i plain_code(struct form f, const __m512i code[4], int q)
{
    return code_shift(f, q) ? _mm512_srli_epi16(code[q], (unsigned)code_shift(f, q)) : code[q];
}

LUTRA_INLINE void unpack_codes(struct form f, struct unpacked *u, const uint8_t *w)
{
    for (int v = 0; v < 8; v++) {
        UNROLL
        for (int r = 0; r < 8 / vector_codes(f); r++) {
            __m512i code[4];
            expand(f, w, r, v, false, code);
            UNROLL
            for (int q = 0; q < vector_codes(f); q++) u->code[step_of(f, r, v, q)] = plain_code(f, code, q);
        }
    }
}

/* Q2_K: codes times scales, at most 3 * 15, which are bytes and need no more than a sum. */
LUTRA_INLINE bool has_scaled_codes(struct form f)
{
    return f.codes == TWO_BITS && f.scales == BOTH_4;
}

/* For 4 rows, the rows of an index's 128 bits, the scale of bits 8 j .. 8 j + 7 of their words times all codes: byte
 * 4 row + code, or if `transposed` 4 code + row. */
LUTRA_INLINE __m512i products(__m512i scales, int j, bool transposed)
{
    const __m128i row = _mm_setr_epi8(0, -1, 0, -1, 4, -1, 4, -1, 8, -1, 8, -1, 12, -1, 12, -1);
    const __m128i all = _mm_set1_epi32(0x0c080400);
    const __m512i codes = _mm512_set1_epi32(0x03020100); /* 0 and 256, 2 and 768: words times a byte */
    const __m512i code = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x00010001, 0x00020002, 0x00030003));
    __m128i from = _mm_add_epi8(transposed ? all : row, _mm_set1_epi8((char)j));
    if (!transposed) from = _mm_or_si128(from, _mm_set1_epi16((short)0x8000));
    __m512i scale = _mm512_shuffle_epi8(scales, _mm512_broadcast_i32x4(from));
    return _mm512_mullo_epi16(scale, transposed ? code : codes);
}

/* All codes of run r. */
LUTRA_INLINE void unpack_scaled_codes(struct form f, struct unpacked *u, const uint8_t *w, int r)
{
    enum { AND_OR = 0xea /* a & b | c */ };
    const __m512i row = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x01010101, 0x02020202, 0x03030303));
    const __m512i rows[2] = {_mm512_slli_epi32(row, 2), row};
    UNROLL
    for (int v = 0; v < 8; v += 4) {
        __m512i table[4];
        UNROLL
        for (int q = 0; q < 4; q++) {
            int g = step_of(f, r, v, q) / 4;
            table[q] = products(four_bit_scales(w + scales_at(f), g / 4), g % 4, q % 2);
        }
        UNROLL
        for (int i = v; i < v + 4; i++) {
            __m512i c = load(w + STEP_BYTES * (8 * r + i)), up = _mm512_srli_epi16(c, 4);
            UNROLL
            for (int q = 0; q < 4; q++) {
                __m512i mask = _mm512_set1_epi8((char)(code_mask(f) << code_shift(f, q)));
                __m512i index = _mm512_ternarylogic_epi32(q < 2 ? c : up, mask, rows[q % 2], AND_OR);
                u->code[step_of(f, r, i, q)] = _mm512_shuffle_epi8(table[q], index);
            }
        }
    }
}

/* Instead of unpack_codes and unpack_scales. */
LUTRA_INLINE void unpack_scaled(struct form f, struct unpacked *u, const uint8_t *w)
{
    u->d = load_f16(w + d_at(f));
    u->dmin = load_f16(w + dmin_at(f));
    for (int r = 0; r < 2; r++) unpack_scaled_codes(f, u, w, r);
    unpack_four_bit_minima(u, w + scales_at(f));
}

LUTRA_INLINE void unpack_scales(struct form f, struct unpacked *u, const uint8_t *w)
{
    const uint8_t *scales = w + scales_at(f);
    u->d = load_f16(w + d_at(f));
    if (has_minima(f)) u->dmin = load_f16(w + dmin_at(f));
    switch (f.scales) {
    case NO_SCALES: break;
    case BOTH_4:
        unpack_four_bit_scales(u, scales);
        unpack_four_bit_minima(u, scales);
        break;
    case BOTH_6: unpack_six_bits(u, scales); break;
    case SCALE_6: unpack_q3_scales(u, scales); break;
    case SCALE_6_APART: unpack_iq4_scales(u, scales); break;
    case SCALE_8:
        UNROLL
        for (int i = 0; i < 16; i++)
            u->scale[i] = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(scales + LANES * i)));
        break;
    }
}

LUTRA_INLINE void unpack_tile(struct form f, struct unpacked *u, const uint8_t *w)
{
    unpack_codes(f, u, w);
    unpack_scales(f, u, w);
}

/* The minima of a tile times the inputs' sums; sums: i16 pairs [pairs][width]. */
LUTRA_INLINE void subtract_minima(const struct unpacked *u, int pairs, const uint8_t *sums, const uint8_t *scale_x,
    size_t width, int n, __m512 sum[COLUMNS])
{
    UNROLL
    for (int c = 0; c < n; c++) {
        __m512i min = _mm512_setzero_si512();
        UNROLL
        for (int p = 0; p < pairs; p++) {
            min = _mm512_dpwssd_epi32(min, u->min_pair[p], broadcast(sums + (size_t)p * 4 * width + 4 * c));
        }
        __m512 s = _mm512_mul_ps(u->dmin, broadcast_f32(scale_x + 4 * c));
        sum[c] = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(min), s, sum[c]);
    }
}

#endif
