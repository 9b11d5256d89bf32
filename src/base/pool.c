/* SPDX-License-Identifier: MIT
 *
 * Each worker has a seat, one word:
 *
 *     IDLE -> OFFERED -> READY -> SEATED -> IN -> IDLE        asked, has answered, taken into the team, runs, is done
 *     any of the first three -> ASLEEP -> OFFERED             has waited for long; the offer wakes it
 *     IN -> ASLEEP                                            has left at pool_regroup
 *
 * The team's barrier is one word, too: the phase, how many are in the team, and how many of them have arrived.  The
 * last to arrive opens: it alone then acts, makes the new team where it may, and raises the phase.  A thread that
 * leaves takes itself out of both counts in one step, which fails once all have arrived.
 *
 * Sleeping and waking cannot miss each other: who sleeps on `phase` counts itself in n_asleep and looks at the word
 * again (the futex does), who opens raises the word and then looks at n_asleep, all in the single order of seq_cst
 * operations.
 */
#include "base/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpuinfo.h"
#include "base/pace.h"
#include "base/thread.h"

enum {
    MAX_THREAD = 1024,
    DEFAULT_SPIN_US = 200, /* longer than the work between two steps: sampling, a callback */
    READY_SPIN_US = 1000,  /* of a worker that came late: the next pool_regroup may be some way off */
    ANSWER_US = 5,         /* for the answer of a worker that spins, if it has a processor */
    FRESH_US = 50,         /* so soon after a run its workers need not answer: they still have their processors */
    WAKE_US = 100,         /* and of one that sleeps, if there is a free one */
    PAUSES_PER_LOOK = 64,  /* spins between two looks at the clock */
    LINE = 64,
};

static const uint32_t NO_WAKE = UINT32_MAX;

/* The barrier's word: [phase: 32][team: 16][arrived: 16]. */
static const uint64_t PHASE = 1ull << 32, TEAM = 1ull << 16;

static uint32_t phase_of(uint64_t count)
{
    return (uint32_t)(count / PHASE);
}

static bool all_arrived(uint64_t count)
{
    return count % TEAM == count / TEAM % TEAM;
}

enum seat { IDLE, OFFERED, READY, SEATED, IN, ASLEEP, STOP };

struct worker {
    _Alignas(LINE) _Atomic uint32_t seat;
    bool left;      /* its fn returns because it has left; its own thread's, like the next */
    uint64_t since; /* when it began to wait for what it then left; 0: it did not */
    int ith, entry; /* its place, and where it came in: written before it is IN */
    int cpu;        /* -1 = not pinned */
    struct pool *pool;
    pthread_t thread;
};

struct pool {
    /* One cache line per word that different threads write. */
    _Alignas(LINE) _Atomic uint64_t count; /* the barrier */
    _Alignas(LINE) _Atomic uint32_t phase; /* of it, to wait on: raised after */
    _Alignas(LINE) _Atomic uint32_t n_asleep;
    _Atomic uint64_t lost_us; /* by threads of the run that waited for long */
    atomic_bool changed;      /* somebody has left or is READY since the team was made */
    void (*fn)(void *arg, int ith, int nth);
    void *arg;
    int nth;                 /* the team's size */
    int n_asked;             /* workers[0 .. n_asked - 1] may be in this run's team */
    uint64_t end_us;         /* of the last run */
    bool fresh;              /* the run that begins follows closely on the last */
    struct worker **member;  /* [nth] by place; [0] is the caller: NULL */
    int n_thread, n_started; /* workers started */
    uint32_t spin_us;        /* 0 when there are more threads than processors */
    bool all;
    struct pace pace[POOL_KINDS];
    pthread_mutex_t run;    /* held during a run */
    pthread_mutex_t leave;  /* held while a thread leaves, or a team is made */
    _Alignas(LINE) int at;  /* of the caller's pool_regroup: written at each of them, read when a team is made */
    struct worker worker[]; /* [n_thread - 1] */
};

/* ---- waiting ---- */

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void sleep_while(_Atomic uint32_t *word, uint32_t value)
{
    while (atomic_load(word) == value) futex(word, FUTEX_WAIT_PRIVATE, value);
}

static void wake(_Atomic uint32_t *word)
{
    futex(word, FUTEX_WAKE_PRIVATE, INT32_MAX);
}

/* Whether *word has another value within that time. */
static bool spin_while(_Atomic uint32_t *word, uint32_t value, uint32_t us)
{
    struct clock clock = clock_real();
    uint64_t end_us = 0;
    for (int i = 0;; i = (i + 1) % PAUSES_PER_LOOK) {
        if (atomic_load_explicit(word, memory_order_acquire) != value) return true;
        if (i < PAUSES_PER_LOOK - 1) {
            compiler_pause();
            continue;
        }
        uint64_t now_us = clock_now_us(clock);
        if (!end_us) end_us = now_us + us;
        if (now_us >= end_us) return false;
    }
}

