/* SPDX-License-Identifier: MIT
 *
 * The formats with 256-element blocks as the 256-bit kernels see them: codes and scales of 8 rows of a packed tile.
 */
#ifndef LUTRA_CPU_X86_GEMM_SUPER_FORM_YMM_IMPL_H
#define LUTRA_CPU_X86_GEMM_SUPER_FORM_YMM_IMPL_H

#include <immintrin.h>

#include "cpu/x86/gemm_x86_impl.h"

enum { STEP_BYTES = 64 };

#include "cpu/gemm_super_form_impl.h"

/* One tile of a panel, by section, for 8 of its rows. */
struct tile {
    const uint8_t *code, *high, *scales, *d, *dmin;
    int half;
};

LUTRA_INLINE __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

LUTRA_INLINE __m256 load_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

LUTRA_INLINE __m256i broadcast(const uint8_t *p)
{
    return _mm256_set1_epi32(*(const int *)(const void *)p);
}

/* The tile at p, for rows 8 half .. 8 half + 7. */
LUTRA_INLINE struct tile tile_at(struct form f, const uint8_t *p, int half)
{
    const uint8_t *code = p + 32 * half, *d = p + 16 * half;
    const uint8_t *scales = p + scales_at(f) + (f.scales == SCALE_8 ? 8 : 32) * half;
    return (struct tile){code, code + high_at(f), scales, d + d_at(f), d + dmin_at(f), half};
}

/* The values of IQ4_NL's codes, + 128 unless is_signed. */
LUTRA_INLINE __m256i iq4_table(bool is_signed)
{
    const __m128i values = _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    return _mm256_broadcastsi128_si256(is_signed ? values : _mm_xor_si128(values, _mm_set1_epi8((char)0x80)));
}

/* Codes of inputs 32g + 4v .. 32g + 4v + 3 of 8 rows: unsigned, but for those of a table where WIDE_CODES is 0. */
LUTRA_INLINE __m256i load_codes(struct form f, const struct tile *t, int g, int v)
{
    __m256i c = load(t->code + STEP_BYTES * code_vector(f, g, v));
    c = _mm256_srl_epi16(c, _mm_cvtsi32_si128(code_bit(f, g, v)));
    c = _mm256_and_si256(c, _mm256_set1_epi8((char)code_mask(f)));
    if (f.codes == TABLE) return _mm256_shuffle_epi8(iq4_table(!WIDE_CODES), c);
    if (high_bytes(f) == 0) return c;
    const int up = high_place(f) - high_bit(f, g);
    __m256i h = load(t->high + STEP_BYTES * high_vector(f, g, v));
    h = up >= 0 ? _mm256_sll_epi16(h, _mm_cvtsi32_si128(up)) : _mm256_srl_epi16(h, _mm_cvtsi32_si128(-up));
    return _mm256_or_si256(c, _mm256_and_si256(h, _mm256_set1_epi8((char)high_mask(f))));
}

/* Scales or minima (side 0 or 1) of group g of 16 rows, from the 6-bit fields of Q4_K and Q5_K. */
LUTRA_INLINE __m256i load_six_bits(const struct tile *t, int g, int side)
{
    __m256i own = load(t->scales + STEP_BYTES * side), rest = load(t->scales + STEP_BYTES * 2);
    __m128i shift = _mm_cvtsi32_si128(8 * (g % 4));
    if (g < 4) return _mm256_and_si256(_mm256_srl_epi32(own, shift), _mm256_set1_epi32(63));
    __m256i high = _mm256_and_si256(_mm256_srli_epi32(_mm256_srl_epi32(own, shift), 2), _mm256_set1_epi32(0x30));
    __m256i low = _mm256_srl_epi32(rest, _mm_cvtsi32_si128(8 * (g % 4) + 4 * side));
    return _mm256_or_si256(high, _mm256_and_si256(low, _mm256_set1_epi32(15)));
}

/* `bits` bits of each lane from bit `from` on. */
LUTRA_INLINE __m256i field(__m256i words, int from, int bits)
{
    return _mm256_and_si256(_mm256_srl_epi32(words, _mm_cvtsi32_si128(from)), _mm256_set1_epi32((1 << bits) - 1));
}

/* Scales 4 i .. 4 i + 3 of Q3_K, a byte each. */
LUTRA_INLINE __m256i load_four_six_bits(const struct tile *t, int i)
{
    __m256i low = _mm256_srl_epi16(load(t->scales + STEP_BYTES * (i % 2)), _mm_cvtsi32_si128(i / 2 * 4));
    __m256i high = _mm256_srl_epi16(load(t->scales + STEP_BYTES * 2), _mm_cvtsi32_si128(i * 2));
    low = _mm256_and_si256(low, _mm256_set1_epi8(15));
    high = _mm256_slli_epi16(_mm256_and_si256(high, _mm256_set1_epi8(3)), 4);
    return _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(32));
}

/* Byte k of each word, which is signed. */
LUTRA_INLINE __m256i extend_byte(__m256i words, int k)
{
    return _mm256_srai_epi32(_mm256_sll_epi32(words, _mm_cvtsi32_si128(24 - 8 * k)), 24);
}

/* Scale i of 16 inputs each, for formats whose sums are scaled per 16 (group_steps). */
LUTRA_INLINE __m256i load_scale16(struct form f, const struct tile *t, int i)
{
    __m256i low, high;
    switch (f.scales) {
    case SCALE_8: return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(t->scales + LANES * i)));
    case BOTH_4: return field(load(t->scales + STEP_BYTES * (i / 4)), 8 * (i % 4), 4);
    case SCALE_6: return extend_byte(load_four_six_bits(t, i / 4), i % 4);
    default: /* SCALE_6_APART: the half words of 8 rows stand 16 bytes apart, not 32 */
        low = field(load(t->scales), i / 2 * 4, 4);
        high = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(t->scales + STEP_BYTES - 16 * t->half)));
        high = field(high, i / 2 * 2, 2);
    }
    return _mm256_sub_epi32(_mm256_or_si256(low, _mm256_slli_epi32(high, 4)), _mm256_set1_epi32(32));
}

/* Minimum i: of 32 inputs (BOTH_6) or of 16 (BOTH_4). */
LUTRA_INLINE __m256i load_min(struct form f, const struct tile *t, int i)
{
    if (f.scales == BOTH_6) return load_six_bits(t, i, 1);
    return field(load(t->scales + STEP_BYTES * (i / 4)), 8 * (i % 4) + 4, 4);
}

#endif
