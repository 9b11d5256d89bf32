/* SPDX-License-Identifier: MIT
 *
 * Reading a tile of a format with a codebook on 512 bits, 16 rows at a time, without a load per entry.
 *
 *     four indices per row, a byte each -> the two bytes of their entries, by vpermi2b of 128 bytes and blends -> a
 *     byte for each input that has its field and its sign, by vpmultishiftqb -> its code, by vpermb
 *
 * Permutes are what there is too much of, so that two steps share those of their signs and, where an entry has 8
 * fields, of their fields, too.  Hence where these lie in a byte: in even steps the sign in bit 1 and the field from
 * bit 4 on (of 8 fields) or 2 (of 4), in odd ones in bit 5 and from bit 0 on.
 */
#ifndef LUTRA_CPU_X86_GEMM_BOOK_FORM_AVX512_IMPL_H
#define LUTRA_CPU_X86_GEMM_BOOK_FORM_AVX512_IMPL_H

#include "cpu/x86/gemm_book_form_impl.h"

/* A codebook's entries in two bytes, low and high.  8 fields are sorted anew: those of inputs 4 5 0 1 come first, from
 * the lowest bits up, then 6 7 2 3.  Codes of even and odd steps. */
struct tables {
    __m512i low[16], high[16], code[2];
};

/* Four indices per row: bits 7..0 of each, and where bits 8 and 9 are set. */
struct indices {
    __m512i low;
    __mmask64 bit8, bit9;
};

/* ---- tables ---- */

enum { SELECT = 0xe4 /* c ? a : b */ };

/* The bytes of `four`, in each row's word 4 more than in the one before. */
LUTRA_INLINE __m512i bytes_of_rows(int four)
{
    const __m512i row = _mm512_slli_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), 2);
    return _mm512_add_epi8(_mm512_mullo_epi32(row, _mm512_set1_epi32(0x01010101)), _mm512_set1_epi32(four));
}

/* The low or the high byte of 32 entries. */
LUTRA_INLINE __m256i bytes_of(struct form f, const uint16_t *entries, bool high)
{
    const __m512i nibble = _mm512_set1_epi16(15);
    __m512i e = _mm512_loadu_si512(entries);
    if (!has_eights(f)) return _mm512_cvtepi16_epi8(high ? _mm512_srli_epi16(e, 8) : e);
    __m512i last = _mm512_srli_epi16(e, high ? 12 : 8), first = high ? e : _mm512_slli_epi16(e, 4);
    return _mm512_cvtepi16_epi8(_mm512_ternarylogic_epi32(last, first, nibble, SELECT));
}

