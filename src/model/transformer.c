/* SPDX-License-Identifier: MIT
 *
 * The dense transformer as an op list: this file is the model, and arch/ says how architectures differ.
 *
 * In the last layer everything after attention runs only on the rows somebody wants a result of (ROWS_OUT).
 */
#include "model/model_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
/* Values of the op list. */
enum {
    X,       /* [d_model] the residual stream */
    N,       /* [d_model] its norm */
    Q, K, V, /* [n_head * d_head], [n_kv_head * d_head] twice */
    A,       /* [n_head * d_head] attention's output */
    T,       /* [d_model] what a sub-layer adds to X */
    G, U,    /* [d_ff] gate and up */
    XO, NO, AO, TO, GO, UO, /* the same for wanted rows only */
    QO,      /* [n_head * d_head], only where AO is put in another order */
    R, W,    /* of experts: [n_expert] scores, [2 * n_used] routes */
    EG, EU,  /* [n_used * d_ff_expert] gate and up of each chosen one */
    ED,      /* [n_used * d_model] what each says */
    RO, WO, EGO, EUO, EDO, /* the same for wanted rows only */
    N_VALUE
};
/* clang-format on */

/* The values of a stretch of ops: all rows, or wanted rows. */
struct stream {
    int x, n, a, t, g, u;
    int q; /* of a's size, and nobody's */
    int r, w, eg, eu, ed;
};
static const struct stream all_rows = {X, N, A, T, G, U, Q, R, W, EG, EU, ED},
                           out_rows = {XO, NO, AO, TO, GO, UO, QO, RO, WO, EGO, EUO, EDO};

static struct op *push(struct model *m, enum op_kind kind, int layer, int in, int in2, int out)
{
    struct op *slot = &m->list.op[m->list.n_op++];
    *slot = op_make(kind, layer, in, in2, out);
    return slot;
}

/* `blk.layer.suffix` */
static const char *named(char out[64], int layer, const char *suffix)
{
    snprintf(out, 64, "blk.%d.%s", layer, suffix);
    return out;
}

/* Of groups of n_norm: `name.weight`. */
static int rms_norm(struct model *m, int layer, const char *name, int in, int out, int n_norm, struct lutra_error *err)
{
    struct op *op = push(m, OP_RMS_NORM, layer, in, -1, out);
    char full[80];
    op->norm.n_norm = n_norm;
    op->norm.eps = m->hp.norm_eps;
    snprintf(full, sizeof full, "%s.weight", name);
    return model_vector(m, full, n_norm, false, &op->norm.weight, err);
}

/* Of the residual stream: `name.weight`, and `name.bias` if there is one. */
static int norm(struct model *m, int layer, const char *name, int in, int out, struct lutra_error *err)
{
    char full[80];
    if (!m->arch->layer_norm) return rms_norm(m, layer, name, in, out, m->hp.d_model, err);
    struct op *op = push(m, OP_LAYER_NORM, layer, in, -1, out);
    op->norm.n_norm = m->hp.d_model;
    op->norm.eps = m->hp.norm_eps;
    snprintf(full, sizeof full, "%s.weight", name);
    TRY(model_vector(m, full, m->hp.d_model, false, &op->norm.weight, err));
    snprintf(full, sizeof full, "%s.bias", name);
    return model_vector(m, full, m->hp.d_model, true, &op->norm.bias, err);
}

/* A part of a layer's matmul.  Matrices of floats are no ternary ones, whatever their values. */
static void add_part(const struct model *m, struct op *op, struct weight *weight, const float *bias, int out)
{
    enum quant_type type = weight->tensor.type;
    weight->i8row = m->arch->i8row && (type == QUANT_TQ2_0 || type == QUANT_TQ1_0 || type == QUANT_Q2_0);
    op_add_part(op, weight, bias, out);
}

/* One part of a matmul: `blk.layer.base.weight` with an optional or required bias. */
static int part(
    struct model *m, struct op *op, const char *base, int n_in, int n_out, bool bias, int out, struct lutra_error *err)
{
    char suffix[48], name[64];
    struct weight *weight;
    const float *vector;
    snprintf(suffix, sizeof suffix, "%s.weight", base);
    TRY(model_matrix(m, named(name, op->layer, suffix), n_in, n_out, WEIGHT_MATMUL, &weight, err));
    snprintf(suffix, sizeof suffix, "%s.bias", base);
    TRY(model_vector(m, named(name, op->layer, suffix), n_out, !bias, &vector, err));
    add_part(m, op, weight, vector, out);
    return 0;
}

