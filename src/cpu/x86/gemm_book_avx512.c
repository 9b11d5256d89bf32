/* SPDX-License-Identifier: MIT
 *
 * AVX-512 VNNI matmul of the formats with codebooks: class i8x256, the loops of gemm_panels_avx512_impl.h.
 */
#include "cpu/x86/gemm_book_form_avx512_impl.h"

/* Panels as they are read. */
struct scratch {
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

LUTRA_INLINE void begin_tile(struct form f, struct scratch *s, const struct tile *t, int np)
{
    const size_t lines = (tile_bytes(f) + 63) / 64;
    const int sums = STEPS / group_steps(f);
    struct tables tables;
    make_tables(f, &tables);
    for (int p = 0; p < np; p++) {
        const uint8_t *w = t->w + (size_t)p * t->panel_bytes, *ahead = t->ahead + (size_t)p * t->panel_bytes;
        for (size_t g = 0; g < 8; g++) {
            for (size_t i = g * lines / 8; i < (g + 1) * lines / 8; i++) LUTRA_PREFETCH(ahead + 64 * i);
            read_codes(f, &tables, w, g, s->panel[p].code[8 * g]);
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

LUTRA_INLINE void run_tile(
    struct form f, const struct scratch *s, const struct tile *t, int np, int n, __m512 sum[MOST_PANELS][COLUMNS])
{
    const uint8_t *x = t->x, *scale_x = x + 256 * t->width;
    const int steps = group_steps(f);
    __m512i dot[MOST_PANELS][COLUMNS];
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int c = 0; c < n; c++) dot[p][c] = _mm512_setzero_si512();
    }
    for (int i = 0; i < STEPS / steps; i++) {
        __m512i acc[MOST_PANELS][COLUMNS];
        UNROLL
        for (int c = 0; c < n; c++) {
            __m512i start = start_of(f, t, i, c);
            UNROLL
            for (int p = 0; p < np; p++) acc[p][c] = start;
        }
        UNROLL
        for (int v = 0; v < steps; v++, x += 4 * t->width) {
            UNROLL
            for (int c = 0; c < n; c++) {
                __m512i b = broadcast(x + 4 * c);
                UNROLL
                for (int p = 0; p < np; p++)
                    acc[p][c] = _mm512_dpbusd_epi32(acc[p][c], _mm512_load_si512(s->panel[p].code[steps * i + v]), b);
            }
        }
        UNROLL
        for (int p = 0; p < np; p++) {
            for (int c = 0; c < n; c++)
                dot[p][c] = _mm512_add_epi32(dot[p][c], _mm512_mullo_epi32(acc[p][c], s->panel[p].scale[i]));
        }
    }
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int c = 0; c < n; c++) {
            __m512 scale = _mm512_mul_ps(s->panel[p].d, broadcast_f32(scale_x + 4 * c));
            sum[p][c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[p][c]), scale, sum[p][c]);
        }
    }
}

enum { RECORD_BYTES = ACT256_BYTES, FEW_COLUMNS = 1 };

#include "cpu/x86/gemm_panels_avx512_impl.h"

#include "cpu/x86/gemm_book_runs_impl.h"

void cpu_gemm_init_book_avx512(struct cpu_kernels *k)
{
    FILL_BOOKS(k, "32x4_avx512");
}
