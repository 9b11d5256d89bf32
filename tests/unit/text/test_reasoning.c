/* SPDX-License-Identifier: MIT
 *
 * Reasoning told apart, wherever the text is cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "text/reasoning.h"

/* The parts of a text that comes `step` bytes at a time: "m<think>r..a..". */
static void parts(const struct text_tags *tags, bool inside, const char *text, size_t step, char out[256])
{
    struct text_reasoning r;
    enum text_part part, last = (enum text_part) - 1;
    size_t n = strlen(text), from = 0, n_out = 0, k;
    text_reasoning_begin(&r, tags, inside);
    for (size_t to = 0; to < n;) {
        to = to + step < n ? to + step : n;
        while ((k = text_reasoning_next(&r, text + from, to - from, to == n, &part)) > 0) {
            if (part != last) n_out += (size_t)snprintf(out + n_out, 256 - n_out, "%c:", "arm"[part]);
            n_out += (size_t)snprintf(out + n_out, 256 - n_out, "%.*s", (int)k, text + from);
            last = part;
            from += k;
        }
        assert_true(to - from <= TEXT_REASONING_HELD);
    }
    assert_int_equal(from, n);
    out[n_out] = 0;
}

static void tags_divide_a_text_wherever_it_is_cut(void **state)
{
    (void)state;
    static const struct {
        const char *chat_template, *text, *parts;
        bool inside;
    } cases[] = {
        {"</think>", "<think>\nhm\n</think>\n\nyes", "m:<think>\nr:hm\nm:</think>\n\na:yes", false},
        {"</think>", "\n<think>hm</think>yes <think>b</think>", "m:\n<think>r:hmm:</think>a:yes <think>b</think>",
            false},
        {"</think>", "hm </thin </think> yes", "r:hm </thin m:</think> a:yes", true},
        {"</think>", " \nhm", "m: \nr:hm", true},
        {"</think>", "<think></think>yes", "m:<think></think>a:yes", false},
        {"</think>", "<thinly> hm</think>", "a:<thinly> hm</think>", false},
        {"</think>", "<think>hm </th", "m:<think>r:hm </th", false},
        {"</think>", "<thi", "a:<thi", false},
        {"</think>", "<think", "a:<think", false},
        {"</think>", "                  <think>hm</think>", "a:                  <think>hm</think>", false},
        {"</think>", "yes", "a:yes", false},
        {"[/THINK]", "[THINK]é[/THINK]è", "m:[THINK]r:ém:[/THINK]a:è", false},
        {"{{ m }}", "<think>hm</think>yes", "a:<think>hm</think>yes", false},
        {NULL, "<think>hm</think>yes", "a:<think>hm</think>yes", false},
        {"</think>", "<think>a</think>\n<think>b</think>\nyes", "m:<think>r:am:</think>\n<think>r:bm:</think>\na:yes",
            false},
        {"</think>", "<think>a</think>\n<thi", "m:<think>r:am:</think>\na:<thi", false},
        /* Gemma 4: the label is no reasoning */
        {"<channel|>", "<|channel>thought\nhm<channel|>yes", "m:<|channel>thought\nr:hmm:<channel|>a:yes", false},
        {"<channel|>", "<|channel>though", "m:<|channel>r:though", false},
        {"<channel|>", "<|channel>thoughts<channel|>yes", "m:<|channel>r:thoughtsm:<channel|>a:yes", false},
        {"<channel|>", "thought\nhm<channel|>yes", "m:thought\nr:hmm:<channel|>a:yes", true},
        {"<channel|>", "yes", "a:yes", false},
        /* gpt-oss: messages on channels */
        {"<|channel|>analysis",
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes",
            "m:<|channel|>analysis<|message|>r:hmm:<|end|><|start|>assistant<|channel|>final<|message|>a:yes", false},
        {"<|channel|>analysis", "<|channel|>final<|message|>yes <|en", "m:<|channel|>final<|message|>a:yes <|en",
            false},
        {"<|channel|>analysis",
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b",
            "m:<|channel|>analysis<|message|>r:am:<|end|><|start|>assistant<|channel|>analysis<|message|>r:b", false},
        {"<|channel|>analysis",
            "<|channel|>commentary<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
            "m:<|channel|>commentary<|message|>a:am:<|end|><|start|>assistant<|channel|>final<|message|>a:b", false},
        {"<|channel|>analysis", "<|channel|>analysis", "m:<|channel|>analysis", false},
        {"<|channel|>analysis", "<|channel|>anal", "m:<|channel|>anal", false},
        {"<|channel|>analysis", "hm<|end|><|start|>assistant<|channel|>final<|message|>yes",
            "r:hmm:<|end|><|start|>assistant<|channel|>final<|message|>a:yes", true},
        {"<|channel|>analysis", "yes <|channel|>analysis<|message|>", "a:yes <|channel|>analysis<|message|>", false},
        {"<|channel|>analysis", "<|ch", "a:<|ch", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step <= 32; step++) {
            char got[256] = "";
            parts(text_reasoning_tags(cases[i].chat_template), cases[i].inside, cases[i].text, step, got);
            assert_string_equal(got, cases[i].parts);
        }
}

static void a_prompt_may_open_it(void **state)
{
    (void)state;
    const struct text_tags *tags = text_reasoning_tags("... </think> ...");
    assert_true(text_reasoning_opened(tags, "assistant\n<think>\n", 18));
    assert_true(text_reasoning_opened(tags, "<think>", 7));
    assert_false(text_reasoning_opened(tags, "<think>\n\n</think>\n\n", 19));
    assert_false(text_reasoning_opened(tags, "think>", 6));
    assert_false(text_reasoning_opened(tags, "", 0));
    assert_false(text_reasoning_opened(NULL, "<think>", 7));
    tags = text_reasoning_tags("... <channel|> ...");
    assert_true(text_reasoning_opened(tags, "<|channel>", 10));
    assert_true(text_reasoning_opened(tags, "<|channel>thought\n", 18));
    assert_false(text_reasoning_opened(tags, "<|channel>thought\n<channel|>", 28));
    tags = text_reasoning_tags("... <|channel|>analysis<|message|> ...");
    assert_true(text_reasoning_opened(tags, "<|start|>assistant<|channel|>analysis<|message|>", 48));
    assert_false(text_reasoning_opened(tags, "<|start|>assistant", 18));
}

/* A grammar does not see a header, nor reasoning. */
static void what_is_before_the_answer(void **state)
{
    (void)state;
    struct text_reasoning r;
    enum text_part part;
    text_reasoning_begin(&r, text_reasoning_tags("<|channel|>analysis"), false);
    assert_true(text_reasoning_is_before(&r));
    assert_false(text_reasoning_goes_on(&r));
    assert_int_equal(text_reasoning_next(&r, "<|channel|>analysis", 19, false, &part), 19);
    assert_true(text_reasoning_is_before(&r));
    assert_int_equal(text_reasoning_next(&r, "<|message|>", 11, false, &part), 11);
    assert_true(text_reasoning_goes_on(&r));
    assert_int_equal(text_reasoning_next(&r, "<|end|>", 7, false, &part), 7);
    assert_true(text_reasoning_is_before(&r));
    assert_int_equal(text_reasoning_next(&r, "<|message|>", 11, false, &part), 11);
    assert_false(text_reasoning_is_before(&r));
    text_reasoning_begin(&r, text_reasoning_tags("</think>"), false);
    assert_false(text_reasoning_is_before(&r));
    text_reasoning_begin(&r, NULL, false);
    assert_false(text_reasoning_is_before(&r));
}

/* Control tokens without text. */
static void tags_may_be_tokens(void **state)
{
    (void)state;
    struct text_reasoning r;
    enum text_part part;
    text_reasoning_begin(&r, text_reasoning_tags("<|END_THINKING|>"), false);
    text_reasoning_token(&r, "<|END_THINKING|>", 16); /* nothing to end */
    text_reasoning_token(&r, "<|START_THINKING|>", 18);
    assert_int_equal(text_reasoning_next(&r, "hm", 2, false, &part), 2);
    assert_int_equal(part, TEXT_REASONING);
    text_reasoning_token(&r, "<|START_RESPONSE|>", 18);
    text_reasoning_token(&r, "<|END_THINKING|>", 16);
    assert_int_equal(text_reasoning_next(&r, "yes", 3, false, &part), 3);
    assert_int_equal(part, TEXT_ANSWER);
    text_reasoning_begin(&r, NULL, true);
    text_reasoning_token(&r, "<think>", 7);
    assert_int_equal(text_reasoning_next(&r, "yes", 3, false, &part), 3);
    assert_int_equal(part, TEXT_ANSWER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_divide_a_text_wherever_it_is_cut),
        cmocka_unit_test(a_prompt_may_open_it),
        cmocka_unit_test(tags_may_be_tokens),
        cmocka_unit_test(what_is_before_the_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
