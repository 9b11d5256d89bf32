/* SPDX-License-Identifier: MIT
 *
 * Reading a tile of a format with a codebook on 256 bits, 8 rows at a time: entries are loaded one by one, from a table
 * in L1 that has magnitudes instead of fields.
 */
#ifndef LUTRA_CPU_X86_GEMM_BOOK_FORM_YMM_IMPL_H
#define LUTRA_CPU_X86_GEMM_BOOK_FORM_YMM_IMPL_H

#include <string.h>

#include "cpu/x86/gemm_book_form_impl.h"

/* The codebook as magnitudes, first input in the lowest byte. */
struct tables {
    LUTRA_ALIGNED(32) uint64_t eight[1024];
    LUTRA_ALIGNED(32) uint32_t four[512];
};

LUTRA_INLINE __m256i magnitude_table(struct form f)
{
    static const int8_t MAGNITUDES[3][8] = {QUANT_IQ2_MAGNITUDES, QUANT_IQ3_XXS_MAGNITUDES, QUANT_IQ3_S_MAGNITUDES};
    const int8_t *m = MAGNITUDES[has_eights(f) ? 0 : f.book == BOOK_IQ3_XXS ? 1 : 2];
    return _mm256_broadcastsi128_si256(_mm_loadl_epi64((const __m128i *)m));
}

LUTRA_INLINE int largest_magnitude(struct form f)
{
    return has_eights(f) ? 43 : f.book == BOOK_IQ3_XXS ? 62 : 15;
}

/* Word i of rows 8 half .. 8 half + 7, from its byte `byte` on. */
LUTRA_INLINE __m256i word_from(const uint8_t *tile, int i, int byte, int half)
{
    return _mm256_loadu_si256((const __m256i *)(tile + STEP_BYTES * i + byte + 32 * half));
}

LUTRA_INLINE __m256i word(const uint8_t *tile, int i, int half)
{
    return word_from(tile, i, 0, half);
}

/* Byte k of each row's word to both its halves. */
LUTRA_INLINE __m256i byte_to_halves(__m256i words, const int k)
{
    const char a = (char)k, b = (char)(k + 4), c = (char)(k + 8), d = (char)(k + 12);
    return _mm256_shuffle_epi8(
        words, _mm256_broadcastsi128_si256(_mm_setr_epi8(a, -1, a, -1, b, -1, b, -1, c, -1, c, -1, d, -1, d, -1)));
}

/* ---- signs ---- */

/* 7 signs in each byte: the eighth makes them even. */
LUTRA_INLINE __m256i even_signs(__m256i seven)
{
    const char o = (char)0x80;
    const __m128i odd = _mm_setr_epi8(0, o, o, 0, o, 0, 0, o, o, 0, 0, o, 0, o, o, 0);
    __m256i nibble = _mm256_and_si256(_mm256_xor_si256(seven, _mm256_srli_epi16(seven, 4)), _mm256_set1_epi8(15));
    return _mm256_or_si256(seven, _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(odd), nibble));
}

/* Four fields of 7 bits to bytes. */
LUTRA_INLINE __m256i sevens(__m256i w)
{
    __m256i a = _mm256_and_si256(w, _mm256_set1_epi32(0x3fff));
    __m256i b = _mm256_and_si256(_mm256_slli_epi32(w, 2), _mm256_set1_epi32(0x3fff0000));
    __m256i fourteens = _mm256_or_si256(a, b);
    a = _mm256_and_si256(fourteens, _mm256_set1_epi32(0x007f007f));
    b = _mm256_and_si256(_mm256_slli_epi32(fourteens, 1), _mm256_set1_epi32(0x7f007f00));
    return _mm256_or_si256(a, b);
}

