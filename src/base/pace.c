/* SPDX-License-Identifier: MIT */
#include "base/pace.h"

enum {
    WINDOW_US = 30000, /* several time slices of a usual scheduler */
    REST_MIN_US = 60000,
    REST_MAX_US = 2000000,
    REST_IDLE = 16,     /* times as long where nothing hints at others: a trial of fewer costs something */
    LOST_SHARE = 4,     /* a hint: more than a quarter of the threads' time is lost */
    SHORT_RUN_US = 2000 /* in which barriers alone may eat what more threads bring */
};

void pace_init(struct pace *p, int n_most)
{
    *p = (struct pace){.n_most = n_most, .n = n_most, .rest_us = REST_MIN_US};
}

int pace_threads(const struct pace *p)
{
    return p->trial ? p->trial : p->n;
}

static void begin_window(struct pace *p)
{
    p->work = p->us = p->lost_us = 0;
}

/* What this window is worth: work per us, less the share of its threads' time that was lost.  Who loses time beside
 * others took it from them, as they take it from him: where everybody adds threads as long as it helps himself, all
 * lose. */
static double worth(const struct pace *p)
{
    if (p->us <= 0) return 0;
    double lost = p->lost_us / (p->us * pace_threads(p));
    return p->work / p->us * (lost < 1 ? 1 - lost : 0);
}

/* What to try next: fewer or more, in turns where both may be. */
static int choose_trial(struct pace *p, double run_us)
{
    bool fewer = p->n > 1 && (p->busy || run_us < SHORT_RUN_US), more = p->n < p->n_most;
    if (!fewer && !more) return 0;
    p->up = more && !(fewer && p->up);
    if (!p->up) return p->n / 2;
    return 2 * p->n < p->n_most ? 2 * p->n : p->n_most;
}

static void end_trial(struct pace *p)
{
    double now = worth(p);
    if (now > p->worth) {
        p->n = p->trial;
        p->worth = now;
        p->rest_us = REST_MIN_US;
    } else {
        p->rest_us = p->rest_us * 2 < REST_MAX_US ? p->rest_us * 2 : REST_MAX_US;
    }
    p->until_us = p->rest_us * (p->busy || p->n < p->n_most ? 1 : REST_IDLE);
    p->trial = 0;
    begin_window(p);
}

void pace_note(struct pace *p, double work, double us, double lost_us)
{
    p->work += work;
    p->us += us;
    p->lost_us += lost_us;
    bool over = p->us >= WINDOW_US;
    if (p->trial) {
        bool hopeless = p->us >= WINDOW_US / 4 && worth(p) * 2 < p->worth;
        if (over || hopeless) end_trial(p);
        return;
    }
    if (!over) return;
    p->worth = p->worth > 0 ? (p->worth + worth(p)) / 2 : worth(p);
    p->busy = p->lost_us * LOST_SHARE > p->us * p->n;
    p->until_us -= p->us;
    if (p->busy && p->until_us > p->rest_us) p->until_us = p->rest_us;
    if (p->until_us <= 0) p->trial = choose_trial(p, us);
    begin_window(p);
}
