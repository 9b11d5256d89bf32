/* SPDX-License-Identifier: MIT
 *
 * A search from its settings to its result.
 */
#include "search/search_impl.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FINAL_PER_WIDTH = 4, /* whole solutions of a search over steps */
    AUTO_PER_WIDTH = 16, /* candidates that a budget draws at most */
    AUTO_OPTIONS = 1024,
    EXPECTED_TOKENS = 128 /* of a candidate, while nothing is known */
};

void lutra_search_init(struct lutra_search *search, size_t size)
{
    struct lutra_search d = {.size = sizeof d,
        .method = LUTRA_SEARCH_VOTE,
        .width = 16,
        .expand = 1,
        .score = LUTRA_SCORE_AUTO,
        .step = "\n",
        .max_steps = 64,
        .early_stop = true,
        .prune_below = 0.1f,
        .temperature = 0.1f};
    settings_fill(search, size, &d);
}

/* The casts between the public names and those of decode/. */
_Static_assert((int)LUTRA_SEARCH_VOTE == SEARCH_VOTE && (int)LUTRA_SEARCH_WEIGHTED == SEARCH_WEIGHTED &&
                   (int)LUTRA_SEARCH_BEST == SEARCH_BEST && (int)LUTRA_SEARCH_BEAM == SEARCH_BEAM &&
                   (int)LUTRA_SEARCH_DVTS == SEARCH_DVTS && (int)LUTRA_SEARCH_REBASE == SEARCH_REBASE,
    "methods of a search");
_Static_assert((int)LUTRA_SCORE_LAST == SEARCH_LAST && (int)LUTRA_SCORE_MIN == SEARCH_MIN &&
                   (int)LUTRA_SCORE_PRODUCT == SEARCH_PRODUCT && (int)LUTRA_SCORE_MEAN == SEARCH_MEAN,
    "scores of a search");

/* ---- settings ---- */

enum { STEPS_MOST = 1 << 24 };
#define BUDGET_MOST ((int64_t)1 << 52) /* exact in a double */

static int check_verifier(const lutra_session *s, const struct lutra_search *set, struct lutra_error *err)
{
    const lutra_verifier *v = set->verifier;
    if (!v || v->kind == VERIFIER_CHECK) return 0;
    if (!v->session && v->model != session_model(s))
        return lutra_fail(err, LUTRA_E_ARGUMENT,
            "search: a verifier with n_seq = 0 judges by the rows of the generator, so it must be opened on the same "
            "model");
    return verifier_check_vocab(v, session_model(s), err);
}

static int check(const lutra_session *s, const struct lutra_search *set, struct lutra_error *err)
{
    if (set->width < 1 || set->width > 4096)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: width is %d, outside 1..4096", set->width);
    if (set->method < LUTRA_SEARCH_VOTE || set->method > LUTRA_SEARCH_AUTO)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: method %d is not known", (int)set->method);
    if (set->score < LUTRA_SCORE_LAST || set->score > LUTRA_SCORE_AUTO)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: score %d is not known", (int)set->score);
    bool steps = set->method >= LUTRA_SEARCH_BEAM && set->method <= LUTRA_SEARCH_REBASE;
    if (steps && set->width > session_sizes(s).n_seq)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: %d rows wide, but the session has n_seq = %d", set->width,
            session_sizes(s).n_seq);
    if (set->method != LUTRA_SEARCH_REBASE && steps && (set->expand < 1 || set->width % set->expand))
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "search: width %d is not a multiple of expand %d", set->width, set->expand);
    if (!set->step || !*set->step || strlen(set->step) > 31)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: the step delimiter is empty or longer than 31 bytes");
    if (set->max_steps < 1 || set->max_steps > STEPS_MOST)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: max_steps is %d, outside 1..%d", set->max_steps, STEPS_MOST);
    if (!(set->prune_below >= 0 && set->prune_below <= 1))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: prune_below is %g, outside 0..1", (double)set->prune_below);
    if (!(set->temperature > 0 && isfinite(set->temperature)))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: temperature is %g, not above 0", (double)set->temperature);
    if (set->token_budget > BUDGET_MOST || set->time_budget_us > BUDGET_MOST)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "search: a budget of more than %lld tokens or microseconds", (long long)BUDGET_MOST);
    if (set->token_budget < 0 || set->n_option < 0 || set->n_option > AUTO_OPTIONS)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: a negative budget, or not 0..%d options", AUTO_OPTIONS);
    if (set->method == LUTRA_SEARCH_AUTO && set->token_budget == 0 && set->time_budget_us == 0)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: to choose a method takes a budget of tokens or time");
    if (set->method != LUTRA_SEARCH_VOTE && set->method != LUTRA_SEARCH_AUTO && !set->verifier)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: this method needs a verifier");
    bool chooses = set->verifier && set->method != LUTRA_SEARCH_VOTE && set->method != LUTRA_SEARCH_WEIGHTED;
    if (set->until_pass && !chooses)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "search: until_pass needs a verifier and a method that picks the best");
    return check_verifier(s, set, err);
}

