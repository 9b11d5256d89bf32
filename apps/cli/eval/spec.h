/* SPDX-License-Identifier: MIT
 *
 * `lutra eval --spec FILE`: what drafts are worth on questions about documents, drafter by drafter.
 *
 *     spec.c        the methods, and the texts with each of them
 *     spec_set.c    the questions, and a store of their documents and of earlier exchanges, for as long as it runs
 *     spec_score.c  means, ratios and shares of what was counted and measured
 *     spec_table.c  the tables;  spec_report.c: the same as JSON
 *
 * A *method* is a set of drafters: "suffix+store"; "auto" is what --spec-type auto is with a store, "all" all of
 * them, "all-store" all but one.  Every method says the same texts, which is checked; what differs is the passes it
 * takes.  Methods take turns, question by question, each in a session of its own, so that what slows the machine
 * down for a while slows all of them.  A text that repeats itself until it is cut off counts for none: drafts of it say
 * nothing about other texts.
 *
 * Texts are the model's own (free), those same with drafts that are right with a given probability (replay), or the
 * file's answers (forced), which real drafters meet as they would a good model's.
 */
#ifndef LUTRA_CLI_EVAL_SPEC_H
#define LUTRA_CLI_EVAL_SPEC_H

#include "eval/eval.h"

enum { SPEC_METHODS_MAX = 24, SPEC_TASKS_MAX = 8, SPEC_PATH_MOST = 16 };
enum spec_mode { SPEC_FREE, SPEC_FORCED, SPEC_REPLAY };
/* Why a draft was rejected, by what stands behind it [SDNPU Table 2]. */
enum spec_reject { REJECT_MISSING, REJECT_SYNONYM, REJECT_REDUNDANT, REJECT_KINDS };

struct spec_item {
    int task, distance; /* of spec_set */
    char *question, *answer;
    char **document; /* [n_document] */
    int n_document;
    struct tokens prompt, target; /* target: tokens of the answer; free: as they were said first */
    bool loops;
};

struct spec_names {
    char *name[SPEC_TASKS_MAX];
    int n;
};

struct spec_set {
    struct spec_item *item;
    int n;
    struct spec_names task, distance;
    char folder[64]; /* of the store; "" = there is none */
    lutra_store *store;
    char *no_store; /* why there is none */
    int longest;    /* tokens of a prompt */
};

struct spec_outcome {
    int n_tok, n_pass; /* n_tok: with the one that ended it */
    uint64_t first_us, end_us;
    int rejected[REJECT_KINDS]; /* the store's best paths */
};

struct spec_method {
    char name[48], types[96];       /* types: of the session */
    bool uses_store, uses_model;    /* -md */
    int32_t likely[SHORTLIST_MOST]; /* [n_likely] the store's most frequent tokens */
    int n_likely;
    double right;                 /* replay */
    struct spec_outcome *outcome; /* [set->n] */
    lutra_session *session;
    lutra_drafts *drafts; /* the store's; NULL: not asked */
    struct lutra_stats stats;
    uint64_t session_bytes, store_bytes;
    double joules; /* < 0: not counted */
    int n_other;   /* texts that were not the same */
};

struct spec_run {
    const struct eval_options *opts;
    enum spec_mode mode;
    struct engine engine;
    struct lutra_sampling sampling;
    struct lutra_logit_bias bias[OPTION_LIST_MAX];
    struct spec_set set;
    struct spec_method method[SPEC_METHODS_MAX];
    int n_method;
};

/* ---- figures ---- */

enum { SPEC_ANY = -1, SPEC_NAME_WIDTH = 34 }; /* task, distance: all of them; of the tables' first column */

/* What ours add to prompt lookup, without a store. */
#define SPEC_OURS_OF_PLD "ngram-simple+calibrated+recycle"

int spec_loops(const struct spec_run *run); /* how many texts count for nobody */

/* Tokens per pass: the mean over texts; 0: there is no such text. */
double spec_length(const struct spec_run *run, const struct spec_method *m, int task, int distance);

/* Accept lengths of two methods compared text by text: the mean ratio and its interval. */
struct spec_pair {
    const struct spec_method *of, *to;
};
enum { SPEC_PAIRS_MAX = SPEC_METHODS_MAX + 16 };
/* Against the baselines, and all against all but one; as far as they are among the methods.  Returns how many. */
int spec_pairs(const struct spec_run *run, struct spec_pair pair[SPEC_PAIRS_MAX]);
struct eval_interval spec_ratio(const struct spec_run *run, struct spec_pair pair, int task, int distance);

struct spec_times {
    double token_ms, last_ms; /* a token behind the first; a text */
    double hints_ms;          /* of a prompt's, in last_ms */
    double prefill, drafting; /* shares of last_ms, of decoding */
};
struct spec_times spec_times_of(const struct spec_run *run, const struct spec_method *m);
/* How many times as fast as the first method a text is decoded: mean ratio. */
struct eval_interval spec_faster(const struct spec_run *run, const struct spec_method *m, int task);

/* Where the likeliest paths of suffix+store's store were wrong; returns the sum. */
long spec_rejections(const struct spec_run *run, long sum[REJECT_KINDS]);
const char *spec_reject_name(enum spec_reject kind);

int spec_evaluate(struct eval_options *o); /* an exit code */

/* 0, or an exit code after a message naming file and line. */
int spec_read(struct spec_set *set, const struct eval_options *o);
int spec_tokenize(struct spec_set *set, const struct engine *e, const char *chat_template, bool forced);
void spec_free(struct spec_set *set);

void spec_print(const struct spec_run *run);
/* --report FILE; 0 or EXIT_FAILED. */
int spec_report(const struct spec_run *run);

#endif
