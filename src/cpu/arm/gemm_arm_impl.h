/* SPDX-License-Identifier: MIT
 *
 * What the Arm matmul files share: the loop over rows, vectors of a panel, and how sums are stored.
 *
 * A panel of 16 output rows is four quads: 4 rows each.  NEON and sdot take a quad x 4 inputs as one vector, smmla two
 * pairs of rows x 8 inputs (cpu/layout.h).
 */
#ifndef LUTRA_CPU_ARM_GEMM_ARM_H
#define LUTRA_CPU_ARM_GEMM_ARM_H

#include <arm_neon.h>
#include <string.h>

#include "base/compiler.h"
#include "cpu/layout.h"

enum {
    QUADS = 4,          /* of a panel */
    TILE_COLUMNS = 4,   /* of a register tile of NEON and sdot: two quads, or all four for a single column */
    TILE_SUMS = 8,      /* quads x columns of such a tile, at most */
    TILE_MAX_SUMS = 16, /* of any tile */
    STEP_BYTES = 64,    /* 16 rows x 4 inputs */
    NO_START = -1,      /* instead of a shift of the records' starts: sums start at 0 */
    PASS_ROWS = 64      /* columns per pass over the weights, whose activations stay in L2 */
};

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Fillers of one file each. */
void cpu_gemm_init_i8_neon(struct cpu_kernels *k);
void cpu_gemm_init_super_neon(struct cpu_kernels *k);
void cpu_gemm_init_i8_lookup_neon(struct cpu_kernels *k);
void cpu_gemm_init_super_lookup_neon(struct cpu_kernels *k);
void cpu_gemm_init_float_neon(struct cpu_kernels *k);
void cpu_gemm_init_i8_dotprod(struct cpu_kernels *k);
void cpu_gemm_init_super_dotprod(struct cpu_kernels *k);
void cpu_gemm_init_book_neon(struct cpu_kernels *k);
void cpu_gemm_init_book_dotprod(struct cpu_kernels *k);
void cpu_gemm_init_i8_i8mm(struct cpu_kernels *k);
void cpu_gemm_init_super_i8mm(struct cpu_kernels *k);
void cpu_gemm_init_book_i8mm(struct cpu_kernels *k);

/* The columns of a call that one tile takes: the first one's first record, the width of its block, how many. */
struct columns {
    const uint8_t *x;
    size_t width;
    int n;
};

/* Computes a panel for some columns, the first being batch row `row`.  form: what the file's formats differ in, a
 * constant; in.n is one, too. */
typedef void tile_fn(const void *form, const struct cpu_gemm_args *a, size_t panel, size_t row, struct columns in);

/* Calls tile, inlined once for every number of columns, for all panels and rows of a call: `most` columns at a time, 4
 * or 8.  In steps of 8 bytes the width is in.n, made even where that is more than 1: a constant, too; `most` is 8 then,
 * or there are no more than 4 rows.  Activations have row_bytes per row, and records that begin with steps of
 * step_bytes per column. */
LUTRA_INLINE void run_rows(
    const struct cpu_gemm_args *a, size_t row_bytes, size_t step_bytes, size_t most, tile_fn *tile, const void *form)
{
    for (size_t pass = 0; pass < a->n_row; pass += PASS_ROWS) {
        size_t end = a->n_row - pass < PASS_ROWS ? a->n_row : pass + PASS_ROWS;
        for (size_t p = a->panel; p < a->panel + a->n_panel; p++) {
            for (size_t r = pass; r < end; r += most) {
                struct act_place at = act_place_of(r, a->n_row);
                const uint8_t *x = (const uint8_t *)a->act + (r - at.column) * row_bytes + step_bytes * at.column;
                size_t n = end - r < most ? end - r : most, w = at.width;
                if (n == 1) tile(form, a, p, r, (struct columns){x, step_bytes == 8 ? 1 : w, 1});
                if (n == 2) tile(form, a, p, r, (struct columns){x, step_bytes == 8 ? 2 : w, 2});
                if (n == 3) tile(form, a, p, r, (struct columns){x, step_bytes == 8 ? 4 : w, 3});
                if (n == 4) tile(form, a, p, r, (struct columns){x, step_bytes == 8 ? 4 : w, 4});
                if (most == 4) continue;
                if (n == 5) tile(form, a, p, r, (struct columns){x, 6, 5});
                if (n == 6) tile(form, a, p, r, (struct columns){x, 6, 6});
                if (n == 7) tile(form, a, p, r, (struct columns){x, 8, 7});
                if (n == 8) tile(form, a, p, r, (struct columns){x, 8, 8});
            }
        }
    }
}

/* The sum of a quad and column of a tile of n columns. */
LUTRA_INLINE int tile_at(int quad, int c, int n)
{
    return quad * n + c;
}

LUTRA_INLINE int32x4_t broadcast(const uint8_t *p)
{
    return vld1q_dup_s32((const int32_t *)(const void *)p);
}

LUTRA_INLINE float32x4_t broadcast_f32(const uint8_t *p)
{
    return vld1q_dup_f32((const float *)(const void *)p);
}

/* Halves of 4 rows, as f32. */
LUTRA_INLINE float32x4_t load_f16(const uint8_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

/* Outputs of a tile from sums [n_quad][n][4 rows], bias added: of quads first .. and batch rows row .. row + n - 1. */
void gemm_arm_store(
    const struct cpu_gemm_args *a, size_t panel, size_t row, int first, int n_quad, int n, const float *sum);

/* The tile's outputs for rows row .. row + n - 1, bias added. */
LUTRA_INLINE void store_tile(
    const struct cpu_gemm_args *a, size_t panel, size_t row, int first, int n_quad, int n, const float32x4_t *sum)
{
    float sums[4 * TILE_MAX_SUMS];
    UNROLL
    for (int i = 0; i < n_quad * n; i++) vst1q_f32(sums + 4 * i, sum[i]);
    gemm_arm_store(a, panel, row, first, n_quad, n, sums);
}

#endif
