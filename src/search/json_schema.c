/* SPDX-License-Identifier: MIT
 *
 * Opening a schema: every keyword is known and has the value that it needs, patterns are compiled, references lead
 * somewhere.  What a value must be is in json_schema_check.c.
 */
#include "search/json_schema_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/json_text.h"

/* What stands behind a keyword. */
enum need {
    NOTE,
    SCHEMA,
    SCHEMAS,
    SCHEMA_MAP,
    ITEMS,
    TYPE,
    LIST,
    ANY,
    REF,
    COUNT,
    NUMBER,
    FACTOR,
    NAMES,
    NAME_LISTS,
    PATTERN,
    PATTERN_MAP,
    FORMAT,
    FLAG
};

static const struct {
    const char *name;
    enum need need;
} keywords[] = {{"title", NOTE}, {"description", NOTE}, {"default", NOTE}, {"examples", NOTE}, {"$schema", NOTE},
    {"$id", NOTE}, {"$comment", NOTE}, {"deprecated", NOTE}, {"readOnly", NOTE}, {"writeOnly", NOTE},
    {"contentEncoding", NOTE}, {"contentMediaType", NOTE}, {"$defs", SCHEMA_MAP}, {"definitions", SCHEMA_MAP},
    {"type", TYPE}, {"enum", LIST}, {"const", ANY}, {"$ref", REF}, {"allOf", SCHEMAS}, {"anyOf", SCHEMAS},
    {"oneOf", SCHEMAS}, {"not", SCHEMA}, {"if", SCHEMA}, {"then", SCHEMA}, {"else", SCHEMA}, {"properties", SCHEMA_MAP},
    {"required", NAMES}, {"additionalProperties", SCHEMA}, {"patternProperties", PATTERN_MAP},
    {"propertyNames", SCHEMA}, {"minProperties", COUNT}, {"maxProperties", COUNT}, {"dependentRequired", NAME_LISTS},
    {"dependentSchemas", SCHEMA_MAP}, {"items", ITEMS}, {"prefixItems", SCHEMAS}, {"contains", SCHEMA},
    {"minContains", COUNT}, {"maxContains", COUNT}, {"minItems", COUNT}, {"maxItems", COUNT}, {"uniqueItems", FLAG},
    {"minLength", COUNT}, {"maxLength", COUNT}, {"pattern", PATTERN}, {"format", FORMAT}, {"minimum", NUMBER},
    {"maximum", NUMBER}, {"exclusiveMinimum", NUMBER}, {"exclusiveMaximum", NUMBER}, {"multipleOf", FACTOR}};

/* Where in the schema, for messages. */
struct place {
    const struct place *up; /* NULL: the root */
    const char *key;        /* NULL: an index */
    size_t index;
};

struct opening {
    struct json_schema *s;
    const char *name;
    struct lutra_error *err;
};

static void put_place(const struct place *at, char *out, size_t room)
{
    if (at->up) put_place(at->up, out, room);
    size_t n = strlen(out);
    if (!at->up)
        snprintf(out, room, "#");
    else if (at->key)
        snprintf(out + n, room - n, "/%.60s", at->key);
    else
        snprintf(out + n, room - n, "/%zu", at->index);
}

static int refuse(const struct opening *o, const struct place *at, int code, const char *why)
{
    char where[200] = "";
    put_place(at, where, sizeof where);
    return lutra_fail(o->err, code, "%.120s: %s: %s", o->name, where, why);
}

static int no_memory(const struct opening *o)
{
    return lutra_fail(o->err, LUTRA_E_NO_MEMORY, "%.120s: out of memory", o->name);
}

static int add_pattern(const struct opening *o, const char *text, size_t n, const struct place *at)
{
    struct json_schema *s = o->s;
    PCRE2_SIZE where;
    PCRE2_UCHAR why[120];
    int code;
    if (json_schema_pattern(s, text, n)) return 0;
    struct schema_pattern *more = realloc(s->patterns, (s->n_patterns + 1) * sizeof *more);
    if (!more) return no_memory(o);
    s->patterns = more;
    /* As in JavaScript: $ only at the end, \uHHHH, [^] and []. */
    uint32_t flags = PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX | PCRE2_MATCH_UNSET_BACKREF;
    more[s->n_patterns].code = pcre2_compile((PCRE2_SPTR)text, n, flags, &code, &where, NULL);
    if (!more[s->n_patterns].code) {
        pcre2_get_error_message(code, why, sizeof why);
        return refuse(o, at, LUTRA_E_FORMAT, (char *)why);
    }
    more[s->n_patterns].text = text;
    more[s->n_patterns++].n = n;
    return 0;
}

