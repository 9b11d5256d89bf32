/* SPDX-License-Identifier: MIT
 *
 * base/pace: the number of threads follows what gets the most done, in a world where that is known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/pace.h"

enum { N_MOST = 8, RUN_US = 500 };

/* What n threads get done in a us, and the share of their time that they lose. */
struct world {
    double rate[N_MOST + 1], lost[N_MOST + 1];
};

/* Runs of RUN_US until `us` have passed; the share of the time that went by with n threads. */
static double share_of(struct pace *p, const struct world *w, double us, int n)
{
    double with_n = 0;
    for (double at = 0; at < us; at += RUN_US) {
        int now = pace_threads(p);
        assert_in_range(now, 1, N_MOST);
        with_n += now == n ? RUN_US : 0;
        pace_note(p, w->rate[now] * RUN_US, RUN_US, w->lost[now] * now * RUN_US);
    }
    return with_n / us;
}

static const struct world idle = {{0, 1, 1.9, 2.7, 3.4, 4, 4.5, 5, 5.4}, {0}};
static const struct world small_model = {{0, 1, .4, .3, .25, .2, .2, .2, .2}, {0, 0, .6, .6, .7, .8, .8, .8, .8}};
static const struct world large_model = {{0, 1, 1.5, 2, 2.4, 2.8, 3.1, 3.3, 3.5}, {0, .3, .4, .4, .4, .4, .4, .4, .4}};
static const struct world dear_barriers = {{0, 1, 1.2, 1.1, 1, .9, .8, .7, .6}, {0}};
static const struct world little = {{0, 1, 1.2}, {0, 0, .4}};
static const struct world half_taken = {{0, 1, 1.9, 2.7, 3.4, 2, 2, 2, 2}, {0, 0, 0, 0, .1, .5, .5, .5, .5}};

static void test_an_idle_machine_is_left_alone(void **state)
{
    struct pace p;
    (void)state;
    pace_init(&p, N_MOST);
    share_of(&p, &idle, 2e6, N_MOST);
    assert_true(share_of(&p, &idle, 100e6, N_MOST) > .998); /* trials of fewer are very rare */
}

static void test_threads_that_do_not_pay_are_given_up_on_an_idle_machine(void **state)
{
    struct pace p;
    (void)state;
    pace_init(&p, N_MOST);
    share_of(&p, &dear_barriers, 2e6, 1);
    assert_true(share_of(&p, &dear_barriers, 10e6, 2) > .95);
}

/* More of the others' processors than they are worth: a fifth more done, two fifths of it lost. */
static void test_threads_are_not_taken_from_others_for_little(void **state)
{
    struct pace p;
    (void)state;
    pace_init(&p, 2);
    share_of(&p, &little, 2e6, 1);
    assert_true(share_of(&p, &little, 10e6, 1) > .95);
}

static void test_waiting_threads_are_given_up_and_tried_again(void **state)
{
    struct pace p;
    (void)state;
    pace_init(&p, N_MOST);
    share_of(&p, &small_model, 2e6, 1);
    assert_true(share_of(&p, &small_model, 10e6, 1) > .95); /* trials of more are rare */
    share_of(&p, &idle, 10e6, N_MOST);
    assert_true(share_of(&p, &idle, 10e6, N_MOST) > .98); /* and find out when the others have gone */
}

static void test_waiting_that_pays_is_kept(void **state)
{
    struct pace p;
    (void)state;
    pace_init(&p, N_MOST);
    share_of(&p, &large_model, 2e6, N_MOST);
    assert_true(share_of(&p, &large_model, 10e6, N_MOST) > .95);
}

static void test_half_of_the_threads(void **state)
{
    struct pace p;
    (void)state;
    pace_init(&p, N_MOST);
    share_of(&p, &half_taken, 2e6, 4);
    assert_true(share_of(&p, &half_taken, 10e6, 4) > .95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_idle_machine_is_left_alone),
        cmocka_unit_test(test_threads_that_do_not_pay_are_given_up_on_an_idle_machine),
        cmocka_unit_test(test_threads_are_not_taken_from_others_for_little),
        cmocka_unit_test(test_waiting_threads_are_given_up_and_tried_again),
        cmocka_unit_test(test_waiting_that_pays_is_kept),
        cmocka_unit_test(test_half_of_the_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
