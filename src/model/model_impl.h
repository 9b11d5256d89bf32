/* SPDX-License-Identifier: MIT
 *
 * A model under construction: hparams.c and rope.c read the sizes, arch/ what is special, load.c finds and checks
 * tensors, transformer.c writes the op list.
 */
#ifndef LUTRA_MODEL_MODEL_IMPL_H
#define LUTRA_MODEL_MODEL_IMPL_H

#include "base/arena.h"
#include "model/model.h"

/* Norms of a block: a set of these. */
enum {
    NORM_BEFORE = 1, /* before attention and before the feed-forward */
    NORM_BEHIND = 2, /* of what each adds to the residual stream */
    NORM_SUM = 4,    /* of the residual stream behind each of them and the embeddings; none before the head */
};

enum qk_norm { QK_NORM_NONE, QK_NORM_HEADS /* of each head */, QK_NORM_ROW /* of all heads together */ };

struct reader;
enum { ARCH_KEYS = 6 };

/* What distinguishes an architecture; each has its page in model/arch/. */
struct arch {
    const char *name;
    enum rope_kind rope;
    int norms;
    enum qk_norm qk_norm;    /* before they are rotated */
    enum op_kind gate;       /* of the feed-forward, where its page reads no other */
    bool qkv_bias;           /* must be there (others: optional, used when there) */
    bool rotates_part;       /* of a head, if the file says so */
    bool layer_norm;         /* the residual stream's norms are LayerNorm, with biases where the file has them */
    bool one_norm;           /* one norm before attention and feed-forward, which read it side by side */
    bool two_ropes;          /* layers with windows have a rotation of their own */
    bool sub_norms;          /* before attention's output matrix and before ffn_down */
    bool by_layer;           /* heads, their size and d_ff may differ between layers */
    bool v_norm;             /* v has a norm without weights; where attn_v is missing, v is k before its norm */
    bool layer_scale;        /* a layer's output is multiplied by a number of the file */
    bool experts;            /* instead of one feed-forward, or with dense_beside beside it ... */
    bool maybe_experts;      /* ... where expert_count is not 0 */
    bool dense_beside;       /* both have norms of their own, and the router, too */
    bool expert_biases;      /* of the router and of experts */
    bool sinks;              /* attention has an extra logit per head */
    bool conv_without_kv;    /* layers without key/value heads are recurrent */
    bool gated_attention;    /* attn_q has a gate of the output behind each head's query */
    bool shared_expert;      /* one beside the experts, if there is one, is multiplied by a gate of one number */
    const char *ffn_norm;    /* NULL: "ffn_norm" */
    const char *output_norm; /* NULL: "output_norm" */
    enum route_score route;
    bool route_normalized;
    bool route_bias;             /* counts for the choice of experts alone */
    bool encoder;                /* rows see the whole text; there are no logits */
    bool i8row;                  /* ternary matrices of layers were trained with inputs in int8, one scale per row */
    const char *keys[ARCH_KEYS]; /* that `read` takes care of, and that ask for what others lack */
    /* Its own keys, after those of all; or NULL. */
    int (*read)(const struct reader *r, struct lutra_error *err);
};

extern const struct arch model_lfm2, model_lfm2moe, model_qwen35, model_qwen35moe, model_llama, model_mistral3,
    model_qwen2, model_qwen3, model_qwen2vl, model_qwen3vl, model_gemma2, model_gemma, model_gemma3, model_gemma4,
    model_olmo2, model_smollm3, model_phi3, model_granite, model_starcoder2, model_qwen3moe, model_gpt_oss,
    model_command_r, model_cohere2, model_granitehybrid, model_granitemoe, model_bitnet, model_bitnet_25,
    model_bitnet_b158, model_bert, model_nomic_bert, model_gemma_embedding;

/* Where sentences about what is not implemented go; tell == NULL: the first one is an error and reading ends. */
struct listener {
    model_tell_fn tell;
    void *user;
};

