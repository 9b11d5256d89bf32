/* SPDX-License-Identifier: MIT */
#include "search/answer.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "search/answer_number.h"

enum { CLEAN_BYTES = 1001, MAX_DEPTH = 3 };

struct range {
    const char *from, *to;
};

struct output {
    char *text;
    size_t n, room; /* room without the NUL */
};

static void put(struct output *out, const char *p, size_t n)
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

/* ---- where the answer stands ---- */

/* Behind the last of some words, whatever their case; NULL = none. */
static const char *behind_last(const char *text, const char *const *words)
{
    const char *found = NULL;
    for (const char *p = text; *p; p++)
        for (int i = 0; words[i]; i++)
            if (!strncasecmp(p, words[i], strlen(words[i]))) found = p + strlen(words[i]);
    return found;
}

static struct range line_from(const char *p)
{
    return (struct range){p, p + strcspn(p, "\n")};
}

/* "{5}" or " 5" behind \boxed; braces within may nest. */
static struct range boxed(const char *p)
{
    while (blank(*p)) p++;
    if (*p != '{') return (struct range){p, p + strcspn(p, " \t\r\n$")};
    int depth = 0;
    const char *end = p;
    do depth += *end == '{' ? 1 : *end == '}' ? -1 : 0;
    while (depth > 0 && *++end);
    return (struct range){p + 1, end};
}

/* The rest of a sentence, without what explains it. */
static struct range sentence(const char *p)
{
    static const char *const reasons[] = {" because", " since", ", which"};
    while (*p == ':' || blank(*p) || *p == '*') p++;
    struct range r = line_from(p);
    for (const char *q = p; q < r.to; q++) {
        bool end = *q == '.' && (q + 1 == r.to || blank(q[1]));
        for (int i = 0; i < 3; i++) end |= !strncasecmp(q, reasons[i], strlen(reasons[i]));
        if (end) r.to = q;
    }
    return r;
}

static struct range last_number(const char *text)
{
    const char *end = text + strlen(text);
    struct range r = {end, end};
    char spelt[ANSWER_NUMBER_BYTES];
    for (const char *p = text; p < end;) {
        /* In 10-7 the dash is no sign, in v2 the digit no number. */
        bool inside = p > text && (letter(p[-1]) || digit(p[-1]) || p[-1] == ')' || p[-1] == '}');
        bool starts = digit(*p) || (!inside && (*p == '-' || *p == '\\'));
        const char *q = starts ? answer_number_read(p, end, spelt) : NULL;
        if (q) r = (struct range){p, q};
        p = q ? q : p + 1;
    }
    return r;
}

static struct range find(const char *text)
{
    static const char *const hashes[] = {"####", NULL}, *const boxes[] = {"\\boxed", "\\fbox", NULL};
    static const char *const phrases[] = {"answer is", "answers are", "answer:", "answer**:", NULL};
    const char *p;
    if ((p = behind_last(text, hashes))) return line_from(p);
    if ((p = behind_last(text, boxes))) return boxed(p);
    if ((p = behind_last(text, phrases))) return sentence(p);
    return last_number(text);
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
    {"\\,", " "},
    {"\\;", " "},
    {"\\:", " "},
    {"\\ ", " "},
    {"~", " "},
    {"\\(", ""},
    {"\\)", ""},
    {"\\[", ""},
    {"\\]", ""},
    {"{,}", ","},
    {"**", ""},
    /* currency, percent, degrees */
    {"\\$", ""},
    {"$", ""},
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
    /* Unicode: minus, dash, times, no-break space, 1/4, 1/2, 3/4 */
    {"\xe2\x88\x92", "-"},
    {"\xe2\x80\x93", "-"},
    {"\xc3\x97", "\\times "},
    {"\xc2\xa0", " "},
    {"\xc2\xbc", "\\frac14"},
    {"\xc2\xbd", "\\frac12"},
    {"\xc2\xbe", "\\frac34"},
};

/* Commands whose braces only say how their content looks. */
static const char *const wrappers[] = {"\\text", "\\textbf", "\\textit", "\\textrm", "\\mathrm", "\\mathbf", "\\mbox",
    "\\operatorname", "\\boxed", "\\fbox"};

