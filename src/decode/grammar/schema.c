/* SPDX-License-Identifier: MIT
 *
 * JSON Schema (draft 2020-12) to rules.  Every text that the rules match holds by the schema.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/grammar/schema_impl.h"

struct known {
    const json_t *schema;
    int32_t rule;
};

/* ---- keywords ---- */

enum use { NOTE, ANY, OF_OBJECT, OF_ARRAY, OF_STRING, OF_NUMBER };
static const struct {
    const char *name;
    enum use use;
} keywords[] = {
    {"title", NOTE},
    {"description", NOTE},
    {"default", NOTE},
    {"examples", NOTE},
    {"$schema", NOTE},
    {"$id", NOTE},
    {"$comment", NOTE},
    {"$defs", NOTE},
    {"definitions", NOTE},
    {"deprecated", NOTE},
    {"readOnly", NOTE},
    {"writeOnly", NOTE},
    {"type", ANY},
    {"enum", ANY},
    {"const", ANY},
    {"$ref", ANY},
    {"allOf", ANY},
    {"anyOf", ANY},
    {"oneOf", ANY},
    {"properties", OF_OBJECT},
    {"required", OF_OBJECT},
    {"additionalProperties", OF_OBJECT},
    {"items", OF_ARRAY},
    {"prefixItems", OF_ARRAY},
    {"minItems", OF_ARRAY},
    {"maxItems", OF_ARRAY},
    {"minLength", OF_STRING},
    {"maxLength", OF_STRING},
    {"pattern", OF_STRING},
    {"format", OF_STRING},
    {"minimum", OF_NUMBER},
    {"maximum", OF_NUMBER},
    {"exclusiveMinimum", OF_NUMBER},
    {"exclusiveMaximum", OF_NUMBER},
};

static int use_of(const char *keyword)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (!strcmp(keyword, keywords[i].name)) return keywords[i].use;
    return -1;
}

bool schema_is_note(const char *keyword)
{
    return use_of(keyword) == NOTE;
}

static void put_path(const struct schema_path *path, char *out, size_t room)
{
    if (path->up) put_path(path->up, out, room);
    size_t n = strlen(out);
    if (!path->up)
        snprintf(out, room, "#");
    else if (path->key)
        snprintf(out + n, room - n, "/%.60s", path->key);
    else
        snprintf(out + n, room - n, "/%zu", path->index);
}

int schema_fail(
    struct schema_compiler *c, const struct schema_path *path, const char *keyword, int code, const char *fmt, ...)
{
    char where[280] = "", why[180];
    put_path(path, where, sizeof where);
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    return lutra_fail(c->b.err, code, "JSON schema%s%s%s, %s%s%.60s: %s", c->name ? " '" : "", c->name ? c->name : "",
        c->name ? "'" : "", where, keyword ? "/" : "", keyword ? keyword : "", why);
}

/* Whether a schema says anything of this use. */
static bool uses(const json_t *schema, enum use use)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (keywords[i].use == use && json_object_get(schema, keywords[i].name)) return true;
    return false;
}

/* A keyword with a count: absent is `otherwise`. */
static int read_count(
    struct schema_compiler *c, const json_t *schema, const char *key, const struct schema_path *path, int32_t *out)
{
    const json_t *x = json_object_get(schema, key);
    if (!x) return 0;
    double n = json_is_number(x) ? json_number_value(x) : -1;
    if (n < 0 || n != floor(n)) return schema_fail(c, path, key, LUTRA_E_FORMAT, "it is no count");
    *out = n < INT32_MAX ? (int32_t)n : INT32_MAX;
    return 0;
}

static int check_counts(
    struct schema_compiler *c, const char *key, int32_t min, int32_t max, const struct schema_path *path)
{
    enum { COUNT = 1 << 30 };
    if (min > COUNT || (max != -1 && max > COUNT))
        return schema_fail(c, path, key, LUTRA_E_UNSUPPORTED, "more than %d are not built", COUNT);
    return 0;
}

static const char *const type_names[] = {"null", "boolean", "object", "array", "string", "integer", "number"};

static int type_named(const char *name)
{
    for (int i = 0; name && i < 7; i++)
        if (!strcmp(name, type_names[i])) return i == 6 ? SCHEMA_NUMBER : 1 << i;
    return -1;
}

