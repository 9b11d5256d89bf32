/* SPDX-License-Identifier: MIT
 *
 * Replies with calls of tools, as each family writes them, cut at every byte and fed byte by byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "calls.h"

static void on_text(void *user, const char *text, size_t n, bool thought)
{
    text_add(user, text, n);
    (void)thought;
}

static void on_begin(void *user, const char *name, size_t n)
{
    text_put(user, "<<");
    text_add(user, name, n);
    text_put(user, ">>");
}

static void on_arguments(void *user, const char *json, size_t n)
{
    text_add(user, json, n);
}

/* What is found in a reply fed in parts of `part` bytes behind the first `first` ones. */
static void expect(
    enum call_style style, const json_t *tools, const char *reply, size_t first, size_t part, const char *expected)
{
    struct text seen = {0};
    struct call_sink sink = {on_text, on_begin, on_arguments, &seen};
    struct call_parser p;
    size_t n = strlen(reply);
    calls_init(&p, style, tools);
    for (size_t at = 0, next; at < n; at = next) {
        next = at < first ? first : at + part;
        if (next > n) next = n;
        calls_feed(&p, reply + at, next - at, &sink);
    }
    calls_end(&p, &sink);
    calls_free(&p);
    assert_false(seen.failed);
    assert_string_equal(seen.bytes ? seen.bytes : "", expected);
    text_free(&seen);
}

static void expect_always(enum call_style style, const json_t *tools, const char *reply, const char *expected)
{
    for (size_t first = 1; first <= strlen(reply); first++) expect(style, tools, reply, first, SIZE_MAX / 2, expected);
    expect(style, tools, reply, 1, 1, expected);
    expect(style, tools, reply, 1, 3, expected);
}

static void hermes(void **state)
{
    (void)state;
    expect_always(CALLS_HERMES, NULL, "No call here, 1 < 2.", "No call here, 1 < 2.");
    expect_always(CALLS_HERMES, NULL,
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome}\\\"\", \"days\": [1, {\"a\": "
        "2}]}}\n</tool_call>",
        "<<weather>>{\"city\": \"Rome}\\\"\", \"days\": [1, {\"a\": 2}]}");
    expect_always(CALLS_HERMES, NULL,
        "I look.\n\n<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"arguments\": "
        "{\"x\": 1}, "
        "\"name\": \"b\"}\n</tool_call>\n",
        "I look.<<a>>{}<<b>>{\"x\": 1}");
    expect_always(CALLS_HERMES, NULL, "<tool_call>{\"name\": \"a\"}</tool_call> done", "<<a>>{} done");
    expect_always(CALLS_HERMES, NULL, "<tool_call>{\"name\": \"a\", \"arguments\": \"{\\\"x\\\": 1}\"}</tool_call>",
        "<<a>>{\"x\": 1}");
    /* What is no call is told as it is. */
    expect_always(CALLS_HERMES, NULL, "<tool_call>nothing</tool_call>", "nothing</tool_call>");
    expect_always(CALLS_HERMES, NULL, "a <tool_cal", "a <tool_cal");
    expect_always(CALLS_HERMES, NULL, "ends\n\n", "ends\n\n");
    expect_always(
        CALLS_HERMES, NULL, "<tool_call>{\"name\": \"cut\", \"arguments\": {\"x\": [1,", "<<cut>>{\"x\": [1,");
}

static void qwen_xml(void **state)
{
    (void)state;
    json_t *tools =
        json_loads("[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\", "
                   "\"properties\": {\"zip\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}}}}}]",
            0, NULL);
    assert_non_null(tools);
    expect_always(CALLS_HERMES, tools,
        "<tool_call>\n<function=f>\n<parameter=zip>\n01234\n</parameter>\n<parameter=n>\n5\n</"
        "parameter>\n<parameter=code>\n"
        "if a < b:\n  \"x\"\n</parameter>\n</function>\n</tool_call>",
        "<<f>>{\"zip\": \"01234\", \"n\": 5, \"code\": \"if a < b:\\n  \\\"x\\\"\"}");
    expect_always(CALLS_HERMES, tools, "Well.\n<function=g>\n</function>\n</tool_call>", "Well.<<g>>{}");
    expect_always(CALLS_HERMES, tools,
        "<tool_call>\n<function=a>\n<parameter=x>\n[1, "
        "2]\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=b>\n"
        "</function>\n</tool_call>",
        "<<a>>{\"x\": [1, 2]}<<b>>{}");
    json_decref(tools);
}

static void llama(void **state)
{
    (void)state;
    expect_always(CALLS_LLAMA, NULL, "{\"name\": \"f\", \"parameters\": {\"x\": \"1;2\"}}", "<<f>>{\"x\": \"1;2\"}");
    expect_always(CALLS_LLAMA, NULL,
        "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {\"a\": null}}",
        "<<f>>{}<<g>>{\"a\": null}");
    expect_always(CALLS_LLAMA, NULL, "{\"answer\": 5}", "{\"answer\": 5}");
    expect_always(CALLS_LLAMA, NULL, "It is {\"name\": \"f\"}", "It is {\"name\": \"f\"}");
    /* An object counts at the start and right behind a call, wherever the text is cut. */
    expect_always(CALLS_LLAMA, NULL,
        "{\"name\": \"f\", \"parameters\": {}} a;{}.<|python_tag|>{\"name\": \"g\", \"parameters\": {}}",
        "<<f>>{} a;{}.<<g>>{}");
}

