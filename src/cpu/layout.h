/* SPDX-License-Identifier: MIT
 *
 * The packed layout of weights that all CPU kernels with vector lanes = output rows share, and that of activations.
 *
 * Weights.  A panel is LANES = 16 output rows; a tile is a panel's next 256 inputs (fewer in the last tile of formats
 * with 32-element blocks).  A tile of B file blocks per row is a run of sections, one per field of the file's block:
 *
 *     section: [block 0..B-1][element of the field][row 0..15]          element = 1, 2 or 4 bytes
 *
 * so codes become vectors of 16 rows x 4 bytes (one dot-product step of 4 inputs, or 2 or 4 such steps in the bits of
 * the bytes, exactly as the file has them), and scales become vectors of 16 rows.  Same bytes as the file, only in
 * another order, but for TQ1_0, which becomes TQ2_0 codes.  Panels start at multiples of 64 bytes.  Missing rows of the
 * last panel are zero.
 *
 * Activations.  Rows of the batch are columns here, in blocks of ACT_COLUMNS (the last block has w < 8 columns), each
 * a run of records: values of 4 inputs of all columns side by side, then what a scale group needs once:
 *
 *     q8x32:  per 32 inputs:  int8 [8 steps][w][4], f32 scale[w], i32 start[w] = -8 sum, f32 sum[w] = scale * sum
 *     q8x256: per 256 inputs: int8 [64 steps][w][4], f32 scale[w], i32 start[w] = -sum,
 *                             i16 sums [4][w][2] of 32 inputs each, i32 start16[16][w] = -32 * sum of 16 inputs,
 *                             i16 sums16 [8][w][2] of 16 inputs each
 *     f32:    per input:      f32 [w]
 *
 * For instructions that take 8 inputs of 2 rows (Arm's smmla) the steps are 8 inputs wide, in weights and activations:
 * the section of codes has elements of 8 bytes, Q6_K's scales likewise.  Such kernels say kr = 8 and name the layout
 * CPU_PANEL8_LAYOUT; their activations stand in arm/pairs_i8mm_impl.h.
 */
#ifndef LUTRA_CPU_LAYOUT_H
#define LUTRA_CPU_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "cpu/kernels.h"

/* Of struct cpu_gemm.layout; the number counts changes of what cpu_pack writes: files keep packed copies. */
#define CPU_PANEL_LAYOUT "panel16x4.1"
#define CPU_PANEL8_LAYOUT "panel16x8.1"

enum {
    LANES = 16,
    TILE_K = 256,
    ACT_COLUMNS = 8,
    ACT32_BYTES = 32 + 12,                /* of a q8x32 record, per column */
    ACT256_BYTES = 256 + 8 + 16 + 64 + 32 /* of a q8x256 record, per column */
};

/* Slots of struct cpu_gemm, for any type but those that cannot be packed; steps of 8 inputs where self->kr is 8. */
size_t cpu_packed_bytes(const struct cpu_gemm *self, size_t n_out, size_t n_in);
void cpu_pack(
    const struct cpu_gemm *self, const void *src, size_t n_out, size_t n_in, size_t panel, size_t n_panel, void *dst);
void cpu_unpack_row(const struct cpu_gemm *self, const void *packed, size_t n_out, size_t n_in, size_t row, float *dst);

/* Bytes of a panel's tile of TILE_K inputs: the distance between tiles. */
size_t cpu_tile_bytes(enum quant_type type);

/* Bytes of a panel of n_in inputs: the distance between panels. */
size_t cpu_panel_bytes(enum quant_type type, size_t n_in);

/* The same of elements that are blocks by themselves: floats.  A kernel asks for every few panels. */
static inline size_t cpu_float_panel_bytes(size_t element_bytes, size_t n_in)
{
    return (n_in * element_bytes * LANES + 63) & ~(size_t)63;
}

size_t cpu_act_bytes_q8x32(size_t n_in, size_t n_row);
size_t cpu_act_bytes_q8x256(size_t n_in, size_t n_row);
size_t cpu_act_bytes_f32(size_t n_in, size_t n_row);
cpu_act_row cpu_act_row_f32, cpu_act_row_q8x32, cpu_act_row_q8x256;

/* The largest magnitude of a row, at least BitNet's 1e-5; infinite or NaN where an element is. */
float cpu_row_max(const float *x, size_t n_in);

/* Descriptor of a type's kernel in its numerics class (cpu/README.md); act_row of the int8 classes is the
 * architecture's. */
typedef void cpu_gemm_run(const struct cpu_gemm_args *a);
struct cpu_gemm cpu_gemm_i8x32(enum quant_type type, const char *name, cpu_gemm_run *run);
struct cpu_gemm cpu_gemm_i8x256(enum quant_type type, const char *name, cpu_gemm_run *run);
struct cpu_gemm cpu_gemm_f32(enum quant_type type, const char *name, cpu_gemm_run *run);

/* Where a row lies in the activations: its block, the block's width, its column. */
struct act_place {
    size_t block, width, column;
};

static inline struct act_place act_place_of(size_t row, size_t n_row)
{
    size_t block = row / ACT_COLUMNS, left = n_row - block * ACT_COLUMNS;
    return (struct act_place){block, left < ACT_COLUMNS ? left : ACT_COLUMNS, row % ACT_COLUMNS};
}

#endif
