/* SPDX-License-Identifier: MIT
 *
 * A call as a JSON object, looked at before it is complete.
 */
#include "calls_json.h"

#include <stdbool.h>
#include <string.h>

size_t call_blanks(const char *text, size_t n, size_t at)
{
    while (at < n && strchr(" \t\r\n", text[at]) && text[at]) at++;
    return at;
}

/* Behind the string that begins at `at`; 0: it has not ended. */
static size_t string_end(const char *text, size_t n, size_t at)
{
    for (size_t i = at + 1; i < n; i++) {
        if (text[i] == '\\')
            i++;
        else if (text[i] == '"')
            return i + 1;
    }
    return 0;
}

/* Behind the value that begins at `at`; 0: it has not ended, as far as one can tell. */
static size_t value_end(const char *text, size_t n, size_t at)
{
    int depth = 0;
    if (text[at] == '"') return string_end(text, n, at);
    for (size_t i = at; i < n; i++) {
        char c = text[i];
        if (c == '"') {
            i = string_end(text, n, i);
            if (i == 0) return 0;
            i--;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (depth == 0) return i; /* a number, then the end of what it stands in */
            if (--depth == 0) return i + 1;
        } else if (depth == 0 && (c == ',' || strchr(" \t\r\n", c))) {
            return i;
        }
    }
    return 0;
}

static bool is_key(const char *text, size_t from, size_t to, const char *key)
{
    return to - from == strlen(key) && memcmp(text + from, key, to - from) == 0;
}

enum call_scan call_scan(const char *text, size_t n, struct call_head *out)
{
    bool named = false;
    *out = (struct call_head){0};
    size_t i = call_blanks(text, n, 0);
    if (i < n && text[i] != '{') return CALL_BAD;
    for (i++;; i++) {
        i = call_blanks(text, n, i);
        if (i >= n) return CALL_MORE;
        if (text[i] == '}') break;
        size_t key = i + 1, end = text[i] == '"' ? string_end(text, n, i) : n + 1;
        if (end > n) return CALL_BAD;
        i = end ? call_blanks(text, n, end) : n;
        if (i >= n) return CALL_MORE;
        if (text[i] != ':') return CALL_BAD;
        i = call_blanks(text, n, i + 1);
        if (i >= n) return CALL_MORE;
        bool is_arguments = is_key(text, key, end - 1, "arguments") || is_key(text, key, end - 1, "parameters");
        if (is_arguments) {
            out->arguments = i;
            if (named && text[i] != '"') return CALL_KNOWN;
        }
        size_t past = value_end(text, n, i);
        if (!past) return CALL_MORE;
        if (is_arguments) out->n_arguments = past - i;
        if (is_key(text, key, end - 1, "name") && text[i] == '"') {
            named = true;
            out->name = i + 1;
            out->n_name = past - i - 2;
            if (out->n_name == 0) return CALL_BAD;
        }
        i = call_blanks(text, n, past);
        if (i >= n) return CALL_MORE;
        if (text[i] == '}') break;
        if (text[i] != ',') return CALL_BAD;
    }
    out->end = i + 1;
    return named ? CALL_KNOWN : CALL_BAD;
}
