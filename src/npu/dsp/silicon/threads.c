/* SPDX-License-Identifier: MIT
 *
 * Vector threads: each takes a vector context and its turn at the tile unit, then waits.  Thread 0 leads: it serves the
 * ring, and its sections (isa_threads, isa_phases) are shared with the others.  Thread n is the tile unit's and has no
 * vectors.  A short spin, then sleep.
 */
#if defined(__hexagon__)

#include "npu/dsp/silicon/silicon.h"

enum { SPINS = 8000, VECTORS = 1, TILES = 2, PRIORITY = 128, RUN = 1, LEAVE };

/* ---- events ---- */

static uint32_t look(const struct npu_event *e)
{
    return __atomic_load_n(&e->word, __ATOMIC_SEQ_CST);
}

/* Returns the word once it is not `old`. */
static uint32_t wait_for(struct npu_event *e, uint32_t old)
{
    for (uint32_t i = 0; i < SPINS && look(e) == old; i++) npu_unit_pause();
    while (look(e) == old) {
        __atomic_add_fetch(&e->sleepers, 1, __ATOMIC_SEQ_CST);
        qurt_futex_wait(&e->word, (int)old);
        __atomic_sub_fetch(&e->sleepers, 1, __ATOMIC_SEQ_CST);
    }
    return look(e);
}

static void add(struct npu_event *e, uint32_t n)
{
    __atomic_add_fetch(&e->word, n, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&e->sleepers, __ATOMIC_SEQ_CST)) qurt_futex_wake(&e->word, NPU_THREADS_MAX);
}

/* Until the word has counted to n; it wraps. */
static void wait_until(struct npu_event *e, uint32_t n)
{
    for (uint32_t seen = look(e); (int32_t)(seen - n) < 0;) seen = wait_for(e, seen);
}

/* ---- contexts ---- */

uint32_t npu_vector_contexts(uint32_t n)
{
    uint32_t have = qurt_hvx_get_units ? (uint32_t)qurt_hvx_get_units() >> 8 & 0xff : n;
    if (!compute_resource_hmx_lock2 && n > 1) n = 1; /* only threads that may share the tile unit can be several */
    return n < have ? n : have;
}

static int lock_tiles(uint32_t context)
{
    if (compute_resource_hmx_lock2) return compute_resource_hmx_lock2(context, COMPUTE_TILES_SHARED);
    return compute_resource_hmx_lock ? compute_resource_hmx_lock(context) : NPU_SERVE_ABSENT;
}

static void unlock_tiles(uint32_t context)
{
    if (compute_resource_hmx_lock2 && compute_resource_hmx_unlock2)
        compute_resource_hmx_unlock2(context, COMPUTE_TILES_SHARED);
    else if (compute_resource_hmx_unlock)
        compute_resource_hmx_unlock(context);
}

static int enter(struct npu_thread *t)
{
    int vectors = t->number < t->pool->n, error = vectors && qurt_hvx_lock ? qurt_hvx_lock(QURT_VECTORS_128) : 0;
    if (error) return npu_serve_error(NPU_SERVE_VECTORS, (uint32_t)error);
    t->held = vectors ? VECTORS : 0;
    error = lock_tiles(t->pool->context);
    if (error) return npu_serve_error(NPU_SERVE_TILES, (uint32_t)error);
    t->held |= TILES;
    if (vectors) npu_dma_open(&t->dma);
    return 0;
}

static void leave(struct npu_thread *t)
{
    if (t->held == (VECTORS | TILES)) npu_dma_close(&t->dma);
    if (t->held & TILES) unlock_tiles(t->pool->context);
    if (t->held & VECTORS && qurt_hvx_lock && qurt_hvx_unlock) qurt_hvx_unlock();
    t->held = 0;
}

/* ---- sections ---- */

/* Shares number, number + pool->n, ... of a vector thread, after the tile thread's phase so many before. */
static void vector_phase(struct npu_thread *t, uint32_t number)
{
    struct npu_pool *p = t->pool;
    if (number >= p->phase_lead) wait_until(&p->tiled, p->tiled_before + number + 1 - p->phase_lead);
    for (uint32_t i = t->number; i < p->n_shares; i += p->n) p->phase(&t->isa, p->user, number, i, p->n_shares);
    add(&p->ended[number % 3], 1);
}

/* The share after these, when all vector threads have ended the phase before.  That is counted apart from the two
 * phases after it, which some may have ended when others have not ended this one. */
