/* SPDX-License-Identifier: MIT
 *
 * A segment's K in half floats, transposed, on AVX-512.  After vec_avx512_impl.h and cpu/attention.h.
 */
#ifndef LUTRA_CPU_X86_TRANSPOSE_AVX512_IMPL_H
#define LUTRA_CPU_X86_TRANSPOSE_AVX512_IMPL_H

#include <immintrin.h>
#include <stdint.h>

#include "base/compiler.h"
#include "ops/kv_view.h"

/* 8 keys x 32 elements of 16 bits: t[c], 128-bit lane l = element 8 l + c of the 8 keys. */
LUTRA_INLINE void transpose_8x32(const uint16_t *k, int d_head, __mmask32 valid, __m512i t[8])
{
    __m512i r[8], s[8];
    for (int i = 0; i < 8; i++) r[i] = _mm512_maskz_loadu_epi16(valid, k + i * d_head);
    for (int i = 0; i < 4; i++) {
        s[i] = _mm512_unpacklo_epi16(r[2 * i], r[2 * i + 1]); /* elements 0..3 of keys 2i, 2i + 1 */
        s[i + 4] = _mm512_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) { /* i = 0, 1: elements 0..3 of keys 0..3, 4..7; then elements 4..7 */
        r[2 * i] = _mm512_unpacklo_epi32(s[2 * i], s[2 * i + 1]);
        r[2 * i + 1] = _mm512_unpackhi_epi32(s[2 * i], s[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        t[4 * i] = _mm512_unpacklo_epi64(r[4 * i], r[4 * i + 2]);
        t[4 * i + 1] = _mm512_unpackhi_epi64(r[4 * i], r[4 * i + 2]);
        t[4 * i + 2] = _mm512_unpacklo_epi64(r[4 * i + 1], r[4 * i + 3]);
        t[4 * i + 3] = _mm512_unpackhi_epi64(r[4 * i + 1], r[4 * i + 3]);
    }
}

/* kt[d][64] = k[64][d_head] transposed, for the first n_pos of the 64 keys (whole groups of 32 are done).  Rows up to
 * the next multiple of 8 are written. */
static LUTRA_NOINLINE void transpose_f16(const uint16_t *k, int d_head, int n_pos, uint16_t *kt)
{
    for (int key = 0; key < n_pos; key += 32) {
        for (int d = 0; d < d_head; d += 32) {
            int n = d_head - d < 32 ? d_head - d : 32;
            __m512i t[4][8];
            for (int g = 0; g < 4; g++) {
                transpose_8x32(k + (key + 8 * g) * d_head + d, d_head, (__mmask32)(0xffffffffu >> (32 - n)), t[g]);
            }
            for (int c = 0; c < 8; c++) { /* lanes l of the four groups: element 8 l + c of 32 keys */
                __m512i a = _mm512_shuffle_i32x4(t[0][c], t[1][c], 0x88),
                        b = _mm512_shuffle_i32x4(t[2][c], t[3][c], 0x88);
                __m512i e = _mm512_shuffle_i32x4(t[0][c], t[1][c], 0xdd),
                        f = _mm512_shuffle_i32x4(t[2][c], t[3][c], 0xdd);
                uint16_t *to = kt + (d + c) * KV_BLOCK + key;
                _mm512_storeu_si512(to, _mm512_shuffle_i32x4(a, b, 0x88));
                if (n > 8) _mm512_storeu_si512(to + 8 * KV_BLOCK, _mm512_shuffle_i32x4(e, f, 0x88));
                if (n > 16) _mm512_storeu_si512(to + 16 * KV_BLOCK, _mm512_shuffle_i32x4(a, b, 0xdd));
                if (n > 24) _mm512_storeu_si512(to + 24 * KV_BLOCK, _mm512_shuffle_i32x4(e, f, 0xdd));
            }
        }
    }
}

#endif
