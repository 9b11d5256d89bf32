/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "text/vocab_impl.h"

struct text_bytes text_pieces_get(const struct text_pieces *pieces, size_t i)
{
    return (struct text_bytes){pieces->bytes + pieces->at[i], pieces->at[i + 1] - pieces->at[i]};
}

static int grow(void **array, size_t *cap, size_t need, size_t elem_bytes)
{
    if (need <= *cap) return 0;
    size_t cap_new = *cap + *cap / 2 + 64;
    if (cap_new < need) cap_new = need;
    size_t bytes;
    if (LUTRA_MUL_OVERFLOWS(cap_new, elem_bytes, &bytes)) return LUTRA_E_NO_MEMORY;
    void *moved = realloc(*array, bytes);
    if (!moved) return LUTRA_E_NO_MEMORY;
    *array = moved;
    *cap = cap_new;
    return 0;
}

int text_pieces_add(struct text_pieces *pieces, const char *bytes, size_t n_bytes)
{
    if (pieces->n >= TEXT_NO_SYMBOL - 1 || n_bytes > SIZE_MAX - pieces->n_bytes) return LUTRA_E_NO_MEMORY;
    TRY(grow((void **)&pieces->bytes, &pieces->cap_bytes, pieces->n_bytes + n_bytes + 1, 1));
    TRY(grow((void **)&pieces->at, &pieces->cap, pieces->n + 2, sizeof *pieces->at));
    if (n_bytes) memcpy(pieces->bytes + pieces->n_bytes, bytes, n_bytes);
    pieces->at[0] = 0;
    pieces->n_bytes += n_bytes;
    pieces->at[++pieces->n] = pieces->n_bytes;
    return 0;
}

void text_pieces_fini(struct text_pieces *pieces)
{
    free(pieces->bytes);
    free(pieces->at);
    *pieces = (struct text_pieces){0};
}

/* FNV-1a with a final mix.  Keys come from files: the seed, an address, keeps them from being made to collide. */
static size_t hash(const struct text_pieces *seed, const char *bytes, size_t n_bytes)
{
    uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)(uintptr_t)seed * 0x9E3779B97F4A7C15u;
    for (size_t i = 0; i < n_bytes; i++) h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return (size_t)(h ^ h >> 29);
}

static int reserve(struct text_table *table, const struct text_pieces *pieces, size_t n_max)
{
    size_t size = 64;
    while (size < n_max + n_max / 2) size *= 2;
    if (table->slots && size <= table->mask + 1) return 0;
    uint32_t *slots = malloc(size * sizeof *slots);
    if (!slots) return LUTRA_E_NO_MEMORY;
    memset(slots, 0xFF, size * sizeof *slots);
    struct text_table bigger = {slots, size - 1, 0};
    for (size_t i = 0; table->slots && i <= table->mask; i++) {
        if (table->slots[i] != TEXT_NO_SYMBOL) text_table_add(&bigger, pieces, table->slots[i]);
    }
    free(table->slots);
    *table = bigger;
    return 0;
}

int text_table_init(struct text_table *table, size_t n_max)
{
    *table = (struct text_table){0};
    return reserve(table, NULL, n_max);
}

/* The slot that holds these bytes, or the free one where they belong. */
static size_t probe(const struct text_table *table, const struct text_pieces *pieces, const char *bytes, size_t n_bytes)
{
    size_t at = hash(pieces, bytes, n_bytes) & table->mask;
    for (; table->slots[at] != TEXT_NO_SYMBOL; at = (at + 1) & table->mask) {
        struct text_bytes have = text_pieces_get(pieces, table->slots[at]);
        if (have.n == n_bytes && (n_bytes == 0 || memcmp(have.p, bytes, n_bytes) == 0)) break;
    }
    return at;
}

uint32_t text_table_find(
    const struct text_table *table, const struct text_pieces *pieces, const char *bytes, size_t n_bytes)
{
    return table->slots[probe(table, pieces, bytes, n_bytes)];
}

uint32_t text_table_add(struct text_table *table, const struct text_pieces *pieces, uint32_t i)
{
    if (reserve(table, pieces, table->n + 1) < 0) return TEXT_NO_SYMBOL;
    struct text_bytes piece = text_pieces_get(pieces, i);
    size_t at = probe(table, pieces, piece.p, piece.n);
    if (table->slots[at] == TEXT_NO_SYMBOL) {
        table->slots[at] = i;
        table->n++;
    }
    return table->slots[at];
}

void text_table_fini(struct text_table *table)
{
    free(table->slots);
    *table = (struct text_table){0};
}
