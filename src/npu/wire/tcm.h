/* SPDX-License-Identifier: MIT
 *
 * The TCM of one operation: areas one behind another, behind what stays between operations (the exp table).  Every plan
 * and kernel that uses TCM takes it here, so nothing overlaps and one comparison says whether all of it fits.
 *
 *     struct npu_tcm tcm = npu_tcm_from(first_byte, tcm_bytes);
 *     plan->act = npu_tcm_take(&tcm, act_bytes);           offsets from the start of TCM, multiples of a tile
 *     plan->out = npu_tcm_take(&tcm, out_bytes);
 *     if (!npu_tcm_fits(&tcm)) return -1;                  nothing of it may be used
 *     plan->bytes = (uint32_t)tcm.used;                    the high-water mark
 *
 * Sums are 64-bit: taking more than there is, by any number of areas, is found by npu_tcm_fits.
 */
#ifndef LUTRA_NPU_WIRE_TCM_H
#define LUTRA_NPU_WIRE_TCM_H

#include <stdint.h>

struct npu_tcm {
    uint64_t used, end;
};

enum { NPU_TCM_ALIGN = 2048 }; /* a tile */

static inline struct npu_tcm npu_tcm_from(uint64_t first_byte, uint32_t tcm_bytes)
{
    return (struct npu_tcm){first_byte, tcm_bytes};
}

static inline uint32_t npu_tcm_take(struct npu_tcm *tcm, uint64_t bytes)
{
    uint64_t at = (tcm->used + NPU_TCM_ALIGN - 1) & ~(uint64_t)(NPU_TCM_ALIGN - 1);
    tcm->used = at + ((bytes + NPU_TCM_ALIGN - 1) & ~(uint64_t)(NPU_TCM_ALIGN - 1));
    return (uint32_t)at;
}

static inline int npu_tcm_fits(const struct npu_tcm *tcm)
{
    return tcm->used <= tcm->end;
}

#endif
