/* SPDX-License-Identifier: MIT
 *
 * A batch of rows: the one input of a forward pass.
 *
 * A row is one token to evaluate.  It sees the committed cache of its sequence plus its ancestors in the batch, and
 * nothing else.  parent = -1 continues the committed cache; otherwise the parent is an earlier row of the same
 * sequence at the position before.  A prompt chunk is a chain; a draft is a tree; N samples are N chains of length 1.
 * Rows of a sequence that are not drafts form one chain from its tip: they are committed when the pass succeeds.
 * batch_check() proves all this once, at the front door; kernels trust it.
 */
#ifndef LUTRA_OPS_BATCH_H
#define LUTRA_OPS_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum row_want {
    WANT_NOTHING = 0,
    WANT_LOGITS = 1,  /* all n_vocab logits */
    WANT_HIDDEN = 2,  /* the state after the last norm, [d_model] */
    WANT_TOPK = 4,    /* the ROW_TOPK largest logits (of the tokens in `allow`) and the log-sum-exp (of all) */
    WANT_LOGPROB = 8, /* the logits of listed tokens and the log-sum-exp */
    WANT_ALL = 15,
    ROW_DRAFT = 256, /* a guess: its K/V stay in the draft scratch until it is accepted; so are all rows below it */
    ROW_BULK = 512,  /* of a prompt: if its whole block is here, a device may use the numerics class it has for bulk */
    ROW_SECOND = 1024, /* of the second of two texts, where a model tells them apart */
};

enum { ROW_TOPK = 64, ROW_LISTED = 64, ROW_HINTS = 8 };

/* What the model holds likely behind a row: a hint for drafters, of no numerics class.  It is not a want: it takes no
 * place among the results, and leaves the row, its K/V and its class as they are. */
struct row_hints {
    int32_t token[ROW_HINTS]; /* best first */
    float p[ROW_HINTS];       /* share among the tokens that were looked at; 0: no more */
};

struct row {
    int32_t token;
    int32_t pos;    /* absolute position in its sequence */
    int32_t seq;    /* cache sequence, see kv/kv.h */
    int32_t parent; /* row index, or -1 */
    uint32_t want;  /* set of enum row_want, with ROW_DRAFT or ROW_BULK */
    int32_t n_listed;
    const int32_t *listed;   /* [n_listed <= ROW_LISTED] tokens of WANT_LOGPROB, the caller's until the pass is over */
    struct row_hints *hints; /* filled once the pass is over (engine/hints.c); NULL: not asked for */
    /* [(n_vocab + 63) / 64] a bit for each token that WANT_TOPK is of, the caller's until the pass is over; NULL: all.
     * Only where plan_knows_masks(). */
    const uint64_t *allow;
};

struct batch {
    struct row *row; /* [n_row] */
    int32_t *mark;   /* [n_row] batch_check's own */
    int n_row;
    int bulk; /* positions of a bulk block, a property of the plan; 0: none */
};

/* What a forward pass leaves for one row that wanted something.  Pointers are borrowed from the session and stay
 * valid until its next forward pass. */
struct row_result {
    int32_t row;       /* index in the batch */
    float *logits;     /* [n_vocab], when WANT_LOGITS */
    float *hidden;     /* [d_model], when WANT_HIDDEN */
    float log_sum_exp; /* of the logits, when WANT_TOPK or WANT_LOGPROB; NaN when one of them is */
    int n_listed;
    const int32_t *listed; /* [n_listed] of its row */
    float *listed_logit;   /* [n_listed], when WANT_LOGPROB: log-prob = listed_logit - log_sum_exp */
    int n_top;             /* when WANT_TOPK: min(ROW_TOPK, tokens) entries, best first, ties by lower id */
    int32_t *top_id;       /* [n_top] */
    float *top_logit;      /* [n_top] */
};

/* Verifies tokens (0 .. n_vocab-1), parents and positions.  committed(ctx, seq) returns the
 * committed length of a sequence, or -1 if there is no such sequence.  Rows of one sequence need not be adjacent.
 *
 * Takes ROW_BULK from all rows but those of whole blocks: positions k bulk .. (k + 1) bulk - 1 of a sequence, all in
 * this batch with ROW_BULK, none wanting a result but maybe the last, which is then no bulk row itself.  So which class
 * a row gets depends on its prompt alone, as long as no block is cut in two (batch_fit).
 *
 * Allocates nothing.
 * Errors: LUTRA_E_ARGUMENT naming the row. */
int batch_check(struct batch *batch, int n_vocab, int32_t (*committed)(const void *ctx, int32_t seq), const void *ctx,
    struct lutra_error *err);

/* What a result's best tokens say. */
void row_hints_of(const struct row_result *r, struct row_hints *out);

/* How many of the next n rows of a prompt, from position pos on, go into a batch with room for `room` more, so that no
 * whole block of `bulk` positions is cut.  0: wait for the next batch. */
int batch_fit(int bulk, int pos, int n, int room);

/* Whether what a row wanted is a number: a score made of anything else would look like one. */
bool row_result_is_number(const struct row_result *r, uint32_t want, int n_vocab, int d_model);

#endif
