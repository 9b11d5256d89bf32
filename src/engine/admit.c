/* SPDX-License-Identifier: MIT
 *
 * Requests, continuously batched: which of them have slots and memory.
 *
 *     waiting -> prompt in chunks -> samples (forks of the prompt) -> ends
 *
 * A prompt and a sample are sequences (decode/sequence.h).  A sample that has a slot when its prompt is evaluated draws
 * behind that row; one that has to wait gets all of the prompt but the last token, as any text that is found in the
 * cache does, and draws behind a row of its own: the same bits, since a row's result does not depend on the batch.
 *
 * A request begins when there are blocks for its prompt and one pass more; its samples take further ones as they grow.
 * When there is none, the youngest loses what it holds and waits as if it had not begun, but for its slots and text.
 * It returns when all of its text and one pass more have room: what later sequences did not need of its blocks is
 * found, the rest is evaluated again, and its text goes on as if nothing had been.
 * The oldest is never the youngest, so somebody always goes on.  How long drafts may be is not asked of the free room.
 */
#include "engine/session_impl.h"

/* ---- reserved blocks ----
 *
 * Candidates of a search over steps wait for one another, so they may not wait for blocks: a search begins when the
 * cache can promise all its slots what a candidate may need, and keeps that until it ends.  Which candidates there are
 * then never depends on what else is in the cache. */

int32_t request_share(int n_prompt, int max_tok)
{
    return (max_tok + KV_BLOCK - 1) / KV_BLOCK - (n_prompt - 1) / KV_BLOCK;
}

int64_t request_blocks(int n_prompt, int max_tok, int width)
{
    return (n_prompt - 1) / KV_BLOCK + (int64_t)request_share(n_prompt, max_tok) * width + width / 2 + 1;
}

void request_give_back(lutra_session *s, struct request *r, int32_t n)
{
    if (n > r->n_reserved) n = r->n_reserved;
    kv_reserve(s->kv, -n, NULL);
    r->n_reserved -= n;
}

void request_lend(lutra_session *s, struct request *r)
{
    request_give_back(s, r, r->share + 1); /* and the copy of a shared tail */
}

bool request_reserve(lutra_session *s, struct request *r)
{
    int n = 0;
    if (!r->share) return true;
    if (r->seq.id >= 0) s->held[n++] = r->seq.id;
    for (int i = 0; i < s->n_seq; i++)
        if (s->sample[i].request == r) s->held[n++] = s->sample[i].seq.id;
    int32_t more =
        (int32_t)request_blocks(r->set.n_prompt, r->max_tok, r->width) - kv_held(s->kv, s->held, n) - r->n_reserved;
    if (more <= 0) return true;
    if (kv_reserve(s->kv, more, NULL) < 0) return false;
    r->n_reserved += more;
    return true;
}

/* ---- slots ---- */

struct sample *free_slot(lutra_session *s)
{
    for (int i = 0; i < s->n_seq; i++)
        if (!s->sample[i].request) return &s->sample[i];
    return NULL;
}

int n_free_slots(const lutra_session *s, const struct request *r)
{
    int n = 0;
    for (int i = 0; i < s->n_seq; i++) n += !s->sample[i].request;
    for (const struct request *o = s->first; o; o = o->next) {
        if (!o->width || o == r || (o->seq.id < 0 && o->n_started == 0)) continue;
        n -= o->width;
        for (int i = 0; i < s->n_seq; i++) n += s->sample[i].request == o;
    }
    return n;
}

/* ---- room that grows ---- */

/* What a sequence is promised: its tokens, and the drafts behind them. */
static int room_for(const lutra_session *s, const struct request *r, int n_token)
{
    int64_t most = (int64_t)n_token + s->n_draft;
    return r->share || most > r->max_tok ? r->max_tok : (int)most;
}

/* A request's sample with the smallest index above `index`; NULL: none. */
static struct sample *next_sample(const lutra_session *s, const struct request *r, int index)
{
    struct sample *next = NULL;
    for (int i = 0; i < s->n_seq; i++) {
        struct sample *slot = &s->sample[i];
        if (slot->request == r && slot->index > index && (!next || slot->index < next->index)) next = slot;
    }
    return next;
}

