/* SPDX-License-Identifier: MIT
 *
 * Laws of time, as in [HETERO 4.1, Table 3], and all ways to run one operation by them: problems for the solver.
 */
#ifndef LUTRA_TESTS_LAWS_H
#define LUTRA_TESTS_LAWS_H

#include <math.h>

#include "sched/solve.h"

enum { COST_POINTS = 12, SOLVE_GRID = 16 };

/* ---- how long ---- */

/* Time of an operation by rows: measured points, ascending, and straight lines between and beyond them.  A device whose
 * time goes in stages computes the rows rounded up to a multiple of `stage`. */
struct cost_law {
    int stage; /* 0, 1: none */
    int n;     /* 0: the device cannot do it */
    struct cost_point {
        int rows;
        double us;
    } point[COST_POINTS];
};

/* us; INFINITY: the device cannot do it.  0 rows cost nothing. */
static inline double cost_at(const struct cost_law *law, int rows)
{
    if (law->n == 0) return INFINITY;
    if (rows <= 0) return 0;
    if (law->stage > 1) rows = (rows + law->stage - 1) / law->stage * law->stage;
    const struct cost_point *p = law->point;
    if (law->n == 1) return p->us * rows / p->rows;
    int i = 1;
    while (i < law->n - 1 && rows > p[i].rows) i++;
    double slope = (p[i].us - p[i - 1].us) / (p[i].rows - p[i - 1].rows);
    double us = p[i - 1].us + slope * (rows - p[i - 1].rows);
    return us > 0 ? us : p[0].us;
}

/* ---- one operation ---- */

struct solve_question {
    int n_device, rows;
    int grid;  /* outputs are cut at multiples of 1 / grid, at most SOLVE_GRID; 1: not at all */
    int block; /* rows of a whole block; 0: rows are not cut */
    const struct cost_law *law[SOLVE_DEVICES]; /* of all its outputs; a part costs its share of that */
};

static inline double law_us(const struct solve_question *q, int device, int rows, int part)
{
    return cost_at(q->law[device], rows) * part / q->grid;
}

/* The rows that a device computes for these. */
static inline int padded(const struct solve_question *q, int device, int rows)
{
    int stage = q->law[device] ? q->law[device]->stage : 0;
    return stage > 1 ? (rows + stage - 1) / stage * stage : rows;
}

static inline void add(
    const struct solve_question *q, struct solve_choice c, struct solve_choice *out, int most, int *n)
{
    for (int d = 0; d < q->n_device; d++) {
        if (!c.part[d]) continue;
        c.us[d] = law_us(q, d, c.rows[d], c.part[d]);
        if (!isfinite(c.us[d])) return;
    }
    if (*n < most) out[(*n)++] = c;
}

static inline void add_one(const struct solve_question *q, int d, struct solve_choice *out, int most, int *n)
{
    struct solve_choice c = {.kind = padded(q, d, q->rows) > q->rows ? SOLVE_PADDED : SOLVE_ONE};
    c.part[d] = q->grid, c.rows[d] = q->rows;
    add(q, c, out, most, n);
}

static inline void add_outputs(
    const struct solve_question *q, const int *part, struct solve_choice *out, int most, int *n)
{
    struct solve_choice c = {.kind = SOLVE_OUTPUTS};
    for (int d = 0; d < q->n_device; d++) {
        c.part[d] = part[d];
        if (!part[d]) continue;
        c.rows[d] = q->rows;
        if (padded(q, d, q->rows) > q->rows) c.kind = SOLVE_HYBRID;
    }
    add(q, c, out, most, n);
}

static inline void add_rows(
    const struct solve_question *q, int whole, int tail, struct solve_choice *out, int most, int *n)
{
    struct solve_choice c = {.kind = SOLVE_ROWS};
    c.part[whole] = c.part[tail] = q->grid;
    c.rows[whole] = q->rows / q->block * q->block;
    c.rows[tail] = q->rows % q->block;
    if (c.rows[whole] && c.rows[tail]) add(q, c, out, most, n);
}

/* Returns how many, at most `most`: each device alone first. */
static inline int solve_choices(const struct solve_question *q, struct solve_choice *out, int most)
{
    int n = 0;
    for (int d = 0; d < q->n_device; d++) add_one(q, d, out, most, &n);
    for (int a = 0; a <= q->grid; a++)
        for (int b = 0; b <= q->grid - a; b++) {
            int part[SOLVE_DEVICES] = {a, b, q->grid - a - b};
            bool alone = a == q->grid || b == q->grid || part[2] == q->grid;
            if (!alone && q->n_device > 1 && (q->n_device > 2 || !part[2])) add_outputs(q, part, out, most, &n);
        }
    for (int whole = 0; q->block && whole < q->n_device; whole++)
        for (int tail = 0; tail < q->n_device; tail++)
            if (whole != tail) add_rows(q, whole, tail, out, most, &n);
    return n;
}

#endif
