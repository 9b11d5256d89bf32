/* SPDX-License-Identifier: MIT
 *
 * Start, wait, end.
 */
#include "server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "documents.h"
#include "mhd.h"
#include "models.h"
#include "state.h"

enum { DRAIN_MOST_US = 60000000, DRAIN_LOOK_MS = 20 };

/* A signal handler reaches its data only through a global. */
static volatile sig_atomic_t signal_fd = -1;

static void on_signal(int number)
{
    uint64_t one = 1;
    int why = errno;
    (void)number;
    if (signal_fd >= 0 && write(signal_fd, &one, sizeof one) < 0) signal_fd = -1;
    errno = why;
}

static void watch_signals(int fd)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    signal_fd = fd;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* How often it was told to end; waits for that, or until models have changed, up to ms milliseconds, -1 = as long as it
 * takes. */
static uint32_t wait_signal(int fd, int ms)
{
    struct pollfd p = {fd, POLLIN, 0};
    uint64_t n = 0;
    if (poll(&p, 1, ms) == 1 && read(fd, &n, sizeof n) < 0) n = 0;
    return (uint32_t)n; /* signals count 1 each, see state.h */
}

bool server_is_built(void)
{
    return true;
}

void server_settings_init(struct server_settings *set)
{
    *set = (struct server_settings){.host = "127.0.0.1",
        .port = 8080,
        .time_out_s = 60,
        .ping_s = 10,
        .n_queue = 256,
        .n_connection = 1024,
        .most_models = 4,
        .max_tokens = -1,
        .reasoning_budget = -1,
        .access_log = true,
        .log_json = true};
}

/* As many descriptors as the system lets it have, and no more connections than these. */
static void raise_limits(const struct server *s)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < (rlim_t)s->set->n_connection + 64)
        s->set->say("warning: %llu open files are allowed, too few for %d connections",
            (unsigned long long)limit.rlim_cur, s->set->n_connection);
}

/* Nobody is waited for any more. */
static void cancel_all(struct server *s)
{
    for (uint32_t i = 0; i < LINKS_MAX; i++) {
        pthread_mutex_lock(&s->link_lock);
        struct exchange *x = s->link[i] ? s->link[i]->exchange : NULL;
        if (x) atomic_fetch_add(&x->refs, 1);
        pthread_mutex_unlock(&s->link_lock);
        if (!x) continue;
        exchange_cancel(x);
        exchange_release(x);
    }
}

/* Answers what was taken in; a second signal or a minute ends that. */
static void drain(struct server *s, int fd)
{
    uint64_t start = clock_us();
    atomic_store(&s->draining, true);
    listen_notify("STOPPING=1");
    http_quiesce(s);
    listen_close(s); /* who connects now is refused at once: a proxy asks another server */
    while (atomic_load(&s->n_answering) > 0 && clock_us() - start < DRAIN_MOST_US)
        if (wait_signal(fd, DRAIN_LOOK_MS) > 0) break;
    cancel_all(s);
    while (atomic_load(&s->n_exchange) > 0) wait_signal(fd, DRAIN_LOOK_MS);
}

static int start(struct server *s)
{
    const char *why = mhd_load();
    if (why) {
        s->set->say("libmicrohttpd cannot be loaded (Debian: libmicrohttpd12 or libmicrohttpd12t64): %s", why);
        return -1;
    }
    if (guard_open(s) < 0 || listen_open(s) < 0 || !documents_check(s) || models_start(s) < 0) return -1;
    if (watch_start(s) < 0 || work_start(s) < 0 || front_start(s) < 0 || http_start(s) < 0) {
        s->set->say("the server cannot start: %s", strerror(errno));
        return -1;
    }
    return 0;
}

int server_run(const struct server_settings *set)
{
    struct server *s = calloc(1, sizeof *s);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!s || fd < 0) {
        free(s);
        set->say("out of memory");
        return -1;
    }
    s->set = set;
    s->listen_fd = s->watch_fd = s->timer_fd = -1;
    s->main_fd = fd;
    s->start_us = clock_us();
    s->start_time = time(NULL);
    pthread_mutex_init(&s->model_lock, NULL);
    pthread_mutex_init(&s->open_lock, NULL);
    pthread_cond_init(&s->model_changed, NULL);
    pthread_mutex_init(&s->front_lock, NULL);
    pthread_cond_init(&s->front_ready, NULL);
    pthread_mutex_init(&s->work_lock, NULL);
    pthread_cond_init(&s->work_ready, NULL);
    pthread_mutex_init(&s->link_lock, NULL);
    raise_limits(s);
    int rc = start(s);
    if (rc == 0) {
        watch_signals(fd);
        listen_notify("READY=1");
        if (set->n_model == 1)
            set->say("serving %s at %s", s->model[0].set->name[0], s->address);
        else
            set->say("serving %d models at %s", set->n_model, s->address);
        while (wait_signal(fd, models_close_idle(s)) == 0) continue;
        drain(s, fd);
    }
    front_stop(s);
    work_stop(s);
    http_stop(s);
    watch_stop(s);
    listen_close(s);
    models_stop(s);
    guard_close(s);
    signal_fd = -1;
    close(fd);
    free(s);
    return rc;
}
