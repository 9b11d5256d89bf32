/* SPDX-License-Identifier: MIT
 *
 * Test-time scaling: several candidates, one answer; and the verifiers that judge them.
 *
 * Threads: lutra_search_submit(), lutra_search_done() and lutra_search_close() are for the thread that steps the
 * session, between passes.  Calls on one verifier must not overlap, the searches that use it included.
 * Callbacks: on_event and lutra_verifier_settings.check run in lutra_step(), as lutra/session.h says; the latter in
 * lutra_verifier_check(), too.  A verifier's program is asked by a thread of the library's: while a search waits for a
 * reply other requests go on, and lutra_wait() returns when it has come.
 */
#ifndef LUTRA_SEARCH_H
#define LUTRA_SEARCH_H

#include "lutra/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lutra_verifier lutra_verifier;

/* What a checker judges. */
struct lutra_check {
    size_t size;
    const char *question; /* lutra_search.question; "" */
    const char *expected; /* lutra_search.expected; "" */
    const char *text;     /* of the candidate so far; bytes as generated, but blanks for NULs */
    const char *step;     /* its last step: the end of text */
    bool whole;           /* the candidate has ended; else a step of it has (searches over steps only) */
};
LUTRA_API void lutra_check_init(struct lutra_check *check, size_t size);

/* A reward in [0, 1]; anything else is none, for a reason that may be written to why (n_why bytes with the NUL).
 * Called from lutra_step() in an order that depends on the seed only (a verifier's program: as it replies); must not
 * call into the session. */
typedef double (*lutra_check_fn)(void *user, const struct lutra_check *check, char *why, size_t n_why);

/* What judges candidates, by the kind that it is opened with.  A model judges beside the generator:
 *   value       a value head (`cls.output`): linear on the last hidden state, or on a dense layer (`cls`) with a ReLU;
 *               then the sigmoid of its one class, or the softmax of the second of its two.  Folders of the classes
 *               ...ForProcessRewardModel, ...ForRewardModel, ...ForSequenceClassification and
 *               ...ForTokenClassification open as this kind
 *   token       the probability of one token against another behind a step ('+' and '-' unless others are named)
 *   likelihood  any language model: its probability of the step, exp(sum of log p(token | all before))
 *   NULL        what the file says, by its key `lutra.prm.kind` or its tensors; token where settings name tokens
 * Its vocabulary must be the generator's.  A likelihood verifier on the generator's own lutra_model judges by the rows
 * that sampling has evaluated anyway; the other kinds evaluate theirs, as they read the row of a step's last token.
 *
 * Where checking is easier than answering, a function or a program is a better judge than a model:
 *   function    settings.check
 *   program     settings.command: a program that is started at once and stays (src/search/checker.h describes its
 *               lines), or one of these names:
 *     countdown   the rule of the game: the numbers of the question make its last number, one equation per line
 *     equation    every line with a `=` holds, computed exactly
 *     answer      lutra_answer() of the text is that of `expected`: for measuring only
 *     json-schema:FILE   the text, or its last ``` block, is JSON that holds by the schema in FILE (at most 1 MiB,
 *                 read when it opens); a keyword that is not built is LUTRA_E_UNSUPPORTED, with its path
 * Such checkers have no rows, fit every generator, and judge whole candidates; steps, too, in a search over steps.  A
 * candidate without a reward has the score 0; events say why, and lutra_search_result counts those with one.  Where all
 * scores are 0, the most frequent answer wins. */
