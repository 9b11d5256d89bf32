/* SPDX-License-Identifier: MIT
 *
 * Chat templates: from a conversation to the tokens of a prompt.
 *
 *     struct lutra_chat chat;
 *     lutra_chat_init(&chat, sizeof chat);
 *     chat.messages = &message;
 *     chat.n_message = 1;
 *     lutra_chat_tokenize(model, &chat, tokens, n_max, &n_tok, &err);
 *
 * Threads: any, several on one model at once.  Callbacks run on the calling thread.
 */
#ifndef LUTRA_CHAT_H
#define LUTRA_CHAT_H

#include "lutra/core.h"

#ifdef __cplusplus
extern "C" {
#endif

enum lutra_chat_flags {
    LUTRA_CHAT_REPLY = 1,        /* the beginning of a reply behind the messages; transformers' add_generation_prompt */
    LUTRA_CHAT_NO_REASONING = 2, /* enable_thinking, thinking: false; reasoning that the template opens is closed */
    LUTRA_CHAT_REASONING = 4,    /* enable_thinking, thinking: true; neither of the two: as the template likes */
};

struct lutra_message {
    const char *role; /* "system", "user", "assistant", ...: letters, digits, '_', '-' and '.', at most 64 */
    const char *content;
    size_t n_content; /* bytes of it; 0 = up to the NUL */
};
/* What a chat template is rendered with: messages, or all that a template may ask for, as JSON. */
struct lutra_chat {
    size_t size;
    const struct lutra_message *messages; /* [n_message] */
    int n_message;
    /* Instead of messages, or NULL: an object with "messages" (text parts, tool calls and results,
     * "reasoning_content"), "tools", "documents", "add_generation_prompt", "enable_thinking", ..., at most 100 lists
     * and objects deep.  bos_token and eos_token are added. */
    const char *json;
    size_t n_json;              /* bytes of it; 0 = up to the NUL */
    const char *chat_template;  /* another one instead of the model's, or NULL */
    int flags;                  /* of lutra_chat_flags; default LUTRA_CHAT_REPLY */
    uint64_t timeout_us;        /* 0 = none; LUTRA_E_DEADLINE */
    lutra_progress_fn progress; /* asked about every millisecond; may be NULL */
    void *progress_user;
    /* More variables of the template, an object of JSON, or NULL: {"reasoning_effort": "low", "preserve_thinking":
     * true}.  What `json` says itself wins; these win over flags.  "messages" is LUTRA_E_ARGUMENT. */
    const char *variables;
    size_t n_variables; /* bytes of it; 0 = up to the NUL */
};
LUTRA_API void lutra_chat_init(struct lutra_chat *chat, size_t size);

/* The prompt of a conversation: the chat template over it, as tokens.  Only what the template itself writes becomes
 * control tokens: a byte that comes from messages or JSON (roles and keys too) is part of none, whatever the template
 * makes of it.  Tokens that a vocabulary has as ordinary words of its own, such as <think>, are recognised everywhere.
 * A beginning token that the model asks for is added where the template has not written it.
 * A template that renders typed parts only gets [{"type": "text", "text": ...}]; a system message that it cannot take
 * goes before the first user message, which is logged once.  LUTRA_E_UNSUPPORTED names a message that it still loses.
 * Writes at most n_max tokens; *n_tok is how many there are.  Thread-safe.  Needs 64 KiB of stack: what is nested
 * deeper than the stack allows is an error. */
LUTRA_API int lutra_chat_tokenize(const lutra_model *model, const struct lutra_chat *chat, int32_t *tokens, int n_max,
    int *n_tok, struct lutra_error *err);

/* The same as text, to show or to keep, with what a template loses lost; what is to be answered goes through
 * lutra_chat_tokenize().  *text is freed with lutra_free(); *n_bytes is its length; may be NULL. */
LUTRA_API int lutra_chat_render(
    const lutra_model *model, const struct lutra_chat *chat, char **text, size_t *n_bytes, struct lutra_error *err);

/* A conversation that is longer than the context: leave out messages *first .. *first + *n_dropped - 1, the oldest
 * turns behind the system's messages, and its prompt has at most n_most tokens, or one turn is left.  A turn is a
 * message of the user and all up to the next.  *n_dropped is 0 where everything fits.  When the conversation as it
 * grew became too long, turns were left out until half of n_most was free: so what is left out stays the same for
 * many turns, and the prompt's beginning is found in the cache.  Errors of lutra_chat_tokenize().  Thread-safe. */
LUTRA_API int lutra_chat_roll(const lutra_model *model, const struct lutra_chat *chat, int n_most, int *first,
    int *n_dropped, struct lutra_error *err);

/* A chat template of the model's file: its main one (name NULL), or key `tokenizer.chat_template.NAME` ("tool_use").
 * *text is freed with lutra_free().  LUTRA_E_NOT_FOUND lists the names there are. */
LUTRA_API int lutra_chat_template(const lutra_model *model, const char *name, char **text, struct lutra_error *err);

#ifdef __cplusplus
}
#endif

#endif
