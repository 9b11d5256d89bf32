/* SPDX-License-Identifier: MIT
 *
 * lutra-bench-speculation -m MODEL [-p PARTS] [-t THREADS] [-d DEPTH] [-n TOKENS] [-r ROUNDS]: what drafts cost and
 * bring, with weights that need not make sense.  PARTS, some letters of chdrb (default: all of them):
 *
 *     c  cost    a pass of one row and 7 chained drafts against 8 rows of 8 forks; a tree of 16 rows with 4 leaves
 *                against 16 forks: all behind the same prompt of DEPTH tokens, each row with its 64 best
 *     h  hints   of a prompt of DEPTH tokens, over a shortlist of 2,048 and over the vocabulary, against its evaluation
 *     d  drafting of each drafter behind a prompt of DEPTH tokens, of which half are of sixteen kinds, against the
 *        pass: median
 *                and 99th percentile of TOKENS passes and more
 *     r  replay  a text of TOKENS tokens once more, with drafts of which each is right with probability a (and knows
 *                it): its accept length and its time against plain decoding
 *     b  budget  the same, alone and as 4 samples, against the best chain of fixed length in hindsight: the passes that
 *                it would have taken, each at the time of its rows as measured in the same round; and the budget's own
 *                passes at these times, too, which leaves out how the machine changes from minute to minute
 *
 * Variants take turns, and the medians of ROUNDS are compared.  Measured.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../median.h"
#include "lutra.h"

enum { PROMPT = 256, DRAFTS = 15, ROUNDS_MOST = 99, ROWS_MOST = 16, SAMPLES = 4, RATES_MOST = 8, PASS_MOST = 128 };

static const double replayed[] = {0.41, 0.76, 0.82, 0.95, 0}, budgeted[] = {0.2, 0.4, 0.6, 0.8, 0.9, 0.95};

struct bench {
    lutra_runtime *rt;
    lutra_model *model;
    lutra_session *s;
    int n_vocab, depth, n_tok, rounds;
    struct lutra_error err;
};

static int fail(const struct bench *b, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, b->err.what);
    exit(1);
}

#define OK(call) ((call) < 0 ? fail(b, #call) : 0)

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* A token or a chance, from a number. */
static uint64_t hash(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

static int32_t token_of(const struct bench *b, uint64_t i)
{
    return (int32_t)(hash(i + 1) % (uint64_t)b->n_vocab);
}

/* ---- cost ---- */

/* One pass of n rows: forks of the prompt, one row each; or one row and drafts, row r beneath row r - apart, the first
 * `apart` of them beneath the row. */
static double time_pass(struct bench *b, const int32_t *seq, int n, int apart)
{
    struct lutra_row row[ROWS_MOST];
    for (int r = 0; r < n; r++) {
        int up = apart == 0 || r == 0 ? -1 : r <= apart ? 0 : r - apart;
        row[r] = (struct lutra_row){.token = token_of(b, (uint64_t)r),
            .pos = up < 0 ? b->depth : row[up].pos + 1,
            .seq = apart ? seq[0] : seq[r],
            .parent = up,
            .want = LUTRA_WANT_TOPK | (up < 0 ? 0 : LUTRA_ROW_DRAFT)};
    }
    uint64_t start = now_us();
    OK(lutra_forward(b->s, row, n, sizeof *row, &b->err));
    double us = (double)(now_us() - start);
    for (int r = 0; r < n; r++)
        if (row[r].parent < 0) OK(lutra_seq_truncate(b->s, row[r].seq, b->depth, &b->err));
    return us;
}

static void cost(struct bench *b)
{
    static const struct {
        const char *name;
        int n, apart;
    } kind[] = {{"1 row", 1, 0}, {"8 forks", 8, 0}, {"1 row, 7 drafts in a chain", 8, 1}, {"16 forks", 16, 0},
        {"1 row, 15 drafts, 4 leaves", 16, 4}};
    enum { KINDS = sizeof kind / sizeof *kind };
    static double us[KINDS][ROUNDS_MOST];
    int32_t seq[ROWS_MOST];
    struct lutra_row *row = calloc((size_t)b->depth, sizeof *row);
    OK(lutra_seq_open(b->s, b->depth + ROWS_MOST, &seq[0], &b->err));
    for (int at = 0, n; at < b->depth; at += n) {
        n = b->depth - at < 512 ? b->depth - at : 512;
        for (int i = 0; i < n; i++)
            row[i] = (struct lutra_row){
                .token = token_of(b, (uint64_t)(at + i)), .pos = at + i, .seq = seq[0], .parent = i - 1};
        OK(lutra_forward(b->s, row, n, sizeof *row, &b->err));
    }
    free(row);
    for (int i = 1; i < ROWS_MOST; i++) OK(lutra_seq_fork(b->s, seq[0], -1, b->depth + ROWS_MOST, &seq[i], &b->err));
    for (int round = -2; round < b->rounds; round++)
        for (int k = 0; k < KINDS; k++) {
            double t = time_pass(b, seq, kind[k].n, kind[k].apart);
            if (round >= 0) us[k][round] = t;
        }
    double one = 0, forks = 0;
    printf("passes at depth %d, median of %d\n", b->depth, b->rounds);
    for (int k = 0; k < KINDS; k++) {
        double t = median(us[k], b->rounds);
        if (k == 0) one = t;
        if (kind[k].apart == 0) forks = t;
        printf("  %-28s %8.2f ms  %5.2f of one row", kind[k].name, t * 1e-3, t / one);
        if (kind[k].apart) printf("  %5.3f of as many forks", t / forks);
        printf("\n");
    }
    for (int i = 0; i < ROWS_MOST; i++) lutra_seq_close(b->s, seq[i]);
}

/* ---- calibration ---- */

/* Hints of a prompt of DEPTH tokens, against its evaluation. */
static void calibration(struct bench *b, struct lutra_session_settings ss)
{
    static double share[ROUNDS_MOST];
    int32_t *prompt = calloc((size_t)b->depth, sizeof *prompt);
    double prompt_ms = 0, hints_ms = 0;
    for (int k = 0; k < 2; k++) {
        ss.spec_type = "calibrated";
        ss.spec_shortlist = k ? 0 : 2048;
        ss.n_seq = 1;
        lutra_session *s;
        OK(lutra_session_open(&s, b->model, &ss, &b->err));
        for (int round = 0; round < b->rounds; round++) {
            struct lutra_request q;
            struct lutra_stats st;
            for (int i = 0; i < b->depth; i++) prompt[i] = token_of(b, (uint64_t)(i + 7919 * (round + 1)));
            lutra_request_init(&q, sizeof q);
            q.prompt = prompt;
            q.n_prompt = b->depth;
            q.max_tokens = 1;
            lutra_session_stats_reset(s);
            OK(lutra_generate(s, &q, &b->err));
            lutra_session_stats_get(s, &st, sizeof st);
            prompt_ms = (double)st.prompt_us * 1e-3;
            hints_ms = (double)st.hints_us * 1e-3;
            share[round] = hints_ms / prompt_ms;
        }
        printf("hints of %d tokens over %s: %.1f %% of evaluating them (median; last: %.0f of %.0f ms)\n", b->depth,
            k ? "the vocabulary" : "2048", 100 * median(share, b->rounds), hints_ms, prompt_ms);
        lutra_session_close(&s);
    }
    free(prompt);
}

/* ---- drafting ---- */

enum { PASSES_MOST = 4096 };

/* Passes over a text of two tokens at random, which drafters find everywhere; returns how many. */
static int time_passes(struct bench *b, lutra_session *s, double share[PASSES_MOST])
{
    int32_t *prompt = calloc((size_t)b->depth, sizeof *prompt);
    struct lutra_logit_bias bias[] = {{30, 1000}, {31, 1000}};
    struct lutra_sampling sampling;
    struct lutra_request q;
    struct lutra_stats before, after;
    int n = 0, active = 1;
    for (int i = 0; i < b->depth; i++) prompt[i] = i % 2 ? token_of(b, (uint64_t)i) : 30 + i / 2 * 7919 % 16;
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.bias = bias;
    sampling.n_bias = 2;
    lutra_request_init(&q, sizeof q);
    q.sampling = &sampling;
    q.prompt = prompt;
    q.n_prompt = b->depth;
    q.max_tokens = 8 * b->n_tok;
    q.ignore_end = true;
    OK(lutra_submit(s, &q, NULL, &b->err));
    while (active && n < b->n_tok && n < PASSES_MOST) {
        lutra_session_stats_get(s, &before, sizeof before);
        uint64_t start = now_us();
        OK(lutra_step(s, &active, &b->err));
        double us = (double)(now_us() - start);
        lutra_session_stats_get(s, &after, sizeof after);
        if (before.generated_tokens > 0) share[n++] = (double)(after.draft_us - before.draft_us) / us;
    }
    free(prompt);
    return n;
}

static void drafting(struct bench *b, struct lutra_session_settings ss)
{
    static const char *const types[] = {"ngram-simple", "suffix", "calibrated", "recycle", "auto"};
    static double share[PASSES_MOST];
    ss.n_seq = 1;
    ss.n_ctx = b->depth + 8 * b->n_tok + ROWS_MOST;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        lutra_session *s;
        ss.spec_type = types[i];
        OK(lutra_session_open(&s, b->model, &ss, &b->err));
        int n = time_passes(b, s, share);
        qsort(share, (size_t)n, sizeof *share, by_size);
        printf("drafting, %-12s behind %d: %.3f %% of a pass, p99 %.3f %% of %d\n", types[i], b->depth,
            100 * share[n / 2], 100 * share[n * 99 / 100], n);
        lutra_session_close(&s);
    }
}

