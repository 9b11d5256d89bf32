/* SPDX-License-Identifier: MIT */
#include "eval/eval.h"
#include "eval/spec.h"

#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct eval_options, field)

static const struct option eval_table[] = {
    {"-f --file", NULL, OPT_TEXT, AT(file), "FILE",
        .help = "problems, one JSON object per line: {\"question\", \"answer\"} (GSM8K), {\"problem\", \"answer\"} "
                "(MATH500), or multiple choice (WinoGrande, MMLU, HellaSwag)"},
    {"--format", NULL, OPT_CHOICE, AT(format), "NAME",
        .help = "form of the problems: auto, jsonl, gsm8k, math500, winogrande, mmlu, hellaswag",
        .choices = "auto jsonl gsm8k math500 winogrande mmlu hellaswag"},
    {"--methods", NULL, OPT_TEXT, AT(methods), "LIST",
        .help = "what to compare, separated by commas: greedy, sample, vote@N, any@N, weighted@N, best@N, beam@BxE, "
                "dvts@BxE (B beams, E children each), rebase@N, auto@T (what a budget of T tokens, or T ms like 20ms, "
                "buys); the N samples are drawn once for all of them"},
    {"--auto-table", NULL, OPT_TEXT, AT(auto_table), "FILE",
        .help = "what auto chooses from: a report of lutra eval (on other problems than these)", .needs = "--methods"},
    {"--timed", NULL, OPT_INT, AT(timed), "N",
        .help = "measure latency (median and quartiles) and energy of each method alone on the first N problems, one "
                "at a time, the methods in turns; -1 = 10 with --svg, else 0",
        .min = -1, .max = 1 << 24},
    {"--grade", NULL, OPT_TEXT, AT(grade), "CMD",
        .help =
            "what makes an answer right: answer (equal to the problem's), or a checker like --check's that gives 1"},
    {"--svg", NULL, OPT_TEXT, AT(svg), "FILE", .help = "accuracy against latency and rows, as a picture"},
    {"--limit", NULL, OPT_INT, AT(limit), "N", .help = "only the first N problems; 0 = all", .min = 0, .max = 1 << 24},
    {"--n", NULL, OPT_INT, AT(n), "N", .help = "samples per problem (without --methods); 0 = greedy only", .min = 0,
        .max = EVAL_WIDTH_MAX, .excludes = "--methods"},
    {"--vote", NULL, OPT_ON, AT(vote), NULL, .help = "majority of the first 1, 2, 4, ... samples (default)",
        .excludes = "--methods"},
    {"--no-vote", NULL, OPT_OFF, AT(vote), NULL, .help = "no majorities", .excludes = "--methods"},
    {"--greedy", NULL, OPT_ON, AT(greedy), NULL, .help = "a greedy answer per problem (default)",
        .excludes = "--methods"},
    {"--no-greedy", NULL, OPT_OFF, AT(greedy), NULL, .help = "no greedy answers", .excludes = "--methods"},
    {"-np --np --parallel", "N_PARALLEL", OPT_INT, AT(parallel), "N", .help = "sequences decoded at once", .min = 1,
        .max = 4096},
    {"--max-tokens -n --predict", NULL, OPT_INT, AT(max_tokens), "N", .help = "most tokens of an answer", .min = 1,
        .max = 1 << 20},
    {"-sys --system-prompt", NULL, OPT_TEXT, AT(system), "TEXT", .help = "system message before each question"},
    {"--chat-template-file", "CHAT_TEMPLATE_FILE", OPT_TEXT, AT(template_file), "FILE",
        .help = "chat template instead of the model's"},
    {"--reasoning-budget", "THINK_BUDGET", OPT_INT, AT(budget), "N",
        .help =
            "most tokens of thinking, then the tag that ends it is forced; 0 = no thinking, where the template knows "
            "how to ask for that or opens it itself; -1 = as the model likes. Answers are looked for behind it",
        .min = -1, .max = 1 << 24, .excludes = "--spec"},
    {"--report", NULL, OPT_TEXT, AT(report), "FILE",
        .help = "everything, answer by answer, as JSON; appears whole or not at all. Until then FILE.journal keeps "
                "each outcome: the same command started again goes on from there. With --spec: its tables as JSON"},
    {"--keep-texts", NULL, OPT_ON, AT(keep_texts), NULL,
        .help = "the report holds every candidate's text, answer and step rewards, too: problems[].texts",
        .needs = "--report"},
    {"--table", NULL, OPT_ON, AT(table), NULL, .help = "explain the rows below the table"},
};

