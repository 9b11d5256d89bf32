/* SPDX-License-Identifier: MIT
 *
 * Reading a tile of a format with a codebook on 256 bits: 8 rows at a time.
 */
#ifndef LUTRA_CPU_X86_GEMM_BOOK_FORM_YMM_IMPL_H
#define LUTRA_CPU_X86_GEMM_BOOK_FORM_YMM_IMPL_H

#include "cpu/x86/gemm_book_form_impl.h"

enum { SCALES = 16 };

/* Codes of the magnitudes, and from 8 on of the negative ones. */
LUTRA_INLINE __m256i code_table(struct form f)
{
    static const int8_t MAGNITUDES[3][8] = {QUANT_IQ2_MAGNITUDES, QUANT_IQ3_XXS_MAGNITUDES, QUANT_IQ3_S_MAGNITUDES};
    const int8_t *m = MAGNITUDES[has_eights(f) ? 0 : f.book == BOOK_IQ3_XXS ? 1 : 2];
    __m128i v = _mm_loadl_epi64((const __m128i *)m), offset = _mm_set1_epi8(OFFSET);
    return _mm256_broadcastsi128_si256(_mm_unpacklo_epi64(_mm_add_epi8(offset, v), _mm_sub_epi8(offset, v)));
}

/* Word i of rows 8 half .. 8 half + 7. */
LUTRA_INLINE __m256i word(const uint8_t *tile, int i, int half)
{
    return _mm256_loadu_si256((const __m256i *)(tile + STEP_BYTES * i + 32 * half));
}

/* `bits` bits of each word from bit `from` on. */
LUTRA_INLINE __m256i field(__m256i words, int from, int bits)
{
    return _mm256_and_si256(_mm256_srli_epi32(words, from), _mm256_set1_epi32((1 << bits) - 1));
}

/* 7 signs in each byte: the eighth makes them even. */
LUTRA_INLINE __m256i even_signs(__m256i seven)
{
    __m256i odd = _mm256_xor_si256(seven, _mm256_srli_epi32(seven, 4));
    odd = _mm256_xor_si256(odd, _mm256_srli_epi32(odd, 2));
    odd = _mm256_xor_si256(odd, _mm256_srli_epi32(odd, 1));
    return _mm256_or_si256(seven, _mm256_slli_epi32(_mm256_and_si256(odd, _mm256_set1_epi8(1)), 7));
}

/* Four fields of 7 bits to bytes: their lowest bits stand at these places of the word. */
LUTRA_INLINE __m256i sevens(__m256i w)
{
    __m256i a = _mm256_and_si256(w, _mm256_set1_epi32(0x7f));
    __m256i b = _mm256_and_si256(_mm256_slli_epi32(w, 1), _mm256_set1_epi32(0x7f00));
    __m256i c = _mm256_and_si256(_mm256_slli_epi32(w, 2), _mm256_set1_epi32(0x7f0000));
    __m256i d = _mm256_and_si256(_mm256_slli_epi32(w, 3), _mm256_set1_epi32(0x7f000000));
    return _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
}

/* The signs of group g (32 inputs), a byte for 8. */
LUTRA_INLINE __m256i load_signs(struct form f, const uint8_t *tile, int g, int half)
{
    const struct sections at = sections_of(f);
    switch (f.book) {
    case BOOK_IQ2_XXS: return even_signs(sevens(word(tile, 2 * g + 1, half)));
    case BOOK_IQ2_XS: {
        __m256i a = _mm256_srli_epi16(word(tile, 2 * g, half), 9),
                b = _mm256_srli_epi16(word(tile, 2 * g + 1, half), 9);
        const __m256i low =
            _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, -1, -1, 4, 6, -1, -1, 8, 10, -1, -1, 12, 14, -1, -1));
        const __m256i high =
            _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, -1, 0, 2, -1, -1, 4, 6, -1, -1, 8, 10, -1, -1, 12, 14));
        return even_signs(_mm256_or_si256(_mm256_shuffle_epi8(a, low), _mm256_shuffle_epi8(b, high)));
    }
    case BOOK_IQ3_XXS: return even_signs(sevens(word(tile, at.signs + g, half)));
    default: return word(tile, at.signs + g, half);
    }
}

