/* SPDX-License-Identifier: MIT
 *
 * A search: candidates run as samples of one request; at the end of every step they pause until all have, the
 * verifier scores what is new, and decode/search says who goes on and how often.
 */
#include "engine/search_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/search/answer.h"

enum { ANSWER_BYTES = 256, FINAL_PER_WIDTH = 4 };

/* A whole solution. */
struct final {
    int32_t id, verify_seq; /* verify_seq -1: scored, or there is no verifier */
    struct search_node node;
    int32_t *token;      /* [max_tok + 1] generated tokens, an end token included */
    int n_token, n_text; /* all, and without the end token */
    char answer[ANSWER_BYTES];
};

struct lutra_search_run {
    lutra_session *s;
    struct request *request; /* NULL once it is over */
    struct lutra_search set;
    struct search_settings policy;
    char step[32];
    int32_t prompt_seq; /* the prompt in the verifier's cache, -1 before the first round */
    int verify_tok;     /* longest sequence there */
    int64_t rows_before;

    struct final *final; /* [max_final] in order of their ends */
    int n_final, max_final, n_seen;
    int32_t *tokens;
    char *text;                    /* scratch: one candidate's text */
    struct search_candidate *cand; /* [width + max_final] */
    struct search_final *choice;   /* [max_final] */
    struct verify_job *job;        /* [2 * width] */
    struct search_node **judged;   /* [2 * width] whose reward a job is */
    struct sample **live;          /* [width] */
    struct lutra_search_result result;
    bool done;
};

struct lutra_search lutra_search_default(void)
{
    return (struct lutra_search){.size = sizeof(struct lutra_search),
        .method = LUTRA_SEARCH_VOTE,
        .width = 16,
        .expand = 4,
        .score = LUTRA_SCORE_LAST,
        .step = "\n",
        .max_steps = 64,
        .early_stop = true,
        .temperature = 0.1f};
}

size_t lutra_answer(const char *text, char *answer, size_t n_max)
{
    return search_answer(text, answer, n_max);
}

int search_width(const lutra_search_run *run)
{
    return run->set.width < run->s->n_seq ? run->set.width : run->s->n_seq;
}

int search_group(const lutra_search_run *run, int index)
{
    return run->policy.method == SEARCH_DVTS ? index / run->set.expand : 0;
}

static bool in_steps(const lutra_search_run *run)
{
    return run->policy.method >= SEARCH_BEAM;
}

/* ---- text and events ---- */

/* Generated tokens from .. to as text in run->text. */
static const char *spell(lutra_search_run *run, const int32_t *token, int from, int to)
{
    size_t n = 0;
    for (int i = from; i < to; i++) {
        struct text_bytes piece = text_token_piece(run->s->model->vocab, token[i], 0);
        if (piece.n) memcpy(run->text + n, piece.p, piece.n);
        n += piece.n;
    }
    run->text[n] = 0;
    return run->text;
}

static void tell(lutra_search_run *run, enum lutra_search_event_kind kind, int32_t id, const struct search_node *node,
    const char *text, const char *answer)
{
    if (!run->set.on_event) return;
    struct lutra_search_event e = {.kind = kind,
        .request = run->request->id,
        .candidate = id,
        .parent = node->parent,
        .n_step = node->n_step,
        .reward = node->reward.last,
        .score = search_reward_score(&node->reward, run->policy.score),
        .text = text,
        .answer = answer};
    run->set.on_event(run->set.user, &e);
}

/* ---- what samples report ---- */

static const int32_t *generated(const struct sample *slot)
{
    return slot->token + slot->request->set.n_prompt;
}

void search_after_token(struct sample *slot)
{
    lutra_search_run *run = slot->request->search;
    if (!in_steps(run)) return;
    /* The delimiter may begin in an earlier token of the step. */
    int from = slot->n_generated - (int)strlen(run->step);
    if (from < slot->node.step_from) from = slot->node.step_from;
    slot->node.paused = strstr(spell(run, generated(slot), from, slot->n_generated), run->step) != NULL;
}

