/* SPDX-License-Identifier: MIT
 *
 * The NPU's end of a session: power, the window, TCM, threads, then the ring until it ends; all undone in reverse.
 */
#if defined(__hexagon__)

#include "npu/dsp/silicon/silicon.h"

enum { SPINS = 8000, SLEEP_US = 100 };

static void flush(void *user, void *p, uint32_t bytes)
{
    (void)user;
    npu_cache_clean(p, bytes);
}

/* In thread 0, which has the isa of the first thread. */
static uint32_t execute(void *user, const struct npu_op *op)
{
    struct npu_silicon *s = user;
    struct isa *isa = &s->pool.thread[0].isa;
    uint32_t status = npu_op_check(isa, &s->memory, op);
    if (status == NPU_OK) status = npu_execute(isa, &s->machine, op);
    uint32_t state = npu_dma_failed(&s->pool);
    if (!state) return status;
    s->error = npu_serve_error(NPU_SERVE_DMA, state);
    return NPU_STOPPED;
}

/* A while after the last message the thread sleeps. */
static void idle(uint32_t times)
{
    if (times > SPINS && qurt_timer_sleep)
        qurt_timer_sleep(SLEEP_US);
    else
        npu_unit_pause();
}

static void lead(struct isa *isa, void *user)
{
    struct npu_silicon *s = user;
    int rc = 0;
    (void)isa;
    npu_server_start(&s->server, &s->machine);
    for (uint32_t idles = 0; !s->error && (rc = npu_server_step(&s->server)) >= 0;) {
        idles = rc ? 0 : idles + 1;
        if (!rc) idle(idles);
    }
    if (rc < 0 && s->server.view.ring->npu.state == NPU_RING_BROKEN) s->error = npu_serve_error(NPU_SERVE_RING, 0);
}

static int run(struct npu_silicon *s)
{
    struct npu_pool *p = &s->pool;
    p->n = npu_vector_contexts(s->ask.n_threads < NPU_THREADS_MAX ? s->ask.n_threads : NPU_THREADS_MAX);
    if (!p->n) return npu_serve_error(NPU_SERVE_VECTORS, 0);
    p->base = s->window, p->lead = lead, p->lead_user = s;
    s->machine = (struct npu_machine){(uint32_t)(p->tcm - s->window), (uint32_t)(p->scales - p->tcm), 65536, p->n, 0,
        0}; /* the scales are not a kernel's */
    s->memory = (struct npu_memory){NPU_RING_BYTES, s->ask.window_bytes};
    s->server = (struct npu_server){
        .view = {(struct npu_ring *)(void *)s->window, flush, flush, 0}, .execute = execute, .user = s};
    s->error = 0;
    int error = npu_pool_run(p);
    return error ? error : s->error;
}

static int sound(const struct npu_serve *a)
{
    return a->magic == NPU_RING_MAGIC && a->window_bytes > NPU_RING_BYTES && a->window_bytes <= INT32_MAX &&
           a->n_threads && a->fd <= INT32_MAX && a->power.least_corner <= a->power.most_corner &&
           a->power.most_corner <= 255;
}

int npu_serve(struct npu_silicon *s, const struct npu_serve *ask)
{
    if (!sound(ask)) return npu_serve_error(NPU_SERVE_CALL, 0);
    if (__atomic_exchange_n(&s->busy, 1, __ATOMIC_ACQUIRE)) return npu_serve_error(NPU_SERVE_BUSY, 0);
    s->ask = *ask;
    int error = npu_power_up(s, &s->ask.power);
    if (!error) error = npu_window_map(s);
    if (!error) error = npu_tcm_take(&s->pool);
    if (!error) error = run(s);
    npu_tcm_give(&s->pool);
    npu_window_unmap(s);
    npu_power_down(s);
    __atomic_store_n(&s->busy, 0, __ATOMIC_RELEASE);
    return error;
}

#endif
