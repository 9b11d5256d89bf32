/* SPDX-License-Identifier: MIT
 *
 * One running sample: from the picked token to text, and to its end.
 */
#include "engine/session_impl.h"
#include "engine/grammar_impl.h"
#include "text/stop.h"

#include <string.h>

/* In the memory that `to` has. */
static void copy_sequence(struct sequence *to, const struct sequence *from, int32_t id)
{
    struct sequence own = *to;
    *to = *from;
    to->id = id;
    to->token = own.token;
    to->hints = own.hints;
    memcpy(to->token, from->token, (size_t)from->n_token * sizeof *to->token);
    if (to->hints) memcpy(to->hints, from->hints, (size_t)from->n_token * sizeof *to->hints);
}

void sample_start(lutra_session *s, struct sample *slot, struct request *r, int32_t seq, int n_done, int32_t row)
{
    int i = (int)(slot - s->sample);
    slot->request = r;
    slot->index = r->n_started++;
    copy_sequence(&slot->seq, &r->seq, seq);
    slot->seq.n_done = slot->seq.n_noted = n_done;
    slot->has_room = true;
    slot->paused = false;
    slot->row = row;
    slot->tip = -1;
    slot->n_pass = row >= 0;
    slot->n_drafted = slot->n_accepted = 0;
    slot->n_underutilized = row >= 0 ? s->of_pass.n_underutilized : 0;
    slot->draft_us = slot->sum_log_prob = 0;
    slot->first_us = 0;
    slot->n_hold = slot->n_before = 0;
    slot->stop = -1;
    slot->n_top = 0;
    slot->n_thought = slot->n_closed = 0;
    text_reasoning_begin(&slot->reasoning, r->tags, r->reasons);
    text_stream_flush(slot->stream);
    sampler_init_sequence(s->sampler, i, &r->sampling, (uint32_t)slot->index, NULL); /* checked at submit */
    for (int t = 0; t < r->set.n_prompt; t++) sampler_accept(s->sampler, i, r->set.prompt[t]);
    request_reserve(s, r); /* what a slot was lent and does not hold */
    if (r->watch) r->watch->begin(r->watcher, slot);
    struct lutra_error why = {0};
    if (sample_begin_grammar(s, slot, &why) < 0) sample_fail(s, slot, &why);
}

/* ---- text ---- */

/* Gives out the first n held bytes, of one part, with a token (-1: none).  Nonzero: the caller wants no more. */
static int give_part(struct sample *slot, int32_t token, float log_prob, size_t n, enum text_part part)
{
    const struct lutra_request *set = &slot->request->set;
    int stop = 0;
    if (part != TEXT_ANSWER) slot->n_before += n;
    if (set->on_text && (token >= 0 || n > 0)) {
        char after = slot->hold[n];
        slot->hold[n] = 0;
        struct lutra_piece piece = {slot->request->id, slot->index, token, log_prob, slot->hold, n,
            (enum lutra_part)part, token >= 0 ? slot->top : NULL, token >= 0 ? slot->n_top : 0};
        stop = set->on_text(set->user, &piece);
        slot->hold[n] = after;
    }
    slot->n_hold -= n;
    memmove(slot->hold, slot->hold + n, slot->n_hold);
    return stop;
}

/* The same for n bytes of any parts; ended: no more text comes. */
static int give(struct sample *slot, int32_t token, float log_prob, size_t n, bool ended)
{
    for (int stop = 0;; token = -1) {
        enum text_part part;
        size_t k = text_reasoning_next(&slot->reasoning, slot->hold, n, ended, &part);
        if (k > 0 || token >= 0) stop = give_part(slot, token, log_prob, k, part);
        n -= k;
        if (stop || k == 0 || n == 0) return stop;
    }
}

size_t sample_before_answer(const struct sample *slot, size_t n_text)
{
    bool answers = slot->reasoning.state == REASONING_OVER || slot->reasoning.state == REASONING_MESSAGE;
    bool over = answers && slot->n_before < n_text;
    return !slot->request->tags ? 0 : over ? slot->n_before : n_text;
}

static void hold(struct sample *slot, struct text_bytes text)
{
    if (text.n > 0) memcpy(slot->hold + slot->n_hold, text.p, text.n);
    slot->n_hold += text.n;
}

