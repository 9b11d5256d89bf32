/* SPDX-License-Identifier: MIT */
#include "run/search.h"

#include <string.h>

static const double SAYS_NOTHING = 0.02; /* rewards are 0 to 1 */

#define AT(field) offsetof(struct search_options, field)

static const struct option search_table[] = {
    {"--vote", NULL, OPT_INT, AT(vote), "N", .help = "N samples, the most frequent answer", .min = 0,
        .max = METHOD_WIDTH_MAX, .common = true},
    {"--weighted", NULL, OPT_INT, AT(weighted), "N", .help = "N samples, votes weighted by the verifier", .min = 0,
        .max = METHOD_WIDTH_MAX},
    {"--best-of", NULL, OPT_INT, AT(best_of), "N", .help = "N samples, the one the verifier likes best", .min = 0,
        .max = METHOD_WIDTH_MAX, .common = true},
    {"--beam", NULL, OPT_TEXT, AT(beam), "BxE",
        .help = "beam search over steps: B beams, E children each; 16x1 drops only what is pruned or repeats another"},
    {"--dvts", NULL, OPT_TEXT, AT(dvts), "BxE", .help = "the same, the beams in subtrees that do not compete"},
    {"--rebase", NULL, OPT_INT, AT(rebase), "N", .help = "tree search of N rows, children in proportion to rewards",
        .min = 0, .max = METHOD_WIDTH_MAX},
    {"--method", NULL, OPT_CHOICE, AT(method), "NAME",
        .help =
            "auto: what --budget buys, by --auto-table if it is given, else (weighted) votes while the budget lasts, "
            "or with --until-pass the best-of",
        .choices = "auto"},
    {"--auto-table", NULL, OPT_TEXT, AT(auto_table), "FILE",
        .help = "measured accuracy and cost of methods to choose from: a report of lutra eval", .needs = "--method"},
    {"--budget", NULL, OPT_TEXT, AT(budget), "T",
        .help = "most tokens of all candidates together (2000), or most time (500ms, 2s)",
        .needs = "--vote --weighted --best-of --beam --dvts --rebase --method"},
};
#undef AT

void search_options_init(struct search_options *o)
{
    *o = (struct search_options){0};
    judge_options_init(&o->judge);
}

struct option_set search_option_set(struct search_options *o)
{
    return (struct option_set){
        "Search: several candidates, one reply", search_table, OPTION_COUNT(search_table), o, NULL};
}

static int read_method(struct searcher *s, const struct search_options *o)
{
    const struct {
        const char *name, *beams;
        int width;
        enum lutra_search_method method;
    } asked[] = {{"vote", NULL, o->vote, LUTRA_SEARCH_VOTE}, {"weighted", NULL, o->weighted, LUTRA_SEARCH_WEIGHTED},
        {"best-of", NULL, o->best_of, LUTRA_SEARCH_BEST}, {"beam", o->beam, 0, LUTRA_SEARCH_BEAM},
        {"dvts", o->dvts, 0, LUTRA_SEARCH_DVTS}, {"rebase", NULL, o->rebase, LUTRA_SEARCH_REBASE},
        {"method auto", NULL, o->method ? s->settings.width : 0, LUTRA_SEARCH_AUTO}};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        if (!asked[i].beams && asked[i].width == 0) continue;
        if (s->wanted) {
            say("run: --%s and another search: give one of them", asked[i].name);
            return EXIT_USAGE;
        }
        s->wanted = true;
        s->settings.method = asked[i].method;
        s->settings.width = asked[i].width;
        s->settings.expand = 1;
        if (asked[i].beams &&
            beams_read(asked[i].beams, strlen(asked[i].beams), true, &s->settings.width, &s->settings.expand) < 0) {
            say("run: --%s: '%s' is not BxE, beams x children, at most %d together", asked[i].name, asked[i].beams,
                METHOD_WIDTH_MAX);
            return EXIT_USAGE;
        }
        if (asked[i].beams)
            snprintf(s->name, sizeof s->name, "%s %.12s", asked[i].name, asked[i].beams);
        else if (asked[i].method == LUTRA_SEARCH_AUTO)
            snprintf(s->name, sizeof s->name, "auto");
        else
            snprintf(s->name, sizeof s->name, "%s %d", asked[i].name, asked[i].width);
    }
    return 0;
}

static int read_budget(struct searcher *s, const struct search_options *o)
{
    bool automatic = s->settings.method == LUTRA_SEARCH_AUTO;
    if (o->budget && budget_read(o->budget, &s->settings.token_budget, &s->settings.time_budget_us) < 0) {
        say("run: --budget: '%s' is neither a number of tokens nor a time (500ms, 2s)", o->budget);
        return EXIT_USAGE;
    }
    if (automatic && s->settings.token_budget == 0 && s->settings.time_budget_us == 0) {
        say("run: --method auto chooses what a budget buys: give --budget T");
        return EXIT_USAGE;
    }
    if (!automatic || !o->auto_table) return 0;
    int code = method_table_read(&s->table, o->auto_table, &o->judge);
    s->settings.option = s->table.option;
    s->settings.n_option = s->table.n;
    s->settings.option_size = sizeof *s->settings.option;
    for (int i = 0; i < s->table.n; i++) /* room for the widest */
        if (s->table.option[i].width > s->settings.width) s->settings.width = s->table.option[i].width;
    return code;
}

