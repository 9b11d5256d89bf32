/* SPDX-License-Identifier: MIT
 *
 * `lutra run --rag`: passages of a store before the question, a list of them under the answer, the exchange into the
 * history.
 *
 *     rag_ask()        the question behind what the store has for it and the last questions, as much as fits; passages
 *                      that stand in the conversation already are not given again, so that a conversation only grows,
 *                      and the prefix cache serves all that came before
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
    int turn;   /* of the conversation, counted from the first that was ever asked */
};

struct rag {
    const char *path; /* NULL = no --rag */
    lutra_store *store;
    lutra_drafts *drafts; /* NULL = none wanted */
    int32_t *likely;      /* [n_likely] the store's most frequent tokens, where it drafts */
    int n_likely;
    lutra_recall *recall; /* hints of the passages, where the session is calibrated; NULL = none */
    int n_passages;       /* at most, for one question */
    bool quiet, anyway;   /* anyway: ask although nothing was found */
    lutra_passages *found;
    struct buffer question; /* that they were found for; as it was typed */
    struct buffer earlier;  /* the last questions that were answered, the latest first, a line each */
    int *fresh;             /* [n_fresh] of them, best first: those that the conversation lacks */
    int n_fresh;
    struct rag_shown *shown;      /* [n_shown] passages of the conversation */
    int n_shown, n_earlier, room; /* n_earlier: before the last question */
    int n_turn, n_dropped;        /* asked, and of these no more there */
    int last_number;              /* of a passage */
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

/* What follows is another conversation, of which n_turn are there already. */
void rag_forget(struct rag *r, int n_turn);
/* The oldest turn left the conversation, and its passages with it. */
void rag_drop_turn(struct rag *r);

/* Where a message goes. */
struct rag_place {
    int (*put)(
        void *user, const char *message); /* 1 = it fits, 0 = it does not and was taken back, -1 = failed, after a
                                                  * message */
    int (*put_bare)(void *user, const char *question); /* 1, whether it fits or not, or -1 */
    void *user;
    bool passages_alone; /* the message has passages only: the question follows by itself */
};

/* Puts the question behind its passages, or by itself where none fits.  0, or an exit code after a message:
 * EXIT_FAILED, too, where nothing was found or fits and --rag-anyway was not given; then nothing was put. */
int rag_ask(struct rag *r, const char *question, size_t n, const struct rag_place *place);

/* How many tokens are left to an answer that was not given a limit. */
int rag_reserve(int n_predict, int n_ctx);
/* The last question left the conversation, and its passages with it. */
void rag_take_back(struct rag *r);
int rag_finish(struct rag *r, const struct buffer *answer);

#endif
