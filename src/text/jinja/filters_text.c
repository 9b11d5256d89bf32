/* SPDX-License-Identifier: MIT
 *
 * Filters that lay out or encode text.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

#include "text/jinja/jinja_impl.h"
#include "text/utf8.h"

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
        n += !inside && jinja_is_word_char(cp);
        inside = jinja_is_word_char(cp);
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

/* key="value" for each pair of a mapping whose value is there, a blank before them. */
FILTER(f_xmlattr)
{
    struct jinja_value autospace, escaped, space = jinja_view(" ", 1);
    size_t start = run->out.n;
    const struct jinja_args none = {0};
    TRY(jinja_bind(run, "xmlattr", args, "autospace", &autospace));
    if (self.kind != JINJA_DICT) return jinja_fail(run, LUTRA_E_FORMAT, "xmlattr: a mapping is needed");
    for (size_t i = 0; i < self.dict->n; i++) {
        struct jinja_value key = self.dict->pairs[i].key, value = self.dict->pairs[i].value;
        if (value.kind == JINJA_NONE || value.kind == JINJA_UNDEFINED) continue;
        if (key.kind != JINJA_STRING) return jinja_fail(run, LUTRA_E_FORMAT, "xmlattr: a name is no text");
        uint32_t cp;
        for (size_t at = 0; at < key.n;) {
            at += jinja_char_at(key, at, &cp);
            if (jinja_is_space(cp) || cp == '/' || cp == '>' || cp == '=')
                return jinja_fail(run, LUTRA_E_FORMAT, "xmlattr: '%.*s' is no name of an attribute",
                    (int)(key.n < 60 ? key.n : 60), key.s);
        }
        if (run->out.n > start || autospace.kind == JINJA_MISSING || jinja_truth(autospace))
            TRY(jinja_str(run, space, &run->out));
        TRY(jinja_escape(run, key, &none, &escaped));
        TRY(jinja_str(run, escaped, &run->out));
        TRY(jinja_str(run, jinja_view("=\"", 2), &run->out));
        TRY(jinja_escape(run, value, &none, &escaped));
        TRY(jinja_str(run, escaped, &run->out));
        TRY(jinja_str(run, jinja_view("\"", 1), &run->out));
    }
    return jinja_take(run, start, out);
}

/* ---- striptags ---- */

/* What stands from `open` to `close` leaves the text under construction, until there is none. */
static int cut_all(struct jinja_run *run, size_t from, const char *open, const char *close)
{
    struct jinja_text *t = &run->out;
    for (size_t at = from;;) {
        char *begin = memmem(t->p + at, t->n - at, open, strlen(open));
        char *end = begin ? memmem(begin, t->n - (size_t)(begin - t->p), close, strlen(close)) : NULL;
        if (!end) return jinja_step(run, t->n - at);
        size_t b = (size_t)(begin - t->p), e = (size_t)(end - t->p) + strlen(close);
        TRY(jinja_step(run, t->n - at));
        memmove(t->p + b, t->p + e, t->n - e);
        memmove(t->input + b, t->input + e, t->n - e);
        t->n -= e - b;
        at = b - from < strlen(open) ? from : b - strlen(open); /* what stood around it may open the next one */
    }
}

/* The entity at s[at]: its bytes, and what it stands for in text; 0: the & is a character. */
static int entity(struct jinja_run *run, struct jinja_value s, size_t at, size_t *n, char text[8], size_t *n_text)
{
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
    char number[16] = "";
    *n = 0;
    for (size_t i = 0; i < 4; i++)
        if (s.n - at >= strlen(names[i]) && !memcmp(s.s + at, names[i], strlen(names[i]))) {
            *n = strlen(names[i]);
            *n_text = 1;
            text[0] = "&<>\""[i];
            return 0;
        }
    size_t end = at + 1;
    while (end < s.n && end - at < sizeof number && !strchr("\t\n\f <&;", s.s[end])) end++;
    if (end - at < 3) return 0; /* "&#", "R&D": no entity */
    if (s.s[at + 1] == '#' && end < s.n && s.s[end] == ';' && end - at < sizeof number) {
        memcpy(number, s.s + at + 2, end - at - 2);
        bool hex = number[0] == 'x' || number[0] == 'X';
        char *rest;
        long code = isxdigit((unsigned char)number[hex]) ? strtol(number + hex, &rest, hex ? 16 : 10) : 0;
        if (code >= 0x20 && (code < 0x7F || code >= 0xA0) && code < 0xD800 && !*rest) {
            *n = end + 1 - at;
            *n_text = (size_t)text_utf8_put((uint32_t)code, text);
            return 0;
        }
    }
    return jinja_fail(
        run, LUTRA_E_UNSUPPORTED, "striptags: the entity '%.*s' is not supported", (int)(end - at), s.s + at);
}

