/* SPDX-License-Identifier: MIT
 *
 * Split patterns over bytes.  A pattern tells characters apart by a few classes only (`\p{L}`, `[^\s\p{N}]`,
 * `[一-龥]`), so every character is written as one byte: ASCII as itself, any other as a letter above 0x7F that stands
 * for all characters of exactly the same classes.  A class in the pattern then becomes a set of bytes, and PCRE2 needs
 * neither UTF-8 nor its own Unicode tables: what it matches follows from unicode_categories.c alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/vocab_impl.h"

enum { MAX_CLASSES = 64, MAX_RANGES = 256, PAGE = 256, N_PAGE = TEXT_UNICODE_END / PAGE, N_LETTER = 128 };

/* [...] or \p{..}, \s and so on standing alone. */
struct class
{
    size_t from, to;     /* of its text in the pattern */
    uint32_t categories; /* a bit for each */
    bool space, no_space, negated;
    size_t first_range, n_ranges;
};

struct parser {
    const char *text;
    size_t at;
    struct class *class;
    size_t n_classes;
    uint32_t (*range)[2]; /* first and last */
    size_t n_ranges;
};

/* All patterns of one split. */
struct builder {
    struct class class[MAX_CLASSES];
    uint32_t range[MAX_RANGES][2];
    size_t n_classes, n_ranges;
    uint64_t signature[N_LETTER]; /* of each letter: a bit for each class */
    size_t n_letters;
    bool too_many;
};

/* ---- patterns ---- */

static uint32_t categories_named(const char *name, size_t n)
{
    uint32_t mask = 0;
    for (uint32_t c = 0; c < TEXT_N_CATEGORY; c++)
        if (strncmp(text_category_names[c], name, n) == 0) mask |= 1u << c;
    return mask;
}

/* \p{..}, \P{..}, \s or \S at p->at, added to the class. */
static bool read_property(struct parser *p, struct class *class)
{
    const char *s = p->text + p->at;
    if (s[0] != '\\' || !s[1] || !strchr("pPsS", s[1])) return false;
    if (s[1] == 's') class->space = true;
    if (s[1] == 'S') class->no_space = true;
    p->at += 2;
    if (s[1] != 'p' && s[1] != 'P') return true;
    size_t n = strcspn(s + 3, "}");
    uint32_t mask = categories_named(s + 3, n);
    class->categories |= s[1] == 'p' ? mask : ~mask;
    p->at += n + 2;
    return true;
}

/* One character of a [...]: literal, escaped or by its number. */
static uint32_t read_char(struct parser *p)
{
    static const char named[] = "r\rn\nt\tv\vf\f";
    const char *s = p->text + p->at;
    if (s[0] == '\\' && s[1] == 'x' && s[2] == '{') {
        p->at += strcspn(s, "}") + 1;
        return (uint32_t)strtoul(s + 3, NULL, 16);
    }
    if (s[0] == '\\') {
        p->at += 2;
        for (size_t i = 0; named[i]; i += 2)
            if (named[i] == s[1]) return (uint32_t)named[i + 1];
        return (unsigned char)s[1];
    }
    int k = text_utf8_scan(s, strlen(s));
    p->at += (size_t)k;
    return text_utf8_get(s, k);
}

/* A [...] at p->at. */
static void read_class(struct parser *p, struct class *class)
{
    p->at++;
    class->negated = p->text[p->at] == '^';
    p->at += class->negated;
    while (p->text[p->at] != ']' && p->n_ranges < MAX_RANGES) {
        if (read_property(p, class)) continue;
        uint32_t low = read_char(p), high = low;
        if (p->text[p->at] == '-' && p->text[p->at + 1] != ']') {
            p->at++;
            high = read_char(p);
        }
        p->range[p->n_ranges][0] = low;
        p->range[p->n_ranges++][1] = high;
        class->n_ranges++;
    }
    p->at++;
}

/* Finds the classes of a pattern of presplit.c. */
static void find_classes(struct builder *b, const char *pattern, size_t *first, size_t *end)
{
    struct parser p = {pattern, 0, b->class, b->n_classes, b->range, b->n_ranges};
    *first = p.n_classes;
    while (pattern[p.at] && p.n_classes < MAX_CLASSES) {
        struct class class = {.from = p.at, .first_range = p.n_ranges};
        if (pattern[p.at] == '[')
            read_class(&p, &class);
        else if (!read_property(&p, &class)) {
            p.at += pattern[p.at] == '\\' ? 2 : 1;
            continue;
        }
        class.to = p.at;
        b->class[p.n_classes++] = class;
    }
    b->n_classes = *end = p.n_classes;
    b->n_ranges = p.n_ranges;
}

