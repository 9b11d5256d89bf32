/* SPDX-License-Identifier: MIT
 *
 * The operations a model is written in, with their full parameters.  ops/ref/ defines each in scalar C.
 *
 * An operation reads and writes *values*: activation arrays [rows][dim] f32, named by small numbers that the model
 * chooses.  rows is the whole batch (ROWS_ALL) or only the rows whose results are wanted (ROWS_OUT); OP_TAKE goes
 * from one to the other, so the last feed-forward and the head run only where they are needed.
 * Parameters that a device does not implement make its supports() say no, with the reason: never run wrong.
 */
#ifndef LUTRA_OPS_OP_H
#define LUTRA_OPS_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "ops/params.h"
#include "ops/tensor.h"
#include "ops/weight.h"

/* Inputs, outputs and weights in the order of struct op's arrays. */
enum op_kind {
    OP_EMBED,      /* out[r] = row token[r] (or `by`) of the weight, from column `first` on, times scale */
    OP_RMS_NORM,   /* out = x / sqrt(mean(x^2) + eps) * weight, over groups of n_norm elements */
    OP_LAYER_NORM, /* out = (x - mean) / sqrt(variance + eps) * weight + bias, over groups of n_norm elements */
    OP_MATMUL,     /* out[i] = in * weight[i]^T + bias[i], for one to three weights with the same input */
    OP_ROPE,       /* out = in rotated by position */
    OP_KV_APPEND,  /* K = in[0], V = in[1] of every row, rounded to the cache type, to the row's slot */
    OP_ATTENTION,  /* out = softmax(in K^T scale) V over what the row sees of its layer's cache */
    OP_SWIGLU,     /* out = silu(in[0]) * in[1] */
    OP_GEGLU,      /* out = gelu_tanh(in[0]) * in[1] */
    OP_GELU,       /* out = gelu_tanh(in) */
    OP_RELU2,      /* out = max(in[0], 0)^2 * in[1] */
    OP_SWIGLU_OAI, /* out = g / (1 + exp(-1.702 g)) * (u + 1), g = min(in[0], 7), u = in[1] within -7..7 (gpt-oss) */
    OP_ADD,        /* out = in[0] + in[1] */
    OP_SCALE,      /* out = in * by */
    OP_ADD_SCALED, /* out = in[0] + scale * in[1] */
    OP_TAKE,       /* out[i] = in[out_row[i]] */
    OP_PERMUTE,    /* out[r][i] = in[r][order[i]], all elements or some of them; must not run in place */
    OP_HEAD,       /* results of the wanted rows: logits = in[0] * weight^T, hidden = in[1], mostly the same value;
                    * without a weight hidden alone */
    OP_ROUTE,      /* in: a score per expert; out: the chosen experts' ids [n_used] ascending, then their weights */
    OP_EXPERTS,    /* slot j of out[i] = in[0] * (expert id[j] of weight[i])^T + its bias; in[1]: OP_ROUTE's */
    OP_COMBINE,    /* out = sum over slots j, ascending, of weight[j] * (slot j of in[0]); in[1]: OP_ROUTE's */
    OP_MUL,        /* out = in[0] * in[1] */
    OP_GATE,       /* out = in[1] / (1 + exp(-in[0])); in[0] has as many elements, or one for all of them */
    OP_CONV,       /* out[c] = sum over j of weight[j][c] * in[c] of the token j - (n_tap - 1) behind; state: inputs */
    OP_DELTA_NET, /* gated delta rule or Mamba-2 over in[0] with decay in[1] and step in[2]; state: a matrix per head */
    OP_GELU_ERF,  /* out = in * Phi(in), Phi(x) = (1 + erf(x / sqrt(2))) / 2 */
    OP_COUNT
};

/* The number of a row in OP_EMBED's weight. */
enum embed_by { EMBED_TOKEN, EMBED_POSITION, EMBED_SEGMENT };

enum { OP_INS = 3, OP_OUTS = 3, OP_WEIGHTS = 3 };

struct op {
    enum op_kind kind;
    int layer; /* whose cache it uses, and for reports; -1 outside the layers */
    int n_in, n_out, n_weight;
    int in[OP_INS], out[OP_OUTS]; /* values; one may be both */
    struct weight *weight[OP_WEIGHTS];
    union {
        struct {
            float scale;
            int first; /* in whole blocks of the weight's type; not 0 only where it is used for nothing else */
            enum embed_by by;
        } embed;
        struct {
            const float *weight; /* [n_norm] */
            const float *bias;   /* [n_norm] of OP_LAYER_NORM, or NULL */
            int n_norm;          /* group length: d_model, or d_head for q/k norms */
            float eps;
        } norm;
        struct {
            float scale;
        } add; /* OP_ADD_SCALED */
        struct {
            float by;
        } scale;
        struct {
            const float *bias[OP_WEIGHTS]; /* [n_out of that weight] or NULL */
            struct op_experts experts;
        } matmul; /* OP_MATMUL, OP_EXPERTS */
        struct op_route route;
        struct {
            int n_used;
        } combine;
        struct {
            const int32_t *order; /* [elements of the value] each element once */
        } permute;
        struct op_rope rope;
        struct op_attention attention;
        struct op_conv conv;
        struct op_delta delta;
        struct {
            float scale;   /* of the logits; 0 = none */
            float softcap; /* of what that gives; 0 = none */
        } head;
    };
};

