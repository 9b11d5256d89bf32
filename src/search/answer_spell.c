/* SPDX-License-Identifier: MIT */
#include "search/answer_spell.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "search/answer_number.h"
#include "text/utf8.h"

enum { MAX_DEPTH = 3 };

void answer_put(struct answer_output *out, const char *p, size_t n)
{
    for (size_t i = 0; i < n && out->n < out->room; i++) out->text[out->n++] = p[i];
}

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* ---- dressing ---- */

/* Spellings that mean the same.  A command ends where its letters end: \left is not in \leftarrow. */
static const struct {
    const char *from, *to;
} dressing[] = {
    {"\\left", ""},
    {"\\right", ""},
    {"\\displaystyle", ""},
    {"\\dfrac", "\\frac"},
    {"\\tfrac", "\\frac"},
    {"\\cfrac", "\\frac"},
    {"\\qquad", " "},
    {"\\quad", " "},
    {"\\!", ""},
    {"\\;", " "},
    {"\\:", " "},
    {"\\\\", " "},
    {"\\(", ""},
    {"\\)", ""},
    {"\\[", ""},
    {"\\]", ""},
    {"{,}", ","},
    {"**", ""},
    {"__", ""},
    {"`", ""},
    {"\"", ""},
    {"\xe2\x80\x9c", ""}, /* quotes */
    {"\xe2\x80\x9d", ""},
    {"\xe3\x80\x8c", ""},
    {"\xe3\x80\x8d", ""},
    {"\xe2\x89\x88", "\\approx "},
    {"\\simeq", "\\approx"},
    {"\xe2\x86\x92", "="},
    {"\xe2\x87\x92", "="},
    {"\\Rightarrow", "="},
    {"\\rightarrow", "="},
    {"<b>", ""},
    {"</b>", ""},
    {"<strong>", ""},
    {"</strong>", ""},
    {"<u>", ""},
    {"</u>", ""},
    {"<i>", ""},
    {"</i>", ""},
    {"<em>", ""},
    {"</em>", ""},
    {"&nbsp;", " "},
    /* currency, percent, degrees */
    {"US$", ""},
    {"R$", ""},
    {"\\$", ""},
    {"$", ""},
    {"\xe2\x82\xb9", ""}, /* rupee, won, rouble, dong */
    {"\xe2\x82\xa9", ""},
    {"\xe2\x82\xbd", ""},
    {"\xe2\x82\xab", ""},
    {"\xc2\xa3", ""},
    {"\xe2\x82\xac", ""},
    {"\xc2\xa5", ""},
    {"\\%", ""},
    {"%", ""},
    {"^{\\circ}", ""},
    {"^\\circ", ""},
    {"\\circ", ""},
    {"\\degree", ""},
    {"\xc2\xb0", ""},
    /* Unicode: minus, dash, times, Arabic point and comma, fractions */
    {"\xd9\xab", "."},
    {"\xd9\xac", ","},
    {"\xe2\x81\x84", "/"},
    {"\xe2\x85\x93", "\\frac13"},
    {"\xe2\x85\x94", "\\frac23"},
    {"\xe2\x85\x95", "\\frac15"},
    {"\xe2\x85\x96", "\\frac25"},
    {"\xe2\x85\x97", "\\frac35"},
    {"\xe2\x85\x98", "\\frac45"},
    {"\xe2\x85\x99", "\\frac16"},
    {"\xe2\x85\x9a", "\\frac56"},
    {"\xe2\x85\x9b", "\\frac18"},
    {"\xe2\x85\x9c", "\\frac38"},
    {"\xe2\x85\x9d", "\\frac58"},
    {"\xe2\x85\x9e", "\\frac78"},
    {"\xe2\x88\x92", "-"},
    {"\xe2\x80\x93", "-"},
    {"\xc3\x97", "\\times "},
    {"\xc2\xbc", "\\frac14"},
    {"\xc2\xbd", "\\frac12"},
    {"\xc2\xbe", "\\frac34"},
};

/* Commands whose braces only say how their content looks. */
static const char *const wrappers[] = {"\\text", "\\textbf", "\\textit", "\\textrm", "\\textsf", "\\texttt", "\\emph",
    "\\underline", "\\mathrm", "\\mathbf", "\\mathsf", "\\mathit", "\\boldsymbol", "\\bm", "\\mbox", "\\operatorname",
    "\\boxed", "\\fbox"};

