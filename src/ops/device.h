/* SPDX-License-Identifier: MIT
 *
 * What any processor must offer: prepare weights, run a segment of operations, say what it can do and what it costs.
 *
 * A pass goes: the executor (sched/) submits segments with the tickets they depend on, and waits for the last.
 * A device that runs at once (the CPU) returns a finished ticket; one that computes beside its caller (caps.async) a
 * ticket that `done` polls and `wait` waits for.  Several devices may share one operation: each computes a range of its
 * outputs (struct share), which are columns of one value [HETERO 4.2.1, weight-centric partition].  Losing a device is
 * an ordinary status, LUTRA_E_DEVICE_LOST: the pass is redone from the last commit on what is left.
 */
#ifndef LUTRA_OPS_DEVICE_H
#define LUTRA_OPS_DEVICE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "ops/batch.h"
#include "ops/kv_view.h"
#include "ops/op.h"
#include "ops/share.h"

struct device;

/* Memory that all devices share: a value, or a cache.  A device with memory of its own (struct device_memory) brings
 * what it wrote there by publish and takes what others wrote from there by acquire; sched/ knows who holds what, and
 * says when. */
struct buffer {
    void *host; /* 64-byte aligned */
    size_t bytes;
    void *handle; /* of the device that allocated it, or NULL */
};

struct head_parts;

/* Everything one forward pass reads and writes, weights apart. */
struct pass_args {
    const struct batch *batch;
    const struct kv_view *kv;
    struct buffer *value;   /* [n_value]: host = [n_row or n_out][dim] f32, dim as in op_list.value */
    const int32_t *out_row; /* [n_out] rows with a want, ascending */
    int n_out;
    int n_ctx;                 /* the longest that a sequence may become */
    int n_ahead;               /* rows of prompts that wait for later passes */
    struct row_result *result; /* [n_out]; row and the pointers it wants are set before the pass */
    const atomic_bool *cancel; /* may be NULL; looked at between operations */
    struct head_parts *head;   /* where shares of OP_HEAD leave their results (head.h); NULL: it is not cut */
};

/* Rows first .. first + n - 1 of a value, side by side and of one class. */
struct row_run {
    int first, n;
};

/* The rows of a share, run after run: the next one behind *r, which begins as {0, 0}.  False: there is none, and r->n
 * is 0.  A share of all rows has one run. */
bool share_next_rows(const struct pass_args *pass, enum value_rows rows, struct share share, struct row_run *r);

/* How many rows of a share there are. */
int share_count_rows(const struct pass_args *pass, enum value_rows rows, struct share share);

struct segment {
    const struct op *op; /* [n_op], run in order */
    int n_op;
    const struct op_list *list; /* for value dims and cache shape */
    const struct pass_args *pass;
    /* Of every one of its operations.  A range of outputs: of kinds in caps.shares.  Of operations that work head by
     * head (op_by_head) its bounds are those of K/V heads.  With rows of one class: SHARED_BY_OUTPUTS, or with all
     * outputs kinds in caps.class_shares, over values of all rows; other rows of these are neither read nor written. */
    struct share share;
    int place; /* of the share among those of its operations: 0, 1, ... */
};

struct ticket {
    struct device *device;
    uint64_t id; /* 0 = already finished */
};

/* What a pass asks for, counted; of the cache see kv/. */
struct demand {
    uint64_t weight_bytes;
    uint64_t mac; /* multiply-accumulates */
};

/* The same of operations before the pass is known. */
struct demand_rates {
    struct demand rows[2];    /* by enum value_rows: weight_bytes once, if there are such rows; mac of each */
    uint64_t seen_mac;        /* of a position that a row sees */
    uint64_t swa_mac;         /* of one among the row's last `window`, in layers that see no others */
    int window;               /* 0: no layer has one */
    uint64_t expert_bytes[2]; /* by enum value_rows: of all experts, of which a row reads expert_share */
    double expert_share;
};

/* Adds an operation's, whose weights are prepared. */
void demand_add(struct demand_rates *rates, const struct op_list *list, const struct op *op);
void demand_of(const struct demand_rates *rates, const struct pass_args *pass, struct demand *out);

