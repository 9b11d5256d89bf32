/* SPDX-License-Identifier: MIT
 *
 * What drafters that run a model share (draft.c: a second model, mtp.c: the model's own MTP block): their guesses, and
 * whether one more pass pays.
 */
#ifndef LUTRA_DRAFT_DRAFT_IMPL_H
#define LUTRA_DRAFT_DRAFT_IMPL_H

#include "engine/drafters.h"

enum {
    TRIED_EVERY = 50, /* passes in which it would not pay */
    DRAFT_CHAIN_MOST = 2 * SPEC_DRAFT_MOST + 1,
};

/* The guesses behind the tip of a sample slot, each the parent of the next. */
struct draft_chain {
    int tip; /* of the pass; -1: none */
    bool going;
    float p; /* estimate of all its guesses so far */
    struct draft_guess guess[DRAFT_CHAIN_MOST];
    int n_guess;
};

/* The sampler of a slot of `first` draws the next guess from a row's result; at: its place in the text.  False: nothing
 * that could be one, and the chain ends. */
bool draft_draw(const lutra_session *first, int slot, const struct row_result *r, int at, const struct row_tip *tip,
    const struct spec_wish *wish, struct draft_chain *c);

/* Whether a chain goes on (1 or 0): then what one more guess of it may bring, and the positions that it sees, are
 * added. */
int draft_adds(
    const struct draft_chain *c, const struct pass *pass, const struct spec_wish *wish, double *right, double *seen);

/* What the next pass is expected to bring so far, and to take with the drafting for it. */
struct draft_outlook {
    double tokens, us, seen; /* seen: positions that its rows see */
    int n_row;
};

/* The pass without drafts. */
struct draft_outlook draft_outlook_of(const lutra_session *first, const struct pass *pass);

/* Whether one more pass of `own` may bring tokens at less time each than they take without: `right` tokens more, for n
 * rows more in it and in the next pass of `first`, which see so many positions. */
bool draft_pays(
    const lutra_session *first, const lutra_session *own, int n, double right, double seen, struct draft_outlook *o);

/* Open's drafters, for session_join(); with the turn.  draft.c: a session of `model`, of the same runtime and
 * vocabulary, beside s, which has its sizes. */
int draft_model_open(struct session_drafter *out, lutra_session *s, lutra_model *model, struct lutra_error *err);
/* mtp.c: a session of the MTP block of s's model; LUTRA_E_UNSUPPORTED: it has none. */
int mtp_open(struct session_drafter *out, lutra_session *s, struct lutra_error *err);

#endif
