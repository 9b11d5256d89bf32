/* SPDX-License-Identifier: MIT
 *
 * Chat templates: the part of Jinja that they use, rendered as transformers renders them (trim_blocks,
 * lstrip_blocks, loop controls, `tojson` without escaping, an immutable sandbox, `raise_exception`, `strftime_now`).
 *
 *     struct text_template *t;
 *     TRY(text_template_parse(&t, source, n_source, err));
 *     TRY(text_template_render(t, &(struct text_template_input){.variables = v, .now = time(NULL)}, &text, err));
 *     use(text.p, text.n);
 *     text_template_text_free(&text);
 *     text_template_close(&t);
 *
 * The variables are one JSON object (jansson's json_t), e.g. {"messages": [...], "tools": null, "documents": null,
 * "add_generation_prompt": true, "bos_token": "<s>"}.  transformers always passes `tools` and `documents`, as null
 * where there are none; templates that ask `tools is defined` can tell the difference.
 *
 * Statements: for (with filter, else and recursive), if, set (also blocks and namespace attributes), macro, call,
 * filter, with, generation, break, continue, raw, comments.  Loading other templates is refused.  What differs from
 * Python: integers are 64 bits wide (overflow is an error), and case conversion maps character to character.
 *
 * Templates and variables are hostile input: steps, memory, output and nesting (by the stack that the thread has left)
 * are bounded, so every render ends, in success or an error.  A parsed template is read-only and may be rendered from
 * several threads.
 */
#ifndef LUTRA_TEXT_TEMPLATE_H
#define LUTRA_TEXT_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>

#include "text/work.h"

struct json_t;
struct text_template;

/* Limits of one parse or render; n is the size of template plus variables in bytes. */
#define TEXT_TEMPLATE_MAX_STEPS 20000000 /* operations, and each 16 bytes that they touch: about a second */
#define TEXT_TEMPLATE_MAX_JSON_DEPTH 100 /* lists and objects inside one another */
#define TEXT_TEMPLATE_MAX_HEAP(n) ((size_t)(32u << 20) + 8 * (n))  /* bytes of values and syntax tree */
#define TEXT_TEMPLATE_MAX_OUTPUT(n) ((size_t)(8u << 20) + 2 * (n)) /* bytes of text, held up to three times */

struct text_template_text {
    char *p; /* NUL-terminated as well */
    size_t n;
    uint8_t *input; /* [n] not 0: byte i comes from the variables; what the template itself writes is 0 */
};

/* What a template is rendered with.  All strings, keys and numbers of `variables` are marked as input, whatever the
 * template makes of them: through every filter, method, slice, join and capture, byte by byte.  The members of `own`,
 * the program's (bos_token), are not, and take the place of variables of that name. */
struct text_template_input {
    const struct json_t *variables; /* an object; only read */
    const struct json_t *own;       /* an object or NULL */
    int64_t now;                    /* seconds since 1970 for strftime_now, shown in the local time zone */
    const struct text_work *work;   /* who may end it; NULL = nobody */
};

/* Copies what it needs of `source`.  On success the caller owns *out; on failure *out is NULL.
 * Errors: LUTRA_E_FORMAT (syntax; err->where = line), LUTRA_E_UNSUPPORTED (a statement, by name),
 * LUTRA_E_NO_MEMORY (the limit or the machine's). */
int text_template_parse(struct text_template **out, const char *source, size_t n_source, struct lutra_error *err);
void text_template_close(struct text_template **tmpl);

/* On success the caller owns *out; on failure it is empty.
 * Errors: LUTRA_E_FORMAT (err->where = line of the template; also raise_exception's message),
 * LUTRA_E_UNSUPPORTED (a filter, test or method, by name), LUTRA_E_NO_MEMORY, those of text_work_go_on(). */
int text_template_render(const struct text_template *tmpl, const struct text_template_input *input,
    struct text_template_text *out, struct lutra_error *err);
void text_template_text_free(struct text_template_text *text);

#endif
