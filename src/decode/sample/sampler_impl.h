/* SPDX-License-Identifier: MIT
 *
 * The sampler's own structures, shared by sampler.c (state), pick.c (one draw) and the tests of the distribution.
 */
#ifndef LUTRA_DECODE_SAMPLE_SAMPLER_IMPL_H
#define LUTRA_DECODE_SAMPLE_SAMPLER_IMPL_H

#include "decode/sample/nucleus_impl.h"
#include "decode/sample/sampler.h"
#include "decode/sample/select_impl.h"

struct sample_state {
    struct sample_settings set; /* set.bias points to the sequence's own copy */
    uint32_t sample;
    int window;       /* tokens that penalties look back; 0 when they change nothing */
    int64_t n_seen;   /* accepted tokens */
    int32_t *history; /* [n_history] ring of the last `window` tokens: token i lies at i % window */
    int32_t *listed;  /* [ROW_LISTED] of the last struct sample_list */
};

/* Working space of one draw. */
struct sample_scratch {
    float *logits;            /* [n_vocab] the row after bias and penalties */
    int32_t *seen;            /* [n_vocab] how often a token lies in the window; all zero between draws */
    struct sample_cand *cand; /* [n_vocab] */
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

/* What is left to draw from, in drawing order, with unnormalised weights. */
struct sample_choice {
    const struct sample_cand *cand; /* [n] logit holds the weight exp((logit - max) / temperature) */
    int n;
    double total;
};

/* The row that the chain works on: logits themselves, or a changed copy in scratch. */
const float *sample_adjust(
    const struct sample_state *state, int n_vocab, const float *logits, struct sample_scratch *tmp);

/* Top-k, top-p, min-p and temperature over a row whose largest logit is max (finite).  Temperature and top-k > 0; a row
 * without top-k is nucleus_draw()'s. */
struct sample_choice sample_choose(
    const struct sample_settings *set, int n_vocab, const float *row, float max, struct sample_scratch *tmp);

#endif
