/* SPDX-License-Identifier: MIT
 *
 * AVX-512 VNNI matmul of the formats with 32-element blocks: one f32 scale per 32 weights, activations q8x32.
 *
 * A zmm lane is an output row.  Per group of 32 inputs: 8 exact integer dot-product steps from start = -offset *
 * sum(x), then sum = fma(float(dot), scale_w * scale_x, sum), and for formats with a minimum sum = fma(m, scale_x *
 * sum(x), sum).  Groups ascend, one accumulator per output: the same bits for any number of columns.
 */
#include <immintrin.h>

#include "base/compiler.h"
#include "cpu/layout.h"
#include "cpu/x86/gemm_x86_impl.h"

enum { STEP_BYTES = 64 };

/* What differs between formats; always a compile-time constant of an inlined call. */
enum codes { NIBBLES, TABLE, FIVE_BITS, BYTES };
enum scales { F16_SCALE, F16_SCALE_AND_MIN, E8M0_SCALE };

struct form {
    enum codes codes;
    enum scales scales;
    int start_shift; /* start = stored start << this: offset 8 << shift; -1: no offset */
};

struct group {
    const uint8_t *code, *bits, *d, *m; /* of one group */
};

LUTRA_INLINE __m512i code_table(enum quant_type type)
{
    /* IQ4_NL: value + 128; MXFP4: value + 16. */
    const __m128i iq4_nl = _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, (char)129, (char)141, (char)153, (char)166,
        (char)181, (char)197, (char)217, (char)241);
    const __m128i mxfp4 = _mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4);
    return _mm512_broadcast_i32x4(type == QUANT_MXFP4 ? mxfp4 : iq4_nl);
}

/* The codes of step v (inputs 4v .. 4v+3 of the group) of 16 rows, as unsigned bytes. */
LUTRA_INLINE __m512i load_codes(struct form f, const struct group *g, int v, __m512i table)
{
    const __m512i low = _mm512_set1_epi8(15);
    if (f.codes == BYTES) return _mm512_loadu_si512(g->code + STEP_BYTES * v);
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

LUTRA_INLINE __m512 load_scale(struct form f, const uint8_t *d)
{
    if (f.scales != E8M0_SCALE) return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)d));
    /* 2^(e - 128): the exponent field e - 1, or a subnormal for e = 0 and 1. */
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)d));
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __m512i tiny = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2)), tiny));
}

LUTRA_INLINE __m512i broadcast(const uint8_t *p)
{
    return _mm512_set1_epi32(*(const int *)(const void *)p);
}

LUTRA_INLINE __m512 broadcast_f32(const uint8_t *p)
{
    return _mm512_set1_ps(*(const float *)(const void *)p);
}

/* One group for n columns; x: the columns' record, width columns in it. */
LUTRA_INLINE void add_group(
    struct form f, const struct group *g, const uint8_t *x, size_t width, int n, __m512i table, __m512 *sum)
{
    __m512i acc[ACT_COLUMNS];
    const uint8_t *tail = x + 32 * width, *start = tail + 4 * width;
#pragma GCC unroll 8
    for (int c = 0; c < n; c++) {
        acc[c] = f.start_shift < 0 ? _mm512_setzero_si512()
                                   : _mm512_slli_epi32(broadcast(start + 4 * c), (unsigned)f.start_shift);
    }
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++, x += 4 * width) {
        __m512i w = load_codes(f, g, v, table);
#pragma GCC unroll 8
        for (int c = 0; c < n; c++) acc[c] = _mm512_dpbusd_epi32(acc[c], w, broadcast(x + 4 * c));
    }
    __m512 scale = load_scale(f, g->d);
#pragma GCC unroll 8
    for (int c = 0; c < n; c++) {
        sum[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[c]), _mm512_mul_ps(scale, broadcast_f32(tail + 4 * c)), sum[c]);
    }
    if (f.scales != F16_SCALE_AND_MIN) return;
    __m512 min = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)g->m));
#pragma GCC unroll 8
    for (int c = 0; c < n; c++) sum[c] = _mm512_fmadd_ps(min, broadcast_f32(start + 4 * width + 4 * c), sum[c]);
}

/* Bytes of one group's part of each section. */
LUTRA_INLINE size_t code_bytes(struct form f)
{
    return f.codes == BYTES ? 512 : 256;
}

LUTRA_INLINE size_t scale_bytes(struct form f)
{
    return f.scales == E8M0_SCALE ? 16 : 32;
}