/* ---- replay ---- */

struct replay {
    const struct bench *b;
    int32_t *text;  /* [SAMPLES][n_tok] as plain decoding has it */
    int n[SAMPLES]; /* tokens heard */
    double a;       /* < 0: no drafts */
    bool same;
    uint64_t first_us, end_us;    /* of the last sample */
    int n_pass, n_drafted;        /* of all */
    int n_by_rows[PASS_MOST + 1]; /* passes of decoding by their rows */
};

static bool is_right(int sample, int at, double a)
{
    return (double)(hash((uint64_t)(at + 977 + 65537 * sample)) >> 11) * 0x1p-53 < a;
}

static int on_text(void *user, const struct lutra_piece *p)
{
    struct replay *r = user;
    if (p->token < 0) return 0;
    int32_t *said = &r->text[p->sample * r->b->n_tok + r->n[p->sample]++];
    if (r->a < 0) *said = p->token;
    r->same &= *said == p->token;
    return 0;
}

static void on_end(void *user, const struct lutra_end *end)
{
    struct replay *r = user;
    r->first_us = end->first_us;
    r->end_us = end->end_us > r->end_us ? end->end_us : r->end_us;
    r->n_pass += end->n_pass;
    r->n_drafted += end->n_drafted;
}

static int on_draft(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    const struct replay *r = user;
    int n = 0, at = tip->n_token - PROMPT;
    for (; n < n_max && n < DRAFTS && at + n < r->b->n_tok; n++) {
        int32_t token = r->text[tip->sample * r->b->n_tok + at + n];
        draft[n] =
            (struct lutra_draft){.token = is_right(tip->sample, at + n, r->a) ? token : (token + 1) % r->b->n_vocab,
                .parent = n - 1,
                .p = (float)r->a};
    }
    return n;
}

