/* SPDX-License-Identifier: MIT
 *
 * JSON into template values [RFC 8259], as Python's json.loads reads it: order kept, the last of equal keys wins.
 * Written here rather than taken from a library so that the heap's ceiling and the nesting limit hold while reading.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "text/jinja/jinja_impl.h"
#include "text/utf8.h"

struct reader {
    struct jinja_run *run;
    const char *p, *at, *end; /* *end == 0 */
};

static int read_value(struct reader *r, struct jinja_value *out);

static int bad(struct reader *r, const char *what)
{
    return lutra_fail_at(
        r->run->err, LUTRA_E_FORMAT, (uint64_t)(r->at - r->p), "JSON, byte %zu: %s", (size_t)(r->at - r->p), what);
}

static void skip_space(struct reader *r)
{
    while (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r') r->at++;
}

static int take_word(struct reader *r, const char *word, struct jinja_value value, struct jinja_value *out)
{
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return bad(r, "no value here");
    r->at += n;
    *out = value;
    return 0;
}

static const char *skip_digits(const char *p)
{
    while (*p >= '0' && *p <= '9') p++;
    return p;
}

static int read_number(struct reader *r, struct jinja_value *out)
{
    const char *digits = r->at + (*r->at == '-'), *p = skip_digits(digits);
    bool whole = true;
    if (p == digits && *p == 'I') {
        return take_word(
            r, *r->at == '-' ? "-Infinity" : "Infinity", jinja_float(*r->at == '-' ? -INFINITY : INFINITY), out);
    }
    if (p == digits || (*digits == '0' && p - digits > 1)) return bad(r, "not a number");
    if (*p == '.' && p[1] >= '0' && p[1] <= '9') {
        p = skip_digits(p + 1);
        whole = false;
    }
    if (*p == 'e' || *p == 'E') {
        const char *e = p + 1 + (p[1] == '+' || p[1] == '-');
        if (skip_digits(e) != e) {
            p = skip_digits(e);
            whole = false;
        }
    }
    errno = 0;
    *out = whole ? jinja_int(strtoll(r->at, NULL, 10)) : jinja_float(strtod(r->at, NULL));
    if (whole && errno == ERANGE) return bad(r, "the integer does not fit 64 bits");
    r->at = p;
    return 0;
}

/* Four hex digits at p, or -1. */
static int32_t hex4(const char *p)
{
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        int c = p[i], digit = c >= '0' && c <= '9'                 ? c - '0'
                              : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                                   : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* The character of an escape after its backslash; half a surrogate pair becomes U+FFFD. */
static int read_escape(struct reader *r, uint32_t *cp)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *name = *r->at ? strchr(names, *r->at) : NULL;
    if (name) {
        *cp = (unsigned char)values[name - names];
        r->at++;
        return 0;
    }
    int32_t high = *r->at == 'u' ? hex4(r->at + 1) : -1;
    if (high < 0) return bad(r, "unknown escape");
    r->at += 5;
    *cp = (uint32_t)high;
    if (high < 0xD800 || high > 0xDFFF) return 0;
    int32_t low = high < 0xDC00 && r->at[0] == '\\' && r->at[1] == 'u' ? hex4(r->at + 2) : -1;
    *cp = 0xFFFD;
    if (low >= 0xDC00 && low <= 0xDFFF) {
        *cp = 0x10000u + ((uint32_t)(high - 0xD800) << 10) + (uint32_t)(low - 0xDC00);
        r->at += 6;
    }
    return 0;
}

static int read_string(struct reader *r, struct jinja_value *out)
{
    const char *end = ++r->at;
    while (*end != '"' && (unsigned char)*end >= 0x20) end += *end == '\\' && end[1] ? 2 : 1;
    if (*end != '"') return bad(r, "the string does not end");
    if ((size_t)(end - r->at) >= UINT32_MAX) return bad(r, "the string is too long");
    char *text = jinja_alloc(&r->run->heap, (size_t)(end - r->at)); /* escapes only shrink */
    if (!text) return jinja_fail(r->run, LUTRA_E_NO_MEMORY, "no memory for the variables");
    size_t n = 0;
    while (r->at < end) {
        uint32_t cp = 0;
        if (*r->at != '\\') {
            text[n++] = *r->at++;
            continue;
        }
        r->at++;
        TRY(read_escape(r, &cp));
        n += (size_t)text_utf8_put(cp, text + n);
    }
    r->at = end + 1;
    *out = jinja_view(text, n);
    return 0;
}

static int read_list(struct reader *r, struct jinja_value *out)
{
    TRY(jinja_list_new(r->run, JINJA_LIST_PLAIN, out));
    r->at++;
    skip_space(r);
    if (*r->at == ']') return r->at++, 0;
    for (;;) {
        struct jinja_value item;
        TRY(read_value(r, &item));
        TRY(jinja_list_add(r->run, out->list, item));
        skip_space(r);
        if (*r->at == ']') return r->at++, 0;
        if (*r->at++ != ',') return bad(r, "a list without , or ]");
    }
}

static int read_dict(struct reader *r, struct jinja_value *out)
{
    TRY(jinja_dict_new(r->run, out));
    r->at++;
    skip_space(r);
    if (*r->at == '}') return r->at++, 0;
    for (;;) {
        struct jinja_value key, value;
        skip_space(r);
        if (*r->at != '"') return bad(r, "a key must be a string");
        TRY(read_string(r, &key));
        skip_space(r);
        if (*r->at++ != ':') return bad(r, "a key without a colon");
        TRY(read_value(r, &value));
        TRY(jinja_dict_set(r->run, out->dict, key, value));
        skip_space(r);
        if (*r->at == '}') return r->at++, 0;
        if (*r->at++ != ',') return bad(r, "an object without , or }");
    }
}

static int read_any(struct reader *r, struct jinja_value *out)
{
    switch (*r->at) {
    case '"': return read_string(r, out);
    case '[': return read_list(r, out);
    case '{': return read_dict(r, out);
    case 't': return take_word(r, "true", jinja_bool(true), out);
    case 'f': return take_word(r, "false", jinja_bool(false), out);
    case 'n': return take_word(r, "null", jinja_none(), out);
    case 'N': return take_word(r, "NaN", jinja_float(NAN), out);
    default: return read_number(r, out);
    }
}

static int read_value(struct reader *r, struct jinja_value *out)
{
    skip_space(r);
    TRY(jinja_enter(r->run));
    int rc = read_any(r, out);
    jinja_leave(r->run);
    return rc;
}

int jinja_json_read(struct jinja_run *run, const char *json, size_t n, struct jinja_value *out)
{
    char *text = jinja_alloc(&run->heap, n + 1); /* a copy that ends in 0, for strtod and look-ahead */
    if (!text) return jinja_fail(run, LUTRA_E_NO_MEMORY, "no memory for the variables");
    if (n) memcpy(text, json, n);
    text[n] = 0;
    struct reader r = {run, text, text, text + n};
    size_t valid = text_utf8_valid(text, n);
    if (valid < n || memchr(text, 0, n)) {
        r.at = text + (valid < n ? valid : (size_t)((char *)memchr(text, 0, n) - text));
        return bad(&r, valid < n ? "not UTF-8" : "a NUL byte");
    }
    TRY(read_value(&r, out));
    skip_space(&r);
    if (r.at != r.end) return bad(&r, "something follows the value");
    return out->kind == JINJA_DICT ? 0 : bad(&r, "the variables must be an object");
}
