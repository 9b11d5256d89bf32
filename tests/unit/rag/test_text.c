/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rag/query.h"
#include "rag/text.h"

/* ---- cutting ---- */

static void expect_cut(const char *text, size_t most, const char *head)
{
    size_t n = text_cut(text, strlen(text), most);
    char got[256];
    assert_true(n < sizeof got);
    memcpy(got, text, n);
    got[n] = 0;
    assert_string_equal(got, head);
}

static void cuts_at_the_strongest_break(void **state)
{
    (void)state;
    expect_cut("short", 20, "short");
    expect_cut("One sentence. Another word here and on", 30,
        "One sentence. Another word "); /* no sentence ends in the second half */
    expect_cut("aaaa bbbb cccc. dddd eeee ffff", 24, "aaaa bbbb cccc. ");
    expect_cut("aaaa bbbb cccc.\ndddd eee. ffff gggg", 26, "aaaa bbbb cccc.\n");
    expect_cut("aaaa bbbb ccc\n\ndd\neee. ffff gggg", 22, "aaaa bbbb ccc\n\n");
    expect_cut("aaaa bbbb ccc\n# d\n\neee. ffff gggg", 22, "aaaa bbbb ccc\n");
    expect_cut("aaaabbbbccccddddeeeeffff", 10, "aaaabbbbcc");
}

static void cuts_between_characters(void **state)
{
    (void)state;
    expect_cut("\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4", 5, "\xC3\xA4\xC3\xA4");
    /* Bytes that are all continuations: no cut is good, but one comes. */
    char bad[64];
    memset(bad, 0x80, sizeof bad);
    size_t n = text_cut(bad, sizeof bad, 20);
    assert_true(n >= 1 && n <= 20);
}

static void every_text_comes_to_its_end(void **state)
{
    (void)state;
    char text[3000];
    uint64_t x = 1;
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof text; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            text[i] = "ab .\n#\xC3\xA4\x80"[x >> 60 & 7];
        }
        size_t at = 0;
        while (at < sizeof text) {
            size_t n = text_cut(text + at, sizeof text - at, 200);
            assert_true(n >= 1 && n <= 200);
            at += n;
        }
        assert_int_equal(at, sizeof text);
    }
}

/* ---- what is text ---- */

static void binary_is_refused_with_the_reason(void **state)
{
    (void)state;
    char odd[1000];
    assert_null(text_refuse("plain\ttext\r\n\x1b[1m", 16));
    assert_null(text_refuse("caf\xE9 in Latin-1", 15));
    assert_null(text_refuse("", 0));
    assert_non_null(strstr(text_refuse("a\0b", 3), "NUL"));
    memset(odd, 'a', sizeof odd);
    for (size_t i = 0; i < sizeof odd; i += 10) odd[i] = 1;
    assert_non_null(strstr(text_refuse(odd, sizeof odd), "control"));
    /* A NUL far behind is found, too. */
    static char large[1 << 20];
    memset(large, 'a', sizeof large);
    assert_null(text_refuse(large, sizeof large));
    large[sizeof large - 1] = 0;
    assert_non_null(text_refuse(large, sizeof large));
}

static void kinds_come_from_the_name_and_the_first_bytes(void **state)
{
    (void)state;
    assert_int_equal(text_kind_guess("a/b.MD", "", 0), TEXT_MARKDOWN);
    assert_int_equal(text_kind_guess("b.htm", "", 0), TEXT_HTML);
    assert_int_equal(text_kind_guess("b", " \n<!DOCTYPE html><p>", 19), TEXT_HTML);
    assert_int_equal(text_kind_guess("b", "\xEF\xBB\xBF<HTML>", 9), TEXT_HTML);
    assert_int_equal(text_kind_guess("b", "<htm", 4), TEXT_PLAIN);
    assert_int_equal(text_kind_guess("html", "x", 1), TEXT_PLAIN);
}

static void ill_formed_utf8_becomes_replacement_characters(void **state)
{
    (void)state;
    struct text t = {0};
    text_add_utf8(&t, "a\xE9 b\xE2\x82", 6);
    assert_string_equal(t.bytes, "a\xEF\xBF\xBD b\xEF\xBF\xBD");
    text_fini(&t);
}

/* ---- HTML ---- */