/* Outputs first .. first + n_out - 1 of a matrix of n_all, as a part. */
static int slice(struct model *m, struct op *op, const char *base, int n_in, int n_all, int first, int n_out, int out,
    struct lutra_error *err)
{
    char suffix[48], name[64];
    struct weight *weight;
    snprintf(suffix, sizeof suffix, "%s.weight", base);
    TRY(model_slice(m, named(name, op->layer, suffix), n_in, n_all, first, n_out, &weight, err));
    add_part(m, op, weight, NULL, out);
    return 0;
}

static bool has(const struct model *m, int layer, const char *suffix)
{
    char name[64];
    return weights_tensor_find(m->weights, named(name, layer, suffix)) != NULL;
}

static struct op *matmul(struct model *m, int layer, int in)
{
    return push(m, OP_MATMUL, layer, in, -1, -1);
}

/* What a matrix with such an order (weights_order) reads: value `in`, or a copy in `spare`, which is of its shape and
 * holds nothing that is needed. */
static int in_order(struct model *m, int layer, const int32_t *order, int in, int spare)
{
    if (!order) return in;
    push(m, OP_PERMUTE, layer, in, -1, spare)->permute.order = order;
    if (spare >= m->list.n_value) m->list.n_value = spare + 1;
    return spare;
}

/* Ends a matmul, the last operation: parts whose matrices have their inputs in another order read a copy in `spare`,
 * one for all with the same order, and are a matmul of their own. */
static void end_matmul(struct model *m, int spare)
{
    const struct op all = m->list.op[--m->list.n_op];
    size_t bytes = (size_t)m->list.value[all.in[0]].dim * sizeof(int32_t);
    const int32_t *order[OP_WEIGHTS];
    bool done[OP_WEIGHTS] = {false};
    for (int i = 0; i < all.n_weight; i++) order[i] = weights_order(m->weights, &all.weight[i]->tensor);
    for (int i = 0; i < all.n_weight; i++) {
        if (done[i]) continue;
        struct op *op = matmul(m, all.layer, in_order(m, all.layer, order[i], all.in[0], spare));
        for (int k = i; k < all.n_weight; k++) {
            bool same = order[k] == order[i] || (order[k] && order[i] && memcmp(order[k], order[i], bytes) == 0);
            if (done[k] || !same) continue;
            op_add_part(op, all.weight[k], all.matmul.bias[k], all.out[k]);
            done[k] = true;
        }
    }
}

static void rotate(struct model *m, int layer, int value, int n_head, float growth)
{
    const struct hparams *hp = &m->hp;
    if (hp->still_period && (layer + 1) % hp->still_period == 0) return;
    struct op *op = push(m, OP_ROPE, layer, value, -1, value);
    op->rope = model_layer_window(hp, layer) ? hp->window_rope : hp->rope;
    op->rope.n_head = n_head;
    op->rope.growth = growth;
    op->rope.growth_every = hp->n_ctx_orig;
}

/* Norms of q and k: of each head, or of the row. */
static int qk_norms(struct model *m, int layer, int d_q, int d_kv, struct lutra_error *err)
{
    bool row = m->arch->qk_norm == QK_NORM_ROW;
    char name[64];
    if (m->arch->qk_norm == QK_NORM_NONE) return 0;
    TRY(rms_norm(m, layer, named(name, layer, "attn_q_norm"), Q, Q, row ? d_q : m->hp.d_head, err));
    return rms_norm(m, layer, named(name, layer, "attn_k_norm"), K, K, row ? d_kv : m->hp.d_head, err);
}

/* What a sub-layer reads: the residual stream, or its norm in `out`. */
static int before(struct model *m, int layer, const char *name, int x, int out, int *in, struct lutra_error *err)
{
    char full[64];
    *in = m->arch->norms & NORM_BEFORE ? out : x;
    return *in == x ? 0 : norm(m, layer, named(full, layer, name), x, out, err);
}

