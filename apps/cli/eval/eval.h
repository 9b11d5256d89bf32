/* SPDX-License-Identifier: MIT
 *
 * `lutra eval`: how often a model's answers are right, alone and with test-time scaling.
 *
 *     eval.c           options and the order of things
 *     set.c            the problems: JSONL, GSM8K, MATH500
 *     mc.c             the problems: WinoGrande, MMLU, HellaSwag; choices by log-likelihood
 *     method.c         the list of methods, and what each makes of the outcomes
 *     run.c            outcomes: many problems at once through continuous batching
 *     journal.c        outcomes kept beside the report, so that a stop loses nothing
 *     texts.c          what each candidate wrote, for --keep-texts
 *     score.c          accuracy, bootstrap intervals, paired differences
 *     timing.c         latency and energy of each method alone
 *     report.c         the table and the JSON report;  svg.c: accuracy against latency and rows
 *     spec.h           another thing: what drafts are worth on a workload
 *     ranks_*.c        several processes under mpirun;  energy.c: the processor's energy counter
 *
 * Words: a *source* produces outcomes by running the model (a greedy answer, N samples, one kind of search); a *method*
 * picks an answer from a source's outcome.  vote@4, best@8 and any@16 all look at the same 16 samples.
 */
#ifndef LUTRA_CLI_EVAL_H
#define LUTRA_CLI_EVAL_H

#include "cli.h"
#include "judge.h"

enum {
    EVAL_WIDTH_MAX = METHOD_WIDTH_MAX,
    EVAL_METHODS_MAX = 48,
    EVAL_SOURCES_MAX = 24,
    EVAL_RESAMPLES = 10000,
    EVAL_CHOICES_MAX = 16
};

struct eval_options {
    struct engine_options engine;
    struct sampling_options sampling;
    const char *file, *format, *report, *svg, *system, *template_file, *methods, *auto_table, *grade;
    struct judge_options judge;
    int limit, n, parallel, max_tokens, timed, budget;
    bool vote, greedy, table, keep_texts;
    const char *spec, *spec_mode, *spec_methods; /* spec.h */
};

enum eval_source_kind { EVAL_GREEDY, EVAL_SAMPLES, EVAL_SEARCH, EVAL_CHOICES };

struct eval_source {
    char name[24]; /* "greedy", "samples@16", "beam@4x4", "choices" */
    enum eval_source_kind kind;
    enum lutra_search_method search; /* EVAL_SEARCH */
    int width, expand;
    int64_t tokens_budget; /* LUTRA_SEARCH_AUTO */
    uint64_t us_budget;
    bool scored; /* EVAL_SAMPLES: by the verifier */
    bool early_stop;
    /* this process's run: time fields */
    double seconds;
    uint64_t tokens;
};

struct eval_sample {
    char *answer;       /* canonical; NULL = none.  EVAL_CHOICES: NULL */
    bool right, judged; /* judged: it has a reward, of which its score is made */
    int n_tok, n_step;
    double sum_log_prob, score;
    enum lutra_stop reason;
};

/* What a source made of a problem. */
struct eval_outcome {
    bool done;
    struct eval_sample *sample; /* [n_sample]: the samples; a search's winner; one per choice */
    int n_sample, n_candidates, n_finished, n_pruned;
    int n_counted, n_judged; /* candidates that a verifier was to judge, and those that it gave a reward */
    int64_t tokens, pruned_tokens, verifier_rows; /* pruned_tokens are among tokens */
    uint64_t us;                                  /* measured */
    void *texts;                                  /* --keep-texts: the list of texts.c, as JSON; else NULL */
};

struct eval_problem {
    char *question, *answer; /* answer: canonical */
    char *context[EVAL_CHOICES_MAX], *ending[EVAL_CHOICES_MAX];
    int n_choice, right_choice; /* 0 = not a multiple-choice problem */
    struct tokens prompt;
    struct eval_outcome *outcome; /* [n_source] */
};

enum eval_method_kind {
    METHOD_GREEDY,
    METHOD_MEAN, /* the mean of single samples */
    METHOD_VOTE,
    METHOD_ANY,
    METHOD_WEIGHTED,
    METHOD_BEST,
    METHOD_SEARCH,
    METHOD_ACC,      /* the likeliest choice */
    METHOD_ACC_NORM, /* per byte of its text */
};

struct eval_interval {
    double mean, low, high;
};

enum { EVAL_BASES = 4 }; /* what methods are compared with: greedy, mean sample, the widest vote and best */

struct eval_method {
    char name[24];
    enum eval_method_kind kind;
    int k, source;
    struct eval_interval accuracy;
    double judged; /* share of candidates with a reward; < 0 = without a verifier */
    bool compared[EVAL_BASES];
    struct eval_interval minus[EVAL_BASES];
    double tokens, generator_rows, verifier_rows, pruned_rows; /* per problem, counted; pruned among generator's */
    /* time fields */
    double latency_s, joules;             /* per problem, one problem at a time: median, mean; < 0 = not measured */
    double latency_low_s, latency_high_s; /* quartiles */
    double tokens_per_second;             /* of the source's whole pass; 0 = not measured */
};

