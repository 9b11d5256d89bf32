/* SPDX-License-Identifier: MIT
 *
 * How public structs cross from a program to a library of another age (lutra/core.h has the rules).  For every room
 * that implements a part of the public API.
 */
#ifndef LUTRA_BASE_SETTINGS_H
#define LUTRA_BASE_SETTINGS_H

#include <stddef.h>

#include "lutra/status.h"

#define LUTRA_VERSION "0.1.0"

/* Fills a caller's struct of `size` bytes from one of ours (each begins with its size); what we do not know becomes
 * 0. */
void settings_fill(void *dst, size_t size, const void *src);

/* Copies a caller's settings over the defaults in dst, as far as both sides know them; NULL: none.  Errors:
 * LUTRA_E_ARGUMENT, no such size; LUTRA_E_UNSUPPORTED, a field that we do not know is set (where: its byte). */
int settings_copy(void *dst, size_t dst_size, const void *src, const char *what, struct lutra_error *err);

/* LUTRA_E_ARGUMENT where a caller's handle is NULL ("no session"). */
int handle_check(const void *handle, const char *what, struct lutra_error *err);

/* Elements of a caller's array: bytes of the first version and of ours. */
struct element_kind {
    const char *what;
    size_t first, known;
};
/* Copies element i of an array of `size` bytes each, as far as both sides know it; what the caller lacks becomes 0.
 * Errors as above. */
int element_copy(
    const struct element_kind *kind, void *dst, const void *array, int i, size_t size, struct lutra_error *err);

#endif
