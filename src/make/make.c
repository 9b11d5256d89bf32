/* SPDX-License-Identifier: MIT */
#include "make/make_impl.h"

#include "quant/quant.h"
#include "quantize/mix.h"
#include "weights/folder/folder.h"
#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_POOLS = 3,               /* in memory at a time; row lengths of a shape: d_model, n_head d_head, d_ff */
    N_OUTLIERS = 4,            /* channels of each ffn_down input */
    MIN_POOLED = 3 * POOL_RUN, /* shorter rows would repeat: they are made one by one */
    BUFFER_BYTES = 1 << 20
};
#define OUTLIER_SCALE 1000.0f     /* of the ffn_up row: the channel's activation grows as much */
#define OUTLIER_COLUMN (1 / 32.f) /* of the ffn_down column: the channel then adds about what all others add */

struct weights_make_settings weights_make_default(void)
{
    return (struct weights_make_settings){.type = QUANT_F16, .seed = 1};
}

/* ---- the list of tensors ---- */

enum kind {
    MATRIX,
    ROUTER /* stays F32 */,
    NORM,
    BIAS,
    ROPE_FACTORS,
    QUARTER_ROPE /* the rest of a head does not turn */,
    DECAY /* negative, of a state that lasts some twenty tokens */,
    TAPS /* of a convolution: rows in F32 */,
    FFN_UP,
    FFN_DOWN
};

struct make {
    const struct weights_make_settings *s;
    struct weights_shape shape;   /* with the overrides applied */
    const struct make_arch *arch; /* of the shape */
    struct gguf_writer *out;
    struct lutra_error *err;
    bool writing;       /* second walk over the list; the first declares */
    uint32_t n_tensors; /* walked so far */
    uint64_t done_bytes, total_bytes;
    struct make_pool pool[N_POOLS];
    int next_pool;
    float *row;      /* one row as floats */
    uint8_t *buffer; /* [BUFFER_BYTES] or one row, if that is more */
    size_t buffer_bytes;
};

static int write_tensor(
    struct make *m, uint32_t index, enum kind kind, enum quant_type type, uint64_t n_in, uint64_t n_out);

static bool stays_f32(enum kind kind)
{
    return kind == BIAS || kind == ROUTER || kind == TAPS || kind == DECAY || kind == NORM;
}

/* Declares or writes one tensor: n_out rows of n_in (n_expert times, if that is not 0), or a vector of n_in when n_out
 * is 0. */
static int tensor_of(
    struct make *m, const char *name, enum kind kind, uint32_t n_in, uint32_t n_each, uint32_t n_expert)
{
    int64_t ne[3] = {n_in, n_each, n_expert};
    uint32_t n_out = n_each * (n_expert ? n_expert : 1);
    const bool typed = n_out && !stays_f32(kind);
    enum quant_type type = typed ? weights_legal_type(m->s->type, n_in) : QUANT_F32;
    size_t row_bytes;
    uint32_t index = m->n_tensors++;
    TRY(quant_row_bytes(type, n_in, &row_bytes));
    if (m->writing) return write_tensor(m, index, kind, type, n_in, n_out ? n_out : 1);
    m->total_bytes += row_bytes * (n_out ? n_out : 1);
    if (m->s->log && typed && type != m->s->type) {
        char line[160];
        snprintf(line, sizeof line, "%s: rows of %u are not whole %s blocks; made %s", name, (unsigned)n_in,
            quant_info_of(m->s->type)->name, quant_info_of(type)->name);
        m->s->log(m->s->log_user, LUTRA_LOG_WARN, line);
    }
    return gguf_writer_add_tensor(m->out, name, type, n_expert ? 3 : n_out ? 2 : 1, ne);
}

static int tensor(struct make *m, const char *name, enum kind kind, uint32_t n_in, uint32_t n_out)
{
    return tensor_of(m, name, kind, n_in, n_out, 0);
}

static int layer_tensor(struct make *m, uint32_t layer, const char *name, enum kind kind, uint32_t n_in, uint32_t n_out)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s", (unsigned)layer, name);
    return tensor(m, full, kind, n_in, n_out);
}

static int layer_norm(struct make *m, uint32_t layer, const char *name, uint32_t n)
{
    char full[48];
    snprintf(full, sizeof full, "%s.weight", name);
    TRY(layer_tensor(m, layer, full, NORM, n, 0));
    snprintf(full, sizeof full, "%s.bias", name);
    return m->arch->has & (MAKE_ALL_BIASES | MAKE_NORM_BIASES) ? layer_tensor(m, layer, full, BIAS, n, 0) : 0;
}

