/* SPDX-License-Identifier: MIT
 *
 * User DMA: a ring of descriptors per thread, chained as they are started, so that as many fly as kernels ask for.
 */
#if defined(__hexagon__)

#include "npu/dsp/silicon/silicon.h"

void npu_dma_open(struct npu_dma *dma)
{
    dma->started = dma->landed = dma->stopped = 0, dma->tail = 0;
    npu_unit_dmpause(); /* whatever this engine's last user left */
}

void npu_dma_close(struct npu_dma *dma)
{
    if (dma->tail) npu_unit_dmpause();
}

uint32_t npu_dma_failed(const struct npu_pool *pool)
{
    for (uint32_t i = 0; i < pool->n; i++)
        if (pool->thread[i].dma.stopped) return pool->thread[i].dma.stopped;
    return 0;
}

static uint32_t past_cache(const struct npu_pool *pool, const uint8_t *p, uint32_t bit)
{
    return (uint32_t)(p - pool->tcm) < pool->tcm_bytes ? 0 : bit;
}

int npu_dma_done(struct isa *isa, uint32_t ticket)
{
    struct npu_dma *dma = &isa->thread->dma;
    while (dma->started - ticket < dma->started - dma->landed) { /* of those in flight; tickets wrap */
        uint32_t state = npu_unit_dmpoll();
        struct npu_dma_descriptor *d = &dma->descriptor[dma->landed % NPU_DMA_RING];
        if (__atomic_load_n(&d->control, __ATOMIC_ACQUIRE) & NPU_DMA_DONE) {
            dma->landed++;
            continue;
        }
        if (state != NPU_DMA_STOPPED) return 0;
        dma->stopped = state, dma->landed = dma->started;
    }
    return 1;
}

void npu_dma_wait(struct isa *isa, uint32_t ticket)
{
    while (!npu_dma_done(isa, ticket)) {
    }
}

uint32_t npu_dma_start(struct isa *isa, uint8_t *dst, uint32_t dst_stride, const uint8_t *src, uint32_t src_stride,
    uint32_t width, uint32_t rows)
{
    const struct npu_pool *pool = isa->thread->pool;
    struct npu_dma *dma = &isa->thread->dma;
    struct npu_dma_descriptor *d = &dma->descriptor[dma->started % NPU_DMA_RING];
    npu_dma_wait(isa, dma->started + 1 - NPU_DMA_FLIGHT);
    if (dma->stopped) return dma->landed = ++dma->started;
    *d = (struct npu_dma_descriptor){.src = (uint32_t)(uintptr_t)src, .dst = (uint32_t)(uintptr_t)dst};
    d->control = past_cache(pool, src, NPU_DMA_SRC_MEMORY) | past_cache(pool, dst, NPU_DMA_DST_MEMORY);
    if (rows == 1) {
        d->control |= width;
    } else {
        d->control |= NPU_DMA_2D;
        d->rows = rows << 16 | width, d->strides = dst_stride << 16 | src_stride;
    }
    if (dma->tail)
        npu_unit_dmlink(dma->tail, d);
    else
        npu_unit_dmstart(d);
    dma->tail = d;
    return ++dma->started;
}

#endif