/* Without comments and tags, space collapsed, entities read. */
FILTER(f_striptags)
{
    size_t start = run->out.n, n, n_text;
    char text[8];
    uint32_t cp;
    bool gap = false;
    TRY(jinja_bind(run, "striptags", args, "", NULL));
    TRY(jinja_str(run, self, &run->out));
    TRY(cut_all(run, start, "<!--", "-->"));
    TRY(cut_all(run, start, "<", ">"));
    TRY(jinja_take(run, start, &self));
    self = jinja_trim(self, true, true);
    for (size_t at = 0; at < self.n; at += n) {
        struct jinja_value one;
        n = jinja_char_at(self, at, &cp);
        if (jinja_is_space(cp)) {
            if (!gap) TRY(jinja_str(run, jinja_view(" ", 1), &run->out));
            gap = true;
            continue;
        }
        gap = false;
        one = jinja_part(self, at, n);
        size_t whole = 0;
        if (cp == '&') TRY(entity(run, self, at, &whole, text, &n_text));
        if (whole) {
            TRY(jinja_marked(run, text, n_text, one.input && one.input[0], &one));
            n = whole;
        }
        TRY(jinja_str(run, one, &run->out));
    }
    return jinja_take(run, start, out);
}

/* ---- wordwrap ---- */

static bool is_blank(uint32_t cp) /* Python's textwrap knows no others */
{
    return cp == ' ' || (cp >= '\t' && cp <= '\r');
}

static bool is_letter(uint32_t cp) /* \w without \d */
{
    return jinja_is_word_char(cp) && utf8proc_category((utf8proc_int32_t)cp) != UTF8PROC_CATEGORY_ND;
}

static uint32_t at_or_0(struct jinja_value s, size_t at)
{
    uint32_t cp = 0;
    if (at < s.n) jinja_char_at(s, at, &cp);
    return cp;
}

/* Where an em-dash between words begins at `at`, behind character `before`: its bytes, else 0. */
static size_t dash(struct jinja_value s, size_t at, uint32_t before)
{
    size_t n = 0;
    while (at + n < s.n && s.s[at + n] == '-') n++;
    bool behind = jinja_is_word_char(before) || (before && before < 0x80 && strchr("!\"'&.,?", (int)before));
    return n >= 2 && behind && jinja_is_word_char(at_or_0(s, at + n)) ? n : 0;
}

/* May a line end behind the hyphen that ends at `at`?  last: the three characters before the hyphen. */
static bool is_hyphenation(struct jinja_value s, size_t at, const uint32_t last[3])
{
    bool behind = is_letter(last[2]) && (is_letter(last[1]) || (last[1] == '-' && is_letter(last[0])));
    if (!behind || !is_letter(at_or_0(s, at))) return false;
    uint32_t first;
    size_t next = at + jinja_char_at(s, at, &first);
    if (at_or_0(s, next) == '-') next++;
    return is_letter(at_or_0(s, next));
}

/* The end of the piece at `at` that no line break divides, as Python's textwrap cuts them. */
static size_t piece_end(struct jinja_value s, size_t at, bool hyphens)
{
    uint32_t cp, last[3] = {0, 0, 0};
    size_t from = at, n;
    if (at) jinja_char_before(s, at, &last[2]);
    if (is_blank(at_or_0(s, at))) {
        while (at < s.n && is_blank(at_or_0(s, at))) at++;
        return at;
    }
    if (hyphens && (n = dash(s, at, last[2]))) return at + n;
    for (size_t back = from, i = 3; back && i-- > 0;) back = jinja_char_before(s, back, &last[i]);
    while (at < s.n) {
        n = jinja_char_at(s, at, &cp);
        if (is_blank(cp) || (hyphens && at > from && dash(s, at, last[2]))) break;
        at += n;
        if (hyphens && cp == '-' && at - from > 1 && is_hyphenation(s, at, last)) break;
        last[0] = last[1], last[1] = last[2], last[2] = cp;
    }
    return at;
}

