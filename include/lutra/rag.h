/* SPDX-License-Identifier: MIT
 *
 * A store of documents to answer from: one SQLite file on this machine, searched by words.
 *
 *     lutra_store *store = NULL;
 *     lutra_passages *found = NULL;
 *     lutra_store_open(&store, "notes.db", NULL, &err);
 *     struct lutra_document d;
 *     lutra_document_init(&d, sizeof d);
 *     d.name = "notes.md";  d.bytes = text;  d.n_bytes = n;
 *     lutra_store_add(store, &d, NULL, &err);
 *     lutra_store_find(store, question, n_question, 5, &found, &err);
 *     lutra_passages_message(found, NULL, 0, 1, question, n_question, &message, &err);
 *
 * The file holds documents, their text in chunks, an index of its words and the exchanges that were committed; nothing
 * leaves it.  Several programs may use it at once: each change is one transaction, and one that is killed in the middle
 * leaves the store as it was.  Errors name the file: LUTRA_E_BUSY, another program keeps it locked; LUTRA_E_IO, it
 * cannot be read or written, or the disk is full; LUTRA_E_FORMAT, it is damaged or no store; LUTRA_E_UNSUPPORTED, a
 * newer Lutra made it, or this one was built without SQLite.
 *
 * Threads: calls on one store must not overlap; each thread may open its own.
 */
#ifndef LUTRA_RAG_H
#define LUTRA_RAG_H

#include "lutra/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lutra_store lutra_store;
typedef struct lutra_passages lutra_passages;

struct lutra_store_settings {
    size_t size;
    bool must_exist;    /* LUTRA_E_NOT_FOUND where there is no file; else an empty store is made, for this user only */
    int chunk_bytes;    /* longest chunk of documents that are added, 200 .. 100000; 1000 */
    uint64_t busy_us;   /* how long to wait for other programs; 10 s */
    uint64_t max_bytes; /* longest document that is taken; 1 GiB */
};
LUTRA_API void lutra_store_settings_init(struct lutra_store_settings *settings, size_t size);

LUTRA_API int lutra_store_open(
    lutra_store **out, const char *path, const struct lutra_store_settings *settings, struct lutra_error *err);
LUTRA_API void lutra_store_close(lutra_store **store); /* sets *store to NULL */

/* ---- documents -------------------------------------------------------------------------------------------------- */

/* What is text: bytes without NUL in UTF-8, Windows-1252 (so ISO 8859-1, too), or UTF-16 or UTF-32 with a byte order
 * mark (lutra_text_charset()).  What is ill-formed becomes U+FFFD in the chunks; everything else is refused as binary,
 * or as of an unknown charset (LUTRA_E_UNSUPPORTED).  Kinds: "text", "markdown", "html" (needs libxml2; its own charset
 * counts). */
struct lutra_document {
    size_t size;
    const char *name;  /* path, or another name: UTF-8, at most 4096 bytes */
    const char *bytes; /* [n_bytes] of the file as it is: their hash says whether it has changed */
    size_t n_bytes;
    const char *kind; /* NULL = by the end of the name and the first bytes; of `text`: "text" */
    const char *text; /* [n_text] what a converter made of the file; NULL = the bytes themselves */
    size_t n_text;
    lutra_progress_fn progress; /* bytes of the text; cancelled, nothing is changed */
    void *progress_user;
};
LUTRA_API void lutra_document_init(struct lutra_document *document, size_t size);

enum lutra_added { LUTRA_ADDED, LUTRA_REPLACED, LUTRA_UNCHANGED };

/* Cuts a document into chunks and adds them, in place of an older one of that name, in one transaction. */
LUTRA_API int lutra_store_add(
    lutra_store *store, const struct lutra_document *document, enum lutra_added *what, struct lutra_error *err);

/* The charset as which lutra_store_add() reads text that is not HTML: "UTF-8", "windows-1252" (a guess: worth telling
 * the user), "UTF-16LE", "UTF-16BE", "UTF-32LE" or "UTF-32BE"; NULL: not known, it is refused. */
LUTRA_API const char *lutra_text_charset(const char *bytes, size_t n);

/* Would lutra_store_add() leave it unchanged?  Looks at name and bytes only. */
LUTRA_API int lutra_store_holds(
    lutra_store *store, const struct lutra_document *document, bool *holds, struct lutra_error *err);

/* Removes the document of that name, or all whose names begin with it and a slash, and the exchanges that were answered
 * from them, which may quote them.  *n_removed: documents, 0 is no error; may be NULL.  Until lutra_store_compact() the
 * file still has their words in places. */
LUTRA_API int lutra_store_remove(lutra_store *store, const char *name, int64_t *n_removed, struct lutra_error *err);

