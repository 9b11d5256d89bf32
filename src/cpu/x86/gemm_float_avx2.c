/* SPDX-License-Identifier: MIT
 *
 * AVX2 matmul of F32, F16 and BF16 weights, kept in their type: per input one fma in f32, inputs ascending.
 *
 * The arithmetic of gemm_float_avx512.c, to the bit.  A tile is 16 rows (two vectors) x 4 columns.
 */
#include <immintrin.h>

#include "base/compiler.h"
#include "cpu/x86/gemm_x86_impl.h"

enum { TILE_COLUMNS = 4 };

LUTRA_INLINE __m256 load_weights(enum quant_type type, const uint8_t *w, int half)
{
    if (type == QUANT_F32) return _mm256_loadu_ps((const float *)(const void *)(w + 32 * half));
    __m128i h = _mm_loadu_si128((const __m128i *)(w + 16 * half));
    if (type == QUANT_F16) return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* One panel against n columns of a block `width` wide, the first at x. */
LUTRA_INLINE void run_block(
    enum quant_type type, const struct cpu_gemm_args *a, size_t panel, size_t row, const float *x, size_t width, int n)
{
    size_t element = type == QUANT_F32 ? 4 : 2, step = element * LANES;
    const uint8_t *w = (const uint8_t *)a->packed + panel * cpu_float_panel_bytes(element, a->n_in);
    __m256 sum[2][TILE_COLUMNS];
    UNROLL
    for (int c = 0; c < n; c++) sum[0][c] = sum[1][c] = _mm256_setzero_ps();
    for (size_t k = 0; k < a->n_in; k++, w += step, x += width) {
        __m256 lo = load_weights(type, w, 0), hi = load_weights(type, w, 1);
        UNROLL
        for (int c = 0; c < n; c++) {
            __m256 v = _mm256_broadcast_ss(x + c);
            sum[0][c] = _mm256_fmadd_ps(lo, v, sum[0][c]);
            sum[1][c] = _mm256_fmadd_ps(hi, v, sum[1][c]);
        }
    }
    store_panel_ymm(a, panel, row, n, sum);
}

LUTRA_INLINE void run_all(enum quant_type type, const struct cpu_gemm_args *a)
{
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS;
        for (size_t p = a->panel; p < a->panel + a->n_panel; p++) {
            for (size_t r = pass; r < end; r += TILE_COLUMNS) {
                struct act_place place = act_place_of(r, a->n_row);
                const float *x = (const float *)a->act + (r - place.column) * a->n_in + place.column;
                switch (end - r) {
                case 1: run_block(type, a, p, r, x, place.width, 1); break;
                case 2: run_block(type, a, p, r, x, place.width, 2); break;
                case 3: run_block(type, a, p, r, x, place.width, 3); break;
                default: run_block(type, a, p, r, x, place.width, 4); break;
                }
            }
        }
    }
}

#include "cpu/gemm_float_runs_tmpl.h"

void cpu_gemm_init_float_avx2(struct cpu_kernels *k)
{
    FILL_FLOAT(k->gemm, "16x4_avx2");
}
