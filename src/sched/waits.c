/* SPDX-License-Identifier: MIT
 *
 * Waits with an expectation.
 */
#include "sched/waits.h"

#include <string.h>

/* A sleep ends 1/16 of the wait before the expected end: what waits and sleeps vary by, and it costs few looks. */
enum { EARLY_SHARE = 16, EARLY_MOST_US = 400, LONGER_US = 10, LATE_MOST_US = 200 };

void waits_init(struct waits *waits, struct clock clock, enum wait_mode mode)
{
    memset(waits, 0, sizeof *waits);
    waits->clock = clock;
    waits->mode = mode;
}

int waits_mode_named(const char *name, enum wait_mode *out, struct lutra_error *err)
{
    static const char *const names[] = {"predict", "poll", "block"};
    for (int i = 0; i < 3; i++) {
        *out = (enum wait_mode)i;
        if (!strcmp(name, names[i])) return 0;
    }
    return lutra_fail(err, LUTRA_E_ARGUMENT, "sync '%s' is not known (predict, poll, block are)", name);
}

void waits_begin(struct waits *waits, const struct plan *plan, int n_row)
{
    if (waits->plan != plan || waits->n_row != n_row) memset(waits->took_us, 0, sizeof waits->took_us);
    memset(waits->idle_us, 0, sizeof waits->idle_us);
    waits->n_pass++;
    waits->plan = plan;
    waits->n_row = n_row;
}

void waits_submitted(struct waits *waits, int piece)
{
    if (waits) waits->begun_us[piece] = clock_now_us(waits->clock);
}

struct question {
    struct device *device;
    const struct ticket *ticket;
    int n; /* how often it was asked */
};

static bool is_done(void *arg)
{
    struct question *q = arg;
    q->n++;
    return q->device->ops->done(q->device, q->ticket);
}

static int poll_until(struct clock clock, struct question *q, uint64_t end_us)
{
    while (!is_done(q)) {
        uint64_t now = clock_now_us(clock);
        if (now >= end_us) return LUTRA_E_DEADLINE;
        clock_sleep_until(clock, now + 1);
    }
    return 0;
}

/* What a wait teaches.  Over at the first look: it was over sooner, who knows when, and the next sleep is shorter.  A
 * wait that was much longer than the last is as likely the machine's noise: sleeping too long costs time, sleeping too
 * short costs polls. */
static void learn(uint64_t *took_us, uint64_t us, bool at_first_look)
{
    uint64_t most = *took_us + *took_us / 8 + LONGER_US;
    if (at_first_look)
        us = us * 7 / 8 < *took_us || !*took_us ? us * 7 / 8 : *took_us;
    else if (*took_us && us > most)
        us = most;
    *took_us = us;
}

/* Sleeps until when_us, or a little before: as much as the last sleeps were longer than asked for. */
static void sleep_until(struct waits *waits, uint64_t when_us)
{
    uint64_t late_us = waits->late_8us / 8, now = clock_now_us(waits->clock);
    if (when_us <= now + late_us) return;
    clock_sleep_until(waits->clock, when_us - late_us);
    now = clock_now_us(waits->clock) - (when_us - late_us);
    waits->late_8us += (now < LATE_MOST_US ? now : LATE_MOST_US) - late_us;
}

static void wait_expecting(struct waits *waits, struct device *d, int p, const struct ticket *ticket)
{
    const struct plan_piece *piece = &waits->plan->piece[p];
    struct question q = {d, ticket, 0};
    uint64_t *took_us = &waits->took_us[piece->like], start_us = waits->begun_us[p], now = clock_now_us(waits->clock);
    if (start_us < waits->idle_us[piece->device]) start_us = waits->idle_us[piece->device];
    uint64_t end_us = now + *took_us + WAIT_POLL_US, early_us = *took_us / EARLY_SHARE;
    if (early_us > EARLY_MOST_US) early_us = EARLY_MOST_US;
    int rc = waits->mode == WAIT_PREDICT ? 0 : poll_until(waits->clock, &q, end_us);
    if (waits->mode == WAIT_PREDICT && !is_done(&q)) {
        if (*took_us > early_us) sleep_until(waits, start_us + *took_us - early_us);
        /* Around the expected end it is asked without a pause: one that sleeps comes back too late. */
        rc = poll_until(waits->clock, &q, start_us + *took_us + early_us);
        if (rc < 0) rc = clock_wait(waits->clock, is_done, &q, 0, end_us);
    }
    waits->idle_us[piece->device] = clock_now_us(waits->clock);
    if (rc == 0) learn(took_us, waits->idle_us[piece->device] - start_us, q.n <= 2);
}

int waits_for(
    struct waits *waits, const struct plan *plan, int piece, const struct ticket *ticket, struct lutra_error *err)
{
    struct device *d = plan->device[plan->piece[piece].device];
    if (waits && waits->mode != WAIT_BLOCK && d->ops->done && ticket->id) wait_expecting(waits, d, piece, ticket);
    return d->ops->wait(d, ticket, err);
}
