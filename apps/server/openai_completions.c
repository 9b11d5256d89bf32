/* SPDX-License-Identifier: MIT
 *
 * POST /v1/completions.
 */
#include <string.h>

#include "openai.h"
#include "state.h"

#define PREFIX "cmpl"
#define OBJECT "text_completion"

static void read_completion(struct ask *a, struct problem *p)
{
    struct fields f = {.object = a->body, .problem = p};
    int best_of = 0, n_top = -1;
    openai_common(a, &f);
    a->reasoning_in_text = true;
    a->raw = field_any(&f, "prompt");
    if (!a->raw) field_wrong(&f, "prompt", "missing");
    field_bool(&f, "echo", &a->echo);
    if (field_int(&f, "logprobs", 0, LUTRA_TOP_LOGPROBS, &n_top)) {
        a->log_probs = true;
        a->n_top = n_top;
    }
    if (field_text(&f, "suffix", &a->suffix) && *a->suffix) {
        a->prefix = json_string_value(a->raw);
        if (!a->prefix) field_wrong(&f, "suffix", "with a prompt that is not one text");
    } else {
        a->suffix = NULL;
    }
    if (field_int(&f, "best_of", 1, ASK_CHOICES_MAX, &best_of)) {
        if (best_of < a->n) field_wrong(&f, "best_of", "less than n");
        if (best_of > a->n && a->stream) field_wrong(&f, "best_of", "above n in a stream");
        a->set.n_samples = best_of;
    }
    a->scores_prompt = a->echo && a->log_probs;
}

/* A token as a JSON string; one that is part of a character as "bytes:\xe2\x82", OpenAI's way.  Its text's length. */
static size_t token_name(const struct reply *r, int32_t token, struct text *out)
{
    struct text t = {0};
    bool whole = true;
    token_text(r->model, token, &t);
    for (size_t at = 0, n_char; at < t.n && whole; at += n_char)
        whole = (n_char = text_utf8(t.bytes + at, t.n - at)) > 0;
    text_clear(out);
    if (whole)
        text_json(out, t.n ? t.bytes : "", t.n);
    else {
        text_put(out, "\"bytes:");
        for (size_t i = 0; i < t.n; i++) text_print(out, "\\\\x%02x", (unsigned char)t.bytes[i]);
        text_put(out, "\"");
    }
    size_t n = t.n;
    text_free(&t);
    return n;
}

/* "TOKEN":log-prob of those that were likely, and of the token itself where it is none of them. */
static void tell_likely(const struct reply *r, const struct scored *s, struct text *out)
{
    struct text name = {0};
    bool listed = false;
    for (int k = 0; k <= s->n_top; k++) {
        if (k == s->n_top && (listed || k == 0)) break;
        const struct lutra_token_prob own = {s->token, s->log_prob}, *t = k < s->n_top ? &s->top[k] : &own;
        listed = listed || t->token == s->token;
        token_name(r, t->token, &name);
        if (k > 0) text_put(out, ",");
        text_add(out, name.bytes, name.n);
        text_print(out, ":%.9g", (double)t->log_prob);
    }
    text_free(&name);
}

/* Tokens of the prompt that come with log-probs: the first choice of a prompt has them. */
static int n_echoed(const struct reply *r, const struct choice *c)
{
    int n = r->ask->set.n_samples;
    return r->ask->scores_prompt ? r->choice[(int)(c - r->choice) / n * n].n_asked + 1 : 0;
}

/* Token i of these and of what was said behind them; nothing is known of the prompt's first: its n_top is -1. */
static struct scored scored_at(const struct reply *r, const struct choice *c, int i)
{
    int n = r->ask->set.n_samples, k = (int)(c - r->choice) / n, n_prompt = n_echoed(r, c);
    if (i >= n_prompt) return c->scored[i - n_prompt];
    return i > 0 ? r->choice[k * n].asked[i - 1] : (struct scored){.token = r->ask->prompt[k].token[0], .n_top = -1};
}

