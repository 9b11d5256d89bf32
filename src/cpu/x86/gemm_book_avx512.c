/* SPDX-License-Identifier: MIT
 *
 * AVX-512 VNNI matmul of the formats with codebooks: class i8x256, the loops of gemm_panels_avx512_impl.h.
 */
#include "cpu/x86/gemm_book_form_impl.h"

/* Panels as they are read. */
struct scratch {
    struct {
        LUTRA_ALIGNED(64) uint8_t code[STEPS][64];
        LUTRA_ALIGNED(64) int32_t scale[SCALES][LANES];
        LUTRA_ALIGNED(64) float d[LANES];
    } panel[MOST_PANELS];
};

LUTRA_INLINE size_t group_bytes(struct form f)
{
    return tile_bytes(f) / 8;
}

LUTRA_INLINE void begin_tile(struct form f, struct scratch *s, const struct tile *t, int np)
{
    for (int p = 0; p < np; p++) {
        const uint8_t *w = t->w + (size_t)p * t->panel_bytes;
        for (int half = 0; half < 2; half++) {
            read_codes(f, w, half, s->panel[p].code[0]);
            UNROLL
            for (int i = 0; i < SCALES; i++)
                _mm256_store_si256((__m256i *)(s->panel[p].scale[i] + 8 * half), load_scale(f, w, i, half));
            _mm256_store_ps(s->panel[p].d + 8 * half, load_d(f, w, half));
        }
        for (size_t i = 0; i < tile_bytes(f); i += 64) LUTRA_PREFETCH(t->ahead + (size_t)p * t->panel_bytes + i);
    }
}

LUTRA_INLINE void run_tile(
    struct form f, const struct scratch *s, const struct tile *t, int np, int n, __m512 sum[MOST_PANELS][COLUMNS])
{
    const uint8_t *x = t->x, *scale_x = x + 256 * t->width, *start16 = x + 280 * t->width;
    __m512i dot[MOST_PANELS][COLUMNS];
    (void)f;
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int c = 0; c < n; c++) dot[p][c] = _mm512_setzero_si512();
    }
    for (int i = 0; i < SCALES; i++, start16 += 4 * t->width) {
        __m512i acc[MOST_PANELS][COLUMNS];
        UNROLL
        for (int c = 0; c < n; c++) {
            __m512i start = _mm512_slli_epi32(broadcast(start16 + 4 * c), START_SHIFT);
            UNROLL
            for (int p = 0; p < np; p++) acc[p][c] = start;
        }
        UNROLL
        for (int v = 0; v < 4; v++, x += 4 * t->width) {
            UNROLL
            for (int c = 0; c < n; c++) {
                __m512i b = broadcast(x + 4 * c);
                UNROLL
                for (int p = 0; p < np; p++)
                    acc[p][c] = _mm512_dpbusd_epi32(acc[p][c], _mm512_load_si512(s->panel[p].code[4 * i + v]), b);
            }
        }
        UNROLL
        for (int p = 0; p < np; p++) {
            __m512i scale = _mm512_load_si512(s->panel[p].scale[i]);
            UNROLL
            for (int c = 0; c < n; c++) dot[p][c] = _mm512_add_epi32(dot[p][c], _mm512_mullo_epi32(acc[p][c], scale));
        }
    }
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int c = 0; c < n; c++) {
            __m512 scale = _mm512_mul_ps(_mm512_load_ps(s->panel[p].d), broadcast_f32(scale_x + 4 * c));
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