/* The signs of group g (32 inputs), a bit each: the first in the lowest. */
LUTRA_INLINE __m256i load_signs(struct form f, const uint8_t *tile, int g, int half)
{
    const struct sections at = sections_of(f);
    switch (f.book) {
    case BOOK_IQ2_XXS: return even_signs(sevens(word(tile, 2 * g + 1, half)));
    case BOOK_IQ2_XS: {
        __m256i a = _mm256_srli_epi16(word(tile, 2 * g, half), 9),
                b = _mm256_srli_epi16(word(tile, 2 * g + 1, half), 9);
        const __m128i pairs = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
        return even_signs(_mm256_shuffle_epi8(_mm256_packus_epi16(a, b), _mm256_broadcastsi128_si256(pairs)));
    }
    case BOOK_IQ3_XXS: return even_signs(sevens(word(tile, at.signs + g, half)));
    default: return word(tile, at.signs + g, half);
    }
}

/* Signs of a group such that one shift brings those of a step to the bytes' highest bits, and never a byte to 0. */
struct signs {
    __m256i even, odd;
};

/* Bits i of the mask change places with bits i + distance. */
LUTRA_INLINE __m256i swap_bits(__m256i x, const int mask, const int distance)
{
    __m256i t = _mm256_xor_si256(x, _mm256_srli_epi32(x, distance));
    t = _mm256_and_si256(t, _mm256_set1_epi32(mask));
    return _mm256_xor_si256(_mm256_xor_si256(x, t), _mm256_slli_epi32(t, distance));
}

/* Bit 4 v + b of a word goes to byte b, there to bit place_of(v). */
LUTRA_INLINE int place_of(int v)
{
    return v % 2 * 4 + v / 4 * 2 + v / 2 % 2;
}

LUTRA_INLINE struct signs spread_signs(__m256i bits)
{
    const __m256i ones = _mm256_set1_epi8(0x55);
    __m256i s = swap_bits(swap_bits(bits, 0xcccc, 14), 0x00aa00aa, 7);
    return (struct signs){_mm256_or_si256(_mm256_add_epi32(s, s), ones), _mm256_or_si256(s, ones)};
}

/* Of step v: bytes below 0 where negative, above 0 elsewhere. */
LUTRA_INLINE __m256i signs_of_step(struct signs s, const int v)
{
    return _mm256_slli_epi32(place_of(v) % 2 ? s.odd : s.even, (7 - place_of(v)) / 2 * 2);
}

/* ---- scales ---- */

/* 2 s + 1 of sum i of a tile, in both halves of a word. */
LUTRA_INLINE __m256i load_scale(struct form f, const uint8_t *tile, int i, int half)
{
    const struct sections at = sections_of(f);
    __m256i s;
    if (f.book == BOOK_IQ2_XXS || f.book == BOOK_IQ3_XXS) {
        s = byte_to_halves(word(tile, f.book == BOOK_IQ2_XXS ? 2 * i + 1 : at.signs + i, half), 3);
        s = _mm256_srli_epi16(s, 3);
    } else {
        s = byte_to_halves(word_from(tile, at.scales + i / 8, i / 2 % 4, half), 0);
        s = i % 2 ? _mm256_srli_epi16(s, 3) : _mm256_and_si256(_mm256_add_epi16(s, s), _mm256_set1_epi16(30));
    }
    return _mm256_or_si256(s, _mm256_set1_epi16(1));
}

LUTRA_INLINE __m256 load_d(struct form f, const uint8_t *tile, int half)
{
    const __m128i *d = (const __m128i *)(tile + sections_of(f).d * STEP_BYTES + 16 * half);
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm_loadu_si128(d)), _mm256_set1_ps(unit_of(f)));
}

/* ---- tables ---- */

/* Four fields of an entry, of 2 or 3 bits, to bytes. */
LUTRA_INLINE __m256i spread(__m256i e, const int bits)
{
    const int mask = (1 << bits) - 1, up = 8 - bits;
    __m256i a = _mm256_and_si256(e, _mm256_set1_epi32(mask));
    __m256i b = _mm256_and_si256(_mm256_slli_epi32(e, up), _mm256_set1_epi32(mask << 8));
    __m256i c = _mm256_and_si256(_mm256_slli_epi32(e, 2 * up), _mm256_set1_epi32(mask << 16));
    __m256i d = _mm256_and_si256(_mm256_slli_epi32(e, 3 * up), _mm256_set1_epi32(mask << 24));
    return _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
}

