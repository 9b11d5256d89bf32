/* SPDX-License-Identifier: MIT */
#include "run_search.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH_MAX = 1024 };

#define AT(field) offsetof(struct search_options, field)

static const struct option search_table[] = {
    {"--vote", NULL, OPT_INT, AT(vote), "N", .help = "N samples, the most frequent answer", .min = 0, .max = WIDTH_MAX},
    {"--weighted", NULL, OPT_INT, AT(weighted), "N", .help = "N samples, votes weighted by the verifier", .min = 0,
        .max = WIDTH_MAX},
    {"--best-of", NULL, OPT_INT, AT(best_of), "N", .help = "N samples, the one the verifier likes best", .min = 0,
        .max = WIDTH_MAX},
    {"--beam", NULL, OPT_TEXT, AT(beam), "BxE", .help = "beam search over steps: B beams, E children each"},
    {"--dvts", NULL, OPT_TEXT, AT(dvts), "BxE", .help = "the same, the beams in subtrees that do not compete"},
    {"--rebase", NULL, OPT_INT, AT(rebase), "N", .help = "tree search of N rows, children in proportion to rewards",
        .min = 0, .max = WIDTH_MAX},
    {"--prm", NULL, OPT_TEXT, AT(prm), "FILE", .help = "verifier (reward model, GGUF): needed by all but --vote"},
    {"--prm-kind", NULL, OPT_CHOICE, AT(prm_kind), "KIND",
        .help = "how the verifier judges, if not as its file says: value, token, likelihood (any language model)",
        .choices = "value token likelihood"},
    {"--score", NULL, OPT_CHOICE, AT(score), "KIND",
        .help = "score of a candidate from the rewards of its steps: last, min, product, mean",
        .choices = "last min product mean"},
    {"--step", NULL, OPT_TEXT, AT(step), "STR", .help = "what ends a step; \\n is a line feed"},
    {"--budget", NULL, OPT_I64, AT(budget), "TOKENS", .help = "most tokens of all candidates together; 0 = no limit",
        .min = 0, .max = 1e15},
    {"--verifier-mark", NULL, OPT_TEXT, AT(mark), "STR", .help = "text behind each step for the verifier to judge at"},
};
#undef AT

void search_options_init(struct search_options *o)
{
    *o = (struct search_options){.score = "last", .step = "\\n"};
}

struct option_set search_option_set(struct search_options *o)
{
    return (struct option_set){"Search: several candidates, one reply", search_table, OPTION_COUNT(search_table), o};
}

/* "4x4": beams and children of each; 0 or -1. */
static int read_beams(const char *text, int *width, int *expand)
{
    char beams[16];
    const char *x = strchr(text, 'x');
    int64_t b, e;
    if (!x || (size_t)(x - text) >= sizeof beams) return -1;
    snprintf(beams, sizeof beams, "%.*s", (int)(x - text), text);
    if (option_number(beams, 1, WIDTH_MAX, &b) < 0 || option_number(x + 1, 1, WIDTH_MAX, &e) < 0 || b * e > WIDTH_MAX)
        return -1;
    *width = (int)(b * e);
    *expand = (int)e;
    return 0;
}

static int read_method(struct searcher *s, const struct search_options *o)
{
    const struct {
        const char *name, *beams;
        int width;
        enum lutra_search_method method;
    } asked[] = {{"vote", NULL, o->vote, LUTRA_SEARCH_VOTE}, {"weighted", NULL, o->weighted, LUTRA_SEARCH_WEIGHTED},
        {"best-of", NULL, o->best_of, LUTRA_SEARCH_BEST}, {"beam", o->beam, 0, LUTRA_SEARCH_BEAM},
        {"dvts", o->dvts, 0, LUTRA_SEARCH_DVTS}, {"rebase", NULL, o->rebase, LUTRA_SEARCH_REBASE}};
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
        if (asked[i].beams && read_beams(asked[i].beams, &s->settings.width, &s->settings.expand) < 0) {
            say("run: --%s: '%s' is not BxE, beams x children, at most %d together", asked[i].name, asked[i].beams,
                WIDTH_MAX);
            return EXIT_USAGE;
        }
        if (asked[i].beams)
            snprintf(s->name, sizeof s->name, "%s %.12s", asked[i].name, asked[i].beams);
        else
            snprintf(s->name, sizeof s->name, "%s %d", asked[i].name, asked[i].width);
    }
    return 0;
}

