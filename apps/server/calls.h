/* SPDX-License-Identifier: MIT
 *
 * Calls of tools in a reply, found while it comes.  Formats, by what model families were trained on:
 *
 *   hermes   <tool_call>{"name": "f", "arguments": {...}}</tool_call>      Qwen 2.5 and 3, Hermes
 *            <tool_call><function=f><parameter=k>v</parameter></function></tool_call>   Qwen 3.5, Qwen3-Coder
 *   llama    {"name": "f", "parameters": {...}}, several with ';'          Llama 3
 *   mistral  [TOOL_CALLS][{"name": "f", "arguments": {...}}], or [TOOL_CALLS]f[ARGS]{...}
 *   harmony  <|channel|>commentary to=functions.f<|message|>{...}<|call|>  gpt-oss
 *   gemma    <|tool_call>call:f{k:<|"|>v<|"|>}<tool_call|>                 Gemma 4, FunctionGemma
 *
 * Text that turns out to be no call is told as text.
 */
#ifndef LUTRA_SERVER_CALLS_H
#define LUTRA_SERVER_CALLS_H

#include <jansson.h>

#include "text.h"

enum call_style { CALLS_NONE, CALLS_HERMES, CALLS_LLAMA, CALLS_MISTRAL, CALLS_HARMONY, CALLS_GEMMA };

/* What is found, in its order.  Arguments are JSON in pieces; text is thought or answer. */
struct call_sink {
    void (*text)(void *user, const char *text, size_t n, bool thought);
    void (*begin)(void *user, const char *name, size_t n);
    void (*arguments)(void *user, const char *json, size_t n);
    void *user;
};

struct call_parser {
    enum call_style style;
    const json_t *tools; /* OpenAI's list, for types of parameters; may be NULL; borrowed */
    int state;           /* calls.c */
    struct text in;      /* not yet told */
    size_t at;           /* of it, looked at by the state */
    int depth;           /* of arguments under way */
    bool quoted, escaped, in_object, first;
    bool called; /* no text stands behind the last call */
    char name[128];
};

void calls_init(struct call_parser *p, enum call_style style, const json_t *tools);
void calls_free(struct call_parser *p);
void calls_feed(struct call_parser *p, const char *text, size_t n, const struct call_sink *to);
/* The reply has ended: what was held back is told. */
void calls_end(struct call_parser *p, const struct call_sink *to);

/* The format that a chat template writes calls in; CALLS_NONE: it knows no tools. */
enum call_style calls_style(const char *chat_template);
/* Does its format have control tokens, which must be shown to be found? */
bool calls_need_special(enum call_style style);

/* One of Gemma's values as JSON; bytes of `text` that it took, 0: it is none, CALLS_CUT: the beginning of one, told as
 * far as it is known. */
#define CALLS_CUT ((size_t)-1)
size_t calls_gemma_value(const char *text, size_t n, int depth, struct text *out);

#endif
