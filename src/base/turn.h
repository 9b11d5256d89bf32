/* SPDX-License-Identifier: MIT
 *
 * Threads take turns on the devices of a runtime: each takes a set of them, first come first served.  Sets that have
 * no device in common are held at the same time.
 *
 *     turn_take(&rt->turn, m->devices);       a pass
 *     turn_give(&rt->turn, m->devices);
 *
 * A thread that has a set may take parts of it again; it may not ask for more, since another one could do the same:
 * it gives what it has, and takes all.
 */
#ifndef LUTRA_BASE_TURN_H
#define LUTRA_BASE_TURN_H

#include <pthread.h>
#include <stdint.h>

enum { TURN_DEVICES = 8, TURN_ALL = (1 << TURN_DEVICES) - 1 };

/* A thread that waits, and the next that came. */
struct turn_asker {
    uint32_t set;
    struct turn_asker *next;
};

struct turn {
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct turn_asker *first; /* those that wait, in the order in which they came */
    struct {
        pthread_t owner; /* while depth > 0 */
        int depth;       /* how often the owner has taken it */
    } of[TURN_DEVICES];
};

void turn_init(struct turn *t);
void turn_fini(struct turn *t);

/* set: bits 1 << device's number in the runtime. */
void turn_take(struct turn *t, uint32_t set);
void turn_give(struct turn *t, uint32_t set);

#endif