/* A matrix; with a bias where `bias`, or where all have one. */
static int layer_matrix(
    struct make *m, uint32_t layer, const char *name, enum kind kind, uint32_t n_in, uint32_t n_out, bool bias)
{
    char full[48];
    snprintf(full, sizeof full, "%s.weight", name);
    TRY(layer_tensor(m, layer, full, kind, n_in, n_out));
    snprintf(full, sizeof full, "%s.bias", name);
    return bias || m->arch->has & MAKE_ALL_BIASES ? layer_tensor(m, layer, full, BIAS, n_out, 0) : 0;
}

/* Experts' matrices in one tensor, and their biases in another. */
static int layer_experts(struct make *m, uint32_t layer, const char *name, uint32_t n_in, uint32_t n_out)
{
    uint32_t n_expert = weights_shape_experts(&m->shape)->n_expert;
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s.weight", (unsigned)layer, name);
    TRY(tensor_of(m, full, MATRIX, n_in, n_out, n_expert));
    snprintf(full, sizeof full, "blk.%u.%s.bias", (unsigned)layer, name);
    return m->arch->has & MAKE_EXPERT_BIASES ? tensor(m, full, BIAS, n_out, n_expert) : 0;
}

static int mixture(struct make *m, uint32_t i)
{
    const struct weights_shape *s = &m->shape;
    const struct weights_experts *e = weights_shape_experts(s);
    char router[64];
    snprintf(router, sizeof router, "blk.%u.ffn_gate_inp.weight", (unsigned)i);
    TRY(tensor(m, router, ROUTER, s->d_model, e->n_expert));
    if (m->arch->has & MAKE_CONV_LAYERS) TRY(layer_tensor(m, i, "exp_probs_b.bias", BIAS, e->n_expert, 0));
    if (m->arch->has & MAKE_EXPERT_BIASES) TRY(layer_tensor(m, i, "ffn_gate_inp.bias", BIAS, e->n_expert, 0));
    if (m->arch->has & MAKE_MIXED_LAYERS) {
        TRY(layer_experts(m, i, "ffn_gate_up_exps", s->d_model, 2 * e->d_ff));
    } else {
        TRY(layer_experts(m, i, "ffn_gate_exps", s->d_model, e->d_ff));
        TRY(layer_experts(m, i, "ffn_up_exps", s->d_model, e->d_ff));
    }
    TRY(layer_experts(m, i, "ffn_down_exps", e->d_ff, s->d_model));
    const struct weights_recurrent *r = weights_shape_recurrent(s);
    if (!r || !r->d_ff_shared) return 0;
    if (m->arch->has & MAKE_GATED_ATTENTION) TRY(layer_tensor(m, i, "ffn_gate_inp_shexp.weight", BIAS, s->d_model, 0));
    TRY(layer_matrix(m, i, "ffn_gate_shexp", MATRIX, s->d_model, r->d_ff_shared, false));
    TRY(layer_matrix(m, i, "ffn_up_shexp", MATRIX, s->d_model, r->d_ff_shared, false));
    return layer_matrix(m, i, "ffn_down_shexp", MATRIX, r->d_ff_shared, s->d_model, false);
}

/* What differs between the layers of some. */
struct layer_sizes {
    uint32_t d_head, n_kv_head, d_ff;
    bool has_kv, has_v;
};

static struct layer_sizes sizes_of(const struct weights_shape *s, uint32_t i)
{
    const struct weights_mixed_layers *l = weights_shape_mixed(s);
    struct layer_sizes x = {s->d_head, s->n_kv_head, s->d_ff, true, true};
    if (!l) return x;
    if ((i + 1) % l->period == 0) x.d_head = l->d_head, x.n_kv_head = l->n_kv_head, x.has_v = !l->k_is_v;
    if (i >= s->n_layer - make_shared_layers(s)) x.has_kv = x.has_v = false, x.d_ff *= 2;
    return x;
}

/* What layers add of the token itself. */
static int token_tensors(struct make *m)
{
    const struct weights_shape *s = &m->shape;
    const struct weights_mixed_layers *l = weights_shape_mixed(s);
    if (l) TRY(tensor(m, "rope_freqs.weight", QUARTER_ROPE, l->d_head / 2, 0));
    if (!l || !l->d_per_layer) return 0;
    TRY(tensor(m, "per_layer_token_embd.weight", MATRIX, l->d_per_layer * s->n_layer, s->n_vocab));
    TRY(tensor(m, "per_layer_model_proj.weight", MATRIX, s->d_model, l->d_per_layer * s->n_layer));
    return tensor(m, "per_layer_proj_norm.weight", NORM, l->d_per_layer, 0);
}

