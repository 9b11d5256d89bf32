/* SPDX-License-Identifier: MIT
 *
 * What a pass costs by its number of rows, measured while passes go by (row_cost.h).
 */
#include "decode/row_cost.h"

#include <math.h>
#include <string.h>

/* Every number where one row more or less is decided on: two of them in one place would hide what the second costs. */
static const int knot[ROW_COST_KNOTS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 28, 32,
    36, 40, 48, 56, 64, 80, 96, 128, 192, 256, 384, 512};

static const double slower = 0.03, faster = 0.3; /* how fast an estimate rises and falls */
static const double doubt = 0.02;                /* how fast towards what is counted, after so many passes */
static const double trying = 0.03;               /* of the time */
enum { DOUBTED_AFTER = 150 };

double row_cost_counted(int flat_rows, double mac, double bytes)
{
    static const double q4_0_mac = 32.0 / 18; /* of a byte: blocks of 32 weights in 18 bytes */
    double row = 0.7 / flat_rows;
    return bytes > 0 ? row * mac / (bytes * q4_0_mac) : row;
}

void row_cost_init(struct row_cost *c, double row, double seen)
{
    memset(c, 0, sizeof *c);
    c->row = row;
    c->seen = seen;
}

void row_cost_know(struct row_cost *c, const double us[ROW_COST_KNOTS])
{
    for (int k = 0; k < ROW_COST_KNOTS; k++) c->us[k] = us[k] > 0 ? us[k] : 0;
}

bool row_cost_known(const struct row_cost *c)
{
    for (int k = 0; k < ROW_COST_KNOTS; k++)
        if (c->us[k] > 0) return true;
    return false;
}

static double counted(const struct row_cost *c, double n_row, double n_seen)
{
    return 1 + c->row * n_row + c->seen * n_seen;
}

/* Where a pass of n_row is learnt. */
static int knot_of(int n_row)
{
    int k = 0;
    while (k + 1 < ROW_COST_KNOTS && knot[k + 1] - n_row < n_row - knot[k]) k++;
    return k;
}

/* Whether row counts that were tried and proved dearer than hoped have cost but a small part of the time. */
static bool curious(const struct row_cost *c)
{
    return c->missed_us <= trying * c->all_us;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* Where nothing was measured an estimate is the least that seems possible: what proves dearer is known from then on,
 * what is never tried is not.  So: between knots that were measured as cheap as the first of them, while tries are
 * affordable; behind the last no steeper than before it, or than counts say; and below the first as if rows were all
 * that costs. */
double row_cost_of(const struct row_cost *c, int n_row, double n_seen)
{
    double each = n_seen / n_row, here = counted(c, n_row, n_seen), below = 0, unit_below = 1, slope = INFINITY;
    int at = 0; /* of `below`, the most of what was measured up to n_row */
    for (int k = 0; k < ROW_COST_KNOTS; k++) {
        double unit = counted(c, knot[k], each * knot[k]), us = c->us[k] * unit;
        if (us == 0) continue;
        double rise = us > below ? (us - below) / (knot[k] - at) : 0;
        if (knot[k] > n_row) {
            if (at == 0) return least(c->us[k] * here, us * n_row / knot[k]);
            return c->us[knot_of(n_row)] > 0 || !curious(c) ? below + (n_row - at) * rise : below;
        }
        if (at > 0) slope = rise;
        if (us > below) below = us;
        at = knot[k];
        unit_below = unit;
    }
    if (at == 0) return here;
    double counts = below * (here / unit_below - 1);
    return below + least(slope * (n_row - at), counts);
}

void row_cost_learn(struct row_cost *c, int n_row, double n_seen, uint64_t us)
{
    if (n_row < 1 || us == 0) return;
    int k = knot_of(n_row);
    for (int i = 0; i < ROW_COST_KNOTS; i++)
        if (c->us[i] > c->us[k] && c->us[k] > 0 && ++c->idle[i] > DOUBTED_AFTER)
            c->us[i] += doubt * (c->us[k] - c->us[i]);
    double now = (double)us / counted(c, n_row, n_seen), *known = &c->us[k];
    c->all_us += (double)us;
    if (*known == 0 && row_cost_known(c)) c->missed_us += fmax(0, (double)us - row_cost_of(c, n_row, n_seen));
    bool doubted = c->idle[k] > DOUBTED_AFTER;
    c->idle[k] = 0;
    if (*known == 0 || doubted)
        *known = now;
    else if (now < *known)
        *known += faster * (now - *known);
    else
        *known += slower * ((now < 2 * *known ? now : 2 * *known) - *known);
}

int row_cost_flat(const struct row_cost *c, int known, int most)
{
    double us[2] = {0}, first = row_cost_of(c, 1, 0);
    int n_knot = 0, at[2] = {1, 1};
    for (int k = 0; k < ROW_COST_KNOTS && us[1] <= 1.6 * first; k++) {
        if (c->us[k] == 0) continue;
        us[0] = us[1], at[0] = at[1];
        us[1] = row_cost_of(c, knot[k], 0), at[1] = knot[k];
        n_knot++;
    }
    if (n_knot < 2) return known;
    double over = us[1] > 1.6 * first ? (1.6 * first - us[0]) / (us[1] - us[0]) : 1;
    int n = at[0] + (int)((at[1] - at[0]) * over);
    return n < most ? n : most;
}

/* ---- prompts ---- */

static double seen_work(const struct row_cost *c)
{
    return c->row > 0 ? c->seen / c->row : 0;
}

double row_cost_work(const struct row_cost *c, int pos, int n)
{
    return n + seen_work(c) * n * (pos + (n + 1) / 2.0);
}

/* The root of the square that row_cost_work() is. */
int row_cost_rows(const struct row_cost *c, int pos, double work)
{
    double k = seen_work(c), b = 1 + k * (pos + 0.5);
    if (!(work > 0)) return 0;
    double n = isinf(work) ? work : 2 * work / (b + sqrt(b * b + 2 * k * work));
    return n < INT32_MAX ? (int)(n + 1e-9) : INT32_MAX;
}

/* A pass without others reads the weights all the same, as one row does. */
static double others_us(const struct row_cost *c, const struct row_cost_others *o)
{
    if (!row_cost_known(c)) return 0;
    return o->n_row > 0 ? row_cost_of(c, o->n_row, o->n_seen) : row_cost_of(c, 1, 0);
}

/* Passes far from the average say more of what comes than it does. */
void row_cost_learn_mixed(struct row_cost *c, double work, const struct row_cost_others *o, uint64_t us)
{
    enum { TELLING = 8, FAR = 2 };
    static const double follow = 0.25;
    struct row_cost_mixed *m = &c->mixed, now = {work, (double)us, others_us(c, o)};
    if (work < TELLING || us == 0) return;
    if (work > FAR * m->work || work * FAR < m->work) *m = now;
    m->work += follow * (now.work - m->work);
    m->us += follow * (now.us - m->us);
    m->other_us += follow * (now.other_us - m->other_us);
}

double row_cost_prompt_work(const struct row_cost *c, const struct row_cost_others *o, uint64_t us)
{
    static const double most_others = 0.75; /* of a pass, at most */
    const struct row_cost_mixed *m = &c->mixed;
    if (m->work <= 0) return 0;
    double now = m->us + others_us(c, o) - m->other_us, more = (double)us - now;
    double mine = more > 0 ? now : m->us - least(m->other_us, most_others * m->us);
    return m->work * (1 + more / mine);
}
