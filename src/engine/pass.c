/* SPDX-License-Identifier: MIT
 *
 * A pass: sources offer rows, one forward pass evaluates them, sources take the results (decode/source.h).
 *
 * Two of the sources are here.  Samples put the token each has to evaluate next; where drafters have guessed what
 * follows, a sample walks on as long as it picks what was guessed, several tokens in one pass.  Prompts fill what is
 * left.
 */
#include <math.h>

#include "engine/session_impl.h"

/* ---- samples ---- */

static void offer_samples(void *self, struct pass *pass)
{
    lutra_session *s = self;
    bool masks = plan_knows_masks(&s->model->plan);
    for (int i = 0; i < s->n_seq; i++) {
        struct sample *slot = &s->sample[i];
        const struct sequence *q = &slot->seq;
        if (!slot->request || slot->paused || !slot->has_room || sequence_left(q) != 1 || request_paused(slot->request))
            continue;
        struct row row = {.token = q->token[q->n_done], .pos = q->n_done, .seq = q->id, .parent = -1};
        struct row_tip tip = {.request = slot->request->id,
            .sample = slot->index,
            .token = q->token,
            .n_token = q->n_token,
            .n_prompt = q->n_prompt,
            .prompt_hash = slot->request->prompt_hash,
            .domain = slot->request->set.cache_domain,
            .max_tok = slot->request->max_tok,
            .want_top = slot->request->set.top_logprobs > 0,
            .list = sampler_listed(s->sampler, i),
            .guess = slot->request->set.on_draft ? request_guess : NULL,
            .guesser = slot->request,
            .hints = q->hints};
        if (tip.list.allow && (tip.want_top || !masks)) tip.list.token = NULL; /* all logits */
        slot->tip = pass->n_tip;
        slot->row = pass_tip(pass, row, tip);
        if (slot->row < 0) return; /* the others wait for the next pass */
        slot->n_pass++;
    }
}

static void pick_some(void *arg, int ith, int nth)
{
    lutra_session *s = arg;
    for (int i = ith; i < s->n_seq; i += nth) {
        const struct sample *slot = &s->sample[i];
        if (!slot->request || slot->row < 0) continue;
        s->pick_status[i] = sampler_pick(
            s->sampler, i, ith, session_result(s, slot->row), s->batch.row[slot->row].pos + 1, &s->pick[i], NULL);
    }
}

/* Waking a worker costs more than several draws: only workers still awake help, and a single draw runs on the calling
 * thread. */
static void pick_all(lutra_session *s)
{
    int n = 0;
    for (int i = 0; i < s->n_seq; i++) n += s->sample[i].request && s->sample[i].row >= 0;
    if (n > 1)
        pool_run_awake(s->model->runtime->devices.pool, pick_some, s);
    else
        pick_some(s, 0, 1);
}

/* A sample that cannot go on ends; the first of a lutra_generate() is what that returns. */
static void fail_pick(lutra_session *s, struct sample *slot, int status)
{
    struct lutra_error why = {0};
    struct sample_pick pick;
    int i = (int)(slot - s->sample);
    if (s->pick_status[i] < 0) /* repeat the pick single-threaded to get its error message */
        sampler_pick(s->sampler, i, 0, session_result(s, slot->row), s->batch.row[slot->row].pos + 1, &pick, &why);
    else
        (void)lutra_fail(&why, status, "%s", lutra_status_text(status));
    sample_fail(s, slot, &why);
}

