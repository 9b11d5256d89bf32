/* SPDX-License-Identifier: MIT
 *
 * Two schemas that hold together as one; whether two cannot hold together; names of schemas.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/grammar/schema_impl.h"

/* One token of a JSON pointer without its escapes. */
static char *token_of(const char *p, size_t n)
{
    char *out = malloc(n + 1), *to = out;
    for (size_t i = 0; out && i < n; i++) {
        unsigned hex;
        if (p[i] == '~' && i + 1 < n && (p[i + 1] == '0' || p[i + 1] == '1'))
            *to++ = p[++i] == '0' ? '~' : '/';
        else if (p[i] == '%' && i + 2 < n && sscanf(p + i + 1, "%2x", &hex) == 1 && hex) {
            *to++ = (char)hex;
            i += 2;
        } else
            *to++ = p[i];
    }
    if (out) *to = 0;
    return out;
}

int schema_resolve(struct schema_compiler *c, const char *ref, const struct schema_path *path, json_t **out)
{
    json_t *x = c->root;
    if (*ref != '#' || (ref[1] && ref[1] != '/'))
        return schema_fail(c, path, "$ref", LUTRA_E_UNSUPPORTED, "only references within the schema (#/...) are built");
    for (const char *p = ref + 1; *p == '/' && x;) {
        size_t n = strcspn(++p, "/");
        char *key = token_of(p, n), *end;
        if (!key) return lutra_fail(c->b.err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
        unsigned long i = strtoul(key, &end, 10);
        x = json_is_array(x) ? (*key && !*end ? json_array_get(x, i) : NULL) : json_object_get(x, key);
        free(key);
        p += n;
    }
    if (!x) return schema_fail(c, path, "$ref", LUTRA_E_FORMAT, "nothing stands at %.100s", ref);
    *out = x;
    return 0;
}

static int remember(struct schema_compiler *c, json_t *x)
{
    if (!x) return lutra_fail(c->b.err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    int rc = vec_reserve(&c->made, 1, sizeof x, c->b.err);
    if (rc < 0)
        json_decref(x);
    else
        ((json_t **)c->made.p)[c->made.n++] = x;
    return rc;
}

/* A schema by itself, its $ref followed. */
static int follow(struct schema_compiler *c, json_t *schema, const struct schema_path *path, json_t **out)
{
    const json_t *ref = json_object_get(schema, "$ref");
    *out = schema;
    if (!ref) return 0;
    if (++c->depth > SCHEMA_DEPTH) return schema_fail(c, path, "$ref", LUTRA_E_FORMAT, "it names itself");
    json_t *rest = json_copy(schema), *target;
    TRY(remember(c, rest));
    json_object_del(rest, "$ref");
    if (!json_is_string(ref)) return schema_fail(c, path, "$ref", LUTRA_E_FORMAT, "it is no string");
    TRY(schema_resolve(c, json_string_value(ref), path, &target));
    TRY(schema_both(c, rest, target, path, out));
    c->depth--;
    return 0;
}

static json_t *list_of(json_t *a, json_t *b)
{
    json_t *list = json_array();
    if (list && a) json_array_append(list, a);
    if (list && b) json_array_append(list, b);
    return list;
}

/* {"allOf": [a, b]}, or what is left of it where one of them is true or false. */
static json_t *all_of(json_t *a, json_t *b)
{
    if (json_is_true(b) || json_is_false(a)) return json_incref(a);
    if (json_is_true(a) || json_is_false(b)) return json_incref(b);
    json_t *x = json_object();
    if (x) json_object_set_new(x, "allOf", list_of(a, b));
    return x;
}

static json_t *types_of_both(struct schema_compiler *c, json_t *a, json_t *b, const struct schema_path *path)
{
    static const struct {
        int type;
        const char *name;
    } names[] = {{SCHEMA_NULL, "null"}, {SCHEMA_BOOLEAN, "boolean"}, {SCHEMA_OBJECT, "object"}, {SCHEMA_ARRAY, "array"},
        {SCHEMA_STRING, "string"}};
    int x = schema_types(c, a, path), y = schema_types(c, b, path);
    if (x < 0 || y < 0) return NULL;
    json_t *list = json_array();
    for (int i = 0; i < 5; i++)
        if (x & y & names[i].type) json_array_append_new(list, json_string(names[i].name));
    if (x & y & SCHEMA_FRACTION)
        json_array_append_new(list, json_string("number"));
    else if (x & y & SCHEMA_INTEGER)
        json_array_append_new(list, json_string("integer"));
    return list;
}

static json_t *common(const json_t *a, const json_t *b)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(a); i++)
        for (size_t k = 0; k < json_array_size(b); k++)
            if (json_equal(json_array_get(a, i), json_array_get(b, k))) json_array_append(list, json_array_get(a, i));
    return list;
}

