/* SPDX-License-Identifier: MIT
 *
 * From logits to a token: llama.cpp's sampler chain by name, default and order (enum sample_stage).
 *
 * One `struct sampler` holds the state of n_seq sequences; the state of a sequence is its settings, its last tokens
 * and what the draws of these have moved (mirostat, adaptive-p): a function of the sequence's history, and a fork is a
 * copy.  The draw at a position
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

/* The stages of a chain, in the default order; logit bias comes before all, the draw after. */
enum sample_stage {
    STAGE_PENALTIES, /* repeat, frequency, presence */
    STAGE_DRY,
    STAGE_TOP_N_SIGMA,
    STAGE_TOP_K,
    STAGE_TYPICAL,
    STAGE_TOP_P,
    STAGE_MIN_P,
    STAGE_XTC,
    STAGE_TEMPERATURE,
    STAGE_ADAPTIVE_P, /* not in the default chain; wherever a list names it, it acts last */
    STAGE_MIROSTAT,   /* of no list: mirostat leaves only bias and temperature of the others */
    STAGE_MIROSTAT_2,
};
enum { SAMPLE_STAGES = 16 }; /* most of one chain */

/* DRY: a match in the text ends at `head` where the tokens behind it are the n_tail of `tail`. */
struct sample_breaker {
    int32_t head;
    int n_tail;
    const int32_t *tail;
};

struct sample_settings {
    uint64_t seed;
    uint8_t stage[SAMPLE_STAGES]; /* [n_stage] enum sample_stage, in order; what is not in it changes nothing */
    int n_stage;
    float temperature;       /* <= 0: greedy, after bias and penalties; ties go to the lower id */
    int top_k;               /* <= 0: off */
    float top_p;             /* >= 1: off */
    float min_p;             /* <= 0: off */
    int penalty_last_n;      /* tokens that penalties look back; 0 = off, -1 = all (limits.n_history) */
    float repeat_penalty;    /* 1 = off; > 0 */
    float frequency_penalty; /* 0 = off */
    float presence_penalty;  /* 0 = off */
    float dry_multiplier;    /* 0 = off */
    float dry_base;          /* >= 1; below: off */
    int dry_allowed_length;  /* matches shorter than this go unpunished */
    int dry_last_n;          /* tokens that matches are looked for in; 0 = off, -1 = all */
    float top_n_sigma;       /* <= 0: off; else logits at most so many standard deviations below the best stay */
    float typical_p;         /* >= 1: off */
    float xtc_probability;   /* 0 = off */
    float xtc_threshold;     /* above 0.5: off */
    float dynatemp_range;    /* 0 = off; the temperature is within this of `temperature`, by the entropy */
    float dynatemp_exponent;
    int mirostat; /* 0, 1 or 2 */
    float mirostat_tau, mirostat_eta;
    float adaptive_target;          /* < 0: off */
    float adaptive_decay;           /* 0 .. 0.99 */
    const struct sample_bias *bias; /* [n_bias], copied */
    int n_bias;
    const struct sample_breaker *breaker; /* [n_breaker] by head; the caller's as long as the sequence picks */
    int n_breaker;
};

/* llama.cpp's defaults: its chain, temperature 0.8, top-k 40, top-p 0.95, min-p 0.05, the other stages off; penalties
 * and DRY look back 64 tokens. */
struct sample_settings sample_settings_default(void);

/* Reads a list of stages as llama.cpp's --samplers has it ("top_k;temperature", each of several spellings) into
 * set->stage. Errors: LUTRA_E_ARGUMENT naming the word. */
int sample_stages_parse(struct sample_settings *set, const char *list, struct lutra_error *err);

/* Errors: LUTRA_E_ARGUMENT naming the field (not finite, out of range, token outside the vocabulary). */
int sample_settings_check(const struct sample_settings *settings, int n_vocab, struct lutra_error *err);

