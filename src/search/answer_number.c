/* SPDX-License-Identifier: MIT */
#include "search/answer_number.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS = 40, EXPONENT = 40, INTEGER_DIGITS = 9 };

/* digit[0..n-1] with the point behind digit n - scale (scale may be negative or above n). */
struct decimal {
    bool negative;
    int n, scale;
    char digit[DIGITS];
};

static bool is_digit(const char *p, const char *end)
{
    return p < end && *p >= '0' && *p <= '9';
}

static const char *skip_blanks(const char *p, const char *end)
{
    while (p < end && *p == ' ') p++;
    return p;
}

static const char *skip_word(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - p) >= n && !memcmp(p, word, n) ? p + n : NULL;
}

/* Digits at p, at most n. */
static int run(const char *p, const char *end, int n)
{
    int i = 0;
    while (i < n && is_digit(p + i, end)) i++;
    return i;
}

/* Signs that group the digits at p, where they end and the mark of a fraction behind them: 1,234,567.5 and 12,34,567 by
 * commas; 1.234.567 and 1.234,50 by points; 1'234,50. */
static bool grouping(const char *p, const char *end, const char **behind, char *mark)
{
    int first = run(p, end, 4), n = 0, two = 0, k;
    const char *q = p + first;
    if (first == 0 || first > 3 || q == end || !strchr(",.'", *q)) return 0;
    char sign = *q;
    for (; q < end && *q == sign; q += 1 + k, n++) {
        k = run(q + 1, end, 4);
        if (k == 2 && sign == ',' && first < 3 && two == n)
            two++;
        else if (k != 3)
            break;
        else if (two && two < n)
            return 0;
    }
    bool open = q < end && *q == sign && is_digit(q + 1, end);
    if (two == n || (two && n != two + 1)) return 0;
    k = q < end && *q == ',' ? run(q + 1, end, 3) : 0;
    bool comma = k == 1 || k == 2;
    if (sign == '.' && (open || k == 3 || (n == 1 && !comma))) return 0;
    if (sign == ',' && open && two) return 0;
    *mark = sign == '.' || (sign == '\'' && comma) ? ',' : '.';
    *behind = q;
    return true;
}

/* Digits with at most one point, and signs that group those before it. */
static const char *read_digits(const char *p, const char *end, struct decimal *d)
{
    const char *behind = p;
    char mark = '.';
    grouping(p, end, &behind, &mark);
    bool point = false, any = false;
    for (;; p++) {
        if (is_digit(p, end)) {
            any = true;
            d->scale += point;
            if (d->n == DIGITS || d->scale > EXPONENT) return NULL;
            if (d->n == 0 && *p == '0') continue; /* leading zeros count only behind the point */
            d->digit[d->n++] = *p;
        } else if (!point && p < end && *p == mark && p >= behind && (is_digit(p + 1, end) || any)) {
            if (!is_digit(p + 1, end)) return p; /* the end of a sentence */
            point = true;
        } else if (point || !any || p >= behind) {
            return any ? p : NULL;
        }
    }
}

/* "e3", "\times 10^{3}", "* 10^3", " million": moves the point. */
static const char *read_exponent(const char *p, const char *end, struct decimal *d)
{
    static const char *const times[] = {"\\times", "\\cdot", "*", "x"};
    static const struct {
        const char *name;
        int zeros;
    } scales[] = {{" thousand", 3}, {" million", 6}, {" billion", 9}, {" trillion", 12}};
    const char *q = NULL;
    int value = 0;
    bool brace = false;
    for (int i = 0; i < 4; i++) {
        q = skip_word(p, end, scales[i].name);
        if (!q) continue;
        d->scale -= scales[i].zeros;
        return q;
    }
    if (p < end && (*p == 'e' || *p == 'E')) q = p + 1;
    for (int i = 0; i < 4 && !q; i++) {
        const char *r = skip_word(skip_blanks(p, end), end, times[i]);
        if (r) q = skip_word(skip_blanks(r, end), end, "10^");
        if (r && !q) return p;
        brace = q && q < end && *q == '{';
        q = q ? q + brace : NULL;
    }
    if (!q) return p;
    bool negative = q < end && *q == '-';
    if (q < end && (*q == '-' || *q == '+')) q++;
    if (!is_digit(q, end)) return p;
    for (; is_digit(q, end); q++)
        if (value <= EXPONENT) value = value * 10 + *q - '0';
    if (brace && !(q < end && *q++ == '}')) return p;
    if (value > EXPONENT) return NULL;
    d->scale += negative ? value : -value;
    return q;
}

static void strip_zeros(struct decimal *d)
{
    while (d->n > 0 && d->digit[d->n - 1] == '0' && d->scale > 0) d->n--, d->scale--;
    if (d->n == 0) *d = (struct decimal){0};
}

