/* SPDX-License-Identifier: MIT
 *
 * The front threads: from a body to prompts of tokens, or to an answer that needs a model's text only.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "documents.h"
#include "models.h"
#include "search.h"
#include "state.h"

static void name_reply(struct exchange *x)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char dice[24] = {0};
    char *to = x->reply.id;
    if (getrandom(dice, sizeof dice, GRND_NONBLOCK) < 0) memcpy(dice, &x->start_us, sizeof x->start_us);
    for (size_t i = 0; i < sizeof dice; i++) *to++ = letters[dice[i] % 36];
    x->reply.created = time(NULL);
}

bool front_read(struct exchange *x, struct problem *p)
{
    struct ask *a = &x->ask;
    json_t *body = json_read(x->body.bytes, x->body.n, p);
    text_free(&x->body);
    if (!body) return false;
    ask_init(a, body);
    a->chat_flags = x->server->set->chat_flags;
    a->chat_variables = x->server->set->chat_variables;
    struct fields f = {.object = body, .problem = p};
    if (!field_text(&f, "model", &a->model)) field_text(&f, "name", &a->model); /* Ollama's older name */
    struct served *m = p->status ? NULL : models_find(x->server, x->key, a->model, p);
    uint64_t start_us = clock_us();
    if (m && models_hold(m, p)) x->model = m;
    x->reply.load_us = clock_us() - start_us;
    return x->model != NULL;
}

static void prepare(struct exchange *x, struct problem *p)
{
    struct ask *a = &x->ask;
    permit_begin(x, p);
    if (p->status || !front_read(x, p)) return;
    uint64_t seed = a->sampling.seed;
    a->sampling = x->model->loaded.sampling;
    a->sampling.seed = seed;
    a->set.max_tokens = x->server->set->max_tokens;
    if (x->key && x->key->n_tokens && (a->set.max_tokens < 0 || a->set.max_tokens > x->key->n_tokens))
        a->set.max_tokens = x->key->n_tokens;
    a->set.reasoning_budget = x->model->info.reasoning_open ? x->server->set->reasoning_budget : -1;
    a->reasoning_in_text = x->server->set->reasoning_in_text;
    a->rolls = x->server->set->context_shift;
    x->route->dialect->read(a, p);
    if (!p->status) permit_tokens(x, p);
    if (p->status) return;
    if (a->keeps) models_keep(x->model, a->keep_us); /* before the reply: whoever has that may ask /api/ps */
    x->reply.ask = a;
    x->reply.model = x->model;
    x->reply.start_us = x->start_us;
    if (a->nothing) return;
    if (a->store) documents_prepare(x, p);
    if (p->status) return;
    if (a->searches) search_prepare(a, x->model, x->key, p);
    ask_prepare(a, x->model, x->server->set->chat_template, p);
    if (p->status) return;
    if (a->embeds) return;
    struct reply *r = &x->reply;
    r->choice = calloc((size_t)(a->n_prompt * a->set.n_samples), sizeof *r->choice);
    if (!r->choice) {
        problem_set(p, 503, "out_of_memory", NULL, "out of memory");
        return;
    }
    r->part = DELTA_END;
    r->n_choice = a->n_prompt * a->set.n_samples;
    for (int i = 0; i < a->n_prompt; i++) a->prompt[i].exchange = x;
    for (int i = 0; i < r->n_choice; i++) calls_init(&r->choice[i].calls, a->calls, a->tools);
}

static void serve(struct exchange *x)
{
    struct problem p = {0};
    name_reply(x);
    if (atomic_load(&x->gone))
        exchange_end(x, NULL);
    else if (x->route->body) {
        x->route->body(x, &x->out, &p);
        exchange_end(x, &p);
    } else {
        prepare(x, &p);
        if (!p.status && x->ask.nothing) exchange_begin(x);
        if (p.status || x->ask.nothing)
            exchange_end(x, &p);
        else {
            if (!x->ask.searches && !x->ask.embeds) work_submit(x); /* grammars are compiled here */
            work_put(x->server, x);
        }
    }
}

static void *run(void *user)
{
    struct server *s = user;
    for (;;) {
        pthread_mutex_lock(&s->front_lock);
        while (!s->front.first && !s->front_ends) pthread_cond_wait(&s->front_ready, &s->front_lock);
        struct exchange *x = queue_take(&s->front);
        pthread_mutex_unlock(&s->front_lock);
        if (!x) return NULL;
        serve(x);
    }
}

void front_put(struct server *s, struct exchange *x)
{
    pthread_mutex_lock(&s->front_lock);
    queue_put(&s->front, x);
    pthread_cond_signal(&s->front_ready);
    pthread_mutex_unlock(&s->front_lock);
}

int front_start(struct server *s)
{
    for (; s->n_front_thread < FRONT_THREADS; s->n_front_thread++)
        if (pthread_create(&s->front_thread[s->n_front_thread], NULL, run, s) != 0) return -1;
    return 0;
}

void front_stop(struct server *s)
{
    pthread_mutex_lock(&s->front_lock);
    s->front_ends = true;
    pthread_cond_broadcast(&s->front_ready);
    pthread_mutex_unlock(&s->front_lock);
    for (int i = 0; i < s->n_front_thread; i++) pthread_join(s->front_thread[i], NULL);
    s->n_front_thread = 0;
}
