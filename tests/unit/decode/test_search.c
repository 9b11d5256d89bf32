/* SPDX-License-Identifier: MIT
 *
 * Search policies on tables, and answers in canonical spelling.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "decode/search/answer.h"
#include "decode/search/policy.h"

enum { MAX = 16 };

/* Candidates 0.. with these scores; then children must be as given. */
static void check(const struct search_settings *set, struct search_candidate *c, int n, const int *children)
{
    search_allocate(set, c, n);
    for (int i = 0; i < n; i++)
        if (c[i].children != children[i])
            fail_msg("candidate %d has %d children, not %d", i, c[i].children, children[i]);
}

static void fill(struct search_candidate *c, int n, const double *score)
{
    for (int i = 0; i < n; i++) c[i] = (struct search_candidate){.id = i, .score = score[i]};
}

static void beams(void **state)
{
    (void)state;
    struct search_settings set = {.method = SEARCH_BEAM, .width = 6, .expand = 3};
    struct search_candidate c[MAX];
    fill(c, 6, (const double[]){.1, .9, .3, .8, .2, .3});
    check(&set, c, 6, (const int[]){0, 3, 0, 3, 0, 0});
    fill(c, 6, (const double[]){.5, .5, .5, .5, .5, .5}); /* ties to the lower id */
    check(&set, c, 6, (const int[]){3, 3, 0, 0, 0, 0});
    fill(c, 6, (const double[]){.1, .9, .3, .8, .2, .3}); /* a finished one keeps its rank and leaves its rows */
    c[1].finished = true;
    check(&set, c, 6, (const int[]){0, 0, 0, 6, 0, 0});
    c[3].finished = true; /* both best are finished: over */
    check(&set, c, 6, (const int[]){0, 0, 0, 0, 0, 0});
    fill(c, 6, (const double[]){.1, .9, .9, .8, .2, .3}); /* duplicates do not go on, nor take a rank */
    c[2].duplicate = true;
    check(&set, c, 6, (const int[]){0, 3, 0, 3, 0, 0});
    fill(c, 6, (const double[]){.1, .9, .3, .4, .2, .3}); /* far below the best: its rows go to the best */
    set.prune_below = .5f;
    check(&set, c, 6, (const int[]){0, 6, 0, 0, 0, 0});
    set = (struct search_settings){.method = SEARCH_BEAM, .width = 7, .expand = 3};
    fill(c, 3, (const double[]){.1, .9, .3});
    check(&set, c, 3, (const int[]){0, 4, 3});
}

static void subtrees(void **state)
{
    (void)state;
    struct search_settings set = {.method = SEARCH_DVTS, .width = 6, .expand = 3};
    struct search_candidate c[MAX];
    fill(c, 6, (const double[]){.1, .2, .3, .8, .9, .7});
    for (int i = 0; i < 6; i++) c[i].group = i / 3;
    check(&set, c, 6, (const int[]){0, 0, 3, 0, 3, 0});
}

static void shares(void **state)
{
    (void)state;
    struct search_settings set = {.method = SEARCH_REBASE, .width = 8, .temperature = .1f};
    struct search_candidate c[MAX];
    fill(c, 3, (const double[]){.5, .5, .5});
    check(&set, c, 3, (const int[]){3, 3, 2});
    fill(c, 3,
        (const double[]){.1, .9, .8}); /* weights e^-8, 1, e^-1: 8 x .731 and 8 x .269 rounded up, in rank order */
    check(&set, c, 3, (const int[]){0, 6, 2});
    c[1].finished = true;
    check(&set, c, 3, (const int[]){0, 0, 8});
}

static void rewards(void **state)
{
    (void)state;
    struct search_reward r = search_reward_none();
    assert_true(search_reward_score(&r, SEARCH_MIN) == 0);
    search_reward_add(&r, .5);
    search_reward_add(&r, .25);
    search_reward_add(&r, .75);
    assert_true(search_reward_score(&r, SEARCH_LAST) == .75);
    assert_true(search_reward_score(&r, SEARCH_MIN) == .25);
    assert_true(search_reward_score(&r, SEARCH_PRODUCT) == .09375);
    assert_true(search_reward_score(&r, SEARCH_MEAN) == .5);
}

static void choices(void **state)
{
    (void)state;
    const struct search_final f[] = {
        {0, "7", .2}, {1, "8", .9}, {2, "7", .3}, {3, "", .99}, {4, "8", .1}, {5, "9", .95}};
    assert_int_equal(search_choose(SEARCH_VOTE, f, 6), 0);     /* 7 and 8 tie: 7 was first */
    assert_int_equal(search_choose(SEARCH_WEIGHTED, f, 6), 1); /* 8: 1.0 */
    assert_int_equal(search_choose(SEARCH_BEST, f, 6), 3);
    assert_int_equal(search_choose(SEARCH_VOTE, f, 0), -1);
    const struct search_final none[] = {{0, NULL, .2}, {1, "", .9}};
    assert_int_equal(search_choose(SEARCH_VOTE, none, 2), 0);
    assert_int_equal(search_choose(SEARCH_WEIGHTED, none, 2), 1);
    assert_false(search_decided(f, 3, 1)); /* 7: 2, 8: 1, one to come: 8 could draw level */
    assert_true(search_decided(f, 3, 0));
    const struct search_final sure[] = {{0, "7", 0}, {1, "7", 0}, {2, "8", 0}, {3, "7", 0}};
    assert_true(search_decided(sure, 4, 1));
    assert_false(search_decided(sure, 4, 2));
}

static void answers(void **state)
{
    (void)state;
    static const struct {
        const char *text, *answer;
    } cases[] = {
        {"5 + 3 = 8.\n#### 8", "8"},
        {"#### 1,234.50\nmore", "1234.5"},
        {"so \\boxed{42} then \\boxed{{x}+1}", "{x}+1"},
        {"The answer is $18.", "18"},
        {"we get 3 and then -7.", "-7"},
        {"no number", ""},
        {"", ""},
        {"#### ", ""},
        {"\\boxed{12", "12"},
    };
    char out[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(search_answer(cases[i].text, out, sizeof out), strlen(cases[i].answer));
        assert_string_equal(out, cases[i].answer);
    }
    assert_int_equal(search_answer("#### 123456", out, 4), 3);
    assert_string_equal(out, "123");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beams),
        cmocka_unit_test(subtrees),
        cmocka_unit_test(shares),
        cmocka_unit_test(rewards),
        cmocka_unit_test(choices),
        cmocka_unit_test(answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
