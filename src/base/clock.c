/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/compiler.h"
#include "base/status.h"

/* A sleep this short is a loop: a thread that is put aside comes back later than that. */
enum { POLL_MAX_US = 64, POLL_SHARE = 16, LOOP_US = 4 };

static uint64_t real_now(void *state)
{
    struct timespec t;
    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* The kernel wakes a thread up to its timer slack late, 50 us unless told otherwise. */
static void real_sleep(void *state, uint64_t when_us)
{
    struct timespec t = {.tv_sec = (time_t)(when_us / 1000000u), .tv_nsec = (long)(when_us % 1000000u) * 1000};
    uint64_t now = real_now(state);
    if (when_us <= now) return;
    if (when_us - now <= LOOP_US) {
        while (real_now(state) < when_us) compiler_pause();
        return;
    }
    int slack_ns = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
    if (slack_ns > 0) prctl(PR_SET_TIMERSLACK, slack_ns, 0, 0, 0);
}

struct clock clock_real(void)
{
    return (struct clock){.now_us = real_now, .sleep_until = real_sleep};
}

static uint64_t virtual_now(void *state)
{
    struct virtual_time *time = state;
    return atomic_load(&time->now_us);
}

/* Several threads may sleep at once: time never goes back. */
static void virtual_sleep(void *state, uint64_t when_us)
{
    struct virtual_time *time = state;
    uint64_t now = atomic_load(&time->now_us);
    while (now < when_us && !atomic_compare_exchange_weak(&time->now_us, &now, when_us)) {
    }
}

struct clock clock_virtual(struct virtual_time *time)
{
    return (struct clock){.now_us = virtual_now, .sleep_until = virtual_sleep, .state = time};
}

void clock_virtual_advance(struct virtual_time *time, uint64_t by_us)
{
    atomic_fetch_add(&time->now_us, by_us);
}

uint64_t clock_now_us(struct clock clock)
{
    return clock.now_us(clock.state);
}

void clock_sleep_until(struct clock clock, uint64_t when_us)
{
    clock.sleep_until(clock.state, when_us);
}

void clock_sleep_us(struct clock clock, uint64_t us)
{
    uint64_t now = clock_now_us(clock);
    clock_sleep_until(clock, us > CLOCK_NEVER_US - now ? CLOCK_NEVER_US : now + us);
}

int clock_wait(struct clock clock, bool (*ready)(void *arg), void *arg, uint64_t expect_us, uint64_t deadline_us)
{
    uint64_t begin_us = clock_now_us(clock);
    if (expect_us > begin_us) begin_us = expect_us;
    clock_sleep_until(clock, expect_us < deadline_us ? expect_us : deadline_us);
    while (!ready(arg)) {
        uint64_t now = clock_now_us(clock);
        if (now >= deadline_us) return ready(arg) ? LUTRA_OK : LUTRA_E_DEADLINE;
        uint64_t pause_us = now > begin_us ? 1 + (now - begin_us) / POLL_SHARE : 1;
        if (pause_us > POLL_MAX_US) pause_us = POLL_MAX_US;
        clock_sleep_until(clock, deadline_us - now < pause_us ? deadline_us : now + pause_us);
    }
    return LUTRA_OK;
}