static bool starts_with(struct range r, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(r.to - r.from) < n || memcmp(r.from, word, n)) return false;
    bool command = word[0] == '\\' && letter(word[n - 1]);
    return !command || r.from + n == r.to || !letter(r.from[n]);
}

/* Length of a wrapper and its brace at r, or 0. */
static size_t wrapper_at(struct range r)
{
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
        if (!starts_with(r, wrappers[i])) continue;
        const char *p = r.from + strlen(wrappers[i]);
        while (p < r.to && *p == ' ') p++;
        if (p < r.to && *p == '{') return (size_t)(p + 1 - r.from);
    }
    return 0;
}

/* Copies r without its dressing; returns the length. */
static size_t undress(struct range r, char *text)
{
    struct output out = {text, 0, CLEAN_BYTES - 1};
    uint64_t dropped = 0; /* bit d: the brace open at depth d belongs to a wrapper */
    int depth = 0;
    while (r.from < r.to) {
        size_t n = wrapper_at(r), i = 0;
        while (!n && i < sizeof dressing / sizeof *dressing && !starts_with(r, dressing[i].from)) i++;
        if (n) {
            if (depth < 63) depth++;
            dropped |= UINT64_C(1) << depth;
        } else if (i < sizeof dressing / sizeof *dressing) {
            n = strlen(dressing[i].from);
            put(&out, dressing[i].to, strlen(dressing[i].to));
        } else {
            n = 1;
            char c = blank(*r.from) ? ' ' : *r.from;
            bool drop = c == '}' && depth > 0 && dropped >> depth & 1;
            if (c == '{' && depth < 63) dropped &= ~(UINT64_C(1) << ++depth);
            if (c == '}' && depth > 0) depth--;
            if (!drop) put(&out, &c, 1);
        }
        r.from += n;
    }
    return out.n;
}

/* ---- spelling ---- */

static struct range trim(struct range r)
{
    while (r.from < r.to && strchr(" :=", *r.from)) r.from++;
    while (r.to > r.from && (strchr(" .,;:!?", r.to[-1]))) r.to--;
    return r;
}

static bool is_unit(const char *p, size_t n)
{
    static const char *const units[] = {"m", "g", "s", "h", "L", "l", "W", "V", "A", "J", "N", "K", "C", "F", "cm",
        "mm", "km", "kg", "mg", "ml", "mL", "ft", "in", "lb", "oz", "hr", "pm", "am", "mi", "yd", "Hz", "kW"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i]) == n && !memcmp(units[i], p, n)) return true;
    return false;
}

/* Only words that can follow a number without changing it: "square cm", "km/h", "m^2", "dollars per week". */
static bool is_tail(struct range r)
{
    bool attached = r.from < r.to && *r.from != ' ';
    while (r.from < r.to) {
        const char *p = r.from;
        while (p < r.to && letter(*p)) p++;
        size_t n = (size_t)(p - r.from);
        if (n > 0 && n < (attached ? 3 : 2) && !is_unit(r.from, n) && !(n == 1 && *r.from == 'a')) return false;
        if (n > 0 && p < r.to && *p == '^') {
            p++;
            while (p < r.to && (digit(*p) || *p == '{' || *p == '}')) p++;
        }
        if (n == 0 && !strchr(" ./-'", *p++)) return false;
        attached = false;
        r.from = p;
    }
    return true;
}

/* A number, maybe behind words and before a unit. */
static bool spell_number(struct range r, struct output *out)
{
    char spelt[ANSWER_NUMBER_BYTES];
    while (r.from < r.to && letter(*r.from)) {
        const char *p = r.from;
        while (p < r.to && letter(*p)) p++;
        if (p - r.from < 2 || p == r.to || (*p != ' ' && *p != ':')) return false;
        r.from = p;
        while (r.from < r.to && (*r.from == ' ' || *r.from == ':')) r.from++;
    }
    const char *end = answer_number_read(r.from, r.to, spelt);
    if (!end || !is_tail((struct range){end, r.to})) return false;
    put(out, spelt, strlen(spelt));
    return true;
}

