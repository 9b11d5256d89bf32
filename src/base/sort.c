/* SPDX-License-Identifier: MIT */
#include "base/sort.h"

/* The heap id[0 .. n - 1], largest first, is one again when id[at] has sunk to its place. */
static void sink(
    uint32_t *id, size_t at, size_t n, int (*compare)(uint32_t x, uint32_t y, const void *user), const void *user)
{
    const uint32_t x = id[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && compare(id[child], id[child + 1], user) < 0) child++;
        if (compare(x, id[child], user) >= 0) break;
        id[at] = id[child];
    }
    id[at] = x;
}

void sort_ids(uint32_t *id, size_t n, int (*compare)(uint32_t x, uint32_t y, const void *user), const void *user)
{
    for (size_t i = n / 2; i-- > 0;) sink(id, i, n, compare, user);
    for (size_t left = n; left-- > 1;) {
        const uint32_t largest = id[0];
        id[0] = id[left], id[left] = largest;
        sink(id, 0, left, compare, user);
    }
}