static void take_text(struct sample *slot, const struct text_vocab *vocab, int32_t token)
{
    struct text_bytes spelt = text_token_piece(vocab, token, TEXT_PIECE_SPECIAL);
    struct text_bytes shown = slot->request->set.show_special ? spelt : text_token_piece(vocab, token, 0);
    if (shown.n == 0) text_reasoning_token(&slot->reasoning, spelt.p, spelt.n);
    hold(slot, text_stream_push(slot->stream, shown));
}

/* ---- the end ---- */

static void report_end(lutra_session *s, const struct request *r, const struct lutra_end *end)
{
    if (end->reason == LUTRA_STOP_CANCELLED && s->failed.code == 0)
        (void)lutra_fail(&s->failed, LUTRA_E_CANCELLED, "request %d was cancelled", r->id);
    if (r->set.on_end) r->set.on_end(r->set.user, end);
}

int sample_settle(lutra_session *s, struct sample *slot)
{
    int32_t row = slot->row;
    slot->row = -1;
    int rc = row >= 0 && s->batch.row[row].want & ROW_DRAFT ? lutra_commit(s, row, NULL) : 0;
    prefix_note(s, &slot->seq);
    return rc;
}

void sample_end(lutra_session *s, struct sample *slot, enum lutra_stop reason)
{
    struct request *r = slot->request;
    sample_settle(s, slot); /* if it fails, its past is shorter */
    if (reason != LUTRA_STOP_STRING) {
        hold(slot, text_stream_flush(slot->stream));
        if (slot->n_hold > 0) give(slot, -1, 0, slot->n_hold, true);
    }
    struct lutra_end end = {.request = r->id,
        .sample = slot->index,
        .reason = reason,
        .n_prompt = r->set.n_prompt,
        .n_cached = r->n_cached,
        .n_tok = sample_length(slot),
        .sum_log_prob = slot->sum_log_prob,
        .first_us = slot->first_us,
        .end_us = clock_now_us(s->model->runtime->clock) - r->submit_us,
        .n_pass = slot->n_pass,
        .n_drafted = slot->n_drafted,
        .n_accepted = slot->n_accepted,
        .n_wasted = slot->n_drafted - slot->n_accepted,
        .n_underutilized = slot->n_underutilized,
        .draft_us = (uint64_t)slot->draft_us,
        .hints_us = (uint64_t)r->hints_us,
        .stop = reason == LUTRA_STOP_STRING || reason == LUTRA_STOP_TOKEN ? slot->stop : -1,
        .start_us = r->start_us};
    const struct spec_text text = {r->prompt_hash, slot->seq.token, slot->seq.n_prompt, slot->seq.n_token};
    if (reason != LUTRA_STOP_ERROR) speculator_keep(s->speculator, &text);
    if (r->watch) r->watch->end(r->watcher, slot, reason);
    sequence_close(&slot->seq, s->kv);
    slot->request = NULL;
    request_reserve(s, r);
    r->n_ended++;
    report_end(s, r, &end);
}

void sample_fail(lutra_session *s, struct sample *slot, const struct lutra_error *why)
{
    log_line(&s->model->runtime->log, LUTRA_LOG_ERROR, "request %d, sample %d: %s", slot->request->id, slot->index,
        why->what);
    if (s->failed.code == 0) s->failed = *why;
    sample_end(s, slot, LUTRA_STOP_ERROR);
}

struct sample *sample_fork(lutra_session *s, struct sample *from)
{
    struct sample *to = free_slot(s);
    int32_t seq;
    struct request *r = from->request;
    if (!to) return NULL;
    request_lend(s, r);
    if (kv_seq_fork(s->kv, from->seq.id, -1, r->max_tok, &seq, NULL) < 0) {
        request_reserve(s, r);
        return NULL;
    }
    struct sample own = *to;
    *to = *from;
    to->stream = own.stream;
    to->hold = own.hold;
    to->seq = own.seq;
    copy_sequence(&to->seq, &from->seq, seq);
    if (sample_share_grammar(s, to) < 0) {
        to->request = NULL;
        sequence_close(&to->seq, s->kv);
        request_reserve(s, r);
        return NULL;
    }
    to->index = r->n_started++;
    r->set.n_samples++;
    memcpy(to->hold, from->hold, from->n_hold);
    request_reserve(s, r);
    text_stream_copy(to->stream, from->stream);
    sampler_fork(s->sampler, (int)(to - s->sample), (int)(from - s->sample), (uint32_t)to->index);
    return to;
}

