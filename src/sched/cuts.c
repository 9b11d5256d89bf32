/* SPDX-License-Identifier: MIT
 *
 * From times to cuts: the ways to run each kind, and the cheapest of them for a pass.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched/profile_impl.h"

/* What a device takes for a part of the outputs beside the others of a set: a straight line through the measured cuts;
 * with one, or where the line leaves the plausible, in proportion. */
static double joint_us(const struct profile_shape *s, unsigned set, int d, int part)
{
    const struct profile_joint *a = &s->joint[set][0], *b = &s->joint[set][1];
    if (s->n_joint[set] > 1 && abs(b->part[d] - part) < abs(a->part[d] - part)) {
        const struct profile_joint *nearer = b;
        b = a, a = nearer;
    }
    double us = a->time[d].us * part / a->part[d];
    if (s->n_joint[set] < 2 || a->part[d] == b->part[d]) return us;
    double line = a->time[d].us + (b->time[d].us - a->time[d].us) * (part - a->part[d]) / (b->part[d] - a->part[d]);
    return line > us / 2 && line < us * 2 ? line : us;
}

/* As solved; where a device of that is lost, for each kind by itself the cut of those in the set that ends first. */
void profile_part_left(const struct profile *p, enum pass_class rows, int kind, unsigned set, bool is_free, int *part)
{
    const struct profile_shape *s = &p->kind[kind].of[rows];
    double best = INFINITY;
    memcpy(part, is_free ? s->free : s->part, sizeof s->part);
    if (!(solve_set(part) & ~set)) return;
    for (int a = 0; a <= PROFILE_GRID; a++)
        for (int b = 0; b <= PROFILE_GRID - a; b++) {
            const int try[SOLVE_DEVICES] = {a, b, PROFILE_GRID - a - b};
            const unsigned used = solve_set(try);
            double us = 0;
            const bool several = !solve_is_one(used);
            if (used & ~set || (several && !s->n_joint[used])) continue;
            for (int d = 0; d < p->n_device; d++) {
                if (!try[d]) continue;
                double own = several ? joint_us(s, used, d, try[d]) : s->alone[d].us;
                if (own > us) us = own;
            }
            if (several) us += p->pass[rows].sync_us;
            if (us >= best) continue;
            best = us;
            memcpy(part, try, sizeof try);
        }
}

static void add_one(const struct profile_shape *s, int d, struct choices *out)
{
    struct solve_choice *c = &out->choice[out->n++];
    *c = (struct solve_choice){.kind = SOLVE_ONE};
    c->us[d] = s->alone[d].us;
    c->part[d] = PROFILE_GRID;
    c->rows[d] = 1;
}

static void add_cut(const struct maker *m, int op, const struct profile_shape *s, const int *part, struct choices *out)
{
    struct solve_choice c = {.kind = SOLVE_OUTPUTS};
    const unsigned set = solve_set(part);
    if (solve_is_one(set) || !s->n_joint[set] || out->n == SOLVE_CHOICES || !profile_can_cut(m, op, part)) return;
    for (int d = 0; d < SOLVE_DEVICES; d++) {
        if (!part[d]) continue;
        c.part[d] = part[d];
        c.rows[d] = 1;
        c.us[d] = joint_us(s, set, d, part[d]);
    }
    out->choice[out->n++] = c;
}

static void find_choices(const struct maker *m, enum pass_class rows, int kind, int op, struct choices *out)
{
    const struct profile_kind *k = &m->out->kind[kind];
    int n_device = m->out->n_device;
    for (int d = 0; d < n_device; d++)
        if (k->cut || d == m->on[kind]) add_one(&k->of[rows], d, out);
    for (int a = 0; k->cut && a <= PROFILE_GRID; a++)
        for (int b = 0; b <= PROFILE_GRID - a; b++) {
            int part[SOLVE_DEVICES] = {a, b, PROFILE_GRID - a - b};
            if (n_device > 2 || !part[2]) add_cut(m, op, &k->of[rows], part, out);
        }
}

