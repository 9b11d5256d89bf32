/* SPDX-License-Identifier: MIT
 *
 * AVX-512 matmul of F32, F16 and BF16 weights, kept in their type: per input one fma in f32, inputs ascending.
 *
 * A zmm lane is an output row.  One accumulator per output makes a chain of fmas, so narrow batches take several
 * panels at once to fill the pipelines.
 */
#include <immintrin.h>

#include "base/compiler.h"
#include "cpu/x86/gemm_x86_impl.h"

enum { MAX_PANELS = 4, PREFETCH_BYTES = 2048 };

LUTRA_INLINE __m512 load_weights(enum quant_type type, const uint8_t *w)
{
    if (type == QUANT_F32) return _mm512_loadu_ps(w);
    __m256i h = _mm256_loadu_si256((const __m256i *)w);
    if (type == QUANT_F16) return _mm512_cvtph_ps(h);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* n_panel panels against n columns. */
LUTRA_INLINE void run_block(
    enum quant_type type, const struct cpu_gemm_args *a, size_t panel, int n_panel, size_t row, int n)
{
    size_t element = type == QUANT_F32 ? 4 : 2, step = element * LANES;
    size_t panel_bytes = cpu_float_panel_bytes(element, a->n_in);
    const uint8_t *w = (const uint8_t *)a->packed + panel * panel_bytes;
    const float *x = (const float *)a->act + row * a->n_in;
    __m512 sum[MAX_PANELS][ACT_COLUMNS];
    UNROLL
    for (int p = 0; p < n_panel; p++) {
        UNROLL
        for (int c = 0; c < n; c++) sum[p][c] = _mm512_setzero_ps();
    }
    for (size_t k = 0; k < a->n_in; k++, w += step, x += n) {
        UNROLL
        for (int p = 0; p < n_panel; p++) {
            const uint8_t *at = w + (size_t)p * panel_bytes;
            __m512 v = load_weights(type, at);
            LUTRA_PREFETCH(at + PREFETCH_BYTES);
            UNROLL
            for (int c = 0; c < n; c++) sum[p][c] = _mm512_fmadd_ps(v, _mm512_set1_ps(x[c]), sum[p][c]);
        }
    }
    UNROLL
    for (int p = 0; p < n_panel; p++) store_panel_avx512(a, panel + (size_t)p, row, n, sum[p]);
}

LUTRA_INLINE void run_columns(
    enum quant_type type, const struct cpu_gemm_args *a, size_t panel, int n_panel, size_t first, size_t end)
{
    for (size_t r = first; r < end; r += ACT_COLUMNS) {
        switch (end - r) {
        case 1: run_block(type, a, panel, n_panel, r, 1); break;
        case 2: run_block(type, a, panel, n_panel, r, 2); break;
        case 3: run_block(type, a, panel, n_panel, r, 3); break;
        case 4: run_block(type, a, panel, n_panel, r, 4); break;
        case 5: run_block(type, a, panel, n_panel, r, 5); break;
        case 6: run_block(type, a, panel, n_panel, r, 6); break;
        case 7: run_block(type, a, panel, n_panel, r, 7); break;
        default: run_block(type, a, panel, n_panel, r, 8); break;
        }
    }
}

LUTRA_INLINE void run_all(enum quant_type type, const struct cpu_gemm_args *a)
{
    size_t last = a->panel + a->n_panel;
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS, p = a->panel;
        if (end - pass <= 4) {
            for (; p + 4 <= last; p += 4) run_columns(type, a, p, 4, pass, end);
        }
        for (; p + 2 <= last; p += 2) run_columns(type, a, p, 2, pass, end);
        if (p < last) run_columns(type, a, p, 1, pass, end);
    }
}

#include "cpu/gemm_float_runs_tmpl.h"

void cpu_gemm_init_float_avx512(struct cpu_kernels *k)
{
    FILL_FLOAT(k->gemm, "16x8_avx512");
}
