/* SPDX-License-Identifier: MIT
 *
 * JSON Schemas as grammars: which texts each keyword allows, what is refused and under which path.
 * tests/grammar/schemas.py validates texts of random schemas.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decode/grammar/grammar.h"

/* 2: a text of the schema, 1: the beginning of one, 0: neither. */
static int reads(const char *schema, const char *p)
{
    struct grammar *g;
    struct grammar_vocab *v;
    struct grammar_machine *m;
    struct lutra_error err = {0};
    if (grammar_open_schema(&g, schema, strlen(schema), &err) < 0) fail_msg("%s\n%s", schema, err.what);
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

static void keywords(void **state)
{
    (void)state;
#define PERSON                                                                                                         \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\"},"              \
    "\"mail\":{\"type\":\"string\"}},\"required\":[\"name\",\"mail\"]"
    static const struct {
        const char *schema, *text;
        int want;
    } cases[] = {
        {PERSON "}", "{\"name\": \"A\", \"age\": 3, \"mail\": \"x\"}", 2},
        {PERSON "}", "{\"name\":\"A\",\"mail\":\"\"}", 2},
        {PERSON "}", "{\n  \"name\": \"A\",\n  \"mail\": \"\"\n}", 2},
        {PERSON "}", "{\"name\":\"A\"}", 0},
        {PERSON "}", "{\"mail\":\"A\"", 0},
        {PERSON "}", "{\"name\":\"A\",\"mail\":\"\",", 0},
        {PERSON ",\"additionalProperties\":{\"type\":\"null\"}}", "{\"name\":\"A\",\"mail\":\"\",\"nam\":null}", 2},
        {PERSON ",\"additionalProperties\":true}", "{\"name\":\"A\",\"mail\":\"\",\"age", 1},
        {PERSON ",\"additionalProperties\":true}", "{\"name\":\"A\",\"mail\":\"\",\"age\"", 0},
        {PERSON ",\"additionalProperties\":true}", "{\"name\":\"A\",\"mail\":\"\",\"\":[{}]}", 2},
        {"{\"required\":[\"k\"]}", "{\"k\": [1, {\"a\": null}], \"z\": -1e5}", 2},
        {"{\"type\":\"object\"}", "{}", 2},
        {"true", "[[], {}, \"\\u00e9\\n\", true]", 2},
        {"true", "\"\\ud800\"", 0},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"\xc3\xa9\\u0041\"", 2},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"a\"", 0},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"abcd", 0},
        {"{\"type\":\"string\",\"pattern\":\"^a.c$\"}", "\"a\\nc\"", 0},
        {"{\"type\":\"string\",\"pattern\":\"^a.c$\"}", "\"a\\\"c\"", 2},
        {"{\"type\":\"string\",\"pattern\":\"b\"}", "\"abc\"", 2},
        {"{\"pattern\":\"^(?:[A-Z]{2}|\\\\d)+?$\"}", "\"AB1\"", 2},
        {"{\"pattern\":\"^(?:[A-Z]{2}|\\\\d)+?$\"}", "\"A1", 0},
        {"{\"pattern\":\"^[^\\\\w\\\"]$\"}", "\"-\"", 2},
        {"{\"pattern\":\"^a{2}$\",\"maxLength\":2}", "\"aa\"", 2},
        {"{\"format\":\"date\"}", "\"2024-02-30", 0},
        {"{\"format\":\"date\"}", "\"2024-12-31\"", 2},
        {"{\"format\":\"date-time\"}", "\"2024-12-31T23:59:59.5+01:00\"", 2},
        {"{\"format\":\"time\"}", "\"24", 0},
        {"{\"format\":\"uuid\"}", "\"123e4567-e89b-12d3-a456-426614174000\"", 2},
        {"{\"type\":\"integer\"}", "-0", 2},
        {"{\"type\":\"integer\"}", "01", 0},
        {"{\"type\":\"integer\",\"minimum\":-3,\"exclusiveMaximum\":120}", "119", 2},
        {"{\"type\":\"integer\",\"minimum\":-3,\"exclusiveMaximum\":120}", "120", 0},
        {"{\"type\":\"integer\",\"minimum\":-3,\"exclusiveMaximum\":120}", "-4", 0},
        {"{\"type\":\"integer\",\"minimum\":-3,\"exclusiveMaximum\":120}", "-3", 2},
        {"{\"type\":\"integer\",\"minimum\":17}", "16", 1}, /* 160 */
        {"{\"type\":\"integer\",\"minimum\":1.5,\"maximum\":1.7}", "", -1},
        {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}", "0.25", 2},
        {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}", "1.", 0},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":1}", "0.0", 1},
        {"{\"type\":\"number\",\"minimum\":-0.5,\"maximum\":2.25}", "-0.5", 2},
        {"{\"type\":\"number\",\"minimum\":-0.5,\"maximum\":2.25}", "-0.51", 0},
        {"{\"type\":\"number\",\"minimum\":-0.5,\"maximum\":2.25}", "2.250", 0},
        {"{\"type\":\"number\",\"minimum\":-0.5,\"maximum\":2.25}", "2.2499", 2},
        {"{\"type\":\"number\"}", "-1.5e+10", 2},
        {"{\"type\":[\"null\",\"boolean\"]}", "null", 2},
        {"{\"enum\":[\"a\",1,null,[2]],\"type\":[\"string\",\"array\"]}", "[2]", 2},
        {"{\"enum\":[\"a\",1,null,[2]],\"type\":[\"string\",\"array\"]}", "1", 0},
        {"{\"const\":{\"a\":\"\\\"\"}}", "{\"a\":\"\\\"\"}", 2},
        {"{\"items\":{\"type\":\"null\"},\"minItems\":1,\"maxItems\":2}", "[null, null]", 2},
        {"{\"items\":{\"type\":\"null\"},\"minItems\":1,\"maxItems\":2}", "[]", 0},
        {"{\"items\":{\"type\":\"null\"},\"minItems\":1,\"maxItems\":2}", "[null,null,", 0},
        {"{\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":{\"const\":3}}", "[1, 2, 3, 3]", 2},
        {"{\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":{\"const\":3}}", "[1]", 2},
        {"{\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":false,\"minItems\":2}", "[1]", 0},
        {"{\"anyOf\":[{\"type\":\"null\"},{\"const\":1}]}", "1", 2},
        {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"t\":{\"const\":\"a\"}},\"required\":[\"t\"]},"
         "{\"type\":\"object\",\"properties\":{\"t\":{\"const\":\"b\"}},\"required\":[\"t\"]}]}",
            "{\"t\":\"b\"}", 2},
        {"{\"allOf\":[{\"minimum\":3},{\"maximum\":4}],\"type\":\"integer\"}", "3", 2},
        {"{\"allOf\":[{\"minimum\":3},{\"maximum\":4}],\"type\":\"integer\"}", "5", 0},
        {"{\"allOf\":[{\"properties\":{\"a\":{\"minimum\":3}}},{\"required\":[\"a\"],\"properties\":{\"a\":"
         "{\"type\":\"integer\",\"maximum\":3}}}]}",
            "{\"a\":3}", 2},
        {"{\"$ref\":\"#/$defs/t\",\"$defs\":{\"t\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/t\"}}}}",
            "[[], [[]]]", 2},
        {"{\"$ref\":\"#/$defs/a~1b\",\"maximum\":2,\"$defs\":{\"a/b\":{\"type\":\"integer\",\"minimum\":2}}}", "2", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].want < 0) {
            struct grammar *g;
            assert_int_equal(grammar_open_schema(&g, cases[i].schema, strlen(cases[i].schema), NULL), LUTRA_E_FORMAT);
        } else if (reads(cases[i].schema, cases[i].text) != cases[i].want)
            fail_msg("%s, %s: not %d", cases[i].schema, cases[i].text, cases[i].want);
    }
}

