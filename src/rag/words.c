/* SPDX-License-Identifier: MIT
 *
 * utf8proc folds; which marks are accents, what is a word and where scripts are cut is decided here.
 */
#include "rag/words.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/utf8.h"

/* ---- folding ---- */

enum { TATWEEL = 0x0640, CYRILLIC_I = 0x0438, BREVE = 0x0306 };

/* й is a letter of its own, not и with an accent (Unicode's root collation, UTS #35, has it so). */
static bool is_accent(int32_t c, int32_t before)
{
    if (c < 0x300) return false;
    int class = utf8proc_get_property(c)->combining_class;
    bool accent = class == 1 || (class >= 10 && class <= 36) || class >= 200;
    return accent && !(c == BREVE && before == CYRILLIC_I);
}

static void put_code_points(struct text *out, const int32_t *cp, size_t n)
{
    char bytes[4];
    for (size_t i = 0; i < n; i++) text_add(out, bytes, (size_t)text_utf8_put((uint32_t)cp[i], bytes));
}

/* The code points of a well-formed text, decomposed; how many, or -1: no memory. */
static ptrdiff_t decompose(const char *text, size_t n, int32_t **cp)
{
    const utf8proc_option_t how = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_CASEFOLD | UTF8PROC_IGNORE;
    size_t room = n + 16;
    *cp = NULL;
    for (;;) {
        int32_t *more = realloc(*cp, (room + 1) * sizeof **cp);
        if (!more) return -1;
        *cp = more;
        ptrdiff_t got = utf8proc_decompose((const uint8_t *)text, (ptrdiff_t)n, more, (ptrdiff_t)room, how);
        if (got < 0 || (size_t)got <= room) return got;
        room = (size_t)got;
    }
}

