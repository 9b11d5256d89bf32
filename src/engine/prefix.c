/* SPDX-License-Identifier: MIT
 *
 * The prefix cache: finished sequences stay in the cache while there is room, so that the next turn of a chat, or
 * the next request with the same beginning, evaluates only what is new.
 */
#include "engine/engine_impl.h"

#include <string.h>

void prefix_open(lutra_session *s, int32_t *tokens)
{
    for (int i = 0; i < SESSION_RETAINED; i++)
        s->retained[i] = (struct retained){.seq = -1, .token = tokens + (size_t)i * (size_t)s->n_ctx};
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

/* Evicts the oldest retained sequence; false when there is none. */
static bool make_room(lutra_session *s)
{
    struct retained *old = oldest(s);
    if (old) drop(s, old);
    return old != NULL;
}

void prefix_retain(lutra_session *s, struct sample *slot)
{
    struct retained *place = NULL;
    int n = kv_seq_length(s->kv, slot->seq);
    for (int i = 0; i < SESSION_RETAINED && !place; i++)
        if (s->retained[i].seq < 0) place = &s->retained[i];
    if (!place) {
        make_room(s);
        for (int i = 0; i < SESSION_RETAINED && !place; i++)
            if (s->retained[i].seq < 0) place = &s->retained[i];
    }
    /* A fork without room to grow keeps the blocks and gives the promise back. */
    int32_t seq = -1;
    int rc = n > 0 ? kv_seq_fork(s->kv, slot->seq, n, n, &seq, NULL) : LUTRA_E_NOT_FOUND;
    kv_seq_close(s->kv, slot->seq);
    slot->seq = -1;
    if (rc < 0) return;
    place->seq = seq;
    place->n_token = n;
    place->used = s->stats.n_step;
    memcpy(place->token, slot->token, (size_t)n * sizeof *place->token);
}

static struct retained *longest_match(lutra_session *s, const int32_t *prompt, int n_prompt, int *n_match)
{
    struct retained *best = NULL;
    *n_match = 0;
    for (int i = 0; i < SESSION_RETAINED; i++) {
        struct retained *r = &s->retained[i];
        int n = 0, most = r->seq < 0 ? 0 : r->n_token < n_prompt ? r->n_token : n_prompt;
        while (n < most && r->token[n] == prompt[n]) n++;
        if (n <= *n_match) continue;
        best = r;
        *n_match = n;
    }
    return best;
}

static bool full(int rc)
{
    return rc == LUTRA_E_CTX_FULL || rc == LUTRA_E_BUSY;
}

int prefix_seq_open(lutra_session *s, const int32_t *prompt, int n_prompt, int max_tok, int32_t *seq, int *n_cached,
    struct lutra_error *err)
{
    int n_match, rc;
    struct retained *from = longest_match(s, prompt, n_prompt - 1, &n_match); /* one row is left to evaluate */
    if (s->batch.bulk) n_match -= n_match % s->batch.bulk; /* the rest is in bulk where a new prompt's would be */
    *n_cached = 0;
    if (from && n_match > 0) {
        from->used = s->stats.n_step;
        rc = kv_seq_fork(s->kv, from->seq, n_match, max_tok, seq, err);
        if (rc == 0) *n_cached = n_match;
        if (!full(rc)) return rc;
    }
    do rc = kv_seq_open(s->kv, max_tok, seq, err);
    while (full(rc) && make_room(s));
    return rc;
}

int prefix_seq_truncate(lutra_session *s, int32_t seq, int n_tok, struct lutra_error *err)
{
    int rc;
    do rc = kv_seq_truncate(s->kv, seq, n_tok, err);
    while (full(rc) && make_room(s));
    return rc;
}

int prefix_seq_fork(lutra_session *s, int32_t from, int n_tok, int max_tok, int32_t *seq, struct lutra_error *err)
{
    int rc;
    do rc = kv_seq_fork(s->kv, from, n_tok, max_tok, seq, err);
    while (full(rc) && make_room(s));
    return rc;
}