struct sampler_limits {
    int n_vocab;
    int n_seq;     /* sequence numbers 0 .. n_seq - 1 */
    int n_history; /* longest look-back, tokens: the context length; more is cut to it */
    int n_bias;    /* most logit-bias entries of one sequence */
    int n_thread;  /* sampler_pick() calls at the same time */
};

/* Memory: n_seq x (n_history x 4 + n_bias x 8 + 512) + n_thread x (n_vocab x 26 + n_history x 4 + 46,000) bytes,
 * touched only when used.
 * On failure *out is NULL.  Errors: LUTRA_E_ARGUMENT, LUTRA_E_NO_MEMORY. */
int sampler_open(struct sampler **out, const struct sampler_limits *limits, struct lutra_error *err);

/* Frees and sets *sampler to NULL.  NULL is fine. */
void sampler_close(struct sampler **sampler);

/* Starts sequence `seq` afresh, with an empty history, as sample number `sample` of its request. */
int sampler_init_sequence(
    struct sampler *sampler, int seq, const struct sample_settings *settings, uint32_t sample, struct lutra_error *err);

/* The sequence now ends with `token` (prompt tokens included).  One that the last pick has picked moves the state of
 * mirostat and adaptive-p. */
void sampler_accept(struct sampler *sampler, int seq, int32_t token);

/* `dst` becomes a copy of `src` that draws as sample number `sample`. */
void sampler_fork(struct sampler *sampler, int dst, int src, uint32_t sample);

/* Later picks of seq take only tokens whose bit is set in allow ([(n_vocab + 63) / 64], the caller's as long as the
 * sequence picks); NULL: any.  sampler_init_sequence() leaves it as it is, a fork copies it. */
void sampler_allow(struct sampler *sampler, int seq, const uint64_t *allow);

struct sample_pick {
    int32_t token;
    float log_prob; /* natural log-probability of token under the model's own distribution softmax(logits) */
};

/* Tokens whose logits a pick needs beside the best ROW_TOPK: those with a bias, those the penalties see, and those that
 * DRY punishes.  Others in the list change nothing. */
struct sample_list {
    /* [ROW_LISTED] each once; the sampler's, until the sequence is asked again; NULL: picks need all logits. */
    int32_t *token;
    int n, most; /* it may grow to `most` */
    bool grows;  /* a pick further on needs the tokens between, too: penalties see them */
    bool here;   /* a pick further on needs others: DRY punishes what that text would repeat */
    /* As sampler_allow() says: here, and not further on, the best are those of these tokens (row.allow); NULL: all. */
    const uint64_t *allow;
};

/* What the next pick of seq needs: its row wants WANT_TOPK | WANT_LOGPROB of the list, or WANT_LOGITS | WANT_LOGPROB.
 * The best and the listed are enough where top-k of at most ROW_TOPK less the listed comes before all that needs the
 * whole row (top-n-sigma, typical, top-p, min-p, XTC, temperature), or where the draw is greedy; mirostat needs all
 * logits.  Not beside a pick of thread 0. */
struct sample_list sampler_listed(struct sampler *sampler, int seq);
/* The list for a row behind `token`, which a pick further on may need.  False: there is no room; that row needs all
 * logits. */
bool sample_list_add(struct sample_list *list, int32_t token);

/* Picks the token for position `pos` of `seq` from what the head reports of its row: from result->logits [n_vocab], or
 * where these are NULL from the best and the listed, at least those that sampler_listed() says; the same token in both
 * cases. What it picked may be picked again or accepted.  thread: 0 .. n_thread - 1, one user at a time.
 * Errors: LUTRA_E_INTERNAL, a logit is NaN or +infinity (where = token, if known); LUTRA_E_NOT_FOUND, no token is left
 * to sample (all logits or all that the bias allows are -infinity); LUTRA_E_ARGUMENT, penalties overflow a float. */
int sampler_pick(struct sampler *sampler, int seq, int thread, const struct row_result *result, int64_t pos,
    struct sample_pick *pick, struct lutra_error *err);

#endif
