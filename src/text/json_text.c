/* SPDX-License-Identifier: MIT
 *
 * jansson reads the text; where it refuses a number or a key, a copy is read in which these are replaced by ones that
 * it takes, and its tree, walked in the order of the text, gets them back.
 */
#include "text/json_text.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, MAX_DIGITS = 4300 /* as Python */ };

/* A replaced token: the `number`-th scalar value, or the number-th key, of the text. */
struct token {
    size_t number, at, n;
};

struct tokens {
    struct token *list; /* [n] */
    size_t n, next, count;
};

struct patch {
    char *text; /* the copy that jansson reads */
    struct tokens numbers, keys;
};

static bool too_deep(const char *p, size_t n, int max_depth)
{
    int depth = 0;
    bool text = false;
    for (size_t i = 0; i < n && depth <= max_depth; i++) {
        if (text && p[i] == '\\')
            i++;
        else if (p[i] == '"')
            text = !text;
        else if (!text)
            depth += (p[i] == '[' || p[i] == '{') - (p[i] == ']' || p[i] == '}');
    }
    return depth > max_depth;
}

static bool add_token(struct tokens *t, size_t at, size_t n)
{
    if ((t->n & (t->n + 1)) == 0) { /* grows at 0, 1, 3, 7, ... */
        struct token *more = realloc(t->list, (2 * t->n + 1) * sizeof *more);
        if (!more) return false;
        t->list = more;
    }
    t->list[t->n++] = (struct token){t->count, at, n};
    return true;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Whether jansson refuses the number (text ends at its end). */
static bool overflows(const char *number)
{
    errno = 0;
    if (strpbrk(number, ".eE")) return isinf(strtod(number, NULL));
    strtoll(number, NULL, 10);
    return errno == ERANGE;
}

/* The string that begins at `at`: behind its end; NUL in a key becomes another character. */
static bool patch_string(struct patch *t, size_t n, size_t *at)
{
    size_t from = *at, end = from + 1, after;
    bool nul = false;
    for (; end < n && t->text[end] != '"'; end++) {
        nul |= strncmp(t->text + end, "\\u0000", 6) == 0;
        end += t->text[end] == '\\';
    }
    if (end >= n) return *at = n, true;
    for (after = end + 1; after < n && is_space(t->text[after]);) after++;
    bool key = after < n && t->text[after] == ':';
    *at = end + 1;
    if (key && nul && !add_token(&t->keys, from, end + 1 - from)) return false;
    for (size_t i = from; key && nul && i < end; i += 1 + (t->text[i] == '\\')) {
        if (strncmp(t->text + i, "\\u0000", 6) == 0) t->text[i + 5] = '1';
    }
    t->keys.count += key;
    t->numbers.count += !key;
    return true;
}

static bool patch_scalar(struct patch *t, size_t n, size_t *at)
{
    size_t from = *at, end = from;
    while (end < n && !is_space(t->text[end]) && !strchr(",:[]{}\"", t->text[end])) end++;
    *at = end > from ? end : from + 1;
    char last = t->text[end];
    t->text[end] = 0;
    bool whole = end - from == strspn(t->text + from, "-+.eE0123456789");
    bool big = end > from && whole && end - from <= MAX_DIGITS && overflows(t->text + from);
    t->text[end] = last;
    if (big && !add_token(&t->numbers, from, end - from)) return false;
    if (big) memset(t->text + from, ' ', end - from);
    if (big) t->text[from] = '0';
    t->numbers.count++;
    return true;
}

static bool patch_text(struct patch *t, size_t n)
{
    bool ok = true;
    for (size_t at = 0; at < n && ok;) {
        char c = t->text[at];
        if (c == '"')
            ok = patch_string(t, n, &at);
        else if (is_space(c) || (c && strchr(",:[]{}", c)))
            at++;
        else
            ok = patch_scalar(t, n, &at);
    }
    t->numbers.count = t->keys.count = 0;
    return ok;
}

/* Counts one token of the tree: the original if it was replaced. */
static const struct token *was_replaced(struct tokens *t)
{
    bool hit = t->next < t->n && t->list[t->next].number == t->count;
    t->count++;
    return hit ? &t->list[t->next++] : NULL;
}

static bool restore(struct patch *t, const char *p, json_t *tree);

/* A value as it belongs: a new reference, NULL: no memory. */
static json_t *restored(struct patch *t, const char *p, json_t *value)
{
    if (json_is_object(value) || json_is_array(value)) return restore(t, p, value) ? json_incref(value) : NULL;
    const struct token *was = was_replaced(&t->numbers);
    if (!was) return json_incref(value);
    json_t *number = json_object();
    if (json_object_set_new_nocheck(number, TEXT_JSON_NUMBER, json_stringn_nocheck(p + was->at, was->n)) == 0)
        return number;
    json_decref(number);
    return NULL;
}

/* Puts the member in place again; a replaced key with its NUL. */
static bool put_member(struct patch *t, const char *p, json_t *object, const char *key, size_t n_key, json_t *value)
{
    const struct token *was = was_replaced(&t->keys);
    json_t *name = was ? json_loadb(p + was->at, was->n, FLAGS, NULL) : NULL;
    bool ok = !was || name;
    json_t *mine = ok ? restored(t, p, value) : NULL;
    if (name) key = json_string_value(name), n_key = json_string_length(name);
    ok = mine && json_object_setn_new_nocheck(object, key, n_key, mine) == 0;
    json_decref(name);
    return ok;
}

static bool restore(struct patch *t, const char *p, json_t *tree)
{
    bool ok = true;
    for (size_t i = 0; i < json_array_size(tree) && ok; i++) {
        json_t *value = restored(t, p, json_array_get(tree, i));
        ok = value && json_array_set_new(tree, i, value) == 0;
    }
    if (!json_is_object(tree)) return ok;
    json_t *members = json_copy(tree);
    if (!members) return false;
    json_object_clear(tree);
    for (void *at = json_object_iter(members); at && ok; at = json_object_iter_next(members, at))
        ok = put_member(t, p, tree, json_object_iter_key(at), json_object_iter_key_len(at), json_object_iter_value(at));
    json_decref(members);
    return ok;
}

/* Reads the text again with what jansson refuses replaced. */
static int load_patched(const char *p, size_t n, json_t **out, json_error_t *why)
{
    struct patch t = {.text = malloc(n + 8)};
    bool ok = t.text != NULL;
    if (ok) memcpy(t.text, p, n);
    if (ok) memset(t.text + n, 0, 8);
    ok = ok && patch_text(&t, n);
    *out = ok ? json_loadb(t.text, n, FLAGS, why) : NULL;
    bool read = *out != NULL;
    if (read) {
        json_t *whole = restored(&t, p, *out);
        json_decref(*out);
        *out = whole;
        ok = whole != NULL;
    }
    free(t.text);
    free(t.numbers.list);
    free(t.keys.list);
    return ok ? 0 : LUTRA_E_NO_MEMORY;
}

int text_json_load(const char *who, const char *p, size_t n, int max_depth, json_t **out, struct lutra_error *err)
{
    json_error_t why;
    *out = NULL;
    if (too_deep(p, n, max_depth)) return lutra_fail(err, LUTRA_E_FORMAT, "%s: nested deeper than %d", who, max_depth);
    *out = json_loadb(p, n, FLAGS, &why);
    enum json_error_code code = *out ? json_error_unknown : json_error_code(&why);
    if (code == json_error_numeric_overflow || code == json_error_null_byte_in_key) {
        int rc = load_patched(p, n, out, &why);
        if (rc < 0) return lutra_fail(err, rc, "%s: out of memory", who);
    }
    if (*out) return 0;
    return lutra_fail_at(err, LUTRA_E_FORMAT, (uint64_t)why.line, "%s: %s (line %d)", who, why.text, why.line);
}
