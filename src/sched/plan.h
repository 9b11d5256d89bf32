/* SPDX-License-Identifier: MIT
 *
 * Who computes what: an op list cut into segments, each on one device, and the run itself.
 *
 *     struct plan plan;
 *     TRY(plan_open(&plan, list, devices, n_device, &err));      refuses what no device supports, by name
 *     TRY(plan_run(&plan, &step, clock, deadline_us, &err));
 *
 * Today a plan puts each operation on the first device that supports it, and what writes a layer's cache where that
 * layer's attention runs (ARCHITECTURE 6 names the partitions that the solver will choose from).  sched/ sees only
 * struct device and the op list.
 */
#ifndef LUTRA_SCHED_PLAN_H
#define LUTRA_SCHED_PLAN_H

#include <stdbool.h>

#include "base/clock.h"
#include "ops/device.h"

enum { PLAN_MAX_PART = 64 };

struct plan_part {
    struct device *device;
    int first, n; /* ops list->op[first .. first + n - 1] */
};

struct plan {
    const struct op_list *list;
    struct plan_part part[PLAN_MAX_PART];
    int n_part;
};

/* Whom to ask when a device is lost: replace opens the plan anew without it, or says why not. */
struct plan_rescue {
    int (*replace)(void *user, struct lutra_error *err);
    void *user;
};

/* list and devices are borrowed and must outlive the plan.  LUTRA_E_UNSUPPORTED names the operation, its layer and
 * each device's reason.  Allocates nothing. */
int plan_open(
    struct plan *plan, const struct op_list *list, struct device *const *device, int n_device, struct lutra_error *err);

/* One forward pass: submits the parts in order, each after the one before, with ownership of the values published
 * and acquired where the device changes, and waits for the last.  Stops between parts when step->cancel is set or
 * the deadline (on `clock`) has passed: LUTRA_E_CANCELLED, LUTRA_E_DEADLINE.  When a device is lost, nothing of the step
 * counts yet: it is done again from its beginning with the plan that `rescue` (NULL: none) makes of what is left.  Allocates
 * nothing. */
int plan_run(const struct plan *plan, const struct step *step, struct clock clock, uint64_t deadline_us,
    const struct plan_rescue *rescue, struct lutra_error *err);

/* What one step asks of all devices together.  Counted. */
void plan_demand(const struct plan *plan, const struct step *step, struct demand *out);

/* Line 0, 1, ... of a report: what each device runs, then what the first one does not and its reason (a reason that
 * repeats itself once).  False: there is no such line. */
bool plan_report(const struct plan *plan, struct device *first, int line, char *text, size_t size);

/* Positions of a bulk block (ROW_BULK): the most that any operation's device asks for; 0: none. */
int plan_bulk_rows(const struct plan *plan);

/* The smallest of the devices' row limits, and of their flat rows; an F16 cache if any needs it. */
struct device_caps plan_caps(const struct plan *plan);

#endif
