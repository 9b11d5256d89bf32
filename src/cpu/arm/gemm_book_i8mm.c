/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with codebooks by smmla; a single row by sdot.
 */
#include "cpu/arm/dot_dotprod_impl.h"
#include "cpu/arm/gemm_book_single_tmpl.h"
#include "cpu/arm/pairs_i8mm_impl.h"

LUTRA_INLINE int sum_pair_steps(struct form f)
{
    return group_steps(f) / 2;
}

LUTRA_INLINE void add_floats(struct form f, float32x4_t d, float32x4_t dmin, const int8x16_t (*minima)[2 * QUADS],
    int pair, struct columns in, const int32x4_t cell[2 * MAX_CELL_COLUMNS], float32x4_t sum[2 * MAX_CELL_COLUMNS])
{
    const int n = in.n, n_cell = cell_columns(n);
    const uint8_t *scales = in.x + 256 * in.width;
    (void)f, (void)dmin, (void)minima, (void)pair;
    if (n == 1) {
        *sum = vfmaq_f32(*sum, vcvtq_f32_s32(fold_quad(cell)), vmulq_f32(d, broadcast_f32(scales)));
        return;
    }
    UNROLL
    for (int c = 0; c < 2 * n_cell; c++) {
        float32x4_t scale = vmulq_f32(pair_rows(d, c / n_cell), load_pair(scales, c % n_cell));
        sum[c] = vfmaq_f32(sum[c], vcvtq_f32_s32(cell[c]), scale);
    }
}

#include "cpu/arm/gemm_tile_i8mm_tmpl.h"

LUTRA_INLINE void unpack(struct form f, const struct tables *t, const uint8_t *w, struct unpacked *u)
{
    read_values(f, t, w, true, u->value[0]);
    for (int q = 0; q < QUADS; q++) {
        UNROLL
        for (int i = 0; i < TILE_K / 4 / group_steps(f); i += 8) {
            uint8x16_t four[2];
            load_scales(f, w, i / 8, q, four);
            UNROLL
            for (int k = 0; k < 8; k++) {
                const int32x4_t scale = byte_of(four[k / 4], k % 4);
                u->scale[i + k][2 * q] = vzip1q_s32(scale, scale);
                u->scale[i + k][2 * q + 1] = vzip2q_s32(scale, scale);
            }
        }
        u->d[q] = load_d(f, w, q);
    }
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    struct tables tables;
    make_tables(f, &tables);
    if (a->n_row > 1) {
        run_tiles(f, &tables, a);
    } else {
        run_single(f, &tables, a, PAIRS256_BYTES);
    }
}

#include "cpu/gemm_book_runs_tmpl.h"

LUTRA_INLINE void set_pairs(struct cpu_kernels *k, enum quant_type type, const char *name, cpu_gemm_run *run)
{
    k->gemm[type] = in_pairs(cpu_gemm_i8x256(type, name, run), act_bytes_q8x256_pairs, act_row_q8x256_pairs);
}

void cpu_gemm_init_book_i8mm(struct cpu_kernels *k)
{
    FILL_BOOKS(set_pairs, k, "8x8_i8mm");
}
