/* SPDX-License-Identifier: MIT
 *
 * Memory of one lifetime (model, plan, session or step): reserved once, handed out by moving a pointer, freed as one.
 *
 *     struct arena arena;
 *     TRY(arena_open(&arena, "session", bytes, 0, err));
 *     TRY(arena_take(&arena, n * sizeof *rows, "rows", (void **)&rows, err));
 *
 * After arena_open nothing here calls malloc or mmap, so taking memory inside a pass is free of system calls.
 * Not thread-safe: one owner.
 */
#ifndef LUTRA_BASE_ARENA_H
#define LUTRA_BASE_ARENA_H

#include <stddef.h>

#include "base/status.h"

enum { ARENA_ALIGN = 64 };

enum arena_flags {
    ARENA_HUGE_PAGES = 1, /* ask for transparent huge pages; a wish, not a demand */
    ARENA_HUGE_LATER = 2, /* none, even where the system gives them unasked, before arena_want_huge_pages */
};

struct arena {
    unsigned char *start; /* page-aligned */
    size_t size_bytes;    /* reserved */
    size_t used_bytes;
    const char *tag; /* the lifetime, for messages; borrowed */
};

/* Reserves size_bytes (rounded up to pages) of zeroed memory, touched only when used.  Zero bytes is a valid, empty
 * arena.  LUTRA_E_NO_MEMORY on failure, with *arena empty and safe to close. */
int arena_open(struct arena *arena, const char *tag, size_t size_bytes, unsigned flags, struct lutra_error *err);

/* Asks for huge pages for memory of an arena where none of it was touched yet; start: page-aligned. */
void arena_want_huge_pages(void *start, size_t bytes);

/* Gives everything back and empties *arena; safe on a zeroed or already closed one. */
void arena_close(struct arena *arena);

/* The next `bytes` bytes, 64-byte aligned and, on first use after arena_open, zero.  `what` names them in the message.
 * LUTRA_E_NO_MEMORY when they do not fit: *out is NULL and the arena unchanged. */
int arena_take(struct arena *arena, size_t bytes, const char *what, void **out, struct lutra_error *err);

/* What a take of `bytes` costs, for adding up a reservation; SIZE_MAX if it cannot be represented. */
size_t arena_cost(size_t bytes);

#endif
