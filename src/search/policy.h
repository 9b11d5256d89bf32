/* SPDX-License-Identifier: MIT
 *
 * What a search does with its candidates: who is pruned, who is continued and how often, who wins.
 *
 * Pure decisions over numbers: no model, no text, no memory of its own, so they are tested on tables.  rounds.c runs
 * candidates until each has ended a step (or its solution), has them scored, and asks search_allocate() how many
 * children each live one gets; zero prunes it.  Ties always go to the lower candidate id: a search is a function of
 * its seed.
 *
 * Methods: independent samples decided by vote, weighted vote or best reward [TTS 2.1]; step-level beam search
 * [TTS 2.1, 3.2]; DVTS (diverse subtrees: the beams never compete with each other); REBASE (children in proportion to
 * the softmax of rewards).
 */
#ifndef LUTRA_SEARCH_POLICY_H
#define LUTRA_SEARCH_POLICY_H

#include <stdbool.h>
#include <stdint.h>

enum search_method { SEARCH_VOTE, SEARCH_WEIGHTED, SEARCH_BEST, SEARCH_BEAM, SEARCH_DVTS, SEARCH_REBASE };

/* How the rewards of a candidate's steps make its score. */
enum search_score { SEARCH_LAST, SEARCH_MIN, SEARCH_PRODUCT, SEARCH_MEAN };

/* Rewards of the steps so far, in whatever form `score` needs; start from search_reward_none(). */
struct search_reward {
    int n;
    double last, least, product, sum;
};
struct search_reward search_reward_none(void);
void search_reward_add(struct search_reward *reward, double step); /* step in [0, 1] */
/* The score; 0 before the first step. */
double search_reward_score(const struct search_reward *reward, enum search_score score);

/* The reward of a step whose tokens have this sum of log-probabilities: its probability.  0 for what is no number. */
double search_likelihood(double sum_log_prob);

struct search_settings {
    enum search_method method;
    enum search_score score;
    int width;         /* candidates alive at once */
    int expand;        /* BEAM, DVTS: width / expand candidates survive a round */
    float prune_below; /* a live candidate below this share of the best live score is pruned; 0 = none */
    float temperature; /* REBASE: of the softmax over scores */
};

struct search_candidate {
    int32_t id;     /* ascending */
    int32_t group;  /* DVTS: which subtree; others 0 */
    bool finished;  /* its solution is complete: it takes no row, but keeps its rank */
    bool duplicate; /* it repeats another of its group: never continued, and takes no rank */
    double score;
    int children; /* out: 0 = pruned (finished ones always 0) */
};

/* Sets `children` of n candidates (ids ascending).  The sum is at most settings->width, and 0 only if no live
 * candidate deserves to go on: the search is over.  Rows that finished, pruned and duplicate candidates leave free go
 * to the survivors. */
void search_allocate(const struct search_settings *settings, struct search_candidate *cand, int n);

/* One finished solution in the final choice. */
struct search_final {
    int32_t id;
    const char *answer; /* canonical; NULL or "" = none, which never gets a vote */
    double score;       /* reward; ignored by SEARCH_VOTE */
};

/* Index of the winner, or -1 when n is 0.  SEARCH_VOTE: most votes, ties by the earliest first vote.  SEARCH_WEIGHTED:
 * largest sum of scores, the representative being the best-scored of that answer.  Others: largest score.  With no
 * answer at all the best score (for SEARCH_VOTE the first) wins. */
int search_choose(enum search_method method, const struct search_final *final, int n);

/* SEARCH_VOTE: can `left` further votes change the winner? */
bool search_decided(const struct search_final *final, int n, int left);

#endif
