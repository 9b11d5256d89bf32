/* SPDX-License-Identifier: MIT
 *
 * HTTP by libmicrohttpd: one I/O thread collects bodies and sends answers.  Everything here but http_start() and
 * http_stop() runs on it.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http.h"
#include "mhd.h"
#include "page.h"
#include "state.h"
#include "translate.h"

enum {
    HEAD_BYTES = 32768,       /* of a request's line and headers */
    DROPPED_BYTES = 64 << 20, /* of a body that is refused, but read so that its sender sees why */
    BLOCK_BYTES = 16384,
};

const char *http_header(const struct exchange *x, const char *name)
{
    return mhd()->lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

static struct link *link_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = mhd()->get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static void add_header(struct MHD_Response *r, const char *name, const char *value)
{
    if (mhd()->add_response_header(r, name, value) == MHD_NO) return; /* no memory: the answer goes without it */
}

static void add_headers(struct exchange *x, struct MHD_Response *r, const char *type)
{
    const struct problem *p = &x->problem;
    char number[32];
    if (type) add_header(r, "Content-Type", type);
    add_header(r, "Cache-Control", x->file ? "no-cache" : "no-store");
    add_header(r, "X-Content-Type-Options", "nosniff");
    if (x->reply.id[0]) add_header(r, "X-Request-Id", x->reply.id);
    if (x->origin[0]) add_header(r, "Access-Control-Allow-Origin", x->origin);
    if (x->server->set->n_allow_origin) add_header(r, "Vary", "Origin");
    if (p->status == 401) add_header(r, "WWW-Authenticate", "Bearer");
    if (p->allow) add_header(r, "Allow", p->allow);
    if (p->retry_s) {
        snprintf(number, sizeof number, "%d", p->retry_s);
        add_header(r, "Retry-After", number);
    }
    if (x->hard_close || atomic_load(&x->server->draining)) add_header(r, "Connection", "close");
}

static enum MHD_Result queue(struct exchange *x, int status, struct MHD_Response *r)
{
    if (!r) return MHD_NO;
    x->status = status;
    enum MHD_Result rc = mhd()->queue_response(x->connection, (unsigned)status, r);
    mhd()->destroy_response(r);
    return rc;
}

static enum MHD_Result send_text(struct exchange *x, int status, const char *type, struct text *t)
{
    if (t->failed) return MHD_NO;
    x->sent_bytes = t->n;
    struct MHD_Response *r = mhd()->create_response_from_buffer(t->n, t->bytes, MHD_RESPMEM_MUST_COPY);
    if (r) add_headers(x, r, type);
    return queue(x, status, r);
}

static enum MHD_Result send_problem(struct exchange *x)
{
    const struct route *route = x->route;
    text_clear(&x->out);
    if (route && (route->dialect || route->refuse))
        (route->dialect ? route->dialect->refuse : route->refuse)(&x->problem, &x->out);
    else
        openai_error(&x->problem, &x->out);
    if (x->problem.status >= 400) atomic_fetch_add(&x->server->n_refused, 1);
    return send_text(x, x->problem.status, "application/json", &x->out);
}

/* libmicrohttpd asks for more of a stream; with nothing to send the connection sleeps until exchange_wake(). */
static ssize_t read_more(void *user, uint64_t position, char *out, size_t n_max)
{
    struct exchange *x = user;
    (void)position;
    for (;;) {
        if (x->n_sent < x->out.n) {
            size_t n = x->out.n - x->n_sent < n_max ? x->out.n - x->n_sent : n_max;
            memcpy(out, x->out.bytes + x->n_sent, n);
            x->n_sent += n;
            x->sent_bytes += n;
            return (ssize_t)n;
        }
        if (x->finished) return MHD_CONTENT_READER_END_OF_STREAM;
        x->n_sent = 0;
        text_clear(&x->out);
        pthread_mutex_lock(&x->lock);
        bool gone = atomic_load(&x->gone), ping = x->ping, done = x->done;
        x->ping = false;
        if (!gone && !ping && !done && x->events.n == 0) {
            x->suspended = true;
            mhd()->suspend_connection(x->connection);
            pthread_mutex_unlock(&x->lock);
            return 0;
        }
        struct text events = x->events;
        x->events = x->spare;
        x->spare = events;
        x->full_us = 0;
        bool paused = atomic_load(&x->paused);
        pthread_mutex_unlock(&x->lock);
        if (paused) work_poke(x->server);
        if (gone) return MHD_CONTENT_READER_END_WITH_ERROR;
        translate_events(x, &x->spare);
        if (done) translate_end(x);
        if (ping && x->out.n == 0 && x->route->dialect->ping) text_put(&x->out, x->route->dialect->ping);
        x->finished = done;
        if (x->out.failed || x->spare.failed) return MHD_CONTENT_READER_END_WITH_ERROR;
        text_clear(&x->spare);
    }
}

static void release(void *user)
{
    exchange_release(user);
}

static enum MHD_Result send_stream(struct exchange *x)
{
    struct MHD_Response *r = mhd()->create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_more, x, release);
    if (!r) return MHD_NO;
    atomic_fetch_add(&x->refs, 1);
    add_headers(x, r, x->route->dialect->stream_type);
    add_header(r, "X-Accel-Buffering", "no"); /* proxies pass it on as it comes */
    return queue(x, 200, r);
}