struct lutra_stored {
    const char *name, *kind; /* borrowed for the call */
    uint64_t n_bytes;        /* of the file */
    int64_t n_chunk;
    int64_t added; /* seconds since 1970 */
};
/* Calls fn for each document, by name; nonzero ends the list with LUTRA_E_CANCELLED. */
LUTRA_API int lutra_store_list(lutra_store *store, int (*fn)(void *user, const struct lutra_stored *document),
    void *user, struct lutra_error *err);

struct lutra_store_stats {
    size_t size;
    int64_t n_document, n_chunk, n_exchange;
    uint64_t text_bytes;  /* of the chunks */
    uint64_t file_bytes;  /* with the write-ahead log */
    uint64_t token_bytes; /* of the files beside it that drafts come from, of all vocabularies */
    uint64_t hint_bytes;  /* in the file: what models held likely in chunks that they have read (lutra_recall_save()) */
};
LUTRA_API int lutra_store_stats_get(
    lutra_store *store, struct lutra_store_stats *stats, size_t size, struct lutra_error *err);

/* Builds the index anew and writes the files without gaps: nothing of what was removed is left in them.  LUTRA_E_BUSY
 * while another program has it open in the middle of something: then the log may still hold removed text. */
LUTRA_API int lutra_store_compact(
    lutra_store *store, lutra_progress_fn progress, void *progress_user, struct lutra_error *err);

/* Reads everything and compares index and text; LUTRA_E_FORMAT says what is wrong. */
LUTRA_API int lutra_store_check(lutra_store *store, struct lutra_error *err);

/* ---- search ----------------------------------------------------------------------------------------------------- */

struct lutra_passage {
    int64_t chunk;       /* never given to another one */
    const char *name;    /* of the document */
    uint64_t begin, end; /* bytes of the document's text: of the file, unless that is HTML, converted or not UTF-8 */
    const char *text;    /* UTF-8, a NUL follows */
    size_t n_bytes;
    double score; /* bm25 of SQLite's FTS5 with its sign turned: more is better */
    int place;    /* among these passages in the order of documents and their text: 0 = first */
};

/* The n_max best chunks for a text, at most 1000, best first: exactly those of SQLite's bm25() over every chunk that
 * has one of the words; equal scores in the order of the chunks.  Any text will do: nothing in it is syntax.  Its words
 * are searched for, "file_name.txt" and "utf-8" as words that follow each other; the first 128 different ones count. */
LUTRA_API int lutra_store_find(
    lutra_store *store, const char *query, size_t n_query, int n_max, lutra_passages **out, struct lutra_error *err);
/* For a question that may follow others, whose words count half; not of very frequent words alone (docs/RAG.md). */
LUTRA_API int lutra_store_find_after(lutra_store *store, const char *earlier, size_t n_earlier, const char *query,
    size_t n_query, int n_max, lutra_passages **out, struct lutra_error *err);
LUTRA_API void lutra_passages_close(lutra_passages **passages);
LUTRA_API int lutra_passages_count(const lutra_passages *passages);
/* 0 = the best one; NULL past the end.  Valid until closed. */
LUTRA_API const struct lutra_passage *lutra_passages_at(const lutra_passages *passages, int i);

/* Cuts the i-th passage to at most n_most bytes: the part with most different words of the question. */
LUTRA_API int lutra_passages_shorten(
    lutra_passages *passages, int i, size_t n_most, const char *question, size_t n_question, struct lutra_error *err);

/* What an answer shares with the i-th passage beyond the words of the question: words and numbers that few chunks of
 * the store have, folded, ", " between them; "" = none.  Function words of English, German, French and Spanish and
 * numbers in brackets do not count.  Free with lutra_free(). */
LUTRA_API int lutra_passages_shared(lutra_store *store, const lutra_passages *passages, int i, const char *question,
    size_t n_question, const char *answer, size_t n_answer, char **words, struct lutra_error *err);

/* The message of a user who asks about passages: those of use[n_use] (NULL: all) in the order of their places, whatever
 * their scores, so that questions about the same ones begin alike; numbered from `first`; then the question.  Without
 * passages it is the question alone.  Free with lutra_free(); tokenize it as text (lutra_chat_tokenize(), or
 * lutra_tokenize() without LUTRA_PARSE_SPECIAL): who wrote the documents is not known. */
LUTRA_API int lutra_passages_message(const lutra_passages *passages, const int *use, int n_use, int first,
    const char *question, size_t n_question, char **text, struct lutra_error *err);

/* ---- exchanges -------------------------------------------------------------------------------------------------- */

struct lutra_exchange {
    size_t size;
    const char *question, *answer;
    size_t n_question, n_answer;    /* bytes */
    const lutra_passages *passages; /* answered from these; NULL = none */
};
LUTRA_API void lutra_exchange_init(struct lutra_exchange *exchange, size_t size);

