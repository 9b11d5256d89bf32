/* SPDX-License-Identifier: MIT
 *
 * Codes and scales of the formats with 32-element blocks as 512-bit vectors.
 */
#ifndef LUTRA_CPU_X86_GEMM_I8_FORM_IMPL_H
#define LUTRA_CPU_X86_GEMM_I8_FORM_IMPL_H

#include "cpu/x86/gemm_tile_avx512_impl.h"

#include "cpu/gemm_i8_form_tmpl.h"

/* The values of TABLE codes, plus the offset. */
LUTRA_INLINE __m512i code_table(struct form f)
{
    /* IQ4_NL: value + 128; MXFP4: value + 16. */
    const __m128i iq4_nl = _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, (char)129, (char)141, (char)153, (char)166,
        (char)181, (char)197, (char)217, (char)241);
    const __m128i mxfp4 = _mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4);
    return _mm512_broadcast_i32x4(f.scales == E8M0_SCALE ? mxfp4 : iq4_nl);
}

/* Bits first .. first + n - 1 of each byte at bits to .. to + n - 1, and no others: chosen by a matrix, whose byte
 * 7 - i says what makes bit i. */
LUTRA_INLINE __m512i choose_bits(const uint8_t *codes, const int first, const int n, const int to)
{
    int64_t matrix = 0;
    UNROLL
    for (int i = 0; i < n; i++) matrix |= (int64_t)1 << (first + i) << 8 * (7 - to - i);
    return _mm512_gf2p8affine_epi64_epi8(_mm512_loadu_si512(codes), _mm512_set1_epi64(matrix), 0);
}

/* The codes of step v (inputs 4v .. 4v+3 of the group) of 16 rows, as unsigned bytes. */
LUTRA_INLINE __m512i load_codes(struct form f, const struct group *g, int v, __m512i table)
{
    const __m512i low = _mm512_set1_epi8(15);
    if (f.codes == BYTES) return _mm512_loadu_si512(g->code + STEP_BYTES * v);
    if (f.codes == ONE_BIT) return choose_bits(g->code, v, 1, 4);
    if (f.codes == TWO_BITS) return choose_bits(g->code + STEP_BYTES * (v / 4), 2 * (v % 4), 2, 3);
    if (f.codes == THREE_BITS)
        return _mm512_or_si512(
            choose_bits(g->code + STEP_BYTES * (v / 4), 2 * (v % 4), 2, 3), choose_bits(g->bits, v, 1, 5));
    if (f.codes == NIBBLES && f.shared) return choose_bits(g->code + STEP_BYTES * (v % 4), v / 4 * 4, 4, 3);
    __m512i c = _mm512_loadu_si512(g->code + STEP_BYTES * (v & 3));
    c = v < 4 ? _mm512_and_si512(c, low) : _mm512_and_si512(_mm512_srli_epi16(c, 4), low);
    if (f.codes == TABLE) return _mm512_shuffle_epi8(table, c);
    if (f.codes == FIVE_BITS) {
        __m512i b = _mm512_loadu_si512(g->bits);
        b = v < 4 ? _mm512_slli_epi16(b, 4 - (v & 3)) : _mm512_srli_epi16(b, v & 3);
        c = _mm512_ternarylogic_epi64(c, b, _mm512_set1_epi8(16), 0xf8); /* c | (b & 16) */
    }
    return c;
}

/* The zeros of 16 outputs. */
LUTRA_INLINE __m512i load_zero(const struct group *g)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)g->m));
}

LUTRA_INLINE __m512 load_scale(struct form f, const uint8_t *d)
{
    if (f.shared) return _mm512_mul_ps(load_f16(d), _mm512_set1_ps(value_scale(f)));
    if (f.scales != E8M0_SCALE) return load_f16(d);
    /* 2^(e - 128): the exponent field e - 1, or a subnormal for e = 0 and 1. */
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)d));
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __m512i tiny = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2)), tiny));
}

#endif