static void mistral(void **state)
{
    (void)state;
    expect_always(CALLS_MISTRAL, NULL,
        "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"x\": [1]}, \"id\": \"abc\"}, {\"name\": \"g\", "
        "\"arguments\": {}}]",
        "<<f>>{\"x\": [1]}<<g>>{}");
    expect_always(CALLS_MISTRAL, NULL,
        "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"x\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
        "<<f>>{\"x\": 1}<<g>>{}");
    expect_always(CALLS_MISTRAL, NULL, "Sure.[TOOL_CALLS]f[ARGS]{\"x\": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}",
        "Sure.<<f>>{\"x\": 1}<<g>>{}");
}

static void harmony(void **state)
{
    (void)state;
    expect_always(CALLS_HARMONY, NULL,
        "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
        "<|constrain|>json<|message|>{\"x\": 1}<|call|>",
        "Think.<<f>>{\"x\": 1}");
    expect_always(CALLS_HARMONY, NULL, "<|channel|>final<|message|>4 < 5<|return|>", "4 < 5");
    expect_always(CALLS_HARMONY, NULL, "plain <|x|>", "plain <|x|>");
    /* The prompt ends in <|start|>assistant, which a recipient may follow, or where the answer begins. */
    expect_always(CALLS_HARMONY, NULL, " to=functions.f<|channel|>commentary json<|message|>{\"x\": 1}<|call|>",
        "<<f>>{\"x\": 1}");
    expect_always(CALLS_HARMONY, NULL, " to=you", " to=you");
    expect_always(CALLS_HARMONY, NULL,
        "Wait.<|end|><|start|>assistant<|channel|>commentary to=functions.f<|message|>{}", "Wait.<<f>>{}");
    expect_always(CALLS_HARMONY, NULL, "Wait.<|channel|>commentary to=functions.f<|message|>{}", "Wait.<<f>>{}");
    expect_always(CALLS_HARMONY, NULL, "<|channel|>final<|message|>cut <|en", "cut <|en");
}

static void gemma(void **state)
{
    (void)state;
    expect_always(CALLS_GEMMA, NULL,
        "<|tool_call>call:f{city:<|\"|>Rome, "
        "{it}<|\"|>,n:3,on:true,list:[<|\"|>a<|\"|>,{b:1.5}]}<tool_call|><|tool_call>call:g{}"
        "<tool_call|>",
        "<<f>>{\"city\": \"Rome, {it}\", \"n\": 3, \"on\": true, \"list\": [\"a\", {\"b\": 1.5}]}<<g>>{}");
    expect_always(CALLS_GEMMA, NULL, "<start_function_call>call:f{a:<escape>x<escape>}<end_function_call>",
        "<<f>>{\"a\": \"x\"}");
    expect_always(CALLS_GEMMA, NULL, "<|tool_call>call:f{a:<|\"|>x}<tool_call|>", "call:f{a:<|\"|>x}<tool_call|>");
    expect_always(CALLS_GEMMA, NULL, "<|tool_call>call:f{a b}", "call:f{a b}");
    /* What is cut short is told as far as it is known, as other families' calls are. */
    expect_always(CALLS_GEMMA, NULL, "<|tool_call>call:f", "call:f");
    expect_always(CALLS_GEMMA, NULL, "<|tool_call>call:f{", "<<f>>{");
    expect_always(CALLS_GEMMA, NULL, "<|tool_call>call:f{}", "<<f>>{}");
    expect_always(CALLS_GEMMA, NULL, "<|tool_call>call:f{a:<|\"|>\"R<|", "<<f>>{\"a\": \"\\\"R");
    expect_always(CALLS_GEMMA, NULL, "<|tool_call>call:f{n:3,list:[1,23", "<<f>>{\"n\": 3, \"list\": [1, ");
}

/* A reply that ends anywhere behind its first brace begins the same call with the same arguments. */
static void gemma_cut_anywhere(void **state)
{
    static const char reply[] =
        "<|tool_call>call:f{city:<|\"|>R\"o<|\"|>,<|\"|>k k<|\"|>:true,l:[<|\"|>a<|\"|>,{b:1.5}]}";
    static const char whole[] = "<<f>>{\"city\": \"R\\\"o\", \"k k\": true, \"l\": [\"a\", {\"b\": 1.5}]}";
    (void)state;
    for (size_t n = (size_t)(strchr(reply, '{') - reply) + 1, last = 0; n < sizeof reply; n++) {
        struct text seen = {0};
        struct call_sink sink = {on_text, on_begin, on_arguments, &seen};
        struct call_parser p;
        calls_init(&p, CALLS_GEMMA, NULL);
        calls_feed(&p, reply, n, &sink);
        calls_end(&p, &sink);
        calls_free(&p);
        assert_true(seen.n >= 6 && seen.n >= last && seen.n < sizeof whole);
        assert_memory_equal(seen.bytes, whole, seen.n);
        last = seen.n;
        if (n == sizeof reply - 1) assert_string_equal(seen.bytes, whole);
        text_free(&seen);
    }
}

static void styles(void **state)
{
    (void)state;
    assert_int_equal(calls_style("{% if tools %}<tool_call>{% endif %}"), CALLS_HERMES);
    assert_int_equal(calls_style("{% if tools %}[TOOL_CALLS]{% endif %}"), CALLS_MISTRAL);
    assert_int_equal(calls_style("<tool_call>"), CALLS_NONE);
    assert_int_equal(calls_style(NULL), CALLS_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hermes), cmocka_unit_test(qwen_xml), cmocka_unit_test(llama),
        cmocka_unit_test(mistral), cmocka_unit_test(harmony), cmocka_unit_test(gemma),
        cmocka_unit_test(gemma_cut_anywhere), cmocka_unit_test(styles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
