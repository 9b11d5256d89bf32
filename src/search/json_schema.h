/* SPDX-License-Identifier: MIT
 *
 * A JSON Schema (draft 2020-12) that judges texts: is a text, or its last ``` block, JSON that holds?
 *
 * Built are type, enum, const, $ref (#/...), allOf, anyOf, oneOf, not, if/then/else; properties, required,
 * additionalProperties, patternProperties, propertyNames, minProperties, maxProperties, dependentRequired,
 * dependentSchemas; items, prefixItems, contains, minContains, maxContains, minItems, maxItems, uniqueItems; minLength,
 * maxLength, pattern, format (date, time, date-time, uuid, email, hostname, ipv4, ipv6, uri); minimum, maximum, their
 * exclusive forms and multipleOf.  Annotations are accepted; any other keyword is refused with its path.  Nothing is
 * fetched for a schema.  Work and matching of patterns are bounded.
 */
#ifndef LUTRA_SEARCH_JSON_SCHEMA_H
#define LUTRA_SEARCH_JSON_SCHEMA_H

#include <stddef.h>

#include "base/status.h"
#include "lutra/search.h"

struct json_schema;

/* Reads a schema; `name` begins messages.  The caller owns *out.
 * Errors: LUTRA_E_FORMAT (no JSON, a keyword's value), LUTRA_E_UNSUPPORTED (a keyword), both with the path, as
 * `#/properties/a/minimum`; LUTRA_E_NO_MEMORY. */
int json_schema_open(
    struct json_schema **out, const char *name, const char *text, size_t n_bytes, struct lutra_error *err);
void json_schema_close(struct json_schema **schema);

/* A lutra_check_fn; self: a struct json_schema.  1 or 0; 1 of a text that is not whole; negative with a reason where
 * it cannot be said (work without end).  One thread at a time. */
double json_schema_ask(void *self, const struct lutra_check *check, char *why, size_t n_why);

#endif
