/* SPDX-License-Identifier: MIT
 *
 * Structural tags: free text up to triggers (against a plain search for them), masks of free text, arguments as JSON,
 * elements and Gemma's objects; and the cache of grammars.
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

/* 2: a text of the grammar, 1: the beginning of one, 0: neither. */
static int reads(const struct grammar *g, const char *p, size_t n)
{
    struct grammar_vocab *v;
    struct grammar_machine *m;
    assert_int_equal(grammar_vocab_open(&v, NULL, 0, NULL), 0);
    assert_int_equal(grammar_machine_open(&m, g, v, NULL), 0);
    int32_t state;
    assert_int_equal(grammar_read(m, grammar_start(m), p, n, &state, NULL), 0);
    int out = state == GRAMMAR_DEAD ? 0 : grammar_may_end(m, state) ? 2 : 1;
    grammar_machine_close(&m);
    grammar_vocab_close(&v);
    return out;
}

static struct grammar *open_format(const char *format)
{
    char json[4096];
    struct grammar *g;
    struct lutra_error err = {0};
    int n = snprintf(json, sizeof json, "{\"type\":\"structural_tag\",\"format\":%s}", format);
    if (grammar_open_structure(&g, json, (size_t)n, &err) < 0) fail_msg("%s\n%s", json, err.what);
    return g;
}

#define TAG(begin, content, end)                                                                                       \
    "{\"type\":\"tag\",\"begin\":\"" begin "\",\"content\":" content ",\"end\":\"" end "\"}"
#define CONST(text) "{\"type\":\"const_string\",\"value\":\"" text "\"}"
#define SCHEMA(style, schema)                                                                                          \
    "{\"type\":\"json_schema\",\"style\":\"" style "\",\"name\":\"f\",\"strict\":false,\"json_schema\":" schema "}"
#define ANY "{\"type\":\"any_text\"}"

