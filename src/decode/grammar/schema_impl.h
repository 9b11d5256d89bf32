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

/* How values are written. */
enum schema_style {
    STYLE_JSON,
    STYLE_XML,   /* an object as <parameter=KEY> elements: texts plainly, other values as JSON */
    STYLE_GEMMA, /* {key:value}, texts between marks */
};

struct schema_compiler {
    struct builder b;
    json_t *root;
    enum schema_style style;
    const char *quote; /* around texts */
    const char *name;  /* of the schema, for messages; NULL: it has none */
    bool lenient;      /* a keyword that is not built leaves its part unconstrained ... */
    char note[256];    /* ... and is told here, the first one */
    struct vec made;   /* json_t *: merged schemas, owned */
    struct vec known;  /* struct known: schemas that rules stand for */
    struct vec texts;  /* struct known: strings, which their keywords tell apart */
    int32_t any;       /* the rule for any value; -1: not made yet */
    int depth;
};

void schema_begin(struct schema_compiler *c, json_t *root, struct lutra_error *err);
void schema_end(struct schema_compiler *c);
/* An expression for the values of a schema; of any value; of a text by its keywords, between c->quote. */
int32_t schema_value(struct schema_compiler *c, json_t *schema, const struct schema_path *path);
int32_t schema_string(struct schema_compiler *c, json_t *schema, const struct schema_path *path);
/* Keys that are none of the sorted name[0..n), which agree in the first `at` bytes; written without escapes. */
int32_t schema_other_keys(struct schema_compiler *c, const char **name, size_t n, size_t at);
/* An object of parameters as elements (schema_xml.c). */
int32_t schema_xml(struct schema_compiler *c, json_t *schema, const struct schema_path *path);

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
