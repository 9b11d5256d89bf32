/* SPDX-License-Identifier: MIT
 *
 * The devices of a runtime: a list in which each operation goes to the first that can do it.
 */
#ifndef LUTRA_DEVICES_DEVICES_H
#define LUTRA_DEVICES_DEVICES_H

#include "base/clock.h"
#include "base/pool.h"
#include "lutra/core.h"
#include "ops/device.h"
#include "sched/plan.h"

struct device_set {
    struct clock *clock; /* the caller's: a phone that is modelled makes it virtual */
    struct phone *phone; /* of devices "sim:..."; NULL: none */
    struct pool *pool;
    int caller_cpu; /* of the first cluster of CPUs, whose part of a pass its caller computes; -1: there are none */
    struct pool *cluster[PLAN_DEVICES];  /* of clusters of CPUs but the first, whose pool is `pool`; or NULL */
    struct device *device[PLAN_DEVICES]; /* [n_device], the first is asked first; the CPU is one of them */
    int n_device;
    struct device *cpu;
    bool split;        /* how they share was said */
    char *npu_path[3]; /* qemu, program, library: the devices' while they are open; or NULL */
    char text[400];    /* what they are, in words */
};

/* What settings name, in that order, and the CPU behind them where it is not among them.  What is open when it fails is
 * closed by device_set_close(), too. */
int device_set_open(struct device_set *all, const struct lutra_runtime_settings *settings, struct clock *clock,
    struct lutra_error *err);
void device_set_close(struct device_set *all);
/* Whether several of them share operations. */
bool device_set_shares(const struct device_set *all);

#endif
