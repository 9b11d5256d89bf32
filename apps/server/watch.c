/* SPDX-License-Identifier: MIT
 *
 * The watch thread.  libmicrohttpd does not look at a suspended connection, so hang-ups are seen here (EPOLLRDHUP).  It
 * also ends connections whose head or body does not come, and keeps silent streams alive.  It sleeps while no request
 * is at work and no deadline has come: they are a timer's, which is moved without waking it.
 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "state.h"

enum { TICK_US = 1000000, FULL_MOST_US = 60000000, EVENTS = 64 };

/* With the lock held: the timer rings when something is due next.  Whoever moves it wakes nobody. */
static void set_timer(struct server *s)
{
    if (!s->waiting[LINK_WORKS].first)
        s->tick_us = 0;
    else if (!s->tick_us)
        s->tick_us = clock_us() + TICK_US;
    uint64_t next = s->watch_ends ? 1 : s->tick_us;
    for (int i = LINK_SENDS; i <= LINK_RESTS; i++) {
        const struct link *l = s->waiting[i].first;
        if (l && (!next || l->deadline_us < next)) next = l->deadline_us;
    }
    if (next == s->timer_us) return;
    s->timer_us = next;
    struct itimerspec at = {.it_value = {(time_t)(next / 1000000), (long)(next % 1000000 * 1000)}};
    timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* Into the list of what it waits for, as the last of it, and out of its list. */
static void list(struct server *s, struct link *l, enum link_wait wait)
{
    l->wait = wait;
    if (wait == LINK_WAITS) return;
    struct link_list *to = &s->waiting[wait];
    l->previous = to->last;
    l->next = NULL;
    *(to->last ? &to->last->next : &to->first) = l;
    to->last = l;
}

static void unlist(struct server *s, struct link *l)
{
    if (l->wait == LINK_WAITS) return;
    struct link_list *of = &s->waiting[l->wait];
    *(l->previous ? &l->previous->next : &of->first) = l->next;
    *(l->next ? &l->next->previous : &of->last) = l->previous;
    l->wait = LINK_WAITS;
}

struct link *watch_open(struct server *s, int fd)
{
    struct link *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    l->fd = fd;
    pthread_mutex_lock(&s->link_lock);
    uint32_t at = s->next_link, tried = 0;
    while (tried < LINKS_MAX && s->link[at % LINKS_MAX]) at++, tried++;
    at %= LINKS_MAX;
    if (tried == LINKS_MAX) {
        pthread_mutex_unlock(&s->link_lock);
        free(l);
        return NULL;
    }
    l->index = at;
    l->generation = ++s->link_generation;
    l->wait = LINK_WAITS;
    s->link[at] = l;
    s->next_link = at + 1;
    struct epoll_event e = {EPOLLRDHUP | EPOLLET, {.u64 = (uint64_t)l->generation << 32 | at}};
    epoll_ctl(s->watch_fd, EPOLL_CTL_ADD, fd, &e); /* where it fails, a hang-up is seen when something is sent */
    pthread_mutex_unlock(&s->link_lock);
    return l;
}

void watch_close(struct server *s, struct link *l)
{
    pthread_mutex_lock(&s->link_lock);
    epoll_ctl(s->watch_fd, EPOLL_CTL_DEL, l->fd, NULL);
    unlist(s, l);
    set_timer(s);
    s->link[l->index] = NULL;
    if (l->index < s->next_link) s->next_link = l->index;
    pthread_mutex_unlock(&s->link_lock);
    free(l);
}

void watch_set(struct server *s, struct link *l, enum link_wait wait, struct exchange *x)
{
    if (!l) return;
    uint64_t time_out_us = (uint64_t)s->set->time_out_s * 1000000u;
    pthread_mutex_lock(&s->link_lock);
    unlist(s, l);
    l->deadline_us = clock_us() + (wait == LINK_RESTS ? 2 : 1) * time_out_us;
    l->exchange = x;
    list(s, l, wait);
    set_timer(s);
    bool gone = x && l->hung_up;
    pthread_mutex_unlock(&s->link_lock);
    if (gone) exchange_cancel(x);
}

/* The request at work for a connection that has hung up; NULL: none.  A reference is the caller's. */
static struct exchange *hung_up(struct server *s, uint64_t token)
{
    struct exchange *x = NULL;
    pthread_mutex_lock(&s->link_lock);
    struct link *l = s->link[(uint32_t)token % LINKS_MAX];
    if (l && l->generation == token >> 32) {
        l->hung_up = true;
        x = l->exchange;
        if (x) atomic_fetch_add(&x->refs, 1);
    }
    pthread_mutex_unlock(&s->link_lock);
    return x;
}

/* A silent stream's comment, a reader that has stopped reading; true: cancel it. */
static bool look_after(struct server *s, struct exchange *x, uint64_t now)
{
    pthread_mutex_lock(&x->lock);
    bool silent = x->ready && !x->done && x->suspended && s->set->ping_s > 0 &&
                  now - x->event_us >= (uint64_t)s->set->ping_s * 1000000u;
    if (silent) {
        x->ping = true;
        x->event_us = now;
    }
    bool stuck = x->full_us && now - x->full_us > FULL_MOST_US;
    pthread_mutex_unlock(&x->lock);
    if (silent) exchange_wake(x);
    return stuck;
}

/* Deadlines and requests at work. */
static void look_around(struct server *s)
{
    enum { MOST = 64 };
    struct exchange *stuck[MOST];
    int n_stuck = 0;
    uint64_t now = clock_us();
    pthread_mutex_lock(&s->link_lock);
    for (int i = LINK_SENDS; i <= LINK_RESTS; i++)
        for (struct link *l; (l = s->waiting[i].first) && l->deadline_us <= now;) {
            shutdown(l->fd, SHUT_RDWR); /* libmicrohttpd sees it and closes */
            unlist(s, l);
        }
    for (struct link *l = s->waiting[LINK_WORKS].first; l && n_stuck < MOST; l = l->next) {
        if (!look_after(s, l->exchange, now)) continue;
        shutdown(l->fd, SHUT_RDWR);
        stuck[n_stuck++] = l->exchange;
        atomic_fetch_add(&l->exchange->refs, 1);
    }
    s->tick_us = 0;
    set_timer(s);
    pthread_mutex_unlock(&s->link_lock);
    for (int i = 0; i < n_stuck; i++) {
        exchange_cancel(stuck[i]);
        exchange_release(stuck[i]);
    }
}

static void *watch(void *user)
{
    struct server *s = user;
    struct epoll_event event[EVENTS];
    for (bool ends = false; !ends;) {
        int n = epoll_wait(s->watch_fd, event, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            uint64_t count;
            if (event[i].data.u64 == UINT64_MAX) {
                if (read(s->timer_fd, &count, sizeof count) > 0) look_around(s); /* else it was moved meanwhile */
                continue;
            }
            struct exchange *x = hung_up(s, event[i].data.u64);
            if (!x) continue;
            exchange_cancel(x);
            exchange_release(x);
        }
        pthread_mutex_lock(&s->link_lock);
        ends = s->watch_ends;
        pthread_mutex_unlock(&s->link_lock);
    }
    return NULL;
}

int watch_start(struct server *s)
{
    s->watch_fd = epoll_create1(EPOLL_CLOEXEC);
    s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event e = {EPOLLIN, {.u64 = UINT64_MAX}};
    if (s->watch_fd < 0 || s->timer_fd < 0 || epoll_ctl(s->watch_fd, EPOLL_CTL_ADD, s->timer_fd, &e) < 0) return -1;
    if (pthread_create(&s->watch_thread, NULL, watch, s) != 0) return -1;
    s->watches = true;
    return 0;
}

void watch_stop(struct server *s)
{
    if (s->watches) {
        pthread_mutex_lock(&s->link_lock);
        s->watch_ends = true;
        set_timer(s);
        pthread_mutex_unlock(&s->link_lock);
        pthread_join(s->watch_thread, NULL);
    }
    if (s->watch_fd >= 0) close(s->watch_fd);
    if (s->timer_fd >= 0) close(s->timer_fd);
}