/* Text beyond ASCII. */
static void fold(struct text *out, const char *text, size_t n)
{
    int32_t *cp = NULL;
    ptrdiff_t got = decompose(text, n, &cp), kept = 0;
    for (ptrdiff_t i = 0; i < got; i++)
        if (cp[i] != TATWEEL && !is_accent(cp[i], kept ? cp[kept - 1] : 0)) cp[kept++] = cp[i];
    if (got >= 0) kept = utf8proc_normalize_utf32(cp, kept, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    if (got < 0 || kept < 0)
        out->failed = true;
    else
        put_code_points(out, cp, (size_t)kept);
    free(cp);
}

static bool is_ascii(const char *text, size_t n)
{
    unsigned char all = 0;
    for (size_t i = 0; i < n; i++) all |= (unsigned char)text[i];
    return all < 0x80;
}

void text_add_folded(struct text *out, const char *text, size_t n)
{
    if (is_ascii(text, n)) {
        size_t from = out->n;
        text_add(out, text, n);
        for (size_t i = from; i < out->n; i++) {
            char c = out->bytes[i];
            if (c >= 'A' && c <= 'Z') out->bytes[i] = (char)(c - 'A' + 'a');
        }
        return;
    }
    struct text clean = {0};
    bool good = text_utf8_valid(text, n) == n;
    if (!good) text_add_utf8(&clean, text, n);
    if (clean.failed)
        out->failed = true;
    else
        fold(out, good ? text : clean.bytes, good ? n : clean.n);
    text_fini(&clean);
}

/* ---- words ---- */

static bool is_hangul(uint32_t c)
{
    return (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0x1100 && c <= 0x11FF) || (c >= 0xA960 && c <= 0xA97F) ||
           (c >= 0xD7B0 && c <= 0xD7FF);
}

/* Searched by characters: scripts without blanks between words, and Korean. */
static bool splits(uint32_t c)
{
    return (c >= 0x0E00 && c <= 0x0EFF) || (c >= 0x1000 && c <= 0x109F) || /* Thai, Lao; Myanmar */
           (c >= 0x1780 && c <= 0x17FF) ||                                 /* Khmer */
           (c >= 0x3005 && c <= 0x3007) || (c >= 0x3040 && c <= 0x30FF) || /* marks of repetition; kana */
           (c >= 0x31F0 && c <= 0x31FF) || (c >= 0x1B000 && c <= 0x1B16F) || (c >= 0x3400 && c <= 0x9FFF) ||
           (c >= 0xF900 && c <= 0xFAFF) || /* ideographs */
           (c >= 0x20000 && c <= 0x3FFFF) || is_hangul(c);
}

enum class { OTHER, LETTER, MARK };

static enum class class_of(uint32_t c) {
    if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ? LETTER : OTHER;
    switch (utf8proc_category((int32_t)c)){
        case UTF8PROC_CATEGORY_LU : case UTF8PROC_CATEGORY_LL : case UTF8PROC_CATEGORY_LT : case
        UTF8PROC_CATEGORY_LM : case UTF8PROC_CATEGORY_LO : case UTF8PROC_CATEGORY_ND : case UTF8PROC_CATEGORY_NL : case
        UTF8PROC_CATEGORY_NO : case UTF8PROC_CATEGORY_CO : return LETTER;
        case UTF8PROC_CATEGORY_MN : case UTF8PROC_CATEGORY_MC : case UTF8PROC_CATEGORY_ME : return MARK;
        default : return OTHER;
    }
}

/* The character at text[at]; its bytes. */
static size_t get(const char *text, size_t n, size_t at, uint32_t *c)
{
    int k = text_utf8_scan(text + at, n - at);
    *c = k > 0 ? text_utf8_get(text + at, k) : 0xFFFD;
    return k > 0 ? (size_t)k : 1;
}

bool word_next(const char *folded, size_t n, size_t *at, struct word *out)
{
    uint32_t c = 0;
    size_t k = 0;
    while (*at < n && (k = get(folded, n, *at, &c), class_of(c) != LETTER)) *at += k;
    if (*at >= n) return false;
    *out = (struct word){.begin = *at, .split = splits(c), .hangul = is_hangul(c)};
    for (*at += k; *at < n; *at += k) {
        k = get(folded, n, *at, &c);
        enum class class = class_of(c);
        if (class == OTHER || (class == LETTER && (out->split || splits(c)))) break;
    }
    out->n = *at - out->begin;
    return true;
}

/* ---- Korean ---- */

/* What follows a noun, or ends a polite sentence: the longest first where one ends in another. */
static const char *const particles[] = {"입니까", "습니까", "입니다", "습니다", "합니다", "합니까", "됩니다", "됩니까",
    "하세요", "인가요", "이에요", "으로서", "으로써", "에게서", "한테서", "이라고", "이라는", "에서", "에게", "한테",
    "까지", "부터", "으로", "로서", "로써", "보다", "처럼", "마다", "조차", "마저", "밖에", "이나", "이랑", "하고",
    "라고", "라는", "이란", "예요", "은", "는", "이", "가", "을", "를", "의", "에", "도", "만", "로", "와", "과"};

enum { SYLLABLE_BYTES = 3 };

static size_t particle(const char *run, size_t n, bool may_be_all)
{
    for (size_t i = 0; i < sizeof particles / sizeof *particles; i++) {
        size_t len = strlen(particles[i]), left = len == SYLLABLE_BYTES ? 2 * SYLLABLE_BYTES : SYLLABLE_BYTES;
        bool fits = n >= len + left || (may_be_all && n == len && len > SYLLABLE_BYTES);
        if (fits && memcmp(run + n - len, particles[i], len) == 0) return len;
    }
    return 0;
}

size_t word_particles(const char *run, size_t n)
{
    size_t last = particle(run, n, true);
    /* One more stands before it: "에서" before "는". */
    for (size_t more; last && last < n && (more = particle(run, n - last, false)) > SYLLABLE_BYTES;) last += more;
    return last;
}
