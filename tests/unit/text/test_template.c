/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <locale.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>

#include "text/json_text.h"
#include "text/template.h"

#define NOW 1722074400 /* 27 July 2024, as in jinja_compare.py */

/* Renders; on failure the text is empty and *err says why. */
static int render(const char *source, const char *json, struct text_template_text *out, struct lutra_error *err)
{
    struct text_template *t;
    *out = (struct text_template_text){0};
    *err = (struct lutra_error){0};
    int rc = text_template_parse(&t, source, strlen(source), err);
    if (rc < 0) {
        assert_null(t);
        return rc;
    }
    json_t *variables = json_loads(json, JSON_ALLOW_NUL, NULL);
    assert_non_null(variables);
    rc = text_template_render(t, &(struct text_template_input){.variables = variables, .now = NOW}, out, err);
    json_decref(variables);
    text_template_close(&t);
    assert_null(t);
    return rc;
}

static void every_feature_gives_the_text_jinja_gives(void **state)
{
    (void)state;
    json_error_t why;
    json_t *file = json_load_file(LUTRA_SOURCE_DIR "/tests/unit/text/features.json", 0, &why), *one;
    assert_non_null(file);
    char *variables = json_dumps(json_object_get(file, "variables"), JSON_PRESERVE_ORDER);
    size_t i;
    json_array_foreach(json_object_get(file, "cases"), i, one)
    {
        struct text_template_text text;
        struct lutra_error err;
        const char *source = json_string_value(json_object_get(one, "template"));
        const json_t *want = json_object_get(one, "text");
        int rc = render(source, variables, &text, &err);
        if (want && rc < 0) fail_msg("%s: %s", source, err.what);
        if (!want && rc == 0) fail_msg("%s: should fail, gives %s", source, text.p);
        bool same = !want || (text.n == json_string_length(want) && !memcmp(text.p, json_string_value(want), text.n));
        if (!same) fail_msg("%s:\nwant %s\nhave %s", source, json_string_value(want), text.p);
        text_template_text_free(&text);
    }
    assert_true(i > 100);
    free(variables);
    json_decref(file);
}

static void failures_name_the_line_and_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        int code;
        uint64_t line;
        const char *word;
    } cases[] = {
        {"a\n\n{{ x.y }}", LUTRA_E_FORMAT, 3, "'x' is undefined"},
        {"\n{% if true %}\n{{ raise_exception('no ' ~ 'way') }}{% endif %}", LUTRA_E_FORMAT, 3, "no way"},
        {"\n{{ 1 + }}", LUTRA_E_FORMAT, 2, "expression"},
        {"\n{% if x %}\n", LUTRA_E_FORMAT, 2, "endif"},
        {"{% include 'x' %}", LUTRA_E_UNSUPPORTED, 1, "include"},
        {"\n{% for x in [1] %}{{ loop([]) }}{% endfor %}", LUTRA_E_FORMAT, 2, "recursive"},
        {"{{ '%d' % 'x' }}", LUTRA_E_FORMAT, 1, "% formatting: an integer"},
        {"{{ 'x'|hide }}", LUTRA_E_UNSUPPORTED, 1, "filter 'hide'"},
        {"\n{% for v in [] %}\n{{ v|string.find('o') }}{% endfor %}", LUTRA_E_UNSUPPORTED, 3, "filter 'string.find'"},
        {"{{ x and x is odd.or }}", LUTRA_E_UNSUPPORTED, 1, "test 'odd.or'"},
        {"{{ 9223372036854775807 + 1 }}", LUTRA_E_FORMAT, 1, "overflow"},
        {"x\xFFy", LUTRA_E_FORMAT, 1, "UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text_template_text text;
        struct lutra_error err;
        assert_int_equal(render(cases[i].source, "{}", &text, &err), cases[i].code);
        assert_int_equal(err.where, cases[i].line);
        if (!strstr(err.what, cases[i].word)) fail_msg("'%s' does not say '%s'", err.what, cases[i].word);
        assert_null(text.p);
    }
}

/* Where Jinja2 3.1.2, which features.json must suit, too, does otherwise. */
static void newer_jinja2_is_followed(void **state)
{
    (void)state;
    struct text_template_text text;
    struct lutra_error err;
    assert_int_equal(
        render("{{ 'inf'|int }}{{ '-inf'|int(7) }} {{ '@a@b.com x@b.com'|urlize }}", "{}", &text, &err), 0);
    assert_string_equal(text.p, "07 @a@b.com <a href=\"mailto:x@b.com\">x@b.com</a>");
    text_template_text_free(&text);
}