static int layer_token_tensors(struct make *m, uint32_t i)
{
    const struct weights_mixed_layers *l = weights_shape_mixed(&m->shape);
    uint32_t d = m->shape.d_model;
    if (!l) return 0;
    if (l->d_per_layer) {
        TRY(layer_matrix(m, i, "inp_gate", MATRIX, d, l->d_per_layer, false));
        TRY(layer_matrix(m, i, "proj", MATRIX, l->d_per_layer, d, false));
        TRY(layer_norm(m, i, "post_norm", d));
    }
    return layer_tensor(m, i, "layer_output_scale.weight", NORM, 1, 0);
}

/* A short convolution in place of attention. */
static int short_conv(struct make *m, uint32_t i)
{
    uint32_t d = m->shape.d_model;
    TRY(layer_norm(m, i, "attn_norm", d));
    TRY(layer_tensor(m, i, "shortconv.conv.weight", TAPS, weights_shape_recurrent(&m->shape)->n_tap, d));
    TRY(layer_matrix(m, i, "shortconv.in_proj", MATRIX, d, 3 * d, false));
    return layer_matrix(m, i, "shortconv.out_proj", MATRIX, d, d, false);
}

/* A gated delta rule in place of attention. */
static int delta_net(struct make *m, uint32_t i)
{
    const struct weights_recurrent *r = weights_shape_recurrent(&m->shape);
    uint32_t d = m->shape.d_model, d_v = r->n_v_head * r->d_state, all = 2 * r->n_k_head * r->d_state + d_v;
    TRY(layer_norm(m, i, "attn_norm", d));
    TRY(layer_matrix(m, i, "attn_qkv", MATRIX, d, all, false));
    TRY(layer_matrix(m, i, "attn_gate", MATRIX, d, d_v, false));
    TRY(layer_tensor(m, i, "ssm_conv1d.weight", TAPS, r->n_tap, all));
    TRY(layer_tensor(m, i, "ssm_dt.bias", BIAS, r->n_v_head, 0));
    TRY(layer_tensor(m, i, "ssm_a", DECAY, r->n_v_head, 0));
    TRY(layer_matrix(m, i, "ssm_beta", MATRIX, d, r->n_v_head, false));
    TRY(layer_matrix(m, i, "ssm_alpha", MATRIX, d, r->n_v_head, false));
    TRY(layer_norm(m, i, "ssm_norm", r->d_state));
    return layer_matrix(m, i, "ssm_out", MATRIX, d_v, d, false);
}

/* Mamba-2 in place of attention. */
static int mamba(struct make *m, uint32_t i)
{
    const struct weights_recurrent *r = weights_shape_recurrent(&m->shape);
    uint32_t d = m->shape.d_model, n = r->n_v_head, inner = n * r->d_value,
             mixed = inner + 2 * r->n_k_head * r->d_state;
    TRY(layer_norm(m, i, "attn_norm", d));
    TRY(layer_matrix(m, i, "ssm_in", MATRIX, d, inner + mixed + n, false));
    TRY(layer_tensor(m, i, "ssm_conv1d.weight", TAPS, r->n_tap, mixed));
    TRY(layer_tensor(m, i, "ssm_conv1d.bias", BIAS, mixed, 0));
    TRY(layer_tensor(m, i, "ssm_dt.bias", BIAS, n, 0));
    TRY(layer_tensor(m, i, "ssm_a", DECAY, 1, n));
    TRY(layer_tensor(m, i, "ssm_d", NORM, 1, n));
    TRY(layer_norm(m, i, "ssm_norm", inner));
    return layer_matrix(m, i, "ssm_out", MATRIX, inner, d, false);
}

/* Experts beside the feed-forward (Gemma 4). */
static int mixture_beside(struct make *m, uint32_t i)
{
    uint32_t d = m->shape.d_model;
    if (!weights_shape_experts(&m->shape)) return 0;
    TRY(mixture(m, i));
    TRY(layer_tensor(m, i, "ffn_gate_inp.scale", NORM, d, 0));
    TRY(layer_tensor(m, i, "ffn_down_exps.scale", NORM, weights_shape_experts(&m->shape)->n_expert, 0));
    TRY(layer_norm(m, i, "pre_ffw_norm_2", d));
    TRY(layer_norm(m, i, "post_ffw_norm_1", d));
    return layer_norm(m, i, "post_ffw_norm_2", d);
}

