/* SPDX-License-Identifier: MIT
 *
 * The prefix cache: finished sequences stay in the cache while there is room, so that the next turn of a chat, or
 * the next request with the same beginning, evaluates only what is new.
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

static int n_common(const struct retained *r, const int32_t *token, int n_token)
{
    int n = 0, most = r->seq < 0 ? 0 : r->n_token < n_token ? r->n_token : n_token;
    while (n < most && r->token[n] == token[n]) n++;
    return n;
}

/* Where a sequence of these tokens is kept: over one that it begins with, in an empty place, or over the oldest. */
static struct retained *place_for(lutra_session *s, const int32_t *token, int n_token)
{
    struct retained *place = NULL;
    for (int i = 0; i < SESSION_RETAINED; i++) {
        struct retained *r = &s->retained[i];
        if (r->seq >= 0 && n_common(r, token, n_token) == r->n_token) return r;
        if (r->seq < 0 && !place) place = r;
    }
    return place ? place : oldest(s);
}

void prefix_retain(lutra_session *s, struct sample *slot)
{
    int n = kv_seq_length(s->kv, slot->seq);
    if (n > 0) {
        struct retained *place = place_for(s, slot->token, n);
        drop(s, place);
        kv_seq_idle(s->kv, slot->seq);
        place->seq = slot->seq;
        place->n_token = n;
        place->used = s->stats.n_step;
        memcpy(place->token, slot->token, (size_t)n * sizeof *place->token);
        if (slot->hints) memcpy(place->hints, slot->hints, (size_t)n * sizeof *place->hints);
    } else {
        kv_seq_close(s->kv, slot->seq);
    }
    slot->seq = -1;
}

static struct retained *longest_match(lutra_session *s, const int32_t *prompt, int n_prompt, int *n_match)
{
    struct retained *best = NULL;
    *n_match = 0;
    for (int i = 0; i < SESSION_RETAINED; i++) {
        int n = n_common(&s->retained[i], prompt, n_prompt);
        if (n <= *n_match) continue;
        best = &s->retained[i];
        *n_match = n;
    }
    return best;
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
    struct retained *from = longest_match(s, prompt->token, prompt->n_token - 1, &n); /* one row is left to evaluate */
    if (from) n = usable(s, from->seq, n);
    if (from) from->used = s->stats.n_step;
    /* A part-filled block takes one more while both hold it: without it, if that is too much. */
    for (; rc < 0 && n > 0; n = n % KV_BLOCK ? usable(s, from->seq, n - n % KV_BLOCK) : 0) {
        rc = prefix_seq_fork(s, from->seq, n, max_tok, seq, err);
        *n_cached = n;
        if (rc == 0 && prompt->hints) memcpy(prompt->hints, from->hints, (size_t)n * sizeof *prompt->hints);
    }
    if (rc == 0) return 0;
    *n_cached = 0;
    do rc = kv_seq_open(s->kv, max_tok, seq, err);
    while (rc == LUTRA_E_BUSY && prefix_make_room(s));
    return rc;
}
