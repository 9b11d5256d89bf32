/* SPDX-License-Identifier: MIT
 *
 * A thread on one processor, for a while.
 *
 *     struct affinity before;
 *     affinity_set(cpu, &before);
 *     ...
 *     affinity_restore(&before);
 */
#ifndef LUTRA_BASE_AFFINITY_H
#define LUTRA_BASE_AFFINITY_H

#include <stdbool.h>

enum { AFFINITY_MOST = 1024 }; /* processors with higher numbers are not known here */

struct affinity {
    unsigned long set[AFFINITY_MOST / (8 * sizeof(unsigned long))];
    bool changed;
};

/* This thread, to that processor.  cpu < 0, or where the system refuses: it stays as it is, and affinity_restore does
 * nothing. */
void affinity_set(int cpu, struct affinity *before);
void affinity_restore(const struct affinity *before);

#endif
