/* SPDX-License-Identifier: MIT
 *
 * The charset of a text, by its byte order mark and by what is valid, and its text in UTF-8.
 */
#ifndef LUTRA_RAG_CHARSET_H
#define LUTRA_RAG_CHARSET_H

#include "rag/text.h"

enum charset {
    CHARSET_UNKNOWN,
    CHARSET_UTF8,
    CHARSET_UTF16LE,
    CHARSET_UTF16BE,
    CHARSET_UTF32LE,
    CHARSET_UTF32BE,
    CHARSET_WINDOWS_1252
};

/* UTF-16 and UTF-32 by their marks.  Else UTF-8, where at least as many characters beyond ASCII are well-formed as are
 * not; else Windows-1252 (of which ISO 8859-1 is a part), where it has all bytes and its letters beyond ASCII are not
 * nearly all beside each other, as those of other scripts' charsets are; else unknown. */
enum charset charset_guess(const char *bytes, size_t n);

/* Adds the text without its mark.  What is ill-formed becomes U+FFFD; `unknown` is read as UTF-8. */
void charset_add(struct text *out, enum charset charset, const char *bytes, size_t n);

#endif
