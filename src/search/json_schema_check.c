/* SPDX-License-Identifier: MIT
 *
 * Does a value hold by a schema?
 */
#include <arpa/inet.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search/json_schema_impl.h"
#include "text/json_text.h"

/* One text being judged.  Functions here give 1, 0, or -1 with the reason in `why`. */
struct judging {
    struct json_schema *s;
    long steps;
    int depth;
    const char *why;
};

static int apply(struct judging *j, const json_t *schema, const json_t *x);

static int step(struct judging *j)
{
    if (++j->steps <= SCHEMA_MAX_STEPS) return 1;
    j->why = "the schema takes too many steps for this text";
    return -1;
}

/* ---- values ---- */

enum { NONE = 1, BOOLEAN = 2, OBJECT = 4, ARRAY = 8, STRING = 16, INTEGER = 32, FRACTION = 64 };

int json_schema_type(const char *name)
{
    static const struct {
        const char *name;
        int bits;
    } types[] = {{"null", NONE}, {"boolean", BOOLEAN}, {"object", OBJECT}, {"array", ARRAY}, {"string", STRING},
        {"integer", INTEGER}, {"number", INTEGER | FRACTION}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(name, types[i].name)) return types[i].bits;
    return 0;
}

bool json_schema_number(const json_t *x, struct schema_number *out)
{
    const json_t *big = json_object_get(x, TEXT_JSON_NUMBER);
    *out = (struct schema_number){0};
    if (json_is_integer(x)) {
        *out = (struct schema_number){true, true, json_integer_value(x), (double)json_integer_value(x)};
    } else if (json_is_real(x) || big) {
        out->f = big ? strtod(json_string_value(big), NULL) : json_real_value(x);
        out->is_int = big ? !strpbrk(json_string_value(big), ".eE") : out->f == floor(out->f);
        out->fits = out->is_int && fabs(out->f) < 9e18;
        if (out->fits) out->i = (int64_t)out->f;
    } else {
        return false;
    }
    return true;
}

static int type_of(const json_t *x)
{
    struct schema_number v;
    if (json_schema_number(x, &v)) return v.is_int ? INTEGER : FRACTION;
    switch (json_typeof(x)) {
    case JSON_OBJECT: return OBJECT;
    case JSON_ARRAY: return ARRAY;
    case JSON_STRING: return STRING;
    case JSON_NULL: return NONE;
    default: return BOOLEAN;
    }
}

/* <0, 0, >0 */
static int order(const struct schema_number *a, const struct schema_number *b)
{
    if (a->fits && b->fits) return a->i < b->i ? -1 : a->i > b->i;
    long double x = a->fits ? (long double)a->i : (long double)a->f,
                y = b->fits ? (long double)b->i : (long double)b->f;
    return x < y ? -1 : x > y;
}

static int equal(struct judging *j, const json_t *a, const json_t *b)
{
    struct schema_number x, y;
    const json_t *p = json_object_get(a, TEXT_JSON_NUMBER), *q = json_object_get(b, TEXT_JSON_NUMBER);
    int holds = step(j);
    if (holds < 0) return holds;
    if (p && q) return json_equal(p, q);
    if (json_schema_number(a, &x)) return json_schema_number(b, &y) && order(&x, &y) == 0;
    if (json_typeof(a) != json_typeof(b) || q) return 0;
    if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b)) return 0;
        for (size_t i = 0; i < json_array_size(a) && holds == 1; i++)
            holds = equal(j, json_array_get(a, i), json_array_get(b, i));
        return holds;
    }
    if (!json_is_object(a)) return json_equal(a, b);
    if (json_object_size(a) != json_object_size(b)) return 0;
    json_t *object = (json_t *)a;
    for (void *i = json_object_iter(object); i && holds == 1; i = json_object_iter_next(object, i)) {
        const json_t *other = json_object_getn(b, json_object_iter_key(i), json_object_iter_key_len(i));
        holds = other ? equal(j, json_object_iter_value(i), other) : 0;
    }
    return holds;
}

static int matches(struct judging *j, const pcre2_code *code, const char *text, size_t n)
{
    int rc = pcre2_match(code, (PCRE2_SPTR)text, n, 0, 0, j->s->match, j->s->limits);
    if (rc >= 0) return 1;
    if (rc == PCRE2_ERROR_NOMATCH) return 0;
    j->why = "matching a pattern of the schema takes too long";
    return -1;
}

/* ---- formats ---- */

