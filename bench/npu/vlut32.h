/* SPDX-License-Identifier: MIT
 *
 * Products of a few rows with bit planes by lookups in tables of bytes: drop-in counterparts of npu_tables and
 * npu_lookup (npu/dsp/kernels.h), whose plans and weights they use.
 */
#ifndef LUTRA_BENCH_NPU_VLUT32_H
#define LUTRA_BENCH_NPU_VLUT32_H

#include "npu/dsp/kernels.h"

void vlut32_tables(
    struct isa *isa, uint8_t *restrict lut, const uint8_t *restrict x, uint32_t k, uint32_t first, uint32_t last);
uint32_t vlut32_product(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op);

#endif