static void tile_phase(struct npu_thread *t, uint32_t number)
{
    struct npu_pool *p = t->pool;
    uint32_t before = (number + 2) % 3;
    if (number) wait_until(&p->ended[before], p->ended_before[before] + (number + 2) / 3 * p->n);
    p->phase(&t->isa, p->user, number, p->n_shares, p->n_shares);
    add(&p->tiled, 1);
}

/* A thread's part of the section; without a thread for tiles they are thread 0's. */
static void share(struct npu_thread *t)
{
    struct npu_pool *p = t->pool;
    for (uint32_t i = t->number; !p->phase && t->number < p->n && i < p->n_shares; i += p->n)
        p->fn(&t->isa, p->user, i, p->n_shares);
    for (uint32_t i = 0; p->phase && i < p->n_phases; i++) {
        if (t->number < p->n) vector_phase(t, i);
        if (t->number == (p->n_all > p->n ? p->n : 0)) tile_phase(t, i);
    }
}

static void run_section(struct isa *isa)
{
    struct npu_pool *p = isa->thread->pool;
    uint32_t done = look(&p->done) + p->n_all - 1;
    p->tiled_before = look(&p->tiled);
    for (int i = 0; i < 3; i++) p->ended_before[i] = look(&p->ended[i]);
    if (p->n_all > 1) add(&p->section, 1);
    share(isa->thread);
    wait_until(&p->done, done);
}

void npu_threads_run(struct isa *isa, uint32_t n, isa_thread *fn, void *user)
{
    struct npu_pool *p = isa->thread->pool;
    if (n < 2) {
        if (n) fn(isa, user, 0, n);
        return;
    }
    p->fn = fn, p->phase = 0, p->user = user, p->n_shares = n, p->n_phases = 1;
    run_section(isa);
}

void npu_phases_run(struct isa *isa, uint32_t n, uint32_t n_phases, uint32_t lead, isa_phase *fn, void *user)
{
    struct npu_pool *p = isa->thread->pool;
    p->phase = fn, p->user = user, p->n_shares = n, p->n_phases = n_phases, p->phase_lead = lead;
    run_section(isa);
}

static void follow(struct npu_thread *t)
{
    struct npu_pool *p = t->pool;
    for (uint32_t seen = 0;;) {
        seen = wait_for(&p->section, seen);
        if (p->leave) return;
        share(t);
        add(&p->done, 1);
    }
}

static void run(void *user)
{
    struct npu_thread *t = user;
    struct npu_pool *p = t->pool;
    t->error = enter(t);
    add(&p->ready, 1);
    if (wait_for(&p->go, 0) == RUN) {
        if (t->number) {
            follow(t);
        } else {
            p->lead(&t->isa, p->lead_user);
            p->leave = 1;
            add(&p->section, 1);
        }
    }
    leave(t);
}

/* ---- the pool ---- */

static int start(struct npu_pool *p, uint32_t number)
{
    struct npu_thread *t = &p->thread[number];
    struct qurt_attributes a = {.name = "lutra",
        .priority = PRIORITY,
        .bus_priority = 255,
        .test_id = 0xfffe,
        .stack_bytes = NPU_STACK_BYTES,
        .stack = p->stack[number],
        .joinable = 1};
    if (qurt_thread_get_id && qurt_thread_get_priority) {
        int mine = qurt_thread_get_priority(qurt_thread_get_id());
        if (mine > 0 && mine < 255) a.priority = (uint16_t)mine;
    }
    t->isa = (struct isa){.base = p->base, .thread = t};
    t->pool = p, t->number = number, t->held = 0, t->error = 0;
    int error = qurt_thread_create(&t->id, &a, run, t);
    return error ? npu_serve_error(NPU_SERVE_THREADS, (uint32_t)error) : 0;
}

int npu_pool_run(struct npu_pool *p)
{
    uint32_t n = 0;
    int error = 0, status;
    p->ready = p->go = p->section = p->done = p->tiled = p->ended[0] = p->ended[1] = p->ended[2] =
        (struct npu_event){0, 0};
    p->leave = 0, p->owner = 0;
    p->n_all = p->n + (compute_resource_hmx_lock2 != 0); /* where the tile unit may be shared, a thread for it alone */
    while (n < p->n_all && !error) {
        error = start(p, n);
        n += !error;
    }
    wait_until(&p->ready, n);
    for (uint32_t i = 0; i < n && !error; i++) error = p->thread[i].error;
    add(&p->go, error ? LEAVE : RUN);
    for (uint32_t i = 0; i < n; i++) qurt_thread_join(p->thread[i].id, &status);
    return error;
}

#endif
