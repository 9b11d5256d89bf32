/* SPDX-License-Identifier: MIT */
#include "base/affinity.h"

#include <sched.h>

_Static_assert(sizeof(cpu_set_t) == sizeof((struct affinity *)0)->set, "a set of AFFINITY_MOST processors");

void affinity_set(int cpu, struct affinity *before)
{
    cpu_set_t set;
    before->changed = false;
    if (cpu < 0 || cpu >= AFFINITY_MOST) return;
    if (sched_getaffinity(0, sizeof before->set, (cpu_set_t *)(void *)before->set) != 0) return; /* 0: this thread */
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    before->changed = sched_setaffinity(0, sizeof set, &set) == 0;
}

void affinity_restore(const struct affinity *before)
{
    if (before->changed) sched_setaffinity(0, sizeof before->set, (const cpu_set_t *)(const void *)before->set);
}
