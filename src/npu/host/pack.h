/* SPDX-License-Identifier: MIT
 *
 * GGUF weights to the NPU's layouts (npu/wire/layout.h), on the host.
 *
 * Pure functions over memory that the caller owns; nothing allocates; any thread, also several on one matrix with
 * disjoint ranges of blocks.
 */
#ifndef LUTRA_NPU_HOST_PACK_H
#define LUTRA_NPU_HOST_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "npu/wire/planes.h"

struct lutra_error;

/* The tile32 kind of a GGUF type in *kind.  LUTRA_E_UNSUPPORTED names the type when there is none. */
int npu_pack_kind(uint32_t quant_type, uint32_t *kind, struct lutra_error *err);

/* That kind for rows of a type that has one, `bytes` in all; where a scale of codes with a zero is none that the kind
 * takes (NPU_ZERO_LEAST), a wider kind of the same values: of W2 and Q2_0 Q4_0's, of W4 Q8_0's. */
uint32_t npu_pack_kind_of_rows(uint32_t quant_type, uint32_t kind, const void *rows, size_t bytes);

/* Its kind as bit planes; 0: there is none. */
uint32_t npu_pack_planes_kind(uint32_t quant_type);

/* That kind for rows of k elements, `bytes` in all: where every other block of W2, W3 or W4 repeats the scale and zero
 * before it, groups are of 128. */
uint32_t npu_pack_planes_of_rows(uint32_t quant_type, const void *rows, size_t bytes, uint32_t k);

/* Blocks [first, last) of 32 outputs of a tile32 matrix.  rows: n rows of k elements in GGUF's format quant_type, whose
 * kind w has or the wider one, row_bytes apart; dst: the whole matrix.  Lossless, but that the group scales of IQ4_XS
 * are rounded to halves and MXFP4's are cut to those of halves; kind W2 has values rounded to halves. */
void npu_pack_tile32(const struct npu_weights *w, uint32_t quant_type, const void *rows, size_t row_bytes, uint8_t *dst,
    uint32_t first, uint32_t last);

/* Blocks [first, last) of 128 outputs of bit planes, lossless. */
void npu_pack_planes(const struct npu_weights *w, uint32_t quant_type, const void *rows, size_t row_bytes, uint8_t *dst,
    uint32_t first, uint32_t last);

/* Outputs [first, last) of K-quants; npu_pack_tile32 calls it. */
void npu_pack_k(
    const struct npu_weights *w, const void *rows, size_t row_bytes, uint8_t *dst, uint32_t first, uint32_t last);

/* 32 codes of output n, k a multiple of 32: whole words of the layout. */
void npu_pack_codes(const struct npu_weights *w, uint8_t *dst, const uint8_t *code, uint32_t k, uint32_t n);

/* Quantizes f32 rows [n][k] to supergroups: nearest codes in groups of 2 k x 16 outputs [TTS 5.1.1].  NPU_W_SUPER4:
 * scale = extreme / -8 as Q4_0 does it; NPU_W_SUPER8: largest magnitude / 127 as Q8_0 does it. */
void npu_pack_supergroup(
    const struct npu_weights *w, const float *rows, size_t row_stride, uint8_t *dst, uint32_t first, uint32_t last);

#endif
