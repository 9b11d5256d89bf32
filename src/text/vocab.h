/* SPDX-License-Identifier: MIT
 *
 * A vocabulary: token ids, the bytes they stand for, and the rules that turn text into ids.
 *
 *     struct text_vocab_source src = {.model = "gpt2", .pre = "qwen2", .tokens = tokens, .n_tok = n, ...};
 *     struct text_vocab *v;
 *     TRY(text_vocab_open(&v, &src, err));          // copies what it needs
 *     TRY(text_encode(v, text, n_bytes, TEXT_PARSE_SPECIAL, &ids, err));   // text/encode.h
 *     struct text_bytes piece = text_token_piece(v, id, 0);
 *     text_vocab_close(&v);
 *
 * The arrays are those of GGUF metadata (`tokenizer.ggml.*`); whoever reads the file fills them in.  They are
 * hostile input: every size and index is checked here.  A vocabulary is read-only once open: all functions but
 * open and close are safe from any thread, and only these two and text_encode allocate.
 */
#ifndef LUTRA_TEXT_VOCAB_H
#define LUTRA_TEXT_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lutra/status.h"

struct text_bytes {
    const char *p; /* may hold any bytes, not NUL-terminated */
    size_t n;
};

/* tokenizer.ggml.token_type */
enum text_token_type {
    TEXT_TOKEN_NORMAL = 1,
    TEXT_TOKEN_UNKNOWN = 2,
    TEXT_TOKEN_CONTROL = 3,
    TEXT_TOKEN_USER_DEFINED = 4,
    TEXT_TOKEN_UNUSED = 5,
    TEXT_TOKEN_BYTE = 6,
};

/* How a "llama" vocabulary puts spaces in front. */
enum text_spaces {
    TEXT_SPACES_PREPEND, /* one before every stretch of text between special tokens */
    TEXT_SPACES_NONE,
    TEXT_SPACES_FIRST,  /* one where the text begins, unless it begins with one or with a special token */
    TEXT_SPACES_ALWAYS, /* one before every stretch that does not begin with one */
};

/* What a special token does with the text around it. */
enum text_added_how {
    TEXT_ADDED_LSTRIP = 1,      /* takes the spaces before it */
    TEXT_ADDED_RSTRIP = 2,      /* takes the spaces behind it */
    TEXT_ADDED_SINGLE_WORD = 4, /* is none beside a letter, mark, digit or connector */
    TEXT_ADDED_NORMALIZED = 8,  /* is looked for in normalized text, after the others */
    TEXT_ADDED_MERGED = 16,     /* is not looked for: merges make it */
};

struct text_vocab_source {
    const char *model; /* "gpt2" (byte-level BPE), "llama" (SentencePiece), "bert" (WordPiece); others are refused */
    const char *pre;   /* pre-split, see presplit.c; NULL or "": "default" */
    size_t n_tok;      /* 1 .. INT32_MAX */
    const struct text_bytes *tokens;      /* [n_tok] as spelt in the file (byte-to-unicode map for normal tokens) */
    const int32_t *types;                 /* [n_tok] enum text_token_type, or NULL: all normal */
    const float *scores;                  /* [n_tok] of "llama": better ones merge first */
    size_t n_merge;                       /* of "gpt2" */
    const struct text_bytes *merges;      /* [n_merge] "left right", best first; NULL is refused, none is not */
    int32_t bos, eos, eot, eom, pad, unk; /* ids, -1 where the file names none; no token's id counts as none */
    int32_t fim_pad, fim_rep, fim_sep;    /* of fill-in-the-middle: they end generation */
    int32_t sep;                          /* between two texts; of "bert" it is the eos, too */
    bool add_sep;                         /* a pair of texts has one beside eos */
    int lowercase, strip_accents;         /* of "bert": 1, 0, or -1: as its tokens imply; as lowercase */
    int add_bos, add_eos;                 /* what TEXT_ADD_SPECIAL adds: 1, 0, or -1 for what `model` and `pre` imply */
    const char *name;     /* the model's, or NULL: special tokens of Phi-3 swallow the spaces behind them */
    bool nfc;             /* of "gpt2": text is brought to Normalization Form C first */
    int ignore_merges;    /* of "gpt2": a whole word that is a token is not merged; 1, 0, or -1: as `pre` implies */
    int add_space_prefix; /* of "llama": text after a special token begins with a space; 1, 0, or -1: it does */
    /* What a tokenizer.json says beyond that: */
    bool exact;              /* this follows; `name` and add_space_prefix mean nothing */
    enum text_spaces spaces; /* of "llama", as all until fuse_unknown; its merges are those listed */
    bool split_spaces;       /* every space begins a word */
    bool no_bytes;           /* a character without a token does not become bytes */
    int32_t unknown;         /* what a character (of "gpt2": a byte) without a token becomes; -1: nothing */
    bool fuse_unknown;       /* several in a row become one */
    size_t n_added;
    const int32_t *added; /* [n_added][2] token, enum text_added_how; others: 0 */
};

