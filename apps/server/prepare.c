/* SPDX-License-Identifier: MIT
 *
 * From what is asked to tokens.
 */
#include <stdlib.h>
#include <string.h>

#include "rerank.h"
#include "state.h"

enum { RENDER_MOST_US = 10000000 };

struct tokens {
    int32_t *id;
    int n, room;
};

static bool grow(struct tokens *t, int n, struct problem *p)
{
    if (n <= t->room && t->id) return true;
    int room = n + 256;
    int32_t *id = realloc(t->id, (size_t)room * sizeof *id);
    if (!id) {
        problem_set(p, 503, "out_of_memory", NULL, "out of memory");
        return false;
    }
    t->id = id;
    t->room = room;
    return true;
}

/* Appends a text's tokens. */
static void add_text(
    struct tokens *t, const struct served *m, const char *text, size_t n_bytes, int flags, struct problem *p)
{
    struct lutra_error err = {0};
    int n = 0;
    if (!grow(t, t->n + (int)(n_bytes / 2), p)) return;
    int rc = lutra_tokenize(m->loaded.model, text, n_bytes, flags, t->id + t->n, t->room - t->n, &n, &err);
    if (rc == 0 && n > t->room - t->n) {
        if (!grow(t, t->n + n, p)) return;
        rc = lutra_tokenize(m->loaded.model, text, n_bytes, flags, t->id + t->n, t->room - t->n, &n, &err);
    }
    if (rc < 0)
        problem_from(p, NULL, &err);
    else
        t->n += n;
}

/* A template's input; json: to be freed when it was used. */
static struct lutra_chat chat_of(const struct ask *a, const char *own, struct text *json, struct problem *p)
{
    struct lutra_chat chat;
    lutra_chat_init(&chat, sizeof chat);
    text_value(json, a->chat);
    if (json->failed) problem_set(p, 503, "out_of_memory", NULL, "out of memory");
    chat.json = json->bytes;
    chat.n_json = json->n;
    chat.chat_template = own;
    chat.timeout_us = RENDER_MOST_US;
    /* A text of channels calls on one of its own, so it must not begin with its answer. */
    bool closes = a->no_reasoning && !(a->tools && a->calls == CALLS_HARMONY);
    chat.flags |= closes ? LUTRA_CHAT_NO_REASONING : a->chat_flags;
    chat.variables = a->chat_variables;
    return chat;
}

static void render(struct tokens *t, const struct ask *a, const struct served *m, const char *own, struct problem *p)
{
    struct lutra_error err = {0};
    struct text json = {0};
    struct lutra_chat chat = chat_of(a, own, &json, p);
    int rc = 0, n = 0;
    for (int room = -1; rc == 0 && !p->status && n > room; room = t->room)
        if (grow(t, n, p)) rc = lutra_chat_tokenize(m->loaded.model, &chat, t->id, t->room, &n, &err);
    err.code = rc;
    if (rc < 0) problem_from(p, "messages", &err);
    t->n = n;
    text_free(&json);
    if (!p->status && a->go_on) add_text(t, m, a->go_on, strlen(a->go_on), 0, p);
}

void ask_roll(struct ask *a, const struct served *m, const char *chat_template, double share, struct problem *p)
{
    int reserve = m->n_ctx / 4, first = 0, n = 0;
    struct lutra_error err = {0};
    struct text json = {0};
    if (!a->rolls || !a->chat) return;
    if (a->set.max_tokens >= 0 && a->set.max_tokens < reserve) reserve = a->set.max_tokens;
    struct lutra_chat chat = chat_of(a, chat_template, &json, p);
    int rc = p->status
                 ? 0
                 : lutra_chat_roll(m->loaded.model, &chat, (int)(share * (m->n_ctx - 1 - reserve)), &first, &n, &err);
    if (rc < 0) problem_from(p, "messages", &err);
    for (int i = 0; i < n; i++) json_array_remove(json_object_get(a->chat, "messages"), (size_t)first);
    a->n_dropped += n;
    text_free(&json);
}

int ask_measure(const struct ask *a, const struct served *m, const char *chat_template, struct problem *p)
{
    struct tokens t = {0};
    render(&t, a, m, chat_template, p);
    free(t.id);
    return t.n;
}

/* A prompt of texts and token ids. */
static void add_mixed(
    struct tokens *t, const struct ask *a, const json_t *value, const struct served *m, struct problem *p)
{
    bool embeds = a->embeds; /* texts that are no prompts: nothing in them is a control token */
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < n && !p->status; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        if (json_is_string(item)) {
            int flags = (embeds ? 0 : LUTRA_PARSE_SPECIAL) | (i == 0 ? LUTRA_ADD_SPECIAL : 0);
            add_text(t, m, json_string_value(item), json_string_length(item), flags, p);
        } else if (json_is_integer(item) && json_integer_value(item) >= 0 &&
                   json_integer_value(item) < m->info.n_vocab) {
            if (grow(t, t->n + 1, p)) t->id[t->n++] = (int32_t)json_integer_value(item);
        } else {
            problem_set(p, 400, "invalid_value", a->raw_name,
                "%s: item %zu is neither a text nor a token id from 0 to %d", a->raw_name, i, m->info.n_vocab - 1);
        }
    }
}