static const struct {
    const char *name, *pattern;
} formats[SCHEMA_N_FORMATS] = {
#define DATE                                                                                                           \
    "\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|[12]\\d))"
#define TIME "(?:[01]\\d|2[0-3]):[0-5]\\d:(?:[0-5]\\d|60)(?:\\.\\d+)?(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
    {"date", "^" DATE "$"}, {"time", "^" TIME "$"}, {"date-time", "^" DATE "[Tt]" TIME "$"},
    {"uuid", "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"}, {"email", "^[^@\\s]+@[^@\\s]+$"},
    {"hostname", "^(?=.{1,253}$)[0-9a-zA-Z](?:[0-9a-zA-Z-]{0,61}[0-9a-zA-Z])?"
                 "(?:\\.[0-9a-zA-Z](?:[0-9a-zA-Z-]{0,61}[0-9a-zA-Z])?)*$"},
    {"uri", "^[a-zA-Z][a-zA-Z0-9+.-]*:[^\\s<>\"{}|\\\\^`]*$"}};

bool json_schema_knows_format(const char *name)
{
    for (int i = 0; i < SCHEMA_N_FORMATS; i++)
        if (!strcmp(name, formats[i].name)) return true;
    return !strcmp(name, "ipv4") || !strcmp(name, "ipv6");
}

int json_schema_open_formats(struct json_schema *s, struct lutra_error *err)
{
    for (int i = 0; i < SCHEMA_N_FORMATS; i++) {
        int code;
        PCRE2_SIZE where;
        s->formats[i] = pcre2_compile((PCRE2_SPTR)formats[i].pattern, PCRE2_ZERO_TERMINATED,
            PCRE2_UTF | PCRE2_DOLLAR_ENDONLY, &code, &where, NULL);
        if (!s->formats[i]) return lutra_fail(err, LUTRA_E_NO_MEMORY, "JSON schema: out of memory");
    }
    return 0;
}

/* The 29th of February, in years that have one. */
static bool is_day(const char *date)
{
    int year = atoi(date);
    return strncmp(date + 4, "-02-29", 6) != 0 || (year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)) ||
           strncmp(date + 4, "-02-30", 6) > 0;
}

static int has_format(struct judging *j, const char *name, const json_t *x)
{
    const char *text = json_string_value(x);
    size_t n = json_string_length(x);
    unsigned char address[16];
    if (!strcmp(name, "ipv4")) return strlen(text) == n && inet_pton(AF_INET, text, address) == 1;
    if (!strcmp(name, "ipv6")) return strlen(text) == n && inet_pton(AF_INET6, text, address) == 1;
    for (int i = 0; i < SCHEMA_N_FORMATS; i++) {
        if (strcmp(name, formats[i].name) != 0) continue;
        int holds = matches(j, j->s->formats[i], text, n);
        bool dated = !strncmp(name, "date", 4);
        bool late = dated && holds == 1 && (!strncmp(text + 5, "02-3", 4) || !is_day(text));
        return late ? 0 : holds;
    }
    return 0;
}

/* ---- keywords by type ---- */

/* A count of `key`, where there is one, at most / at least. */
static bool counted(const json_t *schema, const char *least, const char *most, size_t n)
{
    struct schema_number have = {true, true, (int64_t)n, (double)n}, bound;
    const json_t *lo = json_object_get(schema, least), *hi = json_object_get(schema, most);
    if (lo && json_schema_number(lo, &bound) && order(&have, &bound) < 0) return false;
    return !(hi && json_schema_number(hi, &bound) && order(&have, &bound) > 0);
}

static int check_string(struct judging *j, const json_t *schema, const json_t *x)
{
    const char *text = json_string_value(x);
    size_t n = json_string_length(x), n_char = 0;
    const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    for (size_t i = 0; i < n; i++) n_char += ((unsigned char)text[i] & 0xC0) != 0x80;
    if (!counted(schema, "minLength", "maxLength", n_char)) return 0;
    if (pattern) {
        const pcre2_code *code = json_schema_pattern(j->s, json_string_value(pattern), json_string_length(pattern));
        int holds = matches(j, code, text, n);
        if (holds != 1) return holds;
    }
    return format ? has_format(j, json_string_value(format), x) : 1;
}

static bool is_multiple(const struct schema_number *x, const struct schema_number *of)
{
    if (x->fits && of->fits) return x->i % of->i == 0;
    double quotient = x->f / of->f; /* decimals are not exact: within rounding */
    return isfinite(quotient) && fabs(quotient - nearbyint(quotient)) <= 4e-16 * fabs(quotient);
}

