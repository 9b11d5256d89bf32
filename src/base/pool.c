/* SPDX-License-Identifier: MIT
 *
 * A run is announced by raising `epoch`; workers watch it and count themselves out of `n_busy`.  Whoever waits spins
 * first and then sleeps on the condition variable.  Raising and sleeping cannot miss each other: the sleeper
 * counts itself in n_asleep and then looks at the word again, the waker changes the word and then looks at n_asleep,
 * all in the single order of seq_cst operations.
 */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/cpuinfo.h"

enum {
    MAX_THREAD = 1024,
    DEFAULT_SPIN_US = 100, /* longer than the work between two steps: sampling, a callback */
    PAUSES_PER_LOOK = 64,  /* spins between two looks at the clock */
    BARRIER_PAUSES = 4096, /* spins at a barrier before the processor is offered to others */
    LINE = 64,
};

struct worker {
    struct pool *pool;
    pthread_t thread;
    int ith, cpu; /* cpu -1 = not pinned */
};

struct pool {
    /* One cache line per word that different threads write. */
    _Alignas(LINE) _Atomic uint32_t epoch; /* runs announced so far; the last one means stop if `stop` */
    _Alignas(LINE) _Atomic uint32_t n_busy;
    _Alignas(LINE) _Atomic uint32_t n_arrived; /* at the barrier */
    _Alignas(LINE) _Atomic uint32_t phase;     /* barriers passed */
    _Alignas(LINE) _Atomic uint32_t n_asleep;
    void (*fn)(void *arg, int ith, int nth); /* written before epoch is raised */
    void *arg;
    bool stop;
    int n_thread, n_started; /* workers started */
    uint32_t spin_us;        /* 0 when there are more threads than processors */
    int barrier_pauses;
    pthread_mutex_t run;   /* held during a run */
    pthread_mutex_t sleep; /* with `wake` */
    pthread_cond_t wake;
    struct worker worker[]; /* [n_thread - 1] */
};

static bool spin_while(const struct pool *pool, _Atomic uint32_t *word, uint32_t value)
{
    struct clock clock = clock_real();
    uint64_t end_us = clock_now_us(clock) + pool->spin_us;
    do {
        for (int i = 0; i < PAUSES_PER_LOOK; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != value) return false;
            compiler_pause();
        }
    } while (clock_now_us(clock) < end_us);
    return true;
}

/* Returns once *word != value; what was written before the change is then visible. */
static void wait_change(struct pool *pool, _Atomic uint32_t *word, uint32_t value)
{
    if (!spin_while(pool, word, value)) return;
    pthread_mutex_lock(&pool->sleep);
    atomic_fetch_add(&pool->n_asleep, 1);
    while (atomic_load(word) == value) pthread_cond_wait(&pool->wake, &pool->sleep);
    atomic_fetch_sub(&pool->n_asleep, 1);
    pthread_mutex_unlock(&pool->sleep);
}

/* After a change of epoch or n_busy. */
static void wake_sleepers(struct pool *pool)
{
    if (!atomic_load(&pool->n_asleep)) return;
    pthread_mutex_lock(&pool->sleep);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->sleep);
}

static void pin_thread(int cpu)
{
    cpu_set_t set;
    if (cpu < 0 || cpu >= CPU_SETSIZE) return;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void *work(void *arg)
{
    struct worker *self = arg;
    struct pool *pool = self->pool;
    pin_thread(self->cpu);
    for (uint32_t seen = 0;; seen++) {
        wait_change(pool, &pool->epoch, seen);
        if (pool->stop) return NULL;
        pool->fn(pool->arg, self->ith, pool->n_thread);
        if (atomic_fetch_sub(&pool->n_busy, 1) == 1) wake_sleepers(pool);
    }
}

static int start_worker(struct pool *pool, int ith, int cpu, struct lutra_error *err)
{
    struct worker *worker = &pool->worker[ith - 1];
    *worker = (struct worker){.pool = pool, .ith = ith, .cpu = cpu};
    if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "cannot start thread %d of %d", ith + 1, pool->n_thread);
    }
    pool->n_started++;
    return LUTRA_OK;
}

