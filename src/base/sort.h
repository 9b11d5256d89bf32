/* SPDX-License-Identifier: MIT
 *
 * Sorting of numbers by what they stand for: qsort hands its comparison no context, and not every C library has a
 * function that does.
 *
 *     sort_ids(order, n, by_score, scores);       compare(x, y, user) < 0: x comes first
 *
 * In place (a heap); where compare says 0 the order is any.  Allocates nothing.
 */
#ifndef LUTRA_BASE_SORT_H
#define LUTRA_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

void sort_ids(uint32_t *id, size_t n, int (*compare)(uint32_t x, uint32_t y, const void *user), const void *user);

#endif
