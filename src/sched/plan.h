/* SPDX-License-Identifier: MIT
 *
 * Who computes what: an op list as pieces, each on one device, and the run itself.
 *
 *     struct plan plan;
 *     TRY(plan_open(&plan, list, devices, n_device, &err));      refuses what no device supports, by name
 *     TRY(plan_run(&plan, &pass, &waits, &rescue, &err));
 *
 * A plan puts each operation on the first device that supports it and all that must be with it: operations over the
 * same cache, or with the same weight.  Products, the gates between them and the head are cut by outputs among that
 * device and those that use the same prepared weights, by their caps.speed, or among devices that a struct plan_cut
 * names; so is an attention by K/V heads, with the rotations and norms of its heads and the append before it.  Products
 * and gates may be cut by class of rows, too: one cut for bulk rows, one for the others [HETERO 4.2.2, 4.2.3].  Where
 * each class has one device, norms, rotations and sums stay there, up to the next attention.  Results of the head are
 * merged behind the pass (ops/head.h).  sched/ sees only struct device and the op list.
 *
 * Pieces of one operation follow each other in the plan, asynchronous devices first: there is no wait between them.
 *
 * A value is valid on a set of devices: who wrote it last, and who has acquired it since.  From this plan_open finds
 * what each piece acquires and which devices it waits for: those that wrote what it reads or still use what it writes.
 * Nothing moves between devices that already hold it.  Both are known for rows of each class apart: a pass without rows
 * of a class leaves out that class's pieces.
 */
#ifndef LUTRA_SCHED_PLAN_H
#define LUTRA_SCHED_PLAN_H

#include <stdbool.h>

#include "ops/device.h"

enum { PLAN_PIECES = 3072, PLAN_DEVICES = 8, PLAN_PARTS = 2 * PLAN_DEVICES, PLAN_MOVES = 8192 };
enum { PLAN_BULK_ROWS = 32 }; /* positions of a bulk block where a plan cuts by class of rows */

/* How devices share the outputs of an operation: part[i] to device[i], in proportion.  A device that is not named, or
 * not left, computes none of them.  n 0: by caps.speed, devices that use the same prepared weights alone. */
enum { CUT_DEVICES = 4 };
struct plan_cut {
    int n;
    struct device *device[CUT_DEVICES];
    float part[CUT_DEVICES];
    bool by_class;           /* of products over all rows: bulk rows have a cut of their own ... */
    float bulk[CUT_DEVICES]; /* ... and this is it */
    bool apart;              /* it begins a piece, though the one before could go on: so it has a time of its own */
};

struct plan_piece {
    int device;                 /* in plan.device */
    int first, n;               /* ops list->op[first .. first + n - 1] */
    struct share share;         /* of each of them; rows of one class: over values of all rows */
    int like;                   /* the first piece on its device of the same operations, sizes and share */
    int16_t wait[PLAN_DEVICES]; /* the last piece of each device that must be over before; -1: none */
    int first_move, n_move;     /* what it takes from shared memory before, in plan.move */
    uint64_t publish[2];        /* values whose columns, those of its share, others take from there after: sets of those
                                   whose ordinary and whose bulk rows */
};

struct plan_move {
    int value;
    struct share share;
};

struct plan {
    const struct op_list *list;
    struct device *device[PLAN_DEVICES]; /* that run anything */
    int n_device;
    struct plan_piece piece[PLAN_PIECES];
    int n_piece;
    struct plan_move move[PLAN_MOVES];
    int n_move;
    bool by_class;    /* some pieces are of rows of one class */
    int head, n_head; /* the first piece of a head that is cut, and how many share it; n_head 0: it is not */
    /* Pieces first .. first + n - 1, one for each share, wrote a value last; n 0: none. */
    struct plan_writers {
        int16_t first, n;
    } writer[VALUE_MAX];
};

/* Whom to ask when a device is lost: replace opens the plan anew without it, or says why not.  And for weights that are
 * not prepared yet, of n operations of one layer that are next: nothing is under way when hold is called.  hold NULL:
 * all are prepared, or the devices need none. */
struct plan_rescue {
    int (*replace)(void *user, struct device *lost, struct lutra_error *err);
    void *user;
    int (*hold)(void *user, const struct op *op, int n, struct lutra_error *err);
};