/* Of what goes into the last matrix of a sub-layer, where the architecture has that; `left_out`: x lacks this factor,
 * which the norm forgets but for its epsilon. */
static int sub_norm(struct model *m, int layer, const char *name, int x, int n, float left_out, struct lutra_error *err)
{
    char full[64];
    if (!m->arch->sub_norms) return 0;
    TRY(rms_norm(m, layer, named(full, layer, name), x, x, n, err));
    m->list.op[m->list.n_op - 1].norm.eps /= left_out * left_out;
    return 0;
}

/* The tensor `blk.layer.base.scale`: a factor of all outputs of a matrix (ternary weights), 1 where there is none.  No
 * operation multiplies by it; what follows the matrix takes it in. */
static int matrix_scale(struct model *m, int layer, const char *base, float *out, struct lutra_error *err)
{
    char suffix[48], name[64];
    const float *scale = NULL;
    *out = 1;
    snprintf(suffix, sizeof suffix, "%s.scale", base);
    if (m->arch->sub_norms) TRY(model_vector(m, named(name, layer, suffix), 1, true, &scale, err));
    if (!scale) return 0;
    *out = *scale;
    if (*out >= 1e-6f && *out <= 1e6f) return 0;
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: tensor '%s' is %g, outside 1e-06..1e+06", weights_path(m->weights),
        name, (double)*out);
}

/* Three matrices, or one with all their rows. */
static int query_key_value(struct model *m, struct op *qkv, int d_q, int d_kv, struct lutra_error *err)
{
    int d = m->hp.d_model, n = d_q + 2 * d_kv;
    if (has(m, qkv->layer, "attn_qkv.weight")) {
        TRY(slice(m, qkv, "attn_qkv", d, n, 0, d_q, Q, err));
        TRY(slice(m, qkv, "attn_qkv", d, n, d_q, d_kv, K, err));
        return slice(m, qkv, "attn_qkv", d, n, d_q + d_kv, d_kv, V, err);
    }
    TRY(part(m, qkv, "attn_q", d, d_q, m->arch->qkv_bias, Q, err));
    TRY(part(m, qkv, "attn_k", d, d_kv, m->arch->qkv_bias, K, err));
    return part(m, qkv, "attn_v", d, d_kv, m->arch->qkv_bias, V, err);
}

static int attention(struct model *m, int layer, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    int in, d_q = hp->n_head * hp->d_head, d_kv = hp->n_kv_head * hp->d_head;
    char name[64];
    float q, k;
    TRY(matrix_scale(m, layer, "attn_q", &q, err));
    TRY(matrix_scale(m, layer, "attn_k", &k, err));
    TRY(before(m, layer, "attn_norm", X, N, &in, err));
    TRY(query_key_value(m, matmul(m, layer, in), d_q, d_kv, err));
    end_matmul(m, T);
    TRY(qk_norms(m, layer, d_q, d_kv, err));
    rotate(m, layer, Q, hp->n_head, hp->query_growth);
    rotate(m, layer, K, hp->n_kv_head, 0);
    push(m, OP_KV_APPEND, layer, K, V, -1);
    struct op *att = push(m, OP_ATTENTION, layer, Q, -1, A);
    att->attention = (struct op_attention){.n_head = hp->n_head,
        .n_kv_head = hp->n_kv_head,
        .d_head = hp->d_head,
        .scale = hp->attention_scale * q * k,
        .softcap = hp->attention_cap,
        .window = model_layer_window(hp, layer)};
    if (!m->arch->sinks) return 0;
    return model_vector(m, named(name, layer, "attn_sinks.weight"), hp->n_head, false, &att->attention.sinks, err);
}

/* Adds what a sub-layer's matrix `base` left in T, or its norm. */
static int add_back(struct model *m, int layer, const char *base, const char *post_norm, const struct stream *s,
    struct lutra_error *err)
{
    char name[64];
    float scale;
    TRY(matrix_scale(m, layer, base, &scale, err));
    scale *= m->hp.residual_scale;
    if (m->arch->norms & NORM_BEHIND) TRY(norm(m, layer, named(name, layer, post_norm), s->t, s->t, err));
    if (scale == 1)
        push(m, OP_ADD, layer, s->x, s->t, s->x);
    else
        push(m, OP_ADD_SCALED, layer, s->x, s->t, s->x)->add.scale = scale;
    return 0;
}