static bool have_html(void)
{
    struct text t = {0};
    int rc = text_of_html("x", "<p>x", 4, &t, NULL);
    text_fini(&t);
    if (rc == LUTRA_E_UNSUPPORTED) skip();
    return rc == 0;
}

static void expect_html(const char *html, const char *text)
{
    struct text t = {0};
    struct lutra_error err = {0};
    assert_int_equal(text_of_html("x.html", html, strlen(html), &t, &err), 0);
    assert_string_equal(t.bytes ? t.bytes : "", text);
    text_fini(&t);
}

static void html_becomes_text(void **state)
{
    (void)state;
    assert_true(have_html());
    expect_html("<html><head><title>T</title><style>p {}</style></head><body><h2>Head</h2><p>One  two\nthree "
                "<b>bold</b>.<p>Next<br>line<script>var x;</script>",
        "T\n\n## Head\n\nOne two three bold.\n\nNext\nline");
    expect_html("<ul><li>a<li>b</ul><table><tr><td>1<td>2<tr><td>3</table>", "- a\n- b\n\n1 2\n3");
    expect_html("<pre>  keep\n    this</pre>", "  keep\n    this");
    expect_html("a &lt;b&gt; &amp; caf&eacute; &#x1F600;", "a <b> & caf\xC3\xA9 \xF0\x9F\x98\x80");
    expect_html("", "");
    expect_html("<template>no<p>no</template>yes", "yes");
    expect_html("</p></div></div>text", "text");
}

static void html_is_read_in_its_charset(void **state)
{
    (void)state;
    assert_true(have_html());
    expect_html("<meta charset=iso-8859-1><p>caf\xE9", "caf\xC3\xA9");
    expect_html("<meta http-equiv='Content-Type' content='text/html; charset=windows-1252'>\x80 5", "\xE2\x82\xAC 5");
    expect_html("<meta charset=iso-8859-1><p>caf\xC3\xA9", "caf\xC3\xA9"); /* it is UTF-8, and only says otherwise */
    expect_html("<p>caf\xE9 one<p>two", "caf\xC3\xA9 one\n\ntwo");         /* as Windows-1252 */
    expect_html("<meta charset=nonsense><p>caf\xE9 one<p>two", "caf\xC3\xA9 one\n\ntwo");
    expect_html("<p>caf\xE9 \xC3\xA9 \xC3\xA4", "caf\xEF\xBF\xBD \xC3\xA9 \xC3\xA4"); /* damaged UTF-8 */
    struct text t = {0};
    struct lutra_error err = {0};
    const char *bad = "<meta charset=shift_jis><p>a\x83\xFF\xFF z";
    assert_int_equal(text_of_html("bad.html", bad, strlen(bad), &t, &err), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "bad.html: HTML with bytes that its charset 'shift_jis' does not have"));
    text_fini(&t);
}

/* Many of one thing: time and memory stay in proportion, or it is refused by name. */
static void html_bombs_are_bounded(void **state)
{
    (void)state;
    static const char *const units[] = {"<div>", "<a href=x>", "<p><b>", "</b>", "<table><tr>", "&lt;", "<!--",
        "<!-- x", "<", "<x y=\"", "<![CDATA[", "<script>", "<!ENTITY a \"b\">", "&#x41;", "<li>", "<select><option>"};
    assert_true(have_html());
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        struct text all = {0}, t = {0};
        struct lutra_error err = {0};
        while (all.n < 400000) text_add(&all, units[u], strlen(units[u]));
        int rc = text_of_html("bomb.html", all.bytes, all.n, &t, &err);
        if (rc < 0) assert_non_null(strstr(err.what, "bomb.html"));
        assert_true(t.n <= all.n * 5 + 100);
        text_fini(&all);
        text_fini(&t);
    }
}

static void deep_html_is_refused_by_name(void **state)
{
    (void)state;
    struct text all = {0}, t = {0};
    struct lutra_error err = {0};
    assert_true(have_html());
    for (int i = 0; i < 100000; i++) text_add(&all, "<div>", 5);
    assert_int_equal(text_of_html("deep.html", all.bytes, all.n, &t, &err), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "deep.html: HTML elements nested more than"));
    text_fini(&all);
    text_fini(&t);
}

