/* SPDX-License-Identifier: MIT
 *
 * The merge table: (left symbol, right symbol) -> rank and product, hashed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "text/vocab_impl.h"

static size_t slot_of(const struct text_vocab *vocab, uint32_t left, uint32_t right)
{
    uint64_t h = (((uint64_t)left << 32 | right) ^ (uint64_t)(uintptr_t)vocab) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    size_t at = (size_t)(h ^ h >> 32) & vocab->merge_mask;
    while (vocab->merges[at].left != TEXT_NO_SYMBOL &&
           (vocab->merges[at].left != left || vocab->merges[at].right != right)) {
        at = (at + 1) & vocab->merge_mask;
    }
    return at;
}

const struct text_merge *text_merges_find(const struct text_vocab *vocab, uint32_t left, uint32_t right)
{
    const struct text_merge *merge = &vocab->merges[slot_of(vocab, left, right)];
    return merge->left == TEXT_NO_SYMBOL ? NULL : merge;
}

/* The symbol of these bytes, added to the vocabulary's extra symbols if it is not there yet. */
static int intern(struct text_vocab *vocab, const char *bytes, size_t n_bytes, uint32_t *out)
{
    *out = text_table_find(&vocab->symbols, &vocab->pieces, bytes, n_bytes);
    if (*out != TEXT_NO_SYMBOL) return 0;
    TRY(text_pieces_add(&vocab->pieces, bytes, n_bytes));
    *out = text_table_add(&vocab->symbols, &vocab->pieces, (uint32_t)(vocab->pieces.n - 1));
    return *out == TEXT_NO_SYMBOL ? LUTRA_E_NO_MEMORY : 0;
}

/* One "left right": the halves are divided by the first space that is not the first byte. */
static int add_merge(struct text_vocab *vocab, struct text_bytes spelt, uint32_t rank, char *scratch)
{
    const char *space = spelt.n > 2 ? memchr(spelt.p + 1, ' ', spelt.n - 1) : NULL;
    if (!space || space == spelt.p + spelt.n - 1) return LUTRA_E_FORMAT;
    size_t (*decode)(const char *, size_t, char *) = vocab->chars ? text_spm_unspell : text_bytemap_decode;
    size_t n_left = decode(spelt.p, (size_t)(space - spelt.p), scratch);
    size_t n_right = decode(space + 1, (size_t)(spelt.p + spelt.n - space - 1), scratch + n_left);
    struct text_merge merge = {.rank = rank};
    TRY(intern(vocab, scratch, n_left, &merge.left));
    TRY(intern(vocab, scratch + n_left, n_right, &merge.right));
    TRY(intern(vocab, scratch, n_left + n_right, &merge.product));
    struct text_merge *slot = &vocab->merges[slot_of(vocab, merge.left, merge.right)];
    if (slot->left == TEXT_NO_SYMBOL) *slot = merge; /* of two equal pairs the better rank stays */
    return 0;
}

static int intern_bytes(struct text_vocab *vocab)
{
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        TRY(intern(vocab, &byte, 1, &vocab->byte_symbol[b]));
    }
    return 0;
}

int text_merges_open(struct text_vocab *vocab, const struct text_vocab_source *src, struct lutra_error *err)
{
    if (src->n_merge > UINT32_MAX / 4) return lutra_fail(err, LUTRA_E_FORMAT, "%zu merges are too many", src->n_merge);
    size_t size = 64, longest = 0;
    while (size < src->n_merge + src->n_merge / 2) size *= 2;
    for (size_t i = 0; i < src->n_merge; i++) longest = src->merges[i].n > longest ? src->merges[i].n : longest;
    vocab->merges = malloc(size * sizeof *vocab->merges);
    char *scratch = malloc(longest + 1);
    int rc = vocab->merges && scratch ? 0 : LUTRA_E_NO_MEMORY;
    if (rc == 0 && !vocab->chars) rc = intern_bytes(vocab);
    if (rc == 0) {
        vocab->merge_mask = size - 1;
        for (size_t i = 0; i < size; i++) vocab->merges[i].left = TEXT_NO_SYMBOL;
        for (size_t i = 0; i < src->n_merge && rc == 0; i++) {
            rc = add_merge(vocab, src->merges[i], (uint32_t)i, scratch);
            if (rc == LUTRA_E_FORMAT) lutra_fail_at(err, rc, i, "tokenizer.ggml.merges[%zu] is not 'left right'", i);
        }
    }
    free(scratch);
    return rc == LUTRA_E_NO_MEMORY ? lutra_fail(err, rc, "out of memory for %zu merges", src->n_merge) : rc;
}
