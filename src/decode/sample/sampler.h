/* SPDX-License-Identifier: MIT
 *
 * From logits to a token: llama.cpp's sampler chain by name, default and order.
 *
 *     logit bias, penalties (repeat, frequency, presence), top-k, top-p, min-p, temperature, draw
 *
 * One `struct sampler` holds the state of n_seq sequences; the state of a sequence is its settings and its last
 * tokens, nothing else, so it is a function of the sequence's history and a fork is a copy.  The draw at a position
 * is a function of (seed, sample, position) alone (base/rng.h): text does not depend on the batch, on the order in
 * which sequences are sampled, or on the number of threads.
 *
 *     struct sampler_limits lim = {.n_vocab = v, .n_seq = 16, .n_history = n_ctx, .n_thread = 1};
 *     TRY(sampler_open(&s, &lim, err));
 *     TRY(sampler_init_sequence(s, seq, &settings, sample, err));
 *     for each prompt token: sampler_accept(s, seq, token);      penalties count the prompt, as in llama.cpp
 *     loop:  TRY(sampler_pick(s, seq, 0, result, pos, &pick, err));  sampler_accept(s, seq, pick.token);
 *
 * A draw needs all logits only where its settings keep more than the head's ROW_TOPK best could hold: sampler_listed()
 * says so before the pass.
 *
 * All memory is taken by sampler_open(); nothing later allocates.  Different sequences may be used from different
 * threads at the same time if each thread passes its own `thread` to sampler_pick().
 */
#ifndef LUTRA_DECODE_SAMPLE_SAMPLER_H
#define LUTRA_DECODE_SAMPLE_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "ops/batch.h"

struct sampler;

struct sample_bias {
    int32_t token;
    float bias; /* added to the logit; -INFINITY forbids the token; repeated entries add up */
};

struct sample_settings {
    uint64_t seed;
    float temperature;              /* <= 0: greedy, after bias and penalties; ties go to the lower id */
    int top_k;                      /* <= 0: off */
    float top_p;                    /* >= 1: off */
    float min_p;                    /* <= 0: off */
    int penalty_last_n;             /* tokens that penalties look back; 0 = off, -1 = all (limits.n_history) */
    float repeat_penalty;           /* 1 = off; > 0 */
    float frequency_penalty;        /* 0 = off */
    float presence_penalty;         /* 0 = off */
    const struct sample_bias *bias; /* [n_bias], copied */
    int n_bias;
};

/* llama.cpp's defaults: temperature 0.8, top-k 40, top-p 0.95, min-p 0.05, penalties off over the last 64 tokens. */
struct sample_settings sample_settings_default(void);

/* Errors: LUTRA_E_ARGUMENT naming the field (not finite, out of range, token outside the vocabulary). */
int sample_settings_check(const struct sample_settings *settings, int n_vocab, struct lutra_error *err);

struct sampler_limits {
    int n_vocab;
    int n_seq;     /* sequence numbers 0 .. n_seq - 1 */
    int n_history; /* longest look-back of the penalties, tokens: the context length; more is cut to it */
    int n_bias;    /* most logit-bias entries of one sequence */
    int n_thread;  /* sampler_pick() calls at the same time */
};

/* Memory: n_seq x (n_history x 4 + n_bias x 8 + 256) + n_thread x (n_vocab x 26 + 46,000) bytes, touched only when used.
 * On failure *out is NULL.  Errors: LUTRA_E_ARGUMENT, LUTRA_E_NO_MEMORY. */
int sampler_open(struct sampler **out, const struct sampler_limits *limits, struct lutra_error *err);

/* Frees and sets *sampler to NULL.  NULL is fine. */
void sampler_close(struct sampler **sampler);

/* Starts sequence `seq` afresh, with an empty history, as sample number `sample` of its request. */
int sampler_init_sequence(
    struct sampler *sampler, int seq, const struct sample_settings *settings, uint32_t sample, struct lutra_error *err);

/* The sequence now ends with `token` (prompt tokens included). */
void sampler_accept(struct sampler *sampler, int seq, int32_t token);

/* `dst` becomes a copy of `src` that draws as sample number `sample`. */
void sampler_fork(struct sampler *sampler, int dst, int src, uint32_t sample);

struct sample_pick {
    int32_t token;
    float log_prob; /* natural log-probability of token under the model's own distribution softmax(logits) */
};

/* Tokens whose logits a pick needs beside the best ROW_TOPK: those with a bias, and those the penalties see.  Others in the list
 * change nothing. */
struct sample_list {
    int32_t *
        token; /* [ROW_LISTED] each once; the sampler's, until the sequence is asked again; NULL: picks need all logits */
    int n, most; /* it may grow to `most` */
    bool grows;  /* a pick further on needs the tokens between, too: penalties see them */
};

/* What the next pick of seq needs: its row wants WANT_TOPK | WANT_LOGPROB of the list, or WANT_LOGITS | WANT_LOGPROB. */
struct sample_list sampler_listed(struct sampler *sampler, int seq);
/* The list for a row behind `token`, which a pick further on may need.  False: there is no room; that row needs all logits. */
bool sample_list_add(struct sample_list *list, int32_t token);

/* Picks the token for position `pos` of `seq` from what the head reports of its row: from result->logits [n_vocab], or
 * where these are NULL from the best and the listed, at least those that sampler_listed() says; the same token in both cases.
 * The state is unchanged.  thread: 0 .. n_thread - 1, one user at a time.
 * Errors: LUTRA_E_INTERNAL, a logit is NaN or +infinity (where = token, if known); LUTRA_E_NOT_FOUND, no token is left to
 * sample (all logits or all that the bias allows are -infinity); LUTRA_E_ARGUMENT, penalties overflow a float. */
int sampler_pick(struct sampler *sampler, int seq, int thread, const struct row_result *result, int64_t pos,
    struct sample_pick *pick, struct lutra_error *err);

#endif