int searcher_init(struct searcher *s, struct search_options *o)
{
    *s = (struct searcher){0};
    lutra_search_init(&s->settings, sizeof s->settings);
    int code = read_method(s, o);
    if (code || !s->wanted) return code;
    bool votes = s->settings.method == LUTRA_SEARCH_VOTE || s->settings.method == LUTRA_SEARCH_AUTO;
    if (!votes && !judge_wanted(&o->judge)) {
        say("run: --%.*s needs a verifier: --prm FILE or --check CMD", (int)strcspn(s->name, " "), s->name);
        return EXIT_USAGE;
    }
    if ((code = judge_options_check(&o->judge, "run"))) return code;
    judge_options_apply(&o->judge, &s->settings);
    return read_budget(s, o);
}

int searcher_open(struct searcher *s, const struct search_options *o, struct engine *e, const char *model_path)
{
    int n_ctx;
    if (!s->wanted || s->settings.method == LUTRA_SEARCH_VOTE || !judge_wanted(&o->judge)) return 0;
    s->checks = o->judge.check != NULL;
    s->by_likelihood = o->judge.kind && !strcmp(o->judge.kind, "likelihood");
    int code = judge_open(&s->judge, &o->judge, e, model_path);
    lutra_session_sizes_get(e->session, &n_ctx, NULL, NULL);
    if (!code)
        code = judge_verifier(&s->judge, &o->judge, s->settings.width, n_ctx, s->settings.max_steps, &s->verifier);
    s->settings.verifier = s->verifier;
    return code;
}

void searcher_close(struct searcher *s, const struct engine *e)
{
    lutra_verifier_close(&s->verifier);
    judge_close(&s->judge, e);
}

static int on_text(void *user, const struct lutra_piece *piece)
{
    view_text(user, piece);
    return 0;
}

static void on_event(void *user, const struct lutra_search_event *event)
{
    view_event(user, event);
}

/* What the verifier's figures rest on; 0 or an exit code. */
static int tell_judged(const struct searcher *s, const struct lutra_search_result *res)
{
    if (!s->verifier || s->by_likelihood || s->settings.method == LUTRA_SEARCH_VOTE || !res->text) return 0;
    const char *why = res->why && *res->why ? res->why : "no reason given";
    if (res->n_judged == 0) {
        say("the verifier judged none of %d candidates: %s", res->n_counted, why);
        return EXIT_FAILED;
    }
    if (res->n_judged < res->n_counted)
        say("the verifier judged %d of %d candidates: %s", res->n_judged, res->n_counted, why);
    if (!s->checks || res->n_passed > 0 || (!s->settings.until_pass && res->best_reward > 0)) return 0;
    if (res->answer && *res->answer)
        say("none of %d passed; the most frequent answer: %s (%d of %d)", res->n_counted, res->answer, res->n_agree,
            res->n_counted);
    else
        say("none of %d passed, and none of them gives an answer", res->n_counted);
    return EXIT_NOT_PASSED;
}

/* A reward model that was trained for other texts: the winner is any of them. */
static void tell_blind_verifier(const struct searcher *s, double best_reward)
{
    if (!s->verifier || s->by_likelihood || best_reward < 0 || best_reward > SAYS_NOTHING) return;
    say("no step of any candidate got more than %.2g from the verifier: its choice says little", best_reward);
}

int searcher_run(struct searcher *s, struct engine *e, const struct lutra_request *request, const char *question,
    bool quiet, struct buffer *reply, size_t *n_reasoning, bool *cancelled)
{
    struct lutra_error err = {0};
    struct lutra_request r = *request;
    struct view *view = view_open(s->name, quiet, s->settings.method <= LUTRA_SEARCH_WEIGHTED, s->verifier);
    lutra_search_run *run;
    int n_active = 1, code = 0;
    r.on_text = on_text;
    r.on_end = NULL;
    r.user = s->settings.user = view;
    s->settings.on_event = on_event;
    s->settings.question = question;
    if (lutra_search_submit(&run, e->session, &r, &s->settings, &err) < 0) code = fail_with(&err);
    while (!code && n_active > 0) {
        if (interrupted()) lutra_cancel(e->session); /* a signal between two passes */
        if (lutra_step(e->session, &n_active, &err) < 0 && err.code != LUTRA_E_CANCELLED) code = fail_with(&err);
        view_draw(view, false);
    }
    const struct lutra_search_result *res = code ? NULL : lutra_search_done(run);
    *cancelled = interrupted();
    view_close(view, *cancelled ? NULL : res);
    if (res && !*cancelled) code = tell_judged(s, res);
    if (res && res->text && !*cancelled && code != EXIT_FAILED) {
        buffer_add(reply, res->text, strlen(res->text));
        *n_reasoning = res->n_reasoning;
    }
    if (res && !quiet && !code) tell_blind_verifier(s, res->best_reward);
    if (!code && !*cancelled && !(res && res->text)) {
        say("no candidate came to an end");
        code = EXIT_FAILED;
    }
    lutra_search_close(&run);
    return code;
}