/* A source with every special id absent and nothing said about bos and eos. */
struct text_vocab_source text_vocab_source_default(void);

struct text_vocab;

/* Builds a vocabulary.  On success the caller owns *out; on failure *out is NULL.
 * Errors: LUTRA_E_UNSUPPORTED (model or pre-split, by name), LUTRA_E_FORMAT (no merges or scores, a merge without two
 * halves, a type out of range; err->where = its index), LUTRA_E_ARGUMENT, LUTRA_E_NO_MEMORY. */
int text_vocab_open(struct text_vocab **out, const struct text_vocab_source *src, struct lutra_error *err);
void text_vocab_close(struct text_vocab **vocab); /* *vocab may be NULL; sets it to NULL */

size_t text_vocab_n_tok(const struct text_vocab *vocab);
size_t text_vocab_max_piece_bytes(const struct text_vocab *vocab); /* longest piece of any id */

/* Whether encoding puts a space before each stretch of text, which decoding has to take away. */
bool text_vocab_adds_space(const struct text_vocab *vocab);

/* Special ids, -1 where absent. */
enum text_special {
    TEXT_BOS,
    TEXT_EOS,
    TEXT_EOT,
    TEXT_EOM,
    TEXT_PAD,
    TEXT_UNK,
    TEXT_FIM_PAD,
    TEXT_FIM_REP,
    TEXT_FIM_SEP,
    TEXT_SEP,
    TEXT_N_SPECIAL
};
int32_t text_vocab_special(const struct text_vocab *vocab, enum text_special which);

bool text_vocab_adds_bos(const struct text_vocab *vocab); /* does TEXT_ADD_SPECIAL begin with bos? */
bool text_vocab_adds_eos(const struct text_vocab *vocab); /* does it end with eos? */
bool text_vocab_adds_sep(const struct text_vocab *vocab); /* does a pair of texts have a separator beside eos? */

/* The end-of-generation set: eos, eot, eom, fim_pad, fim_rep, fim_sep and every token spelt as one of the known end
 * markers (markers.c).  Stopping on eos alone lets instruction models run on. */
bool text_is_eog(const struct text_vocab *vocab, int32_t id);
size_t text_vocab_n_eog(const struct text_vocab *vocab);
const int32_t *text_vocab_eog(const struct text_vocab *vocab); /* [n_eog] ascending, borrowed */

/* Type of an id: the file's, but for the spellings of markers.c; 0 where the id is out of range. */
enum text_token_type text_token_type(const struct text_vocab *vocab, int32_t id);

enum text_piece_flags { TEXT_PIECE_SPECIAL = 1 }; /* spell control and unknown tokens out; else they are empty */

/* The bytes of a token (borrowed, valid until close): raw bytes for normal tokens, the text for others.
 * Empty where the id is out of range. */
struct text_bytes text_token_piece(const struct text_vocab *vocab, int32_t id, unsigned flags);

/* Id of the token whose piece is exactly these bytes, special tokens before normal ones; -1 if none. */
int32_t text_token_find(const struct text_vocab *vocab, const char *bytes, size_t n_bytes);

/* Tokens that two vocabularies share: 0 .. n - 1, where both have tokens that text consists of; padding (unused ids) at
 * the end of either does not count.  *differs: the first of them, beside `except`, that is another token in the other;
 * -1: none. */
int32_t text_vocab_common(const struct text_vocab *a, const struct text_vocab *b, int32_t except, int32_t *differs);

#endif
