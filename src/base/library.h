/* SPDX-License-Identifier: MIT
 *
 * Functions of a library that is opened when it is wanted, and need not be there.
 *
 *     static const struct library_call calls[] = {{"xmlStopParser", offsetof(struct xml_calls, stop)}, ...};
 *     void *library = library_open("libxml2.so.2", calls, n_call, &table, &lacks);
 */
#ifndef LUTRA_BASE_LIBRARY_H
#define LUTRA_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct library_call {
    const char *name;
    size_t place;  /* of its pointer in the table, in bytes */
    bool optional; /* the pointer may stay NULL */
};

/* Opens the library and fills the table's pointers.  Returns what dlclose() takes.  NULL: *lacks is the function that
 * it does not have, or NULL where it cannot be opened: dlerror() says why. */
void *library_open(const char *file, const struct library_call *call, size_t n_call, void *table, const char **lacks);

#endif
