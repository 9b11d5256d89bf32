/* SPDX-License-Identifier: MIT
 *
 * What the x86 matmul files share: how a panel's sums are stored.
 */
#ifndef LUTRA_CPU_X86_GEMM_X86_H
#define LUTRA_CPU_X86_GEMM_X86_H

#include "base/compiler.h"
#include "cpu/layout.h"

/* Columns in passes of PASS_ROWS, whose activations stay in L2 while a unit's panels pass over them. */
enum { PASS_ROWS = 64 };

/* Before a loop whose trip count is a constant after inlining: accumulators in arrays become registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* The columns that share a tile of weights are taken in `shares` groups.  Which of the tile's 8 groups of inputs the
 * share-th of them prefetches: a bit each. */
LUTRA_INLINE unsigned share_of(size_t share, size_t shares)
{
    unsigned bits = 0;
    for (size_t g = share; g < 8; g += shares) bits |= 1u << g;
    return bits;
}

/* Of `steps` (4 or 8) steps with one scale, how many make a part: a lane takes two products of up to 127 * most in
 * each, and no more than most_sum in all.  A divisor of `steps`. */
LUTRA_INLINE int part_steps(const int steps, const int most, const int most_sum)
{
    const int fit = most_sum / (2 * 127 * most);
    return fit >= steps ? steps : fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

/* Fillers of one file each. */
void cpu_gemm_init_i8_amx(struct cpu_kernels *k);
void cpu_gemm_init_super_amx(struct cpu_kernels *k);
void cpu_gemm_init_bf16_amx(struct cpu_kernels *k);
void cpu_gemm_init_i8_avx512(struct cpu_kernels *k);
void cpu_gemm_init_super_avx512(struct cpu_kernels *k);
void cpu_gemm_init_float_avx512(struct cpu_kernels *k);
void cpu_gemm_init_i8_avxvnni(struct cpu_kernels *k);
void cpu_gemm_init_super_avxvnni(struct cpu_kernels *k);
void cpu_gemm_init_i8_avx2(struct cpu_kernels *k);
void cpu_gemm_init_super_avx2(struct cpu_kernels *k);
void cpu_gemm_init_float_avx2(struct cpu_kernels *k);

#if defined(__AVX2__)
#include <immintrin.h>

/* Bytes a and b of each word to its lower and upper half. */
LUTRA_INLINE __m256i bytes_to_halves(__m256i words, const int a, const int b)
{
    const __m256i word = _mm256_broadcastsi128_si256(_mm_setr_epi32(0, 0x00040004, 0x00080008, 0x000c000c));
    __m256i from = _mm256_set1_epi32((int)(0x80008000u | (unsigned)a | (unsigned)b << 16));
    return _mm256_shuffle_epi8(words, _mm256_or_si256(word, from));
}

LUTRA_INLINE __m256i byte_to_halves(__m256i words, const int k)
{
    return bytes_to_halves(words, k, k);
}

/* The same of a byte with a sign. */
LUTRA_INLINE __m256i signed_byte_to_halves(__m256i words, const int k)
{
    const __m256i word = _mm256_broadcastsi128_si256(_mm_setr_epi32(0, 0x04000400, 0x08000800, 0x0c000c00));
    __m256i from = _mm256_set1_epi32((int)(0x00800080u | (unsigned)k << 8 | (unsigned)k << 24));
    return _mm256_srai_epi16(_mm256_shuffle_epi8(words, _mm256_or_si256(word, from)), 8);
}

/* sum[2][4] -> outputs of a panel (lower and upper 8 rows) for rows row .. row + n - 1, bias added. */
LUTRA_INLINE void store_panel_ymm(const struct cpu_gemm_args *a, size_t panel, size_t row, int n, __m256 (*sum)[4])
{
    size_t o = panel * LANES, left = a->n_out - o;
    float *out = a->out + (panel - a->panel) * LANES + row * a->out_stride;
    for (int c = 0; c < n; c++, out += a->out_stride) {
        for (size_t h = 0; h < 2 && left > 8 * h; h++) {
            size_t lanes = left - 8 * h < 8 ? left - 8 * h : 8;
            __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
            __m256 y = sum[h][c];
            if (a->bias) y = _mm256_add_ps(y, _mm256_maskload_ps(a->bias + o + 8 * h, mask));
            _mm256_maskstore_ps(out + 8 * h, mask, y);
        }
    }
}
#endif

#if defined(__AVX512F__)
#include <immintrin.h>

/* Fetches what store_panel_avx512 will write: a line of its own per row, often not in any cache, and stores that wait
 * for it hold up whatever is stored after them. */
LUTRA_INLINE void prefetch_outputs(const struct cpu_gemm_args *a, size_t panel, size_t row, size_t n)
{
    const float *out = a->out + (panel - a->panel) * LANES + row * a->out_stride;
    for (size_t c = 0; c < n; c++, out += a->out_stride) LUTRA_PREFETCH(out);
}

/* sum[n] -> outputs of a panel for rows row .. row + n - 1, bias added. */
LUTRA_INLINE void store_panel_avx512(const struct cpu_gemm_args *a, size_t panel, size_t row, int n, const __m512 *sum)
{
    size_t o = panel * LANES, left = a->n_out - o;
    __mmask16 mask = left < LANES ? (__mmask16)((1u << left) - 1) : 0xffff;
    float *out = a->out + (panel - a->panel) * LANES + row * a->out_stride;
    for (int c = 0; c < n; c++, out += a->out_stride) {
        __m512 y = a->bias ? _mm512_add_ps(sum[c], _mm512_maskz_loadu_ps(mask, a->bias + o)) : sum[c];
        _mm512_mask_storeu_ps(out, mask, y);
    }
}
#endif

#endif
