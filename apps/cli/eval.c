/* SPDX-License-Identifier: MIT */
#include "eval.h"

#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct eval_options, field)

static const struct option eval_table[] = {
    {"-f --file", NULL, OPT_TEXT, AT(file), "FILE",
        .help = "problems: one JSON object per line, {\"question\", \"answer\"}"},
    {"--limit", NULL, OPT_INT, AT(limit), "N", .help = "only the first N problems; 0 = all", .min = 0, .max = 1 << 24},
    {"--n", NULL, OPT_INT, AT(n), "N", .help = "samples per problem; 0 = greedy only", .min = 0,
        .max = EVAL_SAMPLES_MAX},
    {"--vote", NULL, OPT_ON, AT(vote), NULL, .help = "majority of the first 1, 2, 4, ... samples (default)"},
    {"--no-vote", NULL, OPT_OFF, AT(vote), NULL, .help = "no majorities"},
    {"--greedy", NULL, OPT_ON, AT(greedy), NULL, .help = "a greedy answer per problem (default)"},
    {"--no-greedy", NULL, OPT_OFF, AT(greedy), NULL, .help = "no greedy answers"},
    {"-np --np --parallel", "N_PARALLEL", OPT_INT, AT(parallel), "N", .help = "sequences decoded at once", .min = 1,
        .max = 4096},
    {"--max-tokens -n --predict", NULL, OPT_INT, AT(max_tokens), "N", .help = "most tokens of an answer", .min = 1,
        .max = 1 << 20},
    {"-sys --system-prompt", NULL, OPT_TEXT, AT(system), "TEXT", .help = "system message before each question"},
    {"--chat-template-file", "CHAT_TEMPLATE_FILE", OPT_TEXT, AT(template_file), "FILE",
        .help = "chat template instead of the model's"},
    {"--report", NULL, OPT_TEXT, AT(report), "FILE",
        .help = "everything, answer by answer, as JSON; appears whole or not at all"},
    {"--table", NULL, OPT_ON, AT(table), NULL, .help = "explain the rows below the table"},
};
#undef AT

static void set_defaults(void *opts)
{
    struct eval_options *o = opts;
    engine_options_init(&o->engine);
    sampling_options_init(&o->sampling);
    o->sampling.seed = 1;
    o->n = 16;
    o->parallel = 64;
    o->max_tokens = 512;
    o->vote = o->greedy = true;
}

static int list_sets(void *opts, struct option_set *set)
{
    struct eval_options *o = opts;
    set[0] = (struct option_set){"Evaluation", eval_table, OPTION_COUNT(eval_table), o};
    set[1] = engine_option_set(&o->engine);
    set[2] = sampling_option_set(&o->sampling);
    set[3] = output_option_set(&o->engine);
    return 4;
}

/* A context no longer than the longest problem needs keeps the cache small. */
static int open_session(struct engine *e, const struct eval_options *o, int longest)
{
    struct lutra_session_settings settings = lutra_session_settings_default();
    int n_ctx = o->engine.n_ctx ? o->engine.n_ctx : longest + o->max_tokens;
    if (!o->engine.n_ctx && e->info.n_ctx_train > 0 && n_ctx > e->info.n_ctx_train) n_ctx = e->info.n_ctx_train;
    settings.n_ctx = n_ctx;
    settings.n_seq = o->parallel;
    settings.n_out = o->parallel > 64 ? o->parallel : 64;
    return engine_open_session(e, &o->engine, settings);
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct eval_options *o = opts;
    struct eval_set set = {0};
    struct engine e = {0};
    struct lutra_logit_bias bias[OPTION_LIST_MAX];
    struct lutra_sampling sampling;
    struct eval_pass greedy = {0}, samples = {0};
    int longest = 0;
    (void)arg, (void)n_arg;
    if (!o->file || (!o->greedy && o->n == 0)) {
        say(o->file ? "eval: --no-greedy with --n 0 leaves nothing to do"
                    : "eval: no problems: give a JSONL file with -f");
        return EXIT_USAGE;
    }
    int code = sampling_from_options(&o->sampling, bias, &sampling);
    if (!code) code = eval_read(&set, o->file, o->limit, o->n);
    if (!code) code = engine_open(&e, &o->engine, false);
    if (!code) code = eval_tokenize(&set, &e, o, &longest);
    if (!code) code = open_session(&e, o, longest);
    if (!code && o->greedy) code = eval_run(&set, &e, &sampling, 0, o->max_tokens, "greedy", &greedy);
    if (!code && o->n > 0) code = eval_run(&set, &e, &sampling, o->n, o->max_tokens, "samples", &samples);
    if (!code) {
        struct eval_result *result = get_memory(sizeof *result);
        eval_score(&set, o, &greedy, &samples, sampling.seed, result);
        eval_print(&set, result, o);
        if (o->report) code = eval_report(&set, result, o, &e, &sampling, &greedy, &samples);
        free(result);
    }
    engine_close(&e);
    eval_free(&set);
    return code;
}

const struct command command_eval = {
    .name = "eval",
    .arguments = "",
    .summary = "Score answers to problems: greedy, sampled and by majority vote",
    .notes =
        "The answer of a text is what follows its last ####, compared as a number where it is one (1,200.0 = $1200).\n"
        "vote@k: the most frequent answer of the first k samples; samples without an answer do not vote, ties go to\n"
        "the answer seen first.  any@k: one of k is right.  mean sample: the average of single samples.  Intervals "
        "are\n"
        "bootstrap over problems, 10,000 resamples; t/s is measured over the pass that drew the tokens.",
    .opts_bytes = sizeof(struct eval_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
