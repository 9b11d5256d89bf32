/* SPDX-License-Identifier: MIT
 *
 * The forms of a conversation that chat templates take, and whether one loses a message; private to engine/.
 */
#ifndef LUTRA_CHAT_CHAT_FORMS_H
#define LUTRA_CHAT_CHAT_FORMS_H

#include <stdbool.h>

#include "lutra/chat.h"
#include "text/template.h"

/* The variables of a template, to be freed with json_decref().  LUTRA_E_FORMAT (where and why the JSON is none, or
 * nested too deep), LUTRA_E_ARGUMENT (a role that is none, a message that is no UTF-8), LUTRA_E_NO_MEMORY. */
int chat_variables(const struct lutra_chat *chat, struct json_t **out, struct lutra_error *err);

/* Messages' "reasoning_content" also under the name that a template, by its source, has for it (gpt-oss: "thinking").
 * source may be NULL. */
void chat_name_reasoning(struct json_t *variables, const char *source);

/* "tools" also as "xml_tools", for a template that has that name in its source (SmolLM3).  source may be NULL. */
void chat_name_tools(struct json_t *variables, const char *source);

/* The variables with "description": "" for each tool that has none, to be freed with json_decref(); NULL where all have
 * one.  OpenAI's API does not ask for it, and gpt-oss's template fails without. */
struct json_t *chat_describe_tools(const struct json_t *variables);

struct chat_renderer {
    int (*render)(void *user, const struct json_t *variables, struct text_template_text *out, struct lutra_error *err);
    void *user;
    const char *name;   /* the template's, for messages */
    bool refuse;        /* what no form keeps is an error; else it is rendered as given */
    bool merged_system; /* set: it takes no system message, so that went before the first user message */
};

/* Renders `variables` in the first form whose text has all messages: as they are, contents as typed parts or as text,
 * the system message merged.  A message counts as lost where its text is not found and a mark in its place is not
 * either (templates may take reasoning out of replies, or write text as JSON).  LUTRA_E_UNSUPPORTED, with `refuse`,
 * names a message that no form keeps; otherwise the template's own error. */
int chat_render_whole(struct chat_renderer *with, const struct json_t *variables, struct text_template_text *out,
    struct lutra_error *err);

#endif