static int attention(struct make *m, uint32_t i)
{
    const struct weights_shape *s = &m->shape;
    const struct layer_sizes l = sizes_of(s, i);
    uint32_t d = s->d_model, d_q = s->n_head * l.d_head, d_kv = l.n_kv_head * l.d_head, has = m->arch->has;
    if (has & MAKE_NORM_BEFORE) TRY(layer_norm(m, i, "attn_norm", d));
    if (has & (MAKE_FUSED | MAKE_FUSED_QKV)) {
        TRY(layer_matrix(m, i, "attn_qkv", MATRIX, d, d_q + 2 * d_kv, false));
        TRY(layer_matrix(m, i, "attn_output", MATRIX, d_q, d, false));
        return has & MAKE_SUM_NORMS ? layer_norm(m, i, "attn_output_norm", d) : 0;
    }
    uint32_t queries = has & MAKE_GATED_ATTENTION ? 2 * d_q : d_q;
    TRY(layer_matrix(m, i, "attn_q", MATRIX, d, queries, has & MAKE_QKV_BIAS));
    if (has & MAKE_QK_NORM) TRY(layer_norm(m, i, "attn_q_norm", has & MAKE_QK_ROW ? d_q : l.d_head));
    if (l.has_kv) TRY(layer_matrix(m, i, "attn_k", MATRIX, d, d_kv, has & MAKE_QKV_BIAS));
    if (l.has_kv && has & MAKE_QK_NORM) TRY(layer_norm(m, i, "attn_k_norm", has & MAKE_QK_ROW ? d_kv : l.d_head));
    if (l.has_v) TRY(layer_matrix(m, i, "attn_v", MATRIX, d, d_kv, has & MAKE_QKV_BIAS));
    if (has & MAKE_SUB_NORMS) TRY(layer_norm(m, i, "attn_sub_norm", d_q));
    TRY(layer_matrix(m, i, "attn_output", MATRIX, d_q, d, has & MAKE_OUTPUT_BIAS));
    if (has & MAKE_SUM_NORMS) TRY(layer_norm(m, i, "attn_output_norm", d));
    if (has & MAKE_SINKS) TRY(layer_tensor(m, i, "attn_sinks.weight", BIAS, s->n_head, 0));
    return has & MAKE_NORM_BEHIND ? layer_norm(m, i, "post_attention_norm", d) : 0;
}

static int layer(struct make *m, uint32_t i)
{
    const struct weights_shape *s = &m->shape;
    uint32_t d = s->d_model, has = m->arch->has, d_ff = sizes_of(s, i).d_ff;
    TRY(weights_shape_attends(s, i) ? attention(m, i)
        : has & MAKE_CONV_LAYERS    ? short_conv(m, i)
        : has & MAKE_MAMBA          ? mamba(m, i)
                                    : delta_net(m, i));
    const char *norm = has & MAKE_SECOND_NORM_POST ? "post_attention_norm" : "ffn_norm";
    if (has & MAKE_NORM_BEFORE && !(has & MAKE_ONE_NORM)) TRY(layer_norm(m, i, norm, d));
    const struct weights_recurrent *r = weights_shape_recurrent(s);
    if (has & MAKE_EXPERTS && weights_shape_experts(s) && !(r && i < r->n_dense_lead)) return mixture(m, i);
    if (has & MAKE_MIXED_LAYERS) TRY(mixture_beside(m, i));
    if (!(has & (MAKE_FUSED | MAKE_NO_GATE))) TRY(layer_matrix(m, i, "ffn_gate", MATRIX, d, d_ff, false));
    TRY(layer_matrix(m, i, "ffn_up", FFN_UP, d, d_ff * (has & MAKE_FUSED ? 2 : 1), false));
    if (has & MAKE_SUB_NORMS) TRY(layer_norm(m, i, "ffn_sub_norm", s->d_ff));
    TRY(layer_matrix(m, i, "ffn_down", FFN_DOWN, d_ff, d, false));
    if (has & MAKE_NORM_BEHIND) TRY(layer_norm(m, i, "post_ffw_norm", d));
    if (has & MAKE_SUM_NORMS) TRY(layer_norm(m, i, "layer_output_norm", d));
    return layer_token_tensors(m, i);
}