/* Signals go to the application's own threads: workers block them.  But for those that an instruction of the worker itself
 * raises: blocked, they would kill the process past the handler that reports the crash. */
static void block_signals(sigset_t *old)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t set;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&set, own[i]);
    pthread_sigmask(SIG_SETMASK, &set, old);
}

static int start_workers(struct pool *pool, bool pin, struct lutra_error *err)
{
    int cpu[MAX_THREAD], rc = LUTRA_OK;
    int n_cpu = pin ? cpu_allowed(cpu, MAX_THREAD) : 0;
    if (n_cpu > MAX_THREAD) n_cpu = MAX_THREAD;
    sigset_t old;
    block_signals(&old);
    for (int i = 1; i < pool->n_thread && rc == LUTRA_OK; i++) {
        rc = start_worker(pool, i, n_cpu ? cpu[i % n_cpu] : -1, err);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

int pool_open(struct pool **out, const struct pool_settings *settings, struct lutra_error *err)
{
    int n_usable = cpu_usable(), n_thread = settings->n_thread ? settings->n_thread : n_usable;
    *out = NULL;
    if (settings->n_thread == 0 && n_thread > MAX_THREAD) n_thread = MAX_THREAD;
    if (n_thread < 1 || n_thread > MAX_THREAD) {
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%d threads asked for: 1 to %d are possible", n_thread, MAX_THREAD);
    }
    size_t bytes = sizeof(struct pool) + (size_t)(n_thread - 1) * sizeof(struct worker);
    struct pool *pool = aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
    if (!pool) return lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for a pool of %d threads", n_thread);
    *pool = (struct pool){.n_thread = n_thread};
    bool fits = n_thread <= n_usable;
    pool->spin_us = !fits ? 0 : settings->spin_us > 0 ? (uint32_t)settings->spin_us : DEFAULT_SPIN_US;
    pool->barrier_pauses = fits ? BARRIER_PAUSES : 1;
    pthread_mutex_init(&pool->run, NULL);
    pthread_mutex_init(&pool->sleep, NULL);
    pthread_cond_init(&pool->wake, NULL);
    int rc = start_workers(pool, settings->pin, err);
    if (rc < 0) pool_close(&pool);
    *out = pool;
    return rc;
}

void pool_close(struct pool **out)
{
    struct pool *pool = *out;
    if (!pool) return;
    pool->stop = true;
    atomic_fetch_add(&pool->epoch, 1);
    wake_sleepers(pool);
    for (int i = 0; i < pool->n_started; i++) pthread_join(pool->worker[i].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->sleep);
    pthread_mutex_destroy(&pool->run);
    free(pool);
    *out = NULL;
}

int pool_size(const struct pool *pool)
{
    return pool->n_thread;
}

void pool_run(struct pool *pool, void (*fn)(void *arg, int ith, int nth), void *arg)
{
    pthread_mutex_lock(&pool->run);
    pool->fn = fn;
    pool->arg = arg;
    atomic_store(&pool->n_busy, (uint32_t)pool->n_thread - 1);
    atomic_fetch_add(&pool->epoch, 1);
    wake_sleepers(pool);
    fn(arg, 0, pool->n_thread);
    for (uint32_t n; (n = atomic_load(&pool->n_busy)) != 0;) wait_change(pool, &pool->n_busy, n);
    pthread_mutex_unlock(&pool->run);
}

/* Sense-reversing: the last to arrive opens the next phase. */
void pool_barrier(struct pool *pool)
{
    uint32_t phase = atomic_load_explicit(&pool->phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&pool->n_arrived, 1, memory_order_acq_rel) + 1 == (uint32_t)pool->n_thread) {
        atomic_store_explicit(&pool->n_arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&pool->phase, phase + 1, memory_order_release);
        return;
    }
    for (int i = 0; atomic_load_explicit(&pool->phase, memory_order_acquire) == phase; i++) {
        if (i < pool->barrier_pauses)
            compiler_pause();
        else
            sched_yield();
    }
}