static int check_number(const json_t *schema, const struct schema_number *x)
{
    static const struct {
        const char *key;
        int least, most; /* of order(x, bound) */
    } bounds[] = {{"minimum", 0, 1}, {"maximum", -1, 0}, {"exclusiveMinimum", 1, 1}, {"exclusiveMaximum", -1, -1}};
    struct schema_number bound;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const json_t *given = json_object_get(schema, bounds[i].key);
        if (!given || !json_schema_number(given, &bound)) continue;
        int have = order(x, &bound);
        if (have < bounds[i].least || have > bounds[i].most) return 0;
    }
    const json_t *factor = json_object_get(schema, "multipleOf");
    return !factor || !json_schema_number(factor, &bound) || is_multiple(x, &bound);
}

static int are_unique(struct judging *j, const json_t *x)
{
    for (size_t i = 0; i < json_array_size(x); i++) {
        for (size_t k = 0; k < i; k++) {
            int same = equal(j, json_array_get(x, i), json_array_get(x, k));
            if (same) return same < 0 ? same : 0;
        }
    }
    return 1;
}

/* contains, minContains, maxContains */
static int check_contained(struct judging *j, const json_t *schema, const json_t *x)
{
    const json_t *sub = json_object_get(schema, "contains");
    size_t n = 0;
    if (!sub) return 1;
    for (size_t i = 0; i < json_array_size(x); i++) {
        int holds = apply(j, sub, json_array_get(x, i));
        if (holds < 0) return holds;
        n += (size_t)holds;
    }
    if (!json_object_get(schema, "minContains") && n == 0) return 0;
    return counted(schema, "minContains", "maxContains", n);
}

static int check_array(struct judging *j, const json_t *schema, const json_t *x)
{
    const json_t *items = json_object_get(schema, "items"), *prefix = json_object_get(schema, "prefixItems");
    if (json_is_array(items)) { /* as drafts before 2020-12 write it */
        prefix = items;
        items = NULL;
    }
    if (!counted(schema, "minItems", "maxItems", json_array_size(x))) return 0;
    for (size_t i = 0; i < json_array_size(x); i++) {
        const json_t *sub = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        int holds = sub ? apply(j, sub, json_array_get(x, i)) : 1;
        if (holds != 1) return holds;
    }
    int holds = check_contained(j, schema, x);
    if (holds == 1 && json_is_true(json_object_get(schema, "uniqueItems"))) holds = are_unique(j, x);
    return holds;
}

static bool has_all(const json_t *x, const json_t *names)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const json_t *name = json_array_get(names, i);
        if (!json_object_getn(x, json_string_value(name), json_string_length(name))) return false;
    }
    return true;
}

/* One member: properties, patternProperties, else additionalProperties; and its name. */
static int check_member(struct judging *j, const json_t *schema, const char *key, size_t n, const json_t *value)
{
    const json_t *sub = json_object_getn(json_object_get(schema, "properties"), key, n);
    const json_t *names = json_object_get(schema, "propertyNames"),
                 *more = json_object_get(schema, "additionalProperties");
    json_t *patterns = json_object_get(schema, "patternProperties");
    bool named = sub != NULL;
    int holds = sub ? apply(j, sub, value) : 1;
    for (void *i = json_object_iter(patterns); i && holds == 1; i = json_object_iter_next(patterns, i)) {
        int hit = matches(j, json_schema_pattern(j->s, json_object_iter_key(i), json_object_iter_key_len(i)), key, n);
        if (hit < 0) return hit;
        named |= hit == 1;
        if (hit) holds = apply(j, json_object_iter_value(i), value);
    }
    if (holds == 1 && !named && more) holds = apply(j, more, value);
    if (holds != 1 || !names) return holds;
    json_t *name = json_stringn_nocheck(key, n);
    holds = name ? apply(j, names, name) : -1;
    if (!name) j->why = "out of memory";
    json_decref(name);
    return holds;
}

static int check_dependents(struct judging *j, const json_t *schema, const json_t *x)
{
    json_t *names = json_object_get(schema, "dependentRequired"),
           *schemas = json_object_get(schema, "dependentSchemas");
    const char *key;
    json_t *value;
    int holds = 1;
    json_object_foreach(names, key, value) if (json_object_get(x, key) && !has_all(x, value)) return 0;
    json_object_foreach(schemas, key, value) if (holds == 1 && json_object_get(x, key)) holds = apply(j, value, x);
    return holds;
}

static int check_object(struct judging *j, const json_t *schema, const json_t *x)
{
    if (!counted(schema, "minProperties", "maxProperties", json_object_size(x))) return 0;
    if (!has_all(x, json_object_get(schema, "required"))) return 0;
    int holds = check_dependents(j, schema, x);
    json_t *object = (json_t *)x;
    for (void *i = json_object_iter(object); i && holds == 1; i = json_object_iter_next(object, i))
        holds =
            check_member(j, schema, json_object_iter_key(i), json_object_iter_key_len(i), json_object_iter_value(i));
    return holds;
}

/* ---- schemas ---- */

