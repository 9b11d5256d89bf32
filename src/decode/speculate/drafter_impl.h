/* SPDX-License-Identifier: MIT
 *
 * What a drafter is: tokens in; a tree of guesses with estimates out.
 */
#ifndef LUTRA_DECODE_DRAFTER_IMPL_H
#define LUTRA_DECODE_DRAFTER_IMPL_H

#include "decode/speculate/speculate.h"

/* Acceptance is learnt per length of the match that a guess rests on: 1, 2, 3-4, 5-8, 9-16, more. */
enum { DRAFT_BUCKETS = 6 };

struct draft_node {
    int32_t token;
    int parent;  /* a node before this one; -1: the tip */
    float share; /* of the continuations seen behind the parent */
    float p;     /* estimate that the whole path up to here is right: product of share * rate[bucket] */
    int bucket;  /* of `rate`, on which it rests */
};

struct drafter {
    const char *name;
    /* At most `most` nodes, by falling p; returns how many.  token [n_token] with n_token >= 1 is the text so far. */
    int (*draft)(const struct spec_settings *set, const float rate[DRAFT_BUCKETS], const int32_t *token, int n_token,
        int most, struct draft_node *node);
};

extern const struct drafter drafter_ngram_simple, drafter_suffix;

/* Where the last tokens stood before: ends e < n_token of the earlier occurrences of the longest match of up to `cap` tokens
 * (token[e - len .. e - 1] equals the text's end), the latest first, at most `room`.  *len: that length; 0 = none. */
int draft_matches(const int32_t *token, int n_token, int cap, int room, int *end, int *len);

/* The token d places behind `end`: where the text ends, it is taken to go on as it went after the match. */
int32_t draft_continuation(const int32_t *token, int n_token, int end, int d);

int draft_bucket(int len);

/* Is a row with this estimate worth its cost in a pass of n_row rows that will bring `tokens`? */
bool spec_row_pays(float p, double tokens, int n_row);

#endif
