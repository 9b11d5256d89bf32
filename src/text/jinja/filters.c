/* SPDX-License-Identifier: MIT
 *
 * Filters that work on one value.  Those that walk lists are in filters_list.c.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja/jinja_impl.h"

#define FILTER(name)                                                                                                   \
    static int name(                                                                                                   \
        struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)

FILTER(f_string)
{
    TRY(jinja_bind(run, "string", args, "", NULL));
    return jinja_to_string(run, self, out);
}

FILTER(f_length)
{
    int64_t n;
    TRY(jinja_bind(run, "length", args, "", NULL));
    TRY(jinja_length(run, self, &n));
    *out = jinja_int(n);
    return 0;
}

FILTER(f_trim)
{
    struct jinja_value chars;
    TRY(jinja_bind(run, "trim", args, "chars", &chars));
    TRY(jinja_to_string(run, self, &self));
    return jinja_strip(run, self, chars, true, true, out);
}

static int recase(struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, enum jinja_case how,
    struct jinja_value *out)
{
    TRY(jinja_bind(run, "a change of case", args, "", NULL));
    TRY(jinja_to_string(run, self, &self));
    return jinja_change_case(run, self, how, out);
}

FILTER(f_upper)
{
    return recase(run, self, args, JINJA_UPPER, out);
}

FILTER(f_lower)
{
    return recase(run, self, args, JINJA_LOWER, out);
}

FILTER(f_title)
{
    return recase(run, self, args, JINJA_TITLE_FILTER, out);
}

FILTER(f_capitalize)
{
    return recase(run, self, args, JINJA_CAPITAL, out);
}

FILTER(f_replace)
{
    struct jinja_value a[3];
    int64_t count = -1;
    TRY(jinja_bind(run, "replace", args, "old new count", a));
    if (a[1].kind == JINJA_MISSING) return jinja_fail(run, LUTRA_E_FORMAT, "replace needs two arguments");
    if (a[2].kind != JINJA_MISSING && a[2].kind != JINJA_NONE && !jinja_as_int(a[2], &count)) {
        return jinja_fail(run, LUTRA_E_FORMAT, "replace: count must be an integer");
    }
    TRY(jinja_to_string(run, self, &self));
    TRY(jinja_to_string(run, a[0], &a[0]));
    TRY(jinja_to_string(run, a[1], &a[1]));
    return jinja_replace(run, self, a[0], a[1], count, out);
}

FILTER(f_default)
{
    struct jinja_value a[2];
    TRY(jinja_bind(run, "default", args, "default_value boolean", a));
    bool use = self.kind == JINJA_UNDEFINED || (jinja_truth(a[1]) && !jinja_truth(self));
    *out = !use ? self : a[0].kind == JINJA_MISSING ? jinja_view("", 0) : a[0];
    return 0;
}

/* The text of a number: Python allows space around it and single underscores between digits. */
static bool plain_number(struct jinja_value s, bool prefix, char *digits, size_t cap)
{
    size_t n = 0;
    for (uint32_t i = 0; i < s.n && n < cap - 1; i++) {
        bool between = i > 0 && i + 1 < s.n && s.s[i - 1] != '_' && s.s[i + 1] != '_';
        if (s.s[i] == '_' && !between) return false;
        bool hex = (s.s[i] == 'x' || s.s[i] == 'X') && !prefix;
        if (s.s[i] == 0 || s.s[i] == '(' || hex) return false; /* strtod would take these */
        if (s.s[i] != '_') digits[n++] = s.s[i];
    }
    digits[n] = 0;
    return n > 0 && s.n < cap;
}

/* Without the space around it. */
static int trimmed(struct jinja_run *run, struct jinja_value v, struct jinja_value *out)
{
    *out = v;
    return v.kind == JINJA_STRING ? jinja_strip(run, v, (struct jinja_value){0}, true, true, out) : 0;
}

static bool text_to_float(struct jinja_value s, double *out)
{
    char digits[256], *end;
    if (!plain_number(s, false, digits, sizeof digits)) return false;
    *out = strtod(digits, &end);
    return *end == 0;
}

static bool to_float(struct jinja_value v, double *out)
{
    return v.kind == JINJA_STRING ? text_to_float(v, out) : jinja_as_float(v, out);
}

static int fail_if_undefined(struct jinja_run *run, struct jinja_value v)
{
    if (v.kind != JINJA_UNDEFINED) return 0;
    return jinja_fail(run, LUTRA_E_FORMAT, "'%.*s' is undefined", (int)(v.n < 200 ? v.n : 200), v.s);
}

