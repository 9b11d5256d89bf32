/* SPDX-License-Identifier: MIT
 *
 * AVX-512 VNNI matmul of the formats with 256-element blocks: K-quants and ternary, activations q8x256.
 *
 * A zmm lane is an output row.  Per 256 inputs everything is exact in 32-bit integers: the dot product of each group,
 * times its integer scale, and the minima times the sums of the inputs (at most 127 * 63 * 128 * 256 / 2 < 2^31).  Then
 * sum = fma(float(dot), d * scale_x, sum) and, for formats with minima, sum = fma(-float(min), dmin * scale_x, sum).
 */
#include <immintrin.h>

#include "base/compiler.h"
#include "cpu/layout.h"
#include "cpu/x86/gemm_x86_impl.h"

enum { STEP_BYTES = 64 };
enum codes { FOUR_BITS, FIVE_BITS, SIX_BITS, TWO_BITS };

/* One tile of a panel, by section. */
struct tile {
    const uint8_t *code, *high, *scales, *d, *dmin;
};

LUTRA_INLINE __m512i load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

LUTRA_INLINE __m512 load_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

LUTRA_INLINE __m512i broadcast(const uint8_t *p)
{
    return _mm512_set1_epi32(*(const int *)(const void *)p);
}

LUTRA_INLINE size_t tile_bytes(enum codes f)
{
    static const size_t BYTES[] = {144 * LANES, 176 * LANES, 210 * LANES, 66 * LANES};
    return BYTES[f];
}

LUTRA_INLINE struct tile tile_at(enum codes f, const uint8_t *p)
{
    switch (f) {
    case FOUR_BITS: return (struct tile){p, p, p + 2048, p + 2240, p + 2272};
    case FIVE_BITS: return (struct tile){p, p + 2048, p + 2560, p + 2752, p + 2784};
    case SIX_BITS: return (struct tile){p, p + 2048, p + 3072, p + 3328, p};
    default: return (struct tile){p, p, p, p + 1024, p};
    }
}

/* Unsigned codes of inputs 32g + 4v .. 32g + 4v + 3 of 16 rows. */
LUTRA_INLINE __m512i load_codes(enum codes f, const struct tile *t, int g, int v)
{
    const __m512i low = _mm512_set1_epi8(15);
    if (f == TWO_BITS) {
        __m512i c = load(t->code + STEP_BYTES * (g / 4 * 8 + v));
        return _mm512_and_si512(_mm512_srl_epi16(c, _mm_cvtsi32_si128(2 * (g % 4))), _mm512_set1_epi8(3));
    }
    if (f == SIX_BITS) {
        __m512i c = load(t->code + STEP_BYTES * (g / 4 * 16 + g % 2 * 8 + v));
        __m512i h = load(t->high + STEP_BYTES * (g / 4 * 8 + v));
        c = _mm512_and_si512(_mm512_srl_epi16(c, _mm_cvtsi32_si128(g % 4 / 2 * 4)), low);
        int up = 4 - 2 * (g % 4); /* bits 2 (g % 4) and the next go to bits 4 and 5 */
        h = up >= 0 ? _mm512_sll_epi16(h, _mm_cvtsi32_si128(up)) : _mm512_srli_epi16(h, 2);
        return _mm512_ternarylogic_epi64(c, h, _mm512_set1_epi8(0x30), 0xf8); /* c | (h & 0x30) */
    }
    __m512i c = load(t->code + STEP_BYTES * (g / 2 * 8 + v));
    c = _mm512_and_si512(_mm512_srl_epi16(c, _mm_cvtsi32_si128(g % 2 * 4)), low);
    if (f == FIVE_BITS) {
        __m512i h = load(t->high + STEP_BYTES * v);
        h = g < 4 ? _mm512_sll_epi16(h, _mm_cvtsi32_si128(4 - g)) : _mm512_srl_epi16(h, _mm_cvtsi32_si128(g - 4));
        c = _mm512_ternarylogic_epi64(c, h, _mm512_set1_epi8(16), 0xf8);
    }
    return c;
}

