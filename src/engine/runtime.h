/* SPDX-License-Identifier: MIT
 *
 * The runtime that all models share: threads, devices, clock, log.
 */
#ifndef LUTRA_ENGINE_RUNTIME_H
#define LUTRA_ENGINE_RUNTIME_H

#include <stdatomic.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/turn.h"
#include "devices/devices.h"
#include "lutra.h"
#include "sched/waits.h"

struct lutra_runtime {
    struct log log;
    struct clock clock;
    struct device_set devices;
    atomic_bool lost[PLAN_DEVICES]; /* of them */
    atomic_int n_model;             /* open */
    enum wait_mode sync;
    bool progressive; /* models are read by their first passes */
    /* A pass has the devices of its model (lutra_model.devices), and may read its plans.  Whoever has all devices may
     * also prepare and release weights, reserve, allocate buffers, and change the plans of this runtime's models: a
     * pass that loses its device changes its model's. */
    struct turn turn;
    struct bell inbox; /* of its sessions' inboxes; held for moments, never during a pass or a callback */
};

/* The first device that is not lost. */
struct device *runtime_first(const lutra_runtime *rt);

#endif
