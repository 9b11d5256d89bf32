/* SPDX-License-Identifier: MIT
 *
 * One pass of a model on a phone's GPU, NPU and CPU [HETERO 4]: which operation runs where by a plan, how long that
 * takes and what energy, between the ends of what the SoC's profile leaves open.  The law of the NPU is `qnn`: graphs
 * of fixed sizes, whose products are [HETERO Table 3]'s.
 *
 *     struct sim_question q = {.profile = &profile, .shape = &shape, .plan = SIM_FREE, .rows = 300, .n_out = 1};
 *     TRY(sim_pass(&q, &pass, err));                              pass.us.low .. middle .. high
 *
 * Products go to the GPU, to the NPU, or to both by outputs or by rows, as sched/solve.h finds it from the laws at the
 * middle of all intervals; attention, norms and the like are the GPU's.  The plan stays the same at both ends.  The
 * engine's plans by class of rows are made and run by its own code (pieces.c).
 *
 * Nothing here keeps state; any thread.
 */
#ifndef LUTRA_SIM_PHONE_H
#define LUTRA_SIM_PHONE_H

#include <stdbool.h>

#include "phone/laws.h"
#include "sched/solve.h"
#include "sim/shape.h"

/* Longer prompts are evaluated in passes of SIM_PASS_ROWS as long as more than SIM_LAST_ROWS are left. */
enum { SIM_OPS = 11, SIM_PASS_ROWS = 1024, SIM_LAST_ROWS = 2047, SIM_CHUNK = 256, SIM_ROWS_MAX = 1 << 20 };
enum { SIM_GRID = 20, SIM_BESIDE_MAX = 1024, SIM_ENTRIES = 48 };

struct sim_span {
    double low, middle, high;
};

enum sim_plan {
    SIM_FREE,       /* the fastest of those below at these rows */
    SIM_FINE,       /* any cut of any product, outputs in twentieths */
    SIM_TENSOR,     /* any cut, outputs in fifths and quarters, as in [HETERO Table 3]: Hetero-tensor */
    SIM_SOLVED,     /* no cut by rows, outputs cut as for a whole pass: a row's values do not depend on the length */
    SIM_ACTIVATION, /* whole graphs of rows on the NPU, the tail on the GPU; no cut by outputs */
    SIM_WEIGHT,     /* cuts by outputs, no cut by rows; padded to 32 rows: the hybrid */
    SIM_PIPE,       /* the NPU alone, one standard graph after another: NPU-pipe */
    SIM_PADDING,    /* the NPU alone, one graph of the next standard size */
    SIM_CHUNKED,    /* the NPU alone, graphs of SIM_CHUNK rows */
    SIM_PREPARE,    /* the NPU alone, a graph made for this length: Online-prepare */
    SIM_LAYER,      /* products on the NPU, of few rows on the GPU: Hetero-layer */
    SIM_GPU_ONLY,
    SIM_THREE, /* as SIM_FINE, and the big cores have outputs, too: no paper's plan, and none of SIM_FREE's */
    /* The engine's own plans on q->device, run by its executor (pieces.c); none of SIM_FREE's either. */
    SIM_ONE,    /* every operation on the first processor that can */
    SIM_CLASS,  /* products: whole blocks of a prompt on the first, all other rows on the last [HETERO 4.2.2] */
    SIM_HYBRID, /* the same, but the blocks are cut by outputs among all of them [HETERO 4.2.3] */
    SIM_PLANS,
};
const char *sim_plan_name(int plan);      /* NULL: there is no such plan */
const char *sim_processor_name(int unit); /* "gpu", "npu", "cpu" of enum sim_device; NULL: none */

struct sim_question {
    const struct soc_profile *profile;
    const struct sim_shape *shape;
    enum sim_plan plan;
    int rows;   /* of one sequence; with `many`, of as many sequences */
    int past;   /* keys before them */
    int n_out;  /* rows that go to the head */
    bool many;  /* each row is of another sequence, with its own `past` keys */
    int beside; /* without `many`: rows of so many other sequences that decode, each behind beside_past keys */
    int beside_past;
    enum sim_device device[SIM_UNITS]; /* [n_device] of the engine's plans, in order of preference */
    int n_device;
    bool slow_sync;     /* by the driver, with copies; the plan is the one for fast synchronization */
    bool natural_order; /* QNN's products without order exchange [HETERO 4.1] */
};

/* An operation of a layer, in order; the last is the head, once.  Without a choice: not part of this pass.  Of the
 * engine's plans a piece of a layer, of one processor. */
struct sim_op {
    char name[24];
    const char *of; /* of a piece: rows of "blocks", "others", "all"; else NULL */
    bool product;
    int n, k; /* outputs, inputs */
    struct solve_choice choice;
    struct sim_span us, start_us;          /* start: in its layer */
    double hand_over_us[SIM_ENDS];         /* of its time: T_sync + T_copy before it */
    double device_us[SIM_ENDS][SIM_UNITS]; /* behind that, of each that takes part */
};

struct sim_result {
    enum sim_plan plan; /* of SIM_FREE, which it was */
    struct sim_span us, mj, prepare_us;
    struct sim_span busy_us[SIM_UNITS];
    double hand_overs; /* of all layers; of the engine's plans, waits of the host */
    int n_pass;        /* more than one: the operations are those of the first */
    struct sim_op op[SIM_ENTRIES];
};

/* LUTRA_E_ARGUMENT: rows or past out of range; LUTRA_E_UNSUPPORTED: a plan that the processors cannot run, by name. */
int sim_pass(const struct sim_question *q, struct sim_result *out, struct lutra_error *err);

/* How many of the rows left the next pass takes. */
int sim_pass_rows(const struct sim_question *q, int left);

/* The value at one end. */
double *sim_at(struct sim_span *s, enum sim_end end);
void sim_add(struct sim_span *sum, const struct sim_span *x, double times);

#endif
