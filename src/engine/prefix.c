/* SPDX-License-Identifier: MIT
 *
 * The prefix cache: a prompt evaluates only what no other sequence of its domain has evaluated.  It shares the blocks
 * of sequences that run, and of finished ones, which stay in the cache while there is room.  One that would share what
 * another's prompt is about to evaluate waits for that.
 */
#include "engine/session_impl.h"

#include <string.h>

void prefix_open(lutra_session *s, int32_t *tokens, struct row_hints *hints)
{
    for (int i = 0; i < SESSION_RETAINED; i++) {
        size_t at = (size_t)i * (size_t)s->n_ctx;
        s->retained[i] = (struct retained){.seq = -1, .token = tokens + at, .hints = hints ? hints + at : NULL};
    }
}

static void drop(lutra_session *s, struct retained *r)
{
    kv_seq_close(s->kv, r->seq);
    r->seq = -1;
    r->n_token = 0;
}

static struct retained *oldest(lutra_session *s)
{
    struct retained *old = NULL;
    for (int i = 0; i < SESSION_RETAINED; i++) {
        struct retained *r = &s->retained[i];
        if (r->seq >= 0 && (!old || r->used < old->used)) old = r;
    }
    return old;
}

/* Nobody's blocks but theirs are taken: kv.h's close_idle. */
bool prefix_make_room(void *session)
{
    struct retained *old = oldest(session);
    if (old) drop(session, old);
    return old != NULL;
}

static int n_common(const int32_t *a, int n_a, const int32_t *b, int n_b)
{
    int n = 0, most = n_a < n_b ? n_a : n_b;
    while (n < most && a[n] == b[n]) n++;
    return n;
}

/* Where a sequence of these tokens is kept: over one that it begins with, in an empty place, or over the oldest. */
static struct retained *place_for(lutra_session *s, const int32_t *token, int n_token, uint64_t domain)
{
    struct retained *place = NULL;
    for (int i = 0; i < SESSION_RETAINED; i++) {
        struct retained *r = &s->retained[i];
        if (r->seq >= 0 && r->domain == domain && n_common(r->token, r->n_token, token, n_token) == r->n_token)
            return r;
        if (r->seq < 0 && !place) place = r;
    }
    return place ? place : oldest(s);
}

void prefix_retain(lutra_session *s, struct sample *slot)
{
    int n = kv_seq_length(s->kv, slot->seq);
    if (n > 0) {
        struct retained *place = place_for(s, slot->token, n, slot->request->set.cache_domain);
        drop(s, place);
        kv_seq_idle(s->kv, slot->seq);
        place->seq = slot->seq;
        place->n_token = n;
        place->domain = slot->request->set.cache_domain;
        place->used = s->stats.n_step;
        memcpy(place->token, slot->token, (size_t)n * sizeof *place->token);
        if (slot->hints) memcpy(place->hints, slot->hints, (size_t)n * sizeof *place->hints);
    } else {
        kv_seq_close(s->kv, slot->seq);
    }
    slot->seq = -1;
}

/* A sequence whose beginning a prompt may share. */
struct source {
    int32_t seq;          /* -1: none */
    const int32_t *token; /* [n_token] of it that may be shared */
    int n_token;
    const struct row_hints *hints;
    struct retained *kept; /* NULL: it runs */
};

/* Of the first n tokens of a running sequence, those evaluated as any prompt's would be: where a device has bulk rows,
 * whole blocks before the prompt's last token. */
static int of_class(const lutra_session *s, const struct request *r, int n)
{
    int bulk = s->batch.bulk, most = bulk ? (r->set.n_prompt - 1) / bulk * bulk : n;
    return n < most ? n : most;
}

static void consider(struct source *best, int *n_match, const struct source *from, const struct prefix_prompt *p)
{
    int n = n_common(from->token, from->n_token, p->token, p->n_token - 1); /* one row is left to evaluate */
    if (n <= *n_match) return;
    *best = *from;
    *n_match = n;
}

