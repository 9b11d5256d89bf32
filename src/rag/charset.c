/* SPDX-License-Identifier: MIT */
#include "rag/charset.h"

#include <string.h>

#include "lutra/rag.h"
#include "text/utf8.h"

enum { FIRST_LETTER = 0xC0, LETTERS_LEAST = 4 };

/* Windows-1252, 0x80 .. 0x9F (Unicode's CP1252.TXT); 0: no character.  The others are Unicode's own numbers. */
static const uint16_t windows_1252[32] = {0x20AC, 0, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030,
    0x0160, 0x2039, 0x0152, 0, 0x017D, 0, 0, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122,
    0x0161, 0x203A, 0x0153, 0, 0x017E, 0x0178};

static const struct {
    const char *name, *mark;
    size_t n_mark;
    int unit; /* bytes */
    bool big_endian;
} charsets[] = {
    [CHARSET_UNKNOWN] = {.name = NULL},
    [CHARSET_UTF8] = {"UTF-8", "\xEF\xBB\xBF", 3, 1, false},
    [CHARSET_UTF16LE] = {"UTF-16LE", "\xFF\xFE", 2, 2, false},
    [CHARSET_UTF16BE] = {"UTF-16BE", "\xFE\xFF", 2, 2, true},
    [CHARSET_UTF32LE] = {"UTF-32LE", "\xFF\xFE\0\0", 4, 4, false},
    [CHARSET_UTF32BE] = {"UTF-32BE", "\0\0\xFE\xFF", 4, 4, true},
    [CHARSET_WINDOWS_1252] = {.name = "windows-1252"},
};

static bool has_mark(enum charset c, const char *bytes, size_t n)
{
    return charsets[c].n_mark && n >= charsets[c].n_mark && memcmp(bytes, charsets[c].mark, charsets[c].n_mark) == 0;
}

static bool is_utf8(const char *bytes, size_t n)
{
    size_t n_good = 0, n_bad = 0;
    for (size_t at = 0; at < n;) {
        if ((unsigned char)bytes[at] < 0x80) {
            at++;
            continue;
        }
        int k = text_utf8_scan(bytes + at, n - at);
        if (k == 0) break; /* cut off */
        n_good += k > 0;
        n_bad += k < 0;
        at += (size_t)(k > 0 ? k : -k);
    }
    return n_bad <= n_good;
}

static bool is_letter(unsigned char b)
{
    return b >= FIRST_LETTER && b != 0xD7 && b != 0xF7;
}

static bool is_western(const char *bytes, size_t n)
{
    const unsigned char *b = (const unsigned char *)bytes;
    size_t n_letter = 0, n_beside = 0;
    for (size_t i = 0; i < n; i++) {
        if (b[i] >= 0x80 && b[i] < 0xA0 && !windows_1252[b[i] - 0x80]) return false;
        if (!is_letter(b[i])) continue;
        n_letter++;
        n_beside += (i > 0 && is_letter(b[i - 1])) || (i + 1 < n && is_letter(b[i + 1]));
    }
    return n_letter < LETTERS_LEAST || n_beside * 4 <= n_letter * 3;
}

enum charset charset_guess(const char *bytes, size_t n)
{
    for (int c = CHARSET_UTF32BE; c > CHARSET_UNKNOWN; c--) /* the mark of UTF-32 begins with that of UTF-16 */
        if (has_mark((enum charset)c, bytes, n)) return (enum charset)c;
    if (is_utf8(bytes, n)) return CHARSET_UTF8;
    return is_western(bytes, n) ? CHARSET_WINDOWS_1252 : CHARSET_UNKNOWN;
}

const char *lutra_text_charset(const char *bytes, size_t n)
{
    return charsets[charset_guess(bytes ? bytes : "", bytes ? n : 0)].name;
}

static uint32_t unit_at(enum charset c, const char *bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < charsets[c].unit; i++) {
        int at = charsets[c].big_endian ? i : charsets[c].unit - 1 - i;
        value = value << 8 | (unsigned char)bytes[at];
    }
    return value;
}

static void add_units(struct text *out, enum charset c, const char *bytes, size_t n)
{
    size_t unit = (size_t)charsets[c].unit;
    char utf8[4];
    for (size_t at = charsets[c].n_mark; at < n && !out->failed; at += unit) {
        uint32_t cp = at + unit <= n ? unit_at(c, bytes + at) : 0xFFFD; /* cut off */
        if (unit == 2 && cp >> 10 == 0xD800 >> 10 && at + 4 <= n) {
            uint32_t low = unit_at(c, bytes + at + 2);
            if (low >> 10 == 0xDC00 >> 10) {
                cp = 0x10000 + ((cp & 0x3FF) << 10 | (low & 0x3FF));
                at += 2;
            }
        }
        if (cp > 0x10FFFF || cp >> 11 == 0xD800 >> 11) cp = 0xFFFD;
        text_add(out, utf8, (size_t)text_utf8_put(cp, utf8));
    }
}

void charset_add(struct text *out, enum charset charset, const char *bytes, size_t n)
{
    char utf8[4];
    if (charsets[charset].unit > 1) {
        add_units(out, charset, bytes, n);
    } else if (charset == CHARSET_WINDOWS_1252) {
        for (size_t i = 0; i < n; i++) {
            uint32_t cp = (unsigned char)bytes[i];
            if (cp >= 0x80 && cp < 0xA0) cp = windows_1252[cp - 0x80] ? windows_1252[cp - 0x80] : 0xFFFD;
            text_add(out, utf8, (size_t)text_utf8_put(cp, utf8));
        }
    } else {
        text_add_utf8(out, bytes, n);
    }
}
