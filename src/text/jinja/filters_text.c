/* SPDX-License-Identifier: MIT
 *
 * Filters that lay out or encode text.
 */
#include <ctype.h>
#include <stdio.h>
#include <utf8proc.h>

#include "text/jinja/jinja_impl.h"

#define FILTER(name)                                                                                                   \
    static int name(                                                                                                   \
        struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)

/* value|format(a, b) and value|format(name=a): the value % its arguments. */
FILTER(f_format)
{
    struct jinja_value values;
    TRY(jinja_to_string(run, self, &self));
    if (args->n && args->n_named)
        return jinja_fail(run, LUTRA_E_FORMAT, "format takes positional or named arguments, not both");
    if (args->n_named) {
        TRY(jinja_dict_new(run, &values));
        for (size_t i = 0; i < args->n_named; i++)
            TRY(jinja_dict_set(run, values.dict, args->named[i].key, args->named[i].value));
        return jinja_percent(run, self, values, out);
    }
    TRY(jinja_list_new(run, JINJA_LIST_TUPLE, &values));
    for (size_t i = 0; i < args->n; i++) TRY(jinja_list_add(run, values.list, args->pos[i]));
    return jinja_percent(run, self, values, out);
}

static int size_arg(struct jinja_run *run, struct jinja_value v, const char *who, int64_t fallback, int64_t *out)
{
    *out = fallback;
    if (v.kind == JINJA_MISSING || jinja_as_int(v, out)) return 0;
    return jinja_fail(run, LUTRA_E_FORMAT, "%s: an integer is needed, not %s", who, jinja_type_name(v));
}

FILTER(f_center)
{
    struct jinja_value width;
    int64_t n;
    TRY(jinja_bind(run, "center", args, "width", &width));
    TRY(size_arg(run, width, "center", 80, &n));
    TRY(jinja_to_string(run, self, &self));
    return jinja_justify(run, self, n, jinja_view(" ", 1), '^', out);
}

/* The first n characters. */
static struct jinja_value head(struct jinja_value s, int64_t n)
{
    size_t at = 0;
    uint32_t cp;
    for (; n > 0 && at < s.n; n--) at += jinja_char_at(s, at, &cp);
    return jinja_part(s, 0, at);
}

FILTER(f_truncate)
{
    struct jinja_value a[4], end = jinja_view("...", 3);
    int64_t length, leeway, n, n_end;
    TRY(jinja_bind(run, "truncate", args, "length killwords end leeway", a));
    TRY(size_arg(run, a[0], "truncate", 255, &length));
    TRY(size_arg(run, a[3].kind == JINJA_NONE ? (struct jinja_value){0} : a[3], "truncate", 5, &leeway));
    if (a[2].kind != JINJA_MISSING) end = a[2];
    if (end.kind != JINJA_STRING) return jinja_fail(run, LUTRA_E_FORMAT, "truncate: the end is no text");
    TRY(jinja_n_chars(run, end, &n_end));
    if (length < n_end || leeway < 0)
        return jinja_fail(run, LUTRA_E_FORMAT, "truncate: the length holds not even the end");
    TRY(jinja_length(run, self, &n));
    *out = self;
    if (n - length <= leeway) return 0;
    if (self.kind != JINJA_STRING) return jinja_fail(run, LUTRA_E_FORMAT, "truncate: text is needed");
    struct jinja_value kept = head(self, length - n_end);
    const char *space;
    TRY(jinja_find_last(run, kept, jinja_view(" ", 1), &space));
    if (space && !jinja_truth(a[1])) kept.n = (uint32_t)(space - kept.s);
    return jinja_binary(run, '+', kept, end, out);
}

