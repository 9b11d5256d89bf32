/* SPDX-License-Identifier: MIT
 *
 * Masks of random grammars equal those of a slow reference: sets of stacks over the grammar's tree, token by token.
 * What GBNF reads and refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "decode/grammar/grammar.h"

/* ---- random grammars ---- */

enum kind { CLASS, SEQ, ALT, REPEAT, RULE };
enum { NODES = 512, KIDS = 3, RULES = 4, STACKS = 3000, DEPTH = 48 };
struct node {
    enum kind kind;
    int kid[KIDS], n_kid, min, max;
    uint32_t cp[3]; /* of a class */
    int n_cp;
    bool negate;
};
static struct node node[NODES];
static int n_node, rule_node[RULES], n_rule;
static uint32_t counter;
static char text[1 << 16];

static uint32_t draw(uint32_t n)
{
    return rng_u32((struct rng_key){36, 0, 0}, counter++) % n;
}

static int grow(int depth)
{
    int i = n_node++;
    struct node x = {.kind = depth > 3 ? (draw(3) ? CLASS : RULE) : (enum kind)draw(5)};
    static const uint32_t cps[] = {'a', 'b', 'c', 0xe9, 0x20ac, 0xe7};
    if (x.kind == CLASS) {
        x.n_cp = 1 + (int)draw(3);
        for (int k = 0; k < x.n_cp; k++) x.cp[k] = cps[draw(6)];
        x.negate = draw(6) == 0;
    } else if (x.kind == RULE)
        x.kid[0] = (int)draw((uint32_t)n_rule);
    else {
        x.n_kid = x.kind == REPEAT ? 1 : 1 + (int)draw(KIDS);
        for (int k = 0; k < x.n_kid; k++) x.kid[k] = grow(depth + 1);
        x.min = draw(6) ? (int)draw(3) : 8 + (int)draw(3); /* 8 and more are counted */
        x.max = draw(2) ? -1 : x.min + (int)draw(draw(3) ? 4 : 12);
    }
    node[i] = x;
    return i;
}

static void print(int i, bool inside)
{
    const struct node *x = &node[i];
    char *to = text + strlen(text);
    switch (x->kind) {
    case CLASS:
        to += sprintf(to, "[%s", x->negate ? "^" : "");
        for (int k = 0; k < x->n_cp; k++) to += sprintf(to, draw(2) && x->cp[k] < 128 ? "%c" : "\\U%08x", x->cp[k]);
        sprintf(to, "] ");
        return;
    case RULE: sprintf(to, "r%d ", x->kid[0]); return;
    default:
        if (inside) strcat(text, "(");
        for (int k = 0; k < x->n_kid; k++) {
            if (k && x->kind == ALT) strcat(text, "| ");
            print(x->kid[k], true);
        }
        if (x->kind == REPEAT) {
            to = text + strlen(text);
            if (x->max < 0)
                sprintf(to, x->min == 0 ? "*" : x->min == 1 ? "+" : "{%d,}", x->min);
            else if (!x->min && x->max == 1)
                sprintf(to, "?");
            else
                sprintf(to, x->min == x->max ? "{%d}" : "{%d,%d}", x->min, x->max);
        }
        if (inside) strcat(text, ") ");
    }
}

/* Whether a node matches any text; ends: [n_rule] what is known of rules. */
static bool productive(int i, const bool *ends)
{
    const struct node *x = &node[i];
    bool all = true, any = false;
    for (int k = 0; k < x->n_kid; k++) {
        bool p = productive(x->kid[k], ends);
        all = all && p;
        any = any || p;
    }
    return x->kind == RULE ? ends[x->kid[0]] : x->kind == ALT ? any : x->kind == REPEAT ? all || !x->min : all;
}

/* The reference does not know rules and branches that never end. */
static bool all_productive(void)
{
    bool ends[RULES] = {false};
    for (int n = 0; n <= n_rule; n++)
        for (int r = 0; r < n_rule; r++) ends[r] = productive(rule_node[r], ends);
    for (int i = 0; i < n_node; i++)
        if (!productive(i, ends)) return false;
    return true;
}

/* ---- the reference ---- */

struct element {
    int16_t node, min, max; /* what is left of a repetition */
    uint8_t part[4], n_part;
    uint8_t pad;
};
struct stack {
    struct element e[DEPTH];
    int n;
};
static struct stack set[2][STACKS];
static int n_set[2];
static bool may_end, too_many;

