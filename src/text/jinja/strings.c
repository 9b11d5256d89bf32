/* SPDX-License-Identifier: MIT
 *
 * Python's text operations on UTF-8: characters are code points, spaces are str.isspace's.
 */
#include <utf8proc.h>

#include "text/jinja/jinja_impl.h"
#include "text/utf8.h"

bool jinja_is_space(uint32_t cp)
{
    return (cp >= 0x09 && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x20) || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F ||
           cp == 0x3000;
}

int jinja_put(struct jinja_run *run, const char *text)
{
    return jinja_str(run, jinja_view(text, strlen(text)), &run->out);
}

bool jinja_is_word_char(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    bool letter = c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
    return cp == '_' || letter || (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}

int jinja_n_chars(struct jinja_run *run, struct jinja_value s, int64_t *n)
{
    *n = 0;
    for (size_t i = 0; i < s.n; i++) *n += ((unsigned char)s.s[i] & 0xC0) != 0x80;
    return jinja_step(run, s.n);
}

size_t jinja_char_at(struct jinja_value s, size_t byte, uint32_t *cp)
{
    int k = text_utf8_scan(s.s + byte, s.n - byte);
    if (k <= 0) { /* cannot happen: template and JSON were checked */
        *cp = 0xFFFD;
        return 1;
    }
    *cp = text_utf8_get(s.s + byte, k);
    return (size_t)k;
}

size_t jinja_char_before(struct jinja_value s, size_t end, uint32_t *cp)
{
    size_t at = end - 1;
    while (at > 0 && ((unsigned char)s.s[at] & 0xC0) == 0x80) at--;
    jinja_char_at(s, at, cp);
    return at;
}

struct jinja_value jinja_trim(struct jinja_value s, bool left, bool right)
{
    uint32_t cp;
    for (size_t k; left && s.n > 0; s = jinja_part(s, k, s.n - k)) {
        k = jinja_char_at(s, 0, &cp);
        if (!jinja_is_space(cp)) break;
    }
    while (right && s.n > 0) {
        size_t at = jinja_char_before(s, s.n, &cp);
        if (!jinja_is_space(cp)) break;
        s.n = (uint32_t)at;
    }
    return s;
}

/* Is the character one of `chars`?  All that is looked at is charged. */
static int is_one_of(struct jinja_run *run, struct jinja_value chars, uint32_t cp, bool *out)
{
    uint32_t one;
    size_t at = 0;
    for (*out = false; at < chars.n && !*out; *out = one == cp) at += jinja_char_at(chars, at, &one);
    return jinja_step(run, at);
}

int jinja_strip(struct jinja_run *run, struct jinja_value s, struct jinja_value chars, bool left, bool right,
    struct jinja_value *out)
{
    uint32_t cp;
    bool stripped = true;
    if (chars.kind != JINJA_STRING) {
        *out = jinja_trim(s, left, right);
        return jinja_step(run, s.n - out->n);
    }
    for (size_t k; left && s.n > 0; s = jinja_part(s, k, s.n - k)) {
        k = jinja_char_at(s, 0, &cp);
        TRY(is_one_of(run, chars, cp, &stripped));
        if (!stripped) break;
    }
    while (right && s.n > 0) {
        size_t at = jinja_char_before(s, s.n, &cp);
        TRY(is_one_of(run, chars, cp, &stripped));
        if (!stripped) break;
        s.n = (uint32_t)at;
    }
    *out = s;
    return 0;
}

/* Two-way search: linear in the bytes passed and the length of `what`. */
int jinja_find(
    struct jinja_run *run, struct jinja_value in, struct jinja_value what, size_t from_byte, const char **hit)
{
    *hit = NULL;
    if (from_byte > in.n) return 0;
    *hit = what.n ? memmem(in.s + from_byte, in.n - from_byte, what.s, what.n) : in.s + from_byte;
    return jinja_step(run, (*hit ? (size_t)(*hit - in.s) : in.n) - from_byte + what.n);
}

int jinja_find_last(struct jinja_run *run, struct jinja_value in, struct jinja_value what, const char **hit)
{
    for (size_t at = in.n >= what.n ? in.n - what.n + 1 : 0; at > 0; at--) {
        bool begins = what.n == 0 || in.s[at - 1] == what.s[0];
        *hit = in.s + at - 1;
        if (begins || at % 16 == 0) TRY(jinja_step(run, begins ? what.n : 0));
        if (begins && memcmp(*hit, what.s, what.n) == 0) return 0;
    }
    *hit = NULL;
    return 0;
}

int jinja_take(struct jinja_run *run, size_t from, struct jinja_value *out)
{
    int rc = jinja_string(run, run->out.p + from, run->out.n - from, run->out.input + from, out);
    run->out.n = from;
    run->out.p[from] = 0;
    return rc;
}

static int add(struct jinja_run *run, struct jinja_value part)
{
    return jinja_str(run, part, &run->out);
}

/* An empty `old` matches before every character and at the end, as in Python. */
int jinja_replace(struct jinja_run *run, struct jinja_value s, struct jinja_value old, struct jinja_value with,
    int64_t count, struct jinja_value *out)
{
    size_t start = run->out.n, at = 0;
    uint32_t cp;
    TRY(jinja_step(run, s.n));
    for (; count != 0; count--) {
        const char *hit;
        TRY(jinja_find(run, s, old, at, &hit));
        if (!hit) break;
        TRY(add(run, jinja_part(s, at, (size_t)(hit - s.s) - at)));
        TRY(add(run, with));
        at = (size_t)(hit - s.s) + old.n;
        if (old.n == 0) {
            if (at == s.n) break;
            size_t k = jinja_char_at(s, at, &cp);
            TRY(add(run, jinja_part(s, at, k)));
            at += k;
        }
    }
    TRY(add(run, jinja_part(s, at, s.n - at)));
    return jinja_take(run, start, out);
}

static bool ends_line(uint32_t cp)
{
    return (cp >= 0x0A && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

int jinja_split_lines(struct jinja_run *run, struct jinja_value s, bool keep_ends, struct jinja_value *out)
{
    TRY(jinja_list_new(run, JINJA_LIST_PLAIN, out));
    TRY(jinja_step(run, s.n));
    size_t from = 0;
    uint32_t cp;
    for (size_t at = 0, k; at < s.n; at += k) {
        k = jinja_char_at(s, at, &cp);
        if (!ends_line(cp)) continue;
        if (cp == '\r' && at + 1 < s.n && s.s[at + 1] == '\n') k = 2;
        TRY(jinja_list_add(run, out->list, jinja_part(s, from, at - from + (keep_ends ? k : 0))));
        from = at + k;
    }
    return from < s.n ? jinja_list_add(run, out->list, jinja_part(s, from, s.n - from)) : 0;
}

static bool is_cased(uint32_t cp)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)cp);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

static uint32_t recase(uint32_t cp, enum jinja_case how, bool first)
{
    if (how == JINJA_SWAP) {
        uint32_t other = (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp);
        return other != cp ? other : (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
    }
    bool title = how == JINJA_CAPITAL || how == JINJA_TITLE_METHOD;
    if (first && title) return (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp);
    if (first || how == JINJA_UPPER) return (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp);
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

/* Python's center() puts the odd space to the left of text in an odd width. */
int jinja_justify(struct jinja_run *run, struct jinja_value s, int64_t width, struct jinja_value fill, char side,
    struct jinja_value *out)
{
    int64_t n;
    size_t start = run->out.n;
    TRY(jinja_n_chars(run, s, &n));
    int64_t room = width > n ? width - n : 0;
    int64_t before = side == '<' ? 0 : side == '>' ? room : room / 2 + (room & width & 1);
    for (int64_t i = 0; i < before; i++) TRY(add(run, fill));
    TRY(add(run, s));
    for (int64_t i = before; i < room; i++) TRY(add(run, fill));
    return jinja_take(run, start, out);
}

/* Full case folding: a character may become several. */
static int fold(struct jinja_run *run, uint32_t cp, bool input)
{
    utf8proc_int32_t folded[8];
    char one[4];
    int last = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, folded, 8, UTF8PROC_CASEFOLD, &last);
    for (utf8proc_ssize_t i = 0; i < n && i < 8; i++) {
        struct jinja_value part;
        TRY(jinja_marked(run, one, (size_t)text_utf8_put((uint32_t)folded[i], one), input, &part));
        TRY(add(run, part));
    }
    return 0;
}

int jinja_change_case(struct jinja_run *run, struct jinja_value s, enum jinja_case how, struct jinja_value *out)
{
    size_t start = run->out.n;
    bool first = how == JINJA_CAPITAL || how == JINJA_TITLE_METHOD ||
                 how == JINJA_TITLE_FILTER; /* at the first letter of a word */
    uint32_t cp;
    char one[4];
    for (size_t at = 0; at < s.n;) {
        struct jinja_value new = jinja_view(one, 0);
        new.input = s.input &&s.input[at] ? run->all_input : NULL;
        at += jinja_char_at(s, at, &cp);
        if (how == JINJA_FOLD) {
            TRY(fold(run, cp, new.input != NULL));
            continue;
        }
        new.n = (uint32_t)text_utf8_put(recase(cp, how, first), one);
        TRY(add(run, new));
        if (how == JINJA_CAPITAL) first = false;
        if (how == JINJA_TITLE_METHOD) first = !is_cased(cp);
        /* The filter's words begin after space, hyphen or an opening bracket. */
        if (how == JINJA_TITLE_FILTER) first = jinja_is_space(cp) || (cp < 0x80 && cp && strchr("-({[<", (int)cp));
    }
    return jinja_take(run, start, out);
}
