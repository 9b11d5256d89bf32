/* SPDX-License-Identifier: MIT
 *
 * llama.cpp's notation for grammars (grammars/README.md there).
 */
#include <stdlib.h>
#include <string.h>

#include "decode/grammar/grammar_impl.h"

enum { TEXT_BYTES = 1 << 20, REPEATS = 65535, ITEMS = 1 << 16 };

struct parser {
    struct builder b;
    const char *text, *p, *end;
    int depth;
    struct vec item; /* int32_t: what stands so far in the sequences and alternatives around */
    struct vec slot; /* int32_t: rules by the hash of their name, -1: free; a power of two */
};

static int fail(struct parser *g, int code, const char *what)
{
    uint64_t line = 1;
    for (const char *p = g->text; p < g->p; p++) line += *p == '\n';
    return lutra_fail_at(g->b.err, code, line, "grammar, line %llu: %s", (unsigned long long)line, what);
}

static bool at(const struct parser *g, char c)
{
    return g->p < g->end && *g->p == c;
}

static void skip_space(struct parser *g, bool lines)
{
    while (g->p < g->end) {
        char c = *g->p;
        if (c == '#')
            while (g->p < g->end && *g->p != '\n' && *g->p != '\r') g->p++;
        else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
            g->p++;
        else
            return;
    }
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

/* ---- rules by name ---- */

static uint32_t hash_name(const char *p, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)p[i]) * 16777619u;
    return h;
}

static struct rule *rules(struct parser *g)
{
    return g->b.rule.p;
}

static int32_t *slot_of(struct parser *g, const char *p, size_t n)
{
    int32_t *slot = g->slot.p;
    uint32_t mask = (uint32_t)g->slot.n - 1, i = hash_name(p, n) & mask;
    for (; slot[i] >= 0; i = (i + 1) & mask) {
        const struct rule *r = &rules(g)[slot[i]];
        if ((size_t)r->n_name == n && !memcmp((char *)g->b.pool.p + r->name, p, n)) break;
    }
    return &slot[i];
}

static int grow_slots(struct parser *g)
{
    int32_t n = g->slot.n ? 2 * g->slot.n : 64;
    TRY(vec_reserve(&g->slot, n - g->slot.n, sizeof(int32_t), g->b.err));
    g->slot.n = n;
    for (int32_t i = 0; i < n; i++) ((int32_t *)g->slot.p)[i] = -1;
    for (int32_t r = 0; r < g->b.rule.n; r++)
        *slot_of(g, (char *)g->b.pool.p + rules(g)[r].name, (size_t)rules(g)[r].n_name) = r;
    return 0;
}

/* The number of the rule of this name; makes one. */
static int32_t rule_named(struct parser *g, const char *p, size_t n)
{
    if (2 * (g->b.rule.n + 1) > g->slot.n) TRY(grow_slots(g));
    int32_t *slot = slot_of(g, p, n);
    if (*slot >= 0) return *slot;
    int32_t name = g->b.pool.n;
    TRY(build_bytes(&g->b, p, n));
    int32_t rule = build_new_rule(&g->b);
    TRY(rule);
    uint64_t line = 1;
    for (const char *q = g->text; q < p; q++) line += *q == '\n';
    rules(g)[rule] = (struct rule){.name = name, .n_name = (int32_t)n, .expr = -1, .line = (int32_t)line};
    return *slot = rule;
}

/* ---- characters ---- */

static int read_hex(struct parser *g, int n, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < n; i++, g->p++) {
        char c = g->p < g->end ? *g->p : 0;
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0) return fail(g, LUTRA_E_FORMAT, "an escape \\x, \\u or \\U needs 2, 4 or 8 hexadecimal digits");
        *out = *out << 4 | (uint32_t)d;
    }
    if (*out > 0x10ffff || (*out >= 0xd800 && *out <= 0xdfff))
        return fail(g, LUTRA_E_FORMAT, "an escape that is no character");
    return 0;
}

static int read_escape(struct parser *g, uint32_t *out)
{
    char c = g->p < g->end ? *g->p++ : 0;
    switch (c) {
    case 'x': return read_hex(g, 2, out);
    case 'u': return read_hex(g, 4, out);
    case 'U': return read_hex(g, 8, out);
    case 't': return *out = '\t', 0;
    case 'r': return *out = '\r', 0;
    case 'n': return *out = '\n', 0;
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^': return *out = (uint32_t)c, 0;
    default: return fail(g, LUTRA_E_FORMAT, "an unknown escape in a text or class");
    }
}