/* Milliseconds a token of all samples, the first left out. */
static double decode(struct bench *b, struct replay *r, int n_samples, double a)
{
    int32_t prompt[PROMPT];
    struct lutra_request q;
    lutra_request_init(&q, sizeof q);
    for (int i = 0; i < PROMPT; i++) prompt[i] = token_of(b, (uint64_t)i);
    q.prompt = prompt;
    q.n_prompt = PROMPT;
    q.n_samples = n_samples;
    q.max_tokens = b->n_tok;
    q.ignore_end = true;
    q.on_text = on_text;
    q.on_end = on_end;
    q.on_draft = a < 0 ? NULL : on_draft;
    q.user = r;
    *r = (struct replay){.b = b, .text = r->text, .a = a, .same = true};
    OK(lutra_submit(b->s, &q, NULL, &b->err));
    for (int active = 1; active;) {
        struct lutra_stats before, after;
        lutra_session_stats_get(b->s, &before, sizeof before);
        OK(lutra_step(b->s, &active, &b->err));
        lutra_session_stats_get(b->s, &after, sizeof after);
        uint64_t n = after.rows_valid + after.rows_wasted - before.rows_valid - before.rows_wasted;
        if (n <= PASS_MOST) r->n_by_rows[n]++;
    }
    if (!r->same) fprintf(stderr, "a = %.2f: another text\n", a), exit(1);
    return (double)(r->end_us - r->first_us) * 1e-3 / (n_samples * (b->n_tok - 1));
}

/* What the best fixed chain would have taken: ms a token, and its length. */
static double best_chain(const struct bench *b, int n_samples, double a, double ms[SAMPLES][DRAFTS + 1], int *length)
{
    double best = 0;
    for (int k = 0; k <= DRAFTS; k++) {
        int at[SAMPLES] = {0}, left = n_samples;
        double sum = 0;
        for (int s = 0; s < n_samples; s++) at[s] = 1;
        while (left > 0) {
            sum += ms[left - 1][k];
            for (int s = 0; s < n_samples; s++) {
                if (at[s] >= b->n_tok) continue;
                int n = 0;
                while (n < k && at[s] + n < b->n_tok && is_right(s, at[s] + n, a)) n++;
                at[s] += n + 1;
                left -= at[s] >= b->n_tok;
            }
        }
        sum /= n_samples * (b->n_tok - 1);
        if (k == 0 || sum < best) best = sum, *length = k;
    }
    return best;
}