void request_end_unstarted(lutra_session *s, struct request *r, enum lutra_stop reason)
{
    while (r->n_started < r->set.n_samples) {
        struct lutra_end end = {.request = r->id,
            .sample = r->n_started++,
            .reason = reason,
            .n_prompt = r->set.n_prompt,
            .stop = -1,
            .start_us = r->start_us,
            .end_us = clock_now_us(s->model->runtime->clock) - r->submit_us};
        r->n_ended++;
        report_end(s, r, &end);
    }
    sequence_close(&r->seq, s->kv);
}

/* A budget of thoughts waits so many tokens for what is begun: a character, a tag, a stop string. */
enum { BUDGET_GRACE = 8 };

int32_t sample_forced(struct sample *slot)
{
    const struct request *r = slot->request;
    if (r->experiment.forced) return r->experiment.forced[sample_length(slot)];
    int over = slot->n_thought - r->set.reasoning_budget;
    bool begun = slot->n_hold > 0 || text_stream_waits(slot->stream);
    bool closes = slot->n_closed > 0 ||
                  (text_reasoning_goes_on(&slot->reasoning) && over >= 0 && (!begun || over >= BUDGET_GRACE));
    if (!closes || (size_t)slot->n_closed >= r->closing.n) return -1;
    slot->reasoning.once = true;
    return r->closing.ids[slot->n_closed++];
}

int request_top(
    const struct request *r, const struct row_result *result, struct lutra_token_prob top[LUTRA_TOP_LOGPROBS])
{
    int n = 0;
    for (; n < result->n_top && n < r->set.top_logprobs; n++)
        top[n] = (struct lutra_token_prob){result->top_id[n], result->top_logit[n] - result->log_sum_exp};
    return n;
}

/* The likeliest tokens at the row behind which the sample has picked. */
static void list_top(const lutra_session *s, struct sample *slot)
{
    const struct row_result *r = slot->row >= 0 ? session_result(s, slot->row) : NULL;
    slot->n_top = r ? request_top(slot->request, r, slot->top) : 0;
}

static int find_stop_token(const struct lutra_request *set, int32_t token)
{
    int i = set->n_stop_tokens;
    while (i-- && set->stop_tokens[i] != token) continue;
    return i;
}

void sample_advance(lutra_session *s, struct sample *slot, const struct sample_pick *pick)
{
    struct request *r = slot->request;
    const struct text_vocab *vocab = s->model->vocab;
    if (sample_length(slot) == 0) slot->first_us = clock_now_us(s->model->runtime->clock) - r->submit_us;
    slot->sum_log_prob += (double)pick->log_prob;
    slot->seq.token[slot->seq.n_token] = pick->token;
    if (text_is_eog(vocab, pick->token)) {
        sample_end(s, slot, LUTRA_STOP_END);
        return;
    }
    if ((slot->stop = find_stop_token(&r->set, pick->token)) >= 0) {
        sample_end(s, slot, LUTRA_STOP_TOKEN);
        return;
    }
    list_top(s, slot);
    sampler_accept(s->sampler, (int)(slot - s->sample), pick->token);
    bool thought = text_reasoning_goes_on(&slot->reasoning), is_free = sample_is_free(slot, pick->token);
    slot->seq.n_token++;
    slot->n_thought += thought;
    s->stats.generated_tokens++;
    take_text(slot, vocab, pick->token);

    const char *const *ends = r->set.stop;
    size_t at;
    int stop = text_stop_find(ends, r->set.n_stop, slot->hold, slot->n_hold, &at);
    size_t out = stop >= 0 ? at : slot->n_hold - text_stop_may_begin(ends, r->set.n_stop, slot->hold, slot->n_hold);
    if (stop >= 0) slot->stop = stop;
    int enough = give(slot, pick->token, pick->log_prob, out, false);
    struct lutra_error why = {0};
    int whole = sample_follow_grammar(s, slot, pick->token, is_free, &why);
    if (whole < 0) {
        sample_fail(s, slot, &why);
    } else if (stop >= 0) {
        sample_end(s, slot, LUTRA_STOP_STRING);
    } else if (enough) {
        sample_end(s, slot, LUTRA_STOP_CALLER);
    } else if (whole > 0) {
        sample_end(s, slot, LUTRA_STOP_END);
    } else if (r->set.max_tokens >= 0 && sample_length(slot) >= r->set.max_tokens) {
        sample_end(s, slot, LUTRA_STOP_LENGTH);
    } else if (slot->seq.n_done >= r->max_tok) {
        sample_end(s, slot, LUTRA_STOP_CTX_FULL);
    } else if (r->watch) {
        r->watch->token(r->watcher, slot);
    }
}
