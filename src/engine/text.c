/* SPDX-License-Identifier: MIT
 *
 * The public text functions: tokens and chat templates.
 */
#include "engine/engine_impl.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text/encode.h"

int lutra_tokenize(const lutra_model *model, const char *text, size_t n_bytes, int flags, int32_t *tokens, int n_max,
    int *n_tok, struct lutra_error *err)
{
    struct text_tokens list = {0};
    unsigned how =
        (flags & LUTRA_ADD_SPECIAL ? TEXT_ADD_SPECIAL : 0) | (flags & LUTRA_PARSE_SPECIAL ? TEXT_PARSE_SPECIAL : 0);
    int rc = text_encode(model->vocab, text, n_bytes, how, &list, err);
    if (rc == 0) {
        *n_tok = (int)list.n;
        size_t n = list.n < (size_t)n_max ? list.n : (size_t)n_max;
        if (n_max > 0 && n > 0) memcpy(tokens, list.ids, n * sizeof *tokens);
    }
    text_tokens_fini(&list);
    return rc;
}

int lutra_token_text(
    const lutra_model *model, int32_t token, bool show_special, char *text, size_t n_max, size_t *n_bytes)
{
    if (token < 0 || (size_t)token >= text_vocab_n_tok(model->vocab)) return LUTRA_E_ARGUMENT;
    struct text_bytes piece = text_token_piece(model->vocab, token, show_special ? TEXT_PIECE_SPECIAL : 0);
    *n_bytes = piece.n;
    size_t n = piece.n < n_max ? piece.n : n_max;
    if (n > 0) memcpy(text, piece.p, n);
    return 0;
}

/* Appends to a growing text. */
static int append(char **text, size_t *n, size_t *cap, struct text_bytes add)
{
    if (*n + add.n + 1 > *cap) {
        size_t want = (*n + add.n + 1) * 2;
        char *more = realloc(*text, want);
        if (!more) return LUTRA_E_NO_MEMORY;
        *text = more;
        *cap = want;
    }
    if (add.n > 0) memcpy(*text + *n, add.p, add.n);
    *n += add.n;
    (*text)[*n] = 0;
    return 0;
}

int lutra_detokenize(
    const lutra_model *model, const int32_t *tokens, int n_tok, bool show_special, char **text, struct lutra_error *err)
{
    struct text_stream *stream = NULL;
    char *all = NULL;
    size_t n = 0, cap = 0;
    *text = NULL;
    TRY(text_stream_open(&stream, text_vocab_max_piece_bytes(model->vocab), err));
    int rc = append(&all, &n, &cap, (struct text_bytes){"", 0});
    bool starts = true; /* text that the tokenizer may have given a space */
    for (int i = 0; i < n_tok && rc == 0; i++) {
        struct text_bytes piece = text_token_piece(model->vocab, tokens[i], show_special ? TEXT_PIECE_SPECIAL : 0);
        enum text_token_type type = text_token_type(model->vocab, tokens[i]);
        bool special = type >= TEXT_TOKEN_UNKNOWN && type <= TEXT_TOKEN_USER_DEFINED;
        if (starts && !special && text_vocab_adds_space(model->vocab) && piece.n && piece.p[0] == ' ')
            piece = (struct text_bytes){piece.p + 1, piece.n - 1};
        starts = special;
        rc = append(&all, &n, &cap, text_stream_push(stream, piece));
    }
    if (rc == 0) rc = append(&all, &n, &cap, text_stream_flush(stream));
    text_stream_close(&stream);
    if (rc < 0) {
        free(all);
        return lutra_fail(err, rc, "detokenize: out of memory");
    }
    *text = all;
    return 0;
}

bool lutra_token_is_end(const lutra_model *model, int32_t token)
{
    return text_is_eog(model->vocab, token);
}

/* ---- chat templates ---- */

static int add_token_text(json_t *object, const char *key, const struct text_vocab *vocab, enum text_special which)
{
    if (json_object_get(object, key)) return 0;
    struct text_bytes t = text_token_piece(vocab, text_vocab_special(vocab, which), TEXT_PIECE_SPECIAL);
    return json_object_set_new(object, key, json_stringn(t.p ? t.p : "", t.n)) < 0 ? LUTRA_E_NO_MEMORY : 0;
}

