/* SPDX-License-Identifier: MIT
 *
 * Constrained samples: a request's grammar, JSON Schema or structural tags, the state of each sample, and the mask that
 * its next token is drawn under.
 *
 * A sample's mask is made where its last token is taken, so that walking along drafts has one for each row.  Reasoning
 * that comes before an answer is free, but for its end: the grammar begins behind it, and wants an answer unless it has
 * the empty one.
 */
#include "engine/grammar_impl.h"

#include <stdlib.h>
#include <string.h>

#include "engine/session_impl.h"

/* Tokens as bytes; with control tokens spelt out where `special`. */
static int make_vocab(const lutra_session *s, bool special, struct grammar_vocab **out, struct lutra_error *err)
{
    const struct text_vocab *vocab = s->model->vocab;
    int n = model_ops(s->model->model)->n_vocab;
    struct grammar_token *token = calloc((size_t)n, sizeof *token);
    if (!token) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    for (int t = 0; t < n; t++) {
        struct text_bytes piece = text_token_piece(vocab, t, special ? TEXT_PIECE_SPECIAL : 0);
        token[t] = (struct grammar_token){piece.p, piece.n, text_is_eog(vocab, t)};
    }
    int rc = grammar_vocab_open(out, token, n, err);
    free(token);
    return rc;
}

enum { KEPT_GRAMMARS = 32, KEPT_BYTES = 256 << 20 };

/* The session's cache and vocabularies, made at the first use: a grammar sees the text that clients are shown. */
static int open_shared(lutra_session *s, bool special, struct lutra_error *err)
{
    int rc = 0;
    pthread_mutex_lock(&s->grammar_lock);
    if (!s->grammar_cache) rc = grammar_cache_open(&s->grammar_cache, KEPT_GRAMMARS, KEPT_BYTES, err);
    if (rc >= 0 && !s->grammar_vocab[special]) rc = make_vocab(s, special, &s->grammar_vocab[special], err);
    pthread_mutex_unlock(&s->grammar_lock);
    return rc;
}

int request_open_grammar(lutra_session *s, struct request *r, const struct lutra_request *set, struct lutra_error *err)
{
    const char *text = set->grammar ? set->grammar : set->json_schema ? set->json_schema : set->structure;
    enum grammar_kind kind = set->grammar ? GRAMMAR_GBNF : set->json_schema ? GRAMMAR_SCHEMA : GRAMMAR_STRUCTURE;
    r->set.grammar = r->set.json_schema = r->set.structure = NULL;
    if (!text) return 0;
    if (!!set->grammar + !!set->json_schema + !!set->structure > 1)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "request: more than one of grammar, json_schema and structure; give one of them");
    if (r->experiment.forced) return lutra_fail(err, LUTRA_E_ARGUMENT, "request: forced tokens and a grammar");
    TRY(open_shared(s, set->show_special, err));
    TRY(grammar_cache_take(
        s->grammar_cache, kind, text, strlen(text), s->grammar_vocab[set->show_special], &r->grammar, err));
    r->machine = grammar_entry_machine(r->grammar);
    if (grammar_entry_note(r->grammar))
        log_line(&s->model->runtime->log, LUTRA_LOG_INFO, "left unconstrained: %s", grammar_entry_note(r->grammar));
    r->sees_all = kind == GRAMMAR_STRUCTURE && r->tags && r->tags->answer;
    if (r->sees_all) r->channel = -1;
    r->n_allow = (model_ops(s->model->model)->n_vocab + 63) / 64;
    r->allow = calloc((size_t)s->n_seq * (size_t)r->n_allow, sizeof *r->allow);
    return r->allow ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
}

void request_close_grammar(struct request *r)
{
    grammar_entry_give(&r->grammar);
    free(r->allow);
}

/* Whether what comes next is reasoning or a header that the grammar does not see. */
static bool is_before(const struct sample *slot)
{
    return !slot->request->sees_all && text_reasoning_is_before(&slot->reasoning);
}

/* A text that is divided into channels may begin with one. */
static bool may_open(const struct sample *slot)
{
    return slot->request->channel >= 0 && slot->reasoning.state == REASONING_MAY_BEGIN;
}

bool sample_is_free(const struct sample *slot, int32_t token)
{
    return may_open(slot) ? token == slot->request->channel : is_before(slot);
}

/* The mask of the sample's state for its next draw. */
static int make_mask(lutra_session *s, struct sample *slot, struct lutra_error *err)
{
    struct request *r = slot->request;
    int i = (int)(slot - s->sample);
    bool free_text = !r->machine || (is_before(slot) && !may_open(slot));
    uint64_t *allow = free_text ? NULL : r->allow + (size_t)i * (size_t)r->n_allow;
    bool owes = r->machine && is_before(slot) && !grammar_may_end(r->machine, slot->grammar_state);
    const uint64_t *no_end = owes || sample_length(slot) < r->set.min_tokens ? r->no_end : NULL;
    int all = allow ? grammar_mask(r->machine, slot->grammar_state, allow, err) : 1;
    TRY(all);
    sampler_allow(s->sampler, i, all ? no_end : allow);
    if (all) return 0;
    if (may_open(slot)) allow[r->channel / 64] |= UINT64_C(1) << r->channel % 64;
    for (int k = 0; no_end && k < r->n_allow; k++) allow[k] &= no_end[k];
    return 0;
}

int sample_begin_grammar(lutra_session *s, struct sample *slot, struct lutra_error *err)
{
    struct request *r = slot->request;
    if (r->machine) grammar_entry_measure(r->grammar);
    slot->grammar_state = r->machine ? grammar_start(r->machine) : 0;
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