const pcre2_code *json_schema_pattern(const struct json_schema *s, const char *text, size_t n)
{
    for (size_t i = 0; i < s->n_patterns; i++)
        if (s->patterns[i].n == n && !memcmp(s->patterns[i].text, text, n)) return s->patterns[i].code;
    return NULL;
}

/* The value that a $ref of this schema names, or NULL. */
const json_t *json_schema_resolve(const struct json_schema *s, const char *ref)
{
    const json_t *x = s->root;
    if (*ref++ != '#') return NULL;
    while (*ref == '/' && x) {
        char key[256];
        size_t n = 0;
        for (ref++; *ref && *ref != '/' && n + 1 < sizeof key; ref++) {
            unsigned hex;
            char c = *ref;
            if (c == '~' && (ref[1] == '0' || ref[1] == '1'))
                c = *++ref == '0' ? '~' : '/';
            else if (c == '%' && sscanf(ref + 1, "%2x", &hex) == 1 && ref[2])
                c = (char)hex, ref += 2;
            key[n++] = c;
        }
        key[n] = 0;
        char *end;
        unsigned long i = strtoul(key, &end, 10);
        x = json_is_array(x) ? (*key && !*end ? json_array_get(x, i) : NULL) : json_object_get(x, key);
    }
    return *ref ? NULL : x;
}

static int open_schema(const struct opening *o, const json_t *x, const struct place *at);

static int open_map(const struct opening *o, const json_t *map, bool patterns, const struct place *at)
{
    if (!json_is_object(map)) return refuse(o, at, LUTRA_E_FORMAT, "an object of schemas is needed");
    json_t *object = (json_t *)map; /* jansson's iterators change nothing, but take no const */
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        const char *key = json_object_iter_key(i);
        const struct place here = {at, key, 0};
        if (patterns) TRY(add_pattern(o, key, json_object_iter_key_len(i), &here));
        TRY(open_schema(o, json_object_iter_value(i), &here));
    }
    return 0;
}

static int open_list(const struct opening *o, const json_t *list, const struct place *at)
{
    if (!json_array_size(list)) return refuse(o, at, LUTRA_E_FORMAT, "an array of schemas is needed");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const struct place here = {at, NULL, i};
        TRY(open_schema(o, json_array_get(list, i), &here));
    }
    return 0;
}

static bool is_names(const json_t *x)
{
    for (size_t i = 0; i < json_array_size(x); i++)
        if (!json_is_string(json_array_get(x, i))) return false;
    return json_is_array(x);
}

static bool is_name_lists(const json_t *x)
{
    const char *key;
    json_t *list;
    json_object_foreach((json_t *)x, key, list) if (!is_names(list)) return false;
    return json_is_object(x);
}

static bool is_types(const json_t *x)
{
    if (json_is_string(x)) return json_schema_type(json_string_value(x)) != 0;
    for (size_t i = 0; i < json_array_size(x); i++) {
        const json_t *one = json_array_get(x, i);
        if (!json_is_string(one) || !json_schema_type(json_string_value(one))) return false;
    }
    return json_array_size(x) > 0;
}

static int open_reference(const struct opening *o, const json_t *ref, const struct place *at)
{
    const char *text = json_string_value(ref);
    if (!text) return refuse(o, at, LUTRA_E_FORMAT, "a string is needed");
    if (*text != '#' || (text[1] && text[1] != '/'))
        return refuse(o, at, LUTRA_E_UNSUPPORTED, "only references within the schema (#/...) are followed");
    const json_t *target = json_schema_resolve(o->s, text);
    return json_is_object(target) || json_is_boolean(target) ? 0
                                                             : refuse(o, at, LUTRA_E_FORMAT, "it leads to no schema");
}

