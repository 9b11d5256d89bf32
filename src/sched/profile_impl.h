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

/* When the pieces of the last pass ran. */
struct gauge {
    uint64_t begin_us[PLAN_PIECES], end_us[PLAN_PIECES];
};

/* A plan that operations are measured in: all that can be cut on one device, or cut among a set of them.  Every unit
 * begins a piece. */
struct trial {
    unsigned set;
    int point;                                             /* of a set of several: profile_shape.joint */
    bool found[PROFILE_KINDS];                             /* the kind is measured here ... */
    int part[PROFILE_KINDS][SOLVE_DEVICES];                /* ... with this part of each device */
    double us[PROFILE_KINDS][SOLVE_DEVICES][PROFILE_REPS]; /* of each pass: the mean of the units of a kind */
    double wall_us[PROFILE_REPS];
};

enum { PROFILE_TRIALS = SOLVE_DEVICES + (PROFILE_SETS - 1 - SOLVE_DEVICES) * PROFILE_POINTS };

/* The ways to run a unit of one kind. */
struct choices {
    struct solve_choice choice[SOLVE_CHOICES];
    int n;
};

struct maker {
    const struct profile_how *how;
    struct profile *out;
    struct device *device[SOLVE_DEVICES]; /* as the profile's */
    bool mixed;                           /* their numbers differ: a plan is the same for few rows and many */
    int home;                             /* holds the values before the first unit */
    struct unit *unit;                    /* [n_unit] of a pass */
    int n_unit;
    int like[PROFILE_KINDS]; /* plan_piece.like of what cannot be cut ... */
    int on[PROFILE_KINDS];   /* ... and the device that runs it */
    struct choices *choice;  /* [n_kind] */
    struct plan *plan;       /* [PROFILE_PLANS] */
    struct plan_cut *cut;    /* [n_op] */
    struct trial *trial;     /* [n_trial] */
    int n_trial;
    struct gauge *gauge;
    double base_us[PASS_CLASSES]; /* what a pass on one device takes beyond its units */
    struct waits *waits;
    uint64_t done, total; /* passes */
    uint64_t begun_us;
    double until_us;               /* of the clock: the end of the class that is measured; INFINITY: no limit */
    double slowest_us;             /* of its passes */
    double round_us[PASS_CLASSES]; /* at most, of each plan's passes that are compared, once */
};

/* measure.c: the times of every kind, and sync_us. */
int profile_measure(struct maker *m, enum pass_class rows, struct lutra_error *err);
void profile_count(struct maker *m); /* sets total */
int profile_run(struct maker *m, const struct plan *plan, enum pass_class rows, double *us, struct lutra_error *err);
double profile_uneven(const struct gauge *g, const struct plan *plan); /* of the last pass: see profile.h */
double profile_left_us(const struct maker *m);                         /* of the limit */
/* What n passes take where nothing disturbs them: the mean of x over the fastest third of them by `wall`. */
struct profile_time profile_typical(const double *x, const double *wall, int n);
void profile_even(const struct maker *m, unsigned set, int *part); /* sixteenths in proportion to speed */

/* cuts.c: the part of every kind, and predicted_us. */
int profile_solve(struct maker *m, enum pass_class rows, struct lutra_error *err);
/* Behind it for both classes, where devices' numbers differ: one of their cuts for both, or by class of rows each its
 * own [HETERO 4.2], whichever is better for both. */
int profile_fix(struct maker *m, struct lutra_error *err);
int profile_open(struct maker *m, struct plan *plan, struct lutra_error *err); /* by m->cut, prepared where mixed */
bool profile_can_cut(const struct maker *m, int op, const int *part);
void profile_part_left(const struct profile *p, enum pass_class rows, int kind, unsigned set, bool is_free, int *part);

#endif
