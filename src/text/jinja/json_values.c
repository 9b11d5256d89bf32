/* SPDX-License-Identifier: MIT
 *
 * A tree of jansson's into template values.  Keys keep their order; strings are not copied.
 */
#include <jansson.h>
#include <math.h>

#include "text/jinja/jinja_impl.h"
#include "text/json_text.h"

enum {
    MAX_PARSED = 50000 /* values of one text for fromjson: jansson's tree is not in the heap */,
    VALUE_BYTES = 8
}; /* what a value without text counts for, about its length as JSON */

struct reader {
    struct jinja_run *run;
    bool input, copy; /* marked as input; the tree does not outlive this call */
};

static int read_value(const struct reader *r, const json_t *json, int depth, struct jinja_value *out);

static int read_string(const struct reader *r, const char *p, size_t n, struct jinja_value *out)
{
    if (n >= UINT32_MAX) return jinja_fail(r->run, LUTRA_E_FORMAT, "a string of the variables is too long");
    TRY(jinja_marked(r->run, p, n, r->input, out));
    return r->copy ? jinja_string(r->run, p, n, out->input, out) : 0;
}

static int read_list(const struct reader *r, const json_t *json, int depth, struct jinja_value *out)
{
    TRY(jinja_list_new(r->run, JINJA_LIST_PLAIN, out));
    for (size_t i = 0; i < json_array_size(json); i++) {
        struct jinja_value item;
        TRY(read_value(r, json_array_get(json, i), depth, &item));
        TRY(jinja_list_add(r->run, out->list, item));
    }
    return 0;
}

static int read_members(const struct reader *r, const json_t *json, int depth, struct jinja_dict *dict)
{
    json_t *object = (json_t *)json; /* jansson's iterators change nothing, but take no const */
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        struct jinja_value key, value;
        TRY(read_string(r, json_object_iter_key(at), json_object_iter_key_len(at), &key));
        TRY(read_value(r, json_object_iter_value(at), depth, &value));
        TRY(jinja_dict_set(r->run, dict, key, value));
    }
    return 0;
}

/* A number that fits neither 64 bits nor a double: its digits, or infinity. */
static int read_big(const struct reader *r, const json_t *text, struct jinja_value *out)
{
    const char *p = json_string_value(text);
    if (strpbrk(p, ".eE")) return *out = jinja_float(p[0] == '-' ? -INFINITY : INFINITY), 0;
    TRY(read_string(r, p, json_string_length(text), out));
    out->kind = JINJA_BIG;
    return 0;
}

static int read_any(const struct reader *r, const json_t *json, int depth, struct jinja_value *out)
{
    const json_t *big = json_object_get(json, TEXT_JSON_NUMBER);
    switch (json_typeof(json)) {
    case JSON_STRING: return read_string(r, json_string_value(json), json_string_length(json), out);
    case JSON_ARRAY: return read_list(r, json, depth, out);
    case JSON_OBJECT:
        if (big) return read_big(r, big, out);
        TRY(jinja_dict_new(r->run, out));
        return read_members(r, json, depth, out->dict);
    case JSON_INTEGER: *out = jinja_int(json_integer_value(json)); break;
    case JSON_REAL: *out = jinja_float(json_real_value(json)); break;
    case JSON_TRUE: *out = jinja_bool(true); break;
    case JSON_FALSE: *out = jinja_bool(false); break;
    case JSON_NULL: *out = jinja_none(); break;
    }
    out->input = r->input ? r->run->all_input : NULL;
    return 0;
}

static int read_value(const struct reader *r, const json_t *json, int depth, struct jinja_value *out)
{
    if (depth >= TEXT_TEMPLATE_MAX_JSON_DEPTH)
        return jinja_fail(
            r->run, LUTRA_E_FORMAT, "the variables are nested deeper than %d", TEXT_TEMPLATE_MAX_JSON_DEPTH);
    TRY(jinja_enter(r->run));
    int rc = read_any(r, json, depth + 1, out);
    jinja_leave(r->run);
    return rc;
}

int jinja_json_values(struct jinja_run *run, const json_t *json, const json_t *own, struct jinja_value *out)
{
    if (!json_is_object(json)) return jinja_fail(run, LUTRA_E_FORMAT, "the variables must be an object");
    TRY(read_value(&(struct reader){.run = run, .input = true}, json, 0, out));
    return own ? read_members(&(struct reader){.run = run}, own, 0, out->dict) : 0;
}

int jinja_fromjson(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)
{
    json_t *tree = NULL;
    struct lutra_error why = {0};
    TRY(jinja_bind(run, "fromjson", args, "", NULL));
    if (self.kind != JINJA_STRING)
        return jinja_fail(run, LUTRA_E_FORMAT, "fromjson: a string is needed, not %s", jinja_type_name(self));
    TRY(jinja_step(run, 8 * (size_t)self.n));
    size_t n_value = 0;
    for (uint32_t i = 0; i < self.n; i++) n_value += self.s[i] == ',' || self.s[i] == '[' || self.s[i] == '{';
    if (n_value > MAX_PARSED) return jinja_fail(run, LUTRA_E_FORMAT, "fromjson: more than %d values", MAX_PARSED);
    if (text_json_load("fromjson", self.s, self.n, TEXT_TEMPLATE_MAX_JSON_DEPTH, &tree, &why) < 0)
        return jinja_fail(run, LUTRA_E_FORMAT, "%s", why.what);
    struct reader r = {.run = run, .input = self.input && memchr(self.input, 1, self.n), .copy = true};
    int rc = read_value(&r, tree, 0, out);
    json_decref(tree);
    return rc;
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
