/* SPDX-License-Identifier: MIT
 *
 * A phone's GPU or NPU under the executor (sched/plan.h): it takes as long as laws.h says, on a virtual clock.
 *
 *     struct virtual_time time = {0};
 *     struct sim_device_settings s = {.profile = &profile, .kind = SIM_GPU, .time = &time};
 *     TRY(sim_device_open(&gpu, &s, err));
 *     s.kind = SIM_NPU, s.store = gpu;
 *     TRY(sim_device_open(&npu, &s, err));                         shares the GPU's products
 *     ... plan_open(), waits_init(&waits, clock_virtual(&time), ...), plan_run() ...
 *     n = sim_device_events(npu, &event);
 *
 * Results are those of `inner`, computed inside submit; without one nothing is computed, and no weights are read: a 7B
 * model takes no memory.  A device's segments follow each other; one begins when it is submitted or the one before is
 * over.  The NPU has products and the gates behind them, as QNN's graphs.  Waiting for a segment costs the host the
 * profile's fast_sync_us, once.
 *
 * One thread.  Times are whole microseconds, as the clock's; of a segment the sum is rounded.
 */
#ifndef LUTRA_PHONE_DEVICE_H
#define LUTRA_PHONE_DEVICE_H

#include "base/clock.h"
#include "ops/device.h"
#include "phone/graphs.h"
#include "phone/laws.h"
#include "sched/plan.h"

/* Of an NPU: graphs of every multiple of 32 rows at once; or two for each block of layers, of which memory holds one
 * (graphs.h), switched while prompts are evaluated or behind them.  Passes have at most GRAPHS_MANY rows then. */
enum sim_graphs { SIM_GRAPHS_ALL, SIM_GRAPHS_PROGRESSIVE, SIM_GRAPHS_SYNCHRONOUS };

struct sim_device_settings {
    const struct soc_profile *profile; /* borrowed, as all here */
    enum sim_device kind;
    enum sim_end end; /* of the profile's figures */
    enum sim_graphs graphs;
    struct virtual_time *time;
    struct device *inner; /* at once, of the host's memory; NULL: no values */
    struct device *store; /* whose weights it uses; NULL: its own, which are those of `inner` */
    /* Who reads weights beside it.  NULL: where it has a share of the outputs the others have the rest, all of them at
     * the same time. */
    const struct plan *plan;
    bool slow_sync; /* a wait costs sync_us, and values are copied, copy_gbs: for plan_run without `inner` alone */
};

int sim_device_open(struct device **out, const struct sim_device_settings *settings, struct lutra_error *err);

/* One submitted segment. */
struct sim_event {
    int first, n; /* ops list->op[first .. first + n - 1] */
    struct share share;
    double bytes; /* through memory */
    bool waited;  /* the host has waited for it */
    uint64_t begin_us, end_us;
};

/* All so far; valid until the next submit.  How many. */
int sim_device_events(const struct device *device, const struct sim_event **out);

/* What the graphs of a list have done; NULL: it has none. */
const struct graphs_count *sim_device_graphs(const struct device *device, const struct op_list *list);

/* us of an operation, or of a share of its outputs, in this pass: what submit adds up. */
double sim_device_op_us(const struct device *device, const struct segment *segment, const struct op *op);

#endif
