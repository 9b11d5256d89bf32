/* SPDX-License-Identifier: MIT
 *
 * Finds the tensors of a model and checks their shapes; owns the model object.
 */
#include "model/model_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/quant.h"
#include "weights/packed.h"

enum { SLICE_NAME = 64 };

int model_lack(const struct listener *to, struct lutra_error *err, const char *format, ...)
{
    char text[sizeof err->what];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!to->tell) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s", text);
    to->tell(to->user, text);
    return 0;
}

static int check_shape(struct model *m, const struct tensor *t, int64_t ne0, int64_t ne1, struct lutra_error *err)
{
    if (t->ne[0] == ne0 && t->ne[1] == ne1 && t->ne[2] == 1 && t->ne[3] == 1) return 0;
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: tensor '%s' has shape %lld x %lld x %lld, expected %lld x %lld",
        weights_path(m->weights), t->name, (long long)t->ne[0], (long long)t->ne[1], (long long)(t->ne[2] * t->ne[3]),
        (long long)ne0, (long long)ne1);
}

static int mark_used(struct model *m, const struct tensor *t, struct lutra_error *err)
{
    if (m->n_used == m->max_used) return lutra_fail(err, LUTRA_E_INTERNAL, "model: too many tensors");
    m->used[m->n_used++] = t;
    return 0;
}

/* Whether a tensor belongs to a block behind the last, that drafts (MTP). */
static bool is_draft_block(const struct model *m, const char *name)
{
    int block;
    return m->hp.n_draft_layer && sscanf(name, "blk.%d.", &block) == 1 && block >= m->hp.n_layer &&
           block < m->hp.n_layer + m->hp.n_draft_layer;
}

/* Files may have keys and values of layers that read those of others. */
static bool is_unread_kv(const struct model *m, const char *name)
{
    int layer, skip = 0;
    if (sscanf(name, "blk.%d.%n", &layer, &skip) != 1 || !skip || layer < 0 || layer >= m->hp.n_layer) return false;
    if (m->hp.layer[layer].cache < 0 || m->hp.layer[layer].cache == layer) return false;
    return !strncmp(name + skip, "attn_k.", 7) || !strncmp(name + skip, "attn_v.", 7) ||
           !strncmp(name + skip, "attn_k_norm.", 12);
}

/* A tensor nobody reads means a feature nobody implements: the result would be wrong. */
static int refuse_unused(const struct model *m, struct lutra_error *err)
{
    for (size_t i = 0; i < weights_tensor_count(m->weights); i++) {
        const struct tensor *t = weights_tensor_at(m->weights, i);
        bool used = strstr(t->name, ".attn_rot_embd") != NULL; /* precomputed rope tables of old files */
        used |= is_draft_block(m, t->name) || is_unread_kv(m, t->name);
        for (int k = 0; k < m->n_used && !used; k++) used = m->used[k] == t;
        if (!used)
            TRY(model_lack(&m->listener, err, "%s: tensor '%s' is not part of architecture '%s' as implemented",
                weights_path(m->weights), t->name, m->hp.arch));
    }
    return 0;
}

int model_matrix(struct model *m, const char *name, int64_t n_in, int64_t n_out, int use, struct weight **out,
    struct lutra_error *err)
{
    for (int i = 0; i < m->n_weight; i++) {
        if (strcmp(m->weight[i].tensor.name, name)) continue;
        m->weight[i].use |= use;
        *out = &m->weight[i];
        return 0;
    }
    const struct tensor *t;
    TRY(weights_tensor_get(m->weights, name, &t, err));
    TRY(check_shape(m, t, n_in, n_out, err));
    if (m->n_weight == m->max_weight) return lutra_fail(err, LUTRA_E_INTERNAL, "model: too many matrices");
    TRY(mark_used(m, t, err));
    struct weight *w = &m->weight[m->n_weight++];
    *w = (struct weight){.tensor = *t, .use = use};
    *out = w;
    return 0;
}