/* ---- a worker between runs, or out of one ---- */

/* A thread has waited since then. */
static void note_lost(struct pool *pool, uint64_t since_us)
{
    atomic_fetch_add(&pool->lost_us, clock_now_us(clock_real()) - since_us);
}

/* Until it is IN or has to STOP. */
static uint32_t wait_for_seat(struct worker *self)
{
    for (;;) {
        uint32_t seat = atomic_load(&self->seat);
        if (seat == IN || seat == STOP) return seat;
        if (seat == ASLEEP) {
            sleep_while(&self->seat, ASLEEP);
        } else if (seat == OFFERED) {
            atomic_compare_exchange_strong(&self->seat, &seat, READY);
            atomic_store(&self->pool->changed, true);
            if (self->since) note_lost(self->pool, self->since);
            self->since = 0;
        } else if (!spin_while(&self->seat, seat, seat == READY ? READY_SPIN_US : self->pool->spin_us) &&
                   seat != SEATED) {
            atomic_compare_exchange_strong(&self->seat, &seat, ASLEEP);
        }
    }
}

/* ---- teams ---- */

/* Asks all workers that are not in the team, and waits for their answers, but not for long; for one that has to be
 * woken, wake_us, or NO_WAKE: who sleeps is not asked. */
static void ask(struct pool *pool, uint32_t wake_us)
{
    struct clock clock = clock_real();
    uint32_t patience_us = 0;
    for (int i = 0; i < pool->n_asked; i++) {
        struct worker *w = &pool->worker[i];
        uint32_t seat = atomic_load(&w->seat);
        if (seat == IN || (seat == IDLE && pool->fresh) || (seat == ASLEEP && wake_us == NO_WAKE)) continue;
        bool woken = atomic_exchange(&w->seat, OFFERED) == ASLEEP;
        if (woken) wake(&w->seat);
        uint32_t us = woken && wake_us != NO_WAKE ? wake_us : ANSWER_US;
        if (patience_us < us) patience_us = us;
    }
    if (!patience_us) return;
    uint64_t end_us = clock_now_us(clock) + patience_us;
    for (int i = 0; i < pool->n_asked; i++)
        while (atomic_load(&pool->worker[i].seat) == OFFERED && clock_now_us(clock) < end_us) compiler_pause();
}

/* Whether a worker is in the team, from now on or still. */
static bool take_in(const struct pool *pool, struct worker *w)
{
    uint32_t ready = READY, idle = IDLE;
    if (atomic_load(&w->seat) == IN) return true;
    if (pool->all)
        atomic_store(&w->seat, SEATED);
    else if (!atomic_compare_exchange_strong(&w->seat, &ready, SEATED) &&
             !(pool->fresh && atomic_compare_exchange_strong(&w->seat, &idle, SEATED)))
        return false;
    w->entry = pool->at;
    return true;
}

/* With nobody in the team but whoever calls, or all of it at the barrier. */
static void make_team(struct pool *pool, uint32_t wake_us)
{
    if (!pool->all) ask(pool, wake_us);
    pthread_mutex_lock(&pool->leave);
    pool->nth = 1;
    for (int i = 0; i < pool->n_asked; i++) {
        struct worker *w = &pool->worker[i];
        if (!take_in(pool, w)) continue;
        w->ith = pool->nth;
        pool->member[pool->nth++] = w;
    }
    pthread_mutex_unlock(&pool->leave);
}

/* Lets the team go on.  New members come after the phase is raised: their next barrier is the next. */
static void open_phase(struct pool *pool)
{
    uint32_t phase = atomic_load(&pool->phase) + 1;
    atomic_store_explicit(&pool->count, phase * PHASE + (uint64_t)pool->nth * TEAM, memory_order_release);
    atomic_store(&pool->phase, phase);
    if (atomic_load(&pool->n_asleep)) wake(&pool->phase);
}

/* Those that make_team has seated begin. */
static void admit(struct pool *pool)
{
    for (int i = 0; i < pool->n_asked; i++) {
        struct worker *w = &pool->worker[i];
        if (atomic_load_explicit(&w->seat, memory_order_relaxed) != SEATED) continue;
        atomic_store(&w->seat, IN);
        if (pool->all) wake(&w->seat);
    }
}

/* Whether the caller is the last of the team. */
static bool arrive(struct pool *pool)
{
    return all_arrived(atomic_fetch_add(&pool->count, 1) + 1);
}

