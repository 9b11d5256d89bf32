/* SPDX-License-Identifier: MIT
 *
 * A tree of jansson's into template values.  Keys keep their order; strings are not copied.
 */
#include <jansson.h>

#include "text/jinja/jinja_impl.h"

enum { VALUE_BYTES = 8 }; /* what a value without text counts for, about its length as JSON */

/* input: where strings and numbers come from, NULL for the program's own. */
static int read_value(struct jinja_run *run, const json_t *json, jinja_input input, int depth, struct jinja_value *out);

static int read_string(struct jinja_run *run, const char *p, size_t n, jinja_input input, struct jinja_value *out)
{
    if (n >= UINT32_MAX) return jinja_fail(run, LUTRA_E_FORMAT, "a string of the variables is too long");
    *out = jinja_view(p, n);
    out->input = n ? input : NULL;
    return 0;
}

static int read_list(struct jinja_run *run, const json_t *json, jinja_input input, int depth, struct jinja_value *out)
{
    TRY(jinja_list_new(run, JINJA_LIST_PLAIN, out));
    for (size_t i = 0; i < json_array_size(json); i++) {
        struct jinja_value item;
        TRY(read_value(run, json_array_get(json, i), input, depth, &item));
        TRY(jinja_list_add(run, out->list, item));
    }
    return 0;
}

static int read_members(
    struct jinja_run *run, const json_t *json, jinja_input input, int depth, struct jinja_dict *dict)
{
    json_t *object = (json_t *)json; /* jansson's iterators change nothing, but take no const */
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        struct jinja_value key, value;
        TRY(read_string(run, json_object_iter_key(at), json_object_iter_key_len(at), input, &key));
        TRY(read_value(run, json_object_iter_value(at), input, depth, &value));
        TRY(jinja_dict_set(run, dict, key, value));
    }
    return 0;
}

static int read_any(struct jinja_run *run, const json_t *json, jinja_input input, int depth, struct jinja_value *out)
{
    switch (json_typeof(json)) {
    case JSON_STRING: return read_string(run, json_string_value(json), json_string_length(json), input, out);
    case JSON_ARRAY: return read_list(run, json, input, depth, out);
    case JSON_OBJECT: TRY(jinja_dict_new(run, out)); return read_members(run, json, input, depth, out->dict);
    case JSON_INTEGER: *out = jinja_int(json_integer_value(json)); break;
    case JSON_REAL: *out = jinja_float(json_real_value(json)); break;
    case JSON_TRUE: *out = jinja_bool(true); break;
    case JSON_FALSE: *out = jinja_bool(false); break;
    case JSON_NULL: *out = jinja_none(); break;
    }
    out->input = input;
    return 0;
}

static int read_value(struct jinja_run *run, const json_t *json, jinja_input input, int depth, struct jinja_value *out)
{
    if (depth >= TEXT_TEMPLATE_MAX_JSON_DEPTH)
        return jinja_fail(run, LUTRA_E_FORMAT, "the variables are nested deeper than %d", TEXT_TEMPLATE_MAX_JSON_DEPTH);
    TRY(jinja_enter(run));
    int rc = read_any(run, json, input, depth + 1, out);
    jinja_leave(run);
    return rc;
}

int jinja_json_values(struct jinja_run *run, const json_t *json, const json_t *own, struct jinja_value *out)
{
    if (!json_is_object(json)) return jinja_fail(run, LUTRA_E_FORMAT, "the variables must be an object");
    TRY(read_value(run, json, run->all_input, 0, out));
    return own ? read_members(run, own, NULL, 0, out->dict) : 0;
}

size_t jinja_json_bytes(const json_t *json, int depth)
{
    size_t n = VALUE_BYTES;
    if (json_is_string(json)) return n + json_string_length(json);
    if (depth >= TEXT_TEMPLATE_MAX_JSON_DEPTH) return n; /* read_value() refuses it */
    for (size_t i = 0; i < json_array_size(json); i++) n += jinja_json_bytes(json_array_get(json, i), depth + 1);
    json_t *object = (json_t *)json;
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at))
        n += json_object_iter_key_len(at) + jinja_json_bytes(json_object_iter_value(at), depth + 1);
    return n;
}
