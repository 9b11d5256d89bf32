/* SPDX-License-Identifier: MIT */
#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

static const char *const methods[] = {[LUTRA_SEARCH_VOTE] = "vote",
    [LUTRA_SEARCH_WEIGHTED] = "weighted",
    [LUTRA_SEARCH_BEST] = "best",
    [LUTRA_SEARCH_BEAM] = "beam",
    [LUTRA_SEARCH_DVTS] = "dvts",
    [LUTRA_SEARCH_REBASE] = "rebase",
    [LUTRA_SEARCH_AUTO] = "auto"};

static bool is_in_steps(const struct ask *a)
{
    return a->look.method >= LUTRA_SEARCH_BEAM && a->look.method <= LUTRA_SEARCH_REBASE;
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

/* A number of tokens, or a time as text: "500ms", "2s". */
static void read_budget(struct ask *a, const struct fields *f)
{
    const json_t *value = field_any(f, "budget");
    if (!json_is_string(value)) {
        field_i64(f, "budget", 1, (int64_t)1 << 40, &a->look.token_budget);
        return;
    }
    char *end;
    double x = strtod(json_string_value(value), &end);
    double unit = strcmp(end, "ms") == 0 ? 1e3 : strcmp(end, "s") == 0 ? 1e6 : 0;
    if (end == json_string_value(value) || !(x > 0 && x * unit >= 1 && x * unit <= 1e12))
        field_wrong(f, "budget", "neither a number of tokens nor a time (\"500ms\", \"2s\")");
    else
        a->look.time_budget_us = (uint64_t)(x * unit);
}

void search_read(struct ask *a, const struct fields *f)
{
    struct fields own = {field_object(f, "lutra"), "lutra", f->problem};
    struct fields s = {field_object(&own, "search"), "lutra.search", f->problem};
    const char *method = NULL;
    int n = sizeof methods / sizeof *methods, i = 0;
    field_bool(&own, "events", &a->events);
    if (!s.object) return;
    a->searches = true;
    lutra_search_init(&a->look, sizeof a->look);
    a->look.width = a->look.expand = 0;
    if (!field_text(&s, "method", &method)) field_wrong(&s, "method", "missing");
    while (method && i < n && strcmp(methods[i], method) != 0) i++;
    if (i == n) field_wrong(&s, "method", "'%.40s' is none of vote, weighted, best, beam, dvts, rebase, auto", method);
    a->look.method = (enum lutra_search_method)(i < n ? i : 0);
    field_int(&s, "width", 1, ASK_CHOICES_MAX, &a->look.width);
    field_int(&s, "expand", 1, ASK_CHOICES_MAX, &a->look.expand);
    read_budget(a, &s);
    field_float(&s, "prune_below", 0, 1, &a->look.prune_below);
    if (field_text(&s, "step", &a->look.step) && (!*a->look.step || strlen(a->look.step) > 31))
        field_wrong(&s, "step", "not a text of 1 to 31 bytes");
    field_bool(&s, "until_pass", &a->look.until_pass);
    a->judge_field = field_text(&s, "verifier", &a->judge) ? "lutra.search.verifier" : NULL;
    if (field_text(&s, "check", &a->judge)) {
        if (a->judge_field) field_wrong(&s, "check", "beside a verifier: one of both, please");
        a->judge_field = "lutra.search.check";
    }
    if (a->look.method == LUTRA_SEARCH_AUTO && !a->look.token_budget && !a->look.time_budget_us)
        field_wrong(&s, "budget", "auto chooses what a budget buys");
    if (a->n > 1) field_wrong(f, "n", "a search has one reply");
    if (a->tools) field_wrong(f, "tools", "with a search");
}

/* The judge that is named, or the first that the server was started with; -1: none. */
static int find_judge(
    const struct ask *a, const struct server_settings *set, const struct api_key *key, struct problem *p)
{
    for (int i = 0; a->judge && i < set->n_judge; i++)
        if (strcmp(set->judge[i].name, a->judge) == 0) {
            if (!permit_has(key, PERMIT_JUDGES, a->judge)) permit_refuse(p, PERMIT_JUDGES, a->judge_field, a->judge);
            return i;
        }
    if (a->judge)
        problem_set(p, 400, "invalid_value", a->judge_field, "%s: the server was started with no '%.80s' to judge",
            a->judge_field, a->judge);
    for (int i = 0; i < set->n_judge; i++)
        if (!set->judge[i].by_name_only && permit_has(key, PERMIT_JUDGES, set->judge[i].name)) return i;
    return -1;
}

static void set_width(struct ask *a, const struct served *m, int most, struct problem *p)
{
    int n_seq = m->loaded.n_seq;
    if (is_in_steps(a) && n_seq < most) most = n_seq;
    if (!a->look.expand) a->look.expand = 1;
    if (a->look.width == 0) {
        a->look.width = most < 16 ? most : 16;
        a->look.width -= a->look.width % a->look.expand;
        if (a->look.width < a->look.expand) a->look.width = a->look.expand;
    }
    if (a->look.width > most)
        problem_set(p, 400, "invalid_value", "lutra.search.width",
            "lutra.search.width: %d candidates, and the server has room for %d (-np)", a->look.width, most);
    bool beams = a->look.method == LUTRA_SEARCH_BEAM || a->look.method == LUTRA_SEARCH_DVTS;
    if (beams && a->look.width % a->look.expand)
        problem_set(p, 400, "invalid_value", "lutra.search.expand",
            "lutra.search.expand: a width of %d is not a multiple of %d children", a->look.width, a->look.expand);
}

void search_prepare(struct ask *a, const struct served *m, const struct api_key *key, struct problem *p)
{
    const struct server_settings *set = m->server->set;
    const json_t *messages = json_object_get(a->chat, "messages"), *message;
    size_t i;
    int judge = a->look.method == LUTRA_SEARCH_VOTE ? -1 : find_judge(a, set, key, p);
    bool votes = a->look.method == LUTRA_SEARCH_VOTE || a->look.method == LUTRA_SEARCH_AUTO;
    if (judge < 0 && !votes)
        problem_set(p, 400, "invalid_value", "lutra.search.verifier",
            "lutra.search.verifier: %s needs one: \"likelihood\", or what the server was started with (--prm, --check)",
            methods[a->look.method]);
    if (p->status) return;
    if (judge >= 0) a->look.verifier = m->loaded.judge[judge];
    bool picks = judge >= 0 && a->look.method != LUTRA_SEARCH_WEIGHTED;
    if (a->look.until_pass && !picks)
        problem_set(p, 400, "invalid_value", "lutra.search.until_pass",
            "lutra.search.until_pass: needs a verifier, and a method that picks the best");
    set_width(a, m, judge >= 0 && set->judge[judge].n_seq ? set->judge[judge].n_seq : ASK_CHOICES_MAX, p);
    json_array_foreach((json_t *)messages, i, message)
    {
        const char *role = json_string_value(json_object_get(message, "role"));
        const char *content = json_string_value(json_object_get(message, "content"));
        if (content && strcmp(role, "user") == 0) a->look.question = content;
    }
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

static void put_number(struct text *t, const char *name, double x)
{
    if (isfinite(x)) text_print(t, ",\"%s\":%.9g", name, x);
}

static void put_text(struct text *t, const char *name, const char *text)
{
    text_print(t, ",\"%s\":", name);
    text_json_string(t, text ? text : "");
}

static void tell(struct exchange *x, struct text *t, bool keep)
{
    struct event e = {.kind = EVENT_NOTE, .n_bytes = t->n, .keep = keep, .on_request = true, .scored = {.token = -1}};
    if (t->failed)
        exchange_cancel(x);
    else
        exchange_event(x, &e, t->bytes);
    text_free(t);
}

static void on_event(void *user, const struct lutra_search_event *e)
{
    static const char *const names[] = {[LUTRA_EVENT_STEP] = "step",
        [LUTRA_EVENT_FORK] = "fork",
        [LUTRA_EVENT_PRUNE] = "prune",
        [LUTRA_EVENT_FINISH] = "finish"};
    struct prompt *p = user;
    struct text t = {0};
    text_print(&t, "\"search\":{\"event\":\"%s\",\"candidate\":%d,\"parent\":%d,\"n_step\":%d", names[e->kind],
        (int)e->candidate, (int)e->parent, e->n_step);
    bool scored = p->exchange->ask.look.verifier != NULL;
    if (scored) put_number(&t, "reward", e->reward);
    if (scored) put_number(&t, "score", e->score);
    if (e->kind == LUTRA_EVENT_STEP) put_text(&t, "text", e->text);
    if (e->kind == LUTRA_EVENT_FINISH) put_text(&t, "answer", e->answer);
    if (e->kind == LUTRA_EVENT_STEP && e->why && *e->why) put_text(&t, "why", e->why);
    text_put(&t, "}");
    tell(p->exchange, &t, false);
}

static void tell_decided(struct exchange *x, const struct lutra_search_result *r)
{
    struct text t = {0};
    text_print(&t, "\"search\":{\"event\":\"decided\",\"candidate\":%d", (int)r->candidate);
    put_text(&t, "answer", r->answer);
    put_number(&t, "score", r->score);
    text_print(&t, ",\"method\":\"%s\",\"width\":%d,\"expand\":%d", methods[r->method], r->width, r->expand);
    text_print(&t,
        ",\"n_candidates\":%d,\"n_finished\":%d,\"n_pruned\":%d,\"n_counted\":%d,\"n_judged\":%d,\"n_passed\":%d,"
        "\"n_agree\":%d,\"generated_tokens\":%lld,\"verifier_rows\":%lld",
        r->n_candidates, r->n_finished, r->n_pruned, r->n_counted, r->n_judged, r->n_passed, r->n_agree,
        (long long)r->generated_tokens, (long long)r->verifier_rows);
    if (r->why && *r->why) put_text(&t, "why", r->why);
    text_put(&t, "}");
    tell(x, &t, true);
}

/* ---- work ------------------------------------------------------------------------------------------------------- */

static void on_end(void *user, const struct lutra_end *e)
{
    struct prompt *p = user;
    struct exchange *x = p->exchange;
    struct lutra_end *all = &p->all;
    struct server *s = x->server;
    if (e->reason == LUTRA_STOP_ERROR) x->broke = true;
    if (e->sample >= p->n_reason) {
        unsigned char *grown = realloc(p->reason, (size_t)e->sample + 64);
        if (!grown) return;
        memset(grown + p->n_reason, 0, (size_t)e->sample + 64 - (size_t)p->n_reason);
        p->reason = grown;
        p->n_reason = e->sample + 64;
    }
    p->reason[e->sample] = (unsigned char)e->reason;
    if (p->n_candidate++ == 0) {
        *all = *e;
        atomic_fetch_add(&s->n_prompt_token, (unsigned)e->n_prompt);
        atomic_fetch_add(&s->n_cached_token, (unsigned)e->n_cached);
        if (e->first_us > e->start_us) atomic_fetch_add(&s->prompt_us, e->first_us - e->start_us);
        return;
    }
    if (e->end_us > all->end_us) all->end_us = e->end_us;
    all->n_pass = e->n_pass > all->n_pass ? e->n_pass : all->n_pass;
    all->n_drafted += e->n_drafted;
    all->n_accepted += e->n_accepted;
    all->n_wasted += e->n_wasted;
    all->n_underutilized += e->n_underutilized;
}

void search_submit(struct exchange *x)
{
    struct ask *a = &x->ask;
    struct prompt *p = &a->prompt[0];
    struct lutra_error err = {0};
    struct lutra_request r = a->set;
    r.prompt = p->token;
    r.n_prompt = p->n_token;
    r.n_samples = 1;
    r.sampling = &a->sampling;
    r.stop = a->stop;
    r.stop_tokens = a->stop_token;
    r.cache_domain = guard_domain(x);
    r.user = p;
    r.on_end = on_end;
    a->look.user = p;
    if (a->events && a->stream) a->look.on_event = on_event;
    const char *param = a->set.json_schema ? "response_format" : a->set.grammar ? "grammar" : "lutra.search";
    if (lutra_search_submit(&p->search, x->model->loaded.session, &r, &a->look, &err) < 0)
        problem_from(&x->refusal, param, &err);
    p->running = p->search != NULL;
    if (p->running) exchange_begin(x);
}

/* Spaces, a tag and more spaces at an end of [*from, *to) of the text. */
static void cut_mark(const char *text, size_t *from, size_t *to, const char *tag, bool at_end)
{
    static const char spaces[] = " \t\r\n";
    size_t n = tag ? strlen(tag) : 0;
    for (int again = 0; again < 2; again++) {
        while (*from < *to && strchr(spaces, text[at_end ? *to - 1 : *from])) *(at_end ? to : from) += at_end ? -1 : 1;
        if (again || n == 0 || *to - *from < n || memcmp(text + (at_end ? *to - n : *from), tag, n) != 0) continue;
        *(at_end ? to : from) += at_end ? -n : n;
    }
}

static void tell_part(struct exchange *x, enum lutra_part part, const char *text, size_t n)
{
    struct event e = {.kind = EVENT_TEXT, .part = part, .n_bytes = n, .scored = {.token = -1}};
    if (n > 0) exchange_event(x, &e, text);
}

/* The winner's text as that of the only choice. */
static void tell_winner(struct exchange *x, const struct lutra_search_result *r)
{
    const struct lutra_model_info *info = &x->model->info;
    struct prompt *p = &x->ask.prompt[0];
    struct event e = {.kind = EVENT_END, .scored = {.token = -1}, .end = p->all};
    size_t n = r->text ? strlen(r->text) : 0, from = 0, to = r->n_reasoning;
    int reason = r->candidate >= 0 && r->candidate < p->n_reason ? p->reason[r->candidate] : LUTRA_STOP_LENGTH;
    if (r->text && x->ask.reasoning_in_text) from = to = 0;
    size_t answer = to;
    if (to > 0) {
        cut_mark(r->text, &from, &to, info->reasoning_open, false);
        cut_mark(r->text, &from, &to, info->reasoning_close, true);
        tell_part(x, LUTRA_PART_REASONING, r->text + from, to - from);
    }
    if (r->text) tell_part(x, LUTRA_PART_ANSWER, r->text + answer, n - answer);
    e.end.sample = 0;
    e.end.stop = -1;
    e.end.reason = x->broke && !r->text ? LUTRA_STOP_ERROR : (enum lutra_stop)reason;
    if (e.end.reason == LUTRA_STOP_STRING || e.end.reason == LUTRA_STOP_TOKEN) e.end.reason = LUTRA_STOP_END;
    e.end.n_tok = (int)r->generated_tokens;
    x->broke = e.end.reason == LUTRA_STOP_ERROR;
    exchange_event(x, &e, "");
}

bool search_is_over(struct exchange *x)
{
    struct prompt *p = &x->ask.prompt[0];
    const struct lutra_search_result *r = lutra_search_done(p->search);
    if (!p->running) return true;
    if (!r) return false;
    atomic_fetch_add(&x->server->n_token, (unsigned)r->generated_tokens);
    if (p->all.end_us > p->all.first_us) atomic_fetch_add(&x->server->decode_us, p->all.end_us - p->all.first_us);
    tell_decided(x, r);
    tell_winner(x, r);
    search_cancel(x);
    return true;
}

void search_cancel(struct exchange *x)
{
    struct prompt *p = &x->ask.prompt[0];
    lutra_search_close(&p->search);
    p->running = false;
}
