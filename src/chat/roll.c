/* SPDX-License-Identifier: MIT
 *
 * A conversation that is longer than the context: how many of its oldest messages are left out.
 *
 * What is left out must not change with every reply, or each request would evaluate all that is kept again.  So the
 * conversation is read from its beginning as the requests came, and whenever it no longer fits, the oldest turns go
 * until it fits in half: the same messages always give the same answer, and a conversation that grows keeps its
 * beginning until it is full once more.
 */
#include "engine/model.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "chat/chat_forms.h"
#include "text/encode.h"

enum { AROUND = 8 /* tokens that a template writes around a message, about */ };

struct roll {
    const lutra_model *model;
    struct lutra_chat chat; /* with the conversation in `variables` as its JSON */
    json_t *variables, *messages;
    int n_message, n_system; /* messages; those before the first turn */
    int *size;               /* [n_message] tokens, about */
    int around;              /* those of the system messages, tools and what the template adds, about */
};

static bool has_role(const struct roll *r, int i, const char *role)
{
    const char *is = json_string_value(json_object_get(json_array_get(r->messages, (size_t)i), "role"));
    return is && strcmp(is, role) == 0;
}

/* The turn behind the one that begins with message i; n_message: there is none. */
static int next_turn(const struct roll *r, int i)
{
    do i++;
    while (i < r->n_message && !has_role(r, i, "user"));
    return i;
}

/* Tokens of the prompt without messages first .. first + n - 1. */
static int measure(struct roll *r, int first, int n, int *n_tok, struct lutra_error *err)
{
    json_t *all = r->messages, *kept = json_array();
    for (int i = 0; i < r->n_message; i++)
        if (i < first || i >= first + n) json_array_append(kept, json_array_get(all, (size_t)i));
    int rc = json_object_set_new(r->variables, "messages", kept) < 0 ? LUTRA_E_NO_MEMORY : 0;
    char *json = rc == 0 ? json_dumps(r->variables, JSON_COMPACT) : NULL;
    struct lutra_chat chat = r->chat;
    chat.json = json;
    chat.n_json = 0;
    if (!json)
        rc = lutra_fail(err, LUTRA_E_NO_MEMORY, "chat: out of memory");
    else
        rc = lutra_chat_tokenize(r->model, &chat, NULL, 0, n_tok, err);
    free(json);
    return rc;
}

/* Tokens of a message by itself, whatever the template makes of it. */
static int size_of(const struct roll *r, int i, int *size, struct lutra_error *err)
{
    struct text_tokens list = {0};
    const json_t *message = json_array_get(r->messages, (size_t)i), *content = json_object_get(message, "content");
    char *json = json_is_string(content) && json_object_size(message) == 2 ? NULL : json_dumps(message, JSON_COMPACT);
    const char *text = json ? json : json_string_value(content);
    int rc = text ? text_encode(r->model->vocab, text, strlen(text), 0, &list, err) : 0;
    *size = AROUND + (int)list.n;
    text_tokens_fini(&list);
    free(json);
    return rc;
}

static int read_conversation(struct roll *r, struct lutra_error *err)
{
    TRY(chat_variables(&r->chat, &r->variables, err));
    r->messages = json_incref(json_object_get(r->variables, "messages"));
    r->n_message = (int)json_array_size(r->messages);
    while (r->n_system < r->n_message && !has_role(r, r->n_system, "user")) r->n_system++;
    r->size = calloc((size_t)r->n_message + 1, sizeof *r->size);
    return r->size ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "chat: out of memory");
}

/* The first message that is kept of those behind the system's, by their sizes. */
static int choose(const struct roll *r, int n_most)
{
    int from = r->n_system, turn = r->n_system; /* the turn that message i belongs to */
    int64_t sum = r->around;
    for (int i = r->n_system; i <= r->n_message; i++) {
        /* A request came before each reply, and comes now. */
        bool asked = i == r->n_message || has_role(r, i, "assistant");
        if (asked && sum > n_most)
            for (; from < turn && sum > n_most / 2; from = next_turn(r, from))
                for (int k = from; k < next_turn(r, from); k++) sum -= r->size[k];
        if (i < r->n_message && has_role(r, i, "user")) turn = i;
        if (i < r->n_message) sum += r->size[i];
    }
    return from;
}

static int roll(struct roll *r, int n_most, int *n_dropped, struct lutra_error *err)
{
    int n_tok = 0, first = r->n_system, from;
    TRY(measure(r, 0, 0, &n_tok, err));
    if (n_tok <= n_most || first == r->n_message) return 0;
    for (int i = 0; i < r->n_message; i++) TRY(size_of(r, i, &r->size[i], err));
    int second = next_turn(r, first);
    TRY(measure(r, second, r->n_message - second, &r->around, err));
    for (int i = first; i < second; i++) r->around -= r->size[i];
    if (r->around < 0) r->around = 0;
    /* The sizes are about right; the last word has the template. */
    for (from = choose(r, n_most);; from = next_turn(r, from)) {
        TRY(measure(r, first, from - first, &n_tok, err));
        if (n_tok <= n_most || next_turn(r, from) == r->n_message) break;
    }
    *n_dropped = from - first;
    return 0;
}

int lutra_chat_roll(const lutra_model *model, const struct lutra_chat *chat, int n_most, int *first, int *n_dropped,
    struct lutra_error *err)
{
    TRY(handle_check(model, "model", err));
    struct roll r = {.model = model, .chat = {.size = sizeof r.chat}};
    *first = *n_dropped = 0;
    TRY(settings_copy(&r.chat, sizeof r.chat, chat, "struct lutra_chat", err));
    int rc = read_conversation(&r, err);
    r.chat.variables = NULL; /* they are in `variables` now */
    if (rc == 0) rc = roll(&r, n_most, n_dropped, err);
    *first = r.n_system;
    json_decref(r.messages);
    json_decref(r.variables);
    free(r.size);
    return rc;
}
