/* SPDX-License-Identifier: MIT */
#include "models.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state.h"

/* By name, or -1. */
static int find(const struct server *s, const char *name)
{
    static const char latest[] = ":latest"; /* Ollama's tag where there is none */
    int n = s->set->n_model;
    size_t n_name = name ? strlen(name) : 0, n_tag = sizeof latest - 1;
    if (n_name > n_tag && strcmp(name + n_name - n_tag, latest) == 0) n_name -= n_tag;
    for (int i = 0; i < n; i++)
        for (int k = 0; name && k < s->model[i].set->n_name; k++) {
            const char *known = s->model[i].set->name[k];
            if (strcmp(known, name) == 0 || (strlen(known) == n_name && strncmp(known, name, n_name) == 0)) return i;
        }
    return n == 1 && !s->set->strict_model ? 0 : -1;
}

struct served *models_find(struct server *s, const struct api_key *key, const char *name, struct problem *p)
{
    bool any = !name || !*name;
    int i = any ? 0 : find(s, name);
    while (any && i + 1 < s->set->n_model && !permit_model(key, &s->model[i])) i++; /* the first that it may use */
    if (i >= 0 && permit_model(key, &s->model[i])) return &s->model[i];
    if (i >= 0) {
        permit_refuse(p, PERMIT_MODELS, "model", any ? s->model[i].set->name[0] : name);
        return NULL;
    }
    problem_set(
        p, 404, "model_not_found", "model", "there is no model '%.200s'; GET /v1/models lists what there is", name);
    return NULL;
}

static void add_stats(struct lutra_stats *all, const struct lutra_stats *one)
{
    all->n_pass += one->n_pass;
    all->rows_valid += one->rows_valid;
    all->rows_wasted += one->rows_wasted;
    all->rows_underutilized += one->rows_underutilized;
}

/* ---- with model_lock held; it is given back while a file is opened or closed ------------------------------------- */

static void close_one(struct served *m)
{
    struct server *s = m->server;
    struct lutra_stats one;
    lutra_session_stats_get(m->loaded.session, &one, sizeof one);
    add_stats(&s->closed, &one);
    m->state = MODEL_CLOSING;
    pthread_mutex_unlock(&s->model_lock);
    s->set->close(s->set->user, m->index, &m->loaded);
    pthread_mutex_lock(&s->model_lock);
    m->loaded = (struct server_loaded){0};
    m->info = (struct lutra_model_info){0};
    m->state = MODEL_CLOSED;
    pthread_cond_broadcast(&s->model_changed);
}

/* Closes the one that nobody holds and that was asked for longest ago; false: there is none. */
static bool close_oldest(struct server *s)
{
    struct served *oldest = NULL;
    for (int i = 0; i < s->set->n_model; i++) {
        struct served *m = &s->model[i];
        if (m->state != MODEL_OPEN || m->n_user > 0) continue;
        if (!oldest || m->used_us < oldest->used_us) oldest = m;
    }
    if (oldest) close_one(oldest);
    return oldest != NULL;
}

static int count_open(const struct server *s)
{
    int n = 0;
    for (int i = 0; i < s->set->n_model; i++) n += s->model[i].state != MODEL_CLOSED;
    return n;
}

static int open_file(struct served *m, struct lutra_error *err)
{
    struct server *s = m->server;
    m->state = MODEL_OPENING;
    pthread_mutex_unlock(&s->model_lock);
    pthread_mutex_lock(&s->open_lock); /* one at a time */
    int rc = s->set->open(s->set->user, m->index, &m->loaded, err);
    pthread_mutex_unlock(&s->open_lock);
    pthread_mutex_lock(&s->model_lock);
    if (rc == 0) {
        lutra_model_info_get(m->loaded.model, &m->info, sizeof m->info);
        lutra_session_sizes_get(m->loaded.session, &m->n_ctx, NULL, NULL);
    } else {
        m->loaded = (struct server_loaded){0};
    }
    m->state = rc == 0 ? MODEL_OPEN : MODEL_CLOSED;
    pthread_cond_broadcast(&s->model_changed);
    return rc;
}

static void open_one(struct served *m, struct problem *p)
{
    struct server *s = m->server;
    struct lutra_error err = {0};
    while (count_open(s) >= s->set->most_models && close_oldest(s)) continue;
    if (m->state != MODEL_CLOSED) return; /* another thread was faster */
    if (count_open(s) >= s->set->most_models) {
        problem_set(p, 503, "model_busy", "model", "all %d models that may be open are at work", s->set->most_models);
        return;
    }
    int rc = open_file(m, &err);
    while (rc == LUTRA_E_NO_MEMORY && m->state == MODEL_CLOSED && close_oldest(s)) rc = open_file(m, &err);
    err.code = rc;
    if (rc == LUTRA_E_NO_MEMORY)
        problem_set(p, 503, "out_of_memory", "model", "%.200s: %s", m->set->name[0], err.what);
    else if (rc < 0)
        problem_set(p, 500, "model_failed", "model", "%.200s: %s", m->set->name[0],
            err.what[0] ? err.what : lutra_status_text(rc));
}

/* ------------------------------------------------------------------------------------------------------------------ */

