/* SPDX-License-Identifier: MIT
 *
 * The thread of an asynchronous CPU device: it is the caller of the device's pool and runs segments in order.
 *
 * Waits (the driver's for segments, the host's for their ends) spin as long as a wake-up costs, then sleep.  Words are
 * changed before the lock is taken and read again under it, so that no wake-up is missed.
 *
 * A driver that takes up no segment for SILENT_LOOKS x LOOK_MS is lost (its processors are gone or busy):
 * the segment is withdrawn, so that it will never begin.  One that has been taken up is waited for however long it
 * takes, since it may still write.  Looks are counted, not the clock: a machine that has slept makes none late.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/affinity.h"
#include "base/bell.h"
#include "base/clock.h"
#include "base/thread.h"
#include "cpu/device_impl.h"

enum { JOBS = 64, SPIN_US = 200, PAUSES_PER_LOOK = 64, LOOK_MS = 100, SILENT_LOOKS = 20 };

enum { JOB_POSTED, JOB_TAKEN, JOB_WITHDRAWN };

struct job {
    struct segment segment;
    atomic_int state;
    uint64_t begin_us, end_us;
    int rc;
    struct lutra_error err;
};

struct cpu_driver {
    struct cpu_device *device;
    pthread_t thread;
    struct bell bell;
    int cpu;
    atomic_bool stop, lost, frozen;
    atomic_uint_least64_t posted, finished; /* how many */
    uint64_t seen;                          /* the host's: how many it knows the end of ... */
    int failed;                             /* ... and the first failure among them that it has not been told */
    struct lutra_error why;
    struct job job[JOBS]; /* number n in job[n % JOBS] */
};

/* Until *word is at least n, or the driver has to stop or is lost. */
static bool reached(const struct cpu_driver *v, const atomic_uint_least64_t *word, uint64_t n)
{
    return atomic_load_explicit(word, memory_order_acquire) >= n ||
           atomic_load_explicit(&v->stop, memory_order_relaxed) || atomic_load_explicit(&v->lost, memory_order_relaxed);
}

/* Takes the next segment back, if it has not begun; then the driver is lost. */
static void withdraw(struct cpu_driver *v)
{
    uint64_t next = atomic_load(&v->finished) + 1;
    int state = JOB_POSTED;
    if (next <= atomic_load(&v->posted) &&
        atomic_compare_exchange_strong(&v->job[next % JOBS].state, &state, JOB_WITHDRAWN))
        atomic_store(&v->lost, true);
}

/* The host's: until number n is over, or the driver is lost. */
static void watch(struct cpu_driver *v, uint64_t n)
{
    uint64_t last = 0;
    bell_lock(&v->bell);
    for (int silent = 0; !reached(v, &v->finished, n); silent++) {
        uint64_t over = atomic_load(&v->finished);
        bool at_work = atomic_load(&v->job[(over + 1) % JOBS].state) == JOB_TAKEN;
        if (over != last || at_work) silent = 0;
        last = over;
        if (silent >= SILENT_LOOKS) withdraw(v);
        bell_sleep(&v->bell, LOOK_MS * 1000);
    }
    bell_unlock(&v->bell);
}

static void await(struct cpu_driver *v, const atomic_uint_least64_t *word, uint64_t n)
{
    struct clock clock = clock_real();
    uint64_t end_us = clock_now_us(clock) + SPIN_US;
    for (int i = 0; !reached(v, word, n); i = (i + 1) % PAUSES_PER_LOOK) {
        compiler_pause();
        if (i == PAUSES_PER_LOOK - 1 && clock_now_us(clock) >= end_us) break;
    }
    if (reached(v, word, n)) return;
    if (word == &v->finished) {
        watch(v, n);
        return;
    }
    bell_lock(&v->bell);
    while (!reached(v, word, n)) bell_sleep(&v->bell, CLOCK_NEVER_US);
    bell_unlock(&v->bell);
}

static void tell(struct cpu_driver *v)
{
    bell_lock(&v->bell);
    bell_ring(&v->bell);
    bell_unlock(&v->bell);
}