/* One character, which may be an escape. */
static int read_char(struct parser *g, uint32_t *out)
{
    uint8_t c = (uint8_t)*g->p++;
    if (c == '\\') return read_escape(g, out);
    int more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : -1;
    uint32_t x = more < 0 ? 0 : more ? c & (0x3fu >> more) : c;
    for (int i = 0; i < more; i++, g->p++) {
        if (g->p >= g->end || ((uint8_t)*g->p & 0xc0) != 0x80)
            more = -1;
        else
            x = x << 6 | ((uint8_t)*g->p & 0x3f);
    }
    bool overlong = (more == 2 && x < 0x800) || (more == 3 && x < 0x10000);
    if (more < 0 || overlong || x > 0x10ffff || (x >= 0xd800 && x <= 0xdfff))
        return fail(g, LUTRA_E_FORMAT, "bytes that are no UTF-8");
    *out = x;
    return 0;
}

static int32_t read_literal(struct parser *g)
{
    int32_t e = build_empty(&g->b);
    g->p++;
    struct cp_range c;
    struct vec all = {0};
    int rc = 0;
    while (rc >= 0 && g->p < g->end && *g->p != '"') {
        if ((rc = read_char(g, &c.lo)) < 0) break;
        c.hi = c.lo;
        if ((rc = vec_reserve(&all, 1, sizeof c, g->b.err)) < 0) break;
        ((struct cp_range *)all.p)[all.n++] = c;
    }
    if (rc >= 0 && g->p >= g->end) rc = fail(g, LUTRA_E_FORMAT, "a text without its closing \"");
    for (int32_t i = all.n; i-- > 0 && rc >= 0;)
        rc = e = build_seq(&g->b, build_class(&g->b, (struct cp_range *)all.p + i, 1, false), e);
    free(all.p);
    g->p++;
    return rc < 0 ? rc : e;
}

static int32_t read_class(struct parser *g)
{
    g->p++;
    bool negate = at(g, '^');
    if (negate) g->p++;
    struct vec all = {0};
    int rc = 0;
    while (rc >= 0 && g->p < g->end && *g->p != ']') {
        struct cp_range c;
        if ((rc = read_char(g, &c.lo)) < 0) break;
        c.hi = c.lo;
        if (g->end - g->p >= 2 && g->p[0] == '-' && g->p[1] != ']') {
            g->p++;
            if ((rc = read_char(g, &c.hi)) < 0) break;
            if (c.hi < c.lo) rc = fail(g, LUTRA_E_FORMAT, "a range of characters that ends before it begins");
        }
        if (rc < 0 || (rc = vec_reserve(&all, 1, sizeof c, g->b.err)) < 0) break;
        ((struct cp_range *)all.p)[all.n++] = c;
    }
    if (rc >= 0 && g->p >= g->end) rc = fail(g, LUTRA_E_FORMAT, "a class without its closing ]");
    int32_t e = rc < 0 ? rc : build_class(&g->b, all.p, all.n, negate);
    free(all.p);
    g->p++;
    return e;
}

/* ---- sequences ---- */

static int32_t read_alternatives(struct parser *g, bool nested);

static int32_t read_item(struct parser *g)
{
    char c = *g->p;
    if (c == '"') return read_literal(g);
    if (c == '[') return read_class(g);
    if (c == '.') {
        g->p++;
        return build_class(&g->b, NULL, 0, true);
    }
    if (c == '(') {
        if (++g->depth > GRAMMAR_NEST) return fail(g, LUTRA_E_FORMAT, "parentheses nested too deeply");
        g->p++;
        skip_space(g, true);
        int32_t e = read_alternatives(g, true);
        TRY(e);
        if (!at(g, ')')) return fail(g, LUTRA_E_FORMAT, "a ( without its )");
        g->p++;
        g->depth--;
        return e;
    }
    const char *name = g->p;
    while (g->p < g->end && is_word(*g->p)) g->p++;
    return build_rule(&g->b, rule_named(g, name, (size_t)(g->p - name)));
}

static int read_count(struct parser *g, int32_t *out)
{
    if (g->p >= g->end || *g->p < '0' || *g->p > '9')
        return fail(g, LUTRA_E_FORMAT, "a repetition {m,n} needs a number");
    for (*out = 0; g->p < g->end && *g->p >= '0' && *g->p <= '9'; g->p++) {
        *out = 10 * *out + (*g->p - '0');
        if (*out > REPEATS) return fail(g, LUTRA_E_FORMAT, "more than 65535 repetitions");
    }
    skip_space(g, false);
    return 0;
}

/* What stands behind an item: * + ? {m} {m,} {m,n}, any number of them. */
static int32_t read_repeats(struct parser *g, int32_t e, bool nested)
{
    int n = 0;
    while (e >= 0 && g->p < g->end && (*g->p == '*' || *g->p == '+' || *g->p == '?' || *g->p == '{')) {
        int32_t min = *g->p == '+', max = *g->p == '?' ? 1 : -1;
        if (++n > 16) return fail(g, LUTRA_E_FORMAT, "more than 16 repetitions of repetitions");
        if (*g->p++ == '{') {
            skip_space(g, false);
            TRY(read_count(g, &min));
            max = min;
            if (at(g, ',')) {
                g->p++;
                skip_space(g, false);
                max = -1;
                if (!at(g, '}')) TRY(read_count(g, &max));
            }
            if (!at(g, '}')) return fail(g, LUTRA_E_FORMAT, "a { without its }");
            if (max >= 0 && max < min) return fail(g, LUTRA_E_FORMAT, "a repetition {m,n} with n below m");
            g->p++;
        }
        e = build_repeat(&g->b, e, min, max);
        skip_space(g, nested);
    }
    return e;
}