/* Properties of both; one that only `a` names must hold by what `b` says of others, too. */
static json_t *properties(json_t *a, json_t *b)
{
    json_t *x = json_object_get(a, "properties"), *y = json_object_get(b, "properties"), *out = json_object(), *v;
    json_t *more_a = json_object_get(a, "additionalProperties"), *more_b = json_object_get(b, "additionalProperties");
    const char *key;
    json_object_foreach(x, key, v)
    {
        json_t *other = json_object_get(y, key);
        json_object_set_new(out, key, all_of(v, other ? other : more_b ? more_b : json_true()));
    }
    json_object_foreach(y, key, v) if (!json_object_get(x, key))
        json_object_set_new(out, key, all_of(more_a ? more_a : json_true(), v));
    return out;
}

static bool is_one_of(const char *key, const char *const *list)
{
    for (; *list; list++)
        if (!strcmp(key, *list)) return true;
    return false;
}

/* The value of a keyword that both have, differently; NULL: not built, or after an error. */
static json_t *keyword_of_both(struct schema_compiler *c, const char *key, json_t *a, json_t *b, json_t *x, json_t *y,
    const struct schema_path *path)
{
    static const char *const larger[] = {"minimum", "exclusiveMinimum", "minLength", "minItems", NULL};
    static const char *const smaller[] = {"maximum", "exclusiveMaximum", "maxLength", "maxItems", NULL};
    static const char *const lists[] = {"required", "allOf", NULL};
    if (schema_is_note(key)) return json_incref(x);
    if (!strcmp(key, "type")) return types_of_both(c, a, b, path);
    if (!strcmp(key, "enum")) return common(x, y);
    if (!strcmp(key, "additionalProperties")) return all_of(x, y);
    if (!strcmp(key, "items") && !json_is_array(x) && !json_is_array(y)) return all_of(x, y);
    bool more = is_one_of(key, larger), numbers = json_is_number(x) && json_is_number(y);
    if (numbers && (more || is_one_of(key, smaller)))
        return json_incref((json_number_value(x) > json_number_value(y)) == more ? x : y);
    if (is_one_of(key, lists) && json_is_array(x) && json_is_array(y)) {
        json_t *list = json_copy(x);
        json_array_extend(list, y);
        return list;
    }
    return NULL;
}

static int merge(struct schema_compiler *c, json_t *a, json_t *b, json_t *out, const struct schema_path *path)
{
    const char *key;
    json_t *y;
    json_object_foreach(b, key, y)
    {
        json_t *x = json_object_get(a, key);
        if (!strcmp(key, "properties")) continue;
        if (!x || json_equal(x, y)) {
            json_object_set(out, key, y);
            continue;
        }
        if (!strcmp(key, "const")) { /* two values: none */
            json_object_del(out, key);
            json_object_set_new(out, "enum", json_array());
            continue;
        }
        json_t *both = keyword_of_both(c, key, a, b, x, y, path);
        if (!both && c->b.err && c->b.err->code < 0) return c->b.err->code;
        if (!both)
            return schema_fail(
                c, path, key, LUTRA_E_UNSUPPORTED, "together with another %s for the same value it is not built", key);
        json_object_set_new(out, key, both);
    }
    bool tuple = json_object_get(a, "prefixItems") || json_object_get(b, "prefixItems") ||
                 json_is_array(json_object_get(a, "items")) || json_is_array(json_object_get(b, "items"));
    bool said = json_object_get(a, "items") || json_object_get(a, "prefixItems");
    if (tuple && said && (json_object_get(b, "items") || json_object_get(b, "prefixItems")))
        return schema_fail(c, path, "prefixItems", LUTRA_E_UNSUPPORTED, "merged with other items it is not built");
    if (json_object_get(a, "properties") || json_object_get(b, "properties"))
        json_object_set_new(out, "properties", properties(a, b));
    return 0;
}