/* Index i of group g: of 8 inputs, or of 4. */
LUTRA_INLINE __m256i load_index(struct form f, const uint8_t *tile, int g, int i, int half)
{
    const struct sections at = sections_of(f);
    __m256i high;
    switch (f.book) {
    case BOOK_IQ2_XXS: return field(word(tile, 2 * g, half), 8 * i, 8);
    case BOOK_IQ2_XS: return field(word(tile, 2 * g + i / 2, half), i % 2 * 16, 9);
    case BOOK_IQ2_S:
        high = field(word(tile, at.high + g / 4, half), 8 * (g % 4) + 2 * i, 2);
        return _mm256_or_si256(field(word(tile, g, half), 8 * i, 8), _mm256_slli_epi32(high, 8));
    case BOOK_IQ3_XXS: return field(word(tile, 2 * g + i / 4, half), i % 4 * 8, 8);
    default:
        high = field(word(tile, at.high + g / 4, half), 8 * (g % 4) + i, 1);
        return _mm256_or_si256(field(word(tile, 2 * g + i / 4, half), i % 4 * 8, 8), _mm256_slli_epi32(high, 8));
    }
}

/* 2 s + 1 of inputs 16 i .. 16 i + 15. */
LUTRA_INLINE __m256i load_scale(struct form f, const uint8_t *tile, int i, int half)
{
    const struct sections at = sections_of(f);
    __m256i s;
    switch (f.book) {
    case BOOK_IQ2_XXS: s = field(word(tile, i / 2 * 2 + 1, half), 28, 4); break;
    case BOOK_IQ3_XXS: s = field(word(tile, at.signs + i / 2, half), 28, 4); break;
    case BOOK_IQ3_S: s = field(word(tile, at.scales, half), i / 2 * 4, 4); break;
    default: s = field(word(tile, at.scales + i / 8, half), i % 8 * 4, 4);
    }
    return _mm256_add_epi32(_mm256_slli_epi32(s, 1), _mm256_set1_epi32(1));
}

LUTRA_INLINE __m256 load_d(struct form f, const uint8_t *tile, int half)
{
    const __m128i *d = (const __m128i *)(tile + sections_of(f).d * STEP_BYTES + 16 * half);
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm_loadu_si128(d)), _mm256_set1_ps(unit_of(f)));
}

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

/* Codes of step v of a group from the fields of its entry and the group's signs. */
LUTRA_INLINE __m256i codes_of(__m256i fields, __m256i signs, int v, __m256i table)
{
    const char l = (char)(v / 2);
    const __m128i own = _mm_setr_epi8(l, l, l, l, (char)(l + 4), (char)(l + 4), (char)(l + 4), (char)(l + 4),
        (char)(l + 8), (char)(l + 8), (char)(l + 8), (char)(l + 8), (char)(l + 12), (char)(l + 12), (char)(l + 12),
        (char)(l + 12));
    const __m256i bit = _mm256_set1_epi32(v % 2 ? (int)0x80402010 : 0x08040201);
    __m256i s = _mm256_and_si256(_mm256_shuffle_epi8(signs, _mm256_broadcastsi128_si256(own)), bit);
    __m256i negative = _mm256_and_si256(_mm256_cmpeq_epi8(s, bit), _mm256_set1_epi8(8));
    return _mm256_shuffle_epi8(table, _mm256_or_si256(fields, negative));
}

/* The entries of all indices of 8 rows of a tile, one by one: with gathers these kernels took 1.4 times as long. */
LUTRA_INLINE void look_up(struct form f, const uint8_t *tile, int half, uint32_t entry[64][8])
{
    const uint16_t *entries = entries_of(f);
    const int each = has_eights(f) ? 4 : 8;
    UNROLL
    for (int g = 0; g < 8; g++) {
        UNROLL
        for (int i = 0; i < each; i++)
            _mm256_store_si256((__m256i *)entry[each * g + i], load_index(f, tile, g, i, half));
    }
    for (int i = 0; i < 8 * each; i++) {
        UNROLL
        for (int r = 0; r < 8; r++) entry[i][r] = entries[entry[i][r]];
    }
}

/* Codes of 8 rows of a tile: step s to code + s * STEP_BYTES + 32 half. */
LUTRA_INLINE void read_codes(struct form f, const uint8_t *tile, int half, uint8_t *code)
{
    LUTRA_ALIGNED(32) uint32_t entry[64][8];
    const __m256i table = code_table(f);
    uint8_t *to = code + 32 * half;
    look_up(f, tile, half, entry);
    UNROLL
    for (int g = 0; g < 8; g++) {
        __m256i signs = load_signs(f, tile, g, half), e = signs;
        UNROLL
        for (int v = 0; v < 8; v++, to += STEP_BYTES) {
            if (has_eights(f) && v % 2)
                e = _mm256_srli_epi32(e, 8);
            else
                e = _mm256_load_si256((const __m256i *)entry[has_eights(f) ? 4 * g + v / 2 : 8 * g + v]);
            _mm256_store_si256((__m256i *)to, codes_of(spread(e, has_eights(f) ? 2 : 3), signs, v, table));
        }
    }
}
#endif
