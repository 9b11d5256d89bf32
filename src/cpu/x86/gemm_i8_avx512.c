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
#include "cpu/x86/gemm_tile_avx512_impl.h"

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
    if (f.scales != E8M0_SCALE) return load_f16(d);
    /* 2^(e - 128): the exponent field e - 1, or a subnormal for e = 0 and 1. */
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)d));
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __m512i tiny = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2)), tiny));
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

LUTRA_INLINE size_t group_bytes(struct form f)
{
    return code_bytes(f) + scale_bytes(f) + (f.codes == FIVE_BITS ? STEP_BYTES : 0) +
           (f.scales == F16_SCALE_AND_MIN ? 32 : 0);
}

/* Group g of a tile at w. */
LUTRA_INLINE struct group group_at(struct form f, const uint8_t *w, size_t groups, size_t g)
{
    const uint8_t *bits = w + groups * code_bytes(f), *d = bits + (f.codes == FIVE_BITS ? groups * STEP_BYTES : 0);
    const uint8_t *m = d + groups * scale_bytes(f);
    return (struct group){w + g * code_bytes(f), bits + g * STEP_BYTES, d + g * scale_bytes(f), m + g * 32};
}

/* Weights are used where they lie. */
struct scratch {
    __m512i table;
};

LUTRA_INLINE void begin_tile(struct form f, struct scratch *s, const struct tile *t, int np)
{
    (void)t, (void)np;
    s->table =
        f.codes == TABLE ? code_table(f.scales == E8M0_SCALE ? QUANT_MXFP4 : QUANT_IQ4_NL) : _mm512_setzero_si512();
}

/* acc = what the integer sums start from. */
LUTRA_INLINE void start_group(struct form f, const uint8_t *start, int np, int n, __m512i acc[PANELS][COLUMNS])
{
    UNROLL
    for (int c = 0; c < n; c++) {
        __m512i s = _mm512_setzero_si512();
        if (f.start_shift >= 0) s = _mm512_slli_epi32(broadcast(start + 4 * c), (unsigned)f.start_shift);
        UNROLL
        for (int p = 0; p < np; p++) acc[p][c] = s;
    }
}

/* sum += acc, scaled; tail: scales, starts and sums of the record. */
LUTRA_INLINE void finish_group(struct form f, const struct group *g, const uint8_t *tail, size_t width, int n,
    const __m512i acc[COLUMNS], __m512 sum[COLUMNS])
{
    __m512 scale = load_scale(f, g->d);
    UNROLL
    for (int c = 0; c < n; c++) {
        __m512 s = _mm512_mul_ps(scale, broadcast_f32(tail + 4 * c));
        sum[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[c]), s, sum[c]);
    }
    if (f.scales != F16_SCALE_AND_MIN) return;
    __m512 min = load_f16(g->m);
    UNROLL
    for (int c = 0; c < n; c++) sum[c] = _mm512_fmadd_ps(min, broadcast_f32(tail + 8 * width + 4 * c), sum[c]);
}

LUTRA_INLINE void run_tile(
    struct form f, const struct scratch *scratch, const struct tile *t, int np, int n, __m512 out[PANELS][COLUMNS])
{
    __m512 sum[PANELS][COLUMNS];
    const uint8_t *x = t->x;
    size_t width = t->width;
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int c = 0; c < n; c++) sum[p][c] = out[p][c];
    }
    for (size_t g = 0; g < t->groups; g++) {
        __m512i acc[PANELS][COLUMNS];
        struct group group[PANELS];
        UNROLL
        for (int p = 0; p < np; p++) group[p] = group_at(f, t->w + (size_t)p * t->panel_bytes, t->groups, g);
        prefetch_group(t, g, group_bytes(f), np);
        start_group(f, x + 36 * width, np, n, acc);
        UNROLL
        for (int v = 0; v < 8; v++, x += 4 * width) {
            __m512i w[PANELS];
            UNROLL
            for (int p = 0; p < np; p++) w[p] = load_codes(f, &group[p], v, scratch->table);
            UNROLL
            for (int c = 0; c < n; c++) {
                __m512i b = broadcast(x + 4 * c);
                UNROLL
                for (int p = 0; p < np; p++) acc[p][c] = _mm512_dpbusd_epi32(acc[p][c], w[p], b);
            }
        }
        UNROLL
        for (int p = 0; p < np; p++) finish_group(f, &group[p], x, width, n, acc[p], sum[p]);
        x += (ACT32_BYTES - 32) * width;
    }
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int c = 0; c < n; c++) out[p][c] = sum[p][c];
    }
}

enum { RECORD_BYTES = 8 * ACT32_BYTES };

#include "cpu/x86/gemm_panels_avx512_impl.h"

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