bool models_hold(struct served *m, struct problem *p)
{
    struct server *s = m->server;
    pthread_mutex_lock(&s->model_lock);
    while (m->state != MODEL_OPEN && !p->status) {
        if (m->state == MODEL_CLOSED)
            open_one(m, p);
        else
            pthread_cond_wait(&s->model_changed, &s->model_lock);
    }
    bool held = m->state == MODEL_OPEN && !p->status;
    m->n_user += held;
    m->used_us = clock_us();
    pthread_mutex_unlock(&s->model_lock);
    return held;
}

bool models_try(struct served *m)
{
    pthread_mutex_lock(&m->server->model_lock);
    bool held = m->state == MODEL_OPEN;
    m->n_user += held;
    pthread_mutex_unlock(&m->server->model_lock);
    return held;
}

void models_release(struct served *m, bool was_used)
{
    static const uint64_t look = UINT64_C(1) << 32;
    pthread_mutex_lock(&m->server->model_lock);
    m->n_user--;
    if (was_used) m->used_us = clock_us();
    bool may_end = m->n_user == 0 && m->keep_us >= 0;
    pthread_mutex_unlock(&m->server->model_lock);
    if (may_end && write(m->server->main_fd, &look, sizeof look) < 0) return; /* it is full: somebody looks anyway */
}

void models_keep(struct served *m, int64_t keep_us)
{
    pthread_mutex_lock(&m->server->model_lock);
    m->keep_us = keep_us;
    pthread_mutex_unlock(&m->server->model_lock);
}

static int64_t usual_us(const struct server *s)
{
    return s->set->idle_s > 0 ? (int64_t)s->set->idle_s * 1000000 : -1;
}

void models_keep_usual(struct served *m)
{
    models_keep(m, usual_us(m->server));
}

void models_unload(struct served *m, struct problem *p)
{
    pthread_mutex_lock(&m->server->model_lock);
    if (m->state == MODEL_CLOSED)
        problem_set(p, 400, "model_not_loaded", "model", "%.200s is not open", m->set->name[0]);
    else if (m->state != MODEL_OPEN || m->n_user > 0)
        problem_set(p, 503, "model_busy", "model", "%.200s is at work", m->set->name[0]);
    else
        close_one(m);
    pthread_mutex_unlock(&m->server->model_lock);
}

int64_t models_stays(struct served *m)
{
    pthread_mutex_lock(&m->server->model_lock);
    int64_t left = m->keep_us;
    if (left >= 0 && m->n_user <= 1) { /* who asks holds it */
        left -= (int64_t)(clock_us() - m->used_us);
        left = left > 0 ? left : 0;
    }
    pthread_mutex_unlock(&m->server->model_lock);
    return left;
}

void models_digest(struct served *m, char out[SERVER_DIGEST_BYTES])
{
    const struct server_settings *set = m->server->set;
    pthread_mutex_lock(&m->server->model_lock);
    memcpy(out, m->digest, SERVER_DIGEST_BYTES);
    pthread_mutex_unlock(&m->server->model_lock);
    if (*out || !set->digest) return;
    set->digest(set->user, m->index, out);
    pthread_mutex_lock(&m->server->model_lock);
    memcpy(m->digest, out, SERVER_DIGEST_BYTES);
    pthread_mutex_unlock(&m->server->model_lock);
}

int models_start(struct server *s)
{
    struct problem p = {0};
    s->model = calloc((size_t)s->set->n_model, sizeof *s->model);
    if (!s->model) return -1;
    for (int i = 0; i < s->set->n_model; i++)
        s->model[i] = (struct served){.server = s, .set = &s->set->model[i], .index = i, .keep_us = usual_us(s)};
    if (s->set->open_when_asked) return 0;
    if (models_hold(&s->model[0], &p)) {
        models_release(&s->model[0], true);
        return 0;
    }
    s->set->say("%s", p.what);
    return -1;
}

int models_close_idle(struct server *s)
{
    int64_t next = INT64_MAX;
    pthread_mutex_lock(&s->model_lock);
    for (int i = 0; i < s->set->n_model; i++) {
        struct served *m = &s->model[i];
        if (m->state != MODEL_OPEN || m->n_user > 0 || m->keep_us < 0) continue;
        int64_t left = m->keep_us - (int64_t)(clock_us() - m->used_us);
        if (left <= 0)
            close_one(m);
        else if (left < next)
            next = left;
    }
    pthread_mutex_unlock(&s->model_lock);
    return next == INT64_MAX ? -1 : (int)(next / 1000 < 1000000 ? next / 1000 + 1 : 1000000);
}

void models_stop(struct server *s)
{
    pthread_mutex_lock(&s->model_lock);
    for (int i = 0; s->model && i < s->set->n_model; i++)
        if (s->model[i].state == MODEL_OPEN) close_one(&s->model[i]);
    pthread_mutex_unlock(&s->model_lock);
    free(s->model);
}

void models_count(struct server *s, struct lutra_stats *all)
{
    struct lutra_stats one;
    pthread_mutex_lock(&s->model_lock);
    *all = s->closed;
    for (int i = 0; i < s->set->n_model; i++) {
        if (s->model[i].state != MODEL_OPEN) continue;
        lutra_session_stats_get(s->model[i].loaded.session, &one, sizeof one);
        add_stats(all, &one);
    }
    pthread_mutex_unlock(&s->model_lock);
}