enum value_rows { ROWS_ALL, ROWS_OUT };

struct value {
    int dim;
    enum value_rows rows;
};

enum { VALUE_MAX = 48 };

/* What a layer keeps of the past. */
struct op_layer {
    int cache;             /* the layer whose keys and values its attention reads: itself, an earlier one, -1: none */
    int n_kv_head, d_head; /* of that cache; 0: none */
    size_t state_bytes;    /* of fixed size per sequence, for the layer's recurrent operations; 0: it has none */
    int window;            /* the last positions of the cache that a row sees, in all layers that read it; 0 = all */
    size_t draft_bytes;    /* inputs of those operations that a draft row leaves until it is committed */
};

/* A model as a list of operations (built by model/, split over devices by sched/). */
struct op_list {
    struct op *op;
    int n_op;
    struct value value[VALUE_MAX];
    int n_value;
    const struct op_layer *layer; /* [n_layer] */
    int n_layer;
    int d_model, n_vocab;
    int n_position, n_segment; /* rows of the tables that OP_EMBED reads by position and by ROW_SECOND; 0: none is */
    bool whole;                /* an encoder: a row also sees the rows of its sequence behind it, all in one pass */
    uint64_t given;            /* set of values that another list's run has left */
};

/* ---- what is known of a kind ---- */

enum op_rows {
    OP_SAME_ROWS, /* of all its values, whichever these are */
    OP_ALL_ROWS,
    OP_OUT_ROWS,
    OP_TAKES_ROWS, /* reads all, writes the wanted ones */
};

struct op_info {
    const char *name;
    int n_in, n_out, n_weight; /* at most, where it has parts: then as many outputs as weights */
    bool has_parts;            /* one to n_weight weights, with an output each */
    enum op_rows rows;
    int use;     /* of its weights: WEIGHT_* */
    bool by_row; /* a row of its output needs nothing but rows of its inputs, and is cheap */
    bool reads_cache, writes_cache;
    bool recurrent; /* its rows advance a state of their sequence, one after the other */
};

const struct op_info *op_info_of(enum op_kind kind); /* one without a name where there is no such kind */
const char *op_name(enum op_kind kind);

/* An operation with its counts set; in2 and out count where the kind has them, and a third input is the caller's to
 * set.  OP_MATMUL and OP_EXPERTS have no parts
 * yet. */
struct op op_make(enum op_kind kind, int layer, int in, int in2, int out);
/* One more part of an OP_MATMUL or OP_EXPERTS with fewer than OP_WEIGHTS. */
void op_add_part(struct op *op, struct weight *weight, const float *bias, int out);

/* ---- what an operation touches ---- */

bool op_reads(const struct op *op, int value);
bool op_writes(const struct op *op, int value);

/* Whether a value is dead at operation i: written again before it is read, or never read. */
bool op_list_is_dead(const struct op_list *list, int i, int value);

/* A f32 vector that an operation reads beside weights and values. */
struct op_constant {
    const float *x; /* NULL: it has none at this place */
    size_t n;
    int weight; /* the weight whose outputs it belongs to; -1: none */
};

/* Place 0, 1, ...; false: there is no such place. */
bool op_constant(const struct op *op, int i, struct op_constant *out);

/* Where a recurrent operation's share of its layer's state and of a draft row's inputs lies, in bytes; all parts are
 * arrays of f32 and begin at multiples of 64.  Others have none. */
struct op_share {
    size_t state, state_bytes;
    size_t draft, draft_bytes;
};
struct op_share op_share_of(const struct op_list *list, const struct op *op);

/* Whether an operation treats every head by itself, so that it can be cut by them: a rotation, a norm of heads, the
 * append, or an attention of this head size. */
bool op_by_head(const struct op_list *list, const struct op *op, int d_head);

/* Whether an operation uses the cache that belongs to `layer`. */
bool op_uses_cache(const struct op_list *list, const struct op *op, int layer);

/* What every device may rely on: kinds, counts, values and layers in range, values, weights and caches of fitting
 * shapes, room for every recurrent operation's state, nothing read before it is written.  LUTRA_E_ARGUMENT names the
 * operation. */
int op_list_check(const struct op_list *list, struct lutra_error *err);

/* The operations from the first that takes wanted rows on; *given: the values that they read and do not write. */
int op_list_tail(const struct op_list *list, uint64_t *given);

#endif