static bool starts_with(struct answer_range r, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(r.to - r.from) < n || memcmp(r.from, word, n)) return false;
    bool command = word[0] == '\\' && letter(word[n - 1]);
    return !command || r.from + n == r.to || !letter(r.from[n]);
}

/* Length of a wrapper and its brace at r, or 0. */
static size_t wrapper_at(struct answer_range r)
{
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
        if (!starts_with(r, wrappers[i])) continue;
        const char *p = r.from + strlen(wrappers[i]);
        while (p < r.to && *p == ' ') p++;
        if (p < r.to && *p == '{') return (size_t)(p + 1 - r.from);
    }
    return 0;
}

/* Blanks that may group digits: length, or 0. */
static size_t thin_space_at(struct answer_range r)
{
    static const char *const thin[] = {" ", "\\,", "\\ ", "~", "\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x89"};
    for (size_t i = 0; i < sizeof thin / sizeof *thin; i++)
        if (starts_with(r, thin[i])) return strlen(thin[i]);
    return 0;
}

/* A blank between up to three digits, or groups of them, and exactly three: 1 234 567. */
static bool groups(const struct answer_output *out, const char *p, const char *end)
{
    size_t n = 0;
    while (n < out->n && digit(out->text[out->n - 1 - n])) n++;
    char before = n < out->n ? out->text[out->n - 1 - n] : ' ';
    bool first = n > 0 && n < 4 && !strchr(".,/^", before);
    return first && end - p >= 3 && digit(p[0]) && digit(p[1]) && digit(p[2]) && !(end - p > 3 && digit(p[3]));
}

static char superscript(uint32_t cp)
{
    if (cp == 0xb9) return '1';
    if (cp == 0xb2 || cp == 0xb3) return (char)('0' + cp - 0xb0);
    if (cp == 0x207b) return '-';
    return cp == 0x2070 || (cp > 0x2073 && cp < 0x207a) ? (char)('0' + cp - 0x2070) : 0;
}

/* The exponent goes on. */
static bool behind_caret(const struct answer_output *out)
{
    size_t n = out->n;
    while (n > 0 && (digit(out->text[n - 1]) || out->text[n - 1] == '-')) n--;
    return n > 0 && out->text[n - 1] == '^';
}

/* A decimal digit of any script and a wide form of an ASCII character become ASCII, a picture nothing.  Returns the
 * length read, 0 = something else. */
static size_t plain_at(struct answer_range r, struct answer_output *out)
{
    static const uint32_t zeros[] = {0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66,
        0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x17e0, 0x1810, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6};
    int k = *r.from & 0x80 ? text_utf8_scan(r.from, (size_t)(r.to - r.from)) : 0;
    if (k < 2) return 0;
    uint32_t cp = text_utf8_get(r.from, k);
    if (superscript(cp) && !behind_caret(out)) answer_put(out, "^", 1);
    char c = superscript(cp) ? superscript(cp) : cp > 0xff00 && cp < 0xff5f ? (char)(cp - 0xfee0) : 0;
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
        if (cp >= zeros[i] && cp < zeros[i] + 10) c = (char)('0' + cp - zeros[i]);
    if (c && c != '$' && c != '%') answer_put(out, &c, 1);
    bool picture = (cp >= 0x2600 && cp < 0x27c0) || cp == 0xfe0f || (cp >= 0x1f000 && cp < 0x1fb00) || cp == 0x2b50;
    return c || picture || cp == 0x200b || cp == 0xfeff ? (size_t)k : 0;
}

/* The dressing at r or, where there is none, its first byte; returns the length read. */
static size_t undress_one(struct answer_range r, struct answer_output *out)
{
    size_t n = plain_at(r, out);
    if (n) return n;
    if ((n = thin_space_at(r))) {
        answer_put(out, groups(out, r.from + n, r.to) ? "'" : " ", 1);
        return n;
    }
    for (size_t i = 0; i < sizeof dressing / sizeof *dressing; i++) {
        if (!starts_with(r, dressing[i].from)) continue;
        answer_put(out, dressing[i].to, strlen(dressing[i].to));
        return strlen(dressing[i].from);
    }
    answer_put(out, blank(*r.from) ? " " : r.from, 1);
    return 1;
}

