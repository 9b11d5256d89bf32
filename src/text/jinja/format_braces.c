/* SPDX-License-Identifier: MIT
 *
 * Python's str.format(): "{} {name!r:>8} {0[key].attribute}".
 */
#include <math.h>

#include "text/jinja/format_impl.h"

struct reader {
    struct jinja_run *run;
    const struct jinja_args *args;
    const struct jinja_dict *names; /* format_map(): the keys; NULL: the named arguments */
    int64_t n_auto;                 /* fields numbered so far; -1: fields have numbers of their own */
};

static int fail(struct reader *r, const char *what)
{
    return jinja_fail(r->run, LUTRA_E_FORMAT, "format: %s", what);
}

/* Digits only: their number; -1: other text. */
static int64_t as_index(struct jinja_value text)
{
    int64_t n = 0;
    if (text.n == 0 || text.n > 9) return -1;
    for (uint32_t i = 0; i < text.n; i++) {
        if (text.s[i] < '0' || text.s[i] > '9') return -1;
        n = n * 10 + (text.s[i] - '0');
    }
    return n;
}

static int find_named(struct reader *r, struct jinja_value name, struct jinja_value *out)
{
    struct jinja_value *found = NULL;
    bool same = false;
    if (r->names) TRY(jinja_dict_get(r->run, r->names, name, &found));
    if (found) *out = *found;
    for (size_t i = 0; !r->names && i < r->args->n_named && !same; i++) {
        TRY(jinja_compare_text(r->run, r->args->named[i].key, name, &same));
        if (same) *out = r->args->named[i].value;
    }
    return found || same ? 0 : fail(r, "no argument of that name");
}

/* What a field begins with: nothing, a number, or a name. */
static int find_arg(struct reader *r, struct jinja_value name, struct jinja_value *out)
{
    int64_t index = as_index(name);
    if (name.n && index < 0) return find_named(r, name, out);
    if (name.n ? r->n_auto > 0 : r->n_auto < 0) return fail(r, "fields with and without numbers cannot be mixed");
    if (!name.n) index = r->n_auto++;
    if (name.n) r->n_auto = -1;
    if (r->names || (size_t)index >= r->args->n) return fail(r, "not enough arguments for the text");
    *out = r->args->pos[index];
    return 0;
}

/* "name.attribute[item]" */
static int find_field(struct reader *r, struct jinja_value field, struct jinja_value *out)
{
    size_t at = 0;
    while (at < field.n && field.s[at] != '.' && field.s[at] != '[') at++;
    TRY(find_arg(r, jinja_part(field, 0, at), out));
    while (at < field.n) {
        bool item = field.s[at] == '[';
        if (!item && field.s[at] != '.') return fail(r, "only '.' or '[' may follow ']' in a field");
        size_t from = ++at;
        while (at < field.n && (item ? field.s[at] != ']' : field.s[at] != '.' && field.s[at] != '[')) at++;
        struct jinja_value part = jinja_part(field, from, at - from);
        if (!part.n || (item && at == field.n)) return fail(r, "a field has an empty or open part");
        int64_t index = item ? as_index(part) : -1;
        TRY(item ? jinja_item(r->run, *out, index < 0 ? part : jinja_int(index), out)
                 : jinja_attr(r->run, *out, part, out));
        at += item;
    }
    return 0;
}

/* ---- specifications ---- */

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static int read_size(struct reader *r, struct jinja_value text, size_t *at, int64_t *out)
{
    for (*out = 0; *at < text.n && text.s[*at] >= '0' && text.s[*at] <= '9'; ++*at) {
        if (*out > INT32_MAX / 10) return fail(r, "a width or precision is too big");
        *out = *out * 10 + (text.s[*at] - '0');
    }
    return 0;
}

/* [[fill]align][sign][#][0][width][grouping][.precision][type] */
static int read_spec(struct reader *r, struct jinja_value text, struct jinja_spec *spec)
{
    size_t at = 0, n_fill = 0;
    uint32_t cp;
    *spec = (struct jinja_spec){.fill = jinja_view(" ", 1), .precision = -1};
    if (text.n) n_fill = jinja_char_at(text, 0, &cp);
    if (text.n > n_fill && is_align(text.s[n_fill])) {
        spec->fill = jinja_part(text, 0, n_fill);
        at = n_fill;
    }
    if (at < text.n && is_align(text.s[at])) spec->align = text.s[at++];
    if (at < text.n && strchr("+- ", text.s[at])) spec->sign = text.s[at++];
    if (at < text.n && text.s[at] == '#') spec->alternate = ++at;
    if (at < text.n && text.s[at] == '0') {
        bool own_fill = n_fill && spec->fill.s == text.s;
        spec->zeros = !spec->align && !own_fill;
        if (!own_fill) spec->fill = jinja_view("0", 1);
        at++;
    }
    if (spec->align == '=' && jinja_is(spec->fill, "0")) spec->zeros = true;
    TRY(read_size(r, text, &at, &spec->width));
    if (at < text.n && (text.s[at] == ',' || text.s[at] == '_')) spec->group = text.s[at++];
    if (at < text.n && text.s[at] == '.') {
        size_t from = ++at;
        TRY(read_size(r, text, &at, &spec->precision));
        if (at == from) return fail(r, "the precision is missing");
    }
    if (at < text.n) spec->type = text.s[at++];
    return at == text.n ? 0 : fail(r, "invalid format specification");
}

