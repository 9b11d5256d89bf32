/* SPDX-License-Identifier: MIT
 *
 * Reading a tile of a format with a codebook on 256 bits, 8 rows at a time: entries are loaded one by one, from a table
 * in L1 that has codes instead of fields.
 */
#ifndef LUTRA_CPU_X86_GEMM_BOOK_FORM_YMM_IMPL_H
#define LUTRA_CPU_X86_GEMM_BOOK_FORM_YMM_IMPL_H

#include "cpu/x86/gemm_book_form_impl.h"

/* The codebook: codes of the magnitudes, first input in the lowest byte. */
struct tables {
    LUTRA_ALIGNED(32) uint64_t eight[1024];
    LUTRA_ALIGNED(32) uint32_t four[512];
};

/* Codes of the magnitudes. */
LUTRA_INLINE __m256i code_table(struct form f)
{
    static const int8_t MAGNITUDES[3][8] = {QUANT_IQ2_MAGNITUDES, QUANT_IQ3_XXS_MAGNITUDES, QUANT_IQ3_S_MAGNITUDES};
    const int8_t *m = MAGNITUDES[has_eights(f) ? 0 : f.book == BOOK_IQ3_XXS ? 1 : 2];
    __m128i v = _mm_add_epi8(_mm_loadl_epi64((const __m128i *)m), _mm_set1_epi8(OFFSET));
    return _mm256_broadcastsi128_si256(v);
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

/* Index i of group g, of 8 inputs or of 4, of each row: where it does not stand alone, by way of memory. */
LUTRA_INLINE void load_index(struct form f, const uint8_t *tile, int g, int i, int half, uint32_t index[8])
{
    const bool xs = f.book == BOOK_IQ2_XS, s2 = f.book == BOOK_IQ2_S;
    const int in_word = xs ? 2 : 4, first = s2 ? g : 2 * g, bits = s2 ? 2 : 1;
    const uint8_t *words = tile + STEP_BYTES * (first + i / in_word) + 32 * half + i % in_word * (4 / in_word);
    if (sections_of(f).high) {
        __m256i low = field(word(tile, first + i / 4, half), i % 4 * 8, 8);
        __m256i high = _mm256_srli_epi32(word(tile, sections_of(f).high + g / 4, half), 8 * (g % 4));
        high = _mm256_slli_epi32(field(high, bits * i, bits), 8);
        _mm256_store_si256((__m256i *)index, _mm256_or_si256(low, high));
        return;
    }
    UNROLL
    for (int r = 0; r < 8; r++) index[r] = xs ? *(const uint16_t *)(const void *)(words + 4 * r) & 511 : words[4 * r];
}

/* 2 s + 1 of sum i of a tile. */
LUTRA_INLINE __m256i load_scale(struct form f, const uint8_t *tile, int i, int half)
{
    const struct sections at = sections_of(f);
    __m256i s;
    switch (f.book) {
    case BOOK_IQ2_XXS: s = field(word(tile, 2 * i + 1, half), 28, 4); break;
    case BOOK_IQ3_XXS: s = field(word(tile, at.signs + i, half), 28, 4); break;
    case BOOK_IQ3_S: s = field(word(tile, at.scales, half), i * 4, 4); break;
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

LUTRA_INLINE void make_tables(struct form f, struct tables *t)
{
    const __m256i code = code_table(f);
    for (int i = 0; i < n_entries(f); i += 8) {
        __m256i e = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(entries_of(f) + i)));
        __m256i *to = (__m256i *)(t->eight + i);
        if (!has_eights(f)) {
            _mm256_store_si256((__m256i *)(t->four + i), _mm256_shuffle_epi8(code, spread(e, 3)));
            continue;
        }
        __m256i low = _mm256_shuffle_epi8(code, spread(e, 2));
        __m256i high = _mm256_shuffle_epi8(code, spread(_mm256_srli_epi32(e, 8), 2));
        __m256i a = _mm256_unpacklo_epi32(low, high), b = _mm256_unpackhi_epi32(low, high);
        _mm256_store_si256(to, _mm256_permute2x128_si256(a, b, 0x20));
        _mm256_store_si256(to + 1, _mm256_permute2x128_si256(a, b, 0x31));
    }
}

/* ---- codes ---- */

/* Entries a and b side by side. */
LUTRA_INLINE __m128i two_entries(const uint64_t *entry, uint32_t a, uint32_t b)
{
    __m128d low = _mm_castsi128_pd(_mm_loadl_epi64((const __m128i *)(entry + a)));
    return _mm_castpd_si128(_mm_loadh_pd(low, (const double *)(const void *)(entry + b)));
}

/* Magnitudes of 8 inputs, two steps, of the rows whose indices are i. */
LUTRA_INLINE void look_up_eights(const uint64_t *entry, const uint32_t i[8], __m256i step[2])
{
    __m256i a = _mm256_set_m128i(two_entries(entry, i[4], i[5]), two_entries(entry, i[0], i[1]));
    __m256i b = _mm256_set_m128i(two_entries(entry, i[6], i[7]), two_entries(entry, i[2], i[3]));
    __m256 fa = _mm256_castsi256_ps(a), fb = _mm256_castsi256_ps(b);
    step[0] = _mm256_castps_si256(_mm256_shuffle_ps(fa, fb, 0x88));
    step[1] = _mm256_castps_si256(_mm256_shuffle_ps(fa, fb, 0xdd));
}

LUTRA_INLINE __m256i look_up_four(const uint32_t *entry, const uint32_t i[8])
{
    return _mm256_setr_epi32((int)entry[i[0]], (int)entry[i[1]], (int)entry[i[2]], (int)entry[i[3]], (int)entry[i[4]],
        (int)entry[i[5]], (int)entry[i[6]], (int)entry[i[7]]);
}

/* Step v of a group from its magnitudes and the group's signs: OFFSET + m becomes OFFSET - m, less than 128. */
LUTRA_INLINE __m256i with_signs(__m256i code, __m256i signs, int v)
{
    const char l = (char)(v / 2);
    const __m128i own = _mm_setr_epi8(l, l, l, l, (char)(l + 4), (char)(l + 4), (char)(l + 4), (char)(l + 4),
        (char)(l + 8), (char)(l + 8), (char)(l + 8), (char)(l + 8), (char)(l + 12), (char)(l + 12), (char)(l + 12),
        (char)(l + 12));
    const __m256i bit = _mm256_set1_epi32(v % 2 ? (int)0x80402010 : 0x08040201);
    __m256i s = _mm256_and_si256(_mm256_shuffle_epi8(signs, _mm256_broadcastsi128_si256(own)), bit);
    __m256i negative = _mm256_cmpeq_epi8(s, bit);
    code = _mm256_sub_epi8(_mm256_xor_si256(code, negative), negative);
    return _mm256_and_si256(code, _mm256_set1_epi8(2 * OFFSET - 1));
}

/* Codes of 8 rows of a tile: step s to code + s * STEP_BYTES + 32 half.  The loop stays a loop: unrolled, IQ3_S took
 * 1.7 times as long (too long for the cache of decoded instructions?).  What goes by way of memory goes early. */
LUTRA_INLINE void read_codes(struct form f, const struct tables *t, const uint8_t *tile, int half, uint8_t *code)
{
    const int each = has_eights(f) ? 2 : 1;
    const bool early = sections_of(f).high;
    uint8_t *to = code + 32 * half;
    for (int g = 0; g < 8; g++) {
        LUTRA_ALIGNED(32) uint32_t index[8][8];
        __m256i signs = load_signs(f, tile, g, half), step[2];
        if (early) {
            UNROLL
            for (int i = 0; i < 8 / each; i++) load_index(f, tile, g, i, half, index[i]);
        }
        UNROLL
        for (int v = 0; v < 8; v++, to += STEP_BYTES) {
            const uint32_t *i = index[v / each];
            if (!early && v % each == 0) load_index(f, tile, g, v / each, half, index[v / each]);
            if (!has_eights(f)) step[v % 2] = look_up_four(t->four, i);
            if (has_eights(f) && v % 2 == 0) look_up_eights(t->eight, i, step);
            _mm256_store_si256((__m256i *)to, with_signs(step[v % 2], signs, v));
        }
    }
}

#endif
