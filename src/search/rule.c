/* SPDX-License-Identifier: MIT */
#include "search/rule.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

enum { NUMBERS_MAX = 32, DEPTH_MAX = 32 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_blanks(const char **p)
{
    while (**p == ' ' || **p == '\t') ++*p;
}

/* Digits; false where there are none or too many. */
static bool read_integer(const char **p, int64_t *out)
{
    *out = 0;
    if (!is_digit(**p)) return false;
    for (; is_digit(**p); ++*p)
        if (LUTRA_MUL_OVERFLOWS(*out, 10, out) || LUTRA_ADD_OVERFLOWS(*out, **p - '0', out)) return false;
    return true;
}

/* ---- countdown ---- */

/* The numbers of a question; returns how many, -1 = too many or too large. */
static int read_numbers(const char *question, int64_t number[NUMBERS_MAX])
{
    int n = 0;
    for (const char *p = question; *p;) {
        if (!is_digit(*p)) {
            p++;
            continue;
        }
        if (n == NUMBERS_MAX || !read_integer(&p, &number[n])) return -1;
        n++;
    }
    return n;
}

static bool take_number(int64_t *left, int *n, int64_t x)
{
    for (int i = 0; i < *n; i++) {
        if (left[i] != x) continue;
        left[i] = left[--*n];
        return true;
    }
    return false;
}

static bool equals(int64_t a, char op, int64_t b, int64_t c)
{
    int64_t x = 0;
    switch (op) {
    case '+': return !LUTRA_ADD_OVERFLOWS(a, b, &x) && x == c;
    case '-': return a - b == c; /* neither is negative */
    case '*': return !LUTRA_MUL_OVERFLOWS(a, b, &x) && x == c;
    case '/': return b != 0 && !LUTRA_MUL_OVERFLOWS(b, c, &x) && x == a;
    default: return false;
    }
}

/* One line from *p on, which moves behind its end. */
static bool take_line(const char **p, int64_t *left, int *n)
{
    int64_t a, b, c;
    skip_blanks(p);
    if (!read_integer(p, &a)) return false;
    skip_blanks(p);
    char op = **p;
    if (!op) return false;
    ++*p;
    skip_blanks(p);
    if (!read_integer(p, &b)) return false;
    skip_blanks(p);
    if (**p != '=') return false;
    ++*p;
    skip_blanks(p);
    if (!read_integer(p, &c)) return false;
    skip_blanks(p);
    if (**p && **p != '\n') return false;
    *p += **p == '\n';
    if (!equals(a, op, b, c) || !take_number(left, n, a) || !take_number(left, n, b)) return false;
    left[(*n)++] = c;
    return true;
}

bool search_rule_countdown(const char *question, const char *text, bool whole)
{
    int64_t left[NUMBERS_MAX] = {0};
    int n = read_numbers(question, left) - 1;
    if (n < 1) return false;
    int64_t target = left[n];
    for (const char *p = text + strspn(text, " \t\r\n"); *p; p += p[strspn(p, " \t\r\n")] ? 0 : strlen(p))
        if (!take_line(&p, left, &n)) return false;
    return !whole || (n == 1 && left[0] == target);
}

/* ---- equations ---- */

/* A fraction in lowest terms; below > 0. */
struct fraction {
    int64_t above, below;
};

/* Reads an expression of one line: *p moves on; ok is false from the first thing on that has no value. */
struct reader {
    const char *p;
    int depth;
    bool ok;
};

static struct fraction make_fraction(struct reader *r, int64_t above, int64_t below)
{
    if (below == 0 || above == INT64_MIN || below == INT64_MIN) {
        r->ok = false;
        return (struct fraction){0, 1};
    }
    int64_t a = above < 0 ? -above : above, b = below < 0 ? -below : below;
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    int64_t sign = below < 0 ? -1 : 1;
    return (struct fraction){sign * (above / a), sign * (below / a)};
}

static struct fraction sum(struct reader *r, struct fraction x, struct fraction y, int sign)
{
    int64_t a = 0, b = 0, c = 0, above = 0;
    bool over = LUTRA_MUL_OVERFLOWS(x.above, y.below, &a) || LUTRA_MUL_OVERFLOWS(y.above, x.below, &b) ||
                LUTRA_MUL_OVERFLOWS(b, sign, &b) || LUTRA_ADD_OVERFLOWS(a, b, &above) ||
                LUTRA_MUL_OVERFLOWS(x.below, y.below, &c);
    return make_fraction(r, above, over ? 0 : c);
}

static struct fraction product(struct reader *r, struct fraction x, struct fraction y)
{
    int64_t above = 0, below = 0;
    bool over = LUTRA_MUL_OVERFLOWS(x.above, y.above, &above) || LUTRA_MUL_OVERFLOWS(x.below, y.below, &below);
    return make_fraction(r, above, over ? 0 : below);
}

/* 12, 12.5 */
static struct fraction read_number(struct reader *r)
{
    int64_t above = 0, below = 1;
    if (!read_integer(&r->p, &above)) r->ok = false;
    if (r->p[0] == '.' && is_digit(r->p[1])) {
        for (r->p++; is_digit(*r->p); r->p++) {
            bool over = LUTRA_MUL_OVERFLOWS(above, 10, &above) || LUTRA_ADD_OVERFLOWS(above, *r->p - '0', &above) ||
                        LUTRA_MUL_OVERFLOWS(below, 10, &below);
            if (over) r->ok = false;
        }
    }
    return make_fraction(r, above, r->ok ? below : 0);
}

static struct fraction read_sum(struct reader *r);

static struct fraction read_factor(struct reader *r)
{
    struct fraction x = {0, 1};
    skip_blanks(&r->p);
    if (r->depth == DEPTH_MAX) r->ok = false;
    if (!r->ok) return x;
    r->depth++;
    if (*r->p == '-') {
        r->p++;
        x = product(r, read_factor(r), (struct fraction){-1, 1});
    } else if (*r->p == '(') {
        r->p++;
        x = read_sum(r);
        if (*r->p == ')')
            r->p++;
        else
            r->ok = false;
    } else {
        x = read_number(r);
    }
    r->depth--;
    skip_blanks(&r->p);
    return x;
}

static struct fraction read_product(struct reader *r)
{
    struct fraction x = read_factor(r);
    while (r->ok && (*r->p == '*' || *r->p == '/')) {
        bool divides = *r->p++ == '/';
        struct fraction y = read_factor(r);
        x = product(r, x, divides ? make_fraction(r, y.below, y.above) : y);
    }
    return x;
}

static struct fraction read_sum(struct reader *r)
{
    struct fraction x = read_product(r);
    while (r->ok && (*r->p == '+' || *r->p == '-')) {
        int sign = *r->p++ == '-' ? -1 : 1;
        x = sum(r, x, read_product(r), sign);
    }
    return x;
}

static bool line_holds(const char *line)
{
    struct reader r = {.p = line, .ok = true};
    struct fraction first = read_sum(&r);
    if (*r.p != '=') return false;
    while (r.ok && *r.p == '=') {
        r.p++;
        struct fraction x = read_sum(&r);
        r.ok = r.ok && x.above == first.above && x.below == first.below;
    }
    r.p += *r.p == '.';
    while (*r.p == ' ' || *r.p == '\t' || *r.p == '\r') r.p++;
    return r.ok && (*r.p == '\n' || !*r.p);
}

bool search_rule_equation(const char *text, bool whole)
{
    int n = 0;
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        if (memchr(line, '=', length)) {
            if (!line_holds(line)) return false;
            n++;
        }
        line += length + (line[length] == '\n');
    }
    return n > 0 || !whole;
}
