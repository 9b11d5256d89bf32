/* SPDX-License-Identifier: MIT */
#include "chat/chat_forms.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "text/json_text.h"

/* ---- variables ---- */

/* An object. */
static int read_json(const char *what, const char *text, size_t n, json_t **out, struct lutra_error *err)
{
    TRY(text_json_load(what, text, n ? n : strlen(text), TEXT_TEMPLATE_MAX_JSON_DEPTH, out, err));
    if (json_is_object(*out)) return 0;
    json_decref(*out);
    *out = NULL;
    return lutra_fail_at(err, LUTRA_E_FORMAT, 1, "%s: not a JSON object (line 1)", what);
}

/* The caller's own variables, where the JSON says nothing. */
static int add_variables(const struct lutra_chat *chat, json_t *variables, struct lutra_error *err)
{
    json_t *more = NULL;
    if (!chat->variables) return 0;
    TRY(read_json("chat template variables", chat->variables, chat->n_variables, &more, err));
    int rc = 0;
    if (json_object_get(more, "messages"))
        rc = lutra_fail(err, LUTRA_E_ARGUMENT, "chat template variables: 'messages' is the conversation's");
    else if (json_object_update_missing(variables, more) < 0)
        rc = lutra_fail(err, LUTRA_E_NO_MEMORY, "chat template: out of memory");
    json_decref(more);
    return rc;
}

static int read_messages(const struct lutra_chat *chat, json_t **out, struct lutra_error *err)
{
    json_t *list = json_array();
    for (int i = 0; i < chat->n_message; i++) {
        const struct lutra_message *m = &chat->messages[i];
        size_t n = m->n_content ? m->n_content : strlen(m->content);
        json_t *text = json_stringn(m->content, n);
        json_array_append_new(list, json_pack("{s:s, s:o}", "role", m->role, "content", text));
    }
    bool whole = json_array_size(list) == (size_t)chat->n_message;
    *out = json_pack("{s:o}", "messages", list);
    if (whole && *out) return 0;
    json_decref(*out);
    *out = NULL;
    return lutra_fail(err, LUTRA_E_ARGUMENT, "chat template: a message is not UTF-8 text, or memory ran out");
}

static int check_role(const json_t *role, size_t i, struct lutra_error *err)
{
    static const char word[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    const char *p = json_string_value(role);
    size_t n = json_string_length(role);
    if (!role || (p && n && n <= 64 && strspn(p, word) == n)) return 0;
    return lutra_fail_at(err, LUTRA_E_ARGUMENT, i,
        "message %zu: its role is no word of letters, digits, '_', '-' and '.' (at most 64)", i);
}

static int check_roles(const json_t *variables, struct lutra_error *err)
{
    const json_t *list = json_object_get(variables, "messages");
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(check_role(json_object_get(json_array_get(list, i), "role"), i, err));
    return 0;
}

/* What the flags ask for, where nothing else says it; no template minds a variable that it does not know. */
static int add_flags(const struct lutra_chat *chat, json_t *variables, struct lutra_error *err)
{
    static const struct {
        const char *key;
        int flag;
        bool value;
    } keys[] = {{"add_generation_prompt", 0, false}, {"enable_thinking", LUTRA_CHAT_NO_REASONING, false},
        {"thinking", LUTRA_CHAT_NO_REASONING, false}, {"enable_thinking", LUTRA_CHAT_REASONING, true},
        {"thinking", LUTRA_CHAT_REASONING, true}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        bool value = i == 0 ? (chat->flags & LUTRA_CHAT_REPLY) != 0 : keys[i].value;
        if (json_object_get(variables, keys[i].key) || (keys[i].flag & chat->flags) != keys[i].flag) continue;
        if (json_object_set_new(variables, keys[i].key, json_boolean(value)) < 0)
            return lutra_fail(err, LUTRA_E_NO_MEMORY, "chat template: out of memory");
    }
    return 0;
}

int chat_variables(const struct lutra_chat *chat, json_t **out, struct lutra_error *err)
{
    *out = NULL;
    TRY(chat->json ? read_json("chat template input", chat->json, chat->n_json, out, err)
                   : read_messages(chat, out, err));
    int rc = check_roles(*out, err);
    if (rc == 0) rc = add_variables(chat, *out, err);
    if (rc == 0) rc = add_flags(chat, *out, err);
    if (rc == 0) return 0;
    json_decref(*out);
    *out = NULL;
    return rc;
}

void chat_name_reasoning(json_t *variables, const char *source)
{
    static const char *const names[] = {"reasoning", "thinking", "thought"};
    if (!source || strstr(source, "reasoning_content")) return;
    const json_t *list = json_object_get(variables, "messages");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *message = json_array_get(list, i), *text = json_object_get(message, "reasoning_content");
        for (size_t k = 0; text && k < sizeof names / sizeof *names; k++)
            if (strstr(source, names[k]) && !json_object_get(message, names[k]))
                json_object_set(message, names[k], text);
    }
}

