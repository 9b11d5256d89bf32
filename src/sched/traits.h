/* SPDX-License-Identifier: MIT
 *
 * What processors are like, measured without a model [HETERO 3]: products of made-up weights of type Q4_0 on each
 * device, and all devices at once.
 *
 *     struct traits t;
 *     TRY(traits_measure(&t, &(struct traits_how){.device = device, .n_device = n, .clock = clock}, &err));
 *     char *json = traits_text(&t, machine);
 *
 * Figure 1: the rate of square products by their size.  Figure 3: the time of a product by its rows, and from it the
 * stage: rows are computed so many at a time.  Figure 4: the same number of multiplications in two orders (a tall input
 * and a small weight, or a small input and a wide weight) and in two shapes (more rows than columns of the input, or
 * fewer).  Figure 5: the bytes of weights that products of one row read in a second.
 *
 * Products of 256 rows and more are a prompt's (ROW_BULK).  Every time is the median of a few.  What would take longer
 * than budget_us, judged by what was measured before, is left out: emulated devices are slow.
 */
#ifndef LUTRA_SCHED_TRAITS_H
#define LUTRA_SCHED_TRAITS_H

#include "base/clock.h"
#include "sched/plan.h"

enum { TRAIT_SIZES = 6, TRAIT_ROWS = 12 };

/* A product [rows][n_in] * [n_in][n_out]. */
struct trait_time {
    int rows, n_in, n_out;
    double us; /* 0: left out */
};

struct trait {
    char name[32];
    struct trait_time square[TRAIT_SIZES], row[TRAIT_ROWS];
    int stage;                            /* rows; 1: there are none; 0: not known */
    struct trait_time order[2], shape[2]; /* the one that should be better first */
    double gbs;                           /* alone; 0: left out */
    double together_gbs;                  /* its part of it while all devices read */
};

struct traits {
    struct trait device[PLAN_DEVICES];
    int n_device;
    double gbs; /* of all at once; 0: there is one */
};

struct traits_how {
    struct device *const *device; /* nothing else may use them meanwhile */
    int n_device;
    struct clock clock;
    double budget_us;                                           /* of one measurement */
    double memory_bytes;                                        /* of weights that are read for the bandwidth */
    int (*progress)(void *user, uint64_t done, uint64_t total); /* or NULL; nonzero cancels */
    void *user;
};

/* LUTRA_E_NO_MEMORY, LUTRA_E_CANCELLED, or what a device says. */
int traits_measure(struct traits *out, const struct traits_how *how, struct lutra_error *err);

/* As JSON, to be freed; NULL: out of memory. */
char *traits_text(const struct traits *t, const char *machine);

#endif
