/* SPDX-License-Identifier: MIT
 *
 * A segment: texts as tokens of one vocabulary, with their suffix array; a file that is mapped, or the same bytes in
 * memory.
 *
 *     head | texts [n_text] | symbols [n] | order [n]          8 bytes a token, and 24 a text
 *
 * A symbol is a token + 1; 0 ends each text, so that no match goes from one into the next.  Files are made anew where
 * they do not fit: they hold nothing that the store lacks.  Numbers are the machine's own (a file from another one is
 * taken for damaged).
 */
#ifndef LUTRA_RAG_SEGMENT_H
#define LUTRA_RAG_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "rag/suffixes.h"

/* Which text it is: a document (id, hash of its bytes) or an exchange (minus id, time). */
struct text_key {
    int64_t id, hash;
};

struct segment_text {
    struct text_key key;
    int64_t begin; /* its first symbol; its last is 0 */
};

struct segment_head {
    char magic[8];
    int32_t version, n_symbol; /* n_symbol: tokens of the vocabulary + 1 */
    uint64_t vocab;            /* hash of it */
    int64_t n_text, n;
    uint64_t sum; /* hash of head (with 0 here) and all behind it */
};

struct segment {
    const struct segment_head *head;
    const struct segment_text *text; /* [n_text] */
    struct suffixes tokens;
    size_t n_bytes;
    bool is_mapped;
};

/* The symbols of text i. */
const int32_t *segment_text_symbols(const struct segment *s, int64_t i, int64_t *n);

/* Texts to make a segment of; zeroed is empty.  -1: no memory, or more than 2^31 - 2 symbols. */
struct gathered {
    struct segment_text *text;
    int32_t *symbol;
    size_t n_text, n, text_room, room;
};
int gathered_begin(struct gathered *g, struct text_key key);
int gathered_add(struct gathered *g, const int32_t *token, size_t n); /* tokens of the text begun last */
int gathered_end(struct gathered *g);
int gathered_copy(struct gathered *g, const struct segment *s, int64_t i);
void gathered_fini(struct gathered *g);

/* In memory, from what was gathered.  -1: no memory. */
int segment_make(struct segment *s, const struct gathered *g, uint64_t vocab, int32_t n_vocab);
/* Maps a file below a folder and reads all of it: -1 where it is no whole segment.  Whatever it holds, what is read of
 * it later stays within it. */
int segment_open(struct segment *s, int folder, const char *name);
/* Puts it into the folder under a name that is new, whole or not at all; -1, errno says why. */
int segment_save(const struct segment *s, int folder, const char *name);
void segment_close(struct segment *s);

#endif
