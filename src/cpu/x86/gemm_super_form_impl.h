/* SPDX-License-Identifier: MIT
 *
 * The formats with 256-element blocks as the 512-bit kernels see them: a panel's packed tile, unpacked to bytes and
 * 32-bit scales; and the minima, which need no dot product.
 */
#ifndef LUTRA_CPU_X86_GEMM_SUPER_FORM_IMPL_H
#define LUTRA_CPU_X86_GEMM_SUPER_FORM_IMPL_H

#include "cpu/x86/gemm_tile_avx512_impl.h"

enum codes { FOUR_BITS, FIVE_BITS, SIX_BITS, TWO_BITS };

struct form {
    enum codes codes;
};

LUTRA_INLINE size_t group_bytes(struct form f)
{
    static const size_t BLOCK_BYTES[] = {144, 176, 210, 66};
    return BLOCK_BYTES[f.codes] * LANES / 8;
}

/* A panel's tile, unpacked. */
struct unpacked {
    __m512i code[64];    /* step v of group g at 8 g + v: unsigned bytes */
    __m512i scale[16];   /* of 32 inputs, or of 16 (Q6_K) */
    __m512i min_pair[4]; /* i16: minima of groups 2p and 2p + 1 */
    __m512 d, dmin;
};

LUTRA_INLINE __m512i load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

/* c | (h & bits) */
LUTRA_INLINE __m512i merge(__m512i c, __m512i h, int bits)
{
    return _mm512_ternarylogic_epi64(c, h, _mm512_set1_epi8((char)bits), 0xf8);
}

/* 6-bit scales or minima (side 0 or 1) of groups 0 .. 7: group j from bits of three words per row (quant/formats.h). */
LUTRA_INLINE __m512i six_bits(const uint8_t *words, int g, int side)
{
    __m512i own = _mm512_srli_epi32(load(words + STEP_BYTES * side), (unsigned)(8 * (g % 4)));
    if (g < 4) return _mm512_and_si512(own, _mm512_set1_epi32(63));
    __m512i low = _mm512_srli_epi32(load(words + STEP_BYTES * 2), (unsigned)(8 * (g % 4) + 4 * side));
    __m512i high = _mm512_and_si512(_mm512_srli_epi32(own, 2), _mm512_set1_epi32(0x30));
    return _mm512_ternarylogic_epi64(high, low, _mm512_set1_epi32(15), 0xf8);
}

LUTRA_INLINE void unpack_six_bits(struct unpacked *u, const uint8_t *words)
{
    UNROLL
    for (int g = 0; g < 8; g++) u->scale[g] = six_bits(words, g, 0);
    UNROLL
    for (int p = 0; p < 4; p++) {
        u->min_pair[p] =
            _mm512_or_si512(six_bits(words, 2 * p, 1), _mm512_slli_epi32(six_bits(words, 2 * p + 1, 1), 16));
    }
}

/* Q4_K and Q5_K: nibbles of groups 2r and 2r + 1 side by side; Q5_K's fifth bit of group g is bit g of `high`. */
LUTRA_INLINE void unpack_nibbles(struct unpacked *u, const uint8_t *code, const uint8_t *high, bool five)
{
    const __m512i low = _mm512_set1_epi8(15);
    for (int v = 0; v < 8; v++) {
        __m512i h = five ? load(high + STEP_BYTES * v) : low;
        UNROLL
        for (int r = 0; r < 4; r++) {
            __m512i c = load(code + STEP_BYTES * (8 * r + v));
            __m512i even = _mm512_and_si512(c, low), odd = _mm512_and_si512(_mm512_srli_epi16(c, 4), low);
            if (five) {
                even = merge(even,
                    r < 2 ? _mm512_slli_epi16(h, (unsigned)(4 - 2 * r)) : _mm512_srli_epi16(h, (unsigned)(2 * r - 4)),
                    16);
                odd = merge(odd,
                    r < 2 ? _mm512_slli_epi16(h, (unsigned)(3 - 2 * r)) : _mm512_srli_epi16(h, (unsigned)(2 * r - 3)),
                    16);
            }
            u->code[16 * r + v] = even;
            u->code[16 * r + 8 + v] = odd;
        }
    }
}

