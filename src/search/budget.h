/* SPDX-License-Identifier: MIT
 *
 * Compute-optimal search: which method and how many candidates a budget buys [TTS 2.1, 7.2].
 *
 * Where there are measurements, the most accurate affordable option wins.  Independent candidates are drawn in waves:
 * how long they are is known only when some have ended, so each wave is as large as what is left should pay for.
 * Pure functions of numbers that do not depend on time or batch (time budgets excepted).
 */
#ifndef LUTRA_SEARCH_BUDGET_H
#define LUTRA_SEARCH_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "search/policy.h"

/* A method that was measured. */
struct search_option {
    enum search_method method;
    int width, expand;
    bool greedy;     /* one candidate, without chance */
    double tokens;   /* generated per problem, all candidates */
    double us;       /* latency; < 0: not measured */
    double accuracy; /* 0 .. 1 */
};

struct search_means {
    int64_t tokens;  /* 0: any number */
    uint64_t us;     /* 0: any time */
    bool verifier;   /* there is one */
    bool until_pass; /* its 1 is final */
    int max_width;   /* candidates of a wave */
    int max_beam;    /* rows of a search over steps */
};

bool search_option_fits(const struct search_option *option, const struct search_means *means);
/* More accurate, or as accurate with fewer tokens. */
bool search_option_better(const struct search_option *a, const struct search_option *b);
/* What to do without measurements: a vote, weighted by the verifier if there is one (the method that a bad judge
 * harms least), or the best where the search may end at a pass; of as many candidates as the budget pays for. */
struct search_option search_option_unmeasured(const struct search_means *means);

/* Candidates of the next wave: as many of `mean` tokens as fit into `left` if one of them is as long as `longest`, at
 * most `most`. */
int search_wave(double left, double mean, double longest, int most);

/* How many of n candidates count: the first ones, as long as all tokens up to and with theirs stay within the budget.
 * length: tokens of each so far, so that the result can only fall while they grow. */
int search_within(const int *length, int n, int64_t budget);

#endif
