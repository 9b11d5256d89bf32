/* SPDX-License-Identifier: MIT
 *
 * Pieces of JSON text: characters, white space, numbers between bounds.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "decode/grammar/json_impl.h"

enum { DIGITS = 16 };

static int32_t class_of(struct builder *b, uint32_t lo, uint32_t hi)
{
    return build_class(b, &(struct cp_range){lo, hi}, 1, false);
}

static int32_t digits(struct builder *b, int32_t min, int32_t max)
{
    return build_repeat(b, class_of(b, '0', '9'), min, max);
}

static int32_t optional(struct builder *b, int32_t e)
{
    return build_repeat(b, e, 0, 1);
}

int32_t build_json_char(struct builder *b)
{
    static const struct cp_range escaped[] = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}, {'<', '<'}};
    static const struct cp_range shorts[] = {
        {'"', '"'}, {'/', '/'}, {'\\', '\\'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}};
    static const struct cp_range hex[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    /* \uD800 .. \uDFFF are halves of characters: left out, so that each escape is one character. */
    static const struct cp_range first[] = {{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}};
    static const struct cp_range d[] = {{'D', 'D'}, {'d', 'd'}};
    if (b->chars == CHARS_PLAIN) return build_class(b, (struct cp_range[]){{0, 0}, {'<', '<'}}, 2, true);
    int32_t unit = build_alt(b, build_seq(b, build_class(b, first, 5, false), build_class(b, hex, 3, false)),
        build_seq(b, build_class(b, d, 2, false), class_of(b, '0', '7')));
    unit = build_seq(b, build_text(b, "u"), build_seq(b, unit, build_repeat(b, build_class(b, hex, 3, false), 2, 2)));
    int32_t escape = build_seq(b, build_text(b, "\\"), build_alt(b, build_class(b, shorts, 8, false), unit));
    return build_alt(b, build_class(b, escaped, b->chars == CHARS_NO_TAG ? 4 : 3, true), escape);
}

int32_t build_json_space(struct builder *b)
{
    static const struct cp_range blank[] = {{'\t', '\t'}, {' ', ' '}};
    if (b->dense) return build_empty(b);
    int32_t line = build_seq(b, build_text(b, "\n"), build_repeat(b, build_class(b, blank, 2, false), 0, 40));
    return build_alt(b, build_empty(b), build_alt(b, build_text(b, " "), line));
}

/* 0, or digits without a leading zero. */
static int32_t whole(struct builder *b)
{
    return build_alt(b, build_text(b, "0"), build_seq(b, class_of(b, '1', '9'), digits(b, 0, DIGITS - 1)));
}

int32_t build_json_integer(struct builder *b)
{
    return build_seq(b, optional(b, build_text(b, "-")), whole(b));
}

int32_t build_json_number(struct builder *b)
{
    static const struct cp_range e[] = {{'E', 'E'}, {'e', 'e'}}, sign[] = {{'+', '+'}, {'-', '-'}};
    int32_t fraction = build_seq(b, build_text(b, "."), digits(b, 1, DIGITS));
    int32_t power = build_seq(
        b, build_class(b, e, 2, false), build_seq(b, optional(b, build_class(b, sign, 2, false)), digits(b, 1, 2)));
    return build_seq(b, build_json_integer(b), build_seq(b, optional(b, fraction), optional(b, power)));
}

/* Texts of n digits from lo to hi, with a point before the last n_frac. */
static int32_t between(struct builder *b, const char *lo, const char *hi, int n, int n_frac)
{
    if (!n) return build_empty(b);
    if (n_frac == n) return build_seq(b, build_text(b, "."), between(b, lo, hi, n, -1));
    static const char zeros[] = "00000000000000000000", nines[] = "99999999999999999999";
    bool all = !memcmp(lo, zeros, (size_t)n) && !memcmp(hi, nines, (size_t)n);
    if (all && n_frac <= 0) return digits(b, n, n);
    if (*lo == *hi) return build_seq(b, build_bytes(b, lo, 1), between(b, lo + 1, hi + 1, n - 1, n_frac));
    int first = *lo, last = *hi;
    int32_t e = build_never(b);
    if (memcmp(lo + 1, zeros, (size_t)n - 1)) {
        e = build_seq(b, build_bytes(b, lo, 1), between(b, lo + 1, nines, n - 1, n_frac));
        first++;
    }
    if (memcmp(hi + 1, nines, (size_t)n - 1)) {
        e = build_alt(b, e, build_seq(b, build_bytes(b, hi, 1), between(b, zeros, hi + 1, n - 1, n_frac)));
        last--;
    }
    if (first > last) return e;
    int32_t mid = build_seq(b, class_of(b, (uint32_t)first, (uint32_t)last), between(b, zeros, nines, n - 1, n_frac));
    return build_alt(b, e, mid);
}