static int push(struct parser *g, int32_t e)
{
    TRY(e);
    if (g->item.n >= ITEMS * 16) return fail(g, LUTRA_E_FORMAT, "too large");
    TRY(vec_reserve(&g->item, 1, sizeof e, g->b.err));
    ((int32_t *)g->item.p)[g->item.n++] = e;
    return 0;
}

/* Takes the items above `from` together, from the right. */
static int32_t fold(struct parser *g, int32_t from, int32_t e, int32_t (*build)(struct builder *, int32_t, int32_t))
{
    while (g->item.n > from && e >= 0) e = build(&g->b, ((int32_t *)g->item.p)[--g->item.n], e);
    return e;
}

static int32_t read_sequence(struct parser *g, bool nested)
{
    int32_t from = g->item.n;
    while (g->p < g->end) {
        char c = *g->p;
        if (c == '<' || (c == '!' && g->end - g->p > 1 && g->p[1] == '<'))
            return fail(g, LUTRA_E_UNSUPPORTED, "references to tokens (<...>) are not built");
        if (c != '"' && c != '[' && c != '.' && c != '(' && !is_word(c)) break;
        int32_t e = read_item(g);
        TRY(e);
        skip_space(g, nested);
        TRY(push(g, read_repeats(g, e, nested)));
    }
    return fold(g, from, build_empty(&g->b), build_seq);
}

static int32_t read_alternatives(struct parser *g, bool nested)
{
    int32_t from = g->item.n;
    TRY(push(g, read_sequence(g, nested)));
    while (at(g, '|')) {
        g->p++;
        skip_space(g, true);
        TRY(push(g, read_sequence(g, nested)));
    }
    return fold(g, from, build_never(&g->b), build_alt);
}

static int read_rule(struct parser *g)
{
    const char *name = g->p;
    while (g->p < g->end && is_word(*g->p)) g->p++;
    if (g->p == name) return fail(g, LUTRA_E_FORMAT, "the name of a rule (letters, digits, -) is missing");
    int32_t rule = rule_named(g, name, (size_t)(g->p - name));
    TRY(rule);
    if (rules(g)[rule].expr >= 0) return fail(g, LUTRA_E_FORMAT, "a rule that is defined already");
    skip_space(g, false);
    if (g->end - g->p < 3 || memcmp(g->p, "::=", 3))
        return fail(g, LUTRA_E_FORMAT, "::= is missing behind a rule's name");
    g->p += 3;
    skip_space(g, true);
    TRY(build_define(&g->b, rule, read_alternatives(g, false)));
    if (g->p < g->end && *g->p != '\n' && *g->p != '\r') {
        char what[64] = "what stands here is no part of a rule: '?'";
        what[strlen(what) - 2] = *g->p >= ' ' && *g->p < 127 ? *g->p : '?';
        return fail(g, LUTRA_E_FORMAT, what);
    }
    skip_space(g, true);
    return 0;
}

static int read_all(struct grammar **out, struct parser *g)
{
    skip_space(g, true);
    while (g->p < g->end) TRY(read_rule(g));
    int32_t root = -1;
    for (int32_t r = 0; r < g->b.rule.n; r++) {
        const struct rule *x = &rules(g)[r];
        const char *name = (char *)g->b.pool.p + x->name;
        if (x->expr < 0)
            return lutra_fail_at(g->b.err, LUTRA_E_FORMAT, (uint64_t)x->line,
                "grammar, line %d: rule '%.*s' is used but not defined", x->line, x->n_name < 80 ? x->n_name : 80,
                name);
        if (x->n_name == 4 && !memcmp(name, "root", 4)) root = r;
    }
    if (root < 0) return lutra_fail(g->b.err, LUTRA_E_FORMAT, "grammar: it has no rule 'root'");
    return grammar_compile(out, &g->b, root);
}

int grammar_open_gbnf(struct grammar **out, const char *text, size_t n_bytes, struct lutra_error *err)
{
    *out = NULL;
    if (n_bytes > TEXT_BYTES) return lutra_fail(err, LUTRA_E_FORMAT, "grammar: more than 1 MiB of text");
    struct parser g = {.b = {.err = err}, .text = text, .p = text, .end = text + n_bytes};
    int rc = read_all(out, &g);
    build_fini(&g.b);
    free(g.item.p);
    free(g.slot.p);
    return rc;
}
