/* SPDX-License-Identifier: MIT
 *
 * A search over a request's samples; who goes on is policy.h's.
 *
 *     rounds.c        who is stopped, scored, continued, forked, drawn in addition
 *     score.c         steps: where they end, their rewards, who is told
 *     open.c          settings, submit, result, close
 *     verifier.c      the judge, a model;  check.c: a rule or a function;  checker.c: a program behind that;
 *                     json_schema.c, json_schema_check.c: a JSON Schema
 */
#ifndef LUTRA_SEARCH_SEARCH_IMPL_H
#define LUTRA_SEARCH_SEARCH_IMPL_H

#include "search/ask.h"
#include "search/budget.h"
#include "search/policy.h"
#include "engine/samples.h"
#include "base/settings.h"
#include "text/encode.h"

/* What a search knows of a candidate beside its tokens. */
struct search_node {
    int32_t parent;     /* candidate it was copied from, or -1 */
    int32_t group;      /* subtree (DVTS) */
    int born;           /* generated tokens that came with it from its parent */
    int step_from;      /* first generated token of the step under way */
    int n_ended;        /* steps ended */
    int scored;         /* generated tokens of the steps that have been scored */
    int n_step;         /* these steps */
    double log_prob;    /* of these tokens, under the generator; not kept for a judge with rows of its own */
    bool judged;        /* the last step scored has a reward; where it has none, its score is 0 */
    int32_t verify_seq; /* its sequence in the verifier's cache, or -1 */
    struct search_reward reward;
};

enum verifier_kind { VERIFIER_VALUE, VERIFIER_TOKEN, VERIFIER_LIKELIHOOD, VERIFIER_CHECK };

enum { VERIFIER_WHY_BYTES = ASK_WHY_BYTES };

/* A step of one sequence of the verifier. */
struct verify_job {
    int32_t seq;
    int32_t before;       /* the token before the step */
    const int32_t *token; /* [n], n >= 1 */
    int n;
    double log_prob; /* LIKELIHOOD: sum so far */
    double reward;   /* out */
};

/* A step that has ended and has no reward yet, of a running candidate or of a whole solution. */
struct search_step {
    lutra_search_run *run;
    struct search_node *node;
    const int32_t *token; /* the solution */
    int32_t id;
    int to, n_text; /* it is token[node->scored .. to - 1]; n_text: to, or where the text ends before an end token */
    double sum_log_prob; /* of the solution so far, under the generator */
    struct final *whole; /* NULL: still running */
};

struct lutra_verifier {
    lutra_model *model;
    lutra_session *session; /* NULL: none of its own */
    enum verifier_kind kind;
    const struct model_value_head *value; /* VALUE */
    double *dense;                        /* [d_model] outputs of its dense layer; NULL: it has none */
    int32_t positive, negative;           /* TOKEN */
    struct text_tokens mark;              /* put behind each step; may be empty */
    struct lutra_row *row;                /* [n_batch] */
    struct verify_job *job;               /* [n_batch] of the searches that use it */
    struct search_step *step;             /* [n_batch] what each job judges */
    int free_seq;                         /* sequences and blocks that no search has reserved */
    int64_t free_block;
    lutra_check_fn check; /* CHECK: this only, and no model */
    void *check_user;
    struct checker *program; /* that is check_user, or NULL; so is schema */
    struct asker *asker;     /* asks it for searches; NULL: no search has */
    struct json_schema *schema;
};

/* check.c: verifiers that are no model, whose *out is NULL. */
int verifier_open_function(lutra_verifier **out, lutra_check_fn check, void *user, struct lutra_error *err);
int verifier_open_program(lutra_verifier **out, const struct lutra_verifier_settings *set, struct lutra_error *err);

/* What a checker has said, as a reward: 0 with the reason in why where it is none ("" = there is a reward). */
double verifier_reward(double said, char *why, size_t n_why);
/* Asks a checker. */
double verifier_ask(const lutra_verifier *v, const struct lutra_check *check, char *why, size_t n_why);

int verifier_check_vocab(const lutra_verifier *v, const lutra_model *generator, struct lutra_error *err);

/* Evaluates a prompt into an empty sequence, as far as steps do not do so themselves.  *rows grows. */
int verifier_prompt(
    lutra_verifier *v, int32_t seq, const int32_t *prompt, int n_prompt, int64_t *rows, struct lutra_error *err);

/* Evaluates all jobs, packed into as few passes as n_batch allows, and reads their rewards.  Jobs of one sequence are
 * neighbours, in order.  Allocates nothing. */
int verifier_run(lutra_verifier *v, struct verify_job *job, int n_job, struct lutra_error *err);

/* Rows of its pass that a step of n tokens takes. */
int verifier_rows(const lutra_verifier *v, int n);

enum { SEARCH_ANSWER_BYTES = 256 };

