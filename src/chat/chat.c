/* SPDX-License-Identifier: MIT
 *
 * Chat templates: from a conversation to text and tokens.
 */
#include "engine/model.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chat/chat_forms.h"
#include "base/settings.h"
#include "text/encode.h"

void lutra_chat_init(struct lutra_chat *chat, size_t size)
{
    settings_fill(chat, size, &(struct lutra_chat){.size = sizeof *chat, .flags = LUTRA_CHAT_REPLY});
}

#define TEMPLATE_KEY "tokenizer.chat_template"

/* The names of a file's other templates, each with a space before it. */
static void list_templates(const struct weights *w, char *out, size_t n_out)
{
    size_t n = 0, n_key = strlen(TEMPLATE_KEY ".");
    out[0] = 0;
    for (size_t i = 0; i < weights_kv_count(w) && n < n_out; i++) {
        const char *key = weights_kv_at(w, i)->key;
        if (!strncmp(key, TEMPLATE_KEY ".", n_key)) n += (size_t)snprintf(out + n, n_out - n, " %s", key + n_key);
    }
}

int lutra_chat_template(const lutra_model *model, const char *name, char **text, struct lutra_error *err)
{
    TRY(handle_check(model, "model", err));
    char key[128], names[160];
    struct gguf_str s = {0};
    *text = NULL;
    snprintf(key, sizeof key, TEMPLATE_KEY "%s%s", name ? "." : "", name ? name : "");
    TRY(weights_opt_str(model->weights, key, &s, err));
    list_templates(model->weights, names, sizeof names);
    if (!s.s)
        return lutra_fail(err, LUTRA_E_NOT_FOUND, "%s has no chat template (key '%s') of its own; it has%s",
            weights_path(model->weights), key, *names ? names : " none by name");
    *text = strndup(s.s, s.n);
    return *text ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "chat template: out of memory");
}

/* One call's. */
struct rendering {
    const lutra_model *model;
    struct text_template *other; /* parsed for this call, or NULL */
    const struct text_template *chat;
    const struct text_tags *tags; /* of reasoning */
    const char *name;             /* of the template, for messages */
    json_t *own;                  /* what the program adds */
    const struct text_work *work;
};

static int ask_progress(void *user)
{
    const struct lutra_chat *chat = user;
    return chat->progress(chat->progress_user, "chat", 0, 0);
}

static int add_token_text(
    json_t *own, const json_t *given, const char *key, const struct text_vocab *vocab, enum text_special which)
{
    struct text_bytes t = text_token_piece(vocab, text_vocab_special(vocab, which), TEXT_PIECE_SPECIAL);
    const json_t *have = json_object_get(given, key);
    bool same = json_string_length(have) == t.n && t.n && !memcmp(json_string_value(have), t.p, t.n);
    if (have && !same) return 0;
    return json_object_set_new(own, key, json_stringn(t.p ? t.p : "", t.n)) < 0 ? LUTRA_E_NO_MEMORY : 0;
}

/* transformers always defines these. */
static int add_null(json_t *own, const json_t *given, const char *key)
{
    return json_object_get(given, key) ? 0 : json_object_set_new(own, key, json_null());
}

static int add_own(struct rendering *r, const json_t *given, struct lutra_error *err)
{
    r->own = json_object();
    bool failed = !r->own || add_token_text(r->own, given, "bos_token", r->model->vocab, TEXT_BOS) < 0 ||
                  add_token_text(r->own, given, "eos_token", r->model->vocab, TEXT_EOS) < 0 ||
                  add_null(r->own, given, "tools") < 0 || add_null(r->own, given, "documents") < 0;
    return failed ? lutra_fail(err, LUTRA_E_NO_MEMORY, "chat template: out of memory") : 0;
}

static int choose_template(struct rendering *r, const char *source, struct lutra_error *err)
{
    const lutra_model *m = r->model;
    if (!source && !m->chat_source)
        return lutra_fail(err, LUTRA_E_NOT_FOUND, "%s has no chat template (key 'tokenizer.chat_template')",
            weights_path(m->weights));
    if (source && !*source) return lutra_fail(err, LUTRA_E_ARGUMENT, "the chat template is empty");
    r->name = source ? "the chat template" : "the model's chat template";
    r->tags = source ? text_reasoning_tags(source) : m->tags;
    r->chat = m->chat;
    if (!source && m->chat) return 0;
    if (!source) source = m->chat_source; /* did not parse at load: say why again */
    TRY(text_template_parse(&r->other, source, strlen(source), err));
    r->chat = r->other;
    return 0;
}

static int render(void *user, const json_t *variables, struct text_template_text *out, struct lutra_error *err)
{
    const struct rendering *r = user;
    struct text_template_input input = {
        .variables = variables, .own = r->own, .now = (int64_t)time(NULL), .work = r->work};
    int rc = text_template_render(r->chat, &input, out, err);
    json_t *described = rc == LUTRA_E_FORMAT ? chat_describe_tools(variables) : NULL;
    if (!described) return rc;
    struct lutra_error why; /* nothing new: the first one counts */
    input.variables = described;
    if (text_template_render(r->chat, &input, out, &why) == 0) rc = 0;
    json_decref(described);
    return rc;
}

