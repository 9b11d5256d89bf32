/* SPDX-License-Identifier: MIT
 *
 * Requests, continuously batched: every step packs one row per running sample and fills the rest with prompt rows.
 *
 *     submit -> waiting -> prompt in chunks -> samples (forks of the prompt) -> ends
 *
 * A sample starts from the logits of the prompt's last row when a slot is free at that moment; one that has to wait
 * starts later from a fork one token shorter, evaluating the last prompt token again: the same bits, since a row's
 * result does not depend on the batch.
 */
#include "engine/engine_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- submit ---- */

static void request_free(struct request *r)
{
    if (!r) return;
    for (int i = 0; r->set.stop && i < r->set.n_stop; i++) free((char *)r->set.stop[i]);
    free((void *)r->set.stop);
    free((void *)r->set.prompt);
    free((void *)r->sampling.bias);
    free(r);
}

static int check_request(const lutra_session *s, const struct lutra_request *set, struct lutra_error *err)
{
    if (set->n_prompt < 1 || !set->prompt) return lutra_fail(err, LUTRA_E_ARGUMENT, "request: the prompt is empty");
    if (set->n_prompt >= s->n_ctx)
        return lutra_fail(err, LUTRA_E_CTX_FULL, "request: a prompt of %d tokens does not fit the context of %d",
            set->n_prompt, s->n_ctx);
    if (set->n_samples < 1 || set->n_samples > 1 << 20)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "request: n_samples is %d, outside 1..%d", set->n_samples, 1 << 20);
    if (set->n_stop < 0 || set->n_stop > 64)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "request: %d stop strings, at most 64", set->n_stop);
    int n_vocab = model_ops(s->model->model)->n_vocab;
    for (int i = 0; i < set->n_prompt; i++)
        if (set->prompt[i] < 0 || set->prompt[i] >= n_vocab)
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i, "request: prompt token %d is %d, outside 0..%d", i,
                set->prompt[i], n_vocab - 1);
    for (int i = 0; i < set->n_stop; i++)
        if (!set->stop[i] || !*set->stop[i] || strlen(set->stop[i]) > SESSION_STOP_BYTES)
            return lutra_fail(err, LUTRA_E_ARGUMENT, "request: stop string %d is empty or longer than %d bytes", i,
                SESSION_STOP_BYTES);
    return 0;
}

/* The sampler's settings: the caller's, and end tokens forbidden with ignore_end. */
static int copy_sampling(
    const lutra_session *s, struct request *r, const struct lutra_request *set, struct lutra_error *err)
{
    struct lutra_sampling p;
    lutra_sampling_init(&p, sizeof p);
    TRY(settings_copy(&p, sizeof p, set->sampling, "sampling", err));
    size_t n_eog = set->ignore_end ? text_vocab_n_eog(s->model->vocab) : 0, n = (size_t)p.n_bias + n_eog;
    if (p.n_bias < 0 || n > SESSION_BIAS)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "request: %d logit biases, at most %zu", p.n_bias, SESSION_BIAS - n_eog);
    struct sample_bias *bias = malloc((n ? n : 1) * sizeof *bias);
    if (!bias) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    for (int i = 0; i < p.n_bias; i++) bias[i] = (struct sample_bias){p.bias[i].token, p.bias[i].bias};
    for (size_t i = 0; i < n_eog; i++)
        bias[(size_t)p.n_bias + i] = (struct sample_bias){text_vocab_eog(s->model->vocab)[i], -INFINITY};
    r->sampling = (struct sample_settings){.seed = p.seed,
        .temperature = p.temperature,
        .top_k = p.top_k,
        .top_p = p.top_p,
        .min_p = p.min_p,
        .min_keep = 0,
        .penalty_last_n = p.penalty_last_n,
        .repeat_penalty = p.repeat_penalty,
        .frequency_penalty = p.frequency_penalty,
        .presence_penalty = p.presence_penalty,
        .bias = bias,
        .n_bias = (int)n};
    return sample_settings_check(&r->sampling, model_ops(s->model->model)->n_vocab, err);
}

