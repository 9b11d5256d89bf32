/* SPDX-License-Identifier: MIT
 *
 * Perplexity of a text, counted as llama-perplexity counts it: the text's tokens are cut into chunks of the context, each begins
 * afresh (with the beginning token in place of its first where the model adds one), and the second half of each is scored.
 * Every scored token is a row's target: no row of logits leaves the head.
 */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct perplexity_options {
    struct engine_options engine;
    const char *prompt, *file;
    int n_chunk;
    bool escape;
};

#define AT(field) offsetof(struct perplexity_options, field)

static const struct option perplexity_table[] = {
    {"-f --file", "FILE", OPT_TEXT, AT(file), "FILE", .help = "the text; - = standard input", .common = true},
    {"-p --prompt", "PROMPT", OPT_TEXT, AT(prompt), "TEXT", .help = "the text itself"},
    {"--no-escape", NULL, OPT_OFF, AT(escape), NULL, .help = "leave backslashes in -p alone"},
    {"--chunks", "CHUNKS", OPT_INT, AT(n_chunk), "N", .help = "at most so many chunks; 0 = all", .min = 0,
        .max = 1 << 30, .common = true},
};
#undef AT

static void set_defaults(void *opts)
{
    struct perplexity_options *o = opts;
    engine_options_init(&o->engine);
    o->engine.n_ctx = 512;
    o->escape = true;
}

static int list_sets(void *opts, struct option_set *set)
{
    struct perplexity_options *o = opts;
    set[0] = (struct option_set){"Text", perplexity_table, OPTION_COUNT(perplexity_table), o};
    set[1] = engine_option_set(&o->engine);
    set[2] = output_option_set(&o->engine);
    return 3;
}

/* Negative log-likelihoods so far. */
struct score {
    int64_t n;
    double sum, squares;
};

static double perplexity_of(const struct score *s)
{
    return exp(s->sum / (double)s->n);
}

/* The standard error of the mean, carried over to its exponential. */
static double error_of(const struct score *s)
{
    double mean = s->sum / (double)s->n, variance = s->squares / (double)s->n - mean * mean;
    return s->n > 1 && variance > 0 ? sqrt(variance / (double)(s->n - 1)) * perplexity_of(s) : 0;
}

/* Chunk ids[n]; the tokens behind the first half, from n / 2 + 1 on, are scored. */
static int score_chunk(const struct engine *e, const int32_t *ids, int n, int32_t bos, struct lutra_row *row,
    int n_batch, struct score *s, struct lutra_error *err)
{
    int32_t seq;
    int rc = lutra_seq_open(e->session, n, &seq, err);
    if (rc < 0) return rc;
    for (int at = 0; at < n && rc == 0; at += n_batch) {
        int n_row = n - at < n_batch ? n - at : n_batch, n_wanted = 0;
        for (int i = 0; i < n_row; i++) {
            int pos = at + i;
            bool scored = pos >= n / 2 && pos + 1 < n;
            row[i] = (struct lutra_row){.token = pos == 0 && bos >= 0 ? bos : ids[pos],
                .pos = pos,
                .seq = seq,
                .parent = i - 1,
                .want = scored ? LUTRA_WANT_LOGPROB : 0,
                .target = scored ? ids[pos + 1] : 0};
            n_wanted += scored;
        }
        rc = lutra_forward(e->session, row, n_row, sizeof *row, err);
        for (int i = 0; i < n_wanted && rc == 0; i++) {
            const struct lutra_row_result *r = lutra_forward_result(e->session, i);
            double nll = (double)r->log_sum_exp - (double)r->target_logit;
            s->n++;
            s->sum += nll;
            s->squares += nll * nll;
        }
    }
    lutra_seq_close(e->session, seq);
    return rc;
}

static int score_all(struct engine *e, const struct perplexity_options *o, const struct tokens *tokens)
{
    struct lutra_error err = {0};
    struct score s = {0};
    int n_ctx, n_batch = o->engine.n_batch, n_chunk;
    lutra_session_sizes(e->session, &n_ctx, NULL, NULL);
    n_chunk = tokens->n / n_ctx;
    if (o->n_chunk > 0 && o->n_chunk < n_chunk) n_chunk = o->n_chunk;
    if (tokens->n < 2 * n_ctx) {
        say("perplexity: the text has %d tokens; chunks of %d need at least %d (-c N takes shorter ones)", tokens->n,
            n_ctx, 2 * n_ctx);
        return EXIT_FAILED;
    }
    struct lutra_row *row = get_memory((size_t)n_batch * sizeof *row);
    int rc = 0;
    for (int i = 0; i < n_chunk && rc == 0; i++) {
        progress_show("chunks", (uint64_t)i, (uint64_t)n_chunk);
        rc = score_chunk(e, tokens->id + (size_t)i * (size_t)n_ctx, n_ctx, e->info.add_bos ? e->info.bos : -1, row,
            n_batch, &s, &err);
        if (rc == 0 && o->engine.verbose) say("chunk %d: %.4f", i + 1, perplexity_of(&s));
    }
    free(row);
    progress_clear();
    if (rc < 0) return fail_with(&err);
    printf("perplexity %.4f +/- %.5f: %lld tokens of %d chunks of %d\n", perplexity_of(&s), error_of(&s),
        (long long)s.n, n_chunk, n_ctx);
    return EXIT_OK;
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct perplexity_options *o = opts;
    struct engine e = {0};
    struct buffer text = {0};
    struct tokens tokens = {0};
    struct lutra_error err = {0};
    int code = 0;
    (void)arg, (void)n_arg;
    if ((o->prompt != NULL) + (o->file != NULL) != 1) {
        say("perplexity: give the text with one of -f or -p");
        return EXIT_USAGE;
    }
    if (o->prompt) {
        buffer_add(&text, o->prompt, strlen(o->prompt));
        if (o->escape) unescape(text.text, &text.n_bytes);
    } else if (read_file(o->file, &text) < 0) {
        code = EXIT_FAILED;
    }
    if (!code) code = engine_open(&e, &o->engine, false);
    if (!code && tokenize(e.model, text.text, text.n_bytes, LUTRA_ADD_SPECIAL, &tokens, &err) < 0)
        code = fail_with(&err);
    struct lutra_session_settings settings;
    lutra_session_settings_init(&settings, sizeof settings);
    settings.n_seq = 1;
    settings.n_out = o->engine.n_batch;
    if (!code) code = engine_open_session(&e, &o->engine, settings);
    if (!code) code = score_all(&e, o, &tokens);
    engine_close(&e);
    buffer_free(&text);
    free(tokens.id);
    return code;
}

const struct command command_perplexity = {
    .name = "perplexity",
    .arguments = "",
    .summary = "How well a model predicts a text",
    .notes = "The figure of llama-perplexity: the text is cut into chunks of -c tokens, and the second half of each is "
             "scored.\n"
             "Compare figures of one text, one tokenizer and one -c only.",
    .opts_bytes = sizeof(struct perplexity_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
