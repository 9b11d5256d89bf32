/* SPDX-License-Identifier: MIT
 *
 * A search: candidates run as samples of one request.  After every step of the session each search gets its turn here.
 *
 * Search over steps: candidates pause at the end of a step until all have; then what is new is scored, and
 * policy.h says who goes on and how often.  Independent candidates never wait: their steps are scored while they
 * run.  A budget draws them in waves, and candidates count in the order of their numbers, so that what is chosen does
 * not depend on who ended first.
 */
#include "search/search_impl.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/answer.h"

size_t lutra_answer(const char *text, char *answer, size_t n_max)
{
    return search_answer(text, answer, n_max);
}

/* ---- what samples report ---- */

static void begin(void *self, struct sample *slot)
{
    lutra_search_run *run = self;
    *search_node(run, slot) = (struct search_node){.parent = -1,
        .group = run->policy.method == SEARCH_DVTS ? slot->index / run->set.expand : 0,
        .verify_seq = -1,
        .reward = search_reward_none()};
}

/* Pauses a candidate at the end of a step, or scores the step where nothing has to be waited for. */
static void after_token(void *self, struct sample *slot)
{
    lutra_search_run *run = self;
    struct search_node *node = search_node(run, slot);
    bool last = !search_in_steps(run) && node->n_ended + 1 >= run->set.max_steps; /* the rest is one step */
    if (last || !search_step_ends(run, sample_generated(slot), node->step_from, sample_length(slot))) return;
    node->step_from = sample_length(slot);
    node->n_ended++;
    slot->paused = search_in_steps(run);
    if (!slot->paused && !run->judge) search_score_own(run, slot);
}

/* A place for one more whole solution.  Where there is none, the highest number since the last round goes, whoever
 * ended first. */
static struct final *final_place(lutra_search_run *run, int32_t id)
{
    if (run->n_final < run->max_final) return &run->final[run->n_final++];
    struct final *last = NULL;
    for (int i = 0; i < run->n_final; i++)
        if (!run->final[i].told && (!last || run->final[i].id > last->id)) last = &run->final[i];
    if (!last || last->id < id) return NULL;
    search_drop_seq(run, &last->node);
    return last;
}

static void record_end(void *self, struct sample *slot, enum lutra_stop reason)
{
    lutra_search_run *run = self;
    struct search_node *node = search_node(run, slot);
    run->result.generated_tokens += sample_length(slot) - node->born;
    if (!search_in_steps(run)) run->length[slot->index - run->first_id] = sample_length(slot);
    bool whole = reason == LUTRA_STOP_END || reason == LUTRA_STOP_STRING || reason == LUTRA_STOP_LENGTH ||
                 reason == LUTRA_STOP_CTX_FULL;
    struct final *f = whole ? final_place(run, slot->index) : NULL;
    if (!f) {
        search_drop_seq(run, node);
        run->result.n_pruned += reason == LUTRA_STOP_PRUNED;
        if (reason == LUTRA_STOP_PRUNED) search_tell(run, LUTRA_EVENT_PRUNE, slot->index, node, "", "");
        return;
    }
    f->id = slot->index;
    f->node = *node;
    f->n_text = sample_length(slot);
    f->n_token = sample_length(slot) + (reason == LUTRA_STOP_END);
    f->sum_log_prob = slot->sum_log_prob;
    f->told = false;
    memcpy(f->token, sample_generated(slot), (size_t)f->n_token * sizeof *f->token);
    struct text_bytes text = search_spell(run, f->token, 0, f->n_text);
    f->n_answer = text.n - sample_before_answer(slot, text.n);
    search_answer(text.p + text.n - f->n_answer, f->answer, sizeof f->answer);
}

/* ---- a round of a search over steps ---- */

static bool repeats(const lutra_search_run *run, int i)
{
    const struct sample *a = run->live[i];
    for (int k = 0; k < i; k++) {
        const struct sample *b = run->live[k];
        if (sample_length(a) == sample_length(b) && search_node(run, a)->group == search_node(run, b)->group &&
            !memcmp(sample_generated(a), sample_generated(b), (size_t)sample_length(a) * sizeof *a->seq.token))
            return true;
    }
    return false;
}

