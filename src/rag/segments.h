/* SPDX-License-Identifier: MIT
 *
 * The segments of a store: in the folder STORE-tokens, one file for many texts, VOCABULARY-GENERATION.seg.
 *
 * A file never changes.  New ones get a higher generation and come by rename; what they hold in place of others is
 * theirs from then on, and the others go.  Who changes the folder holds its lock; who cannot get it works in memory.
 */
#ifndef LUTRA_RAG_SEGMENTS_H
#define LUTRA_RAG_SEGMENTS_H

#include "rag/rag_impl.h"
#include "rag/segment.h"

enum { SEGMENTS_MOST = 24 };

struct segments {
    struct segment at[SEGMENTS_MOST];
    int n;
    int64_t n_text, n_symbol;
};

/* Those of one model's vocabulary with all texts of the store: new texts are tokenized, files that hold removed ones or
 * are damaged made anew, small ones merged. */
int segments_open(struct segments *s, lutra_store *store, const lutra_model *model, lutra_progress_fn progress,
    void *progress_user, struct lutra_error *err);
void segments_close(struct segments *s);

/* Makes the files of all vocabularies anew that hold texts which the store has not. */
int segments_compact(lutra_store *store, struct lutra_error *err);

/* Bytes of all files. */
uint64_t segments_bytes(const lutra_store *store);

#endif
