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

/* The tile: 32 rows (two panels) x 4 columns; a broadcast of 4 inputs serves two dot products. */
enum { STEP_BYTES = 64, PANELS = 2, COLUMNS = 4, PREFETCH_BYTES = 2048 };

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

/* The same group of up to two panels, panel_bytes apart. */
LUTRA_INLINE struct group group_of(const struct group *g, size_t panel_bytes, int panel)
{
    size_t at = panel ? panel_bytes : 0;
    return (struct group){g->code + at, g->bits + at, g->d + at, g->m + at};
}

/* One group of np panels for n columns of a block `width` wide, the first at x. */
LUTRA_INLINE void add_group(struct form f, const struct group *g, size_t panel_bytes, const uint8_t *x, size_t width,
    int np, int n, __m512i table, __m512 sum[PANELS][COLUMNS])
{
    __m512i acc[PANELS][COLUMNS];
    const uint8_t *tail = x + 32 * width, *start = tail + 4 * width;
#pragma GCC unroll 8
    for (int c = 0; c < n; c++) {
        acc[0][c] = _mm512_setzero_si512();
        if (f.start_shift >= 0) acc[0][c] = _mm512_slli_epi32(broadcast(start + 4 * c), (unsigned)f.start_shift);
        if (np > 1) acc[1][c] = acc[0][c];
    }
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++, x += 4 * width) {
        __m512i w[PANELS];
#pragma GCC unroll 2
        for (int p = 0; p < np; p++) {
            struct group at = group_of(g, panel_bytes, p);
            w[p] = load_codes(f, &at, v, table);
        }
#pragma GCC unroll 8
        for (int c = 0; c < n; c++) {
            __m512i b = broadcast(x + 4 * c);
#pragma GCC unroll 2
            for (int p = 0; p < np; p++) acc[p][c] = _mm512_dpbusd_epi32(acc[p][c], w[p], b);
        }
    }
#pragma GCC unroll 2
    for (int p = 0; p < np; p++) {
        struct group at = group_of(g, panel_bytes, p);
        __m512 scale = load_scale(f, at.d);
#pragma GCC unroll 8
        for (int c = 0; c < n; c++) {
            __m512 s = _mm512_mul_ps(scale, broadcast_f32(tail + 4 * c));
            sum[p][c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[p][c]), s, sum[p][c]);
        }
        if (f.scales != F16_SCALE_AND_MIN) continue;
        __m512 min = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)at.m));
#pragma GCC unroll 8
        for (int c = 0; c < n; c++) {
            sum[p][c] = _mm512_fmadd_ps(min, broadcast_f32(start + 4 * width + 4 * c), sum[p][c]);
        }
    }
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

/* Asks for what this group's place will hold PREFETCH_BYTES further on. */
LUTRA_INLINE void prefetch_group(struct form f, const struct group *g, size_t panel_bytes, int np)
{
    for (int p = 0; p < np; p++) {
        const uint8_t *at = group_of(g, panel_bytes, p).code + PREFETCH_BYTES;
#pragma GCC unroll 8
        for (size_t i = 0; i < code_bytes(f); i += 64) LUTRA_PREFETCH(at + i);
    }
}

/* np panels against n of the columns of a block, rows row .. row + n - 1 of the batch. */
LUTRA_INLINE void run_block(struct form f, const struct cpu_gemm_args *a, size_t panel, int np, size_t row,
    const uint8_t *x, size_t width, int n, __m512i table)
{
    __m512 sum[PANELS][COLUMNS];
    size_t panel_bytes = cpu_panel_bytes(a->gemm->type, a->n_in);
    const uint8_t *w = (const uint8_t *)a->packed + panel * panel_bytes;
    for (int p = 0; p < np; p++) {
        for (int c = 0; c < n; c++) sum[p][c] = _mm512_setzero_ps();
    }
    for (size_t left = a->n_in / 32; left > 0;) {
        size_t groups = left < 8 ? left : 8;
        struct group g = {.code = w};
        g.bits = g.code + groups * code_bytes(f);
        g.d = g.bits + (f.codes == FIVE_BITS ? groups * STEP_BYTES : 0);
        g.m = g.d + groups * scale_bytes(f);
        w = g.m + (f.scales == F16_SCALE_AND_MIN ? groups * 32 : 0);
        left -= groups;
        for (; groups > 0; groups--) {
            prefetch_group(f, &g, panel_bytes, np);
            add_group(f, &g, panel_bytes, x, width, np, n, table, sum);
            x += ACT32_BYTES * width;
            g.code += code_bytes(f);
            g.bits += STEP_BYTES;
            g.d += scale_bytes(f);
            g.m += 32;
        }
    }
    for (int p = 0; p < np; p++) store_panel_avx512(a, panel + (size_t)p, row, n, sum[p]);
}

/* np panels against rows first .. end - 1. */
LUTRA_INLINE void run_columns(
    struct form f, const struct cpu_gemm_args *a, size_t panel, int np, size_t first, size_t end, __m512i table)
{
    size_t row_bytes = a->n_in / 32 * ACT32_BYTES;
    for (size_t r = first; r < end; r += COLUMNS) {
        struct act_place place = act_place_of(r, a->n_row);
        const uint8_t *x = (const uint8_t *)a->act + (r - place.column) * row_bytes + 4 * place.column;
        switch (end - r) {
        case 1: run_block(f, a, panel, np, r, x, place.width, 1, table); break;
        case 2: run_block(f, a, panel, np, r, x, place.width, 2, table); break;
        case 3: run_block(f, a, panel, np, r, x, place.width, 3, table); break;
        default: run_block(f, a, panel, np, r, x, place.width, 4, table); break;
        }
    }
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    size_t last = a->panel + a->n_panel;
    __m512i table = code_table(a->gemm->type);
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS, p = a->panel;
        for (; p + 2 <= last; p += 2) run_columns(f, a, p, 2, pass, end, table);
        if (p < last) run_columns(f, a, p, 1, pass, end, table);
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
    k->gemm[QUANT_Q4_0] = cpu_gemm_i8x32(QUANT_Q4_0, "gemm_q4_0_q8x32_32x4_avx512", run_q4_0);
    k->gemm[QUANT_Q4_1] = cpu_gemm_i8x32(QUANT_Q4_1, "gemm_q4_1_q8x32_32x4_avx512", run_q4_1);
    k->gemm[QUANT_Q5_0] = cpu_gemm_i8x32(QUANT_Q5_0, "gemm_q5_0_q8x32_32x4_avx512", run_q5_0);
    k->gemm[QUANT_Q5_1] = cpu_gemm_i8x32(QUANT_Q5_1, "gemm_q5_1_q8x32_32x4_avx512", run_q5_1);
    k->gemm[QUANT_Q8_0] = cpu_gemm_i8x32(QUANT_Q8_0, "gemm_q8_0_q8x32_32x4_avx512", run_q8_0);
    k->gemm[QUANT_IQ4_NL] = cpu_gemm_i8x32(QUANT_IQ4_NL, "gemm_iq4_nl_q8x32_32x4_avx512", run_iq4_nl);
    k->gemm[QUANT_MXFP4] = cpu_gemm_i8x32(QUANT_MXFP4, "gemm_mxfp4_q8x32_32x4_avx512", run_mxfp4);
}
