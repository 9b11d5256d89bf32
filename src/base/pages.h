/* SPDX-License-Identifier: MIT
 *
 * Hints about the pages of a mapped file.  None of them fails or changes what is read.
 */
#ifndef LUTRA_BASE_PAGES_H
#define LUTRA_BASE_PAGES_H

#include <stddef.h>
#include <stdint.h>

/* Starts reading the pages that hold these bytes, and does not wait for them. */
void pages_want(const void *data, size_t bytes);

/* Takes the pages that hold nothing else out of this process: the kernel may keep them as long as it likes. */
void pages_drop(const void *data, size_t bytes);

/* How often the process has waited for a page to be read from a file or from swap. */
uint64_t pages_waited(void);

#endif
