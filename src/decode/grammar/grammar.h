/* SPDX-License-Identifier: MIT
 *
 * Constrained decoding: a grammar or JSON Schema in, and for each state the set of tokens that may come next.
 *
 *     TRY(grammar_open_gbnf(&g, text, n_bytes, err));           // or grammar_open_schema()
 *     TRY(grammar_vocab_open(&v, token, n_vocab, err));         // once per vocabulary
 *     TRY(grammar_machine_open(&m, g, v, err));
 *     int32_t state = grammar_start(m);                         // of a new sequence; a fork copies the number
 *     TRY(grammar_mask(m, state, mask, err));                   // bit t: token t may follow
 *     TRY(grammar_follow(m, state, token, &state, err));        // after a token was chosen, or along a draft
 *
 * The machine is a pushdown automaton over bytes.  A state stands for all derivations that the text so far has, their
 * stacks merged where they meet, and is a number: equal numbers allow equal continuations.  States, their transitions
 * and their masks are made when first asked for and kept.
 *
 * A grammar and a vocabulary are read-only once open: any thread.  A machine has one user at a time.
 */
#ifndef LUTRA_DECODE_GRAMMAR_GRAMMAR_H
#define LUTRA_DECODE_GRAMMAR_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lutra/status.h"

struct grammar;

/* Text in llama.cpp's notation (grammars/README.md there); `root` is what is matched.  Refused, with the line
 * (err->where): what cannot be parsed, rules that are missing or defined twice, left recursion, a root that matches no
 * text, more than 1 MiB of text, 65,536 rules or 1,048,576 edges, 200 levels of parentheses.
 * Errors: LUTRA_E_FORMAT, LUTRA_E_UNSUPPORTED (token references), LUTRA_E_NO_MEMORY. */
int grammar_open_gbnf(struct grammar **out, const char *text, size_t n_bytes, struct lutra_error *err);

/* A JSON Schema (draft 2020-12); the README beside says which keywords.  A text that matches is valid JSON and holds by
 * the schema; the reverse is not so (properties come in the schema's order, white space is limited, ...).
 * Errors: LUTRA_E_FORMAT (no JSON, or a keyword with a wrong value), LUTRA_E_UNSUPPORTED (a keyword or combination that
 * is not built); both name the path, as `#/properties/a/minimum`.  LUTRA_E_NO_MEMORY. */
int grammar_open_schema(struct grammar **out, const char *json, size_t n_bytes, struct lutra_error *err);

/* Structural tags (structure.c): text that is free up to a trigger and constrained behind it.  Errors as above; parts
 * of schemas that are not strict and not built stay unconstrained. */
int grammar_open_structure(struct grammar **out, const char *json, size_t n_bytes, struct lutra_error *err);

/* The first of these parts and why; NULL: there is none. */
const char *grammar_note(const struct grammar *grammar);

void grammar_close(struct grammar **grammar);

struct grammar_token {
    const char *p; /* [n] the bytes that the token adds to the text */
    size_t n;      /* 0: it is allowed in free text only, but for `ends` */
    bool ends;     /* ends generation: allowed where the text may end */
};

struct grammar_vocab;

/* Builds the trie of a vocabulary; the bytes are copied.  LUTRA_E_NO_MEMORY, LUTRA_E_ARGUMENT (a token above 4,096
 * bytes). */
int grammar_vocab_open(
    struct grammar_vocab **out, const struct grammar_token *token, int32_t n_vocab, struct lutra_error *err);
void grammar_vocab_close(struct grammar_vocab **vocab);

struct grammar_machine;

enum {
    GRAMMAR_DEAD = -1, /* the state of a text that the grammar does not allow */
    GRAMMAR_OVER = -2, /* the state behind an end token: nothing follows */
};

/* Borrows both, which must outlive it. */
int grammar_machine_open(struct grammar_machine **out, const struct grammar *grammar, const struct grammar_vocab *vocab,
    struct lutra_error *err);
void grammar_machine_close(struct grammar_machine **machine);

int32_t grammar_start(const struct grammar_machine *machine);

/* Whether the text that led to this state may be all. */
bool grammar_may_end(const struct grammar_machine *machine, int32_t state);

/* Whether it may, and no more text may follow. */
bool grammar_is_whole(const struct grammar_machine *machine, int32_t state);

/* *next: the state behind `n` more bytes, or behind a token; GRAMMAR_DEAD where they are not allowed.
 * LUTRA_E_NO_MEMORY: also where the machine would have more than 262,144 states. */
int grammar_read(struct grammar_machine *machine, int32_t state, const char *bytes, size_t n, int32_t *next,
    struct lutra_error *err);
int grammar_follow(
    struct grammar_machine *machine, int32_t state, int32_t token, int32_t *next, struct lutra_error *err);

/* mask: [(n_vocab + 63) / 64] bit t % 64 of word t / 64 says whether token t may follow.  Returns 1 where, in free
 * text, all may. */
int grammar_mask(struct grammar_machine *machine, int32_t state, uint64_t *mask, struct lutra_error *err);

/* Work so far, for tests and measurements. */
struct grammar_counts {
    int64_t states, frames; /* that exist */
    int64_t masks;          /* asked for */
    int64_t cores;          /* walks of the whole vocabulary */
    int64_t nodes;          /* trie nodes visited */
    int64_t bytes;          /* of memory, without the grammar's and the vocabulary's */
    bool is_large;          /* half of what a machine may hold: new texts better begin with a new one */
};
struct grammar_counts grammar_counts(const struct grammar_machine *machine);

/* Machines by the text of their grammar, shared by all who ask for the same (cache.c).  The machine keeps its one user:
 * the thread that steps.  The functions here may be called by any thread, but for grammar_entry_measure(). */
enum grammar_kind { GRAMMAR_GBNF, GRAMMAR_SCHEMA, GRAMMAR_STRUCTURE };
struct grammar_cache;
struct grammar_entry;

/* Keeps the n_most used last, and no more than about bytes_most; those in use live on beside them. */
int grammar_cache_open(struct grammar_cache **out, int n_most, int64_t bytes_most, struct lutra_error *err);
/* After all entries have been given back. */
void grammar_cache_close(struct grammar_cache **cache);
/* Borrows vocab; errors as of the grammar_open functions. */
int grammar_cache_take(struct grammar_cache *cache, enum grammar_kind kind, const char *text, size_t n,
    const struct grammar_vocab *vocab, struct grammar_entry **out, struct lutra_error *err);
struct grammar_machine *grammar_entry_machine(const struct grammar_entry *entry);
const char *grammar_entry_note(const struct grammar_entry *entry); /* grammar_note() */
/* Tells the cache how large the machine has become; by the machine's user. */
void grammar_entry_measure(struct grammar_entry *entry);
/* Sets it NULL; NULL is allowed. */
void grammar_entry_give(struct grammar_entry **entry);

#endif
