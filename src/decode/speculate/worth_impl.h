/* SPDX-License-Identifier: MIT
 *
 * Whether a drafter pays for its own time: what it takes in a pass, and what only it has brought, both in
 * microseconds.  One that surely takes more is left out and tried again now and then; of two that guess the same, one
 * goes.
 *
 *     worth_begin(w, n)
 *     while (...) {
 *         worth_choose(w, n)                      ask those that are asked
 *         worth_learn(&w[k], us, brought)         of those that were asked
 *         worth_settle(w, n, pass_us)
 *     }
 */
#ifndef LUTRA_DECODE_WORTH_IMPL_H
#define LUTRA_DECODE_WORTH_IMPL_H

#include <stdbool.h>

struct worth {
    double us;       /* that it takes, mean over passes */
    double net;      /* that it saves, mean: what it brings less what it takes */
    double spread;   /* mean square of a pass's distance from net */
    int n;           /* passes that the means are of */
    bool out;        /* it does not pay */
    bool asked;      /* in this pass: it pays, or is tried */
    int wait, pause; /* passes until it is tried; after it leaves the next time */
};

void worth_begin(struct worth *w, int n);

/* Who is asked in a pass that drafts; of those that are out one at a time. */
void worth_choose(struct worth *w, int n);

/* brought: what the tokens would have taken that no other drafter had, less what its rows took. */
void worth_learn(struct worth *w, double us, double brought);

/* At most one of n leaves in a pass, and not before what is known of all is of passes with the same others.
 * pass_us: what a pass takes. */
void worth_settle(struct worth *w, int n, double pass_us);

#endif
