/* SPDX-License-Identifier: MIT
 *
 * The formats with 256-element blocks as the 256-bit kernels see them: codes and 6-bit scales of 8 rows of a packed tile.
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
    const uint8_t *scales = p + scales_at(f) + (f.codes == SIX_BITS ? 8 : 32) * half;
    return (struct tile){code, code + high_at(f), scales, d + d_at(f), d + dmin_at(f), half};
}

/* Unsigned codes of inputs 32g + 4v .. 32g + 4v + 3 of 16 rows. */
LUTRA_INLINE __m256i load_codes(struct form f, const struct tile *t, int g, int v)
{
    __m256i c = load(t->code + STEP_BYTES * (code_vector(f, g) + v));
    c = _mm256_srl_epi16(c, _mm_cvtsi32_si128(code_bit(f, g)));
    c = _mm256_and_si256(c, _mm256_set1_epi8((char)code_mask(f)));
    if (high_bytes(f) == 0) return c;
    const int up = 4 - high_bit(f, g);
    __m256i h = load(t->high + STEP_BYTES * (high_vector(f, g) + v));
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

#endif