/* A packed copy as bytes that a file can keep. */
struct packed_view {
    const char *layout; /* a name with its version: the same name means the same bytes on every machine and device */
    const void *data;   /* NULL before prepare */
    size_t bytes;
};

/* What the device does at best, measured now with all of it at work.  0: not known. */
struct device_peaks {
    const char *int8_name;      /* the instruction behind int8_gmac; NULL: none */
    double int8_gmac, f32_gmac; /* 10^9 multiply-accumulates a second, operands in registers */
    const char *bf16_name;      /* the matrix unit's product of bf16 pairs; NULL: none */
    double bf16_gmac;           /* of it */
    double stream_gbs;          /* GB/s read from memory */
};

/* What K and V may be: each any type of a cache; both F16, F32 or Q8_0; both F16. */
enum device_cache { DEVICE_CACHE_ANY, DEVICE_CACHE_ALIKE, DEVICE_CACHE_F16 };

/* Kinds of which a range of outputs is a range of a product's, and of its gate's, columns; and kinds that devices may
 * share row by row. */
enum {
    SHARED_BY_OUTPUTS = 1 << OP_MATMUL | 1 << OP_SWIGLU | 1 << OP_GEGLU | 1 << OP_RELU2 | 1 << OP_SWIGLU_OAI,
    SHARED_BY_CLASS = SHARED_BY_OUTPUTS | 1 << OP_RMS_NORM | 1 << OP_LAYER_NORM | 1 << OP_ROPE | 1 << OP_GELU |
                      1 << OP_GELU_ERF | 1 << OP_ADD | 1 << OP_ADD_SCALED | 1 << OP_SCALE | 1 << OP_MUL | 1 << OP_GATE |
                      1 << OP_PERMUTE,
};

struct device_caps {
    int max_rows;        /* rows of one pass */
    int flat_rows;       /* rows up to which a pass costs about the same as one, with weights of Q4_0: `underutilized`
                            counts to this */
    size_t memory_bytes; /* budget for packed weights; 0 = host memory */
    enum device_cache cache;
    bool async;    /* submit returns before the segment is over */
    bool masks;    /* its head knows row.allow */
    float speed;   /* of operations that are cut between devices; 0: it takes part only where a cut names it */
    bool by_class; /* that is of ordinary rows, 0: none of them; of bulk rows: */
    float bulk_speed;
    uint32_t shares;       /* set of 1 << enum op_kind, of which it computes ranges of outputs or heads; */
    uint32_t class_shares; /* and of which, over values of all rows, all outputs of the rows of one class */
    bool one_share; /* of a weight it computes all outputs that it has prepared: no other part for another class */
};

/* What every device has. */
struct device_ops {
    void (*close)(struct device *self);

    /* 0, or LUTRA_E_UNSUPPORTED with the reason in *err, for an operation of a list that op_list_check accepts.  Judges
     * parameters, weight type and cache geometry, not sizes of a pass. */
    int (*supports)(struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err);

    /* Prepares what weight_held says that this device is to have (a device that it does not name: all outputs), which
     * may be more than it has already: fills has, packed and bytes.  An output's values are the same whichever others
     * are prepared with it.  The source pages may be dropped by the caller afterwards unless *keeps_source is set.  Not
     * while a segment is under way.  On failure nothing is prepared, or what was before.
     * weight->stored, where set, is used in place: as long as `packed` said, 64-byte aligned, and valid until release.
     * Where its bytes are read for a copy or a check and do not have their sum, it becomes NULL, and the source is
     * packed.  release: what the device is to have stays as it is. */
    int (*prepare)(struct device *self, struct weight *weight, bool *keeps_source, struct lutra_error *err);
    void (*release)(struct device *self, struct weight *weight);

    /* Scratch the device needs for passes up to these sizes, and memory for what it works out about the list; called
     * when a session opens, so that passes allocate nothing.  Grows only, and may move: not during a pass.  From now on
     * the list's operations stay as they are until it is called again, or the list is forgotten. */
    int (*reserve)(
        struct device *self, const struct op_list *list, int max_rows, int max_out, int n_ctx, struct lutra_error *err);