static int text_to_int(struct jinja_run *run, struct jinja_value s, int base, bool *is_int, struct jinja_value *out)
{
    char digits[256], *end;
    *is_int = false;
    if (!plain_number(s, base == 16, digits, sizeof digits)) return 0;
    errno = 0;
    long long value = strtoll(digits, &end, base);
    if (*end) return 0;
    if (errno == ERANGE) return jinja_fail(run, LUTRA_E_FORMAT, "the integer does not fit 64 bits");
    *is_int = true;
    *out = jinja_int(value);
    return 0;
}

FILTER(f_int)
{
    struct jinja_value a[2];
    int64_t base = 10;
    double f;
    bool is_int = false;
    TRY(jinja_bind(run, "int", args, "default base", a));
    TRY(fail_if_undefined(run, self));
    if (a[1].kind != JINJA_MISSING && (!jinja_as_int(a[1], &base) || base < 2 || base > 36)) {
        return jinja_fail(run, LUTRA_E_UNSUPPORTED, "int: this base is not supported");
    }
    TRY(trimmed(run, self, &self));
    if (self.kind == JINJA_STRING) TRY(text_to_int(run, self, (int)base, &is_int, out));
    if (is_int) return 0;
    *out = a[0].kind == JINJA_MISSING ? jinja_int(0) : a[0];
    if (!to_float(self, &f) || !isfinite(f)) return 0;
    int64_t whole;
    if (jinja_as_int(self, &whole)) return *out = jinja_int(whole), 0;
    if (!(f > -9.2e18 && f < 9.2e18)) return jinja_fail(run, LUTRA_E_FORMAT, "the integer does not fit 64 bits");
    *out = jinja_int((int64_t)f);
    return 0;
}

FILTER(f_float)
{
    struct jinja_value fallback;
    double f;
    TRY(jinja_bind(run, "float", args, "default", &fallback));
    TRY(fail_if_undefined(run, self));
    TRY(trimmed(run, self, &self));
    *out = fallback.kind == JINJA_MISSING ? jinja_float(0) : fallback;
    if (to_float(self, &f)) *out = jinja_float(f);
    return 0;
}

FILTER(f_abs)
{
    int64_t i;
    TRY(jinja_bind(run, "abs", args, "", NULL));
    if (self.kind == JINJA_FLOAT) return *out = jinja_float(fabs(self.f)), 0;
    if (!jinja_as_int(self, &i)) return jinja_fail(run, LUTRA_E_FORMAT, "abs: a number is needed");
    return i < 0 ? jinja_binary(run, '-', jinja_int(0), jinja_int(i), out) : (*out = jinja_int(i), 0);
}

/* Python's round(): to the nearest, ties to even, of the exact decimal value. */
static double round_to(double f, int64_t places)
{
    char text[800], digits[40];
    if (!isfinite(f) || f == 0 || places > 340) return f;
    if (places >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)places, f);
        return strtod(text, NULL);
    }
    snprintf(digits, sizeof digits, "%.16e", f);
    int64_t kept = atoi(strchr(digits, 'e') + 1) + places; /* digits behind the first that stay */
    if (kept >= 17) return f;
    if (kept < -1) return copysign(0, f);
    if (kept == -1) {
        double unit = pow(10, (double)-places);
        return copysign(fabs(f) > unit / 2 ? unit : 0, f);
    }
    snprintf(text, sizeof text, "%.*e", (int)kept, f);
    return strtod(text, NULL);
}

/* The same of an integer, places < 0. */
static int round_int(struct jinja_run *run, int64_t i, int64_t places, struct jinja_value *out)
{
    int64_t unit = 1, rest, result;
    *out = jinja_int(0);
    for (; places < 0; places++) {
        if (__builtin_mul_overflow(unit, 10, &unit)) return 0; /* above twice what 64 bits hold */
    }
    rest = i % unit;
    bool even = i / unit % 2 == 0;
    int64_t far = rest < 0 ? -rest : rest;
    result = i - rest;
    bool up = far > unit - far || (far == unit - far && !even), over = false;
    if (up) over = __builtin_add_overflow(result, i < 0 ? -unit : unit, &result);
    if (over) return jinja_fail(run, LUTRA_E_FORMAT, "round: the integer does not fit 64 bits");
    *out = jinja_int(result);
    return 0;
}

