/* SPDX-License-Identifier: MIT
 *
 * What the CPU decides about an op list once (program.c), and its execution (run.c, matmul.c, head.c).
 *
 *     cpu_program_reserve(d, list, err)         when a session opens: takes the memory
 *     cpu_program_find(d, segment, &p, &span, err)   in every pass: compiled already, or now
 *
 * One program serves all passes of a list.  What depends on the rows of a pass depends on their shape alone: few, many,
 * or a bulk prompt among them (enum row_shape); each matmul holds its units of work for all of these.  Segments are
 * stretches of the program, compiled for one share of their outputs.  A model has two plans, for few rows and for many,
 * which cut the list differently, and a share for each class of rows: the program keeps PROGRAM_PLANS compiled forms of
 * every operation, and those used least recently make room for others.  All are compiled again when weights have been
 * prepared or released, or a session has opened since: between these, the list and its weights stay as they are.  Not
 * thread-safe: it changes only under the engine's turn.
 */
#ifndef LUTRA_CPU_PROGRAM_IMPL_H
#define LUTRA_CPU_PROGRAM_IMPL_H

#include "cpu/device_impl.h"

/* Rows of one class go to the same kernels. */
enum row_class { ORDINARY, BULK, CLASSES };

/* SHAPE_GATED: in bulk, and a unit is of two parts at once. */
enum row_shape { SHAPE_FEW, SHAPE_MANY, SHAPE_BULK, SHAPE_GATED, SHAPES };

enum { ONE_PASS_ROWS = 64 }; /* few: a kernel reads a unit's weights once for all of them */

_Static_assert((int)ACT_FORMS >= (int)OP_WEIGHTS * (int)CLASSES, "a matmul's forms of activations fit the scratch");

struct units {
    uint32_t panels, n; /* of a unit; units */
};

/* One weight of a matmul.  Of OP_EXPERTS n_out, panels and units are those of one expert. */
struct part {
    const struct cpu_gemm *gemm[CLASSES];
    const void *packed;
    struct expert_cache *cache;        /* in place of that, where experts are packed as they are used; or NULL */
    size_t first;                      /* of the weight's outputs: those that are packed begin there, ... */
    const float *bias;                 /* ... and this */
    size_t n_out, first_panel, panels; /* panels: of the segment's share */
    int out, out_stride;               /* value, and its dim */
    int form[CLASSES];                 /* of the activations its kernels take */
    struct units units[SHAPES];
};

enum { EXPERT_ROWS = 64 }; /* of an expert that its kernels take at once */

struct act_form {
    const struct cpu_gemm *gemm;
    bool i8row; /* one scale per row */
    bool used[CLASSES];
};

struct matmul {
    int n_part, n_form;
    int in;
    enum value_rows rows;
    size_t n_in;
    bool bulk; /* has kernels for bulk rows */
    /* With bulk rows it may be one with the gate and the matmul behind it: nobody else reads what lies between. */
    bool gated;
    const struct op_experts *experts; /* of OP_EXPERTS, with the value of the routes; or NULL */
    int route;
    struct act_form form[ACT_FORMS];
    struct part part[OP_WEIGHTS];
};

struct worker;

/* One operation. */
struct instr {
    const struct op *op;
    bool meets;             /* first the threads meet: it reads what another has written since they last did */
    enum value_rows rows;   /* that `row` is called for */
    struct columns columns; /* of its output, or of K and V: gates and what works head by head may be cut */
    void (*row)(const struct worker *w, const struct instr *in, int row); /* NULL: it runs as a whole */
    bool (*run)(struct worker *w, const struct instr *in);                /* false: cancelled */
    union {
        struct matmul *matmul; /* OP_MATMUL, OP_EXPERTS, OP_HEAD */
        cpu_pointwise *pointwise;
        int rope; /* table */
    };
};

/* A segment that begins at this operation. */
struct span {
    int n_op;                            /* that are compiled; 0: none */
    struct share share;                  /* for this one */
    const struct instr *instr;           /* [n_op] */
    unsigned ropes;                      /* set of tables it rotates by */
    double all_row_bytes, out_row_bytes; /* of weights, for all rows and for wanted ones */
};

enum { PROGRAM_PLANS = 4 };

