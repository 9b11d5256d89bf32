/* SPDX-License-Identifier: MIT
 *
 * The cheapest way to run a chain of operations on up to three devices [HETERO 4.4]: a pure function of costs.
 *
 *     struct solve_op op[] = {{choice, n_choice, .copy_us = 4}, ...};    every way to run each operation, and its time
 *     TRY(solve(&problem, &answer, &err));                               one choice for each operation of a layer
 *
 * An operation runs on one device, or is cut: by outputs (weight-centric), by rows (activation-centric: whole blocks to
 * one device, the tail to another) or by outputs with padded rows (hybrid).  What several devices compute ends with the
 * slowest of them, and costs T_sync + T_copy; so does an operation on a device that does not hold the values.  For one
 * operation whose values device a holds that is the paper's
 *
 *     T = min(max(T_a, T_b) + T_sync + T_copy, T_a, T_b + T_sync + T_copy)
 *
 * Nothing here knows weights, devices or clocks: a model of a phone is solved like a machine that was measured.
 */
#ifndef LUTRA_SCHED_SOLVE_H
#define LUTRA_SCHED_SOLVE_H

#include <stdbool.h>

#include "base/status.h"

enum { SOLVE_DEVICES = 3, SOLVE_OPS = 2048, SOLVE_CHOICES = 192 };

/* ---- one operation ---- */

enum solve_kind {
    SOLVE_ONE,     /* on one device */
    SOLVE_PADDED,  /* on one device, which computes more rows than there are */
    SOLVE_OUTPUTS, /* weight-centric */
    SOLVE_ROWS,    /* activation-centric: whole blocks on one device, the tail on another */
    SOLVE_HYBRID,  /* outputs are cut, and a device computes more rows than there are */
};

struct solve_choice {
    enum solve_kind kind;
    double us[SOLVE_DEVICES]; /* of each that takes part; of the others 0 */
    int part[SOLVE_DEVICES];  /* its outputs, of a whole of `grid`; with SOLVE_ROWS `grid`, of either */
    int rows[SOLVE_DEVICES];
};

/* Devices with a part, as a set; and whether that is one. */
static inline unsigned solve_set(const int part[SOLVE_DEVICES])
{
    unsigned set = 0;
    for (int d = 0; d < SOLVE_DEVICES; d++) set |= (part[d] > 0 ? 1u : 0u) << d;
    return set;
}

static inline bool solve_is_one(unsigned set)
{
    return (set & (set - 1)) == 0;
}

const char *solve_kind_name(enum solve_kind kind);

/* ---- a layer ---- */

struct solve_op {
    const struct solve_choice *choice; /* [n_choice] */
    int n_choice;
    double copy_us; /* to hand over what it reads or writes */
    double bytes;   /* of its weights */
};

struct solve_problem {
    int n_device, n_op, grid;
    const struct solve_op *op; /* [n_op] in order */
    double sync_us;
    unsigned start;               /* set of devices that hold the values before; 0: the layers repeat, so whoever holds
                                    them behind the last operation */
    double memory[SOLVE_DEVICES]; /* bytes of weights that fit; 0: all */
};

struct solve_answer {
    double us;
    double bytes[SOLVE_DEVICES];
    int choice[SOLVE_OPS];
};

/* The least time.  With memory limits that bind, a plan that fits and is near that.  LUTRA_E_UNSUPPORTED: an operation
 * that no device can do; LUTRA_E_NO_MEMORY: no plan fits; LUTRA_E_ARGUMENT: too many operations or devices. */
int solve(const struct solve_problem *p, struct solve_answer *out, struct lutra_error *err);

/* The time of given choices, one by one: what solve minimizes. */
double solve_time(const struct solve_problem *p, const int *choice);

#endif
