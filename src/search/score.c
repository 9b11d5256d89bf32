/* SPDX-License-Identifier: MIT
 *
 * Steps of a search's candidates: where they end, and their rewards.
 *
 * Judges, one way: a verifier with rows of its own (all searches that wait for it share its passes), one without rows
 * (the generator's own likelihood, known since its tokens were sampled; a checker), or none.
 */
#include "search/search_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

struct text_bytes search_spell(lutra_search_run *run, const int32_t *token, int from, int to)
{
    size_t n = 0;
    for (int i = from; i < to; i++) {
        struct text_bytes piece = text_token_piece(session_model(run->s)->vocab, token[i], 0);
        if (piece.n) memcpy(run->text + n, piece.p, piece.n);
        n += piece.n;
    }
    run->text[n] = 0;
    return (struct text_bytes){run->text, n};
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool search_step_ends(lutra_search_run *run, const int32_t *token, int from, int to)
{
    size_t n_step = strlen(run->step), before = 0;
    int first = to - 1; /* the delimiter may begin in an earlier token of the step */
    while (first > from && before + 1 < n_step)
        before += text_token_piece(session_model(run->s)->vocab, token[--first], 0).n;
    struct text_bytes tail = search_spell(run, token, first, to);
    if (!memmem(tail.p, tail.n, run->step, n_step)) return false;
    struct text_bytes all = search_spell(run, token, from, to);
    for (size_t at = 0; at < all.n;) {
        if (all.n - at >= n_step && !memcmp(all.p + at, run->step, n_step))
            at += n_step;
        else if (is_blank(all.p[at]))
            at++;
        else
            return true;
    }
    return false;
}

void search_tell(lutra_search_run *run, enum lutra_search_event_kind kind, int32_t id, const struct search_node *node,
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
        .answer = answer,
        .why = run->why};
    run->set.on_event(run->set.user, &e);
}

/* ---- what is to be scored ---- */

static bool judge_has_rows(const lutra_search_run *run)
{
    return run->judge && run->judge->kind != VERIFIER_CHECK;
}

static int by_id(const void *a, const void *b)
{
    const struct sample *x = *(const struct sample *const *)a, *y = *(const struct sample *const *)b;
    return (x->index > y->index) - (x->index < y->index);
}

int search_live(lutra_search_run *run)
{
    int n = 0;
    for (int i = 0; i < session_sizes(run->s).n_seq; i++)
        if (session_samples(run->s)[i].request == run->request) run->live[n++] = &session_samples(run->s)[i];
    qsort(run->live, (size_t)n, sizeof *run->live, by_id);
    return n;
}

bool search_score_due(lutra_search_run *run)
{
    int n = search_live(run);
    if (search_in_steps(run) && run->request->n_started < run->request->set.n_samples) return false;
    if (!judge_has_rows(run) && !search_in_steps(run)) return true;
    for (int i = 0; i < n; i++)
        if (search_in_steps(run) ? !run->live[i]->paused
                                 : search_node(run, run->live[i])->scored == search_node(run, run->live[i])->step_from)
            return false;
    return true;
}

/* The next step behind those scored, whose end must be among the first n tokens; whole: what is left at the end is one,
 * too.  0 if there is none. */
static int step_end(lutra_search_run *run, const struct search_node *node, const int32_t *token, int n, bool whole)
{
    for (int to = node->scored + 1; to <= node->step_from; to++)
        if (to == node->step_from || search_step_ends(run, token, node->scored, to)) return to;
    return whole && n > node->scored ? n : 0;
}

static bool next_of_sample(lutra_search_run *run, struct sample *slot, struct search_step *step)
{
    const int32_t *token = sample_generated(slot);
    struct search_node *node = search_node(run, slot);
    int to = step_end(run, node, token, sample_length(slot), false);
    *step = (struct search_step){run, node, token, slot->index, to, to, slot->sum_log_prob, NULL};
    return to > 0;
}

static bool next_of_final(lutra_search_run *run, struct final *f, struct search_step *step)
{
    int to = step_end(run, &f->node, f->token, f->n_token, true);
    *step =
        (struct search_step){run, &f->node, f->token, f->id, to, to < f->n_text ? to : f->n_text, f->sum_log_prob, f};
    return to > 0;
}

/* ---- what is done with a step ---- */

void search_drop_seq(lutra_search_run *run, struct search_node *node)
{
    if (node->verify_seq < 0) return;
    lutra_seq_close(run->judge->session, node->verify_seq);
    node->verify_seq = -1;
    run->n_open--;
}

static void finish(lutra_search_run *run, struct final *f)
{
    f->told = true;
    search_drop_seq(run, &f->node);
    search_tell(run, LUTRA_EVENT_FINISH, f->id, &f->node, "", f->answer);
}

static void take_step(const struct search_step *step, const double *reward)
{
    lutra_search_run *run = step->run;
    int from = step->node->scored;
    if (reward) search_reward_add(&step->node->reward, *reward);
    step->node->judged = reward && !*run->why;
    if (step->node->judged && *reward > run->best_reward) run->best_reward = *reward;
    if (*run->why) memcpy(run->last_why, run->why, sizeof run->last_why);
    step->node->n_step++;
    step->node->scored = step->to;
    step->node->log_prob = step->sum_log_prob;
    search_tell(run, LUTRA_EVENT_STEP, step->id, step->node, search_spell(run, step->token, from, step->n_text).p, "");
    *run->why = 0;
}