/* What stands beside the token's vectors in encoders. */
static int embedding_tensors(struct make *m)
{
    const struct weights_shape *s = &m->shape;
    if (m->arch->has & MAKE_POSITIONS) TRY(tensor(m, "position_embd.weight", ROUTER, s->d_model, s->n_ctx));
    if (m->arch->has & MAKE_SEGMENTS) TRY(tensor(m, "token_types.weight", ROUTER, s->d_model, 2));
    if (!(m->arch->has & MAKE_SUM_NORMS)) return 0;
    TRY(tensor(m, "token_embd_norm.weight", NORM, s->d_model, 0));
    return tensor(m, "token_embd_norm.bias", BIAS, s->d_model, 0);
}

/* What reads the pooled states. */
static int pooled_tensors(struct make *m)
{
    const struct weights_pooling *p = weights_shape_pooling(&m->shape);
    uint32_t d = m->shape.d_model;
    if (p && p->n_mid) {
        TRY(tensor(m, "dense_2.weight", ROUTER, d, p->n_mid));
        TRY(tensor(m, "dense_3.weight", ROUTER, p->n_mid, d));
    }
    if (!p || !p->n_class) return 0;
    if (p->dense) {
        TRY(tensor(m, "cls.weight", ROUTER, d, d));
        TRY(tensor(m, "cls.bias", BIAS, d, 0));
    }
    TRY(tensor(m, "cls.output.weight", ROUTER, d, p->n_class));
    return p->n_class == 1 ? tensor(m, "cls.output.bias", BIAS, p->n_class, 0) : 0;
}

/* The list itself, walked twice: once to declare, once to write. */
static int all_tensors(struct make *m)
{
    const struct weights_shape *s = &m->shape;
    m->n_tensors = 0;
    TRY(tensor(m, "token_embd.weight", MATRIX, s->d_model, s->n_vocab));
    TRY(embedding_tensors(m));
    if (s->rope_factor > 0) TRY(tensor(m, "rope_freqs.weight", ROPE_FACTORS, s->d_head / 2, 0));
    if (m->arch->has & MAKE_LONG_ROPE) {
        TRY(tensor(m, "rope_factors_long.weight", NORM, make_rotated(s) / 2, 0));
        TRY(tensor(m, "rope_factors_short.weight", NORM, make_rotated(s) / 2, 0));
    }
    TRY(token_tensors(m));
    for (uint32_t i = 0; i < s->n_layer; i++) TRY(layer(m, i));
    TRY(pooled_tensors(m));
    if (m->arch->has & MAKE_SUM_NORMS) return 0;
    const char *last = m->arch->has & MAKE_CONV_LAYERS ? "token_embd_norm.weight" : "output_norm.weight";
    TRY(tensor(m, last, NORM, s->d_model, 0));
    if (m->arch->has & MAKE_ALL_BIASES) TRY(tensor(m, "output_norm.bias", BIAS, s->d_model, 0));
    if (!s->tied) TRY(tensor(m, "output.weight", MATRIX, s->d_model, s->n_vocab));
    return 0;
}

/* ---- numbers ---- */

/* The matrix whose rows are being written. */
struct matrix {
    uint32_t index;
    uint64_t n_in;
    float deviation;
    const struct quant_info *q;
    const struct make_pool *pool; /* NULL: rows are short, and made one by one */
};

/* The matrix's pool, made on first use; the oldest gives way. */
static int find_pool(struct make *m, struct matrix *x)
{
    for (int i = 0; i < N_POOLS; i++) {
        const struct make_pool *p = &m->pool[i];
        if (p->f32 && p->deviation == x->deviation && p->type == x->q->type) {
            x->pool = p;
            return 0;
        }
    }
    struct make_pool *pool = &m->pool[m->next_pool];
    m->next_pool = (m->next_pool + 1) % N_POOLS;
    make_pool_close(pool);
    int rc = make_pool_open(pool, m->s->seed, x->deviation, x->q->type);
    x->pool = pool;
    return rc < 0 ? lutra_fail(m->err, rc, "make-model: no memory for a pool of random numbers") : 0;
}

/* Row r as floats: the pool's runs put together, or fresh numbers. */
static void draw_floats(const struct make *m, const struct matrix *x, uint64_t r, float *dst)
{
    uint64_t n_runs = (x->n_in + POOL_RUN - 1) / POOL_RUN;
    if (!x->pool) {
        make_normals(m->s->seed, x->index + 1, r * x->n_in, dst, x->n_in); /* stream 0 is the pool's */
        for (uint64_t i = 0; i < x->n_in; i++) dst[i] *= x->deviation;
        return;
    }
    for (uint64_t k = 0; k < n_runs; k++) {
        uint64_t elems = x->n_in - k * POOL_RUN < POOL_RUN ? x->n_in - k * POOL_RUN : POOL_RUN;
        const float *src = x->pool->f32 + (size_t)make_pool_pick(m->s->seed, x->index, r * n_runs + k) * POOL_RUN;
        memcpy(dst + k * POOL_RUN, src, elems * sizeof *dst);
    }
}

