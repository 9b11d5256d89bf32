/* SPDX-License-Identifier: MIT
 *
 * Requests: what is submitted, and when it is over.  admit.c says when it starts.
 */
#include "engine/session_impl.h"
#include "base/hash.h"
#include "engine/model_impl.h"
#include "engine/grammar_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- submit ---- */

static void request_free(struct request *r)
{
    if (!r) return;
    for (int i = 0; r->set.stop && i < r->set.n_stop; i++) free((char *)r->set.stop[i]);
    free((void *)r->set.stop);
    free(r->seq.token);
    free((void *)r->experiment.likely);
    free(r->seq.hints);
    free((void *)r->experiment.forced);
    text_tokens_fini(&r->closing);
    free((void *)r->sampling.bias);
    free((void *)r->sampling.breaker);
    free(r->breaker_tail);
    free((void *)r->set.stop_tokens);
    free(r->no_end);
    request_close_grammar(r);
    free(r);
}

static int check_request(const lutra_session *s, const struct lutra_request *set, struct lutra_error *err)
{
    if (model_ops(s->model->model)->whole)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "model '%s' (%s) is an encoder: it makes vectors of texts and writes none", s->model->name,
            model_hparams(s->model->model)->arch);
    if (set->n_prompt < 1 || !set->prompt) return lutra_fail(err, LUTRA_E_ARGUMENT, "request: the prompt is empty");
    if (set->n_prompt >= s->n_ctx)
        return lutra_fail(err, LUTRA_E_CTX_FULL, "request: a prompt of %d tokens does not fit the context of %d",
            set->n_prompt, s->n_ctx);
    if (set->n_samples < 1 || set->n_samples > 1 << 20)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "request: n_samples is %d, outside 1..%d", set->n_samples, 1 << 20);
    if (set->n_stop < 0 || set->n_stop > 64 || (set->n_stop > 0 && !set->stop))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "request: %d stop strings, at most 64, or no list", set->n_stop);
    if (set->top_logprobs < 0 || set->top_logprobs > LUTRA_TOP_LOGPROBS)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "request: top_logprobs is %d, outside 0..%d", set->top_logprobs, LUTRA_TOP_LOGPROBS);
    if (set->min_tokens < 0) return lutra_fail(err, LUTRA_E_ARGUMENT, "request: min_tokens is %d", set->min_tokens);
    if (set->n_stop_tokens < 0 || set->n_stop_tokens > 64 || (set->n_stop_tokens > 0 && !set->stop_tokens))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "request: %d stop tokens, at most 64, or no list", set->n_stop_tokens);
    if (set->reasoning_budget < -1)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "request: reasoning_budget is %d, below -1", set->reasoning_budget);
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

static int check_experiment(const lutra_session *s, const struct lutra_request_experiment *x, struct lutra_error *err)
{
    int n_vocab = model_ops(s->model->model)->n_vocab;
    if (x->n_likely < 0 || (x->n_likely > 0 && !x->likely))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "request: %d likely tokens, or no list", x->n_likely);
    if (x->forced && (x->n_forced < 1 || x->n_forced >= s->n_ctx))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "request: %d forced tokens, outside 1..%d", x->n_forced, s->n_ctx - 1);
    for (int i = 0; x->forced && i < x->n_forced; i++)
        if (x->forced[i] < 0 || x->forced[i] >= n_vocab)
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i, "request: forced token %d is %d, outside 0..%d", i,
                x->forced[i], n_vocab - 1);
    return 0;
}

int request_max_tok(const lutra_session *s, const struct lutra_request *set)
{
    int64_t room = set->max_tokens < 0 ? s->n_ctx : (int64_t)set->n_prompt + set->max_tokens;
    return room < s->n_ctx ? (int)room : s->n_ctx;
}

static int check_hints(const struct lutra_hints *h, int n_vocab, int at, struct lutra_error *err)
{
    for (int k = 0; k < ROW_HINTS; k++) {
        if (h->p[k] == 0) break;
        if (!(h->p[k] > 0 && h->p[k] <= 1) || h->token[k] < 0 || h->token[k] >= n_vocab)
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)at,
                "request: known_hints of token %d: token %d with p %g, outside 0..%d or 0..1", at, h->token[k],
                (double)h->p[k], n_vocab - 1);
    }
    return 0;
}

