/* SPDX-License-Identifier: MIT
 *
 * An open JSON Schema; private to search/.
 */
#ifndef LUTRA_SEARCH_JSON_SCHEMA_IMPL_H
#define LUTRA_SEARCH_JSON_SCHEMA_IMPL_H

#define PCRE2_CODE_UNIT_WIDTH 8

#include <jansson.h>
#include <pcre2.h>
#include <stdbool.h>

#include "search/json_schema.h"

enum {
    SCHEMA_MAX_DEPTH = 100,       /* of schemas and values */
    SCHEMA_MAX_STEPS = 2000000,   /* schemas applied and values compared, for one text */
    SCHEMA_MATCH_STEPS = 1000000, /* PCRE2's match limit: below a second */
    SCHEMA_MATCH_KIB = 16384,
    SCHEMA_N_FORMATS = 7
};
#define SCHEMA_TYPE_NAMES "types are null, boolean, object, array, string, integer and number"

struct schema_pattern {
    const char *text; /* [n] in the schema's tree */
    size_t n;
    pcre2_code *code;
};

struct json_schema {
    json_t *root;
    struct schema_pattern *patterns; /* [n_patterns] */
    size_t n_patterns;
    pcre2_code *formats[SCHEMA_N_FORMATS];
    pcre2_match_data *match;
    pcre2_match_context *limits;
};

struct schema_number {
    bool is_int; /* a whole number; i holds it where it fits 64 bits */
    bool fits;   /* i holds it */
    int64_t i;
    double f;
};

/* Whether a value is a number, and which. */
bool json_schema_number(const json_t *x, struct schema_number *out);
/* A type's bit, 0 if there is none of the name. */
int json_schema_type(const char *name);
bool json_schema_knows_format(const char *name);
int json_schema_open_formats(struct json_schema *s, struct lutra_error *err);
const pcre2_code *json_schema_pattern(const struct json_schema *s, const char *text, size_t n);
const json_t *json_schema_resolve(const struct json_schema *s, const char *ref);

#endif
