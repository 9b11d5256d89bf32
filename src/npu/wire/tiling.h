/* SPDX-License-Identifier: MIT
 *
 * The tiling of bit planes [TMAN 4.1], found by search: which panels a matrix is packed in and how much of one a
 * product by lookup fetches at a time; how many rows and outputs a product on tiles holds, and how far its stages are
 * apart.
 *
 *     npu_tiling_of_lookups(&w);                       w: a layout but for panel and chunk
 *     if (npu_tiling_of_tiles(&w, m, first_byte, tcm_bytes, &plan)) ...  nothing fits
 *
 * The measure is time on the SoC of profiles/snapdragon-8gen3.json, 6 vector threads with everything at its better end
 * and 4 with everything at its worse one together: one copy of the weights serves both, and neither is known when they
 * are packed.  Integers; no allocation, no state, any thread.  Hosts ask and write the answer into what the NPU reads
 * (the kind, npu_op.param), since a search takes thousands of packets there.
 */
#ifndef LUTRA_NPU_WIRE_TILING_H
#define LUTRA_NPU_WIRE_TILING_H

#include "npu/wire/layout.h"

/* Packets that 128 k x 128 outputs take: one row by lookup, where further blocks follow each other; each run of blocks
 * besides; to tiles.  Lines through bench/npu/counts.json; npu/test_tiling compares. */
uint32_t npu_tiling_looked_up(uint32_t kind);
uint32_t npu_tiling_run(uint32_t kind);
uint32_t npu_tiling_to_tiles(uint32_t kind);

/* Sets w's panel and chunk.  What is in their way: the stride of a DMA (NPU_PLANES_STRIDE), NPU_LOOKUP_CHUNK. */
void npu_tiling_of_lookups(struct npu_weights *w);

/* The plan of m rows that takes least time of those that TCM has room for, as npu_gemm_plan; -1: none has. */
int npu_tiling_of_tiles(
    const struct npu_weights *w, uint32_t m, uint32_t first_byte, uint32_t tcm_bytes, struct npu_gemm_plan *out);

#endif