/* What goes through the gate into ffn_down: in s->g. */
static int widen(struct model *m, int layer, int in, const struct stream *s, struct lutra_error *err)
{
    int d = m->hp.d_model, ff = m->hp.d_ff;
    struct op *wide = matmul(m, layer, in);
    if (m->hp.gate == OP_GELU) {
        TRY(part(m, wide, "ffn_up", d, ff, false, s->g, err));
        end_matmul(m, s->t);
        push(m, OP_GELU, layer, s->g, -1, s->g);
        return 0;
    }
    if (has(m, layer, "ffn_gate.weight")) {
        TRY(part(m, wide, "ffn_gate", d, ff, false, s->g, err));
        TRY(part(m, wide, "ffn_up", d, ff, false, s->u, err));
    } else { /* one matrix with the rows of both */
        TRY(slice(m, wide, "ffn_up", d, 2 * ff, 0, ff, s->g, err));
        TRY(slice(m, wide, "ffn_up", d, 2 * ff, ff, ff, s->u, err));
    }
    end_matmul(m, s->t);
    push(m, m->hp.gate, layer, s->g, s->u, s->g);
    return 0;
}

/* The factor that gate and up leave out of their product: of the gate its square, if it is a squared ReLU. */
static int gated_scale(struct model *m, int layer, float *out, struct lutra_error *err)
{
    float gate, up;
    TRY(matrix_scale(m, layer, "ffn_gate", &gate, err));
    TRY(matrix_scale(m, layer, "ffn_up", &up, err));
    *out = gate * gate * up;
    if (gate == 1 || m->hp.gate == OP_RELU2) return 0;
    return model_lack(&m->listener, err,
        "%s: tensor 'blk.%d.ffn_gate.scale': a scale inside another activation than a "
        "squared ReLU is not implemented",
        weights_path(m->weights), layer);
}

/* Experts' matrices `blk.layer.base.weight`, with their biases where the architecture has them. */
static int expert_part(
    struct model *m, struct op *op, const char *base, int n_in, int n_out, int out, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    char suffix[48], name[64];
    struct weight *weight;
    const float *bias = NULL;
    snprintf(suffix, sizeof suffix, "%s.weight", base);
    TRY(model_experts(m, named(name, op->layer, suffix), n_in, n_out, hp->n_expert, &weight, err));
    snprintf(suffix, sizeof suffix, "%s.bias", base);
    if (m->arch->expert_biases)
        TRY(model_vectors(m, named(name, op->layer, suffix), n_out, hp->n_expert, false, &bias, err));
    op_add_part(op, weight, bias, out);
    return 0;
}

static struct op *experts(struct model *m, int layer, int in, int route, bool by_slot)
{
    struct op *op = push(m, OP_EXPERTS, layer, in, route, -1);
    op->matmul.experts = (struct op_experts){m->hp.n_expert, m->hp.n_expert_used, by_slot};
    return op;
}

/* The experts' feed-forward: what they say together goes to s->t. */
static int mixture(struct model *m, int layer, int in, const struct stream *s, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    int d = hp->d_model, ff = hp->d_ff_expert;
    struct op *op = matmul(m, layer, in);
    TRY(part(m, op, "ffn_gate_inp", d, hp->n_expert, m->arch->expert_biases, s->r, err));
    push(m, OP_ROUTE, layer, s->r, -1, s->w)->route = hp->route;
    op = experts(m, layer, in, s->w, false);
    TRY(expert_part(m, op, "ffn_gate_exps", d, ff, s->eg, err));
    TRY(expert_part(m, op, "ffn_up_exps", d, ff, s->eu, err));
    push(m, hp->gate, layer, s->eg, s->eu, s->eg);
    TRY(expert_part(m, experts(m, layer, s->eg, s->w, true), "ffn_down_exps", ff, d, s->ed, err));
    push(m, OP_COMBINE, layer, s->ed, s->w, s->t)->combine.n_used = hp->n_expert_used;
    return 0;
}