FILTER(f_round)
{
    struct jinja_value a[2];
    int64_t places = 0, i;
    double f;
    TRY(jinja_bind(run, "round", args, "precision method", a));
    bool common = a[1].kind == JINJA_MISSING || jinja_is(a[1], "common"), up = jinja_is(a[1], "ceil");
    if (!common && !up && !jinja_is(a[1], "floor"))
        return jinja_fail(run, LUTRA_E_FORMAT, "round: the method is common, ceil or floor");
    if (a[0].kind != JINJA_MISSING && !jinja_as_int(a[0], &places))
        return jinja_fail(run, LUTRA_E_FORMAT, "round: the precision is an integer");
    if (!jinja_as_float(self, &f)) return jinja_fail(run, LUTRA_E_FORMAT, "round: a number is needed");
    if (places > 400 || places < -400) places = places > 0 ? 400 : -400;
    if (common && jinja_as_int(self, &i)) return places < 0 ? round_int(run, i, places, out) : (*out = jinja_int(i), 0);
    if (common) return *out = jinja_float(round_to(f, places)), 0;
    double unit = pow(10, (double)places), scaled = f * unit;
    if (!isfinite(scaled)) return jinja_fail(run, LUTRA_E_FORMAT, "round: the number is too big");
    scaled = up ? ceil(scaled) : floor(scaled);
    *out = jinja_float(scaled == 0 ? 0 : scaled / unit);
    return 0;
}

/* Text that is safe already: with autoescaping off, the text itself. */
FILTER(f_safe)
{
    return f_string(run, self, args, out);
}

int jinja_escape(struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)
{
    static const char plain[] = "&<>'\"";
    static const char *const escaped[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    TRY(f_string(run, self, args, &self));
    size_t start = run->out.n;
    for (uint32_t i = 0; i < self.n; i++) {
        const char *hit = self.s[i] ? strchr(plain, self.s[i]) : NULL;
        const char *text = hit ? escaped[hit - plain] : NULL;
        struct jinja_value one = text ? jinja_view(text, strlen(text)) : jinja_part(self, i, 1);
        if (text && self.input && self.input[i]) one.input = run->all_input;
        TRY(jinja_str(run, one, &run->out));
    }
    return jinja_take(run, start, out);
}

FILTER(f_indent)
{
    struct jinja_value a[3], lines, pad = jinja_view("    ", 4), newline = jinja_view("\n", 1);
    int64_t width;
    TRY(jinja_bind(run, "indent", args, "width first blank", a));
    if (self.kind != JINJA_STRING) return jinja_fail(run, LUTRA_E_FORMAT, "indent: a string is needed");
    if (a[0].kind == JINJA_STRING)
        pad = a[0];
    else if (jinja_as_int(a[0], &width))
        TRY(jinja_binary(run, '*', jinja_view(" ", 1), jinja_int(width), &pad));
    else if (a[0].kind != JINJA_MISSING)
        return jinja_fail(run, LUTRA_E_FORMAT, "indent: width must be a number or text");
    TRY(jinja_binary(run, '+', self, newline, &self));
    TRY(jinja_split_lines(run, self, false, &lines));
    size_t start = run->out.n;
    for (size_t i = 0; i < lines.list->n; i++) {
        struct jinja_value line = lines.list->items[i];
        if (i) TRY(jinja_str(run, newline, &run->out));
        bool padded = i == 0 ? jinja_truth(a[1]) : line.n > 0 || jinja_truth(a[2]);
        if (padded) TRY(jinja_str(run, pad, &run->out));
        TRY(jinja_str(run, line, &run->out));
    }
    return jinja_take(run, start, out);
}

FILTER(f_attr)
{
    struct jinja_value name;
    TRY(jinja_bind(run, "attr", args, "name", &name));
    TRY(jinja_to_string(run, name, &name));
    TRY(fail_if_undefined(run, self));
    if (self.kind == JINJA_DICT && !jinja_find_method(self, name)) return *out = jinja_undefined(), 0;
    return jinja_attr(run, self, name, out);
}

static const struct jinja_function filters[] = {{"string", f_string}, {"length", f_length}, {"count", f_length},
    {"trim", f_trim}, {"upper", f_upper}, {"lower", f_lower}, {"title", f_title}, {"capitalize", f_capitalize},
    {"replace", f_replace}, {"default", f_default}, {"d", f_default}, {"int", f_int}, {"float", f_float},
    {"abs", f_abs}, {"round", f_round}, {"safe", f_safe}, {"escape", jinja_escape}, {"e", jinja_escape},
    {"indent", f_indent}, {"attr", f_attr}, {"tojson", jinja_tojson}, {"fromjson", jinja_fromjson},
    {"forceescape", jinja_escape}};

const struct jinja_function *jinja_find_filter(struct jinja_value name)
{
    const struct jinja_function *found = jinja_search(filters, sizeof filters / sizeof *filters, name);
    if (!found) found = jinja_find_filter_of_text(name);
    return found ? found : jinja_find_filter_of_lists(name);
}
