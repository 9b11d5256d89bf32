/* SPDX-License-Identifier: MIT
 *
 * The transformer as an op list: this file is the model, arch/ says how architectures differ, and recurrent.c has the
 * layers that do not attend.
 *
 * In the last layer everything after attention runs only on the rows whose results are wanted (ROWS_OUT).
 */
#include "model/model_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool has_experts(const struct hparams *hp, int layer)
{
    return hp->n_expert && layer >= hp->n_dense_lead;
}

static int dim_of(const struct hparams *hp, int layer, enum role role)
{
    const struct hparams_layer *l = &hp->layer[layer < 0 ? 0 : layer];
    switch (role) {
    case A:
    case Z:
        if (l->kind != LAYER_ATTENTION) return recurrent_dim(hp, layer, role);
        /* fall through */
    case Q: return l->n_head * l->d_head;
    case QG: return 2 * l->n_head * l->d_head;
    case M:
    case C:
    case D:
    case B: return recurrent_dim(hp, layer, role);
    case S: return 1;
    case K:
    case V: return l->n_kv_head * l->d_head;
    case G:
    case U: return has_experts(hp, layer) && !hp->dense_beside ? hp->d_ff_shared : l->d_ff;
    case R: return hp->n_expert;
    case W: return 2 * hp->n_expert_used;
    case EG:
    case EU: return hp->n_expert_used * hp->d_ff_expert;
    case EB: return 2 * hp->n_expert_used * hp->d_ff_expert;
    case ED: return hp->n_expert_used * hp->d_model;
    case P:
    case PT: return hp->d_per_layer;
    default: return hp->d_model;
    }
}

/* One too many is noticed when the list is complete. */
int build_val(struct model *m, const struct stream *s, enum role role)
{
    struct op_list *list = &m->list;
    int dim = dim_of(&m->hp, s->layer, role), i = 0;
    while (i < list->n_value && (m->role[i] != role || list->value[i].rows != s->rows || list->value[i].dim != dim))
        i++;
    if (i < list->n_value) return i;
    if (i == VALUE_MAX) {
        m->too_many_values = true;
        return 0;
    }
    m->role[i] = (uint8_t)role;
    list->value[list->n_value++] = (struct value){dim, s->rows};
    return i;
}

struct op *build_push(struct model *m, enum op_kind kind, int layer, int in, int in2, int out)
{
    struct op *slot = &m->list.op[m->list.n_op++];
    *slot = op_make(kind, layer, in, in2, out);
    return slot;
}

/* `blk.layer.suffix` */
static const char *named(const struct model *m, char out[64], int layer, const char *suffix)
{
    snprintf(out, 64, "blk.%d.%s", m->first_block + layer, suffix);
    return out;
}

/* Of groups of n_norm: `name.weight`. */
static int rms_norm(struct model *m, int layer, const char *name, int in, int out, int n_norm, struct lutra_error *err)
{
    struct op *op = build_push(m, OP_RMS_NORM, layer, in, -1, out);
    char full[80];
    op->norm.n_norm = n_norm;
    op->norm.eps = m->hp.norm_eps;
    snprintf(full, sizeof full, "%s.weight", name);
    return model_vector(m, full, n_norm, false, &op->norm.weight, err);
}

int build_rms_norm(struct model *m, int layer, const char *base, int in, int out, int n_norm, struct lutra_error *err)
{
    char name[64];
    return rms_norm(m, layer, named(m, name, layer, base), in, out, n_norm, err);
}