static void formats(void **state)
{
    (void)state;
#define CALLS "\"tags\":[" TAG("<c>f", CONST("(1)"), ";") "," TAG("<c>g", CONST("()"), ";") "]"
    static const struct {
        const char *format, *text;
        int want;
    } cases[] = {
        {CONST("ab"), "ab", 2},
        {CONST("ab"), "abc", 0},
        {ANY, "x\xff\n", 2},
        {TAG("[", ANY, "]"), "[x]", 2},
        {TAG("[", ANY, "]"), "[x]]", 0},
        {TAG("[", ANY, "]"), "[x", 1},
        {"{\"type\":\"or\",\"elements\":[" CONST("a") "," CONST("b") "]}", "b", 2},
        {"{\"type\":\"sequence\",\"elements\":[" CONST("a") "," CONST("b") "]}", "ab", 2},
        {"{\"type\":\"triggered_tags\",\"triggers\":[\"<c>\"]," CALLS "}", "text < here", 2},
        {"{\"type\":\"triggered_tags\",\"triggers\":[\"<c>\"]," CALLS "}", "text <<c>f(1); and <c>g(); more", 2},
        {"{\"type\":\"triggered_tags\",\"triggers\":[\"<c>\"]," CALLS "}", "<c>h", 0},
        {"{\"type\":\"triggered_tags\",\"triggers\":[\"<c>\"]," CALLS "}", "<c>f(2", 0},
        {"{\"type\":\"triggered_tags\",\"triggers\":[\"<c>\"],\"at_least_one\":true," CALLS "}", "text", 0},
        {"{\"type\":\"triggered_tags\",\"triggers\":[\"<c>\"],\"at_least_one\":true," CALLS "}", "<c>g();x<c>g();", 2},
        {"{\"type\":\"triggered_tags\",\"triggers\":[\"<c>\"],\"stop_after_first\":true," CALLS "}", "a<c>g();", 2},
        {"{\"type\":\"triggered_tags\",\"triggers\":[\"<c>\"],\"stop_after_first\":true," CALLS "}", "a<c>g();x", 0},
        {"{\"type\":\"tags_with_separator\",\"separator\":\", \",\"at_least_one\":true," CALLS "}", "<c>g();, <c>f(1);",
            2},
        {"{\"type\":\"tags_with_separator\",\"separator\":\", \",\"at_least_one\":true," CALLS "}", "", 1},
        {"{\"type\":\"tags_with_separator\",\"separator\":\", \"," CALLS "}", "", 2},
        {"{\"type\":\"tags_with_separator\",\"stop_after_first\":true," CALLS "}", "<c>g();<", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grammar *g = open_format(cases[i].format);
        int seen = reads(g, cases[i].text, strlen(cases[i].text));
        if (seen != cases[i].want) fail_msg("%s\n%s: %d, not %d", cases[i].format, cases[i].text, seen, cases[i].want);
        grammar_close(&g);
    }
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *says;
        int code;
    } cases[] = {
        {"{\"format\":{\"type\":\"regex\"}}", "'regex' is not built", LUTRA_E_UNSUPPORTED},
        {"{}", "'' is not built", LUTRA_E_UNSUPPORTED},
        {"[", "no JSON", LUTRA_E_FORMAT},
        {"{\"format\":{\"type\":\"triggered_tags\",\"triggers\":[\"x\"],\"tags\":[" TAG("y", ANY, "") "]}}",
            "a trigger that no tag begins with", LUTRA_E_FORMAT},
        {"{\"format\":{\"type\":\"triggered_tags\",\"tags\":[" TAG("y", ANY, "") "]}}", "no triggers", LUTRA_E_FORMAT},
        {"{\"format\":{\"type\":\"json_schema\",\"name\":\"f\",\"json_schema\":{\"properties\":{\"n\":{\"multipleOf\":"
         "2}}}"
         "}}",
            "JSON schema 'f', #/properties/n/multipleOf", LUTRA_E_UNSUPPORTED},
        {"{\"format\":{\"type\":\"json_schema\",\"style\":\"toml\",\"json_schema\":true}}", "style is", LUTRA_E_FORMAT},
        {"{\"format\":{\"type\":\"json_schema\",\"strict\":false,\"json_schema\":{\"type\":\"text\"}}}", "#/type",
            LUTRA_E_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grammar *g;
        struct lutra_error err = {0};
        assert_int_equal(grammar_open_structure(&g, cases[i].json, strlen(cases[i].json), &err), cases[i].code);
        if (!strstr(err.what, cases[i].says)) fail_msg("%s\n%s", cases[i].json, err.what);
    }
}

static uint32_t counter;

static uint32_t draw(uint32_t n)
{
    return rng_u32((struct rng_key){36, 0, 0}, counter++) % n;
}

/* The end of the mark that is complete first, or 0; marks of the second half count at the start only. */
static size_t first_mark(char mark[4][8], const char *text, size_t n)
{
    for (size_t end = 1; end <= n; end++)
        for (int i = 0; i < 4; i++) {
            size_t n_mark = strlen(mark[i]);
            if (n_mark <= end && !memcmp(text + end - n_mark, mark[i], n_mark) && (i < 2 || end == n_mark)) return end;
        }
    return 0;
}

static void triggers_are_found(void **state)
{
    (void)state;
    int n_found = 0;
    for (int round = 0; round < 300; round++) {
        char mark[4][8] = {""}, format[1024];
        for (int i = 0; i < 4; i++)
            for (uint32_t k = 0, n = 1 + draw(5); k < n; k++) mark[i][k] = "ab<"[draw(3)];
        int n = snprintf(format, sizeof format,
            "{\"type\":\"triggered_tags\",\"stop_after_first\":true,\"triggers\":[\"%s\",\"%s\"],\"start_triggers\":["
            "\"%s\","
            "\"%s\"],\"tags\":[",
            mark[0], mark[1], mark[2], mark[3]);
        for (int i = 0; i < 4; i++) /* all that a mark may be followed by is an exclamation mark */
            n += snprintf(format + n, sizeof format - (size_t)n,
                "%s{\"type\":\"tag\",\"begin\":\"%s!\",\"content\":%s}", i ? "," : "", mark[i], CONST(""));
        snprintf(format + n, sizeof format - (size_t)n, "]}");
        struct grammar *g = open_format(format);
        for (int k = 0; k < 40; k++) {
            char text[24];
            size_t n_text = draw(14);
            for (size_t i = 0; i < n_text; i++) text[i] = "ab<"[draw(3)];
            size_t end = first_mark(mark, text, n_text);
            int want = !end ? 2 : end == n_text ? 1 : 0;
            /* A mark that begins another one's tag: what follows it may be that tag's. */
            if (end && end < n_text) continue;
            n_found += end > 0;
            int seen = reads(g, text, n_text);
            if (seen != want) fail_msg("%s\n%.*s: %d, not %d", format, (int)n_text, text, seen, want);
            if (!end) continue;
            text[n_text] = '!';
            assert_int_equal(reads(g, text, n_text + 1), 2);
        }
        grammar_close(&g);
    }
    assert_true(n_found > 500);
}

#define WEATHER                                                                                                        \
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"unit\":{\"enum\":[\"C\",\"F\"]},"           \
    "\"days\":{\"type\":\"integer\",\"maximum\":9,\"minimum\":1},\"tags\":{\"type\":\"array\",\"items\":{\"type\":"    \
    "\"string\"}},\"zip\":{\"type\":\"string\",\"pattern\":\"^[0-9]{2}$\"}},\"required\":[\"city\"],"                  \
    "\"additionalProperties\":false}"
#define P(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"
#define Q "<|\"|>"

static void styles(void **state)
{
    (void)state;
    static const struct {
        const char *format, *text;
        int want;
    } cases[] = {
        {SCHEMA("json", WEATHER), "{\"city\": \"<b>\", \"days\": 3}", 2},
        {SCHEMA("qwen_xml", WEATHER), P("city", "Rome"), 2},
        {SCHEMA("qwen_xml", WEATHER), P("city", "a </b>\n\xc3\xa9 {"), 2},
        {SCHEMA("qwen_xml", WEATHER), "<parameter=city>\n</parameter>\n", 2},
        {SCHEMA("qwen_xml", WEATHER), P("days", "3"), 0},
        {SCHEMA("qwen_xml", WEATHER), P("city", "x") P("days", "3"), 2},
        {SCHEMA("qwen_xml", WEATHER), P("city", "x") P("days", "0"), 0},
        {SCHEMA("qwen_xml", WEATHER), P("city", "x") P("unit", "F"), 2},
        {SCHEMA("qwen_xml", WEATHER), P("city", "x") P("unit", "\"F\""), 0},
        {SCHEMA("qwen_xml", WEATHER), P("city", "x") P("tags", "[\"a\", \"\\u003cb\"]"), 2},
        {SCHEMA("qwen_xml", WEATHER), P("city", "x") P("tags", "[\"a<"), 0},
        {SCHEMA("qwen_xml", WEATHER), P("city", "x") P("zip", "04"), 2},
        {SCHEMA("qwen_xml", WEATHER), P("city", "x") P("zip", "4"), 0},
        {SCHEMA("qwen_xml", WEATHER), P("city", "x") P("other", "4"), 0},
        {SCHEMA("qwen_xml", "{}"), P("a", "{\"b\": null}") P("c", "\"x\""), 2},
        {SCHEMA("qwen_xml", "{\"type\":\"object\",\"properties\":{}}"), "", 2},
        {SCHEMA("qwen_xml", "{\"$ref\":\"#/$defs/w\",\"$defs\":{\"w\":" WEATHER "}}"), P("city", "\"x\""), 2},
        {SCHEMA("qwen_xml", "{\"$ref\":\"#/$defs/w\",\"$defs\":{\"w\":" WEATHER "}}"), P("city", "x"), 0},
        {SCHEMA("qwen_xml", "{\"anyOf\":[" WEATHER "]}"), P("anything", "[1]"), 2}, /* not built: unconstrained */
        {SCHEMA("gemma", WEATHER), "{city:" Q "R\"o\nme" Q ",unit:" Q "C" Q ",days:3,tags:[" Q "a" Q "," Q Q "]}", 2},
        {SCHEMA("gemma", WEATHER), "{city:" Q "a<|b" Q "}", 2},
        {SCHEMA("gemma", WEATHER), "{city:" Q "a<tool_call|>", 0},
        {SCHEMA("gemma", WEATHER), "{days:3}", 0},
        {SCHEMA("gemma", WEATHER), "{city:" Q "x" Q ",unit:" Q "K", 0},
        {SCHEMA("gemma", WEATHER), "{city:" Q "x" Q ",zip:" Q "12" Q "}", 2},
        {SCHEMA("gemma", WEATHER), "{\"city\"", 0},
        {SCHEMA("gemma", "{\"type\":\"object\"}"), "{a:1,b_2:{c:true}," Q "d e" Q ":[]}", 2},
        {SCHEMA("gemma", "{\"const\":{\"a b\":[1,\"x\"],\"c\":{}}}"), "{" Q "a b" Q ":[1," Q "x" Q "],c:{}}", 2},
        {SCHEMA("functiongemma", WEATHER), "{city:<escape>Rome<escape>,days:2}", 2},
        {SCHEMA("json", "{\"properties\":{\"n\":{\"type\":\"integer\",\"multipleOf\":2}}}"), "{\"n\": 7}", 2},
        {SCHEMA("json", "{\"properties\":{\"n\":{\"type\":\"integer\",\"multipleOf\":2}}}"), "{\"n\": \"", 0},
        {SCHEMA("json", "{\"type\":\"object\",\"minProperties\":1}"), "{\"n\": []}", 2},
        {SCHEMA("json", "{\"type\":\"object\",\"minProperties\":1}"), "[", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grammar *g = open_format(cases[i].format);
        int seen = reads(g, cases[i].text, strlen(cases[i].text));
        if (seen != cases[i].want) fail_msg("%s\n%s: %d, not %d", cases[i].format, cases[i].text, seen, cases[i].want);
        grammar_close(&g);
    }
    struct grammar *g = open_format(SCHEMA("json", "{\"properties\":{\"n\":{\"type\":\"integer\",\"multipleOf\":2}}}"));
    assert_non_null(strstr(grammar_note(g), "JSON schema 'f', #/properties/n/multipleOf"));
    grammar_close(&g);
    g = open_format(SCHEMA("json", "{\"type\":\"object\"}"));
    assert_null(grammar_note(g));
    grammar_close(&g);
}

/* In free text all tokens are allowed, those without text, too; where a token ends a trigger, only what fits behind. */
static void masks_of_free_text(void **state)
{
    (void)state;
    static const struct grammar_token token[] = {{"a", 1, false}, {"<c>", 3, false}, {"<", 1, false}, {"c>f", 3, false},
        {NULL, 0, false}, {NULL, 0, true}, {"c>x", 3, false}, {"(1);", 4, false}, {"f", 1, false}};
    enum { VOCAB = sizeof token / sizeof *token, ALL = (1 << VOCAB) - 1 };
    struct grammar *g = open_format("{\"type\":\"triggered_tags\",\"triggers\":[\"<c>\"]," CALLS "}");
    struct grammar_vocab *v;
    struct grammar_machine *m;
    assert_int_equal(grammar_vocab_open(&v, token, VOCAB, NULL), 0);
    assert_int_equal(grammar_machine_open(&m, g, v, NULL), 0);
    uint64_t mask[1];
    int32_t s = grammar_start(m), next;
    assert_int_equal(grammar_mask(m, s, mask, NULL), 1);
    assert_int_equal(mask[0], ALL);
    assert_int_equal(grammar_follow(m, s, 4, &next, NULL), 0);
    assert_int_equal(next, s); /* a token without text */
    assert_int_equal(grammar_follow(m, s, 2, &s, NULL), 0);
    assert_int_equal(grammar_mask(m, s, mask, NULL), 0);
    assert_int_equal(mask[0], ALL & ~(1 << 6)); /* "<" + "c>x" would be no call */
    assert_int_equal(grammar_follow(m, s, 3, &s, NULL), 0);
    assert_int_equal(grammar_mask(m, s, mask, NULL), 0);
    assert_int_equal(mask[0], 1 << 7);
    assert_int_equal(grammar_follow(m, s, 4, &next, NULL), 0);
    assert_int_equal(next, GRAMMAR_DEAD);
    assert_int_equal(grammar_follow(m, s, 7, &s, NULL), 0);
    assert_int_equal(grammar_mask(m, s, mask, NULL), 1); /* free again */
    grammar_machine_close(&m);
    grammar_vocab_close(&v);
    grammar_close(&g);
}

static struct grammar_entry *take(
    struct grammar_cache *c, const struct grammar_vocab *v, enum grammar_kind kind, const char *text)
{
    struct grammar_entry *e;
    assert_int_equal(grammar_cache_take(c, kind, text, strlen(text), v, &e, NULL), 0);
    return e;
}

/* The same text has the same machine, and the ones used longest ago go. */
static void grammars_are_kept(void **state)
{
    (void)state;
    struct grammar_cache *c;
    struct grammar_vocab *v;
    struct grammar_entry *e[3], *bad;
    struct lutra_error err = {0};
    assert_int_equal(grammar_vocab_open(&v, NULL, 0, NULL), 0);
    assert_int_equal(grammar_cache_open(&c, 2, INT64_MAX, NULL), 0);
    e[0] = take(c, v, GRAMMAR_SCHEMA, "true");
    e[1] = take(c, v, GRAMMAR_SCHEMA, "true");
    assert_ptr_equal(grammar_entry_machine(e[0]), grammar_entry_machine(e[1]));
    grammar_entry_give(&e[0]);
    grammar_entry_give(&e[1]);
    assert_null(e[1]);
    e[0] = take(c, v, GRAMMAR_SCHEMA, "true");
    int32_t s;
    assert_int_equal(
        grammar_read(grammar_entry_machine(e[0]), grammar_start(grammar_entry_machine(e[0])), "[1]", 3, &s, NULL), 0);
    int64_t n_state = grammar_counts(grammar_entry_machine(e[0])).states;
    grammar_entry_give(&e[0]);
    e[1] = take(c, v, GRAMMAR_GBNF, "root ::= \"true\"");
    e[0] = take(c, v, GRAMMAR_SCHEMA, "true"); /* what it has made is there */
    assert_int_equal(grammar_counts(grammar_entry_machine(e[0])).states, n_state);
    e[2] = take(c, v, GRAMMAR_SCHEMA, "{\"type\":\"null\"}");
    /* Of three one is over the most, the one with the GBNF; it lives on with its user. */
    assert_int_equal(
        grammar_read(grammar_entry_machine(e[1]), grammar_start(grammar_entry_machine(e[1])), "true", 4, &s, NULL), 0);
    assert_true(grammar_may_end(grammar_entry_machine(e[1]), s));
    struct grammar_entry *again = take(c, v, GRAMMAR_GBNF, "root ::= \"true\"");
    assert_ptr_not_equal(grammar_entry_machine(again), grammar_entry_machine(e[1]));
    grammar_entry_give(&again);
    for (int i = 0; i < 3; i++) {
        grammar_entry_measure(e[i]);
        grammar_entry_give(&e[i]);
    }
    assert_int_equal(grammar_cache_take(c, GRAMMAR_SCHEMA, "nope", 4, v, &bad, &err), LUTRA_E_FORMAT);
    assert_int_equal(grammar_cache_take(c, GRAMMAR_SCHEMA, "nope", 4, v, &bad, &err), LUTRA_E_FORMAT);
    grammar_cache_close(&c);
    grammar_vocab_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats),
        cmocka_unit_test(refused),
        cmocka_unit_test(triggers_are_found),
        cmocka_unit_test(styles),
        cmocka_unit_test(masks_of_free_text),
        cmocka_unit_test(grammars_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