static const struct element_kind option_kind = {"search: option",
    offsetof(struct lutra_search_option, accuracy) + sizeof(double), sizeof(struct lutra_search_option)};

/* AUTO becomes the method that the budget buys; *temperature that of its samples. */
static int choose_method(lutra_search_run *run, float *temperature, struct lutra_error *err)
{
    struct lutra_search *set = &run->set;
    struct lutra_search_option o;
    struct search_means means = {.tokens = set->token_budget,
        .us = set->time_budget_us,
        .verifier = set->verifier != NULL,
        .until_pass = set->until_pass,
        .max_width = set->width,
        .max_beam = session_sizes(run->s).n_seq};
    struct search_option best = search_option_unmeasured(&means);
    bool found = false;
    for (int i = 0; i < set->n_option; i++) {
        TRY(element_copy(&option_kind, &o, set->option, i, set->option_size, err));
        struct search_option one = {
            (enum search_method)o.method, o.width, o.expand > 0 ? o.expand : 1, o.greedy, o.tokens, o.us, o.accuracy};
        bool known = o.method >= LUTRA_SEARCH_VOTE && o.method <= LUTRA_SEARCH_REBASE && one.width % one.expand == 0;
        if (!known || !search_option_fits(&one, &means) || (found && !search_option_better(&one, &best))) continue;
        best = one;
        found = true;
    }
    if (set->n_option > 0 && !found) best = (struct search_option){SEARCH_VOTE, 1, 1, true, 0, -1, 0};
    set->method = (enum lutra_search_method)best.method;
    set->width = best.width;
    set->expand = best.expand;
    if (best.greedy) *temperature = 0;
    run->n_more = best.greedy ? 0 : AUTO_PER_WIDTH * best.width;
    run->measured = best.tokens > 0;
    if (run->measured) run->expected = best.tokens / best.width;
    return 0;
}

/* Candidates to begin with; the others of a budget follow when the first have shown what one costs. */
static int first_wave(lutra_search_run *run)
{
    const struct lutra_search *set = &run->set;
    if (set->token_budget == 0 || search_in_steps(run)) return set->width;
    int n = search_wave((double)set->token_budget, run->expected, run->expected, set->width);
    return n > 0 ? n : 1;
}

/* ---- memory ---- */

static int reserve(lutra_search_run *run, int max_tok, struct lutra_error *err)
{
    size_t n_final = (size_t)run->max_final, tok = (size_t)max_tok + 1;
    run->final = calloc(n_final, sizeof *run->final);
    run->tokens = calloc(n_final, tok * sizeof *run->tokens);
    run->length = calloc(n_final, sizeof *run->length);
    run->question = strdup(run->set.question ? run->set.question : "");
    run->expected_answer = strdup(run->set.expected ? run->set.expected : "");
    run->text = malloc(tok * text_vocab_max_piece_bytes(session_model(run->s)->vocab) + 1);
    run->cand = calloc((size_t)run->set.width + n_final, sizeof *run->cand);
    run->choice = calloc(n_final, sizeof *run->choice);
    run->live = calloc((size_t)session_sizes(run->s).n_seq, sizeof *run->live);
    run->node = calloc((size_t)session_sizes(run->s).n_seq, sizeof *run->node);
    if (!run->node || !run->final || !run->tokens || !run->length || !run->text || !run->cand || !run->choice ||
        !run->live || !run->question || !run->expected_answer)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "search: out of memory");
    for (size_t i = 0; i < n_final; i++) run->final[i].token = run->tokens + i * tok;
    if (!run->judge || !run->judge->program) return 0;
    return ask_open(&run->ask, &run->judge->asker, run->judge->program, run->s, run->question, run->expected_answer,
        tok * text_vocab_max_piece_bytes(session_model(run->s)->vocab), err);
}

