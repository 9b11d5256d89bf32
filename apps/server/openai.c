/* SPDX-License-Identifier: MIT
 *
 * OpenAI's API: what its endpoints share, and the list of models.
 */
#include "openai.h"

#include <string.h>

#include "models.h"
#include "ollama.h"
#include "state.h"

void openai_error(const struct problem *p, struct text *out)
{
    text_put(out, "{\"error\":{\"message\":");
    text_json_string(out, p->what);
    text_print(out, ",\"type\":\"%s\",\"param\":", problem_type(p->status));
    if (p->param[0])
        text_json_string(out, p->param);
    else
        text_put(out, "null");
    text_put(out, ",\"code\":");
    if (p->code)
        text_json_string(out, p->code);
    else
        text_put(out, "null");
    if (p->n_ctx) text_print(out, ",\"n_prompt_tokens\":%d,\"n_ctx\":%d", p->n_prompt, p->n_ctx);
    text_put(out, "}}");
}

void openai_broken(const struct problem *p, struct text *out)
{
    text_put(out, "data: ");
    openai_error(p, out);
    text_put(out, "\n\n");
}

void openai_open(struct reply *r, const char *prefix, const char *object)
{
    if (r->ask->stream) text_put(r->out, "data: ");
    text_print(r->out, "{\"id\":\"%s-%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", prefix, r->id, object,
        (long long)r->created);
    text_json_string(r->out, r->model->set->name[0]);
    text_put(r->out, ",\"system_fingerprint\":\"lutra-");
    text_put(r->out, lutra_version());
    text_put(r->out, "\"");
}

void openai_usage(struct reply *r)
{
    struct usage u = reply_usage(r);
    text_print(r->out,
        ",\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
        "\"prompt_tokens_details\":{\"cached_tokens\":%lld,\"dropped_messages\":%d},\"completion_tokens_details\":{"
        "\"reasoning_tokens\":%lld}}",
        (long long)u.prompt, (long long)u.generated, (long long)(u.prompt + u.generated), (long long)u.cached,
        r->ask->n_dropped, (long long)u.thought);
    if (r->ask->timings) {
        text_put(r->out, ",\"timings\":");
        reply_timings(r, r->out);
    }
}

static void scored_token(struct reply *r, int32_t token, double log_prob)
{
    struct text t = {0};
    token_text(r->model, token, &t);
    text_put(r->out, "{\"token\":");
    text_json(r->out, t.bytes ? t.bytes : "", t.n);
    text_print(r->out, ",\"logprob\":%.9g,\"bytes\":[", log_prob);
    for (size_t i = 0; i < t.n; i++) text_print(r->out, i ? ",%d" : "%d", (unsigned char)t.bytes[i]);
    text_put(r->out, "]");
    text_free(&t);
}

void openai_end_choice(struct reply *r, const struct choice *c, const char *word, const char *behind)
{
    text_print(r->out, "\"finish_reason\":\"%s\",\"stop_reason\":", word);
    if (c->end.reason == LUTRA_STOP_TOKEN)
        text_print(r->out, "%d", (int)r->ask->stop_token[c->end.stop]);
    else
        reply_stop_json(r, c, "null", r->out);
    text_print(r->out, "}%s", behind);
}

void openai_log_probs(struct reply *r, const struct choice *c, int from)
{
    text_put(r->out, "{\"content\":[");
    for (int i = from; i < c->n_scored; i++) {
        const struct scored *s = &c->scored[i];
        if (i > from) text_put(r->out, ",");
        scored_token(r, s->token, (double)s->log_prob);
        text_put(r->out, ",\"top_logprobs\":[");
        for (int k = 0; k < s->n_top && k < r->ask->n_top; k++) {
            if (k > 0) text_put(r->out, ",");
            scored_token(r, s->top[k].token, (double)s->top[k].log_prob);
            text_put(r->out, "}");
        }
        text_put(r->out, "]}");
    }
    text_put(r->out, "],\"refusal\":null}");
}