/* ---- characters ---- */

/* Unicode's White_Space. */
static bool is_space(uint32_t cp, uint32_t category)
{
    return (cp >= 9 && cp <= 13) || cp == 0x85 || text_category_names[category][0] == 'Z';
}

uint32_t text_category_of(uint32_t cp)
{
    size_t low = 0;
    for (size_t high = text_n_category_runs; high - low > 1;) {
        size_t mid = low + (high - low) / 2;
        if (text_category_runs[mid] >> 8 <= cp)
            low = mid;
        else
            high = mid;
    }
    return text_category_runs[low] & 0xFF;
}

uint32_t text_lower(uint32_t cp)
{
    size_t low = 0, high = text_n_lower_runs / 4;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const uint32_t *run = &text_lower_runs[4 * mid];
        if (cp > run[1])
            low = mid + 1;
        else if (cp < run[0])
            high = mid;
        else
            return (cp - run[0]) % run[2] ? cp : run[3] + (cp - run[0]);
    }
    return cp;
}

bool text_is_space(uint32_t cp)
{
    return is_space(cp, cp < 0x80 ? 0 : text_category_of(cp)) || cp == ' ';
}

static bool contains(const struct builder *b, const struct class *class, uint32_t cp, uint32_t category)
{
    bool in = class->categories >> category & 1;
    if (class->space || class->no_space) in |= is_space(cp, category) ? class->space : class->no_space;
    for (size_t i = class->first_range; !in && i < class->first_range + class->n_ranges; i++)
        in = cp >= b->range[i][0] && cp <= b->range[i][1];
    return in != class->negated;
}

static uint64_t signature_of(const struct builder *b, uint32_t cp, uint32_t category)
{
    uint64_t signature = 0;
    for (size_t i = 0; i < b->n_classes; i++) signature |= (uint64_t)contains(b, &b->class[i], cp, category) << i;
    return signature;
}

/* The letter of a character. */
static unsigned char letter_of(struct builder *b, uint32_t cp, uint32_t category)
{
    uint64_t signature = signature_of(b, cp, category);
    size_t i = 0;
    while (i < b->n_letters && b->signature[i] != signature) i++;
    if (i == N_LETTER) {
        b->too_many = true;
        return 0xFF;
    }
    if (i == b->n_letters) b->signature[b->n_letters++] = signature;
    return (unsigned char)(0x80 + i);
}

static uint32_t category_at(uint32_t cp, size_t *run)
{
    while (*run + 1 < text_n_category_runs && text_category_runs[*run + 1] >> 8 <= cp) ++*run;
    return text_category_runs[*run] & 0xFF;
}

/* Whether a class begins or ends inside the page by code points, and not by a property alone. */
static bool is_divided(const struct builder *b, uint32_t first)
{
    uint32_t last = first + PAGE - 1;
    if (first == 0) return true; /* U+0085 is white space, which its category does not say */
    for (size_t i = 0; i < b->n_ranges; i++) {
        uint32_t low = b->range[i][0], high = b->range[i][1];
        if ((low > first && low <= last) || (high >= first && high < last)) return true;
    }
    return false;
}

/* The letters of a page; returns whether they are all the same. */
static bool fill_page(struct builder *b, uint32_t first, size_t *run, unsigned char letters[PAGE])
{
    bool divided = is_divided(b, first), same = true;
    for (uint32_t at = first, end = first + PAGE; at < end;) {
        uint32_t category = category_at(at, run), next = end;
        if (*run + 1 < text_n_category_runs && text_category_runs[*run + 1] >> 8 < end)
            next = text_category_runs[*run + 1] >> 8;
        if (divided) next = at + 1;
        unsigned char letter = at < 0x80 ? (unsigned char)at : letter_of(b, at, category);
        memset(letters + (at - first), letter, next - at);
        same = same && letter == letters[0];
        at = next;
    }
    return same;
}

/* The number of a page of these letters, a new one where there is none yet. */
static int put_page(struct text_classes *classes, const unsigned char letters[PAGE], uint16_t *number)
{
    for (*number = 0; *number < classes->n_pages; ++*number)
        if (memcmp(classes->letter[*number], letters, PAGE) == 0) return 0;
    void *more = realloc(classes->letter, (classes->n_pages + 1) * sizeof *classes->letter);
    if (!more) return LUTRA_E_NO_MEMORY;
    classes->letter = more;
    memcpy(classes->letter[classes->n_pages++], letters, PAGE);
    return 0;
}

