/* SPDX-License-Identifier: MIT */
#include "phone/frames.h"

#include <math.h>

void frames_open(struct frames *f, double per_second, double share, double slice_us, double submit_us)
{
    *f = (struct frames){.period_us = 1e6 / per_second,
        .work_us = share * 1e6 / per_second,
        .slice_us = slice_us,
        .submit_us = submit_us};
}

/* The frame that is next has the GPU from `at` on. */
static void show(struct frames *f, double at)
{
    const double began = f->next_us, took = at + f->work_us - began;
    f->free_us = at + f->work_us;
    f->n_shown++, f->sum_us += took, f->worst_us = fmax(f->worst_us, took);
    f->next_us = fmax(began + f->period_us, ceil(f->free_us / f->period_us - 1e-9) * f->period_us);
}

void frames_until(struct frames *f, double at)
{
    while (fmax(f->next_us, f->free_us) < at) show(f, fmax(f->next_us, f->free_us));
    f->worst_us = fmax(f->worst_us, at - f->next_us);
}

double frames_take(struct frames *f, double at, double us)
{
    if (us <= 0) return at;
    frames_until(f, at);
    for (at = fmax(at, f->free_us); us > 0; at = f->free_us) {
        if (f->next_us <= at) show(f, at), at = f->free_us;
        const double piece = f->slice_us > 0 && f->slice_us < us ? f->slice_us : us;
        us -= piece;
        f->free_us = at + piece + (us > 0 ? f->submit_us : 0);
    }
    return at;
}