static int choice_of(const struct choices *c, const int *part)
{
    for (int i = 0; i < c->n; i++)
        if (!memcmp(c->choice[i].part, part, sizeof c->choice[i].part)) return i;
    return -1;
}

/* A kind has one cut: the one that most of its units have, and of these the first. */
static int most_chosen(const struct maker *m, int kind, const struct solve_answer *a)
{
    int count[SOLVE_CHOICES] = {0}, best = 0;
    for (int i = 0; i < m->n_unit; i++)
        if (m->unit[i].kind == kind) count[a->choice[i]]++;
    for (int c = 1; c < m->choice[kind].n; c++)
        if (count[c] > count[best]) best = c;
    return best;
}

static double longest(const struct solve_choice *c)
{
    double us = 0;
    for (int d = 0; d < SOLVE_DEVICES; d++)
        if (c->us[d] > us) us = c->us[d];
    return us;
}

/* How much the time of a cut by speed varied; where it was not measured, 0. */
static double spread_of(const struct profile_shape *s, unsigned set)
{
    double us = 0;
    for (int d = 0; s->n_joint[set] && d < SOLVE_DEVICES; d++)
        if (s->joint[set][0].time[d].spread_us > us) us = s->joint[set][0].time[d].spread_us;
    return us;
}

/* A cut of the same devices in proportion to their speed is left only for a gain that is more than noise. */
static void keep_cuts(struct maker *m, enum pass_class rows, const struct solve_answer *a)
{
    for (int k = 0; k < m->out->n_kind; k++) {
        struct profile_shape *s = &m->out->kind[k].of[rows];
        const struct solve_choice *c = &m->choice[k].choice[most_chosen(m, k, a)];
        const unsigned set = solve_set(c->part);
        int even[SOLVE_DEVICES], at = -1;
        if (!solve_is_one(set)) {
            profile_even(m, set, even);
            at = choice_of(&m->choice[k], even);
        }
        if (at >= 0 && longest(&m->choice[k].choice[at]) - longest(c) < spread_of(s, set)) c = &m->choice[k].choice[at];
        memcpy(s->part, c->part, sizeof s->part);
        memcpy(s->free, c->part, sizeof s->free);
    }
}

static float speed_of(const struct device *d)
{
    return d->caps.speed > 0 ? d->caps.speed : 1;
}

void profile_even(const struct maker *m, unsigned set, int *part)
{
    float sum = 0, before = 0;
    for (int d = 0; d < m->out->n_device; d++) sum += set >> d & 1 ? speed_of(m->device[d]) : 0;
    for (int d = 0; d < SOLVE_DEVICES; d++) {
        float own = d < m->out->n_device && set >> d & 1 ? speed_of(m->device[d]) : 0;
        part[d] = (int)((before + own) / sum * PROFILE_GRID + 0.5f) - (int)(before / sum * PROFILE_GRID + 0.5f);
        before += own;
    }
}

static double predict(
    const struct maker *m, enum pass_class rows, enum profile_plan plan, const struct solve_problem *p)
{
    struct solve_answer *a = calloc(1, sizeof *a);
    double us = 0;
    int even[SOLVE_DEVICES], first[SOLVE_DEVICES] = {PROFILE_GRID};
    if (m->out->n_device > 1)
        profile_even(m, (1u << m->out->n_device) - 1, even);
    else
        memcpy(even, first, sizeof even);
    for (int i = 0; a && i < m->n_unit; i++) {
        int k = m->unit[i].kind;
        const struct profile_kind *kind = &m->out->kind[k];
        int fixed[SOLVE_DEVICES] = {0};
        fixed[m->on[k]] = PROFILE_GRID;
        const int *part = !kind->cut            ? fixed
                          : plan == PLAN_SOLVED ? kind->of[rows].part
                          : plan == PLAN_ONE    ? first
                                                : even;
        int c = choice_of(&m->choice[k], part);
        a->choice[i] = c < 0 ? 0 : c;
    }
    if (a) us = solve_time(p, a->choice) + m->base_us[rows];
    free(a);
    return us;
}

