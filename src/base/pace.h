/* SPDX-License-Identifier: MIT
 *
 * How many threads a run should have on a machine that may be busy: tried and measured, not guessed.
 *
 * A second thread makes small models a little faster on an idle machine, or slower where a barrier costs much, and
 * several times slower beside others, since each barrier waits for whoever has no processor; of a large model it is
 * worth its price even then.  So: as many threads as there are, to begin with.  Then half as many are tried for a
 * window of time, and kept if that was worth more; after that, fewer or more are tried again now and then, ever more
 * rarely while that loses.  Time that threads lose by waiting for one another counts against them.
 *
 * Plain arithmetic over what it is told: no clock, no state but the struct's.
 */
#ifndef LUTRA_BASE_PACE_H
#define LUTRA_BASE_PACE_H

#include <stdbool.h>

struct pace {
    int n_most;      /* threads there are */
    int n;           /* how many got the most done so far */
    int trial;       /* how many are tried in this window; 0: n */
    bool up;         /* the last trial was of more */
    bool busy;       /* a good part of the last window's time was lost: others are at work */
    double worth;    /* of n threads: work per us, less what they lost; 0: not known yet */
    double work, us; /* of this window */
    double lost_us;  /* of it, of all threads: waiting for others, or away */
    double rest_us;  /* from one trial to the next */
    double until_us; /* what is left of that */
};

void pace_init(struct pace *p, int n_most);

/* Threads of the next run. */
int pace_threads(const struct pace *p);

/* A run has done `work` (any unit in which equal amounts take about as long) in `us`, of which its threads lost
 * lost_us. */
void pace_note(struct pace *p, double work, double us, double lost_us);

#endif
