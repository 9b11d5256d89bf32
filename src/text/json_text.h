/* SPDX-License-Identifier: MIT
 *
 * JSON as Python reads it, in jansson's tree.  jansson refuses integers beyond 64 bits, numbers beyond a double and
 * NUL in a key; here such a number becomes an object with the one key TEXT_JSON_NUMBER, which no JSON text can hold,
 * whose value is the number as it was written, and such a key is one.
 */
#ifndef LUTRA_TEXT_JSON_TEXT_H
#define LUTRA_TEXT_JSON_TEXT_H

#include <stddef.h>

#include "base/status.h"

struct json_t;

#define TEXT_JSON_NUMBER "\xFF" /* not UTF-8 */

/* On success the caller owns *out (json_decref); any value, not only lists and objects; keys given twice are refused.
 * Lists and objects nest at most max_depth deep, which is checked before anything recurses.
 * Errors, which begin with `who`: LUTRA_E_FORMAT (err->where = line), LUTRA_E_NO_MEMORY. */
int text_json_load(
    const char *who, const char *p, size_t n, int max_depth, struct json_t **out, struct lutra_error *err);

#endif