/* Reasoning that the template opens is closed again where none is wanted; a text of channels begins with its answer. */
static int close_reasoning(const struct text_tags *tags, struct text_template_text *out, struct lutra_error *err)
{
    static const char start[] = "<|start|>assistant";
    size_t n_start = sizeof start - 1;
    bool opened = text_reasoning_opened(tags, out->p, out->n);
    bool starts = tags && tags->answer && out->n >= n_start && !memcmp(out->p + out->n - n_start, start, n_start);
    if (!opened && !starts) return 0;
    const char *close = opened ? text_reasoning_end(tags) : tags->answer;
    size_t n = strlen(close);
    char *more = realloc(out->p, out->n + n + 1);
    if (more) out->p = more;
    uint8_t *input = realloc(out->input, out->n + n + 1);
    if (input) out->input = input;
    if (!more || !input) return lutra_fail(err, LUTRA_E_NO_MEMORY, "chat template: out of memory");
    memcpy(more + out->n, close, n + 1);
    memset(input + out->n, 0, n);
    out->n += n;
    return 0;
}

/* Says once for each model what had to be done. */
static void tell(const lutra_model *model, const struct chat_renderer *with)
{
    struct lutra_model *m = (struct lutra_model *)model; /* its flag only */
    if (with->merged_system && !atomic_exchange(&m->chat_told, true))
        log_line(&m->runtime->log, LUTRA_LOG_WARN, "%s takes no system message: it goes before the first user message",
            with->name);
}

static struct text_work work_of(struct lutra_chat *chat)
{
    struct text_work work = {.clock = clock_real(), .ask = chat->progress ? ask_progress : NULL, .user = chat};
    if (chat->timeout_us) work.end_us = clock_now_us(work.clock) + chat->timeout_us;
    return work;
}

static int render_chat(const lutra_model *model, const struct lutra_chat *chat, bool refuse,
    const struct text_work *work, struct text_template_text *out, struct lutra_error *err)
{
    struct rendering r = {.model = model, .work = work};
    json_t *variables = NULL;
    *out = (struct text_template_text){0};
    int rc = chat_variables(chat, &variables, err);
    if (rc == 0) rc = choose_template(&r, chat->chat_template, err);
    const char *source = chat->chat_template ? chat->chat_template : model->chat_source;
    if (rc == 0) chat_name_reasoning(variables, source);
    if (rc == 0) chat_name_tools(variables, source);
    if (rc == 0) rc = add_own(&r, variables, err);
    struct chat_renderer with = {.render = render, .user = &r, .name = r.name, .refuse = refuse};
    if (rc == 0) rc = chat_render_whole(&with, variables, out, err);
    if (rc == 0) tell(model, &with);
    if (rc == 0 && chat->flags & LUTRA_CHAT_NO_REASONING) rc = close_reasoning(r.tags, out, err);
    text_template_close(&r.other);
    json_decref(variables);
    json_decref(r.own);
    if (rc < 0) text_template_text_free(out);
    return rc;
}

/* The beginning token, where the model asks for it and the template has not written it. */
static int add_bos(const struct text_vocab *vocab, const struct text_template_text *text, struct text_tokens *list,
    struct lutra_error *err)
{
    struct text_bytes bos = text_token_piece(vocab, text_vocab_special(vocab, TEXT_BOS), TEXT_PIECE_SPECIAL);
    bool written =
        bos.n > 0 && text->n >= bos.n && memcmp(text->p, bos.p, bos.n) == 0 && !memchr(text->input, 1, bos.n);
    if (bos.n == 0 || written || !text_vocab_adds_bos(vocab)) return 0;
    return text_encode(vocab, bos.p, bos.n, TEXT_PARSE_SPECIAL, list, err);
}

int lutra_chat_tokenize(const lutra_model *model, const struct lutra_chat *chat, int32_t *tokens, int n_max, int *n_tok,
    struct lutra_error *err)
{
    TRY(handle_check(model, "model", err));
    struct text_template_text text = {0};
    struct text_tokens list = {0};
    struct lutra_chat set = {.size = sizeof set};
    TRY(settings_copy(&set, sizeof set, chat, "struct lutra_chat", err));
    struct text_work work = work_of(&set);
    int rc = render_chat(model, &set, true, &work, &text, err);
    if (rc == 0) rc = add_bos(model->vocab, &text, &list, err);
    if (rc == 0) {
        struct text_bytes whole = {text.p, text.n};
        rc = text_encode_marked(model->vocab, whole, text.input, TEXT_PARSE_SPECIAL, &work, &list, err);
    }
    text_template_text_free(&text);
    if (rc == 0) text_tokens_give(&list, tokens, n_max, n_tok);
    text_tokens_fini(&list);
    return rc;
}

int lutra_chat_render(
    const lutra_model *model, const struct lutra_chat *chat, char **text, size_t *n_bytes, struct lutra_error *err)
{
    TRY(handle_check(model, "model", err));
    struct text_template_text out;
    struct lutra_chat set = {.size = sizeof set};
    *text = NULL;
    TRY(settings_copy(&set, sizeof set, chat, "struct lutra_chat", err));
    struct text_work work = work_of(&set);
    TRY(render_chat(model, &set, false, &work, &out, err));
    free(out.input);
    *text = out.p;
    if (n_bytes) *n_bytes = out.n;
    return 0;
}
