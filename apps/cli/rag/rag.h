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
    int top, chunk_size;
    bool json, history, check, quiet, progress, verbose;
};

/* Opens the store of --db, else that of the user; NULL after a message.  *code: the exit code then. */
lutra_store *rag_open(const struct rag_options *o, bool must_exist, int *code);

/* `lutra rag add`: an exit code. */
int rag_add(lutra_store *store, const struct rag_options *o, const char *const *path, int n);

/* The command of --convert for a file, or NULL: ".pdf=pdftotext {} -" is for names that end so (*by_end), "CMD" for
 * all. */
const char *converter_for(const struct option_list *convert, const char *path, bool *by_end);

/* Runs a command: words between blanks, {} is the path, which comes last where there is none; no shell.  Its standard
 * output in `out`, at most n_max bytes.  0, or -1 after a message. */
int convert(const char *command, const char *path, size_t n_max, struct buffer *out);

#endif