/* The same in the file's type; runs of the pool are quantized already. */
static void draw_row(const struct make *m, const struct matrix *x, uint64_t r, uint8_t *dst)
{
    const struct quant_info *q = x->q;
    size_t run_bytes = POOL_RUN / q->block_elems * q->block_bytes;
    uint64_t n_runs = (x->n_in + POOL_RUN - 1) / POOL_RUN;
    if (!x->pool) {
        draw_floats(m, x, r, m->row);
        quant_plain(q->type)(m->row, dst, x->n_in);
        return;
    }
    for (uint64_t k = 0; k < n_runs; k++) {
        uint64_t elems = x->n_in - k * POOL_RUN < POOL_RUN ? x->n_in - k * POOL_RUN : POOL_RUN;
        const uint8_t *src = x->pool->raw + make_pool_pick(m->s->seed, x->index, r * n_runs + k) * run_bytes;
        memcpy(dst + k * run_bytes, src, elems / q->block_elems * q->block_bytes);
    }
}

static bool is_outlier(const struct make *m, uint64_t channel)
{
    uint64_t d_ff = m->shape.d_ff;
    for (uint64_t i = 0; i < N_OUTLIERS; i++)
        if (channel == d_ff * (2 * i + 1) / (2 * N_OUTLIERS)) return true;
    return false;
}

/* Quantizes again the runs of an ffn_down row that hold an outlier's column, scaled down there. */
static void scale_columns(const struct make *m, const struct matrix *x, uint64_t r, uint8_t *dst)
{
    const struct quant_info *q = x->q;
    draw_floats(m, x, r, m->row);
    for (uint64_t c = 0; c < x->n_in; c++) {
        if (!is_outlier(m, c)) continue;
        uint64_t start = c / POOL_RUN * POOL_RUN, n = x->n_in - start < POOL_RUN ? x->n_in - start : POOL_RUN;
        m->row[c] *= OUTLIER_COLUMN;
        quant_plain(q->type)(m->row + start, dst + start / q->block_elems * q->block_bytes, n);
    }
}

static void scale_row(const struct make *m, const struct matrix *x, uint64_t r, uint8_t *dst)
{
    draw_floats(m, x, r, m->row);
    for (uint64_t i = 0; i < x->n_in; i++) m->row[i] *= OUTLIER_SCALE;
    quant_plain(x->q->type)(m->row, dst, x->n_in);
}

static void write_vector(const struct make *m, uint32_t index, enum kind kind, uint64_t n, uint32_t r, float *x)
{
    if (kind == QUARTER_ROPE) {
        for (uint64_t i = 0; i < n; i++) x[i] = i < n / 4 ? 1 : 1e30f;
        return;
    }
    if (kind == ROPE_FACTORS) {
        for (uint64_t i = 0; i < n; i++)
            x[i] = weights_llama3_rope_factor((uint32_t)i, m->shape.d_head, m->shape.rope_base,
                &(struct weights_llama3_rope){m->shape.rope_factor, 1, 4, 8192});
        return;
    }
    make_normals(m->s->seed, index + 1, (uint64_t)r * ((n + 1) / 2 * 2), x, n);
    for (uint64_t i = 0; i < n && kind == DECAY; i++) x[i] = -0.07f * expf(x[i]);
    if (kind == DECAY) return;
    if (kind == TAPS) {
        for (uint64_t i = 0; i < n; i++) x[i] *= 0.5f;
        return;
    }
    for (uint64_t i = 0; i < n; i++) x[i] = (kind == NORM ? 1.0f : 0.0f) + 0.1f * x[i];
}

static int emit(struct make *m, const void *bytes, size_t n)
{
    TRY(gguf_writer_data(m->out, bytes, n));
    m->done_bytes += n;
    if (m->s->progress && m->s->progress(m->s->progress_user, m->done_bytes, m->total_bytes))
        return lutra_fail(m->err, LUTRA_E_CANCELLED, "make-model: cancelled");
    return 0;
}

