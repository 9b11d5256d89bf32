/* SPDX-License-Identifier: MIT
 *
 * AVX-512 VNNI matmul of the formats with codebooks: class i8x256, the loops of gemm_panels_avx512_tmpl.h.
 */
#include "cpu/x86/gemm_book_form_avx512_impl.h"

/* Panels as they are read. */
struct scratch {
    struct tables tables;
    struct {
        LUTRA_ALIGNED(64) uint8_t code[STEPS][64];
        __m512i scale[16];
        __m512 d;
    } panel[MOST_PANELS];
};

LUTRA_INLINE size_t group_bytes(struct form f)
{
    return tile_bytes(f) / 8;
}

LUTRA_INLINE void begin_call(struct form f, struct scratch *s)
{
    make_tables(f, &s->tables);
}

/* Prefetches what belongs to group g of a panel. */
LUTRA_INLINE void prefetch_of(struct form f, const uint8_t *ahead, size_t g)
{
    const size_t lines = (tile_bytes(f) + 63) / 64;
    for (size_t i = g * lines / 8; i < (g + 1) * lines / 8; i++) LUTRA_PREFETCH(ahead + 64 * i);
}

/* A group's entries are read while the codes of the one before are made: each waits long for its own. */
LUTRA_INLINE void copy_entries(struct form f, const __m512i from[4], __m512i to[4])
{
    const int words = has_eights(f) ? 2 : 4;
    UNROLL
    for (int i = 0; i < words; i++) to[i] = from[i];
}

LUTRA_INLINE void begin_tile(struct form f, struct scratch *s, const struct tile *t, int np)
{
    const int sums = STEPS / group_steps(f);
    for (int p = 0; p < np && t->shares > 1; p++) {
        const uint8_t *w = t->w + (size_t)p * t->panel_bytes, *ahead = t->ahead + (size_t)p * t->panel_bytes;
        __m512i entries[4], next[4];
        read_entries(f, &s->tables, w, 0, next);
        for (size_t g = 0; g < 8; g++) {
            __m512i signs = load_signs(f, w, g);
            prefetch_of(f, ahead, g);
            copy_entries(f, next, entries);
            if (g < 7) read_entries(f, &s->tables, w, g + 1, next);
            UNROLL
            for (int v = 0; v < 8; v++)
                _mm512_store_si512(s->panel[p].code[8 * g + (size_t)v], codes_of(f, &s->tables, entries, signs, v));
        }
        UNROLL
        for (int i = 0; i < sums; i++) s->panel[p].scale[i] = load_scale(f, w, i);
        s->panel[p].d = load_d(f, w);
    }
}

/* What sum i of a tile starts from. */
LUTRA_INLINE __m512i start_of(struct form f, const struct tile *t, int i, int c)
{
    const int each = group_steps(f) / 4;
    const uint8_t *start16 = t->x + (280 + 4 * (size_t)(i * each)) * t->width + 4 * c;
    __m512i start = broadcast(start16);
    if (each == 2) start = _mm512_add_epi32(start, broadcast(start16 + 4 * t->width));
    return _mm512_slli_epi32(start, START_SHIFT);
}

/* sum += dot, scaled. */
LUTRA_INLINE void finish_tile(const struct tile *t, __m512 d, int n, const __m512i dot[COLUMNS], __m512 sum[COLUMNS])
{
    UNROLL
    for (int c = 0; c < n; c++) {
        __m512 scale = _mm512_mul_ps(d, broadcast_f32(t->x + 256 * t->width + 4 * c));
        sum[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[c]), scale, sum[c]);
    }
}

