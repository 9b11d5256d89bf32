/* SPDX-License-Identifier: MIT */
#include "judge.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- options ---- */

#define AT(field) offsetof(struct judge_options, field)
#define JUDGED "--weighted --best-of --beam --dvts --rebase --method"

/* `lutra eval` has none of these options: its --methods say what is judged. */

static const struct option judge_table[] = {
    {"--prm", NULL, OPT_TEXT, AT(prm), "FILE", .help = "verifier (reward model) for weighted, best and the searches",
        .common = true, .needs = JUDGED, .excludes = "--check --spec"},
    {"--prm-kind", NULL, OPT_CHOICE, AT(kind), "KIND",
        .help = "how the verifier judges, if not as its file says: value, token, likelihood (any language model; "
                "without --prm the model itself, which costs nothing)",
        .choices = "value token likelihood", .needs = JUDGED, .excludes = "--check --spec"},
    {"--score", NULL, OPT_CHOICE, AT(score), "KIND",
        .help =
            "score of a solution from the rewards of its steps: auto (product of likelihoods, else last), last, min, "
            "product, mean",
        .choices = "auto last min product mean", .needs = JUDGED},
    {"--prune", NULL, OPT_FLOAT, AT(prune), "X",
        .help = "searches over steps: drop candidates below X of the best score; their rows go to the others; 0 = none",
        .min = 0, .max = 1, .needs = "--beam --dvts --rebase --method"},
    {"--step", NULL, OPT_TEXT, AT(step), "STR", .help = "what ends a step; \\n is a line feed", .needs = JUDGED},
    {"--check", NULL, OPT_TEXT, AT(check), "CMD",
        .help = "verifier that is no model: countdown, equation (every line with a = holds), json-schema:FILE (the "
                "text, or "
                "its last ``` block, is JSON by that schema; needs python3-jsonschema), answer (of lutra eval: for "
                "measuring), or a program with its arguments, which stays and gets a JSON line per candidate on its "
                "input, {\"id\", \"question\", \"text\", \"step\", \"whole\"}, and answers each with "
                "{\"id\", \"reward\": 0..1}. No shell: '...', \"...\" and \\ keep words together",
        .needs = JUDGED, .excludes = "--spec"},
    {"--check-time", NULL, OPT_TEXT, AT(check_time), "T",
        .help = "most time for one answer of it, its start included (500ms, 2s)", .needs = "--check --grade"},
    {"--check-memory", NULL, OPT_INT, AT(check_memory), "MIB", .help = "its address space, in MiB; 0 = no limit",
        .min = 0, .max = 1 << 30, .needs = "--check --grade"},
    {"--until-pass", NULL, OPT_ON, AT(until_pass), NULL,
        .help = "best and searches over steps: end at the first candidate, by number, of the score 1",
        .needs = "--best-of --beam --dvts --rebase --method"},
    {"--verifier-mark", NULL, OPT_TEXT, AT(mark), "STR", .help = "text behind each step for the verifier to judge at",
        .needs = "--prm --prm-kind"},
};
#undef AT
#undef JUDGED

void judge_options_init(struct judge_options *o)
{
    struct lutra_search search;
    lutra_search_init(&search, sizeof search);
    *o = (struct judge_options){
        .score = "auto", .step = "\\n", .prune = search.prune_below, .check_time = "5s", .check_memory = 4096};
}

struct option_set judge_option_set(struct judge_options *o)
{
    return (struct option_set){"Steps and their verifier", judge_table, OPTION_COUNT(judge_table), o, NULL};
}

