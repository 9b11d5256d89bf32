/* SPDX-License-Identifier: MIT
 *
 * `lutra rag`: the documents that `lutra run --rag` answers from.
 *
 *     rag.c       options, opening, the commands but add
 *     add.c       files and folders into the store
 *     convert.c   files that are no text, through a program of the user's
 */
#ifndef LUTRA_CLI_RAG_RAG_H
#define LUTRA_CLI_RAG_RAG_H

#include "cli.h"

struct rag_options {
    const char *db;
    struct option_list convert;
    int top, chunk_size, convert_seconds;
    bool json, history, check, quiet, progress, verbose, sync;
};

/* Opens the store of --db, else that of the user; NULL after a message.  *code: the exit code then. */
lutra_store *rag_open(const struct rag_options *o, bool must_exist, int *code);

/* `lutra rag add`: an exit code. */
int rag_add(lutra_store *store, const struct rag_options *o, const char *const *path, int n);

/* The name under which `add` took a file: its real path, or, where it is gone, the path below its folder's.  The
 * caller's. */
char *rag_stored_name(const char *path);

struct converter {
    const char *command; /* NULL = none */
    bool by_end;         /* for names that end so: such files are never taken as they are */
    bool unpacks;        /* what comes out is the file without its last end: "notes.md" of "notes.md.gz" */
    const char *end;     /* ".pdf", where nothing that converts such files was found on this machine */
    const char *missing; /* "pdftotext (Debian: poppler-utils)", then */
};

/* What converts a file: --convert's command for such names (".pdf=pdftotext {} -"), else what this machine has for
 * them, else --convert's command for all. */
struct converter converter_for(const struct option_list *convert, const char *path);

/* Runs a command: words between blanks, {} is the path, which comes last where there is none; no shell.  Its standard
 * output in `out`, at most n_max bytes, within `seconds`.  Ctrl-C ends it.  0, or -1 after a message. */
int convert(const char *command, const char *path, size_t n_max, int seconds, struct buffer *out);

#endif
