/* SPDX-License-Identifier: MIT
 *
 * The thread of an asynchronous CPU device: it is the caller of the device's pool and runs segments in order.
 *
 * Who waits spins for what a wake-up costs, and then sleeps: the driver for segments, the host for their ends.  Words
 * are changed before the lock is taken and read again under it, so that no wake-up is missed.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cpu/device_impl.h"

enum { JOBS = 64, SPIN_US = 200, PAUSES_PER_LOOK = 64 };

struct job {
    struct segment segment;
    uint64_t begin_us, end_us;
    int rc;
    struct lutra_error err;
};

struct cpu_driver {
    struct cpu_device *device;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int cpu;
    atomic_bool stop;
    atomic_uint_least64_t posted, finished; /* how many */
    uint64_t seen;                          /* the host's: how many it knows the end of ... */
    int failed;                             /* ... and the first failure among them that it has not been told */
    struct lutra_error why;
    struct job job[JOBS]; /* number n in job[n % JOBS] */
};

/* Until *word is at least n, or the driver has to stop. */
static bool reached(const struct cpu_driver *v, const atomic_uint_least64_t *word, uint64_t n)
{
    return atomic_load_explicit(word, memory_order_acquire) >= n ||
           atomic_load_explicit(&v->stop, memory_order_relaxed);
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
    pthread_mutex_lock(&v->lock);
    while (!reached(v, word, n)) pthread_cond_wait(&v->changed, &v->lock);
    pthread_mutex_unlock(&v->lock);
}

static void tell(struct cpu_driver *v)
{
    pthread_mutex_lock(&v->lock);
    pthread_cond_broadcast(&v->changed);
    pthread_mutex_unlock(&v->lock);
}

static void *drive(void *arg)
{
    struct cpu_driver *v = arg;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (v->cpu >= 0 && v->cpu < CPU_SETSIZE) {
        CPU_SET(v->cpu, &set);
        pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    }
    for (uint64_t n = 1;; n++) {
        await(v, &v->posted, n);
        if (atomic_load(&v->stop)) return NULL;
        struct job *job = &v->job[n % JOBS];
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

uint64_t cpu_driver_post(struct cpu_driver *v, const struct segment *segment)
{
    uint64_t n = atomic_load_explicit(&v->posted, memory_order_relaxed) + 1;
    if (n > JOBS) {
        await(v, &v->finished, n - JOBS);
        see(v, n - JOBS);
    }
    v->job[n % JOBS].segment = *segment;
    atomic_store_explicit(&v->posted, n, memory_order_release);
    tell(v);
    return n;
}

bool cpu_driver_done(const struct cpu_driver *v, uint64_t number)
{
    return atomic_load_explicit(&v->finished, memory_order_acquire) >= number;
}

bool cpu_driver_ran(const struct cpu_driver *v, uint64_t number, uint64_t *begin_us, uint64_t *end_us)
{
    const struct job *job = &v->job[number % JOBS];
    if (!cpu_driver_done(v, number) || atomic_load_explicit(&v->posted, memory_order_relaxed) >= number + JOBS)
        return false;
    *begin_us = job->begin_us;
    *end_us = job->end_us;
    return true;
}

int cpu_driver_wait(struct cpu_driver *v, uint64_t number, struct lutra_error *err)
{
    await(v, &v->finished, number);
    see(v, number);
    int rc = v->failed;
    if (rc < 0 && err) *err = v->why;
    v->failed = 0;
    return rc;
}

int cpu_driver_open(struct cpu_driver **out, struct cpu_device *d, int cpu, struct lutra_error *err)
{
    sigset_t all, old;
    struct cpu_driver *v = *out = calloc(1, sizeof *v);
    if (!v) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", d->name);
    v->device = d;
    v->cpu = cpu;
    pthread_mutex_init(&v->lock, NULL);
    pthread_cond_init(&v->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the application's own threads' */
    int rc = pthread_create(&v->thread, NULL, drive, v);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0) return 0;
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
    pthread_cond_destroy(&v->changed);
    pthread_mutex_destroy(&v->lock);
    free(v);
    *driver = NULL;
}