/* lo..hi >= 0 in units of 10^-n_frac, with n_frac digits behind the point. */
static int32_t scaled(struct builder *b, int64_t lo, int64_t hi, int n_frac)
{
    int32_t e = build_never(b);
    int64_t most = 1;
    for (int i = 0; i <= n_frac; i++) most *= 10; /* numbers below have one digit before the point */
    int64_t least = 0;
    for (int n = n_frac + 1; n <= 18 && least <= hi; n++, least = most, most *= 10) {
        int64_t from = lo > least ? lo : least, to = hi < most - 1 ? hi : most - 1;
        char a[24], z[24];
        if (from > to) continue;
        snprintf(a, sizeof a, "%0*" PRId64, n, from);
        snprintf(z, sizeof z, "%0*" PRId64, n, to);
        e = build_alt(b, between(b, a, z, n, n_frac ? n_frac : -1), e);
    }
    return e;
}

int32_t build_json_integers(struct builder *b, int64_t lo, int64_t hi)
{
    int32_t e = build_never(b);
    if (hi >= 0) e = scaled(b, lo > 0 ? lo : 0, hi, 0);
    if (lo < 0) e = build_alt(b, e, build_seq(b, build_text(b, "-"), scaled(b, hi < 0 ? -hi : 1, -lo, 0)));
    return e;
}

/* The same from 0 on, with hi < 10^15. */
static int32_t positive(struct builder *b, double lo, bool lo_open, double hi, bool hi_open)
{
    static const double power[] = {1, 10, 100, 1e3, 1e4, 1e5, 1e6};
    int d = 0, n_whole = 1;
    while (d < 6 && (round(lo * power[d]) / power[d] != lo || round(hi * power[d]) / power[d] != hi)) d++;
    while (n_whole < 15 && hi >= pow(10, n_whole)) n_whole++;
    while (d && d + n_whole > 15) d--;
    double x = round(lo * power[d]), y = round(hi * power[d]);
    bool lo_exact = x / power[d] == lo, hi_exact = y / power[d] == hi;
    int64_t from = (int64_t)(lo_exact ? x : ceil(lo * power[d])), to = (int64_t)(hi_exact ? y : floor(hi * power[d]));
    bool skip = lo_exact && lo_open;
    int64_t last = to - (hi_exact && hi_open);
    int32_t e = build_never(b);
    if (from + skip <= last) e = scaled(b, from + skip, last, d);
    if (d) { /* without a fraction, too */
        int64_t p = (int64_t)power[d], a = (from + skip + p - 1) / p, z = last < 0 ? -1 : last / p;
        if (a <= z) e = build_alt(b, e, scaled(b, a, z, 0));
    }
    /* Further digits, as many as a double tells apart. */
    int more = 15 - n_whole - d < 6 ? 15 - n_whole - d : 6;
    if (more <= 0) return e;
    int32_t point = d ? build_empty(b) : build_text(b, ".");
    if (from + skip <= to - 1)
        e = build_alt(b, e, build_seq(b, scaled(b, from + skip, to - 1, d), build_seq(b, point, digits(b, 1, more))));
    if (skip && from <= to - 1) {
        int32_t some = build_seq(b, digits(b, 0, more - 1), class_of(b, '1', '9'));
        e = build_alt(b, e, build_seq(b, scaled(b, from, from, d), build_seq(b, point, some)));
    }
    return e;
}

int32_t build_json_numbers(struct builder *b, double lo, bool lo_open, double hi, bool hi_open)
{
    int32_t e = build_never(b);
    if (lo > hi) return e;
    if (hi >= 0) e = lo < 0 ? positive(b, 0, false, hi, hi_open) : positive(b, lo, lo_open, hi, hi_open);
    if (lo < 0) {
        bool below = hi < 0;
        int32_t minus = below ? positive(b, -hi, hi_open, -lo, lo_open) : positive(b, 0, true, -lo, lo_open);
        e = build_alt(b, e, build_seq(b, build_text(b, "-"), minus));
    }
    return e;
}
