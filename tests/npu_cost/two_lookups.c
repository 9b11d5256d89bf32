/* SPDX-License-Identifier: MIT
 *
 * npu_tables and npu_lookup as the emulated device calls them, in place of the library's: theirs, or those with tables
 * of bytes.
 */
#include "two_lookups.h"

#include "vlut32.h"

#define npu_tables lut16_tables
#define npu_lookup lut16_lookup
void npu_tables(
    struct isa *isa, uint8_t *restrict lut, const uint8_t *restrict x, uint32_t k, uint32_t first, uint32_t last);
uint32_t npu_lookup(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op);
#include "npu/dsp/lookup.c"
#undef npu_tables
#undef npu_lookup

int two_lookups_bytes;

void npu_tables(
    struct isa *isa, uint8_t *restrict lut, const uint8_t *restrict x, uint32_t k, uint32_t first, uint32_t last)
{
    (two_lookups_bytes ? vlut32_tables : lut16_tables)(isa, lut, x, k, first, last);
}

uint32_t npu_lookup(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    return (two_lookups_bytes ? vlut32_product : lut16_lookup)(isa, machine, op);
}
