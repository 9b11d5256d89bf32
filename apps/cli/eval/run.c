/* SPDX-License-Identifier: MIT */
#include "eval/eval.h"

#include <stdlib.h>
#include <string.h>

/* Requests waiting behind the running ones, so that no row stays empty at the end of a problem. */
enum { AHEAD = 256, MAX_STEPS = 64 };

/* One problem under way. */
struct attempt {
    struct eval_run *run;
    struct eval_problem *problem;
    struct eval_outcome *out;
    int problem_index, n_left; /* samples still to end, without a search */
    struct buffer *text;       /* [n_sample], unless only the search knows its candidates */
    size_t *n_before;          /* [n_sample] bytes of each before its answer: reasoning */
    int *n_tok;                /* [n_tok_room] tokens of a search's candidates */
    int n_tok_room, n_failed;
    bool each; /* every candidate of the search is a sample of the outcome */
    lutra_search_run *search;
    uint64_t start_us;
};

/* Everything a pass needs. */
struct pass {
    struct eval_run *run;
    const struct eval_source *source;
    int max_tokens, n_search; /* searches at once */
    bool keep_texts;
    lutra_verifier *verifier; /* of all of them */
    struct attempt **active;  /* [n_active] */
    int n_active, n_waiting;  /* samples under way */
    uint64_t tokens;
    int n_failed;
};

/* ---- what samples and searches report ---- */

static struct lutra_check check_of(const struct eval_problem *problem, const char *text)
{
    struct lutra_check check;
    lutra_check_init(&check, sizeof check);
    check.question = problem->question;
    check.expected = problem->answer ? problem->answer : "";
    check.text = check.step = text ? text : "";
    return check;
}

static void set_answer(const struct attempt *a, struct eval_sample *s, const char *text, const char *answer)
{
    free(s->answer);
    s->answer = answer && *answer ? copy_text(answer) : NULL;
    s->right = s->answer && a->problem->answer && !strcmp(s->answer, a->problem->answer);
    if (!a->run->grader) return;
    struct lutra_check check = check_of(a->problem, text);
    double reward = 0;
    s->right = lutra_verifier_check(a->run->grader, &check, &reward, NULL) == 0 && reward >= 1;
}

static int *candidate_tokens(struct attempt *a, int candidate)
{
    if (candidate >= a->n_tok_room) {
        int room = candidate * 2 + 64;
        a->n_tok = grow_memory(a->n_tok, (size_t)room * sizeof *a->n_tok);
        memset(a->n_tok + a->n_tok_room, 0, (size_t)(room - a->n_tok_room) * sizeof *a->n_tok);
        a->n_tok_room = room;
    }
    return &a->n_tok[candidate];
}

/* What a sample says behind its reasoning; NULL: nothing at all. */
static const char *answer_of(const struct attempt *a, int sample)
{
    return a->text[sample].text ? a->text[sample].text + a->n_before[sample] : NULL;
}

static int on_text(void *user, const struct lutra_piece *piece)
{
    struct attempt *a = user;
    bool listed = a->text && piece->sample < a->out->n_sample;
    if (listed && piece->n_bytes) buffer_add(&a->text[piece->sample], piece->text, piece->n_bytes);
    if (listed && piece->part != LUTRA_PART_ANSWER) a->n_before[piece->sample] = a->text[piece->sample].n_bytes;
    if (a->search && piece->token >= 0) ++*candidate_tokens(a, piece->sample);
    return 0;
}

static void on_end(void *user, const struct lutra_end *end)
{
    struct attempt *a = user;
    a->n_failed += end->reason == LUTRA_STOP_ERROR;
    a->n_left--;
    if (a->out->texts) eval_texts_end(a->out, end->sample, end->reason);
    if (end->reason == LUTRA_STOP_PRUNED && a->search) a->out->pruned_tokens += *candidate_tokens(a, end->sample);
    if (!a->text) return;
    struct eval_sample *s = &a->out->sample[end->sample];
    s->n_tok = end->n_tok;
    s->sum_log_prob = end->sum_log_prob;
    s->reason = end->reason;
    a->out->tokens += end->n_tok;
    if (a->each) return;
    char answer[1024];
    const char *text = answer_of(a, end->sample);
    set_answer(a, s, text, text && lutra_answer(text, answer, sizeof answer) ? answer : NULL);
    if (a->out->texts) eval_texts_sample(a->out, end->sample, a->text[end->sample].text, a->text[end->sample].n_bytes);
}

static void on_event(void *user, const struct lutra_search_event *event)
{
    struct attempt *a = user;
    if (a->out->texts) eval_texts_event(a->out, event);
    if (!a->each || event->candidate >= a->out->n_sample) return;
    struct eval_sample *s = &a->out->sample[event->candidate];
    if (event->kind == LUTRA_EVENT_FINISH) set_answer(a, s, answer_of(a, event->candidate), event->answer);
    if (event->kind != LUTRA_EVENT_STEP) return;
    s->score = event->score;
    s->judged = !*event->why;
    s->n_step = event->n_step;
}

