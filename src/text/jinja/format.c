/* SPDX-License-Identifier: MIT
 *
 * One value written by a format specification: what Python's % operator and str.format() have in common.
 * format_percent.c and format_braces.c read the two notations into a struct jinja_spec.
 */
#include "text/jinja/format_impl.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/utf8.h"

static int add(struct jinja_run *run, struct jinja_value part)
{
    return jinja_str(run, part, &run->out);
}

static int add_plain(struct jinja_run *run, const char *p, size_t n, bool input)
{
    struct jinja_value part;
    TRY(jinja_marked(run, p, n, input, &part));
    return add(run, part);
}

static int pad(struct jinja_run *run, const struct jinja_spec *spec, int64_t n)
{
    for (; n > 0; n--) TRY(add(run, spec->fill));
    return 0;
}

/* `text` of n_chars in the width; the default side is `side`. */
static int add_aligned(
    struct jinja_run *run, const struct jinja_spec *spec, char side, struct jinja_value text, int64_t n_chars)
{
    char align = spec->align ? spec->align : side;
    int64_t room = spec->width > n_chars ? spec->width - n_chars : 0;
    int64_t before = align == '>' || align == '=' ? room : align == '^' ? room / 2 : 0;
    TRY(pad(run, spec, before));
    TRY(add(run, text));
    return pad(run, spec, room - before);
}

int jinja_spec_text(struct jinja_run *run, const struct jinja_spec *spec, char side, struct jinja_value text)
{
    int64_t n_chars;
    uint32_t cp;
    TRY(jinja_n_chars(run, text, &n_chars));
    if (spec->precision >= 0 && n_chars > spec->precision) {
        size_t at = 0;
        for (n_chars = 0; n_chars < spec->precision; n_chars++) at += jinja_char_at(text, at, &cp);
        text.n = (uint32_t)at;
    }
    return add_aligned(run, spec, side, text, n_chars);
}

/* A number being laid out: sign, prefix, digits and what follows them. */
struct number {
    char sign, prefix[3];
    const char *digits; /* [n_digits] before the point or exponent */
    size_t n_digits;
    const char *rest; /* [n_rest] */
    size_t n_rest;
    int group_size; /* digits between separators */
    bool input;
};

static char sign_of(bool negative, const struct jinja_spec *spec)
{
    return negative ? '-' : spec->sign == '-' ? (char)0 : spec->sign;
}

static size_t n_separators(size_t n_digits, const struct jinja_spec *spec, const struct number *n)
{
    return spec->group && n_digits ? (n_digits - 1) / (size_t)n->group_size : 0;
}

/* Zeros that fill the width are digits: they are grouped, too. */
static size_t n_zeros(const struct jinja_spec *spec, const struct number *n, size_t n_before)
{
    size_t zeros = 0, fixed = n_before + n->n_rest;
    if (!spec->zeros) return 0;
    int64_t need = spec->width - (int64_t)fixed;
    if (need <= (int64_t)n->n_digits) return 0;
    if (!spec->group) return (size_t)need - n->n_digits;
    size_t all = (size_t)need * (size_t)n->group_size / (size_t)(n->group_size + 1); /* a little less than fits */
    if (all > n->n_digits) zeros = all - n->n_digits;
    while ((int64_t)(n->n_digits + zeros + n_separators(n->n_digits + zeros, spec, n)) < need) zeros++;
    return zeros;
}

static int add_digits(struct jinja_run *run, const struct jinja_spec *spec, const struct number *n, size_t zeros)
{
    size_t all = zeros + n->n_digits;
    for (size_t i = 0; i < all; i++) {
        if (i && spec->group && (all - i) % (size_t)n->group_size == 0) TRY(add_plain(run, &spec->group, 1, false));
        TRY(add_plain(run, i < zeros ? "0" : n->digits + i - zeros, 1, i >= zeros && n->input));
    }
    return 0;
}