void search_record(struct sample *slot, enum lutra_stop reason)
{
    lutra_search_run *run = slot->request->search;
    struct search_node *node = &slot->node;
    node->paused = false;
    run->result.generated_tokens += slot->n_generated - node->born;
    bool whole = reason == LUTRA_STOP_END || reason == LUTRA_STOP_STRING || reason == LUTRA_STOP_LENGTH ||
                 reason == LUTRA_STOP_CTX_FULL;
    if (!whole || run->n_final == run->max_final) {
        if (node->verify_seq >= 0) lutra_seq_close(run->set.verifier->session, node->verify_seq);
        run->result.n_pruned += reason == LUTRA_STOP_PRUNED;
        if (reason == LUTRA_STOP_PRUNED) tell(run, LUTRA_EVENT_PRUNE, slot->index, node, "", "");
        return;
    }
    struct final *f = &run->final[run->n_final++];
    f->id = slot->index;
    f->node = *node;
    f->verify_seq = node->verify_seq;
    f->n_text = slot->n_generated;
    f->n_token = slot->n_generated + (reason == LUTRA_STOP_END);
    memcpy(f->token, generated(slot), (size_t)f->n_token * sizeof *f->token);
    search_answer(spell(run, f->token, 0, f->n_text), f->answer, sizeof f->answer);
    tell(run, LUTRA_EVENT_FINISH, f->id, node, "", f->answer);
}

/* ---- scoring ---- */

/* A verifier job for the current step of a candidate. */
static int add_job(
    lutra_search_run *run, int *n, struct search_node *node, const int32_t *token, int n_token, struct lutra_error *err)
{
    lutra_session *v = run->set.verifier->session;
    const struct lutra_request *set = &run->request->set;
    if (n_token == node->step_from) return 0; /* nothing new */
    if (node->verify_seq < 0) TRY(lutra_seq_fork(v, run->prompt_seq, -1, run->verify_tok, &node->verify_seq, err));
    run->judged[*n] = node;
    run->job[(*n)++] = (struct verify_job){.seq = node->verify_seq,
        .before = node->step_from ? token[node->step_from - 1] : set->prompt[set->n_prompt - 1],
        .token = token + node->step_from,
        .n = n_token - node->step_from};
    return 0;
}

static int open_prompt(lutra_search_run *run, struct lutra_error *err)
{
    lutra_verifier *v = run->set.verifier;
    const struct lutra_request *set = &run->request->set;
    if (run->prompt_seq >= 0) return 0;
    TRY(lutra_seq_open(v->session, set->n_prompt, &run->prompt_seq, err));
    return verifier_prompt(v, run->prompt_seq, set->prompt, set->n_prompt, err);
}

/* Rewards for what the live candidates and the unscored finals have said since the last round. */
static int score_new(lutra_search_run *run, int n_live, struct lutra_error *err)
{
    int n_job = 0;
    if (!run->set.verifier) return 0;
    TRY(open_prompt(run, err));
    for (int i = 0; i < n_live; i++)
        TRY(add_job(run, &n_job, &run->live[i]->node, generated(run->live[i]), run->live[i]->n_generated, err));
    for (int i = run->n_seen; i < run->n_final; i++)
        TRY(add_job(run, &n_job, &run->final[i].node, run->final[i].token, run->final[i].n_token, err));
    TRY(verifier_run(run->set.verifier, run->job, n_job, err));
    for (int i = 0; i < n_job; i++) search_reward_add(&run->judged[i]->reward, run->job[i].reward);
    return 0;
}

/* The steps just scored, told; finals give their sequence in the verifier back. */
static void tell_steps(lutra_search_run *run, int n_live)
{
    for (int i = 0; i < n_live; i++) {
        struct sample *slot = run->live[i];
        slot->node.n_step++;
        tell(run, LUTRA_EVENT_STEP, slot->index, &slot->node,
            spell(run, generated(slot), slot->node.step_from, slot->n_generated), "");
    }
    for (; run->n_seen < run->n_final; run->n_seen++) {
        struct final *f = &run->final[run->n_seen];
        f->node.n_step++;
        tell(run, LUTRA_EVENT_STEP, f->id, &f->node, spell(run, f->token, f->node.step_from, f->n_text), "");
        if (f->node.verify_seq >= 0) lutra_seq_close(run->set.verifier->session, f->node.verify_seq);
        f->node.verify_seq = -1;
    }
}

