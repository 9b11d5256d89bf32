/* SPDX-License-Identifier: MIT
 *
 * Byte-pair merging of one word [Sennrich et al. 2016]: while any neighbours form a known pair, merge the pair of
 * the best rank, leftmost first.  A binary heap of candidates with lazy deletion makes it O(n log n), which
 * matters because a word may be a megabyte of one letter.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "text/vocab_impl.h"

#define NONE UINT32_MAX

/* Doubly linked list over the word's bytes; a merged-away entry has n_bytes == 0. */
struct text_symbol {
    uint32_t symbol;
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

static void consider(const struct text_vocab *vocab, struct text_bpe *work, size_t *n_heap, uint32_t at)
{
    if (at == NONE || work->symbols[at].next == NONE) return;
    uint32_t left = work->symbols[at].symbol, right = work->symbols[work->symbols[at].next].symbol;
    const struct text_merge *merge = text_merges_find(vocab, left, right);
    if (merge) push(work->heap, n_heap, (struct text_candidate){merge->rank, at, left, right});
}

static bool is_stale(const struct text_bpe *work, const struct text_candidate *c)
{
    const struct text_symbol *s = &work->symbols[c->at];
    return s->n_bytes == 0 || s->symbol != c->left || s->next == NONE || work->symbols[s->next].symbol != c->right;
}

static void merge_all(const struct text_vocab *vocab, struct text_bpe *work, size_t n_bytes)
{
    size_t n_heap = 0;
    for (uint32_t i = 0; i + 1 < n_bytes; i++) consider(vocab, work, &n_heap, i);
    while (n_heap > 0) {
        struct text_candidate c = pop(work->heap, &n_heap);
        if (is_stale(work, &c)) continue;
        struct text_symbol *left = &work->symbols[c.at], *right = &work->symbols[left->next];
        left->symbol = text_merges_find(vocab, c.left, c.right)->product;
        left->n_bytes += right->n_bytes;
        right->n_bytes = 0;
        left->next = right->next;
        if (left->next != NONE) work->symbols[left->next].prev = c.at;
        consider(vocab, work, &n_heap, left->prev);
        consider(vocab, work, &n_heap, c.at);
    }
}

static int emit(
    const struct text_vocab *vocab, uint32_t symbol, const char *bytes, size_t n_bytes, struct text_tokens *out)
{
    if (symbol < vocab->n_tok) return text_tokens_push(out, (int32_t)symbol);
    for (size_t i = 0; i < n_bytes; i++) { /* a string the vocabulary lacks: spell its bytes */
        uint32_t byte = vocab->byte_symbol[(unsigned char)bytes[i]];
        int32_t id = byte < vocab->n_tok ? (int32_t)byte : vocab->ids[TEXT_UNK];
        if (id >= 0) TRY(text_tokens_push(out, id));
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
    for (uint32_t i = 0; i < n_bytes; i++) {
        work->symbols[i] = (struct text_symbol){
            vocab->byte_symbol[(unsigned char)word[i]], 1, i ? i - 1 : NONE, i + 1 < n_bytes ? i + 1 : NONE};
    }
    merge_all(vocab, work, n_bytes);
    size_t at = 0;
    for (uint32_t i = 0; i != NONE; i = work->symbols[i].next) {
        TRY(emit(vocab, work->symbols[i].symbol, word + at, work->symbols[i].n_bytes, out));
        at += work->symbols[i].n_bytes;
    }
    return 0;
}