static enum MHD_Result send_whole(struct exchange *x)
{
    const char *type = x->route->type ? x->route->type : "application/json";
    if (x->route->dialect) {
        text_clear(&x->out);
        translate_events(x, &x->events);
        if (!x->problem.status) translate_end(x);
        if (x->events.failed) return MHD_NO;
    }
    return x->problem.status ? send_problem(x) : send_text(x, 200, type, &x->out);
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

static enum MHD_Result send_file(struct exchange *x)
{
    const struct page_file *f = x->file;
    bool known = page_is_known(f, http_header(x, "If-None-Match"));
    x->sent_bytes = known ? 0 : f->n;
    struct MHD_Response *r =
        mhd()->create_response_from_buffer(x->sent_bytes, (void *)(uintptr_t)f->bytes, MHD_RESPMEM_PERSISTENT);
    if (!r) return MHD_NO;
    add_headers(x, r, known ? NULL : f->type);
    add_header(r, "ETag", f->etag);
    add_header(r, "Vary", "Accept");
    add_header(r, "Content-Security-Policy", page_policy);
    add_header(r, "Referrer-Policy", "no-referrer");
    return queue(x, known ? 304 : 200, r);
}

static enum MHD_Result answer_now(struct exchange *x)
{
    text_clear(&x->out);
    x->route->now(x, &x->out, &x->problem);
    if (x->problem.status) return send_problem(x);
    if (x->file) return send_file(x);
    return send_text(x, 200, x->route->type ? x->route->type : "application/json", &x->out);
}

/* A preflight, or the question what may be sent; guard_check() has looked at the page. */
static enum MHD_Result answer_options(struct exchange *x)
{
    struct MHD_Response *r = mhd()->create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
    const char *wanted = http_header(x, "Access-Control-Request-Headers");
    if (!r) return MHD_NO;
    add_headers(x, r, NULL);
    add_header(r, "Allow", "GET, HEAD, POST, OPTIONS");
    if (x->origin[0]) {
        add_header(r, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        add_header(r, "Access-Control-Allow-Headers", wanted ? wanted : "Authorization, Content-Type");
        add_header(r, "Access-Control-Max-Age", "600");
    }
    return queue(x, 204, r);
}

/* The whole request is here: answers it, or hands it to the front threads. */
static enum MHD_Result begin(struct exchange *x)
{
    struct server *s = x->server;
    x->begun = true;
    watch_set(s, x->link, LINK_WAITS, NULL);
    if (x->problem.status) return send_problem(x);
    if (!x->route) return answer_options(x);
    if (x->route->now) return answer_now(x);
    if (atomic_load(&s->draining))
        problem_set(&x->problem, 503, "shutting_down", NULL, "the server is shutting down");
    else if (atomic_fetch_add(&s->n_exchange, 1) >= s->set->n_queue) {
        atomic_fetch_sub(&s->n_exchange, 1);
        problem_set(&x->problem, 503, "queue_full", NULL, "the server has %d requests at work or waiting, its most",
            s->set->n_queue);
    }
    if (x->problem.status) return send_problem(x);
    atomic_fetch_add(&s->n_request, 1);
    atomic_fetch_add(&x->refs, 1);
    atomic_fetch_add(&s->n_answering, 1);
    x->at_work = true;
    front_put(s, x);
    watch_set(s, x->link, LINK_WORKS, x);
    return MHD_YES;
}

/* Called when the request is whole, and again each time the connection is resumed. */
static enum MHD_Result go_on(struct exchange *x)
{
    if (!x->begun) {
        enum MHD_Result rc = begin(x);
        if (rc == MHD_NO || !x->at_work) return rc;
    }
    pthread_mutex_lock(&x->lock);
    bool gone = atomic_load(&x->gone), ready = x->ready;
    if (!gone && !ready) {
        x->suspended = true;
        mhd()->suspend_connection(x->connection);
    }
    bool streams = ready && x->ask.stream && x->route->dialect && x->problem.status == 0;
    pthread_mutex_unlock(&x->lock);
    if (gone) return MHD_NO;
    if (!ready) return MHD_YES;
    return streams ? send_stream(x) : send_whole(x);
}

static uint64_t announced_bytes(const struct exchange *x)
{
    const char *length = http_header(x, "Content-Length");
    return length ? strtoull(length, NULL, 10) : 0;
}

/* Line and headers are here. */
static enum MHD_Result take_head(
    struct server *s, struct MHD_Connection *c, const char *path, const char *method, void **state)
{
    struct exchange *x = exchange_open(s, c, path);
    if (!x) return MHD_NO;
    *state = x;
    x->link = link_of(c);
    snprintf(x->method, sizeof x->method, "%s", method);
    watch_set(s, x->link, LINK_SENDS, NULL);
    bool asks = strcmp(method, "OPTIONS") == 0;
    if (!asks) x->route = route_find(strcmp(method, "HEAD") == 0 ? "GET" : method, path, &x->problem);
    guard_check(x, asks || (x->route && x->route->is_public), &x->problem);
    uint64_t n = announced_bytes(x);
    if (n > BODY_MOST_BYTES)
        problem_set(&x->problem, 413, "body_too_large", NULL,
            "the body has %llu bytes, more than the %d that are taken", (unsigned long long)n, BODY_MOST_BYTES);
    x->keeps_body = !x->problem.status;
    x->hard_close = n > DROPPED_BYTES;
    return x->hard_close ? go_on(x) : MHD_YES;
}

static void take_body(struct exchange *x, const char *bytes, size_t n)
{
    x->body_bytes += n;
    if (x->body_bytes > BODY_MOST_BYTES) {
        problem_set(&x->problem, 413, "body_too_large", NULL, "the body has more than the %d bytes that are taken",
            BODY_MOST_BYTES);
        x->keeps_body = false;
        text_free(&x->body);
    }
    if (x->keeps_body) text_add(&x->body, bytes, n);
    if (x->body.failed) problem_set(&x->problem, 503, "out_of_memory", NULL, "out of memory");
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *c, const char *path, const char *method,
    const char *version, const char *bytes, size_t *n, void **state)
{
    struct exchange *x = *state;
    (void)version;
    if (!x) return take_head(user, c, path, method, state);
    if (*n == 0) return go_on(x);
    take_body(x, bytes, *n);
    *n = 0;
    return x->body_bytes > DROPPED_BYTES ? MHD_NO : MHD_YES;
}

static void on_completed(void *user, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode code)
{
    struct server *s = user;
    struct exchange *x = *state;
    (void)c;
    *state = NULL;
    if (!x) return;
    watch_set(s, x->link, LINK_RESTS, NULL);
    pthread_mutex_lock(&x->lock);
    x->connection = NULL;
    bool cut = !x->done && x->at_work,
         begun = x->ready || !x->at_work; /* other threads may write the reply till then */
    pthread_mutex_unlock(&x->lock);
    x->complete = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    if (cut) exchange_cancel(x);
    if (x->at_work) atomic_fetch_sub(&s->n_answering, 1);
    log_access(x, clock_us(), begun, !cut);
    exchange_release(x);
}

static void on_connection(void *user, struct MHD_Connection *c, void **state, enum MHD_ConnectionNotificationCode code)
{
    struct server *s = user;
    struct link *l = *state;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = mhd()->get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
        *state = l = info ? watch_open(s, info->connect_fd) : NULL;
        watch_set(s, l, LINK_SENDS, NULL);
    } else if (l) {
        watch_close(s, l);
        *state = NULL;
    }
}

int http_start(struct server *s)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    s->daemon = mhd()->start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET, s->listen_fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)s->set->n_connection, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)s->set->time_out_s * 2, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
    return s->daemon ? 0 : -1;
}

void http_quiesce(struct server *s)
{
    mhd()->quiesce_daemon(s->daemon); /* the socket stays listen.c's */
}

void http_stop(struct server *s)
{
    if (s->daemon) mhd()->stop_daemon(s->daemon);
    s->daemon = NULL;
}