int schema_both(struct schema_compiler *c, json_t *a, json_t *b, const struct schema_path *path, json_t **out)
{
    if (json_is_true(b) || json_is_false(a)) return *out = a, 0;
    if (json_is_true(a) || json_is_false(b)) return *out = b, 0;
    if (!json_is_object(a) || !json_is_object(b))
        return schema_fail(c, path, NULL, LUTRA_E_FORMAT, "a schema is an object, true or false");
    TRY(follow(c, a, path, &a));
    TRY(follow(c, b, path, &b));
    if (!json_is_object(a) || !json_is_object(b)) return schema_both(c, a, b, path, out);
    json_t *x = json_copy(a);
    TRY(remember(c, x));
    *out = x;
    return merge(c, a, b, x, path);
}

/* ---- disjoint schemas ---- */

/* The values that a schema lists, as a new array; NULL: it lists none. */
static json_t *values_of(json_t *schema)
{
    json_t *one = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    if (one) return list_of(one, NULL);
    return json_is_array(list) ? json_incref(list) : NULL;
}

static bool requires(const json_t *schema, const char *key)
{
    const json_t *list = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name && !strcmp(name, key)) return true;
    }
    return false;
}

static int types_of(struct schema_compiler *c, json_t *schema, const struct schema_path *path)
{
    json_t *list = values_of(schema);
    int types = schema_types(c, schema, path), listed = 0;
    for (size_t i = 0; i < json_array_size(list); i++) listed |= schema_type_of(json_array_get(list, i));
    if (list && types >= 0) types &= listed;
    json_decref(list);
    return types;
}

static int are_disjoint(struct schema_compiler *c, json_t *a, json_t *b, const struct schema_path *path, int depth)
{
    if (json_is_false(a) || json_is_false(b)) return 1;
    if (!json_is_object(a) || !json_is_object(b)) return 0;
    TRY(follow(c, a, path, &a));
    TRY(follow(c, b, path, &b));
    int x = types_of(c, a, path), y = types_of(c, b, path);
    TRY(x);
    TRY(y);
    if (!(x & y)) return 1;
    json_t *p = values_of(a), *q = values_of(b), *both = common(p, q);
    bool apart = p && q && !json_array_size(both);
    json_decref(p);
    json_decref(q);
    json_decref(both);
    if (apart) return 1;
    if (depth || (x & y) != SCHEMA_OBJECT) return 0;
    const char *key; /* a property that both have and that tells them apart */
    json_t *v, *other, *of_b = json_object_get(b, "properties");
    json_object_foreach(json_object_get(a, "properties"), key, v)
    {
        if (!requires(a, key) || !requires(b, key) || !(other = json_object_get(of_b, key))) continue;
        int rc = are_disjoint(c, v, other, path, depth + 1);
        if (rc) return rc;
    }
    return 0;
}

int schema_disjoint(struct schema_compiler *c, json_t *branches, const struct schema_path *path)
{
    for (size_t i = 0; i < json_array_size(branches); i++)
        for (size_t k = 0; k < i; k++) {
            const struct schema_path here = {path, NULL, i};
            int rc = are_disjoint(c, json_array_get(branches, i), json_array_get(branches, k), &here, 0);
            TRY(rc);
            if (!rc)
                return schema_fail(c, &here, NULL, LUTRA_E_UNSUPPORTED,
                    "it is not clear that no value holds by this branch and branch %zu (types, const and enum, also of "
                    "a required property, tell them apart)",
                    k);
        }
    return 0;
}
