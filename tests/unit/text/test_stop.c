/* SPDX-License-Identifier: MIT
 *
 * Strings that end a text: the first in it, and the ends that may begin one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "text/stop.h"

static void the_first_place_counts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *stop[3];
        int found;
        size_t at;
    } cases[] = {{"a, b. c", {".", ",", "c"}, 1, 1}, {"a. b.", {"b", "."}, 1, 1}, {"END", {"EN", "END"}, 0, 0},
        {"END", {"END", "EN"}, 0, 0}, {"nothing", {"x", "not ", "gg"}, -1, 7}, {"", {"x"}, -1, 0},
        {"abc", {NULL}, -1, 3}, {"aab", {"ab"}, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = 0;
        size_t at = 99;
        while (n < 3 && cases[i].stop[n]) n++;
        assert_int_equal(text_stop_find(cases[i].stop, n, cases[i].text, strlen(cases[i].text), &at), cases[i].found);
        assert_int_equal(at, cases[i].at);
    }
}

static void what_may_begin_one_is_held(void **state)
{
    (void)state;
    static const struct {
        const char *text, *stop[2];
        size_t held;
    } cases[] = {{"say EN", {"END"}, 2}, {"say E", {"END", "say EX"}, 5}, {"say END", {"END"}, 0}, {"EE", {"EEE"}, 2},
        {"EEE", {"EEE"}, 2}, {"x", {"x"}, 0}, {"", {"END"}, 0}, {"ab", {NULL}, 0},
        {"m\xc3\xa9", {"\xa9x"}, 2} /* the whole character waits */};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = 0;
        while (n < 2 && cases[i].stop[n]) n++;
        assert_int_equal(text_stop_may_begin(cases[i].stop, n, cases[i].text, strlen(cases[i].text)), cases[i].held);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_place_counts), cmocka_unit_test(what_may_begin_one_is_held)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
