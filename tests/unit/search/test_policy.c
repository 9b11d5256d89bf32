/* SPDX-License-Identifier: MIT
 *
 * Search policies on tables, and answers in canonical spelling.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "search/answer.h"
#include "search/budget.h"
#include "search/policy.h"

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
    c[1].duplicate = true; /* equal finished ones have one rank */
    check(&set, c, 6, (const int[]){0, 0, 6, 0, 0, 0});
    fill(c, 6, (const double[]){.1, .9, .9, .8, .2, .3}); /* duplicates do not go on, nor take a rank */
    c[2].duplicate = true;
    check(&set, c, 6, (const int[]){0, 3, 0, 3, 0, 0});
    fill(c, 6, (const double[]){.1, .9, .3, .4, .2, .3}); /* far below the best: its rows go to the best */
    set.prune_below = .5f;
    check(&set, c, 6, (const int[]){0, 6, 0, 0, 0, 0});
    set = (struct search_settings){.method = SEARCH_BEAM, .width = 7, .expand = 3};
    fill(c, 3, (const double[]){.1, .9, .3});
    check(&set, c, 3, (const int[]){0, 4, 3});
    set = (struct search_settings){.method = SEARCH_BEAM, .width = 6, .expand = 1, .prune_below = .1f};
    fill(c, 6, (const double[]){.1, .9, .3, .8, .05, .8}); /* all beginnings but the hopeless and the repeated */
    c[5].duplicate = true;
    check(&set, c, 6, (const int[]){1, 2, 1, 2, 0, 0});
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

/* Digits, a sign, a point, a slash and nothing else. */
static bool answer_is_number(const char *text)
{
    return *text && strspn(text, "0123456789.-/") == strlen(text);
}

static const struct {
    const char *text, *answer;
} answer_cases[] = {
    /* where it stands */
    {"5 + 3 = 8.\n#### 8", "8"},
    {"#### 1,234.50\nmore", "1234.5"},
    {"#### 3\nno:\n#### 4 ", "4"},
    {"so \\boxed{42} then \\boxed{{x}+1}", "{x}+1"},
    {"\\boxed{\\frac{\\sqrt{3}}{\\text{a}}} and 7", "\\frac{\\sqrt{3}}{a}"},
    {"thus $\\boxed 5$.", "5"},
    {"\\boxed{12", "12"},
    {"The answer is $18.", "18"},
    {"The Answer is: 3.5 apples. It was 7 before.", "3.5"},
    {"Answer: 12 because 3 * 4 = 12", "12"},
    {"**Answer:**\n  7", "7"},
    {"we get 3 and then -7.", "-7"},
    {"10-7 leaves 3/4 of 12-9", "9"},
    {"it is 1/2, or so.", "0.5"},
    {"no number", ""},
    {"", ""},
    {"#### ", ""},
    {"\\boxed{}", ""},
    /* numbers */
    {"#### $1,200.00", "1200"},
    {"#### 1{,}234", "1234"},
    {"#### 007", "7"},
    {"#### -0", "0"},
    {"#### +5", "5"},
    {"#### .50", "0.5"},
    {"#### -.5", "-0.5"},
    {"#### \xe2\x88\x92"
     "3",
        "-3"},
    {"#### 50%", "50"},
    {"#### 50\\%", "50"},
    {"#### 12.", "12"},
    {"#### 1.2e3", "1200"},
    {"#### 1.2 \\times 10^{3}", "1200"},
    {"#### 3*10^-2", "0.03"},
    {"#### 12345678901234567890123", "12345678901234567890123"},
    {"#### \\frac{1}{2}", "0.5"},
    {"#### \\dfrac12", "0.5"},
    {"#### \\tfrac{ 2 }{ 4 }", "0.5"},
    {"#### -\\frac{2}{6}", "-1/3"},
    {"#### \\frac{-1}{3}", "-1/3"},
    {"#### 2/6", "1/3"},
    {"#### 6/3", "2"},
    {"#### 3\\frac{1}{2}", "3.5"},
    {"#### 3 1/2", "3.5"},
    {"#### -1 1/3", "-4/3"},
    {"#### 5/0", "5/0"},
    /* words, units and dressing */
    {"#### 12 apples", "12"},
    {"#### 12 square cm", "12"},
    {"#### 5\\text{ cm}^2", "5"},
    {"#### 5cm", "5"},
    {"#### 60 km/h", "60"},
    {"#### 90^\\circ", "90"},
    {"#### 90^{\\circ}", "90"},
    {"#### about 15 dollars", "15"},
    {"#### x = 5", "5"},
    {"#### $x=5$", "5"},
    {"#### 5x", "5x"},
    {"#### 5x + 3", "5x+3"},
    {"#### 2\\pi", "2\\pi"},
    {"#### 3:4", "3:4"},
    {"#### \\left( 3, \\frac{\\pi}{2} \\right)", "(3,\\frac{\\pi}{2})"},
    {"#### (0.50, 1/3)", "(0.5,1/3)"},
    {"#### 1, -2", "1,-2"},
    {"#### 1,2", "1,2"},
    {"#### \\sqrt2 \\leftarrow", "\\sqrt{2}\\leftarrow"},
    {"#### \\text{Friday}.", "friday"},
    {"#### Yes", "yes"},
    /* choices */
    {"#### (B)", "B"},
    {"#### \\text{(B)}", "B"},
    {"#### B.", "B"},
    {"#### C) 12 apples", "C"},
    {"The answer is (D) because 3 > 2.", "D"},
};

