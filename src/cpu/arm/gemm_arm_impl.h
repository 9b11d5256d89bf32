/* SPDX-License-Identifier: MIT
 *
 * What the Arm matmul files share: vectors of a panel, and how its sums are stored.
 *
 * A panel of 16 output rows is four quads: vectors of 4 rows x 4 inputs, as the packed layout has them
 * (cpu/layout.h).  The same layout serves sdot and smmla: interleaving the words of two steps gives smmla's pairs of
 * rows x 8 inputs.
 */
#ifndef LUTRA_CPU_ARM_GEMM_ARM_H
#define LUTRA_CPU_ARM_GEMM_ARM_H

#include <arm_neon.h>
#include <string.h>

#include "base/compiler.h"
#include "cpu/layout.h"

enum {
    QUADS = 4,        /* of a panel */
    TILE_COLUMNS = 4, /* of a register tile: two quads, or all four for a single column */
    TILE_SUMS = 8,    /* quads x columns of a tile, at most */
    STEP_BYTES = 64,  /* 16 rows x 4 inputs */
    PASS_ROWS = 64    /* columns per pass over the weights, whose activations stay in L2 */
};

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Fillers of one file each. */
void cpu_gemm_init_i8_neon(struct cpu_kernels *k);
void cpu_gemm_init_super_neon(struct cpu_kernels *k);
void cpu_gemm_init_float_neon(struct cpu_kernels *k);
void cpu_gemm_init_i8_dotprod(struct cpu_kernels *k);
void cpu_gemm_init_super_dotprod(struct cpu_kernels *k);
void cpu_gemm_init_i8_i8mm(struct cpu_kernels *k);
void cpu_gemm_init_super_i8mm(struct cpu_kernels *k);

/* Sums of quads first .. first + n_quad - 1 and n columns, [quad][TILE_COLUMNS] (one column: [quad]). */
LUTRA_INLINE int tile_at(int quad, int c, int n)
{
    return n == 1 ? quad : quad * TILE_COLUMNS + c;
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

/* Four outputs of a row, or the first `left` of them. */
LUTRA_INLINE void store_quad(float *out, const float *bias, size_t left, float32x4_t y)
{
    if (left >= 4) {
        vst1q_f32(out, bias ? vaddq_f32(y, vld1q_f32(bias)) : y);
        return;
    }
    float part[4];
    vst1q_f32(part, y);
    for (size_t i = 0; i < left; i++) out[i] = bias ? part[i] + bias[i] : part[i];
}

/* The tile's outputs for rows row .. row + n - 1, bias added. */
LUTRA_INLINE void store_tile(const struct cpu_gemm_args *a, size_t panel, size_t row, int first, int n_quad, int n,
    const float32x4_t sum[TILE_SUMS])
{
    float *out = a->out + (panel - a->panel) * LANES + row * a->out_stride;
    UNROLL
    for (int c = 0; c < n; c++, out += a->out_stride) {
        UNROLL
        for (int q = 0; q < n_quad; q++) {
            size_t at = 4 * (size_t)(first + q), o = panel * LANES + at;
            if (o < a->n_out) store_quad(out + at, a->bias ? a->bias + o : NULL, a->n_out - o, sum[tile_at(q, c, n)]);
        }
    }
}

#endif