/* Passes of 1 .. 4 sequences with chains of 0 .. DRAFTS drafts, in the middle of what is replayed. */
static void time_chains(struct bench *b, double ms[SAMPLES][DRAFTS + 1])
{
    enum { TIMES = 3 };
    double us[SAMPLES][DRAFTS + 1][TIMES];
    int depth = PROMPT + b->n_tok / 2;
    int32_t seq[SAMPLES];
    struct lutra_row row[512];
    OK(lutra_seq_open(b->s, depth + 16, &seq[0], &b->err));
    for (int at = 0, n; at < depth; at += n) {
        n = depth - at < 512 ? depth - at : 512;
        for (int i = 0; i < n; i++)
            row[i] = (struct lutra_row){
                .token = token_of(b, (uint64_t)(at + i)), .pos = at + i, .seq = seq[0], .parent = i - 1};
        OK(lutra_forward(b->s, row, n, sizeof *row, &b->err));
    }
    for (int i = 1; i < SAMPLES; i++) OK(lutra_seq_fork(b->s, seq[0], -1, depth + 16, &seq[i], &b->err));
    for (int time = -1; time < TIMES; time++)
        for (int n = 1; n <= SAMPLES; n++)
            for (int k = 0; k <= DRAFTS; k++) {
                for (int i = 0; i < n * (k + 1); i++) {
                    int at = i % (k + 1);
                    row[i] = (struct lutra_row){.token = token_of(b, (uint64_t)i),
                        .pos = depth + at,
                        .seq = seq[i / (k + 1)],
                        .parent = at ? i - 1 : -1,
                        .want = LUTRA_WANT_TOPK | (at ? LUTRA_ROW_DRAFT : 0)};
                }
                uint64_t start = now_us();
                OK(lutra_forward(b->s, row, n * (k + 1), sizeof *row, &b->err));
                if (time >= 0) us[n - 1][k][time] = (double)(now_us() - start);
                for (int i = 0; i < n; i++) OK(lutra_seq_truncate(b->s, seq[i], depth, &b->err));
            }
    for (int n = 0; n < SAMPLES; n++)
        for (int k = 0; k <= DRAFTS; k++) ms[n][k] = median(us[n][k], TIMES) * 1e-3;
    for (int i = 0; i < SAMPLES; i++) lutra_seq_close(b->s, seq[i]);
}

/* The time of a pass of so many rows, on the line between those that were timed. */
static double time_of_rows(double ms[SAMPLES][DRAFTS + 1], int n_row)
{
    double us[PASS_MOST + 1] = {0};
    int times[PASS_MOST + 1] = {0}, below = 1, above;
    for (int n = 1; n <= SAMPLES; n++)
        for (int k = 0; k <= DRAFTS; k++) us[n * (k + 1)] += ms[n - 1][k], times[n * (k + 1)]++;
    for (int n = 1; n <= n_row && n <= SAMPLES * (DRAFTS + 1); n++)
        if (times[n]) below = n;
    for (above = n_row; above < SAMPLES * (DRAFTS + 1) && !times[above];) above++;
    if (above > SAMPLES * (DRAFTS + 1) || above <= below) return us[below] / times[below] * n_row / below;
    double low = us[below] / times[below], high = us[above] / times[above];
    return low + (high - low) * (n_row - below) / (above - below);
}

/* One setting: what each round measured. */
struct setting {
    double ms[ROUNDS_MOST], over_best[ROUNDS_MOST], passes_over_best[ROUNDS_MOST];
    double length, rows, find;
    int best_length;
};

static void replay_once(
    struct bench *b, struct replay *r, int n_samples, double a, struct setting *to, int round, double (*ms)[DRAFTS + 1])
{
    struct lutra_stats s;
    lutra_session_stats_reset(b->s);
    double t = decode(b, r, n_samples, a), passes = 0;
    lutra_session_stats_get(b->s, &s, sizeof s);
    to->length = (double)b->n_tok * n_samples / r->n_pass;
    to->rows = 1 + (double)r->n_drafted / r->n_pass;
    to->find = (double)s.draft_us / (double)s.decode_us;
    if (round < 0) return;
    to->ms[round] = t;
    if (!ms) return;
    double best = best_chain(b, n_samples, a, ms, &to->best_length);
    for (int n = 1; n <= PASS_MOST; n++)
        if (r->n_by_rows[n]) passes += r->n_by_rows[n] * time_of_rows(ms, n);
    to->over_best[round] = t / best;
    to->passes_over_best[round] = passes / (n_samples * (b->n_tok - 1)) / best;
}

