/* SPDX-License-Identifier: MIT
 *
 * isa.h on silicon beside its vector operations: threads, user DMA, cache maintenance, the tile unit.
 */
#ifndef LUTRA_NPU_DSP_SILICON_MACHINE_IMPL_H
#define LUTRA_NPU_DSP_SILICON_MACHINE_IMPL_H

#include <stdint.h>

struct isa;

/* threads.c */
void npu_threads_run(struct isa *isa, uint32_t n, isa_thread *fn, void *user);
void npu_phases_run(struct isa *isa, uint32_t n, uint32_t n_phases, uint32_t lead, isa_phase *fn, void *user);

/* dma.c: a descriptor of the calling thread's ring; tickets count its starts.  An engine that stopped reads as done
 * and is told by npu_dma_failed. */
uint32_t npu_dma_start(struct isa *isa, uint8_t *dst, uint32_t dst_stride, const uint8_t *src, uint32_t src_stride,
    uint32_t width, uint32_t rows);
int npu_dma_done(struct isa *isa, uint32_t ticket);
void npu_dma_wait(struct isa *isa, uint32_t ticket);

/* machine.c: the tile unit is held from clear to store. */
void npu_hmx_clear(struct isa *isa);
void npu_hmx_mac(struct isa *isa, const uint8_t *act, const uint8_t *weight, uint32_t n_pairs);
void npu_hmx_store(struct isa *isa, uint8_t *dst);

/* machine.c: lines are written back and dropped. */
void npu_cache_clean(const uint8_t *p, uint32_t bytes);

/* units.c */
uint64_t npu_unit_cycles(void);
uint64_t npu_unit_ticks(void);

#define isa_cycles() npu_unit_cycles()
#define isa_ticks() npu_unit_ticks()
#define isa_threads(n, fn, user) npu_threads_run(isa, n, fn, user)
#define isa_phases(n, n_phases, lead, fn, user) npu_phases_run(isa, n, n_phases, lead, fn, user)
#define dma_start_1d(dst, src, bytes) npu_dma_start(isa, dst, 0, src, 0, bytes, 1)
#define dma_start_2d(dst, ds, src, ss, w, rows) npu_dma_start(isa, dst, ds, src, ss, w, rows)
#define dma_poll(ticket) npu_dma_done(isa, ticket)
#define dma_wait(ticket) npu_dma_wait(isa, ticket)
#define cache_flush(p, bytes) npu_cache_clean(p, bytes)
#define cache_invalidate(p, bytes) npu_cache_clean(p, bytes)
#define tile_clear() npu_hmx_clear(isa)
#define tile_mac(a, w, n) npu_hmx_mac(isa, a, w, n)
#define tile_store(dst) npu_hmx_store(isa, dst)

#endif
