/* SPDX-License-Identifier: MIT
 *
 * `lutra bench`: forward passes over random tokens, timed.  Tokenising and sampling are not part of it.
 *
 *     bench.c    options, the grid of settings, llama-bench's tests (pp512, tg128, pp512+tg128, "@ d4096")
 *     measure.c  the timed passes themselves
 *     batched.c  llama-batched-bench's table: N sequences at once
 *     print.c    md, csv, json, jsonl
 */
#ifndef LUTRA_CLI_BENCH_H
#define LUTRA_CLI_BENCH_H

#include <jansson.h>

#include "cli.h"

enum { BENCH_CACHE_TYPES = 6, BENCH_VALUES_MAX = 64, BENCH_REPS_MAX = 1000 };

struct bench_values {
    int64_t v[BENCH_VALUES_MAX];
    int n;
};

struct bench_options {
    struct engine_options engine;
    const char *threads, *batch, *cache_k, *cache_v;        /* lists */
    const char *n_prompt, *n_gen, *depth, *npp, *ntg, *npl; /* lists */
    struct option_list models, pg;
    int reps, delay_s;
    bool warmup, peaks, shared_prompt;
    const char *format, *format_err;
};

/* What a test achieved: what it did is counted, how long it took and what the machine does at best are measured. */
struct bench_rates {
    double gmac_s, gmac_share; /* 10^9 multiply-accumulates a second; of the peak of the weights' arithmetic */
    double gb_s, gb_share;     /* weights and cache read; of the memory's stream bandwidth */
};

/* One test on one setting, and its result. */
struct bench_test {
    const char *model, *type_k, *type_v;
    int n_threads, n_batch, n_prompt, n_gen, n_depth;
    struct lutra_model_info info;
    const char *device;
    char when[32]; /* UTC, ISO 8601 */
    int n_rep;
    uint64_t sample_ns[BENCH_REPS_MAX];
    double avg_ns, stddev_ns, avg_ts, stddev_ts;
    struct lutra_stats stats; /* of all repetitions */
    struct lutra_peaks peaks; /* all 0: not measured */
};

struct batched_test {
    int pp, tg, pl;
    bool shared;
    const char *file_type;
    double t_pp, t_tg;        /* seconds */
    struct lutra_stats stats; /* of the decoding */
    struct lutra_peaks peaks;
};

/* Rows for one forward pass, reserved once. */
struct bench_pass {
    struct engine *e;
    int n_batch;
    struct lutra_row *row;
    uint64_t state; /* of the random tokens */
};

void bench_pass_init(struct bench_pass *p, struct engine *e, int n_batch);
void bench_pass_free(struct bench_pass *p);

/* Appends n random tokens to a sequence in passes of n_batch rows; the last row gives logits.  Status. */
int bench_prompt(struct bench_pass *p, int32_t seq, int n, struct lutra_error *err);

/* Appends n random tokens to each of n_seq sequences (all of one length), one token each per pass, all with logits. */
int bench_decode(struct bench_pass *p, const int32_t *seq, int n_seq, int n, struct lutra_error *err);

/* Fills t->sample_ns and the averages; the session must have room for 2 sequences.  Status. */
int bench_measure(struct bench_pass *p, struct bench_test *t, const struct bench_options *o, struct lutra_error *err);

/* Peaks of the runtime, or zeros with --no-peaks. */
struct lutra_peaks bench_peaks(const struct engine *e, const struct bench_options *o);

/* Shares are 0 where there is no peak. */
struct bench_rates bench_rates(
    const struct lutra_stats *stats, double seconds, const struct lutra_peaks *peaks, const char *file_type);

/* "16,32", "128-512+128", "1-64*2", repeated by commas; 0 or -1 with a message that names `option`. */
int bench_parse_values(const char *option, const char *text, int64_t min, struct bench_values *out);

/* Formats: "md" "csv" "json" "jsonl". */
void bench_print_peaks(FILE *out, const struct lutra_peaks *peaks, int n_threads); /* under a table, for people */
void bench_add_peaks(json_t *to, const struct lutra_peaks *peaks);                 /* as fields, for programs */
void bench_print_begin(FILE *out, const char *format);
void bench_print_test(FILE *out, const char *format, const struct bench_test *t, int index);
void bench_print_end(FILE *out, const char *format, const struct bench_test *last);

/* "345.1 (42 %)"; the share only where there is one. */
const char *bench_rate_text(double rate, double share, char out[32]);

/* Batched mode; returns an exit code. */
int bench_batched(const struct bench_options *o);

#endif
