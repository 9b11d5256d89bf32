/* SPDX-License-Identifier: MIT
 *
 * Memory of packed weights: regions of SLAB_BYTES, each handed out piece by piece.
 *
 * A matrix of a few megabytes on its own would begin and end in small pages; side by side all but the last page of a
 * region are huge, and decoding, which reads every weight once per pass, spares the page walks.
 * Not thread-safe: one owner.
 */
#ifndef LUTRA_CPU_SLAB_H
#define LUTRA_CPU_SLAB_H

#include "base/arena.h"

struct slab {
    struct arena memory;
    size_t n_piece; /* taken and not given back */
    struct slab *older;
};

/* `bytes` bytes at *out, 64-byte aligned, zero, from the newest region of the list or a new one; *from is what to give
 * back.  `what` names them in messages.  LUTRA_E_NO_MEMORY: nothing has changed. */
int slab_take(
    struct slab **list, size_t bytes, const char *what, struct slab **from, void **out, struct lutra_error *err);

/* One piece of `from`, or NULL.  A region goes when its last piece does. */
void slab_give(struct slab **list, struct slab *from);

#endif