/* Scales or minima (side 0 or 1) of group g of 16 rows, from the 6-bit fields of Q4_K and Q5_K. */
LUTRA_INLINE __m512i load_six_bits(const struct tile *t, int g, int side)
{
    __m512i own = load(t->scales + STEP_BYTES * side), rest = load(t->scales + STEP_BYTES * 2);
    __m128i shift = _mm_cvtsi32_si128(8 * (g % 4));
    if (g < 4) return _mm512_and_si512(_mm512_srl_epi32(own, shift), _mm512_set1_epi32(63));
    __m512i high = _mm512_and_si512(_mm512_srli_epi32(_mm512_srl_epi32(own, shift), 2), _mm512_set1_epi32(0x30));
    __m512i low = _mm512_srl_epi32(rest, _mm_cvtsi32_si128(8 * (g % 4) + 4 * side));
    return _mm512_ternarylogic_epi64(high, low, _mm512_set1_epi32(15), 0xf8);
}

/* dot[c] += groups of 32 inputs with one scale each. */
LUTRA_INLINE void add_group32(
    enum codes f, const struct tile *t, int g, const uint8_t *x, size_t width, int n, __m512i *dot)
{
    __m512i acc[ACT_COLUMNS], scale = load_six_bits(t, g, 0);
    for (int c = 0; c < n; c++) acc[c] = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++, x += 4 * width) {
        __m512i w = load_codes(f, t, g, v);
#pragma GCC unroll 8
        for (int c = 0; c < n; c++) acc[c] = _mm512_dpbusd_epi32(acc[c], w, broadcast(x + 4 * c));
    }
#pragma GCC unroll 8
    for (int c = 0; c < n; c++) dot[c] = _mm512_add_epi32(dot[c], _mm512_mullo_epi32(acc[c], scale));
}

/* Q6_K: 32 inputs with a scale per 16; start: [2][width]. */
LUTRA_INLINE void add_group16(
    const struct tile *t, int g, const uint8_t *x, const uint8_t *start, size_t width, int n, __m512i *dot)
{
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++, start += 4 * width) {
        __m512i acc[ACT_COLUMNS];
        __m512i scale = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(t->scales + LANES * (2 * g + h))));
        for (int c = 0; c < n; c++) acc[c] = broadcast(start + 4 * c);
#pragma GCC unroll 4
        for (int v = 4 * h; v < 4 * h + 4; v++, x += 4 * width) {
            __m512i w = load_codes(SIX_BITS, t, g, v);
#pragma GCC unroll 8
            for (int c = 0; c < n; c++) acc[c] = _mm512_dpbusd_epi32(acc[c], w, broadcast(x + 4 * c));
        }
#pragma GCC unroll 8
        for (int c = 0; c < n; c++) dot[c] = _mm512_add_epi32(dot[c], _mm512_mullo_epi32(acc[c], scale));
    }
}

LUTRA_INLINE void add_group_ternary(const struct tile *t, int g, const uint8_t *x, size_t width, int n, __m512i *dot)
{
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++, x += 4 * width) {
        __m512i w = load_codes(TWO_BITS, t, g, v);
#pragma GCC unroll 8
        for (int c = 0; c < n; c++) dot[c] = _mm512_dpbusd_epi32(dot[c], w, broadcast(x + 4 * c));
    }
}

/* The minima of a tile, times the inputs' sums; sums: i16 pairs [4][width]. */
LUTRA_INLINE void subtract_minima(
    const struct tile *t, const uint8_t *sums, const uint8_t *scale_x, size_t width, int n, __m512 *sum)
{
    __m512i min[ACT_COLUMNS];
    for (int c = 0; c < n; c++) min[c] = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++, sums += 4 * width) {
        __m512i pair =
            _mm512_or_si512(load_six_bits(t, 2 * p, 1), _mm512_slli_epi32(load_six_bits(t, 2 * p + 1, 1), 16));
#pragma GCC unroll 8
        for (int c = 0; c < n; c++) min[c] = _mm512_dpwssd_epi32(min[c], pair, broadcast(sums + 4 * c));
    }
    __m512 dmin = load_f16(t->dmin);
#pragma GCC unroll 8
    for (int c = 0; c < n; c++) {
        __m512 s = _mm512_mul_ps(dmin, _mm512_castsi512_ps(broadcast(scale_x + 4 * c)));
        sum[c] = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(min[c]), s, sum[c]);
    }
}

