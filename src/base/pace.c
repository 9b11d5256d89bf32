/* SPDX-License-Identifier: MIT */
#include "base/pace.h"

enum {
    WINDOW_US = 30000, /* several time slices of a usual scheduler */
    REST_MIN_US = 60000,
    REST_MAX_US = 2000000,
    LOST_SHARE = 4, /* a trial of fewer where more than a quarter of the threads' time is lost */
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

/* What to try next: fewer where much is lost, more where there are more; in turns where both may be. */
static int choose_trial(struct pace *p)
{
    bool fewer = p->n > 1 && p->lost_us * LOST_SHARE > p->us * p->n, more = p->n < p->n_most;
    if (!fewer && !more) return 0;
    p->up = more && !(fewer && p->up);
    if (!p->up) return p->n / 2;
    return 2 * p->n < p->n_most ? 2 * p->n : p->n_most;
}

static void end_trial(struct pace *p, double rate)
{
    bool better = rate > p->rate;
    if (better) {
        p->n = p->trial;
        p->rate = rate;
    }
    p->rest_us = better ? REST_MIN_US : p->rest_us * 2 < REST_MAX_US ? p->rest_us * 2 : REST_MAX_US;
    p->until_us = p->rest_us;
    p->trial = 0;
    begin_window(p);
}

void pace_note(struct pace *p, double work, double us, double lost_us)
{
    p->work += work;
    p->us += us;
    p->lost_us += lost_us;
    double rate = p->work / (p->us > 1 ? p->us : 1);
    bool over = p->us >= WINDOW_US;
    if (p->trial) {
        bool hopeless = p->us >= WINDOW_US / 4 && rate * 2 < p->rate;
        if (over || hopeless) end_trial(p, rate);
        return;
    }
    if (!over) return;
    p->rate = p->rate > 0 ? (p->rate + rate) / 2 : rate;
    p->until_us -= p->us;
    if (p->until_us <= 0) p->trial = choose_trial(p);
    begin_window(p);
}
