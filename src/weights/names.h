/* SPDX-License-Identifier: MIT
 *
 * Names from files, fit for a message.
 */
#ifndef LUTRA_WEIGHTS_NAMES_H
#define LUTRA_WEIGHTS_NAMES_H

#include <stddef.h>

enum { GGUF_MAX_NAME = 255 /* bytes of a tensor name; the specification says 64 */ };

/* Control and non-ASCII bytes become '?', long names are cut. */
struct shown {
    char s[72];
};
struct shown show_bytes(const char *s, size_t n);
struct shown show_name(const char *s);

#endif