static const struct option spec_table[] = {
    {"--spec", NULL, OPT_TEXT, AT(spec), "FILE",
        .help = "instead of answers, what drafts are worth: questions about documents, one JSON object per line "
                "(models/reader-test.jsonl): \"documents\", \"question\", \"answer\", \"task\", \"distance\"; with "
                "\"past\": true an exchange that the store has already",
        .excludes = "--file --format --methods --timed --grade --svg --n --vote --no-vote --greedy --no-greedy "
                    "--table"},
    {"--spec-mode", NULL, OPT_CHOICE, AT(spec_mode), "NAME",
        .help = "free: the model's own texts; forced: the file's answers, whatever the model holds likely; replay: its "
                "own texts, with drafts that are right with a given probability",
        .choices = "free forced replay", .needs = "--spec"},
    {"--spec-methods", NULL, OPT_TEXT, AT(spec_methods), "LIST",
        .help = "what to compare, separated by commas: drafters of --spec-type and store, joined by '+'; auto; all, "
                "or all-NAME for all but one; replay: probabilities",
        .needs = "--spec"},
};
#undef AT

static void set_defaults(void *opts)
{
    struct eval_options *o = opts;
    engine_options_init(&o->engine);
    sampling_options_init(&o->sampling);
    o->sampling.seed = 1;
    o->n = 16;
    o->budget = -1;
    o->parallel = 64;
    o->max_tokens = 512;
    o->format = "auto";
    o->spec_mode = "free";
    o->grade = "answer";
    judge_options_init(&o->judge);
    o->timed = -1;
    o->vote = o->greedy = true;
}

static int list_sets(void *opts, struct option_set *set)
{
    struct eval_options *o = opts;
    set[0] = (struct option_set){"Evaluation", eval_table, OPTION_COUNT(eval_table), o, NULL};
    set[1] = judge_option_set(&o->judge);
    set[2] = engine_option_set(&o->engine);
    set[3] = sampling_option_set(&o->sampling);
    set[4] = speculation_option_set(&o->engine);
    set[5] = (struct option_set){"Worth of drafts", spec_table, OPTION_COUNT(spec_table), o, NULL};
    set[6] = output_option_set(&o->engine);
    return 7;
}

/* A context no longer than the longest problem needs keeps the cache small. */
static int open_session(struct eval_run *run, int longest)
{
    const struct eval_options *o = run->opts;
    const struct lutra_model_info *info = &run->engine.info;
    struct lutra_session_settings settings;
    lutra_session_settings_init(&settings, sizeof settings);
    int widest = 1, new_tokens = run->set->choices ? 1 : o->max_tokens;
    for (int i = 0; i < run->set->n_source; i++)
        if (run->set->source[i].width > widest) widest = run->set->source[i].width;
    run->n_ctx = o->engine.n_ctx ? o->engine.n_ctx : longest + new_tokens;
    if (!o->engine.n_ctx && info->n_ctx_train > 0 && run->n_ctx > info->n_ctx_train) run->n_ctx = info->n_ctx_train;
    settings.n_ctx = run->n_ctx;
    settings.n_seq = o->parallel > widest ? o->parallel : widest;
    if (run->set->choices) settings.n_seq = 8 * (EVAL_CHOICES_MAX + 1);
    settings.n_out = settings.n_seq > 64 ? settings.n_seq : 64;
    return engine_open_session(&run->engine, &o->engine, settings);
}

/* This rank's part of what a source has still to do. */
static int run_source(struct eval_run *run, int source)
{
    struct eval_set *set = run->set;
    int *list = get_memory((size_t)set->n * sizeof *list), n = 0, n_left = 0, code = 0;
    struct eval_outcome **out = get_memory((size_t)set->n * sizeof *out);
    for (int i = 0; i < set->n; i++) {
        if (set->problem[i].outcome[source].done || n_left++ % run->ranks.n != run->ranks.rank) continue;
        out[n] = &set->problem[i].outcome[source];
        list[n++] = i;
    }
    if (n > 0 && set->choices)
        code = eval_choose(run, source, list, n);
    else if (n > 0)
        code = eval_run_source(run, &set->source[source], source, list, n, run->opts->parallel, out, true);
    free(list);
    free(out);
    return code;
}

static int finish_run(struct eval_run *run)
{
    int code = run->ranks.n > 1 ? eval_journal_merge(run) : 0;
    if (!code && !run->set->choices) code = eval_time(run);
    if (code) return code;
    eval_score(run);
    if ((code = eval_check_judged(run))) return code;
    eval_print(run);
    if (run->opts->report) code = eval_report(run);
    if (!code && run->opts->svg) code = eval_svg(run);
    return code;
}