void openai_finish(struct reply *r, const char *prefix, const char *object)
{
    if (r->ask->include_usage || r->ask->timings) {
        openai_open(r, prefix, object);
        text_put(r->out, ",\"choices\":[]");
        openai_usage(r);
        text_put(r->out, "}\n\n");
    }
    text_put(r->out, "data: [DONE]\n\n");
}

/* false, 0, "", [], {} */
static bool is_nothing(const json_t *value)
{
    if (json_is_number(value)) return json_number_value(value) == 0;
    if (json_is_string(value)) return json_string_length(value) == 0;
    return json_is_false(value) || (!json_is_true(value) && json_array_size(value) + json_object_size(value) == 0);
}

void openai_refuse(const struct fields *f, const char *const *name, int n)
{
    for (int i = 0; i < n; i++) {
        const json_t *value = field_any(f, name[i]);
        if (value && !is_nothing(value)) field_wrong(f, name[i], "not implemented");
    }
}

void openai_common(struct ask *a, const struct fields *f)
{
    struct fields options = {field_object(f, "stream_options"), "stream_options", f->problem};
    field_bool(f, "stream", &a->stream);
    field_bool(&options, "include_usage", &a->include_usage);
    if (field_int(f, "n", 1, ASK_CHOICES_MAX, &a->n)) a->set.n_samples = a->n;
    field_int(f, "max_tokens", -1, 1 << 30, &a->set.max_tokens);
    field_bool(f, "timings_per_token", &a->timings);
    field_bool(f, "return_progress", &a->progress); /* llama.cpp's */
    ask_sampling(a, f);
    ask_grammar(a, f);
}

void openai_read_converted(struct ask *a, json_t *body, struct problem *p)
{
    json_object_set_new(a->body, " converted", body);
    if (!p->status) openai_read_chat(a, body, p);
}

void openai_copy(const json_t *from, const char *name, json_t *to, const char *as)
{
    json_t *value = json_object_get(from, name);
    if (value && !json_is_null(value)) json_object_set(to, as, value);
}

void openai_models(struct exchange *x, struct text *out, struct problem *p)
{
    struct server *s = x->server;
    (void)p;
    text_put(out, "{\"object\":\"list\",\"data\":[");
    for (int i = 0, n = 0; i < s->set->n_model; i++) {
        struct served *m = &s->model[i];
        if (!permit_model(x->key, m)) continue;
        bool held = models_try(m);
        text_put(out, n++ ? ",{\"id\":" : "{\"id\":");
        text_json_string(out, m->set->name[0]);
        text_print(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"lutra\"", (long long)s->start_time);
        text_print(out, ",\"status\":{\"value\":\"%s\"}", held ? "loaded" : "unloaded");
        text_put(out, ",\"type\":\"model\",\"display_name\":"); /* as Anthropic's clients read it */
        text_json_string(out, m->set->name[0]);
        text_put(out, ",\"created_at\":");
        ollama_time(s->start_time, out);
        if (held)
            text_print(out,
                ",\"meta\":{\"n_vocab\":%d,\"n_ctx_train\":%d,\"n_embd\":%d,\"n_params\":%llu,\"size\":%llu,\"n_ctx\":%"
                "d}",
                m->info.n_vocab, m->info.n_ctx_train, m->info.d_model, (unsigned long long)m->info.n_param,
                (unsigned long long)m->info.file_bytes, m->n_ctx);
        if (held) models_release(m, false);
        text_put(out, "}");
    }
    text_put(out, "],\"has_more\":false}");
}

void openai_model(struct exchange *x, struct text *out, struct problem *p)
{
    const char *name = x->path + strlen(x->route->path);
    for (int i = 0; i < x->server->set->n_model; i++) {
        const struct served *m = &x->server->model[i];
        for (int k = 0; k < m->set->n_name; k++) {
            if (strcmp(m->set->name[k], name) != 0 || !permit_model(x->key, m)) continue;
            text_put(out, "{\"id\":");
            text_json_string(out, name);
            text_print(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"lutra\"}",
                (long long)x->server->start_time);
            return;
        }
    }
    problem_set(p, 404, "model_not_found", "model", "there is no model '%.200s'", name);
}
