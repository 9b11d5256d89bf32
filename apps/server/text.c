/* SPDX-License-Identifier: MIT */
#include "text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool make_room(struct text *t, size_t n)
{
    if (t->failed) return false;
    if (n < t->room - t->n && t->room) return true;
    size_t room = t->room ? t->room : 64;
    while (room - t->n <= n && room < SIZE_MAX / 2) room *= 2;
    char *bytes = room - t->n > n ? realloc(t->bytes, room) : NULL;
    if (!bytes) {
        t->failed = true;
        return false;
    }
    t->bytes = bytes;
    t->room = room;
    return true;
}

void text_add(struct text *t, const void *bytes, size_t n)
{
    if (!make_room(t, n)) return;
    if (n) memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    t->bytes[t->n] = 0;
}

void text_put(struct text *t, const char *string)
{
    text_add(t, string, strlen(string));
}

void text_print(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !make_room(t, (size_t)n)) return;
    va_start(args, format);
    vsnprintf(t->bytes + t->n, (size_t)n + 1, format, args);
    va_end(args);
    t->n += (size_t)n;
}

size_t text_utf8(const char *bytes, size_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    size_t length = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : p[0] < 0xF5 ? 4 : 0;
    if (length == 0 || length > n) return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    bool overlong = (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xF0 && p[1] < 0x90);
    bool beyond = (p[0] == 0xED && p[1] > 0x9F) || (p[0] == 0xF4 && p[1] > 0x8F);
    return overlong || beyond ? 0 : length;
}

/* What a byte below 0x80 is in a JSON string, when it may not stand for itself: bytes of `out`, or 0. */
static size_t escape(unsigned char c, char out[6])
{
    static const char hex[] = "0123456789abcdef", known[] = "\"\\\n\r\t", letter[] = "\"\\nrt";
    const char *at = c ? strchr(known, c) : NULL;
    if (!at && c >= ' ') return 0;
    out[0] = '\\';
    out[1] = at ? letter[at - known] : 'u';
    if (at) return 2;
    out[2] = out[3] = '0';
    out[4] = hex[c >> 4];
    out[5] = hex[c & 15];
    return 6;
}

void text_json(struct text *t, const char *bytes, size_t n)
{
    size_t from = 0;
    text_add(t, "\"", 1);
    for (size_t i = 0, length; i < n; i += length) {
        char code[6] = "\xEF\xBF\xBD";
        unsigned char c = (unsigned char)bytes[i];
        size_t valid = c < 0x80 ? 1 : text_utf8(bytes + i, n - i), n_code = c < 0x80 ? escape(c, code) : valid ? 0 : 3;
        length = valid ? valid : 1;
        if (n_code == 0) continue;
        text_add(t, bytes + from, i - from);
        text_add(t, code, n_code);
        from = i + length;
    }
    if (n > from) text_add(t, bytes + from, n - from);
    text_add(t, "\"", 1);
}

void text_json_string(struct text *t, const char *string)
{
    text_json(t, string, strlen(string));
}

void text_clear(struct text *t)
{
    t->n = 0;
    t->failed = false;
    if (t->bytes) t->bytes[0] = 0;
}

void text_free(struct text *t)
{
    free(t->bytes);
    *t = (struct text){0};
}