static int write_tensor(
    struct make *m, uint32_t index, enum kind kind, enum quant_type type, uint64_t n_in, uint64_t n_out)
{
    struct matrix x = {.index = index, .n_in = n_in, .deviation = 1 / sqrtf((float)n_in), .q = quant_info_of(type)};
    size_t row_bytes, filled = 0;
    TRY(quant_row_bytes(type, (int64_t)n_in, &row_bytes));
    if (kind == NORM || kind == BIAS || kind == ROPE_FACTORS || kind == QUARTER_ROPE || kind == DECAY || kind == TAPS) {
        for (uint64_t r = 0; r < n_out; r++) {
            write_vector(m, index, kind, n_in, (uint32_t)r, m->row);
            TRY(emit(m, m->row, row_bytes));
        }
        return 0;
    }
    if (n_in >= MIN_POOLED || !quant_plain(type)) TRY(find_pool(m, &x));
    for (uint64_t r = 0; r < n_out; r++) {
        if (m->buffer_bytes - filled < row_bytes) {
            TRY(emit(m, m->buffer, filled));
            filled = 0;
        }
        uint8_t *dst = m->buffer + filled;
        draw_row(m, &x, r, dst);
        if (m->s->outliers && kind == FFN_UP && is_outlier(m, r)) scale_row(m, &x, r, dst);
        if (m->s->outliers && kind == FFN_DOWN) scale_columns(m, &x, r, dst);
        filled += row_bytes;
    }
    return emit(m, m->buffer, filled);
}

/* ---- metadata ---- */

static void put_arch_u32(struct make *m, const char *name, uint32_t value)
{
    make_put_u32(m->out, &m->shape, name, value);
}

