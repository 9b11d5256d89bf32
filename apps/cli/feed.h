/* SPDX-License-Identifier: MIT
 *
 * Log-likelihoods of given tokens: rows of several sequences are collected until a pass is full.
 *
 *     feed_open(&f, session, n_batch);
 *     feed_tokens(&f, seq, ids, n, from, to, scored, &sum, &err);   ... for each sequence
 *     feed_flush(&f, &err);                                          now the sums are known
 *     feed_close(&f);
 */
#ifndef LUTRA_CLI_FEED_H
#define LUTRA_CLI_FEED_H

#include "cli.h"

enum { FEED_WANTED_MAX = 64 }; /* of one pass */

struct feed {
    lutra_session *session;
    struct lutra_row *row;
    double *sink[FEED_WANTED_MAX];
    int n, n_batch, n_want;
};

void feed_open(struct feed *f, lutra_session *session, int n_batch);
void feed_close(struct feed *f);

/* Positions from .. to - 1 of a sequence ids[n]; from position `scored` - 1 on each row's log-probability of the next
 * token is added to *sink, which stays the caller's.  0 or an error status. */
int feed_tokens(struct feed *f, int32_t seq, const int32_t *ids, int n, int from, int to, int scored, double *sink,
    struct lutra_error *err);
int feed_flush(struct feed *f, struct lutra_error *err);

#endif
