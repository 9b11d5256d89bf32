/* SPDX-License-Identifier: MIT
 *
 * What the files of this room share: the store, statements with errors that name the file, growing text.
 *
 * One SQLite file in WAL mode.  `words` is an FTS5 index over the text of `chunk`, which it does not copy:
 *
 *     document ---< chunk ---- words          exchange ---< source >--- document
 *                   chunk ---< hint
 *
 * `lengths` has the number of words of each chunk, which FTS5 has in a row each (lengths.c); `hint` what models held
 * likely in chunks that they have read (recall.c).  schema.c has the tables; user_version is the number of their shape.
 */
#ifndef LUTRA_RAG_RAG_IMPL_H
#define LUTRA_RAG_RAG_IMPL_H

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "lutra/rag.h"
#include "rag/query.h"
#include "rag/text.h"

enum { RAG_SCHEMA_VERSION = 3, RAG_APPLICATION_ID = 0x4c757452 /* "LutR" */ };

struct word_cache;

struct lutra_store {
    sqlite3 *db;
    fts5_api *fts;
    fts5_tokenizer porter; /* FTS5's own, and what it is created with */
    void *porter_user;
    char *path;
    struct lutra_store_settings set;
    struct word_cache *words; /* find.c: lengths of chunks and the hits of common words, of one state of the file */
};

/* Says what SQLite's code means for this file, in words; returns the status. */
int store_fail(const lutra_store *s, int code, struct lutra_error *err);

int sql_prepare(lutra_store *s, sqlite3_stmt **out, const char *sql, struct lutra_error *err);
/* 1 = a row, 0 = done, or an error. */
int sql_step(lutra_store *s, sqlite3_stmt *stmt, struct lutra_error *err);
/* Steps a statement that yields no row, and makes it ready to be used again. */
int sql_do(lutra_store *s, sqlite3_stmt *stmt, struct lutra_error *err);
/* A statement without parameters whose rows nobody wants. */
int sql_run(lutra_store *s, const char *sql, struct lutra_error *err);
/* The integer that a statement without parameters yields; 0 without a row. */
int sql_number(lutra_store *s, const char *sql, int64_t *out, struct lutra_error *err);
/* Ends a transaction: commits when rc is 0, else rolls back; returns rc or the commit's error. */
int sql_end(lutra_store *s, int rc, struct lutra_error *err);

/* Binds text of n bytes, which must stay until the statement was stepped. */
void sql_bind_text(sqlite3_stmt *stmt, int i, const char *text, size_t n);

/* schema.c: makes the tables in an empty file; else checks that they are ours. */
int schema_open(lutra_store *s, struct lutra_error *err);

/* whole.c: the index and the lengths anew, from the texts; in a transaction of the caller's. */
int index_build(lutra_store *s, struct lutra_error *err);

/* lengths.c: how many words chunks have, as find.c reads them: from the index into `lengths`, and out of it.  In a
 * transaction of the caller's. */
int lengths_add(lutra_store *s, int64_t first, int64_t last, struct lutra_error *err);
int lengths_remove(lutra_store *s, int64_t first, int64_t last, struct lutra_error *err);
/* Calls fn for each chunk by its id; -1: no memory. */
int lengths_read(lutra_store *s, int (*fn)(void *user, int64_t id, uint32_t n), void *user, struct lutra_error *err);
/* LUTRA_E_FORMAT where they are not the index's. */
int lengths_check(lutra_store *s, struct lutra_error *err);

/* tokenizer.c: registers the tokenizer `lutra` and yields FTS5's interface. */
int tokenizer_register(lutra_store *s, struct lutra_error *err);
/* Calls fn for each token of a text as the index has it; nonzero ends it.  Returns fn's, or an error's, code of
 * SQLite. */
int tokenizer_run(lutra_store *s, const char *text, size_t n,
    int (*fn)(void *user, int flags, const char *token, int n, int begin, int end), void *user);

/* find.c: the auxiliary function of its searches. */
int find_register(lutra_store *s, struct lutra_error *err);

/* In how many chunks the phrases of a query stand, and which of them in one chunk. */
struct holders {
    int64_t chunk;                /* given */
    int64_t n_chunk;              /* of the store */
    int64_t n[QUERY_PHRASES_MAX]; /* chunks with the phrase */
    bool has[QUERY_PHRASES_MAX];  /* the given one has it */
};
int find_holders(lutra_store *s, const struct query *q, struct holders *h, struct lutra_error *err);
void word_cache_free(struct word_cache **cache);

/* passages.c */
struct found {
    struct lutra_passage public; /* name and text: offsets into the text until they are all there */
    int64_t document;            /* their order in a message */
    size_t name_at, text_at;
};

struct lutra_passages {
    int n, room;
    struct found *found;
    struct text all; /* names and texts, a NUL behind each */
};

/* Bytes of its text without blanks at the end, as a message has it. */
size_t passage_length(const struct lutra_passage *p);

/* From a row of document, begin, end, text, name.  -1: no memory. */
int passages_add(lutra_passages *p, int64_t chunk, double score, sqlite3_stmt *row);
/* When all are there. */
int passages_finish(lutra_passages *p);

#endif
