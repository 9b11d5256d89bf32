/* SPDX-License-Identifier: MIT
 *
 * Waits with an expectation, in virtual time: late by little, asked seldom, whatever a device did before.  Real ones:
 * bench/sched/.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sched/waits.h"

enum { LAYERS = 40 };

/* A device that is done at a time. */
struct late {
    struct device device;
    struct clock clock;
    atomic_uint_least64_t done_us;
    int n_asked, n_waited;
};

static bool is_done(struct device *self, const struct ticket *ticket)
{
    struct late *l = (struct late *)self;
    (void)ticket;
    l->n_asked++;
    return clock_now_us(l->clock) >= atomic_load(&l->done_us);
}

static int wait_for(struct device *self, const struct ticket *ticket, struct lutra_error *err)
{
    struct late *l = (struct late *)self;
    (void)ticket;
    l->n_waited++;
    if (atomic_load(&l->done_us) == CLOCK_NEVER_US) return lutra_fail(err, LUTRA_E_DEVICE_LOST, "late ends nothing");
    clock_sleep_until(l->clock, atomic_load(&l->done_us));
    return 0;
}

static const struct device_ops late_ops = {.done = is_done, .wait = wait_for};
static struct plan plan;
static struct waits waits;

/* Pieces 0 .. LAYERS - 1, of one kind each second. */
static void open_late(struct late *l, struct clock clock, enum wait_mode mode)
{
    *l = (struct late){.device = {.ops = &late_ops, .name = "late"}, .clock = clock};
    plan = (struct plan){.device = {&l->device}, .n_device = 1, .n_piece = LAYERS};
    for (int p = 0; p < LAYERS; p++) plan.piece[p].like = p % 2;
    waits_init(&waits, clock, mode);
}

/* Submits piece p, which takes `us`, and waits; returns how late the wait ended. */
static uint64_t wait_once(struct late *l, int p, uint64_t us)
{
    struct ticket ticket = {&l->device, 1};
    struct lutra_error err = {0};
    atomic_store(&l->done_us, clock_now_us(l->clock) + us);
    l->n_asked = 0;
    waits_submitted(&waits, p);
    assert_int_equal(waits_for(&waits, &plan, p, &ticket, &err), 0);
    return clock_now_us(l->clock) - atomic_load(&l->done_us);
}

static void the_layer_before_says_how_long(void **state)
{
    struct virtual_time time = {1000};
    struct late l;
    (void)state;
    open_late(&l, clock_virtual(&time), WAIT_PREDICT);
    waits_begin(&waits, &plan, 1);
    for (int p = 0; p < LAYERS; p++) {
        uint64_t us = (p % 2 ? 2500 : 400) + (uint64_t)(p % 5), late = wait_once(&l, p, us);
        if (p < 2) continue; /* nothing is known of its kind */
        assert_in_range(late, 0, 2);
        assert_in_range(l.n_asked, 1, us / 16 + 10); /* not before the last sixteenth of the wait */
    }
}

/* Shorter now, by much: nobody sleeps 2 ms for what takes 0.2, again and again. */
static void what_got_shorter_is_learnt(void **state)
{
    struct virtual_time time = {1000};
    struct late l;
    uint64_t late = 0;
    (void)state;
    open_late(&l, clock_virtual(&time), WAIT_PREDICT);
    waits_begin(&waits, &plan, 1);
    for (int i = 0; i < 4; i++) wait_once(&l, 0, 2000);
    for (int i = 0; i < 30; i++) late = wait_once(&l, 0, 200);
    assert_in_range(late, 0, 2);
}

/* Longer once: the next is not slept for as long. */
static void one_long_wait_spoils_nothing(void **state)
{
    struct virtual_time time = {1000};
    struct late l;
    (void)state;
    open_late(&l, clock_virtual(&time), WAIT_PREDICT);
    waits_begin(&waits, &plan, 1);
    for (int i = 0; i < 4; i++) wait_once(&l, 0, 500);
    wait_once(&l, 0, 90000);
    assert_in_range(wait_once(&l, 0, 500), 0, 65);
    for (int i = 0; i < 3; i++) wait_once(&l, 0, 500);
    assert_in_range(wait_once(&l, 0, 500), 0, 2);
}

static void other_rows_are_another_expectation(void **state)
{
    struct virtual_time time = {1000};
    struct late l;
    (void)state;
    open_late(&l, clock_virtual(&time), WAIT_PREDICT);
    waits_begin(&waits, &plan, 512);
    for (int i = 0; i < 4; i++) wait_once(&l, 0, 90000);
    waits_begin(&waits, &plan, 1);
    assert_in_range(wait_once(&l, 0, 300), 0, 20);
}

static void modes_and_a_device_that_is_gone(void **state)
{
    struct virtual_time time = {1000};
    struct late l;
    struct lutra_error err = {0};
    enum wait_mode mode;
    struct ticket ticket = {&l.device, 1};
    (void)state;
    assert_int_equal(waits_mode_named("poll", &mode, &err), 0);
    assert_int_equal(mode, WAIT_POLL);
    assert_int_equal(waits_mode_named("sleep", &mode, &err), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(err.what, "'sleep'"));
    open_late(&l, clock_virtual(&time), WAIT_BLOCK);
    waits_begin(&waits, &plan, 1);
    wait_once(&l, 0, 300);
    assert_int_equal(l.n_asked, 0);
    assert_int_equal(l.n_waited, 1);
    for (int i = 0; i < 4; i++) { /* polled and predicted, known and not: the device says that it is lost, and soon */
        open_late(&l, clock_virtual(&time), i % 2 ? WAIT_POLL : WAIT_PREDICT);
        waits_begin(&waits, &plan, 1);
        for (int k = 0; k < 3 && i > 1; k++) wait_once(&l, 0, 9000);
        atomic_store(&l.done_us, CLOCK_NEVER_US);
        l.n_waited = 0;
        waits_submitted(&waits, 0);
        uint64_t start = clock_now_us(l.clock);
        assert_int_equal(waits_for(&waits, &plan, 0, &ticket, &err), LUTRA_E_DEVICE_LOST);
        assert_non_null(strstr(err.what, "late"));
        assert_int_equal(l.n_waited, 1);
        assert_in_range(clock_now_us(l.clock) - start, WAIT_POLL_US, WAIT_POLL_US + 9000 + 200);
    }
    open_late(&l, clock_virtual(&time), WAIT_PREDICT); /* one that takes longer than polling lasts is not lost */
    waits_begin(&waits, &plan, 1);
    wait_once(&l, 0, 3 * WAIT_POLL_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_layer_before_says_how_long),
        cmocka_unit_test(what_got_shorter_is_learnt), cmocka_unit_test(one_long_wait_spoils_nothing),
        cmocka_unit_test(other_rows_are_another_expectation), cmocka_unit_test(modes_and_a_device_that_is_gone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