static void put(int which, const struct stack *s)
{
    for (int i = 0; i < n_set[which]; i++)
        if (set[which][i].n == s->n && !memcmp(set[which][i].e, s->e, (size_t)s->n * sizeof *s->e)) return;
    if (n_set[which] == STACKS)
        too_many = true;
    else
        set[which][n_set[which]++] = *s;
}

static void push(struct stack *s, int i)
{
    if (s->n == DEPTH)
        too_many = true;
    else
        s->e[s->n++] = (struct element){.node = (int16_t)i, .min = (int16_t)node[i].min, .max = (int16_t)node[i].max};
}

/* All of set[which] down to stacks that read a character next; they stay, and the others are of no consequence. */
static void expand(int which)
{
    may_end = false;
    for (int i = 0; i < n_set[which] && !too_many; i++) {
        struct stack s = set[which][i];
        if (!s.n) {
            may_end = true;
            continue;
        }
        struct element e = s.e[s.n - 1];
        const struct node *x = &node[e.node];
        if (x->kind == CLASS) continue;
        s.n--;
        if (x->kind == RULE) {
            push(&s, rule_node[x->kid[0]]);
            put(which, &s);
        } else if (x->kind == SEQ) {
            for (int k = x->n_kid; k-- > 0;) push(&s, x->kid[k]);
            put(which, &s);
        } else if (x->kind == ALT)
            for (int k = 0; k < x->n_kid; k++) {
                struct stack t = s;
                push(&t, x->kid[k]);
                put(which, &t);
            }
        else {
            if (e.min == 0) put(which, &s);
            if (e.max != 0) {
                e.min = (int16_t)(e.min ? e.min - 1 : 0);
                e.max = (int16_t)(e.max < 0 ? -1 : e.max - 1);
                if (s.n < DEPTH) s.e[s.n++] = e;
                push(&s, x->kid[0]);
                put(which, &s);
            }
        }
    }
}

