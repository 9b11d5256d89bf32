/* SPDX-License-Identifier: MIT
 *
 * The sampler's own structures, shared by settings.c, sampler.c (state), pick.c (one draw), chain.c (any chain), dry.c
 * and the tests of the distribution.
 */
#ifndef LUTRA_DECODE_SAMPLE_SAMPLER_IMPL_H
#define LUTRA_DECODE_SAMPLE_SAMPLER_IMPL_H

#include "decode/sample/nucleus_impl.h"
#include "decode/sample/sampler.h"
#include "decode/sample/select_impl.h"

struct sample_state {
    struct sample_settings set; /* compiled; set.bias points to the sequence's own copy */
    bool plain;                 /* penalties, top-k, top-p, min-p, temperature in this order: chain.c is not needed */
    int best;                   /* of the adjusted best, how many a draw can come to; 0: it depends on the row */
    uint32_t sample;
    int window;                  /* tokens that penalties look back; 0 when they change nothing */
    int dry_window;              /* and DRY */
    int ring;                    /* the longer of both */
    int64_t n_seen;              /* accepted tokens */
    int32_t *history;            /* [n_history] ring of the last `ring` tokens: token i lies at i % ring */
    const uint64_t *allow;       /* a bit per token that may be picked; NULL: any */
    int32_t *listed;             /* [ROW_LISTED] of the last struct sample_list */
    float mu;                    /* mirostat's bound on the surprise, bits */
    float near_sum, near_weight; /* adaptive-p's running mean of what was picked, and its weight */
    int32_t picked;              /* by the last pick, not accepted yet; -1: none */
    float picked_p;              /* its probability: mirostat's after the cut, adaptive-p's before it moves them */
};

/* How many tokens a look-back of `window` sees, and the i-th of them from the end. */
static inline int sample_look_back(const struct sample_state *st, int window)
{
    return (int)(st->n_seen < window ? st->n_seen : window);
}
static inline int32_t sample_token_back(const struct sample_state *st, int i)
{
    return st->history[(st->n_seen - 1 - i) % st->ring];
}

/* What is left to draw from, in drawing order, with unnormalised weights. */
struct sample_choice {
    const struct sample_cand *cand; /* [n] logit holds the weight exp((logit - max) / temperature) */
    int n;
    double total;
};

/* Working space of one draw. */
struct sample_scratch {
    float *logits;            /* [n_vocab] the row after bias and penalties */
    int32_t *seen;            /* [n_vocab] how often a token lies in the window; all zero between draws */
    struct sample_cand *cand; /* [n_vocab] */
    int32_t *match;           /* [n_history] DRY's lengths */
    struct select_scratch select;
    struct nucleus nucleus;
    const struct nucleus_passes *passes; /* for nucleus_draw() */
};

struct sampler {
    struct sampler_limits lim;
    struct sample_state *seq;       /* [n_seq] */
    struct sample_scratch *scratch; /* [n_thread] */
    struct sample_bias *bias;       /* [n_seq][n_bias] */
    int32_t *history;               /* [n_seq][n_history] */
    int32_t *listed;                /* [n_seq][ROW_LISTED] */
};

/* Drops what changes nothing from the chain, and turns off what the chain leaves out.  True: st->plain; *best is
 * st->best. */
bool sample_settings_compile(struct sample_settings *set, int *best);

/* llama.cpp's rule: a seen token's logit is divided by the repeat penalty where positive and multiplied where not,
 * then lowered by count x frequency + presence. */
static inline float sample_penalised(const struct sample_settings *set, float x, int count)
{
    x = x <= 0 ? x * set->repeat_penalty : x / set->repeat_penalty;
    return x - ((float)count * set->frequency_penalty + set->presence_penalty);
}

/* ---- DRY (dry.c) ---- */

/* Notes in tmp->seen[token] the length + 1 of the longest match that each token would go on with, for those that are
 * punished. Returns how many of the window's tokens hold them; dry_clear() zeroes them again. */
int dry_find(const struct sample_state *st, int n_vocab, struct sample_scratch *tmp);
void dry_clear(const struct sample_state *st, int n_vocab, struct sample_scratch *tmp);
/* What a token loses that goes on with a match of length + 1 = noted. */
float dry_penalty(const struct sample_settings *set, int noted);

/* ---- any chain (chain.c) ---- */

/* Applies the stages of st->set to n candidates (bias added) of a row of n_row logits; u: of XTC.  cand is tmp->cand;
 * tmp->logits and tmp->seen are used.  Errors as sampler_pick(). */
int chain_apply(const struct sample_state *st, int n_vocab, struct sample_scratch *tmp, int n, int n_row, double u,
    struct sample_choice *out, struct lutra_error *err);

/* What accepting the at-th of a choice has to know (sample_state.picked_p). */
float chain_probability(
    const struct sample_state *st, const struct sample_choice *choice, int at, const struct sample_scratch *tmp);

/* The state after `token`, where it is the one picked. */
void chain_accept(struct sample_state *st, int32_t token);

/* The row that the chain works on: logits themselves, or a changed copy in scratch. */
const float *sample_adjust(
    const struct sample_state *state, int n_vocab, const float *logits, struct sample_scratch *tmp);

/* Top-k, top-p, min-p and temperature over a row whose largest logit is max (finite).  Temperature and top-k > 0; a row
 * without top-k is nucleus_draw()'s. */
struct sample_choice sample_choose(
    const struct sample_settings *set, int n_vocab, const float *row, float max, struct sample_scratch *tmp);

#endif
