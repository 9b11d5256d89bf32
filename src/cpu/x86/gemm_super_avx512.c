/* SPDX-License-Identifier: MIT
 *
 * AVX-512 VNNI matmul of the formats with 256-element blocks: K-quants and ternary, activations q8x256.
 *
 * A zmm lane is an output row.  Per 256 inputs everything is exact in 32-bit integers: the dot product of each group,
 * times its integer scale, and the minima times the sums of the inputs (at most 63 * 127 * 128 * 256 < 2^31).  Then
 * sum = fma(float(dot), d * scale_x, sum) and, for formats with minima, sum = fma(-float(min), dmin * scale_x, sum).
 * A tile's codes and scales are unpacked to L1 once for all columns.
 */
#include "cpu/x86/gemm_super_form_impl.h"

struct scratch {
    struct unpacked panel[PANELS];
};

LUTRA_INLINE void begin_tile(struct form f, struct scratch *s, const struct tile *t, int np)
{
    for (int p = 0; p < np; p++) unpack_tile(f, &s->panel[p], t->w + (size_t)p * t->panel_bytes);
}

/* Steps first .. first + n_step - 1 of a group: acc += codes * inputs; x moves on. */
LUTRA_INLINE const uint8_t *add_steps(const struct scratch *s, const uint8_t *x, size_t width, int first, int n_step,
    int np, int n, __m512i acc[PANELS][COLUMNS])
{
    UNROLL
    for (int v = 0; v < n_step; v++, x += 4 * width) {
        UNROLL
        for (int c = 0; c < n; c++) {
            __m512i b = broadcast(x + 4 * c);
            UNROLL
            for (int p = 0; p < np; p++) acc[p][c] = _mm512_dpbusd_epi32(acc[p][c], s->panel[p].code[first + v], b);
        }
    }
    return x;
}

/* dot = the integer sum of the tile, scales applied. */
LUTRA_INLINE void add_groups(
    struct form f, const struct scratch *s, const struct tile *t, int np, int n, __m512i dot[PANELS][COLUMNS])
{
    const int steps = f.codes == SIX_BITS ? 4 : 8;
    const uint8_t *x = t->x, *start16 = x + (256 + 8 + 16) * t->width;
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int c = 0; c < n; c++)
            dot[p][c] = f.codes == TWO_BITS ? broadcast(x + 260 * t->width + 4 * c) : _mm512_setzero_si512();
    }
    for (int g = 0; g < 64 / steps; g++, start16 += 4 * t->width) {
        if (g % (8 / steps) == 0) prefetch_group(t, (size_t)(g * steps / 8), group_bytes(f), np);
        if (f.codes == TWO_BITS) {
            x = add_steps(s, x, t->width, steps * g, steps, np, n, dot);
            continue;
        }
        __m512i acc[PANELS][COLUMNS];
        UNROLL
        for (int c = 0; c < n; c++) {
            __m512i a = f.codes == SIX_BITS ? broadcast(start16 + 4 * c) : _mm512_setzero_si512();
            UNROLL
            for (int p = 0; p < np; p++) acc[p][c] = a;
        }
        x = add_steps(s, x, t->width, steps * g, steps, np, n, acc);
        UNROLL
        for (int p = 0; p < np; p++) {
            UNROLL
            for (int c = 0; c < n; c++) {
                dot[p][c] = _mm512_add_epi32(dot[p][c], _mm512_mullo_epi32(acc[p][c], s->panel[p].scale[g]));
            }
        }
    }
}

LUTRA_INLINE void run_tile(
    struct form f, const struct scratch *s, const struct tile *t, int np, int n, __m512 sum[PANELS][COLUMNS])
{
    __m512i dot[PANELS][COLUMNS];
    const uint8_t *scale_x = t->x + 256 * t->width;
    add_groups(f, s, t, np, n, dot);
    UNROLL
    for (int p = 0; p < np; p++) {
        const struct unpacked *u = &s->panel[p];
        UNROLL
        for (int c = 0; c < n; c++) {
            __m512 scale = _mm512_mul_ps(u->d, broadcast_f32(scale_x + 4 * c));
            sum[p][c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[p][c]), scale, sum[p][c]);
        }
        if (f.codes == FOUR_BITS || f.codes == FIVE_BITS)
            subtract_minima(u, scale_x + 8 * t->width, scale_x, t->width, n, sum[p]);
    }
}

enum { RECORD_BYTES = ACT256_BYTES };

#include "cpu/x86/gemm_panels_avx512_impl.h"

static void run_q4_k(const struct cpu_gemm_args *a)
{
    run_all((struct form){FOUR_BITS}, a);
}

static void run_q5_k(const struct cpu_gemm_args *a)
{
    run_all((struct form){FIVE_BITS}, a);
}

static void run_q6_k(const struct cpu_gemm_args *a)
{
    run_all((struct form){SIX_BITS}, a);
}

static void run_ternary(const struct cpu_gemm_args *a)
{
    run_all((struct form){TWO_BITS}, a);
}

void cpu_gemm_init_super_avx512(struct cpu_kernels *k)
{
    k->gemm[QUANT_Q4_K] = cpu_gemm_i8x256(QUANT_Q4_K, "gemm_q4_k_q8x256_32x4_avx512", run_q4_k);
    k->gemm[QUANT_Q5_K] = cpu_gemm_i8x256(QUANT_Q5_K, "gemm_q5_k_q8x256_32x4_avx512", run_q5_k);
    k->gemm[QUANT_Q6_K] = cpu_gemm_i8x256(QUANT_Q6_K, "gemm_q6_k_q8x256_32x4_avx512", run_q6_k);
    k->gemm[QUANT_TQ1_0] = cpu_gemm_i8x256(QUANT_TQ1_0, "gemm_tq1_0_q8x256_32x4_avx512", run_ternary);
    k->gemm[QUANT_TQ2_0] = cpu_gemm_i8x256(QUANT_TQ2_0, "gemm_tq2_0_q8x256_32x4_avx512", run_ternary);
}