static int copy_for_hints(
    const lutra_session *s, struct request *r, const struct lutra_request_experiment *x, struct lutra_error *err)
{
    if (!s->hints.wanted) return 0;
    int n = x->n_likely < s->hints.n_short ? x->n_likely : s->hints.n_short;
    int32_t *likely = calloc((size_t)n + 1, sizeof *likely);
    r->experiment.likely = likely;
    r->seq.hints = calloc((size_t)r->set.n_prompt, sizeof *r->seq.hints);
    if (!likely || !r->seq.hints) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    if (n > 0) memcpy(likely, x->likely, (size_t)n * sizeof *likely);
    r->experiment.n_likely = n;
    for (int i = 0; x->known_hints && i < r->set.n_prompt; i++) {
        const struct lutra_hints *h = &x->known_hints[i];
        TRY(check_hints(h, model_ops(s->model->model)->n_vocab, i, err));
        for (int k = 0; k < ROW_HINTS && h->p[k] > 0; k++)
            r->seq.hints[i].token[k] = h->token[k], r->seq.hints[i].p[k] = h->p[k];
    }
    return 0;
}

static int copy_forced(struct request *r, const struct lutra_request_experiment *x, struct lutra_error *err)
{
    int32_t *forced = x->forced ? malloc((size_t)x->n_forced * sizeof *forced) : NULL;
    r->experiment.forced = forced;
    if (!x->forced) return 0;
    if (!forced) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    memcpy(forced, x->forced, (size_t)x->n_forced * sizeof *forced);
    if (r->set.max_tokens < 0 || r->set.max_tokens > x->n_forced) r->set.max_tokens = x->n_forced;
    return 0;
}

static int copy_experiment(
    const lutra_session *s, struct request *r, const struct lutra_request *set, struct lutra_error *err)
{
    struct lutra_request_experiment x;
    lutra_request_experiment_init(&x, sizeof x);
    r->set.experiment = NULL;
    TRY(settings_copy(&x, sizeof x, set->experiment, "the request's experiment", err));
    TRY(check_experiment(s, &x, err));
    if (set->text && x.known_hints) return lutra_fail(err, LUTRA_E_ARGUMENT, "request: a text beside known_hints");
    r->experiment.on_hints = x.on_hints;
    TRY(copy_forced(r, &x, err));
    return copy_for_hints(s, r, &x, err);
}

/* The tokens that end a sample of it, and while it is short or owes an answer, a mask without them and the model's. */
static int copy_ends(
    const lutra_session *s, struct request *r, const struct lutra_request *set, struct lutra_error *err)
{
    int n_vocab = model_ops(s->model->model)->n_vocab;
    int32_t *stop = malloc(((size_t)set->n_stop_tokens + 1) * sizeof *stop);
    r->set.stop_tokens = stop;
    r->n_allow = (n_vocab + 63) / 64;
    bool owes = set->min_tokens > 0 || (r->tags && (set->grammar || set->json_schema || set->structure));
    if (owes) r->no_end = malloc((size_t)r->n_allow * sizeof *r->no_end);
    if (!stop || (owes && !r->no_end)) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    if (r->no_end) memset(r->no_end, 0xff, (size_t)r->n_allow * sizeof *r->no_end);
    for (int i = 0; i < set->n_stop_tokens; i++) {
        if (set->stop_tokens[i] < 0 || set->stop_tokens[i] >= n_vocab)
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i, "request: stop token %d is %d, outside 0..%d", i,
                set->stop_tokens[i], n_vocab - 1);
        stop[i] = set->stop_tokens[i];
        if (r->no_end) r->no_end[stop[i] / 64] &= ~(UINT64_C(1) << stop[i] % 64);
    }
    for (int t = 0; r->no_end && t < n_vocab; t++)
        if (text_is_eog(s->model->vocab, t)) r->no_end[t / 64] &= ~(UINT64_C(1) << t % 64);
    return 0;
}

#define CHANNEL "<|channel|>"

