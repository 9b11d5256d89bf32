/* SPDX-License-Identifier: MIT
 *
 * Inside a vocabulary; private to text/.
 *
 * Merging works on symbols.  Symbols 0 .. n_tok-1 are the tokens; the ones above are strings that merges mention
 * but the vocabulary lacks (they can appear half-way through a merge).  All pieces lie in one buffer.
 */
#ifndef LUTRA_TEXT_VOCAB_IMPL_H
#define LUTRA_TEXT_VOCAB_IMPL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/encode.h"
#include "text/vocab.h"

#define TEXT_NO_SYMBOL UINT32_MAX

enum { TEXT_MAX_SPLITS = 5, TEXT_MAX_ENDS = 64 };

/* Every piece, end to end: piece i is bytes[at[i] .. at[i+1]). */
struct text_pieces {
    char *bytes;
    size_t n_bytes, cap_bytes;
    size_t *at; /* [n + 1] */
    size_t n, cap;
};

/* Open-addressing set of piece numbers, keyed by the piece's bytes. */
struct text_table {
    uint32_t *slots; /* [mask + 1] piece number or TEXT_NO_SYMBOL */
    size_t mask, n;
};

struct text_merge {
    uint32_t left, right; /* symbols; left == TEXT_NO_SYMBOL marks a free slot */
    uint32_t rank, product;
};

/* Characters as bytes that split patterns tell apart. */
struct text_classes {
    uint16_t page[0x1100];        /* of 256 characters each: which of letter[] */
    unsigned char (*letter)[256]; /* [n_pages] */
    size_t n_pages;
};

/* Tokens cut out of text, by their spellings. */
struct text_added {
    const struct text_pieces *pieces;
    struct text_pieces own; /* spellings in normalized text */
    uint32_t *entry;        /* [n] pieces ordered by bytes, no two equal */
    uint32_t *id;           /* tokens of the pieces; NULL: the same numbers */
    size_t n;
    bool first[256]; /* one starts with this byte */
};

struct text_vocab {
    size_t n_tok, max_piece_bytes;
    struct text_pieces pieces; /* [n_symbols] */
    uint8_t *types;            /* [n_tok] */
    struct text_table symbols; /* normal tokens and extra symbols */
    struct text_table found;   /* all tokens, special ones first */
    struct text_merge *merges; /* [merge_mask + 1] hashed by (left, right) */
    size_t merge_mask;
    uint32_t byte_symbol[256];
    struct text_added added[2]; /* looked for in the text, and then in normalized text */
    uint8_t *how;               /* [n_tok] enum text_added_how, or NULL: all 0 */
    int32_t ids[TEXT_N_SPECIAL];
    int32_t *eog; /* [n_eog] */
    size_t n_eog;
    bool add_bos, add_eos, add_space_prefix;
    bool add_sep;
    bool chars;                            /* words consist of characters, not bytes (SentencePiece) */
    bool wordpiece, lowercase, no_accents; /* wpm.c */
    enum text_spaces spaces;
    bool split_spaces, no_bytes, fuse_unknown;
    int32_t unknown;
    uint32_t *rank; /* [n_tok] by falling score (SentencePiece), or NULL: merges are listed */
    bool nfc;
    bool ignore_merges;                 /* a whole word found in the vocabulary wins over merging */
    struct text_classes classes;        /* what split[] reads instead of text */
    pcre2_code *split[TEXT_MAX_SPLITS]; /* each cuts the pieces that the one before left; NULL after the last */
};

/* pieces.c */
struct text_bytes text_pieces_get(const struct text_pieces *pieces, size_t i);
int text_pieces_add(struct text_pieces *pieces, const char *bytes, size_t n_bytes);
void text_pieces_fini(struct text_pieces *pieces);
int text_table_init(struct text_table *table, size_t n_max);
uint32_t text_table_find(
    const struct text_table *table, const struct text_pieces *pieces, const char *bytes, size_t n_bytes);
/* Adds piece i unless its bytes are there; returns the piece that holds them, TEXT_NO_SYMBOL if memory ran out. */
uint32_t text_table_add(struct text_table *table, const struct text_pieces *pieces, uint32_t i);
void text_table_fini(struct text_table *table);

