/* SPDX-License-Identifier: MIT
 *
 * What a drafter is: a sequence in; a tree of guesses with estimates out.
 */
#ifndef LUTRA_DECODE_DRAFTER_IMPL_H
#define LUTRA_DECODE_DRAFTER_IMPL_H

#include "decode/speculate/speculate.h"

/* Guesses that rest on the same ground: acceptance is learnt of each kind by itself.  What kinds there are is a
 * drafter's own. */
enum { DRAFT_KINDS = 29 };

struct draft_node {
    int32_t token;
    int parent;  /* a node before this one; -1: the tip */
    float share; /* of what the drafter has seen to follow there */
    float p;     /* estimate that the whole path up to here is right: product of share * rate[kind] */
    int kind;
    float prior; /* of a kind whose rate is not known */
    int32_t row; /* where it got one; this and what follows is speculate.c's */
    int path;    /* among those of all drafters */
    int view;    /* what others say there */
};

struct draft_ask {
    void *self; /* what open() made */
    const struct spec_settings *set;
    const float *rate; /* [DRAFT_KINDS] a guess with share s is right in s * rate of the cases; 0: not known */
    const struct row_tip *tip;
    int most; /* nodes */
};

struct drafter {
    float prior;      /* of its rates */
    int n_prior;      /* kinds that begin with it, not with a guess's own; 0: all */
    bool wants_top;   /* see() or somebody's hints look at the best of every row that draws */
    bool wants_hints; /* it drafts from row_tip.hints */
    bool faint;       /* it guesses everywhere, on little ground: it is heard where no other speaks */
    /* All that it keeps, for good; NULL: nothing. */
    int (*open)(void **self, const struct spec_limits *lim, struct lutra_error *err);
    void (*close)(void *self);
    /* Before the tips of a pass are asked one by one; or NULL. */
    void (*begin)(void *self, const struct pass *pass, const struct spec_wish *wish);
    /* At most ask->most nodes, by falling p, parents first; returns how many.  The tip has at least one token. */
    int (*draft)(const struct draft_ask *ask, struct draft_node *node);
    /* After every pass, once samples have taken its results; or NULL. */
    void (*see)(void *self, const struct pass *pass);
    /* speculator_keep; or NULL. */
    void (*keep)(void *self, const struct spec_text *text);
};

/* What is learnt from the texts of one cache domain shows in no other one's passes: each of n places is a domain's.
 * One more domain takes the place that was learnt into longest ago, once that has not been for some 256 passes; till
 * then it has none. */
struct draft_domain {
    uint64_t domain;
    int64_t used; /* the pass that learnt into it last; 0: none has */
};
/* -1: it has none. */
int draft_domain_find(const struct draft_domain *at, int n, uint64_t domain);
/* For learning in the n_pass-th pass (from 1); *was_others: what is there was learnt from another domain. */
int draft_domain_take(struct draft_domain *at, int n, uint64_t domain, int64_t n_pass, bool *was_others);

extern const struct drafter drafter_ngram_simple, drafter_suffix, drafter_calibrated, drafter_recycle, drafter_extend,
    drafter_outside, drafter_model, drafter_mtp, drafter_siblings;

/* Where last[-k] .. *last stand in a text: ends e <= n_token of the occurrences of the longest match of up to `cap` of
 * them (token[e - len .. e - 1]), the latest first, at most `room`.  *len: that length; 0 = none. */
int draft_find(const int32_t *token, int n_token, const int32_t *last, int cap, int room, int *end, int *len);

/* The same of a text's own last tokens, where they stood before: ends e < n_token. */
int draft_matches(const int32_t *token, int n_token, int cap, int room, int *end, int *len);

/* The token d places behind `end` of a text that wraps. */
int32_t draft_continuation(const int32_t *token, int n_token, int end, int d);

/* An earlier occurrence of a tip's end: token[end] followed it. */
struct draft_place {
    const int32_t *token;
    int n_token, end;
    bool wraps; /* where the text ends, it is taken to go on as it went after the match */
};
enum { DRAFT_PLACES = 32 };

/* All continuations of a match of `len` tokens at these places (at most DRAFT_PLACES) as a tree, by how often each was
 * seen; returns how many nodes. */
int draft_tree(
    const struct draft_ask *ask, const struct draft_place *place, int n_place, int len, struct draft_node *node);

/* Of a guess from a match, d tokens behind it, the rank-th likeliest there (0: first): by the length of the match,
 * which has grown by d once all above it were right (1, 2, 3-4, 5-8, 9-16, more), by being first, by standing at the
 * tip. */
int draft_match_kind(int len, int d, int rank);

#endif
