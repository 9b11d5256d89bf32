/* SPDX-License-Identifier: MIT
 *
 * A pool of threads that run one function together, on a machine that may be busy with other things.
 *
 * pool_run(pool, fn, arg) calls fn(arg, ith, nth) once on each of nth threads, the caller being ith 0, and returns when
 * all have returned.  Inside fn, pool_barrier(pool) lets the threads meet.
 *
 * The team of a run is the workers that answer at its beginning: the caller asks, waits for some microseconds (longer
 * where it had to wake one), and begins with those that are there.  On an idle machine all are.  On a busy one a worker
 * that has no processor now would hold up all others for a time slice, again and again; without it the run goes
 * on.
 *
 * A long run (a forward pass) may put pool_regroup() where it makes new shares of the work: a barrier at which workers
 * that waited long enough to fall asleep have left, and those that have come back enter.  So no thread ever waits for
 * a worker to be woken; it may wait for one that lost its processor in the middle of its work.  The caller never
 * leaves.
 *
 * How many workers are asked at all is measured in runs that say how much work they are (base/pace.h).
 *
 * A waiting thread spins, since most waits last microseconds, and then sleeps.
 */
#ifndef LUTRA_BASE_POOL_H
#define LUTRA_BASE_POOL_H

#include <stdbool.h>

#include "base/status.h"

struct pool;

struct pool_settings {
    int n_thread; /* caller included; 0 = cpu_usable() of base/cpuinfo.h (affinity and cgroup quota respected), and
                     never more than that */
    bool pin;     /* pin each worker to one of the CPUs this process may use; the caller is left alone */
    int spin_us;  /* how long who waits spins before it sleeps; 0 = default */
    /* [n_cpu] the processors of its workers, one each, in place of `pin`; the caller's is the first.  NULL: any. */
    const int *cpu;
    int n_cpu;
    bool all; /* every run has exactly n_thread threads, whatever the machine: for tests */
};

/* Starts n_thread - 1 workers.  On failure *out is NULL and nothing is left running. */
int pool_open(struct pool **out, const struct pool_settings *settings, struct lutra_error *err);

/* Stops and joins the workers, frees the pool and sets *pool to NULL.  NULL is fine. */
void pool_close(struct pool **pool);

/* The most threads a run can have: no more than there are processors to use. */
int pool_size(const struct pool *pool);

/* One run at a time per pool: calls from several threads wait for each other.  Allocates nothing. */
void pool_run(struct pool *pool, void (*fn)(void *arg, int ith, int nth), void *arg);

/* The same for a little work just after a run: only workers that have not fallen asleep since then are asked. */
void pool_run_awake(struct pool *pool, void (*fn)(void *arg, int ith, int nth), void *arg);

/* The same for an fn with pool_regroup, and what this run did in its time counts for how many threads later ones of its
 * kind have.  kind: 0, 1, 2, ...; from POOL_KINDS - 1 on they are one.  work: in any unit in which equal amounts take
 * about as long. */
enum { POOL_KINDS = 2 };
void pool_run_measured(struct pool *pool, void (*fn)(void *arg, int ith, int nth), void *arg, int kind, double work);

/* Only inside fn, by every thread of the team the same number of times.  What was written before is visible after. */
void pool_barrier(struct pool *pool);

/* A barrier after which the team may be another: *ith and *nth are then this thread's new place.  False: it has left
 * the run and must return from fn.  A thread that enters begins with a call of fn, in which pool_entry says where:
 * the `at` that the caller (ith 0) gave here. */
bool pool_regroup(struct pool *pool, int *ith, int *nth, int at);

/* 0: thread ith has been in the run from its beginning. */
int pool_entry(const struct pool *pool, int ith);

/* fn(arg, i) for i = 0 .. n - 1, whoever is free.  pool: a struct pool. */
void pool_each(void *pool, void (*fn)(void *arg, int i), void *arg, int n);

#endif