/* A whole solution. */
struct final {
    int32_t id;
    struct search_node node;
    int32_t *token;      /* [max_tok + 1] generated tokens, an end token included */
    int n_token, n_text; /* all, and without the end token */
    size_t n_answer;     /* bytes of its text behind the reasoning */
    double sum_log_prob;
    bool told; /* scored, where there is a judge */
    char answer[SEARCH_ANSWER_BYTES];
};

struct lutra_search_run {
    lutra_session *s;
    struct row_source source; /* of no rows: it takes its turn when samples have taken theirs */
    struct search_node *node; /* [n_seq of the session] of the candidate in a slot */
    struct request *request;  /* NULL once it is over */
    struct lutra_search set;
    struct search_settings policy;
    char step[32];
    char *question, *expected_answer;  /* for checkers */
    char why[VERIFIER_WHY_BYTES];      /* of the step that is being told of */
    char last_why[VERIFIER_WHY_BYTES]; /* of the last step without a reward */
    struct ask *ask;                   /* the question to a program that is under way; NULL: the judge is none */
    bool waits, idle;                  /* for the reply; nothing else of the session has rows */
    lutra_verifier *judge;             /* evaluates rows of its own; NULL: no verifier, or */
    bool self;                         /* the generator's own likelihood judges, without further rows */

    /* the judge's memory */
    int32_t prompt_seq; /* -1 before the first round */
    int verify_tok;     /* longest sequence there */
    int n_open;         /* candidates' sequences */
    double best_reward; /* of all steps; -1: none yet */
    int64_t reserved_block, verifier_rows;

    /* budgets */
    bool alone;             /* after a search over steps: candidates run to their ends by themselves */
    int first_id;           /* of independent candidates */
    int n_more;             /* candidates that may still be drawn */
    int *length;            /* [max_final] tokens of each independent candidate so far */
    double expected;        /* tokens of a candidate, until some have ended */
    bool measured;          /* that is no guess */
    int64_t spent_in_steps; /* tokens, before first_id */
    uint64_t wave_us;       /* when the candidates that run now began */

    struct final *final; /* [max_final] in order of their ends */
    int n_final, max_final;
    int32_t *tokens;
    char *text;                    /* scratch: one candidate's text */
    struct search_candidate *cand; /* [width + max_final] */
    struct search_final *choice;   /* [max_final] */
    struct sample **live;          /* [n_seq of the session] */
    struct lutra_search_result result;
    bool done;
};

static inline bool search_in_steps(const lutra_search_run *run)
{
    return run->policy.method >= SEARCH_BEAM && !run->alone;
}

static inline struct search_node *search_node(const lutra_search_run *run, const struct sample *slot)
{
    return &run->node[slot - session_samples(run->s)];
}

/* search.c: what ties a search to its request and to the session. */
extern const struct sample_watch search_watch;
extern const struct row_source_ops search_source;

/* The search behind a request, or NULL. */
static inline lutra_search_run *search_of(const struct request *r)
{
    return r->watch == &search_watch ? r->watcher : NULL;
}

/* The request is over: chooses the winner. */
void search_finish(lutra_search_run *run);

/* Generated tokens from .. to - 1 as text in run->text, a NUL behind. */
struct text_bytes search_spell(lutra_search_run *run, const int32_t *token, int from, int to);
void search_tell(lutra_search_run *run, enum lutra_search_event_kind kind, int32_t id, const struct search_node *node,
    const char *text, const char *answer);

/* Does the last of tokens from .. to - 1 end a step?  It does when the delimiter ends in it and the step says anything
 * beside delimiters and blanks: an empty step is no step but the beginning of the next.  What a token says behind the
 * delimiter belongs to the step it ends. */
bool search_step_ends(lutra_search_run *run, const int32_t *token, int from, int to);

/* The running candidates, by id; returns how many. */
int search_live(lutra_search_run *run);

/* Without a judge: rewards of the steps that a candidate has ended, before it goes on. */
void search_score_own(lutra_search_run *run, struct sample *slot);

/* Rewards for all steps that have ended, of this search and of others that wait for the same judge; tells of them.
 * run->waits then: a program has not replied yet, and the steps from that one on have none. */
int search_score(lutra_search_run *run, struct lutra_error *err);
/* Is it worth a pass now?  Steps: when all have paused.  Independent candidates: when each has a step to be judged. */
bool search_score_due(lutra_search_run *run);

/* A sequence of the judge's is not needed any more. */
void search_drop_seq(lutra_search_run *run, struct search_node *node);

/* Independent candidates count from the first on while all their tokens together fit into the budget: the first id
 * that does not count (any more). */
int search_counted(lutra_search_run *run);

/* The finished solutions in order of ids, those below `end`; returns how many. */
int search_choices(lutra_search_run *run, int end);

#endif
