/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "text/stream.h"
#include "text/utf8.h"

/* Input and what Python's bytes.decode("utf-8", "replace") makes of it. */
static const struct {
    const char *in, *out;
} cases[] = {
    {"plain", "plain"},
    {"h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\xA6\x99!", "h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\xA6\x99!"},
    {"a\xFF"
     "b",
        "a\xEF\xBF\xBD"
        "b"},
    {"\xE2\x82", "\xEF\xBF\xBD"},
    {"\xE2\x82"
     "a",
        "\xEF\xBF\xBD"
        "a"},
    {"\xF0\x9F\xA6", "\xEF\xBF\xBD"},
    {"\xF0\x9F\xA6\xF0\x9F\xA6\x99", "\xEF\xBF\xBD\xF0\x9F\xA6\x99"},
    {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* a surrogate */
    {"\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},                                 /* overlong */
    {"\xE0\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* overlong */
    {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* above U+10FFFF */
    {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
    {"\x80\xBF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"\xC3\xC3\xA9", "\xEF\xBF\xBD\xC3\xA9"},
};

static void append(char *out, size_t *n, struct text_bytes text)
{
    assert_int_equal(text_utf8_valid(text.p, text.n), text.n);
    memcpy(out + *n, text.p, text.n);
    *n += text.n;
}

/* Every way to cut the input into pieces gives the same text, and every release is whole characters. */
static void every_split_gives_the_same_text(void **state)
{
    (void)state;
    struct text_stream *s;
    assert_int_equal(text_stream_open(&s, 64, NULL), 0);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        size_t n = strlen(cases[c].in);
        for (uint32_t cuts = 0; cuts < 1u << (n - 1); cuts++) {
            char out[128];
            size_t n_out = 0, from = 0;
            for (size_t i = 1; i <= n; i++) {
                if (i < n && !(cuts >> (i - 1) & 1)) continue;
                append(out, &n_out, text_stream_push(s, (struct text_bytes){cases[c].in + from, i - from}));
                from = i;
            }
            append(out, &n_out, text_stream_flush(s));
            assert_int_equal(n_out, strlen(cases[c].out));
            assert_memory_equal(out, cases[c].out, n_out);
        }
    }
    text_stream_close(&s);
    assert_null(s);
}

static void a_tail_is_held_back_and_copied_with_a_fork(void **state)
{
    (void)state;
    struct text_stream *a, *b;
    assert_int_equal(text_stream_open(&a, 8, NULL), 0);
    assert_int_equal(text_stream_open(&b, 8, NULL), 0);
    struct text_bytes text = text_stream_push(a, (struct text_bytes){"x\xF0\x9F", 3});
    assert_int_equal(text.n, 1);
    text_stream_copy(b, a);
    assert_int_equal(text_stream_push(a, (struct text_bytes){"\xA6\x99", 2}).n, 4);
    assert_int_equal(text_stream_flush(a).n, 0);
    assert_int_equal(text_stream_flush(b).n, 3);
    assert_int_equal(text_stream_flush(b).n, 0);
    text_stream_close(&a);
    text_stream_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_gives_the_same_text),
        cmocka_unit_test(a_tail_is_held_back_and_copied_with_a_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
