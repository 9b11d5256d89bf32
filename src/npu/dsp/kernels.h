/* SPDX-License-Identifier: MIT
 *
 * The kernels: every function works on NPU pointers, allocates nothing, and does no cache maintenance or DMA of its own
 * unless it says so.  Vectors are aligned to 128 bytes, tiles to 2048.
 */
#ifndef LUTRA_NPU_DSP_KERNELS_H
#define LUTRA_NPU_DSP_KERNELS_H

#include "npu/dsp/isa.h"
#include "npu/wire/layout.h"
#include "npu/wire/message.h"
#include "npu/wire/planes.h"

/* Units of 64 k of one block of 32 outputs to f16 tiles: src in TCM or memory, dst [2 * n_units] tiles.
 * Value = nearest half of code x scale (Q4_1: of that plus the minimum, rounded again). [TTS 5.2.2] */
void npu_dequant(struct isa *isa, uint32_t kind, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units);

/* Bit planes of which tiles can be made: units of 128 k of one block of 128 outputs, src_stride apart, to the tiles of
 * four blocks of 32 outputs that are `stride` apart, [4 * n_units] each. */
void npu_planes_dequant(struct isa *isa, const struct npu_weights *w, uint8_t *restrict dst, uint32_t stride,
    const uint8_t *restrict src, uint32_t src_stride, uint32_t n_units);

/* The same of K-quants, units of 256 k, 8 tiles each: scale and minimum of a group are rounded to halves first. */
void npu_dequant_k(
    struct isa *isa, uint32_t kind, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t n_units);

/* Tiles first .. last - 1 of 128 inputs of one row as tables (npu/wire/planes.h, lut16): k a multiple of 32. */
void npu_tables(
    struct isa *isa, uint8_t *restrict lut, const uint8_t *restrict x, uint32_t k, uint32_t first, uint32_t last);

/* Y [m][n] = rows whose tables stand in TCM times bit planes + bias.  Per group: an exact integer sum of what codes
 * stand for, times the activations' scale, times the group's, plus the minimum times the sum of inputs; groups are
 * added in ascending k.  One rounding per written operation; a row's bits do not depend on the others.  0 or an
 * npu_op_status. */
uint32_t npu_lookup(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op);

/* Rows of f32 to tiles first .. last - 1 of f16 [ceil(m / 32)][n_tiles]; rows past m and columns past k become 0.
 * Back: rows first .. last - 1 of a tile, first even, and a vector is added to each; y is row 0. */
void npu_tiles_of_rows(struct isa *isa, uint8_t *restrict tiles, const uint8_t *restrict x, uint32_t stride, uint32_t m,
    uint32_t k, uint32_t n_tiles, uint32_t first, uint32_t last);
void npu_rows_of_tile(struct isa *isa, uint8_t *restrict y, uint32_t stride, const uint8_t *restrict tile,
    uint32_t first, uint32_t last, vec bias);

/* Y [m][n] = X [m][k] W^T + bias: DMA of packed weights, dequantization, tiles, store.  k is a multiple of 32; the
 * weights are packed for the next multiple of 64.  0 or an npu_op_status. */
uint32_t npu_gemm(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op);

/* Element-wise; y may be a. */
void npu_add(struct isa *isa, uint8_t *y, const uint8_t *a, const uint8_t *b, uint32_t n);
void npu_swiglu(struct isa *isa, uint8_t *y, const uint8_t *a, const uint8_t *b, uint32_t n);
void npu_geglu(struct isa *isa, uint8_t *y, const uint8_t *a, const uint8_t *b, uint32_t n);
void npu_relu2(struct isa *isa, uint8_t *y, const uint8_t *a, const uint8_t *b, uint32_t n);
void npu_rms_norm(
    struct isa *isa, uint8_t *y, const uint8_t *x, const uint8_t *restrict gain, uint32_t n, uint32_t eps_bits);

/* Massive rows (wire/message.h, NPU_OP_FIT): y in place, its factor; and back. */
void npu_fit(struct isa *isa, uint8_t *y, uint8_t *restrict factor, uint32_t n);
void npu_unfit(struct isa *isa, uint8_t *y, const uint8_t *restrict factor, uint32_t n);

/* A row of n f32 rotated (wire/message.h, NPU_OP_ROPE); y may be x.  scratch: TCM for n + 2048 f32. */
void npu_rope(struct isa *isa, uint8_t *y, const uint8_t *x, const uint8_t *restrict mask,
    const uint8_t *restrict table, uint32_t n, uint32_t period, uint32_t distance, uint8_t *restrict scratch);

/* y [k] f32 = output `token` of packed weights times a scale; values as npu_dequant's.  tcm, aligned to
 * tiles: for one, for those of a block, and for a packed block. */
void npu_embed(struct isa *isa, const struct npu_weights *w, uint8_t *restrict y, const uint8_t *restrict weights,
    uint32_t token, uint32_t k, uint32_t scale_bits, uint8_t *restrict tcm);

/* Bytes from anywhere to anywhere; up to 127 bytes behind x are read. */
void npu_copy(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict x, uint32_t bytes);

/* n f32 to n halves at any even address; up to 127 bytes behind x are read. */
void npu_store_halves(struct isa *isa, uint8_t *restrict to, const uint8_t *restrict x, uint32_t n);

/* The head's rows, slice by slice (dsp/head.c).  scratch and result are one row's; npu_head_slice shares groups and
 * rows. */
void npu_head_begin(struct isa *isa, uint8_t *scratch, uint8_t *result);
void npu_head_slice(
    struct isa *isa, const struct npu_machine *machine, const struct npu_op *op, uint32_t first, uint32_t n_blocks);
void npu_head_end(struct isa *isa, const uint8_t *scratch, uint8_t *result);

/* exp of n halves <= 0, three ways.  The table is 32768 halves in TCM, indexed by the IEEE bits without the sign
 * [TTS 5.2.1]; scratch: TCM for 4 vectors. */
void npu_exp_table(struct isa *isa, uint8_t *table);
void npu_exp_by_table(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict x, uint32_t n, const uint8_t *table,
    uint8_t *restrict scratch);
void npu_exp_by_f16(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict x, uint32_t n);
void npu_exp_by_f32(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict x, uint32_t n);

/* FlashAttention over the cache [TTS Algorithm 1]: rows of Q (heads of a group, samples, drafts) fill tiles of 32.
 * Scores and probabilities are halves, sums, maxima's rescaling and the output f32.  Segments of 64 keys in ascending
 * order, so a row's bits do not depend on the other rows.  A masked probability is exactly 0, and a row that sees
 * nothing is 0.  0 or an npu_op_status. */
uint32_t npu_attention(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op);

/* 0 or an npu_op_status (wire/message.h, NPU_OP_READ). */
uint32_t npu_read(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op);

/* Executes one operation; returns enum npu_op_status.  `machine` says, before and after, which tables stand in TCM. */
uint32_t npu_execute(struct isa *isa, struct npu_machine *machine, const struct npu_op *op);

#endif
