/* SPDX-License-Identifier: MIT
 *
 * Inside of the CPU device: what device.c (weights, scratch, front doors), step.c (a segment on the pool) and head.c
 * (results of the wanted rows) share.
 */
#ifndef LUTRA_CPU_DEVICE_IMPL_H
#define LUTRA_CPU_DEVICE_IMPL_H

#include <stdatomic.h>

#include "base/arena.h"
#include "cpu/device.h"
#include "cpu/kernels.h"
#include "cpu/slab.h"

enum {
    ACT_FORMS = 6,       /* forms of prepared activations that one matmul's parts may need: one per weight and class */
    ROPE_TABLES = 4,     /* distinct rotations of one op list */
    HEAD_OUTPUTS = 1024, /* outputs of one unit of work of the head; log-sum-exp is merged over these */
    HEAD_ROWS = 64,      /* wanted rows of one pass over the head's weight */
    STRETCHES = 16,      /* of rows of one class that a matmul prepares at once */
};

/* A prepared weight. */
struct packed {
    const struct cpu_gemm *gemm; /* layout and kernels; NULL: rows are gathered from the source */
    const struct cpu_gemm *bulk; /* kernels for bulk rows; NULL: gemm */
    struct slab *slab;           /* NULL: data is the weight's stored copy */
    const void *data;            /* gemm->packed_bytes */
    size_t n_out, n_in, bytes;
};

struct top_entry {
    float logit;
    int32_t id;
};

/* A min-heap of the best entries so far. */
struct top_heap {
    int n;
    struct top_entry entry[ROW_TOPK];
};

struct rope_table {
    const struct op_rope *params; /* NULL: unused */
    float *cs;                    /* [row][n_rot/2][2] */
};

struct cpu_scratch {
    struct arena memory;
    int max_rows, max_out, n_ctx; /* what it was reserved for */
    size_t act_bytes, attention_bytes;
    void *act[ACT_FORMS];
    void *attention;
    float *rope[ROPE_TABLES]; /* [max_rows][rope_floats] */
    size_t rope_floats;
    uint8_t *work; /* [n_thread][work_bytes] of matmul kernels */
    size_t work_bytes;
    /* head */
    float *logits;         /* [n_thread][HEAD_ROWS][HEAD_OUTPUTS]; also what a matmul gathers */
    struct top_heap *heap; /* [n_thread][HEAD_ROWS] */
    float *part_max;       /* [n_part][HEAD_ROWS] of n_part = outputs / HEAD_OUTPUTS */
    double *part_sum;      /* [n_part][HEAD_ROWS] of exp(logit - max) */
    size_t n_part;
};

struct cpu_device {
    struct device base;
    struct pool *pool;
    struct cpu_kernels kernels;
    struct cpu_scratch scratch;
    struct slab *slabs; /* of packed weights */
};

/* One submit, shared by its threads.  Work counters and the stop flag alternate between two slots by phase (a phase
 * lies between two barriers), so that thread 0 can set the next phase's while others still read this one's. */
struct run {
    struct cpu_device *device;
    const struct segment *segment;
    struct rope_table rope[ROPE_TABLES];
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
    int pending; /* rows written since the last barrier that only their own thread may read: 0 none, or 1 + value_rows */
};

/* Meets the other threads; everything written before is visible after.  False: the step is cancelled. */
bool cpu_worker_meet(struct worker *w);

/* The next unit of work of this phase: 0, 1, 2, ... over all threads. */
size_t cpu_worker_next(struct worker *w);

/* This thread's share first .. last - 1 of n. */
void cpu_worker_share(const struct worker *w, int n, int *first, int *last);

int cpu_value_rows(const struct segment *s, int value);
float *cpu_value_row(const struct segment *s, int value, int row);

/* device_ops.reserve */
int cpu_device_reserve(
    struct device *self, const struct op_list *list, int max_rows, int max_out, int n_ctx, struct lutra_error *err);

/* Rotations whose cosines and sines are the same numbers. */
bool cpu_rope_same_table(const struct op_rope *a, const struct op_rope *b);

/* Whether any weight of an OP_MATMUL has kernels for bulk rows. */
bool cpu_matmul_has_bulk(const struct op *op);

/* Runs operations i, i + 1 and i + 2 of the segment as one where they are two products, a gate on them and a product of that,
 * nobody else reads what lies between, and there are bulk rows whose kernels can.  False: they cannot, and nothing was done.
 * *going: false if cancelled. */
bool cpu_run_gated(struct worker *w, int i, bool *going);

/* A row of an operation that is no matmul, attention or head. */
void cpu_run_row(const struct worker *w, const struct op *op, int row);

/* out = f(a, b) of OP_SWIGLU and its like; NULL: it is none. */
cpu_pointwise *cpu_gate_of(const struct cpu_kernels *k, enum op_kind kind);

/* Runs OP_MATMUL, OP_HEAD.  False: cancelled. */
bool cpu_run_matmul(struct worker *w, const struct op *op);
bool cpu_run_head(struct worker *w, const struct op *op);

/* The body of pool_run: all operations of the segment. */
void cpu_run_segment(void *arg, int ith, int nth);

#endif