static void *drive(void *arg)
{
    struct cpu_driver *v = arg;
    struct affinity before;
    affinity_set(v->cpu, &before);
    for (uint64_t n = 1;; n++) {
        await(v, &v->posted, n);
        while (atomic_load(&v->frozen) && !atomic_load(&v->stop)) clock_sleep_us(clock_real(), 1000);
        struct job *job = &v->job[n % JOBS];
        int state = JOB_POSTED;
        if (atomic_load(&v->stop) || !atomic_compare_exchange_strong(&job->state, &state, JOB_TAKEN)) return NULL;
        job->begin_us = clock_now_us(clock_real());
        job->rc = cpu_run_now(v->device, &job->segment, &job->err);
        job->end_us = clock_now_us(clock_real());
        atomic_store_explicit(&v->finished, n, memory_order_release);
        tell(v);
    }
}

/* Those up to number n are over: their places may be used again. */
static void see(struct cpu_driver *v, uint64_t n)
{
    while (v->seen < n) {
        const struct job *job = &v->job[++v->seen % JOBS];
        if (job->rc == 0 || v->failed < 0) continue;
        v->failed = job->rc;
        v->why = job->err;
    }
}

bool cpu_driver_is_lost(const struct cpu_driver *v)
{
    return atomic_load(&v->lost);
}

void cpu_driver_freeze(struct cpu_driver *v, bool frozen)
{
    atomic_store(&v->frozen, frozen);
}

uint64_t cpu_driver_post(struct cpu_driver *v, const struct segment *segment)
{
    uint64_t n = atomic_load_explicit(&v->posted, memory_order_relaxed) + 1;
    if (n > JOBS) {
        await(v, &v->finished, n - JOBS);
        if (cpu_driver_is_lost(v)) return 0;
        see(v, n - JOBS);
    }
    v->job[n % JOBS].segment = *segment;
    atomic_store_explicit(&v->job[n % JOBS].state, JOB_POSTED, memory_order_relaxed);
    atomic_store_explicit(&v->posted, n, memory_order_release);
    tell(v);
    return n;
}

bool cpu_driver_done(const struct cpu_driver *v, uint64_t number)
{
    return atomic_load_explicit(&v->finished, memory_order_acquire) >= number || cpu_driver_is_lost(v);
}

bool cpu_driver_ran(const struct cpu_driver *v, uint64_t number, uint64_t *begin_us, uint64_t *end_us)
{
    const struct job *job = &v->job[number % JOBS];
    if (atomic_load_explicit(&v->finished, memory_order_acquire) < number ||
        atomic_load_explicit(&v->posted, memory_order_relaxed) >= number + JOBS)
        return false;
    *begin_us = job->begin_us;
    *end_us = job->end_us;
    return true;
}

int cpu_driver_wait(struct cpu_driver *v, uint64_t number, struct lutra_error *err)
{
    await(v, &v->finished, number);
    if (atomic_load(&v->finished) < number)
        return lutra_fail(err, LUTRA_E_DEVICE_LOST, "%s takes up no work", v->device->name);
    see(v, number);
    int rc = v->failed;
    if (rc < 0 && err) *err = v->why;
    v->failed = 0;
    return rc;
}

int cpu_driver_open(struct cpu_driver **out, struct cpu_device *d, int cpu, struct lutra_error *err)
{
    struct cpu_driver *v = *out = calloc(1, sizeof *v);
    if (!v) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", d->name);
    v->device = d;
    v->cpu = cpu;
    bell_init(&v->bell);
    if (thread_start(&v->thread, drive, v) == 0) return 0;
    bell_fini(&v->bell);
    free(v);
    *out = NULL;
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: cannot start its thread", d->name);
}

void cpu_driver_close(struct cpu_driver **driver)
{
    struct cpu_driver *v = *driver;
    if (!v) return;
    atomic_store(&v->stop, true);
    tell(v);
    pthread_join(v->thread, NULL);
    bell_fini(&v->bell);
    free(v);
    *driver = NULL;
}