static void variables_are_what_python_makes_of_the_json(void **state)
{
    (void)state;
    static const char json[] = "{\"b\": [1, -0.5, 1e3, true, null, \"\\u00e9\\ud83e\\udd99\\n\\/\"], \"a\": {\"z\": 1, "
                               "\"y\": false}, \"b2\": [ ]}";
    struct text_template_text text;
    struct lutra_error err;
    assert_int_equal(render("{{ b }}{{ a }}{{ b2 }}", json, &text, &err), 0);
    assert_string_equal(text.p, "[1, -0.5, 1000.0, True, None, '\xC3\xA9\xF0\x9F\xA6\x99\\n/']{'z': 1, 'y': False}[]");
    text_template_text_free(&text);
    assert_int_equal(render("{{ a }}|{{ a|length }}", "{\"a\": \"x\\u0000y\"}", &text, &err), 0);
    assert_int_equal(text.n, 5);
    assert_memory_equal(text.p, "x\0y|3", 5);
    text_template_text_free(&text);
}

/* What jansson alone refuses: integers of any size, numbers beyond a double, NUL in keys; in strings they are text. */
static void numbers_and_keys_that_python_reads(void **state)
{
    (void)state;
    static const struct {
        const char *json, *source, *text;
        size_t n; /* of the text; 0: strlen */
    } cases[] = {
        {"{\"a\": 18446744073709551616}", "{{ a }} {{ a|tojson }} {{ a is number }} {{ a is integer }} {{ a == a }}",
            "18446744073709551616 18446744073709551616 True True True", 0},
        {"{\"a\": [1, -99999999999999999999, \"99999999999999999999\", {\"b\": 12345678901234567890}, 7]}",
            "{{ a|tojson }}", "[1, -99999999999999999999, \"99999999999999999999\", {\"b\": 12345678901234567890}, 7]",
            0},
        {"{\"x\": 9223372036854775807, \"y\": 9223372036854775808, \"z\": -9223372036854775808}",
            "{{ x + 0 }} {{ y }} {{ z }}", "9223372036854775807 9223372036854775808 -9223372036854775808", 0},
        {"{\"a\": [1e999, -1e999, 2], \"b\": 99999999999999999999}", "{{ a }} {{ a|tojson }} {{ b }}",
            "[inf, -inf, 2] [Infinity, -Infinity, 2] 99999999999999999999", 0},
        {"{\"k\\u0000\": 1, \"k\": 2, \"m\": {\"\\\\u0000\": 3, \"\\u0000b\": [99999999999999999999]}}",
            "{% for k in m %}{{ k }}|{% endfor %}{{ k }}", "\\u0000|\0b|2", 11},
        {"{\"a\": \"\\u00001\", \"b\": 99999999999999999999, \"99999999999999999998\": \"x:\"}", "{{ a }}{{ b }}",
            "\0"
            "199999999999999999999",
            22},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text_template *t;
        struct text_template_text text;
        struct lutra_error err;
        json_t *variables;
        if (text_json_load("test", cases[i].json, strlen(cases[i].json), 100, &variables, &err) < 0)
            fail_msg("%s", err.what);
        assert_int_equal(text_template_parse(&t, cases[i].source, strlen(cases[i].source), &err), 0);
        if (text_template_render(t, &(struct text_template_input){.variables = variables}, &text, &err) < 0)
            fail_msg("%s", err.what);
        size_t n = cases[i].n ? cases[i].n : strlen(cases[i].text);
        if (text.n != n || memcmp(text.p, cases[i].text, n) != 0) fail_msg("%s: '%s'", cases[i].json, text.p);
        text_template_text_free(&text);
        text_template_close(&t);
        json_decref(variables);
    }
    static const char *const bad[] = {"{\"a\": 99999999999999999999, \"a\": 1}", "{\"a\": 99999999999999999999",
        "{\"a\": 99999999999999999999x}", "[99999999999999999999, \"\\u12\"]", "", "{\"a\\u0000: 99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lutra_error err = {0};
        json_t *variables;
        assert_int_equal(text_json_load("test", bad[i], strlen(bad[i]), 100, &variables, &err), LUTRA_E_FORMAT);
        assert_null(variables);
        assert_non_null(strstr(err.what, "test: "));
    }
}

