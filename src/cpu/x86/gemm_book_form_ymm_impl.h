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
    LUTRA_ALIGNED(32) uint8_t entry[1024 * 8];
};

LUTRA_INLINE __m256i magnitude_table(struct form f)
{
    return _mm256_broadcastsi128_si256(_mm_loadl_epi64((const __m128i *)magnitudes_of(f)));
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

/* ---- signs ---- */

/* 7 signs in each byte, whatever its highest bit: an eighth there makes them even. */
LUTRA_INLINE __m256i even_signs(__m256i seven)
{
    const char o = (char)0x80;
    const __m128i odd = _mm_setr_epi8(0, o, o, 0, o, 0, 0, o, o, 0, 0, o, 0, o, o, 0);
    __m256i nibble = _mm256_and_si256(_mm256_xor_si256(seven, _mm256_srli_epi16(seven, 4)), _mm256_set1_epi8(15));
    return _mm256_xor_si256(seven, _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(odd), nibble));
}

/* Four fields of 7 bits to the lower bits of bytes; the highest has whatever came after. */
LUTRA_INLINE __m256i sevens(__m256i w)
{
    __m256i fourteens = _mm256_blend_epi16(w, _mm256_slli_epi32(w, 2), 0xaa);
    __m256i second = _mm256_add_epi16(fourteens, fourteens);
    return _mm256_blendv_epi8(fourteens, second, _mm256_set1_epi32((int)0xff00ff00));
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

LUTRA_INLINE bool has_scales_apart(struct form f)
{
    return f.book != BOOK_IQ2_XXS && f.book != BOOK_IQ3_XXS;
}

/* 2 s + 1 with s the lower 4 bits of each half of a word (high = 0) or the next (4), which has 8 bits. */
LUTRA_INLINE __m256i odd_scale(__m256i halves, int high)
{
    __m256i twice = _mm256_srl_epi16(_mm256_add_epi16(halves, halves), _mm_cvtsi32_si128(high));
    return _mm256_or_si256(_mm256_and_si256(twice, _mm256_set1_epi16(30)), _mm256_set1_epi16(1));
}

/* 2 s + 1 of sum i of a tile, in both halves of a word; `bytes`: the word whose lowest byte has it, where scales are
 * apart. */
LUTRA_INLINE __m256i scale_of(struct form f, const uint8_t *tile, const uint8_t *bytes, int i, int half)
{
    if (has_scales_apart(f)) {
        __m256i w = _mm256_loadu_si256((const __m256i *)(bytes + 32 * half));
        return odd_scale(byte_to_halves(w, 0), i % 2 * 4);
    }
    const int at = f.book == BOOK_IQ2_XXS ? 2 * i + 1 : sections_of(f).signs + i;
    __m256i top = byte_to_halves(word(tile, at, half), 3);
    return _mm256_or_si256(_mm256_srli_epi16(top, 3), _mm256_set1_epi16(1));
}

/* Where scale_of finds sum i. */
LUTRA_INLINE const uint8_t *scale_bytes(struct form f, const uint8_t *tile, int i)
{
    const unsigned byte = (unsigned)i / 2;
    return tile + STEP_BYTES * sections_of(f).scales + byte + byte / 4 * (STEP_BYTES - 4);
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
        __m256i *to = (__m256i *)(void *)(t->entry + (has_eights(f) ? 8 : 4) * i);
        if (!has_eights(f)) {
            _mm256_store_si256(to, _mm256_shuffle_epi8(magnitudes, spread(e, 3)));
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

/* The indices of a group of 8 rows, two in a word, where the tile does not have each in a byte of its own.  They are
 * made long before they are used: what is stored can be loaded only after a while. */
struct indices {
    LUTRA_ALIGNED(32) uint16_t two[4][16];
};

LUTRA_INLINE bool has_bytes(struct form f)
{
    return f.book == BOOK_IQ2_XXS || f.book == BOOK_IQ3_XXS;
}

/* Bytes 2 p and 2 p + 1 of each row's word with their upper bits: each `bits` of a byte of `high`, from bit `first`
 * on. */
LUTRA_INLINE __m256i join_indices(__m256i low, __m256i high, const int p, const int first, const int bits)
{
    const char a = (char)(2 * p), b = (char)(a + 1);
    const __m128i place =
        _mm_setr_epi8(a, -1, b, -1, a + 4, -1, b + 4, -1, a + 8, -1, b + 8, -1, a + 12, -1, b + 12, -1);
    const int up = 8 - first;
    __m256i h = _mm256_mullo_epi16(high, _mm256_set1_epi32(1 << (up - bits) << 16 | 1 << up));
    h = _mm256_and_si256(h, _mm256_set1_epi16((short)(((1 << bits) - 1) << 8)));
    return _mm256_or_si256(h, _mm256_shuffle_epi8(low, _mm256_broadcastsi128_si256(place)));
}

LUTRA_INLINE void load_group_indices(struct form f, const uint8_t *tile, int g, int half, struct indices *to)
{
    const int words = has_eights(f) ? 1 : 2;
    __m256i *two = (__m256i *)to->two[0];
    if (f.book == BOOK_IQ2_XS) {
        for (int p = 0; p < 2; p++)
            _mm256_store_si256(two + p, _mm256_and_si256(word(tile, 2 * g + p, half), _mm256_set1_epi16(511)));
        return;
    }
    const __m256i high = byte_to_halves(word_from(tile, sections_of(f).high + g / 4, g % 4, half), 0);
    UNROLL
    for (int p = 0; p < 2 * words; p++) {
        __m256i low = word(tile, words * g + p / 2, half);
        _mm256_store_si256(two + p, join_indices(low, high, p % 2, p * 4 / words, 2 / words));
    }
}

LUTRA_INLINE void load_indices(struct form f, const uint8_t *tile, int half, struct indices to[8])
{
    if (has_bytes(f)) return;
    for (int g = 0; g < 8; g++) load_group_indices(f, tile, g, half, &to[g]);
}

LUTRA_INLINE uint64_t load_u64(const void *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

LUTRA_INLINE uint32_t load_u32(const void *p)
{
    uint32_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

/* Bits from .. from + bits - 1. */
LUTRA_INLINE size_t field(uint64_t words, const unsigned from, const unsigned bits)
{
    return from ? _bextr_u64(words, from, bits) : words & ((1u << bits) - 1);
}

/* Index i of group g of row r, from a load that has others, too: loads are what limits these formats. */
LUTRA_INLINE size_t index_of(
    struct form f, const uint8_t *tile, const struct indices *in, int g, const int i, int half, const int r)
{
    if (has_bytes(f)) {
        const uint8_t *words = tile + STEP_BYTES * (2 * g + i / 4) + 32 * half;
        return field(load_u64(words + r / 2 * 8), (unsigned)(r % 2 * 32 + i % 4 * 8), 8);
    }
    return field(load_u64(in->two[i / 2] + r / 2 * 4), (unsigned)(r % 2 * 32 + i % 2 * 16), 16);
}

/* ---- eight inputs of four rows ---- */

/* Entries a and b of 8 inputs side by side. */
LUTRA_INLINE __m128i two_entries(const struct tables *t, size_t a, size_t b)
{
    __m128d low = _mm_castsi128_pd(_mm_loadl_epi64((const __m128i *)(t->entry + 8 * a)));
    return _mm_castpd_si128(_mm_loadh_pd(low, (const double *)(const void *)(t->entry + 8 * b)));
}

LUTRA_INLINE int load_entry(const struct tables *t, size_t i)
{
    return (int)load_u32(t->entry + 4 * i);
}

/* The same of 4 inputs, four entries. */
LUTRA_INLINE __m128i four_entries(const struct tables *t, size_t a, size_t b, size_t c, size_t d)
{
    __m128i x = _mm_insert_epi32(_mm_cvtsi32_si128(load_entry(t, a)), load_entry(t, b), 1);
    return _mm_insert_epi32(_mm_insert_epi32(x, load_entry(t, c), 2), load_entry(t, d), 3);
}

/* Magnitudes of inputs 8 i .. 8 i + 7 of group g, of rows 0 1 4 5 (p = 0) or 2 3 6 7. */
LUTRA_INLINE __m256i eight_of_rows(struct form f, const struct tables *t, const uint8_t *tile, const struct indices *in,
    int g, const int i, int half, const int p)
{
    __m128i two[2];
    UNROLL
    for (int h = 0; h < 2; h++) {
#define AT(i, k) index_of(f, tile, in, g, i, half, 4 * h + 2 * p + (k))
        two[h] = has_eights(f) ? two_entries(t, AT(i, 0), AT(i, 1))
                               : four_entries(t, AT(2 * i, 0), AT(2 * i + 1, 0), AT(2 * i, 1), AT(2 * i + 1, 1));
#undef AT
    }
    return _mm256_set_m128i(two[1], two[0]);
}

/* The signs of a group such that one product per pair of bytes brings those of 8 inputs to the bytes' highest bits, and
 * never a byte to 0: two words for each row, bytes for 8 inputs each.
 *
 *     [ signs of inputs 7 5 3 1, bits 7 5 3 1; bit 0 is 1 ]    [ of inputs 6 4 2 0, likewise ]      what else: whatever
 */
struct row_signs {
    __m256i rows[2]; /* as eight_of_rows has them */
};

LUTRA_INLINE struct row_signs signs_of_rows(__m256i bits)
{
    const __m256i one = _mm256_set1_epi8(1);
    __m256i even = _mm256_or_si256(_mm256_add_epi8(bits, bits), one), odd = _mm256_or_si256(bits, one);
    return (struct row_signs){{_mm256_unpacklo_epi32(even, odd), _mm256_unpackhi_epi32(even, odd)}};
}

/* Of inputs 8 i .. 8 i + 7: bytes below 0 where negative, above 0 elsewhere. */
LUTRA_INLINE __m256i signs_of_eight(__m256i rows, const int i)
{
    const long long first = 0x0400040004000400 + 0x0101010101010101 * i, second = first + 0x0808080808080808;
    __m256i each = _mm256_shuffle_epi8(rows, _mm256_setr_epi64x(first, second, first, second));
    return _mm256_mullo_epi16(each, _mm256_set1_epi64x(0x0001000400100040));
}

/* Magnitudes of 4 steps of group g, from v on, of 8 rows. */
LUTRA_INLINE void four_steps(struct form f, const struct tables *t, const uint8_t *tile, const struct indices *in,
    int g, const int v, int half, __m256i step[4])
{
    UNROLL
    for (int s = 0; s < 4; s += 2) {
        __m256 a = _mm256_castsi256_ps(eight_of_rows(f, t, tile, in, g, (v + s) / 2, half, 0));
        __m256 b = _mm256_castsi256_ps(eight_of_rows(f, t, tile, in, g, (v + s) / 2, half, 1));
        step[s] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
        step[s + 1] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
    }
}

#endif
