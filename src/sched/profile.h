/* SPDX-License-Identifier: MIT
 *
 * What the devices of a plan take for the operations of a model, measured, and the cuts that follow [HETERO 4.1, 4.4].
 *
 *     struct profile *p = ...;
 *     TRY(profile_make(p, &how, &err));                       measures, solves, times whole passes
 *     profile_cuts(p, PASS_FEW, PLAN_SOLVED, list, devices, n, cut);
 *     TRY(plan_open_cut(&plan, list, devices, n, cut, &err));
 *
 * Operations of one kind (the same shapes and types of weights) are measured inside whole passes, so that their weights
 * come from memory and what they read from where it was written: on each device alone, then cut among all sets of
 * devices, because devices that share a memory are slower side by side.  The time of a kind is its mean in a pass.  All
 * times are means over the fastest third of several passes, which take turns with those of other plans: what disturbs a
 * machine only adds.  What passes take beyond the slowest part of every operation is sync_us, per cut.  The solver
 * finds the cut of each kind for passes of few rows and of many.  Then whole passes are timed for each plan, and the
 * fastest is kept: the first device alone is one of them, so what is kept is not slower than that.
 *
 * Where devices prepare weights of their own, so that their numbers differ, few rows and many get the same plan, the
 * one that is best for both: with one cut, or by class of rows with two.
 */
#ifndef LUTRA_SCHED_PROFILE_H
#define LUTRA_SCHED_PROFILE_H

#include "sched/solve.h"
#include "sched/waits.h"

/* Passes of few rows, decoding above all, and of many, prompts: each has a plan of its own. */
enum pass_class { PASS_FEW, PASS_MANY, PASS_CLASSES };
enum { PASS_MANY_ROWS = 64 }; /* from so many on */

static inline enum pass_class pass_class_of(int n_row)
{
    return n_row >= PASS_MANY_ROWS ? PASS_MANY : PASS_FEW;
}

enum profile_plan {
    PLAN_ONE,    /* all on the first device */
    PLAN_EVEN,   /* by caps.speed */
    PLAN_SOLVED, /* by the solver */
    PLAN_CLASS,  /* bulk rows on one device, the others on another; of devices whose numbers differ */
    PROFILE_PLANS,
    PLAN_FREE = PROFILE_PLANS /* as solved, of few rows and of many by itself: never timed or kept */
};

enum { PROFILE_KINDS = 96, PROFILE_GRID = 16, PROFILE_SETS = 1 << SOLVE_DEVICES, PROFILE_POINTS = 2 };

struct profile_time {
    double us, spread_us; /* the mean of the fastest third, and its range */
};

/* A cut that was measured: all devices with a part at once. */
struct profile_joint {
    int part[SOLVE_DEVICES]; /* of PROFILE_GRID */
    struct profile_time time[SOLVE_DEVICES];
};

struct profile_kind {
    char name[128]; /* of an operation that can be cut; other stretches of a pass: their first operation */
    bool cut;       /* it can be */
    int count;      /* in a pass */
    struct profile_shape {
        struct profile_time alone[SOLVE_DEVICES]; /* 0: not measured */
        int n_joint[PROFILE_SETS];                /* by set of devices */
        struct profile_joint joint[PROFILE_SETS][PROFILE_POINTS];
        int part[SOLVE_DEVICES]; /* solved: of PROFILE_GRID; where numbers differ for both classes together, and: */
        int free[SOLVE_DEVICES]; /* for this one by itself */
    } of[PASS_CLASSES];
};

struct profile {
    int n_plan; /* timed: PROFILE_PLANS, or without PLAN_CLASS */
    int n_device;
    char device[SOLVE_DEVICES][32];
    int n_kind;
    struct profile_kind kind[PROFILE_KINDS];
    struct profile_pass {
        int n_row, n_left_out; /* rows of a pass, and of those that would take too long; 0: none would */
        int reps, passes;      /* as asked for, or fewer where time is short */
        bool once;             /* no pass of the same plan before one that is timed */
        double sync_us;        /* that a cut costs beyond its slowest part */
        double predicted_us[PLAN_CLASS];
        struct profile_time measured[PROFILE_PLANS];
        double
            uneven[PROFILE_PLANS]; /* of the time that parts of one operation run: the first has ended, the last not */
        enum profile_plan best;
    } pass[PASS_CLASSES];
};

struct profile_how {
    const struct op_list *list;
    struct device *const *device; /* [n_device] in order of preference */
    int n_device;
    const struct pass_args *pass[PASS_CLASSES]; /* passes to be measured; the devices are reserved for them */
    struct clock clock;
    enum wait_mode sync;
    int reps;        /* passes of each plan that operations are measured in */
    int passes;      /* of each plan */
    double limit_us; /* less of both where it would take longer, and then passes of fewer rows; 0: none */
    /* Or NULL.  Makes the pass of many rows one of so many: its own number, or a half, a quarter ... */
    int (*shorten)(void *user, int n_row, struct lutra_error *err);
    int (*progress)(void *user, uint64_t done, uint64_t total); /* or NULL; nonzero cancels */
    void (*fetch)(void *user, const struct tensor *tensor);     /* as of plan_prepare */
    void *user;
};

/* Nothing else may use the devices meanwhile.  LUTRA_E_UNSUPPORTED: more devices or kinds than
 * there is room for; others as plan_open, plan_run and solve; LUTRA_E_CANCELLED. */
int profile_make(struct profile *out, const struct profile_how *how, struct lutra_error *err);

/* Sets cut [n_op] to those of a plan, where numbers differ the same for few rows and many; operations of a kind
 * that the profile does not have are left to the first of its devices.  Where some of its devices are not among these,
 * or lost, the cuts of the others are solved anew from its times.  False: none of its devices is there. */
bool profile_cuts(const struct profile *p, enum pass_class rows, enum profile_plan plan, const struct op_list *list,
    struct device *const *device, int n_device, struct plan_cut *cut);

/* "matmul Q4_0 1536>8960,8960" of an operation that may be cut. */
void profile_kind_name(const struct op_list *list, const struct op *op, char *out, size_t n);

/* What a profile belongs to: it counts for no other. */
struct profile_key {
    const char *build, *model, *machine;
};

/* As JSON, to be freed; NULL: out of memory. */
char *profile_text(const struct profile *p, const struct profile_key *key);

/* LUTRA_E_UNSUPPORTED: of another version, build, model or machine; LUTRA_E_FORMAT names the key that is wrong.  On
 * failure *p is empty. */
int profile_parse(
    struct profile *p, const char *text, size_t n, const struct profile_key *key, struct lutra_error *err);

/* A file of it: *out is freed by the caller, NULL on failure.  It is written whole or not at all. */
int profile_read(struct profile **out, const char *path, const struct profile_key *key, struct lutra_error *err);
int profile_write(const char *path, const char *text, struct lutra_error *err);
/* Whether that could be done: who measures for minutes asks before. */
int profile_can_write(const char *path, struct lutra_error *err);

/* A hash of who computes what in passes of few rows and of many, the same for the same plans, and why they are kept:
 * what passes took under each plan that was timed.  p NULL: the hash alone. */
void profile_reason(const struct profile *p, const struct plan *few, const struct plan *many, char *text, size_t size);

const char *profile_plan_name(enum profile_plan plan); /* "one", "even", "solved", "class", "free" */
int profile_plan_named(const char *name);              /* -1: none has that name */

#endif