int judge_options_check(struct judge_options *o, const char *command)
{
    size_t n = strlen(o->step);
    if (n == 0 || n >= sizeof o->step_text) {
        say("%s: --step: 1 to %zu bytes", command, sizeof o->step_text - 1);
        return EXIT_USAGE;
    }
    int64_t tokens;
    const char *why = NULL;
    if (budget_read(o->check_time, &tokens, &o->check_us) < 0 || o->check_us == 0)
        why = "--check-time: give a time (500ms, 2s)";
    else if (o->until_pass && !judge_wanted(o))
        why = "--until-pass needs a verifier: --check CMD or --prm FILE";
    if (why) {
        say("%s: %s", command, why);
        return EXIT_USAGE;
    }
    memcpy(o->step_text, o->step, n + 1);
    unescape(o->step_text, &n);
    o->step = o->step_text;
    return 0;
}

void judge_options_apply(const struct judge_options *o, struct lutra_search *s)
{
    static const char *const scores[] = {"last", "min", "product", "mean", "auto"};
    for (int i = 0; i < 5; i++)
        if (!strcmp(scores[i], o->score)) s->score = (enum lutra_search_score)i;
    s->step = o->step;
    s->prune_below = o->prune;
    s->until_pass = o->until_pass && s->method != LUTRA_SEARCH_VOTE && s->method != LUTRA_SEARCH_WEIGHTED;
}

/* ---- the judge ---- */