/* Takes the token picked at the sample's row, and goes on to the row that guessed it. */
static void follow(lutra_session *s, struct sample *slot, const struct pass *pass)
{
    struct sample_pick *pick = &s->pick[slot - s->sample];
    int32_t forced = sample_forced(slot);
    if (forced >= 0) *pick = (struct sample_pick){.token = forced};
    int status = s->pick_status[slot - s->sample];
    slot->seq.n_done = s->batch.row[slot->row].pos + 1;
    if (slot->tip >= 0) {
        pass->tip[slot->tip].taken = slot->row;
        pass->tip[slot->tip].picked = status < 0 ? -1 : pick->token;
    }
    if (status == 0 && slot->request->set.max_tokens == 0) {
        sample_end(s, slot, LUTRA_STOP_LENGTH);
        return;
    }
    if (status == 0) {
        if (slot->seq.hints) row_hints_of(session_result(s, slot->row), &slot->seq.hints[slot->seq.n_done - 1]);
        sample_advance(s, slot, pick);
        if (!slot->request) return; /* it has ended */
        bool stay = slot->paused || request_stopped(s, slot->request) != LUTRA_STOP_NONE;
        int32_t next = stay ? -1 : pass_child(pass, slot->row, pick->token);
        if (next >= 0) {
            slot->row = next;
            slot->n_accepted++;
            return;
        }
        status = sample_settle(s, slot);
        if (status == 0) return;
    }
    fail_pick(s, slot, status);
}

/* Picks at the rows that samples stand on, until none goes on to another. */
static int take_samples(void *self, const struct pass *pass, struct lutra_error *err)
{
    (void)err;
    lutra_session *s = self;
    uint64_t start = clock_now_us(s->model->runtime->clock);
    for (bool more = true; more;) {
        more = false;
        pick_all(s);
        for (int i = 0; i < s->n_seq; i++) {
            struct sample *slot = &s->sample[i];
            if (!slot->request || slot->row < 0) continue;
            follow(s, slot, pass);
            more |= slot->request && slot->row >= 0;
        }
    }
    s->stats.sample_us += clock_now_us(s->model->runtime->clock) - start;
    return 0;
}

static int take_pass(void *self, const struct pass *pass, struct lutra_error *err)
{
    lutra_session *s = self;
    for (int i = 0; i < s->n_seq; i++) {
        struct sample *slot = &s->sample[i];
        if (!slot->request || slot->row < 0) continue;
        slot->n_drafted += pass->tip[slot->tip].n_draft;
        slot->n_underutilized += s->of_pass.n_underutilized;
        slot->draft_us += (double)s->of_pass.draft_us / pass->n_tip;
    }
    return take_samples(s, pass, err);
}

static const struct row_source_ops samples_ops = {"samples", SOURCE_SAMPLES, offer_samples, take_pass};

/* ---- prompts ---- */

/* The least part of a pass that a prompt is given: 16 rows, or a bulk block. */
static int least_rows(const lutra_session *s)
{
    return s->batch.bulk > 16 ? s->batch.bulk : 16;
}

/* How much work of prompts (row_cost_work) this pass may have beside its other rows. */
static double prompt_work(const lutra_session *s, const struct pass *pass)
{
    struct row_cost_others others = {.n_row = pass->batch->n_row};
    if (pass->n_tip == 0 || !s->prompt_us) return INFINITY;
    for (int i = 0; i < others.n_row; i++) others.n_seen += pass->batch->row[i].pos + 1;
    return row_cost_prompt_work(&s->cost, &others, s->prompt_us);
}

enum { TEXT_WAITS, TEXT_CHOSEN, TEXT_SERVED };

static int n_served(const struct text_way *w)
{
    return w->seq->n_done - w->seq->n_found;
}

static int n_left(const struct text_way *w)
{
    return sequence_text(w->seq) - w->seq->n_done;
}

/* Of the texts under way in a state, that with the smallest key; *n is how many there are. */
static struct text_way *smallest(const lutra_session *s, int in_pass, int (*key)(const struct text_way *w), int *n)
{
    struct text_way *least = NULL;
    *n = 0;
    for (struct text_way *w = s->way; w < s->way + s->n_way; w++) {
        if (w->in_pass != in_pass) continue;
        if (!least || key(w) < key(least)) least = w;
        ++*n;
    }
    return least;
}

/* At most n rows of a text; returns how many. */
static int offer_text(struct pass *pass, struct text_way *w, int n)
{
    w->n_row = pass_text(pass, w->seq, n, w->request->set.top_logprobs > 0);
    if (w->n_row == sequence_left(w->seq)) w->row = pass->batch->n_row - 1;
    return w->n_row;
}

