/* SPDX-License-Identifier: MIT
 *
 * llama.cpp's own endpoints: POST /completion and /infill, and the questions about tokens and templates.
 */
#include "llama.h"

#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "openai.h"
#include "state.h"

void llama_error(const struct problem *p, struct text *out)
{
    bool full = p->n_ctx > 0;
    text_print(out, "{\"error\":{\"code\":%d,\"message\":", p->status);
    text_json_string(out, p->what);
    text_print(out, ",\"type\":\"%s\"", full ? "exceed_context_size_error" : problem_type(p->status));
    if (full) text_print(out, ",\"n_prompt_tokens\":%d,\"n_ctx\":%d", p->n_prompt, p->n_ctx);
    text_put(out, "}}");
}

static void broken(const struct problem *p, struct text *out)
{
    text_put(out, "data: ");
    llama_error(p, out);
    text_put(out, "\n\n");
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

static void read_common(struct ask *a, const struct fields *f)
{
    static const char *const refused[] = {"lora", "post_sampling_probs", "n_indent", "grammar_lazy", "multimodal_data"};
    int ms = 0, n_probs = 0, least = 0;
    openai_refuse(f, refused, sizeof refused / sizeof *refused);
    if (field_int(f, "min_keep", 0, 1 << 24, &least) && least > 1) field_wrong(f, "min_keep", "not implemented");
    if (field_int(f, "n_cmpl", 1, ASK_CHOICES_MAX, &a->n)) a->set.n_samples = a->n;
    a->reasoning_in_text = true;
    field_bool(f, "stream", &a->stream);
    field_bool(f, "return_tokens", &a->tokens);
    field_bool(f, "timings_per_token", &a->timings);
    field_bool(f, "return_progress", &a->progress);
    field_int(f, "max_tokens", -1, 1 << 30, &a->set.max_tokens);
    field_int(f, "n_predict", -1, 1 << 30, &a->set.max_tokens);
    if (field_int(f, "t_max_predict_ms", 0, 1 << 30, &ms)) a->set.timeout_us = (uint64_t)ms * 1000;
    if (field_int(f, "n_probs", 0, LUTRA_TOP_LOGPROBS, &n_probs)) a->n_top = n_probs;
    a->shows_log_probs = n_probs > 0;
    a->log_probs = a->shows_log_probs || a->tokens;
    ask_sampling(a, f);
    ask_grammar(a, f);
}

static void read_completion(struct ask *a, struct problem *p)
{
    struct fields f = {.object = a->body, .problem = p};
    read_common(a, &f);
    a->raw = field_any(&f, "prompt");
    if (!a->raw) field_wrong(&f, "prompt", "missing");
    if (field_any(&f, "image_data")) field_wrong(&f, "image_data", "images are not read");
}

/* Files around the hole come first, then the text behind and before it; `prompt` goes on with the prefix. */
static void read_infill(struct ask *a, struct problem *p)
{
    struct fields f = {.object = a->body, .problem = p};
    const char *prefix = "", *suffix = "", *prompt = "";
    struct text before = {0};
    size_t i;
    json_t *extra;
    read_common(a, &f);
    if (!field_text(&f, "input_prefix", &prefix)) field_wrong(&f, "input_prefix", "missing");
    if (!field_text(&f, "input_suffix", &suffix)) field_wrong(&f, "input_suffix", "missing");
    field_text(&f, "prompt", &prompt);
    json_array_foreach(field_array(&f, "input_extra"), i, extra)
    {
        const char *name = json_string_value(json_object_get(extra, "filename"));
        const char *text = json_string_value(json_object_get(extra, "text"));
        if (!text) field_wrong(&f, "input_extra", "item %zu has no text", i);
        if (!text) break;
        text_print(&before, "# %s\n%s\n", name ? name : "file", text);
    }
    text_put(&before, prefix);
    text_put(&before, prompt);
    json_object_set_new(a->body, " prefix", json_stringn(before.bytes ? before.bytes : "", before.n));
    text_free(&before);
    a->prefix = json_string_value(json_object_get(a->body, " prefix"));
    a->suffix = suffix;
    if (!a->prefix && !p->status) field_wrong(&f, "input_prefix", "not a text");
}

/* ---- replies ---------------------------------------------------------------------------------------------------- */

static void tell_token(struct reply *r, int32_t token, double log_prob)
{
    struct text t = {0};
    token_text(r->model, token, &t);
    text_print(r->out, "{\"id\":%d,\"token\":", (int)token);
    text_json(r->out, t.bytes ? t.bytes : "", t.n);
    text_put(r->out, ",\"bytes\":[");
    for (size_t i = 0; i < t.n; i++) text_print(r->out, i ? ",%d" : "%d", (unsigned char)t.bytes[i]);
    text_print(r->out, "],\"logprob\":%.9g", log_prob);
    text_free(&t);
}

static void tell_scored(struct reply *r, const struct choice *c, int from)
{
    if (r->ask->tokens) {
        text_put(r->out, ",\"tokens\":[");
        for (int i = from; i < c->n_scored; i++) text_print(r->out, i > from ? ",%d" : "%d", (int)c->scored[i].token);
        text_put(r->out, "]");
    }
    if (!r->ask->shows_log_probs || c->n_scored == from) return;
    text_put(r->out, ",\"completion_probabilities\":[");
    for (int i = from; i < c->n_scored; i++) {
        const struct scored *s = &c->scored[i];
        if (i > from) text_put(r->out, ",");
        tell_token(r, s->token, (double)s->log_prob);
        text_put(r->out, ",\"top_logprobs\":[");
        for (int k = 0; k < s->n_top && k < r->ask->n_top; k++) {
            if (k > 0) text_put(r->out, ",");
            tell_token(r, s->top[k].token, (double)s->top[k].log_prob);
            text_put(r->out, "}");
        }
        text_put(r->out, "]}");
    }
    text_put(r->out, "]");
}

static const char *stop_type(const struct lutra_end *end)
{
    switch (end->reason) {
    case LUTRA_STOP_END: return "eos";
    case LUTRA_STOP_TOKEN:
    case LUTRA_STOP_STRING: return "word";
    case LUTRA_STOP_LENGTH:
    case LUTRA_STOP_CTX_FULL:
    case LUTRA_STOP_DEADLINE: return "limit";
    default: return "none";
    }
}

static void tell_end(struct reply *r, int choice)
{
    const struct choice *c = &r->choice[choice];
    const struct lutra_end *e = &c->end;
    text_print(r->out, ",\"stop\":true,\"id_slot\":0,\"model\":");
    text_json_string(r->out, r->model->set->name[0]);
    text_print(r->out,
        ",\"tokens_predicted\":%d,\"tokens_evaluated\":%d,\"tokens_cached\":%d,\"truncated\":false,\"has_new_line\":%s,"
        "\"stop_type\":\"%s\",\"stopping_word\":",
        e->n_tok, e->n_prompt, e->n_cached,
        c->answer.n && memchr(c->answer.bytes, '\n', c->answer.n) ? "true" : "false", stop_type(e));
    reply_stop_json(r, c, "\"\"", r->out);
    text_put(r->out, ",\"timings\":");
    reply_timings(r, r->out);
}

static void tell_delta(struct reply *r, const struct delta *d)
{
    const struct choice *c = &r->choice[d->choice];
    text_print(r->out, "data: {\"index\":%d,\"content\":", d->choice);
    text_json(r->out, d->text, d->n);
    tell_scored(r, c, c->n_told);
    if (d->kind == DELTA_END)
        tell_end(r, d->choice);
    else
        text_print(r->out, ",\"stop\":false,\"id_slot\":0,\"tokens_evaluated\":%d",
            r->ask->prompt[d->choice / r->ask->set.n_samples].n_token);
    text_put(r->out, "}\n\n");
}

static void tell_progress(struct reply *r, int choice, const struct progress *p)
{
    text_print(r->out,
        "data: {\"index\":%d,\"content\":\"\",\"tokens\":[],\"stop\":false,\"id_slot\":0,\"tokens_predicted\":0,"
        "\"tokens_evaluated\":%d,\"prompt_progress\":",
        choice, p->n_prompt);
    reply_progress(p, r->out);
    text_put(r->out, "}\n\n");
}

static void finish(struct reply *r)
{
    (void)r; /* the last event says stop */
}

static void tell_whole(struct reply *r)
{
    bool several = r->n_choice > 1;
    if (several) text_put(r->out, "[");
    for (int i = 0; i < r->n_choice; i++) {
        const struct choice *c = &r->choice[i];
        text_print(r->out, "%s{\"index\":%d,\"content\":", i ? "," : "", i);
        text_json(r->out, c->answer.bytes ? c->answer.bytes : "", c->answer.n);
        tell_scored(r, c, 0);
        tell_end(r, i);
        text_put(r->out, "}");
    }
    if (several) text_put(r->out, "]");
}

const struct dialect dialect_llama = {
    .name = "llama.cpp",
    .read = read_completion,
    .stream_type = "text/event-stream",
    .ping = ": waiting\n\n",
    .delta = tell_delta,
    .progress = tell_progress,
    .finish = finish,
    .whole = tell_whole,
    .refuse = llama_error,
    .broken = broken,
};

const struct dialect dialect_infill = {
    .name = "llama.cpp",
    .read = read_infill,
    .stream_type = "text/event-stream",
    .ping = ": waiting\n\n",
    .delta = tell_delta,
    .progress = tell_progress,
    .finish = finish,
    .whole = tell_whole,
    .refuse = llama_error,
    .broken = broken,
};

/* ---- models ------------------------------------------------------------------------------------------------------ */

void llama_load(struct exchange *x, struct text *out, struct problem *p)
{
    if (!front_read(x, p)) return;
    models_keep_usual(x->model);
    text_put(out, "{\"success\":true}");
}

void llama_unload(struct exchange *x, struct text *out, struct problem *p)
{
    json_t *body = json_read(x->body.bytes, x->body.n, p);
    struct fields f = {.object = body, .problem = p};
    const char *name = NULL;
    if (body && !field_text(&f, "model", &name)) field_wrong(&f, "model", "missing");
    struct served *m = p->status ? NULL : models_find(x->server, x->key, name, p);
    if (m) models_unload(m, p);
    if (!p->status) text_put(out, "{\"success\":true}");
    json_decref(body);
}

/* ---- tokens and templates --------------------------------------------------------------------------------------- */

void llama_tokenize(struct exchange *x, struct text *out, struct problem *p)
{
    if (!front_read(x, p)) return;
    struct fields f = {.object = x->ask.body, .problem = p};
    bool special = false, parse = true, pieces = false;
    struct lutra_error err = {0};
    const json_t *content = field_any(&f, "content");
    field_bool(&f, "add_special", &special);
    field_bool(&f, "parse_special", &parse);
    field_bool(&f, "with_pieces", &pieces);
    if (!json_is_string(content)) field_wrong(&f, "content", "not a string");
    if (p->status) return;
    int flags = (special ? LUTRA_ADD_SPECIAL : 0) | (parse ? LUTRA_PARSE_SPECIAL : 0), n = 0;
    int room = (int)json_string_length(content) + 16; /* no vocabulary makes more tokens than bytes, and a few around */
    int32_t *id = calloc((size_t)room, sizeof *id);
    int rc = id ? lutra_tokenize(x->model->loaded.model, json_string_value(content), json_string_length(content), flags,
                      id, room, &n, &err)
                : LUTRA_E_NO_MEMORY;
    err.code = rc;
    if (rc < 0 || n > room) problem_from(p, "content", &err);
    text_put(out, "{\"tokens\":[");
    for (int i = 0; i < n && !p->status; i++) {
        struct text piece = {0};
        if (i > 0) text_put(out, ",");
        if (!pieces) text_print(out, "%d", (int)id[i]);
        if (!pieces) continue;
        token_text(x->model, id[i], &piece);
        text_print(out, "{\"id\":%d,\"piece\":", (int)id[i]);
        bool whole = true; /* characters; else its bytes are listed */
        for (size_t at = 0, n_char; at < piece.n && whole; at += n_char)
            whole = (n_char = text_utf8(piece.bytes + at, piece.n - at)) > 0;
        if (whole) text_json(out, piece.n ? piece.bytes : "", piece.n);
        for (size_t at = 0; at < piece.n && !whole; at++)
            text_print(out, "%c%d", at ? ',' : '[', (unsigned char)piece.bytes[at]);
        text_put(out, whole ? "}" : "]}");
        text_free(&piece);
    }
    text_put(out, "]}");
    free(id);
}

void llama_detokenize(struct exchange *x, struct text *out, struct problem *p)
{
    if (!front_read(x, p)) return;
    struct fields f = {.object = x->ask.body, .problem = p};
    struct lutra_error err = {0};
    const json_t *tokens = field_array(&f, "tokens"), *value;
    size_t i, n = json_array_size(tokens), n_bytes = 0;
    char *text = NULL;
    int32_t *id = calloc(n + 1, sizeof *id);
    if (!id) problem_set(p, 503, "out_of_memory", NULL, "out of memory");
    if (!tokens) field_wrong(&f, "tokens", "missing");
    json_array_foreach((json_t *)tokens, i, value)
    {
        json_int_t token = json_integer_value(value);
        if (!json_is_integer(value) || token < 0 || token >= x->model->info.n_vocab)
            field_wrong(&f, "tokens", "item %zu is not a token id from 0 to %d", i, x->model->info.n_vocab - 1);
        if (p->status) break;
        id[i] = (int32_t)token;
    }
    if (!p->status && lutra_detokenize(x->model->loaded.model, id, (int)n, true, &text, &n_bytes, &err) < 0)
        problem_from(p, "tokens", &err);
    text_put(out, "{\"content\":");
    text_json(out, text ? text : "", n_bytes);
    text_put(out, "}");
    lutra_free(text);
    free(id);
}

void llama_template(struct exchange *x, struct text *out, struct problem *p)
{
    struct lutra_error err = {0};
    struct lutra_chat chat;
    struct text json = {0};
    char *text = NULL;
    size_t n = 0;
    if (!front_read(x, p)) return;
    dialect_chat.read(&x->ask, p);
    if (p->status) return;
    lutra_chat_init(&chat, sizeof chat);
    text_value(&json, x->ask.chat);
    chat.json = json.bytes;
    chat.n_json = json.n;
    chat.chat_template = x->server->set->chat_template;
    chat.flags |= x->ask.no_reasoning ? LUTRA_CHAT_NO_REASONING : x->ask.chat_flags;
    chat.variables = x->ask.chat_variables;
    if (json.failed || lutra_chat_render(x->model->loaded.model, &chat, &text, &n, &err) < 0)
        problem_from(p, "messages", &err);
    text_put(out, "{\"prompt\":");
    text_json(out, text ? text : "", n);
    text_put(out, "}");
    lutra_free(text);
    text_free(&json);
}

/* ---- what there is ---------------------------------------------------------------------------------------------- */

static void put_token(const struct served *m, const char *name, int32_t token, struct text *out)
{
    struct text t = {0};
    if (token >= 0) token_text(m, token, &t);
    text_print(out, ",\"%s\":", name);
    text_json(out, t.bytes ? t.bytes : "", t.n);
    text_free(&t);
}

static void put_settings(const struct served *m, struct text *out)
{
    const struct lutra_sampling *s = &m->loaded.sampling;
    text_print(out,
        "{\"n_ctx\":%d,\"params\":{\"n_predict\":%d,\"temperature\":%g,\"top_k\":%d,\"top_p\":%g,\"min_p\":%g,"
        "\"typical_p\":%g,\"repeat_last_n\":%d,\"repeat_penalty\":%g,\"presence_penalty\":%g,\"frequency_penalty\":%g}"
        "}",
        m->n_ctx, m->server->set->max_tokens, (double)s->temperature, s->top_k, (double)s->top_p, (double)s->min_p,
        (double)s->typical_p, s->penalty_last_n, (double)s->repeat_penalty, (double)s->presence_penalty,
        (double)s->frequency_penalty);
}

void llama_props(struct exchange *x, struct text *out, struct problem *p)
{
    struct served *first = &x->server->model[0];
    const struct served closed = {.server = x->server, .set = first->set, .info = {.bos = -1, .eos = -1}}, *m = &closed;
    if (models_try(first)) m = first;
    const char *own = x->server->set->chat_template;
    (void)p;
    text_put(out, "{\"default_generation_settings\":");
    put_settings(m, out);
    text_print(out, ",\"total_slots\":%d,\"model_alias\":", m->loaded.n_seq);
    text_json_string(out, m->set->name[0]);
    text_put(out, ",\"model_path\":");
    text_json_string(out, m->set->path);
    text_put(out, ",\"modalities\":{\"vision\":false,\"audio\":false},\"chat_template\":");
    text_json_string(out, own ? own : m->info.chat_template ? m->info.chat_template : "");
    put_token(m, "bos_token", m->info.bos, out);
    put_token(m, "eos_token", m->info.eos, out);
    text_print(out, ",\"build_info\":\"lutra %s\"}", lutra_version());
    if (m == first) models_release(first, false);
}

/* Rows are not bound to slots: the first so many are shown as busy. */
void llama_slots(struct exchange *x, struct text *out, struct problem *p)
{
    struct served *m = &x->server->model[0];
    int n_busy = atomic_load(&x->server->n_sample);
    bool held = models_try(m);
    (void)p;
    text_put(out, "[");
    for (int i = 0; held && i < m->loaded.n_seq; i++)
        text_print(out, "%s{\"id\":%d,\"n_ctx\":%d,\"is_processing\":%s}", i ? "," : "", i, m->n_ctx,
            i < n_busy ? "true" : "false");
    if (held) models_release(m, false);
    text_put(out, "]");
}