/* Of the residual stream: `name.weight`, and `name.bias` if there is one. */
static int norm(struct model *m, int layer, const char *name, int in, int out, struct lutra_error *err)
{
    char full[80];
    if (!m->arch->layer_norm) return rms_norm(m, layer, name, in, out, m->hp.d_model, err);
    struct op *op = build_push(m, OP_LAYER_NORM, layer, in, -1, out);
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

int build_part(
    struct model *m, struct op *op, const char *base, int n_in, int n_out, bool bias, int out, struct lutra_error *err)
{
    char suffix[48], name[64];
    struct weight *weight;
    const float *vector;
    snprintf(suffix, sizeof suffix, "%s.weight", base);
    TRY(model_matrix(m, named(m, name, op->layer, suffix), n_in, n_out, WEIGHT_MATMUL, &weight, err));
    snprintf(suffix, sizeof suffix, "%s.bias", base);
    TRY(model_vector(m, named(m, name, op->layer, suffix), n_out, !bias, &vector, err));
    add_part(m, op, weight, vector, out);
    return 0;
}

int build_slice(struct model *m, struct op *op, const char *base, int n_in, int n_all, int first, int n_out, int out,
    struct lutra_error *err)
{
    char suffix[48], name[64];
    struct weight *weight;
    snprintf(suffix, sizeof suffix, "%s.weight", base);
    TRY(model_slice(m, named(m, name, op->layer, suffix), n_in, n_all, first, n_out, &weight, err));
    add_part(m, op, weight, NULL, out);
    return 0;
}

static bool has(const struct model *m, int layer, const char *suffix)
{
    char name[64];
    return weights_tensor_find(m->weights, named(m, name, layer, suffix)) != NULL;
}

struct op *build_matmul(struct model *m, int layer, int in)
{
    return build_push(m, OP_MATMUL, layer, in, -1, -1);
}

/* What a matrix with such an order (weights_order) reads: value `in`, or a copy in the value of role `spare`, which has
 * its shape and holds nothing that is needed. */
static int in_order(struct model *m, const struct stream *s, const int32_t *order, int in, enum role spare)
{
    if (!order) return in;
    int copy = build_val(m, s, spare);
    build_push(m, OP_PERMUTE, s->layer, in, -1, copy)->permute.order = order;
    return copy;
}

void build_end_matmul(struct model *m, const struct stream *s, enum role spare)
{
    const struct op all = m->list.op[--m->list.n_op];
    size_t bytes = (size_t)m->list.value[all.in[0]].dim * sizeof(int32_t);
    const int32_t *order[OP_WEIGHTS];
    bool done[OP_WEIGHTS] = {false};
    for (int i = 0; i < all.n_weight; i++) order[i] = weights_order(m->weights, &all.weight[i]->tensor);
    for (int i = 0; i < all.n_weight; i++) {
        if (done[i]) continue;
        struct op *op = build_matmul(m, all.layer, in_order(m, s, order[i], all.in[0], spare));
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
    if (hp->nope_interval && (layer + 1) % hp->nope_interval == 0) return;
    struct op *op = build_push(m, OP_ROPE, layer, value, -1, value);
    op->rope = hp->layer[layer].window ? hp->window_rope : hp->rope;
    op->rope.n_head = n_head;
    op->rope.growth = growth;
    op->rope.growth_every = hp->n_ctx_orig;
}

/* Norms of q, k and v before they are rotated and stored: of each head, or of the row.  v is normed first: it may be a
 * copy of k. */
static int qkv_norms(struct model *m, const struct stream *s, bool with_kv, struct lutra_error *err)
{
    const struct hparams_layer *l = &m->hp.layer[s->layer];
    bool row = m->arch->qk_norm == QK_NORM_ROW;
    int q = build_val(m, s, Q), k = build_val(m, s, K), v = build_val(m, s, V), layer = s->layer;
    char name[64];
    if (m->arch->v_norm && with_kv) {
        struct op *op = build_push(m, OP_RMS_NORM, layer, has(m, layer, "attn_v.weight") ? v : k, -1, v);
        op->norm.n_norm = l->d_head;
        op->norm.eps = m->hp.norm_eps;
        TRY(model_ones(m, &op->norm.weight, err));
    }
    if (m->arch->qk_norm == QK_NORM_NONE) return 0;
    TRY(rms_norm(
        m, layer, named(m, name, layer, "attn_q_norm"), q, q, row ? dim_of(&m->hp, layer, Q) : l->d_head, err));
    if (!with_kv) return 0;
    return rms_norm(
        m, layer, named(m, name, layer, "attn_k_norm"), k, k, row ? dim_of(&m->hp, layer, K) : l->d_head, err);
}

/* What a sub-layer reads: the residual stream, or its norm. */
static int before(struct model *m, const struct stream *s, const char *name, int *in, struct lutra_error *err)
{
    char full[64];
    bool normed = m->arch->norms & NORM_BEFORE;
    *in = build_val(m, s, normed ? N : X);
    return normed ? norm(m, s->layer, named(m, full, s->layer, name), build_val(m, s, X), *in, err) : 0;
}

/* Of what goes into the last matrix of a sub-layer, where the architecture has that; `left_out`: x lacks this factor,
 * which the norm forgets but for its epsilon. */
static int sub_norm(struct model *m, int layer, const char *name, int x, int n, float left_out, struct lutra_error *err)
{
    char full[64];
    if (!m->arch->sub_norms) return 0;
    TRY(rms_norm(m, layer, named(m, full, layer, name), x, x, n, err));
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
    if (m->arch->sub_norms) TRY(model_vector(m, named(m, name, layer, suffix), 1, true, &scale, err));
    if (!scale) return 0;
    *out = *scale;
    if (*out >= 1e-6f && *out <= 1e6f) return 0;
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: tensor '%s' is %g, outside 1e-06..1e+06", weights_path(m->weights),
        name, (double)*out);
}

/* Where queries and their gates lie in QG: one head's query, its gate, the next head's. */
static int make_orders(struct model *m, const struct hparams_layer *l, struct lutra_error *err)
{
    int n = l->n_head * l->d_head;
    void *p;
    if (m->query_order) return 0;
    TRY(arena_take(&m->arena, 2 * (size_t)n * sizeof(int32_t), "order of queries and gates", &p, err));
    int32_t *order = p;
    for (int i = 0; i < n; i++) {
        order[i] = i / l->d_head * 2 * l->d_head + i % l->d_head;
        order[n + i] = order[i] + l->d_head;
    }
    m->query_order = order;
    m->gate_order = order + n;
    return 0;
}

static int split_queries(struct model *m, const struct stream *s, struct lutra_error *err)
{
    int both = build_val(m, s, QG);
    TRY(make_orders(m, &m->hp.layer[s->layer], err));
    build_push(m, OP_PERMUTE, s->layer, both, -1, build_val(m, s, Q))->permute.order = m->query_order;
    build_push(m, OP_PERMUTE, s->layer, both, -1, build_val(m, s, Z))->permute.order = m->gate_order;
    return 0;
}

/* Three matrices, or one with all their rows; of layers without keys and values of their own the first alone. */
static int query_key_value(struct model *m, const struct stream *s, int in, bool with_kv, struct lutra_error *err)
{
    int d = m->hp.d_model, d_q = dim_of(&m->hp, s->layer, Q), d_kv = dim_of(&m->hp, s->layer, K), n = d_q + 2 * d_kv;
    bool bias = m->arch->qkv_bias;
    struct op *qkv = build_matmul(m, s->layer, in);
    if (has(m, s->layer, "attn_qkv.weight")) {
        TRY(build_slice(m, qkv, "attn_qkv", d, n, 0, d_q, build_val(m, s, Q), err));
        TRY(build_slice(m, qkv, "attn_qkv", d, n, d_q, d_kv, build_val(m, s, K), err));
        TRY(build_slice(m, qkv, "attn_qkv", d, n, d_q + d_kv, d_kv, build_val(m, s, V), err));
    } else {
        bool gated = m->arch->gated_attention;
        TRY(build_part(m, qkv, "attn_q", d, gated ? 2 * d_q : d_q, bias, build_val(m, s, gated ? QG : Q), err));
        if (with_kv) TRY(build_part(m, qkv, "attn_k", d, d_kv, bias, build_val(m, s, K), err));
        if (with_kv && (!m->arch->v_norm || has(m, s->layer, "attn_v.weight")))
            TRY(build_part(m, qkv, "attn_v", d, d_kv, bias, build_val(m, s, V), err));
    }
    build_end_matmul(m, s, T);
    return m->arch->gated_attention ? split_queries(m, s, err) : 0;
}

static int attention(struct model *m, int layer, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    const struct hparams_layer *l = &hp->layer[layer];
    const struct stream s = {layer, ROWS_ALL};
    bool with_kv = l->cache == layer;
    int in;
    char name[64];
    float q, k;
    TRY(matrix_scale(m, layer, "attn_q", &q, err));
    TRY(matrix_scale(m, layer, "attn_k", &k, err));
    TRY(before(m, &s, "attn_norm", &in, err));
    TRY(query_key_value(m, &s, in, with_kv, err));
    TRY(qkv_norms(m, &s, with_kv, err));
    rotate(m, layer, build_val(m, &s, Q), l->n_head, hp->temperature_scale);
    if (with_kv) {
        rotate(m, layer, build_val(m, &s, K), l->n_kv_head, 0);
        build_push(m, OP_KV_APPEND, layer, build_val(m, &s, K), build_val(m, &s, V), -1);
    }
    struct op *att = build_push(m, OP_ATTENTION, layer, build_val(m, &s, Q), -1, build_val(m, &s, A));
    att->attention = (struct op_attention){.n_head = l->n_head,
        .n_kv_head = l->n_kv_head,
        .d_head = l->d_head,
        .scale = hp->attention_scale * q * k,
        .softcap = hp->attention_cap,
        .window = l->window};
    if (m->arch->sinks)
        TRY(model_vector(m, named(m, name, layer, "attn_sinks.weight"), l->n_head, false, &att->attention.sinks, err));
    if (m->arch->gated_attention)
        build_push(m, OP_GATE, layer, build_val(m, &s, Z), build_val(m, &s, A), build_val(m, &s, A));
    return 0;
}

static int recurrent(struct model *m, int layer, struct lutra_error *err)
{
    const struct stream s = {layer, ROWS_ALL};
    int in;
    TRY(before(m, &s, "attn_norm", &in, err));
    return recurrent_build(m, layer, in, err);
}

/* Adds what a sub-layer's matrix `base` left in T, or its norm. */
static int add_back(
    struct model *m, const struct stream *s, const char *base, const char *post_norm, struct lutra_error *err)
{
    int layer = s->layer, x = build_val(m, s, X), t = build_val(m, s, T);
    char name[64];
    float scale;
    TRY(matrix_scale(m, layer, base, &scale, err));
    scale *= m->hp.residual_scale;
    if (m->arch->norms & NORM_BEHIND) TRY(norm(m, layer, named(m, name, layer, post_norm), t, t, err));
    if (scale == 1)
        build_push(m, OP_ADD, layer, x, t, x);
    else
        build_push(m, OP_ADD_SCALED, layer, x, t, x)->add.scale = scale;
    if (!(m->arch->norms & NORM_SUM)) return 0;
    const char *sum = strcmp(base, "attn_output") == 0 ? "attn_output_norm" : "layer_output_norm";
    return norm(m, layer, named(m, name, layer, sum), x, x, err);
}

/* The matrices of these names into g and u; without the first, the second has the rows of both. */
static int gate_and_up(
    struct model *m, struct op *wide, const char *gate, const char *up, int ff, int g, int u, struct lutra_error *err)
{
    char whole[48];
    int d = m->hp.d_model;
    snprintf(whole, sizeof whole, "%s.weight", gate);
    if (!has(m, wide->layer, whole)) {
        TRY(build_slice(m, wide, up, d, 2 * ff, 0, ff, g, err));
        return build_slice(m, wide, up, d, 2 * ff, ff, ff, u, err);
    }
    TRY(build_part(m, wide, gate, d, ff, false, g, err));
    return build_part(m, wide, up, d, ff, false, u, err);
}

/* What goes through the gate into ffn_down: in G. */
static int widen(struct model *m, const struct stream *s, int in, struct lutra_error *err)
{
    bool gated = m->hp.gate != OP_GELU && m->hp.gate != OP_GELU_ERF;
    int ff = dim_of(&m->hp, s->layer, G), g = build_val(m, s, G), u = gated ? build_val(m, s, U) : -1;
    struct op *wide = build_matmul(m, s->layer, in);
    TRY(gated ? gate_and_up(m, wide, "ffn_gate", "ffn_up", ff, g, u, err)
              : build_part(m, wide, "ffn_up", m->hp.d_model, ff, false, g, err));
    build_end_matmul(m, s, T);
    build_push(m, m->hp.gate, s->layer, g, u, g);
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
    TRY(model_experts(m, named(m, name, op->layer, suffix), n_in, n_out, hp->n_expert, &weight, err));
    snprintf(suffix, sizeof suffix, "%s.bias", base);
    if (m->arch->expert_biases)
        TRY(model_vectors(m, named(m, name, op->layer, suffix), n_out, hp->n_expert, false, &bias, err));
    op_add_part(op, weight, bias, out);
    return 0;
}

static struct op *experts(struct model *m, int layer, int in, int route, bool by_slot)
{
    struct op *op = build_push(m, OP_EXPERTS, layer, in, route, -1);
    op->matmul.experts = (struct op_experts){m->hp.n_expert, m->hp.n_expert_used, by_slot};
    return op;
}

/* Where each chosen expert's gate and up lie in EB. */
static int make_expert_orders(struct model *m, struct lutra_error *err)
{
    int ff = m->hp.d_ff_expert, n = m->hp.n_expert_used * ff;
    void *p;
    if (m->expert_order[0]) return 0;
    TRY(arena_take(&m->arena, 2 * (size_t)n * sizeof(int32_t), "order of experts' gates", &p, err));
    int32_t *order = p;
    for (int i = 0; i < n; i++) {
        order[i] = i / ff * 2 * ff + i % ff;
        order[n + i] = order[i] + ff;
    }
    m->expert_order[0] = order;
    m->expert_order[1] = order + n;
    return 0;
}

/* One matrix with the rows of an expert's gate, then those of its up. */
static int split_experts(struct model *m, const struct stream *s, struct op *op, struct lutra_error *err)
{
    static const enum role part[2] = {EG, EU};
    int both = build_val(m, s, EB);
    TRY(expert_part(m, op, "ffn_gate_up_exps", m->hp.d_model, 2 * m->hp.d_ff_expert, both, err));
    TRY(make_expert_orders(m, err));
    for (int i = 0; i < 2; i++)
        build_push(m, OP_PERMUTE, s->layer, both, -1, build_val(m, s, part[i]))->permute.order = m->expert_order[i];
    return 0;
}

/* What the router reads where a feed-forward stands beside the experts: the residual stream over its length, times a
 * vector, and over the root of d_model. */
static int router_input(struct model *m, const struct stream *s, int out, struct lutra_error *err)
{
    int d = m->hp.d_model;
    struct op *op = build_push(m, OP_RMS_NORM, s->layer, build_val(m, s, X), -1, out);
    const float *scale;
    char name[64];
    void *p;
    TRY(model_vector(m, named(m, name, s->layer, "ffn_gate_inp.scale"), d, false, &scale, err));
    TRY(arena_take(&m->arena, (size_t)d * sizeof *scale, "scale of a router's input", &p, err));
    for (int i = 0; i < d; i++) ((float *)p)[i] = scale[i] / sqrtf((float)d);
    op->norm.weight = p;
    op->norm.n_norm = d;
    op->norm.eps = m->hp.norm_eps;
    return 0;
}

/* The experts' feed-forward: what they say together goes to T. */
static int mixture(struct model *m, const struct stream *s, int in, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    char name[64];
    int layer = s->layer, d = hp->d_model, ff = hp->d_ff_expert;
    int scores = build_val(m, s, R), route = build_val(m, s, W), g = build_val(m, s, EG), u = build_val(m, s, EU),
        down = build_val(m, s, ED);
    int asks = m->arch->dense_beside ? build_val(m, s, T) : in;
    if (m->arch->dense_beside) TRY(router_input(m, s, asks, err));
    TRY(build_part(
        m, build_matmul(m, layer, asks), "ffn_gate_inp", d, hp->n_expert, m->arch->expert_biases, scores, err));
    struct op *choose = build_push(m, OP_ROUTE, layer, scores, -1, route);
    choose->route = hp->route;
    if (m->arch->route_bias)
        TRY(model_vector(m, named(m, name, layer, "exp_probs_b.bias"), hp->n_expert, false, &choose->route.bias, err));
    if (m->arch->dense_beside)
        TRY(model_vector(
            m, named(m, name, layer, "ffn_down_exps.scale"), hp->n_expert, true, &choose->route.each, err));
    struct op *op = experts(m, layer, in, route, false);
    if (has(m, layer, "ffn_gate_up_exps.weight")) {
        TRY(split_experts(m, s, op, err));
    } else {
        TRY(expert_part(m, op, "ffn_gate_exps", d, ff, g, err));
        TRY(expert_part(m, op, "ffn_up_exps", d, ff, u, err));
    }
    build_push(m, hp->gate, layer, g, u, g);
    TRY(expert_part(m, experts(m, layer, g, route, true), "ffn_down_exps", ff, d, down, err));
    build_push(m, OP_COMBINE, layer, down, route, build_val(m, s, T))->combine.n_used = hp->n_expert_used;
    return 0;
}

/* What the expert that all rows go to says, times the gate of its row if it has one, is added first. */
static int shared_expert(struct model *m, const struct stream *s, int in, struct lutra_error *err)
{
    int layer = s->layer, d = m->hp.d_model, ff = m->hp.d_ff_shared;
    int g = build_val(m, s, G), u = build_val(m, s, U), t = build_val(m, s, T),
        gate = m->arch->shared_expert ? build_val(m, s, S) : -1;
    struct op *wide = build_matmul(m, layer, in);
    TRY(gate_and_up(m, wide, "ffn_gate_shexp", "ffn_up_shexp", ff, g, u, err));
    if (m->arch->shared_expert) TRY(build_part(m, wide, "ffn_gate_inp_shexp", d, 1, false, gate, err));
    build_end_matmul(m, s, T);
    build_push(m, m->hp.gate, layer, g, u, g);
    TRY(build_part(m, build_matmul(m, layer, g), "ffn_down_shexp", ff, d, false, t, err));
    build_end_matmul(m, s, U);
    if (m->arch->shared_expert) build_push(m, OP_GATE, layer, gate, t, t);
    return add_back(m, s, "ffn_down", "post_ffw_norm", err);
}

/* Experts and an ordinary feed-forward, which reads `in`, side by side: the sum of their norms goes to T. */
static int mixture_beside(struct model *m, const struct stream *s, int in, struct lutra_error *err)
{
    int layer = s->layer, d = m->hp.d_model, t = build_val(m, s, T), g = build_val(m, s, G);
    TRY(widen(m, s, in, err));
    TRY(build_rms_norm(m, layer, "pre_ffw_norm_2", build_val(m, s, X), in, d, err));
    TRY(mixture(m, s, in, err));
    TRY(build_rms_norm(m, layer, "post_ffw_norm_2", t, t, d, err));
    TRY(build_part(m, build_matmul(m, layer, g), "ffn_down", dim_of(&m->hp, layer, G), d, false, in, err));
    build_end_matmul(m, s, U);
    TRY(build_rms_norm(m, layer, "post_ffw_norm_1", in, in, d, err));
    build_push(m, OP_ADD, layer, in, t, t);
    return 0;
}

/* The output matrix of attention, or of what stands in its place, and the feed-forward. */
static int feed_forward(struct model *m, const struct stream *s, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    static const char *const output[] = {"attn_output", "ssm_out", "shortconv.out_proj", "ssm_out"};
    enum layer_kind kind = hp->layer[s->layer].kind;
    int layer = s->layer, d_q = dim_of(hp, layer, A), ff = dim_of(hp, layer, G);
    int a = build_val(m, s, A), t = build_val(m, s, T), in = m->arch->one_norm ? build_val(m, s, N) : -1;
    const char *ffn_norm = m->arch->ffn_norm ? m->arch->ffn_norm : "ffn_norm";
    float v, gated;
    TRY(matrix_scale(m, layer, "attn_v", &v, err));
    TRY(gated_scale(m, layer, &gated, err));
    TRY(sub_norm(m, layer, "attn_sub_norm", a, d_q, v, err));
    TRY(build_part(m, build_matmul(m, layer, a), output[kind], d_q, hp->d_model, false, t, err));
    build_end_matmul(m, s, kind == LAYER_ATTENTION ? Q : Z);
    TRY(add_back(m, s, "attn_output", "post_attention_norm", err));
    if (!m->arch->one_norm) TRY(before(m, s, ffn_norm, &in, err));
    if (has_experts(hp, layer) && m->arch->dense_beside) {
        TRY(mixture_beside(m, s, in, err));
        return add_back(m, s, "ffn_down", "post_ffw_norm", err);
    }
    if (has_experts(hp, layer) && hp->d_ff_shared) TRY(shared_expert(m, s, in, err));
    if (has_experts(hp, layer)) {
        TRY(mixture(m, s, in, err));
        return add_back(m, s, "ffn_down", "post_ffw_norm", err);
    }
    TRY(widen(m, s, in, err));
    TRY(sub_norm(m, layer, "ffn_sub_norm", build_val(m, s, G), ff, gated, err));
    TRY(build_part(m, build_matmul(m, layer, build_val(m, s, G)), "ffn_down", ff, hp->d_model, false, t, err));
    build_end_matmul(m, s, U);
    return add_back(m, s, "ffn_down", "post_ffw_norm", err);
}

/* ---- what a layer adds of the token itself (Gemma 3n and 4) ---- */

/* In P: (the token's row of this layer's table sqrt(d) + norm(projected embedding)) / sqrt(2). */
static int token_input(struct model *m, int layer, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    const struct stream s = {layer, ROWS_ALL};
    int d = hp->d_per_layer, all = d * hp->n_layer, p = build_val(m, &s, P), t = build_val(m, &s, PT);
    struct op *op = build_push(m, OP_EMBED, layer, -1, -1, p);
    op->embed.scale = sqrtf((float)d / 2);
    op->embed.first = layer * d;
    TRY(model_matrix(m, "per_layer_token_embd.weight", all, hp->n_vocab, WEIGHT_GATHER, &op->weight[0], err));
    op = build_matmul(m, layer, build_val(m, &s, E));
    struct weight *weight;
    TRY(model_slice(m, "per_layer_model_proj.weight", hp->d_model, all, (int64_t)layer * d, d, &weight, err));
    op_add_part(op, weight, NULL, t);
    op = build_push(m, OP_RMS_NORM, layer, t, -1, t);
    op->norm.n_norm = d;
    op->norm.eps = hp->norm_eps * (float)hp->d_model; /* the projection lacks a factor of 1 / sqrt(d_model) */
    op->norm.weight = m->token_norm;
    build_push(m, OP_ADD, layer, p, t, p);
    return 0;
}

/* Through a gate of the residual stream, to which it is added. */
static int add_token_input(struct model *m, const struct stream *s, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    int layer = s->layer, d = hp->d_per_layer, x = build_val(m, s, X), t = build_val(m, s, T), g = build_val(m, s, PT);
    char name[64];
    TRY(build_part(m, build_matmul(m, layer, x), "inp_gate", hp->d_model, d, false, g, err));
    build_push(m, OP_GEGLU, layer, g, build_val(m, s, P), g);
    TRY(build_part(m, build_matmul(m, layer, g), "proj", d, hp->d_model, false, t, err));
    TRY(rms_norm(m, layer, named(m, name, layer, "post_norm"), t, t, hp->d_model, err));
    build_push(m, OP_ADD, layer, x, t, x);
    return 0;
}

/* The norm of all layers' projections, with the factor of 1 / sqrt(2) that token_input leaves out. */
static int read_token_norm(struct model *m, struct lutra_error *err)
{
    const float *norm;
    void *p;
    size_t n = (size_t)m->hp.d_per_layer;
    TRY(model_vector(m, "per_layer_proj_norm.weight", (int64_t)n, false, &norm, err));
    TRY(arena_take(&m->arena, n * sizeof(float), "norm of per-layer inputs", &p, err));
    for (size_t i = 0; i < n; i++) ((float *)p)[i] = norm[i] * (float)M_SQRT1_2;
    m->token_norm = p;
    return 0;
}

/* ---- the list ---- */

static void declare_layers(struct model *m)
{
    const struct hparams *hp = &m->hp;
    m->list.n_layer = hp->n_layer;
    for (int i = 0; i < hp->n_layer; i++) {
        const struct hparams_layer *l = &hp->layer[i];
        bool attends = l->kind == LAYER_ATTENTION;
        m->layer[i] = (struct op_layer){.cache = l->cache,
            .n_kv_head = attends ? l->n_kv_head : 0,
            .d_head = attends ? l->d_head : 0,
            .window = l->window};
        recurrent_sizes(hp, i, &m->layer[i].state_bytes, &m->layer[i].draft_bytes);
    }
    m->list.d_model = hp->d_model;
    m->list.n_vocab = hp->n_vocab;
    m->list.n_position = hp->n_position;
    m->list.whole = m->arch->encoder;
}

static int embed(struct model *m, int out, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    struct op *op = build_push(m, OP_EMBED, -1, -1, -1, out);
    op->embed.scale = hp->embedding_scale;
    return model_shared_matrix(
        m, "nextn.embed_tokens", "token_embd.weight", hp->d_model, hp->n_vocab, WEIGHT_GATHER, &op->weight[0], err);
}

/* Adds a row of a table of n rows to X. */
static int embed_more(struct model *m, const char *name, enum embed_by by, int n, struct lutra_error *err)
{
    const struct stream s = {-1, ROWS_ALL};
    int x = build_val(m, &s, X), t = build_val(m, &s, T);
    struct op *op = build_push(m, OP_EMBED, -1, -1, -1, t);
    op->embed.scale = 1;
    op->embed.by = by;
    TRY(model_matrix(m, name, m->hp.d_model, n, WEIGHT_GATHER, &op->weight[0], err));
    build_push(m, OP_ADD, -1, x, t, x);
    return 0;
}

/* What encoders add to the token's vector, and the norm of the sum. */
static int embed_sum(struct model *m, struct lutra_error *err)
{
    const struct stream s = {-1, ROWS_ALL};
    const struct tensor *types = weights_tensor_find(m->weights, "token_types.weight");
    int x = build_val(m, &s, X);
    if (types) {
        if (types->ne[1] < 1 || types->ne[1] > 2)
            return model_lack(&m->listener, err, "%s: tensor 'token_types.weight' has %lld rows: only 1 or 2",
                weights_path(m->weights), (long long)types->ne[1]);
        m->list.n_segment = (int)types->ne[1];
        TRY(embed_more(m, "token_types.weight", EMBED_SEGMENT, m->list.n_segment, err));
    }
    if (m->hp.n_position) TRY(embed_more(m, "position_embd.weight", EMBED_POSITION, m->hp.n_position, err));
    return norm(m, -1, "token_embd_norm", x, x, err);
}

static void take(struct model *m, int layer, enum role role)
{
    const struct stream all = {layer, ROWS_ALL}, wanted = {layer, ROWS_OUT};
    build_push(m, OP_TAKE, layer, build_val(m, &all, role), -1, build_val(m, &wanted, role));
}

static int build_layer(struct model *m, int layer, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    bool last = layer == hp->n_layer - 1;
    const struct stream s = {layer, last ? ROWS_OUT : ROWS_ALL};
    const float *scale = NULL;
    char name[64];
    TRY(hp->layer[layer].kind == LAYER_ATTENTION ? attention(m, layer, err) : recurrent(m, layer, err));
    if (hp->d_per_layer) TRY(token_input(m, layer, err));
    if (last) {
        take(m, layer, X);
        take(m, layer, A);
        if (m->arch->one_norm) take(m, layer, N);
        if (hp->d_per_layer) take(m, layer, P);
    }
    TRY(feed_forward(m, &s, err));
    if (hp->d_per_layer) TRY(add_token_input(m, &s, err));
    if (m->arch->layer_scale)
        TRY(model_vector(m, named(m, name, layer, "layer_output_scale.weight"), 1, true, &scale, err));
    if (scale) build_push(m, OP_SCALE, layer, build_val(m, &s, X), -1, build_val(m, &s, X))->scale.by = *scale;
    return 0;
}

static int head(struct model *m, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    const struct stream s = {-1, ROWS_OUT};
    struct weight *weight;
    const char *last = m->arch->output_norm ? m->arch->output_norm : "output_norm";
    char name[64];
    if (m->arch->norms & NORM_SUM) {
        build_push(m, OP_HEAD, -1, build_val(m, &s, X), build_val(m, &s, X), -1)->n_weight = 0;
        return 0;
    }
    if (m->trunk && has(m, 0, "nextn.shared_head_norm.weight")) last = named(m, name, 0, "nextn.shared_head_norm");
    TRY(norm(m, -1, last, build_val(m, &s, X), build_val(m, &s, N), err));
    if (m->arch->encoder) {
        build_push(m, OP_HEAD, -1, build_val(m, &s, N), build_val(m, &s, N), -1)->n_weight = 0;
        return 0;
    }
    TRY(model_shared_matrix(m, "nextn.shared_head_head", hp->tied ? "token_embd.weight" : "output.weight", hp->d_model,
        hp->n_vocab, WEIGHT_MATMUL, &weight, err));
    int in = in_order(m, &s, weights_order(m->weights, &weight->tensor), build_val(m, &s, N), T);
    struct op *op = build_push(m, OP_HEAD, -1, in, build_val(m, &s, N), -1);
    op->weight[0] = weight;
    op->head.scale = hp->logit_scale;
    op->head.softcap = hp->logit_cap;
    return 0;
}

/* The head of a reward model, if it has one. */
static int value_head(struct model *m, struct lutra_error *err)
{
    struct model_value_head *v = &m->value;
    const struct tensor *t = weights_tensor_find(m->weights, "cls.output.weight");
    int d = m->hp.d_model, n_class = t && t->ne[1] == 2 ? 2 : 1;
    if (!t) return 0;
    TRY(model_vectors(m, "cls.output.weight", d, n_class, false, &v->weight, err));
    TRY(model_vector(m, "cls.output.bias", n_class, true, &v->bias, err));
    TRY(model_vectors(m, "cls.weight", d, d, true, &v->dense, err));
    if (v->dense) TRY(model_vector(m, "cls.bias", d, true, &v->dense_bias, err));
    v->n_class = n_class;
    return 0;
}

/* The layers behind the mean, if there are any. */
static int dense_layers(struct model *m, struct lutra_error *err)
{
    int d = m->hp.d_model, n = m->dense.n_mid;
    if (!n) return 0;
    TRY(model_vectors(m, "dense_2.weight", d, n, false, &m->dense.up, err));
    return model_vectors(m, "dense_3.weight", n, d, false, &m->dense.down, err);
}

/* What an MTP block's layer reads: the product of eh_proj with the norms of the token's embedding, then of the state
 * that the token before it left after the last norm. */
static int join_states(struct model *m, struct lutra_error *err)
{
    const struct stream all = {-1, ROWS_ALL};
    int x = build_val(m, &all, X), n = build_val(m, &all, N), t = build_val(m, &all, T), h = build_val(m, &all, H);
    int d = m->hp.d_model;
    struct weight *half[2];
    m->list.given = (uint64_t)1 << h;
    TRY(build_rms_norm(m, 0, "nextn.enorm", x, n, d, err));
    TRY(build_rms_norm(m, 0, "nextn.hnorm", h, t, d, err));
    TRY(model_halves(m, "nextn.eh_proj", d, half, err));
    op_add_part(build_matmul(m, -1, n), half[0], NULL, x);
    op_add_part(build_matmul(m, -1, t), half[1], NULL, n);
    build_push(m, OP_ADD, -1, x, n, x);
    return 0;
}

int transformer_build(struct model *m, struct lutra_error *err)
{
    const struct stream all = {-1, ROWS_ALL};
    declare_layers(m);
    TRY(model_rope_factors(m, err));
    TRY(embed(m, build_val(m, &all, X), err));
    if (m->arch->norms & NORM_SUM) TRY(embed_sum(m, err));
    if (m->trunk) TRY(join_states(m, err));
    if (m->hp.d_per_layer) {
        TRY(embed(m, build_val(m, &all, E), err));
        TRY(read_token_norm(m, err));
    }
    for (int layer = 0; layer < m->hp.n_layer; layer++) TRY(build_layer(m, layer, err));
    TRY(head(m, err));
    if (m->too_many_values) return lutra_fail(err, LUTRA_E_INTERNAL, "model: more than %d values", VALUE_MAX);
    TRY(dense_layers(m, err));
    return value_head(m, err);
}
