/* SPDX-License-Identifier: MIT
 *
 * The formats with 256-element blocks as the 256-bit kernels see them: codes and 6-bit scales of 8 rows of a packed tile.
 */
#ifndef LUTRA_CPU_X86_GEMM_SUPER_FORM_YMM_IMPL_H
#define LUTRA_CPU_X86_GEMM_SUPER_FORM_YMM_IMPL_H

#include <immintrin.h>

#include "cpu/x86/gemm_x86_impl.h"

enum { STEP_BYTES = 64 };
enum codes { FOUR_BITS, FIVE_BITS, SIX_BITS, TWO_BITS };

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

LUTRA_INLINE size_t tile_bytes(enum codes f)
{
    static const size_t BYTES[] = {144 * LANES, 176 * LANES, 210 * LANES, 66 * LANES};
    return BYTES[f];
}

/* The tile at p, for rows 8 half .. 8 half + 7. */
LUTRA_INLINE struct tile tile_at(enum codes f, const uint8_t *p, int half)
{
    const uint8_t *code = p + 32 * half, *d = p + 16 * half;
    switch (f) {
    case FOUR_BITS: return (struct tile){code, code, code + 2048, d + 2240, d + 2272, half};
    case FIVE_BITS: return (struct tile){code, code + 2048, code + 2560, d + 2752, d + 2784, half};
    case SIX_BITS: return (struct tile){code, code + 2048, p + 3072 + 8 * half, d + 3328, p, half};
    default: return (struct tile){code, code, p, d + 1024, p, half};
    }
}

/* Unsigned codes of inputs 32g + 4v .. 32g + 4v + 3 of 16 rows. */
LUTRA_INLINE __m256i load_codes(enum codes f, const struct tile *t, int g, int v)
{
    const __m256i low = _mm256_set1_epi8(15);
    if (f == TWO_BITS) {
        __m256i c = load(t->code + STEP_BYTES * (g / 4 * 8 + v));
        return _mm256_and_si256(_mm256_srl_epi16(c, _mm_cvtsi32_si128(2 * (g % 4))), _mm256_set1_epi8(3));
    }
    if (f == SIX_BITS) {
        __m256i c = load(t->code + STEP_BYTES * (g / 4 * 16 + g % 2 * 8 + v));
        __m256i h = load(t->high + STEP_BYTES * (g / 4 * 8 + v));
        c = _mm256_and_si256(_mm256_srl_epi16(c, _mm_cvtsi32_si128(g % 4 / 2 * 4)), low);
        int up = 4 - 2 * (g % 4); /* bits 2 (g % 4) and the next go to bits 4 and 5 */
        h = up >= 0 ? _mm256_sll_epi16(h, _mm_cvtsi32_si128(up)) : _mm256_srli_epi16(h, 2);
        return _mm256_or_si256(c, _mm256_and_si256(h, _mm256_set1_epi8(0x30))); /* c | (h & 0x30) */
    }
    __m256i c = load(t->code + STEP_BYTES * (g / 2 * 8 + v));
    c = _mm256_and_si256(_mm256_srl_epi16(c, _mm_cvtsi32_si128(g % 2 * 4)), low);
    if (f == FIVE_BITS) {
        __m256i h = load(t->high + STEP_BYTES * v);
        h = g < 4 ? _mm256_sll_epi16(h, _mm_cvtsi32_si128(4 - g)) : _mm256_srl_epi16(h, _mm_cvtsi32_si128(g - 4));
        c = _mm256_or_si256(c, _mm256_and_si256(h, _mm256_set1_epi8(16)));
    }
    return c;
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

#endif