/* bytemap.c: GPT-2's printable spelling of bytes, undone.  Writes at most n_bytes to out, returns how many. */
size_t text_bytemap_decode(const char *spelt, size_t n_bytes, char *out);
/* Whether every character spells a byte; merging never gives a token with another one. */
bool text_bytemap_spells(struct text_bytes spelt);

/* presplit.c: sets the patterns, ignore_merges and what the name implies for bos.  LUTRA_E_UNSUPPORTED for a name
 * that is not implemented. */
int text_presplit_open(struct text_vocab *vocab, const char *name, struct lutra_error *err);
void text_presplit_fini(struct text_vocab *vocab);

/* classes.c: bytes[i] is pattern[i], i = 0 .. until NULL, over the bytes of text_classes_write(); the caller frees
 * them, also on failure.  text_classes_write() writes one byte for each character of the longest well-formed prefix,
 * which is *n_used bytes long, and returns how many. */
int text_classes_open(
    struct text_classes *classes, const char *const pattern[TEXT_MAX_SPLITS], char *bytes[TEXT_MAX_SPLITS]);
size_t text_classes_write(
    const struct text_classes *classes, const char *text, size_t n_bytes, unsigned char *out, size_t *n_used);
void text_classes_fini(struct text_classes *classes);

/* markers.c: the type of a token by its spelling, `type` where the spelling says nothing. */
uint8_t text_marker_type(struct text_bytes spelt, uint8_t type);
bool text_marker_known(struct text_bytes spelt); /* is it in the list? */
/* The tokens whose spelling ends generation; returns how many. */
size_t text_marker_ends(struct text_vocab *vocab, int32_t ends[TEXT_MAX_ENDS]);

/* merges.c: hash of (left, right). */
int text_merges_open(struct text_vocab *vocab, const struct text_vocab_source *src, struct lutra_error *err);
const struct text_merge *text_merges_find(const struct text_vocab *vocab, uint32_t left, uint32_t right);

/* added.c.  stage: the index in added[]; input, or NULL: text's bytes that are a
 * stranger's; marked: some text has such (text/encode.h).
 * find: the longest token that the text begins with and that the flags let through: its length, 0 if none.
 * around: moves *start (not below `from`) and *end of a token found in the text over the spaces it takes; false: it is
 * none here. */
int text_added_open(struct text_vocab *vocab);
void text_added_fini(struct text_vocab *vocab);
size_t text_added_find(const struct text_vocab *vocab, int stage, struct text_bytes text, unsigned flags,
    const uint8_t *input, bool marked, uint32_t *id);
bool text_added_around(
    const struct text_vocab *vocab, uint32_t id, struct text_bytes text, size_t from, size_t *start, size_t *end);
/* Among entry[low..high), which agree on `depth` bytes, the part whose next byte is `byte`. */
void text_added_narrow(const struct text_added *added, size_t *low, size_t *high, size_t depth, unsigned char byte);

/* spm.c: tokens and text with U+2581 as spaces (at most n_bytes are written, returns how many), the byte that "<0x0A>"
 * spells or -1, the ranks, and a stretch of text without special tokens. */
size_t text_spm_unspell(const char *spelt, size_t n_bytes, char *out);
int text_spm_byte(struct text_bytes spelt);
int text_spm_open(struct text_vocab *vocab, const struct text_vocab_source *src);

/* bpe.c: merges the bytes (or characters, if tokens have scores) of one word and appends its ids. */
struct text_bpe {
    const char *word;
    struct text_symbol *symbols; /* [cap] */
    struct text_candidate *heap; /* [3 * cap] */
    size_t cap;
};
int text_bpe_word(
    struct text_bpe *work, const struct text_vocab *vocab, const char *word, size_t n_bytes, struct text_tokens *out);
void text_bpe_fini(struct text_bpe *work);

/* wpm.c: whether no word of the vocabulary has a capital; a stretch of text without special tokens. */
bool text_wpm_is_lower(const struct text_vocab_source *src);
int text_wpm_text(const struct text_vocab *vocab, struct text_bytes text, struct text_tokens *out);

/* spm.c; prefix: a space goes before the text. */
int text_spm_text(struct text_bpe *work, const struct text_vocab *vocab, struct text_bytes text, bool prefix,
    struct text_tokens *out);

#endif
