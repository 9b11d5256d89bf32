/* SPDX-License-Identifier: MIT */
#include "cpu/slab.h"

#include <stdlib.h>

enum { SLAB_BYTES = 64 << 20 };

static int open_slab(struct slab **list, size_t bytes, struct lutra_error *err)
{
    struct slab *s = calloc(1, sizeof *s);
    if (!s) return lutra_fail(err, LUTRA_E_NO_MEMORY, "packed weight memory: out of memory");
    int rc = arena_open(&s->memory, "packed weight", bytes < SLAB_BYTES ? SLAB_BYTES : bytes, ARENA_HUGE_PAGES, err);
    if (rc < 0) {
        free(s);
        return rc;
    }
    s->older = *list;
    *list = s;
    return 0;
}

int slab_take(
    struct slab **list, size_t bytes, const char *what, struct slab **from, void **out, struct lutra_error *err)
{
    size_t cost = arena_cost(bytes);
    const struct slab *s = *list;
    if (!s || cost > s->memory.size_bytes - s->memory.used_bytes) TRY(open_slab(list, cost, err));
    TRY(arena_take(&(*list)->memory, bytes, what, out, err));
    *from = *list;
    (*from)->n_piece++;
    return 0;
}

void slab_give(struct slab **list, struct slab *from)
{
    if (!from || --from->n_piece > 0) return;
    while (*list != from) list = &(*list)->older;
    *list = from->older;
    arena_close(&from->memory);
    free(from);
}