/* A panel's tile for n columns that are all there are: codes are used where they are read. */
LUTRA_INLINE void run_once(
    struct form f, const struct scratch *s, const struct tile *t, size_t p, int n, __m512 sum[COLUMNS])
{
    const uint8_t *w = t->w + p * t->panel_bytes, *ahead = t->ahead + p * t->panel_bytes, *x = t->x;
    const int steps = group_steps(f);
    __m512i entries[4], next[4], dot[COLUMNS];
    UNROLL
    for (int c = 0; c < n; c++) dot[c] = _mm512_setzero_si512();
    read_entries(f, &s->tables, w, 0, next);
    for (size_t g = 0; g < 8; g++) {
        __m512i acc[COLUMNS], signs = load_signs(f, w, g);
        prefetch_of(f, ahead, g);
        copy_entries(f, next, entries);
        if (g < 7) read_entries(f, &s->tables, w, g + 1, next);
        UNROLL
        for (int v = 0; v < 8; v++, x += 4 * t->width) {
            const int i = (int)g * (8 / steps) + v / steps;
            UNROLL
            for (int c = 0; c < n; c++) {
                if (v % steps == 0) acc[c] = start_of(f, t, i, c);
                acc[c] = _mm512_dpbusd_epi32(acc[c], codes_of(f, &s->tables, entries, signs, v), broadcast(x + 4 * c));
                if (v % steps < steps - 1) continue;
                dot[c] = _mm512_add_epi32(dot[c], _mm512_mullo_epi32(acc[c], load_scale(f, w, i)));
            }
        }
    }
    finish_tile(t, load_d(f, w), n, dot, sum);
}

LUTRA_INLINE void run_tile(
    struct form f, const struct scratch *s, const struct tile *t, int np, int n, __m512 sum[MOST_PANELS][COLUMNS])
{
    if (t->shares == 1) {
        const struct tile own = own_columns(t, n);
        for (int p = 0; p < np; p++) run_once(f, s, &own, (size_t)p, n, sum[p]);
        return;
    }
    const uint8_t *x = t->x;
    const int steps = group_steps(f);
    __m512i dot[MOST_PANELS][COLUMNS];
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int c = 0; c < n; c++) dot[p][c] = _mm512_setzero_si512();
    }
    for (int i = 0; i < STEPS / steps; i += 2, x += 8 * (size_t)steps * t->width) {
        __m512i acc[2][MOST_PANELS][COLUMNS];
        UNROLL
        for (int v = 0; v < 2 * steps; v++) {
            const int h = v % 2, step = h * steps + v / 2;
            __m512i code[MOST_PANELS];
            UNROLL
            for (int p = 0; p < np; p++) {
                code[p] = _mm512_load_si512(s->panel[p].code[steps * i + step]);
                COMPILER_UNKNOWN_VECTOR(code[p]); /* loaded once, not once for each column */
            }
            UNROLL
            for (int c = 0; c < n; c++) {
                __m512i b = broadcast(x + 4 * (size_t)step * t->width + 4 * c);
                __m512i start = v < 2 ? start_of(f, t, i + h, c) : b;
                UNROLL
                for (int p = 0; p < np; p++)
                    acc[h][p][c] = _mm512_dpbusd_epi32(v < 2 ? start : acc[h][p][c], code[p], b);
            }
        }
        UNROLL
        for (int h = 0; h < 2; h++) {
            UNROLL
            for (int p = 0; p < np; p++) {
                UNROLL
                for (int c = 0; c < n; c++) {
                    __m512i scaled = _mm512_mullo_epi32(acc[h][p][c], s->panel[p].scale[i + h]);
                    dot[p][c] = _mm512_add_epi32(dot[p][c], scaled);
                }
            }
        }
    }
    UNROLL
    for (int p = 0; p < np; p++) finish_tile(t, s->panel[p].d, n, dot[p], sum[p]);
}

enum { RECORD_BYTES = ACT256_BYTES, FEW_COLUMNS = 0 };

#include "cpu/x86/gemm_panels_avx512_tmpl.h"

#include "cpu/gemm_book_runs_tmpl.h"

void cpu_gemm_init_book_avx512(struct cpu_kernels *k)
{
    FILL_BOOKS(set_book, k, "32x4_avx512");
}