int model_shared_matrix(struct model *m, const char *own, const char *name, int64_t n_in, int64_t n_out, int use,
    struct weight **out, struct lutra_error *err)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%d.%s.weight", m->first_block, own);
    if (m->trunk && weights_tensor_find(m->weights, full)) return model_matrix(m, full, n_in, n_out, use, out, err);
    return model_matrix(m->trunk ? m->trunk : m, name, n_in, n_out, use, out, err);
}

int model_halves(struct model *m, const char *base, int64_t d, struct weight *half[2], struct lutra_error *err)
{
    const struct tensor *t;
    char full[SLICE_NAME];
    size_t bytes;
    void *text, *copy;
    snprintf(full, sizeof full, "blk.%d.%s.weight", m->first_block, base);
    TRY(weights_tensor_get(m->weights, full, &t, err));
    TRY(check_shape(m, t, 2 * d, d, err));
    if (quant_row_bytes(t->type, d, &bytes) < 0)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: tensor '%s': half a row is no whole blocks of its type",
            weights_path(m->weights), full);
    weights_fetch(m->weights, t);
    for (int k = 0; k < 2; k++) {
        TRY(arena_take(&m->arena, SLICE_NAME, full, &text, err));
        TRY(arena_take(&m->arena, (size_t)d * bytes, full, &copy, err));
        snprintf(text, SLICE_NAME, "blk.%d.%s[%d]", m->first_block, base, k);
        for (int64_t r = 0; r < d; r++)
            memcpy((uint8_t *)copy + (size_t)r * bytes, (const uint8_t *)t->data + (size_t)(2 * r + k) * bytes, bytes);
        half[k] = &m->weight[m->n_weight++];
        *half[k] = (struct weight){.tensor = *t, .use = WEIGHT_MATMUL, .copied = true};
        half[k]->tensor.name = text;
        half[k]->tensor.ne[0] = d;
        half[k]->tensor.data = copy;
        half[k]->tensor.bytes = (size_t)d * bytes;
    }
    return 0;
}

int model_experts(struct model *m, const char *name, int64_t n_in, int64_t n_out, int64_t n_expert, struct weight **out,
    struct lutra_error *err)
{
    const struct tensor *t;
    TRY(weights_tensor_get(m->weights, name, &t, err));
    if (t->ne[0] != n_in || t->ne[1] != n_out || t->ne[2] != n_expert || t->ne[3] != 1)
        return lutra_fail(err, LUTRA_E_FORMAT,
            "%s: tensor '%s' has shape %lld x %lld x %lld, expected %lld x %lld x %lld", weights_path(m->weights),
            t->name, (long long)t->ne[0], (long long)t->ne[1], (long long)(t->ne[2] * t->ne[3]), (long long)n_in,
            (long long)n_out, (long long)n_expert);
    if (m->n_weight == m->max_weight) return lutra_fail(err, LUTRA_E_INTERNAL, "model: too many matrices");
    TRY(mark_used(m, t, err));
    struct weight *w = &m->weight[m->n_weight++];
    *w = (struct weight){.tensor = *t, .use = WEIGHT_MATMUL, .n_expert = (int)n_expert, .n_packed = (int)n_expert};
    w->tensor.n_dim = 2;
    w->tensor.ne[1] = n_out * n_expert;
    w->tensor.ne[2] = 1;
    *out = w;
    return 0;
}

int model_slice(struct model *m, const char *name, int64_t n_in, int64_t n_all, int64_t first, int64_t n_out,
    struct weight **out, struct lutra_error *err)
{
    const struct tensor *t;
    void *text;
    TRY(weights_tensor_get(m->weights, name, &t, err));
    TRY(check_shape(m, t, n_in, n_all, err));
    if (m->n_weight == m->max_weight) return lutra_fail(err, LUTRA_E_INTERNAL, "model: too many matrices");
    TRY(arena_take(&m->arena, SLICE_NAME, name, &text, err));
    snprintf(text, SLICE_NAME, "%s[%lld]", name, (long long)first);
    TRY(mark_used(m, t, err));
    struct weight *w = &m->weight[m->n_weight++];
    size_t row_bytes = t->bytes / (size_t)n_all;
    *w = (struct weight){.tensor = *t, .use = WEIGHT_MATMUL};
    w->tensor.name = text;
    w->first_row = first;
    w->tensor.ne[1] = n_out;
    w->tensor.data = (const uint8_t *)t->data + (size_t)first * row_bytes;
    w->tensor.bytes = (size_t)n_out * row_bytes;
    *out = w;
    return 0;
}

