/* SPDX-License-Identifier: MIT
 *
 * A fair (FIFO) recursive lock over sets of a runtime's devices.  Fair, because a session that runs pass after pass
 * takes its devices again at once, and would starve a thread that waits at a mutex.  A set is taken at once or not at
 * all, so nobody waits with some of the devices in hand.
 */
#include "base/turn.h"

#include <stdbool.h>
#include <stddef.h>

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

/* Devices of a set that are taken: by this thread, or by others. */
static uint32_t taken(const struct turn *t, uint32_t set, bool own)
{
    uint32_t found = 0;
    for (int i = 0; i < TURN_DEVICES; i++)
        if (set >> i & 1 && t->of[i].depth > 0 && (pthread_equal(t->of[i].owner, pthread_self()) != 0) == own)
            found |= 1u << i;
    return found;
}

/* Whether nobody has any of what is asked for, and nobody who came before waits for any of it. */
static bool may_go(const struct turn *t, const struct turn_asker *self)
{
    uint32_t before = 0;
    for (const struct turn_asker *a = t->first; a != self; a = a->next) before |= a->set;
    return !(before & self->set) && !taken(t, self->set, false);
}

void turn_take(struct turn *t, uint32_t set)
{
    pthread_mutex_lock(&t->lock);
    struct turn_asker self = {.set = set & ~taken(t, set, true)}, **at = &t->first;
    if (self.set) {
        while (*at) at = &(*at)->next;
        *at = &self;
        while (!may_go(t, &self)) pthread_cond_wait(&t->given, &t->lock);
        for (at = &t->first; *at != &self;) at = &(*at)->next;
        *at = self.next;
        pthread_cond_broadcast(&t->given); /* who came behind it may not need what it has taken */
    }
    for (int i = 0; i < TURN_DEVICES; i++) {
        if (!(set >> i & 1)) continue;
        t->of[i].owner = pthread_self();
        t->of[i].depth++;
    }
    pthread_mutex_unlock(&t->lock);
}

void turn_give(struct turn *t, uint32_t set)
{
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < TURN_DEVICES; i++) t->of[i].depth -= set >> i & 1;
    pthread_cond_broadcast(&t->given);
    pthread_mutex_unlock(&t->lock);
}
