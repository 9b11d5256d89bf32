/* SPDX-License-Identifier: MIT
 *
 * JSON of strangers: bounded before it is read, and its fields by name, each error naming the field.
 *
 *     struct fields f = {.object = body, .problem = p};
 *     field_int(&f, "n", 1, 128, &n);          absent or null: n stays
 *     field_float(&f, "top_p", 0, 1, &top_p);
 *     if (p->status) ...                       the first field that was wrong
 */
#ifndef LUTRA_SERVER_JSON_H
#define LUTRA_SERVER_JSON_H

#include <jansson.h>

#include "problem.h"
#include "text.h"

enum { JSON_DEPTH_MAX = 64, JSON_VALUES_MAX = 262144 };

/* An object of at most that depth and number of values; NULL after a problem.  Owned by the caller. */
json_t *json_read(const char *bytes, size_t n, struct problem *p);

struct fields {
    const json_t *object;
    const char *at; /* path of the object, "stream_options"; NULL = the body */
    struct problem *problem;
};
/* Each returns whether the field is there and right; null counts as absent. */
bool field_int(const struct fields *f, const char *name, int64_t min, int64_t max, int *out);
bool field_i64(const struct fields *f, const char *name, int64_t min, int64_t max, int64_t *out);
bool field_float(const struct fields *f, const char *name, double min, double max, float *out);
bool field_bool(const struct fields *f, const char *name, bool *out);
bool field_text(const struct fields *f, const char *name, const char **out); /* borrowed; without NULs */
json_t *field_object(const struct fields *f, const char *name);              /* borrowed, or NULL */
json_t *field_array(const struct fields *f, const char *name);
json_t *field_any(const struct fields *f, const char *name); /* not null */
/* "at.name" is wrong. */
void field_wrong(const struct fields *f, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a value as JSON text. */
void text_value(struct text *t, const json_t *value);

#endif
