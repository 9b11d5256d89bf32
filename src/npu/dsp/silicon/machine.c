/* SPDX-License-Identifier: MIT
 *
 * Cache lines and the tile unit.  There is one unit for all threads: a thread has it from clear to store.
 */
#if defined(__hexagon__)

#include "npu/dsp/silicon/silicon.h"

enum {
    BANK = 4 << 20, /* of TCM: what one instruction reads may not cross it */
    LINE = 64
};

void npu_cache_clean(const uint8_t *p, uint32_t bytes)
{
    uintptr_t end = (uintptr_t)p + bytes;
    for (uintptr_t line = (uintptr_t)p & ~(uintptr_t)(LINE - 1); bytes && line < end; line += LINE) npu_unit_line(line);
    npu_unit_settle();
}

void npu_hmx_clear(struct isa *isa)
{
    struct npu_pool *pool = isa->thread->pool;
    uint32_t nobody = 0;
    while (!__atomic_compare_exchange_n(
        &pool->owner, &nobody, isa->thread->number + 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        nobody = 0;
        npu_unit_pause();
    }
    npu_unit_scales(pool->scales);
    npu_unit_clear();
}

/* Tiles before p's bank ends, at most n. */
static uint32_t in_bank(const uint8_t *p, uint32_t n)
{
    uint32_t left = (BANK - (uint32_t)(uintptr_t)p % BANK) / TILE_BYTES;
    return n < left ? n : left;
}

void npu_hmx_mac(struct isa *isa, const uint8_t *act, const uint8_t *weight, uint32_t n_pairs)
{
    (void)isa;
    for (uint32_t n; n_pairs; n_pairs -= n, act += n * TILE_BYTES, weight += n * TILE_BYTES) {
        n = in_bank(act, in_bank(weight, n_pairs));
        npu_unit_mac(act, weight, n * TILE_BYTES - 1);
    }
}

void npu_hmx_store(struct isa *isa, uint8_t *dst)
{
    npu_unit_store(dst);
    __atomic_store_n(&isa->thread->pool->owner, 0, __ATOMIC_RELEASE);
}

#endif