struct wrap {
    struct jinja_value ends; /* of lines */
    int64_t width;
    bool breaks, hyphens;
};

/* Where a piece too long for any line is broken: what fits, or behind the last hyphen in that. */
static struct jinja_value broken(const struct wrap *w, struct jinja_value piece, int64_t room)
{
    struct jinja_value part = head(piece, room);
    size_t at = part.n, plain = 0;
    while (plain < part.n && part.s[plain] == '-') plain++;
    while (w->hyphens && part.n < piece.n && at > plain + 1 && part.s[at - 1] != '-') at--;
    if (w->hyphens && part.n < piece.n && at > plain + 1) part.n = (uint32_t)at;
    return part;
}

/* As many pieces as fit into a line of s from *at on, the first of which ends at *next; true: what ends it are blanks
 * that are not written. */
static int fill(
    struct jinja_run *run, const struct wrap *w, struct jinja_value s, size_t *at, size_t *next, bool *trims)
{
    size_t begin = *at;
    *trims = true;
    for (int64_t n_line = 0, n; *at < s.n; n_line += n, *at = *next) {
        if (*next <= *at) *next = piece_end(s, *at, w->hyphens);
        TRY(jinja_n_chars(run, jinja_part(s, *at, *next - *at), &n));
        if (n_line + n <= w->width) continue;
        if (n > w->width && w->breaks) {
            *trims = w->width > n_line;
            *at += broken(w, jinja_part(s, *at, *next - *at), w->width - n_line).n;
        } else if (n > w->width && *at == begin)
            *at = *next;
        break;
    }
    return 0;
}

/* One line of the text as several, onto what is written. */
static int wrap_line(struct jinja_run *run, const struct wrap *w, struct jinja_value s)
{
    bool any = false, trims;
    for (size_t at = 0, next = 0; at < s.n;) {
        if (next <= at) next = piece_end(s, at, w->hyphens);
        if (any && is_blank(at_or_0(s, at))) at = next; /* no further line begins with blanks */
        size_t begin = at;
        TRY(fill(run, w, s, &at, &next, &trims));
        size_t end = at;
        while (trims && end > begin && is_blank((unsigned char)s.s[end - 1])) end--;
        if (end == begin) continue;
        if (any) TRY(jinja_str(run, w->ends, &run->out));
        TRY(jinja_str(run, jinja_part(s, begin, end - begin), &run->out));
        any = true;
    }
    return 0;
}

FILTER(f_wordwrap)
{
    struct jinja_value a[4], lines;
    struct wrap w = {.ends = jinja_view("\n", 1)};
    TRY(jinja_bind(run, "wordwrap", args, "width break_long_words wrapstring break_on_hyphens", a));
    TRY(size_arg(run, a[0], "wordwrap", 79, &w.width));
    w.breaks = a[1].kind == JINJA_MISSING || jinja_truth(a[1]);
    w.hyphens = a[3].kind == JINJA_MISSING || jinja_truth(a[3]);
    if (a[2].kind != JINJA_MISSING && a[2].kind != JINJA_NONE) w.ends = a[2];
    if (self.kind != JINJA_STRING || w.ends.kind != JINJA_STRING || w.width < 1)
        return jinja_fail(run, LUTRA_E_FORMAT, "wordwrap: text, a width above 0 and a text between lines are needed");
    TRY(jinja_split_lines(run, self, false, &lines));
    size_t start = run->out.n;
    for (size_t i = 0; i < lines.list->n; i++) {
        if (i) TRY(jinja_str(run, w.ends, &run->out));
        TRY(wrap_line(run, &w, lines.list->items[i]));
    }
    return jinja_take(run, start, out);
}

static const struct jinja_function filters[] = {{"format", f_format}, {"center", f_center}, {"truncate", f_truncate},
    {"wordcount", f_wordcount}, {"urlencode", f_urlencode}, {"filesizeformat", f_filesizeformat},
    {"xmlattr", f_xmlattr}, {"striptags", f_striptags}, {"wordwrap", f_wordwrap}, {"urlize", jinja_urlize},
    {"pprint", jinja_pprint}};

const struct jinja_function *jinja_find_filter_of_text(struct jinja_value name)
{
    return jinja_search(filters, sizeof filters / sizeof *filters, name);
}
