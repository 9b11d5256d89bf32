/* SPDX-License-Identifier: MIT
 *
 * Layers that keep a state of fixed size instead of keys and values, as operations: Qwen3.5's gated delta rule, LFM2's
 * short convolution, and Mamba-2.
 */
#include <stdio.h>

#include "model/model_impl.h"

static size_t pad64(size_t n)
{
    return (n + 63) / 64 * 64;
}

static int conv_dim(const struct hparams *hp)
{
    return 2 * hp->n_key_head * hp->d_state + hp->n_value_head * hp->d_value;
}

int recurrent_dim(const struct hparams *hp, int layer, enum role role)
{
    if (layer >= 0 && hp->layer[layer].kind == LAYER_CONV) return hp->d_model;
    switch (role) {
    case M:
    case C: return conv_dim(hp);
    case D:
    case B: return hp->n_value_head;
    default: return hp->n_value_head * hp->d_value;
    }
}

/* A convolution's share comes first, a delta rule's behind it. */
static size_t conv_bytes(const struct hparams *hp, int layer, size_t tokens)
{
    return pad64(tokens * (size_t)recurrent_dim(hp, layer, M) * sizeof(float));
}

void recurrent_sizes(const struct hparams *hp, int layer, size_t *state, size_t *draft)
{
    *state = *draft = 0;
    if (hp->layer[layer].kind == LAYER_ATTENTION) return;
    *state = conv_bytes(hp, layer, (size_t)hp->n_tap - 1);
    *draft = conv_bytes(hp, layer, 1);
    if (hp->layer[layer].kind == LAYER_CONV) return;
    size_t n = (size_t)hp->n_value_head;
    *state += pad64(n * (size_t)hp->d_state * (size_t)hp->d_value * sizeof(float));
    *draft += pad64(((size_t)conv_dim(hp) + 2 * n) * sizeof(float));
}

size_t recurrent_vectors(const struct hparams *hp, int layer)
{
    if (hp->layer[layer].kind == LAYER_ATTENTION) return 0;
    size_t n = (size_t)recurrent_dim(hp, layer, M);
    return n * (2 * (size_t)hp->n_tap + 2) + 3 * (size_t)hp->n_value_head + (size_t)recurrent_dim(hp, layer, A);
}

/* `blk.layer.base.weight`, [n][n_tap], as OP_CONV reads it: [n_tap][n]. */
static int read_taps(struct model *m, int layer, const char *base, int n, const float **out, struct lutra_error *err)
{
    char name[64];
    const float *taps;
    void *p;
    int n_tap = m->hp.n_tap;
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, base);
    TRY(model_vectors(m, name, n_tap, n, false, &taps, err));
    TRY(arena_take(&m->arena, (size_t)n * (size_t)n_tap * sizeof(float), name, &p, err));
    for (int j = 0; j < n_tap; j++)
        for (int c = 0; c < n; c++) ((float *)p)[(size_t)j * (size_t)n + (size_t)c] = taps[c * n_tap + j];
    *out = p;
    return 0;
}

static int conv(struct model *m, const struct stream *s, const char *base, bool silu, struct lutra_error *err)
{
    int n = recurrent_dim(&m->hp, s->layer, M);
    struct op *op = build_push(m, OP_CONV, s->layer, build_val(m, s, M), -1, build_val(m, s, C));
    op->conv = (struct op_conv){.n_tap = m->hp.n_tap, .silu = silu};
    return read_taps(m, s->layer, base, n, &op->conv.weight, err);
}

static int layer_vector(struct model *m, int layer, const char *name, int n, const float **out, struct lutra_error *err)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%d.%s", layer, name);
    return model_vector(m, full, n, false, out, err);
}