/* The tag that a budget ends in, as tokens. */
static int prepare_budget(const lutra_session *s, struct request *r, struct lutra_error *err)
{
    int budget = r->set.reasoning_budget;
    if (budget < 0) return 0;
    if (!r->tags)
        return lutra_fail(err, LUTRA_E_ARGUMENT,
            "request: a reasoning budget of %d tokens, but the chat template has no tags of reasoning", budget);
    /* Structural tags say themselves what follows reasoning on another channel. */
    const char *tag = r->set.structure ? r->tags->close : text_reasoning_end(r->tags);
    TRY(text_encode(s->model->vocab, tag, strlen(tag), TEXT_PARSE_SPECIAL, &r->closing, err));
    if (r->closing.n > 0) return 0;
    return lutra_fail(
        err, LUTRA_E_ARGUMENT, "request: a reasoning budget, but the vocabulary has no tokens for %s", tag);
}

static int copy_request(lutra_session *s, struct request *r, const struct lutra_request *set, struct lutra_error *err)
{
    r->set = *set;
    r->set.sampling = NULL;                    /* r->sampling has it */
    r->set.prompt = r->set.stop_tokens = NULL; /* what is freed is its own */
    r->set.stop = NULL;
    r->set.text = NULL;
    r->set.stop = calloc((size_t)set->n_stop + 1, sizeof *r->set.stop);
    int32_t *prompt = malloc((size_t)set->n_prompt * sizeof *prompt);
    r->set.prompt = prompt;
    r->seq = (struct sequence){.id = -1,
        .token = prompt,
        .n_token = set->n_prompt,
        .n_prompt = set->n_prompt,
        .domain = set->cache_domain,
        .scored = set->on_prompt_piece != NULL};
    if (!prompt || !r->set.stop) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    memcpy(prompt, set->prompt, (size_t)set->n_prompt * sizeof *prompt);
    r->prompt_hash = hash_bytes(set->cache_domain, prompt, (size_t)set->n_prompt * sizeof *prompt);
    for (int i = 0; i < set->n_stop; i++)
        if (!(((char **)r->set.stop)[i] = strdup(set->stop[i])))
            return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    TRY(copy_experiment(s, r, set, err));
    r->tags = set->chat_template ? text_reasoning_tags(set->chat_template) : s->model->tags;
    r->reasons = text_opens_reasoning(s->model->vocab, r->tags, set->prompt, set->n_prompt);
    r->channel = r->tags && r->tags->answer ? text_token_find(s->model->vocab, CHANNEL, strlen(CHANNEL)) : -1;
    r->set.chat_template = NULL;
    TRY(copy_ends(s, r, set, err));
    TRY(prepare_budget(s, r, err));
    TRY(request_open_grammar(s, r, set, err));
    r->max_tok = request_max_tok(s, &r->set);
    return request_copy_sampling(s, r, set, err);
}

_Static_assert((int)LUTRA_DRAFT_KINDS == (int)GUESS_KINDS, "handed on as they are");

/* A caller's drafts may be anything. */
int request_guess(void *request, const struct row_tip *tip, const float *rate, int most, struct draft_guess *out)
{
    struct request *r = request;
    struct lutra_draft draft[SPEC_DRAFT_MOST];
    struct lutra_draft_tip at = {r->id, tip->sample, tip->token, tip->n_token, rate};
    if (r->failed.code < 0) return 0;
    int n = r->set.on_draft(r->set.user, &at, draft, most);
    if (n < 0 || n > most) {
        (void)lutra_fail_at(&r->failed, LUTRA_E_ARGUMENT, (uint64_t)most,
            "request %d, sample %d: %d drafts, outside 0..%d", r->id, tip->sample, n, most);
        return 0;
    }
    for (int i = 0; i < n; i++) {
        struct lutra_error why;
        out[i] = (struct draft_guess){draft[i].token, draft[i].parent, draft[i].p, draft[i].kind, draft[i].rate};
        if (draft_guess_check(&out[i], i, r->n_vocab, &why) == 0) continue;
        (void)lutra_fail_at(&r->failed, why.code, why.where, "request %d, sample %d, %s", r->id, tip->sample, why.what);
        return 0;
    }
    return n;
}