static void compare(struct bench *b, const double *right, int n_right, int n_samples, bool with_best)
{
    static double plain[ROUNDS_MOST], ms[SAMPLES][DRAFTS + 1];
    static struct setting of[RATES_MOST];
    struct replay r = {.text = calloc(SAMPLES * (size_t)b->n_tok, sizeof *r.text)};
    for (int round = -1; round < b->rounds; round++) { /* round -1 learns what passes cost */
        if (with_best && round >= 0) time_chains(b, ms);
        double t = decode(b, &r, n_samples, -1);
        if (round >= 0) plain[round] = t;
        for (int i = 0; i < n_right; i++) replay_once(b, &r, n_samples, right[i], &of[i], round, with_best ? ms : NULL);
    }
    double base = median(plain, b->rounds);
    printf("replay of %d tokens behind %d, %d samples, median of %d; plain %.2f ms a token\n", b->n_tok, PROMPT,
        n_samples, b->rounds, base);
    for (int i = 0; i < n_right; i++) {
        double t = median(of[i].ms, b->rounds);
        printf("  a = %.2f  accept length %5.2f  rows %5.2f  %7.2f ms a token  %5.2fx  drafting %.2f %%", right[i],
            of[i].length, of[i].rows, t, base / t, 100 * of[i].find);
        if (with_best)
            printf("  of the best chain (%d) %.3f, its passes %.3f", of[i].best_length,
                median(of[i].over_best, b->rounds), median(of[i].passes_over_best, b->rounds));
        printf("\n");
    }
    free(r.text);
}

int main(int argc, char **argv)
{
    struct bench all = {.depth = 1024, .n_tok = 128, .rounds = 5}, *b = &all;
    const char *model = NULL, *parts = "chdrb";
    struct lutra_runtime_settings rs;
    struct lutra_session_settings ss;
    struct lutra_model_info info;
    lutra_runtime_settings_init(&rs, sizeof rs);
    lutra_session_settings_init(&ss, sizeof ss);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "-m") == 0) model = argv[i + 1];
        if (strcmp(argv[i], "-p") == 0) parts = argv[i + 1];
        if (strcmp(argv[i], "-t") == 0) rs.n_threads = atoi(argv[i + 1]);
        if (strcmp(argv[i], "-d") == 0) b->depth = atoi(argv[i + 1]);
        if (strcmp(argv[i], "-n") == 0) b->n_tok = atoi(argv[i + 1]);
        if (strcmp(argv[i], "-r") == 0) b->rounds = atoi(argv[i + 1]);
    }
    if (!model || b->depth < 1 || b->n_tok < 2 || b->rounds < 1 || b->rounds > ROUNDS_MOST) {
        fprintf(stderr, "use: %s -m MODEL [-p PARTS] [-t THREADS] [-d DEPTH] [-n TOKENS] [-r ROUNDS]\n", argv[0]);
        return 1;
    }
    OK(lutra_runtime_open(&b->rt, &rs, &b->err));
    OK(lutra_model_open(&b->model, b->rt, model, NULL, &b->err));
    lutra_model_info_get(b->model, &info, sizeof info);
    b->n_vocab = info.n_vocab;
    ss.n_seq = ROWS_MOST;
    ss.n_ctx = (b->depth > PROMPT + b->n_tok ? b->depth : PROMPT + b->n_tok) + ROWS_MOST;
    OK(lutra_session_open(&b->s, b->model, &ss, &b->err));
    printf("%s, %s\n", info.name, lutra_runtime_device_text(b->rt));
    if (strchr(parts, 'c')) cost(b);
    if (strchr(parts, 'h')) calibration(b, ss);
    if (strchr(parts, 'd')) drafting(b, ss);
    if (strchr(parts, 'r')) compare(b, replayed, (int)(sizeof replayed / sizeof *replayed), 1, false);
    for (int n = 1; strchr(parts, 'b') && n <= SAMPLES; n += SAMPLES - 1)
        compare(b, budgeted, (int)(sizeof budgeted / sizeof *budgeted), n, true);
    lutra_session_close(&b->s);
    lutra_model_close(&b->model);
    lutra_runtime_close(&b->rt);
    return 0;
}