static int add_number(struct jinja_run *run, const struct jinja_spec *spec, const struct number *n)
{
    size_t n_prefix = strlen(n->prefix), n_before = (n->sign != 0) + n_prefix, zeros = n_zeros(spec, n, n_before);
    int64_t length = (int64_t)(n_before + zeros + n->n_digits + n_separators(zeros + n->n_digits, spec, n) + n->n_rest);
    int64_t room = spec->width > length ? spec->width - length : 0;
    char align = spec->align ? spec->align : '>';
    int64_t before = align == '>' ? room : align == '^' ? room / 2 : 0;
    TRY(pad(run, spec, before));
    if (n->sign) TRY(add_plain(run, &n->sign, 1, n->input));
    TRY(add_plain(run, n->prefix, n_prefix, false));
    if (align == '=') TRY(pad(run, spec, room));
    TRY(add_digits(run, spec, n, zeros));
    TRY(add_plain(run, n->rest, n->n_rest, n->input));
    return align == '=' ? 0 : pad(run, spec, room - before);
}

/* Digits of u in a base, at the end of digits[64]: how many. */
static size_t spell(uint64_t u, unsigned base, bool upper, char digits[64])
{
    size_t n = 0;
    do digits[63 - n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[u % base];
    while (u /= base);
    return n;
}

int jinja_spec_int(struct jinja_run *run, const struct jinja_spec *spec, int64_t i, bool input)
{
    char digits[64], *wide = NULL;
    char low = (char)tolower(spec->type);
    unsigned base = low == 'x' ? 16 : low == 'o' ? 8 : low == 'b' ? 2 : 10;
    struct number n = {.sign = sign_of(i < 0, spec), .input = input, .group_size = base == 10 ? 3 : 4};
    n.n_digits = spell(i < 0 ? -(uint64_t)i : (uint64_t)i, base, spec->type == 'X', digits);
    n.digits = digits + 64 - n.n_digits;
    if (spec->alternate && base != 10) memcpy(n.prefix, (char[]){'0', spec->type, 0}, 3);
    if (spec->precision > (int64_t)n.n_digits) { /* only %: at least so many digits */
        TRY(jinja_step(run, (size_t)spec->precision));
        wide = jinja_alloc(&run->heap, (size_t)spec->precision);
        if (!wide) return jinja_fail(run, LUTRA_E_NO_MEMORY, "no memory for a number");
        memset(wide, '0', (size_t)spec->precision);
        memcpy(wide + spec->precision - n.n_digits, n.digits, n.n_digits);
        n.digits = wide;
        n.n_digits = (size_t)spec->precision;
    }
    return add_number(run, spec, &n);
}

/* Format type "none" with a precision: as g, but with a digit after the point. */
static void general_with_point(char *text, size_t cap, double f, int precision, bool keep_zeros)
{
    if (precision == 0) precision = 1;
    snprintf(text, cap, "%.*e", precision - 1, f);
    int exponent = atoi(strchr(text, 'e') + 1);
    bool by_exponent = exponent < -4 || exponent >= precision - 1;
    if (!by_exponent) snprintf(text, cap, "%.*f", precision - 1 - exponent, f);
    char *e = strchr(text, 'e'), tail[16] = "";
    if (e) snprintf(tail, sizeof tail, "%s", e);
    if (e) *e = 0;
    if (strchr(text, '.')) {
        size_t n = strlen(text);
        while (!keep_zeros && text[n - 1] == '0' && (e || text[n - 2] != '.')) text[--n] = 0;
        if (text[n - 1] == '.') text[n - 1] = 0;
    } else if (!e) {
        strcat(text, ".0");
    }
    strcat(text, tail);
}

/* '#': a point, always. */
static void force_point(char *text)
{
    size_t n = strcspn(text, "e");
    if (memchr(text, '.', n)) return;
    memmove(text + n + 1, text + n, strlen(text + n) + 1);
    text[n] = '.';
}

static void spell_float(const struct jinja_spec *spec, double f, char *text, size_t cap)
{
    char pattern[8], type = spec->type;
    if (!type && spec->precision < 0) {
        jinja_print_float(f, text);
    } else if (!isfinite(f)) {
        strcpy(text, isnan(f) ? "nan" : "inf");
    } else if (!type) {
        general_with_point(text, cap, f, (int)spec->precision, spec->alternate);
    } else {
        if (type == '%') f *= 100;
        char c = type == '%' ? 'f' : type == 'n' ? 'g' : type == 'F' ? 'f' : type;
        snprintf(pattern, sizeof pattern, "%%%s.*%c", spec->alternate ? "#" : "", c);
        snprintf(text, cap, pattern, spec->precision < 0 ? 6 : (int)spec->precision, f);
    }
    if (!type && spec->alternate && isfinite(f)) force_point(text);
    if (type == '%') strcat(text, "%");
    for (char *p = text; type && isupper((unsigned char)type) && *p; p++) *p = (char)toupper(*p);
}

int jinja_spec_float(struct jinja_run *run, const struct jinja_spec *spec, double f, bool input)
{
    bool negative = signbit(f) && !isnan(f);
    if (spec->precision > JINJA_MAX_PRECISION)
        return jinja_fail(run, LUTRA_E_FORMAT, "a precision above %d is not supported", JINJA_MAX_PRECISION);
    size_t cap = 420 + (spec->precision > 0 ? (size_t)spec->precision : 0);
    char *text = jinja_alloc(&run->heap, cap);
    if (!text) return jinja_fail(run, LUTRA_E_NO_MEMORY, "no memory for a number");
    TRY(jinja_step(run, cap));
    spell_float(spec, fabs(f), text, cap);
    size_t n = strlen(text), n_digits = strspn(text, "0123456789");
    struct number parts = {.sign = sign_of(negative, spec),
        .digits = text,
        .n_digits = n_digits,
        .rest = text + n_digits,
        .n_rest = n - n_digits,
        .group_size = 3,
        .input = input};
    return add_number(run, spec, &parts);
}

int jinja_spec_char(struct jinja_run *run, const struct jinja_spec *spec, int64_t cp, bool input)
{
    char text[4];
    struct jinja_value one;
    if (cp < 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000))
        return jinja_fail(run, LUTRA_E_FORMAT, "%lld is no character", (long long)cp);
    int n = text_utf8_put((uint32_t)cp, text);
    TRY(jinja_marked(run, text, (size_t)n, input, &one));
    return add_aligned(run, spec, spec->percent || spec->zeros ? '>' : '<', one, 1);
}

/* ascii(): repr() with what is not ASCII escaped. */
static int to_ascii(struct jinja_run *run, struct jinja_value s, struct jinja_value *out)
{
    size_t start = run->out.n;
    uint32_t cp;
    char code[16];
    for (size_t at = 0, k; at < s.n; at += k) {
        k = jinja_char_at(s, at, &cp);
        struct jinja_value one = jinja_part(s, at, k);
        if (cp > 0x7E) {
            int n = snprintf(code, sizeof code,
                cp < 0x100     ? "\\x%02x"
                : cp < 0x10000 ? "\\u%04x"
                               : "\\U%08x",
                (unsigned)cp);
            TRY(jinja_marked(run, code, (size_t)n, one.input && one.input[0], &one));
        }
        TRY(add(run, one));
    }
    return jinja_take(run, start, out);
}

int jinja_convert(struct jinja_run *run, char how, struct jinja_value v, struct jinja_value *out)
{
    if (how == 's') return jinja_to_string(run, v, out);
    size_t start = run->out.n;
    TRY(jinja_repr(run, v, &run->out));
    TRY(jinja_take(run, start, out));
    return how == 'a' ? to_ascii(run, *out, out) : 0;
}