static void refused_by_path(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *path;
        int code;
    } cases[] = {
        {"{\"properties\":{\"a\":{\"multipleOf\":2}}}", "#/properties/a/multipleOf:", LUTRA_E_UNSUPPORTED},
        {"{\"items\":{\"not\":{}}}", "#/items/not:", LUTRA_E_UNSUPPORTED},
        {"{\"anyOf\":[{},{\"if\":{}}]}", "#/anyOf/1/if:", LUTRA_E_UNSUPPORTED},
        {"{\"format\":\"email\"}", "#/format:", LUTRA_E_UNSUPPORTED},
        {"{\"pattern\":\"(?=a)\"}", "#/pattern:", LUTRA_E_UNSUPPORTED},
        {"{\"pattern\":\"(\"}", "#/pattern:", LUTRA_E_FORMAT},
        {"{\"pattern\":\"^a*$\",\"minLength\":2}", "#/pattern:", LUTRA_E_UNSUPPORTED},
        {"{\"type\":\"text\"}", "#/type:", LUTRA_E_FORMAT},
        {"{\"type\":7}", "#/type:", LUTRA_E_FORMAT},
        {"{\"minItems\":-1}", "#/minItems:", LUTRA_E_FORMAT},
        {"{\"type\":\"string\",\"maxLength\":9999999999}", "#/maxLength:", LUTRA_E_UNSUPPORTED},
        {"{\"minimum\":\"1\"}", "#/minimum:", LUTRA_E_FORMAT},
        {"{\"properties\":[]}", "#/properties:", LUTRA_E_FORMAT},
        {"{\"properties\":{\"a\":3}}", "#/properties/a:", LUTRA_E_FORMAT},
        {"{\"required\":[1]}", "#/required:", LUTRA_E_FORMAT},
        {"{\"$ref\":\"http://x/y\"}", "#/$ref:", LUTRA_E_UNSUPPORTED},
        {"{\"$ref\":\"#/$defs/x\"}", "#/$ref:", LUTRA_E_FORMAT},
        {"{\"$ref\":\"#\"}", "left-recursive", LUTRA_E_FORMAT},
        {"{\"allOf\":[{\"$ref\":\"#\"}]}", "#", LUTRA_E_FORMAT},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "#/oneOf/1:", LUTRA_E_UNSUPPORTED},
        {"{\"enum\":[\"aa\"],\"maxLength\":1}", "#/enum:", LUTRA_E_UNSUPPORTED},
        {"{\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":\"b\"}]}", "#/allOf/1/pattern:", LUTRA_E_UNSUPPORTED},
        {"[]", "#:", LUTRA_E_FORMAT},
        {"{\"a\":1,\"a\":2}", "line 1", LUTRA_E_FORMAT},
        {"{", "line 1", LUTRA_E_FORMAT},
        {"false", "no text", LUTRA_E_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grammar *g;
        struct lutra_error err = {0};
        int rc = grammar_open_schema(&g, cases[i].schema, strlen(cases[i].schema), &err);
        bool recursion = strstr(cases[i].schema, "\"#\"") && rc < 0; /* refused one way or the other */
        if (g || (!recursion && (rc != cases[i].code || !strstr(err.what, cases[i].path))))
            fail_msg("%s: %d %s", cases[i].schema, rc, err.what);
    }
    static char deep[100000];
    for (int i = 0; i < 9000; i++) strcat(deep, "{\"not\":");
    struct grammar *g;
    assert_true(grammar_open_schema(&g, deep, strlen(deep), NULL) < 0);
    *deep = 0;
    for (int i = 0; i < 1000; i++) strcat(deep, "{\"items\":");
    strcat(deep, "true");
    for (int i = 0; i < 1000; i++) strcat(deep, "}");
    assert_int_equal(grammar_open_schema(&g, deep, strlen(deep), NULL), LUTRA_E_FORMAT);
}