/* Segments that do not overlap. */
struct compiled {
    struct instr *instr;   /* [n_op], as the list's operations */
    struct span *span;     /* [n_op] */
    int *owner;            /* [n_op] the first operation of the segment that an operation is compiled for; -1: none */
    struct matmul *matmul; /* [n_matmul] in the list's order */
    uint64_t used;         /* program.n_found when a pass last asked for one of them */
};

struct rope_table {
    const struct op_rope *params; /* NULL: unused */
    double *power;                /* [n_rot/2] of ref_rope_powers */
};

struct program {
    struct program *next;
    const struct op_list *list;
    int n_op, n_matmul, rope_pairs; /* of the list */
    uint64_t n_change;              /* the device's, when it was compiled */
    uint64_t n_found, n_compiled;   /* segments that passes asked for, and those that were compiled for it */
    struct compiled plan[PROGRAM_PLANS];
    struct rope_table rope[ROPE_TABLES];
};

/* A new program for a list in place of its old one, compiled where segments first ask for it, without taking memory.
 * LUTRA_E_NO_MEMORY: nothing has changed. */
int cpu_program_reserve(struct cpu_device *d, const struct op_list *list, struct lutra_error *err);

/* device_extras.forget; NULL: all lists. */
void cpu_program_forget(struct device *self, const struct op_list *list);

/* The program of a segment's list, and the segment as it is compiled for its share.  Errors: LUTRA_E_ARGUMENT, nothing
 * was reserved for the list or a weight is not prepared; LUTRA_E_UNSUPPORTED, too many rotations. */
int cpu_program_find(struct cpu_device *d, const struct segment *segment, const struct program **out,
    const struct span **span, struct lutra_error *err);

/* Whether any weight of an OP_MATMUL has kernels for bulk rows. */
bool cpu_matmul_has_bulk(const struct cpu_device *d, const struct op *op);

/* ---- a pass under way ---- */

/* One submit, shared by its threads.  Work counters and the stop flag alternate between two slots by phase (a phase
 * lies between two barriers), so that thread 0 can set the next phase's while others still read this one's. */
struct run {
    struct cpu_device *device;
    const struct segment *segment;
    const struct program *program;
    const struct span *span; /* the segment, compiled */
    int n_rows[2];           /* by enum value_rows */
    int n_own;               /* of all rows those of the segment's share */
    bool bulk[2];            /* of these rows some are in bulk */
    struct {
        LUTRA_ALIGNED(64) atomic_size_t next;
        bool stop;
    } phase[2];
    bool stopped; /* written by thread 0 at the end */
};

/* What one thread knows. */
struct worker {
    struct run *run;
    int ith, nth;
    unsigned phase;
    struct {
        int first, last;
    } share[2]; /* its rows first .. last - 1, by enum value_rows */
};

/* Meets the other threads; everything written before is visible after.  False: the pass is cancelled. */
bool cpu_worker_meet(struct worker *w);

/* The next unit of work of this phase: 0, 1, 2, ... over all threads. */
size_t cpu_worker_next(struct worker *w);

/* This thread's share first .. last - 1 of n. */
void cpu_worker_share(const struct worker *w, int n, int *first, int *last);

static inline float *cpu_value_row(const struct worker *w, int value, int row)
{
    const struct segment *s = w->run->segment;
    return (float *)s->pass->value[value].host + (size_t)row * (size_t)s->list->value[value].dim;
}

/* instr.run of OP_MATMUL, OP_EXPERTS and OP_HEAD. */
bool cpu_run_matmul(struct worker *w, const struct instr *in);
bool cpu_run_experts(struct worker *w, const struct instr *in);
bool cpu_run_head(struct worker *w, const struct instr *in);

/* Of OP_CONV and OP_DELTA_NET. */
bool cpu_run_conv(struct worker *w, const struct instr *in);
bool cpu_run_delta(struct worker *w, const struct instr *in);

/* Runs a gated matmul, the gate and the matmul behind it as one.  False: there are no bulk rows or in too many
 * stretches, and nothing was done.  *going: false if cancelled. */
bool cpu_run_gated(struct worker *w, const struct instr *in, bool *going);

/* Sets row or run. */
void cpu_run_bind(struct instr *in);

/* The body of pool_run: all operations of the segment. */
void cpu_run_segment(void *arg, int ith, int nth);

#endif
