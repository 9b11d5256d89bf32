/* SPDX-License-Identifier: MIT
 *
 * AVX-512 VNNI matmul of the formats with 32-element blocks: one f32 scale per 32 weights, activations q8x32.
 *
 * A zmm lane is an output row.  Per group of 32 inputs: 8 exact integer dot-product steps from start = -offset *
 * sum(x), for formats with zeros times the output's, then sum = fma(float(dot), scale_w * scale_x, sum), and for
 * formats with a minimum sum = fma(m, scale_x * sum(x), sum).  Groups ascend, one accumulator per output: the same bits
 * for any number of columns.
 */
#include <immintrin.h>

#include "base/compiler.h"
#include "cpu/x86/gemm_i8_form_impl.h"

/* Few columns expand a tile's codes as they use them; from two full groups of columns on it is done once for these. */
enum { MANY = 2 };

/* One sum of products waits for the one before; two groups together keep both multipliers busy. */
enum { GROUPS_AT_ONCE = 2 };

struct scratch {
    __m512i table;
    bool expanded;
    LUTRA_ALIGNED(64) uint8_t code[PANELS][TILE_K / 4][STEP_BYTES];
};

LUTRA_INLINE void begin_call(struct form f, struct scratch *s)
{
    s->table = code_table(f);
}

LUTRA_INLINE void begin_tile(struct form f, struct scratch *s, const struct tile *t, int np)
{
    s->expanded = np <= PANELS && f.codes != BYTES && t->full >= MANY;
    for (size_t p = 0; s->expanded && p < (size_t)np; p++) {
        for (size_t g = 0; g < t->groups; g++) {
            struct group group = group_at(f, t->w + p * t->panel_bytes, t->groups, g);
            UNROLL
            for (int v = 0; v < 8; v++)
                _mm512_store_si512(s->code[p][8 * g + (size_t)v], load_codes(f, &group, v, s->table));
        }
    }
}

/* acc = what the integer sums start from; a stored start has 16 bits: 8 x 32 x 127. */
LUTRA_INLINE void start_group(
    struct form f, const uint8_t *start, const struct group *group, int np, int n, __m512i acc[MOST_PANELS][COLUMNS])
{
    __m512i zero[MOST_PANELS];
    UNROLL
    for (int p = 0; p < np; p++)
        zero[p] = f.scales == F16_SCALE_AND_ZERO ? load_zero(&group[p]) : _mm512_setzero_si512();
    UNROLL
    for (int c = 0; c < n; c++) {
        __m512i s = _mm512_setzero_si512();
        if (f.start_shift >= 0) s = _mm512_slli_epi32(broadcast(start + 4 * c), (unsigned)f.start_shift);
        UNROLL
        for (int p = 0; p < np; p++) acc[p][c] = f.scales == F16_SCALE_AND_ZERO ? _mm512_madd_epi16(zero[p], s) : s;
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

/* Groups g .. g + many - 1 of a tile, step by step together; x: their first record. */
LUTRA_INLINE void add_groups(struct form f, const struct scratch *scratch, const struct tile *t, size_t g,
    const int many, const uint8_t *x, int np, int n, const bool expanded, __m512 sum[MOST_PANELS][COLUMNS])
{
    __m512i acc[GROUPS_AT_ONCE][MOST_PANELS][COLUMNS];
    struct group group[GROUPS_AT_ONCE][MOST_PANELS];
    const size_t width = t->width, record = ACT32_BYTES * width;
    UNROLL
    for (int h = 0; h < many; h++) {
        UNROLL
        for (int p = 0; p < np; p++)
            group[h][p] = group_at(f, t->w + (size_t)p * t->panel_bytes, t->groups, g + (size_t)h);
        start_group(f, x + (size_t)h * record + 36 * width, group[h], np, n, acc[h]);
    }
    UNROLL
    for (int v = 0; v < 8; v++) {
        UNROLL
        for (int h = 0; h < many; h++) {
            __m512i w[MOST_PANELS];
            prefetch_line(t, g + (size_t)h, (size_t)v, group_bytes(f), np);
            if (v == 7) prefetch_line(t, g + (size_t)h, 8, group_bytes(f), np);
            UNROLL
            for (int p = 0; p < np; p++) {
                w[p] = expanded ? _mm512_load_si512(scratch->code[p][8 * (g + (size_t)h) + (size_t)v])
                                : load_codes(f, &group[h][p], v, scratch->table);
            }
            UNROLL
            for (int c = 0; c < n; c++) {
                __m512i b = broadcast(x + (size_t)h * record + 4 * (size_t)v * width + 4 * c);
                UNROLL
                for (int p = 0; p < np; p++) acc[h][p][c] = _mm512_dpbusd_epi32(acc[h][p][c], w[p], b);
            }
        }
    }
    UNROLL
    for (int h = 0; h < many; h++) {
        UNROLL
        for (int p = 0; p < np; p++)
            finish_group(f, &group[h][p], x + (size_t)h * record + 32 * width, width, n, acc[h][p], sum[p]);
    }
}

LUTRA_INLINE void run_codes(struct form f, const struct scratch *scratch, const struct tile *t, int np, int n,
    const bool expanded, __m512 out[MOST_PANELS][COLUMNS])
{
    __m512 sum[MOST_PANELS][COLUMNS];
    const uint8_t *x = t->x;
    const size_t record = ACT32_BYTES * t->width;
    size_t g = 0;
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int c = 0; c < n; c++) sum[p][c] = out[p][c];
    }
    if (expanded) {
        for (; g + GROUPS_AT_ONCE <= t->groups; g += GROUPS_AT_ONCE, x += GROUPS_AT_ONCE * record)
            add_groups(f, scratch, t, g, GROUPS_AT_ONCE, x, np, n, expanded, sum);
    }
    for (; g < t->groups; g++, x += record) add_groups(f, scratch, t, g, 1, x, np, n, expanded, sum);
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int c = 0; c < n; c++) out[p][c] = sum[p][c];
    }
}

LUTRA_INLINE void run_tile(
    struct form f, const struct scratch *scratch, const struct tile *t, int np, int n, __m512 out[MOST_PANELS][COLUMNS])
{
    if (f.codes != BYTES && n == COLUMNS && scratch->expanded) {
        run_codes(f, scratch, t, np, n, true, out);
    } else {
        run_codes(f, scratch, t, np, n, false, out);
    }
}

enum { RECORD_BYTES = 8 * ACT32_BYTES, FEW_COLUMNS = 2 };

#include "cpu/x86/gemm_panels_avx512_tmpl.h"
#include "cpu/gemm_i8_runs_tmpl.h"

#include "cpu/gemm_i8_low_runs_tmpl.h"

void cpu_gemm_init_i8_avx512(struct cpu_kernels *k)
{
    FILL_I8X32(set_i8x32, k, "32x4_avx512");
    FILL_I8X32_LOW(set_i8x32, k, "32x4_avx512");
}
