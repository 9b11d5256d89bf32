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

/* The tile at p, for rows 8 half .. 8 half + 7. */
LUTRA_INLINE struct tile tile_at(struct form f, const uint8_t *p, int half)
{
    const uint8_t *code = p + 32 * half, *d = p + 16 * half;
    const uint8_t *scales = p + scales_at(f) + (f.scales == SCALE_8 ? 8 : 32) * half;
    return (struct tile){code, code + high_at(f), scales, d + d_at(f), d + dmin_at(f), half};
}

/* Codes of inputs 32 g + 4 v .. 32 g + 4 v + 3 of 8 rows, unsigned; those of a table as the file has them. */
LUTRA_INLINE __m256i load_codes(struct form f, const struct tile *t, int g, int v)
{
    __m256i c = load(t->code + STEP_BYTES * code_vector(f, g, v));
    c = _mm256_srl_epi16(c, _mm_cvtsi32_si128(code_bit(f, g, v)));
    c = _mm256_and_si256(c, _mm256_set1_epi8((char)code_mask(f)));
    if (high_bytes(f) == 0) return c;
    const int up = high_place(f) - high_bit(f, g);
    __m256i h = load(t->high + STEP_BYTES * high_vector(f, g, v));
    h = up >= 0 ? _mm256_sll_epi16(h, _mm_cvtsi32_si128(up)) : _mm256_srl_epi16(h, _mm_cvtsi32_si128(-up));
    return _mm256_or_si256(c, _mm256_and_si256(h, _mm256_set1_epi8((char)high_mask(f))));
}

/* Six-bit scales (side 0) or minima (1) 4 i .. 4 i + 3 of Q4_K and Q5_K, a byte each. */
LUTRA_INLINE __m256i load_four_of_both(const struct tile *t, int i, int side)
{
    __m256i own = load(t->scales + STEP_BYTES * side);
    if (i == 0) return _mm256_and_si256(own, _mm256_set1_epi8(63));
    __m256i rest = _mm256_srli_epi16(load(t->scales + STEP_BYTES * 2), 4 * side);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(own, 2), _mm256_set1_epi8(0x30));
    return _mm256_or_si256(high, _mm256_and_si256(rest, _mm256_set1_epi8(15)));
}

/* Scales 4 i .. 4 i + 3 of Q3_K, a byte each. */
LUTRA_INLINE __m256i load_four_of_q3(const struct tile *t, int i)
{
    __m256i low = _mm256_srli_epi16(load(t->scales + STEP_BYTES * (i % 2)), i / 2 * 4);
    __m256i high = _mm256_srli_epi16(load(t->scales + STEP_BYTES * 2), i * 2);
    low = _mm256_and_si256(low, _mm256_set1_epi8(15));
    high = _mm256_slli_epi16(_mm256_and_si256(high, _mm256_set1_epi8(3)), 4);
    return _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(32));
}

/* The scale of group g of IQ4_XS, in both halves; the half words of 8 rows stand 16 bytes apart, not 32. */
LUTRA_INLINE __m256i load_iq4_scale(const struct tile *t, int g)
{
    __m256i low = _mm256_srli_epi32(load(t->scales), 4 * g);
    __m256i high = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(t->scales + STEP_BYTES - 16 * t->half)));
    high = g < 2 ? _mm256_slli_epi32(high, 4 - 2 * g) : _mm256_srli_epi32(high, 2 * g - 4);
    low = _mm256_and_si256(low, _mm256_set1_epi32(15));
    high = _mm256_and_si256(high, _mm256_set1_epi32(0x30));
    __m256i scale = _mm256_or_si256(low, high);
    scale = _mm256_or_si256(scale, _mm256_slli_epi32(scale, 16));
    return _mm256_sub_epi16(scale, _mm256_set1_epi16(32));
}

/* Scale i of a tile, in both halves of each word: of the sums that are scaled at once (group_steps). */
LUTRA_INLINE __m256i load_scale(struct form f, const struct tile *t, int i)
{
    switch (f.scales) {
    case NO_SCALES: return _mm256_set1_epi16(1);
    case BOTH_4: {
        __m256i four = _mm256_and_si256(load(t->scales + STEP_BYTES * (i / 4)), _mm256_set1_epi8(15));
        return byte_to_halves(four, i % 4);
    }
    case BOTH_6: return byte_to_halves(load_four_of_both(t, i / 4, 0), i % 4);
    case SCALE_6: return signed_byte_to_halves(load_four_of_q3(t, i / 4), i % 4);
    case SCALE_6_APART: return load_iq4_scale(t, i / 2);
    default: { /* SCALE_8 */
        __m128i eight = _mm_loadl_epi64((const __m128i *)(t->scales + LANES * i));
        return _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(eight, eight));
    }
    }
}

/* Minima i and i + 1, in the lower and upper half of each word: of 32 inputs (BOTH_6) or of 16 (BOTH_4). */
LUTRA_INLINE __m256i load_min_pair(struct form f, const struct tile *t, int i)
{
    if (f.scales == BOTH_6) return bytes_to_halves(load_four_of_both(t, i / 4, 1), i % 4, i % 4 + 1);
    __m256i four = _mm256_srli_epi16(load(t->scales + STEP_BYTES * (i / 4)), 4);
    return bytes_to_halves(_mm256_and_si256(four, _mm256_set1_epi8(15)), i % 4, i % 4 + 1);
}

#endif
