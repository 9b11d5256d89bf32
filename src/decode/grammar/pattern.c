/* SPDX-License-Identifier: MIT
 *
 * Regular expressions (ECMA-262, the part that is regular) over the characters of a JSON string as they are written:
 * a quote, a backslash and control characters appear as escapes.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/grammar/grammar_impl.h"
#include "decode/grammar/json_impl.h"

enum { REPEATS = 65535, RANGES = 512, ENDLESS = -1 };

struct piece {
    int32_t expr; /* or a status */
    int64_t lo, hi;
};
struct regex {
    struct builder *b;
    const uint8_t *p, *end;
    int depth;
};

static struct piece refuse(struct regex *r, int code, const char *why)
{
    return (struct piece){lutra_fail(r->b->err, code, "%s", why), 0, 0};
}

static int peek(const struct regex *r)
{
    return r->p < r->end ? *r->p : -1;
}

static int64_t sum(int64_t a, int64_t b)
{
    return a < 0 || b < 0 ? ENDLESS : a + b > INT32_MAX ? INT32_MAX : a + b;
}

static struct piece seq(struct regex *r, struct piece a, struct piece b)
{
    return (struct piece){build_seq(r->b, a.expr, b.expr), sum(a.lo, b.lo), sum(a.hi, b.hi)};
}

static struct piece alt(struct regex *r, struct piece a, struct piece b)
{
    return (struct piece){build_alt(r->b, a.expr, b.expr), a.lo < b.lo ? a.lo : b.lo,
        a.hi < 0 || b.hi < 0 ? ENDLESS
        : a.hi > b.hi        ? a.hi
                             : b.hi};
}

/* ---- sets of characters ---- */

struct set {
    struct cp_range range[RANGES];
    int32_t n;
};

static void put(struct set *s, uint32_t lo, uint32_t hi)
{
    if (s->n < RANGES) s->range[s->n++] = (struct cp_range){lo, hi};
}

static bool holds(const struct set *s, bool negate, uint32_t c)
{
    for (int32_t i = 0; i < s->n; i++)
        if (s->range[i].lo <= c && c <= s->range[i].hi) return !negate;
    return negate;
}

static const struct set digits = {{{'0', '9'}}, 1};
static const struct set words = {{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}, 4};
/* Without U+FEFF, which is a space to ECMAScript only. */
static const struct set spaces = {{{9, 13}, {' ', ' '}, {0xa0, 0xa0}, {0x1680, 0x1680}, {0x2000, 0x200a},
                                      {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}},
    9};
static const struct set line_ends = {{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}, 3};

/* Adds the characters that are not in `of`, which is ascending. */
static void put_others(struct set *s, const struct set *of)
{
    uint32_t next = 0;
    for (int32_t i = 0; i < of->n; i++) {
        if (of->range[i].lo > next) put(s, next, of->range[i].lo - 1);
        next = of->range[i].hi + 1;
    }
    put(s, next, 0x10ffff);
}

/* Characters that are no part of `plainly` have to be escaped, or may not be written at all. */
static const struct cp_range plainly[][4] = {
    [CHARS_JSON] = {{' ', '!'}, {'#', '['}, {']', 0x10ffff}, {1, 0}},
    [CHARS_NO_TAG] = {{' ', '!'}, {'#', '<' - 1}, {'<' + 1, '['}, {']', 0x10ffff}},
    [CHARS_PLAIN] = {{1, '<' - 1}, {'<' + 1, 0x10ffff}, {1, 0}, {1, 0}},
};

static bool is_plain(const struct builder *b, uint32_t c)
{
    bool is = false;
    for (int k = 0; k < 4; k++) is = is || (plainly[b->chars][k].lo <= c && c <= plainly[b->chars][k].hi);
    return is;
}

int32_t build_json_class(struct builder *b, const struct cp_range *range, int32_t n, bool negate)
{
    struct set s = {.n = 0}, plain = {.n = 0};
    for (int32_t i = 0; i < n; i++) put(&s, range[i].lo, range[i].hi);
    int32_t e = build_never(b);
    for (uint32_t c = 0; c < 0x5d && e >= 0; c++) {
        if (is_plain(b, c)) continue;
        if (negate) put(&plain, c, c);
        if (b->chars == CHARS_PLAIN || !holds(&s, negate, c)) continue;
        static const char shorts[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
        static const char hex[] = "0123456789abcdef";
        const char *known = c ? memchr(shorts, (int)c, sizeof shorts - 1) : NULL;
        char text[8] = {'\\', known ? letters[known - shorts] : 'u', '0', '0', hex[c >> 4 & 15], hex[c & 15]};
        e = build_alt(b, build_bytes(b, text, known ? 2 : 6), e);
    }
    /* The others: the set without those above. */
    for (int32_t i = 0; i < s.n; i++)
        for (int k = 0; k < (negate ? 1 : 4); k++) {
            uint32_t lo = s.range[i].lo, hi = s.range[i].hi;
            if (!negate && lo < plainly[b->chars][k].lo) lo = plainly[b->chars][k].lo;
            if (!negate && hi > plainly[b->chars][k].hi) hi = plainly[b->chars][k].hi;
            if (lo <= hi) put(&plain, lo, hi);
        }
    return build_alt(b, build_class(b, plain.range, plain.n, negate), e);
}

static struct piece one_of(struct regex *r, const struct set *s, bool negate)
{
    if (s->n > RANGES / 4) return refuse(r, LUTRA_E_UNSUPPORTED, "a class of more than 128 ranges");
    return (struct piece){build_json_class(r->b, s->range, s->n, negate), 1, 1};
}

/* ---- characters ---- */

static bool read_hex(struct regex *r, int n, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < n; i++) {
        int c = peek(r);
        int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (d < 0) return false;
        *out = *out << 4 | (uint32_t)d;
        r->p++;
    }
    return true;
}

