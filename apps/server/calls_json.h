/* SPDX-License-Identifier: MIT */
#ifndef LUTRA_SERVER_CALLS_JSON_H
#define LUTRA_SERVER_CALLS_JSON_H

#include <stddef.h>

/* A call as an object, as far as it has come. */
struct call_head {
    size_t name, n_name; /* the name's bytes, without quotes */
    size_t arguments;    /* where they begin */
    size_t n_arguments;  /* 0: they have not ended yet, or there are none */
    size_t end;          /* behind the object, where it has ended; else 0 */
};
enum call_scan { CALL_MORE, CALL_BAD, CALL_KNOWN };

/* Looks through the beginning of {"name": ..., "arguments" or "parameters": ...}.  CALL_KNOWN: its name is known, and
 * its arguments have begun or the object has ended. */
enum call_scan call_scan(const char *text, size_t n, struct call_head *out);

size_t call_blanks(const char *text, size_t n, size_t at); /* the first byte from `at` on that is none */

#endif
