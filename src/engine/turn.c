/* SPDX-License-Identifier: MIT
 *
 * A fair (FIFO) recursive lock over all devices of a runtime.  Fair, because a session that runs pass after pass takes
 * it again at once, and would starve a thread that waits at a mutex.
 */
#include "engine/turn.h"

void turn_init(struct turn *t)
{
    *t = (struct turn){0};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->given, NULL);
}

void turn_fini(struct turn *t)
{
    pthread_cond_destroy(&t->given);
    pthread_mutex_destroy(&t->lock);
}

void turn_take(struct turn *t)
{
    pthread_mutex_lock(&t->lock);
    if (t->depth == 0 || !pthread_equal(t->owner, pthread_self())) {
        uint64_t number = t->next++;
        while (number != t->now) pthread_cond_wait(&t->given, &t->lock);
        t->owner = pthread_self();
    }
    t->depth++;
    pthread_mutex_unlock(&t->lock);
}

void turn_give(struct turn *t)
{
    pthread_mutex_lock(&t->lock);
    if (--t->depth == 0) {
        t->now++;
        pthread_cond_broadcast(&t->given);
    }
    pthread_mutex_unlock(&t->lock);
}
