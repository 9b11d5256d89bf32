/* SPDX-License-Identifier: MIT
 *
 * AVX-512 VNNI matmul of the formats with 256-element blocks: K-quants and ternary, activations q8x256.
 *
 * A zmm lane is an output row.  Per 256 inputs everything is exact in 32-bit integers: the dot product of each group,
 * times its integer scale, and the minima times the sums of the inputs (at most 63 * 127 * 128 * 256 < 2^31).  Then
 * sum = fma(float(dot), d * scale_x, sum) and, for formats with minima, sum = fma(-float(min), dmin * scale_x, sum).
 * A tile's codes and scales are unpacked to L1 once for all columns, Q2_K's codes times their scales; up to 4 columns
 * expand codes as they use them.
 */
#include "cpu/x86/gemm_super_form_impl.h"

struct scratch {
    struct unpacked panel[MOST_PANELS];
};

LUTRA_INLINE void begin_call(struct form f, struct scratch *s)
{
    (void)f, (void)s;
}

LUTRA_INLINE void begin_tile(struct form f, struct scratch *s, const struct tile *t, int np)
{
    for (int p = 0; p < np; p++) {
        const uint8_t *w = t->w + (size_t)p * t->panel_bytes;
        const bool once = t->shares > 1;
        if (once && has_scaled_codes(f)) {
            unpack_scaled(f, &s->panel[p], w);
            continue;
        }
        if (once) unpack_codes(f, &s->panel[p], w);
        unpack_scales(f, &s->panel[p], w);
    }
}

/* acc += codes q * inputs, one step. */
LUTRA_INLINE void add_step(
    const __m512i code[MOST_PANELS][4], int q, const uint8_t *x, int np, int n, __m512i acc[MOST_PANELS][COLUMNS])
{
    UNROLL
    for (int c = 0; c < n; c++) {
        __m512i b = broadcast(x + 4 * c);
        UNROLL
        for (int p = 0; p < np; p++) acc[p][c] = _mm512_dpbusd_epi32(acc[p][c], code[p][q], b);
    }
}

LUTRA_INLINE void clear(int np, int n, __m512i acc[MOST_PANELS][COLUMNS])
{
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int c = 0; c < n; c++) acc[p][c] = _mm512_setzero_si512();
    }
}

/* dot += acc */
LUTRA_INLINE void add_sums(int np, int n, const __m512i acc[MOST_PANELS][COLUMNS], __m512i dot[MOST_PANELS][COLUMNS])
{
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int c = 0; c < n; c++) dot[p][c] = _mm512_add_epi32(dot[p][c], acc[p][c]);
    }
}

/* What the integer sums of a tile start from. */
LUTRA_INLINE void start_tile(struct form f, const struct tile *t, int np, int n, __m512i dot[MOST_PANELS][COLUMNS])
{
    UNROLL
    for (int c = 0; c < n; c++) {
        const uint8_t *start = t->x + 260 * t->width + 4 * c;
        UNROLL
        for (int p = 0; p < np; p++) dot[p][c] = f.scales == NO_SCALES ? broadcast(start) : _mm512_setzero_si512();
    }
}

/* What those of `many` groups from g on start from, whose codes are times 1 << shift. */
LUTRA_INLINE void start_group(
    struct form f, const struct tile *t, int g, int many, int shift, int np, int n, __m512i acc[MOST_PANELS][COLUMNS])
{
    UNROLL
    for (int c = 0; c < n; c++) {
        __m512i start = _mm512_setzero_si512();
        if (has_offset(f)) {
            const int up = start_shift(f) + shift;
            const uint8_t *starts = t->x + (280 + 4 * (size_t)g) * t->width + 4 * c;
            start = broadcast(starts);
            if (many == 2) start = _mm512_add_epi32(start, broadcast(starts + 4 * t->width));
            start = up < 0 ? _mm512_srai_epi32(start, (unsigned)-up) : _mm512_slli_epi32(start, (unsigned)up);
        }
        UNROLL
        for (int p = 0; p < np; p++) acc[p][c] = start;
    }
}

