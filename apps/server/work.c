/* SPDX-License-Identifier: MIT
 *
 * The stepping thread: the only one that steps sessions.  Front threads submit; it cancels requests whose client is
 * gone, pauses those whose client does not read, ends what is over, and sleeps while nothing runs.
 */
#include <stdlib.h>
#include <string.h>

#include "embed.h"
#include "models.h"
#include "search.h"
#include "state.h"

static int on_text(void *user, const struct lutra_piece *piece)
{
    struct prompt *p = user;
    struct exchange *x = p->exchange;
    if (atomic_load(&x->gone)) return 1;
    bool thought = piece->token >= 0 && piece->part == LUTRA_PART_REASONING;
    if (piece->n_bytes == 0 && !x->ask.log_probs && !thought) return 0;
    struct event e = {.kind = EVENT_TEXT,
        .choice = p->first + piece->sample,
        .part = piece->part,
        .n_bytes = piece->n_bytes,
        .scored = {.token = piece->token, .log_prob = piece->log_prob, .n_top = piece->n_top}};
    for (int i = 0; i < piece->n_top; i++) e.scored.top[i] = piece->top[i];
    exchange_event(x, &e, piece->text);
    return 0;
}

static void on_prompt_piece(void *user, const struct lutra_prompt_piece *piece)
{
    struct prompt *p = user;
    struct event e = {.kind = EVENT_SCORED,
        .choice = p->first,
        .scored = {.token = piece->token, .log_prob = piece->log_prob, .n_top = piece->n_top}};
    for (int i = 0; i < piece->n_top; i++) e.scored.top[i] = piece->top[i];
    exchange_event(p->exchange, &e, "");
}

static void on_prompt(void *user, int32_t request, int n_done, int n_prompt)
{
    struct prompt *p = user;
    (void)request;
    if (!p->begin_us) {
        p->begin_us = clock_us();
        p->n_cached = n_done;
    }
    struct event e = {.kind = EVENT_PROGRESS,
        .choice = p->first,
        .scored = {.token = -1},
        .progress = {n_prompt, p->n_cached, n_done, (double)(clock_us() - p->begin_us) * 1e-3}};
    exchange_event(p->exchange, &e, "");
}

static void on_end(void *user, const struct lutra_end *end)
{
    struct prompt *p = user;
    struct exchange *x = p->exchange;
    struct event e = {.kind = EVENT_END, .choice = p->first + end->sample, .scored = {.token = -1}, .end = *end};
    struct server *s = x->server;
    if (p->n_ended++ == 0) {
        atomic_fetch_add(&s->n_prompt_token, (unsigned)end->n_prompt);
        atomic_fetch_add(&s->n_cached_token, (unsigned)end->n_cached);
        atomic_fetch_add(&s->prompt_us, end->first_us);
    }
    atomic_fetch_add(&s->n_token, (unsigned)end->n_tok);
    if (end->end_us > end->first_us) atomic_fetch_add(&s->decode_us, end->end_us - end->first_us);
    if (end->reason == LUTRA_STOP_ERROR) x->broke = true;
    exchange_event(x, &e, "");
}

void work_submit(struct exchange *x)
{
    struct ask *a = &x->ask;
    struct lutra_error err = {0};
    for (int i = 0; i < a->n_prompt && !x->refusal.status; i++) {
        struct prompt *p = &a->prompt[i];
        struct lutra_request r = a->set;
        r.prompt = p->token;
        r.n_prompt = p->n_token;
        r.sampling = &a->sampling;
        r.stop = a->stop;
        r.stop_tokens = a->stop_token;
        r.cache_domain = guard_domain(x);
        r.top_logprobs = a->log_probs ? a->n_top : 0;
        r.user = p;
        r.on_text = on_text;
        r.on_end = on_end;
        if (a->scores_prompt) r.on_prompt_piece = on_prompt_piece;
        if (a->progress && a->stream) r.on_prompt = on_prompt;
        int rc = lutra_submit(x->model->loaded.session, &r, &p->id, &err);
        p->running = rc == 0;
        bool text = rc == LUTRA_E_FORMAT || rc == LUTRA_E_UNSUPPORTED;
        const char *param = a->set.json_schema ? "response_format"
                            : a->set.grammar   ? "grammar"
                            : a->set.structure ? "tools"
                                               : NULL;
        if (!p->running) problem_from(&x->refusal, text ? param : NULL, &err);
    }
    if (x->refusal.status)
        for (int i = 0; i < a->n_prompt; i++)
            if (a->prompt[i].running) lutra_request_cancel(x->model->loaded.session, a->prompt[i].id);
    if (!x->refusal.status) exchange_begin(x);
}

