/* SPDX-License-Identifier: MIT
 *
 * `lutra eval`: how often a model's answers are right, alone and by majority.
 *
 *     eval.c         options and the order of things
 *     eval_set.c     the problems (JSONL), answers and how they are compared
 *     eval_run.c     many samples at once through continuous batching
 *     eval_score.c   accuracy, votes, bootstrap intervals
 *     eval_report.c  the table and the JSON report
 */
#ifndef LUTRA_CLI_EVAL_H
#define LUTRA_CLI_EVAL_H

#include "cli.h"

enum { EVAL_SAMPLES_MAX = 1024, EVAL_KS_MAX = 12, EVAL_RESAMPLES = 10000 };

struct eval_options {
    struct engine_options engine;
    struct sampling_options sampling;
    const char *file, *report, *system, *template_file;
    int limit, n, parallel, max_tokens;
    bool vote, greedy, table;
};

struct eval_sample {
    char *answer; /* normalised; NULL = none given */
    bool right, done;
    int n_tok;
    double sum_log_prob;
    enum lutra_stop reason;
    struct buffer text; /* while it grows */
};

struct eval_problem {
    char *question, *answer; /* answer: normalised */
    struct tokens prompt;
    struct eval_sample greedy;
    struct eval_sample *sample; /* [n] */
};

struct eval_set {
    struct eval_problem *problem;
    int n, n_sample; /* n_sample: samples per problem, 0 = greedy only */
};

/* One pass over all problems. */
struct eval_pass {
    double seconds;
    uint64_t tokens;
    struct lutra_stats stats;
};

struct eval_interval {
    double mean, low, high;
};

/* A line of the table: a method, its accuracy, the tokens it costs per problem. */
struct eval_method {
    char name[24];
    struct eval_interval accuracy;
    double tokens_per_problem, tokens_per_second; /* 0 = not measured on its own */
};

struct eval_result {
    struct eval_method method[2 * EVAL_KS_MAX + 2];
    int n_method;
    bool has_gain;
    struct eval_interval gain; /* vote@n minus mean single sample, paired */
    double no_answer;          /* share of samples without a line of #### */
};

/* 0, or an exit code after a message naming file and line. */
int eval_read(struct eval_set *set, const char *path, int limit, int n_sample);
void eval_free(struct eval_set *set);

/* The text after the last ####, trimmed and normalised ("$1,200.50" -> "1200.5"); NULL if there is none. */
char *eval_answer(const char *text, bool needs_mark);

/* Prompts through the chat template; 0 or an exit code.  *longest: tokens of the longest prompt. */
int eval_tokenize(struct eval_set *set, struct engine *e, const struct eval_options *o, int *longest);

/* Greedy pass (n = 0) or n samples per problem. */
int eval_run(struct eval_set *set, struct engine *e, const struct lutra_sampling *sampling, int n, int max_tokens,
    const char *stage, struct eval_pass *pass);

/* Is the majority of the first k samples right?  Samples without an answer do not vote; ties go to the answer seen
 * first. */
bool eval_vote(const struct eval_problem *p, int k);

/* Mean of value[n] with its bootstrap 95 % interval over EVAL_RESAMPLES resamples, a function of seed. */
struct eval_interval eval_bootstrap(const double *value, int n, uint64_t seed);

void eval_score(const struct eval_set *set, const struct eval_options *o, const struct eval_pass *greedy,
    const struct eval_pass *samples, uint64_t seed, struct eval_result *out);

void eval_print(const struct eval_set *set, const struct eval_result *r, const struct eval_options *o);

/* The whole report in a file that appears whole or not at all; 0 or EXIT_FAILED. */
int eval_report(const struct eval_set *set, const struct eval_result *r, const struct eval_options *o,
    const struct engine *e, const struct lutra_sampling *sampling, const struct eval_pass *greedy,
    const struct eval_pass *samples);

#endif