/* dot += acc, which has codes times 1 << shift, scaled. */
LUTRA_INLINE void finish_group(struct form f, const struct scratch *s, int g, int shift, int np, int n,
    const __m512i acc[MOST_PANELS][COLUMNS], __m512i dot[MOST_PANELS][COLUMNS])
{
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int c = 0; c < n; c++) {
            __m512i a = shift ? _mm512_srai_epi32(acc[p][c], (unsigned)shift) : acc[p][c];
            if (fits_half(f)) {
                dot[p][c] = _mm512_dpwssd_epi32(dot[p][c], a, s->panel[p].scale[g]);
                continue;
            }
            if (f.scales != NO_SCALES) a = _mm512_mullo_epi32(a, s->panel[p].scale[g]);
            dot[p][c] = _mm512_add_epi32(dot[p][c], a);
        }
    }
}

LUTRA_INLINE void subtract_all_minima(
    struct form f, const struct scratch *s, const struct tile *t, int np, int n, __m512 sum[MOST_PANELS][COLUMNS])
{
    const uint8_t *scale_x = t->x + 256 * t->width;
    UNROLL
    for (int p = 0; p < np; p++) {
        const struct unpacked *u = &s->panel[p];
        if (f.scales == BOTH_6) subtract_minima(u, 4, scale_x + 8 * t->width, scale_x, t->width, n, sum[p]);
        if (f.scales == BOTH_4) subtract_minima(u, 8, scale_x + 88 * t->width, scale_x, t->width, n, sum[p]);
    }
}

/* Inlined, gcc 12 loads these minima before the codes and keeps the integer sums in memory: half the speed. */
static LUTRA_NOINLINE void subtract_apart(
    struct form f, const struct scratch *s, const struct tile *t, int np, int n, __m512 sum[MOST_PANELS][COLUMNS])
{
    subtract_all_minima(f, s, t, np, n, sum);
}

/* sum += dot, scaled, less the minima. */
LUTRA_INLINE void finish_tile(struct form f, const struct scratch *s, const struct tile *t, int np, int n,
    const __m512i dot[MOST_PANELS][COLUMNS], __m512 sum[MOST_PANELS][COLUMNS])
{
    const uint8_t *scale_x = t->x + 256 * t->width;
    UNROLL
    for (int p = 0; p < np; p++) {
        const struct unpacked *u = &s->panel[p];
        UNROLL
        for (int c = 0; c < n; c++) {
            __m512 scale = _mm512_mul_ps(u->d, broadcast_f32(scale_x + 4 * c));
            sum[p][c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[p][c]), scale, sum[p][c]);
        }
    }
    if (f.scales == BOTH_4 || (f.scales == BOTH_6 && n == 1)) {
        subtract_apart(f, s, t, np, n, sum);
    } else if (has_minima(f)) {
        subtract_all_minima(f, s, t, np, n, sum);
    }
}

/* Groups with one scale that follow each other: both halves of IQ4_XS's. */
LUTRA_INLINE int groups_of_sum(struct form f)
{
    return f.codes == TABLE ? 2 : 1;
}

/* One tile for n columns, from codes in the scratch.  A sum of products waits for the one before, so there are two for
 * each output: of two groups, or without groups two chains. */
LUTRA_INLINE void run_unpacked(
    struct form f, const struct scratch *s, const struct tile *t, int np, int n, __m512 sum[MOST_PANELS][COLUMNS])
{
    __m512i dot[MOST_PANELS][COLUMNS], acc[2][MOST_PANELS][COLUMNS];
    const bool groups = f.scales != NO_SCALES && !has_scaled_codes(f);
    const int many = groups_of_sum(f), steps = many * group_steps(f), together = groups ? 2 * steps : 8;
    const uint8_t *x = t->x;
    start_tile(f, t, np, n, dot);
    if (!groups) clear(np, n, acc[1]);
    for (int i = 0; i < 64; i += together, x += 4 * (size_t)together * t->width) {
        const int group[2] = {i / group_steps(f), i / group_steps(f) + many};
        UNROLL
        for (int g = 0; g < together / 8; g++) prefetch_group(t, (size_t)(i / 8 + g), group_bytes(f), np);
        UNROLL
        for (int h = 0; h < 2 && groups; h++) start_group(f, t, group[h], many, 0, np, n, acc[h]);
        UNROLL
        for (int v = 0; v < together; v++) {
            const int step = groups ? v % 2 * steps + v / 2 : v;
            __m512i code[MOST_PANELS][4];
            UNROLL
            for (int p = 0; p < np; p++) {
                code[p][0] = s->panel[p].code[i + step];
                COMPILER_UNKNOWN_VECTOR(code[p][0]); /* loaded once, not once for each column */
            }
            add_step(code, 0, x + 4 * (size_t)step * t->width, np, n, groups || v % 2 ? acc[v % 2] : dot);
        }
        UNROLL
        for (int h = 0; h < 2 && groups; h++) finish_group(f, s, group[h], 0, np, n, acc[h], dot);
    }
    if (!groups) add_sums(np, n, acc[1], dot);
    finish_tile(f, s, t, np, n, dot, sum);
}

