/* SPDX-License-Identifier: MIT
 *
 * Inside of a plan that is being opened: who does an operation (plan.c), and with whom (team.c).
 */
#ifndef LUTRA_SCHED_PLAN_IMPL_H
#define LUTRA_SCHED_PLAN_IMPL_H

#include "sched/plan.h"

/* The first device that can do an operation and all that must be with it, or the last refusal. */
int plan_choose(const struct op_list *list, const struct op *op, struct device *const *device, int n_device,
    struct device **out, struct lutra_error *err);

#endif