/* 1: the bytes are a character of the class, 0: they may become one, -1: neither. */
static int fits(const struct node *x, const uint8_t *p, int n)
{
    int size = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (!size) return -1;
    uint32_t lo = size == 1 ? p[0] : p[0] & (0x3fu >> (size - 1)), hi = lo;
    for (int i = 1; i < size; i++) {
        if (i < n && (p[i] & 0xc0) != 0x80) return -1;
        lo = lo << 6 | (i < n ? p[i] & 0x3f : 0);
        hi = hi << 6 | (i < n ? p[i] & 0x3f : 0x3f);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    for (uint32_t c = lo; c <= hi; c++) {
        bool in = false;
        for (int k = 0; k < x->n_cp; k++) in = in || x->cp[k] == c;
        if (in != x->negate && c >= least[size] && (c < 0xd800 || c > 0xdfff) && c <= 0x10ffff) return n == size;
    }
    return -1;
}

static void read_byte(int which, uint8_t c)
{
    n_set[!which] = 0;
    for (int i = 0; i < n_set[which]; i++) {
        struct stack s = set[which][i];
        if (!s.n || node[s.e[s.n - 1].node].kind != CLASS) continue;
        struct element *e = &s.e[s.n - 1];
        e->part[e->n_part++] = c;
        int fit = fits(&node[e->node], e->part, e->n_part);
        if (fit < 0) continue;
        s.n -= fit;
        put(!which, &s);
    }
    expand(!which);
}

/* Whether the text is one's beginning; may_end says whether it is whole. */
static bool begins(const char *p, size_t n)
{
    struct stack s = {.n = 0};
    push(&s, rule_node[0]);
    n_set[0] = 0;
    put(0, &s);
    expand(0);
    int which = 0;
    for (size_t i = 0; i < n; i++, which = !which) read_byte(which, (uint8_t)p[i]);
    return n_set[which] > 0;
}

/* ---- masks ---- */

enum { VOCAB = 90 };
static struct grammar_token token[VOCAB];
static char bytes[VOCAB][8];

static struct grammar_vocab *make_vocab(void)
{
    static const char alphabet[] = "abc\xc3\xa9\xa7\xe2\x82\xac";
    for (int t = 0; t < VOCAB; t++) {
        size_t n = t < 9 ? 1 : draw(6);
        for (size_t i = 0; i < n; i++) bytes[t][i] = t < 9 ? alphabet[t] : alphabet[draw(2) ? draw(3) : draw(9)];
        if (t >= 60 && t < 66) n = (size_t)sprintf(bytes[t], "%s", t & 1 ? "a\xc3\xa9" : "\xe2\x82\xac");
        token[t] = (struct grammar_token){bytes[t], n, t == 70 || t == 89};
    }
    struct grammar_vocab *v;
    assert_int_equal(grammar_vocab_open(&v, token, VOCAB, NULL), 0);
    return v;
}

/* One text of a grammar, token by token; false where the reference gives up. */
static bool walk(struct grammar_machine *m)
{
    char so_far[256];
    size_t n = 0;
    int32_t state = grammar_start(m);
    for (int step = 0; step < 7; step++) {
        uint64_t mask[(VOCAB + 63) / 64];
        assert_int_equal(grammar_mask(m, state, mask, NULL), 0);
        int allowed[VOCAB], n_allowed = 0;
        for (int t = 0; t < VOCAB; t++) {
            memcpy(so_far + n, token[t].p, token[t].n);
            bool want = begins(so_far, token[t].ends ? n : n + token[t].n);
            want = token[t].ends ? may_end : want && token[t].n;
            if (too_many) return false;
            if (want != (mask[t / 64] >> t % 64 & 1))
                fail_msg("step %d, token %d: %d\n%s\n%.*s", step, t, want, text, (int)n, so_far);
            int32_t next;
            assert_int_equal(grammar_follow(m, state, t, &next, NULL), 0);
            assert_int_equal(next != GRAMMAR_DEAD, want);
            if (want && !token[t].ends) allowed[n_allowed++] = t;
        }
        if (!n_allowed) return true;
        int t = allowed[draw((uint32_t)n_allowed)];
        memcpy(so_far + n, token[t].p, token[t].n);
        n += token[t].n;
        assert_int_equal(grammar_follow(m, state, t, &state, NULL), 0);
    }
    return true;
}

static void masks_equal_reference(void **state)
{
    (void)state;
    int n_done = 0, n_left = 0, n_none = 0, n_many = 0;
    int target = getenv("LUTRA_TEST_LONG") ? 5000 : 1000;
    while (n_done < target) {
        struct grammar_vocab *v = make_vocab();
        n_node = 0;
        n_rule = 1 + (int)draw(RULES);
        *text = 0;
        for (int r = 0; r < n_rule; r++) rule_node[r] = grow(0);
        for (int r = 0; r < n_rule; r++) {
            sprintf(text + strlen(text), "r%d ::= ", r);
            print(rule_node[r], false);
            strcat(text, r & 1 ? "\n" : "# a remark\n\n");
        }
        strcat(text, "root ::= r0");
        struct grammar *g;
        struct lutra_error err = {0};
        int rc = grammar_open_gbnf(&g, text, strlen(text), &err);
        if (rc == LUTRA_E_UNSUPPORTED)
            n_left++;
        else if (rc < 0) {
            assert_non_null(strstr(err.what, "no text"));
            n_none++;
        } else {
            struct grammar_machine *m;
            assert_int_equal(grammar_machine_open(&m, g, v, NULL), 0);
            too_many = false;
            if (!all_productive())
                n_none++;
            else if (walk(m))
                n_done++;
            else
                n_many++;
            grammar_machine_close(&m);
            grammar_close(&g);
        }
        grammar_vocab_close(&v);
    }
    printf("%d grammars; left-recursive: %d, without text: %d, too much for the reference: %d\n", n_done, n_left,
        n_none, n_many);
}

/* ---- GBNF ---- */

static struct grammar *open_text(const char *gbnf)
{
    struct grammar *g;
    struct lutra_error err = {0};
    if (grammar_open_gbnf(&g, gbnf, strlen(gbnf), &err) < 0) fail_msg("%s\n%s", gbnf, err.what);
    return g;
}

/* 2: a text of the grammar, 1: the beginning of one, 0: neither. */
static int reads(const char *gbnf, const char *p)
{
    struct grammar *g = open_text(gbnf);
    struct grammar_vocab *v;
    struct grammar_machine *m;
    assert_int_equal(grammar_vocab_open(&v, NULL, 0, NULL), 0);
    assert_int_equal(grammar_machine_open(&m, g, v, NULL), 0);
    int32_t state;
    assert_int_equal(grammar_read(m, grammar_start(m), p, strlen(p), &state, NULL), 0);
    int out = state == GRAMMAR_DEAD ? 0 : grammar_may_end(m, state) ? 2 : 1;
    grammar_machine_close(&m);
    grammar_vocab_close(&v);
    grammar_close(&g);
    return out;
}

static void gbnf_as_llama_cpp(void **state)
{
    (void)state;
    static const struct {
        const char *gbnf, *text;
        int want;
    } cases[] = {
        {"root ::= \"yes\" | \"no\"", "yes", 2}, {"root ::= \"yes\" | \"no\"", "y", 1},
        {"root ::= \"yes\" | \"no\"", "yn", 0}, {"root ::= \"a\"* \"b\"", "aaab", 2},
        {"root ::= \"ab\"{2,3}", "ababab", 2}, {"root ::= \"ab\"{2,3}", "abababa", 0}, {"root ::= \"ab\" {2}", "ab", 1},
        {"root ::= [^\"\\\\\\n]+", "x y", 2}, {"root ::= [^\"\\\\\\n]+", "x\n", 0}, {"root ::= [a-]+", "a-a", 2},
        {"root ::= \"\\x41\\u00e9\\U0001F600\"", "A\xc3\xa9\xf0\x9f\x98\x80", 2}, {"root ::= .", "\n", 2},
        {"root ::= .", "\xe2\x82", 1}, {"root ::= .", "\xed\xa0", 0}, /* a surrogate */
        {"root ::= (\n  \"a\"   # one\n  | \"b\"\n)+\n\n# end", "ab", 2},
        {"root ::=\n  \"a\" |\n  \"b\"\r\nother ::= root", "b", 2}, {"root ::= ab-1 ab-1?\nab-1 ::= [0-9]", "42", 2},
        {"root ::= \"(\" root \")\" | \"x\"", "((x))", 2},
        {"root ::= \"a\" root | ", "aaa", 2},                             /* an empty alternative */
        {"root ::= \"\"", "", 2}, {"root ::= (\"a\"?)* \"b\"", "aab", 2}, /* what is repeated may be empty */
        {"root ::= \"a\"{0} \"b\"", "b", 2},
        {"root ::= \"x\" | never\nnever ::= \"y\" never", "y", 0}, /* a rule that never ends */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (reads(cases[i].gbnf, cases[i].text) != cases[i].want)
            fail_msg("%s, %s: not %d", cases[i].gbnf, cases[i].text, cases[i].want);
}

static void gbnf_refused(void **state)
{
    (void)state;
    static const struct {
        const char *gbnf, *what;
        int code, line;
    } cases[] = {
        {"a ::= \"x\"", "'root'", LUTRA_E_FORMAT, 0},
        {"root ::= b\n", "'b'", LUTRA_E_FORMAT, 1},
        {"root ::= \"x\"\nroot ::= \"y\"", "already", LUTRA_E_FORMAT, 2},
        {"root ::= root \"x\" | \"x\"", "'root'", LUTRA_E_UNSUPPORTED, 1},
        {"root ::= a\na ::= \"\"? b\nb ::= root | \"x\"", "left-recursive", LUTRA_E_UNSUPPORTED, 0},
        {"root ::= e root \"x\" | \"y\"\ne ::= \"z\"?", "left-recursive", LUTRA_E_UNSUPPORTED, 1},
        {"root ::= \"x\n", "closing", LUTRA_E_FORMAT, 0},
        {"root ::= [x\n", "closing", LUTRA_E_FORMAT, 0},
        {"root ::= (\"x\"", ")", LUTRA_E_FORMAT, 1},
        {"root ::= \"x\"{2", "}", LUTRA_E_FORMAT, 1},
        {"root ::= \"x\"{3,2}", "below", LUTRA_E_FORMAT, 1},
        {"root ::= \"x\"{99999999999}", "65535", LUTRA_E_FORMAT, 1},
        {"root ::= \"\\q\"", "escape", LUTRA_E_FORMAT, 1},
        {"root ::= \"\\ud800\"", "character", LUTRA_E_FORMAT, 1},
        {"root ::= [z-a]", "range", LUTRA_E_FORMAT, 1},
        {"root ::= \"x\" root", "no text", LUTRA_E_FORMAT, 0},
        {"root := \"x\"", "::=", LUTRA_E_FORMAT, 1},
        {"root ::= \"x\" }", "'}'", LUTRA_E_FORMAT, 1},
        {"root ::= <think>", "tokens", LUTRA_E_UNSUPPORTED, 1},
        {"", "'root'", LUTRA_E_FORMAT, 0},
        {"\xff", "name", LUTRA_E_FORMAT, 1},
        {"root ::= \"\xc3\"", "UTF-8", LUTRA_E_FORMAT, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grammar *g;
        struct lutra_error err = {0};
        int rc = grammar_open_gbnf(&g, cases[i].gbnf, strlen(cases[i].gbnf), &err);
        if (rc != cases[i].code || !strstr(err.what, cases[i].what) || (int)err.where < cases[i].line || g)
            fail_msg("%s: %d %s", cases[i].gbnf, rc, err.what);
    }
    static char deep[10000];
    struct grammar *g;
    strcpy(deep, "root ::= ");
    memset(deep + 9, '(', 5000);
    assert_int_equal(grammar_open_gbnf(&g, deep, strlen(deep), NULL), LUTRA_E_FORMAT);
    struct lutra_error err = {0};
    strcpy(deep, "root ::=");
    for (int i = 0; i < 40; i++) strcat(deep, " [ab]*{65535}"); /* what may be empty is written out */
    assert_int_equal(grammar_open_gbnf(&g, deep, strlen(deep), &err), LUTRA_E_FORMAT);
    assert_non_null(strstr(err.what, "edges"));
    /* Repetitions of repetitions call rules: they do not multiply. */
    grammar_close(&(struct grammar *){open_text("root ::= (((\"x\"{9999}){9999}){9999}){9999}")});
}

/* Derivations that are ambiguous share their stacks: states stay small where sets of stacks would double per byte. */
static void ambiguity_is_bounded(void **state)
{
    (void)state;
    struct grammar *g = open_text("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\" root \"b\"{1,2} | \"x\"");
    struct grammar_vocab *v;
    struct grammar_machine *m;
    assert_int_equal(grammar_vocab_open(&v, NULL, 0, NULL), 0);
    assert_int_equal(grammar_machine_open(&m, g, v, NULL), 0);
    static char p[401];
    memset(p, 'a', 200);
    p[200] = 'x';
    memset(p + 201, 'b', 200);
    int32_t s;
    assert_int_equal(grammar_read(m, grammar_start(m), p, sizeof p, &s, NULL), 0);
    assert_true(grammar_may_end(m, s));
    assert_true(grammar_counts(m).states < 1000);
    /* Deeper than stacks may be: the text is not allowed, and nothing grows further. */
    s = grammar_start(m);
    for (int i = 0; i < 5000; i++) assert_int_equal(grammar_read(m, s, "a", 1, &s, NULL), 0);
    assert_true(grammar_counts(m).states < 5000);
    grammar_machine_close(&m);
    grammar_vocab_close(&v);
    grammar_close(&g);
}

/* Where what may be empty repeats, all repetitions are under way at once: refused, not run for minutes. */
static void empty_repetitions_are_bounded(void **state)
{
    (void)state;
    static const char *const cases[] = {"root ::= \"a\" (x){0,65535} \".\"\nx ::= [ \\t]*",
        "root ::= \"a\" ([a-z]*){0,65535}", "root ::= \"a\" (x{0,4}){0,65535}\nx ::= y\ny ::= \"b\" | \"\""};
    struct grammar_vocab *v = make_vocab();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grammar *g = open_text(cases[i]);
        struct grammar_machine *m;
        struct lutra_error err = {0};
        int32_t s;
        assert_int_equal(grammar_machine_open(&m, g, v, &err), 0);
        assert_int_equal(grammar_read(m, grammar_start(m), "a", 1, &s, &err), LUTRA_E_UNSUPPORTED);
        assert_non_null(strstr(err.what, "too many ways"));
        assert_int_equal(grammar_read(m, grammar_start(m), "b", 1, &s, &err), 0); /* the machine stays usable */
        assert_int_equal(s, GRAMMAR_DEAD);
        grammar_machine_close(&m);
        grammar_close(&g);
    }
    grammar_vocab_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_equal_reference),
        cmocka_unit_test(gbnf_as_llama_cpp),
        cmocka_unit_test(gbnf_refused),
        cmocka_unit_test(ambiguity_is_bounded),
        cmocka_unit_test(empty_repetitions_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