static int fill_pages(struct text_classes *classes, struct builder *b)
{
    unsigned char letters[PAGE];
    uint16_t plain[PAGE] = {0}; /* 1 + the page of one letter only */
    size_t run = 0;
    for (uint32_t i = 0; i < N_PAGE; i++) {
        bool same = fill_page(b, i * PAGE, &run, letters);
        if (same && plain[*letters]) {
            classes->page[i] = plain[*letters] - 1;
            continue;
        }
        TRY(put_page(classes, letters, &classes->page[i]));
        if (same) plain[*letters] = classes->page[i] + 1;
    }
    return b->too_many ? LUTRA_E_INTERNAL : 0;
}

/* ---- patterns over bytes ---- */

/* A class as PCRE2 writes a set of bytes; returns its length. */
static size_t write_class(const struct builder *b, size_t number, char *out)
{
    bool in[N_LETTER + 0x80 + 1] = {false};
    size_t n = 0, run = 0;
    for (uint32_t cp = 0; cp < 0x80; cp++) in[cp] = contains(b, &b->class[number], cp, category_at(cp, &run));
    for (size_t i = 0; i < b->n_letters; i++) in[0x80 + i] = b->signature[i] >> number & 1;
    out[n++] = '[';
    for (unsigned low = 0, high; low < 256; low = high + 1) {
        for (high = low; in[low] && in[high + 1]; high++) {
        }
        if (in[low]) n += (size_t)snprintf(out + n, 10, high > low ? "\\x%02x-\\x%02x" : "\\x%02x", low, high);
    }
    if (n == 1) return (size_t)snprintf(out, 8, "(?!)"); /* no character at all */
    out[n++] = ']';
    return n;
}

static char *write_pattern(const struct builder *b, const char *pattern, size_t first, size_t end)
{
    enum { MAX_TEXT = 2 + 128 * 9 }; /* of a class */
    char *out = malloc(strlen(pattern) + (end - first) * MAX_TEXT + 1);
    size_t n = 0, at = 0;
    for (size_t i = first; out && i < end; i++) {
        memcpy(out + n, pattern + at, b->class[i].from - at);
        n += b->class[i].from - at;
        n += write_class(b, i, out + n);
        at = b->class[i].to;
    }
    if (out) memcpy(out + n, pattern + at, strlen(pattern) - at + 1);
    return out;
}

int text_classes_open(
    struct text_classes *classes, const char *const pattern[TEXT_MAX_SPLITS], char *bytes[TEXT_MAX_SPLITS])
{
    struct builder *b = calloc(1, sizeof *b);
    size_t first[TEXT_MAX_SPLITS], end[TEXT_MAX_SPLITS];
    int rc = b ? 0 : LUTRA_E_NO_MEMORY;
    for (int i = 0; b && i < TEXT_MAX_SPLITS && pattern[i]; i++) find_classes(b, pattern[i], &first[i], &end[i]);
    if (b && (b->n_classes == MAX_CLASSES || b->n_ranges == MAX_RANGES)) rc = LUTRA_E_INTERNAL;
    if (rc == 0) rc = fill_pages(classes, b);
    for (int i = 0; i < TEXT_MAX_SPLITS; i++) {
        bytes[i] = rc == 0 && pattern[i] ? write_pattern(b, pattern[i], first[i], end[i]) : NULL;
        if (rc == 0 && pattern[i] && !bytes[i]) rc = LUTRA_E_NO_MEMORY;
    }
    free(b);
    return rc;
}

size_t text_classes_write(
    const struct text_classes *classes, const char *text, size_t n_bytes, unsigned char *out, size_t *n_used)
{
    size_t n = 0, at = 0;
    while (at < n_bytes) {
        for (uint64_t eight; n_bytes - at >= 8; at += 8, n += 8) { /* mostly ASCII */
            memcpy(&eight, text + at, 8);
            if (eight & 0x8080808080808080u) break;
            memcpy(out + n, &eight, 8);
        }
        if (at < n_bytes && (unsigned char)text[at] < 0x80) {
            out[n++] = (unsigned char)text[at++];
            continue;
        }
        int k = at < n_bytes ? text_utf8_scan(text + at, n_bytes - at) : 0;
        if (k <= 0) break;
        uint32_t cp = text_utf8_get(text + at, k);
        out[n++] = classes->letter[classes->page[cp / PAGE]][cp % PAGE];
        at += (size_t)k;
    }
    *n_used = at;
    return n;
}

void text_classes_fini(struct text_classes *classes)
{
    free(classes->letter);
    *classes = (struct text_classes){0};
}