static bool is_over(struct exchange *x)
{
    bool over = true;
    if (x->ask.embeds) return embed_is_over(x);
    if (x->ask.searches) return search_is_over(x);
    for (int i = 0; i < x->ask.n_prompt; i++) {
        struct prompt *p = &x->ask.prompt[i];
        if (p->n_ended == x->ask.set.n_samples) p->running = false;
        over = over && !p->running;
    }
    return over;
}

static void cancel(struct exchange *x)
{
    if (x->cancelled) return;
    x->cancelled = true;
    if (x->ask.searches) search_cancel(x);
    for (int i = 0; i < x->ask.n_prompt && !x->ask.searches; i++)
        if (x->ask.prompt[i].running) lutra_request_cancel(x->model->loaded.session, x->ask.prompt[i].id);
}

/* A request whose client does not read its stream gets no rows until it does.  Searches go on: what they tell is
 * short. */
static void pause_full(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool was = atomic_load(&x->paused), is = x->full_us != 0;
    atomic_store(&x->paused, is);
    pthread_mutex_unlock(&x->lock);
    for (int i = 0; i < x->ask.n_prompt && was != is; i++)
        if (x->ask.prompt[i].running)
            (is ? lutra_request_pause : lutra_request_resume)(x->model->loaded.session, x->ask.prompt[i].id);
}

/* The sessions of running requests into s->at_work; returns how many.  embeds: some are texts to be turned into
 * vectors, which no session's pass does. */
static int sessions_at_work(struct server *s, const struct queue *running, bool *embeds)
{
    int n = 0;
    *embeds = false;
    for (const struct exchange *x = running->first; x; x = x->next) {
        int i = 0;
        while (i < n && s->at_work[i] != x->model->loaded.session) i++;
        if (x->ask.embeds)
            *embeds = true;
        else if (i == n)
            s->at_work[n++] = x->model->loaded.session;
    }
    return n;
}

/* With the lock, which is given up meanwhile: sleeps until there is something to do, or a request is put or ends.  A
 * running request holds its session, so that it can be woken by that. */
static void sleep_idle(struct server *s, const struct queue *running)
{
    bool embeds;
    int n = sessions_at_work(s, running, &embeds);
    if (embeds) return;
    if (n == 0) {
        pthread_cond_wait(&s->work_ready, &s->work_lock);
        return;
    }
    s->waits_for = s->at_work[0];
    pthread_mutex_unlock(&s->work_lock);
    lutra_wait(s->at_work, n, LUTRA_WAIT_FOREVER);
    pthread_mutex_lock(&s->work_lock);
    s->waits_for = NULL;
}

/* With the lock. */
static void wake(struct server *s)
{
    pthread_cond_signal(&s->work_ready);
    lutra_wake(s->waits_for);
}

/* Takes in what was put, and waits while there is nothing to do.  false: the end. */
static bool take_in(struct server *s, struct queue *running)
{
    pthread_mutex_lock(&s->work_lock);
    if (running->first && !s->inbox.first && !s->work_changed) sleep_idle(s, running);
    while (!running->first && !s->inbox.first && !s->work_changed && !s->work_ends) sleep_idle(s, running);
    struct queue in = s->inbox;
    s->inbox = (struct queue){0};
    s->work_changed = false;
    bool ends = s->work_ends && !in.first && !running->first;
    pthread_mutex_unlock(&s->work_lock);
    for (struct exchange *x; (x = queue_take(&in));) {
        if (!atomic_load(&x->gone) && x->ask.searches) search_submit(x);
        queue_put(running, x);
    }
    return !ends;
}