/* Attention's output matrix and the feed-forward, on the rows of `s`. */
static int feed_forward(struct model *m, int layer, const struct stream *s, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    int in = s->n; /* attention's norm, where there is one for both */
    int d_q = hp->n_head * hp->d_head;
    float v, gated;
    TRY(matrix_scale(m, layer, "attn_v", &v, err));
    TRY(gated_scale(m, layer, &gated, err));
    TRY(sub_norm(m, layer, "attn_sub_norm", s->a, d_q, v, err));
    TRY(part(m, matmul(m, layer, s->a), "attn_output", d_q, hp->d_model, false, s->t, err));
    end_matmul(m, s->q);
    TRY(add_back(m, layer, "attn_output", "post_attention_norm", s, err));
    const char *ffn_norm = m->arch->ffn_norm ? m->arch->ffn_norm : "ffn_norm";
    if (!m->arch->one_norm) TRY(before(m, layer, ffn_norm, s->x, s->n, &in, err));
    if (hp->n_expert) {
        TRY(mixture(m, layer, in, s, err));
        return add_back(m, layer, "ffn_down", "post_ffw_norm", s, err);
    }
    TRY(widen(m, layer, in, s, err));
    TRY(sub_norm(m, layer, "ffn_sub_norm", s->g, hp->d_ff, gated, err));
    TRY(part(m, matmul(m, layer, s->g), "ffn_down", hp->d_ff, hp->d_model, false, s->t, err));
    end_matmul(m, s->u);
    return add_back(m, layer, "ffn_down", "post_ffw_norm", s, err);
}

static void declare_values(struct model *m)
{
    const struct hparams *hp = &m->hp;
    int d = hp->d_model, dq = hp->n_head * hp->d_head, dkv = hp->n_kv_head * hp->d_head, ff = hp->d_ff;
    int e = hp->n_expert, w = 2 * hp->n_expert_used, eff = hp->n_expert_used * hp->d_ff_expert,
        ed = hp->n_expert_used * d;
    const int dims[N_VALUE] = {
        d, d, dq, dkv, dkv, dq, d, ff, ff, d, d, dq, d, ff, ff, dq, e, w, eff, eff, ed, e, w, eff, eff, ed};
    for (int i = 0; i < N_VALUE; i++)
        m->list.value[i] = (struct value){dims[i], i < XO || (i >= R && i < RO) ? ROWS_ALL : ROWS_OUT};
    m->list.n_value = e ? N_VALUE : QO;
    m->list.n_layer = hp->n_layer;
    for (int i = 0; i < hp->n_layer; i++)
        m->layer[i] = (struct op_layer){i, hp->n_kv_head, hp->d_head, 0, model_layer_window(hp, i)};
    m->list.d_model = hp->d_model;
    m->list.n_vocab = hp->n_vocab;
}

int transformer_build(struct model *m, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    declare_values(m);
    TRY(model_rope_factors(m, err));
    struct op *embed = push(m, OP_EMBED, -1, -1, -1, X);
    embed->embed.scale = hp->embedding_scale;
    TRY(model_matrix(m, "token_embd.weight", hp->d_model, hp->n_vocab, WEIGHT_GATHER, &embed->weight[0], err));
    for (int layer = 0; layer < hp->n_layer; layer++) {
        bool last = layer == hp->n_layer - 1;
        TRY(attention(m, layer, err));
        if (last) {
            push(m, OP_TAKE, layer, X, -1, XO);
            push(m, OP_TAKE, layer, A, -1, AO);
            if (m->arch->one_norm) push(m, OP_TAKE, layer, N, -1, NO);
        }
        TRY(feed_forward(m, layer, last ? &out_rows : &all_rows, err));
    }
    TRY(norm(m, -1, "output_norm", XO, NO, err));
    struct weight *weight;
    TRY(model_matrix(
        m, hp->tied ? "token_embd.weight" : "output.weight", hp->d_model, hp->n_vocab, WEIGHT_MATMUL, &weight, err));
    int in = in_order(m, -1, weights_order(m->weights, &weight->tensor), NO, TO);
    struct op *head = push(m, OP_HEAD, -1, in, NO, -1);
    head->weight[0] = weight;
    head->head.scale = hp->logit_scale;
    head->head.softcap = hp->logit_cap;
    TRY(model_vector(m, "cls.output.weight", hp->d_model, true, &m->value_weight, err));
    return model_vector(m, "cls.output.bias", 1, true, &m->value_bias, err);
}
