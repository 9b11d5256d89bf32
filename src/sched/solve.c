/* SPDX-License-Identifier: MIT
 *
 * Dynamic programming over a layer.
 */
#include "sched/solve.h"

#include <math.h>
#include <string.h>

const char *solve_kind_name(enum solve_kind kind)
{
    static const char *const names[] = {"one device", "padded", "outputs", "rows", "hybrid"};
    return names[kind];
}

/* ---- a layer ---- */

/* us of a choice where `held` have the values; they are behind it with those that took part. */
static double op_time(const struct solve_problem *p, int i, const struct solve_choice *c, unsigned held)
{
    unsigned set = solve_set(c->part);
    double most = 0;
    for (int d = 0; d < p->n_device; d++)
        if (c->us[d] > most) most = c->us[d];
    return most + (solve_is_one(set) && set & held ? 0 : p->sync_us + p->op[i].copy_us);
}

double solve_time(const struct solve_problem *p, const int *choice)
{
    unsigned held = p->start;
    double us = 0;
    if (!held) held = solve_set(p->op[p->n_op - 1].choice[choice[p->n_op - 1]].part);
    for (int i = 0; i < p->n_op; i++) {
        const struct solve_choice *c = &p->op[i].choice[choice[i]];
        us += op_time(p, i, c, held);
        held = solve_set(c->part);
    }
    return us;
}

enum { STATES = 1 << SOLVE_DEVICES };

/* What a choice costs beside time: the price of the memory that it takes. */
static double rent(const struct solve_problem *p, int i, const struct solve_choice *c, const double *price)
{
    double sum = 0;
    for (int d = 0; d < p->n_device; d++) sum += price[d] * p->op[i].bytes * c->part[d] / p->grid;
    return sum;
}

/* From one state before the layer to any behind it; `end` 0: any.  Returns the least sum, INFINITY: there is none. */
static double run_states(
    const struct solve_problem *p, unsigned start, unsigned end, const double *price, int choice[SOLVE_OPS])
{
    double best[STATES], next[STATES];
    unsigned char from[SOLVE_OPS][STATES];
    short taken[SOLVE_OPS][STATES];
    for (unsigned s = 0; s < STATES; s++) best[s] = s == start ? 0 : INFINITY;
    for (int i = 0; i < p->n_op; i++) {
        for (unsigned s = 0; s < STATES; s++) next[s] = INFINITY;
        for (int k = 0; k < p->op[i].n_choice; k++) {
            const struct solve_choice *c = &p->op[i].choice[k];
            unsigned to = solve_set(c->part);
            double extra = rent(p, i, c, price);
            for (unsigned s = 1; s < STATES; s++) {
                double sum = best[s] + extra;
                if (!(sum < next[to])) continue;
                sum += op_time(p, i, c, s);
                if (!(sum < next[to])) continue;
                next[to] = sum, from[i][to] = (unsigned char)s, taken[i][to] = (short)k;
            }
        }
        memcpy(best, next, sizeof best);
    }
    unsigned last = end;
    for (unsigned s = 1; !end && s < STATES; s++)
        if (!last || best[s] < best[last]) last = s;
    if (!isfinite(best[last])) return INFINITY;
    double sum = best[last];
    for (int i = p->n_op - 1; i >= 0; last = from[i][last], i--) choice[i] = taken[i][last];
    return sum;
}

static bool find_best(const struct solve_problem *p, const double *price, struct solve_answer *out)
{
    int choice[SOLVE_OPS];
    double best = INFINITY;
    for (unsigned s = 1; s < 1u << p->n_device; s++) {
        if (p->start && s != p->start) continue;
        double sum = run_states(p, s, p->start ? 0 : s, price, choice);
        if (!(sum < best)) continue;
        best = sum;
        memcpy(out->choice, choice, (size_t)p->n_op * sizeof *choice);
    }
    if (!isfinite(best)) return false;
    out->us = solve_time(p, out->choice);
    memset(out->bytes, 0, sizeof out->bytes);
    for (int i = 0; i < p->n_op; i++)
        for (int d = 0; d < p->n_device; d++)
            out->bytes[d] += p->op[i].bytes * p->op[i].choice[out->choice[i]].part[d] / p->grid;
    return true;
}

static bool fits(const struct solve_problem *p, const struct solve_answer *a, int d)
{
    return p->memory[d] <= 0 || a->bytes[d] <= p->memory[d];
}

/* Memory of a device that is too small gets a price, the least with which the plan fits, found by halving. */
static bool find_fitting(const struct solve_problem *p, struct solve_answer *out)
{
    enum { HALVINGS = 60, ROUNDS = 4 };
    double price[SOLVE_DEVICES] = {0};
    for (int round = 0; round < ROUNDS; round++)
        for (int d = 0; d < p->n_device; d++) {
            double low = price[d], high = 1e9;
            find_best(p, price, out);
            if (fits(p, out, d)) continue;
            for (int i = 0; i < HALVINGS; i++) {
                price[d] = i ? sqrt((low > 1e-12 ? low : 1e-12) * high) : high;
                find_best(p, price, out);
                *(fits(p, out, d) ? &high : &low) = price[d];
            }
            price[d] = high;
        }
    find_best(p, price, out);
    bool fit = true;
    for (int d = 0; d < p->n_device; d++) fit &= fits(p, out, d);
    return fit;
}

int solve(const struct solve_problem *p, struct solve_answer *out, struct lutra_error *err)
{
    static const double free_of_charge[SOLVE_DEVICES];
    if (p->n_op < 1 || p->n_op > SOLVE_OPS || p->n_device < 1 || p->n_device > SOLVE_DEVICES || p->grid < 1)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "solver: %d operations on %d devices, grid %d", p->n_op, p->n_device, p->grid);
    for (int i = 0; i < p->n_op; i++)
        if (p->op[i].n_choice == 0)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "solver: no device can do operation %d", i);
    if (!find_best(p, free_of_charge, out)) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "solver: no plan has an end");
    bool fit = true;
    for (int d = 0; d < p->n_device; d++) fit &= fits(p, out, d);
    if (fit || find_fitting(p, out)) return 0;
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "solver: the weights fit no cut among the devices");
}
