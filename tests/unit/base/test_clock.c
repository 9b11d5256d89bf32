/* SPDX-License-Identifier: MIT
 *
 * base/clock: real time moves forward and sleeps long enough; virtual time moves only when told; waits end in time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"

static void test_real(void **state)
{
    struct clock clock = clock_real();
    uint64_t start_us = clock_now_us(clock);
    (void)state;
    clock_sleep_us(clock, 2000);
    uint64_t slept_us = clock_now_us(clock) - start_us;
    assert_true(slept_us >= 2000 && slept_us < 10000000);
    clock_sleep_until(clock, start_us); /* long past: returns */
}

static void test_virtual(void **state)
{
    struct virtual_time time = {5};
    struct clock clock = clock_virtual(&time);
    (void)state;
    assert_int_equal(clock_now_us(clock), 5);
    clock_sleep_us(clock, 1000000000);
    assert_int_equal(clock_now_us(clock), 1000000005);
    clock_sleep_until(clock, 7); /* does not go back */
    assert_int_equal(clock_now_us(clock), 1000000005);
    clock_virtual_advance(&time, 10);
    assert_int_equal(clock_now_us(clock), 1000000015);
}

struct device {
    struct clock clock;
    uint64_t ready_us;
    int n_poll;
};

static bool device_ready(void *arg)
{
    struct device *d = arg;
    d->n_poll++;
    return clock_now_us(d->clock) >= d->ready_us;
}

static void test_wait(void **state)
{
    struct virtual_time time = {0};
    struct device d = {.clock = clock_virtual(&time), .ready_us = 1000};
    (void)state;
    /* A right guess costs one poll. */
    assert_int_equal(clock_wait(d.clock, device_ready, &d, 1000, CLOCK_NEVER_US), LUTRA_OK);
    assert_int_equal(d.n_poll, 1);
    assert_int_equal(clock_now_us(d.clock), 1000);

    /* A low guess is made up for by polling, at most 64 us late. */
    d.ready_us = 3000;
    assert_int_equal(clock_wait(d.clock, device_ready, &d, 2500, 9000), LUTRA_OK);
    assert_in_range(clock_now_us(d.clock), 3000, 3064);

    /* Never ready: the deadline, exactly, even when the guess is later. */
    d.ready_us = CLOCK_NEVER_US;
    assert_int_equal(clock_wait(d.clock, device_ready, &d, 3500, 5001), LUTRA_E_DEADLINE);
    assert_int_equal(clock_now_us(d.clock), 5001);
    assert_int_equal(clock_wait(d.clock, device_ready, &d, 9000, 6000), LUTRA_E_DEADLINE);
    assert_int_equal(clock_now_us(d.clock), 6000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real),
        cmocka_unit_test(test_virtual),
        cmocka_unit_test(test_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
