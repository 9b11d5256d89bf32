/* SPDX-License-Identifier: MIT */
#include "decode/sample/breakers.h"

#include <stdlib.h>
#include <string.h>

#include "text/encode.h"

static const char *const default_breakers[] = {"\n", ":", "\"", "*"};
enum { BREAKER_BYTES = 40, BREAKER_TOKENS = 20, BREAKERS = 1 << 20 }; /* llama.cpp's limits; and of all entries */

struct breakers {
    struct sample_breaker *entry;
    size_t n, room;
    int32_t *tail; /* of the entries, one behind another; their `tail` is an index until the end */
    size_t n_tail, tail_room;
};

static int add_breaker(
    struct breakers *b, int32_t head, const int32_t *tail, size_t n_tail, size_t first, struct lutra_error *err)
{
    if (n_tail > BREAKER_TOKENS) n_tail = BREAKER_TOKENS;
    for (size_t i = first; i < b->n; i++) {
        const struct sample_breaker *is = &b->entry[i];
        if ((size_t)is->n_tail == n_tail &&
            (n_tail == 0 || memcmp(b->tail + (uintptr_t)is->tail, tail, n_tail * sizeof *tail) == 0))
            return 0;
    }
    if (b->n == BREAKERS) return lutra_fail(err, LUTRA_E_ARGUMENT, "dry_sequence_breakers: in too many tokens");
    if (b->n == b->room) {
        void *more = realloc(b->entry, (b->room = b->room * 2 + 64) * sizeof *b->entry);
        if (!more) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
        b->entry = more;
    }
    if (b->n_tail + n_tail > b->tail_room) {
        void *more = realloc(b->tail, (b->tail_room = b->tail_room * 2 + 256) * sizeof *b->tail);
        if (!more) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
        b->tail = more;
    }
    b->entry[b->n++] = (struct sample_breaker){head, (int)n_tail, (const int32_t *)(uintptr_t)b->n_tail};
    if (n_tail) memcpy(b->tail + b->n_tail, tail, n_tail * sizeof *tail);
    b->n_tail += n_tail;
    return 0;
}

/* The ways in which the text of token `head` can hold a breaker, or begin one that the tokens of the rest go on
 * with. */
static int break_at_token(const struct text_vocab *vocab, int32_t head, const char *text, struct breakers *b,
    const struct text_tokens *rest, struct lutra_error *err)
{
    struct text_bytes piece = text_token_piece(vocab, head, TEXT_PIECE_SPECIAL);
    size_t n = strlen(text), first = b->n;
    while (first > 0 && b->entry[first - 1].head == head) first--;
    if (piece.n >= n && memmem(piece.p, piece.n, text, n)) return add_breaker(b, head, NULL, 0, first, err);
    for (size_t at = 0; at < piece.n; at++) {
        size_t same = piece.n - at;
        if (same >= n || memcmp(piece.p + at, text, same) != 0) continue;
        TRY(add_breaker(b, head, rest[same].ids, rest[same].n, first, err));
    }
    return 0;
}

static int check_breaker(const char *text, struct lutra_error *err)
{
    if (text && *text && strlen(text) <= BREAKER_BYTES) return 0;
    return lutra_fail(
        err, LUTRA_E_ARGUMENT, "dry_sequence_breakers: one is empty, or longer than %d bytes", BREAKER_BYTES);
}

/* rest[text][k]: the tokens of text from byte k on. */
static int tokenize_rests(const struct text_vocab *vocab, const char *const *text, int n_text,
    struct text_tokens (*rest)[BREAKER_BYTES], struct lutra_error *err)
{
    for (int i = 0; i < n_text; i++) {
        TRY(check_breaker(text[i], err));
        for (size_t k = 1; text[i][k]; k++)
            TRY(text_encode(vocab, text[i] + k, strlen(text[i] + k), 0, &rest[i][k], err));
    }
    return 0;
}

static int find_breakers(
    const struct text_vocab *vocab, const char *const *text, int n_text, struct breakers *b, struct lutra_error *err)
{
    struct text_tokens(*rest)[BREAKER_BYTES] = calloc((size_t)n_text, sizeof *rest);
    if (!rest) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    int rc = tokenize_rests(vocab, text, n_text, rest, err);
    for (size_t t = 0; rc == 0 && t < text_vocab_n_tok(vocab); t++)
        for (int i = 0; rc == 0 && i < n_text; i++) rc = break_at_token(vocab, (int32_t)t, text[i], b, rest[i], err);
    for (int i = 0; i < n_text; i++)
        for (int k = 0; k < BREAKER_BYTES; k++) text_tokens_fini(&rest[i][k]);
    free(rest);
    return rc;
}

int sample_breakers_check(const char *const *text, int n_text, struct lutra_error *err)
{
    if (n_text >= -1 && n_text <= 64 && (n_text <= 0 || text)) return 0;
    return lutra_fail(err, LUTRA_E_ARGUMENT, "dry_sequence_breakers: %d, at most 64, or no list", n_text);
}

int sample_breakers_find(const struct text_vocab *vocab, const char *const *text, int n_text,
    struct sample_settings *out, int32_t **tail, struct lutra_error *err)
{
    struct breakers b = {0};
    TRY(sample_breakers_check(text, n_text, err));
    if (n_text == 0) text = default_breakers, n_text = sizeof default_breakers / sizeof *default_breakers;
    int rc = find_breakers(vocab, text, n_text, &b, err);
    for (size_t i = 0; i < b.n; i++) b.entry[i].tail = b.tail + (uintptr_t)b.entry[i].tail;
    out->breaker = b.entry;
    out->n_breaker = (int)b.n;
    *tail = b.tail;
    return rc;
}