struct lutra_verifier_settings {
    size_t size;
    lutra_model *model;              /* open for longer than the verifier */
    int n_ctx;                       /* longest prompt + solution; 0 = the model's training context */
    int n_seq;                       /* candidates of all its searches at once; 16.  0 = no cache of its own, for
                                        searches on the same model (likelihood only) */
    int n_batch;                     /* rows of one pass; 512 */
    const char *mark;                /* text put behind each step for the verifier to judge at; NULL = the file's key
                                        lutra.prm.mark (...ForProcessRewardModel has <extra_0>), or none */
    const char *positive, *negative; /* token; NULL = what the file names */
    lutra_check_fn check;            /* function */
    void *check_user;
    const char *command;  /* program: words parted by blanks; '...', "..." and \ as in a shell, nothing else: no shell
                             runs */
    uint64_t timeout_us;  /* program: for one reply, its start included; 5 s */
    int64_t memory_bytes; /* program: of its address space; 0 = no limit; 4 GiB */
    int restarts;         /* program: processes started in place of failed ones, at most; 10000 */
};
LUTRA_API void lutra_verifier_settings_init(struct lutra_verifier_settings *settings, size_t size);
/* LUTRA_E_ARGUMENT: no such kind, or settings that it lacks; LUTRA_E_IO: the program cannot be run. */
LUTRA_API int lutra_verifier_open(
    lutra_verifier **out, const char *kind, const struct lutra_verifier_settings *settings, struct lutra_error *err);
LUTRA_API void lutra_verifier_close(lutra_verifier **verifier);

/* Rewards in [0, 1] of a solution's steps, read at the token before each entry of step_end (ascending offsets into
 * solution, the last <= n_solution).  Evaluates the prompt, too: a search scores only new rows. */
LUTRA_API int lutra_verifier_score(lutra_verifier *verifier, const int32_t *prompt, int n_prompt,
    const int32_t *solution, const int *step_end, int n_step, double *reward, struct lutra_error *err);

/* Asks a checker about one text, outside a search; *reward in [0, 1].  LUTRA_E_ARGUMENT: the verifier is a model, or
 * there is no reward, for the reason in err. */
LUTRA_API int lutra_verifier_check(
    lutra_verifier *verifier, const struct lutra_check *check, double *reward, struct lutra_error *err);

enum lutra_search_method {
    LUTRA_SEARCH_VOTE,     /* self-consistency: the most frequent answer */
    LUTRA_SEARCH_WEIGHTED, /* votes weighted by reward */
    LUTRA_SEARCH_BEST,     /* best-of-N by reward */
    LUTRA_SEARCH_BEAM,     /* step-level beam search by reward */
    LUTRA_SEARCH_DVTS,     /* beam search in subtrees that do not compete */
    LUTRA_SEARCH_REBASE,   /* children in proportion to the softmax of rewards */
    LUTRA_SEARCH_AUTO, /* what the budget buys: the most accurate of `option`, else (weighted) votes while it lasts, or
                          with until_pass the best */
};

/* How the rewards of steps make a candidate's score.  AUTO: the product of likelihoods, else the last. */
enum lutra_search_score { LUTRA_SCORE_LAST, LUTRA_SCORE_MIN, LUTRA_SCORE_PRODUCT, LUTRA_SCORE_MEAN, LUTRA_SCORE_AUTO };

enum lutra_search_event_kind {
    LUTRA_EVENT_STEP, /* a step was scored (without a verifier: ended); text behind the last delimiter is a step, too */
    LUTRA_EVENT_FORK, /* `candidate` is a new copy of `parent` */
    LUTRA_EVENT_PRUNE,
    LUTRA_EVENT_FINISH, /* a whole solution, scored; answer is set */
};

struct lutra_search_event {
    enum lutra_search_event_kind kind;
    int32_t request, candidate, parent; /* parent: -1 = the prompt */
    int n_step;                         /* steps so far */
    double reward, score;               /* of the last step, of the candidate; 0 without a verifier */
    const char *text;                   /* the last step (STEP), borrowed; "" otherwise */
    const char *answer;                 /* FINISH: canonical, "" = none */
    const char *why;                    /* STEP: why a checker gave no reward, "" = it did; borrowed */
};

/* A measured method, for LUTRA_SEARCH_AUTO (lutra eval --report writes such tables). */
struct lutra_search_option {
    enum lutra_search_method method;
    int width, expand;
    bool greedy;     /* one candidate at temperature 0 */
    double tokens;   /* generated per problem, all candidates */
    double us;       /* latency; < 0 = not measured */
    double accuracy; /* 0 .. 1 */
};