/* All inputs of one panel for n columns of a block `width` wide. */
LUTRA_INLINE void run_panel(
    struct form f, const uint8_t *w, size_t n_in, const uint8_t *x, size_t width, int n, __m512i table, __m512 *sum)
{
    for (int c = 0; c < n; c++) sum[c] = _mm512_setzero_ps();
    for (size_t left = n_in / 32; left > 0;) {
        size_t groups = left < 8 ? left : 8;
        struct group g = {.code = w};
        g.bits = g.code + groups * code_bytes(f);
        g.d = g.bits + (f.codes == FIVE_BITS ? groups * STEP_BYTES : 0);
        g.m = g.d + groups * scale_bytes(f);
        w = g.m + (f.scales == F16_SCALE_AND_MIN ? groups * 32 : 0);
        left -= groups;
        for (; groups > 0; groups--) {
            add_group(f, &g, x, width, n, table, sum);
            x += ACT32_BYTES * width;
            g.code += code_bytes(f);
            g.bits += STEP_BYTES;
            g.d += scale_bytes(f);
            g.m += 32;
        }
    }
}

/* One panel against one block of columns. */
LUTRA_INLINE void run_block(struct form f, const struct cpu_gemm_args *a, const uint8_t *w, size_t panel, size_t row,
    const uint8_t *x, int n, __m512i table)
{
    __m512 sum[ACT_COLUMNS];
    run_panel(f, w, a->n_in, x, (size_t)n, n, table, sum);
    store_panel_avx512(a, panel, row, n, sum);
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    size_t panel_bytes = cpu_panel_bytes(a->gemm->type, a->n_in), row_bytes = a->n_in / 32 * ACT32_BYTES;
    __m512i table = code_table(a->gemm->type);
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS;
        for (size_t p = a->panel; p < a->panel + a->n_panel; p++) {
            const uint8_t *w = (const uint8_t *)a->packed + p * panel_bytes;
            for (size_t r = pass; r < end; r += ACT_COLUMNS) {
                const uint8_t *x = (const uint8_t *)a->act + r * row_bytes;
                switch (end - r) {
                case 1: run_block(f, a, w, p, r, x, 1, table); break;
                case 2: run_block(f, a, w, p, r, x, 2, table); break;
                case 3: run_block(f, a, w, p, r, x, 3, table); break;
                case 4: run_block(f, a, w, p, r, x, 4, table); break;
                case 5: run_block(f, a, w, p, r, x, 5, table); break;
                case 6: run_block(f, a, w, p, r, x, 6, table); break;
                case 7: run_block(f, a, w, p, r, x, 7, table); break;
                default: run_block(f, a, w, p, r, x, 8, table); break;
                }
            }
        }
    }
}

static void run_q4_0(const struct cpu_gemm_args *a)
{
    run_all((struct form){NIBBLES, F16_SCALE, 0}, a);
}

static void run_q4_1(const struct cpu_gemm_args *a)
{
    run_all((struct form){NIBBLES, F16_SCALE_AND_MIN, -1}, a);
}

static void run_q5_0(const struct cpu_gemm_args *a)
{
    run_all((struct form){FIVE_BITS, F16_SCALE, 1}, a);
}

static void run_q5_1(const struct cpu_gemm_args *a)
{
    run_all((struct form){FIVE_BITS, F16_SCALE_AND_MIN, -1}, a);
}

static void run_q8_0(const struct cpu_gemm_args *a)
{
    run_all((struct form){BYTES, F16_SCALE, 4}, a);
}

static void run_iq4_nl(const struct cpu_gemm_args *a)
{
    run_all((struct form){TABLE, F16_SCALE, 4}, a);
}

static void run_mxfp4(const struct cpu_gemm_args *a)
{
    run_all((struct form){TABLE, E8M0_SCALE, 1}, a);
}

void cpu_gemm_init_i8_avx512(struct cpu_kernels *k)
{
    k->gemm[QUANT_Q4_0] = cpu_gemm_i8x32(QUANT_Q4_0, "gemm_q4_0_q8x32_16x8_avx512", run_q4_0);
    k->gemm[QUANT_Q4_1] = cpu_gemm_i8x32(QUANT_Q4_1, "gemm_q4_1_q8x32_16x8_avx512", run_q4_1);
    k->gemm[QUANT_Q5_0] = cpu_gemm_i8x32(QUANT_Q5_0, "gemm_q5_0_q8x32_16x8_avx512", run_q5_0);
    k->gemm[QUANT_Q5_1] = cpu_gemm_i8x32(QUANT_Q5_1, "gemm_q5_1_q8x32_16x8_avx512", run_q5_1);
    k->gemm[QUANT_Q8_0] = cpu_gemm_i8x32(QUANT_Q8_0, "gemm_q8_0_q8x32_16x8_avx512", run_q8_0);
    k->gemm[QUANT_IQ4_NL] = cpu_gemm_i8x32(QUANT_IQ4_NL, "gemm_iq4_nl_q8x32_16x8_avx512", run_iq4_nl);
    k->gemm[QUANT_MXFP4] = cpu_gemm_i8x32(QUANT_MXFP4, "gemm_mxfp4_q8x32_16x8_avx512", run_mxfp4);
}