struct eval_set {
    struct eval_problem *problem;
    int n;
    bool choices; /* multiple choice by log-likelihood */
    struct eval_source source[EVAL_SOURCES_MAX];
    struct eval_method method[EVAL_METHODS_MAX];
    int n_source, n_method;
    const char *base[EVAL_BASES]; /* names of the methods compared with; NULL = not among them */
    double no_answer;             /* share of samples without an answer */
    uint64_t content_hash;        /* of the problems' file */
    struct buffer chat_template;  /* instead of the model's; empty: none */
};

/* Processes of one evaluation (ranks_mpi.c, ranks_none.c). */
struct ranks {
    int rank, n;
    bool open;
};
int ranks_open(struct ranks *r); /* 0 or an exit code after a message */
void ranks_wait(const struct ranks *r);
void ranks_close(struct ranks *r, int code); /* code != 0 ends all processes */

struct eval_journal;

struct eval_run {
    struct eval_set *set;
    const struct eval_options *opts;
    struct engine engine;
    struct judge judge;
    lutra_verifier *grader; /* says what is right; NULL: equality of answers */
    struct method_table auto_table;
    struct lutra_sampling sampling;
    struct lutra_logit_bias bias[OPTION_LIST_MAX];
    struct eval_journal *journal; /* NULL = none is kept */
    struct ranks ranks;
    int n_ctx;
    char no_reward[160]; /* why the last candidate without a reward has none */
    double seconds;
    double others_cpus; /* processors that other programs used while latencies were measured; < 0 = not known */
};

/* ---- problems ---- */

/* 0, or an exit code after a message naming file and line. */
int eval_read(struct eval_set *set, const struct eval_options *o);
void eval_free(struct eval_set *set);
/* Prompts through the chat template; 0 or an exit code.  *longest: tokens of the longest prompt, or of context and
 * ending. */
int eval_tokenize(struct eval_set *set, struct engine *e, const struct eval_options *o, int *longest);

/* Is the object a multiple-choice problem of `format` ("auto": of any)? */
bool eval_is_choice(const void *json, const char *format);
/* Fills p; NULL or why not. */
const char *eval_read_choice(struct eval_problem *p, const void *json);
int eval_choose(struct eval_run *run, int source, const int *list, int n_list);

/* ---- methods ---- */

/* Fills set->method and set->source from --methods, or from --n, --greedy, --vote; 0 or EXIT_USAGE. */
int eval_methods(struct eval_set *set, const struct eval_options *o);
/* Right (1), wrong (0), or a mean between, of method m on a problem. */
double eval_value(const struct eval_method *m, const struct eval_problem *p);
/* Adds what method m costs on a problem to its sums. */
void eval_cost(const struct eval_run *run, struct eval_method *m, const struct eval_problem *p);
/* The source that runs method m alone, as a user would; false when there is none (any@k). */
bool eval_alone(const struct eval_set *set, const struct eval_method *m, struct eval_source *out);

/* ---- outcomes ---- */

/* Outcomes of problems list[n_list] from a source into outcome[n_list] (borrowed until done), `parallel` sequences at
 * once; journal: write each down.  0 or an exit code. */
int eval_run_source(struct eval_run *run, struct eval_source *source, int index, const int *list, int n_list,
    int parallel, struct eval_outcome *const *outcome, bool journal);
void eval_outcome_free(struct eval_outcome *out);

/* ---- texts: of an outcome that eval_texts_open() was called for ---- */

void eval_texts_open(struct eval_outcome *out);
void eval_texts_free(struct eval_outcome *out);
/* The whole text of sample i, whose answer is known. */
void eval_texts_sample(struct eval_outcome *out, int i, const char *text, size_t n_bytes);
void eval_texts_end(struct eval_outcome *out, int i, enum lutra_stop reason);
void eval_texts_event(struct eval_outcome *out, const struct lutra_search_event *event);

/* ---- journal ---- */

/* Reads what earlier runs have left beside the report (all ranks' files) and opens this rank's for more; 0 or an exit
 * code.  `settings`: what the outcomes depend on; a journal of other settings is refused. */
int eval_journal_open(struct eval_run *run);
int eval_journal_add(struct eval_run *run, int source, int problem);
/* Outcomes that other ranks have written meanwhile. */
int eval_journal_merge(struct eval_run *run);
void eval_journal_close(struct eval_run *run, bool remove_files);
const char *eval_reason_text(enum lutra_stop reason);

/* ---- results ---- */

/* Mean of value[n] with its bootstrap 95 % interval over EVAL_RESAMPLES resamples, a function of seed. */
struct eval_interval eval_bootstrap(const double *value, int n, uint64_t seed);
void eval_score(struct eval_run *run);
int eval_check_judged(const struct eval_run *run); /* 0, or an exit code: a verifier judged nobody */
/* Each method alone on the first problems, one at a time: latency and energy.  0 or an exit code. */
int eval_time(struct eval_run *run);

void eval_print(const struct eval_run *run);
/* The whole report in a file that appears whole or not at all; 0 or EXIT_FAILED. */
int eval_report(const struct eval_run *run);
int eval_svg(const struct eval_run *run);

/* The same of any report, which is given away; NULL: it could not be made, and that is said. */
struct json_t;
int eval_write_report(const char *path, struct json_t *report);

/* Joules used by the processor since some moment; false where there is no counter. */
bool energy_read(double *joules);

#endif