int request_submit(
    lutra_session *s, const struct lutra_request *set, struct request_care *care, int32_t *id, struct lutra_error *err)
{
    TRY(check_request(s, set, err));
    struct request *r = calloc(1, sizeof *r);
    if (!r) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    int rc = copy_request(s, r, set, err);
    r->n_vocab = model_ops(s->model->model)->n_vocab;
    r->submit_us = clock_now_us(s->model->runtime->clock);
    if (care) r->watch = care->watch, r->watcher = care->watcher, r->width = care->width, r->share = care->share;
    if (care) care->request = r;
    if (rc == 0) rc = inbox_put(s, r, id, err); /* from here on it is the stepping thread's */
    if (rc < 0) request_free(r);
    return rc;
}

int request_encode(const lutra_session *s, struct lutra_request *set, struct text_tokens *own, struct lutra_error *err)
{
    *own = (struct text_tokens){0};
    if (!set->text) return 0;
    if (set->prompt) return lutra_fail(err, LUTRA_E_ARGUMENT, "request: a text beside a prompt");
    TRY(text_encode(s->model->vocab, set->text, set->n_text, TEXT_ADD_SPECIAL | TEXT_PARSE_SPECIAL, own, err));
    set->prompt = own->ids;
    set->n_prompt = own->n < INT32_MAX ? (int)own->n : INT32_MAX;
    return 0;
}

int lutra_submit(lutra_session *s, const struct lutra_request *request, int32_t *id, struct lutra_error *err)
{
    struct lutra_request set;
    struct text_tokens own;
    int32_t none;
    lutra_request_init(&set, sizeof set);
    TRY(handle_check(s, "session", err));
    TRY(settings_copy(&set, sizeof set, request, "request", err));
    int rc = request_encode(s, &set, &own, err);
    if (rc == 0) rc = request_submit(s, &set, NULL, id ? id : &none, err);
    text_tokens_fini(&own);
    return rc;
}

/* ---- ends ---- */

void request_end(lutra_session *s, struct request *r, enum lutra_stop reason)
{
    for (int i = 0; i < s->n_seq; i++)
        if (s->sample[i].request == r) sample_end(s, &s->sample[i], reason);
    request_end_unstarted(s, r, reason);
}

void requests_end(lutra_session *s, enum lutra_stop reason)
{
    for (struct request *r = s->first; r; r = r->next) request_end(s, r, reason);
}

bool request_in_prompt(const struct request *r)
{
    return r->seq.id >= 0 && sequence_left(&r->seq) > 0 && !request_paused(r);
}

bool request_paused(const struct request *r)
{
    return atomic_load_explicit(&r->paused, memory_order_relaxed);
}

enum lutra_stop request_stopped(const lutra_session *s, const struct request *r)
{
    if (r->failed.code < 0) return LUTRA_STOP_ERROR;
    if (atomic_load(&r->cancelled) || atomic_load_explicit(&s->cancel, memory_order_relaxed))
        return LUTRA_STOP_CANCELLED;
    if (!r->set.timeout_us) return LUTRA_STOP_NONE;
    uint64_t used = clock_now_us(s->model->runtime->clock) - r->submit_us;
    return used >= r->set.timeout_us ? LUTRA_STOP_DEADLINE : LUTRA_STOP_NONE;
}

bool request_waits(const struct request *r)
{
    return r->watch && r->watch->waits(r->watcher);
}

void requests_sweep(lutra_session *s)
{
    struct request **link = &s->first, *before = NULL;
    bool stops = s->first && atomic_load_explicit(&s->cancel, memory_order_relaxed);
    while (*link) {
        struct request *r = *link;
        enum lutra_stop why = request_stopped(s, r);
        if (why == LUTRA_STOP_ERROR) {
            log_line(&s->model->runtime->log, LUTRA_LOG_ERROR, "%s", r->failed.what);
            if (s->failed.code == 0) s->failed = r->failed;
        }
        if (why) request_end(s, r, why);
        if (r->n_ended == r->set.n_samples && (why || !request_waits(r))) {
            if (r->watch) r->watch->over(r->watcher);
            request_give_back(s, r, r->n_reserved);
            inbox_unlink(s, link, before);
            request_free(r);
        } else {
            before = r;
            link = &r->next;
        }
    }
    if (stops) atomic_store_explicit(&s->cancel, false, memory_order_relaxed); /* it has ended them all */
}

void requests_close(lutra_session *s)
{
    inbox_close(s);
    for (inbox_take(s); s->first;) {
        lutra_cancel(s);
        requests_sweep(s);
    }
}