int model_vector(
    struct model *m, const char *name, int64_t n, bool optional, const float **out, struct lutra_error *err)
{
    return model_vectors(m, name, n, 1, optional, out, err);
}

int model_vectors(struct model *m, const char *name, int64_t n_each, int64_t n_vector, bool optional, const float **out,
    struct lutra_error *err)
{
    int64_t n = n_each * n_vector;
    *out = NULL;
    const struct tensor *t = weights_tensor_find(m->weights, name);
    if (!t && optional) return 0;
    TRY(weights_tensor_get(m->weights, name, &t, err));
    TRY(check_shape(m, t, n_each, n_vector, err));
    const struct quant_info *q = quant_info_of(t->type);
    if (!q || !q->dequantize || n_each % q->block_elems)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: tensor '%s' of type %s cannot be read as floats",
            weights_path(m->weights), name, q ? q->name : "?");
    TRY(mark_used(m, t, err));
    if (n_vector > 1) weights_fetch(m->weights, t);
    /* Always a copy: the file only promises byte alignment. */
    void *copy;
    TRY(arena_take(&m->arena, (size_t)n * sizeof(float), name, &copy, err));
    if (t->type == QUANT_F32)
        memcpy(copy, t->data, (size_t)n * sizeof(float));
    else
        q->dequantize(t->data, copy, (size_t)n);
    *out = copy;
    return 0;
}

int model_ones(struct model *m, const float **out, struct lutra_error *err)
{
    enum { MOST = 512 };
    void *p;
    if (!m->ones) {
        TRY(arena_take(&m->arena, MOST * sizeof(float), "ones", &p, err));
        for (int i = 0; i < MOST; i++) ((float *)p)[i] = 1;
        m->ones = p;
    }
    *out = m->ones;
    return 0;
}

/* An MTP block's matrix, which is copied. */
static size_t eh_proj_bytes(const struct model *m)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.nextn.eh_proj.weight", m->first_block);
    const struct tensor *t = weights_tensor_find(m->weights, name);
    return t ? arena_cost(t->bytes) + 4 * arena_cost(SLICE_NAME) : 0;
}

/* One reservation for ops, weights and vectors; generous, touched only where used. */
static int reserve(struct model *m, struct lutra_error *err)
{
    const struct hparams *hp = &m->hp;
    int more_ops, more_weights;
    size_t adapted;
    adapter_room(m, &more_ops, &more_weights, &adapted);
    m->max_op = 48 * hp->n_layer + 16 + more_ops;
    m->max_weight = 16 * hp->n_layer + 5 + more_weights;
    m->max_used = m->max_weight + 15 * hp->n_layer + 10;
    size_t widest = 0, d_head = 0, d_ff = 0, recurrent = 0;
    for (int i = 0; i < hp->n_layer; i++) {
        const struct hparams_layer *l = &hp->layer[i];
        size_t n = ((size_t)l->n_head + 2 * (size_t)l->n_kv_head) * (size_t)l->d_head;
        if (n > widest) widest = n;
        if (recurrent_vectors(hp, i) > recurrent) recurrent = recurrent_vectors(hp, i);
        if ((size_t)l->d_head > d_head) d_head = (size_t)l->d_head;
        if ((size_t)l->d_ff > d_ff) d_ff = (size_t)l->d_ff;
    }
    size_t vectors = 12 * (size_t)hp->d_model + 2 * widest + 2 * d_head + 2 * d_ff + 6 * SLICE_NAME;
    vectors += 512 + 2 * (size_t)hp->d_per_layer + recurrent;
    vectors += (size_t)hp->n_expert * (1 + 2 * (size_t)hp->d_ff_expert + (size_t)hp->d_model);
    size_t bytes =
        arena_cost((size_t)m->max_op * sizeof(struct op)) + arena_cost((size_t)hp->n_layer * sizeof(struct op_layer)) +
        arena_cost((size_t)m->max_weight * sizeof(struct weight)) + arena_cost((size_t)m->max_used * sizeof *m->used) +
        ((size_t)hp->n_layer + 1) * (arena_cost(vectors * sizeof(float)) + 24 * (size_t)ARENA_ALIGN);
    bytes += (size_t)more_weights * ARENA_ALIGN + adapted;
    if (m->trunk) bytes += eh_proj_bytes(m);
    if (weights_tensor_find(m->weights, "cls.weight"))
        bytes += arena_cost((size_t)hp->d_model * (size_t)hp->d_model * sizeof(float));
    if (m->dense.n_mid) bytes += 2 * arena_cost((size_t)hp->d_model * (size_t)m->dense.n_mid * sizeof(float));
    TRY(arena_open(&m->arena, "model", bytes, 0, err));
    void *p;
    TRY(arena_take(&m->arena, (size_t)m->max_op * sizeof(struct op), "operations", &p, err));
    m->list.op = p;
    TRY(arena_take(&m->arena, (size_t)hp->n_layer * sizeof(struct op_layer), "layers", &p, err));
    m->list.layer = m->layer = p;
    TRY(arena_take(&m->arena, (size_t)m->max_weight * sizeof(struct weight), "weights", &p, err));
    m->weight = p;
    TRY(arena_take(&m->arena, (size_t)m->max_used * sizeof *m->used, "tensor list", &p, err));
    m->used = p;
    return 0;
}