static void wait_phase(struct pool *pool, uint32_t phase)
{
    if (spin_while(&pool->phase, phase, pool->spin_us)) return;
    uint64_t since_us = clock_now_us(clock_real()) - pool->spin_us;
    atomic_fetch_add(&pool->n_asleep, 1);
    sleep_while(&pool->phase, phase);
    atomic_fetch_sub(&pool->n_asleep, 1);
    note_lost(pool, since_us);
}

/* False: all have arrived meanwhile, and the phase is over or about to be. */
static bool leave(struct worker *self, uint32_t phase)
{
    struct pool *pool = self->pool;
    pthread_mutex_lock(&pool->leave);
    atomic_store(&pool->changed, true);
    uint64_t count = atomic_load(&pool->count);
    while (phase_of(count) == phase && !all_arrived(count) && !self->left)
        self->left = atomic_compare_exchange_weak(&pool->count, &count, count - TEAM - 1);
    if (self->left) atomic_store(&self->seat, ASLEEP);
    pthread_mutex_unlock(&pool->leave);
    return self->left;
}

void pool_barrier(struct pool *pool)
{
    if (pool->nth == 1) return; /* new members come at pool_regroup only */
    uint32_t phase = atomic_load(&pool->phase);
    if (arrive(pool))
        open_phase(pool);
    else
        wait_phase(pool, phase);
}

bool pool_regroup(struct pool *pool, int *ith, int *nth, int at)
{
    struct worker *self = pool->member[*ith];
    uint32_t phase = atomic_load(&pool->phase);
    if (!self) pool->at = at;
    if (pool->nth == 1 && !atomic_load(&pool->changed)) return true;
    if (arrive(pool)) {
        bool changed = atomic_load(&pool->changed) && atomic_exchange(&pool->changed, false);
        if (changed) make_team(pool, WAKE_US);
        open_phase(pool);
        if (changed) admit(pool);
    } else if (!spin_while(&pool->phase, phase, pool->spin_us)) {
        uint64_t since_us = clock_now_us(clock_real()) - pool->spin_us;
        if (self && !pool->all && leave(self, phase)) {
            self->since = since_us;
            return false;
        }
        wait_phase(pool, phase);
    }
    *ith = self ? self->ith : 0;
    *nth = pool->nth;
    return true;
}

int pool_entry(const struct pool *pool, int ith)
{
    return ith ? pool->member[ith]->entry : 0;
}

/* Returns how long it took. */
static uint64_t run(
    struct pool *pool, void (*fn)(void *arg, int ith, int nth), void *arg, int n_thread, uint32_t wake_us)
{
    uint64_t start_us = clock_now_us(clock_real());
    pool->fn = fn;
    pool->arg = arg;
    pool->at = 0;
    pool->n_asked = (pool->all ? pool->n_thread : n_thread) - 1;
    pool->fresh = start_us - pool->end_us < FRESH_US;
    make_team(pool, wake_us);
    pool->fresh = false;
    open_phase(pool);
    admit(pool);
    fn(arg, 0, pool->nth);
    uint32_t phase = atomic_load(&pool->phase);
    if (!arrive(pool)) wait_phase(pool, phase);
    pool->end_us = clock_now_us(clock_real());
    return pool->end_us - start_us;
}

void pool_run(struct pool *pool, void (*fn)(void *arg, int ith, int nth), void *arg)
{
    pthread_mutex_lock(&pool->run);
    run(pool, fn, arg, pool->n_thread, WAKE_US);
    pthread_mutex_unlock(&pool->run);
}

void pool_run_awake(struct pool *pool, void (*fn)(void *arg, int ith, int nth), void *arg)
{
    pthread_mutex_lock(&pool->run);
    run(pool, fn, arg, pool->n_thread, NO_WAKE);
    pthread_mutex_unlock(&pool->run);
}

void pool_run_measured(struct pool *pool, void (*fn)(void *arg, int ith, int nth), void *arg, int kind, double work)
{
    struct pace *pace = &pool->pace[kind < POOL_KINDS ? kind : POOL_KINDS - 1];
    pthread_mutex_lock(&pool->run);
    atomic_store(&pool->lost_us, 0);
    double us = (double)run(pool, fn, arg, pace_threads(pace), 0); /* who sleeps enters at a pool_regroup */
    double lost_us = (double)atomic_load(&pool->lost_us);
    pace_note(pace, work, us, lost_us + us * (pool->n_asked + 1 - pool->nth)); /* who never came lost all of it */
    pthread_mutex_unlock(&pool->run);
}

/* ---- workers ---- */

static void pin_thread(int cpu)
{
    cpu_set_t set;
    if (cpu < 0 || cpu >= CPU_SETSIZE) return;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set); /* this thread; bionic has no pthread_setaffinity_np */
}