struct lutra_search {
    size_t size;
    enum lutra_search_method method;
    int width;  /* candidates: N of vote and best-of, rows of beam search, most at once of AUTO; 16 */
    int expand; /* BEAM, DVTS: children of each survivor, width / expand beams; 1: every candidate that is neither
                   pruned nor a duplicate continues, and freed rows go to the survivors */
    enum lutra_search_score score;
    const char *step;         /* ends a step of any text but blanks, with the token it ends in: "\n" */
    int max_steps;            /* 64: a beam ends there; of an independent candidate, the rest is the last step */
    lutra_verifier *verifier; /* needed by all methods but VOTE */
    bool early_stop;          /* VOTE: end the others once they cannot change the winner; true */
    float prune_below;        /* live candidates below this share of the best score are pruned and give their
                                 rows to the others; 0.1 */
    float temperature;        /* REBASE; 0.1 */
    int64_t token_budget;     /* generated tokens; 0 = none.  Independent candidates are drawn in waves that should
                                 fit, and count, in order, while all up to them do; beams narrow to what is left.
                                 One candidate always comes to its end */
    void (*on_event)(void *user, const struct lutra_search_event *event); /* may be NULL */
    void *user;
    uint64_t time_budget_us;                  /* 0 = none; what is chosen then depends on the clock */
    const struct lutra_search_option *option; /* [n_option] AUTO; what a method leaves of the budget draws more */
    int n_option;
    size_t option_size;              /* sizeof *option, where there are any */
    const char *question, *expected; /* what a checker is told; copied; NULL = "" */
    bool
        until_pass; /* with a verifier, not VOTE or WEIGHTED: the first candidate, in the order of their numbers, of the
                        score 1 is the winner; those behind it end as soon as it is known; false */
};
LUTRA_API void lutra_search_init(struct lutra_search *search, size_t size);

struct lutra_search_result {
    char *text;        /* the winner's; NULL = no candidate finished.  Owned by the search */
    char *answer;      /* canonical answer of `text` behind its reasoning, "" = none */
    int32_t candidate; /* the winner, -1 = none */
    double score;      /* reward, or share of the votes */
    int n_candidates, n_finished, n_pruned;
    int64_t generated_tokens, verifier_rows;
    uint64_t us;                     /* measured, submit to end */
    enum lutra_search_method method; /* as asked, or as AUTO chose */
    int width, expand;
    double best_reward; /* the largest that the verifier gave any step; about 0: it told the candidates apart by next to
                           nothing; -1 = it gave none */
    size_t n_reasoning; /* bytes at the start of `text` that are not its answer: reasoning and its tags */
    int n_counted;      /* finished candidates that the winner was chosen from */
    int n_judged;       /* of these, with a reward: 0 with a verifier = the verifier judged nobody */
    int n_passed;       /* of these, with the score 1 */
    int n_agree;        /* candidates counted that give the winner's answer */
    char *why;          /* why the last one without a reward has none, "" = all have one; owned by the search */
};

typedef struct lutra_search_run lutra_search_run;

/* Takes a search in, to run in the following lutra_step() calls beside other requests.  The request gives prompt,
 * sampling, max_tokens (of each candidate), stop strings and callbacks (a sample is a candidate); n_samples is ignored.
 * A search over steps needs a session with n_seq >= width.  Searches of one session may share a verifier, and then
 * its passes: LUTRA_E_BUSY when its n_seq leave no room for this one.  It must not be used elsewhere meanwhile. */
LUTRA_API int lutra_search_submit(lutra_search_run **out, lutra_session *session, const struct lutra_request *request,
    const struct lutra_search *search, struct lutra_error *err);
/* NULL while it runs; valid until lutra_search_close(). */
LUTRA_API const struct lutra_search_result *lutra_search_done(const lutra_search_run *run);
LUTRA_API void lutra_search_close(lutra_search_run **run); /* cancels what still runs */

/* The canonical answer of a solution: what follows the last "####" that is no heading, stands in the last \\boxed{}
 * with content, or follows "answer is", else the last number; normalised (commas, currency, units, fractions, decimals,
 * LaTeX, digits of other scripts).  Writes at most n_max bytes with the NUL; returns its length, 0 = none. */
LUTRA_API size_t lutra_answer(const char *text, char *answer, size_t n_max);

#ifdef __cplusplus
}
#endif
#endif
