/* SPDX-License-Identifier: MIT
 *
 * Constrained samples: a request's grammar or JSON Schema, the state of each sample, and the mask that its next token
 * is drawn under.
 *
 * A sample's mask is made where its last token is taken, so that walking along drafts has one for each row.  Reasoning
 * that comes before an answer is free; the grammar begins behind it.
 */
#include "engine/grammar_impl.h"

#include <stdlib.h>
#include <string.h>

#include "engine/session_impl.h"

/* The session's, made at the first use. */
static int make_vocab(lutra_session *s, struct lutra_error *err)
{
    const struct text_vocab *vocab = s->model->vocab;
    int n = model_ops(s->model->model)->n_vocab;
    struct grammar_token *token = calloc((size_t)n, sizeof *token);
    if (!token) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    for (int t = 0; t < n; t++) {
        struct text_bytes piece = text_token_piece(vocab, t, 0);
        token[t] = (struct grammar_token){piece.p, piece.n, text_is_eog(vocab, t)};
    }
    int rc = grammar_vocab_open(&s->grammar_vocab, token, n, err);
    free(token);
    return rc;
}

static int open_vocab(lutra_session *s, struct lutra_error *err)
{
    pthread_mutex_lock(&s->grammar_lock);
    int rc = s->grammar_vocab ? 0 : make_vocab(s, err);
    pthread_mutex_unlock(&s->grammar_lock);
    return rc;
}

int request_open_grammar(lutra_session *s, struct request *r, const struct lutra_request *set, struct lutra_error *err)
{
    const char *text = set->grammar ? set->grammar : set->json_schema;
    r->set.grammar = r->set.json_schema = NULL;
    if (!text) return 0;
    if (set->grammar && set->json_schema)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "request: a grammar and a json_schema; give one of them");
    if (set->forced) return lutra_fail(err, LUTRA_E_ARGUMENT, "request: forced tokens and a grammar");
    TRY((set->grammar ? grammar_open_gbnf : grammar_open_schema)(&r->grammar, text, strlen(text), err));
    TRY(open_vocab(s, err));
    TRY(grammar_machine_open(&r->machine, r->grammar, s->grammar_vocab, err));
    r->n_allow = (model_ops(s->model->model)->n_vocab + 63) / 64;
    r->allow = calloc((size_t)s->n_seq * (size_t)r->n_allow, sizeof *r->allow);
    return r->allow ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
}

void request_close_grammar(struct request *r)
{
    grammar_machine_close(&r->machine);
    grammar_close(&r->grammar);
    free(r->allow);
}

/* A text that is divided into channels may begin with one. */
static bool may_open(const struct sample *slot)
{
    return slot->request->channel >= 0 && slot->reasoning.state == REASONING_MAY_BEGIN;
}

bool sample_is_free(const struct sample *slot, int32_t token)
{
    return may_open(slot) ? token == slot->request->channel : text_reasoning_is_before(&slot->reasoning);
}

/* The mask of the sample's state for its next draw. */
static int make_mask(lutra_session *s, struct sample *slot, struct lutra_error *err)
{
    struct request *r = slot->request;
    int i = (int)(slot - s->sample);
    bool free_text = !r->machine || (text_reasoning_is_before(&slot->reasoning) && !may_open(slot));
    uint64_t *allow = free_text ? NULL : r->allow + (size_t)i * (size_t)r->n_allow;
    const uint64_t *no_end = slot->n_generated < r->set.min_tokens ? r->no_end : NULL;
    sampler_allow(s->sampler, i, allow ? allow : no_end);
    if (!allow) return 0;
    TRY(grammar_mask(r->machine, slot->grammar_state, allow, err));
    if (may_open(slot)) allow[r->channel / 64] |= UINT64_C(1) << r->channel % 64;
    for (int k = 0; no_end && k < r->n_allow; k++) allow[k] &= no_end[k];
    return 0;
}

int sample_begin_grammar(lutra_session *s, struct sample *slot, struct lutra_error *err)
{
    slot->grammar_state = slot->request->machine ? grammar_start(slot->request->machine) : 0;
    return make_mask(s, slot, err);
}

int sample_share_grammar(lutra_session *s, struct sample *slot)
{
    return make_mask(s, slot, NULL);
}

int sample_follow_grammar(lutra_session *s, struct sample *slot, int32_t token, bool free_text, struct lutra_error *err)
{
    struct request *r = slot->request;
    if (!r->machine) return r->no_end ? make_mask(s, slot, err) : 0;
    if (!free_text) TRY(grammar_follow(r->machine, slot->grammar_state, token, &slot->grammar_state, err));
    if (slot->grammar_state == GRAMMAR_DEAD)
        return lutra_fail(err, LUTRA_E_INTERNAL, "a token that the grammar does not allow");
    if (grammar_is_whole(r->machine, slot->grammar_state)) return 1;
    return make_mask(s, slot, err);
}
