/* SPDX-License-Identifier: MIT
 *
 * The answer in texts that end as instruct models write them: answers.txt has each text and behind it a line
 * "=> answer".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "search/answer.h"

static void endings(void **state)
{
    (void)state;
    FILE *f = fopen(LUTRA_SOURCE_DIR "/tests/unit/search/answers.txt", "r");
    assert_non_null(f);
    char text[4096] = "", line[1024], out[1024];
    int n = 0, wrong = 0;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "=> ", 3)) {
            if (*text) strncat(text, "\n", sizeof text - strlen(text) - 1);
            strncat(text, line, sizeof text - strlen(text) - 1);
            continue;
        }
        search_answer(text, out, sizeof out);
        n++;
        if (strcmp(out, line + 3)) {
            print_message("'%s': '%s' instead of '%s'\n", text, out, line + 3);
            wrong++;
        }
        *text = 0;
    }
    fclose(f);
    print_message("%d endings, %d wrong\n", n, wrong);
    assert_true(n >= 300);
    assert_int_equal(wrong, 0);
}

/* Marks that hold nothing, thousands of them: work is bounded, and the answer before them stands. */
static void many_marks(void **state)
{
    (void)state;
    static const struct {
        const char *mark, *answer;
    } marks[] = {{"\\boxed{", "42"}, {"\\boxed{} ", "42"}, {"#### ", "42"}, {"<answer>", "42"}, {"answer is ", "42"},
        {"answer: ", "42"}, {"**", "42"}, {"B is correct", "B"}};
    enum { N = 100000 };
    char *text = malloc(N * 16), out[64];
    assert_non_null(text);
    for (size_t m = 0; m < sizeof marks / sizeof *marks; m++) {
        size_t n = (size_t)sprintf(text, "The answer is 42.\n"), k = strlen(marks[m].mark);
        for (int i = 0; i < N; i++, n += k) memcpy(text + n, marks[m].mark, k + 1);
        search_answer(text, out, sizeof out);
        if (strcmp(out, marks[m].answer)) fail_msg("%s: '%s'", marks[m].mark, out);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(endings), cmocka_unit_test(many_marks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
