/* SPDX-License-Identifier: MIT
 *
 * A pool of threads that run one function together.
 *
 * pool_run(pool, fn, arg) calls fn(arg, ith, nth) once on each of nth threads, the caller being ith 0, and returns
 * when all have returned.  Inside fn, pool_barrier(pool) lets the threads meet: a whole forward pass is one
 * pool_run with a barrier after each operation.  Workers spin for a short while before they sleep, so that two runs
 * close together cost no system call.
 */
#ifndef LUTRA_BASE_POOL_H
#define LUTRA_BASE_POOL_H

#include <stdbool.h>

#include "base/status.h"

struct pool;

struct pool_settings {
    int n_thread; /* caller included; 0 = cpu_usable() of base/cpuinfo.h (affinity and cgroup quota respected) */
    bool pin;     /* pin each worker to one of the CPUs this process may use; the caller is left alone */
    int spin_us;  /* how long an idle worker spins before it sleeps; 0 = default */
};

/* Starts n_thread - 1 workers.  On failure *out is NULL and nothing is left running. */
int pool_open(struct pool **out, const struct pool_settings *settings, struct lutra_error *err);

/* Stops and joins the workers, frees the pool and sets *pool to NULL.  NULL is fine. */
void pool_close(struct pool **pool);

int pool_size(const struct pool *pool);

/* One run at a time per pool: calls from several threads wait for each other.  Allocates nothing. */
void pool_run(struct pool *pool, void (*fn)(void *arg, int ith, int nth), void *arg);

/* Only inside fn, by every thread the same number of times. */
void pool_barrier(struct pool *pool);

#endif