LUTRA_INLINE void make_tables(struct form f, struct tables *t)
{
    const __m256i magnitudes = magnitude_table(f);
    for (int i = 0; i < n_entries(f); i += 8) {
        __m256i e = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(entries_of(f) + i)));
        __m256i *to = (__m256i *)(t->eight + i);
        if (!has_eights(f)) {
            _mm256_store_si256((__m256i *)(t->four + i), _mm256_shuffle_epi8(magnitudes, spread(e, 3)));
            continue;
        }
        __m256i low = _mm256_shuffle_epi8(magnitudes, spread(e, 2));
        __m256i high = _mm256_shuffle_epi8(magnitudes, spread(_mm256_srli_epi32(e, 8), 2));
        __m256i a = _mm256_unpacklo_epi32(low, high), b = _mm256_unpackhi_epi32(low, high);
        _mm256_store_si256(to, _mm256_permute2x128_si256(a, b, 0x20));
        _mm256_store_si256(to + 1, _mm256_permute2x128_si256(a, b, 0x31));
    }
}

/* ---- indices ---- */

/* The indices of a group of 8 rows, where the tile does not have each in a byte of its own.  They are made long before
 * they are used: what is stored can be loaded only after a while. */
struct indices {
    LUTRA_ALIGNED(32) uint16_t two[4][16];
};

LUTRA_INLINE bool has_bytes(struct form f)
{
    return f.book == BOOK_IQ2_XXS || f.book == BOOK_IQ3_XXS;
}

/* Four bytes of each row with their upper bits: each `bits` of a byte of `high` to bit 8, from bit `first` on.  The
 * first and third to two[0], the second and fourth to two[1]. */
LUTRA_INLINE void join_indices(__m256i low, __m256i high, const int first, const int bits, uint16_t two[2][16])
{
    const __m256i byte = _mm256_set1_epi16(255), mask = _mm256_set1_epi16((short)((1 << bits) - 1) << 8);
    UNROLL
    for (int odd = 0; odd < 2; odd++) {
        const int up = 8 - first - odd * bits;
        __m256i h = _mm256_mullo_epi16(high, _mm256_set1_epi32(1 << (up - 2 * bits) << 16 | 1 << up));
        __m256i l = odd ? _mm256_srli_epi16(low, 8) : _mm256_and_si256(low, byte);
        _mm256_store_si256((__m256i *)two[odd], _mm256_or_si256(l, _mm256_and_si256(h, mask)));
    }
}

LUTRA_INLINE void load_group_indices(struct form f, const uint8_t *tile, int g, int half, struct indices *to)
{
    if (f.book == BOOK_IQ2_XS) {
        const __m256i mask = _mm256_set1_epi16(511);
        _mm256_store_si256((__m256i *)to->two[0], _mm256_and_si256(word(tile, 2 * g, half), mask));
        _mm256_store_si256((__m256i *)to->two[1], _mm256_and_si256(word(tile, 2 * g + 1, half), mask));
    }
    if (has_bytes(f) || f.book == BOOK_IQ2_XS) return;
    __m256i high = byte_to_halves(word_from(tile, sections_of(f).high + g / 4, g % 4, half), 0);
    if (f.book == BOOK_IQ2_S) {
        join_indices(word(tile, g, half), high, 0, 2, to->two);
    } else {
        join_indices(word(tile, 2 * g, half), high, 0, 1, to->two);
        join_indices(word(tile, 2 * g + 1, half), high, 4, 1, to->two + 2);
    }
}

LUTRA_INLINE void load_indices(struct form f, const uint8_t *tile, int half, struct indices to[8])
{
    if (has_bytes(f)) return;
    for (int g = 0; g < 8; g++) load_group_indices(f, tile, g, half, &to[g]);
}

/* Index i of group g, of 8 inputs, of row r. */
LUTRA_INLINE size_t index_of(
    struct form f, const uint8_t *tile, const struct indices *in, int g, const int i, int half, const int r)
{
    if (has_bytes(f)) return tile[STEP_BYTES * 2 * g + 32 * half + 4 * r + i];
    return f.book == BOOK_IQ2_XS ? in->two[i / 2][2 * r + i % 2] : in->two[i % 2][2 * r + i / 2];
}

