/* SPDX-License-Identifier: MIT
 *
 * Time.  Every wait in Lutra goes through a `struct clock`, so that an executor can run in real time or in the
 * virtual time of a test or a model of a phone, with the same code.
 *
 *     struct clock clock = clock_real();
 *     uint64_t deadline_us = clock_now_us(clock) + 500;
 *
 * A clock is a small value: copy it freely.  Allocates nothing; any thread.
 */
#ifndef LUTRA_BASE_CLOCK_H
#define LUTRA_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CLOCK_NEVER_US UINT64_MAX

struct clock {
    uint64_t (*now_us)(void *state);
    void (*sleep_until)(void *state, uint64_t when_us);
    void *state;
};

/* CLOCK_MONOTONIC; its zero is arbitrary. */
struct clock clock_real(void);

/* Time that moves only by sleeping on it or by clock_virtual_advance. */
struct virtual_time {
    _Atomic uint64_t now_us;
};

/* `time` must outlive every copy of the clock. */
struct clock clock_virtual(struct virtual_time *time);
void clock_virtual_advance(struct virtual_time *time, uint64_t by_us);

uint64_t clock_now_us(struct clock clock);

/* Returns at once when `when_us` has passed. */
void clock_sleep_until(struct clock clock, uint64_t when_us);
void clock_sleep_us(struct clock clock, uint64_t us);

/* Predicted wait, then poll [HETERO 4.3]: sleeps until expect_us, then asks ready(arg) again and again, every us at
 * first, later at intervals of 1/16 of the time since, at most 64 us.  Returns LUTRA_OK when ready, LUTRA_E_DEADLINE
 * when deadline_us passes first (ready is asked once more after it); CLOCK_NEVER_US = no deadline. */
int clock_wait(struct clock clock, bool (*ready)(void *arg), void *arg, uint64_t expect_us, uint64_t deadline_us);

#endif
