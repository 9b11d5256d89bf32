/* SPDX-License-Identifier: MIT
 *
 * Passes of a session that others fill, run or look into.
 */
#ifndef LUTRA_ENGINE_PASSES_H
#define LUTRA_ENGINE_PASSES_H

#include "engine/model.h"
#include "ops/batch.h"
#include "ops/device.h"

/* Sizes of a session, rounded up and chosen. */
struct session_sizes {
    int n_ctx, n_seq, n_batch, n_out;
    int bulk; /* batch.bulk */
    int64_t n_cache;
};
struct session_sizes session_sizes(const lutra_session *s);
lutra_model *session_model(const lutra_session *s);

/* Where the rows of the next pass are written, [n_batch]. */
struct row *session_rows(lutra_session *s);
/* One pass over the first n_row of them; commits ordinary rows.  numbers: results that are none are an error. */
int session_forward(lutra_session *s, int n_row, bool numbers, struct lutra_error *err);
/* A pass as it would be run, for others to run; the session does nothing else until it is let go, and nothing of it
 * stays. */
int session_hold(lutra_session *s, int n_row, struct kv_view *view, struct pass_args *pass, struct lutra_error *err);
void session_let_go(lutra_session *s);

#endif