/* Independent samples are scored whole: step by step, so that every step has its reward. */
static int score_whole(lutra_search_run *run, struct lutra_error *err)
{
    if (!run->set.verifier) return 0;
    TRY(open_prompt(run, err));
    for (int more = 1; more;) {
        int n_job = 0;
        more = 0;
        for (int i = run->n_seen; i < run->n_final && n_job < run->set.width; i++) {
            struct final *f = &run->final[i];
            int to = f->node.step_from;
            size_t n_step = strlen(run->step);
            while (to < f->n_token) {
                int from = ++to - (int)n_step < f->node.step_from ? f->node.step_from : to - (int)n_step;
                if (strstr(spell(run, f->token, from, to), run->step)) break;
            }
            if (to == f->node.step_from) continue;
            TRY(add_job(run, &n_job, &f->node, f->token, to, err));
            f->node.step_from = to;
            more = 1;
        }
        TRY(verifier_run(run->set.verifier, run->job, n_job, err));
        for (int i = 0; i < n_job; i++) {
            search_reward_add(&run->judged[i]->reward, run->job[i].reward);
            run->judged[i]->n_step++;
        }
    }
    for (; run->n_seen < run->n_final; run->n_seen++) {
        struct final *f = &run->final[run->n_seen];
        tell(run, LUTRA_EVENT_STEP, f->id, &f->node, "", f->answer);
        if (f->node.verify_seq >= 0) lutra_seq_close(run->set.verifier->session, f->node.verify_seq);
        f->node.verify_seq = -1;
    }
    return 0;
}

/* ---- a round ---- */

static int by_id(const void *a, const void *b)
{
    const struct sample *x = *(const struct sample *const *)a, *y = *(const struct sample *const *)b;
    return (x->index > y->index) - (x->index < y->index);
}

/* The paused candidates, in order; -1 when one is still running. */
static int list_live(lutra_search_run *run)
{
    int n = 0;
    for (int i = 0; i < run->s->n_seq; i++) {
        struct sample *slot = &run->s->sample[i];
        if (slot->request != run->request) continue;
        if (!slot->node.paused) return -1;
        run->live[n++] = slot;
    }
    qsort(run->live, (size_t)n, sizeof *run->live, by_id);
    return n;
}

static bool repeats(const lutra_search_run *run, int i)
{
    const struct sample *a = run->live[i];
    for (int k = 0; k < i; k++) {
        const struct sample *b = run->live[k];
        if (a->n_generated == b->n_generated && a->node.group == b->node.group &&
            !memcmp(generated(a), generated(b), (size_t)a->n_generated * sizeof *a->token))
            return true;
    }
    return false;
}