/* Copies r without its dressing; returns what it wrote. */
struct answer_range answer_undress(struct answer_range r, char text[ANSWER_CLEAN_BYTES])
{
    struct answer_output out = {text, 0, ANSWER_CLEAN_BYTES - 1};
    uint64_t dropped = 0; /* bit d: the brace open at depth d belongs to a wrapper */
    int depth = 0;
    while (r.from < r.to) {
        size_t n = wrapper_at(r);
        if (n) {
            if (depth < 63) depth++;
            dropped |= UINT64_C(1) << depth;
        } else if (*r.from == '}' && depth > 0 && dropped >> depth-- & 1) {
            n = 1;
        } else {
            if (*r.from == '{' && depth < 63 && !starts_with(r, "{,}")) dropped &= ~(UINT64_C(1) << ++depth);
            n = undress_one(r, &out);
        }
        r.from += n;
    }
    text[out.n] = 0;
    return (struct answer_range){text, text + out.n};
}

/* ---- spelling ---- */

struct answer_range answer_trim(struct answer_range r)
{
    while (r.from < r.to && strchr(" :=*_'|", *r.from)) r.from++;
    while (r.to > r.from && strchr(" .,;:!?*_'|\\", r.to[-1])) r.to--;
    return r;
}

/* One of some words begins r. */
bool answer_begins(struct answer_range r, const char *const *words)
{
    for (int i = 0; words[i]; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(r.to - r.from) < n || strncasecmp(words[i], r.from, n)) continue;
        if (r.from + n == r.to || !letter(r.from[n])) return true;
    }
    return false;
}

static bool is_unit(const char *p, size_t n)
{
    static const char *const units[] = {"m", "g", "s", "h", "L", "l", "W", "V", "A", "J", "N", "K", "C", "F", "cm",
        "mm", "km", "kg", "mg", "ml", "mL", "ft", "in", "lb", "oz", "hr", "pm", "am", "mi", "yd", "Hz", "kW"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i]) == n && !memcmp(units[i], p, n)) return true;
    return false;
}

/* Letters of any script; 0xe2 begins the signs of mathematics. */
static bool word_byte(char c)
{
    return letter(c) || ((c & 0x80) && c != '\xe2');
}

/* Only words that can follow a number without changing it: "square cm", "km/h", "m^2", "dollars per week". */
static bool is_tail(struct answer_range r)
{
    bool attached = r.from < r.to && *r.from != ' ';
    while (r.from < r.to) {
        const char *p = r.from;
        while (p < r.to && word_byte(*p)) p++;
        size_t n = (size_t)(p - r.from);
        if (n > 0 && n < (attached ? 3 : 2) && !is_unit(r.from, n) && !(n == 1 && *r.from == 'a')) return false;
        if (n > 0 && p < r.to && *p == '^') {
            p++;
            while (p < r.to && (digit(*p) || *p == '{' || *p == '}')) p++;
        }
        if (n == 0 && !strchr(" ./-'()", *p++)) return false;
        attached = false;
        r.from = p;
    }
    return true;
}

/* "seven", "twenty-one": value, or -1. */
static int number_word(struct answer_range r)
{
    static const char *const words[] = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
        "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
        "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
    enum { WORD = 28, TWENTY = 20 };
    size_t n = (size_t)(r.to - r.from);
    for (int i = 0; i < WORD; i++) {
        size_t m = strlen(words[i]);
        if (m > n || strncasecmp(r.from, words[i], m)) continue;
        int value = i < TWENTY ? i : (i - TWENTY + 2) * 10;
        if (m == n) return value;
        if (i < TWENTY || (r.from[m] != '-' && r.from[m] != ' ')) continue;
        int unit = number_word((struct answer_range){r.from + m + 1, r.to});
        if (unit > 0 && unit < 10) return value + unit;
    }
    return -1;
}

/* A number, maybe behind words and before a unit. */
static bool spell_number(struct answer_range r, struct answer_output *out)
{
    char spelt[ANSWER_NUMBER_BYTES];
    int value = number_word(r);
    if (value >= 0) {
        if (value > 9) answer_put(out, &"0123456789"[value / 10], 1);
        answer_put(out, &"0123456789"[value % 10], 1);
        return true;
    }
    while (r.from < r.to && word_byte(*r.from)) {
        const char *p = r.from;
        while (p < r.to && word_byte(*p)) p++;
        if (p - r.from < 2 || p == r.to || (*p != ' ' && *p != ':' && *p != '\'')) return false;
        r.from = p;
        while (r.from < r.to && strchr(" :='", *r.from)) r.from++;
    }
    const char *end = answer_number_read(r.from, r.to, spelt);
    if (!end || !is_tail((struct answer_range){end, r.to})) return false;
    answer_put(out, spelt, strlen(spelt));
    return true;
}

