/* SPDX-License-Identifier: MIT
 *
 * "lutra": {"search": ...} of a request: several candidates, one reply, and what becomes of each as it happens.
 *
 * With "events": true a stream has chunks of "choices": [] and
 *
 *     "lutra": {"search": {"event": "step", "candidate": 3, "parent": -1, "n_step": 1, "reward": 0.5, "score": 0.5,
 *                          "text": "...", "why": "..."}}
 *
 * Events: step (text: the step; why: a checker's reason for no reward), fork (a copy of parent), prune, finish
 * (answer), and at last decided (the winner, method, width, counts), which a reply that is no stream has as
 * lutra.search.
 */
#ifndef LUTRA_SERVER_SEARCH_H
#define LUTRA_SERVER_SEARCH_H

#include "exchange.h"

/* The field of a body of chat/completions. */
void search_read(struct ask *a, const struct fields *f);
/* The rest of it, which needs to know the model. */
void search_prepare(struct ask *a, const struct served *m, const struct api_key *key, struct problem *p);

/* Of the stepping thread. */
void search_submit(struct exchange *x);
/* Is it over?  Then its text has become events. */
bool search_is_over(struct exchange *x);
void search_cancel(struct exchange *x);

#endif
