/* SPDX-License-Identifier: MIT
 *
 * Gemma's arguments: objects with bare keys, strings between marks of their own.
 */
#include <string.h>

#include "calls.h"
#include "calls_json.h"

enum { DEPTH_MOST = 32 };

static const char *const quotes[] = {"<|\"|>", "<escape>"};

/* Its beginning is told, but for bytes that may begin the mark behind it. */
static size_t cut_string(const char *text, size_t n, const char *mark, struct text *out)
{
    size_t held = strlen(mark) - 1;
    if (held > n) held = n;
    while (held > 0 && memcmp(text + n - held, mark, held) != 0) held--;
    text_json(out, text, n - held);
    if (out->n > 0 && !out->failed) out->bytes[--out->n] = 0;
    return CALLS_CUT;
}

static size_t string(const char *text, size_t n, struct text *out)
{
    for (int i = 0; i < 2; i++) {
        size_t n_mark = strlen(quotes[i]), n_same = n < n_mark ? n : n_mark;
        if (memcmp(text, quotes[i], n_same) != 0) continue;
        if (n < n_mark) return CALLS_CUT;
        const char *end = memmem(text + n_mark, n - n_mark, quotes[i], n_mark);
        if (!end) return cut_string(text + n_mark, n - n_mark, quotes[i], out);
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
    if (end == n) return CALLS_CUT;
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

/* An object's key and the colon behind it; text_json writes what is bare. */
static size_t key(const char *text, size_t n, struct text *out)
{
    size_t quoted = string(text, n, out), end = quoted;
    while (!quoted && end < n && !strchr(":,{}[]", text[end])) end++;
    if (end == CALLS_CUT || end == n) return CALLS_CUT;
    if (end == 0 || text[end] != ':') return 0;
    if (!quoted) text_json(out, text, end);
    text_put(out, ": ");
    return end + 1;
}

size_t calls_gemma_value(const char *text, size_t n, int depth, struct text *out)
{
    if (depth > DEPTH_MOST) return 0;
    if (n == 0) return CALLS_CUT;
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
        size_t taken = object && i < n ? key(text + i, n - i, out) : 0;
        if (object && (taken == 0 || taken == CALLS_CUT)) return i < n ? taken : CALLS_CUT;
        i = call_blanks(text, n, i + taken);
        taken = calls_gemma_value(text + i, n - i, depth + 1, out);
        if (taken == 0 || taken == CALLS_CUT) return taken;
        i = call_blanks(text, n, i + taken);
    }
    if (i >= n) return CALLS_CUT;
    text_add(out, &close, 1);
    return i + 1;
}