/* The vocabulary is walked once per set of nodes, not once per state: nesting costs no further walks. */
static void walks_are_shared(void **state)
{
    (void)state;
    enum { VOCAB = 20000 };
    static struct grammar_token token[VOCAB];
    static char bytes[VOCAB][8];
    for (int t = 0; t < VOCAB; t++)
        token[t] = (struct grammar_token){bytes[t], (size_t)sprintf(bytes[t], t % 7 ? "%x" : "\",%x", t), false};
    for (int t = 0; t < 128; t++) token[t] = (struct grammar_token){memset(bytes[t], t, 1), 1, false};
    struct grammar *g;
    struct grammar_vocab *v;
    struct grammar_machine *m;
    assert_int_equal(grammar_open_schema(&g, "{\"type\":\"array\"}", 16, NULL), 0);
    assert_int_equal(grammar_vocab_open(&v, token, VOCAB, NULL), 0);
    assert_int_equal(grammar_machine_open(&m, g, v, NULL), 0);
    static uint64_t mask[VOCAB / 64 + 1];
    int32_t s = grammar_start(m);
    for (int i = 0; i < 100; i++) {
        const char *p = i % 2 ? "{\"a\":" : "[\"x\",";
        for (; *p; p++) {
            assert_int_equal(grammar_read(m, s, p, 1, &s, NULL), 0);
            assert_int_equal(grammar_mask(m, s, mask, NULL), 0);
            assert_true(s >= 0);
        }
    }
    struct grammar_counts c = grammar_counts(m);
    print_message("%d masks, %d walks of the vocabulary, %d states\n", (int)c.masks, (int)c.cores, (int)c.states);
    assert_int_equal(c.masks, 500);
    assert_true(c.cores <= 20);
    grammar_machine_close(&m);
    grammar_vocab_close(&v);
    grammar_close(&g);
}

