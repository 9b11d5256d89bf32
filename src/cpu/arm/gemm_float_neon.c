/* SPDX-License-Identifier: MIT
 *
 * NEON matmul of F32, F16 and BF16 weights, kept in their type: per input one fma in f32, inputs ascending.
 *
 * Class f32, the arithmetic of x86/gemm_float_avx512.c to the bit.  A tile is 16 rows x 4 columns.
 */
#include "cpu/arm/gemm_arm_impl.h"

LUTRA_INLINE float32x4_t load_weights(enum quant_type type, const uint8_t *w, int quad)
{
    if (type == QUANT_F32) return vld1q_f32((const float *)(const void *)(w + 16 * quad));
    if (type == QUANT_F16) return load_f16(w + 8 * quad);
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(w + 8 * quad)), 16));
}

/* One panel against the columns. */
LUTRA_INLINE void run_tile(const void *form, const struct cpu_gemm_args *a, size_t panel, size_t row, struct columns in)
{
    const enum quant_type type = *(const enum quant_type *)form;
    const int n = in.n;
    size_t element = type == QUANT_F32 ? 4 : 2, step = element * LANES;
    const uint8_t *w = (const uint8_t *)a->packed + panel * cpu_float_panel_bytes(element, a->n_in);
    const float *x = (const float *)(const void *)in.x;
    float32x4_t sum[TILE_MAX_SUMS];
    UNROLL
    for (int i = 0; i < TILE_MAX_SUMS; i++) sum[i] = vdupq_n_f32(0);
    for (size_t k = 0; k < a->n_in; k++, w += step, x += in.width) {
        float32x4_t q[QUADS];
        UNROLL
        for (int i = 0; i < QUADS; i++) q[i] = load_weights(type, w, i);
        UNROLL
        for (int c = 0; c < n; c++) {
            float32x4_t v = vld1q_dup_f32(x + c);
            UNROLL
            for (int i = 0; i < QUADS; i++) {
                float32x4_t *s = &sum[tile_at(i, c, n)];
                *s = vfmaq_f32(*s, q[i], v);
            }
        }
    }
    store_tile(a, panel, row, 0, QUADS, n, sum);
}

LUTRA_INLINE void run_all(enum quant_type type, const struct cpu_gemm_args *a)
{
    run_rows(a, a->n_in * sizeof(float), sizeof(float), TILE_COLUMNS, run_tile, &type);
}

#include "cpu/gemm_float_runs_tmpl.h"

void cpu_gemm_init_float_neon(struct cpu_kernels *k)
{
    FILL_FLOAT(k->gemm, "16x4_neon");
}
