/* SPDX-License-Identifier: MIT
 *
 * The variants that the papers compare with, as operations beside those of npu/wire/message.h.  They exist to be
 * counted; the library does not contain them.
 *
 * Each is as good as its paper describes it: the same instructions at hand, the same care, only the layout or the way
 * differs.
 */
#ifndef LUTRA_BENCH_NPU_ABLATION_H
#define LUTRA_BENCH_NPU_ABLATION_H

#include "npu/dsp/kernels.h"

enum ablation_code {
    ABLATION_FIRST = 4096,

    /* k x n weights (multiples of 256 and 32) to f16 tiles, dst [n / 32][k / 32] tiles in TCM from tcm_kept on, block
     * after block in the same place.
     *   SCATTER    conventional layout: rows of Q4_0 blocks of 18 bytes along k; values are scattered to their places
     *              [TTS 7.4, baseline of Figure 15]
     *   GROUPS     blocks of 18 bytes, each 32 values in the order of tile memory; not coalesced [TTS 7.4, "HMX
     *              layout"]
     *   CONVERT    tile32 codes: mask, shift, subtract, integer to half, product [TMAN 6.5.1, ConvertDQ, at its best]
     *   PLANES     four bit planes: shift, mask and or per bit, then as CONVERT with a zero point [TMAN 4.1, naive]
     *   PLANES_LUT four bit planes: lookups to codes, lookups to halves with the scale in the table [TMAN 4.1]; one
     *              scale per tile, its best case */
    ABLATION_SCATTER = ABLATION_FIRST,
    ABLATION_GROUPS,
    ABLATION_CONVERT,
    ABLATION_PLANES,
    ABLATION_PLANES_LUT,

    /* Likewise, but tiles as the unit's activations, [32 outputs][32 k] (finished.c), scales and minima included:
     *   FINISHED_2  2 bits, groups of 64: 640 bytes.  Vector 2 t + h has tile t's codes of outputs 16 h .. 16 h + 15:
     *               byte b, bits 2 f up: output 4 f + 2 (b & 1) + (b >> 1 & 1), k = b >> 2; then halves: scale of
     *               output 16 h + j at 32 h + 2 (j & 7) + (j >> 3), its minimum 16 further
     *   FINISHED_4  4 bits, groups of 128: 2176 bytes.  Vector p has outputs 2 p and 2 p + 1 in low and high nibbles,
     *               byte b: tile {0, 2, 1, 3}[b & 3], k = b >> 2; then halves: scale of output c at
     *               2 (8 (c >> 2 & 1) + (c & 3) + 16 (c >> 3 & 1)) + (c >> 4), its minimum 8 further */
    ABLATION_FINISHED_2,
    ABLATION_FINISHED_4,

    /* Softmax of scores that are in TCM as tiles of 32 rows x 64 keys: kind is the way of exp, m rows, k keys (a
     * multiple of 64).  Probabilities replace the scores, sums go to dst, 32 f32 per two rows [TTS Figure 14]. */
    ABLATION_SOFTMAX,

    /* One stage of the library's attention (m, below) over k keys and 32 rows of n; rows: 32 masks of 64 bits. */
    ABLATION_ATTENTION_STAGE,

    /* What NPU_OP_LOOKUP does, by multiplication: act8 at src, bit-parallel codes (fields.c) of the same widths and
     * groups; and before it a row of k f32 (a multiple of 64) to act8 (act8.c). */
    ABLATION_FIELDS,
    ABLATION_ACT8,

    /* NPU_OP_TABLES and NPU_OP_LOOKUP with tables of bytes (vlut32.c); tables are made by one thread. */
    ABLATION_VLUT32_TABLES,
    ABLATION_VLUT32,
    ABLATION_END
};

enum ablation_stage_kind {
    ABLATION_STAGE_NONE,  /* the loop, and TCM filled */
    ABLATION_STAGE_TILES, /* keys and values interleaved into tiles */
    ABLATION_STAGE_MASKS, /* where some row does not see all of a segment */
    ABLATION_STAGE_MAXIMA,
    ABLATION_STAGE_EXP,
    ABLATION_STAGE_SUMS,   /* sums, probabilities transposed */
    ABLATION_STAGE_OUTPUT, /* rescaling and adding P V */
    ABLATION_STAGES
};

/* Bytes of one tile (32 k x 32 outputs) in memory.  PLANES: 4 vectors, one per bit; the code of tile half o (vector o /
 * 64, lane o % 64) is bit i of byte B:
 *   PLANES      o = 64 (2 i + B % 2) + B / 2
 *   PLANES_LUT  o = 64 (8 (i / 4) + 4 (B % 2) + {0, 2, 1, 3}[i % 4]) + B / 2 */
enum { ABLATION_GROUP_BYTES = 18, ABLATION_GROUPS_TILE = 32 * 18, ABLATION_PLANES_TILE = 512 };

/* act8: k int8 codes, quads in the byte order of tile32's 4-bit codes | k / 32 int32, the sum of each tile's codes |
 * one f32 scale per 256 inputs | padding to 128 bytes.  Offsets; codes are at 0. */
enum { ABLATION_ACT8_BLOCK = 256 };
struct ablation_act8 {
    uint32_t sums, scales, bytes;
};
void ablation_act8_layout(uint32_t k, struct ablation_act8 *out);

/* npu_execute, and the operations above. */
uint32_t ablation_act8(struct isa *isa, const struct npu_op *op);
uint32_t ablation_stage(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op);
uint32_t ablation_finished(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op);
uint32_t ablation_fields(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op);
uint32_t ablation_vlut32(struct isa *isa, struct npu_machine *machine, const struct npu_op *op);
uint32_t ablation_execute(struct isa *isa, struct npu_machine *machine, const struct npu_op *op);

#endif