/* What a judge without rows says of a step; run->waits: nothing yet. */
static double own_reward(const struct search_step *step)
{
    lutra_search_run *run = step->run;
    struct lutra_check check;
    if (!run->judge) return search_likelihood(step->sum_log_prob - step->node->log_prob);
    size_t n_before = search_spell(run, step->token, 0, step->node->scored).n;
    struct text_bytes text = search_spell(run, step->token, 0, step->n_text);
    for (size_t i = 0; i < text.n; i++)
        if (!run->text[i]) run->text[i] = ' '; /* a checker's text ends at its NUL */
    lutra_check_init(&check, sizeof check);
    check.question = run->question;
    check.expected = run->expected_answer;
    check.text = text.p;
    check.step = text.p + (n_before < text.n ? n_before : text.n);
    check.whole = step->whole && step->to == step->whole->n_token;
    if (!run->ask) return verifier_ask(run->judge, &check, run->why, sizeof run->why);
    run->waits = !ask_reply(run->ask, step->id, step->to, &check, run->idle);
    if (run->waits) return 0;
    memcpy(run->why, run->ask->why, sizeof run->why);
    return verifier_reward(run->ask->reward, run->why, sizeof run->why);
}

/* Without rows: the generator's likelihood, a checker, or no reward at all. */
static void take_own(const struct search_step *step)
{
    double reward = own_reward(step);
    if (!step->run->waits) take_step(step, step->run->self || step->run->judge ? &reward : NULL);
}

void search_score_own(lutra_search_run *run, struct sample *slot)
{
    struct search_step step;
    while (!run->waits && next_of_sample(run, slot, &step)) take_own(&step);
}

static void score_all_own(lutra_search_run *run)
{
    struct search_step step;
    int n = search_live(run);
    run->waits = false;
    for (int i = 0; i < n; i++) search_score_own(run, run->live[i]);
    for (int i = 0; i < run->n_final; i++) {
        struct final *f = &run->final[i];
        if (f->told) continue;
        while (!run->waits && next_of_final(run, f, &step)) take_own(&step);
        if (run->waits) return;
        finish(run, f);
    }
}

/* ---- a verifier of its own ---- */

static int open_seq(lutra_search_run *run, struct search_node *node, struct lutra_error *err)
{
    const struct lutra_request *set = &run->request->set;
    lutra_verifier *v = run->judge;
    if (node->verify_seq >= 0) return 0;
    if (run->prompt_seq < 0) {
        TRY(lutra_seq_open(v->session, set->n_prompt, &run->prompt_seq, err));
        TRY(verifier_prompt(v, run->prompt_seq, set->prompt, set->n_prompt, &run->verifier_rows, err));
    }
    TRY(lutra_seq_fork(v->session, run->prompt_seq, -1, run->verify_tok, &node->verify_seq, err));
    run->n_open++;
    return 0;
}

/* Adds a candidate's steps to the jobs.  A candidate waits while the others have all of the search's sequences. */
static int add_jobs(lutra_search_run *run, struct sample *slot, struct final *f, int *n, struct lutra_error *err)
{
    lutra_verifier *v = run->judge;
    const struct lutra_request *set = &run->request->set;
    struct search_node *node = f ? &f->node : search_node(run, slot);
    struct search_step step;
    int scored = node->scored;
    while (*n < session_sizes(v->session).n_batch &&
           (f ? next_of_final(run, f, &step) : next_of_sample(run, slot, &step))) {
        if (node->verify_seq < 0 && run->n_open == run->set.width) break;
        TRY(open_seq(run, node, err));
        v->step[*n] = step;
        v->job[(*n)++] = (struct verify_job){.seq = node->verify_seq,
            .before = node->scored ? step.token[node->scored - 1] : set->prompt[set->n_prompt - 1],
            .token = step.token + node->scored,
            .n = step.to - node->scored};
        run->verifier_rows += verifier_rows(v, step.to - node->scored);
        node->scored = step.to; /* for the next step; taken back below */
    }
    node->scored = scored;
    return 0;
}

static int collect(lutra_search_run *run, int *n, struct lutra_error *err)
{
    int n_live = search_live(run);
    for (int i = 0; i < n_live; i++) TRY(add_jobs(run, run->live[i], NULL, n, err));
    for (int i = 0; i < run->n_final; i++)
        if (!run->final[i].told) TRY(add_jobs(run, NULL, &run->final[i], n, err));
    return 0;
}

/* Finals whose last step is scored. */
static void finish_all(lutra_search_run *run)
{
    for (int i = 0; i < run->n_final; i++)
        if (!run->final[i].told && run->final[i].node.scored == run->final[i].n_token) finish(run, &run->final[i]);
}

static bool shares_pass(lutra_search_run *run, lutra_search_run *other)
{
    if (!other || other->done || other->judge != run->judge || !other->request || other->request->n_started == 0)
        return false;
    return other == run || !search_in_steps(other) || search_score_due(other);
}

int search_score(lutra_search_run *run, struct lutra_error *err)
{
    lutra_verifier *v = run->judge;
    if (!judge_has_rows(run)) {
        score_all_own(run);
        return 0;
    }
    for (int n = 1; n > 0;) {
        n = 0;
        for (struct request *r = session_requests(run->s); r; r = r->next)
            if (shares_pass(run, search_of(r))) TRY(collect(search_of(r), &n, err));
        TRY(verifier_run(v, v->job, n, err));
        for (int i = 0; i < n; i++) take_step(&v->step[i], &v->job[i].reward);
        for (struct request *r = session_requests(run->s); r; r = r->next)
            if (shares_pass(run, search_of(r))) finish_all(search_of(r));
    }
    return 0;
}
