/* SPDX-License-Identifier: MIT
 *
 * Gemma's arguments: objects with bare keys, strings between marks of their own.
 */
#include <string.h>

#include "calls.h"
#include "calls_json.h"

enum { DEPTH_MOST = 32 };

static const char *const quotes[] = {"<|\"|>", "<escape>"};

static size_t string(const char *text, size_t n, struct text *out)
{
    for (int i = 0; i < 2; i++) {
        size_t n_mark = strlen(quotes[i]);
        if (n < n_mark || memcmp(text, quotes[i], n_mark) != 0) continue;
        const char *end = memmem(text + n_mark, n - n_mark, quotes[i], n_mark);
        if (!end) return 0;
        text_json(out, text + n_mark, (size_t)(end - text) - n_mark);
        return (size_t)(end - text) + n_mark;
    }
    return 0;
}

/* A number, true, false, null, or a bare word. */
static size_t literal(const char *text, size_t n, struct text *out)
{
    size_t end = 0;
    while (end < n && !strchr(",}]", text[end])) end++;
    size_t n_word = end;
    while (n_word > 0 && strchr(" \n", text[n_word - 1])) n_word--;
    if (n_word == 0) return 0;
    json_t *value = json_loadb(text, n_word, JSON_DECODE_ANY, NULL);
    if (value && !json_is_object(value) && !json_is_array(value))
        text_add(out, text, n_word);
    else
        text_json(out, text, n_word);
    json_decref(value);
    return end;
}

size_t calls_gemma_value(const char *text, size_t n, int depth, struct text *out)
{
    if (n == 0 || depth > DEPTH_MOST) return 0;
    bool object = text[0] == '{';
    if (!object && text[0] != '[') {
        size_t taken = string(text, n, out);
        return taken ? taken : text[0] == '<' ? 0 : literal(text, n, out);
    }
    const char close = object ? '}' : ']';
    size_t i = call_blanks(text, n, 1);
    text_add(out, text, 1);
    for (bool first = true; i < n && text[i] != close; first = false) {
        if (!first && text[i] != ',') return 0;
        if (!first) i = call_blanks(text, n, i + 1);
        if (!first) text_put(out, ", ");
        if (object) {
            const char *colon = memchr(text + i, ':', n - i);
            size_t quoted = i < n ? string(text + i, n - i, out) : 0;
            if (!colon || colon == text + i) return 0;
            if (!quoted) text_json(out, text + i, (size_t)(colon - text) - i);
            i = quoted ? i + quoted : (size_t)(colon - text);
            if (i >= n || text[i] != ':') return 0;
            text_put(out, ": ");
            i = call_blanks(text, n, i + 1);
        }
        size_t taken = calls_gemma_value(text + i, n - i, depth + 1, out);
        if (!taken) return 0;
        i = call_blanks(text, n, i + taken);
    }
    if (i >= n) return 0;
    text_add(out, &close, 1);
    return i + 1;
}
