/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Depth and number of values of well-formed text; of other text at least what the parser meets before its error. */
static bool is_bounded(const char *bytes, size_t n)
{
    int depth = 0, n_value = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        char c = bytes[i];
        if (quoted) {
            if (c == '\\') i++;
            quoted = c != '"';
            continue;
        }
        quoted = c == '"';
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        n_value += c == '{' || c == '[' || c == ',';
        if (depth > JSON_DEPTH_MAX || n_value > JSON_VALUES_MAX) return false;
    }
    return true;
}

/* Integers that jansson cannot hold become doubles, as in JavaScript: they get a decimal point. */
static json_t *load_large(const char *bytes, size_t n, json_error_t *error)
{
    struct text t = {0};
    bool quoted = false;
    for (size_t i = 0, end; i < n; i = end) {
        char c = bytes[i];
        size_t from = i + (c == '-');
        end = i + 1;
        if (quoted && c == '\\' && end < n) end++;
        if (c == '"') quoted = !quoted;
        while (
            !quoted && end < n && strchr("-0123456789.eE+", c) && strchr("0123456789.eE+-", bytes[end]) && bytes[end])
            end++;
        text_add(&t, bytes + i, end - i);
        size_t n_digit = 0;
        while (from + n_digit < end && bytes[from + n_digit] >= '0' && bytes[from + n_digit] <= '9') n_digit++;
        bool large = n_digit > 19 || (n_digit == 19 && memcmp(bytes + from, "9223372036854775807", 19) > 0);
        if (!quoted && large && from + n_digit == end) text_put(&t, ".0");
    }
    json_t *body = t.failed ? NULL : json_loadb(t.bytes, t.n, JSON_ALLOW_NUL, error);
    text_free(&t);
    return body;
}

json_t *json_read(const char *bytes, size_t n, struct problem *p)
{
    json_error_t error;
    if (n == 0) {
        problem_set(p, 400, "invalid_json", NULL, "the body is empty; a JSON object is expected");
        return NULL;
    }
    if (!is_bounded(bytes, n)) {
        problem_set(p, 400, "invalid_json", NULL, "the body nests more than %d deep or has more than %d values",
            JSON_DEPTH_MAX, JSON_VALUES_MAX);
        return NULL;
    }
    json_t *body = json_loadb(bytes, n, JSON_ALLOW_NUL, &error);
    if (!body && json_error_code(&error) == json_error_numeric_overflow) body = load_large(bytes, n, &error);
    if (!body)
        problem_set(p, 400, "invalid_json", NULL, "the body is not JSON: line %d, column %d: %.200s", error.line,
            error.column, error.text);
    if (body && !json_is_object(body)) {
        problem_set(p, 400, "invalid_json", NULL, "the body is not a JSON object");
        json_decref(body);
        return NULL;
    }
    return body;
}

json_t *field_any(const struct fields *f, const char *name)
{
    json_t *value = f->object ? json_object_get(f->object, name) : NULL;
    return json_is_null(value) ? NULL : value;
}

void field_wrong(const struct fields *f, const char *name, const char *format, ...)
{
    char param[96], what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(param, sizeof param, "%s%s%s", f->at ? f->at : "", f->at ? "." : "", name);
    problem_set(f->problem, 400, "invalid_value", param, "%s: %s", param, what);
}

bool field_i64(const struct fields *f, const char *name, int64_t min, int64_t max, int64_t *out)
{
    const json_t *value = field_any(f, name);
    if (!value) return false;
    double real = json_is_real(value) ? json_real_value(value) : 0;
    bool whole = json_is_integer(value) || (json_is_real(value) && real == floor(real) && fabs(real) < 9e15);
    int64_t number = json_is_integer(value) ? json_integer_value(value) : whole ? (int64_t)real : 0;
    if (!whole || number < min || number > max) {
        field_wrong(f, name, "not a whole number from %lld to %lld", (long long)min, (long long)max);
        return false;
    }
    *out = number;
    return true;
}

bool field_int(const struct fields *f, const char *name, int64_t min, int64_t max, int *out)
{
    int64_t number;
    if (!field_i64(f, name, min, max, &number)) return false;
    *out = (int)number;
    return true;
}

bool field_float(const struct fields *f, const char *name, double min, double max, float *out)
{
    const json_t *value = field_any(f, name);
    if (!value) return false;
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number >= min && number <= max)) {
        field_wrong(f, name, "not a number from %g to %g", min, max);
        return false;
    }
    *out = (float)number;
    return true;
}

bool field_bool(const struct fields *f, const char *name, bool *out)
{
    const json_t *value = field_any(f, name);
    if (!value) return false;
    if (!json_is_boolean(value)) {
        field_wrong(f, name, "neither true nor false");
        return false;
    }
    *out = json_is_true(value);
    return true;
}

bool field_text(const struct fields *f, const char *name, const char **out)
{
    const json_t *value = field_any(f, name);
    if (!value) return false;
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value)) {
        field_wrong(f, name, json_is_string(value) ? "a string with a NUL in it" : "not a string");
        return false;
    }
    *out = json_string_value(value);
    return true;
}

json_t *field_object(const struct fields *f, const char *name)
{
    json_t *value = field_any(f, name);
    if (value && !json_is_object(value)) field_wrong(f, name, "not an object");
    return json_is_object(value) ? value : NULL;
}

json_t *field_array(const struct fields *f, const char *name)
{
    json_t *value = field_any(f, name);
    if (value && !json_is_array(value)) field_wrong(f, name, "not a list");
    return json_is_array(value) ? value : NULL;
}

static int add_part(const char *bytes, size_t n, void *user)
{
    text_add(user, bytes, n);
    return 0;
}

void text_value(struct text *t, const json_t *value)
{
    if (json_dump_callback(value, add_part, t, JSON_ENCODE_ANY | JSON_COMPACT) != 0) t->failed = true;
}