/* Sequences and blocks of the judge, so that no candidate of any search finds it full. */
static int reserve_judge(lutra_search_run *run, int n_prompt, int max_tok, struct lutra_error *err)
{
    lutra_verifier *v = run->judge;
    if (!v || v->kind == VERIFIER_CHECK) return 0;
    int64_t longest = (int64_t)max_tok + 1 + (int64_t)v->mark.n * run->set.max_steps;
    int64_t own = (longest + KV_BLOCK - 1) / KV_BLOCK - n_prompt / KV_BLOCK + 1;
    int64_t blocks = (n_prompt + KV_BLOCK - 1) / KV_BLOCK + 1 + own * run->set.width;
    if (longest > session_sizes(v->session).n_ctx)
        return lutra_fail(err, LUTRA_E_CTX_FULL,
            "search: candidates of up to %lld tokens do not fit the verifier's context of %d", (long long)longest,
            session_sizes(v->session).n_ctx);
    if (run->set.width > v->free_seq)
        return lutra_fail(err, LUTRA_E_BUSY, "search: %d candidates, but the verifier has room for %d now (n_seq)",
            run->set.width, v->free_seq);
    if (blocks > v->free_block)
        return lutra_fail(err, LUTRA_E_CTX_FULL, "search: the verifier's cache has %lld blocks left, %lld are needed",
            (long long)v->free_block, (long long)blocks);
    run->verify_tok = (int)longest;
    run->reserved_block = blocks;
    v->free_seq -= run->set.width;
    v->free_block -= blocks;
    return 0;
}

/* A search over steps needs room for all its candidates at once: where the whole cache has none for so many, it is
 * narrower.  What is in the cache at the moment does not count: that it waits for. */
static int narrow(lutra_search_run *run, int n_prompt, int max_tok, struct lutra_error *err)
{
    lutra_session *s = run->s;
    struct lutra_search *set = &run->set;
    if (!search_in_steps(run) || n_prompt < 1 || n_prompt >= session_sizes(s).n_ctx)
        return 0; /* what is wrong with it is told later */
    int most = set->width;
    while (most > 0 && request_blocks(n_prompt, max_tok, most) > session_sizes(s).n_cache / KV_BLOCK) most--;
    if (most >= set->width) return 0;
    if (most < 1)
        return lutra_fail(err, LUTRA_E_CTX_FULL,
            "search: a cache of %lld tokens has no room for a candidate of %d tokens beside its prompt",
            (long long)session_sizes(s).n_cache, max_tok);
    int width = most;
    if (set->method != LUTRA_SEARCH_REBASE && width >= set->expand) width -= width % set->expand;
    if (set->method != LUTRA_SEARCH_REBASE && width < set->expand) set->expand = width;
    log_line(&session_model(s)->runtime->log, LUTRA_LOG_WARN,
        "search: %d candidates at once instead of %d: a cache of %lld tokens holds no more of up to %d tokens", width,
        set->width, (long long)session_sizes(s).n_cache, max_tok);
    set->width = width;
    return 0;
}

/* ---- begin ---- */