/* One character of the pattern, which is well-formed UTF-8. */
static uint32_t read_plain(struct regex *r)
{
    uint32_t c = *r->p++;
    int more = c < 0xc0 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    if (more) c &= 0x3fu >> more;
    for (; more && r->p < r->end; more--) c = c << 6 | (*r->p++ & 0x3f);
    return c;
}

/* Behind a backslash: a class of its own (added to *s; true), or one character. */
static bool read_escape(struct regex *r, struct set *s, uint32_t *c, const char **why)
{
    *why = NULL;
    *c = read_plain(r);
    switch (*c) {
    case 'd': return put(s, '0', '9'), true;
    case 'w':
        for (int i = 0; i < words.n; i++) put(s, words.range[i].lo, words.range[i].hi);
        return true;
    case 's':
        for (int i = 0; i < spaces.n; i++) put(s, spaces.range[i].lo, spaces.range[i].hi);
        return true;
    case 'D': return put_others(s, &digits), true;
    case 'W': return put_others(s, &words), true;
    case 'S': return put_others(s, &spaces), true; /* U+FEFF is one to Python */
    case 't': *c = '\t'; return false;
    case 'n': *c = '\n'; return false;
    case 'r': *c = '\r'; return false;
    case 'f': *c = '\f'; return false;
    case 'v': *c = '\v'; return false;
    case '0': *c = 0; return false;
    case 'x':
        if (!read_hex(r, 2, c)) *why = "\\x needs two hexadecimal digits";
        return false;
    case 'u':
        if (peek(r) == '{') {
            r->p++;
            *c = 0;
            uint32_t d;
            while (*c <= 0x10ffff && peek(r) != '}' && read_hex(r, 1, &d)) *c = *c << 4 | d;
            if (peek(r) != '}' || *c > 0x10ffff)
                *why = "\\u{...} is no character";
            else
                r->p++;
        } else if (!read_hex(r, 4, c))
            *why = "\\u needs four hexadecimal digits";
        return false;
    default:
        if ((*c | 32) >= 'a' && (*c | 32) <= 'z') *why = "an escape that is not built";
        if (*c >= '1' && *c <= '9') *why = "references to groups are not built";
        return false;
    }
}

static struct piece read_class(struct regex *r)
{
    struct set s = {.n = 0};
    bool negate = peek(r) == '^';
    r->p += negate;
    while (r->p < r->end && peek(r) != ']') {
        uint32_t lo, hi;
        const char *why = NULL;
        if (s.n > RANGES / 4) return refuse(r, LUTRA_E_UNSUPPORTED, "a class of more than 128 ranges");
        lo = read_plain(r);
        if (lo == '\\') {
            if (peek(r) == 'b') {
                r->p++;
                lo = '\b';
            } else {
                if (r->p >= r->end) break;
                bool class = read_escape(r, &s, &lo, &why);
                if (why) return refuse(r, LUTRA_E_UNSUPPORTED, why);
                if (class) continue;
            }
        }
        hi = lo;
        if (r->end - r->p >= 2 && r->p[0] == '-' && r->p[1] != ']') {
            r->p++;
            hi = read_plain(r);
            if (hi == '\\' && r->p < r->end) {
                struct set other = {.n = 0};
                if (read_escape(r, &other, &hi, &why)) why = "a range of characters that ends in a class";
                if (why) return refuse(r, LUTRA_E_UNSUPPORTED, why);
            }
            if (hi < lo) return refuse(r, LUTRA_E_FORMAT, "a range of characters that ends before it begins");
        }
        put(&s, lo, hi);
    }
    if (peek(r) != ']') return refuse(r, LUTRA_E_FORMAT, "a [ without its ]");
    r->p++;
    return one_of(r, &s, negate);
}

/* ---- the expression ---- */

static struct piece read_alternatives(struct regex *r, bool top);

static struct piece read_group(struct regex *r)
{
    if (++r->depth > GRAMMAR_NEST / 2) return refuse(r, LUTRA_E_FORMAT, "nested too deeply");
    if (peek(r) == '?') {
        r->p++;
        if (peek(r) == ':')
            r->p++;
        else if (peek(r) == '<' && r->end - r->p > 1 && r->p[1] != '=' && r->p[1] != '!') {
            while (r->p < r->end && *r->p != '>') r->p++;
            r->p += r->p < r->end;
        } else
            return refuse(r, LUTRA_E_UNSUPPORTED, "looking ahead or behind is not built");
    }
    struct piece x = read_alternatives(r, false);
    if (x.expr < 0) return x;
    if (peek(r) != ')') return refuse(r, LUTRA_E_FORMAT, "a ( without its )");
    r->p++;
    r->depth--;
    return x;
}

