/* SPDX-License-Identifier: MIT
 *
 * Byte-pair merging of one word [Sennrich et al. 2016]: while any neighbours form a known pair, merge the pair of
 * the best rank, leftmost first.  A pair is known because a merge lists it, or (SentencePiece) because it is a token.
 * A binary heap of candidates with lazy deletion makes it O(n log n), which matters because a word may be a megabyte of
 * one letter.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "text/utf8.h"
#include "text/vocab_impl.h"

#define NONE UINT32_MAX

/* Doubly linked list over the word's bytes; a merged-away entry has n_bytes == 0, and so have all bytes of a
 * character but its first where characters are merged. */
struct text_symbol {
    uint32_t symbol; /* TEXT_NO_SYMBOL: a character that is no token */
    uint32_t n_bytes;
    uint32_t prev, next; /* NONE at the ends */
};

/* Stale unless the two symbols are still there. */
struct text_candidate {
    uint32_t rank, at; /* order: rank, then position */
    uint32_t left, right;
};

static int before(const struct text_candidate *a, const struct text_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(struct text_candidate *heap, size_t *n, struct text_candidate item)
{
    size_t at = (*n)++;
    for (; at > 0 && before(&item, &heap[(at - 1) / 2]); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = item;
}

static struct text_candidate pop(struct text_candidate *heap, size_t *n)
{
    struct text_candidate top = heap[0], last = heap[--*n];
    size_t at = 0;
    for (size_t child = 1; child < *n; child = 2 * at + 1) {
        if (child + 1 < *n && before(&heap[child + 1], &heap[child])) child++;
        if (!before(&heap[child], &last)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

static int reserve(struct text_bpe *work, size_t n_bytes)
{
    if (n_bytes <= work->cap) return 0;
    size_t cap = n_bytes < 256 ? 256 : n_bytes;
    text_bpe_fini(work);
    work->symbols = malloc(cap * sizeof *work->symbols);
    work->heap = malloc(3 * cap * sizeof *work->heap); /* n - 1 first pairs, then at most two per merge */
    if (!work->symbols || !work->heap) return LUTRA_E_NO_MEMORY;
    work->cap = cap;
    return 0;
}

void text_bpe_fini(struct text_bpe *work)
{
    free(work->symbols);
    free(work->heap);
    *work = (struct text_bpe){0};
}

static bool find_pair(
    const struct text_vocab *vocab, const struct text_bpe *work, uint32_t at, uint32_t *rank, uint32_t *product)
{
    const struct text_symbol *left = &work->symbols[at], *right = &work->symbols[left->next];
    if (vocab->rank) {
        size_t n_bytes = (size_t)left->n_bytes + right->n_bytes;
        if (n_bytes > vocab->max_piece_bytes) return false;
        *product = text_table_find(&vocab->symbols, &vocab->pieces, work->word + at, n_bytes);
        if (*product == TEXT_NO_SYMBOL) return false;
        *rank = vocab->rank[*product];
        return true;
    }
    const struct text_merge *merge = text_merges_find(vocab, left->symbol, right->symbol);
    if (!merge) return false;
    *rank = merge->rank;
    *product = merge->product;
    return true;
}

static void consider(const struct text_vocab *vocab, struct text_bpe *work, size_t *n_heap, uint32_t at)
{
    if (at == NONE || work->symbols[at].next == NONE) return;
    uint32_t left = work->symbols[at].symbol, right = work->symbols[work->symbols[at].next].symbol, rank, product;
    if (find_pair(vocab, work, at, &rank, &product))
        push(work->heap, n_heap, (struct text_candidate){rank, at, left, right});
}

static bool is_stale(const struct text_bpe *work, const struct text_candidate *c)
{
    const struct text_symbol *s = &work->symbols[c->at];
    return s->n_bytes == 0 || s->symbol != c->left || s->next == NONE || work->symbols[s->next].symbol != c->right;
}

static void merge_all(const struct text_vocab *vocab, struct text_bpe *work, size_t n_bytes)
{
    size_t n_heap = 0;
    for (uint32_t i = 0; i + 1 < n_bytes; i++)
        if (work->symbols[i].n_bytes) consider(vocab, work, &n_heap, i);
    while (n_heap > 0) {
        struct text_candidate c = pop(work->heap, &n_heap);
        if (is_stale(work, &c)) continue;
        struct text_symbol *left = &work->symbols[c.at], *right = &work->symbols[left->next];
        uint32_t rank;
        find_pair(vocab, work, c.at, &rank, &left->symbol);
        left->n_bytes += right->n_bytes;
        right->n_bytes = 0;
        left->next = right->next;
        if (left->next != NONE) work->symbols[left->next].prev = c.at;
        consider(vocab, work, &n_heap, left->prev);
        consider(vocab, work, &n_heap, c.at);
    }
}

/* The word as it is before any merge: bytes, or characters; a byte of no character is one by itself. */
static void start(const struct text_vocab *vocab, struct text_bpe *work, size_t n_bytes)
{
    uint32_t prev = NONE;
    for (uint32_t i = 0, n; i < n_bytes; prev = i, i += n) {
        int k = vocab->chars ? text_utf8_scan(work->word + i, n_bytes - i) : 1;
        n = k > 0 ? (uint32_t)k : 1;
        uint32_t symbol = vocab->chars ? text_table_find(&vocab->symbols, &vocab->pieces, work->word + i, n)
                                       : vocab->byte_symbol[(unsigned char)work->word[i]];
        for (uint32_t rest = 1; rest < n; rest++) work->symbols[i + rest].n_bytes = 0;
        work->symbols[i] = (struct text_symbol){symbol, n, prev, i + n < n_bytes ? i + n : NONE};
    }
}

/* Appends the unknown token, once for several in a row where they are fused. */
static int emit_unknown(const struct text_vocab *vocab, bool *fused, struct text_tokens *out)
{
    bool skip = vocab->unknown < 0 || (*fused && vocab->fuse_unknown);
    *fused = true;
    return skip ? 0 : text_tokens_push(out, vocab->unknown);
}

/* A string that is no token: a character without one, or what merges pass through.  It is spelt by the tokens of its
 * bytes.  Where these lack, a byte (of byte-level vocabularies) or the whole character is unknown. */
static int emit_bytes(
    const struct text_vocab *vocab, const char *bytes, size_t n_bytes, bool *fused, struct text_tokens *out)
{
    bool all = !vocab->no_bytes;
    for (size_t i = 0; i < n_bytes; i++) all &= vocab->byte_symbol[(unsigned char)bytes[i]] < vocab->n_tok;
    if (vocab->chars && !all) return emit_unknown(vocab, fused, out);
    for (size_t i = 0; i < n_bytes; i++) {
        uint32_t byte = vocab->byte_symbol[(unsigned char)bytes[i]];
        bool known = byte < vocab->n_tok;
        TRY(known ? text_tokens_push(out, (int32_t)byte) : emit_unknown(vocab, fused, out));
        if (known) *fused = false;
    }
    return 0;
}

int text_bpe_word(
    struct text_bpe *work, const struct text_vocab *vocab, const char *word, size_t n_bytes, struct text_tokens *out)
{
    if (n_bytes == 0) return 0;
    if (vocab->ignore_merges) {
        uint32_t whole = text_table_find(&vocab->symbols, &vocab->pieces, word, n_bytes);
        if (whole < vocab->n_tok) return text_tokens_push(out, (int32_t)whole);
    }
    TRY(reserve(work, n_bytes));
    work->word = word;
    start(vocab, work, n_bytes);
    merge_all(vocab, work, n_bytes);
    size_t at = 0;
    bool fused = false;
    for (uint32_t i = 0; i != NONE; i = work->symbols[i].next) {
        uint32_t symbol = work->symbols[i].symbol, n = work->symbols[i].n_bytes;
        bool known = symbol < vocab->n_tok;
        TRY(known ? text_tokens_push(out, (int32_t)symbol) : emit_bytes(vocab, word + at, n, &fused, out));
        if (known) fused = false;
        at += n;
    }
    return 0;
}
