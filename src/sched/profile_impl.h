/* SPDX-License-Identifier: MIT
 *
 * Inside of a profile that is being made.
 */
#ifndef LUTRA_SCHED_PROFILE_IMPL_H
#define LUTRA_SCHED_PROFILE_IMPL_H

#include "sched/profile.h"

enum { PROFILE_REPS = 32 };

/* Operations that one or several devices run at once, one after the other. */
struct unit {
    int first, n, kind;
    bool cut; /* it can be */
};

/* What passes of a plan took, of which every unit begins a piece. */
struct gauge {
    uint64_t begin_us[PLAN_PIECES], end_us[PLAN_PIECES];   /* of the pieces of the last pass */
    double us[PROFILE_KINDS][SOLVE_DEVICES][PROFILE_REPS]; /* of each pass: the mean of the units of a kind */
    double wall_us[PROFILE_REPS];
};

/* The ways to run a unit of one kind. */
struct choices {
    struct solve_choice choice[SOLVE_CHOICES];
    int n;
};

struct maker {
    const struct profile_how *how;
    struct profile *out;
    struct device *device[SOLVE_DEVICES]; /* as the profile's */
    int home;                             /* holds the values before the first unit */
    struct unit *unit;                    /* [n_unit] of a pass */
    int n_unit;
    int like[PROFILE_KINDS];    /* plan_piece.like of what cannot be cut ... */
    int on[PROFILE_KINDS];      /* ... and the device that runs it */
    struct choices *choice;     /* [n_kind] */
    struct plan *plan;          /* [PROFILE_PLANS] */
    struct plan_cut *cut;       /* [n_op] */
    int (*part)[SOLVE_DEVICES]; /* [PROFILE_KINDS] of the plan that is measured */
    struct gauge *gauge;
    struct waits *waits;
    int reps[PASS_CLASSES], passes[PASS_CLASSES]; /* as asked for, or fewer where time is short */
    uint64_t done, total;                         /* passes */
};

/* measure.c: the times of every kind, and sync_us. */
int profile_measure(struct maker *m, enum pass_class rows, struct lutra_error *err);
void profile_count(struct maker *m); /* sets total */
int profile_run(struct maker *m, const struct plan *plan, enum pass_class rows, double *us, struct lutra_error *err);
double profile_uneven(const struct gauge *g, const struct plan *plan); /* of the last pass: see profile.h */
struct profile_time profile_median(double *x, int n);                  /* sorts x */

/* cuts.c: the part of every kind, and predicted_us. */
int profile_solve(struct maker *m, enum pass_class rows, struct lutra_error *err);
bool profile_can_cut(const struct maker *m, int op, const int *part);
void profile_part_left(const struct profile *p, enum pass_class rows, int kind, unsigned set, int *part);

#endif