/* Q6_K: low nibbles of quarters q and q + 2 of a half side by side, their high bits at 2q of `high`. */
LUTRA_INLINE void unpack_q6(struct unpacked *u, const uint8_t *code, const uint8_t *high, const uint8_t *scales)
{
    const __m512i low = _mm512_set1_epi8(15);
    for (int i = 0; i < 16; i++) {
        int half = i / 8, v = i % 8;
        const uint8_t *c = code + STEP_BYTES * (16 * half + v);
        __m512i a = load(c), b = load(c + STEP_BYTES * 8), h = load(high + STEP_BYTES * i);
        __m512i *to = u->code + 32 * half + v;
        to[0] = merge(_mm512_and_si512(a, low), _mm512_slli_epi16(h, 4), 0x30);
        to[8] = merge(_mm512_and_si512(b, low), _mm512_slli_epi16(h, 2), 0x30);
        to[16] = merge(_mm512_and_si512(_mm512_srli_epi16(a, 4), low), h, 0x30);
        to[24] = merge(_mm512_and_si512(_mm512_srli_epi16(b, 4), low), _mm512_srli_epi16(h, 2), 0x30);
        u->scale[i] = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(scales + LANES * i)));
    }
}

/* TQ2_0: codes of quarter q of a half at bits 2q. */
LUTRA_INLINE void unpack_two_bits(struct unpacked *u, const uint8_t *code)
{
    const __m512i low = _mm512_set1_epi8(3);
    for (int i = 0; i < 16; i++) {
        __m512i c = load(code + STEP_BYTES * i), *to = u->code + i / 8 * 32 + i % 8;
        to[0] = _mm512_and_si512(c, low);
        to[8] = _mm512_and_si512(_mm512_srli_epi16(c, 2), low);
        to[16] = _mm512_and_si512(_mm512_srli_epi16(c, 4), low);
        to[24] = _mm512_and_si512(_mm512_srli_epi16(c, 6), low);
    }
}

LUTRA_INLINE void unpack_tile(struct form f, struct unpacked *u, const uint8_t *w)
{
    switch (f.codes) {
    case FOUR_BITS:
        unpack_nibbles(u, w, w, false);
        unpack_six_bits(u, w + 2048);
        u->d = load_f16(w + 2240);
        u->dmin = load_f16(w + 2272);
        break;
    case FIVE_BITS:
        unpack_nibbles(u, w, w + 2048, true);
        unpack_six_bits(u, w + 2560);
        u->d = load_f16(w + 2752);
        u->dmin = load_f16(w + 2784);
        break;
    case SIX_BITS:
        unpack_q6(u, w, w + 2048, w + 3072);
        u->d = load_f16(w + 3328);
        break;
    default:
        unpack_two_bits(u, w);
        u->d = load_f16(w + 1024);
        break;
    }
}

/* The minima of a tile times the inputs' sums; sums: i16 pairs [4][width]. */
LUTRA_INLINE void subtract_minima(
    const struct unpacked *u, const uint8_t *sums, const uint8_t *scale_x, size_t width, int n, __m512 sum[COLUMNS])
{
    UNROLL
    for (int c = 0; c < n; c++) {
        __m512i min = _mm512_setzero_si512();
        UNROLL
        for (int p = 0; p < 4; p++) {
            min = _mm512_dpwssd_epi32(min, u->min_pair[p], broadcast(sums + (size_t)p * 4 * width + 4 * c));
        }
        __m512 s = _mm512_mul_ps(u->dmin, broadcast_f32(scale_x + 4 * c));
        sum[c] = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(min), s, sum[c]);
    }
}

#endif