/* A list that op_list_check accepts; list and devices, in order of preference, are borrowed and must outlive the plan.
 * LUTRA_E_UNSUPPORTED names the operation, its layer and the last device's reason; the plan is empty then, and plan_run
 * refuses it.  Allocates nothing. */
int plan_open(
    struct plan *plan, const struct op_list *list, struct device *const *device, int n_device, struct lutra_error *err);

/* The same, with cut [n_op] for the operations of the list: borrowed for the call only. */
int plan_open_cut(struct plan *plan, const struct op_list *list, struct device *const *device, int n_device,
    const struct plan_cut *cut, struct lutra_error *err);

/* To each of its devices what its pieces need of every weight, of products the outputs of their shares: weight_give. */
int plan_give_weights(const struct plan *plan, struct lutra_error *err);

/* The same, and all of it prepared, with what operations carry beside weights.  fetch makes the bytes of a tensor that
 * is computed; NULL: none is.  Not during a pass. */
int plan_prepare(const struct plan *plan, void (*fetch)(void *user, const struct tensor *tensor), void *user,
    struct lutra_error *err);

/* Which devices run an operation, and the share of each: asynchronous ones first.  A device may have two, of bulk rows
 * and of the others.  Returns how many; 1: all of it on team[0], because no device shares it or a share would be empty.
 * Errors as plan_open. */
int plan_team(const struct op_list *list, const struct op *op, struct device *const *device, int n_device,
    const struct plan_cut *cut, struct device *team[PLAN_PARTS], struct share share[PLAN_PARTS], int *n_op,
    struct lutra_error *err);

/* Whether it is said how much of an operation a device computes: by its caps.speed, or by class of rows. */
bool plan_part_is_said(const struct device *device);
/* Whether some of these devices prepare weights of their own, so that a row may have other numbers on each. */
bool plan_devices_differ(struct device *const *device, int n_device);
/* All that can share: by caps.speed, those that say none one part each; where caps.by_class says so, bulk rows by
 * bulk_speed. */
struct plan_cut plan_cut_evenly(struct device *const *device, int n_device);
/* Whether that is a cut by class of rows. */
bool plan_devices_by_class(struct device *const *device, int n_device);
/* Devices that can share: ordinary rows to the first that works in the host's memory (the last, where none does), bulk
 * rows to the first other one. */
struct plan_cut plan_cut_by_class(struct device *const *device, int n_device);

/* How many operations from this one on are cut as one: an attention and what works on its heads before it; else 1. */
int plan_stretch(const struct op_list *list, const struct op *op);

/* One forward pass: submits the pieces in order and waits for all of them, as `waits` says (waits.h; NULL: by each
 * device's wait).  Stops between pieces when pass->cancel is set: LUTRA_E_CANCELLED.  When a device is lost, nothing of
 * the pass counts yet: it is done again from its beginning with the plan that `rescue` (NULL: none) makes of what is
 * left.  Nothing of the pass is under way when it returns.  Allocates nothing. */
struct waits;
int plan_run(const struct plan *plan, const struct pass_args *pass, struct waits *waits,
    const struct plan_rescue *rescue, struct lutra_error *err);

/* Behind plan_run: what it has left of a value goes to where another plan, whose list has the value given, finds it. */
int plan_share(const struct plan *plan, const struct pass_args *pass, int value, struct lutra_error *err);

/* Line 0, 1, ... of a report: what each device runs, then what the first of preference does not and its reason (a
 * reason that repeats itself once).  False: there is no such line. */
bool plan_report(const struct plan *plan, struct device *first, int line, char *text, size_t size);

/* Whether a device writes or reads caches. */
bool plan_keeps_cache(const struct plan *plan, const struct device *device);

/* Whether devices that prepare weights of their own share operations: their numbers may be others. */
bool plan_mixes(const struct plan *plan);

/* Positions of a bulk block (ROW_BULK): the most that any operation's device asks for, and with cuts by class at least
 * PLAN_BULK_ROWS; 0: none. */
int plan_bulk_rows(const struct plan *plan);

/* Whether all devices know row.allow. */
bool plan_knows_masks(const struct plan *plan);

/* The smallest of the devices' row limits, and of their flat rows; the types of a cache that all who use it can. */
struct device_caps plan_caps(const struct plan *plan);

#endif