static int delta_net(struct model *m, const struct stream *s, int in, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    int layer = s->layer, d = hp->d_model, n = hp->n_value_head, a = build_val(m, s, A), z = build_val(m, s, Z);
    struct op *op = build_matmul(m, layer, in);
    TRY(build_part(m, op, "attn_qkv", d, conv_dim(hp), false, build_val(m, s, M), err));
    TRY(build_part(m, op, "attn_gate", d, n * hp->d_value, false, z, err));
    build_end_matmul(m, s, T);
    op = build_matmul(m, layer, in);
    TRY(build_part(m, op, "ssm_alpha", d, n, false, build_val(m, s, D), err));
    TRY(build_part(m, op, "ssm_beta", d, n, false, build_val(m, s, B), err));
    build_end_matmul(m, s, T);
    TRY(conv(m, s, "ssm_conv1d", true, err));
    op = build_push(m, OP_DELTA_NET, layer, build_val(m, s, C), build_val(m, s, D), a);
    op->in[2] = build_val(m, s, B);
    op->delta = (struct op_delta){.n_k_head = hp->n_key_head,
        .n_v_head = n,
        .d_k = hp->d_state,
        .d_v = hp->d_value,
        .neighbours = hp->key_neighbours,
        .eps = 1e-6f,
        .state = conv_bytes(hp, layer, (size_t)hp->n_tap - 1),
        .draft = conv_bytes(hp, layer, 1)};
    TRY(layer_vector(m, layer, "ssm_a", n, &op->delta.a, err));
    TRY(layer_vector(m, layer, "ssm_dt.bias", n, &op->delta.dt, err));
    TRY(build_rms_norm(m, layer, "ssm_norm", a, a, hp->d_value, err));
    build_push(m, OP_SWIGLU, layer, z, a, a);
    return 0;
}

/* One matrix makes the gate z, what goes into the convolution (x, B, C: values, keys, queries) and the steps. */
static int mamba(struct model *m, const struct stream *s, int in, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    int layer = s->layer, d = hp->d_model, n = hp->n_value_head, inner = n * hp->d_value, mixed = conv_dim(hp);
    int a = build_val(m, s, A), z = build_val(m, s, Z), steps = build_val(m, s, D), all = inner + mixed + n;
    struct op *op = build_matmul(m, layer, in);
    char name[64];
    TRY(build_slice(m, op, "ssm_in", d, all, 0, inner, z, err));
    TRY(build_slice(m, op, "ssm_in", d, all, inner, mixed, build_val(m, s, M), err));
    TRY(build_slice(m, op, "ssm_in", d, all, inner + mixed, n, steps, err));
    build_end_matmul(m, s, T);
    TRY(conv(m, s, "ssm_conv1d", true, err));
    TRY(layer_vector(m, layer, "ssm_conv1d.bias", mixed, &m->list.op[m->list.n_op - 1].conv.bias, err));
    op = build_push(m, OP_DELTA_NET, layer, build_val(m, s, C), steps, a);
    op->in[2] = steps;
    op->delta = (struct op_delta){.n_k_head = hp->n_key_head,
        .n_v_head = n,
        .d_k = hp->d_state,
        .d_v = hp->d_value,
        .neighbours = true,
        .state = conv_bytes(hp, layer, (size_t)hp->n_tap - 1),
        .draft = conv_bytes(hp, layer, 1)};
    TRY(layer_vector(m, layer, "ssm_dt.bias", n, &op->delta.dt, err));
    snprintf(name, sizeof name, "blk.%d.ssm_a", layer);
    TRY(model_vectors(m, name, 1, n, false, &op->delta.a, err));
    snprintf(name, sizeof name, "blk.%d.ssm_d", layer);
    TRY(model_vectors(m, name, 1, n, false, &op->delta.skip, err));
    build_push(m, OP_SWIGLU, layer, z, a, a);
    return build_rms_norm(m, layer, "ssm_norm", a, a, inner, err);
}

/* Three parts b, c, x of one matrix: c * conv(b * x). */
static int short_conv(struct model *m, const struct stream *s, int in, struct lutra_error *err)
{
    int layer = s->layer, d = m->hp.d_model, b = build_val(m, s, M), c = build_val(m, s, Z), x = build_val(m, s, C);
    struct op *op = build_matmul(m, layer, in);
    TRY(build_slice(m, op, "shortconv.in_proj", d, 3 * d, 0, d, b, err));
    TRY(build_slice(m, op, "shortconv.in_proj", d, 3 * d, d, d, c, err));
    TRY(build_slice(m, op, "shortconv.in_proj", d, 3 * d, 2 * d, d, x, err));
    build_end_matmul(m, s, T);
    build_push(m, OP_MUL, layer, b, x, b);
    TRY(conv(m, s, "shortconv.conv", false, err));
    build_push(m, OP_MUL, layer, c, x, build_val(m, s, A));
    return 0;
}

int recurrent_build(struct model *m, int layer, int in, struct lutra_error *err)
{
    const struct stream s = {layer, ROWS_ALL};
    switch (m->hp.layer[layer].kind) {
    case LAYER_CONV: return short_conv(m, &s, in, err);
    case LAYER_MAMBA: return mamba(m, &s, in, err);
    default: return delta_net(m, &s, in, err);
    }
}