/* How many of the list hold, at most `enough`; -1: it cannot be said. */
static int n_hold(struct judging *j, const json_t *list, const json_t *x, int enough)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(list) && n < enough; i++) {
        int holds = apply(j, json_array_get(list, i), x);
        if (holds < 0) return holds;
        n += holds;
    }
    return n;
}

static int check_combined(struct judging *j, const json_t *schema, const json_t *x)
{
    const json_t *all = json_object_get(schema, "allOf"), *any = json_object_get(schema, "anyOf");
    const json_t *one = json_object_get(schema, "oneOf"), *not = json_object_get(schema, "not");
    const json_t *test = json_object_get(schema, "if"), *ref = json_object_get(schema, "$ref");
    int holds = ref ? apply(j, json_schema_resolve(j->s, json_string_value(ref)), x) : 1;
    for (size_t i = 0; i < json_array_size(all) && holds == 1; i++) holds = apply(j, json_array_get(all, i), x);
    if (holds == 1 && any) holds = n_hold(j, any, x, 1);
    if (holds == 1 && one) {
        int n = n_hold(j, one, x, 2);
        holds = n < 0 ? n : n == 1;
    }
    if (holds == 1 && not ) {
        holds = apply(j, not, x);
        holds = holds < 0 ? holds : !holds;
    }
    if (holds != 1 || !test) return holds;
    holds = apply(j, test, x);
    if (holds < 0) return holds;
    const json_t *branch = json_object_get(schema, holds ? "then" : "else");
    return branch ? apply(j, branch, x) : 1;
}

static bool is_type(const json_t *type, const json_t *x)
{
    int bits = 0, have = type_of(x);
    if (!type) return true;
    if (json_is_string(type)) bits = json_schema_type(json_string_value(type));
    for (size_t i = 0; i < json_array_size(type); i++)
        bits |= json_schema_type(json_string_value(json_array_get(type, i)));
    return bits & have;
}

static int check_schema(struct judging *j, const json_t *schema, const json_t *x)
{
    const json_t *list = json_object_get(schema, "enum"), *constant = json_object_get(schema, "const");
    struct schema_number v;
    if (!is_type(json_object_get(schema, "type"), x)) return 0;
    int holds = constant ? equal(j, constant, x) : 1, found = !list;
    for (size_t i = 0; i < json_array_size(list) && !found; i++) found = equal(j, json_array_get(list, i), x);
    if (holds != 1 || found != 1) return holds < 0 || found < 0 ? -1 : 0;
    if (json_schema_number(x, &v))
        holds = check_number(schema, &v);
    else if (json_is_string(x))
        holds = check_string(j, schema, x);
    else if (json_is_array(x))
        holds = check_array(j, schema, x);
    else if (json_is_object(x))
        holds = check_object(j, schema, x);
    return holds == 1 ? check_combined(j, schema, x) : holds;
}

static int apply(struct judging *j, const json_t *schema, const json_t *x)
{
    int holds = step(j);
    if (holds < 0 || !json_is_object(schema)) return holds < 0 ? holds : json_is_true(schema);
    if (++j->depth > 4 * SCHEMA_MAX_DEPTH) {
        j->why = "the schema refers to itself without end";
        return -1;
    }
    holds = check_schema(j, schema, x);
    j->depth--;
    return holds;
}

/* The last ```word block of a text, or all of it. */
static void find_json(const char **text, size_t *n)
{
    const char *end = *text + *n, *at = *text;
    for (const char *open; (open = memmem(at, (size_t)(end - at), "```", 3)) != NULL;) {
        const char *p = open + 3;
        while (
            p < end && ((*p >= '0' && *p <= '9') || (*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z') || *p == '_'))
            p++;
        const char *close = p < end && *p == '\n' ? memmem(p + 1, (size_t)(end - p - 1), "```", 3) : NULL;
        at = close ? close + 3 : open + 1;
        if (!close) continue;
        *text = p + 1;
        *n = (size_t)(close - p - 1);
    }
}

double json_schema_ask(void *self, const struct lutra_check *check, char *why, size_t n_why)
{
    struct judging j = {.s = self};
    struct lutra_error err = {0};
    const char *text = check->text;
    size_t n = strlen(text);
    json_t *x;
    if (!check->whole) return 1; /* nothing is known yet */
    find_json(&text, &n);
    int rc = text_json_load("text", text, n, SCHEMA_MAX_DEPTH, &x, &err);
    if (rc < 0 && strstr(err.what, "duplicate")) x = json_loadb(text, n, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    if (!x) return 0;
    int holds = apply(&j, j.s->root, x);
    json_decref(x);
    if (holds < 0) snprintf(why, n_why, "%s", j.why);
    return holds;
}
