/* SPDX-License-Identifier: MIT
 *
 * Test-time scaling in the engine: verifier.c runs the reward model, search.c the rounds of a search.  The decisions
 * are decode/search's.
 */
#ifndef LUTRA_ENGINE_SEARCH_IMPL_H
#define LUTRA_ENGINE_SEARCH_IMPL_H

#include "decode/search/policy.h"
#include "engine/engine_impl.h"
#include "text/encode.h"

enum verifier_kind { VERIFIER_VALUE, VERIFIER_TOKEN, VERIFIER_LIKELIHOOD };

struct lutra_verifier {
    lutra_model *model;
    lutra_session *session;
    enum verifier_kind kind;
    const float *value; /* VALUE: [d_model] the head */
    float bias;
    int32_t positive, negative; /* TOKEN */
    struct text_tokens mark;    /* put behind each step; may be empty */
    struct lutra_row *row;      /* [n_batch] */
    int64_t rows;               /* evaluated since open */
};

/* A step of one sequence of the verifier. */
struct verify_job {
    int32_t seq;
    int32_t before;       /* the token before the step */
    const int32_t *token; /* [n], n >= 1 */
    int n;
    double log_prob; /* LIKELIHOOD: sum so far */
    double reward;   /* out */
};

int verifier_check_vocab(const lutra_verifier *v, const lutra_model *generator, struct lutra_error *err);

/* Evaluates a prompt into an empty sequence, as far as steps do not do so themselves. */
int verifier_prompt(lutra_verifier *v, int32_t seq, const int32_t *prompt, int n_prompt, struct lutra_error *err);

/* Evaluates all jobs, packed into as few passes as n_batch allows, and reads their rewards.  Jobs of one sequence are
 * neighbours, in order.  Allocates nothing. */
int verifier_run(lutra_verifier *v, struct verify_job *job, int n_job, struct lutra_error *err);

#endif