/* The sequence that shares most with a prompt, of those that are kept, and of those that run. */
static struct source longest_match(lutra_session *s, const struct prefix_prompt *p, int *n_match)
{
    struct source best = {.seq = -1};
    *n_match = 0;
    for (int i = 0; i < SESSION_RETAINED; i++) {
        struct retained *k = &s->retained[i];
        struct source from = {k->seq, k->token, k->n_token, k->hints, k};
        if (k->seq >= 0 && k->domain == p->domain) consider(&best, n_match, &from, p);
    }
    for (const struct request *r = s->first; r; r = r->next) {
        struct source from = {r->seq, r->set.prompt, of_class(s, r, r->n_done), r->hints, NULL};
        if (r->seq >= 0 && r->set.cache_domain == p->domain) consider(&best, n_match, &from, p);
    }
    for (int i = 0; i < s->n_seq; i++) {
        const struct sample *slot = &s->sample[i];
        const struct request *r = slot->request;
        if (!r || r->set.cache_domain != p->domain) continue;
        struct source from = {
            slot->seq, slot->token, of_class(s, r, kv_seq_length(s->kv, slot->seq)), slot->hints, NULL};
        consider(&best, n_match, &from, p);
    }
    return best;
}

bool prefix_is_coming(lutra_session *s, const struct request *r)
{
    const struct op_list *list = model_ops(s->model->model);
    struct prefix_prompt p = {r->set.prompt, r->set.n_prompt, NULL, r->set.cache_domain};
    if (s->free_windows) return false; /* what it shares may be gone by then */
    for (int i = 0; i < list->n_layer; i++)
        if (list->layer[i].state_bytes) return false; /* and not every token leaves a state */
    int there, most = 0;
    longest_match(s, &p, &there);
    for (const struct request *o = s->first; o; o = o->next) {
        if (!request_in_prompt(o) || o->set.cache_domain != p.domain) continue;
        int n = n_common(o->set.prompt, of_class(s, o, o->set.n_prompt), p.token, p.n_token - 1);
        if (n > o->n_done && n > most) most = n;
    }
    return most >= there + KV_BLOCK;
}

int prefix_seq_fork(lutra_session *s, int32_t from, int n_tok, int max_tok, int32_t *seq, struct lutra_error *err)
{
    int rc;
    do rc = kv_seq_fork(s->kv, from, n_tok, max_tok, seq, err);
    while (rc == LUTRA_E_BUSY && kv_seq_length(s->kv, from) >= 0 && prefix_make_room(s));
    return rc;
}

/* The most of the first n tokens of a sequence that a new one can begin with: recurrent layers have a state there, and
 * the rest is in bulk where a new prompt's would be. */
static int usable(const lutra_session *s, int32_t seq, int n)
{
    int bulk = s->batch.bulk ? s->batch.bulk : 1;
    do n = kv_seq_reach(s->kv, seq, n - n % bulk);
    while (n % bulk);
    return n;
}

int prefix_seq_open(lutra_session *s, const struct prefix_prompt *prompt, int max_tok, int32_t *seq, int *n_cached,
    struct lutra_error *err)
{
    int n, rc = LUTRA_E_NOT_FOUND;
    struct source from = longest_match(s, prompt, &n);
    if (from.seq >= 0) n = usable(s, from.seq, n);
    if (from.kept) from.kept->used = s->stats.n_step;
    /* A part-filled block takes one more while both hold it: without it, if that is too much. */
    for (; rc < 0 && n > 0; n = n % KV_BLOCK ? usable(s, from.seq, n - n % KV_BLOCK) : 0) {
        rc = prefix_seq_fork(s, from.seq, n, max_tok, seq, err);
        *n_cached = n;
        if (rc == 0 && prompt->hints) memcpy(prompt->hints, from.hints, (size_t)n * sizeof *prompt->hints);
    }
    if (rc == 0) return 0;
    *n_cached = 0;
    do rc = kv_seq_open(s->kv, max_tok, seq, err);
    while (rc == LUTRA_E_BUSY && prefix_make_room(s));
    return rc;
}
