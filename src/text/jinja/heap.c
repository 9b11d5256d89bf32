/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "text/jinja/jinja_impl.h"

struct jinja_chunk {
    struct jinja_chunk *next;
    size_t bytes;
};

#define CHUNK_BYTES (64u << 10)

static bool add_chunk(struct jinja_heap *heap, size_t bytes)
{
    size_t want = bytes + sizeof(struct jinja_chunk);
    if (want < CHUNK_BYTES) want = CHUNK_BYTES;
    if (want > heap->max_bytes || heap->used_bytes > heap->max_bytes - want) return false;
    struct jinja_chunk *chunk = malloc(want);
    if (!chunk) return false;
    *chunk = (struct jinja_chunk){heap->chunks, want};
    heap->chunks = chunk;
    heap->used_bytes += want;
    heap->free = (char *)(chunk + 1);
    heap->n_free = want - sizeof *chunk;
    return true;
}

void *jinja_alloc(struct jinja_heap *heap, size_t bytes)
{
    if (bytes > heap->max_bytes) return NULL;
    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes > heap->n_free && !add_chunk(heap, bytes)) return NULL;
    void *p = heap->free;
    heap->free += bytes;
    heap->n_free -= bytes;
    return p;
}

void jinja_heap_fini(struct jinja_heap *heap)
{
    for (struct jinja_chunk *chunk = heap->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    *heap = (struct jinja_heap){.max_bytes = heap->max_bytes};
}

int jinja_text_add(struct jinja_text *text, const char *bytes, size_t n_bytes, jinja_input input)
{
    if (n_bytes > text->max_bytes - text->n) return LUTRA_E_NO_MEMORY;
    if (text->n + n_bytes + 1 > text->cap) {
        size_t cap = text->cap * 2 + 4096;
        if (cap < text->n + n_bytes + 1) cap = text->n + n_bytes + 1;
        char *moved = realloc(text->p, cap);
        if (!moved) return LUTRA_E_NO_MEMORY;
        text->p = moved;
        uint8_t *marks = realloc(text->input, cap);
        if (!marks) return LUTRA_E_NO_MEMORY;
        text->input = marks;
        text->cap = cap;
    }
    if (n_bytes) memcpy(text->p + text->n, bytes, n_bytes);
    if (n_bytes && input) memcpy(text->input + text->n, input, n_bytes);
    if (n_bytes && !input) memset(text->input + text->n, 0, n_bytes);
    text->n += n_bytes;
    text->p[text->n] = 0;
    return 0;
}
