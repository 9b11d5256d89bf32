/* SPDX-License-Identifier: MIT
 *
 * Perplexity of a text, counted as llama-perplexity counts it: the text's tokens are cut into chunks of the context,
 * each begins afresh (with the beginning token in place of its first where the model adds one), and the second half of
 * each is scored. For perplexity alone every scored token is a row's target: no row of logits leaves the head.
 */
#include "perplexity/perplexity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOGIT_ROWS = 128 /* of a pass whose logits are looked at */ };

#define AT(field) offsetof(struct perplexity_options, field)

static const struct option perplexity_table[] = {
    {"-f --file -bf --binary-file", "FILE", OPT_TEXT, AT(file), "FILE",
        .help = "the text, or the tasks; - = standard input", .common = true},
    {"-p --prompt", "PROMPT", OPT_TEXT, AT(prompt), "TEXT", .help = "the text itself"},
    {"--no-escape", NULL, OPT_OFF, AT(escape), NULL, .help = "leave backslashes in -p alone"},
    {"--chunks", "CHUNKS", OPT_INT, AT(n_chunk), "N", .help = "at most so many chunks; 0 = all", .min = 0,
        .max = 1 << 30, .common = true},
    {"--kl-divergence-base --save-all-logits", NULL, OPT_TEXT, AT(base), "FILE",
        .help = "write the log-probabilities of all tokens at all scored positions to this file"},
    {"--kl-divergence", NULL, OPT_ON, AT(divergence), NULL,
        .help = "how far the model is from the one that wrote --kl-divergence-base, over its text"},
    {"--hellaswag", NULL, OPT_ON, AT(hellaswag), NULL,
        .help = "the likeliest of four endings: six lines a task, context, right ending (0 to 3), endings"},
    {"--hellaswag-tasks", NULL, OPT_INT, AT(hellaswag_tasks), "N",
        .help = "so many of them, drawn as llama-perplexity draws", .min = 1, .max = 1 << 24, .needs = "--hellaswag"},
    {"--winogrande", NULL, OPT_ON, AT(winogrande), NULL,
        .help = "the likelier of two words: a line a task, number,sentence with _,word,word,1 or 2"},
    {"--winogrande-tasks", NULL, OPT_INT, AT(winogrande_tasks), "N", .help = "so many of them; 0 = all", .min = 0,
        .max = 1 << 24, .needs = "--winogrande"},
    {"--multiple-choice", NULL, OPT_ON, AT(choice), NULL,
        .help = "the likeliest answer, from a binary file (ARC, MMLU, TruthfulQA for llama-perplexity)"},
    {"--multiple-choice-tasks", NULL, OPT_INT, AT(choice_tasks), "N", .help = "so many of them; 0 = all", .min = 0,
        .max = 1 << 24, .needs = "--multiple-choice"},
};
#undef AT

static void set_defaults(void *opts)
{
    struct perplexity_options *o = opts;
    engine_options_init(&o->engine);
    o->engine.n_ctx = 512;
    o->escape = true;
    o->hellaswag_tasks = 400;
}

static int list_sets(void *opts, struct option_set *set)
{
    struct perplexity_options *o = opts;
    set[0] = (struct option_set){"Text", perplexity_table, OPTION_COUNT(perplexity_table), o, NULL};
    set[1] = engine_option_set(&o->engine);
    set[2] = output_option_set(&o->engine);
    return 3;
}

