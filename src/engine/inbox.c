/* SPDX-License-Identifier: MIT
 *
 * What any thread may ask of a session: requests, cancels, pauses.  None of them waits for a pass: requests stand in
 * the inbox until the next pass takes them in, the rest are flags that it reads.
 *
 * The session's list of requests changes under the lock only, and by the stepping thread only: that thread reads it
 * without the lock, others with it.
 */
#include "engine/session_impl.h"

static struct bell *bell_of(const lutra_session *s)
{
    return &s->model->runtime->inbox;
}

static void lock(const lutra_session *s)
{
    bell_lock(bell_of(s));
}

static void unlock(const lutra_session *s)
{
    bell_unlock(bell_of(s));
}

/* With the lock. */
static void tell(lutra_session *s)
{
    s->inbox.n_news++;
    bell_ring(bell_of(s));
}

/* ---- from any thread ---- */

int inbox_put(lutra_session *s, struct request *r, int32_t *id, struct lutra_error *err)
{
    struct inbox *in = &s->inbox;
    lock(s);
    int rc = 0;
    if (in->closing) rc = lutra_fail(err, LUTRA_E_BUSY, "request: the session is being closed");
    if (rc == 0 && in->n_waiting >= s->n_queue)
        rc = lutra_fail(err, LUTRA_E_BUSY, "request: %d others wait to begin (n_queue)", in->n_waiting);
    if (rc == 0) {
        in->n_waiting++;
        r->waiting = true;
        *id = r->id = in->next_id++;
        *(in->last ? &in->last->next : &in->first) = r;
        in->last = r;
        tell(s);
    }
    unlock(s);
    return rc;
}

/* With the lock. */
static struct request *find(const lutra_session *s, int32_t id)
{
    struct request *const lists[] = {s->first, s->inbox.first};
    for (int i = 0; i < 2; i++)
        for (struct request *r = lists[i]; r; r = r->next)
            if (r->id == id) return r;
    return NULL;
}

static int set_flags(lutra_session *s, int32_t id, bool cancel, bool pause)
{
    TRY(handle_check(s, "session", NULL));
    lock(s);
    struct request *r = find(s, id);
    if (r && cancel) atomic_store(&r->cancelled, true);
    if (r && !cancel) atomic_store(&r->paused, pause);
    if (r) tell(s);
    unlock(s);
    return r ? 0 : LUTRA_E_NOT_FOUND;
}

int lutra_request_cancel(lutra_session *s, int32_t id)
{
    return set_flags(s, id, true, false);
}

int lutra_request_pause(lutra_session *s, int32_t id)
{
    return set_flags(s, id, false, true);
}

int lutra_request_resume(lutra_session *s, int32_t id)
{
    return set_flags(s, id, false, false);
}

void session_news(lutra_session *s)
{
    lock(s);
    tell(s);
    unlock(s);
}

void lutra_wake(lutra_session *s)
{
    if (!s) return;
    lock(s);
    s->inbox.woken = true;
    tell(s);
    unlock(s);
}

void lutra_cancel(lutra_session *session)
{
    if (session) atomic_store_explicit(&session->cancel, true, memory_order_relaxed);
}

/* ---- the stepping thread ---- */

void inbox_take(lutra_session *s)
{
    lock(s);
    struct request *came = s->inbox.first;
    if (came) *(s->last ? &s->last->next : &s->first) = came, s->last = s->inbox.last;
    s->inbox.first = s->inbox.last = NULL;
    s->inbox.n_seen = s->inbox.n_news;
    unlock(s);
    for (struct request *r = came; r; r = r->next) (void)session_speculate(s, r->set.on_draft != NULL, &r->failed);
}

void inbox_rest(lutra_session *s, bool idle)
{
    lock(s);
    s->inbox.idle = idle;
    unlock(s);
}

/* With the lock. */
static void begun(lutra_session *s, struct request *r)
{
    s->inbox.n_waiting -= r->waiting;
    r->waiting = false;
}

void inbox_begun(lutra_session *s, struct request *r)
{
    lock(s);
    begun(s, r);
    unlock(s);
}

void inbox_unlink(lutra_session *s, struct request **link, struct request *before)
{
    lock(s);
    struct request *r = *link;
    begun(s, r);
    *link = r->next;
    if (s->last == r) s->last = before;
    unlock(s);
}

int inbox_samples(lutra_session *s)
{
    int n = 0;
    lock(s);
    for (const struct request *r = s->inbox.first; r; r = r->next) n += r->set.n_samples;
    unlock(s);
    return n;
}

void inbox_close(lutra_session *s)
{
    lock(s);
    s->inbox.closing = true;
    unlock(s);
}

/* ---- waiting ---- */

/* With the lock, like all below. */
static bool is_ready(const lutra_session *s)
{
    const struct inbox *in = &s->inbox;
    return in->woken || in->first || (s->first && (!in->idle || in->n_news != in->n_seen));
}

/* When the first of its requests is too late, by the runtime's clock. */
static uint64_t deadline_of(const lutra_session *s)
{
    uint64_t first = CLOCK_NEVER_US;
    for (const struct request *r = s->first; r; r = r->next)
        if (r->set.timeout_us && r->set.timeout_us < CLOCK_NEVER_US - r->submit_us &&
            r->submit_us + r->set.timeout_us < first)
            first = r->submit_us + r->set.timeout_us;
    return first;
}

static lutra_session *ready_one(lutra_session *const *session, int n, uint64_t now, uint64_t *deadline)
{
    for (int i = 0; i < n; i++) {
        uint64_t late = deadline_of(session[i]);
        if (is_ready(session[i]) || late <= now) return session[i];
        if (late < *deadline) *deadline = late;
    }
    return NULL;
}

int lutra_wait(lutra_session *const *session, int n_session, int64_t timeout_us)
{
    if (!session || n_session < 1) return LUTRA_E_ARGUMENT;
    for (int i = 0; i < n_session; i++)
        if (!session[i] || session[i]->model->runtime != session[0]->model->runtime) return LUTRA_E_ARGUMENT;
    lutra_runtime *rt = session[0]->model->runtime;
    uint64_t now = clock_now_us(rt->clock), end = CLOCK_NEVER_US;
    if (timeout_us >= 0 && (uint64_t)timeout_us < CLOCK_NEVER_US - now) end = now + (uint64_t)timeout_us;
    lutra_session *ready = NULL;
    lock(session[0]);
    for (;;) {
        uint64_t next = end;
        now = clock_now_us(rt->clock);
        ready = ready_one(session, n_session, now, &next);
        if (ready || now >= end) break;
        bell_sleep(&rt->inbox, next == CLOCK_NEVER_US ? next : next - now);
    }
    if (ready) ready->inbox.woken = false;
    unlock(session[0]);
    return ready != NULL;
}
