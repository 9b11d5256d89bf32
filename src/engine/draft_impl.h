/* SPDX-License-Identifier: MIT
 *
 * What drafters that run a model share (draft.c: a second model, mtp.c: the model's own MTP block): whether one more
 * pass pays.
 */
#ifndef LUTRA_ENGINE_DRAFT_IMPL_H
#define LUTRA_ENGINE_DRAFT_IMPL_H

#include "engine/session_impl.h"

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

#endif