/* Adds it to the history. */
LUTRA_API int lutra_store_commit(lutra_store *store, const struct lutra_exchange *exchange, struct lutra_error *err);

struct lutra_stored_exchange {
    int64_t id;
    int64_t added;                 /* seconds since 1970 */
    const char *question, *answer; /* borrowed for the call; UTF-8, a NUL follows */
    size_t n_question, n_answer;
};
/* Calls fn for each exchange, oldest first; nonzero ends it with LUTRA_E_CANCELLED. */
LUTRA_API int lutra_store_history(lutra_store *store,
    int (*fn)(void *user, const struct lutra_stored_exchange *exchange), void *user, struct lutra_error *err);

LUTRA_API int lutra_store_forget(lutra_store *store, struct lutra_error *err); /* removes all exchanges */

/* ---- drafts ----------------------------------------------------------------------------------------------------- */

/* Drafts from a store's texts for requests whose on_draft calls lutra_drafts_guess(): what stood behind the longest
 * end of a sample's text that the store has, too, with how often it went on so.  A draft's p is the share of the
 * matches that went on so; its kind is the match's length, whether it is the only one, and whether the draft stands
 * at the tip; the session learns what each kind is worth.  Samples of any sessions of the model may ask, one by one. */
typedef struct lutra_drafts lutra_drafts;

/* Documents and answers of the store as it is now, as tokens of the model; the model is not needed afterwards, nor the
 * store. They are kept in a folder beside the store, STORE-tokens, which this brings up to date: the first time takes
 * as long as it takes to tokenize everything.  Where that folder cannot be written, or another program is about to,
 * they are in memory only. */
LUTRA_API int lutra_drafts_open(lutra_drafts **out, lutra_store *store, const lutra_model *model,
    lutra_progress_fn progress, void *progress_user, struct lutra_error *err);
LUTRA_API void lutra_drafts_close(lutra_drafts **drafts);

/* At most n_max drafts, by falling estimate of their paths, parents first; returns how many.  Allocates nothing. */
LUTRA_API int lutra_drafts_guess(
    lutra_drafts *drafts, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max);

/* The texts' most frequent tokens, those first (equal ones: the lower id), at most n_max; returns how many.  For
 * lutra_request_experiment.likely, so that calibrated drafts look at them.  LUTRA_E_NO_MEMORY. */
LUTRA_API int lutra_drafts_likely(const lutra_drafts *drafts, int32_t *token, int n_max, struct lutra_error *err);

struct lutra_drafts_stats {
    size_t size;
    int64_t n_text, n_tok;
    int n_segment;          /* sorted parts that are looked through one by one */
    uint64_t segment_bytes; /* of files, or memory */
};
LUTRA_API void lutra_drafts_stats_get(const lutra_drafts *drafts, struct lutra_drafts_stats *stats, size_t size);

/* ---- hints ------------------------------------------------------------------------------------------------------ */

/* Hints of passages, kept for the next prompt that has them, wherever they stand in it: calibrated drafters then need
 * not ask the model again what it expects there.
 *
 *     lutra_recall_open(&recall, store, model, lutra_session_hints(session), found, prompt, n_prompt, &err);
 *     experiment.known_hints = lutra_recall_known(recall);
 *     experiment.on_hints = ...;    calls lutra_recall_take(recall, first, hints, n)
 *     lutra_generate(session, &request, &err);
 *     lutra_recall_save(recall, &err);
 *
 * What was kept was made behind another text: it is only a guess at what the model expects now, and no text depends on
 * it.  It may have words of whatever stood beside the passage, so all of it goes when a document is removed or
 * replaced, or the history forgotten. */
typedef struct lutra_recall lutra_recall;

/* Finds the passages in a prompt (by their tokens; those that are not there are left out) and reads what is kept of
 * them.  hints: the session's (lutra_session_hints()); those of another model are not looked at, and damaged ones not
 * used.  Store and passages must stay open. */
LUTRA_API int lutra_recall_open(lutra_recall **out, lutra_store *store, const lutra_model *model, uint64_t hints,
    const lutra_passages *passages, const int32_t *prompt, int n_prompt, struct lutra_error *err);
LUTRA_API void lutra_recall_close(lutra_recall **recall);

/* [n_prompt], valid until closed; NULL: nothing is known. */
LUTRA_API const struct lutra_hints *lutra_recall_known(const lutra_recall *recall);

/* Hints of prompt tokens first .. first + n - 1.  Allocates nothing. */
LUTRA_API void lutra_recall_take(lutra_recall *recall, int first, const struct lutra_hints *hints, int n);

/* Keeps those of passages that were not known, of which all were taken; nothing, where a passage has left the store
 * meanwhile.  In one transaction. */
LUTRA_API int lutra_recall_save(lutra_recall *recall, struct lutra_error *err);

#ifdef __cplusplus
}
#endif
#endif
