/* SPDX-License-Identifier: MIT
 *
 * Python's % on text: "%s is %(name)05.2f" % values.
 */
#include <math.h>

#include "text/jinja/format_impl.h"

struct reader {
    struct jinja_run *run;
    struct jinja_value format;
    size_t at;
    struct jinja_value args; /* a tuple, or the only value */
    size_t n_used;
    bool named; /* a key was used: args is a mapping, its value the only argument */
    struct jinja_value by_name;
};

static int fail(struct reader *r, const char *what)
{
    return jinja_fail(r->run, LUTRA_E_FORMAT, "%% formatting: %s", what);
}

static int next_arg(struct reader *r, struct jinja_value *out)
{
    bool tuple = r->args.kind == JINJA_LIST && r->args.sub == JINJA_LIST_TUPLE && !r->named;
    size_t n = tuple ? r->args.list->n : 1;
    if (r->n_used >= n) return fail(r, "not enough arguments for the text");
    *out = r->named ? r->by_name : tuple ? r->args.list->items[r->n_used] : r->args;
    r->n_used++;
    return 0;
}

static char peek(const struct reader *r)
{
    return r->at < r->format.n ? r->format.s[r->at] : 0;
}

/* "(key)": brackets inside count. */
static int read_key(struct reader *r)
{
    int depth = 1;
    size_t from = ++r->at;
    for (; r->at < r->format.n; r->at++) {
        depth += (peek(r) == '(') - (peek(r) == ')');
        if (depth == 0) break;
    }
    if (depth) return fail(r, "a key does not end");
    if (r->args.kind != JINJA_DICT) return fail(r, "a key needs a mapping");
    struct jinja_value *found;
    TRY(jinja_dict_get(r->run, r->args.dict, jinja_part(r->format, from, r->at - from), &found));
    if (!found) return fail(r, "the mapping has no such key");
    r->at++;
    r->by_name = *found;
    r->named = true;
    r->n_used = 0;
    return 0;
}

/* Digits, or * for the next argument. */
static int read_size(struct reader *r, int64_t *out)
{
    struct jinja_value v = jinja_none();
    if (peek(r) == '*') {
        r->at++;
        TRY(next_arg(r, &v));
        return v.kind == JINJA_INT ? (*out = v.i, 0) : fail(r, "* needs an integer");
    }
    for (*out = 0; peek(r) >= '0' && peek(r) <= '9'; r->at++) {
        if (*out > INT32_MAX / 10) return fail(r, "a width or precision is too big");
        *out = *out * 10 + (peek(r) - '0');
    }
    return 0;
}

static int read_spec(struct reader *r, struct jinja_spec *spec)
{
    bool left = false;
    *spec = (struct jinja_spec){.fill = jinja_view(" ", 1), .precision = -1, .percent = true};
    if (peek(r) == '(') TRY(read_key(r));
    for (char c; (c = peek(r)) && strchr("-+ #0", c); r->at++) {
        left |= c == '-';
        spec->alternate |= c == '#';
        spec->zeros |= c == '0';
        if (c == '+' || (c == ' ' && spec->sign != '+')) spec->sign = c;
    }
    TRY(read_size(r, &spec->width));
    if (spec->width < 0) left = true;
    if (spec->width < 0) spec->width = spec->width > -INT32_MAX ? -spec->width : INT32_MAX;
    if (peek(r) == '.') {
        r->at++;
        TRY(read_size(r, &spec->precision));
        if (spec->precision < 0) spec->precision = 0;
        if (spec->precision > INT32_MAX) return fail(r, "a width or precision is too big");
    }
    if (peek(r) && strchr("hlL", peek(r))) r->at++;
    spec->align = left ? '<' : '>';
    if (left) spec->zeros = false;
    if (r->at >= r->format.n) return fail(r, "a conversion is missing its letter");
    spec->type = r->format.s[r->at++];
    return 0;
}

static int add_int(struct reader *r, struct jinja_spec *spec, struct jinja_value v)
{
    int64_t i;
    bool whole = jinja_as_int(v, &i), decimal = strchr("diu", spec->type) != NULL;
    if (!whole && v.kind == JINJA_FLOAT && decimal) {
        if (!isfinite(v.f)) return fail(r, "this number is no integer");
        if (fabs(v.f) >= 9.2e18) {
            spec->type = 'f';
            spec->precision = 0;
            spec->alternate = false;
            return jinja_spec_float(r->run, spec, v.f, v.input != NULL);
        }
        i = (int64_t)v.f;
    } else if (!whole) {
        return fail(r, "an integer is needed");
    }
    if (decimal) spec->type = 'd';
    return jinja_spec_int(r->run, spec, i, v.input != NULL);
}

static int add_char(struct reader *r, struct jinja_spec *spec, struct jinja_value v)
{
    int64_t cp, n;
    spec->precision = -1;
    spec->zeros = false;
    if (v.kind == JINJA_STRING) {
        TRY(jinja_n_chars(r->run, v, &n));
        return n == 1 ? jinja_spec_text(r->run, spec, '>', v) : fail(r, "%c needs one character");
    }
    if (!jinja_as_int(v, &cp)) return fail(r, "%c needs a character or an integer");
    return jinja_spec_char(r->run, spec, cp, v.input != NULL);
}

static int add_one(struct reader *r, struct jinja_spec *spec)
{
    struct jinja_value v;
    double f;
    TRY(next_arg(r, &v));
    switch (spec->type) {
    case 's':
    case 'r':
    case 'a':
        spec->zeros = false;
        TRY(jinja_convert(r->run, spec->type, v, &v));
        return jinja_spec_text(r->run, spec, '>', v);
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o': return add_int(r, spec, v);
    case 'c': return add_char(r, spec, v);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (!jinja_as_float(v, &f)) return fail(r, "a number is needed");
        return jinja_spec_float(r->run, spec, f, v.input != NULL);
    default: return fail(r, "unsupported format character");
    }
}

/* Values that Python indexes by keys may be left unused. */
static bool is_mapping(struct jinja_value v)
{
    bool list = v.kind == JINJA_LIST && (v.sub == JINJA_LIST_PLAIN || v.sub == JINJA_LIST_RANGE);
    return list || v.kind == JINJA_DICT || v.kind == JINJA_UNDEFINED;
}

int jinja_percent(struct jinja_run *run, struct jinja_value format, struct jinja_value args, struct jinja_value *out)
{
    struct reader r = {.run = run, .format = format, .args = args};
    struct jinja_spec spec;
    size_t start = run->out.n;
    while (r.at < format.n) {
        const char *hit = memchr(format.s + r.at, '%', format.n - r.at);
        size_t end = hit ? (size_t)(hit - format.s) : format.n;
        TRY(jinja_str(run, jinja_part(format, r.at, end - r.at), &run->out));
        r.at = end + (hit != NULL);
        if (!hit) break;
        if (peek(&r) == '%') {
            TRY(jinja_str(run, jinja_part(format, r.at++, 1), &run->out));
            continue;
        }
        TRY(read_spec(&r, &spec));
        TRY(add_one(&r, &spec));
    }
    bool tuple = args.kind == JINJA_LIST && args.sub == JINJA_LIST_TUPLE;
    if (!is_mapping(args) && r.n_used < (tuple ? args.list->n : 1)) return fail(&r, "not all arguments are used");
    return jinja_take(run, start, out);
}
