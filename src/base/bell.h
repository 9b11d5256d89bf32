/* SPDX-License-Identifier: MIT
 *
 * A lock, and a bell that wakes those who sleep with it.
 */
#ifndef LUTRA_BASE_BELL_H
#define LUTRA_BASE_BELL_H

#include <pthread.h>
#include <stdint.h>

struct bell {
    pthread_mutex_t lock;
    pthread_cond_t rung;
};

void bell_init(struct bell *b);
void bell_fini(struct bell *b);
void bell_lock(struct bell *b);
void bell_unlock(struct bell *b);

/* Both with the lock, which a sleeper gives up.  It may wake without a reason; CLOCK_NEVER_US: until it rings. */
void bell_ring(struct bell *b);
void bell_sleep(struct bell *b, uint64_t us);

#endif