/* transformers always defines these. */
static int add_null(json_t *object, const char *key)
{
    return json_object_get(object, key) ? 0 : json_object_set_new(object, key, json_null());
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
    char key[128], names[160];
    struct weights_str s = {0};
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

static int render(const lutra_model *m, const struct text_template *chat, json_t *object,
    struct text_template_text *out, struct lutra_error *err)
{
    if (add_token_text(object, "bos_token", m->vocab, TEXT_BOS) < 0 ||
        add_token_text(object, "eos_token", m->vocab, TEXT_EOS) < 0 || add_null(object, "tools") < 0 ||
        add_null(object, "documents") < 0)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "chat template: out of memory");
    return text_template_render(chat, object, (int64_t)time(NULL), out, err);
}

static int render_with(
    const lutra_model *m, const char *source, json_t *object, struct text_template_text *out, struct lutra_error *err)
{
    if (!source && !m->chat_source)
        return lutra_fail(err, LUTRA_E_NOT_FOUND, "%s has no chat template (key 'tokenizer.chat_template')",
            weights_path(m->weights));
    if (!source && m->chat) return render(m, m->chat, object, out, err);
    if (!source) source = m->chat_source; /* did not parse at load: say why again */
    struct text_template *chat;
    TRY(text_template_parse(&chat, source, strlen(source), err));
    int rc = render(m, chat, object, out, err);
    text_template_close(&chat);
    return rc;
}

int lutra_chat_render_json(
    const lutra_model *model, const char *chat_template, const char *json, char **text, struct lutra_error *err)
{
    *text = NULL;
    json_error_t why;
    json_t *object = json_loads(json, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(object)) {
        json_decref(object);
        return lutra_fail_at(err, LUTRA_E_FORMAT, (uint64_t)why.line, "chat template input: %s (line %d)",
            object ? "not a JSON object" : why.text, object ? 1 : why.line);
    }
    struct text_template_text out = {0};
    int rc = render_with(model, chat_template, object, &out, err);
    json_decref(object);
    *text = out.p;
    return rc;
}

static struct text_bytes content_of(const struct lutra_message *m)
{
    return (struct text_bytes){m->content, m->n_content ? m->n_content : strlen(m->content)};
}

/* What a template sees of a conversation; with a mark, its contents marked (text/encode.h). */
static int conversation_json(const lutra_model *model, const struct lutra_message *messages, int n_message, int flags,
    struct text_bytes mark, json_t **out, struct lutra_error *err)
{
    json_t *list = json_array();
    for (int i = 0; i < n_message; i++) {
        struct text_bytes content = content_of(&messages[i]), marked = {0};
        if (mark.n && text_mark(model->vocab, content, mark, &marked) < 0) break;
        if (mark.n) content = marked;
        json_t *text = json_stringn(content.p, content.n);
        json_array_append_new(list, json_pack("{s:s, s:o}", "role", messages[i].role, "content", text));
        free((char *)marked.p);
    }
    if (json_array_size(list) != (size_t)n_message) {
        json_decref(list);
        return lutra_fail(err, LUTRA_E_ARGUMENT, "chat template: a message is not UTF-8 text, or memory ran out");
    }
    *out = json_pack("{s:o, s:b}", "messages", list, "add_generation_prompt", (int)(flags & LUTRA_CHAT_REPLY));
    int failed = *out ? 0 : -1;
    if (!failed && flags & LUTRA_CHAT_NO_REASONING) /* no template minds a variable that it does not know */
        failed = json_object_set_new(*out, "enable_thinking", json_false()) |
                 json_object_set_new(*out, "thinking", json_false());
    if (!failed) return 0;
    json_decref(*out);
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "chat template: out of memory");
}