static struct sample *first_sample(const lutra_session *s, const struct request *r)
{
    return r->n_started > 0 ? next_sample(s, r, -1) : NULL; /* many may wait */
}

static void lose(lutra_session *s, struct sequence *q)
{
    sequence_close(q, s->kv);
    s->stats.n_preempted++;
}

static struct sample *last_with_room(const lutra_session *s, const struct request *r, int index)
{
    struct sample *last = NULL;
    for (struct sample *slot = next_sample(s, r, index); slot; slot = next_sample(s, r, slot->index))
        if (slot->seq.id >= 0) last = slot;
    return last;
}

/* The youngest of those behind a sample loses what it holds: a request's prompt for samples that have not started
 * first, then its last sample.  false: there is none. */
static bool take_from_youngest(lutra_session *s, struct request *r, const struct sample *slot)
{
    struct request *youngest = NULL;
    for (struct request *o = r; o; o = o->next)
        if (!o->share && (o->seq.id >= 0 || last_with_room(s, o, o == r ? slot->index : -1))) youngest = o;
    if (!youngest) return false;
    lose(s,
        youngest->seq.id >= 0 ? &youngest->seq : &last_with_room(s, youngest, youngest == r ? slot->index : -1)->seq);
    return true;
}

static bool is_oldest(const lutra_session *s, const struct request *r, const struct sample *slot)
{
    for (const struct request *o = s->first; o != r; o = o->next)
        if (!o->share && (o->seq.id >= 0 || last_with_room(s, o, -1))) return false;
    for (const struct sample *o = next_sample(s, r, -1); o != slot; o = next_sample(s, r, o->index))
        if (o->seq.id >= 0) return false;
    return true;
}

void requests_make_room(lutra_session *s)
{
    for (struct request *r = s->first; r; r = r->next)
        for (struct sample *slot = first_sample(s, r); slot; slot = next_sample(s, r, slot->index)) {
            slot->has_room = slot->seq.id >= 0;
            if (!slot->has_room || r->share || request_paused(r)) continue;
            int want = room_for(s, r, slot->seq.n_token);
            do slot->has_room = kv_seq_grow(s->kv, slot->seq.id, want, NULL) == 0;
            while (!slot->has_room && take_from_youngest(s, r, slot));
            if (!slot->has_room && !is_oldest(s, r, slot)) lose(s, &slot->seq);
        }
}

/* ---- admission ---- */

/* The prompt's sequence, with room for a search's candidates; false: it has to wait. */
static bool open_prompt(lutra_session *s, struct request *r)
{
    /* A prompt that is forked needs no room of its own to grow. */
    int max_tok = r->set.n_samples > 1 ? r->set.n_prompt : room_for(s, r, r->set.n_prompt + 1);
    if (!request_reserve(s, r)) return false;
    if (r->share) request_give_back(s, r, (r->set.n_prompt - 1) / KV_BLOCK + 1);
    bool there = prefix_open(s, &r->seq, max_tok) == 0;
    if (there) request_reserve(s, r);
    if (!there && r->n_started == 0) request_give_back(s, r, r->n_reserved);
    if (!there || r->has_begun) return there;
    r->has_begun = true;
    inbox_begun(s, r);
    r->n_cached = r->seq.n_found;
    r->start_us = clock_now_us(s->model->runtime->clock) - r->submit_us;
    s->stats.cached_tokens += (uint64_t)r->n_cached;
    if (r->set.on_prompt) r->set.on_prompt(r->set.user, r->id, r->n_cached, r->set.n_prompt);
    return true;
}

/* The sequence of the next sample, of the first n tokens of the prompt: a fork, or, of the last sample, the prompt's
 * own. */