static int add_text(struct reader *r, struct jinja_spec *spec, struct jinja_value v)
{
    if ((spec->type && spec->type != 's') || spec->align == '=' || spec->sign || spec->alternate || spec->group)
        return fail(r, "this specification is not one for text");
    return jinja_spec_text(r->run, spec, '<', v);
}

static int add_int(struct reader *r, struct jinja_spec *spec, struct jinja_value v, int64_t i)
{
    bool bits = spec->type && strchr("boxX", spec->type);
    if (spec->precision >= 0) return fail(r, "a precision is not allowed for integers");
    if (spec->type == 'c') {
        if (spec->sign || spec->alternate || spec->group) return fail(r, "this specification is not one for 'c'");
        return jinja_spec_char(r->run, spec, i, v.input != NULL);
    }
    if (spec->type && !bits && spec->type != 'd' && spec->type != 'n')
        return fail(r, "unknown format code for an integer");
    if (spec->group && (spec->type == 'n' || (bits && spec->group == ',')))
        return fail(r, "this type takes no ',' or '_'");
    return jinja_spec_int(r->run, spec, i, v.input != NULL);
}

static int add_value(struct reader *r, struct jinja_value v, struct jinja_value text)
{
    struct jinja_spec spec;
    int64_t i;
    double f;
    if (v.kind == JINJA_STRING || text.n == 0) TRY(jinja_to_string(r->run, v, &v));
    TRY(read_spec(r, text, &spec));
    if (v.kind == JINJA_STRING) return add_text(r, &spec, v);
    if (!jinja_as_float(v, &f)) return fail(r, "a value of this type takes no specification");
    bool whole = jinja_as_int(v, &i), real = spec.type && strchr("eEfFgG%", spec.type);
    if (whole && !real) return add_int(r, &spec, v, i);
    if (spec.type && !real && spec.type != 'n') return fail(r, "unknown format code for a number");
    if (spec.group && spec.type == 'n') return fail(r, "this type takes no ',' or '_'");
    return jinja_spec_float(r->run, &spec, f, v.input != NULL);
}

/* ---- text with fields ---- */

static int expand(struct reader *r, struct jinja_value text, int depth);

/* `text` with its fields replaced. */
static int expanded(struct reader *r, struct jinja_value text, int depth, struct jinja_value *out)
{
    size_t start = r->run->out.n;
    TRY(expand(r, text, depth));
    return jinja_take(r->run, start, out);
}

/* The field whose text begins at *at, behind its '{'; leaves *at behind its '}'. */
static int add_field(struct reader *r, struct jinja_value text, size_t *at, int depth)
{
    size_t from = *at, name_end, open = 0;
    bool bracket = false;
    for (; *at < text.n; ++*at) { /* braces and colons inside [ ] belong to the name */
        char c = text.s[*at];
        bracket = c == '[' || (bracket && c != ']');
        if (c == '{' && !bracket) return fail(r, "unexpected '{' in the name of a field");
        if (!bracket && (c == '}' || c == ':' || c == '!')) break;
    }
    if (*at >= text.n) return fail(r, "a field does not end");
    name_end = *at;
    char how = 0;
    if (text.s[*at] == '!') {
        how = *at + 1 < text.n ? text.s[*at + 1] : 0;
        if (!how || !strchr("sra", how)) return fail(r, "a conversion is s, r or a");
        *at += 2;
        if (*at >= text.n || (text.s[*at] != ':' && text.s[*at] != '}'))
            return fail(r, "expected ':' after a conversion");
    }
    size_t spec_from = *at + (text.s[*at] == ':');
    for (*at = spec_from; *at < text.n; ++*at) {
        if (text.s[*at] == '{') open++;
        if (text.s[*at] == '}' && open-- == 0) break;
    }
    if (*at >= text.n) return fail(r, "a field does not end");
    struct jinja_value v, spec = jinja_part(text, spec_from, *at - spec_from);
    ++*at;
    TRY(find_field(r, jinja_part(text, from, name_end - from), &v));
    if (how) TRY(jinja_convert(r->run, how, v, &v));
    TRY(expanded(r, spec, depth - 1, &spec));
    return add_value(r, v, spec);
}

static int expand(struct reader *r, struct jinja_value text, int depth)
{
    if (depth < 0) return fail(r, "fields are nested too deep");
    for (size_t at = 0, end; at < text.n;) {
        for (end = at; end < text.n && text.s[end] != '{' && text.s[end] != '}';) end++;
        TRY(jinja_str(r->run, jinja_part(text, at, end - at), &r->run->out));
        if (end == text.n) break;
        char c = text.s[end];
        bool doubled = end + 1 < text.n && text.s[end + 1] == c;
        if (!doubled && c == '}') return fail(r, "a single '}'");
        if (doubled) TRY(jinja_str(r->run, jinja_part(text, end, 1), &r->run->out));
        at = end + 1 + doubled;
        if (!doubled) TRY(add_field(r, text, &at, depth));
    }
    return 0;
}

int jinja_str_format(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)
{
    struct reader r = {.run = run, .args = args};
    TRY(jinja_step(run, self.n));
    return expanded(&r, self, 2, out);
}

int jinja_str_format_map(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)
{
    struct jinja_value names;
    TRY(jinja_bind(run, "format_map", args, "mapping", &names));
    if (names.kind != JINJA_DICT) return jinja_fail(run, LUTRA_E_FORMAT, "format_map: a mapping is needed");
    struct reader r = {.run = run, .args = &(struct jinja_args){0}, .names = names.dict};
    TRY(jinja_step(run, self.n));
    return expanded(&r, self, 2, out);
}
