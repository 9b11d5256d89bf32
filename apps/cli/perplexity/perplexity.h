/* SPDX-License-Identifier: MIT
 *
 * `lutra perplexity`: what llama-perplexity counts, from its files.
 *
 *     perplexity.c   options; a text in chunks: perplexity, all log-probabilities into a file, divergence from such a
 *                    file
 *     base.c         that file: log-probabilities of every token at every scored position
 *     divergence.c   how far one model's predictions are from another's
 *     choices.c      HellaSwag, WinoGrande and multiple choice: how often the likeliest text is the right one
 *     tasks.c        their files, and which of their tasks are drawn
 */
#ifndef LUTRA_CLI_PERPLEXITY_H
#define LUTRA_CLI_PERPLEXITY_H

#include "cli.h"

struct perplexity_options {
    struct engine_options engine;
    const char *prompt, *file, *base;
    int n_chunk, hellaswag_tasks, winogrande_tasks, choice_tasks;
    bool escape, hellaswag, winogrande, choice, divergence;
};

/* ---- base.c ----
 *
 * llama-perplexity's file, little-endian: "_logits_", i32 chunk (tokens), n_vocab, n_chunk, i32 ids[n_chunk][chunk];
 * then for each chunk and each position chunk/2 .. chunk-2 a row: f32 scale, f32 least, u16 code[n_vocab rounded up to
 * even], the log-probability being least + scale * code; what lies 16 or more below the largest logit has the code
 * 0. */
struct base {
    FILE *file;
    const char *path;
    char *part; /* written under this name until it is whole; NULL: it is read */
    int n_ctx, n_vocab, n_chunk;
    int32_t *ids;  /* [n_chunk][n_ctx], of a file that is read */
    uint16_t *row; /* one row of codes behind its two floats */
};

/* 0, or an exit code after a message. */
int base_create(struct base *b, const char *path, int n_ctx, int n_vocab, int n_chunk, const int32_t *ids);
int base_add(struct base *b, const float *logits, double log_sum_exp);
int base_open(struct base *b, const char *path);
int base_next(struct base *b, float *log_prob); /* [n_vocab] of the next row */
/* whole: a file that was written takes its name; else it goes.  0 or an exit code. */
int base_close(struct base *b, bool whole);

/* ---- divergence.c ---- */

struct divergence {
    double *kl, *diff; /* [n] of each position: divergence; probability of the token there, minus the base's */
    int64_t n, room, n_same;
    double nll, nll2, base, base2, both; /* sums of both models' negative log-likelihoods, their squares and products */
};

/* A position: both models' log-probabilities (this one's as logits), and the token that came. */
void divergence_add(
    struct divergence *d, const float *logits, double log_sum_exp, const float *base, int n_vocab, int32_t token);
void divergence_print(struct divergence *d); /* sorts its values */
void divergence_free(struct divergence *d);

/* ---- tasks.c ---- */

/* A task's texts; the one at `right` is right. */
struct choice {
    char *text;
    char *head; /* WinoGrande: the text up to the choice's end, not scored where enough follows; else NULL */
};
struct task {
    struct choice *choice; /* [n] */
    int n;
    bool *right; /* [n] */
};
struct tasks {
    struct task *task; /* [n] in the order in which llama-perplexity draws them */
    int n;
};

/* Reads a file and draws tasks from it; 0 or an exit code after a message. */
int tasks_read(struct tasks *t, const struct perplexity_options *o);
void tasks_free(struct tasks *t);

/* ---- choices.c ---- */

int choices_score(const struct perplexity_options *o);

#endif