/* Whole solutions that say the same are one: who has them all would look like a full beam. */
static bool repeats_whole(const lutra_search_run *run, const struct final *a)
{
    for (int i = 0; i < run->n_final; i++) {
        const struct final *b = &run->final[i];
        if (b->id < a->id && a->n_text == b->n_text && a->node.group == b->node.group &&
            !memcmp(a->token, b->token, (size_t)a->n_text * sizeof *a->token))
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
        const struct search_node *node = search_node(run, run->live[i]);
        run->cand[n++] = (struct search_candidate){.id = run->live[i]->index,
            .group = node->group,
            .duplicate = repeats(run, i),
            .score = search_reward_score(&node->reward, run->policy.score)};
    }
    for (int i = 0; i < run->n_final; i++)
        run->cand[n++] = (struct search_candidate){.id = run->final[i].id,
            .group = run->final[i].node.group,
            .finished = true,
            .duplicate = repeats_whole(run, &run->final[i]),
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
    const struct search_node *parent = search_node(run, from);
    struct search_node *node = search_node(run, to);
    *node = *parent;
    node->parent = from->index;
    node->born = sample_length(from);
    node->verify_seq = -1;
    if (parent->verify_seq >= 0) {
        TRY(lutra_seq_fork(run->judge->session, parent->verify_seq, -1, run->verify_tok, &node->verify_seq, err));
        run->n_open++;
    }
    search_tell(run, LUTRA_EVENT_FORK, to->index, node, "", "");
    return 0;
}

/* Prunes first, so that there is room, then continues and forks. */
static int go_on(lutra_search_run *run, int n_live, int n_cand, struct lutra_error *err)
{
    int kept = 0;
    for (int i = 0; i < n_live; i++) {
        struct sample *slot = run->live[i];
        int children = children_of(run, n_cand, slot->index);
        bool out_of_steps = search_node(run, slot)->n_step >= run->set.max_steps;
        if (children > 0 && !out_of_steps) {
            run->live[kept++] = slot;
            continue;
        }
        sample_end(run->s, slot, children > 0 ? LUTRA_STOP_LENGTH : LUTRA_STOP_PRUNED);
    }
    for (int i = 0; i < kept; i++) {
        for (int c = children_of(run, n_cand, run->live[i]->index); c > 1; c--) TRY(fork_node(run, run->live[i], err));
    }
    for (int i = 0; i < session_sizes(run->s).n_seq; i++)
        if (session_samples(run->s)[i].request == run->request) session_samples(run->s)[i].paused = false;
    return 0;
}

static int64_t spent(lutra_search_run *run)
{
    int64_t n = run->result.generated_tokens;
    int n_live = search_live(run);
    for (int i = 0; i < n_live; i++) n += sample_length(run->live[i]) - search_node(run, run->live[i])->born;
    return n;
}

static bool over_time(const lutra_search_run *run)
{
    uint64_t now = session_now_us(run->s);
    return run->set.time_budget_us > 0 && now - run->request->submit_us >= run->set.time_budget_us;
}

/* Rows that the budget pays for to the end, at least one: a search always comes to an answer. */
static int affordable_width(lutra_search_run *run)
{
    double left = (double)(run->set.token_budget - spent(run)), length = 1;
    int n_live = search_live(run);
    for (int i = 0; i < n_live; i++) length = fmax(length, sample_length(run->live[i]));
    if (over_time(run)) return 1;
    if (run->set.token_budget == 0) return run->set.width;
    double rest = fmax(run->measured ? run->expected - length : 0, length / 2); /* what is long will be longer */
    return left < rest ? 1 : left / rest < run->set.width ? (int)(left / rest) : run->set.width;
}

/* until_pass: the number of the first candidate, so far, with the score 1; INT_MAX = none. */
static int first_pass(const lutra_search_run *run)
{
    int first = INT_MAX;
    bool wanted = run->set.until_pass && run->policy.method >= SEARCH_BEST;
    for (int i = 0; wanted && i < run->n_final; i++) {
        const struct final *f = &run->final[i];
        if (f->told && f->id < first && search_reward_score(&f->node.reward, run->policy.score) >= 1) first = f->id;
    }
    return first;
}

static int round_of_steps(lutra_search_run *run, struct lutra_error *err)
{
    if (!search_score_due(run)) return 0;
    TRY(search_score(run, err));
    if (run->waits) return 0;
    if (first_pass(run) != INT_MAX) {
        run->n_more = 0;
        request_end(run->s, run->request, LUTRA_STOP_PRUNED);
        return 0;
    }
    run->policy.width = affordable_width(run);
    int n_live = search_live(run), n_cand = list_candidates(run, n_live);
    search_allocate(&run->policy, run->cand, n_cand);
    TRY(go_on(run, n_live, n_cand, err));
    return run->n_final > 0 && search_live(run) == 0 ? search_score(run, err) : 0; /* those out of steps */
}

/* ---- independent candidates ---- */

int search_counted(lutra_search_run *run)
{
    int n_live = search_live(run), n = run->request->n_started - run->first_id;
    for (int i = 0; i < n_live; i++) run->length[run->live[i]->index - run->first_id] = sample_length(run->live[i]);
    if (run->set.token_budget > 0) n = search_within(run->length, n, run->set.token_budget - run->spent_in_steps);
    return run->first_id + (n == 0 && run->first_id == 0 && run->request->n_started > 0 ? 1 : n); /* one always does */
}

/* What a candidate costs on average, and the longest so far. */
static void costs(const lutra_search_run *run, double *mean, double *longest)
{
    double sum = 0;
    *mean = *longest = run->expected;
    if (run->n_final > 0) *longest = 0;
    for (int i = 0; i < run->n_final; i++) {
        sum += run->final[i].n_text;
        if (run->final[i].n_text > *longest) *longest = run->final[i].n_text;
    }
    if (run->n_final > 0) *mean = sum / run->n_final;
}

/* Candidates that what is left of the budget pays for, beside those already drawn. */
static int more_candidates(lutra_search_run *run)
{
    uint64_t now = session_now_us(run->s), used = now - run->request->submit_us;
    int most = run->n_more < run->set.width ? run->n_more : run->set.width;
    double mean, longest;
    costs(run, &mean, &longest);
    bool spent_all =
        run->set.token_budget > 0 && !search_in_steps(run) && search_counted(run) < run->request->n_started;
    if (spent_all) return 0; /* how far those ran that did not fit does not matter */
    if (run->set.token_budget > 0)
        most = search_wave((double)(run->set.token_budget - spent(run)), mean, longest, most);
    if (run->set.time_budget_us > 0 && used + (now - run->wave_us) > run->set.time_budget_us) return 0;
    return most;
}

/* Candidates from the first whose ends are known. */
static int n_known(const lutra_search_run *run, int n)
{
    for (int i = 0; i < session_sizes(run->s).n_seq; i++) {
        const struct sample *slot = &session_samples(run->s)[i];
        if (slot->request == run->request && slot->index < n) n = slot->index;
    }
    return n;
}

/* Can those still to end, or to be drawn, change the vote?  Decided on the first candidates only, however early others
 * have ended. */
static bool vote_decided(lutra_search_run *run, int counted)
{
    int known = n_known(run, counted), left = run->request->set.n_samples + run->n_more - known;
    if (!run->set.early_stop || run->policy.method != SEARCH_VOTE || known == 0) return false;
    return search_decided(run->choice, search_choices(run, known), left);
}

/* Ends those that are too late to count; all, when the vote is decided or the time is over. */
static void stop_early(lutra_search_run *run)
{
    struct request *r = run->request;
    int counted = search_counted(run), n_live = search_live(run), pass = first_pass(run);
    if (r->n_ended == r->set.n_samples) return;
    if (pass < counted) {
        counted = pass + 1; /* those before it may pass, too */
        run->n_more = 0;
        request_end_unstarted(run->s, r, LUTRA_STOP_PRUNED);
    }
    if (over_time(run) && run->n_final == 0) {
        counted = run->live[0]->index + 1; /* the first comes to its end */
        run->n_more = 0;
    } else if (over_time(run) || vote_decided(run, counted)) {
        run->n_more = 0;
        request_end(run->s, r, LUTRA_STOP_PRUNED);
        return;
    }
    for (int i = 0; i < n_live; i++)
        if (run->live[i]->index >= counted) sample_end(run->s, run->live[i], LUTRA_STOP_PRUNED);
    if (counted < r->n_started) request_end_unstarted(run->s, r, LUTRA_STOP_PRUNED);
}

static int round_of_independent(lutra_search_run *run, struct lutra_error *err)
{
    stop_early(run);
    if (search_score_due(run)) TRY(search_score(run, err));
    if (run->set.until_pass) stop_early(run); /* what has passed now */
    return 0;
}

/* What the budget has left draws further candidates; after a search over steps, too. */
static void draw_more(lutra_search_run *run)
{
    struct request *r = run->request;
    if (r->n_ended < r->set.n_samples || atomic_load(&r->cancelled) || run->n_final == 0) return;
    int n = more_candidates(run);
    if (n == 0) return;
    if (search_in_steps(run)) {
        run->alone = true;
        run->first_id = r->set.n_samples;
        run->spent_in_steps = spent(run);
    }
    run->wave_us = session_now_us(run->s);
    run->n_more -= n;
    r->set.n_samples += n;
}

static int take_round(void *self, const struct pass *pass, struct lutra_error *err)
{
    lutra_search_run *run = self;
    run->idle = pass->batch->n_row == 0;
    struct request *r = run->request;
    if (r->n_started == 0 || (search_in_steps(run) && r->seq.id >= 0)) return 0; /* some are still to begin */
    int rc = search_in_steps(run) ? round_of_steps(run, err) : round_of_independent(run, err);
    if (rc == 0 && !run->waits) draw_more(run);
    if (rc < 0) request_end(run->s, r, LUTRA_STOP_ERROR);
    return rc;
}

static bool waits(const void *self)
{
    const lutra_search_run *run = self;
    return run->waits;
}

static void finish(void *self)
{
    search_finish(self);
}

const struct sample_watch search_watch = {begin, after_token, record_end, waits, finish};
const struct row_source_ops search_source = {"search", SOURCE_SEARCH, NULL, take_round};