static void mutated_html_does_no_harm(void **state)
{
    (void)state;
    static const char seed[] =
        "<!DOCTYPE html><html><head><meta charset='utf-8'><title>a&amp;b</title></head><body class=x>"
        "<h1>H</h1><pre>x\n y</pre><ul><li>1<li>2</ul><script>s</script><p>caf\xC3\xA9 <i>i</i></body>";
    char html[sizeof seed];
    uint64_t x = 7;
    assert_true(have_html());
    for (int round = 0; round < 20000; round++) {
        memcpy(html, seed, sizeof seed);
        for (int k = 0; k < 4; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            html[(x >> 33) % (sizeof seed - 1)] = "<>/&;!-\"' a\x80\xC3x"[(x >> 20) % 15];
        }
        struct text t = {0};
        struct lutra_error err = {0};
        text_of_html("x", html, sizeof seed - 1 - (x >> 50) % 40, &t, &err);
        text_fini(&t);
    }
}

/* ---- queries ---- */

static void expect_query(const char *text, const char *phrases)
{
    struct query q;
    char got[512] = "";
    assert_true(query_read(&q, text, strlen(text)));
    for (int i = 0; i < q.n; i++) {
        strcat(got, i ? " " : "");
        strcat(got, q.text.bytes + q.phrase[i]);
    }
    assert_string_equal(got, phrases);
    query_fini(&q);
}

static void queries_have_no_syntax(void **state)
{
    (void)state;
    expect_query("The the THE cat", "\"the\" \"cat\"");
    expect_query("a AND b OR NOT (c) NEAR/2 text:d e*",
        "\"a\" \"and\" \"b\" \"or\" \"not\" \"c\" \"near\" \"2\" \"text\" \"d\" \"e\"");
    expect_query("say \"hi\" now", "\"say\" \"hi\" \"now\"");
    expect_query("don't -x- file_name.txt. 3.40.1", "\"don't\" \"x\" \"file_name.txt\" \"3.40.1\"");
    expect_query(" \t\n ", "");
    expect_query("a\xFF"
                 "b",
        "\"a\" \"b\"");
    expect_query("don\xE2\x80\x99t \xC2\xAB"
                 "Z\xC3\xBCrich\xC2\xBB \xE2\x80\x94 FOO",
        "\"don\xE2\x80\x99t\" \"zurich\" \"foo\"");
    expect_query("\xE6\x9D\xB1\xE4\xBA\xAC\xE9\x83\xBD", "\"\xE6\x9D\xB1\xE4\xBA\xAC\" \"\xE4\xBA\xAC\xE9\x83\xBD\"");
    expect_query("x\xE6\x9D\xB1y", "\"x\" \"\xE6\x9D\xB1\" \"y\"");
    expect_query("x\xE6\x9D\xB1", "\"x\" \"\xE6\x9D\xB1\"");
}

static void queries_are_bounded(void **state)
{
    (void)state;
    struct text t = {0};
    struct query q;
    char word[32];
    for (int i = 0; i < 5000; i++) text_add(&t, word, (size_t)sprintf(word, "w%d ", i));
    assert_true(query_read(&q, t.bytes, t.n));
    assert_int_equal(q.n, QUERY_PHRASES_MAX);
    query_fini(&q);
    t.n = 0;
    for (int i = 0; i < 100000; i++) text_add(&t, "\xC3\xA4", 2);
    assert_true(query_read(&q, t.bytes, t.n));
    assert_true(q.n <= QUERY_PHRASES_MAX && q.text.n < 100 * QUERY_WORD_BYTES * QUERY_PHRASES_MAX);
    query_fini(&q);
    text_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_at_the_strongest_break),
        cmocka_unit_test(cuts_between_characters),
        cmocka_unit_test(every_text_comes_to_its_end),
        cmocka_unit_test(binary_is_refused_with_the_reason),
        cmocka_unit_test(kinds_come_from_the_name_and_the_first_bytes),
        cmocka_unit_test(ill_formed_utf8_becomes_replacement_characters),
        cmocka_unit_test(html_becomes_text),
        cmocka_unit_test(html_is_read_in_its_charset),
        cmocka_unit_test(html_bombs_are_bounded),
        cmocka_unit_test(deep_html_is_refused_by_name),
        cmocka_unit_test(mutated_html_does_no_harm),
        cmocka_unit_test(queries_have_no_syntax),
        cmocka_unit_test(queries_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
