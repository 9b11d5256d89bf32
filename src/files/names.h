/* SPDX-License-Identifier: MIT
 *
 * Names from files: copies of them, and what of them is fit for a message.
 */
#ifndef LUTRA_FILES_NAMES_H
#define LUTRA_FILES_NAMES_H

#include <stddef.h>

enum { GGUF_MAX_NAME = 255 /* bytes of a tensor name; the specification says 64 */ };

/* Copies, NUL-terminated, in chunks that never move. */
struct names {
    struct names_chunk *last;
};

/* Copy of n bytes; NULL when out of memory. */
const char *names_add(struct names *names, const char *s, size_t n);
void names_fini(struct names *names);

/* Control and non-ASCII bytes become '?', long names are cut. */
struct shown {
    char s[72];
};
struct shown show_bytes(const char *s, size_t n);
struct shown show_name(const char *s);

#endif