LUTRA_INLINE uint32_t load_u32(const void *p)
{
    uint32_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

/* The four indices of row r in a word of group g, of 4 inputs each: shifts, since loads are what limits these types. */
LUTRA_INLINE void four_indices(
    struct form f, const uint8_t *tile, const struct indices *in, int g, const int word, int half, int r, size_t i[4])
{
    if (has_bytes(f)) {
        uint32_t w = load_u32(tile + STEP_BYTES * (2 * g + word) + 32 * half + 4 * r);
        i[0] = (uint8_t)w, i[1] = (uint8_t)(w >> 8), i[2] = (uint8_t)(w >> 16), i[3] = w >> 24;
    } else {
        uint32_t even = load_u32(&in->two[2 * word][2 * r]), odd = load_u32(&in->two[2 * word + 1][2 * r]);
        i[0] = (uint16_t)even, i[1] = (uint16_t)odd, i[2] = even >> 16, i[3] = odd >> 16;
    }
}

/* ---- magnitudes ---- */

/* Entries a and b side by side. */
LUTRA_INLINE __m128i two_entries(const uint64_t *entry, size_t a, size_t b)
{
    __m128d low = _mm_castsi128_pd(_mm_loadl_epi64((const __m128i *)(entry + a)));
    return _mm_castpd_si128(_mm_loadh_pd(low, (const double *)(const void *)(entry + b)));
}

/* Magnitudes of two steps of group g, from 2 i on. */
#define AT(i, r) index_of(f, tile, in, g, i, half, r)
LUTRA_INLINE void look_up_eights(struct form f, const struct tables *t, const uint8_t *tile, const struct indices *in,
    int g, const int i, int half, __m256i step[2])
{
    const uint64_t *entry = t->eight;
    __m256i a = _mm256_set_m128i(two_entries(entry, AT(i, 4), AT(i, 5)), two_entries(entry, AT(i, 0), AT(i, 1)));
    __m256i b = _mm256_set_m128i(two_entries(entry, AT(i, 6), AT(i, 7)), two_entries(entry, AT(i, 2), AT(i, 3)));
    __m256 fa = _mm256_castsi256_ps(a), fb = _mm256_castsi256_ps(b);
    step[0] = _mm256_castps_si256(_mm256_shuffle_ps(fa, fb, 0x88));
    step[1] = _mm256_castps_si256(_mm256_shuffle_ps(fa, fb, 0xdd));
}

#undef AT

/* Magnitudes of 4 steps of group g, from 4 word on.  Which row a blend takes must be a number in the source. */
LUTRA_INLINE void look_up_fours(struct form f, const struct tables *t, const uint8_t *tile, const struct indices *in,
    int g, const int word, int half, __m256i step[4])
{
    size_t i[4];
    four_indices(f, tile, in, g, word, half, 0, i);
    UNROLL
    for (int s = 0; s < 4; s++) step[s] = _mm256_set1_epi32((int)t->four[i[s]]);
#define PUT_ROW(r)                                                                                                     \
    four_indices(f, tile, in, g, word, half, r, i);                                                                    \
    UNROLL                                                                                                             \
    for (int s = 0; s < 4; s++) step[s] = _mm256_blend_epi32(step[s], _mm256_set1_epi32((int)t->four[i[s]]), 1 << (r));
    PUT_ROW(1)
    PUT_ROW(2)
    PUT_ROW(3)
    PUT_ROW(4)
    PUT_ROW(5)
    PUT_ROW(6)
    PUT_ROW(7)
#undef PUT_ROW
}

/* Magnitudes of 4 steps of group g, from v on. */
LUTRA_INLINE void four_steps(struct form f, const struct tables *t, const uint8_t *tile, const struct indices *in,
    int g, const int v, int half, __m256i step[4])
{
    if (has_eights(f)) {
        look_up_eights(f, t, tile, in, g, v / 2, half, step);
        look_up_eights(f, t, tile, in, g, v / 2 + 1, half, step + 2);
    } else {
        look_up_fours(f, t, tile, in, g, v / 4, half, step);
    }
}

#endif
