/* SPDX-License-Identifier: MIT
 *
 * A user's text as phrases of FTS5: nothing in it is syntax.
 */
#ifndef LUTRA_RAG_QUERY_H
#define LUTRA_RAG_QUERY_H

#include "rag/text.h"

enum { QUERY_PHRASES_MAX = 128, QUERY_WORD_BYTES = 256 };

struct query {
    struct text text;                 /* the phrases, in quotes, a NUL behind each */
    size_t phrase[QUERY_PHRASES_MAX]; /* where each begins */
    int n;
};

/* A phrase is a word of letters and digits in its folded form (words.h), joined by . _ - ' where these stand inside it
 * (FTS5 cuts "file_name.txt" into words that follow each other).  Where words are cut into characters each pair of
 * neighbours is one, without the particles at the end of a Korean word.
 * The first QUERY_PHRASES_MAX different ones.  False: no memory.  query_fini() in any case. */
bool query_read(struct query *q, const char *text, size_t n);
/* Adds the phrases of another text. */
bool query_add(struct query *q, const char *text, size_t n);
void query_fini(struct query *q);

#endif
