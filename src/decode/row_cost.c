/* SPDX-License-Identifier: MIT */
#include "decode/row_cost.h"

#include <string.h>

/* Finest where kernels change and where drafts are decided on. */
static const int knot[ROW_COST_KNOTS] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512};

static const double slower = 0.03, faster = 0.3; /* how fast an estimate rises and falls */
static const double doubt = 0.02;                /* how fast towards what is counted, after so many passes */
enum { DOUBTED_AFTER = 50 };

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

/* The last knot at or below n_row. */
static int knot_below(int n_row)
{
    int k = 0;
    while (k + 1 < ROW_COST_KNOTS && knot[k + 1] <= n_row) k++;
    return k;
}

double row_cost_of(const struct row_cost *c, int n_row, double n_seen)
{
    double each = n_seen / n_row, here = counted(c, n_row, n_seen), below = 0, top = 0;
    int at = 0; /* of `below`, the most of what was measured up to n_row */
    for (int k = 0; k < ROW_COST_KNOTS; k++) {
        double unit = counted(c, knot[k], each * knot[k]), us = c->us[k] * unit;
        if (us == 0) continue;
        if (knot[k] > n_row) {
            if (at == 0) return c->us[k] * here;
            return us > below ? below + (us - below) * (n_row - at) / (knot[k] - at) : below;
        }
        if (us > below) below = us;
        at = knot[k];
        top = below / unit; /* for what lies behind the last */
    }
    return (at == 0 ? 1 : top) * here;
}

void row_cost_learn(struct row_cost *c, int n_row, double n_seen, uint64_t us)
{
    if (n_row < 1 || us == 0) return;
    int k = knot_below(n_row);
    if (k + 1 < ROW_COST_KNOTS && knot[k + 1] - n_row < n_row - knot[k]) k++;
    for (int i = 0; i < ROW_COST_KNOTS; i++)
        if (c->us[i] > c->us[k] && c->us[k] > 0 && ++c->idle[i] > DOUBTED_AFTER)
            c->us[i] += doubt * (c->us[k] - c->us[i]);
    c->idle[k] = 0;
    double now = (double)us / counted(c, n_row, n_seen), *known = &c->us[k];
    if (*known == 0)
        *known = now;
    else if (now < *known)
        *known += faster * (now - *known);
    else
        *known += slower * ((now < 2 * *known ? now : 2 * *known) - *known);
}

int row_cost_flat(const struct row_cost *c, int known, int most)
{
    int n_knot = 0, n = 1;
    for (int k = 0; k < ROW_COST_KNOTS; k++) n_knot += c->us[k] > 0;
    if (n_knot < 2) return known;
    while (n < most && row_cost_of(c, n + 1, 0) <= 1.6 * row_cost_of(c, 1, 0)) n++;
    return n;
}