static void print(const struct decimal *d, char *out)
{
    int n = 0, whole = d->n - d->scale;
    if (d->negative) out[n++] = '-';
    if (whole <= 0) out[n++] = '0';
    for (int i = 0; i < whole; i++) out[n++] = i < d->n ? d->digit[i] : '0';
    if (d->scale > 0) out[n++] = '.';
    for (int i = whole; i < 0; i++) out[n++] = '0';
    for (int i = whole > 0 ? whole : 0; i < d->n; i++) out[n++] = d->digit[i];
    out[n] = 0;
}

/* An integer small enough to compute with. */
static bool small_integer(const struct decimal *d, int64_t *value)
{
    if (d->scale != 0 || d->n > INTEGER_DIGITS) return false;
    *value = 0;
    for (int i = 0; i < d->n; i++) *value = *value * 10 + d->digit[i] - '0';
    return true;
}

static const char *read_integer(const char *p, const char *end, int64_t *value)
{
    struct decimal d = {0};
    p = read_digits(p, end, &d);
    return p && small_integer(&d, value) ? p : NULL;
}

/* One side of \frac: "{12}", or a single digit. */
static const char *read_side(const char *p, const char *end, int64_t *value, bool *negative)
{
    p = skip_blanks(p, end);
    if (is_digit(p, end)) {
        *value = *p - '0';
        return p + 1;
    }
    if (p == end || *p != '{') return NULL;
    p = skip_blanks(p + 1, end);
    if (p < end && *p == '-') {
        *negative = !*negative;
        p = skip_blanks(p + 1, end);
    }
    p = read_integer(p, end, value);
    if (!p) return NULL;
    p = skip_blanks(p, end);
    return p < end && *p == '}' ? p + 1 : NULL;
}

/* "\frac{a}{b}" and its sizes, or "a/b". */
static const char *read_fraction(const char *p, const char *end, int64_t *a, int64_t *b, bool *negative)
{
    static const char *const words[] = {"\\frac", "\\dfrac", "\\tfrac", "\\cfrac"};
    const char *q = NULL;
    for (int i = 0; i < 4 && !q; i++) q = skip_word(p, end, words[i]);
    if (q) {
        q = read_side(q, end, a, negative);
        return q ? read_side(q, end, b, negative) : NULL;
    }
    q = read_integer(p, end, a);
    q = q ? skip_blanks(q, end) : NULL;
    if (!q || q == end || *q != '/') return NULL;
    q = read_integer(skip_blanks(q + 1, end), end, b);
    return q && !is_digit(q, end) && !(q < end && *q == '/') ? q : NULL; /* not the date 1/2/2024 */
}

static int64_t divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* a/b in lowest terms, or as a decimal when its expansion ends. */
static void print_fraction(bool negative, int64_t a, int64_t b, char *out)
{
    int64_t g = divisor(a, b), rest;
    a /= g;
    b /= g;
    const char *sign = negative && a ? "-" : "";
    rest = b;
    while (rest % 2 == 0) rest /= 2;
    while (rest % 5 == 0) rest /= 5;
    if (rest != 1) {
        snprintf(out, ANSWER_NUMBER_BYTES, "%s%lld/%lld", sign, (long long)a, (long long)b);
        return;
    }
    int n = snprintf(out, ANSWER_NUMBER_BYTES, "%s%lld", sign, (long long)(a / b));
    a %= b;
    if (a) out[n++] = '.';
    for (; a && n < ANSWER_NUMBER_BYTES - 1; a %= b) {
        a *= 10;
        out[n++] = (char)('0' + a / b);
    }
    out[n] = 0;
}

const char *answer_number_read(const char *p, const char *end, char out[ANSWER_NUMBER_BYTES])
{
    struct decimal d = {0};
    int64_t a = 0, b = 0, whole = 0;
    bool negative = false;
    if (p < end && (*p == '-' || *p == '+')) {
        negative = *p == '-';
        p = skip_blanks(p + 1, end);
    }
    const char *q = read_fraction(p, end, &a, &b, &negative);
    if (q && b) {
        print_fraction(negative, a, b, out);
        return q;
    }
    q = read_digits(p, end, &d);
    if (!q) return NULL;
    bool mixed_negative = negative;
    const char *r = read_fraction(skip_blanks(q, end), end, &a, &b, &mixed_negative);
    bool apart = q < end && (*q == ' ' || *q == '\\');
    if (r && apart && b && a < b && small_integer(&d, &whole) && mixed_negative == negative) {
        print_fraction(negative, whole * b + a, b, out);
        return r;
    }
    d.negative = negative;
    q = read_exponent(q, end, &d);
    if (!q) return NULL;
    strip_zeros(&d);
    print(&d, out);
    return q;
}
