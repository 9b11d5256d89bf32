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

/* Text of which parts may not become control tokens: text_mark() copies such a part and puts `mark`, a few bytes that
 * occur nowhere else, into every spelling of a control token (and into what may be the beginning of one, at the end).
 * text_encode_marked() takes the marks out again and recognises no special token across one; otherwise it is
 * text_encode(). *out is the caller's to free(); LUTRA_E_NO_MEMORY. */
int text_mark(const struct text_vocab *vocab, struct text_bytes text, struct text_bytes mark, struct text_bytes *out);
int text_encode_marked(const struct text_vocab *vocab, struct text_bytes text, unsigned flags, struct text_bytes mark,
    struct text_tokens *out, struct lutra_error *err);

void text_tokens_fini(struct text_tokens *tokens);

#endif