int schema_types(struct schema_compiler *c, const json_t *schema, const struct schema_path *path)
{
    const json_t *type = json_object_get(schema, "type");
    if (!type) return SCHEMA_ALL;
    int types = 0;
    size_t n = json_is_array(type) ? json_array_size(type) : 1;
    for (size_t i = 0; i < n; i++) {
        int t = type_named(json_string_value(json_is_array(type) ? json_array_get(type, i) : type));
        if (t < 0)
            return schema_fail(
                c, path, "type", LUTRA_E_FORMAT, "types are null, boolean, object, array, string, integer and number");
        types |= t;
    }
    return types;
}

int schema_type_of(const json_t *x)
{
    switch (json_typeof(x)) {
    case JSON_NULL: return SCHEMA_NULL;
    case JSON_TRUE:
    case JSON_FALSE: return SCHEMA_BOOLEAN;
    case JSON_OBJECT: return SCHEMA_OBJECT;
    case JSON_ARRAY: return SCHEMA_ARRAY;
    case JSON_STRING: return SCHEMA_STRING;
    case JSON_INTEGER: return SCHEMA_INTEGER;
    default: return json_real_value(x) == floor(json_real_value(x)) ? SCHEMA_INTEGER : SCHEMA_FRACTION;
    }
}

/* ---- literals and scalars ---- */

static int32_t key_text(struct schema_compiler *c, const char *key);

/* Marks cannot be escaped: a text that has one cannot be written. */
static int32_t marked(struct schema_compiler *c, const char *text, size_t n)
{
    struct builder *b = &c->b;
    if (memchr(text, 0, n) || strstr(text, c->quote)) return build_never(b);
    return build_seq(b, build_text(b, c->quote), build_seq(b, build_bytes(b, text, n), build_text(b, c->quote)));
}

