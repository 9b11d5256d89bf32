/* SPDX-License-Identifier: MIT
 *
 * Parameters of operations that kernels read as they are.  Kernels include this and not op.h: who adds an operation
 * does not compile every kernel again.
 */
#ifndef LUTRA_OPS_PARAMS_H
#define LUTRA_OPS_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rope_kind { ROPE_NORM /* pairs (2i, 2i+1) */, ROPE_NEOX /* pairs (i, i + n_rot/2) */ };

struct op_rope {
    enum rope_kind kind;
    int n_head, d_head;
    int n_rot;            /* rotated elements per head, even, <= d_head */
    float freq_base;      /* theta_i = pos * freq_scale * freq_base^(-2i/n_rot) / factors[i] */
    float freq_scale;     /* linear scaling: 1 / factor */
    const float *factors; /* [n_rot/2] (Llama-3 rope_freqs) or NULL */
    float magnitude;      /* cos and sin are multiplied by this (YaRN's attention factor); 1 otherwise ... */
    float growth;         /* ... and by 1 + growth * log(1 + floor(pos / growth_every)) */
    int growth_every;     /* positions; at least 1 where growth is not 0 */
    /* [n_rot/2] in place of factors, where a pass's n_ctx is above short_ctx; or NULL */
    const float *long_factors;
    int short_ctx;
};

struct op_attention {
    int n_head, n_kv_head, d_head; /* query head h reads K/V head h / (n_head / n_kv_head) */
    float scale;                   /* of the scores, usually 1/sqrt(d_head) */
    float softcap;                 /* score = cap * tanh(score / cap); 0 = none */
    int window;                    /* a row sees positions less than that from its own; 0 = all */
    const float *sinks;            /* [n_head] extra logit per head in the softmax sum, or NULL */
};

/* How scores of experts become the weights of those that are chosen. */
enum route_score {
    ROUTE_SOFTMAX,        /* softmax over all experts */
    ROUTE_SIGMOID,        /* each for itself */
    ROUTE_SOFTMAX_CHOSEN, /* softmax over the chosen ones */
    ROUTE_SCORES
};

struct op_route {
    enum route_score score;
    int n_expert, n_used; /* the n_used largest of n_expert are chosen; of equal ones those with lower ids */
    bool normalize;       /* weights are divided by their sum */
    float scale;          /* of the weights */
    const float *bias;    /* [n_expert] added to what is compared, not to the weights; or NULL */
    const float *each;    /* [n_expert] factors of the weights, in the end; or NULL */
};

/* Of OP_EXPERTS.  A weight is all experts below each other, [n_expert * n_out][n_in], and so is its bias. */
struct op_experts {
    int n_expert, n_used; /* 0: no OP_EXPERTS */
    bool by_slot;         /* slot j reads slot j of in[0], [n_used][n_in]; otherwise each reads all of it, [n_in] */
};

enum { CONV_TAPS = 8 /* most of a convolution */, DELTA_MOST = 256 /* elements of a key or value */ };

/* Of OP_CONV: a sum over the last n_tap tokens, for each element of its own.  Its state is the inputs of the last
 * n_tap - 1 tokens, [n_tap - 1][n] with the oldest first; a draft leaves its input. */
struct op_conv {
    int n_tap;
    bool silu;           /* of the sum and its bias */
    const float *weight; /* [n_tap][n], the oldest token's first */
    const float *bias;   /* [n] or NULL */
    size_t state, draft; /* where they begin in the layer's, in bytes */
};

enum { DELTA_TILE = 16 /* columns of a state that lie together */ };

/* Of OP_DELTA_NET (Qwen3-Next, Qwen3.5; with skip Mamba-2).  in[0] is q [n_k_head][d_k], k [n_k_head][d_k],
 * v [n_v_head][d_v] below each other.  For every value head h, whose q and k are those of its key head,
 *     q and k are divided by sqrt(sum of squares + eps), q by sqrt(d_k), too
 *     decay = exp(a[h] * log(1 + exp(in[1][h] + dt[h]))),  step = 1 / (1 + exp(-in[2][h]))
 *     S = decay S;  S = S + k (step (v - S^T k))^T;  out = S^T q
 * With skip in[0] is v, k, q, which are taken as they are, and in[2] is not read:
 *     step = log(1 + exp(in[1][h] + dt[h])),  decay = exp(a[h] step)
 *     S = decay S + k (step v)^T;  out = S^T q + skip[h] v
 * The state is S of every value head, [n_v_head][d_v / DELTA_TILE][d_k][DELTA_TILE]; a draft leaves its three inputs
 * below each other. */
struct op_delta {
    int n_k_head, n_v_head, d_k, d_v;
    bool neighbours; /* the key head of h is h / (n_v_head / n_k_head); otherwise h % n_k_head */
    float eps;
    const float *a, *dt; /* [n_v_head]; a is negative */
    const float *skip;   /* [n_v_head]; NULL: the gated delta rule */
    size_t state, draft; /* where they begin in the layer's, in bytes */
};

#endif