/* ---- begin and end of an attempt ---- */

/* Each problem gets numbers of its own: splitmix64 of seed and place. */
static uint64_t problem_seed(uint64_t seed, int i)
{
    uint64_t z = seed + 0x9e3779b97f4a7c15u * ((uint64_t)i + 1);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static bool is_search(const struct eval_source *s)
{
    return s->kind == EVAL_SEARCH || (s->kind == EVAL_SAMPLES && s->scored);
}

static bool needs_verifier(const struct eval_source *s)
{
    return is_search(s) && !(s->kind == EVAL_SEARCH && s->search == LUTRA_SEARCH_VOTE);
}

static struct lutra_search search_settings(const struct pass *p, struct attempt *a)
{
    struct lutra_search s;
    lutra_search_init(&s, sizeof s);
    s.method = a->each ? LUTRA_SEARCH_BEST : p->source->search;
    s.width = p->source->width;
    s.expand = p->source->expand > 0 ? p->source->expand : 1;
    judge_options_apply(&p->run->opts->judge, &s);
    if (a->each) s.until_pass = false; /* all samples are looked at */
    s.question = a->problem->question;
    s.expected = a->problem->answer;
    s.max_steps = MAX_STEPS;
    s.early_stop = p->source->early_stop;
    s.verifier = p->verifier;
    s.token_budget = p->source->tokens_budget;
    s.time_budget_us = p->source->us_budget;
    s.option = p->run->auto_table.option;
    s.n_option = p->run->auto_table.n;
    s.option_size = sizeof *s.option;
    s.on_event = on_event;
    s.user = a;
    return s;
}

static int submit(struct pass *p, struct attempt *a)
{
    struct lutra_error err = {0};
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    int rc;
    r.prompt = a->problem->prompt.id;
    r.n_prompt = a->problem->prompt.n;
    r.n_samples = p->source->kind == EVAL_SAMPLES ? p->source->width : 1;
    r.max_tokens = p->max_tokens;
    if (p->run->opts->budget > 0) r.reasoning_budget = p->run->opts->budget; /* 0 is the template's business */
    struct lutra_sampling sampling = p->run->sampling;
    sampling.seed = problem_seed(sampling.seed, a->problem_index);
    if (p->source->kind == EVAL_GREEDY) sampling.temperature = 0;
    r.sampling = &sampling;
    r.chat_template = p->run->set->chat_template.text;
    r.on_text = on_text;
    r.on_end = on_end;
    r.user = a;
    a->start_us = now_us();
    if (is_search(p->source)) {
        struct lutra_search s = search_settings(p, a);
        rc = lutra_search_submit(&a->search, p->run->engine.session, &r, &s, &err);
    } else {
        rc = lutra_submit(p->run->engine.session, &r, NULL, &err);
    }
    return rc < 0 ? fail_with(&err) : 0;
}

static int begin(struct pass *p, int index, struct eval_outcome *out)
{
    struct attempt *a = get_memory(sizeof *a);
    int n = p->source->kind == EVAL_SAMPLES ? p->source->width : 1;
    bool search = is_search(p->source);
    *a = (struct attempt){.run = p->run, .problem = &p->run->set->problem[index], .out = out, .problem_index = index};
    a->each = search && p->source->kind == EVAL_SAMPLES;
    a->n_left = n;
    *out = (struct eval_outcome){.n_sample = n, .sample = get_memory((size_t)n * sizeof *out->sample)};
    if (p->keep_texts) eval_texts_open(out);
    if (!search || a->each) {
        a->text = get_memory((size_t)n * sizeof *a->text);
        a->n_before = get_memory((size_t)n * sizeof *a->n_before);
    }
    p->active[p->n_active++] = a;
    p->n_waiting += search ? p->source->width : n;
    return submit(p, a);
}

/* What a finished search leaves. */
static void take_result(struct attempt *a)
{
    const struct lutra_search_result *res = lutra_search_done(a->search);
    struct eval_outcome *out = a->out;
    out->tokens = res->generated_tokens;
    out->n_candidates = res->n_candidates;
    out->n_finished = res->n_finished;
    out->n_pruned = res->n_pruned;
    out->verifier_rows = res->verifier_rows;
    out->n_counted = res->n_counted;
    out->n_judged = res->n_judged;
    if (res->why && *res->why) snprintf(a->run->no_reward, sizeof a->run->no_reward, "%s", res->why);
    if (!a->each) {
        struct eval_sample *s = &out->sample[0];
        set_answer(a, s, res->text ? res->text + res->n_reasoning : NULL, res->answer);
        s->score = res->score;
        s->reason = res->candidate >= 0 ? LUTRA_STOP_END : LUTRA_STOP_NONE;
    }
    lutra_search_close(&a->search);
}

static void free_attempt(struct pass *p, struct attempt *a)
{
    int n = p->source->kind == EVAL_SAMPLES ? p->source->width : 1;
    for (int i = 0; a->text && i < n; i++) buffer_free(&a->text[i]);
    if (a->search) lutra_search_close(&a->search);
    free(a->text);
    free(a->n_before);
    free(a->n_tok);
    free(a);
}

/* Takes finished attempts out; their number, or an exit code below 0. */
static int collect(struct pass *p, int source, bool journal)
{
    int n_done = 0, code = 0;
    for (int i = 0; i < p->n_active && !code;) {
        struct attempt *a = p->active[i];
        if (a->search ? !lutra_search_done(a->search) : a->n_left > 0) {
            i++;
            continue;
        }
        bool search = a->search != NULL;
        if (search) take_result(a);
        if (!search) a->out->n_candidates = a->out->n_finished = a->out->n_sample;
        a->out->us = now_us() - a->start_us;
        a->out->done = true;
        p->n_failed += a->n_failed;
        p->tokens += (uint64_t)a->out->tokens;
        p->n_waiting -= search ? p->source->width : a->out->n_sample;
        if (journal && p->run->journal && !a->n_failed) code = eval_journal_add(p->run, source, a->problem_index);
        free_attempt(p, a);
        p->active[i] = p->active[--p->n_active];
        n_done++;
    }
    return code ? -code : n_done;
}

/* ---- a pass ---- */

static int open_verifier(struct pass *p, int parallel)
{
    const struct eval_run *run = p->run;
    if (!needs_verifier(p->source) || !judge_wanted(&run->opts->judge)) return 0;
    p->n_search = parallel > 1 ? parallel / p->source->width + 1 : 1;
    return judge_verifier(
        &run->judge, &run->opts->judge, p->n_search * (p->source->width + 1), run->n_ctx, MAX_STEPS, &p->verifier);
}

static bool has_room(const struct pass *p, int parallel)
{
    if (p->verifier) return p->n_active < p->n_search;
    return p->n_waiting < (parallel > 1 ? parallel + AHEAD : 1);
}

static void close_pass(struct pass *p)
{
    for (int i = 0; i < p->n_active; i++) free_attempt(p, p->active[i]);
    lutra_verifier_close(&p->verifier);
    free(p->active);
}

int eval_run_source(struct eval_run *run, struct eval_source *source, int index, const int *list, int n_list,
    int parallel, struct eval_outcome *const *outcome, bool journal)
{
    struct pass p = {.run = run, .source = source, .max_tokens = run->opts->max_tokens};
    p.keep_texts = run->opts->keep_texts && index >= 0;
    struct lutra_error err = {0};
    int n_done = 0, n_sent = 0, n_active = 0;
    p.active = get_memory((size_t)n_list * sizeof *p.active + 1);
    int code = open_verifier(&p, parallel);
    uint64_t start = now_us();
    while (!code && n_done < n_list) {
        while (!code && n_sent < n_list && has_room(&p, parallel)) {
            code = begin(&p, list[n_sent], outcome[n_sent]);
            n_sent++;
        }
        if (interrupted()) code = EXIT_INTERRUPTED;
        if (!code && lutra_step(run->engine.session, &n_active, &err) < 0 && !p.n_failed) code = fail_with(&err);
        if (interrupted()) code = EXIT_INTERRUPTED; /* what the pass has cancelled is no outcome */
        int n = code ? 0 : collect(&p, index, journal);
        if (n < 0) code = -n;
        n_done += n > 0 ? n : 0;
        progress_show(source->name, (uint64_t)n_done, (uint64_t)n_list);
    }
    progress_clear();
    source->seconds += (double)(now_us() - start) * 1e-6;
    source->tokens += p.tokens;
    if (!code && p.n_failed) {
        say("%d of %d answers ended in an error: the model's logits leave no token to sample", p.n_failed,
            n_list * source->width);
        code = EXIT_FAILED;
    }
    /* Requests still running call back into the attempts: end them before those go. */
    if (code) {
        interrupt_watch(NULL);
        for (int i = 0; i < p.n_active; i++)
            if (p.active[i]->search) lutra_search_close(&p.active[i]->search);
        lutra_session_close(&run->engine.session);
    }
    close_pass(&p);
    return code;
}

void eval_outcome_free(struct eval_outcome *out)
{
    for (int i = 0; i < out->n_sample; i++) free(out->sample[i].answer);
    free(out->sample);
    eval_texts_free(out);
    *out = (struct eval_outcome){0};
}