static int submit_tokens(lutra_search_run *run, struct lutra_request set, struct lutra_error *err)
{
    lutra_session *s = run->s;
    struct lutra_sampling sampling;
    lutra_model_sampling_get(session_model(s), &sampling, sizeof sampling);
    TRY(settings_copy(&sampling, sizeof sampling, set.sampling, "sampling", err));
    set.sampling = &sampling;
    run->expected = set.max_tokens >= 0 && set.max_tokens < EXPECTED_TOKENS ? set.max_tokens : EXPECTED_TOKENS;
    bool chosen = run->set.method == LUTRA_SEARCH_AUTO;
    if (chosen) TRY(choose_method(run, &sampling.temperature, err));
    int max_tok = request_max_tok(s, &set);
    run->policy.method = (enum search_method)run->set.method;
    TRY(narrow(run, set.n_prompt, max_tok, err));
    run->policy = (struct search_settings){.method = (enum search_method)run->set.method,
        .score = (enum search_score)run->set.score,
        .width = run->set.width,
        .expand = run->set.expand,
        .prune_below = run->set.prune_below,
        .temperature = run->set.temperature};
    set.n_samples = first_wave(run);
    if (!chosen) run->n_more = search_in_steps(run) ? 0 : run->set.width - set.n_samples;
    run->max_final = (search_in_steps(run) ? FINAL_PER_WIDTH * run->set.width : set.n_samples) + run->n_more;
    if (run->judge && run->judge->kind == VERIFIER_CHECK && !search_in_steps(run))
        run->set.max_steps = 1; /* it judges whole texts */
    TRY(reserve(run, max_tok, err));
    TRY(reserve_judge(run, set.n_prompt, max_tok, err));
    struct request_care care = {&search_watch, run,
        run->set.width < session_sizes(s).n_seq ? run->set.width : session_sizes(s).n_seq,
        search_in_steps(run) ? request_share(set.n_prompt, max_tok) : 0, NULL};
    int32_t id;
    TRY(request_submit(s, &set, &care, &id, err));
    run->request = care.request;
    run->source = (struct row_source){&search_source, run, NULL};
    source_add(session_sources(s), &run->source);
    run->wave_us = run->request->submit_us;
    return 0;
}

static int submit(lutra_search_run *run, const struct lutra_request *request, struct lutra_error *err)
{
    struct lutra_request set;
    struct text_tokens own;
    lutra_request_init(&set, sizeof set);
    TRY(settings_copy(&set, sizeof set, request, "request", err));
    int rc = request_encode(run->s, &set, &own, err);
    if (rc == 0) rc = submit_tokens(run, set, err);
    text_tokens_fini(&own);
    return rc;
}

int lutra_search_submit(lutra_search_run **out, lutra_session *session, const struct lutra_request *request,
    const struct lutra_search *search, struct lutra_error *err)
{
    struct lutra_search set;
    lutra_search_init(&set, sizeof set);
    *out = NULL;
    TRY(handle_check(session, "session", err));
    TRY(settings_copy(&set, sizeof set, search, "search", err));
    TRY(check(session, &set, err));
    lutra_search_run *run = calloc(1, sizeof *run);
    if (!run) return lutra_fail(err, LUTRA_E_NO_MEMORY, "search: out of memory");
    run->s = session;
    run->set = set;
    if (set.score == LUTRA_SCORE_AUTO)
        run->set.score =
            set.verifier && set.verifier->kind == VERIFIER_LIKELIHOOD ? LUTRA_SCORE_PRODUCT : LUTRA_SCORE_LAST;
    run->self =
        set.verifier && set.verifier->kind == VERIFIER_LIKELIHOOD && set.verifier->model == session_model(session);
    run->judge = run->self ? NULL : set.verifier;
    run->prompt_seq = -1;
    run->best_reward = -1;
    snprintf(run->step, sizeof run->step, "%s", set.step);
    int rc = submit(run, request, err);
    if (rc < 0) {
        lutra_search_close(&run);
        return rc;
    }
    *out = run;
    return 0;
}

/* ---- end ---- */

