/* SPDX-License-Identifier: MIT
 *
 * From text to token ids: special tokens are cut out first, the rest is pre-split and merged by rank.
 *
 *     struct text_tokens ids = {0};
 *     TRY(text_encode(vocab, text, n_bytes, TEXT_ADD_SPECIAL | TEXT_PARSE_SPECIAL, &ids, err));
 *     ...
 *     text_tokens_fini(&ids);
 *
 * Text is bytes: what is not UTF-8 goes byte by byte through the same merges, so the pieces of the ids always
 * spell the input again, provided the vocabulary has all 256 byte tokens.  Time is O(n log n) whatever the input.
 */
#ifndef LUTRA_TEXT_ENCODE_H
#define LUTRA_TEXT_ENCODE_H

#include "text/vocab.h"
#include "text/work.h"

/* A growing list, {0} to begin with. */
struct text_tokens {
    int32_t *ids; /* [n] */
    size_t n, cap;
};

enum text_encode_flags {
    TEXT_ADD_SPECIAL = 1,   /* bos before and eos after, where the vocabulary asks for them */
    TEXT_PARSE_SPECIAL = 2, /* control tokens spelt in the text are recognised; user-defined ones always are */
};

/* Special tokens longer than this are never recognised inside text (bounds the search per byte). */
#define TEXT_SPECIAL_MAX_BYTES 256

/* Appends the ids of `text` to `out`, which stays owned by the caller (also on failure, then with an unspecified
 * number of new ids).  Bytes that the vocabulary has no token for become the unknown token where
 * the vocabulary's file says so, or nothing.
 * Errors: LUTRA_E_NO_MEMORY, LUTRA_E_ARGUMENT (2 GiB or more of text).  Safe from any thread; allocates. */
int text_encode(const struct text_vocab *vocab, const char *text, size_t n_bytes, unsigned flags,
    struct text_tokens *out, struct lutra_error *err);

/* The same where parts of the text are a stranger's: input[i] not 0 marks byte i, NULL marks none.  A control token
 * that has such a byte stays text (so do those that markers.c has typed user-defined to be seen: to write one is to
 * divide the prompt); user-defined tokens are recognised everywhere, as Hugging Face does.  work: who may end it, or
 * NULL; then its status. */
int text_encode_marked(const struct text_vocab *vocab, struct text_bytes text, const uint8_t *input, unsigned flags,
    const struct text_work *work, struct text_tokens *out, struct lutra_error *err);

int text_tokens_push(struct text_tokens *tokens, int32_t id); /* LUTRA_E_NO_MEMORY */
/* Copies to out [n_max] as many as there is room for; *n: how many there are. */
void text_tokens_give(const struct text_tokens *tokens, int32_t *out, int n_max, int *n);
void text_tokens_fini(struct text_tokens *tokens);

#endif