bool judge_wanted(const struct judge_options *o)
{
    return o->prm || o->check || (o->kind && !strcmp(o->kind, "likelihood"));
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int judge_open(struct judge *j, const struct judge_options *o, struct engine *e, const char *generator_path)
{
    struct lutra_error err = {0};
    struct lutra_model_settings settings;
    lutra_model_settings_init(&settings, sizeof settings);
    struct tokens mark = {0};
    *j = (struct judge){0};
    if (!judge_wanted(o) || o->check) return 0;
    if (!o->prm || same_file(o->prm, generator_path)) {
        j->model = e->model;
        j->own = o->kind && !strcmp(o->kind, "likelihood");
    } else {
        settings.device = e->second_device;
        if (engine_open_model(e, &j->model, o->prm, &settings, false, &err) < 0) return fail_with(&err);
    }
    struct lutra_model_info info;
    lutra_model_info_get(j->model, &info, sizeof info);
    const char *text = o->mark ? o->mark : info.step_mark;
    if (text && tokenize(j->model, text, strlen(text), LUTRA_PARSE_SPECIAL, &mark, &err) < 0) return fail_with(&err);
    j->n_mark = mark.n;
    free(mark.id);
    return 0;
}

int judge_checker(lutra_verifier **out, const char *command, const struct judge_options *o)
{
    struct lutra_error err = {0};
    struct lutra_verifier_settings set;
    lutra_verifier_settings_init(&set, sizeof set);
    set.command = command;
    set.timeout_us = o->check_us;
    set.memory_bytes = (int64_t)o->check_memory << 20;
    return lutra_verifier_open(out, "program", &set, &err) < 0 ? fail_with(&err) : 0;
}

int judge_verifier(
    const struct judge *j, const struct judge_options *o, int n_seq, int n_tok, int max_steps, lutra_verifier **out)
{
    struct lutra_error err = {0};
    struct lutra_verifier_settings vs;
    if (o->check) return judge_checker(out, o->check, o);
    lutra_verifier_settings_init(&vs, sizeof vs);
    vs.n_seq = j->own ? 0 : n_seq;
    vs.n_ctx = n_tok + 1 + j->n_mark * max_steps;
    vs.mark = o->mark;
    vs.model = j->model;
    return lutra_verifier_open(out, o->kind, &vs, &err) < 0 ? fail_with(&err) : 0;
}

void judge_close(struct judge *j, const struct engine *e)
{
    if (j->model != e->model) lutra_model_close(&j->model);
    j->model = NULL;
}

/* ---- budgets and methods ---- */

int budget_read(const char *text, int64_t *tokens, uint64_t *us)
{
    char *end;
    double x = strtod(text, &end), unit = !strcmp(end, "ms") ? 1e3 : !strcmp(end, "s") ? 1e6 : 0;
    *tokens = 0;
    *us = 0;
    if (end == text || !isfinite(x) || x < 0 || x > 1e12) return -1;
    if (*end && unit == 0) return -1;
    if (!*end && x != floor(x)) return -1;
    if (*end)
        *us = (uint64_t)(x * unit);
    else
        *tokens = (int64_t)x;
    return 0;
}

int beams_read(const char *text, size_t n, bool with_children, int *width, int *expand)
{
    char copy[24], *x;
    int64_t beams, children = 1;
    if (n < 1 || n >= sizeof copy) return -1;
    memcpy(copy, text, n);
    copy[n] = 0;
    x = strchr(copy, 'x');
    if (x) *x = 0;
    if ((x != NULL) != with_children || option_number(copy, 1, METHOD_WIDTH_MAX, &beams) < 0 ||
        (x && option_number(x + 1, 1, METHOD_WIDTH_MAX, &children) < 0) || beams * children > METHOD_WIDTH_MAX)
        return -1;
    *width = (int)(beams * children);
    *expand = (int)children;
    return 0;
}

/* "best@16" as an option; false for what is no method of its own (any@16, mean sample). */
static bool read_name(const char *name, struct lutra_search_option *o)
{
    static const struct {
        const char *name;
        enum lutra_search_method method;
        bool children;
    } known[] = {{"vote", LUTRA_SEARCH_VOTE, false}, {"weighted", LUTRA_SEARCH_WEIGHTED, false},
        {"best", LUTRA_SEARCH_BEST, false}, {"beam", LUTRA_SEARCH_BEAM, true}, {"dvts", LUTRA_SEARCH_DVTS, true},
        {"rebase", LUTRA_SEARCH_REBASE, false}};
    *o = (struct lutra_search_option){.method = LUTRA_SEARCH_VOTE, .width = 1, .expand = 1, .us = -1};
    o->greedy = !strcmp(name, "greedy");
    if (o->greedy) return true;
    size_t stem = strcspn(name, "@");
    for (size_t i = 0; i < sizeof known / sizeof *known && name[stem]; i++) {
        if (strlen(known[i].name) != stem || memcmp(known[i].name, name, stem)) continue;
        o->method = known[i].method;
        return beams_read(name + stem + 1, strlen(name + stem + 1), known[i].children, &o->width, &o->expand) == 0;
    }
    return false;
}

/* What a table was measured with, where that is not this judge: its curves say nothing of another checker's. */
static const char *other_check(json_t *root, const struct judge_options *o)
{
    json_t *settings = json_object_get(root, "settings");
    const char *check = json_string_value(json_object_get(settings, "check"));
    if (check) return o->check && !strcmp(check, o->check) ? NULL : check;
    return o->check ? json_string_value(json_object_get(settings, "prm")) : NULL;
}

int method_table_read(struct method_table *t, const char *path, const struct judge_options *judge)
{
    json_error_t why;
    json_t *root = json_load_file(path, 0, &why), *time = json_object_get(json_object_get(root, "time"), "methods");
    json_t *list = json_object_get(root, "methods"), *one;
    size_t i;
    const char *other = other_check(root, judge);
    t->n = 0;
    if (other) {
        say("%s was measured with the verifier '%s', not with this one", path, other);
        json_decref(root);
        return EXIT_FAILED;
    }
    json_array_foreach(list, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "method"));
        struct lutra_search_option o;
        if (!name || !read_name(name, &o) || t->n == METHOD_OPTIONS_MAX) continue;
        const json_t *latency = json_object_get(json_object_get(time, name), "latency_s");
        o.accuracy = json_number_value(json_object_get(json_object_get(one, "accuracy"), "mean"));
        o.tokens = json_number_value(json_object_get(one, "tokens_per_problem"));
        if (json_is_number(latency)) o.us = json_number_value(latency) * 1e6;
        if (o.tokens > 0) t->option[t->n++] = o;
    }
    json_decref(root);
    if (t->n > 0) return 0;
    say("%s: %s", path, root ? "no methods in it: give a report of lutra eval" : why.text);
    return EXIT_FAILED;
}