/* The first of Unicode's noncharacters that no message has: EF B7 90 .. AF.  Found in all of them: LUTRA_E_ARGUMENT. */
static int choose_mark(const struct lutra_message *messages, int n_message, char mark[3], struct lutra_error *err)
{
    for (int last = 0x90; last <= 0xaf; last++) {
        bool used = false;
        memcpy(mark, (char[]){(char)0xef, (char)0xb7, (char)last}, 3);
        for (int i = 0; i < n_message && !used; i++) {
            struct text_bytes content = content_of(&messages[i]);
            used = memmem(content.p, content.n, mark, 3) != NULL;
        }
        if (!used) return 0;
    }
    return lutra_fail(
        err, LUTRA_E_ARGUMENT, "chat template: the messages use every noncharacter from U+FDD0 to U+FDEF");
}

bool text_opens_reasoning(const struct text_vocab *vocab, const struct text_tags *tags, const int32_t *token, int n_tok)
{
    char tail[4 * TEXT_REASONING_HELD];
    size_t at = sizeof tail;
    for (int i = n_tok - 1; tags && i >= 0 && at > TEXT_REASONING_HELD; i--) {
        struct text_bytes piece = text_token_piece(vocab, token[i], TEXT_PIECE_SPECIAL);
        if (piece.n > at) break;
        at -= piece.n;
        memcpy(tail + at, piece.p, piece.n);
    }
    return text_reasoning_opened(tags, tail + at, sizeof tail - at);
}

/* Renders a conversation; reasoning that the template opens is closed again where none is wanted. */
static int render_chat(const lutra_model *m, const char *source, json_t *object, int flags,
    struct text_template_text *out, struct lutra_error *err)
{
    const struct text_tags *tags = source ? text_reasoning_tags(source) : m->tags;
    TRY(render_with(m, source, object, out, err));
    if (!(flags & LUTRA_CHAT_NO_REASONING) || !text_reasoning_opened(tags, out->p, out->n)) return 0;
    size_t n = strlen(tags->close);
    char *more = realloc(out->p, out->n + n + 1);
    if (!more) {
        text_template_text_free(out);
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "chat template: out of memory");
    }
    memcpy(more + out->n, tags->close, n + 1);
    *out = (struct text_template_text){more, out->n + n};
    return 0;
}

int lutra_chat_tokenize(const lutra_model *model, const char *chat_template, const struct lutra_message *messages,
    int n_message, int flags, int32_t *tokens, int n_max, int *n_tok, struct lutra_error *err)
{
    char mark[3];
    json_t *object = NULL;
    struct text_template_text text = {0};
    struct text_tokens list = {0};
    TRY(choose_mark(messages, n_message, mark, err));
    struct text_bytes marks = {mark, sizeof mark};
    TRY(conversation_json(model, messages, n_message, flags, marks, &object, err));
    int rc = render_chat(model, chat_template, object, flags, &text, err);
    json_decref(object);
    if (rc == 0) {
        struct text_bytes bos =
            text_token_piece(model->vocab, text_vocab_special(model->vocab, TEXT_BOS), TEXT_PIECE_SPECIAL);
        bool written = bos.n > 0 && text.n >= bos.n && memcmp(text.p, bos.p, bos.n) == 0;
        if (bos.n > 0 && !written && text_vocab_adds_bos(model->vocab))
            rc = text_encode(model->vocab, bos.p, bos.n, TEXT_PARSE_SPECIAL, &list, err);
    }
    if (rc == 0) {
        struct text_bytes whole = {text.p, text.n};
        rc = text_encode_marked(model->vocab, whole, TEXT_PARSE_SPECIAL, marks, &list, err);
    }
    free(text.p);
    if (rc == 0) {
        *n_tok = (int)list.n;
        size_t n = list.n < (size_t)n_max ? list.n : (size_t)n_max;
        if (n_max > 0 && n > 0) memcpy(tokens, list.ids, n * sizeof *tokens);
    }
    text_tokens_fini(&list);
    return rc;
}

int lutra_chat_render(const lutra_model *model, const char *chat_template, const struct lutra_message *messages,
    int n_message, int flags, char **text, struct lutra_error *err)
{
    struct text_template_text out = {0};
    json_t *object = NULL;
    *text = NULL;
    TRY(conversation_json(model, messages, n_message, flags, (struct text_bytes){0}, &object, err));
    int rc = render_chat(model, chat_template, object, flags, &out, err);
    json_decref(object);
    *text = out.p;
    return rc;
}