static int by_candidate(const void *a, const void *b)
{
    const struct search_candidate *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static int list_candidates(lutra_search_run *run, int n_live)
{
    int n = 0;
    for (int i = 0; i < n_live; i++) {
        const struct sample *slot = run->live[i];
        run->cand[n++] = (struct search_candidate){.id = slot->index,
            .group = slot->node.group,
            .duplicate = repeats(run, i),
            .score = search_reward_score(&slot->node.reward, run->policy.score)};
    }
    for (int i = 0; i < run->n_final; i++)
        run->cand[n++] = (struct search_candidate){.id = run->final[i].id,
            .group = run->final[i].node.group,
            .finished = true,
            .score = search_reward_score(&run->final[i].node.reward, run->policy.score)};
    qsort(run->cand, (size_t)n, sizeof *run->cand, by_candidate);
    return n;
}

static int children_of(const lutra_search_run *run, int n, int32_t id)
{
    for (int i = 0; i < n; i++)
        if (run->cand[i].id == id) return run->cand[i].children;
    return 0;
}

static int fork_node(lutra_search_run *run, struct sample *from, struct lutra_error *err)
{
    struct sample *to = sample_fork(run->s, from);
    if (!to) return 0; /* the cache has no room: the beam is narrower */
    to->node.parent = from->index;
    to->node.born = from->n_generated;
    to->node.verify_seq = -1;
    if (from->node.verify_seq >= 0)
        TRY(lutra_seq_fork(
            run->set.verifier->session, from->node.verify_seq, -1, run->verify_tok, &to->node.verify_seq, err));
    tell(run, LUTRA_EVENT_FORK, to->index, &to->node, "", "");
    return 0;
}

/* Prunes first, so that there is room, then continues and forks. */
static int go_on(lutra_search_run *run, int n_live, int n_cand, struct lutra_error *err)
{
    int kept = 0;
    for (int i = 0; i < n_live; i++) {
        struct sample *slot = run->live[i];
        int children = children_of(run, n_cand, slot->index);
        bool out_of_steps = slot->node.n_step >= run->set.max_steps;
        slot->node.step_from = slot->n_generated;
        if (children > 0 && !out_of_steps) {
            run->live[kept++] = slot;
            continue;
        }
        sample_end(run->s, slot, children > 0 ? LUTRA_STOP_LENGTH : LUTRA_STOP_PRUNED);
    }
    for (int i = 0; i < kept; i++) {
        for (int c = children_of(run, n_cand, run->live[i]->index); c > 1; c--) TRY(fork_node(run, run->live[i], err));
    }
    for (int i = 0; i < run->s->n_seq; i++)
        if (run->s->sample[i].request == run->request) run->s->sample[i].node.paused = false;
    return 0;
}

static int64_t spent(const lutra_search_run *run)
{
    int64_t n = run->result.generated_tokens;
    for (int i = 0; i < run->s->n_seq; i++) {
        const struct sample *slot = &run->s->sample[i];
        if (slot->request == run->request) n += slot->n_generated - slot->node.born;
    }
    return n;
}

static int choices(lutra_search_run *run)
{
    for (int i = 0; i < run->n_final; i++)
        run->choice[i] = (struct search_final){
            run->final[i].id, run->final[i].answer, search_reward_score(&run->final[i].node.reward, run->policy.score)};
    return run->n_final;
}

static int round_of(lutra_search_run *run, struct lutra_error *err)
{
    struct request *r = run->request;
    bool over_budget = run->set.token_budget > 0 && spent(run) >= run->set.token_budget;
    bool running = r->n_ended < r->set.n_samples;
    if (!in_steps(run)) {
        bool decided = run->set.early_stop && run->policy.method == SEARCH_VOTE &&
                       search_decided(run->choice, choices(run), r->set.n_samples - r->n_ended);
        if (running && (over_budget || decided)) request_end(run->s, r, LUTRA_STOP_PRUNED);
        if (r->n_ended < r->set.n_samples) return 0;
        return score_whole(run, err);
    }
    int n_live = r->n_started < r->set.n_samples ? -1 : list_live(run);
    if (n_live < 0) return 0;
    TRY(score_new(run, n_live, err));
    tell_steps(run, n_live);
    if (over_budget) {
        request_end(run->s, r, LUTRA_STOP_PRUNED);
        return 0;
    }
    int n_cand = list_candidates(run, n_live);
    search_allocate(&run->policy, run->cand, n_cand);
    return go_on(run, n_live, n_cand, err);
}

int search_rounds(lutra_session *s, struct lutra_error *err)
{
    int rc = 0;
    for (struct request *r = s->first; r && rc == 0; r = r->next) {
        if (!r->search || r->search->done || r->seq >= 0 || r->n_started == 0) continue;
        rc = round_of(r->search, err);
        if (rc < 0) request_end(s, r, LUTRA_STOP_ERROR);
    }
    return rc;
}

/* ---- begin and end ---- */

static int check(const lutra_session *s, const struct lutra_search *set, struct lutra_error *err)
{
    if (set->width < 1 || set->width > 4096)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: width is %d, outside 1..4096", set->width);
    if (set->method < LUTRA_SEARCH_VOTE || set->method > LUTRA_SEARCH_REBASE)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: method %d is not known", (int)set->method);
    if (set->score < LUTRA_SCORE_LAST || set->score > LUTRA_SCORE_MEAN)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: score %d is not known", (int)set->score);
    bool steps = set->method >= LUTRA_SEARCH_BEAM;
    if (steps && set->width > s->n_seq)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "search: %d rows wide, but the session has n_seq = %d", set->width, s->n_seq);
    if (set->method != LUTRA_SEARCH_REBASE && steps && (set->expand < 1 || set->width % set->expand))
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "search: width %d is not a multiple of expand %d", set->width, set->expand);
    if (!set->step || !*set->step || strlen(set->step) > 31)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: the step delimiter is empty or longer than 31 bytes");
    if (set->max_steps < 1) return lutra_fail(err, LUTRA_E_ARGUMENT, "search: max_steps is %d", set->max_steps);
    if (set->method != LUTRA_SEARCH_VOTE && !set->verifier)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: this method needs a verifier");
    if (!set->verifier) return 0;
    if (set->verifier->session->n_seq <= set->width)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "search: width is %d, but the verifier's n_seq is %d", set->width,
            set->verifier->session->n_seq - 1);
    return verifier_check_vocab(set->verifier, s->model, err);
}

static int reserve(lutra_search_run *run, int max_tok, struct lutra_error *err)
{
    size_t width = (size_t)run->set.width, n_final = (size_t)run->max_final, tok = (size_t)max_tok + 1;
    run->final = calloc(n_final, sizeof *run->final);
    run->tokens = calloc(n_final, tok * sizeof *run->tokens);
    run->text = malloc(tok * text_vocab_max_piece_bytes(run->s->model->vocab) + 1);
    run->cand = calloc(width + n_final, sizeof *run->cand);
    run->choice = calloc(n_final, sizeof *run->choice);
    run->job = calloc(2 * width, sizeof *run->job);
    run->judged = calloc(2 * width, sizeof *run->judged);
    run->live = calloc(width, sizeof *run->live);
    if (!run->final || !run->tokens || !run->text || !run->cand || !run->choice || !run->job || !run->judged ||
        !run->live)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "search: out of memory");
    for (size_t i = 0; i < n_final; i++) run->final[i].token = run->tokens + i * tok;
    return 0;
}

