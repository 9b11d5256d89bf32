/* SPDX-License-Identifier: MIT
 *
 * Inside of the CPU device: its weights and its scratch.  What it makes of an op list is in program_impl.h.
 */
#ifndef LUTRA_CPU_DEVICE_IMPL_H
#define LUTRA_CPU_DEVICE_IMPL_H

#include "base/arena.h"
#include "cpu/device.h"
#include "cpu/expert_cache.h"
#include "cpu/kernels.h"
#include "cpu/slab.h"
#include "ops/head.h"

enum {
    ACT_FORMS = 6,   /* forms of prepared activations that one matmul's parts may need: one per weight and class */
    ROPE_TABLES = 4, /* distinct rotations of one op list */
    HEAD_ROWS = 64,  /* wanted rows of one pass over the head's weight */
    STRETCHES = 16,  /* of rows of one class that a matmul prepares at once */
};

/* A prepared weight. */
struct packed {
    const struct cpu_gemm *gemm; /* layout and kernels; NULL: rows are gathered from the source */
    const struct cpu_gemm *bulk; /* kernels for bulk rows; NULL: gemm */
    bool i8row;                  /* its activations have one scale per row */
    struct slab *slab;           /* NULL: data is the weight's stored copy */
    const void *data;            /* gemm->packed_bytes; NULL: only some experts are packed */
    struct expert_cache *cache;  /* those, or where their packed copy is read as they are used; NULL: all are here */
    size_t first;                /* of the weight's outputs, a multiple of 32: where those of this begin */
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
    float *logits;          /* [n_thread][HEAD_ROWS][HEAD_OUTPUTS]; also what a matmul gathers */
    struct top_heap *heap;  /* [n_thread][HEAD_ROWS] */
    struct head_part *part; /* [HEAD_ROWS][n_part] of a head that is not cut */
    size_t n_part;
    int32_t *expert_rows; /* [n_thread][n_expert_rows]: slots of a pass in the order of their experts, and counts */
    size_t n_expert_rows;
    float *delta; /* [n_thread][delta_floats]: a tile of the state behind each draft */
    size_t delta_floats;
    uint8_t *panels; /* [n_thread][panel_bytes] of experts that are packed as they are used */
    size_t panel_bytes;
};

/* What is read ahead of experts that are not packed (experts.c). */
struct ahead {
    const struct op_list *list; /* of the last OP_EXPERTS, its layer and its experts */
    int layer, n_expert, n_row, n_used;
    int32_t id[AHEAD_IDS];
    uint64_t waited; /* pages_waited when that was last looked at */
    int left;        /* operations before it stops, where nothing has waited for the file */
};

struct cpu_driver;

struct cpu_device {
    struct device base;
    char name[32];
    struct pool *pool;
    int repeat;                /* of cpu_device_settings, at least 1 */
    struct cpu_driver *driver; /* the thread that runs its segments; NULL: who submits them */
    struct cpu_kernels kernels;
    struct cpu_scratch scratch;
    struct slab *slabs; /* of packed weights */
    struct program *programs;
    uint64_t n_change; /* of weights: how often one was prepared or released */
    struct ahead ahead;
};

/* Whose weights it uses. */
static inline struct cpu_device *cpu_store(struct cpu_device *d)
{
    return d->base.store ? (struct cpu_device *)d->base.store : d;
}

/* What it has of a weight; NULL: nothing is prepared. */
static inline const struct packed *cpu_packed_of(const struct cpu_device *d, const struct weight *w)
{
    return weight_packed(w, d->base.store ? d->base.store : &d->base);
}

/* device.c: a segment from its beginning to its end, on the caller and the pool's workers. */
int cpu_run_now(struct cpu_device *d, const struct segment *segment, struct lutra_error *err);

/* driver.c: segments of a device on a thread of its own, in order. */
int cpu_driver_open(struct cpu_driver **out, struct cpu_device *d, int cpu, struct lutra_error *err);
void cpu_driver_close(struct cpu_driver **driver);
/* Returns the segment's number, from 1; what it points to stays until it is over.  0: the driver is lost. */
uint64_t cpu_driver_post(struct cpu_driver *driver, const struct segment *segment);
bool cpu_driver_done(const struct cpu_driver *driver, uint64_t number);
/* It has taken up no work for 2 s, and never will again. */
bool cpu_driver_is_lost(const struct cpu_driver *driver);
/* For tests: takes up no work while it is frozen. */
void cpu_driver_freeze(struct cpu_driver *driver, bool frozen);
/* device_extras.ran. */
bool cpu_driver_ran(const struct cpu_driver *driver, uint64_t number, uint64_t *begin_us, uint64_t *end_us);
/* Until that one is over: the first failure of those that nobody has waited for.  LUTRA_E_DEVICE_LOST: it never will
 * be. */
int cpu_driver_wait(struct cpu_driver *driver, uint64_t number, struct lutra_error *err);

/* Its sizes grow to these. */
int cpu_scratch_reserve(
    struct cpu_device *d, const struct op_list *list, int max_rows, int max_out, int n_ctx, struct lutra_error *err);

#endif