/* The texts that are in this pass: as many as may have a least part each, least served first. */
static void choose_texts(const lutra_session *s, double work)
{
    struct text_way *w;
    int n, least = least_rows(s);
    for (bool first = true; (w = smallest(s, TEXT_WAITS, n_served, &n)); first = false) {
        work -= row_cost_work(&s->cost, w->seq->n_done, least < n_left(w) ? least : n_left(w));
        if (work < 0 && !first) return;
        w->in_pass = TEXT_CHOSEN;
    }
}

/* Prompts share the work in equal parts, those served least so far where there is too little; what short ones leave
 * goes to the longer ones.  The first gets its least part in any case. */
static void offer_prompts(void *self, struct pass *pass)
{
    lutra_session *s = self;
    struct text_way *w;
    double left = prompt_work(s, pass);
    int n, least = least_rows(s);
    texts_under_way(s);
    choose_texts(s, left);
    for (bool first = true; (w = smallest(s, TEXT_CHOSEN, n_left, &n)); first = false) {
        int at = w->seq->n_done, share = row_cost_rows(&s->cost, at, left / n), all = row_cost_rows(&s->cost, at, left);
        if (share < least) share = all < least && !first ? all : least;
        left -= row_cost_work(&s->cost, at, offer_text(pass, w, share));
        w->in_pass = TEXT_SERVED;
    }
}

_Static_assert(sizeof(struct lutra_hints) == sizeof(struct row_hints), "handed on as they are");

/* Its caller hears of prompt tokens, and hints of them, that he has not heard of yet. */
static void tell_progress(struct request *r)
{
    const struct sequence *q = &r->seq;
    int from = r->n_told, to = q->n_done < q->n_token ? q->n_done : q->n_token - 1;
    if (q->n_done <= from) return;
    r->n_told = q->n_done;
    if (q->hints && r->experiment.on_hints && to > from)
        r->experiment.on_hints(r->set.user, r->id, from, (const struct lutra_hints *)(q->hints + from), to - from);
    if (r->set.on_prompt) r->set.on_prompt(r->set.user, r->id, q->n_done, q->n_token);
}

/* Its caller hears how likely its tokens were, those that he has not heard of: a prompt may be evaluated again. */
static void tell_scored(const lutra_session *s, const struct request *r)
{
    struct lutra_token_prob top[LUTRA_TOP_LOGPROBS];
    const struct sequence *q = &r->seq;
    for (int i = 0; i < s->n_result; i++) {
        const struct row_result *res = &s->result[i];
        const struct row *row = &s->batch.row[res->row];
        if (row->seq != q->id || row->pos < r->n_told || row->pos + 1 >= q->n_token) continue;
        struct lutra_prompt_piece piece = {.request = r->id,
            .index = row->pos + 1,
            .token = row->listed[0],
            .log_prob = res->listed_logit[0] - res->log_sum_exp,
            .top = top,
            .n_top = request_top(r, res, top)};
        r->set.on_prompt_piece(r->set.user, &piece);
    }
}

/* Texts advance; behind the last row of one, what has a slot draws: the samples of a prompt, or a sample that had lost
 * its room before it said anything. */
static int take_prompts(void *self, const struct pass *pass, struct lutra_error *err)
{
    lutra_session *s = self;
    for (struct text_way *w = s->way; w < s->way + s->n_way; w++) {
        if (w->n_row == 0) continue;
        w->seq->n_done += w->n_row;
        if (!w->slot) s->stats.prompt_tokens += (uint64_t)w->n_row;
        prefix_note(s, w->seq);
        if (!w->slot) {
            if (w->seq->scored) tell_scored(s, w->request);
            tell_progress(w->request);
            if (w->row >= 0) request_start_samples(s, w->request, w->row);
        } else if (w->row >= 0) {
            w->slot->row = w->row;
            w->slot->tip = -1;
            w->slot->n_pass++;
        }
    }
    return take_samples(s, pass, err);
}

