/* SPDX-License-Identifier: MIT
 *
 * Lookup (gemm_lookup_impl.h) in class i8x256: the ternary types.
 */
#include "cpu/arm/gemm_lookup_impl.h"
#include "cpu/arm/gemm_super_form_impl.h"

enum { RUN = 8 }; /* vectors, of the same 128 inputs: sums of a run are within 16 bits, whatever the file says */

LUTRA_INLINE void add_tile(const void *form, const uint8_t *w, size_t groups, const struct tables *t, struct columns in,
    float32x4_t (*sum)[QUADS])
{
    const struct tile tile = split_tile(*(const struct form *)form, w);
    int32x4_t dot[PAIR][QUADS];
    UNROLL
    for (int i = 0; i < in.n * QUADS; i++) dot[i / QUADS][i % QUADS] = vdupq_n_s32(0);
    for (size_t v = 0; v < 2 * groups; v += RUN) {
        int16x8_t rows[PAIR][2];
        UNROLL
        for (int c = 0; c < in.n; c++) rows[c][0] = rows[c][1] = vdupq_n_s16(0);
        for (size_t i = v; i < v + RUN; i++) look_up(tile.code + STEP_BYTES * i, t, i, in.n, rows);
        UNROLL
        for (int i = 0; i < in.n * QUADS; i++) {
            int32x4_t *d = &dot[i / QUADS][i % QUADS];
            *d = vaddw_s16(*d, quad_of(rows[i / QUADS], i % QUADS));
        }
    }
    UNROLL
    for (int q = 0; q < QUADS; q++) {
        float32x4_t d = load_f16(tile.d + 8 * q);
        UNROLL
        for (int c = 0; c < in.n; c++) {
            float32x4_t scale = vmulq_f32(d, broadcast_f32(in.x + 256 * in.width + 4 * c));
            sum[c][q] = vfmaq_f32(sum[c][q], vcvtq_f32_s32(dot[c][q]), scale);
        }
    }
}

static void run_ternary(const struct cpu_gemm_args *a)
{
    const struct form f = FORM_TERNARY;
    struct lookup l = {.add_tile = add_tile,
        .form = &f,
        .tile_bytes = tile_bytes(f),
        .record_inputs = 256,
        .record_bytes = ACT256_BYTES,
        .run_vectors = RUN,
        .run_bytes = 128,
        .vector_bytes = 4,
        .neighbor_bytes = 32};
    run_lookup(l, a);
}

void cpu_gemm_init_super_lookup_neon(struct cpu_kernels *k)
{
    k->gemm[QUANT_TQ1_0] = cpu_gemm_i8x256(QUANT_TQ1_0, "gemm_tq1_0_q8x256_lookup_neon", run_ternary);
    k->gemm[QUANT_TQ2_0] = cpu_gemm_i8x256(QUANT_TQ2_0, "gemm_tq2_0_q8x256_lookup_neon", run_ternary);
}
