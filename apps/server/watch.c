/* SPDX-License-Identifier: MIT
 *
 * The watch thread.  libmicrohttpd does not look at a suspended connection, so hang-ups are seen here (EPOLLRDHUP).  It
 * also ends connections whose head or body does not come, and keeps silent streams alive.  It sleeps while no request
 * is at work and no deadline is near.
 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "state.h"

enum { TICK_US = 1000000, FULL_MOST_US = 60000000, EVENTS = 64 };

static void wake_thread(struct server *s)
{
    uint64_t one = 1;
    if (write(s->wake_fd, &one, sizeof one) < 0) return; /* its counter is full: it wakes up anyway */
}

/* With the lock held: be awake at that time. */
static void plan(struct server *s, uint64_t at_us)
{
    if (s->planned_us && s->planned_us <= at_us) return;
    s->planned_us = at_us;
    wake_thread(s);
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
    s->link[at] = l;
    s->next_link = at + 1;
    if (at >= s->n_link_index) s->n_link_index = at + 1;
    struct epoll_event e = {EPOLLRDHUP | EPOLLET, {.u64 = (uint64_t)l->generation << 32 | at}};
    epoll_ctl(s->watch_fd, EPOLL_CTL_ADD, fd, &e); /* where it fails, a hang-up is seen when something is sent */
    pthread_mutex_unlock(&s->link_lock);
    return l;
}

void watch_close(struct server *s, struct link *l)
{
    pthread_mutex_lock(&s->link_lock);
    epoll_ctl(s->watch_fd, EPOLL_CTL_DEL, l->fd, NULL);
    s->link[l->index] = NULL;
    while (s->n_link_index && !s->link[s->n_link_index - 1]) s->n_link_index--;
    if (l->index < s->next_link) s->next_link = l->index;
    pthread_mutex_unlock(&s->link_lock);
    free(l);
}

void watch_set(struct server *s, struct link *l, uint64_t deadline_us, struct exchange *x)
{
    if (!l) return;
    pthread_mutex_lock(&s->link_lock);
    l->deadline_us = deadline_us;
    l->exchange = x;
    bool gone = x && l->hung_up;
    if (x)
        plan(s, clock_us() + TICK_US);
    else if (deadline_us)
        plan(s, deadline_us);
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

/* Deadlines and requests at work; plans the next look. */
static void look_around(struct server *s)
{
    enum { MOST = 64 };
    struct exchange *stuck[MOST];
    int n_stuck = 0;
    uint64_t now = clock_us(), next = 0;
    pthread_mutex_lock(&s->link_lock);
    for (uint32_t i = 0; i < s->n_link_index; i++) {
        struct link *l = s->link[i];
        if (!l) continue;
        if (l->deadline_us && l->deadline_us <= now) {
            shutdown(l->fd, SHUT_RDWR); /* libmicrohttpd sees it and closes */
            l->deadline_us = 0;
        }
        uint64_t at = l->exchange ? now + TICK_US : l->deadline_us;
        if (at && (!next || at < next)) next = at;
        if (l->exchange && n_stuck < MOST && look_after(s, l->exchange, now)) {
            shutdown(l->fd, SHUT_RDWR);
            stuck[n_stuck++] = l->exchange;
            atomic_fetch_add(&l->exchange->refs, 1);
        }
    }
    s->planned_us = next;
    pthread_mutex_unlock(&s->link_lock);
    for (int i = 0; i < n_stuck; i++) {
        exchange_cancel(stuck[i]);
        exchange_release(stuck[i]);
    }
}

static int wait_ms(struct server *s)
{
    pthread_mutex_lock(&s->link_lock);
    uint64_t now = clock_us(), at = s->planned_us;
    pthread_mutex_unlock(&s->link_lock);
    return !at ? -1 : at <= now ? 0 : (int)((at - now) / 1000 + 1);
}

static void *watch(void *user)
{
    struct server *s = user;
    struct epoll_event event[EVENTS];
    for (bool ends = false; !ends;) {
        int n = epoll_wait(s->watch_fd, event, EVENTS, wait_ms(s));
        for (int i = 0; i < n; i++) {
            uint64_t count;
            if (event[i].data.u64 == UINT64_MAX) {
                if (read(s->wake_fd, &count, sizeof count) < 0) continue;
                continue;
            }
            struct exchange *x = hung_up(s, event[i].data.u64);
            if (!x) continue;
            exchange_cancel(x);
            exchange_release(x);
        }
        look_around(s);
        pthread_mutex_lock(&s->link_lock);
        ends = s->watch_ends;
        pthread_mutex_unlock(&s->link_lock);
    }
    return NULL;
}

int watch_start(struct server *s)
{
    s->watch_fd = epoll_create1(EPOLL_CLOEXEC);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event e = {EPOLLIN, {.u64 = UINT64_MAX}};
    if (s->watch_fd < 0 || s->wake_fd < 0 || epoll_ctl(s->watch_fd, EPOLL_CTL_ADD, s->wake_fd, &e) < 0) return -1;
    if (pthread_create(&s->watch_thread, NULL, watch, s) != 0) return -1;
    s->watches = true;
    return 0;
}

void watch_stop(struct server *s)
{
    if (s->watches) {
        pthread_mutex_lock(&s->link_lock);
        s->watch_ends = true;
        wake_thread(s);
        pthread_mutex_unlock(&s->link_lock);
        pthread_join(s->watch_thread, NULL);
    }
    if (s->watch_fd >= 0) close(s->watch_fd);
    if (s->wake_fd >= 0) close(s->wake_fd);
}