/* The pass as a problem; op [n_unit]. */
static struct solve_problem pose(struct maker *m, enum pass_class rows, struct solve_op *op)
{
    for (int k = 0; k < m->out->n_kind; k++) m->choice[k].n = 0;
    for (int i = 0; i < m->n_unit; i++) {
        struct choices *c = &m->choice[m->unit[i].kind];
        if (!c->n) find_choices(m, rows, m->unit[i].kind, m->unit[i].first, c);
        op[i] = (struct solve_op){.choice = c->choice, .n_choice = c->n};
    }
    return (struct solve_problem){.n_device = m->out->n_device,
        .n_op = m->n_unit,
        .op = op,
        .grid = PROFILE_GRID,
        .sync_us = m->out->pass[rows].sync_us,
        .start = 1u << m->home};
}

/* Gives passes of few rows the parts solved for one class, those of many the parts of one; returns what passes take
 * then, in those of one device.  With parts that differ, wanted rows and the tail of a prompt take as long again as a
 * pass of few rows: they may need the device that has the whole blocks. */
static double take_parts(struct maker *m, enum pass_class few, enum pass_class many, struct solve_op *op)
{
    const enum pass_class from[PASS_CLASSES] = {few, many};
    double sum = 0;
    for (int rows = 0; rows < PASS_CLASSES; rows++) {
        struct profile_pass *pass = &m->out->pass[rows];
        for (int k = 0; k < m->out->n_kind; k++)
            memcpy(m->out->kind[k].of[rows].part, m->out->kind[k].of[from[rows]].free, sizeof m->out->kind->of->free);
        const struct solve_problem p = pose(m, (enum pass_class)rows, op);
        pass->predicted_us[PLAN_SOLVED] = predict(m, (enum pass_class)rows, PLAN_SOLVED, &p);
        if (rows == PASS_MANY && few != many)
            pass->predicted_us[PLAN_SOLVED] += m->out->pass[PASS_FEW].predicted_us[PLAN_SOLVED];
        sum += pass->predicted_us[PLAN_SOLVED] / pass->predicted_us[PLAN_ONE];
    }
    return sum;
}

int profile_fix(struct maker *m, struct lutra_error *err)
{
    struct solve_op *op = calloc((size_t)m->n_unit + 1, sizeof *op);
    if (!op) return lutra_fail(err, LUTRA_E_NO_MEMORY, "profile: out of memory");
    const double few = take_parts(m, PASS_FEW, PASS_FEW, op), many = take_parts(m, PASS_MANY, PASS_MANY, op),
                 each = take_parts(m, PASS_FEW, PASS_MANY, op);
    if (few < each && few < many) take_parts(m, PASS_FEW, PASS_FEW, op);
    if (many <= each && many <= few) take_parts(m, PASS_MANY, PASS_MANY, op);
    free(op);
    return 0;
}

int profile_solve(struct maker *m, enum pass_class rows, struct lutra_error *err)
{
    struct solve_op *op = calloc((size_t)m->n_unit + 1, sizeof *op);
    struct solve_answer *answer = calloc(1, sizeof *answer);
    int rc = op && answer ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "profile: out of memory");
    const struct solve_problem p = rc == 0 ? pose(m, rows, op) : (struct solve_problem){0};
    if (rc == 0) rc = solve(&p, answer, err);
    if (rc == 0) keep_cuts(m, rows, answer);
    for (int i = 0; rc == 0 && i < PLAN_CLASS; i++)
        m->out->pass[rows].predicted_us[i] = predict(m, rows, (enum profile_plan)i, &p);
    free(op);
    free(answer);
    return rc;
}