LUTRA_INLINE __m512i bytes_of_64(struct form f, const uint16_t *entries, bool high)
{
    __m256i a = bytes_of(f, entries, high), b = bytes_of(f, entries + 32, high);
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

/* By fields in bits 1..0 or 2..0 and signs in bit 5. */
LUTRA_INLINE __m512i code_table(struct form f)
{
    __m128i few = _mm_loadl_epi64((const __m128i *)magnitudes_of(f));
    __m512i m = has_eights(f) ? _mm512_broadcastd_epi32(few) : _mm512_broadcastq_epi64(few);
    __m512i offset = _mm512_set1_epi8(OFFSET);
    return _mm512_mask_sub_epi8(_mm512_add_epi8(offset, m), 0xffffffff00000000, offset, m);
}

LUTRA_INLINE void make_tables(struct form f, struct tables *t)
{
    const uint16_t *entries = entries_of(f);
    for (int i = 0; i < n_entries(f) / 64; i++) {
        t->low[i] = bytes_of_64(f, entries + 64 * i, false);
        t->high[i] = bytes_of_64(f, entries + 64 * i, true);
    }
    __m512i place = bytes_of_rows(0x03020100), sign = _mm512_slli_epi16(place, 4);
    __m512i even = _mm512_srli_epi16(place, has_eights(f) ? 4 : 2);
    even = _mm512_ternarylogic_epi32(sign, even, _mm512_set1_epi8(1 << 5), SELECT);
    t->code[1] = code_table(f);
    t->code[0] = _mm512_permutexvar_epi8(even, t->code[1]);
}

/* ---- indices and signs ---- */

LUTRA_INLINE __m512i word(const uint8_t *tile, size_t i)
{
    return _mm512_loadu_si512(tile + STEP_BYTES * i);
}

/* Byte k of each row's word to all of its bytes. */
LUTRA_INLINE __m512i spread_byte(__m512i words, size_t k)
{
    const __m128i first = _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    __m512i from = _mm512_add_epi8(_mm512_broadcast_i32x4(first), _mm512_set1_epi8((char)k));
    return _mm512_shuffle_epi8(words, from);
}

/* Of each row's words a and b four bytes: those of b count from 64 on; the first in the lowest byte of `four`. */
LUTRA_INLINE __m512i pick_bytes(__m512i a, __m512i b, int four)
{
    return _mm512_permutex2var_epi8(a, bytes_of_rows(four), b);
}

/* IQ2_XS: [ 7 signs ][ index 9 ], two in a word: the upper bytes of a group's four. */
LUTRA_INLINE __m512i upper_bytes(const uint8_t *tile, size_t g)
{
    return pick_bytes(word(tile, 2 * g), word(tile, 2 * g + 1), 0x43410301);
}

/* Of group g, 32 inputs, all 4; of formats with 8 indices half h of them. */
LUTRA_INLINE struct indices load_indices(struct form f, const uint8_t *tile, size_t g, int h)
{
    const size_t high = (size_t)sections_of(f).high + g / 4;
    struct indices i = {0};
    __m512i bits;
    switch (f.book) {
    case BOOK_IQ2_XXS: i.low = word(tile, 2 * g); break;
    case BOOK_IQ2_XS:
        i.low = pick_bytes(word(tile, 2 * g), word(tile, 2 * g + 1), 0x42400200);
        i.bit8 = _mm512_test_epi8_mask(upper_bytes(tile, g), _mm512_set1_epi8(1));
        break;
    case BOOK_IQ2_S:
        i.low = word(tile, g);
        bits = spread_byte(word(tile, high), g % 4);
        i.bit8 = _mm512_test_epi8_mask(bits, _mm512_set1_epi32(0x40100401));
        i.bit9 = _mm512_test_epi8_mask(bits, _mm512_set1_epi32((int)0x80200802));
        break;
    case BOOK_IQ3_XXS: i.low = word(tile, 2 * g + (size_t)h); break;
    case BOOK_IQ3_S:
        i.low = word(tile, 2 * g + (size_t)h);
        bits = spread_byte(word(tile, high), g % 4);
        i.bit8 = _mm512_test_epi8_mask(bits, _mm512_set1_epi32(h ? (int)0x80402010 : 0x08040201));
    }
    return i;
}

/* 7 signs from bits 0, 7, 14 and 21 of each word on, and the eighth, which makes them even. */
LUTRA_INLINE __m512i even_signs(__m512i words)
{
    __m512i seven = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(0x352e2720150e0700), words);
    return _mm512_gf2p8affine_epi64_epi8(seven, _mm512_set1_epi64(0x010204081020407f), 0);
}

/* The signs of group g, a byte for 8. */
LUTRA_INLINE __m512i load_signs(struct form f, const uint8_t *tile, size_t g)
{
    const size_t signs = (size_t)sections_of(f).signs + g;
    switch (f.book) {
    case BOOK_IQ2_XXS: return even_signs(word(tile, 2 * g + 1));
    case BOOK_IQ2_XS:
        return _mm512_gf2p8affine_epi64_epi8(upper_bytes(tile, g), _mm512_set1_epi64(0x02040810204080fe), 0);
    case BOOK_IQ3_XXS: return even_signs(word(tile, signs));
    default: return word(tile, signs);
    }
}

/* ---- codes ---- */