static void answers(void **state)
{
    (void)state;
    char out[64];
    for (size_t i = 0; i < sizeof answer_cases / sizeof *answer_cases; i++) {
        size_t n = search_answer(answer_cases[i].text, out, sizeof out);
        if (strcmp(out, answer_cases[i].answer) || n != strlen(out))
            fail_msg("'%s': '%s' instead of '%s'", answer_cases[i].text, out, answer_cases[i].answer);
    }
    assert_int_equal(search_answer("#### 123456", out, 4), 3);
    assert_string_equal(out, "123");
    assert_int_equal(search_answer("#### 123456", NULL, 0), 0);
}

/* Random texts from pieces that mean something here: no byte outside the buffer, and numbers keep their spelling when
 * they are read again. */
static void answers_of_noise(void **state)
{
    (void)state;
    static const char *const pieces[] = {"####", "\\boxed{", "\\frac", "{", "}", "1", "0", "23", ".", ",", "-", "/",
        "e", "\\times 10^{", "\\text{", "(", ")", " ", "\\", "x", "B", "answer is", "\n", "=", "\xc2\xbd", "\xff",
        "000000000000", "\\left", "$", "%"};
    uint32_t random = 12345;
    char text[4096], out[300], again[300] = "";
    for (int round = 0; round < 20000; round++) {
        size_t n = 0;
        random = random * 1664525 + 1013904223;
        for (int left = 1 + (int)(random >> 20) % (round % 100 ? 24 : 600); left > 0; left--) {
            random = random * 1664525 + 1013904223;
            const char *piece = pieces[(random >> 16) % (sizeof pieces / sizeof *pieces)];
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", piece);
            if (n > sizeof text - 32) break;
        }
        memset(out, 'z', sizeof out);
        size_t room = 1 + (random >> 8) % 256, length = search_answer(text, out, room);
        assert_true(length < room && strlen(out) == length && out[room] == 'z');
        if (length + 1 == room) continue; /* cut */
        for (int i = 0; i < 2; i++) {     /* what reads like a number now is spelt as one from then on */
            snprintf(text, sizeof text, "#### %s", i ? again : out);
            search_answer(text, i ? out : again, sizeof again);
        }
        if (answer_is_number(again) && strcmp(out, again)) fail_msg("'%s' becomes '%s'", again, out);
    }
}

static void likelihoods(void **state)
{
    (void)state;
    assert_true(search_likelihood(0) == 1);
    assert_true(search_likelihood(1e-9) == 1); /* rounding */
    assert_true(search_likelihood(-1e9) == 0);
    assert_true(search_likelihood(0.0 / 0.0) == 0);
    double half = search_likelihood(-0.6931471805599453);
    assert_true(half > 0.4999999 && half < 0.5000001);
}

/* The best of a table within these means; -1: none. */
static int pick(const struct search_option *table, int n, struct search_means means)
{
    int best = -1;
    for (int i = 0; i < n; i++)
        if (search_option_fits(&table[i], &means) && (best < 0 || search_option_better(&table[i], &table[best])))
            best = i;
    return best;
}

static void what_a_budget_buys(void **state)
{
    static const struct search_option table[] = {
        {SEARCH_VOTE, 1, 1, true, 50, 10, .59},
        {SEARCH_VOTE, 4, 1, false, 190, 25, .54},
        {SEARCH_BEST, 4, 1, false, 190, 40, .66},
        {SEARCH_BEAM, 4, 2, false, 185, -1, .66},
        {SEARCH_BEST, 64, 1, false, 3000, 400, .80},
    };
    (void)state;
    struct search_means means = {.verifier = true, .max_width = 64, .max_beam = 16};
    means.tokens = 49;
    assert_int_equal(pick(table, 5, means), -1);
    means.tokens = 184;
    assert_int_equal(pick(table, 5, means), 0);
    means.tokens = 1000; /* as accurate with fewer tokens */
    assert_int_equal(pick(table, 5, means), 3);
    means.max_beam = 3;
    assert_int_equal(pick(table, 5, means), 2);
    means.tokens = 3000;
    assert_int_equal(pick(table, 5, means), 4);
    means.max_width = 63;
    assert_int_equal(pick(table, 5, means), 2);
    means.verifier = false;
    assert_int_equal(pick(table, 5, means), 0);
    means = (struct search_means){.us = 40, .verifier = true, .max_width = 64, .max_beam = 16};
    assert_int_equal(pick(table, 5, means), 2); /* what nobody has timed does not fit */
    assert_int_equal(search_option_unmeasured(&means).method, SEARCH_WEIGHTED);
    means.verifier = false;
    assert_int_equal(search_option_unmeasured(&means).method, SEARCH_VOTE);

    assert_int_equal(search_wave(100, 10, 30, 99), 8); /* one of 30, seven of 10 */
    assert_int_equal(search_wave(29, 10, 30, 99), 0);
    assert_int_equal(search_wave(100, 10, 30, 5), 5);
    assert_int_equal(search_wave(-5, 0, 0, 5), 0);
    assert_int_equal(search_wave(1e18, 0, 0, 5), 5);

    assert_int_equal(search_within((const int[]){5, 5, 0, 5}, 4, 10), 3);
    assert_int_equal(search_within((const int[]){5, 5, 0, 5}, 4, 15), 4);
    assert_int_equal(search_within((const int[]){5}, 1, 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(likelihoods),
        cmocka_unit_test(what_a_budget_buys),
        cmocka_unit_test(beams),
        cmocka_unit_test(subtrees),
        cmocka_unit_test(shares),
        cmocka_unit_test(rewards),
        cmocka_unit_test(choices),
        cmocka_unit_test(answers),
        cmocka_unit_test(answers_of_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