/* How wide the layers behind the mean are. */
static int measure_dense(struct model *m, struct lutra_error *err)
{
    const struct tensor *t = m->arch->encoder ? weights_tensor_find(m->weights, "dense_2.weight") : NULL;
    if (!t) return 0;
    if (t->ne[1] < 1 || t->ne[1] > MODEL_MAX_DIM)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: tensor 'dense_2.weight' has %lld outputs", weights_path(m->weights),
            (long long)t->ne[1]);
    m->dense.n_mid = (int)t->ne[1];
    return 0;
}

static int build(struct model *m, struct lutra_error *err)
{
    TRY(hparams_read(&m->hp, &m->arch, m->weights, &m->listener, err));
    if (!m->arch) return 0;
    TRY(measure_dense(m, err));
    TRY(reserve(m, err));
    TRY(transformer_build(m, err));
    m->n_own = m->n_weight;
    TRY(adapters_insert(m, err));
    TRY(op_list_check(&m->list, err));
    return refuse_unused(m, err);
}

static int open_told(struct model **out, const struct weights *weights, struct listener listener,
    const struct model_adapter *adapter, int n_adapter, struct lutra_error *err)
{
    *out = NULL;
    struct model *m = calloc(1, sizeof *m);
    if (!m) return lutra_fail(err, LUTRA_E_NO_MEMORY, "model: out of memory");
    m->weights = weights;
    m->listener = listener;
    m->adapter = adapter;
    m->n_adapter = n_adapter;
    int rc = build(m, err);
    if (rc < 0) {
        model_close(&m);
        return rc;
    }
    *out = m;
    return 0;
}

int model_open(struct model **out, const struct weights *weights, struct lutra_error *err)
{
    return open_told(out, weights, (struct listener){NULL, NULL}, NULL, 0, err);
}

int model_open_adapted(struct model **out, const struct weights *weights, const struct model_adapter *adapter,
    int n_adapter, struct lutra_error *err)
{
    return open_told(out, weights, (struct listener){NULL, NULL}, adapter, n_adapter, err);
}

/* The file's first matrix of experts; NULL: there is none. */
static const struct weight *first_experts(const struct model *m)
{
    for (int i = 0; i < m->n_own; i++)
        if (m->weight[i].n_expert) return &m->weight[i];
    return NULL;
}