struct model {
    struct hparams hp;
    const struct arch *arch;
    const struct weights *weights;
    struct listener listener;
    struct model *trunk; /* of an MTP block: the model that it drafts for; NULL: this is no such block ... */
    int first_block;     /* ... else the number of the file's block that is layer 0 */
    const struct model_adapter *adapter; /* [n_adapter] while it is opened */
    int n_adapter;
    struct op_list list;
    struct op_layer *layer; /* [n_layer] the list's */
    struct weight *weight;  /* [n_weight] */
    int n_weight, max_weight, max_op;
    int n_own;                  /* weights that are no adapters' */
    const struct tensor **used; /* [n_used] tensors of the file that the model reads */
    int n_used, max_used;
    uint8_t role[VALUE_MAX]; /* of the op list's values (transformer.c) */
    bool too_many_values;
    const int32_t *query_order, *gate_order; /* [n_head * d_head] of QG, where attention has gates */
    const int32_t *expert_order[2];          /* [n_expert_used * d_ff_expert] of EB: gates and ups */
    const float *ones;                       /* [512], NULL before model_ones */
    const float *token_norm;                 /* [d_per_layer] */
    struct model_value_head value;
    struct model_dense dense;
    struct arena arena; /* ops, weights, vectors converted to f32 */
};