static int open_keyword(const struct opening *o, enum need need, const json_t *x, const struct place *at)
{
    struct schema_number v;
    bool number = json_schema_number(x, &v), count = number && v.is_int && v.i >= 0;
    switch (need) {
    case NOTE:
    case ANY: return 0;
    case SCHEMA: return open_schema(o, x, at);
    case ITEMS: return json_is_array(x) ? open_list(o, x, at) : open_schema(o, x, at);
    case SCHEMAS: return open_list(o, x, at);
    case SCHEMA_MAP: return open_map(o, x, false, at);
    case PATTERN_MAP: return open_map(o, x, true, at);
    case REF: return open_reference(o, x, at);
    case TYPE: return is_types(x) ? 0 : refuse(o, at, LUTRA_E_FORMAT, SCHEMA_TYPE_NAMES);
    case LIST: return json_is_array(x) ? 0 : refuse(o, at, LUTRA_E_FORMAT, "an array is needed");
    case NAMES: return is_names(x) ? 0 : refuse(o, at, LUTRA_E_FORMAT, "an array of names is needed");
    case NAME_LISTS: return is_name_lists(x) ? 0 : refuse(o, at, LUTRA_E_FORMAT, "arrays of names are needed");
    case COUNT: return count ? 0 : refuse(o, at, LUTRA_E_FORMAT, "a count is needed");
    case NUMBER: return number ? 0 : refuse(o, at, LUTRA_E_FORMAT, "a number is needed");
    case FACTOR: return number && v.f > 0 ? 0 : refuse(o, at, LUTRA_E_FORMAT, "a number above 0 is needed");
    case FLAG: return json_is_boolean(x) ? 0 : refuse(o, at, LUTRA_E_FORMAT, "true or false is needed");
    case PATTERN:
        if (!json_is_string(x)) return refuse(o, at, LUTRA_E_FORMAT, "a string is needed");
        return add_pattern(o, json_string_value(x), json_string_length(x), at);
    case FORMAT:
        if (!json_is_string(x)) return refuse(o, at, LUTRA_E_FORMAT, "a string is needed");
        return json_schema_knows_format(json_string_value(x))
                   ? 0
                   : refuse(o, at, LUTRA_E_UNSUPPORTED, "this format is not built");
    }
    return 0;
}

static int open_schema(const struct opening *o, const json_t *x, const struct place *at)
{
    const char *key;
    json_t *value;
    if (json_is_boolean(x)) return 0;
    if (!json_is_object(x)) return refuse(o, at, LUTRA_E_FORMAT, "a schema is an object, true or false");
    json_object_foreach((json_t *)x, key, value)
    {
        const struct place here = {at, key, 0};
        size_t i = 0;
        while (i < sizeof keywords / sizeof *keywords && strcmp(key, keywords[i].name) != 0) i++;
        if (i == sizeof keywords / sizeof *keywords)
            return refuse(o, &here, LUTRA_E_UNSUPPORTED, "this keyword is not built");
        TRY(open_keyword(o, keywords[i].need, value, &here));
    }
    return 0;
}

int json_schema_open(
    struct json_schema **out, const char *name, const char *text, size_t n_bytes, struct lutra_error *err)
{
    const struct place top = {NULL, NULL, 0};
    struct json_schema *s = *out = calloc(1, sizeof *s);
    struct opening o = {s, name, err};
    if (!s) return no_memory(&o);
    int rc = text_json_load(name, text, n_bytes, SCHEMA_MAX_DEPTH, &s->root, err);
    s->match = pcre2_match_data_create(1, NULL);
    s->limits = pcre2_match_context_create(NULL);
    if (rc == 0 && (!s->match || !s->limits)) rc = no_memory(&o);
    if (s->limits) pcre2_set_match_limit(s->limits, SCHEMA_MATCH_STEPS);
    if (s->limits) pcre2_set_heap_limit(s->limits, SCHEMA_MATCH_KIB);
    if (rc == 0) rc = open_schema(&o, s->root, &top);
    if (rc == 0) rc = json_schema_open_formats(s, err);
    if (rc < 0) json_schema_close(out);
    return rc;
}

void json_schema_close(struct json_schema **schema)
{
    struct json_schema *s = *schema;
    if (!s) return;
    for (size_t i = 0; i < s->n_patterns; i++) pcre2_code_free(s->patterns[i].code);
    for (size_t i = 0; i < SCHEMA_N_FORMATS; i++) pcre2_code_free(s->formats[i]);
    free(s->patterns);
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->limits);
    json_decref(s->root);
    free(s);
    *schema = NULL;
}
