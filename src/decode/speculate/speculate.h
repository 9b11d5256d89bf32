/* SPDX-License-Identifier: MIT
 *
 * Speculation: a row source that drafts what may follow the tips of a pass, and learns what its drafts are worth.
 *
 *     speculator_open(&sp, &set, &lim, err);                    set.types = "suffix"
 *     source_add(&sources, speculator_source(sp));
 *
 * Drafters look at a tip's text and propose a small tree, best first, each node with an estimate of how likely its
 * whole path is.  Estimates are made again once all have spoken: what several guess is right more often than what one
 * does against the others.  All trees of a pass go through one queue, by falling estimate, whoever they are of:
 * samples, beams, requests.  Of the rows in this order as many are kept as make expected tokens per cost
 * (decode/row_cost.h) greatest; none, where that is none.  What is drafted changes how many passes a text takes, and
 * nothing else (decode/source.h).
 * Acceptance is learnt for each cache domain by itself, shared by its sequences: forks have nothing to copy, and no
 * client's passes show what another one's texts were like.  Whether a drafter pays for its time is learnt from all.
 */
#ifndef LUTRA_DECODE_SPECULATE_H
#define LUTRA_DECODE_SPECULATE_H

#include "base/clock.h"
#include "decode/row_cost.h"
#include "decode/source.h"

enum { SPEC_DRAFT_MOST = 64, SPEC_NGRAM_LEAST = 2, SPEC_NGRAM_MOST = 64 };

struct spec_settings {
    const char *types;        /* drafters by name with commas; NULL, "", "none": only those of tips (row_tip.guess) */
    int draft_max, draft_min; /* guesses of one drafter at one sequence: at most, and fewer are not worth it */
    float p_min;              /* least estimate of a path */
    int ngram_n;              /* tokens that ngram-simple looks up at most */
};

/* What a second model is asked for: how many guesses at a tip, at most; the least estimate of a path; and for each tip
 * of the pass the rates that they have been right at so far, by spec_model_kind: that estimate is their product. */
struct spec_wish {
    int most;
    float p_min;
    const float *const *rate; /* [n_tip][] */
};
/* Of the guess `depth` behind a tip that the model has given probability p. */
int spec_model_kind(float p, int depth);

/* A second model that drafts: begin works out the guesses behind all tips of a pass, guesses hands out one tip's, each
 * the parent of the next. */
struct spec_model {
    void *self;
    void (*begin)(void *self, const struct pass *pass, const struct spec_wish *wish);
    int (*guesses)(void *self, int tip, const struct draft_guess **out);
};

struct spec_limits {
    int n_draft, n_seq, n_vocab;    /* draft rows and tips of a pass */
    const struct spec_model *model; /* borrowed; NULL: none */
    const struct spec_model *mtp;   /* the model's own MTP block, likewise */
    const struct row_cost *cost;    /* borrowed */
    const struct clock *clock;      /* borrowed; for spec_spent_us */
};

/* A text that has ended: prompt and reply. */
struct spec_text {
    uint64_t prompt_hash;
    const int32_t *token; /* [n_token] */
    int n_prompt, n_token;
};

struct speculator;

/* Whether settings name a drafter at all. */
bool spec_settings_any(const struct spec_settings *set);

/* Whether a drafter that they name lives on hints of prompts (row_tip.hints). */
bool spec_settings_need_hints(const struct spec_settings *set);

/* Whether they name the drafter of the model's MTP block, or `auto`, which takes it where there is one. */
enum spec_need { SPEC_WITHOUT, SPEC_TAKES, SPEC_NEEDS };
enum spec_need spec_settings_need_mtp(const struct spec_settings *set);

/* Allocates all it ever needs.  LUTRA_E_UNSUPPORTED names a drafter that is not built, LUTRA_E_ARGUMENT a number out of
 * range. */
int speculator_open(
    struct speculator **out, const struct spec_settings *set, const struct spec_limits *lim, struct lutra_error *err);
void speculator_close(struct speculator **sp);
struct row_source *speculator_source(struct speculator *sp);

/* Later replies to the same prompt may be guessed from this one; it is copied, and nothing is allocated. */
void speculator_keep(struct speculator *sp, const struct spec_text *text);

/* Whether a drafter wants pass.want_top. */
bool speculator_wants_top(const struct speculator *sp);

/* Time that drafting and learning took since this was asked last. */
uint64_t speculator_spent_us(struct speculator *sp);

#endif
