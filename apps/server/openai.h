/* SPDX-License-Identifier: MIT
 *
 * What OpenAI's endpoints share.
 */
#ifndef LUTRA_SERVER_OPENAI_H
#define LUTRA_SERVER_OPENAI_H

#include "dialect.h"

/* Opens an event "data: {"id":...,"object":OBJECT,...": the caller goes on with ","choices":... and ends it. */
void openai_open(struct reply *r, const char *prefix, const char *object);
/* ,"usage":{...} */
void openai_usage(struct reply *r);
/* {"content":[...]} of the scored tokens from `from` on. */
void openai_log_probs(struct reply *r, const struct choice *c, int from);
/* "finish_reason":...} and, as vLLM, "stop_reason": the stop string or token that ended it; then `behind`. */
void openai_end_choice(struct reply *r, const struct choice *c, const char *word, const char *behind);
/* The last events of a stream, usage where it was asked for. */
void openai_finish(struct reply *r, const char *prefix, const char *object);
/* An error within a stream. */
void openai_broken(const struct problem *p, struct text *out);
/* Fields that chat and completions share. */
void openai_common(struct ask *a, const struct fields *f);
/* A body of chat/completions into an ask; `body` lives as long as the ask's. */
void openai_read_chat(struct ask *a, const json_t *body, struct problem *p);
/* Where another dialect's body becomes one of chat/completions: keeps it with the ask's body, and reads it. */
void openai_read_converted(struct ask *a, json_t *body, struct problem *p);
/* to[as] = from[name], where it is there and not null. */
void openai_copy(const json_t *from, const char *name, json_t *to, const char *as);
/* A field that would change the reply and is not built. */
void openai_refuse(const struct fields *f, const char *const *name, int n);

#endif