/* Those from .. to - 1; where they go on behind the last that were told, the text before is not measured again. */
static void tell_log_probs(struct reply *r, struct choice *c, int from, int to)
{
    if (from < c->n_measured) c->n_measured = 0, c->n_bytes = 0;
    struct text tokens = {0}, values = {0}, tops = {0}, offsets = {0}, t = {0};
    for (int i = c->n_measured; i < to; i++) {
        const struct scored s = scored_at(r, c, i);
        const char *comma = i > from ? "," : "";
        size_t at = c->n_bytes;
        c->n_bytes += token_name(r, s.token, &t);
        c->n_measured++;
        if (i < from) continue;
        text_put(&tokens, comma);
        text_add(&tokens, t.bytes, t.n);
        text_print(&offsets, "%s%zu", comma, at);
        text_print(&values, s.n_top < 0 ? "%snull" : "%s%.9g", comma, (double)s.log_prob);
        text_print(&tops, s.n_top < 0 ? "%snull" : "%s{", comma);
        if (s.n_top < 0) continue;
        tell_likely(r, &s, &tops);
        text_put(&tops, "}");
    }
    text_print(r->out, "{\"tokens\":[%s],\"token_logprobs\":[%s],\"top_logprobs\":[%s],\"text_offset\":[%s]}",
        tokens.bytes ? tokens.bytes : "", values.bytes ? values.bytes : "", tops.bytes ? tops.bytes : "",
        offsets.bytes ? offsets.bytes : "");
    r->out->failed = r->out->failed || tokens.failed || values.failed || tops.failed || offsets.failed;
    text_free(&tokens);
    text_free(&values);
    text_free(&tops);
    text_free(&offsets);
    text_free(&t);
}

static void tell_choice(struct reply *r, int shown, struct choice *c, const char *text, size_t n, int from, int to)
{
    text_print(r->out, "{\"index\":%d,\"text\":", shown);
    text_json(r->out, text ? text : "", n);
    text_put(r->out, ",\"logprobs\":");
    if (r->ask->log_probs)
        tell_log_probs(r, c, from, to);
    else
        text_put(r->out, "null");
    text_put(r->out, ",");
}

static void tell_delta(struct reply *r, const struct delta *d)
{
    struct choice *c = &r->choice[d->choice];
    const struct prompt *p = &r->ask->prompt[d->choice / r->ask->set.n_samples];
    if (!c->begun && p->text) {
        openai_open(r, PREFIX, OBJECT);
        text_put(r->out, ",\"choices\":[");
        tell_choice(r, d->choice, c, p->text, strlen(p->text), 0, n_echoed(r, c));
        text_put(r->out, "\"finish_reason\":null}]}\n\n");
    }
    openai_open(r, PREFIX, OBJECT);
    text_put(r->out, ",\"choices\":[");
    tell_choice(r, d->choice, c, d->text, d->n, n_echoed(r, c) + c->n_told, n_echoed(r, c) + c->n_scored);
    if (d->kind == DELTA_END)
        openai_end_choice(r, c, end_word(&c->end), "]}\n\n");
    else
        text_put(r->out, "\"finish_reason\":null}]}\n\n");
}

static void finish(struct reply *r)
{
    openai_finish(r, PREFIX, OBJECT);
}

static double mean_log_prob(const struct choice *c)
{
    return c->end.n_tok > 0 ? c->end.sum_log_prob / c->end.n_tok : 0;
}

/* The best choice of a prompt that has not been shown yet: best_of's rule, the log-probability of each token. */
static int next_best(const struct reply *r, int prompt, const bool *shown)
{
    int n = r->ask->set.n_samples, best = -1;
    for (int i = prompt * n; i < (prompt + 1) * n; i++) {
        if (shown[i]) continue;
        if (best < 0 || mean_log_prob(&r->choice[i]) > mean_log_prob(&r->choice[best])) best = i;
    }
    return best;
}

static void tell_whole(struct reply *r)
{
    const struct ask *a = r->ask;
    bool shown[ASK_CHOICES_MAX] = {false};
    struct text text = {0};
    openai_open(r, PREFIX, OBJECT);
    text_put(r->out, ",\"choices\":[");
    for (int i = 0; i < a->n_prompt * a->n; i++) {
        int k = a->set.n_samples > a->n ? next_best(r, i / a->n, shown) : i;
        struct choice *c = &r->choice[k];
        const struct prompt *p = &a->prompt[i / a->n];
        shown[k] = true;
        text_clear(&text);
        if (p->text) text_put(&text, p->text);
        if (c->answer.n) text_add(&text, c->answer.bytes, c->answer.n);
        r->out->failed = r->out->failed || text.failed;
        if (i > 0) text_put(r->out, ",");
        tell_choice(r, i, c, text.bytes, text.n, 0, n_echoed(r, c) + c->n_scored);
        openai_end_choice(r, c, end_word(&c->end), "");
    }
    text_free(&text);
    text_put(r->out, "]");
    openai_usage(r);
    text_put(r->out, "}");
}

const struct dialect dialect_completions = {
    .name = "openai",
    .read = read_completion,
    .stream_type = "text/event-stream",
    .ping = ": waiting\n\n",
    .delta = tell_delta,
    .finish = finish,
    .whole = tell_whole,
    .refuse = openai_error,
    .broken = openai_broken,
};