/* The bytes at 64 indices. */
LUTRA_INLINE __m512i look_up_256(const __m512i *table, __m512i i)
{
    __m512i a = _mm512_permutex2var_epi8(table[0], i, table[1]), b = _mm512_permutex2var_epi8(table[2], i, table[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(i), a, b);
}

LUTRA_INLINE __m512i look_up_512(const __m512i *table, struct indices i)
{
    return _mm512_mask_blend_epi8(i.bit8, look_up_256(table, i.low), look_up_256(table + 4, i.low));
}

LUTRA_INLINE __m512i look_up(const __m512i *table, struct indices i, const int n)
{
    if (n == 256) return look_up_256(table, i.low);
    if (n == 512) return look_up_512(table, i);
    return _mm512_mask_blend_epi8(i.bit9, look_up_512(table, i), look_up_512(table + 8, i));
}

/* Bytes of each row's word that begin at bits first, first + each, first + half, first + half + each. */
LUTRA_INLINE __m512i shift_bytes(__m512i words, const int first, const int each, const int half)
{
    uint64_t from = 0;
    UNROLL
    for (int i = 0; i < 8; i++)
        from |= (uint64_t)((first + each * (i % 2) + half * (i / 2 % 2) + 32 * (i / 4)) & 63) << 8 * i;
    return _mm512_multishift_epi64_epi8(_mm512_set1_epi64((long long)from), words);
}

/* Entries of group g, in words of a row with two each. */
LUTRA_INLINE void read_entries(struct form f, const struct tables *t, const uint8_t *tile, size_t g, __m512i entries[4])
{
    const int n = n_entries(f), halves = has_eights(f) ? 1 : 2;
    UNROLL
    for (int h = 0; h < halves; h++) {
        struct indices i = load_indices(f, tile, g, h);
        __m512i low = look_up(t->low, i, n), high = look_up(t->high, i, n);
        entries[2 * h] = pick_bytes(low, high, 0x41014000);
        entries[2 * h + 1] = pick_bytes(low, high, 0x43034202);
    }
}

/* Codes of step v of a group from its entries and its signs. */
LUTRA_INLINE __m512i codes_of(struct form f, const struct tables *t, const __m512i entries[4], __m512i signs, int v)
{
    __m512i fields = has_eights(f) ? shift_bytes(entries[v / 4], v / 2 % 2 * 16, 2, 8)
                                   : shift_bytes(entries[v / 2], v % 2 ? 16 : -2, 3, 6);
    __m512i sign = shift_bytes(signs, v / 2 * 8 - 1, 1, 2);
    __m512i i = _mm512_ternarylogic_epi32(sign, fields, _mm512_set1_epi8(v % 2 ? 1 << 5 : 1 << 1), SELECT);
    return _mm512_permutexvar_epi8(i, t->code[v % 2]);
}

/* ---- scales ---- */

/* 2 s + 1 with s the 4 bits of each word from bit `from` on. */
LUTRA_INLINE __m512i odd_scale(__m512i words, const int from)
{
    enum { AND_OR = 0xea /* a & b | c */ };
    __m512i twice = _mm512_rorv_epi32(words, _mm512_set1_epi32(from - 1)); /* modulo 32 */
    return _mm512_ternarylogic_epi32(twice, _mm512_set1_epi32(0x1e), _mm512_set1_epi32(1), AND_OR);
}

/* Of sum i of a tile. */
LUTRA_INLINE __m512i load_scale(struct form f, const uint8_t *tile, const int i)
{
    const int at = sections_of(f).scales;
    switch (f.book) {
    case BOOK_IQ2_XXS: return odd_scale(word(tile, (size_t)(2 * i + 1)), 28);
    case BOOK_IQ3_XXS: return odd_scale(word(tile, (size_t)(sections_of(f).signs + i)), 28);
    case BOOK_IQ3_S: return odd_scale(word(tile, (size_t)at), 4 * i);
    default: return odd_scale(word(tile, (size_t)(at + i / 8)), i % 8 * 4);
    }
}

LUTRA_INLINE __m512 load_d(struct form f, const uint8_t *tile)
{
    return _mm512_mul_ps(load_f16(tile + sections_of(f).d * STEP_BYTES), _mm512_set1_ps(unit_of(f)));
}

#endif