static int submit(lutra_search_run *run, const struct lutra_request *request, struct lutra_error *err)
{
    lutra_session *s = run->s;
    struct lutra_request set = lutra_request_default();
    TRY(settings_copy(&set, sizeof set, request, "request", err));
    set.n_samples = run->set.width;
    int max_tok = request_max_tok(s, &set);
    if (run->set.verifier) {
        int64_t need = (int64_t)max_tok + 1 + (int64_t)run->set.verifier->mark.n * run->set.max_steps;
        if (need > run->set.verifier->session->n_ctx)
            return lutra_fail(err, LUTRA_E_CTX_FULL,
                "search: candidates of up to %lld tokens do not fit the verifier's context of %d", (long long)need,
                run->set.verifier->session->n_ctx);
        run->verify_tok = (int)need;
        run->rows_before = run->set.verifier->rows;
    }
    TRY(reserve(run, max_tok, err));
    TRY(lutra_submit(s, &set, NULL, err));
    run->request = s->last;
    run->request->search = run;
    return 0;
}

int lutra_search_submit(lutra_search_run **out, lutra_session *session, const struct lutra_request *request,
    const struct lutra_search *search, struct lutra_error *err)
{
    struct lutra_search set = lutra_search_default();
    *out = NULL;
    TRY(settings_copy(&set, sizeof set, search, "search", err));
    TRY(check(session, &set, err));
    lutra_search_run *run = calloc(1, sizeof *run);
    if (!run) return lutra_fail(err, LUTRA_E_NO_MEMORY, "search: out of memory");
    run->s = session;
    run->set = set;
    snprintf(run->step, sizeof run->step, "%s", set.step);
    run->prompt_seq = -1;
    run->max_final = FINAL_PER_WIDTH * set.width;
    run->policy = (struct search_settings){.method = (enum search_method)set.method,
        .score = (enum search_score)set.score,
        .width = set.width,
        .expand = set.expand,
        .prune_below = set.prune_below,
        .temperature = set.temperature};
    int rc = submit(run, request, err);
    if (rc < 0) {
        lutra_search_close(&run);
        return rc;
    }
    *out = run;
    return 0;
}

void search_finish(lutra_search_run *run)
{
    struct lutra_search_result *res = &run->result;
    struct request *r = run->request;
    if (run->done) return;
    for (int i = run->n_seen; i < run->n_final; i++)
        if (run->final[i].node.verify_seq >= 0)
            lutra_seq_close(run->set.verifier->session, run->final[i].node.verify_seq);
    if (run->prompt_seq >= 0) lutra_seq_close(run->set.verifier->session, run->prompt_seq);
    int win = search_choose(run->policy.method, run->choice, choices(run));
    res->candidate = -1;
    if (win >= 0) {
        const struct final *f = &run->final[win];
        int votes = 0;
        for (int i = 0; i < run->n_final; i++) votes += *f->answer && !strcmp(run->final[i].answer, f->answer);
        res->candidate = f->id;
        res->score = run->policy.method == SEARCH_VOTE ? (double)votes / run->n_final : run->choice[win].score;
        lutra_detokenize(run->s->model, f->token, f->n_text, false, &res->text, NULL);
        res->answer = strdup(f->answer);
    }
    res->n_candidates = r->n_started;
    res->n_finished = run->n_final;
    res->verifier_rows = run->set.verifier ? run->set.verifier->rows - run->rows_before : 0;
    res->us = clock_now_us(run->s->model->runtime->clock) - r->submit_us;
    run->done = true;
    run->request = NULL;
    run->s = NULL;
}

const struct lutra_search_result *lutra_search_done(const lutra_search_run *run)
{
    return run->done ? &run->result : NULL;
}

void lutra_search_close(lutra_search_run **search)
{
    lutra_search_run *run = *search;
    if (!run) return;
    if (run->request) {
        struct request *r = run->request;
        request_end(run->s, r, LUTRA_STOP_CANCELLED);
        search_finish(run);
        r->search = NULL;
    }
    free(run->final);
    free(run->tokens);
    free(run->text);
    free(run->cand);
    free(run->choice);
    free(run->job);
    free(run->judged);
    free(run->live);
    free(run->result.text);
    free(run->result.answer);
    free(run);
    *search = NULL;
}
