/* SPDX-License-Identifier: MIT
 *
 * Exact rules: Countdown on the cases that tools/train's rule is tested on, too; equations; text of any bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "search/rule.h"

/* Lines `1|question|solution`: does it hold?  A line feed of the solution is a `;` there. */
static void countdown_as_in_training(void **state)
{
    (void)state;
    static char line[1024];
    int n = 0;
    FILE *f = fopen(LUTRA_SOURCE_DIR "/tests/golden/countdown_rule.txt", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *question = line + 2, *text = strchr(question, '|');
        *text++ = 0;
        for (char *p = text; *p; p++)
            if (*p == ';') *p = '\n';
        if (search_rule_countdown(question, text, true) != (*line == '1')) fail_msg("%s\n%s", line, text);
        n++;
    }
    fclose(f);
    assert_true(n > 300);
}

static void countdown_so_far(void **state)
{
    (void)state;
    const char *q = "Use 3, 25, 7, 12 to make 54.";
    assert_true(search_rule_countdown(q, "", false));
    assert_true(search_rule_countdown(q, "25-7=18\n", false));
    assert_true(search_rule_countdown(q, "25-7=18\n12*3=36\n", false));
    assert_false(search_rule_countdown(q, "25-7=18\n12*3=36\n", true));
    assert_false(search_rule_countdown(q, "25-7=19\n", false));
    assert_false(search_rule_countdown(q, "25-7=18\n25-3=22\n", false));
    assert_false(search_rule_countdown("no numbers", "1+1=2", true));
    assert_false(search_rule_countdown("7", "", false));
    assert_true(search_rule_countdown("4 and 2: 2", "4/2=2", true));
    assert_false(search_rule_countdown("1 99999999999999999999 5", "1+4=5", true));
    assert_true(search_rule_countdown(
        "9223372036854775807 1 9223372036854775806", "9223372036854775807-1=9223372036854775806", true));
    assert_false(search_rule_countdown("9223372036854775807 1 5", "9223372036854775807+1=5", true));
    assert_false(
        search_rule_countdown("1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "", false));
}

static void equations(void **state)
{
    (void)state;
    static const char *const hold[] = {"1 + 1 = 2", "3 * 4 = 12.\n12 / 8 = 1.5.\n#### 1.5", "1/3 + 1/6 = 0.5",
        "0.1 + 0.2 = 0.3", "2 * (3 + 4) = 14 = 28 / 2", "-(2 - 5) = 3", "We add.\n2+2=4\nDone.",
        "1000000 * 1000000 = 1000000000000", "7 = 7 \r\n", "2 - -2 = 4"};
    static const char *const fail[] = {"", "no equation", "1 + 1 = 3", "1 + 1 = ", "= 2", "1 / 3 = 0.333", "1 / 0 = 1",
        "1 + 1 = 2\n2 + 2 = 5", "x = 2", "1 + 1 = 2 apples", "(1 + 1 = 2", "1 + 1 == 2", "1 = 2 = 1",
        "9223372036854775807 + 1 = 1", "99999999999999999999 = 99999999999999999999", "1 . 5 = 1.5"};
    for (size_t i = 0; i < sizeof hold / sizeof *hold; i++)
        if (!search_rule_equation(hold[i], true)) fail_msg("'%s' does not hold", hold[i]);
    for (size_t i = 0; i < sizeof fail / sizeof *fail; i++)
        if (search_rule_equation(fail[i], true)) fail_msg("'%s' holds", fail[i]);
    assert_true(search_rule_equation("no equation yet", false));
    static char deep[4096];
    memset(deep, '(', sizeof deep - 1);
    deep[10] = '=';
    assert_false(search_rule_equation(deep, true));
    memset(deep, '-', sizeof deep - 1);
    deep[4000] = '=';
    assert_false(search_rule_equation(deep, true));
}

static void any_bytes(void **state)
{
    (void)state;
    static const char some[] = "0123456789+-*/=().\n \r\xff";
    srand(1);
    for (int i = 0; i < 200000; i++) {
        char text[40];
        int n = rand() % 39;
        for (int k = 0; k < n; k++) text[k] = some[rand() % (int)(sizeof some - 1)];
        text[n] = 0;
        search_rule_equation(text, true);
        search_rule_countdown(text, text, i % 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(countdown_as_in_training), cmocka_unit_test(countdown_so_far),
        cmocka_unit_test(equations), cmocka_unit_test(any_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