/* (B), B, B., B) text, (b), option B: one letter from A to J. */
static bool spell_choice(struct answer_range r, struct answer_output *out)
{
    static const char *const names[] = {"option ", "choice ", "letter ", "answer "};
    for (int i = 0; i < 4; i++)
        if (r.to - r.from > 7 && !strncasecmp(r.from, names[i], 7)) r.from += 7;
    while (r.from < r.to && *r.from == ' ') r.from++;
    bool open = r.from < r.to && (*r.from == '(' || *r.from == '[');
    const char *p = r.from + open, *q = p + 1;
    if (p >= r.to) return false;
    bool small = *p >= 'a' && *p <= 'e';
    char c = small ? (char)(*p - 32) : *p;
    if (c < 'A' || c > 'J') return false;
    bool alone = q == r.to;
    bool closed = !alone && (*q == ')' || (open && *q == ']'));
    bool marked = closed || (!alone && !open && (*q == '.' || *q == ':' || (*q == ' ' && q + 1 < r.to && q[1] == '-')));
    if (small && !(closed && (open ? q + 1 == r.to : true))) return false;
    if (!(open ? marked : alone || marked)) return false;
    answer_put(out, &c, 1);
    return true;
}

static bool is_words(struct answer_range r)
{
    bool word = false;
    for (const char *p = r.from; p < r.to; p++) {
        bool part = letter(*p) || (*p & 0x80);
        word |= part && p + 1 < r.to && (letter(p[1]) || (p[1] & 0x80));
        if (!part && !strchr(" -',.", *p)) return false;
    }
    return word;
}

static void spell_words(struct answer_range r, struct answer_output *out)
{
    for (const char *p = r.from; p < r.to; p++) {
        char c = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
        if (!(c == ' ' && p[-1] == ' ')) answer_put(out, &c, 1);
    }
}

/* ^{10} in the spelling ^10: the length of its braces and what they hold, or 0. */
static size_t exponent_at(struct answer_range r)
{
    if (!starts_with(r, "^{")) return 0;
    const char *p = r.from + 2;
    while (p < r.to && (letter(*p) || digit(*p) || *p == '-')) p++;
    return p < r.to && *p == '}' && p > r.from + 2 ? (size_t)(p + 1 - r.from) : 0;
}

/* A unit behind mathematics: 5\sqrt{3} cm, 5\pi square units. */
static struct answer_range without_unit(struct answer_range r)
{
    if (letter(*r.from)) return r;
    for (;;) {
        const char *p = r.to;
        while (p > r.from && letter(p[-1])) p--;
        size_t n = (size_t)(r.to - p);
        if (p == r.from || p[-1] != ' ' || (n < 2 && !is_unit(p, n))) return r;
        const char *to = p;
        while (to > r.from && to[-1] == ' ') to--;
        if (!letter(to[-1]) && !digit(to[-1]) && !strchr(")}", to[-1])) return r;
        r.to = to;
    }
}

/* Mathematics: no blanks but between digits; \frac12 and \sqrt2 get their braces. */
static void spell_math(struct answer_range r, struct answer_output *out)
{
    int braces = 0; /* arguments still to come */
    char before = 0;
    r = without_unit(r);
    while (r.from < r.to) {
        size_t n = exponent_at(r);
        if (n) {
            answer_put(out, "^", 1);
            answer_put(out, r.from + 2, n - 3);
            before = r.from[n - 2];
            r.from += n;
            continue;
        }
        n = starts_with(r, "\\frac") || starts_with(r, "\\sqrt") ? 5 : 1;
        if (*r.from == ' ') {
            while (*r.from == ' ') r.from++; /* r ends in no blank */
            answer_put(out, " ", digit(before) && digit(*r.from));
            continue;
        }
        before = *r.from;
        bool wrap = n == 1 && braces > 0 && digit(*r.from);
        answer_put(out, "{", wrap);
        answer_put(out, r.from, n);
        answer_put(out, "}", wrap);
        braces = n == 5 ? (r.from[1] == 'f' ? 2 : 1) : wrap ? braces - 1 : 0;
        r.from += n;
    }
}

/* The first separator of a list outside brackets, or the end; n = its length. */
static const char *next_comma(struct answer_range r, size_t *n)
{
    int depth = 0;
    *n = 0;
    for (const char *p = r.from; p < r.to; p++) {
        struct answer_range at = {p, r.to};
        depth += strchr("([{", *p) && *p ? 1 : strchr(")]}", *p) && *p ? -1 : 0;
        if (depth) continue;
        *n = starts_with(at, ", and ")  ? 6
             : starts_with(at, ", or ") ? 5
             : starts_with(at, " and ") ? 5
             : starts_with(at, " or ")  ? 4
             : *p == ','                ? 1
                                        : 0;
        if (*n) return p;
    }
    return r.to;
}