int request_max_tok(const lutra_session *s, const struct lutra_request *set)
{
    int64_t room = set->max_tokens < 0 ? s->n_ctx : (int64_t)set->n_prompt + set->max_tokens;
    return room < s->n_ctx ? (int)room : s->n_ctx;
}

static int copy_request(
    const lutra_session *s, struct request *r, const struct lutra_request *set, struct lutra_error *err)
{
    r->set = *set;
    r->set.sampling = NULL; /* r->sampling has it */
    r->set.stop = calloc((size_t)set->n_stop + 1, sizeof *r->set.stop);
    int32_t *prompt = malloc((size_t)set->n_prompt * sizeof *prompt);
    r->set.prompt = prompt;
    if (!prompt || !r->set.stop) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    memcpy(prompt, set->prompt, (size_t)set->n_prompt * sizeof *prompt);
    for (int i = 0; i < set->n_stop; i++)
        if (!(((char **)r->set.stop)[i] = strdup(set->stop[i])))
            return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    r->max_tok = request_max_tok(s, set);
    return copy_sampling(s, r, set, err);
}

int lutra_submit(lutra_session *s, const struct lutra_request *request, int32_t *id, struct lutra_error *err)
{
    struct lutra_request set;
    lutra_request_init(&set, sizeof set);
    TRY(settings_copy(&set, sizeof set, request, "request", err));
    TRY(check_request(s, &set, err));
    struct request *r = calloc(1, sizeof *r);
    if (!r) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    int rc = copy_request(s, r, &set, err);
    if (rc < 0) {
        request_free(r);
        return rc;
    }
    if (!s->first) atomic_store_explicit(&s->cancel, false, memory_order_relaxed);
    r->id = s->next_id++;
    r->seq = r->last_row = -1;
    r->submit_us = clock_now_us(s->model->runtime->clock);
    *(s->last ? &s->last->next : &s->first) = r;
    s->last = r;
    s->stats.prompt_tokens += (uint64_t)set.n_prompt;
    if (id) *id = r->id;
    return 0;
}

int lutra_request_cancel(lutra_session *s, int32_t id)
{
    for (struct request *r = s->first; r; r = r->next) {
        if (r->id != id) continue;
        r->cancelled = true;
        return 0;
    }
    return LUTRA_E_NOT_FOUND;
}

/* ---- ends ---- */

void request_end(lutra_session *s, struct request *r, enum lutra_stop reason)
{
    for (int i = 0; i < s->n_seq; i++)
        if (s->sample[i].request == r) sample_end(s, &s->sample[i], reason);
    request_end_unstarted(s, r, reason);
}

static void end_all(lutra_session *s, enum lutra_stop reason)
{
    for (struct request *r = s->first; r; r = r->next) request_end(s, r, reason);
}

/* Ends what was cancelled or ran out of time, and frees what has ended. */
static void sweep(lutra_session *s)
{
    uint64_t now = clock_now_us(s->model->runtime->clock);
    if (atomic_load_explicit(&s->cancel, memory_order_relaxed)) end_all(s, LUTRA_STOP_CANCELLED);
    struct request **link = &s->first, *before = NULL;
    while (*link) {
        struct request *r = *link;
        if (r->cancelled)
            request_end(s, r, LUTRA_STOP_CANCELLED);
        else if (r->set.timeout_us && now - r->submit_us >= r->set.timeout_us)
            request_end(s, r, LUTRA_STOP_DEADLINE);
        if (r->n_ended == r->set.n_samples) {
            if (r->search) search_finish(r->search);
            *link = r->next;
            if (s->last == r) s->last = before;
            request_free(r);
        } else {
            before = r;
            link = &r->next;
        }
    }
}

void requests_close(lutra_session *s)
{
    struct request *r = s->first;
    while (r) {
        struct request *next = r->next;
        if (r->search) search_finish(r->search);
        request_free(r);
        r = next;
    }
    s->first = s->last = NULL;
}

/* ---- admission ---- */

struct sample *free_slot(lutra_session *s)
{
    for (int i = 0; i < s->n_seq; i++)
        if (!s->sample[i].request) return &s->sample[i];
    return NULL;
}

