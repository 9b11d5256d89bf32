/* SPDX-License-Identifier: MIT
 *
 * How late waits for a device end, and what they cost the waiting thread: predicted, polled, and left to the device.
 * The device is done when a time has come; that of a wait is within 2 % of the one before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "sched/waits.h"

enum { WAITS = 200, WAITS_MOST = 100000 };

struct late {
    struct device device;
    struct clock clock;
    uint64_t done_us;
};

static bool is_done(struct device *self, const struct ticket *ticket)
{
    const struct late *l = (struct late *)self;
    (void)ticket;
    return clock_now_us(l->clock) >= l->done_us;
}

static int wait_for(struct device *self, const struct ticket *ticket, struct lutra_error *err)
{
    const struct late *l = (struct late *)self;
    (void)ticket, (void)err;
    clock_sleep_until(l->clock, l->done_us);
    return 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of this thread. */
static double cpu_us(void)
{
    struct rusage r;
    getrusage(RUSAGE_THREAD, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e6 + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

/* n waits of about `us`, one row of the table. */
static void measure(enum wait_mode mode, const char *name, uint64_t us, int n, double *late)
{
    static const struct device_ops ops = {.done = is_done, .wait = wait_for};
    static struct plan plan;
    static struct waits waits;
    struct late l = {.device = {.ops = &ops, .name = "late"}, .clock = clock_real()};
    struct ticket ticket = {&l.device, 1};
    struct lutra_error err;
    double all = 0, spent = cpu_us();
    plan = (struct plan){.device = {&l.device}, .n_device = 1, .n_piece = 1};
    waits_init(&waits, l.clock, mode);
    waits_begin(&waits, &plan, 1);
    for (int i = 0; i < n; i++) {
        const uint64_t took_us = us + us * (uint64_t)(i * 7 % 5) / 200; /* 0 to 2 % more */
        waits_submitted(&waits, 0);
        l.done_us = clock_now_us(l.clock) + took_us;
        waits_for(&waits, &plan, 0, &ticket, &err);
        late[i] = (double)(clock_now_us(l.clock) - l.done_us);
        all += late[i] + (double)took_us;
    }
    spent = cpu_us() - spent;
    qsort(late, (size_t)n, sizeof *late, by_size);
    printf("%-8s %5d us  late %5.0f us (median) %5.0f (p90)  %3.0f %% of the wait in processor time\n", name, (int)us,
        late[n / 2], late[n * 9 / 10], 100 * spent / all);
}

int main(int n_arg, char **arg)
{
    static const char *const names[] = {"predict", "poll", "block"};
    static const uint64_t us[] = {200, 500, 1000, 2000, 3000};
    const int n = n_arg > 1 ? atoi(arg[1]) : WAITS;
    double *late = n > 0 && n <= WAITS_MOST ? malloc((size_t)n * sizeof *late) : NULL;
    if (!late) {
        fprintf(stderr, "usage: lutra-bench-waits [WAITS, 1 to %d]\n", WAITS_MOST);
        return 2;
    }
    for (int mode = WAIT_PREDICT; mode <= WAIT_BLOCK; mode++)
        for (size_t i = 0; i < sizeof us / sizeof *us; i++) measure((enum wait_mode)mode, names[mode], us[i], n, late);
    free(late);
    return 0;
}