static struct piece read_atom(struct regex *r)
{
    struct set s = {.n = 0};
    int c = peek(r);
    if (c == '(') return r->p++, read_group(r);
    if (c == '[') return r->p++, read_class(r);
    if (c == '.') return r->p++, one_of(r, &line_ends, true);
    if (c == '^' || c == '$') return refuse(r, LUTRA_E_UNSUPPORTED, "^ and $ are built only at its ends");
    if (c == '*' || c == '+' || c == '?' || c == '{')
        return refuse(r, LUTRA_E_FORMAT, "a repetition with nothing before it");
    uint32_t x = read_plain(r);
    const char *why = NULL;
    if (x == '\\') {
        if (r->p >= r->end) return refuse(r, LUTRA_E_FORMAT, "a backslash at its end");
        bool class = read_escape(r, &s, &x, &why);
        if (why) return refuse(r, LUTRA_E_UNSUPPORTED, why);
        if (class) return one_of(r, &s, false);
    }
    put(&s, x, x);
    return one_of(r, &s, false);
}

static bool read_count(struct regex *r, int32_t *out)
{
    if (peek(r) < '0' || peek(r) > '9') return false;
    for (*out = 0; peek(r) >= '0' && peek(r) <= '9'; r->p++)
        if (*out <= REPEATS) *out = 10 * *out + (*r->p - '0');
    return *out <= REPEATS;
}

static struct piece read_repeat(struct regex *r, struct piece x)
{
    int c = peek(r);
    if (c != '*' && c != '+' && c != '?' && c != '{') return x;
    r->p++;
    int32_t min = c == '+', max = c == '?' ? 1 : -1;
    if (c == '{') {
        bool ok = read_count(r, &min);
        max = min;
        if (ok && peek(r) == ',') {
            r->p++;
            max = -1;
            if (peek(r) != '}') ok = read_count(r, &max);
        }
        if (!ok || peek(r) != '}' || (max >= 0 && max < min))
            return refuse(r, LUTRA_E_FORMAT, "a repetition that is not {m}, {m,} or {m,n} with n up to 65535");
        r->p++;
    }
    if (peek(r) == '?') r->p++; /* lazy: the same texts */
    int64_t lo = x.lo * min, hi = x.hi == 0 || max == 0 ? 0 : x.hi < 0 || max < 0 ? ENDLESS : x.hi * max;
    return (struct piece){
        build_repeat(r->b, x.expr, min, max), lo < INT32_MAX ? lo : INT32_MAX, hi < INT32_MAX ? hi : INT32_MAX};
}

/* Any characters: what may stand before ^ and behind $ where these are not written. */
static struct piece anything(struct regex *r)
{
    return (struct piece){build_repeat(r->b, build_json_char(r->b), 0, -1), 0, ENDLESS};
}

static struct piece read_sequence(struct regex *r, bool top)
{
    struct piece x = {build_empty(r->b), 0, 0};
    bool from_start = top && peek(r) == '^', to_end = false;
    if (top && !from_start) x = anything(r);
    r->p += from_start;
    int n = 0;
    while (x.expr >= 0 && r->p < r->end && peek(r) != '|' && peek(r) != ')') {
        if (top && peek(r) == '$' && (r->p + 1 == r->end || r->p[1] == '|')) {
            to_end = true;
            r->p++;
            break;
        }
        if (++n > GRAMMAR_NEST) return refuse(r, LUTRA_E_UNSUPPORTED, "more than 200 items in a row");
        struct piece atom = read_atom(r);
        if (atom.expr < 0) return atom;
        x = seq(r, x, read_repeat(r, atom));
    }
    return top && !to_end ? seq(r, x, anything(r)) : x;
}

static struct piece read_alternatives(struct regex *r, bool top)
{
    struct piece x = read_sequence(r, top);
    int n = 0;
    while (x.expr >= 0 && peek(r) == '|') {
        r->p++;
        if (++n > GRAMMAR_NEST) return refuse(r, LUTRA_E_UNSUPPORTED, "more than 200 alternatives");
        x = alt(r, x, read_sequence(r, top));
    }
    return x;
}

int32_t build_pattern(struct builder *b, const char *pattern, size_t n, int32_t *lo, int32_t *hi)
{
    struct regex r = {.b = b, .p = (const uint8_t *)pattern, .end = (const uint8_t *)pattern + n};
    struct piece x = read_alternatives(&r, true);
    if (x.expr >= 0 && r.p < r.end) x = refuse(&r, LUTRA_E_FORMAT, "a ) without its (");
    *lo = (int32_t)x.lo;
    *hi = (int32_t)x.hi;
    return x.expr;
}