/* Slots that r may take: the free ones, less those that other searches have a right to. */
static int n_free_slots(const lutra_session *s, const struct request *r)
{
    int n = 0;
    for (int i = 0; i < s->n_seq; i++) n += !s->sample[i].request;
    for (const struct request *o = s->first; o; o = o->next) {
        if (!o->search || o == r || (o->seq < 0 && o->n_started == 0)) continue;
        n -= search_width(o->search);
        for (int i = 0; i < s->n_seq; i++) n += s->sample[i].request == o;
    }
    return n;
}

/* The sequence of the next sample, n_tok tokens of the prompt.  A single sample takes the prompt's own. */
static int sample_seq(lutra_session *s, struct request *r, int n_tok, int32_t *seq)
{
    if (r->set.n_samples > 1) {
        TRY(prefix_seq_fork(s, r->seq, n_tok, r->max_tok, seq, NULL));
        if (r->n_started < r->set.n_samples - 1) return 0;
        kv_seq_close(s->kv, r->seq);
    } else {
        TRY(kv_seq_truncate(s->kv, r->seq, n_tok, NULL));
        *seq = r->seq;
    }
    r->seq = -1;
    return 0;
}

/* Starts what can start: samples of evaluated prompts first, then the prompts of waiting requests, in order. */
static void admit(lutra_session *s)
{
    int reserved = 0; /* slots that prompts under way will want, beside searches' (n_free_slots knows those) */
    for (struct request *r = s->first; r; r = r->next) {
        bool prompt_done = r->seq >= 0 && r->n_done == r->set.n_prompt;
        while (prompt_done && r->n_started < r->set.n_samples && n_free_slots(s, r) > 0) {
            struct sample *slot = free_slot(s);
            int32_t seq;
            if (sample_seq(s, r, r->set.n_prompt - 1, &seq) < 0) return;
            sample_start(s, slot, r, seq);
            slot->pending = r->set.prompt[--slot->n_token];
        }
        if (r->n_started == r->set.n_samples || prompt_done) continue;
        int need = r->search ? search_width(r->search) : 1;
        if (reserved + need > n_free_slots(s, r)) return;
        if (r->seq < 0) {
            /* A prompt that is forked needs no room of its own to grow. */
            int max_tok = r->set.n_samples > 1 ? r->set.n_prompt : r->max_tok;
            if (prefix_seq_open(s, r->set.prompt, r->set.n_prompt, max_tok, &r->seq, &r->n_cached, NULL) < 0) {
                r->seq = -1;
                return;
            }
            r->n_done = r->n_cached;
            s->stats.cached_tokens += (uint64_t)r->n_cached;
        }
        if (!r->search) reserved += r->set.n_samples;
    }
}

/* ---- a step ---- */

/* What a draw from all logits takes.  log_sum_exp comes from the head always, so that log-probs do not depend on how much of
 * a row was wanted. */
enum { WANT_ROW = WANT_LOGITS | WANT_LOGPROB };

static int pack_samples(lutra_session *s)
{
    int n = 0;
    for (int i = 0; i < s->n_seq; i++) {
        struct sample *slot = &s->sample[i];
        if (!slot->request || slot->node.paused || n == s->n_batch || n == s->n_out) continue;
        slot->row = n;
        const int32_t *listed;
        int n_listed = sampler_listed(s->sampler, i, &listed);
        s->batch.row[n++] = (struct row){slot->pending, kv_seq_length(s->kv, slot->seq), slot->seq, -1,
            n_listed < 0 ? WANT_ROW : WANT_TOPK | WANT_LOGPROB, n_listed < 0 ? 0 : n_listed, listed};
        slot->n_token++;
    }
    return n;
}

