/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };

/* Reserves zero pages, aligned ones from a huge page's border on.  NULL: no memory. */
static void *reserve(size_t size_bytes, bool aligned)
{
    size_t extra = aligned && size_bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : 0;
    char *start = mmap(NULL, size_bytes + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return NULL;
    if (extra) {
        size_t before = (HUGE_PAGE_BYTES - (uintptr_t)start % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
        if (before) munmap(start, before);
        if (extra - before) munmap(start + before + size_bytes, extra - before);
        start += before;
    }
    return start;
}

int arena_open(struct arena *arena, const char *tag, size_t size_bytes, unsigned flags, struct lutra_error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *arena = (struct arena){.tag = tag};
    if (!size_bytes) return LUTRA_OK;
    if (size_bytes > SIZE_MAX / 2) {
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s memory: %zu bytes asked for", tag, size_bytes);
    }
    size_bytes = (size_bytes + page - 1) / page * page;
    void *start = reserve(size_bytes, flags & (ARENA_HUGE_PAGES | ARENA_HUGE_LATER));
    if (!start) {
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s memory: cannot reserve %zu bytes", tag, size_bytes);
    }
    arena->start = start;
    arena->size_bytes = size_bytes;
    if (flags & ARENA_HUGE_PAGES) arena_want_huge_pages(start, size_bytes);
    if (flags & ARENA_HUGE_LATER) madvise(start, size_bytes, MADV_NOHUGEPAGE);
    return LUTRA_OK;
}

void arena_want_huge_pages(void *start, size_t bytes)
{
    if (bytes >= HUGE_PAGE_BYTES) madvise(start, bytes, MADV_HUGEPAGE);
}

void arena_close(struct arena *arena)
{
    if (arena->start) munmap(arena->start, arena->size_bytes);
    *arena = (struct arena){.tag = arena->tag};
}

size_t arena_cost(size_t bytes)
{
    return bytes > SIZE_MAX - ARENA_ALIGN ? SIZE_MAX : (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

int arena_take(struct arena *arena, size_t bytes, const char *what, void **out, struct lutra_error *err)
{
    size_t cost = arena_cost(bytes);
    *out = NULL;
    if (cost > arena->size_bytes - arena->used_bytes) {
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s memory: %zu bytes for %s do not fit, %zu of %zu are used",
            arena->tag, bytes, what, arena->used_bytes, arena->size_bytes);
    }
    *out = arena->start + arena->used_bytes;
    arena->used_bytes += cost;
    return LUTRA_OK;
}