static void *work(void *arg)
{
    struct worker *self = arg;
    struct pool *pool = self->pool;
    pin_thread(self->cpu);
    while (wait_for_seat(self) == IN) {
        self->left = false;
        pool->fn(pool->arg, self->ith, pool->nth);
        if (self->left) continue;
        atomic_store(&self->seat, IDLE);
        if (arrive(pool)) open_phase(pool);
    }
    return NULL;
}

static int start_worker(struct pool *pool, int ith, int cpu, struct lutra_error *err)
{
    struct worker *worker = &pool->worker[ith - 1];
    *worker = (struct worker){.pool = pool, .cpu = cpu};
    if (thread_start(&worker->thread, work, worker) != 0) {
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "cannot start thread %d of %d", ith + 1, pool->n_thread);
    }
    pool->n_started++;
    return LUTRA_OK;
}

static int start_workers(struct pool *pool, const struct pool_settings *set, struct lutra_error *err)
{
    int allowed[MAX_THREAD], rc = LUTRA_OK;
    const int *cpu = set->cpu ? set->cpu : allowed;
    int n_cpu = set->cpu ? set->n_cpu : set->pin ? cpu_allowed(allowed, MAX_THREAD) : 0;
    if (n_cpu > MAX_THREAD) n_cpu = MAX_THREAD;
    for (int i = 1; i < pool->n_thread && rc == LUTRA_OK; i++) {
        rc = start_worker(pool, i, n_cpu ? cpu[i % n_cpu] : -1, err);
    }
    return rc;
}

/* The pool, its workers, and the team's list behind them. */
static struct pool *allocate(int n_thread)
{
    size_t workers = sizeof(struct pool) + (size_t)(n_thread - 1) * sizeof(struct worker);
    size_t bytes = workers + (size_t)n_thread * sizeof(struct worker *);
    struct pool *pool = aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
    if (!pool) return NULL;
    *pool = (struct pool){.n_thread = n_thread, .member = (void *)((char *)pool + workers)};
    pool->member[0] = NULL;
    pthread_mutex_init(&pool->run, NULL);
    pthread_mutex_init(&pool->leave, NULL);
    return pool;
}

int pool_open(struct pool **out, const struct pool_settings *settings, struct lutra_error *err)
{
    int n_usable = cpu_usable(), n_thread = settings->n_thread;
    *out = NULL;
    if (n_thread < 0 || n_thread > MAX_THREAD) {
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%d threads asked for: 1 to %d are possible", n_thread, MAX_THREAD);
    }
    if (n_thread == 0 || (n_thread > n_usable && !settings->all)) n_thread = n_usable;
    if (n_thread > MAX_THREAD) n_thread = MAX_THREAD;
    struct pool *pool = allocate(n_thread);
    if (!pool) return lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for a pool of %d threads", n_thread);
    pool->all = settings->all;
    for (int i = 0; i < POOL_KINDS; i++) pace_init(&pool->pace[i], n_thread);
    pool->spin_us = n_thread > n_usable ? 0 : settings->spin_us > 0 ? (uint32_t)settings->spin_us : DEFAULT_SPIN_US;
    int rc = start_workers(pool, settings, err);
    if (rc < 0) pool_close(&pool);
    *out = pool;
    return rc;
}

void pool_close(struct pool **out)
{
    struct pool *pool = *out;
    if (!pool) return;
    pthread_mutex_lock(&pool->leave); /* who is leaving the last run still falls ASLEEP */
    for (int i = 0; i < pool->n_started; i++) {
        atomic_store(&pool->worker[i].seat, STOP);
        wake(&pool->worker[i].seat);
    }
    pthread_mutex_unlock(&pool->leave);
    for (int i = 0; i < pool->n_started; i++) pthread_join(pool->worker[i].thread, NULL);
    pthread_mutex_destroy(&pool->leave);
    pthread_mutex_destroy(&pool->run);
    free(pool);
    *out = NULL;
}

int pool_size(const struct pool *pool)
{
    return pool->n_thread;
}

struct each {
    void (*fn)(void *arg, int i);
    void *arg;
    int n;
    atomic_int next;
};

static void take_each(void *arg, int ith, int nth)
{
    struct each *w = arg;
    (void)ith;
    (void)nth;
    for (int i; (i = atomic_fetch_add(&w->next, 1)) < w->n;) w->fn(w->arg, i);
}

void pool_each(void *pool, void (*fn)(void *arg, int i), void *arg, int n)
{
    struct each w = {.fn = fn, .arg = arg, .n = n};
    pool_run(pool, take_each, &w);
}
