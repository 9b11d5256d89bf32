/* SPDX-License-Identifier: MIT
 *
 * Threads take turns on the devices of a runtime, first come first served; one that has the turn may take it again.
 */
#ifndef LUTRA_ENGINE_TURN_H
#define LUTRA_ENGINE_TURN_H

#include <pthread.h>
#include <stdint.h>

struct turn {
    pthread_mutex_t lock;
    pthread_cond_t given;
    uint64_t next, now; /* the number that the next to come gets, and the one whose turn it is */
    pthread_t owner;    /* while depth > 0 */
    int depth;          /* how often the owner has taken it */
};

void turn_init(struct turn *t);
void turn_fini(struct turn *t);
void turn_take(struct turn *t);
void turn_give(struct turn *t);

#endif