static int evaluate(struct eval_run *run)
{
    int longest = 0, code = engine_open(&run->engine, &run->opts->engine, false);
    if (!code) sampling_from_model(&run->opts->sampling, run->engine.model, &run->sampling);
    if (!code) code = eval_tokenize(run->set, &run->engine, run->opts, &longest);
    if (!code) code = open_session(run, longest);
    if (!code) code = judge_open(&run->judge, &run->opts->judge, &run->engine, run->opts->engine.model);
    if (!code && strcmp(run->opts->grade, "answer"))
        code = judge_checker(&run->grader, run->opts->grade, &run->opts->judge);
    if (!code && run->opts->report) code = eval_journal_open(run);
    uint64_t start = now_us();
    for (int i = 0; !code && i < run->set->n_source; i++) code = run_source(run, i);
    run->seconds = (double)(now_us() - start) * 1e-6;
    if (!code) ranks_wait(&run->ranks);
    if (!code && run->ranks.rank == 0) code = finish_run(run);
    eval_journal_close(run, !code && run->ranks.rank == 0);
    interrupt_watch(NULL);
    lutra_session_close(&run->engine.session);
    lutra_verifier_close(&run->grader);
    judge_close(&run->judge, &run->engine);
    engine_close(&run->engine);
    return code;
}

static int check(struct eval_options *o)
{
    const char *why = NULL;
    if (!o->file)
        why = "no problems: give a JSONL file with -f, or a workload with --spec";
    else if (!o->methods && !o->greedy && o->n == 0)
        why = "--no-greedy with --n 0 leaves nothing to do";
    if (why) {
        say("eval: %s", why);
        return EXIT_USAGE;
    }
    if (o->timed < 0) o->timed = o->svg ? 10 : 0;
    return judge_options_check(&o->judge, "eval");
}

/* What auto chooses from, and room for the widest of it. */
static int read_table(struct eval_run *run, const char *path)
{
    int code = method_table_read(&run->auto_table, path, &run->opts->judge);
    for (int i = 0; i < run->auto_table.n; i++)
        for (int k = 0; k < run->set->n_source; k++) {
            struct eval_source *source = &run->set->source[k];
            bool chooses = source->kind == EVAL_SEARCH && source->search == LUTRA_SEARCH_AUTO;
            if (chooses && run->auto_table.option[i].width > source->width)
                source->width = run->auto_table.option[i].width;
        }
    return code;
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct eval_options *o = opts;
    struct eval_set set = {0};
    struct eval_run run = {.set = &set, .opts = o, .others_cpus = -1};
    (void)arg, (void)n_arg;
    if (o->spec) return spec_evaluate(o);
    o->engine.more_models = o->judge.prm;
    int code = check(o);
    if (!code) code = engine_find_model(&o->engine);
    if (!code) code = sampling_from_options(&o->sampling, run.bias, &run.sampling);
    if (!code) code = eval_read(&set, o);
    if (!code) code = eval_methods(&set, o);
    if (!code && o->auto_table) code = read_table(&run, o->auto_table);
    if (!code) code = ranks_open(&run.ranks);
    if (!code && run.ranks.n > 1 && !o->report) {
        say("eval: several ranks meet in the journal beside the report: give --report FILE");
        code = EXIT_USAGE;
    }
    if (!code) code = evaluate(&run);
    ranks_close(&run.ranks, code);
    sampling_options_free(&o->sampling);
    eval_free(&set);
    return code;
}

const struct command command_eval = {
    .name = "eval",
    .arguments = "",
    .summary = "Score answers to problems: greedy, sampled, by vote, by search with a verifier",
    .notes =
        "The answer of a text is what follows its last ####, stands in its last \\boxed{}, follows 'answer is', or "
        "its\n"
        "last number, in one spelling ($1,200.0 = 1200, \\frac{1}{2} = 0.5).  vote@k: the most frequent answer of the\n"
        "first k samples; samples without an answer do not vote, ties go to the answer seen first.  any@k: one of k "
        "is\n"
        "right.  mean sample: the average of single samples.  Intervals are bootstrap over problems, 10,000 "
        "resamples.\n"
        "Multiple choice: acc is the likeliest choice, acc_norm the likeliest per byte.\n"
        "mpirun -n N lutra-eval-mpi --report FILE ... shares the problems among N processes (where built with MPI).",
    .opts_bytes = sizeof(struct eval_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
