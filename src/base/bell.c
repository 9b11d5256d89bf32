/* SPDX-License-Identifier: MIT */
#include "base/bell.h"

#include <time.h>

#include "base/clock.h"

void bell_init(struct bell *b)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->rung, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void bell_fini(struct bell *b)
{
    pthread_cond_destroy(&b->rung);
    pthread_mutex_destroy(&b->lock);
}

void bell_lock(struct bell *b)
{
    pthread_mutex_lock(&b->lock);
}

void bell_unlock(struct bell *b)
{
    pthread_mutex_unlock(&b->lock);
}

void bell_ring(struct bell *b)
{
    pthread_cond_broadcast(&b->rung);
}

void bell_sleep(struct bell *b, uint64_t us)
{
    enum { DAY_S = 86400 };
    struct timespec until;
    if (us == CLOCK_NEVER_US) {
        pthread_cond_wait(&b->rung, &b->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + us % 1000000 * 1000;
    until.tv_sec += (time_t)(us / 1000000 < DAY_S ? us / 1000000 : DAY_S) + (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_cond_timedwait(&b->rung, &b->lock, &until);
}
