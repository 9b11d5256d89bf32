/* SPDX-License-Identifier: MIT
 *
 * A sequence: a text and how much of it is evaluated.  A prompt, a sample (its prompt and what it has said), and what a
 * second model has seen of a sample are sequences.
 *
 * Every token that is not evaluated gets a row (pass_text, or pass_tip for the last one of a sample); behind the row of
 * the last one the next token is drawn.  A sequence that has lost its room in the cache is evaluated again in the same
 * way: what is still found there is not, and each of the other rows gets the class that it had.
 */
#ifndef LUTRA_DECODE_SEQUENCE_H
#define LUTRA_DECODE_SEQUENCE_H

#include "kv/kv.h"
#include "ops/batch.h"

struct sequence {
    int32_t id;     /* in the cache, with its blocks and states (kv/kv.h); -1: it has no room there */
    int32_t *token; /* [n_token] */
    int n_token;
    int n_prompt; /* of these, the prompt: only its rows may be bulk rows */
    int n_done;   /* of these, evaluated */
    int n_found;  /* of these, found in the cache when it got its room */
    int n_noted;  /* of these, whose hints are kept for others (the caller's) */
    uint64_t domain;
    bool scored;             /* the prompt's tokens want log-probs: none is found in the cache, none is a bulk row */
    struct row_hints *hints; /* [n_token] what is likely behind each token, as far as known; NULL: not asked for */
};

static inline int sequence_left(const struct sequence *q)
{
    return q->n_token - q->n_done;
}

/* Its first tokens that are evaluated as a text: a prompt to its end, so that its last bulk block is whole; else all
 * but the last, behind which a sample goes on. */
static inline int sequence_text(const struct sequence *q)
{
    return q->n_token > q->n_prompt ? q->n_token - 1 : q->n_prompt;
}

/* What of it the cache may hold: all but one row.  bulk: batch.bulk. */
struct kv_past sequence_past(const struct sequence *q, int bulk);

/* Room for max_tok tokens, with what is found.  Errors are those of kv_seq_open; it has no room then. */
int sequence_open(struct sequence *q, struct kv_cache *kv, int bulk, int max_tok);

/* It has no room any more, and keeps its text.  What it held is found as long as nobody needs the memory. */
void sequence_close(struct sequence *q, struct kv_cache *kv);

/* How many of its first tokens, at most n, are those of a text. */
int sequence_common(const struct sequence *q, const int32_t *token, int n);

#endif
