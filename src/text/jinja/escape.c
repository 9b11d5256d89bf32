/* SPDX-License-Identifier: MIT
 *
 * String literals: Python's backslash escapes.  An escape that Python does not know keeps its backslash; a character
 * beyond ASCII behind it becomes its own escape, because Jinja2 decodes the literal's bytes with backslashreplace.
 */
#include <stdio.h>

#include "text/jinja/jinja_impl.h"
#include "text/utf8.h"

static int fail(struct jinja_lexer *lexer, const char *what)
{
    return lutra_fail_at(lexer->err, LUTRA_E_FORMAT, lexer->line, "template line %u: %s", lexer->line, what);
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* Up to n_max digits of a base at *p; returns how many there were. */
static int take_digits(const char **p, const char *end, int base, int n_max, uint32_t *value)
{
    int n = 0;
    for (*value = 0; n < n_max && *p < end && digit_of(**p) < base; n++)
        *value = *value * (uint32_t)base + (uint32_t)digit_of(*(*p)++);
    return n;
}

/* "\\xe9" for the character at *p. */
static void write_code(const char **p, const char *end, char *out, size_t *n_out)
{
    int k = text_utf8_scan(*p, (size_t)(end - *p));
    if (k <= 0) return; /* cannot happen: the template was checked */
    uint32_t cp = text_utf8_get(*p, k);
    *n_out += (size_t)sprintf(out + *n_out, cp < 0x100 ? "x%02x" : cp < 0x10000 ? "u%04x" : "U%08x", (unsigned)cp);
    *p += k;
}

/* The escape after the backslash at *p - 1.  *n_out grows by what it stands for. */
static int take_escape(struct jinja_lexer *lexer, const char **p, const char *end, char *out, size_t *n_out)
{
    static const char names[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
    char name = *(*p)++;
    const char *known = name ? strchr(names, name) : NULL;
    uint32_t cp;
    if (name == '\n') return 0; /* a line continued */
    if (known) {
        out[(*n_out)++] = values[known - names];
        return 0;
    }
    int n_digits = name == 'x' ? 2 : name == 'u' ? 4 : name == 'U' ? 8 : 0;
    if (name == 'N') return fail(lexer, "\\N escapes are not supported");
    if (n_digits) {
        if (take_digits(p, end, 16, n_digits, &cp) < n_digits) return fail(lexer, "truncated escape");
    } else if (name >= '0' && name <= '7') {
        --*p;
        take_digits(p, end, 8, 3, &cp);
    } else {
        out[(*n_out)++] = '\\';
        --*p; /* the character itself is ordinary text */
        if ((unsigned char)name >= 0x80) write_code(p, end, out, n_out);
        return 0;
    }
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) return fail(lexer, "an escape that is no character");
    *n_out += (size_t)text_utf8_put(cp, out + *n_out);
    return 0;
}

int jinja_unescape(struct jinja_lexer *lexer, const char *p, size_t n, struct jinja_value *out)
{
    const char *end = p + n;
    *out = jinja_view(p, n);
    if (!n || !memchr(p, '\\', n)) return 0;
    char *text = jinja_alloc(lexer->heap, 2 * n + 1); /* a backslash and four bytes become ten */
    if (!text) return lutra_fail(lexer->err, LUTRA_E_NO_MEMORY, "no memory for the template");
    size_t n_out = 0;
    while (p < end) {
        if (*p != '\\' || p + 1 == end)
            text[n_out++] = *p++;
        else {
            p++;
            TRY(take_escape(lexer, &p, end, text, &n_out));
        }
    }
    *out = jinja_view(text, n_out);
    return 0;
}