void chat_name_tools(json_t *variables, const char *source)
{
    json_t *tools = json_object_get(variables, "tools");
    if (!source || !json_array_size(tools) || !strstr(source, "xml_tools")) return;
    if (!json_object_get(variables, "xml_tools")) json_object_set(variables, "xml_tools", tools);
}

json_t *chat_describe_tools(const json_t *variables)
{
    bool lacks = false;
    json_t *list = json_deep_copy(json_object_get(variables, "tools")), *out = NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *tool = json_array_get(list, i), *function = json_object_get(tool, "function");
        if (!function) function = tool;
        if (!json_is_object(function) || json_object_get(function, "description")) continue;
        lacks = json_object_set_new(function, "description", json_string("")) == 0;
    }
    if (lacks) out = json_copy((json_t *)variables);
    if (out) json_object_set(out, "tools", list);
    json_decref(list);
    return out;
}

/* ---- what a message says ---- */

/* Text i of a content, which is text or typed parts; NULL behind the last.  Parts of other types have none. */
static const json_t *text_at(const json_t *content, size_t i)
{
    if (json_is_string(content)) return i == 0 ? content : NULL;
    for (size_t k = 0; k < json_array_size(content); k++) {
        const json_t *text = json_object_get(json_array_get(content, k), "text");
        if (json_is_string(text) && i-- == 0) return text;
    }
    return NULL;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Is the text, without the space around it, in `in`? */
static bool found_in(const json_t *text, const struct text_template_text *in)
{
    const char *p = json_string_value(text);
    size_t n = json_string_length(text);
    while (n > 0 && is_space(p[n - 1])) n--;
    for (; n > 0 && is_space(*p); n--) p++;
    return n == 0 || memmem(in->p, in->n, p, n) != NULL;
}

/* The first message of which some text is not in `in`; their number if there is none. */
static size_t first_lost(const json_t *list, const struct text_template_text *in)
{
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const json_t *content = json_object_get(json_array_get(list, i), "content"), *text;
        for (size_t k = 0; (text = text_at(content, k)) != NULL; k++)
            if (!found_in(text, in)) return i;
    }
    return n;
}

/* ---- forms ---- */

enum form { AS_GIVEN, AS_PARTS, AS_TEXT, N_FORM };

static json_t *text_of(const json_t *content)
{
    json_t *whole = json_string("");
    const json_t *text;
    for (size_t k = 0; whole && (text = text_at(content, k)) != NULL; k++) {
        size_t n = json_string_length(whole), n_text = json_string_length(text);
        char *joined = malloc(n + n_text + 1);
        if (joined) memcpy(joined, json_string_value(whole), n);
        if (joined) memcpy(joined + n, json_string_value(text), n_text);
        json_decref(whole);
        whole = joined ? json_stringn(joined, n + n_text) : NULL;
        free(joined);
    }
    return whole;
}

/* The content in this form; NULL where it is in it already, or has another. */
static json_t *reform(const json_t *content, enum form form)
{
    if (form == AS_PARTS && json_is_string(content)) return json_pack("[{s:s, s:O}]", "type", "text", "text", content);
    return form == AS_TEXT && json_is_array(content) ? text_of(content) : NULL;
}

/* The system message's text before the first user message's, and without itself; both are text by now. */
static int merge_system(json_t *list)
{
    json_t *system = json_array_get(list, 0), *user = json_array_get(list, 1);
    const json_t *a = json_object_get(system, "content"), *b = json_object_get(user, "content");
    json_t *parts = json_pack("[{s:O}, {s:s}, {s:O}]", "text", a, "text", "\n\n", "text", b);
    json_t *both = parts ? text_of(parts) : NULL;
    json_decref(parts);
    if (!both || json_object_set_new(user, "content", both) < 0) return LUTRA_E_NO_MEMORY;
    return json_array_remove(list, 0);
}

static bool has_role(const json_t *list, size_t i, const char *role)
{
    const char *have = json_string_value(json_object_get(json_array_get(list, i), "role"));
    return have && !strcmp(have, role);
}

static bool can_merge(const json_t *list)
{
    return has_role(list, 0, "system") && has_role(list, 1, "user");
}