/* Ends what is over; cancels what nobody waits for. */
static void sweep(struct server *s, struct queue *running, const struct lutra_error *err)
{
    struct queue kept = {0};
    int n_paused = 0;
    for (struct exchange *x; (x = queue_take(running));) {
        if (atomic_load(&x->gone)) cancel(x);
        if (!x->ask.searches && !x->ask.embeds) pause_full(x);
        if (!is_over(x)) {
            n_paused += atomic_load(&x->paused);
            queue_put(&kept, x);
            continue;
        }
        if (x->broke && err->code != LUTRA_E_CANCELLED)
            problem_set(&x->refusal, 500, "internal_error", NULL, "%s",
                err->code ? err->what : "the model's logits leave no token to sample");
        exchange_end(x, &x->refusal);
    }
    *running = kept;
    if (kept.first) running->last = kept.last;
    atomic_store(&s->n_running, kept.n);
    atomic_store(&s->n_paused, n_paused);
}

static void count(struct server *s)
{
    struct lutra_stats all;
    models_count(s, &all);
    atomic_store(&s->n_pass, all.n_pass);
    atomic_store(&s->rows_valid, all.rows_valid);
    atomic_store(&s->rows_wasted, all.rows_wasted);
    atomic_store(&s->rows_idle, all.rows_underutilized);
}

/* The next texts of those that are turned into vectors. */
static void embed_some(const struct queue *running)
{
    for (struct exchange *x = running->first; x; x = x->next) {
        bool others = false;
        if (!x->ask.embeds || embed_is_over(x)) continue;
        for (const struct exchange *y = running->first; y; y = y->next)
            others = others || (y->model == x->model && !y->ask.embeds);
        embed_step(x, others);
    }
}

static void *run(void *user)
{
    struct server *s = user;
    struct queue running = {0};
    while (take_in(s, &running)) {
        struct lutra_error err = {0};
        sweep(s, &running, &err);
        int n_sample = 0;
        embed_some(&running);
        for (int i = 0; i < s->set->n_model; i++) {
            struct served *m = &s->model[i];
            bool wanted = false;
            for (struct exchange *x = running.first; x && !wanted; x = x->next) wanted = x->model == m;
            bool ready = wanted && lutra_wait(&m->loaded.session, 1, 0) == 1; /* else lutra_step() might wait */
            if (ready) lutra_step(m->loaded.session, &m->n_active, &err);
            if (wanted) n_sample += m->n_active;
        }
        atomic_store(&s->n_sample, n_sample);
        count(s);
        sweep(s, &running, &err);
    }
    return NULL;
}

void work_put(struct server *s, struct exchange *x)
{
    pthread_mutex_lock(&s->work_lock);
    queue_put(&s->inbox, x);
    wake(s);
    pthread_mutex_unlock(&s->work_lock);
}

void work_poke(struct server *s)
{
    pthread_mutex_lock(&s->work_lock);
    s->work_changed = true;
    wake(s);
    pthread_mutex_unlock(&s->work_lock);
}

int work_start(struct server *s)
{
    s->at_work = calloc((size_t)s->set->n_model, sizeof *s->at_work);
    s->works = s->at_work && pthread_create(&s->work_thread, NULL, run, s) == 0;
    return s->works ? 0 : -1;
}

void work_stop(struct server *s)
{
    if (!s->works) return;
    pthread_mutex_lock(&s->work_lock);
    s->work_ends = true;
    wake(s);
    pthread_mutex_unlock(&s->work_lock);
    pthread_join(s->work_thread, NULL);
    free(s->at_work);
    s->works = false;
}