/* The query with a document. */
static void add_pair(struct tokens *t, const struct ask *a, const json_t *document, const struct served *m,
    int *n_first, struct problem *p)
{
    struct lutra_error err = {0};
    const char *text = rerank_document(document);
    int n = 0, rc = 0;
    if (!text) {
        problem_set(
            p, 400, "invalid_value", a->raw_name, "%s: an item is neither a text nor has a member 'text'", a->raw_name);
        return;
    }
    for (int room = -1; rc == 0 && !p->status && n > room; room = t->room)
        if (grow(t, n, p))
            rc = lutra_rerank_tokenize(m->loaded.model, a->query, text, t->id, t->room, &n, n_first, &err);
    if (rc < 0) problem_from(p, rc == LUTRA_E_UNSUPPORTED ? "model" : a->raw_name, &err);
    t->n = n;
}

/* The marks of a hole, as vocabularies have them. */
static bool fim_marks(const struct served *m, int32_t mark[3])
{
    static const char *const known[][3] = {
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
        {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
        {"<PRE>", "<SUF>", "<MID>"},
        {"▁<PRE>", "▁<SUF>", "▁<MID>"},
        {"<|fim▁begin|>", "<|fim▁hole|>", "<|fim▁end|>"},
        {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        int found = 0;
        for (int i = 0; i < 3; i++) {
            int n = 0;
            int32_t id[2];
            int rc =
                lutra_tokenize(m->loaded.model, known[k][i], strlen(known[k][i]), LUTRA_PARSE_SPECIAL, id, 2, &n, NULL);
            mark[i] = id[0];
            found += rc == 0 && n == 1;
        }
        if (found == 3) return true;
    }
    return false;
}

static void fill_hole(struct tokens *t, const struct ask *a, const struct served *m, struct problem *p)
{
    int32_t mark[3];
    if (!fim_marks(m, mark)) {
        problem_set(p, 400, "unsupported_value", "suffix",
            "suffix: the vocabulary of %s has no marks of a hole to fill", m->set->name[0]);
        return;
    }
    if (m->info.add_bos && m->info.bos >= 0 && grow(t, t->n + 1, p)) t->id[t->n++] = m->info.bos;
    const char *part[2] = {a->prefix, a->suffix};
    for (int i = 0; i < 2 && !p->status; i++) {
        if (grow(t, t->n + 1, p)) t->id[t->n++] = mark[i];
        if (!p->status) add_text(t, m, part[i], strlen(part[i]), 0, p);
    }
    if (grow(t, t->n + 1, p)) t->id[t->n++] = mark[2];
}

/* Makes a prompt of the tokens, which it takes over. */
static void keep(struct ask *a, const struct served *m, struct tokens *t, struct problem *p)
{
    struct prompt *to = &a->prompt[a->n_prompt++];
    to->token = t->id;
    to->n_token = t->n;
    to->first = (a->n_prompt - 1) * a->set.n_samples;
    if (p->status) return;
    if (t->n == 0)
        problem_set(
            p, 400, "invalid_value", a->raw_name, a->embeds ? "%s: an empty text" : "the %s is empty", a->raw_name);
    if (a->cuts && t->n > m->n_ctx) { /* a mark of the end that the model asks for stays */
        if (lutra_token_is_end(m->loaded.model, t->id[t->n - 1])) t->id[m->n_ctx - 1] = t->id[t->n - 1];
        to->n_token = t->n = m->n_ctx;
    }
    if (a->embeds && t->n > m->n_ctx) {
        problem_set(p, 400, "context_length_exceeded", a->raw_name,
            "%s: text %d has %d tokens, which do not fit the context of %d tokens", a->raw_name, a->n_prompt - 1, t->n,
            m->n_ctx);
        p->n_prompt = t->n;
        p->n_ctx = m->n_ctx;
    } else if (!a->embeds && t->n >= m->n_ctx) {
        problem_set(p, 400, "context_length_exceeded", a->chat ? "messages" : "prompt",
            "the prompt has %d tokens, and with a reply they do not fit the context of %d tokens", t->n, m->n_ctx);
        p->n_prompt = t->n;
        p->n_ctx = m->n_ctx;
    }
    struct lutra_error err = {0};
    if (a->echo && !p->status && lutra_detokenize(m->loaded.model, t->id, t->n, false, &to->text, NULL, &err) < 0)
        problem_from(p, NULL, &err);
}

/* Several prompts: a list of nothing but texts, or of lists. */
static bool is_several(const json_t *raw)
{
    size_t i, n_text = 0, n_list = 0;
    const json_t *item;
    json_array_foreach((json_t *)raw, i, item)
    {
        n_text += json_is_string(item);
        n_list += json_is_array(item);
    }
    return n_list > 0 || (n_text > 0 && n_text == json_array_size(raw));
}

/* Which calls may come, by the template, and what holds their arguments. */
static void find_calls(struct ask *a, const struct served *m, const char *own, struct problem *p)
{
    const char *template = own ? own : m->info.chat_template;
    enum call_style style = calls_style(template);
    if (a->tools && style == CALLS_NONE)
        problem_set(
            p, 400, "unsupported_value", "tools", "tools: the chat template of %s has no tools", m->set->name[0]);
    a->calls = a->tools || style == CALLS_HARMONY ? style : CALLS_NONE;
    if (calls_need_special(a->calls)) a->set.show_special = true;
    if (a->tools && !p->status) ask_structure(a, style, template, p);
}

/* For tests: what LUTRA_TEST_REPLY says is the reply, so that calls come that no small model writes. */
static void force_reply(struct ask *a, const struct served *m, struct problem *p)
{
    const char *reply = getenv("LUTRA_TEST_REPLY");
    struct tokens t = {0};
    if (!reply || !a->chat || a->must_call) return;
    add_text(&t, m, reply, strlen(reply), 0, p);
    if (!p->status && grow(&t, t.n + 1, p)) t.id[t.n++] = m->info.eos;
    a->said = t.id;
    a->set.structure = NULL;
    lutra_request_experiment_init(&a->experiment, sizeof a->experiment);
    a->experiment.forced = t.id;
    a->experiment.n_forced = t.n;
    a->set.experiment = &a->experiment;
}

/* Token ids that the vocabulary must have. */
static void check_tokens(const struct ask *a, const struct served *m, struct problem *p)
{
    int n_vocab = m->info.n_vocab;
    for (int i = 0; i < a->set.n_stop_tokens; i++)
        if (a->stop_token[i] >= n_vocab)
            problem_set(p, 400, "invalid_value", "stop_token_ids", "stop_token_ids: there is no token %d, only 0 to %d",
                (int)a->stop_token[i], n_vocab - 1);
    for (int i = 0; a->bias && i < a->sampling.n_bias; i++)
        if (a->bias[i].token >= n_vocab)
            problem_set(p, 400, "invalid_value", "logit_bias", "logit_bias: there is no token %d, only 0 to %d",
                (int)a->bias[i].token, n_vocab - 1);
}

void ask_prepare(struct ask *a, const struct served *m, const char *own_template, struct problem *p)
{
    bool several = a->ranks || (!a->chat && is_several(a->raw));
    size_t n = several ? json_array_size(a->raw) : 1;
    if (a->embeds && n > ASK_TEXTS_MAX)
        problem_set(p, 400, "invalid_value", a->raw_name, "%s: more than %d texts", a->raw_name, ASK_TEXTS_MAX);
    if (!a->embeds && (n > ASK_PROMPTS_MAX || n * (size_t)a->set.n_samples > ASK_CHOICES_MAX))
        problem_set(p, 400, "invalid_value", "prompt", "prompt: more than %d prompts, or more than %d choices of all",
            ASK_PROMPTS_MAX, ASK_CHOICES_MAX);
    if (m->info.encoder && !a->embeds)
        problem_set(p, 400, "unsupported_value", "model",
            "%s is an encoder (%s): it makes vectors of texts%s and writes none", m->set->name[0], m->info.arch,
            m->info.ranks ? " or ranks documents" : "");
    if (a->dimensions && a->dimensions != m->info.d_model)
        problem_set(p, 400, "unsupported_value", "dimensions", "dimensions: vectors of %s have %d", m->set->name[0],
            m->info.d_model);
    if (p->status) return;
    check_tokens(a, m, p);
    if (a->chat) find_calls(a, m, own_template, p);
    if (!p->status) ask_roll(a, m, own_template, 1.0, p);
    a->prompt = calloc(n, sizeof *a->prompt);
    if (!a->prompt) problem_set(p, 503, "out_of_memory", NULL, "out of memory");
    for (size_t i = 0; i < n && !p->status; i++) {
        struct tokens t = {0};
        int n_first = 0;
        if (a->ranks)
            add_pair(&t, a, json_array_get(a->raw, i), m, &n_first, p);
        else if (a->chat)
            render(&t, a, m, own_template, p);
        else if (a->suffix)
            fill_hole(&t, a, m, p);
        else
            add_mixed(&t, a, several ? json_array_get(a->raw, i) : a->raw, m, p);
        a->prompt[i].n_first = n_first;
        keep(a, m, &t, p);
    }
    if (a->embeds && !p->status) {
        a->vector = calloc(n, (a->ranks ? 1 : (size_t)m->info.d_model) * sizeof *a->vector);
        if (!a->vector) problem_set(p, 503, "out_of_memory", NULL, "out of memory");
    }
    if (!p->status) force_reply(a, m, p);
    a->set.chat_template = a->chat ? own_template : NULL;
}
