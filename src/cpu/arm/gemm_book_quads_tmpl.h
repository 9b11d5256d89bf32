/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with codebooks on vectors of 4 rows x 4 inputs (NEON, sdot): class i8x256, the arithmetic of
 * x86/gemm_book_avx512.c to the bit.  A single row takes values as they are read; for more a tile is read once.
 *
 * Needs: the products of a dot_*_impl.h.
 * Gives: run_iq2_xxs and so on.
 */
#ifndef LUTRA_CPU_ARM_GEMM_BOOK_QUADS_TMPL_H
#define LUTRA_CPU_ARM_GEMM_BOOK_QUADS_TMPL_H

#include "cpu/arm/gemm_book_single_tmpl.h"

LUTRA_INLINE int sum_steps(struct form f)
{
    return group_steps(f);
}

LUTRA_INLINE bool in_order(struct form f)
{
    (void)f;
    return true;
}

LUTRA_INLINE bool has_minima(struct form f)
{
    (void)f;
    return false;
}

LUTRA_INLINE int minimum_steps(struct form f)
{
    return group_steps(f);
}

#include "cpu/arm/gemm_tile_quads_tmpl.h"

LUTRA_INLINE void unpack(struct form f, const struct tables *t, const uint8_t *w, struct unpacked *u)
{
    read_values(f, t, w, false, u->value[0]);
    for (int q = 0; q < QUADS; q++) {
        UNROLL
        for (int i = 0; i < TILE_K / 4 / group_steps(f); i += 8) {
            uint8x16_t four[2];
            load_scales(f, w, i / 8, q, four);
            UNROLL
            for (int k = 0; k < 8; k++) u->scale[i + k][q] = byte_of(four[k / 4], k % 4);
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
        run_single(f, &tables, a, ACT256_BYTES);
    }
}

#include "cpu/gemm_book_runs_tmpl.h"

#endif