/* Its block as a model of one layer. */
static int build_nextn(struct model *m, struct lutra_error *err)
{
    struct hparams *hp = &m->hp;
    if (hp->n_draft_layer == 0)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: the model has no MTP block ('%s.nextn_predict_layers')",
            weights_path(m->weights), hp->arch);
    if (m->arch->by_layer || m->arch->conv_without_kv || m->arch->layer_norm || m->arch->encoder || hp->d_per_layer)
        return lutra_fail(
            err, LUTRA_E_UNSUPPORTED, "%s: MTP blocks of '%s' are not implemented", weights_path(m->weights), hp->arch);
    m->first_block = hp->n_layer;
    hp->layer[0] = (struct hparams_layer){
        .n_head = hp->n_head, .n_kv_head = hp->n_kv_head, .d_head = hp->d_head, .d_ff = hp->d_ff, .cache = 0};
    hp->n_layer = 1;
    hp->n_dense_lead = hp->window = hp->window_period = hp->n_draft_layer = 0;
    TRY(reserve(m, err));
    TRY(transformer_build(m, err));
    const struct weight *first = first_experts(m->trunk);
    for (int i = 0; first && i < m->n_weight; i++)
        if (m->weight[i].n_expert) m->weight[i].n_packed = first->n_packed;
    return op_list_check(&m->list, err);
}

int model_open_nextn(struct model **out, struct model *trunk, struct lutra_error *err)
{
    *out = NULL;
    struct model *m = calloc(1, sizeof *m);
    if (!m) return lutra_fail(err, LUTRA_E_NO_MEMORY, "model: out of memory");
    m->weights = trunk->weights;
    m->arch = trunk->arch;
    m->hp = trunk->hp;
    m->trunk = trunk;
    int rc = build_nextn(m, err);
    if (rc < 0) {
        model_close(&m);
        return rc;
    }
    *out = m;
    return 0;
}

void model_tell_unsupported(const struct weights *weights, model_tell_fn tell, void *user)
{
    struct model *m;
    struct lutra_error err;
    if (open_told(&m, weights, (struct listener){tell, user}, NULL, 0, &err) < 0) tell(user, err.what);
    model_close(&m);
}

void model_close(struct model **model)
{
    if (!*model) return;
    arena_close(&(*model)->arena);
    free(*model);
    *model = NULL;
}

const struct hparams *model_hparams(const struct model *model)
{
    return &model->hp;
}

const struct op_list *model_ops(const struct model *model)
{
    return &model->list;
}

static uint64_t packed_bytes(const struct weight *w)
{
    struct packed_view v;
    return packed_view_of(w, &v) ? v.bytes : w->tensor.bytes;
}

int model_limit_experts(struct model *m, uint64_t bytes, struct lutra_error *err)
{
    uint64_t total = 0, n_layer = (uint64_t)m->hp.n_layer;
    const struct weight *first = first_experts(m);
    if (!first) return 0;
    for (int i = 0; i < m->n_own; i++) total += m->weight[i].n_expert ? packed_bytes(&m->weight[i]) : 0;
    total += total / n_layer * (uint64_t)m->hp.n_draft_layer; /* an MTP block's, as large as others */
    if (bytes >= total) return first->n_expert;
    int n = (int)((double)bytes / (double)total * first->n_expert);
    for (int i = 0; i < m->n_own; i++) {
        struct weight *w = &m->weight[i];
        if (w->n_expert && weights_is_derived(m->weights, &w->tensor))
            return lutra_fail(err, LUTRA_E_UNSUPPORTED,
                "%s: expert_ram: tensor '%s' is put together from others of the folder, so that it cannot stay there; "
                "'lutra import' makes a file of it",
                weights_path(m->weights), w->tensor.name);
        if (w->n_expert) w->n_packed = n;
    }
    return n;
}

int model_n_weight(const struct model *model)
{
    return model->n_weight;
}

struct weight *model_weight(struct model *model, int i)
{
    return &model->weight[i];
}

const struct model_value_head *model_value_head(const struct model *model)
{
    return &model->value;
}

const struct model_dense *model_dense(const struct model *model)
{
    return &model->dense;
}

uint64_t model_n_param(const struct model *model)
{
    uint64_t n = 0;
    for (size_t i = 0; i < weights_tensor_count(model->weights); i++) {
        const struct tensor *t = weights_tensor_at(model->weights, i);
        n += (uint64_t)t->ne[0] * (uint64_t)t->ne[1] * (uint64_t)t->ne[2] * (uint64_t)t->ne[3];
    }
    return n;
}
