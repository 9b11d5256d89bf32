/* SPDX-License-Identifier: MIT
 *
 * Counts the heap of everything linked with --wrap=malloc,calloc,realloc,free,strdup.
 */
#ifndef LUTRA_TESTS_FUZZ_HEAP_H
#define LUTRA_TESTS_FUZZ_HEAP_H

#include <stddef.h>

/* Bytes held now, and the most since heap_reset_peak. */
size_t heap_now(void);
size_t heap_peak(void);
void heap_reset_peak(void);

#endif