/* (B), B, B., B) text: one letter from A to J. */
static bool spell_choice(struct range r, struct output *out)
{
    bool open = r.from < r.to && *r.from == '(';
    const char *p = r.from + open;
    if (p >= r.to || *p < 'A' || *p > 'J') return false;
    bool alone = p + 1 == r.to, marked = !alone && (p[1] == ')' || (!open && (p[1] == '.' || p[1] == ':')));
    if (!(open ? marked : alone || marked)) return false;
    put(out, p, 1);
    return true;
}

static bool is_words(struct range r)
{
    bool word = false;
    for (const char *p = r.from; p < r.to; p++) {
        bool part = letter(*p) || (*p & 0x80);
        word |= part && p + 1 < r.to && (letter(p[1]) || (p[1] & 0x80));
        if (!part && !strchr(" -',.", *p)) return false;
    }
    return word;
}

static void spell_words(struct range r, struct output *out)
{
    for (const char *p = r.from; p < r.to; p++) {
        char c = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
        if (!(c == ' ' && p[-1] == ' ')) put(out, &c, 1);
    }
}

/* Mathematics: no blanks but between digits; \frac12 and \sqrt2 get their braces. */
static void spell_math(struct range r, struct output *out)
{
    int braces = 0; /* arguments still to come */
    char before = 0;
    while (r.from < r.to) {
        size_t n = starts_with(r, "\\frac") || starts_with(r, "\\sqrt") ? 5 : 1;
        if (*r.from == ' ') {
            while (*r.from == ' ') r.from++; /* r ends in no blank */
            put(out, " ", digit(before) && digit(*r.from));
            continue;
        }
        before = *r.from;
        bool wrap = n == 1 && braces > 0 && digit(*r.from);
        put(out, "{", wrap);
        put(out, r.from, n);
        put(out, "}", wrap);
        braces = n == 5 ? (r.from[1] == 'f' ? 2 : 1) : wrap ? braces - 1 : 0;
        r.from += n;
    }
}

/* The first comma outside brackets, or the end. */
static const char *next_comma(struct range r)
{
    int depth = 0;
    for (const char *p = r.from; p < r.to; p++) {
        depth += strchr("([{", *p) && *p ? 1 : strchr(")]}", *p) && *p ? -1 : 0;
        if (*p == ',' && depth == 0) return p;
    }
    return r.to;
}

/* What stands behind "x =". */
static struct range without_name(struct range r)
{
    const char *p = r.from, *name = p;
    while (p < r.to && (letter(*p) || *p == '\\' || *p == '_')) p++;
    if (p == name || p - name > 12) return r;
    while (p < r.to && *p == ' ') p++;
    return p < r.to && *p == '=' ? trim((struct range){p + 1, r.to}) : r;
}

static void spell(struct range r, int depth, struct output *out)
{
    r = without_name(trim(r));
    if (r.from >= r.to || spell_number(r, out) || spell_choice(r, out)) return;
    if (is_words(r)) {
        spell_words(r, out);
        return;
    }
    bool brackets = r.to - r.from > 2 && strchr("([", *r.from) && strchr(")]", r.to[-1]);
    struct range in = brackets ? (struct range){r.from + 1, r.to - 1} : r;
    const char *comma = next_comma(in);
    if (comma == in.to || depth == MAX_DEPTH) {
        spell_math(r, out);
        return;
    }
    if (brackets) put(out, r.from, 1);
    for (; comma < in.to; comma = next_comma(in)) {
        spell((struct range){in.from, comma}, depth + 1, out);
        put(out, ",", 1);
        in.from = comma + 1;
    }
    spell(in, depth + 1, out);
    if (brackets) put(out, in.to, 1);
}

size_t search_answer(const char *text, char *answer, size_t n_max)
{
    char clean[CLEAN_BYTES];
    struct output out = {answer, 0, n_max ? n_max - 1 : 0};
    size_t n = undress(find(text), clean);
    clean[n] = 0;
    spell((struct range){clean, clean + n}, 0, &out);
    if (n_max) answer[out.n] = 0;
    return out.n;
}
