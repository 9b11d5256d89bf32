/* SPDX-License-Identifier: MIT
 *
 * What `lutra run` and `lutra eval` share about searches: which model judges, what a budget is, and the table of
 * measured methods that a budget chooses from.
 */
#ifndef LUTRA_CLI_JUDGE_H
#define LUTRA_CLI_JUDGE_H

#include "cli.h"

enum { JUDGE_STEP_MAX = 32 };

struct judge_options {
    const char *prm, *kind, *mark, *score, *step, *check, *check_time;
    float prune;
    int check_memory; /* MiB */
    bool until_pass;
    uint64_t check_us;              /* check_time, of judge_options_check */
    char step_text[JUDGE_STEP_MAX]; /* of judge_options_check; step points to it from then on */
};

void judge_options_init(struct judge_options *o);
struct option_set judge_option_set(struct judge_options *o);
/* Undoes the escapes of --step; 0 or an exit code after a message of the command. */
int judge_options_check(struct judge_options *o, const char *command);
/* Score, step and pruning of a search; o has been checked and must outlive it. */
void judge_options_apply(const struct judge_options *o, struct lutra_search *s);

struct judge {
    lutra_model *model; /* NULL: none, or a checker */
    bool own;           /* it is the generator's, and so is every row it needs */
    int n_mark;         /* tokens of the mark */
};

/* Is there one?  --prm FILE, --check CMD, or --prm-kind likelihood alone: the generator itself. */
bool judge_wanted(const struct judge_options *o);
/* Opens its model, or takes the generator's when it is the same file; 0 or an exit code after a message. */
int judge_open(struct judge *j, const struct judge_options *o, struct engine *e, const char *generator_path);
/* A checker: a rule by name, or a program; the options give its limits.  0 or an exit code after a message. */
int judge_checker(lutra_verifier **out, const char *command, const struct judge_options *o);
/* A verifier for `n_seq` candidates of up to n_tok tokens in up to max_steps steps. */
int judge_verifier(
    const struct judge *j, const struct judge_options *o, int n_seq, int n_tok, int max_steps, lutra_verifier **out);
void judge_close(struct judge *j, const struct engine *e);

/* "2000": tokens; "500ms", "1.5s": time.  0 or -1. */
int budget_read(const char *text, int64_t *tokens, uint64_t *us);

enum { METHOD_WIDTH_MAX = 1024, METHOD_OPTIONS_MAX = 64 };

/* "4" or, with children, "4x4": rows and children of each, at most METHOD_WIDTH_MAX rows; 0 or -1. */
int beams_read(const char *text, size_t n, bool with_children, int *width, int *expand);

/* The methods of a report of `lutra eval` that can be asked for by name. */
struct method_table {
    struct lutra_search_option option[METHOD_OPTIONS_MAX];
    int n;
};
/* 0, or an exit code after a message; refused where the table was measured with a checker and this judge is another. */
int method_table_read(struct method_table *t, const char *path, const struct judge_options *judge);

#endif