static const struct row_source_ops prompts_ops = {"prompts", SOURCE_PROMPTS, offer_prompts, take_prompts};

/* ---- lutra_step ---- */

void sources_open(lutra_session *s)
{
    s->samples = (struct row_source){&samples_ops, s, NULL};
    s->prompts = (struct row_source){&prompts_ops, s, NULL};
    source_add(&s->sources, &s->samples);
    source_add(&s->sources, &s->prompts);
}

static int count_active(lutra_session *s)
{
    int n = inbox_samples(s);
    for (const struct request *r = s->first; r; r = r->next) {
        int left = r->set.n_samples - r->n_ended;
        n += left > 0 ? left : 1; /* it waits for a verifier */
    }
    return n;
}

/* Its pass begins, or is over. */
static void tell_drafters(lutra_session *s, bool begins)
{
    for (int i = 0; i < DRAFTERS; i++) {
        const struct session_drafter_ops *ops = s->drafter[i].ops;
        void (*tell)(void *self) = !ops ? NULL : begins ? ops->go_on : ops->rest;
        if (tell) tell(s->drafter[i].self);
    }
}

static int rows_ahead(const lutra_session *s)
{
    int n = 0;
    for (const struct text_way *w = s->way; w < s->way + s->n_way; w++) n += sequence_left(w->seq) - w->n_row;
    return n;
}

static int run_pass(lutra_session *s, struct pass *pass, struct lutra_error *err)
{
    session_pass_begin(s, pass);
    pass->want_top = speculator_wants_top(s->speculator);
    pass->domain = s->row_domain;
    sources_offer(s->sources, pass);
    uint64_t us = speculator_spent_us(s->speculator);
    s->stats.draft_us += us;
    s->of_pass.draft_us = us + s->of_pass.learn_us;
    if (s->batch.n_row > 0) {
        tell_drafters(s, true);
        s->of_pass.n_ahead = rows_ahead(s);
        int rc = session_forward(s, s->batch.n_row, false, err);
        s->of_pass.n_ahead = 0;
        tell_drafters(s, false);
        if (rc < 0) return rc;
        pass->result = s->result;
        pass->n_result = s->n_result;
        return 0;
    }
    for (const struct request *r = s->first; r; r = r->next)
        if (request_paused(r) || request_waits(r)) return 0; /* what others wait for */
    if (!s->first) return 0;
    return lutra_fail(err, LUTRA_E_CTX_FULL, "the cache is held by open sequences: no request can start");
}

int lutra_step(lutra_session *s, int *n_active, struct lutra_error *err)
{
    if (n_active) *n_active = 0;
    TRY(handle_check(s, "session", err));
    inbox_take(s);
    requests_sweep(s);
    requests_make_room(s);
    requests_admit(s);
    struct pass pass;
    int rc = run_pass(s, &pass, err);
    bool idle = s->batch.n_row == 0;
    if (rc < 0)
        requests_end(s, rc == LUTRA_E_CANCELLED ? LUTRA_STOP_CANCELLED : LUTRA_STOP_ERROR);
    else
        rc = sources_take(s->sources, &pass, err); /* a source that fails has ended what is its own */
    s->of_pass.learn_us = speculator_spent_us(s->speculator);
    s->stats.draft_us += s->of_pass.learn_us;
    s->batch.n_row = 0; /* drafts that were not taken are nobody's any more */
    requests_sweep(s);
    inbox_rest(s, idle);
    if (n_active) *n_active = count_active(s);
    return rc == LUTRA_E_CANCELLED ? 0 : rc;
}

int lutra_generate(lutra_session *s, const struct lutra_request *request, struct lutra_error *err)
{
    int n_active = 1;
    TRY(handle_check(s, "session", err));
    s->failed = (struct lutra_error){0};
    TRY(lutra_submit(s, request, NULL, err));
    while (n_active > 0) TRY(lutra_step(s, &n_active, err));
    if (s->failed.code < 0 && err) *err = s->failed;
    return s->failed.code;
}