static void json_in_a_string_is_read(void **state)
{
    (void)state;
    struct text_template_text text;
    struct lutra_error err;
    assert_int_equal(render("{% for k, v in (a|fromjson)|items %}{{ k }}={{ v }};{% endfor %}{{ '3'|fromjson + 1 }}",
                         "{\"a\": \"{\\\"x\\\": [1, 99999999999999999999], \\\"y\\\": \\\"z\\\"}\"}", &text, &err),
        0);
    assert_string_equal(text.p, "x=[1, 99999999999999999999];y=z;4");
    text_template_text_free(&text);
    assert_int_equal(render("\n{{ a|fromjson }}", "{\"a\": \"{\"}", &text, &err), LUTRA_E_FORMAT);
    assert_non_null(strstr(err.what, "line 2: fromjson"));
}

static void variables_are_an_object_nested_not_too_deep(void **state)
{
    (void)state;
    enum { DEEP = 2000 }; /* jansson reads 2048 */
    struct text_template_text text;
    struct lutra_error err;
    assert_int_equal(render("x", "[]", &text, &err), LUTRA_E_FORMAT);
    assert_non_null(strstr(err.what, "must be an object"));
    char *deep = calloc(1, 2 * DEEP + 16);
    strcpy(deep, "{\"a\":");
    memset(deep + strlen(deep), '[', DEEP);
    memset(deep + strlen(deep), ']', DEEP);
    strcat(deep, "}");
    assert_int_equal(render("x", deep, &text, &err), LUTRA_E_FORMAT);
    assert_non_null(strstr(err.what, "nest"));
    free(deep);
}

static void time_is_what_the_caller_says(void **state)
{
    (void)state;
    struct text_template_text text;
    struct lutra_error err;
    assert_int_equal(render("{{ strftime_now('%Y') }}", "{}", &text, &err), 0);
    assert_string_equal(text.p, "2024");
    text_template_text_free(&text);
}

static void numbers_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "nb_NO.UTF-8"};
    bool comma = false;
    for (size_t i = 0; i < sizeof commas / sizeof *commas; i++) comma |= setlocale(LC_NUMERIC, commas[i]) != NULL;
    if (!comma) skip(); /* no locale with a decimal comma is installed here */
    struct text_template_text text;
    struct lutra_error err;
    assert_int_equal(render("{{ 1.5 + x }}", "{\"x\": 0.25}", &text, &err), 0);
    assert_string_equal(text.p, "1.75");
    text_template_text_free(&text);
    setlocale(LC_NUMERIC, "C");
}

/* Each would hang, or exhaust memory or the stack, without its limit. */
static void hostile_templates_end_in_an_error(void **state)
{
    (void)state;
    enum { N = 200000 };
    static char deep[N + 64];
    struct text_template_text text;
    struct lutra_error err;
    json_error_t why;
    json_t *file = json_load_file(LUTRA_SOURCE_DIR "/tests/unit/text/features.json", 0, &why), *one;
    size_t n_hostile;
    json_array_foreach(json_object_get(file, "hostile"), n_hostile, one)
    {
        clock_t start = clock();
        if (render(json_string_value(one), "{}", &text, &err) == 0) fail_msg("%s ended well", json_string_value(one));
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        if (seconds > 20) fail_msg("%s took %.1f s", json_string_value(one), seconds);
    }
    assert_true(n_hostile > 10);
    json_decref(file);
    static const char *const pairs[] = {"(", "[", "{1:", "not ", "-", "1+(", "x.y(", "a if b else ", "x is f(", "x|f(",
        "{%if x%}", "{%for x in y%}", "{%macro m()%}"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t n = strlen(pairs[i]), at = 0;
        if (pairs[i][1] != '%') at = (size_t)sprintf(deep, "{{ ");
        while (at + n < N) at += (size_t)sprintf(deep + at, "%s", pairs[i]);
        assert_true(render(deep, "{}", &text, &err) < 0);
    }
    size_t at = (size_t)sprintf(deep, "{{ 1");
    while (at + 2 < N) at += (size_t)sprintf(deep + at, "+1");
    sprintf(deep + at, " }}");
    assert_true(render(deep, "{}", &text, &err) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_feature_gives_the_text_jinja_gives),
        cmocka_unit_test(failures_name_the_line_and_the_reason),
        cmocka_unit_test(newer_jinja2_is_followed),
        cmocka_unit_test(variables_are_what_python_makes_of_the_json),
        cmocka_unit_test(numbers_and_keys_that_python_reads),
        cmocka_unit_test(json_in_a_string_is_read),
        cmocka_unit_test(variables_are_an_object_nested_not_too_deep),
        cmocka_unit_test(time_is_what_the_caller_says),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
        cmocka_unit_test(hostile_templates_end_in_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