/* Prefetches what belongs to step i of run r, evenly: a burst would wait for line-fill buffers. */
LUTRA_INLINE void prefetch_step(struct form f, const struct tile *t, int r, int i, int np)
{
    const int runs = 8 / vector_codes(f), steps = 64 / runs;
    const int bytes = (int)group_bytes(f) * 8 / runs, lines = (bytes + 63) / 64;
    UNROLL
    for (int k = i * lines / steps; k < (i + 1) * lines / steps; k++) {
        UNROLL
        for (int p = 0; p < np; p++) compiler_prefetch_here(t->ahead + r * bytes + 64 * k + (size_t)p * t->panel_bytes);
    }
}

/* The same from codes as they are packed, for a single group of columns: all codes of a vector at once if registers
 * allow. */
LUTRA_INLINE void run_packed(
    struct form f, const struct scratch *s, const struct tile *t, int np, int n, __m512 sum[MOST_PANELS][COLUMNS])
{
    const int steps = group_steps(f), codes = vector_codes(f);
    const int at_once = f.scales == NO_SCALES || np * n <= 2 ? codes : np * n <= 4 ? 2 : 1;
    const int sets = f.scales == NO_SCALES ? 2 : at_once;
    __m512i dot[MOST_PANELS][COLUMNS], acc[4][MOST_PANELS][COLUMNS];
    start_tile(f, t, np, n, dot);
    for (int r = 0; r < 8 / codes; r++) {
        UNROLL
        for (int i = 0; i < 8 * codes / at_once; i += steps) {
            int first = i % 8, q0 = i / 8 * at_once;
            UNROLL
            for (int q = 0; q < sets; q++)
                start_group(f, t, step_of(f, r, first, q0 + q) / steps, 1, code_shift(f, q0 + q), np, n, acc[q]);
            UNROLL
            for (int v = 0; v < steps; v++) {
                __m512i code[MOST_PANELS][4];
                UNROLL
                for (int p = 0; p < np; p++) expand(f, t->w + (size_t)p * t->panel_bytes, r, first + v, false, code[p]);
                UNROLL
                for (int q = q0; q < q0 + at_once; q++) {
                    prefetch_step(f, t, r, at_once * (i + v) + q - q0, np);
                    add_step(code, q, t->x + (size_t)step_of(f, r, first + v, q) * 4 * t->width, np, n, acc[q % sets]);
                }
            }
            UNROLL
            for (int q = 0; q < sets; q++)
                finish_group(f, s, step_of(f, r, first, q0 + q) / steps, code_shift(f, q0 + q), np, n, acc[q], dot);
        }
    }
    finish_tile(f, s, t, np, n, dot, sum);
}

LUTRA_INLINE void run_tile(
    struct form f, const struct scratch *s, const struct tile *t, int np, int n, __m512 sum[MOST_PANELS][COLUMNS])
{
    if (t->shares > 1) {
        run_unpacked(f, s, t, np, n, sum);
    } else {
        const struct tile own = own_columns(t, n);
        run_packed(f, s, &own, np, n, sum);
    }
}

enum { RECORD_BYTES = ACT256_BYTES, FEW_COLUMNS = 0 };

#include "cpu/x86/gemm_panels_avx512_tmpl.h"

#include "cpu/gemm_super_runs_tmpl.h"

#include "cpu/gemm_super_low_runs_tmpl.h"

void cpu_gemm_init_super_avx512(struct cpu_kernels *k)
{
    FILL_I8X256(set_i8x256, k, "32x4_avx512");
    FILL_I8X256_LOW(set_i8x256, k, "32x4_avx512");
}