/* Whether a token may stand behind n characters of a string of 20 to 90. */
static bool may_stand(const char *p, size_t n_bytes, int n)
{
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c == '"') return n >= 20 && i + 1 == n_bytes;
        if (c < 0x20 || c > 0x7f || ++n > 90) return false;
        if (c == '\\' && i + 1 < n_bytes) return false;
    }
    return true;
}

/* Positions in a long text share one walk of the vocabulary, and their masks are right up to its last character. */
static void counts_share_walks(void **state)
{
    (void)state;
    enum { VOCAB = 20000 };
    static struct grammar_token token[VOCAB];
    static char bytes[VOCAB][24];
    for (int t = 0; t < VOCAB; t++) {
        int n = sprintf(bytes[t], t % 7 ? "%x" : "%x\"", t);
        if (t % 11 == 0) n += sprintf(bytes[t] + n, "%.*s", t % 13, "xxxxxxxxxxxxx");
        token[t] = (struct grammar_token){bytes[t], (size_t)n, false};
    }
    for (int t = 0; t < 128; t++) token[t] = (struct grammar_token){memset(bytes[t], t, 1), 1, false};
    struct grammar *g;
    struct grammar_vocab *v;
    struct grammar_machine *m;
    static const char schema[] = "{\"type\":\"string\",\"minLength\":20,\"maxLength\":90}";
    assert_int_equal(grammar_open_schema(&g, schema, strlen(schema), NULL), 0);
    assert_int_equal(grammar_vocab_open(&v, token, VOCAB, NULL), 0);
    assert_int_equal(grammar_machine_open(&m, g, v, NULL), 0);
    static uint64_t mask[VOCAB / 64 + 1];
    int32_t s;
    assert_int_equal(grammar_read(m, grammar_start(m), "\"", 1, &s, NULL), 0);
    for (int n = 0; n <= 90; n++) {
        assert_true(s >= 0);
        assert_int_equal(grammar_mask(m, s, mask, NULL), 0);
        for (int t = 0; t < VOCAB; t++)
            if ((mask[t / 64] >> t % 64 & 1) != may_stand(token[t].p, token[t].n, n))
                fail_msg("%d characters, token %d, %.*s", n, t, (int)token[t].n, token[t].p);
        assert_int_equal(grammar_read(m, s, n % 3 ? "a" : "\xc3\xa9", n % 3 ? 1 : 2, &s, NULL), 0);
    }
    assert_int_equal(s, GRAMMAR_DEAD);
    struct grammar_counts c = grammar_counts(m);
    print_message("%d walks of the vocabulary, %d states, %d nodes\n", (int)c.cores, (int)c.states, (int)c.nodes);
    assert_true(c.cores <= 5); /* far below, far above, at the last one, behind it, and the end */
    grammar_machine_close(&m);
    grammar_vocab_close(&v);
    grammar_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keywords),
        cmocka_unit_test(refused_by_path),
        cmocka_unit_test(walks_are_shared),
        cmocka_unit_test(counts_share_walks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
