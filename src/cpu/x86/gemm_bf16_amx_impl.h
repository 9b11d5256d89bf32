/* SPDX-License-Identifier: MIT
 *
 * The bf16 matmul on AMX tiles, for bulk rows: weights and activations rounded to bf16 (8
 * significant bits), products summed in f32 by the tile unit.
 *
 * Scale and minimum are in the rounded weight, so that nothing is left to do per group of inputs.  A format brings one
 * function, which writes 32 inputs of a panel as a tile B (those with codebooks another, which makes their tables):
 *
 *     tile B:  [16 pairs of inputs][16 output rows][2] bf16         tile A:  [16 rows of the batch][32 inputs] bf16
 */
#ifndef LUTRA_CPU_X86_GEMM_BF16_AMX_IMPL_H
#define LUTRA_CPU_X86_GEMM_BF16_AMX_IMPL_H

#include <immintrin.h>

#include "cpu/x86/gemm_x86_impl.h"

enum { BF16_TILE_BYTES = 1024, BF16_KEPT_BYTES = 8 << 10 };

/* Group g (32 inputs) of a panel's packed tile of `groups` groups as tile B.  Called for ascending g; `kept`
 * (BF16_KEPT_BYTES, 64-byte aligned) is the format's own during a call of the kernel. */
typedef void bf16_unpack(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to);

/* What formats with codebooks keep, before the first of those calls; nothing for others. */
void cpu_bf16_make_tables(enum quant_type type, void *kept);

/* By weight type; unpack == NULL: not among them. */
struct bf16_format {
    const char *name; /* of the kernel */
    bf16_unpack *unpack;
};
extern const struct bf16_format BF16_I8_FORMATS[QUANT_TYPE_END], BF16_SUPER_FORMATS[QUANT_TYPE_END],
    BF16_BOOK_FORMATS[QUANT_TYPE_END];

/* What turns a code into a weight: scale * (2^(23 - bit) + code) + bias. */
struct bf16_scale {
    __m512 scale, bias;
};

/* Weight = scale * (code - offset) + min, for codes at `bit` of a lane.  Exact without a minimum (f16 scales have 11
 * bits); with one, at bit 15 and for 11 bits of scale, to 2^-16 of scale. */
LUTRA_INLINE struct bf16_scale bf16_scale_of(__m512 scale, int bit, int offset, __m512 min)
{
    __m512 bias = _mm512_fnmadd_ps(scale, _mm512_set1_ps((float)((1 << (23 - bit)) + offset)), min);
    /* One NaN for all, of which rounding cannot make a number. */
    __mmask16 nan = _mm512_cmp_ps_mask(bias, bias, _CMP_UNORD_Q);
    const __m512 quiet = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
    return (struct bf16_scale){_mm512_mask_mov_ps(scale, nan, quiet), _mm512_mask_mov_ps(bias, nan, quiet)};
}

/* 2^(23 - bit) + code is a float whose exponent is known: the code is in its mantissa where it lies, and there is
 * nothing to convert.  x: codes of `mask` at `bit` of each lane, whatever is beside them.  The result's upper half is
 * the weight. */
LUTRA_INLINE __m512i bf16_weight(__m512i x, const int bit, const int mask, struct bf16_scale s)
{
    const __m512i base = _mm512_set1_epi32((127 + 23 - bit) << 23);
    __m512i f = _mm512_ternarylogic_epi32(base, x, _mm512_set1_epi32(mask << bit), 0xf8); /* base | (x & mask) */
    __m512 w = _mm512_fmadd_ps(s.scale, _mm512_castsi512_ps(f), s.bias);
    return _mm512_add_epi32(_mm512_castps_si512(w), _mm512_set1_epi32(0x8000)); /* rounds the upper half */
}

/* The upper halves of a and b, side by side. */
LUTRA_INLINE void bf16_store_pairs(__m512i a, __m512i b, uint8_t *to)
{
    const __m512i down = _mm512_broadcast_i32x4(_mm_setr_epi8(2, 3, 0, 0, 6, 7, 0, 0, 10, 11, 0, 0, 14, 15, 0, 0));
    _mm512_store_si512(to, _mm512_mask_shuffle_epi8(b, 0x3333333333333333, a, down));
}

/* A step of 16 output rows x 4 unsigned codes -> two rows of tile B, 128 bytes.  s: of bit 15. */
LUTRA_INLINE void bf16_store_step(__m512i code, struct bf16_scale s, uint8_t *to)
{
    __m512i a = bf16_weight(_mm512_slli_epi32(code, 15), 15, 0xff, s);
    __m512i b = bf16_weight(_mm512_slli_epi32(code, 7), 15, 0xff, s);
    __m512i c = bf16_weight(_mm512_srli_epi32(code, 1), 15, 0xff, s);
    __m512i d = bf16_weight(_mm512_srli_epi32(code, 9), 15, 0xff, s);
    bf16_store_pairs(a, b, to);
    bf16_store_pairs(c, d, to + 64);
}

#endif
