/* SPDX-License-Identifier: MIT
 *
 * The runtime that all models share: threads, devices, clock, log.
 */
#ifndef LUTRA_ENGINE_RUNTIME_H
#define LUTRA_ENGINE_RUNTIME_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/pool.h"
#include "engine/turn.h"
#include "lutra.h"
#include "sched/waits.h"

struct lutra_runtime {
    struct log log;
    struct clock clock;
    struct phone *phone; /* of devices "sim:..."; NULL: none */
    struct pool *pool;
    int caller_cpu; /* of the first cluster of CPUs, whose part of a pass its caller computes; -1: there are none */
    struct pool *cluster[PLAN_DEVICES];  /* of clusters of CPUs but the first, whose pool is `pool`; or NULL */
    struct device *device[PLAN_DEVICES]; /* [n_device], the first is asked first; the CPU is one of them */
    atomic_bool lost[PLAN_DEVICES];
    int n_device;
    atomic_int n_model; /* open */
    struct device *cpu;
    enum wait_mode sync;
    bool split; /* how clusters share was said */
    /* A pass has the devices of its model (lutra_model.devices), and may read its plans.  Whoever has all devices may
     * also prepare and release weights, reserve, allocate buffers, and change the plans of this runtime's models: a
     * step that loses its device changes its model's. */
    struct turn turn;
    pthread_mutex_t inbox_lock; /* of its sessions' inboxes; held for moments, never during a pass or a callback */
    pthread_cond_t inbox_news;
    char *npu_path[3]; /* qemu, program, library: the devices' while they are open; or NULL */
    char text[400];
};

/* inbox.c */
void inbox_init(lutra_runtime *rt);
void inbox_fini(lutra_runtime *rt);
/* The first device that is not lost. */
struct device *runtime_first(const lutra_runtime *rt);
/* Those that are left, in order; returns how many. */
int runtime_devices(const lutra_runtime *rt, struct device *out[PLAN_DEVICES]);
/* Whether several of its devices share operations. */
bool runtime_shares(const lutra_runtime *rt);
/* fn(arg, i) for i = 0..n-1 on its threads. */
void runtime_parallel(void *runtime, void (*fn)(void *arg, int i), void *arg, int n);

#endif
