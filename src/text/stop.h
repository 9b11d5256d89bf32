/* SPDX-License-Identifier: MIT
 *
 * Strings that end a text, looked for as it arrives.
 */
#ifndef LUTRA_TEXT_STOP_H
#define LUTRA_TEXT_STOP_H

#include <stddef.h>

/* The string that comes first in text [n], and *at, where: of those at one place the first of the list; -1: none. */
int text_stop_find(const char *const *stop, int n_stop, const char *text, size_t n, size_t *at);

/* Length of the longest end of text [n] that could begin one of them.  No character is cut. */
size_t text_stop_may_begin(const char *const *stop, int n_stop, const char *text, size_t n);

#endif
