/* SPDX-License-Identifier: MIT */
#include "decode/speculate/worth_impl.h"

#include <math.h>
#include <stddef.h>

/* Passes: that means are of, that a judgement needs, that a trial has, between trials at first and at most. */
enum { MEAN_OF = 128, JUDGED_AFTER = 32, TRIAL = 16, PAUSE = 200, PAUSE_MOST = 1600 };

/* What other programs do in between is no drafter's time: more than so often the mean counts as that.  Less than this
 * share of a pass is nobody's matter.  Who drafts leaves when so many standard errors say that it loses; who is tried
 * stays out when so many do. */
static const double spike = 8, trifle = 0.005, surely = 2, probably = 1;

void worth_begin(struct worth *w, int n)
{
    for (int k = 0; k < n; k++) w[k] = (struct worth){.pause = PAUSE};
}

void worth_choose(struct worth *w, int n)
{
    bool trial = false;
    for (int k = 0; k < n; k++) {
        w[k].asked = !w[k].out || (w[k].wait == 0 && !trial);
        trial |= w[k].out && w[k].asked;
        w[k].wait -= w[k].wait > 0;
    }
}

void worth_learn(struct worth *w, double us, double brought)
{
    double by = ++w->n < MEAN_OF ? 1.0 / w->n : 1.0 / MEAN_OF, most = spike * (w->us + 1);
    if (w->n > 1 && us > most) us = most;
    if (w->n == 1) w->net = w->spread = 0;
    double off = brought - us - w->net;
    w->us += by * (us - w->us);
    w->net += by * off;
    w->spread += by * (off * (1 - by) * off - w->spread);
}

static bool loses(const struct worth *w, double errors)
{
    return w->net + errors * sqrt(w->spread / (w->n < MEAN_OF ? w->n : MEAN_OF)) < 0;
}

/* Everybody's guesses are worth something else now. */
static void begin_again(struct worth *w, int n)
{
    for (int k = 0; k < n; k++) w[k].n = 0;
}

static void leave(struct worth *w)
{
    w->out = true;
    w->wait = w->pause;
    w->pause = 2 * w->pause < PAUSE_MOST ? 2 * w->pause : PAUSE_MOST;
}

/* A trial is over when it has been long enough; nobody else is judged beside it. */
static bool tries(struct worth *w, int n)
{
    for (int k = 0; k < n; k++) {
        if (!w[k].out || !w[k].asked) continue;
        if (w[k].n < TRIAL) return true;
        if (loses(&w[k], probably)) {
            leave(&w[k]);
        } else {
            w[k].out = false;
            w[k].pause = PAUSE;
        }
        begin_again(w, n);
        return true;
    }
    return false;
}

void worth_settle(struct worth *w, int n, double pass_us)
{
    struct worth *worst = NULL;
    if (tries(w, n)) return;
    for (int k = 0; k < n; k++) {
        if (w[k].out || w[k].n < JUDGED_AFTER || w[k].us < trifle * pass_us || !loses(&w[k], surely)) continue;
        if (!worst || w[k].net < worst->net) worst = &w[k];
    }
    if (!worst) return;
    leave(worst);
    begin_again(w, n);
}
