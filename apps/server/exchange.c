/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mhd.h"
#include "models.h"
#include "state.h"

uint64_t clock_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

void queue_put(struct queue *q, struct exchange *x)
{
    if (!q->first) q->last = &q->first;
    x->next = NULL;
    *q->last = x;
    q->last = &x->next;
    q->n++;
}

struct exchange *queue_take(struct queue *q)
{
    struct exchange *x = q->first;
    if (!x) return NULL;
    q->first = x->next;
    q->n--;
    return x;
}

struct exchange *exchange_open(struct server *s, struct MHD_Connection *connection, const char *path)
{
    struct exchange *x = calloc(1, sizeof *x);
    if (!x || !(x->path = strdup(path)) || pthread_mutex_init(&x->lock, NULL) != 0) {
        if (x) free(x->path);
        free(x);
        return NULL;
    }
    x->server = s;
    x->connection = connection;
    x->start_us = x->event_us = clock_us();
    atomic_init(&x->refs, 1);
    atomic_init(&x->gone, false);
    atomic_init(&x->paused, false);
    return x;
}

void exchange_release(struct exchange *x)
{
    if (atomic_fetch_sub(&x->refs, 1) != 1) return;
    ask_free(&x->ask);
    if (x->model) models_release(x->model, true);
    for (int i = 0; i < x->reply.n_choice; i++) {
        text_free(&x->reply.choice[i].answer);
        text_free(&x->reply.choice[i].reasoning);
        free(x->reply.choice[i].scored);
        free(x->reply.choice[i].asked);
        for (int k = 0; k < x->reply.choice[i].n_call; k++) text_free(&x->reply.choice[i].call[k].arguments);
        free(x->reply.choice[i].call);
        calls_free(&x->reply.choice[i].calls);
    }
    free(x->reply.choice);
    text_free(&x->reply.notes);
    text_free(&x->body);
    text_free(&x->out);
    text_free(&x->spare);
    text_free(&x->events);
    pthread_mutex_destroy(&x->lock);
    free(x->path);
    free(x);
}

/* With the lock held. */
static void wake(struct exchange *x)
{
    if (!x->suspended || !x->connection) return;
    x->suspended = false;
    mhd()->resume_connection(x->connection);
}

void exchange_wake(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    wake(x);
    pthread_mutex_unlock(&x->lock);
}

void exchange_begin(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->ready = x->ask.stream;
    if (x->ready) wake(x);
    pthread_mutex_unlock(&x->lock);
}

void exchange_end(struct exchange *x, const struct problem *p)
{
    permit_end(x); /* before the reply: whoever has that may ask again */
    atomic_fetch_sub(&x->server->n_exchange, 1);
    pthread_mutex_lock(&x->lock);
    if (p && p->status) x->problem = *p;
    x->done = x->ready = true;
    wake(x);
    pthread_mutex_unlock(&x->lock);
    exchange_release(x);
}

void exchange_event(struct exchange *x, const struct event *e, const char *text)
{
    pthread_mutex_lock(&x->lock);
    size_t before = x->events.n;
    text_add(&x->events, e, sizeof *e);
    text_add(&x->events, text, e->n_bytes);
    x->event_us = clock_us();
    bool full = x->ask.stream && x->events.n > EVENTS_FULL_BYTES;
    if (!full)
        x->full_us = 0;
    else if (!x->full_us)
        x->full_us = x->event_us;
    if (x->ask.stream && before == 0) wake(x);
    bool most = x->ask.stream && x->events.n > EVENTS_MOST_BYTES;
    bool failed = x->events.failed || most;
    pthread_mutex_unlock(&x->lock);
    if (failed) exchange_cancel(x);
}

void exchange_cancel(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool first = !atomic_exchange(&x->gone, true), at_work = !x->done;
    wake(x);
    pthread_mutex_unlock(&x->lock);
    if (!first || !at_work) return;
    atomic_fetch_add(&x->server->n_cancelled, 1);
    work_poke(x->server);
}
