/* SPDX-License-Identifier: MIT
 *
 * Text of documents: a growing buffer, what counts as text, where to cut it, and HTML.  Pure functions of their input.
 */
#ifndef LUTRA_RAG_TEXT_H
#define LUTRA_RAG_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lutra/status.h"

/* Growing bytes; zeroed is empty.  After `failed` nothing more is added: the caller looks once, at the end. */
struct text {
    char *bytes; /* NUL-terminated when not NULL */
    size_t n, room;
    bool failed; /* no memory */
};
void text_add(struct text *t, const char *bytes, size_t n);
void text_fini(struct text *t);

/* Adds bytes as well-formed UTF-8: each maximal ill-formed part becomes U+FFFD (text/utf8.h). */
void text_add_utf8(struct text *t, const char *bytes, size_t n);

enum text_kind { TEXT_PLAIN, TEXT_MARKDOWN, TEXT_HTML, TEXT_N_KIND };
extern const char *const text_kind_name[TEXT_N_KIND];

/* By the end of the name, else by the first bytes. */
enum text_kind text_kind_guess(const char *name, const char *bytes, size_t n);

/* NULL = it is text, else why not ("it has NUL bytes"). */
const char *text_refuse(const char *bytes, size_t n);

/* Where the chunk that begins at text[0] ends: within `most` bytes, at the strongest break of its second half: before a
 * Markdown heading, behind an empty line, a line, a sentence, a word, a character.  1..n; a whole text that fits is
 * n. */
size_t text_cut(const char *text, size_t n, size_t most);

/* The text of HTML: markup, scripts and styles left out, blanks folded, a line per block, headings begin with '#'.
 * Time and memory are bounded by the input.  LUTRA_E_UNSUPPORTED names `name`: nested too deep, bytes that its charset
 * does not have, built without libxml2. */
int text_of_html(const char *name, const char *html, size_t n, struct text *out, struct lutra_error *err);

#endif