/* One tile for n columns; x: the columns' record. */
LUTRA_INLINE void add_tile(enum codes f, const uint8_t *w, const uint8_t *x, size_t width, int n, __m512 *sum)
{
    struct tile t = tile_at(f, w);
    const uint8_t *scale_x = x + 256 * width, *start = scale_x + 4 * width, *sums = start + 4 * width;
    const uint8_t *start16 = sums + 16 * width;
    __m512i dot[ACT_COLUMNS];
    for (int c = 0; c < n; c++) dot[c] = f == TWO_BITS ? broadcast(start + 4 * c) : _mm512_setzero_si512();
#pragma GCC unroll 1
    for (int g = 0; g < 8; g++, x += 32 * width) {
        if (f == TWO_BITS) {
            add_group_ternary(&t, g, x, width, n, dot);
        } else if (f == SIX_BITS) {
            add_group16(&t, g, x, start16 + (size_t)g * 8 * width, width, n, dot);
        } else {
            add_group32(f, &t, g, x, width, n, dot);
        }
    }
    __m512 d = load_f16(t.d);
#pragma GCC unroll 8
    for (int c = 0; c < n; c++) {
        __m512 s = _mm512_mul_ps(d, _mm512_castsi512_ps(broadcast(scale_x + 4 * c)));
        sum[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[c]), s, sum[c]);
    }
    if (f == FOUR_BITS || f == FIVE_BITS) subtract_minima(&t, sums, scale_x, width, n, sum);
}

LUTRA_INLINE void run_block(
    enum codes f, const struct cpu_gemm_args *a, const uint8_t *w, size_t panel, size_t row, int n)
{
    __m512 sum[ACT_COLUMNS];
    const uint8_t *x = (const uint8_t *)a->act + row * (a->n_in / TILE_K) * ACT256_BYTES;
    for (int c = 0; c < n; c++) sum[c] = _mm512_setzero_ps();
    for (size_t k = 0; k < a->n_in; k += TILE_K, w += tile_bytes(f), x += (size_t)n * ACT256_BYTES) {
        add_tile(f, w, x, (size_t)n, n, sum);
    }
    store_panel_avx512(a, panel, row, n, sum);
}

LUTRA_INLINE void run_all(enum codes f, const struct cpu_gemm_args *a)
{
    size_t panel_bytes = cpu_panel_bytes(a->gemm->type, a->n_in);
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS;
        for (size_t p = a->panel; p < a->panel + a->n_panel; p++) {
            const uint8_t *w = (const uint8_t *)a->packed + p * panel_bytes;
            for (size_t r = pass; r < end; r += ACT_COLUMNS) {
                switch (end - r) {
                case 1: run_block(f, a, w, p, r, 1); break;
                case 2: run_block(f, a, w, p, r, 2); break;
                case 3: run_block(f, a, w, p, r, 3); break;
                case 4: run_block(f, a, w, p, r, 4); break;
                case 5: run_block(f, a, w, p, r, 5); break;
                case 6: run_block(f, a, w, p, r, 6); break;
                case 7: run_block(f, a, w, p, r, 7); break;
                default: run_block(f, a, w, p, r, 8); break;
                }
            }
        }
    }
}

static void run_q4_k(const struct cpu_gemm_args *a)
{
    run_all(FOUR_BITS, a);
}

static void run_q5_k(const struct cpu_gemm_args *a)
{
    run_all(FIVE_BITS, a);
}

static void run_q6_k(const struct cpu_gemm_args *a)
{
    run_all(SIX_BITS, a);
}

static void run_ternary(const struct cpu_gemm_args *a)
{
    run_all(TWO_BITS, a);
}

void cpu_gemm_init_super_avx512(struct cpu_kernels *k)
{
    k->gemm[QUANT_Q4_K] = cpu_gemm_i8x256(QUANT_Q4_K, "gemm_q4_k_q8x256_16x8_avx512", run_q4_k);
    k->gemm[QUANT_Q5_K] = cpu_gemm_i8x256(QUANT_Q5_K, "gemm_q5_k_q8x256_16x8_avx512", run_q5_k);
    k->gemm[QUANT_Q6_K] = cpu_gemm_i8x256(QUANT_Q6_K, "gemm_q6_k_q8x256_16x8_avx512", run_q6_k);
    k->gemm[QUANT_TQ1_0] = cpu_gemm_i8x256(QUANT_TQ1_0, "gemm_tq1_0_q8x256_16x8_avx512", run_ternary);
    k->gemm[QUANT_TQ2_0] = cpu_gemm_i8x256(QUANT_TQ2_0, "gemm_tq2_0_q8x256_16x8_avx512", run_ternary);
}
