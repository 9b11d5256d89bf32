/* SPDX-License-Identifier: MIT
 *
 * Text that grows: bodies of requests and answers.  Running out of memory marks the text as failed and adds nothing
 * more; whoever sends it looks at `failed` once, at the end.
 */
#ifndef LUTRA_SERVER_TEXT_H
#define LUTRA_SERVER_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct text {
    char *bytes; /* [n], a NUL follows when not NULL */
    size_t n, room;
    bool failed;
};

void text_add(struct text *t, const void *bytes, size_t n);
void text_put(struct text *t, const char *string);
void text_print(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The bytes as a JSON string, with its quotes.  What is no UTF-8 becomes U+FFFD. */
void text_json(struct text *t, const char *bytes, size_t n);
void text_json_string(struct text *t, const char *string);
void text_clear(struct text *t); /* empties, keeps the memory */
void text_free(struct text *t);

/* Bytes of the UTF-8 character at the front of [n] bytes; 0: there is none. */
size_t text_utf8(const char *bytes, size_t n);

#endif
