/* SPDX-License-Identifier: MIT
 *
 * Python's str() and repr() of values.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

#include "text/jinja/jinja_impl.h"
#include "text/utf8.h"

static int add(struct jinja_run *run, struct jinja_text *out, const char *bytes, size_t n, jinja_input input)
{
    TRY(jinja_step(run, n));
    int rc = jinja_text_add(out, bytes, n, input);
    if (rc < 0) return jinja_fail(run, rc, "the text grows beyond %zu bytes", out->max_bytes);
    return 0;
}

static int add_text(struct jinja_run *run, struct jinja_text *out, const char *text)
{
    return add(run, out, text, strlen(text), NULL);
}

/* The shortest digits that read back as the same double, laid out as Python's repr does. */
void jinja_print_float(double f, char out[40])
{
    if (isnan(f) || isinf(f)) {
        strcpy(out, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    char digits[32];
    int precision = 0;
    do snprintf(digits, sizeof digits, "%.*e", precision, f);
    while (strtod(digits, NULL) != f && ++precision < 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16) {
        char *e = strchr(digits, 'e');
        *e = 0;
        snprintf(out, 40, "%.24se%c%02d", digits, exponent < 0 ? '-' : '+', abs(exponent) % 1000);
        return;
    }
    int after_point = precision > exponent ? precision - exponent : 0;
    snprintf(out, 40, "%.*f%s", after_point, f, after_point ? "" : ".0");
}

static bool is_printable(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return cp == ' ';
    default: return true;
    }
}

/* The character of s at `at`, k bytes; what it is written as comes from where it comes. */
static int repr_char(
    struct jinja_run *run, struct jinja_text *out, struct jinja_value s, size_t at, size_t k, char quote)
{
    char code[12] = "\\";
    uint32_t cp;
    jinja_input input = s.input && s.input[at] ? run->all_input : NULL;
    jinja_char_at(s, at, &cp);
    if (cp == '\n' || cp == '\r' || cp == '\t') {
        code[1] = cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't';
        return add(run, out, code, 2, input);
    }
    if (cp == '\\' || cp == (uint32_t)quote)
        TRY(add(run, out, code, 1, input));
    else if (!is_printable(cp)) {
        snprintf(code, sizeof code, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)cp);
        return add(run, out, code, strlen(code), input);
    }
    return add(run, out, s.s + at, k, input);
}

static int repr_string(struct jinja_run *run, struct jinja_value s, struct jinja_text *out)
{
    bool single = s.n && memchr(s.s, '\'', s.n), twofold = s.n && memchr(s.s, '"', s.n);
    char quote[2] = {single && !twofold ? '"' : '\'', 0};
    uint32_t cp;
    TRY(add_text(run, out, quote));
    for (size_t at = 0, k; at < s.n; at += k) {
        k = jinja_char_at(s, at, &cp);
        TRY(repr_char(run, out, s, at, k, quote[0]));
    }
    return add_text(run, out, quote);
}

static int repr_list(struct jinja_run *run, struct jinja_value v, struct jinja_text *out)
{
    char ends[64];
    bool tuple = v.sub == JINJA_LIST_TUPLE;
    if (v.sub == JINJA_LIST_ITERATOR) return add_text(run, out, "<generator object>");
    if (v.sub == JINJA_LIST_RANGE) {
        int64_t from = v.list->n ? v.list->items[0].i : 0;
        int64_t step = v.list->n > 1 ? v.list->items[1].i - from : 1;
        snprintf(ends, sizeof ends, step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)", (long long)from,
            (long long)(from + (int64_t)v.list->n * step), (long long)step);
        return add_text(run, out, ends);
    }
    TRY(add_text(run, out, tuple ? "(" : v.sub == JINJA_LIST_VIEW ? "dict_view([" : "["));
    for (size_t i = 0; i < v.list->n; i++) {
        if (i) TRY(add_text(run, out, ", "));
        TRY(jinja_repr(run, v.list->items[i], out));
    }
    if (tuple) return add_text(run, out, v.list->n == 1 ? ",)" : ")");
    return add_text(run, out, v.sub == JINJA_LIST_VIEW ? "])" : "]");
}

static int repr_dict(struct jinja_run *run, const struct jinja_dict *dict, struct jinja_text *out)
{
    TRY(add_text(run, out, "{"));
    for (size_t i = 0; i < dict->n; i++) {
        if (i) TRY(add_text(run, out, ", "));
        TRY(jinja_repr(run, dict->pairs[i].key, out));
        TRY(add_text(run, out, ": "));
        TRY(jinja_repr(run, dict->pairs[i].value, out));
    }
    return add_text(run, out, "}");
}

static int repr_any(struct jinja_run *run, struct jinja_value v, struct jinja_text *out)
{
    char number[40] = "";
    switch (v.kind) {
    case JINJA_UNDEFINED: return add_text(run, out, "Undefined");
    case JINJA_NONE: return add_text(run, out, "None");
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_FLOAT:
        if (v.kind == JINJA_INT) snprintf(number, sizeof number, "%lld", (long long)v.i);
        if (v.kind == JINJA_FLOAT) jinja_print_float(v.f, number);
        if (v.kind == JINJA_BOOL) strcpy(number, v.b ? "True" : "False");
        return add(run, out, number, strlen(number), v.input);
    case JINJA_BIG: return add(run, out, v.s, v.n, v.input);
    case JINJA_STRING: return repr_string(run, v, out);
    case JINJA_LIST: return repr_list(run, v, out);
    case JINJA_DICT: return repr_dict(run, v.dict, out);
    case JINJA_NAMESPACE:
        TRY(add_text(run, out, "<Namespace "));
        TRY(repr_dict(run, v.dict, out));
        return add_text(run, out, ">");
    default:
        TRY(add_text(run, out, "<"));
        TRY(add_text(run, out, jinja_type_name(v)));
        return add_text(run, out, ">");
    }
}

int jinja_repr(struct jinja_run *run, struct jinja_value v, struct jinja_text *out)
{
    TRY(jinja_enter(run));
    int rc = repr_any(run, v, out);
    jinja_leave(run);
    return rc;
}

int jinja_str(struct jinja_run *run, struct jinja_value v, struct jinja_text *out)
{
    if (v.kind == JINJA_UNDEFINED) return 0;
    if (v.kind == JINJA_STRING) return add(run, out, v.s, v.n, v.input);
    return jinja_repr(run, v, out);
}

int jinja_to_string(struct jinja_run *run, struct jinja_value v, struct jinja_value *out)
{
    if (v.kind == JINJA_STRING) {
        *out = v;
        return 0;
    }
    size_t start = run->out.n;
    TRY(jinja_str(run, v, &run->out));
    return jinja_take(run, start, out);
}
