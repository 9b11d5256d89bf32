/* SPDX-License-Identifier: MIT
 *
 * A tree of jansson's into template values.  Keys keep their order; strings are not copied.
 */
#include <jansson.h>

#include "text/jinja/jinja_impl.h"

enum { VALUE_BYTES = 8 }; /* what a value without text counts for, about its length as JSON */

static int read_value(struct jinja_run *run, const json_t *json, struct jinja_value *out);

static int read_string(struct jinja_run *run, const char *p, size_t n, struct jinja_value *out)
{
    if (n >= UINT32_MAX) return jinja_fail(run, LUTRA_E_FORMAT, "a string of the variables is too long");
    *out = jinja_view(p, n);
    return 0;
}

static int read_list(struct jinja_run *run, const json_t *json, struct jinja_value *out)
{
    TRY(jinja_list_new(run, JINJA_LIST_PLAIN, out));
    for (size_t i = 0; i < json_array_size(json); i++) {
        struct jinja_value item;
        TRY(read_value(run, json_array_get(json, i), &item));
        TRY(jinja_list_add(run, out->list, item));
    }
    return 0;
}

static int read_dict(struct jinja_run *run, const json_t *json, struct jinja_value *out)
{
    TRY(jinja_dict_new(run, out));
    json_t *object = (json_t *)json; /* jansson's iterators change nothing, but take no const */
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        struct jinja_value key, value;
        TRY(read_string(run, json_object_iter_key(at), strlen(json_object_iter_key(at)), &key));
        TRY(read_value(run, json_object_iter_value(at), &value));
        TRY(jinja_dict_set(run, out->dict, key, value));
    }
    return 0;
}

static int read_any(struct jinja_run *run, const json_t *json, struct jinja_value *out)
{
    switch (json_typeof(json)) {
    case JSON_STRING: return read_string(run, json_string_value(json), json_string_length(json), out);
    case JSON_ARRAY: return read_list(run, json, out);
    case JSON_OBJECT: return read_dict(run, json, out);
    case JSON_INTEGER: return *out = jinja_int(json_integer_value(json)), 0;
    case JSON_REAL: return *out = jinja_float(json_real_value(json)), 0;
    case JSON_TRUE: return *out = jinja_bool(true), 0;
    case JSON_FALSE: return *out = jinja_bool(false), 0;
    case JSON_NULL: break;
    }
    *out = jinja_none();
    return 0;
}

static int read_value(struct jinja_run *run, const json_t *json, struct jinja_value *out)
{
    TRY(jinja_enter(run));
    int rc = read_any(run, json, out);
    jinja_leave(run);
    return rc;
}

int jinja_json_values(struct jinja_run *run, const json_t *json, struct jinja_value *out)
{
    if (!json_is_object(json)) return jinja_fail(run, LUTRA_E_FORMAT, "the variables must be an object");
    return read_value(run, json, out);
}

/* Nesting is jansson's to bound here: it reads no deeper than 2048. */
size_t jinja_json_bytes(const json_t *json)
{
    size_t n = VALUE_BYTES;
    if (json_is_string(json)) return n + json_string_length(json);
    for (size_t i = 0; i < json_array_size(json); i++) n += jinja_json_bytes(json_array_get(json, i));
    json_t *object = (json_t *)json;
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at))
        n += strlen(json_object_iter_key(at)) + jinja_json_bytes(json_object_iter_value(at));
    return n;
}