static int branch(lutra_session *s, struct request *r, int n, int32_t *seq)
{
    struct sequence *q = &r->seq;
    int room = room_for(s, r, n + 1), near = kv_seq_reach(s->kv, q->id, n), rc;
    if (near < n) { /* the state of recurrent layers has gone: the rest of the prompt is evaluated once more */
        TRY(kv_seq_truncate(s->kv, q->id, near, NULL));
        q->n_done = near;
        return LUTRA_E_BUSY;
    }
    request_lend(s, r);
    if (r->n_started == r->set.n_samples - 1) {
        rc = kv_seq_grow(s->kv, q->id, room, NULL);
        if (rc == 0) rc = kv_seq_truncate(s->kv, q->id, n, NULL);
        if (rc == 0) *seq = q->id, q->id = -1;
    } else {
        rc = kv_seq_fork(s->kv, q->id, n, room, seq, NULL);
    }
    if (rc < 0) request_reserve(s, r);
    return rc;
}

static bool prompt_is_done(const struct request *r)
{
    return r->seq.id >= 0 && sequence_left(&r->seq) == 0;
}

bool request_start_samples(lutra_session *s, struct request *r, int32_t row)
{
    int n = row < 0 ? r->set.n_prompt - 1 : r->set.n_prompt;
    while (prompt_is_done(r) && r->n_started < r->set.n_samples && n_free_slots(s, r) > 0) {
        int32_t seq;
        if (branch(s, r, n, &seq) < 0) return false;
        sample_start(s, free_slot(s), r, seq, n, row);
    }
    return true;
}

/* Samples that lost their room get it back, in order; false: one has to wait for blocks. */
static bool resume_samples(lutra_session *s, struct request *r)
{
    for (struct sample *slot = first_sample(s, r); slot; slot = next_sample(s, r, slot->index)) {
        if (slot->seq.id >= 0 || prefix_is_coming(s, &slot->seq)) continue;
        if (prefix_open(s, &slot->seq, room_for(s, r, slot->seq.n_token)) < 0) return false;
        slot->has_room = true;
    }
    return true;
}

/* A request that does not fit may be passed by so many that begin behind it; so many of these are looked at. */
enum { PASSED_MOST = 8, LOOK_BEHIND = 64 };

struct admission {
    int n_reserved; /* slots that prompts under way will want, beside searches' (n_free_slots knows those) */
    int n_stuck;    /* requests that do not fit */
    bool closed;    /* nobody behind may begin */
};

/* Others begin behind requests that do not fit. */
static void pass_by(lutra_session *s, struct admission *a, const struct request *begun)
{
    for (struct request *r = s->first; a->n_stuck > 0 && r != begun; r = r->next)
        if (r->stuck && ++r->n_passed >= PASSED_MOST) a->closed = true;
}

/* The prompt begins, or waits for what is coming; false: it does not fit. */
static bool begin(lutra_session *s, struct request *r, struct admission *a)
{
    int need = r->width ? r->width : 1;
    bool first = !r->has_begun;
    if (a->n_reserved + need > n_free_slots(s, r)) return false;
    if (r->seq.id < 0) {
        bool waits = prefix_is_coming(s, &r->seq);
        if (!waits && !open_prompt(s, r)) return false;
        if (!waits && first) pass_by(s, a, r);
        if (waits && r->width) a->n_reserved += r->width;
    }
    if (!r->width) a->n_reserved += r->set.n_samples;
    return true;
}

static void reserve_running(lutra_session *s)
{
    for (struct request *r = s->first; r; r = r->next)
        if (r->share && (r->seq.id >= 0 || r->n_started > 0)) request_reserve(s, r);
}

void requests_admit(lutra_session *s)
{
    struct admission a = {0};
    reserve_running(s); /* what a copy less has made free is not for those that wait */
    for (struct request *r = s->first; r; r = r->next) {
        bool none = !r->has_begun && (a.closed || !free_slot(s));
        if (none || request_paused(r)) continue;
        bool fits = resume_samples(s, r) && request_start_samples(s, r, -1);
        if (fits && r->n_started < r->set.n_samples && !prompt_is_done(r)) fits = begin(s, r, &a);
        r->stuck = !fits;
        if (fits) r->n_passed = 0;
        if (!fits && (r->n_passed >= PASSED_MOST || ++a.n_stuck == LOOK_BEHIND)) a.closed = true;
    }
}