/* The variables with messages in this form.  marks: and each text replaced by a mark of its own. */
static json_t *conversation(const json_t *variables, enum form form, bool merge, bool marks)
{
    json_t *out = json_copy((json_t *)variables);
    json_t *list = json_deep_copy(json_object_get(variables, "messages"));
    if (!out || !list || json_object_set_new(out, "messages", list) < 0) return json_decref(out), NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *message = json_array_get(list, i), *content = json_object_get(message, "content"), *text;
        char mark[32];
        snprintf(mark, sizeof mark, "Mark%zuOf%zu.", i, json_array_size(list));
        for (size_t k = 0; marks && (text = (json_t *)text_at(content, k)) != NULL; k++) json_string_set(text, mark);
        json_t *new = reform(content, merge ? AS_TEXT : form);
        if (new) json_object_set_new(message, "content", new);
    }
    if (merge && merge_system(list) < 0) return json_decref(out), NULL;
    for (size_t i = 0; merge && form == AS_PARTS && i < json_array_size(list); i++) {
        json_t *message = json_array_get(list, i), *new = reform(json_object_get(message, "content"), form);
        if (new) json_object_set_new(message, "content", new);
    }
    return out;
}

/* Renders one form.  *lost: the first message it loses, SIZE_MAX if none. */
static int try_form(const struct chat_renderer *with, const json_t *variables, enum form form, bool merge, bool marks,
    struct text_template_text *out, size_t *lost, struct lutra_error *err)
{
    json_t *said = conversation(variables, form, merge, marks);
    *out = (struct text_template_text){0};
    if (!said) return lutra_fail(err, LUTRA_E_NO_MEMORY, "chat template: out of memory");
    int rc = with->render(with->user, said, out, err);
    const json_t *list = json_object_get(said, "messages");
    *lost = rc < 0 ? 0 : first_lost(list, out);
    if (*lost == json_array_size(list)) *lost = SIZE_MAX;
    json_decref(said);
    return rc;
}

static bool final(int rc)
{
    return rc == LUTRA_E_NO_MEMORY || rc == LUTRA_E_CANCELLED || rc == LUTRA_E_DEADLINE;
}

/* Renders one form if nothing is lost in it: *whole.  What is not there as written is looked for by a mark. */
static int render_form(const struct chat_renderer *with, const json_t *variables, enum form form, bool merge,
    struct text_template_text *out, size_t *lost, struct lutra_error *err)
{
    struct text_template_text probe = {0};
    int rc = try_form(with, variables, form, merge, false, out, lost, err);
    if (rc < 0 || *lost == SIZE_MAX) return rc;
    size_t lost_text = *lost;
    rc = try_form(with, variables, form, merge, true, &probe, lost, err);
    text_template_text_free(&probe);
    if (rc < 0 && !final(rc)) rc = 0, *lost = lost_text;
    return rc;
}

/* No form keeps all: the first one's text after all, or why not. */
static int settle(const struct chat_renderer *with, const json_t *variables, size_t lost,
    struct text_template_text *kept, struct text_template_text *out, struct lutra_error *err)
{
    *out = *kept;
    if (!with->refuse) return 0;
    text_template_text_free(out);
    const json_t *message = json_array_get(json_object_get(variables, "messages"), lost);
    const char *role = json_string_value(json_object_get(message, "role"));
    return lutra_fail_at(err, LUTRA_E_UNSUPPORTED, lost, "%s loses the text of message %zu (role '%s')", with->name,
        lost, role ? role : "");
}

int chat_render_whole(
    struct chat_renderer *with, const json_t *variables, struct text_template_text *out, struct lutra_error *err)
{
    struct text_template_text kept = {0};
    struct lutra_error why = {0};
    size_t lost, first = SIZE_MAX;
    int n = can_merge(json_object_get(variables, "messages")) ? 2 * N_FORM : N_FORM, rc = 0, first_rc = 0;
    for (int i = 0; i < n; i++) {
        with->merged_system = i >= N_FORM;
        rc = render_form(with, variables, (enum form)(i % N_FORM), i >= N_FORM, out, &lost, i ? &why : err);
        bool whole = rc == 0 && lost == SIZE_MAX;
        if (whole || final(rc)) text_template_text_free(&kept);
        if (final(rc) && i && err) *err = why;
        if (whole || final(rc)) return rc;
        if (i == 0) {
            kept = *out;
            first = lost;
            first_rc = rc;
        } else {
            text_template_text_free(out);
        }
    }
    with->merged_system = false;
    if (first_rc == 0) return settle(with, variables, first, &kept, out, err);
    *out = (struct text_template_text){0};
    return first_rc;
}