/* What is made of scored positions. */
struct score {
    int64_t n; /* negative log-likelihoods so far */
    double sum, squares;
    struct base *base;             /* written, or read with: */
    struct divergence *divergence; /* NULL: no comparison */
    float *log_prob;               /* [n_vocab] of the base */
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

/* 0 or an exit code. */
static int take(struct score *s, const struct lutra_row_result *r, int32_t token)
{
    double nll = (double)r->log_sum_exp - (double)r->target_logit;
    s->n++;
    s->sum += nll;
    s->squares += nll * nll;
    if (!s->base) return 0;
    if (!s->divergence) return base_add(s->base, r->logits, (double)r->log_sum_exp);
    int code = base_next(s->base, s->log_prob);
    if (!code) divergence_add(s->divergence, r->logits, (double)r->log_sum_exp, s->log_prob, s->base->n_vocab, token);
    return code;
}

/* Chunk ids[n]; the tokens behind the first half, from n / 2 + 1 on, are scored, and those before are read as a prompt.
 * 0 or an exit code after a message. */
static int score_chunk(
    const struct engine *e, const int32_t *ids, int n, int32_t bos, struct lutra_row *row, int n_batch, struct score *s)
{
    struct lutra_error err = {0};
    int32_t seq;
    if (lutra_seq_open(e->session, n, &seq, &err) < 0) return fail_with(&err);
    int code = 0;
    uint32_t want = LUTRA_WANT_LOGPROB | (s->base ? LUTRA_WANT_LOGITS : 0);
    for (int at = 0; at < n && !code; at += n_batch) {
        int n_row = n - at < n_batch ? n - at : n_batch, n_wanted = 0;
        for (int i = 0; i < n_row; i++) {
            int pos = at + i;
            bool scored = pos >= n / 2 && pos + 1 < n;
            row[i] = (struct lutra_row){.token = pos == 0 && bos >= 0 ? bos : ids[pos],
                .pos = pos,
                .seq = seq,
                .parent = i - 1,
                .want = scored ? want : LUTRA_ROW_BULK,
                .target = scored ? ids[pos + 1] : 0};
            n_wanted += scored;
        }
        if (lutra_forward(e->session, row, n_row, sizeof *row, &err) < 0) code = fail_with(&err);
        for (int i = 0; i < n_wanted && !code; i++) {
            const struct lutra_row_result *r = lutra_forward_result(e->session, i);
            code = take(s, r, row[r->row].target);
        }
    }
    lutra_seq_close(e->session, seq);
    return code;
}

/* ids: n_chunk chunks of n_ctx. */
static int score_all(
    struct engine *e, const struct perplexity_options *o, const int32_t *ids, int n_ctx, int n_chunk, struct score *s)
{
    int n_batch = s->base && o->engine.n_batch > LOGIT_ROWS ? LOGIT_ROWS : o->engine.n_batch, code = 0;
    struct lutra_session_settings set;
    struct engine_options opts = o->engine;
    lutra_session_settings_init(&set, sizeof set);
    set.n_seq = 1;
    set.n_out = opts.n_batch = n_batch;
    opts.n_ctx = n_ctx;
    code = engine_open_session(e, &opts, set);
    struct lutra_row *row = get_memory((size_t)n_batch * sizeof *row);
    for (int i = 0; i < n_chunk && !code; i++) {
        progress_show("chunks", (uint64_t)i, (uint64_t)n_chunk);
        code =
            score_chunk(e, ids + (size_t)i * (size_t)n_ctx, n_ctx, e->info.add_bos ? e->info.bos : -1, row, n_batch, s);
        if (!code && o->engine.verbose) say("chunk %d: %.4f", i + 1, perplexity_of(s));
        if (!code && interrupted()) code = EXIT_INTERRUPTED;
    }
    free(row);
    progress_clear();
    return code;
}

/* The text's tokens in chunks: perplexity, and their log-probabilities into a file where that is asked for. */
static int score_text(struct engine *e, const struct perplexity_options *o, const struct tokens *tokens)
{
    struct base base = {0};
    struct score s = {.base = o->base ? &base : NULL};
    int n_ctx = o->engine.n_ctx ? o->engine.n_ctx : e->info.n_ctx_train, n_chunk = tokens->n / n_ctx, code = 0;
    if (o->n_chunk > 0 && o->n_chunk < n_chunk) n_chunk = o->n_chunk;
    if (tokens->n < 2 * n_ctx || n_ctx < 4) {
        say("perplexity: the text has %d tokens; chunks of %d need at least %d (-c N takes shorter ones, from 4 on)",
            tokens->n, n_ctx, 2 * n_ctx);
        return EXIT_FAILED;
    }
    if (o->base) code = base_create(&base, o->base, n_ctx, e->info.n_vocab, n_chunk, tokens->id);
    if (!code) code = score_all(e, o, tokens->id, n_ctx, n_chunk, &s);
    int closed = base_close(&base, !code);
    if (!code) code = closed;
    if (code) return code;
    printf("perplexity %.4f +/- %.5f: %lld tokens of %d chunks of %d\n", perplexity_of(&s), error_of(&s),
        (long long)s.n, n_chunk, n_ctx);
    return EXIT_OK;
}

/* The same text as in --kl-divergence-base, whose tokens are there. */
static int diverge(struct engine *e, const struct perplexity_options *o)
{
    struct base base;
    struct divergence d = {0};
    int code = base_open(&base, o->base);
    if (!code && base.n_vocab != e->info.n_vocab) {
        say("%s: log-probabilities of %d tokens; %s has %d", o->base, base.n_vocab, o->engine.model, e->info.n_vocab);
        code = EXIT_FAILED;
    }
    for (int64_t i = 0; !code && i < (int64_t)base.n_chunk * base.n_ctx; i++) {
        if (base.ids[i] >= 0 && base.ids[i] < base.n_vocab) continue;
        say("%s: token %d is outside 0..%d", o->base, base.ids[i], base.n_vocab - 1);
        code = EXIT_FAILED;
    }
    if (!code) {
        struct score s = {.base = &base, .divergence = &d};
        int n_chunk = o->n_chunk > 0 && o->n_chunk < base.n_chunk ? o->n_chunk : base.n_chunk;
        s.log_prob = get_memory((size_t)base.n_vocab * sizeof *s.log_prob);
        code = score_all(e, o, base.ids, base.n_ctx, n_chunk, &s);
        free(s.log_prob);
    }
    if (!code) divergence_print(&d);
    divergence_free(&d);
    base_close(&base, false);
    return code;
}

/* NULL, or what is asked for that cannot be. */
static const char *check_options(const struct perplexity_options *o)
{
    int n_tasks = o->hellaswag + o->winogrande + o->choice;
    if (n_tasks + o->divergence > 1) return "give one of --hellaswag, --winogrande, --multiple-choice, --kl-divergence";
    if (n_tasks && !o->file) return "the file of tasks is given with -f";
    if (n_tasks && (o->base || o->prompt)) return "tasks go with neither -p nor --kl-divergence-base";
    if (o->divergence && !o->base) return "--kl-divergence needs --kl-divergence-base";
    if (!n_tasks && !o->divergence && (o->prompt != NULL) + (o->file != NULL) != 1)
        return "give the text with one of -f or -p";
    return NULL;
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
    const char *why = check_options(o);
    if (why) {
        say("perplexity: %s", why);
        return EXIT_USAGE;
    }
    code = engine_find_model(&o->engine);
    if (code) return code;
    if (o->hellaswag || o->winogrande || o->choice) return choices_score(o);
    if (o->prompt && !o->divergence) {
        buffer_add(&text, o->prompt, strlen(o->prompt));
        if (o->escape) unescape(text.text, &text.n_bytes);
    } else if (!o->divergence && read_file(o->file, &text) < 0) {
        code = EXIT_FAILED;
    }
    if (!code) code = engine_open(&e, &o->engine, false);
    if (!code && !o->divergence && tokenize(e.model, text.text, text.n_bytes, LUTRA_ADD_SPECIAL, &tokens, &err) < 0)
        code = fail_with(&err);
    if (!code) code = o->divergence ? diverge(&e, o) : score_text(&e, o, &tokens);
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
             "Compare figures of one text, one tokenizer and one -c only. Files of tasks and of log-probabilities are\n"
             "llama-perplexity's, too.",
    .opts_bytes = sizeof(struct perplexity_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