static int pack_prompts(lutra_session *s, int n)
{
    int n_want = n;
    for (struct request *r = s->first; r && n < s->n_batch; r = r->next) {
        r->last_row = -1;
        if (r->seq < 0 || r->n_done == r->set.n_prompt) continue;
        int first = n, left = r->set.n_prompt - r->n_done, room = s->n_batch - n;
        if (n_want == s->n_out && room >= left) room = left - 1;
        int end = n + batch_fit(s->batch.bulk, r->n_done, left, room);
        for (int t = r->n_done; n < end; t++, n++) {
            bool last = t == r->set.n_prompt - 1;
            n_want += last;
            if (last) r->last_row = n;
            s->batch.row[n] = (struct row){
                r->set.prompt[t], t, r->seq, n == first ? -1 : n - 1, ROW_BULK | (last ? WANT_ROW : 0), 0, NULL};
        }
    }
    return n;
}

/* Prompts advance; those at their end start the samples that have a slot, from the logits of the last row. */
static void start_from_logits(lutra_session *s)
{
    for (struct request *r = s->first; r; r = r->next) {
        if (r->seq < 0) continue;
        r->n_done = kv_seq_length(s->kv, r->seq);
        struct sample *slot;
        int32_t seq;
        while (r->last_row >= 0 && r->n_started < r->set.n_samples && n_free_slots(s, r) > 0 &&
               sample_seq(s, r, r->set.n_prompt, &seq) == 0) {
            slot = free_slot(s);
            sample_start(s, slot, r, seq);
            slot->row = r->last_row;
        }
    }
}

static void pick_some(void *arg, int ith, int nth)
{
    lutra_session *s = arg;
    for (int i = ith; i < s->n_seq; i += nth) {
        struct sample *slot = &s->sample[i];
        if (!slot->request || slot->row < 0) continue;
        const struct row_result *result = session_result(s, slot->row);
        s->pick_status[i] =
            sampler_pick(s->sampler, i, ith, result, kv_seq_length(s->kv, slot->seq), &s->pick[i], NULL);
    }
}

static void pick_tokens(lutra_session *s)
{
    uint64_t start = clock_now_us(s->model->runtime->clock);
    pool_run(s->model->runtime->pool, pick_some, s);
    for (int i = 0; i < s->n_seq; i++) {
        struct sample *slot = &s->sample[i];
        if (!slot->request || slot->row < 0) continue;
        slot->row = -1;
        if (s->pick_status[i] < 0) {
            log_line(&s->model->runtime->log, LUTRA_LOG_ERROR, "request %d, sample %d: %s", slot->request->id,
                slot->index, lutra_status_text(s->pick_status[i]));
            sample_end(s, slot, LUTRA_STOP_ERROR);
        } else
            sample_advance(s, slot, &s->pick[i]);
    }
    s->stats.sample_us += clock_now_us(s->model->runtime->clock) - start;
}

static int count_active(const lutra_session *s)
{
    int n = 0;
    for (const struct request *r = s->first; r; r = r->next) n += r->set.n_samples - r->n_ended;
    return n;
}

int lutra_step(lutra_session *s, int *n_active, struct lutra_error *err)
{
    sweep(s);
    admit(s);
    int n = pack_prompts(s, pack_samples(s));
    int rc = 0;
    if (n > 0) rc = session_forward(s, n, CLOCK_NEVER_US, err);
    if (rc == 0 && n > 0) {
        start_from_logits(s);
        pick_tokens(s);
        rc = search_rounds(s, err);
    } else if (rc < 0) {
        end_all(s, rc == LUTRA_E_CANCELLED ? LUTRA_STOP_CANCELLED : LUTRA_STOP_ERROR);
    } else if (s->first) { /* nothing runs and nothing can start */
        rc = lutra_fail(err, LUTRA_E_CTX_FULL, "the cache is held by open sequences: no request can start");
        end_all(s, LUTRA_STOP_ERROR);
    }
    sweep(s);
    if (n_active) *n_active = count_active(s);
    return rc == LUTRA_E_CANCELLED ? 0 : rc;
}

int lutra_generate(lutra_session *s, const struct lutra_request *request, struct lutra_error *err)
{
    int n_active = 1;
    TRY(lutra_submit(s, request, NULL, err));
    while (n_active > 0) TRY(lutra_step(s, &n_active, err));
    return 0;
}