static void put_hyperparameters(struct make *m)
{
    const struct weights_shape *s = &m->shape;
    char name[96];
    snprintf(name, sizeof name, "%s random, seed %llu%s", s->name, (unsigned long long)m->s->seed,
        m->s->outliers ? ", outliers" : "");
    gguf_writer_put_str(m->out, "general.architecture", s->arch);
    gguf_writer_put_str(m->out, "general.type", "model");
    gguf_writer_put_str(m->out, "general.name", name);
    gguf_writer_put_u32(m->out, "general.quantization_version", QUANTIZATION_VERSION);
    gguf_writer_put_u32(m->out, "general.file_type", quant_info_of(m->s->type)->file_type);
    put_arch_u32(m, "context_length", s->n_ctx);
    put_arch_u32(m, "embedding_length", s->d_model);
    put_arch_u32(m, "block_count", s->n_layer);
    put_arch_u32(m, "attention.head_count", s->n_head);
    if (!(m->arch->has & MAKE_MIXED_LAYERS)) {
        put_arch_u32(m, "feed_forward_length", s->d_ff);
        if (!(m->arch->has & (MAKE_CONV_LAYERS | MAKE_MAMBA))) put_arch_u32(m, "attention.head_count_kv", s->n_kv_head);
        put_arch_u32(m, "attention.key_length", s->d_head);
        put_arch_u32(m, "attention.value_length", s->d_head);
        put_arch_u32(m, "rope.dimension_count", make_rotated(s));
    }
    put_arch_u32(m, "vocab_size", s->n_vocab);
    bool layer_norm = m->arch->has & MAKE_LAYER_NORM;
    make_put_f32(
        m->out, s, layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", s->rms_eps);
    make_put_f32(m->out, s, "rope.freq_base", s->rope_base);
    const struct weights_pooling *p = weights_shape_pooling(s);
    if (p) put_arch_u32(m, "pooling_type", p->pooling);
    if (p && p->n_class == 2) {
        static const struct gguf_str labels[] = {{"yes", 3}, {"no", 2}};
        char key[96];
        snprintf(key, sizeof key, "%s.classifier.output_labels", s->arch);
        gguf_writer_put_strs(m->out, key, labels, 2);
    }
    if (m->arch->put_keys) m->arch->put_keys(m->out, s);
}

/* Applies the overrides; opens the tokenizer's file, if any, into *tokenizer. */
static int settle(struct make *m, struct weights **tokenizer)
{
    const struct weights_make_settings *s = m->s;
    const struct weights_shape *shape = s->shape ? weights_shape_find(s->shape) : NULL;
    if (!shape) return lutra_fail(m->err, LUTRA_E_ARGUMENT, "make-model: no shape '%s'", s->shape ? s->shape : "");
    if (!quant_info_of(s->type)) return lutra_fail(m->err, LUTRA_E_ARGUMENT, "make-model: type not supported");
    if (s->outliers && !quant_plain(s->type))
        return lutra_fail(m->err, LUTRA_E_UNSUPPORTED, "make-model: no outliers in %s, which cannot be written",
            quant_info_of(s->type)->name);
    m->shape = *shape;
    m->arch = make_arch_find(shape->arch);
    if (s->n_layer) m->shape.n_layer = s->n_layer;
    if (m->shape.n_layer > MAKE_MAX_LAYER)
        return lutra_fail(
            m->err, LUTRA_E_ARGUMENT, "make-model: %u layers, at most %d", (unsigned)m->shape.n_layer, MAKE_MAX_LAYER);
    if (s->n_vocab) m->shape.n_vocab = s->n_vocab;
    if (s->tokenizer) {
        const struct gguf_kv *tokens;
        TRY(weights_open(tokenizer, s->tokenizer, m->err));
        TRY(weights_get_array(*tokenizer, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, m->err));
        if (!s->n_vocab && tokens->n <= UINT32_MAX) m->shape.n_vocab = (uint32_t)tokens->n;
        if (tokens->n > m->shape.n_vocab)
            return lutra_fail(m->err, LUTRA_E_ARGUMENT, "make-model: n_vocab %u is less than the tokenizer's %llu",
                (unsigned)m->shape.n_vocab, (unsigned long long)tokens->n);
    } else if (m->shape.n_vocab < MAKE_MIN_VOCAB || m->shape.n_vocab > 1u << 24) {
        return lutra_fail(m->err, LUTRA_E_ARGUMENT, "make-model: n_vocab is %u, not %d to 2^24",
            (unsigned)m->shape.n_vocab, MAKE_MIN_VOCAB);
    }
    return 0;
}

static int get_buffers(struct make *m)
{
    const struct weights_shape *s = &m->shape;
    const struct weights_mixed_layers *l = weights_shape_mixed(s);
    size_t longest = s->d_model;
    if (l && longest < (size_t)l->d_per_layer * s->n_layer) longest = (size_t)l->d_per_layer * s->n_layer;
    if (l && longest < (size_t)s->n_head * l->d_head) longest = (size_t)s->n_head * l->d_head;
    if (l && longest < 2 * (size_t)s->d_ff) longest = 2 * (size_t)s->d_ff;
    const struct weights_recurrent *r = weights_shape_recurrent(s);
    if (r && longest < (size_t)r->n_v_head * r->d_state) longest = (size_t)r->n_v_head * r->d_state;
    if (r && longest < r->d_ff_shared) longest = r->d_ff_shared;
    if (longest < s->d_ff) longest = s->d_ff;
    if (weights_shape_pooling(s) && longest < weights_shape_pooling(s)->n_mid)
        longest = weights_shape_pooling(s)->n_mid;
    if (longest < (size_t)s->n_head * s->d_head) longest = (size_t)s->n_head * s->d_head;
    m->buffer_bytes = longest * sizeof(float) > BUFFER_BYTES ? longest * sizeof(float) : BUFFER_BYTES;
    m->row = malloc(longest * sizeof *m->row);
    m->buffer = malloc(m->buffer_bytes);
    return m->row && m->buffer ? 0 : lutra_fail(m->err, LUTRA_E_NO_MEMORY, "make-model: no memory for buffers");
}

static int make_file(struct make *m, const struct weights *tokenizer)
{
    TRY(get_buffers(m));
    put_hyperparameters(m);
    if (tokenizer)
        TRY(make_vocab_copy(m->out, tokenizer));
    else
        TRY(make_vocab(m->out, &m->shape, m->err));
    TRY(all_tensors(m));
    m->writing = true;
    return all_tensors(m);
}

int weights_make_model(const char *path, const struct weights_make_settings *settings, struct lutra_error *err)
{
    struct make m = {.s = settings, .err = err};
    struct weights *tokenizer = NULL;
    int rc = settle(&m, &tokenizer);
    if (rc == 0 && settings->group)
        rc = make_folder(path, settings, &m.shape, err);
    else if (rc == 0)
        rc = gguf_writer_open(&m.out, path, err);
    if (rc == 0 && m.out) {
        rc = make_file(&m, tokenizer);
        /* A writer's failure is described by commit; any other is in *err already. */
        if (rc == 0 || gguf_writer_status(m.out) < 0) rc = gguf_writer_commit(&m.out, err);
    }
    gguf_writer_abort(&m.out);
    weights_close(&tokenizer);
    for (int i = 0; i < N_POOLS; i++) make_pool_close(&m.pool[i]);
    free(m.row);
    free(m.buffer);
    return rc;
}