/* What stands behind "x =", "P(A) =", "5 + 5 =", "Total cost =": the last equals sign that has no unknown before it. */
static struct answer_range without_name(struct answer_range r)
{
    enum { NAME = 40 };
    const char *found = NULL, *equals = NULL;
    bool sum = true, name = r.from < r.to && (letter(*r.from) || *r.from == '\\');
    for (const char *p = r.from; p < r.to && (sum || (name && p - r.from < NAME)); p++) {
        if (*p == '=') {
            equals = p;
            name = p + 1 < r.to;
        } else {
            sum = sum && strchr("0123456789 .,+-*/()^=!", *p);
            if (!equals) name = name && (letter(*p) || digit(*p) || strchr(" \\_{}()'", *p));
        }
        if (equals && (sum || !found)) found = equals;
        if (equals && !sum) break;
    }
    return found ? answer_trim((struct answer_range){found + 1, r.to}) : r;
}

/* The side of "about equal" that says it: 3.14 in "x \approx 3.14" and "\approx 3.14", else the exact one before. */
static struct answer_range exact(struct answer_range r)
{
    const char *p = r.from;
    bool name = true;
    for (; p < r.to && !starts_with((struct answer_range){p, r.to}, "\\approx"); p++)
        name = name && (letter(*p) || strchr(" ()_", *p));
    if (p == r.to) return r;
    return answer_trim(name ? (struct answer_range){p + strlen("\\approx"), r.to} : (struct answer_range){r.from, p});
}

enum answer_kind answer_spell(struct answer_range r, int depth, struct answer_output *out)
{
    static const char *const connectives[] = {"therefore", "thus", "so", "hence", NULL};
    r = answer_trim(r);
    while (depth == 0 && answer_begins(r, connectives) &&
           memchr(r.from, ',', (size_t)(r.to - r.from) < 10 ? (size_t)(r.to - r.from) : 10)) {
        while (r.from < r.to && *r.from != ',') r.from++;
        r = answer_trim((struct answer_range){r.from + 1, r.to});
    }
    r = without_name(exact(r));
    if (r.from >= r.to) return ANSWER_NOTHING;
    if (spell_number(r, out)) return ANSWER_IS_NUMBER;
    if (spell_choice(r, out)) return ANSWER_IS_CHOICE;
    if (is_words(r)) {
        spell_words(r, out);
        return ANSWER_IS_WORDS;
    }
    size_t n;
    bool brackets = r.to - r.from > 2 && strchr("([", *r.from) && strchr(")]", r.to[-1]);
    struct answer_range in = brackets ? (struct answer_range){r.from + 1, r.to - 1} : r;
    const char *comma = next_comma(in, &n);
    if (comma == in.to && brackets && spell_number(answer_trim(in), out)) return ANSWER_IS_NUMBER;
    if (comma == in.to || depth == MAX_DEPTH) {
        spell_math(r, out);
        return ANSWER_IS_MATH;
    }
    if (brackets) answer_put(out, r.from, 1);
    for (; comma < in.to; comma = next_comma(in, &n)) {
        answer_spell((struct answer_range){in.from, comma}, depth + 1, out);
        answer_put(out, ",", 1);
        in.from = comma + n;
    }
    answer_spell(in, depth + 1, out);
    if (brackets) answer_put(out, in.to, 1);
    return ANSWER_IS_MATH;
}

bool answer_spell_last_number(struct answer_range r, struct answer_output *out)
{
    char spelt[ANSWER_NUMBER_BYTES], last[ANSWER_NUMBER_BYTES] = "";
    for (const char *p = r.from; p < r.to;) {
        /* In 10-7 the dash is no sign, in v2 the digit no number; "- 7" is an item of a list. */
        bool inside = p > r.from && (letter(p[-1]) || digit(p[-1]) || p[-1] == ')' || p[-1] == '}');
        bool sign = !inside && *p == '-' && p + 1 < r.to && p[1] != ' ';
        bool starts = digit(*p) || sign || (!inside && *p == '\\');
        const char *q = starts ? answer_number_read(p, r.to, spelt) : NULL;
        if (q) memcpy(last, spelt, sizeof last);
        p = q ? q : p + 1;
    }
    answer_put(out, last, strlen(last));
    return *last;
}
