/* SPDX-License-Identifier: MIT
 *
 * Template source into tokens, whitespace control included: `-` strips all space on its side, `+` keeps it;
 * otherwise trim_blocks drops the newline after a block or comment and lstrip_blocks the indentation before one.
 */
#include <errno.h>
#include <stdlib.h>

#include "text/jinja/jinja_impl.h"
#include "text/utf8.h"

static int fail(struct jinja_lexer *lexer, const char *what)
{
    return lutra_fail_at(lexer->err, LUTRA_E_FORMAT, lexer->line, "template line %u: %s", lexer->line, what);
}

/* Line ends become \n and one at the very end is dropped. */
int jinja_lex_init(
    struct jinja_lexer *lexer, struct jinja_heap *heap, const char *source, size_t n, struct lutra_error *err)
{
    *lexer = (struct jinja_lexer){.heap = heap, .err = err, .line = 1, .line_starting = true};
    if (n >= UINT32_MAX / 2) return lutra_fail(err, LUTRA_E_FORMAT, "a template of %zu bytes is too long", n);
    size_t valid = text_utf8_valid(source, n);
    if (valid < n) return lutra_fail_at(err, LUTRA_E_FORMAT, valid, "template: byte %zu is not UTF-8", valid);
    char *text = jinja_alloc(heap, n + 1);
    if (!text) return lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for a template of %zu bytes", n);
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n') continue;
        text[lexer->n++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (lexer->n > 0 && text[lexer->n - 1] == '\n') lexer->n--;
    text[lexer->n] = 0;
    lexer->p = text;
    return 0;
}

static char peek(const struct jinja_lexer *lexer, size_t offset)
{
    return lexer->at + offset < lexer->n ? lexer->p[lexer->at + offset] : 0;
}

static void skip(struct jinja_lexer *lexer, size_t n)
{
    for (; n > 0; n--) lexer->line += lexer->p[lexer->at++] == '\n';
}

static size_t space_at(const struct jinja_lexer *lexer, size_t at)
{
    if (at >= lexer->n) return 0;
    uint32_t cp;
    size_t k = jinja_char_at(jinja_view(lexer->p, lexer->n), at, &cp);
    return jinja_is_space(cp) ? k : 0;
}

static size_t skip_space_from(const struct jinja_lexer *lexer, size_t at)
{
    for (size_t k; (k = space_at(lexer, at)) > 0;) at += k;
    return at;
}

/* If `{%[-+]? word [-+]?%}` stands at `at`: where it ends; else 0.  *sign: the one before the word. */
static size_t raw_tag(const struct jinja_lexer *lexer, size_t at, const char *word, char *sign)
{
    size_t n_word = strlen(word);
    bool begin = n_word == 3; /* raw: only `-` may follow, and no newline is trimmed */
    if (lexer->n - at < 2 || memcmp(lexer->p + at, "{%", 2) != 0) return 0;
    at += 2;
    *sign = 0;
    if (at < lexer->n && (lexer->p[at] == '-' || lexer->p[at] == '+')) *sign = lexer->p[at++];
    at = skip_space_from(lexer, at);
    if (lexer->n - at < n_word || memcmp(lexer->p + at, word, n_word) != 0) return 0;
    at = skip_space_from(lexer, at + n_word);
    char end = at < lexer->n ? lexer->p[at] : 0;
    if (end == '-' || (end == '+' && !begin)) at++;
    if (lexer->n - at < 2 || memcmp(lexer->p + at, "%}", 2) != 0) return 0;
    at += 2;
    if (end == '-') return skip_space_from(lexer, at);
    return at + (!begin && end != '+' && at < lexer->n && lexer->p[at] == '\n');
}

/* The text [from, to) before a tag, stripped as the tag's sign asks; `print`: a {{ tag, never lstripped. */
static struct jinja_value text_before(const struct jinja_lexer *lexer, size_t from, size_t to, char sign, bool print)
{
    struct jinja_value text = jinja_view(lexer->p + from, to - from);
    if (sign == '-') return jinja_trim(text, false, true);
    if (sign == '+' || print) return text;
    size_t line = text.n;
    while (line > 0 && text.s[line - 1] != '\n') line--;
    if (line == 0 && !lexer->line_starting) return text;
    if (jinja_trim(jinja_part(text, line, text.n - line), true, false).n == 0) text.n = (uint32_t)line;
    return text;
}

static void settle_line(struct jinja_lexer *lexer)
{
    lexer->line_starting = lexer->at > 0 && lexer->p[lexer->at - 1] == '\n';
}

static int skip_comment(struct jinja_lexer *lexer)
{
    const char *end = memmem(lexer->p + lexer->at, lexer->n - lexer->at, "#}", 2);
    if (!end && lexer->at == lexer->n) return 0; /* Jinja lets a tag that is the template's last word pass */
    if (!end) return fail(lexer, "missing end of comment");
    size_t at = (size_t)(end - lexer->p);
    char sign = at > lexer->at ? lexer->p[at - 1] : 0;
    at += 2;
    if (sign == '-')
        at = skip_space_from(lexer, at);
    else if (sign != '+' && at < lexer->n && lexer->p[at] == '\n')
        at++;
    skip(lexer, at - lexer->at);
    settle_line(lexer);
    return 0;
}

/* The body of {% raw %}: the lexer stands after the opening tag. */
static int take_raw(struct jinja_lexer *lexer, struct jinja_token *out)
{
    lexer->line_starting = lexer->p[lexer->at - 1] == '\n';
    size_t from = lexer->at, to = from, end = 0;
    char sign = 0;
    for (; to < lexer->n; to++) {
        if (lexer->p[to] == '{' && (end = raw_tag(lexer, to, "endraw", &sign)) > 0) break;
    }
    if (end == 0 && from < lexer->n) return fail(lexer, "missing end of raw");
    if (end == 0) return 0; /* as for comments */
    out->type = JINJA_T_DATA;
    out->value = text_before(lexer, from, to, sign, false);
    skip(lexer, end - from);
    settle_line(lexer);
    return 0;
}

/* Text up to the next tag.  The tag itself is entered; its begin token is left in `pending`. */
static int take_text(struct jinja_lexer *lexer, struct jinja_token *out)
{
    size_t from = lexer->at, to = from, raw = 0;
    char sign = 0, kind = 0;
    for (; to < lexer->n; to++) {
        kind = lexer->p[to] == '{' ? lexer->p[to + 1] : 0;
        if (kind == '%' || kind == '{' || kind == '#') break;
    }
    out->type = JINJA_T_DATA;
    out->line = lexer->line;
    if (to == lexer->n) {
        out->value = jinja_view(lexer->p + from, to - from);
        skip(lexer, to - from);
        return 0;
    }
    if (kind == '%') raw = raw_tag(lexer, to, "raw", &sign);
    size_t tag = to + 2;
    sign = lexer->p[tag] == '-' || lexer->p[tag] == '+' ? lexer->p[tag] : 0;
    out->value = text_before(lexer, from, to, sign, kind == '{');
    skip(lexer, (raw ? raw : tag + (sign != 0)) - from);
    lexer->pending = raw ? 'r' : (unsigned)(unsigned char)kind;
    return 0;
}

static int enter_tag(struct jinja_lexer *lexer, struct jinja_token *out, bool *again)
{
    unsigned kind = lexer->pending;
    lexer->pending = 0;
    *again = kind == '#';
    if (kind == '#') return skip_comment(lexer);
    if (kind == 'r') return take_raw(lexer, out);
    lexer->state = kind == '%' ? JINJA_IN_BLOCK : JINJA_IN_PRINT;
    out->type = kind == '%' ? JINJA_T_BLOCK_BEGIN : JINJA_T_PRINT_BEGIN;
    return 0;
}

/* Whether the tag ends here; takes the end and the space it swallows. */
static bool take_end(struct jinja_lexer *lexer, struct jinja_token *out)
{
    bool block = lexer->state == JINJA_IN_BLOCK;
    char sign = peek(lexer, 0);
    size_t at = sign == '-' || (block && sign == '+') ? 1 : 0;
    if (lexer->n_open || peek(lexer, at) != (block ? '%' : '}') || peek(lexer, at + 1) != '}') return false;
    size_t end = lexer->at + at + 2;
    if (at && sign == '-')
        end = skip_space_from(lexer, end);
    else if (!at && block && end < lexer->n && lexer->p[end] == '\n')
        end++;
    skip(lexer, end - lexer->at);
    settle_line(lexer);
    out->type = block ? JINJA_T_BLOCK_END : JINJA_T_PRINT_END;
    lexer->state = JINJA_IN_TEXT;
    return true;
}

static bool is_name(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

/* Digits of a base, single underscores between them: where they end (`at` itself if there are none). */
static size_t digits_from(const struct jinja_lexer *lexer, size_t at, int base)
{
    for (size_t from = at; at < lexer->n; at++) {
        char c = lexer->p[at], low = (char)(c | 32);
        bool digit = (c >= '0' && c < '0' + (base < 10 ? base : 10)) || (base == 16 && low >= 'a' && low <= 'f');
        bool joins = c == '_' && at > from && at + 1 < lexer->n && lexer->p[at + 1] >= '0' && lexer->p[at + 1] <= '9';
        if (!digit && !joins) break;
    }
    return at;
}

/* The number [at, end) without underscores. */
static int convert(struct jinja_lexer *lexer, size_t end, int base, size_t n_prefix, struct jinja_token *out)
{
    char digits[64];
    size_t n = 0;
    for (size_t i = lexer->at + n_prefix; i < end; i++) {
        if (lexer->p[i] == '_') continue;
        if (n == sizeof digits - 1) return fail(lexer, "the number is too long");
        digits[n++] = lexer->p[i];
    }
    digits[n] = 0;
    errno = 0;
    out->value = base ? jinja_int(strtoll(digits, NULL, base)) : jinja_float(strtod(digits, NULL));
    out->type = base ? JINJA_T_INT : JINJA_T_FLOAT;
    if (base && errno == ERANGE) return fail(lexer, "the integer does not fit 64 bits");
    skip(lexer, end - lexer->at);
    return 0;
}

static int take_number(struct jinja_lexer *lexer, struct jinja_token *out)
{
    char second = (char)(peek(lexer, 1) | 32);
    int base = second == 'x' ? 16 : second == 'o' ? 8 : second == 'b' ? 2 : 10;
    if (peek(lexer, 0) == '0' && base != 10) {
        size_t end = digits_from(lexer, lexer->at + 2, base);
        if (end > lexer->at + 2) return convert(lexer, end, base, 2, out);
    }
    size_t end = digits_from(lexer, lexer->at, 10), whole = end;
    bool after_dot = lexer->at > 0 && lexer->p[lexer->at - 1] == '.'; /* a.0.1: indices, not a float */
    if (!after_dot && lexer->p[end] == '.' && digits_from(lexer, end + 1, 10) > end + 1) {
        end = digits_from(lexer, end + 1, 10);
    }
    if (!after_dot && (lexer->p[end] | 32) == 'e') {
        size_t e = end + 1 + (lexer->p[end + 1] == '+' || lexer->p[end + 1] == '-');
        if (digits_from(lexer, e, 10) > e) end = digits_from(lexer, e, 10);
    }
    return convert(lexer, end, end > whole ? 0 : 10, 0, out);
}

static int take_string(struct jinja_lexer *lexer, struct jinja_token *out)
{
    char quote = peek(lexer, 0);
    size_t end = lexer->at + 1;
    while (end < lexer->n && lexer->p[end] != quote) end += lexer->p[end] == '\\' ? 2 : 1;
    if (end >= lexer->n) return fail(lexer, "the string does not end");
    out->type = JINJA_T_STRING;
    TRY(jinja_unescape(lexer, lexer->p + lexer->at + 1, end - lexer->at - 1, &out->value));
    skip(lexer, end + 1 - lexer->at);
    return 0;
}

static int balance(struct jinja_lexer *lexer, char c)
{
    if (c == '(' || c == '[' || c == '{') {
        if (lexer->n_open == sizeof lexer->open) return fail(lexer, "brackets are nested too deep");
        lexer->open[lexer->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (lexer->n_open == 0 || lexer->open[--lexer->n_open] != c) return fail(lexer, "unexpected bracket");
    }
    return 0;
}

static int take_operator(struct jinja_lexer *lexer, struct jinja_token *out)
{
    static const char twofold[] = "//**==!=>=<=", single[] = "+-/*%~[](){}><=.:|,;";
    char a = peek(lexer, 0), b = peek(lexer, 1);
    out->type = JINJA_T_OPERATOR;
    for (size_t i = 0; b && twofold[i]; i += 2) {
        if (twofold[i] != a || twofold[i + 1] != b) continue;
        out->op = JINJA_OP2(a, b);
        skip(lexer, 2);
        return 0;
    }
    if (!a || !strchr(single, a)) return fail(lexer, "unexpected character");
    TRY(balance(lexer, a));
    out->op = (unsigned char)a;
    skip(lexer, 1);
    return 0;
}

static int take_in_tag(struct jinja_lexer *lexer, struct jinja_token *out)
{
    if (take_end(lexer, out)) return 0;
    size_t after = skip_space_from(lexer, lexer->at);
    skip(lexer, after - lexer->at);
    out->line = lexer->line;
    if (take_end(lexer, out)) return 0;
    if (lexer->at >= lexer->n) return fail(lexer, "the template ends inside a tag");
    char c = peek(lexer, 0);
    if (c >= '0' && c <= '9') return take_number(lexer, out);
    if (c == '"' || c == '\'') return take_string(lexer, out);
    if (!is_name(c, true)) return take_operator(lexer, out);
    size_t end = lexer->at;
    while (end < lexer->n && is_name(lexer->p[end], false)) end++;
    out->type = JINJA_T_NAME;
    out->value = jinja_view(lexer->p + lexer->at, end - lexer->at);
    skip(lexer, end - lexer->at);
    return 0;
}

int jinja_lex_next(struct jinja_lexer *lexer, struct jinja_token *out)
{
    for (bool again = true; again;) {
        *out = (struct jinja_token){.type = JINJA_T_END, .line = lexer->line};
        again = false;
        if (lexer->state != JINJA_IN_TEXT) return take_in_tag(lexer, out);
        if (lexer->pending)
            TRY(enter_tag(lexer, out, &again));
        else if (lexer->at < lexer->n)
            TRY(take_text(lexer, out));
        if (out->type == JINJA_T_DATA && out->value.n == 0) again = true;
    }
    return 0;
}
