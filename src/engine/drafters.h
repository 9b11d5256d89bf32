/* SPDX-License-Identifier: MIT
 *
 * For drafters that run a model beside a session (the room draft): how they join it, and what they read of it and of
 * the session in which they guess.
 */
#ifndef LUTRA_ENGINE_DRAFTERS_H
#define LUTRA_ENGINE_DRAFTERS_H

#include "decode/speculate/speculate.h"
#include "engine/samples.h"

enum { DRAFTER_MODEL /* a second model */, DRAFTER_MTP /* the model's own block */, DRAFTERS };

struct session_drafter_ops {
    void (*close)(void *self);
    /* Before and behind the pass that judges its guesses: it may guess on meanwhile, and rests before anybody draws a
     * token.  NULL: it does not. */
    void (*go_on)(void *self);
    void (*rest)(void *self);
};

struct session_drafter {
    const struct session_drafter_ops *ops; /* NULL: there is none */
    void *self;
    struct spec_model face;
    lutra_session *own; /* in which it guesses */
};

/* lutra_session_open() in three parts: a session without drafters that run a model; each of those; and what makes rows
 * of their guesses, where the settings name any or the first request brings its own (anyway).  *set is whole. */
int session_open(
    lutra_session **out, lutra_model *model, const struct lutra_session_settings *set, struct lutra_error *err);
void session_join(lutra_session *s, int which, struct session_drafter drafter);
int session_speculate(lutra_session *s, bool anyway, struct lutra_error *err);

/* A sequence with more than its last token to evaluate: a request's prompt, or a sample that had lost its room. */
struct text_way {
    struct request *request;
    struct sample *slot; /* NULL: the request's prompt */
    struct sequence *seq;
    int in_pass; /* pass.c: whether it is in the current pass */
    int n_row;   /* of these, in the pass */
    int32_t row; /* of its last token, where that is in the pass, too; -1: it is not */
};

struct sampler *session_sampler(const lutra_session *s);
const struct row_cost *session_cost(const lutra_session *s);
struct kv_cache *session_cache(const lutra_session *s);
bool session_is_cancelled(const lutra_session *s);
/* Texts under way in its pass. */
const struct text_way *session_texts(const lutra_session *s, int *n);

/* An empty pass over session_rows(). */
void session_pass_begin(lutra_session *s, struct pass *pass);
/* What session_forward() has left, by ascending rows. */
const struct row_result *session_results(const lutra_session *s, int *n);

/* The state of a row, [d_model], behind the last norm: of a pass that is being filled, for rows with a result and
 * without; then, once it has run, until the next one is filled.  NULL: nobody has asked.  Not every model leaves the
 * states of rows without one; nothing is asked then. */
bool session_leaves_states(const lutra_session *s);
void session_ask_state(lutra_session *s, int32_t row);
const float *session_state(const lutra_session *s, int32_t row);

/* The session's passes are told on another one's timeline, too. */
void session_share_timeline(lutra_session *s, const lutra_session *with);
/* Of an MTP block's session: the states that the rows of its passes read, [n_batch][d_model]. */
void session_give_states(lutra_session *s, const float *const *state);

#endif