static int32_t gemma_literal(struct schema_compiler *c, json_t *x)
{
    struct builder *b = &c->b;
    bool object = json_is_object(x), first = true;
    int32_t e = build_text(b, object ? "{" : "[");
    const char *key;
    json_t *item;
    size_t i;
    json_object_foreach(x, key, item)
    {
        int32_t it = build_seq(b, key_text(c, key), build_seq(b, build_text(b, ":"), gemma_literal(c, item)));
        e = build_seq(b, e, build_seq(b, build_text(b, first ? "" : ","), it));
        first = false;
    }
    json_array_foreach(x, i, item)
    {
        e = build_seq(b, e, build_seq(b, build_text(b, i ? "," : ""), gemma_literal(c, item)));
    }
    if (object || json_is_array(x)) return build_seq(b, e, build_text(b, object ? "}" : "]"));
    if (json_is_string(x)) return marked(c, json_string_value(x), json_string_length(x));
    char *text = json_dumps(x, JSON_COMPACT | JSON_ENCODE_ANY);
    e = text ? build_text(b, text) : lutra_fail(b->err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    free(text);
    return e;
}

static int32_t literal(struct schema_compiler *c, json_t *x)
{
    struct builder *b = &c->b;
    if (c->style == STYLE_GEMMA) return gemma_literal(c, x);
    char *text = json_dumps(x, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text) return lutra_fail(b->err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    int32_t e = build_empty(b);
    for (char *p = text, *tag; *p; p = tag) { /* JSON has < within strings only */
        tag = p + strcspn(p, b->chars == CHARS_NO_TAG ? "<" : "");
        e = build_seq(b, e, build_bytes(b, p, (size_t)(tag - p)));
        if (*tag && *tag++ == '<') e = build_seq(b, e, build_text(b, "\\u003c"));
    }
    free(text);
    return e;
}

/* A property's name as a key. */
static int32_t key_text(struct schema_compiler *c, const char *key)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.$";
    if (c->style == STYLE_GEMMA)
        return *key && !key[strspn(key, letters)] ? build_text(&c->b, key) : marked(c, key, strlen(key));
    json_t *text = json_string(key);
    int32_t e = text ? literal(c, text) : lutra_fail(c->b.err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    json_decref(text);
    return e;
}

static int32_t enumeration(struct schema_compiler *c, json_t *schema, const struct schema_path *path)
{
    json_t *values = json_object_get(schema, "enum"), *constant = json_object_get(schema, "const");
    const char *key = values ? "enum" : "const", *other;
    json_t *x;
    json_object_foreach(schema, other, x) if (use_of(other) != NOTE && strcmp(other, "type") && strcmp(other, "enum") &&
                                              strcmp(other, "const")) return schema_fail(c, path, key,
        LUTRA_E_UNSUPPORTED, "beside %s it is not built", other);
    if (values && !json_is_array(values)) return schema_fail(c, path, key, LUTRA_E_FORMAT, "it is no array");
    int types = schema_types(c, schema, path);
    TRY(types);
    int32_t e = build_never(&c->b);
    for (size_t i = values ? json_array_size(values) : 1; i-- > 0 && e >= 0;) {
        x = values ? json_array_get(values, i) : constant;
        if (!(schema_type_of(x) & types) || (values && constant && !json_equal(x, constant))) continue;
        e = build_alt(&c->b, literal(c, x), e);
    }
    return e;
}

static const struct {
    const char *name, *pattern;
} formats[] = {
#define DATE                                                                                                           \
    "[12]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|"                   \
    "02-(?:0[1-9]|1\\d|2[0-8]))"
#define TIME "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"uuid", "^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
};

/* Any text up to its mark, without what ends a call. */
static int32_t marked_text(struct schema_compiler *c)
{
    static const char *const ends[] = {"<tool_call|>", "<end_function_call>"};
    struct builder *b = &c->b;
    struct until mark[3];
    int32_t open = build_text(b, c->quote);
    for (int i = 0; i < 3; i++) {
        TRY(build_mark(b, i ? ends[i - 1] : c->quote, &mark[i]));
        mark[i].then = i ? build_never(b) : build_empty(b);
    }
    return build_seq(b, open, build_until(b, mark, 3, false));
}

int32_t schema_string(struct schema_compiler *c, json_t *schema, const struct schema_path *path)
{
    struct builder *b = &c->b;
    int32_t min = 0, max = -1, lo, hi;
    TRY(read_count(c, schema, "minLength", path, &min));
    TRY(read_count(c, schema, "maxLength", path, &max));
    const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    const char *text = NULL, *key = pattern ? "pattern" : "format";
    if (pattern && format) return schema_fail(c, path, key, LUTRA_E_UNSUPPORTED, "beside format it is not built");
    if ((pattern || format) && !json_is_string(pattern ? pattern : format))
        return schema_fail(c, path, key, LUTRA_E_FORMAT, "it is no string");
    if (pattern) text = json_string_value(pattern);
    for (size_t i = 0; format && i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(json_string_value(format), formats[i].name)) text = formats[i].pattern;
    if (format && !text)
        return schema_fail(c, path, key, LUTRA_E_UNSUPPORTED, "of formats date, time, date-time and uuid are built");
    int32_t e;
    if (text) {
        struct lutra_error why = {0}, *err = b->err;
        b->err = &why;
        e = build_pattern(b, text, pattern ? json_string_length(pattern) : strlen(text), &lo, &hi);
        b->err = err;
        if (e < 0) return schema_fail(c, path, key, e, "%.150s", why.what);
        if (lo < min || (max >= 0 && (hi < 0 || hi > max)))
            return schema_fail(c, path, key, LUTRA_E_UNSUPPORTED,
                "together with a length that it does not have by itself it is not built");
    } else {
        TRY(check_counts(c, max >= 0 ? "maxLength" : "minLength", min, max, path));
        if (c->style == STYLE_GEMMA && min == 0 && max < 0) return marked_text(c);
        e = max >= 0 && max < min ? build_never(b) : build_repeat(b, build_json_char(b), min, max);
    }
    return build_seq(b, build_text(b, c->quote), build_seq(b, e, build_text(b, c->quote)));
}

/* *bound: the tighter of `key` and its exclusive form; left alone where there is none. */
static int read_bound(struct schema_compiler *c, const json_t *schema, bool low, double *bound, bool *open,
    const struct schema_path *path)
{
    static const char *const names[2][2] = {{"maximum", "exclusiveMaximum"}, {"minimum", "exclusiveMinimum"}};
    bool any = false;
    for (int k = 0; k < 2; k++) {
        const json_t *x = json_object_get(schema, names[low][k]);
        if (!x) continue;
        if (!json_is_number(x)) return schema_fail(c, path, names[low][k], LUTRA_E_FORMAT, "it is no number");
        double v = json_number_value(x);
        if (any && (low ? v < *bound : v > *bound)) continue;
        if (low ? v > 1e15 : v < -1e15)
            return schema_fail(c, path, names[low][k], LUTRA_E_UNSUPPORTED, "beyond 10^15 it is not built");
        *open = k == 1 && fabs(v) < 1e15;
        *bound = low ? fmax(v, -1e15) : fmin(v, 1e15);
        any = true;
    }
    return any;
}

static int32_t number(struct schema_compiler *c, json_t *schema, int types, const struct schema_path *path)
{
    double lo = 0, hi = 0;
    bool lo_open = false, hi_open = false, whole = !(types & SCHEMA_FRACTION);
    int low = read_bound(c, schema, true, &lo, &lo_open, path),
        high = read_bound(c, schema, false, &hi, &hi_open, path);
    TRY(low);
    TRY(high);
    if (!low && !high) return whole ? build_json_integer(&c->b) : build_json_number(&c->b);
    double far = whole ? 999999999999999 : 999999999; /* what a side without a bound gets */
    if (!low) lo = fmin(-far, hi);
    if (!high) hi = fmax(far, lo);
    if (!whole) return build_json_numbers(&c->b, lo, lo_open, hi, hi_open);
    double from = lo_open ? floor(lo) + 1 : ceil(lo), to = hi_open ? ceil(hi) - 1 : floor(hi);
    return from > to ? build_never(&c->b) : build_json_integers(&c->b, (int64_t)from, (int64_t)to);
}

/* ---- objects ---- */

static int32_t pair(struct schema_compiler *c, int32_t key, int32_t what)
{
    return build_seq(
        &c->b, key, build_seq(&c->b, build_text(&c->b, ":"), build_seq(&c->b, build_json_space(&c->b), what)));
}

static int by_name(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

int32_t schema_other_keys(struct schema_compiler *c, const char **name, size_t n, size_t at)
{
    struct builder *b = &c->b;
    int32_t n_never = b->chars == CHARS_JSON ? 3 : 5; /* tags and marks have < and > */
    struct cp_range used[160] = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}, {'<', '<'}, {'>', '>'}};
    int32_t plain = build_class(b, used, n_never, true);
    if (!n) return build_repeat(b, plain, 0, -1);
    bool ends = !name[0][at];
    int32_t e = ends ? build_never(b) : build_empty(b); /* to stop here */
    int32_t n_used = n_never;
    for (size_t i = ends; i < n;) {
        uint8_t first = (uint8_t)name[i][at];
        size_t k = i + 1;
        while (k < n && (uint8_t)name[k][at] == first) k++;
        /* Names that go on with other characters than ASCII: no key goes on like that. */
        used[n_used++] = first < 0x80 ? (struct cp_range){first, first} : (struct cp_range){0x80, 0x10ffff};
        if (first < 0x80 && first > 0x1f && !memchr("\"\\<>", first, (size_t)n_never - 1) && at < SCHEMA_DEPTH) {
            char text[2] = {(char)first, 0};
            e = build_alt(b, build_seq(b, build_text(b, text), schema_other_keys(c, name + i, k - i, at + 1)), e);
        }
        if (first >= 0x80) k = n;
        i = k;
    }
    int32_t rest = build_seq(b, build_class(b, used, n_used, true), build_repeat(b, plain, 0, -1));
    return build_alt(b, rest, e);
}

struct members {
    json_t *properties, *required, *more; /* more: additionalProperties; NULL: none are allowed */
};

static bool is_required(const struct members *m, const char *key)
{
    for (size_t i = 0; i < json_array_size(m->required); i++)
        if (!strcmp(json_string_value(json_array_get(m->required, i)), key)) return true;
    return false;
}

/* From the last property to the first: what may stand from there on, where nothing has been written (first) and where
 * something has (then).  Each is a rule, so that a text has one way through them. */
static int32_t chain(struct schema_compiler *c, const struct members *m, const char **name, size_t n, int32_t other,
    const struct schema_path *path)
{
    struct builder *b = &c->b;
    int32_t space = build_json_space(b), end = build_seq(b, space, build_text(b, "}"));
    int32_t comma = build_seq(b, build_text(b, ","), space);
    int32_t first = end, then = end;
    if (other >= 0) {
        int32_t more = build_repeat(b, build_seq(b, comma, other), 0, -1);
        then = build_seq(b, more, end);
        first = build_seq(b, build_alt(b, build_seq(b, space, build_seq(b, other, more)), build_empty(b)), end);
    }
    const struct schema_path at = {path, "properties", 0};
    for (size_t i = n; i-- > 0;) {
        json_t *sub = json_object_get(m->properties, name[i]);
        const struct schema_path here = {&at, name[i], 0};
        int32_t it = pair(c, key_text(c, name[i]), schema_value(c, sub ? sub : m->more ? m->more : json_true(), &here));
        int32_t next = build_new_rule(b), start = build_new_rule(b);
        TRY(it);
        TRY(build_define(b, next, then));
        TRY(build_define(b, start, first));
        int32_t go_on = build_rule(b, next);
        then = build_seq(b, comma, build_seq(b, it, go_on));
        first = build_seq(b, space, build_seq(b, it, go_on));
        if (is_required(m, name[i])) continue;
        then = build_alt(b, then, go_on);
        first = build_alt(b, first, build_rule(b, start));
    }
    return first;
}

static int check_members(struct schema_compiler *c, const struct members *m, const struct schema_path *path)
{
    if (m->properties && !json_is_object(m->properties))
        return schema_fail(c, path, "properties", LUTRA_E_FORMAT, "it is no object");
    if (m->required && !json_is_array(m->required))
        return schema_fail(c, path, "required", LUTRA_E_FORMAT, "it is no array");
    for (size_t i = 0; i < json_array_size(m->required); i++)
        if (!json_is_string(json_array_get(m->required, i)))
            return schema_fail(c, path, "required", LUTRA_E_FORMAT, "it names something that is no string");
    if (json_object_size(m->properties) + json_array_size(m->required) > 4096)
        return schema_fail(c, path, "properties", LUTRA_E_UNSUPPORTED, "more than 4096 are not built");
    return 0;
}

static int32_t bare_key(struct builder *b)
{
    static const struct cp_range letters[] = {{'A', 'Z'}, {'_', '_'}, {'a', 'z'}, {'0', '9'}};
    return build_seq(b, build_class(b, letters, 3, false), build_repeat(b, build_class(b, letters, 4, false), 0, -1));
}

static int32_t members(struct schema_compiler *c, const struct members *m, const char **name, const char **sorted,
    const struct schema_path *path)
{
    size_t n = 0;
    const char *key;
    json_t *x;
    json_object_foreach(m->properties, key, x) name[n++] = key;
    for (size_t i = 0; i < json_array_size(m->required); i++) {
        bool again = json_object_get(m->properties, json_string_value(json_array_get(m->required, i)));
        for (size_t k = json_object_size(m->properties); k < n; k++)
            again = again || !strcmp(name[k], json_string_value(json_array_get(m->required, i)));
        if (!again) name[n++] = json_string_value(json_array_get(m->required, i));
    }
    if (n > json_object_size(m->properties) && json_is_false(m->more))
        return build_never(&c->b); /* a property is required and forbidden */
    memcpy(sorted, name, n * sizeof *name);
    qsort(sorted, n, sizeof *sorted, by_name);
    int32_t other = -1;
    if (m->more && !json_is_false(m->more)) {
        const struct schema_path here = {path, "additionalProperties", 0};
        int32_t quote = build_text(&c->b, c->quote);
        int32_t named = build_seq(&c->b, quote, build_seq(&c->b, schema_other_keys(c, sorted, n, 0), quote));
        if (c->style == STYLE_GEMMA && n == 0) named = build_alt(&c->b, bare_key(&c->b), named);
        other = pair(c, named, schema_value(c, m->more, &here));
        TRY(other);
        int32_t rule = build_new_rule(&c->b);
        TRY(build_define(&c->b, rule, other));
        other = build_rule(&c->b, rule);
        TRY(other);
    }
    return build_seq(&c->b, build_text(&c->b, "{"), chain(c, m, name, n, other, path));
}

static int32_t object(struct schema_compiler *c, json_t *schema, const struct schema_path *path)
{
    struct members m = {json_object_get(schema, "properties"), json_object_get(schema, "required"),
        json_object_get(schema, "additionalProperties")};
    TRY(check_members(c, &m, path));
    /* Where nothing is said: objects with properties have no others, as in llama.cpp; objects without have any. */
    if (!m.more && !json_object_size(m.properties)) m.more = json_true();
    size_t n = json_object_size(m.properties) + json_array_size(m.required);
    const char **name = malloc((2 * n + 1) * sizeof *name);
    int32_t e =
        name ? members(c, &m, name, name + n, path) : lutra_fail(c->b.err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    free(name);
    return e;
}

/* ---- arrays ---- */

static int32_t array(struct schema_compiler *c, json_t *schema, const struct schema_path *path)
{
    struct builder *b = &c->b;
    json_t *items = json_object_get(schema, "items"), *prefix = json_object_get(schema, "prefixItems");
    const char *key = "prefixItems";
    if (json_is_array(items) && !prefix) {
        prefix = items; /* as drafts before 2020-12 write it */
        items = NULL;
        key = "items";
    }
    if (prefix && !json_is_array(prefix)) return schema_fail(c, path, key, LUTRA_E_FORMAT, "it is no array");
    int32_t min = 0, max = -1, n = (int32_t)json_array_size(prefix);
    TRY(read_count(c, schema, "minItems", path, &min));
    TRY(read_count(c, schema, "maxItems", path, &max));
    TRY(check_counts(c, max >= 0 ? "maxItems" : "minItems", min, max, path));
    if (n > GRAMMAR_NEST / 2) return schema_fail(c, path, key, LUTRA_E_UNSUPPORTED, "more than 100 are not built");
    if (!items && prefix) items = json_false(); /* no others than these, as in llama.cpp */
    if (max >= 0 && max < min) return build_never(b);
    int32_t space = build_json_space(b), comma = build_seq(b, build_text(b, ","), space);
    const struct schema_path of_items = {path, "items", 0}, of_prefix = {path, key, 0};
    int32_t item = json_is_false(items) ? build_never(b) : schema_value(c, items ? items : json_true(), &of_items);
    TRY(item);
    bool none = json_is_false(items);
    /* Behind the n-th of them: from least to most more. */
    int32_t least = min > n ? min - n : 0, most = max < 0 ? -1 : max > n ? max - n : 0;
    if (none && least) return build_never(b);
    int32_t e = none ? build_empty(b) : build_repeat(b, build_seq(b, comma, item), least, most);
    if (!n && !none && most) {
        e = build_seq(
            b, item, build_repeat(b, build_seq(b, comma, item), least ? least - 1 : 0, most < 0 ? -1 : most - 1));
        e = build_seq(b, space, e);
        if (!least) e = build_alt(b, e, build_empty(b));
    }
    for (int32_t i = n; i-- > 0;) {
        const struct schema_path here = {&of_prefix, NULL, (size_t)i};
        int32_t one = build_seq(b, i ? comma : space, schema_value(c, json_array_get(prefix, (size_t)i), &here));
        e = max >= 0 && i >= max ? build_empty(b) : build_seq(b, one, e);
        if (i >= min) e = build_alt(b, e, build_empty(b));
        TRY(e);
    }
    return build_seq(b, build_text(b, "["), build_seq(b, e, build_seq(b, space, build_text(b, "]"))));
}

/* ---- values ---- */

/* One rule for all strings with the same keywords: then they share their masks, too. */
static int32_t shared_string(struct schema_compiler *c, json_t *schema, const struct schema_path *path)
{
    for (int32_t i = 0; i < c->texts.n; i++) {
        const struct known *known = (const struct known *)c->texts.p + i;
        bool same = true;
        for (size_t k = 0; k < sizeof keywords / sizeof *keywords && same; k++) {
            json_t *a = json_object_get(schema, keywords[k].name),
                   *b = json_object_get(known->schema, keywords[k].name);
            same = keywords[k].use != OF_STRING || a == b || (a && b && json_equal(a, b));
        }
        if (same) return build_rule(&c->b, known->rule);
    }
    int32_t e = schema_string(c, schema, path), rule = build_new_rule(&c->b);
    TRY(build_define(&c->b, rule, e));
    TRY(vec_reserve(&c->texts, 1, sizeof(struct known), c->b.err));
    ((struct known *)c->texts.p)[c->texts.n++] = (struct known){schema, rule};
    return build_rule(&c->b, rule);
}

static int32_t any_value(struct schema_compiler *c)
{
    if (c->any < 0) {
        struct builder *b = &c->b;
        json_t *anything = json_object(); /* neither `properties` nor `items`: any members */
        const struct schema_path nowhere = {NULL, NULL, 0};
        c->any = build_new_rule(b);
        int32_t e = anything ? object(c, anything, &nowhere) : LUTRA_E_NO_MEMORY;
        e = build_alt(b, e, anything ? array(c, anything, &nowhere) : LUTRA_E_NO_MEMORY);
        e = build_alt(b, e, anything ? schema_string(c, anything, &nowhere) : LUTRA_E_NO_MEMORY);
        json_decref(anything);
        e = build_alt(b, e, build_alt(b, build_json_number(b), build_text(b, "true")));
        TRY(build_define(b, c->any, build_alt(b, e, build_alt(b, build_text(b, "false"), build_text(b, "null")))));
    }
    return build_rule(&c->b, c->any);
}

static int32_t of_types(struct schema_compiler *c, json_t *schema, const struct schema_path *path)
{
    struct builder *b = &c->b;
    int types = schema_types(c, schema, path);
    TRY(types);
    if (!json_object_get(schema, "type")) { /* the types of which something is said, as in llama.cpp */
        int said = (uses(schema, OF_OBJECT) ? SCHEMA_OBJECT : 0) | (uses(schema, OF_ARRAY) ? SCHEMA_ARRAY : 0) |
                   (uses(schema, OF_STRING) ? SCHEMA_STRING : 0) | (uses(schema, OF_NUMBER) ? SCHEMA_NUMBER : 0);
        if (!said) return any_value(c);
        types = said;
    }
    int32_t e = build_never(b);
    if (types & SCHEMA_NULL) e = build_alt(b, e, build_text(b, "null"));
    if (types & SCHEMA_BOOLEAN) e = build_alt(b, e, build_alt(b, build_text(b, "true"), build_text(b, "false")));
    if (types & SCHEMA_NUMBER) e = build_alt(b, e, number(c, schema, types, path));
    if (types & SCHEMA_STRING) e = build_alt(b, e, shared_string(c, schema, path));
    if (!(types & (SCHEMA_ARRAY | SCHEMA_OBJECT))) return e;
    if (types & SCHEMA_ARRAY) e = build_alt(b, e, array(c, schema, path));
    if (types & SCHEMA_OBJECT) e = build_alt(b, e, object(c, schema, path));
    int32_t rule = build_new_rule(b);
    TRY(build_define(b, rule, e));
    return build_rule(b, rule);
}

/* What is left of a schema without one keyword; borrowed from c. */
static json_t *without(struct schema_compiler *c, json_t *schema, const char *key)
{
    json_t *x = json_copy(schema);
    if (!x || vec_reserve(&c->made, 1, sizeof x, c->b.err) < 0) return json_decref(x), NULL;
    json_object_del(x, key);
    ((json_t **)c->made.p)[c->made.n++] = x;
    return x;
}

static int32_t alternatives(struct schema_compiler *c, json_t *schema, const char *key, const struct schema_path *path)
{
    json_t *branches = json_object_get(schema, key), *rest = without(c, schema, key);
    if (!json_array_size(branches)) return schema_fail(c, path, key, LUTRA_E_FORMAT, "it is no array with members");
    if (!rest) return lutra_fail(c->b.err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    const struct schema_path at = {path, key, 0};
    if (*key == 'o') TRY(schema_disjoint(c, branches, &at));
    int32_t e = build_never(&c->b);
    for (size_t i = json_array_size(branches); i-- > 0 && e >= 0;) {
        const struct schema_path here = {&at, NULL, i};
        json_t *both;
        TRY(schema_both(c, rest, json_array_get(branches, i), &here, &both));
        e = build_alt(&c->b, schema_value(c, both, &here), e);
    }
    int32_t rule = build_new_rule(&c->b);
    TRY(build_define(&c->b, rule, e));
    return build_rule(&c->b, rule);
}

static int32_t all_of(struct schema_compiler *c, json_t *schema, const struct schema_path *path)
{
    json_t *parts = json_object_get(schema, "allOf"), *both = without(c, schema, "allOf");
    if (!json_array_size(parts)) return schema_fail(c, path, "allOf", LUTRA_E_FORMAT, "it is no array with members");
    if (!both) return lutra_fail(c->b.err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    const struct schema_path at = {path, "allOf", 0};
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const struct schema_path here = {&at, NULL, i};
        TRY(schema_both(c, both, json_array_get(parts, i), &here, &both));
    }
    return schema_value(c, both, path);
}

/* A schema that is named: one rule for all who name it, itself included. */
static int32_t reference(struct schema_compiler *c, json_t *schema, const struct schema_path *path)
{
    json_t *target, *both;
    const json_t *ref = json_object_get(schema, "$ref");
    if (!json_is_string(ref)) return schema_fail(c, path, "$ref", LUTRA_E_FORMAT, "it is no string");
    TRY(schema_resolve(c, json_string_value(ref), path, &target));
    const char *key;
    json_t *x;
    bool alone = true;
    json_object_foreach(schema, key, x) alone = alone && (schema_is_note(key) || !strcmp(key, "$ref"));
    if (!alone) {
        json_t *rest = without(c, schema, "$ref");
        if (!rest) return lutra_fail(c->b.err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
        TRY(schema_both(c, rest, target, path, &both));
        return schema_value(c, both, path);
    }
    const struct known *known = c->known.p;
    for (int32_t i = 0; i < c->known.n; i++)
        if (known[i].schema == target) return build_rule(&c->b, known[i].rule);
    int32_t rule = build_new_rule(&c->b);
    TRY(rule);
    TRY(vec_reserve(&c->known, 1, sizeof *known, c->b.err));
    ((struct known *)c->known.p)[c->known.n++] = (struct known){target, rule};
    TRY(build_define(&c->b, rule, schema_value(c, target, path)));
    return build_rule(&c->b, rule);
}

static int32_t composed(struct schema_compiler *c, json_t *schema, const struct schema_path *path)
{
    const char *key;
    json_t *x;
    json_object_foreach(schema, key, x) if (use_of(key) < 0) return schema_fail(
        c, path, key, LUTRA_E_UNSUPPORTED, "this keyword is not built");
    if (json_object_get(schema, "$ref")) return reference(c, schema, path);
    if (json_object_get(schema, "allOf")) return all_of(c, schema, path);
    if (json_object_get(schema, "anyOf")) return alternatives(c, schema, "anyOf", path);
    if (json_object_get(schema, "oneOf")) return alternatives(c, schema, "oneOf", path);
    if (json_object_get(schema, "enum") || json_object_get(schema, "const")) return enumeration(c, schema, path);
    return of_types(c, schema, path);
}

/* What is left of a schema that has what is not built: its type. */
static int32_t loose(struct schema_compiler *c, json_t *schema, const struct schema_path *path)
{
    if (!*c->note) memcpy(c->note, c->b.err->what, sizeof c->note - 1);
    json_t *type = json_object_get(schema, "type"), *rest = json_object();
    if (!rest || vec_reserve(&c->made, 1, sizeof rest, c->b.err) < 0) return json_decref(rest), LUTRA_E_NO_MEMORY;
    ((json_t **)c->made.p)[c->made.n++] = rest;
    if (type) json_object_set(rest, "type", type);
    return of_types(c, rest, path);
}

int32_t schema_value(struct schema_compiler *c, json_t *schema, const struct schema_path *path)
{
    if (json_is_true(schema)) return any_value(c);
    if (json_is_false(schema)) return build_never(&c->b);
    if (!json_is_object(schema))
        return schema_fail(c, path, NULL, LUTRA_E_FORMAT, "a schema is an object, true or false");
    if (++c->depth > SCHEMA_DEPTH)
        return schema_fail(c, path, NULL, LUTRA_E_FORMAT, "nested more than %d deep, or by itself", SCHEMA_DEPTH);
    int32_t e = composed(c, schema, path);
    if (e == LUTRA_E_UNSUPPORTED && c->lenient) e = loose(c, schema, path);
    c->depth--;
    return e;
}

void schema_begin(struct schema_compiler *c, json_t *root, struct lutra_error *err)
{
    *c = (struct schema_compiler){.b = {.err = err}, .root = root, .any = -1, .quote = "\""};
}

void schema_end(struct schema_compiler *c)
{
    for (int32_t i = 0; i < c->made.n; i++) json_decref(((json_t **)c->made.p)[i]);
    free(c->made.p);
    free(c->known.p);
    free(c->texts.p);
    build_fini(&c->b);
}

int grammar_open_schema(struct grammar **out, const char *json, size_t n_bytes, struct lutra_error *err)
{
    *out = NULL;
    const struct schema_path top = {NULL, NULL, 0};
    json_error_t why;
    struct schema_compiler c;
    if (n_bytes > SCHEMA_BYTES) return lutra_fail(err, LUTRA_E_FORMAT, "JSON schema: more than 1 MiB of text");
    json_t *root = json_loadb(json, n_bytes, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return lutra_fail_at(
            err, LUTRA_E_FORMAT, (uint64_t)why.line, "JSON schema, line %d: no JSON: %s", why.line, why.text);
    schema_begin(&c, root, err);
    int rc = build_new_rule(&c.b);
    if (rc >= 0) rc = build_define(&c.b, 0, schema_value(&c, root, &top));
    if (rc >= 0) rc = grammar_compile(out, &c.b, 0);
    schema_end(&c);
    json_decref(root);
    return rc;
}