int searcher_init(struct searcher *s, const struct search_options *o)
{
    static const char *const scores[] = {"last", "min", "product", "mean"};
    size_t n = strlen(o->step);
    *s = (struct searcher){.settings = lutra_search_default()};
    int code = read_method(s, o);
    if (code || !s->wanted) return code;
    if (s->settings.method != LUTRA_SEARCH_VOTE && !o->prm) {
        say("run: --%.*s needs a verifier: --prm FILE", (int)strcspn(s->name, " "), s->name);
        return EXIT_USAGE;
    }
    if (n == 0 || n >= sizeof s->step) {
        say("run: --step: 1 to %zu bytes", sizeof s->step - 1);
        return EXIT_USAGE;
    }
    memcpy(s->step, o->step, n + 1);
    unescape(s->step, &n);
    for (int i = 0; i < 4; i++)
        if (!strcmp(scores[i], o->score)) s->settings.score = (enum lutra_search_score)i;
    s->settings.step = s->step;
    s->settings.token_budget = o->budget;
    return 0;
}

int searcher_open(struct searcher *s, const struct search_options *o, struct engine *e)
{
    struct lutra_error err = {0};
    struct lutra_model_settings ms = lutra_model_settings_default();
    struct lutra_verifier_settings vs = lutra_verifier_settings_default();
    struct tokens mark = {0};
    int n_ctx;
    if (!s->wanted || s->settings.method == LUTRA_SEARCH_VOTE) return 0;
    ms.progress = progress_callback;
    if (lutra_model_open(&s->prm, e->runtime, o->prm, &ms, &err) < 0) return fail_with(&err);
    progress_clear();
    if (o->mark && tokenize(s->prm, o->mark, strlen(o->mark), LUTRA_PARSE_SPECIAL, &mark, &err) < 0)
        return fail_with(&err);
    free(mark.id);
    lutra_session_sizes(e->session, &n_ctx, NULL, NULL);
    vs.n_seq = s->settings.width;
    vs.n_ctx = n_ctx + 1 + mark.n * s->settings.max_steps;
    vs.mark = o->mark;
    vs.kind = o->prm_kind;
    if (lutra_verifier_open(&s->verifier, s->prm, &vs, &err) < 0) return fail_with(&err);
    s->settings.verifier = s->verifier;
    return 0;
}

void searcher_close(struct searcher *s)
{
    lutra_verifier_close(&s->verifier);
    lutra_model_close(&s->prm);
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

int searcher_run(struct searcher *s, struct engine *e, const struct lutra_request *request, bool quiet,
    struct buffer *reply, bool *cancelled)
{
    struct lutra_error err = {0};
    struct lutra_request r = *request;
    struct view *view = view_open(s->name, quiet, s->settings.method <= LUTRA_SEARCH_WEIGHTED);
    lutra_search_run *run;
    int n_active = 1, code = 0;
    r.on_text = on_text;
    r.on_end = NULL;
    r.user = s->settings.user = view;
    s->settings.on_event = on_event;
    if (lutra_search_submit(&run, e->session, &r, &s->settings, &err) < 0) code = fail_with(&err);
    while (!code && n_active > 0) {
        if (interrupted()) lutra_cancel(e->session); /* a signal between two steps */
        if (lutra_step(e->session, &n_active, &err) < 0 && err.code != LUTRA_E_CANCELLED) code = fail_with(&err);
        view_draw(view, false);
    }
    const struct lutra_search_result *res = code ? NULL : lutra_search_done(run);
    *cancelled = interrupted();
    view_close(view, *cancelled ? NULL : res, s->settings.method);
    if (res && res->text && !*cancelled) buffer_add(reply, res->text, strlen(res->text));
    if (!code && !*cancelled && !(res && res->text)) {
        say("no candidate came to an end");
        code = EXIT_FAILED;
    }
    lutra_search_close(&run);
    return code;
}
