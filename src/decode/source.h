/* SPDX-License-Identifier: MIT
 *
 * Row sources: who fills the rows of a pass, and who gets their results.
 *
 * A source offers rows while the pass has room and takes back what became of them.  The pass only shares out the room:
 * sources stand in the order of their ranks, and the first has first choice.  Running samples put one row each and mark
 * it as a tip: a row behind which a token will be picked.  Drafters hang guesses beneath tips, in trees, without
 * knowing who owns them; prompts fill what is left; a source without rows (a search) only looks at what came of a pass.
 *
 *     pass_begin(&pass, &limits);
 *     sources_offer(list, &pass);          samples: pass_tip     drafters: pass_draft     prompts: pass_text
 *       ... the forward pass over pass.batch; pass.result is set ...
 *     sources_take(list, &pass, err);      samples pick at their tips and walk on by pass_child() as far as guesses are
 *     right
 *
 * What is picked at a row does not depend on the drafts, as a row's result does not depend on the batch
 * (docs/NUMERICS.md) and a draw is a function of (seed, sample, position): drafts change how many passes a text takes,
 * and nothing else.
 *
 * Nothing here allocates; the arrays of a pass are the session's.
 */
#ifndef LUTRA_DECODE_SOURCE_H
#define LUTRA_DECODE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "decode/sample/sampler.h"
#include "decode/sequence.h"
#include "ops/batch.h"

/* ---- a pass ---- */

/* What draws take: from all logits, or from the best and the listed.  log_sum_exp comes from the head always, so that
 * log-probs do not depend on how much of a row was wanted. */
enum { WANT_DRAW = WANT_LOGITS | WANT_LOGPROB, WANT_DRAW_BEST = WANT_TOPK | WANT_LOGPROB };

/* A guess at what follows a tip. */
struct draft_guess {
    int32_t token;
    int parent; /* a guess before this one; -1: the tip */
    float p;    /* estimate that it is right where its parent is */
    int kind;   /* 1..GUESS_KINDS: what it rests on, as far as its maker says; 0: he says nothing */
    float rate; /* of its kind, where none is known: a guess with p is right in p * rate of the cases */
};

enum { GUESS_KINDS = 24 };

/* Whether guess i of somebody outside may be; LUTRA_E_ARGUMENT says what is wrong with "draft i". */
int draft_guess_check(const struct draft_guess *g, int i, int n_vocab, struct lutra_error *err);

/* A row behind which a token will be picked. */
struct row_tip {
    int32_t row;
    int32_t request, sample; /* whose, by the numbers the caller knows */
    const int32_t *token;    /* [n_token] its text so far, the row's token included */
    int n_token;
    int n_prompt;         /* of these, the prompt's */
    uint64_t prompt_hash; /* texts with the same one are replies to one prompt, of one cache domain */
    uint64_t domain;      /* the cache domain: what its rows teach is for texts of the same one */
    int max_tok;          /* the sequence holds no more */
    bool want_top;        /* its rows and its drafts' want WANT_TOPK in any case */
    int n_draft;          /* drafts beneath it */
    /* What its draw needs.  Drafts' tokens join it: one list, of which each row has the first part; of a list with a
     * mask, which is of the tip alone, drafts want all logits. */
    struct sample_list list;
    /* Somebody outside who guesses, at most `most`; or NULL.  rate: [GUESS_KINDS] of kinds 1 and on, 0: not known. */
    int (*guess)(void *guesser, const struct row_tip *tip, const float *rate, int most, struct draft_guess *out);
    void *guesser;
    const struct row_hints
        *hints; /* [n_token - 1] what was held likely behind each token of its text, as far as known; or NULL */

    /* for drafters, once samples have taken their results */
    int32_t taken;  /* the last row at which a token was picked: it and those up to the tip were right */
    int32_t picked; /* the token picked there */
};

/* Counts of a pass: rows, rows that want a result, drafts. */
struct row_room {
    int rows, outs, drafts;
};

struct pass {
    int n_vocab;
    struct batch *batch; /* its n_row grows */
    struct row_tip *tip; /* room for as many as the session has samples */
    int n_tip;
    int32_t draft_end; /* no draft lies behind */
    bool want_top;     /* rows that draw want WANT_TOPK in any case: a drafter learns from them */
    uint64_t *domain;  /* [rows of the batch] of each row, for who learns from it; NULL: all are of domain 0 */
    struct row_room left;

    /* set before sources take */
    const struct row_result *result; /* [n_result] ascending rows */
    int n_result;
};

/* An empty pass over batch->row; batch->bulk is set. */
void pass_begin(struct pass *pass, struct batch *batch, struct row_tip *tip, int n_vocab, struct row_room room);

/* A sample's next row, which wants what tip.list says; tip.row is set here.  LUTRA_E_BUSY: the pass is full. */
int pass_tip(struct pass *pass, struct row row, struct row_tip tip);

/* A guess at the token behind row `parent`: the tip's own, or a draft's beneath it.  Returns the guess's row; the same
 * guess made twice is one row.  LUTRA_E_BUSY: no room (one block of a prompt and one result stay free behind all
 * drafts, so that prompts go on beside them); LUTRA_E_CTX_FULL: the sequence ends there; LUTRA_E_ARGUMENT: no such
 * token, or parent of this tip.  Nothing has changed then. */
int32_t pass_draft(struct pass *pass, struct row_tip *tip, int32_t parent, int32_t token);

/* Takes back the drafts at rows n_row and behind: nothing else has been put there. */
void pass_cut(struct pass *pass, int n_row);

/* The next rows of a sequence's text (sequence_text), at most `most` and as many as there is room for, whole blocks
 * where a device has a bulk class (batch_fit).  Returns how many; the prompt's last row wants WANT_DRAW (top: and
 * WANT_TOPK), and no hints: all others of the prompt may, where the sequence asks for them.  Of a sequence that is
 * scored the others want WANT_LOGPROB of the token behind them. */
int pass_text(struct pass *pass, const struct sequence *q, int most, bool top);

/* The draft of `token` behind a row, or -1. */
int32_t pass_child(const struct pass *pass, int32_t row, int32_t token);

/* What the forward pass has left for a row; NULL: nothing. */
const struct row_result *pass_result(const struct pass *pass, int32_t row);

/* ---- sources ---- */

/* The order in which sources choose, and in which they take. */
enum source_rank { SOURCE_SAMPLES, SOURCE_DRAFTS, SOURCE_PROMPTS, SOURCE_SEARCH };

struct row_source_ops {
    const char *name;
    enum source_rank rank;
    void (*offer)(void *self, struct pass *pass);                              /* NULL: it has no rows */
    int (*take)(void *self, const struct pass *pass, struct lutra_error *err); /* NULL: it does not ask */
};

struct row_source {
    const struct row_source_ops *ops;
    void *self;
    struct row_source *next; /* the list's */
};

/* Puts a source behind those of its rank; takes it out again (one that is not in the list is left alone). */
void source_add(struct row_source **list, struct row_source *source);
void source_remove(struct row_source **list, const struct row_source *source);

void sources_offer(const struct row_source *list, struct pass *pass);
/* Each source takes, the first error ends it. */
int sources_take(const struct row_source *list, const struct pass *pass, struct lutra_error *err);

#endif
