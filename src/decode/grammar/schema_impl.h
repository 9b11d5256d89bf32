/* SPDX-License-Identifier: MIT
 *
 * JSON Schemas while they are compiled.
 */
#ifndef LUTRA_DECODE_GRAMMAR_SCHEMA_IMPL_H
#define LUTRA_DECODE_GRAMMAR_SCHEMA_IMPL_H

#include <jansson.h>

#include "decode/grammar/json_impl.h"

enum { SCHEMA_DEPTH = 128, SCHEMA_BYTES = 1 << 20 };

/* Where in the schema: "#/properties/a". */
struct schema_path {
    const struct schema_path *up; /* NULL: the root */
    const char *key;              /* NULL: an index */
    size_t index;
};

struct schema_compiler {
    struct builder b;
    json_t *root;
    struct vec made;  /* json_t *: merged schemas, owned */
    struct vec known; /* struct known: schemas that rules stand for */
    int32_t any;      /* the rule for any value; -1: not made yet */
    int depth;
};

/* Fails with the path of a keyword (NULL: of the schema) and a reason. */
int schema_fail(struct schema_compiler *c, const struct schema_path *path, const char *keyword, int code,
    const char *fmt, ...) LUTRA_PRINTF(5, 6);

enum schema_type {
    SCHEMA_NULL = 1,
    SCHEMA_BOOLEAN = 2,
    SCHEMA_OBJECT = 4,
    SCHEMA_ARRAY = 8,
    SCHEMA_STRING = 16,
    SCHEMA_INTEGER = 32,
    SCHEMA_FRACTION = 64, /* numbers that are no integers */
    SCHEMA_NUMBER = SCHEMA_INTEGER | SCHEMA_FRACTION,
    SCHEMA_ALL = 127,
};
/* Types that `type` allows, SCHEMA_ALL where there is none; or a status. */
int schema_types(struct schema_compiler *c, const json_t *schema, const struct schema_path *path);
/* The type of a value. */
int schema_type_of(const json_t *value);

/* Whether the keyword says nothing about values. */
bool schema_is_note(const char *keyword);

/* *out: the schema that a $ref names, borrowed. */
int schema_resolve(struct schema_compiler *c, const char *ref, const struct schema_path *path, json_t **out);

/* *out: a schema that holds where both do, borrowed from c. */
int schema_both(struct schema_compiler *c, json_t *a, json_t *b, const struct schema_path *path, json_t **out);

/* Refuses branches of oneOf that one value might satisfy together. */
int schema_disjoint(struct schema_compiler *c, json_t *branches, const struct schema_path *path);

#endif
