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

struct lutra_verifier {
    lutra_model *model;
    lutra_session *session;
    const float *value; /* [d_model] value head, or NULL: the token-probability kind */
    float bias;
    int32_t positive, negative;
    struct text_tokens mark; /* put behind each step; may be empty */
    struct lutra_row *row;   /* [n_batch] */
    int64_t rows;            /* evaluated since open */
};

/* New tokens of one sequence of the verifier. */
struct verify_job {
    int32_t seq;
    const int32_t *token; /* [n] */
    int n;
    double reward; /* out, when marked: at the last token (or the mark's) */
};

int verifier_check_vocab(const lutra_verifier *v, const lutra_model *generator, struct lutra_error *err);

/* Evaluates all jobs' tokens, packed into as few passes as n_batch allows; marked: with the mark behind them, and
 * rewards read.  Allocates nothing. */
int verifier_run(lutra_verifier *v, struct verify_job *job, int n_job, bool marked, struct lutra_error *err);

#endif
