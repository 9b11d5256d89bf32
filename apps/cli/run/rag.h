/* SPDX-License-Identifier: MIT
 *
 * `lutra run --rag`: passages of a store before the question, their sources under the answer, the exchange into the
 * history.
 *
 *     rag_find()       what the store has for a question; passages that stand in the conversation already are not given
 *                      again, so that a conversation only grows, and the prefix cache serves all that came before
 *     rag_message()    the question behind the best k of the new ones
 *     rag_take()       these k were used
 *     rag_finish()     after the answer
 *
 * With --spec-type auto, or a list with `store`, drafts come from the store, too (rag_take_types, rag_start_drafts).
 * With `calibrated` the store keeps what the model held likely in the passages (rag_recall).
 */
#ifndef LUTRA_CLI_RUN_RAG_H
#define LUTRA_CLI_RUN_RAG_H

#include "cli.h"

struct rag_shown {
    int64_t chunk;
    int number; /* as the model saw it */
};

struct rag {
    const char *path; /* NULL = no --rag */
    lutra_store *store;
    lutra_drafts *drafts; /* NULL = none wanted */
    int32_t *likely;      /* [n_likely] the store's most frequent tokens, where it drafts */
    int n_likely;
    lutra_recall *recall; /* hints of the passages, where the session is calibrated; NULL = none */
    int n_passages;       /* at most, for one question */
    bool quiet;
    lutra_passages *found;
    struct buffer question; /* that they were found for; as it was typed */
    int *fresh;             /* [n_fresh] of them, best first: those that the conversation lacks */
    int n_fresh;
    struct rag_shown *shown;      /* [n_shown] passages of the conversation */
    int n_shown, n_earlier, room; /* n_earlier: before the last question */
};

/* 0, or an exit code after a message. */
int rag_start(struct rag *r);
void rag_stop(struct rag *r);

/* Takes `store` out of a list of drafters: what is left is the session's.  *wants: drafts from the store are wanted.
 * The new list is the caller's; NULL: as it was. */
char *rag_take_types(const char *types, bool *wants);
/* 0, or an exit code after a message. */
int rag_start_drafts(struct rag *r, const lutra_model *model, const lutra_session *session);
/* What the store has of hints for the passages in a prompt, in r->recall; the next rag_finish() keeps new ones. */
int rag_recall(struct rag *r, const lutra_model *model, const lutra_session *session, const struct tokens *prompt);

/* What follows is another conversation. */
void rag_forget(struct rag *r);

int rag_find(struct rag *r, const char *question, size_t n);
/* How many tokens are left to an answer that was not given a limit. */
int rag_reserve(int n_predict, int n_ctx);
/* In *text, to be freed with lutra_free(); question: "" for the passages alone. */
int rag_message(const struct rag *r, int k, const char *question, size_t n, char **text);
void rag_take(struct rag *r, int k);
/* The last question left the conversation, and its passages with it. */
void rag_take_back(struct rag *r);
int rag_finish(struct rag *r, const struct buffer *answer);

#endif