    /* Starts a segment, operations of a list that was reserved for, once `after` (tickets of this device) have
     * completed.  A device completes its segments in submission order. */
    int (*submit)(struct device *self, const struct segment *segment, const struct ticket *after, int n_after,
        struct ticket *out, struct lutra_error *err);
    int (*wait)(struct device *self, const struct ticket *ticket, struct lutra_error *err);

    /* Whether wait would return at once.  NULL: the device cannot tell. */
    bool (*done)(struct device *self, const struct ticket *ticket);

    int (*buffer_alloc)(struct device *self, size_t bytes, struct buffer *out, struct lutra_error *err);
    void (*buffer_free)(struct device *self, struct buffer *buffer);
};

/* Functions of a device that does not work in the host's memory. */
struct device_memory {
    /* Both move what a pass has of a value: all columns, or some where operations are shared.  Publish: the segment
     * that wrote them has been waited for, others may be under way. */
    int (*publish)(struct device *self, struct buffer *buffer, struct area area, struct lutra_error *err);
    void (*acquire)(struct device *self, struct buffer *buffer, struct area area);

    /* What a model's operations carry beside weights (norms, biases, sinks) is taken to where the device reads it, for
     * the operations it supports; unload forgets it.  Not during a pass. */
    int (*load)(struct device *self, const struct op_list *list, struct lutra_error *err);
    void (*unload)(struct device *self, const struct op_list *list);

    /* Memory of a cache whose layers (kv_view.h) may lie in different memories of the device, after reserve: the cache
     * lies by layer, not by block.  buffer_free gives it back. */
    int (*cache_alloc)(
        struct device *self, const struct op_list *list, size_t bytes, struct buffer *out, struct lutra_error *err);

    /* A place of its own for a buffer that another device has allocated, whose contents it does not have yet; a value,
     * or with `list` the cache of a session.  leave gives it back, before the buffer is freed. */
    int (*join)(struct device *self, const struct op_list *list, const struct buffer *buffer, struct lutra_error *err);
    void (*leave)(struct device *self, const struct buffer *buffer);
};

/* What some devices know beside that; each may be NULL. */
struct device_extras {
    /* Positions of a prompt's block from which on the device has another numerics class for an operation (of an NPU:
     * for one that is prepared), faster in bulk; 0: it has not.  See ROW_BULK. */
    int (*bulk_rows)(struct device *self, const struct op *op);

    /* What prepare makes, or has made, of this weight.  False: nothing that a file could keep. */
    bool (*packed)(struct device *self, const struct weight *weight, struct packed_view *out);

    /* The bytes of a prepared weight's source are others now.  Allocates nothing; not during a pass.  NULL: release
     * and prepare. */
    void (*repack)(struct device *self, struct weight *weight);

    /* Line 0, 1, ... of what lies where in the device's memory.  False: there is no such line. */
    bool (*report)(struct device *self, int line, char *text, size_t size);

    /* The same of what it has done for a list so far. */
    bool (*account)(struct device *self, const struct op_list *list, int line, char *text, size_t size);

    /* What reserve has kept of a list, which is about to go.  Not during a pass. */
    void (*forget)(struct device *self, const struct op_list *list);

    /* When the segment of a ticket that is over ran, by the real clock.  False: it is not known any more. */
    bool (*ran)(struct device *self, const struct ticket *ticket, uint64_t *begin_us, uint64_t *end_us);

    /* Takes part of a second; not during a pass. */
    void (*peaks)(struct device *self, struct device_peaks *out);
};

struct device {
    const struct device_ops *ops;
    const struct device_memory *memory; /* NULL: it works in the host's */
    const struct device_extras *extras; /* NULL: none */
    const char *name;                   /* "cpu", "npu-sim", ... */
    struct device *store;               /* whose prepared weights it uses as they are; NULL: it prepares its own */
    struct device_caps caps;
};

/* The device whose prepared weights it uses. */
static inline struct device *device_store(struct device *d)
{
    return d->store ? d->store : d;
}

#endif