static bool is_word(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    bool letter = c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
    return cp == '_' || letter || (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}

FILTER(f_wordcount)
{
    int64_t n = 0;
    bool inside = false;
    uint32_t cp;
    TRY(jinja_bind(run, "wordcount", args, "", NULL));
    TRY(jinja_to_string(run, self, &self));
    TRY(jinja_step(run, self.n));
    for (size_t at = 0; at < self.n;) {
        at += jinja_char_at(self, at, &cp);
        n += !inside && is_word(cp);
        inside = is_word(cp);
    }
    *out = jinja_int(n);
    return 0;
}

static int quote(struct jinja_run *run, struct jinja_value v, bool query)
{
    char code[4];
    TRY(jinja_to_string(run, v, &v));
    for (uint32_t i = 0; i < v.n; i++) {
        unsigned char c = (unsigned char)v.s[i];
        struct jinja_value one = jinja_part(v, i, 1);
        bool plain = c < 0x80 && (isalnum(c) || strchr("_.-~", c)) && c, slash = c == '/' && !query;
        if (!plain && !slash) {
            snprintf(code, sizeof code, "%%%02X", c);
            bool input = one.input && one.input[0];
            TRY(jinja_marked(run, c == ' ' && query ? "+" : code, c == ' ' && query ? 1 : 3, input, &one));
        }
        TRY(jinja_str(run, one, &run->out));
    }
    return 0;
}

/* Text, or the pairs of a mapping or list as key=value&... */
FILTER(f_urlencode)
{
    const struct jinja_list *list, *pair;
    struct jinja_value items = self;
    size_t start = run->out.n;
    TRY(jinja_bind(run, "urlencode", args, "", NULL));
    if (self.kind == JINJA_STRING || !jinja_iterable(self)) {
        TRY(quote(run, self, false));
        return jinja_take(run, start, out);
    }
    if (self.kind == JINJA_DICT) {
        TRY(jinja_list_new(run, JINJA_LIST_PLAIN, &items));
        for (size_t i = 0; i < self.dict->n; i++) {
            struct jinja_value one;
            TRY(jinja_tuple2(run, self.dict->pairs[i].key, self.dict->pairs[i].value, &one));
            TRY(jinja_list_add(run, items.list, one));
        }
    }
    TRY(jinja_iterate(run, items, &list));
    for (size_t i = 0; i < list->n; i++) {
        TRY(jinja_iterate(run, list->items[i], &pair));
        if (pair->n != 2) return jinja_fail(run, LUTRA_E_FORMAT, "urlencode: pairs are needed");
        if (i) TRY(jinja_str(run, jinja_view("&", 1), &run->out));
        TRY(quote(run, pair->items[0], true));
        TRY(jinja_str(run, jinja_view("=", 1), &run->out));
        TRY(quote(run, pair->items[1], true));
    }
    return jinja_take(run, start, out);
}

FILTER(f_filesizeformat)
{
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    struct jinja_value how;
    double bytes;
    char text[400];
    TRY(jinja_bind(run, "filesizeformat", args, "binary", &how));
    if (self.kind == JINJA_STRING || !jinja_as_float(self, &bytes))
        return jinja_fail(run, LUTRA_E_FORMAT, "filesizeformat: a number is needed");
    double base = jinja_truth(how) ? 1024 : 1000, unit = base;
    int i = 0;
    for (; i < 7 && !(bytes < unit * base); i++) unit *= base;
    const char *name = (jinja_truth(how) ? binary : decimal)[i];
    if (bytes == 1)
        snprintf(text, sizeof text, "1 Byte");
    else if (bytes < base)
        snprintf(text, sizeof text, "%lld Bytes", (long long)bytes);
    else
        snprintf(text, sizeof text, "%.1f %s", base * bytes / (unit * base), name);
    return jinja_string(run, text, strlen(text), self.input ? run->all_input : NULL, out);
}

static const struct jinja_function filters[] = {{"format", f_format}, {"center", f_center}, {"truncate", f_truncate},
    {"wordcount", f_wordcount}, {"urlencode", f_urlencode}, {"filesizeformat", f_filesizeformat}};

const struct jinja_function *jinja_find_filter_of_text(struct jinja_value name)
{
    return jinja_search(filters, sizeof filters / sizeof *filters, name);
}