/* What the file needs and Lutra lacks: told, or LUTRA_E_UNSUPPORTED. */
int model_lack(const struct listener *to, struct lutra_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- what pages read with ---- */

#define WINDOW_KEY "attention.sliding_window"

/* Sizes beyond these are taken for damage. */
enum { MODEL_MAX_DIM = 1 << 20, MODEL_MAX_CTX = 1 << 24 };

struct reader {
    const struct weights *w;
    const struct listener *to;
    struct hparams *hp;
    const struct arch *arch; /* NULL: unknown (only with a listener) */
};

const char *model_key(char out[96], const struct reader *r, const char *suffix); /* `{arch}.suffix`, in out */

/* Whether a key is absent, or says 0 (false): nothing of what it could ask for. */
bool model_key_is_off(const struct reader *r, const char *suffix);

/* 1..hi, lo..hi; LUTRA_E_FORMAT outside.  A missing key is an error, or leaves *out as it is. */
int model_get_int(const struct reader *r, const char *suffix, uint32_t hi, int *out, struct lutra_error *err);
int model_opt_int(const struct reader *r, const char *suffix, uint32_t hi, int *out, struct lutra_error *err);
int model_opt_float(
    const struct reader *r, const char *suffix, float lo, float hi, float *out, struct lutra_error *err);

/* Windows in all layers but every period-th, these where the file does not say otherwise; window 0: none then. */
int model_read_windows(const struct reader *r, int window, int period, struct lutra_error *err);

/* Sizes of one layer that the file may give one by one (by_layer): 1..hi; a missing key leaves *out as it is. */
int model_opt_layer_int(
    const struct reader *r, const char *suffix, int layer, uint32_t hi, int *out, struct lutra_error *err);

/* ---- rotation (rope.c) ---- */

/* The kind of scaling, needed before anything else is known; then the rest. */
int model_read_scaling(const struct reader *r, struct lutra_error *err);
int model_read_rope(const struct reader *r, struct lutra_error *err);

/* Sets factors and magnitude of m->hp's rotations, from the file's tensors and scaling. */
int model_rope_factors(struct model *m, struct lutra_error *err);

/* ---- tensors ---- */

/* *arch is NULL where it is unknown (only with a listener): then only what every architecture may ask for was read. */
int hparams_read(struct hparams *hp, const struct arch **arch, const struct weights *w, const struct listener *to,
    struct lutra_error *err);

/* The tensor as a matrix [n_out][n_in]; the same name gives the same weight, whose use is extended. */
int model_matrix(struct model *m, const char *name, int64_t n_in, int64_t n_out, int use, struct weight **out,
    struct lutra_error *err);

/* Outputs first .. first + n_out - 1 of the tensor as a matrix [n_all][n_in], each slice once. */
int model_slice(struct model *m, const char *name, int64_t n_in, int64_t n_all, int64_t first, int64_t n_out,
    struct weight **out, struct lutra_error *err);

/* Of an MTP block: its own matrix `blk.B.own.weight`, or where it has none the one that `name` is in its trunk. */
int model_shared_matrix(struct model *m, const char *own, const char *name, int64_t n_in, int64_t n_out, int use,
    struct weight **out, struct lutra_error *err);

/* The matrix `blk.B.base.weight` [d][2 d] of an MTP block as two [d][d], for the first d inputs and the others. */
int model_halves(struct model *m, const char *base, int64_t d, struct weight *half[2], struct lutra_error *err);

/* All experts' matrices [n_expert][n_out][n_in], below each other. */
int model_experts(struct model *m, const char *name, int64_t n_in, int64_t n_out, int64_t n_expert, struct weight **out,
    struct lutra_error *err);

/* The tensor as n floats, whatever its type; *out = NULL when it is absent and optional. */
int model_vector(
    struct model *m, const char *name, int64_t n, bool optional, const float **out, struct lutra_error *err);

/* The same of n_vector vectors below each other. */
int model_vectors(struct model *m, const char *name, int64_t n_each, int64_t n_vector, bool optional, const float **out,
    struct lutra_error *err);

/* The weight of a norm without weights, of up to 512 elements. */
int model_ones(struct model *m, const float **out, struct lutra_error *err);

/* The layer does not attend. */
void model_set_recurrent(struct hparams *hp, int layer, enum layer_kind kind);

/* ---- the op list ---- */

/* What a value holds.  Values are made when they are first named: one for each role, size and kind of rows. */
enum role {
    X, /* [d_model] the residual stream */
    N, /* [d_model] its norm */
    Q,
    K,
    V,  /* [n_head * d_head], [n_kv_head * d_head] twice */
    QG, /* [2 * n_head * d_head] queries, each with its gate behind it */
    A,  /* attention's output [n_head * d_head], or a recurrent layer's */
    Z,  /* as A: its gate */
    T,  /* [d_model] what a sub-layer adds to X */
    G,
    U, /* [d_ff] gate and up; [d_ff_shared] of the expert that all rows go to */
    R,
    W, /* of experts: [n_expert] scores, [2 * n_used] routes */
    EG,
    EU,
    EB, /* [2 * n_used * d_ff_expert] of each chosen expert gate, then up */
    ED, /* [n_used * d_ff_expert] gate and up of each chosen expert, [n_used * d_model] what each says */
    S,  /* [1] gate of the expert that all rows go to */
    E,  /* [d_model] the token's embedding, where layers read it again */
    P,
    PT, /* [d_per_layer] what a layer adds of the token itself, and a part or the gate of it */
    M,
    C, /* of recurrent layers: what goes into the convolution, and what comes out */
    D,
    B, /* [n_value_head] decay and step of a delta rule */
    H, /* [d_model] of an MTP block: the state that the token before left, which is given */
};

/* The rows and the layer of a stretch of operations. */
struct stream {
    int layer; /* -1: outside the layers */
    enum value_rows rows;
};

int build_val(struct model *m, const struct stream *s, enum role role);
struct op *build_push(struct model *m, enum op_kind kind, int layer, int in, int in2, int out);
struct op *build_matmul(struct model *m, int layer, int in);
/* One part of a matmul: `blk.layer.base.weight` with an optional or required bias. */
int build_part(
    struct model *m, struct op *op, const char *base, int n_in, int n_out, bool bias, int out, struct lutra_error *err);
/* Outputs first .. first + n_out - 1 of a matrix of n_all, as a part. */
int build_slice(struct model *m, struct op *op, const char *base, int n_in, int n_all, int first, int n_out, int out,
    struct lutra_error *err);
/* Ends a matmul, the last operation: parts whose matrices have their inputs in another order read a copy, one for all
 * with the same order, and are a matmul of their own. */
void build_end_matmul(struct model *m, const struct stream *s, enum role spare);
/* Of groups of n_norm: `blk.layer.base.weight`. */
int build_rms_norm(struct model *m, int layer, const char *base, int in, int out, int n_norm, struct lutra_error *err);

/* recurrent.c: what a recurrent layer does in place of attention, from `in` to the value of role A; bytes of its
 * state and of what a draft leaves. */
int recurrent_build(struct model *m, int layer, int in, struct lutra_error *err);
void recurrent_sizes(const struct hparams *hp, int layer, size_t *state, size_t *draft);
int recurrent_dim(const struct hparams *hp, int layer, enum role role);
/* Floats of its vectors in the arena. */
size_t recurrent_vectors(const struct hparams *hp, int layer);

/* adapter.c: what adapters add to the list; how many operations, weights and bytes that can be. */
int adapters_insert(struct model *m, struct lutra_error *err);
void adapter_room(const struct model *m, int *n_op, int *n_weight, size_t *bytes);

/* Writes the op list. */
int transformer_build(struct model *m, struct lutra_error *err);

#endif
