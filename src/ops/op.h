/* SPDX-License-Identifier: MIT
 *
 * The operations a model is written in, with their full parameters.  ops/ref/ defines each in scalar C.
 *
 * An operation reads and writes *values*: activation arrays [rows][dim] f32, named by small numbers that the model
 * chooses.  rows is the whole batch (ROWS_ALL) or only the rows somebody wants something of (ROWS_OUT); OP_TAKE goes
 * from one to the other, so the last feed-forward and the head run only where they are needed.
 * Parameters that a device does not implement make its supports() say no, with the reason: never run wrong.
 */
#ifndef LUTRA_OPS_OP_H
#define LUTRA_OPS_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "ops/tensor.h"

/* One line per operation: name, text.  out = ... with x = in. */
#define OP_LIST(X)                                                                                                     \
    X(OP_EMBED, "embed")         /* out[r] = row token[r] of the weight, times scale */                                \
    X(OP_RMS_NORM, "rms_norm")   /* out = x / sqrt(mean(x^2) + eps) * weight, over groups of n_norm elements */        \
    X(OP_MATMUL, "matmul")       /* part.out = x * part.weight^T + part.bias, for up to 3 parts with the same x */     \
    X(OP_ROPE, "rope")           /* out = in rotated by position, in place */                                          \
    X(OP_KV_APPEND, "kv_append") /* K = in, V = in2 of every row, rounded to the cache type, to the row's slot */      \
    X(OP_ATTENTION, "attention") /* out = softmax(in K^T scale) V over what the row sees */                            \
    X(OP_SWIGLU, "swiglu")       /* out = silu(in) * in2 */                                                            \
    X(OP_GEGLU, "geglu")         /* out = gelu_tanh(in) * in2 */                                                       \
    X(OP_RELU2, "relu2")         /* out = max(in, 0)^2 * in2 */                                                        \
    X(OP_ADD, "add")             /* out = in + in2 */                                                                  \
    X(OP_TAKE, "take")           /* out[i] = in[out_row[i]] */                                                         \
    X(OP_HEAD, "head")           /* results of the wanted rows: logits = in * weight^T, hidden = in */                 \
    X(OP_KV_COPY, "kv_copy")     /* accepted draft slots to their blocks (commit) */

enum op_kind {
#define OP_ENUM(name, text) name,
    OP_LIST(OP_ENUM)
#undef OP_ENUM
        OP_COUNT
};

enum { WEIGHT_MATMUL = 1, WEIGHT_GATHER = 2 };

struct device;

/* A matrix, or a slice of its rows, that a device has prepared. */
struct weight {
    struct tensor tensor;  /* source: [n_out][n_in] */
    int use;               /* set of WEIGHT_*: a tied embedding is both */
    struct packed *packed; /* owned by the device that prepared it; NULL before */
    struct device *device; /* that device */
    const void *stored;    /* its packed copy in the device's layout, borrowed from a file; or NULL */
    uint64_t stored_sum;   /* hash_parts of that copy, if it is undamaged */
    bool copy_stored;      /* that file is mapped in small pages, which read slower than a copy in huge ones */
    bool check_stored;     /* compare the sum even where the copy is used in place */
};

enum rope_kind { ROPE_NORM /* pairs (2i, 2i+1) */, ROPE_NEOX /* pairs (i, i + n_rot/2) */ };

struct op_matmul {
    int n_part;
    struct {
        struct weight *weight;
        const float *bias; /* [n_out] or NULL */
        int out;
    } part[3];
};

struct op_rope {
    enum rope_kind kind;
    int n_head, d_head;
    int n_rot;            /* rotated elements per head, even, <= d_head */
    float freq_base;      /* theta_i = pos * freq_scale * freq_base^(-2i/n_rot) / factors[i] */
    float freq_scale;     /* linear scaling: 1 / factor */
    const float *factors; /* [n_rot/2] (Llama-3 rope_freqs) or NULL */
    float magnitude;      /* cos and sin are multiplied by this (YaRN's attention factor); 1 otherwise */
};

struct op_attention {
    int n_head, n_kv_head, d_head; /* query head h reads K/V head h / (n_head / n_kv_head) */
    float scale;                   /* of the scores, usually 1/sqrt(d_head) */
    float softcap;                 /* score = cap * tanh(score / cap); 0 = none */
    int window;                    /* a row sees positions > pos - window; 0 = all */
    const float *sinks;            /* [n_head] extra logit per head in the softmax sum, or NULL */
};

struct op {
    enum op_kind kind;
    int layer;        /* of the cache and for reports; -1 outside the layers */
    int in, in2, out; /* values; -1 where unused */
    union {
        struct {
            struct weight *weight;
            float scale;
        } embed;
        struct {
            const float *weight; /* [n_norm] */
            int n_norm;          /* group length: d_model, or d_head for q/k norms */
            float eps;
        } norm;
        struct op_matmul matmul;
        struct op_rope rope;
        struct op_attention attention;
        struct {
            struct weight *weight;
            float softcap; /* of the logits; 0 = none */
        } head;
    };
};

enum value_rows { ROWS_ALL, ROWS_OUT };

struct value {
    int dim;
    enum value_rows rows;
};

enum { VALUE_MAX = 32 };

/* A model as a list of operations (built by model/, split over devices by sched/). */
struct op_list {
    struct op *op;
    int n_op;
    struct value value[VALUE_MAX];
    int n_value;
    int n_layer, n_kv_head, d_head; /* of the cache */
    int d_model, n_vocab;
};

const char *op_name(enum op_kind kind);

#endif