static int by_id(const void *a, const void *b)
{
    const struct search_final *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

int search_choices(lutra_search_run *run, int end)
{
    int n = 0;
    for (int i = 0; i < run->n_final; i++)
        if (run->final[i].id < end)
            run->choice[n++] = (struct search_final){run->final[i].id, run->final[i].answer,
                search_reward_score(&run->final[i].node.reward, run->policy.score)};
    qsort(run->choice, (size_t)n, sizeof *run->choice, by_id);
    return n;
}

static void give_back(lutra_search_run *run)
{
    lutra_verifier *v = run->judge;
    if (!v) return;
    ask_close(&run->ask);
    for (int i = 0; i < run->n_final; i++) search_drop_seq(run, &run->final[i].node);
    if (run->prompt_seq >= 0) lutra_seq_close(v->session, run->prompt_seq);
    if (run->reserved_block > 0) v->free_seq += run->set.width;
    v->free_block += run->reserved_block;
    run->judge = NULL;
}

static void take_winner(lutra_search_run *run, const struct search_final *win, int n_choice)
{
    struct lutra_search_result *res = &run->result;
    const struct final *f = run->final;
    while (f->id != win->id) f++;
    int votes = 0;
    for (int i = 0; i < n_choice; i++) votes += *f->answer && !strcmp(run->choice[i].answer, f->answer);
    res->candidate = f->id;
    res->score = run->policy.method == SEARCH_VOTE ? (double)votes / n_choice : win->score;
    lutra_detokenize(session_model(run->s), f->token, f->n_text, false, &res->text, NULL, NULL);
    size_t n_text = res->text ? strlen(res->text) : 0;
    res->n_reasoning = n_text > f->n_answer ? n_text - f->n_answer : 0;
    res->answer = strdup(f->answer);
    res->n_agree = votes;
}

/* How many of the candidates chosen from have a reward, and the full one. */
static void count_judged(lutra_search_run *run, int end)
{
    struct lutra_search_result *res = &run->result;
    for (int i = 0; i < run->n_final; i++) {
        const struct final *f = &run->final[i];
        if (f->id >= end || !f->node.judged) continue;
        res->n_judged++;
        res->n_passed += search_reward_score(&f->node.reward, run->policy.score) >= 1;
    }
}

/* The method that chooses the winner: where a checker gives every candidate nothing, the most frequent answer wins. */
static enum search_method chooser(const lutra_search_run *run, int n)
{
    bool checks = run->judge && run->judge->kind == VERIFIER_CHECK;
    for (int i = 0; i < n; i++)
        if (run->choice[i].score > 0) return run->policy.method;
    return checks ? SEARCH_VOTE : run->policy.method;
}

void search_finish(lutra_search_run *run)
{
    struct lutra_search_result *res = &run->result;
    struct request *r = run->request;
    if (run->done) return;
    int end = search_in_steps(run) ? INT_MAX : search_counted(run), n = search_choices(run, end);
    int win = search_choose(chooser(run, n), run->choice, n);
    count_judged(run, end);
    res->n_counted = n;
    res->why = strdup(run->last_why);
    res->candidate = -1;
    if (win >= 0) take_winner(run, &run->choice[win], n);
    give_back(run);
    res->n_candidates = r->n_started;
    res->n_finished = run->n_final;
    res->verifier_rows = run->verifier_rows;
    res->best_reward = run->best_reward;
    res->method = run->set.method;
    res->width = run->set.width;
    res->expand = run->set.expand;
    res->us = session_now_us(run->s) - r->submit_us;
    source_remove(session_sources(run->s), &run->source);
    run->done = true;
    run->request = NULL;
    run->s = NULL;
}

const struct lutra_search_result *lutra_search_done(const lutra_search_run *run)
{
    return run && run->done ? &run->result : NULL;
}

void lutra_search_close(lutra_search_run **search)
{
    lutra_search_run *run = search ? *search : NULL;
    if (!run) return;
    if (run->request) {
        struct request *r = run->request;
        request_end(run->s, r, LUTRA_STOP_CANCELLED);
        search_finish(run);
        r->watch = NULL;
    }
    give_back(run);
    free(run->final);
    free(run->tokens);
    free(run->length);
    free(run->question);
    free(run->expected_answer);
    free(run->text);
    free(run->cand);
    free(run->choice);
    free(run->live);
    free(run->node);
    free(run->result.text);
    free(run->result.answer);
    free(run->result.why);
    free(run);
    *search = NULL;
}
