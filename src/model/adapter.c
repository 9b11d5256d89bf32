/* SPDX-License-Identifier: MIT
 *
 * LoRA adapters [Hu et al. 2021]: behind a product y = W x the list gets y += scale B (A x), as two more products and a
 * sum.  Files are those of llama.cpp's convert_lora_to_gguf.py: matrices NAME.lora_a [rank][n_in] and NAME.lora_b
 * [n_out][rank] for a tensor NAME of the model; scale = alpha / rank.  Those of experts, NAME being all experts below
 * each other, are [n_expert][rank][n_in] and [n_expert][n_out][rank]: a row's experts are multiplied by theirs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model_impl.h"

enum { ROLE_ADAPTER = 255, NAME_BYTES = 64, MORE_OPS = 3 };

/* Devices want an expert's outputs in whole sixteens. */
enum { EXPERT_OUTPUTS = 16 };

static int n_tensor_of(const struct model *m)
{
    size_t n = 0;
    for (int i = 0; i < m->n_adapter; i++) n += weights_tensor_count(m->adapter[i].weights);
    return (int)n;
}

static int64_t padded(int64_t rank)
{
    return (rank + EXPERT_OUTPUTS - 1) / EXPERT_OUTPUTS * EXPERT_OUTPUTS;
}

/* Of experts' A or B with a rank of whole sixteens; 0: it has one. */
static size_t padded_bytes(const struct tensor *t)
{
    int64_t rank = t->ne[t->name[strlen(t->name) - 1] == 'a'];
    return t->ne[2] > 1 && rank % EXPERT_OUTPUTS ? t->bytes / (size_t)rank * (size_t)padded(rank) : 0;
}

/* Each pair of matrices can belong to three slices of one tensor. */
void adapter_room(const struct model *m, int *n_op, int *n_weight, size_t *bytes)
{
    int n = n_tensor_of(m);
    *n_op = n * MORE_OPS * OP_WEIGHTS;
    *n_weight = n * OP_WEIGHTS;
    *bytes = (size_t)n * OP_WEIGHTS * NAME_BYTES;
    for (int i = 0; i < m->n_adapter; i++)
        for (size_t k = 0; k < weights_tensor_count(m->adapter[i].weights); k++)
            *bytes += arena_cost(padded_bytes(weights_tensor_at(m->adapter[i].weights, k)));
}

static int check_text(const struct weights *w, const char *key, const char *want, struct lutra_error *err)
{
    struct gguf_str s = {"", 0};
    TRY(weights_opt_str(w, key, &s, err));
    if (s.n == strlen(want) && memcmp(s.s, want, s.n) == 0) return 0;
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: key '%s' is '%.*s', not '%s'", weights_path(w), key,
        (int)(s.n < 60 ? s.n : 60), s.s, want);
}

/* The name of the model's tensor, without ".lora_a"; *side: 'a' or 'b'. */
static int base_name(const struct weights *w, const struct tensor *t, char out[NAME_BYTES], struct lutra_error *err)
{
    size_t n = strlen(t->name), n_end = strlen(".lora_a");
    bool fits = n > n_end && n - n_end < NAME_BYTES &&
                (strcmp(t->name + n - n_end, ".lora_a") == 0 || strcmp(t->name + n - n_end, ".lora_b") == 0);
    if (!fits)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: tensor '%s' is no .lora_a or .lora_b of a LoRA adapter",
            weights_path(w), t->name);
    memcpy(out, t->name, n - n_end);
    out[n - n_end] = 0;
    return 0;
}

static const struct tensor *side(const struct weights *w, const char *base, char which)
{
    char name[NAME_BYTES + 8];
    snprintf(name, sizeof name, "%s.lora_%c", base, which);
    return weights_tensor_find(w, name);
}

/* Whether a weight is the tensor, or rows of it from *first on. */
static bool is_of(const struct weight *w, const char *base, int64_t *first)
{
    size_t n = strlen(base);
    const char *name = w->tensor.name;
    *first = w->first_row;
    if (strncmp(name, base, n) != 0) return false;
    return name[n] == '[' || name[n] == 0;
}

static int check_pair(const struct model *m, const struct weights *w, const char *base, struct lutra_error *err)
{
    const struct tensor *a = side(w, base, 'a'), *b = side(w, base, 'b');
    const struct tensor *t = weights_tensor_find(m->weights, base);
    if (!a || !b)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: '%s' has no .lora_%c", weights_path(w), base, a ? 'b' : 'a');
    if (!t)
        return lutra_fail(
            err, LUTRA_E_FORMAT, "%s: %s has no tensor '%s'", weights_path(w), weights_path(m->weights), base);
    if (a->ne[0] != t->ne[0] || b->ne[1] != t->ne[1] || a->ne[1] != b->ne[0] || a->ne[2] != t->ne[2] ||
        b->ne[2] != t->ne[2] || t->ne[3] != 1 || a->ne[3] != 1 || b->ne[3] != 1)
        return lutra_fail(err, LUTRA_E_FORMAT,
            "%s: '%s' of %lld x %lld x %lld: .lora_a of %lld x %lld x %lld and .lora_b of %lld x %lld x %lld do not "
            "fit",
            weights_path(w), base, (long long)t->ne[0], (long long)t->ne[1], (long long)t->ne[2], (long long)a->ne[0],
            (long long)a->ne[1], (long long)a->ne[2], (long long)b->ne[0], (long long)b->ne[1], (long long)b->ne[2]);
    if (a->ne[1] > MODEL_MAX_DIM)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: '%s': a rank of %lld", weights_path(w), base, (long long)a->ne[1]);
    if (weights_order(m->weights, t))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: '%s': %s has its columns sorted, which adapters cannot follow",
            weights_path(w), base, weights_path(m->weights));
    return 0;
}

static bool multiplies(const struct op *op)
{
    return op->kind == OP_MATMUL || op->kind == OP_EXPERTS;
}

/* Every matrix of the file must change a product of the list. */
static int check_adapter(const struct model *m, const struct model_adapter *adapter, struct lutra_error *err)
{
    const struct weights *w = adapter->weights;
    char base[NAME_BYTES];
    TRY(check_text(w, "general.type", "adapter", err));
    TRY(check_text(w, "adapter.type", "lora", err));
    TRY(check_text(w, "general.architecture", m->hp.arch, err));
    if (weights_kv_find(w, "adapter.alora.invocation_tokens"))
        return lutra_fail(
            err, LUTRA_E_UNSUPPORTED, "%s: activated LoRA (adapter.alora) is not implemented", weights_path(w));
    if (m->arch->sub_norms)
        return lutra_fail(
            err, LUTRA_E_UNSUPPORTED, "%s: adapters of '%s' are not implemented", weights_path(w), m->hp.arch);
    for (size_t i = 0; i < weights_tensor_count(w); i++) {
        bool used = false;
        int64_t first;
        TRY(base_name(w, weights_tensor_at(w, i), base, err));
        TRY(check_pair(m, w, base, err));
        for (int k = 0; k < m->list.n_op && !used; k++)
            for (int j = 0; multiplies(&m->list.op[k]) && j < m->list.op[k].n_weight; j++)
                used = used || is_of(m->list.op[k].weight[j], base, &first);
        if (!used)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED,
                "%s: '%s': adapters of embeddings, heads and vectors are not implemented", weights_path(w), base);
    }
    return 0;
}

static int value_of(struct model *m, int dim, enum value_rows rows, int not_this)
{
    struct op_list *list = &m->list;
    for (int i = 0; i < list->n_value; i++)
        if (m->role[i] == ROLE_ADAPTER && list->value[i].dim == dim && list->value[i].rows == rows && i != not_this)
            return i;
    if (list->n_value == VALUE_MAX) return -1;
    m->role[list->n_value] = ROLE_ADAPTER;
    list->value[list->n_value] = (struct value){dim, rows};
    return list->n_value++;
}

static struct weight *add_weight(
    struct model *m, const struct tensor *t, int adapter, int64_t first, int64_t n_out, struct lutra_error *err)
{
    char name[NAME_BYTES * 2];
    void *text;
    size_t row_bytes = t->bytes / (size_t)t->ne[1];
    snprintf(name, sizeof name, "%.*s[%d:%lld]", NAME_BYTES - 1, t->name, adapter, (long long)first);
    if (m->n_weight == m->max_weight || arena_take(&m->arena, strlen(name) + 1, name, &text, err) < 0) return NULL;
    strcpy(text, name);
    struct weight *w = &m->weight[m->n_weight++];
    *w = (struct weight){.tensor = *t, .use = WEIGHT_MATMUL};
    w->tensor.name = text;
    w->tensor.ne[1] = n_out;
    w->tensor.data = (const uint8_t *)t->data + (size_t)first * row_bytes;
    w->tensor.bytes = (size_t)n_out * row_bytes;
    return w;
}

/* All experts' A (rows 1) or B, below each other; of another rank a copy with zeros behind it. */
static struct weight *add_experts(
    struct model *m, const struct tensor *t, int adapter, bool rows, struct lutra_error *err)
{
    struct weight *w = add_weight(m, t, adapter, 0, t->ne[1], err);
    if (!w) return NULL;
    const size_t n_expert = (size_t)t->ne[2], bytes = padded_bytes(t), row = t->bytes / n_expert / (size_t)t->ne[1];
    int64_t *rank = &w->tensor.ne[rows];
    w->n_expert = w->n_packed = (int)n_expert;
    if (bytes) {
        void *copy;
        size_t n = rows ? n_expert : n_expert * (size_t)t->ne[1]; /* runs that are made longer */
        size_t had = rows ? row * (size_t)t->ne[1] : row;
        if (arena_take(&m->arena, bytes, t->name, &copy, err) < 0) return NULL;
        for (size_t i = 0; i < n; i++)
            memcpy((uint8_t *)copy + i * (bytes / n), (const uint8_t *)t->data + i * had, had);
        *rank = padded(*rank);
        w->tensor.data = copy;
        w->copied = true;
    }
    w->tensor.bytes = bytes ? bytes : t->bytes;
    w->tensor.n_dim = 2;
    w->tensor.ne[1] *= (int64_t)n_expert;
    w->tensor.ne[2] = 1;
    return w;
}

/* The same as add_pair for experts: each slot by its expert's matrices. */
static int add_expert_pair(
    struct model *m, const struct op *op, int part, int adapter, const char *base, float scale, struct lutra_error *err)
{
    const struct weights *w = m->adapter[adapter].weights;
    const struct tensor *a = side(w, base, 'a'), *b = side(w, base, 'b');
    const struct op_experts *e = &op->matmul.experts;
    enum value_rows rows = m->list.value[op->in[0]].rows;
    struct weight *wa = add_experts(m, a, adapter, true, err), *wb = add_experts(m, b, adapter, false, err);
    int low = value_of(m, e->n_used * (int)padded(a->ne[1]), rows, -1),
        y = value_of(m, e->n_used * (int)b->ne[1], rows, low);
    if (!wa || !wb || low < 0 || y < 0)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: too many adapters, or of too many ranks", weights_path(w));
    struct weight *const pair[2] = {wa, wb};
    for (int i = 0; i < 2; i++) {
        struct op *more = build_push(m, OP_EXPERTS, op->layer, i ? low : op->in[0], op->in[1], -1);
        more->matmul.experts = (struct op_experts){e->n_expert, e->n_used, i ? true : e->by_slot};
        op_add_part(more, pair[i], NULL, i ? y : low);
    }
    build_push(m, OP_ADD_SCALED, op->layer, op->out[part], y, op->out[part])->add.scale = scale;
    return 0;
}

/* y += scale B (A x) behind the last operation, for part `part` of the product `op`. */
static int add_pair(struct model *m, const struct op *op, int part, int adapter, const char *base, int64_t first,
    float scale, struct lutra_error *err)
{
    const struct weights *w = m->adapter[adapter].weights;
    const struct tensor *a = side(w, base, 'a'), *b = side(w, base, 'b');
    int64_t n_out = op->weight[part]->tensor.ne[1];
    enum value_rows rows = m->list.value[op->in[0]].rows;
    struct weight *wa = add_weight(m, a, adapter, 0, a->ne[1], err), *wb = add_weight(m, b, adapter, first, n_out, err);
    int low = value_of(m, (int)a->ne[1], rows, -1), y = value_of(m, (int)n_out, rows, low);
    if (!wa || !wb || low < 0 || y < 0)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: too many adapters, or of too many ranks", weights_path(w));
    op_add_part(build_push(m, OP_MATMUL, op->layer, op->in[0], -1, -1), wa, NULL, low);
    op_add_part(build_push(m, OP_MATMUL, op->layer, low, -1, -1), wb, NULL, y);
    build_push(m, OP_ADD_SCALED, op->layer, op->out[part], y, op->out[part])->add.scale = scale;
    return 0;
}

/* What one adapter adds to a product that the list ends in. */
static int add_adapter(struct model *m, const struct op *op, int adapter, struct lutra_error *err)
{
    const struct model_adapter *at = &m->adapter[adapter];
    char base[NAME_BYTES];
    float alpha = 0;
    TRY(weights_opt_f32(at->weights, "adapter.lora.alpha", &alpha, err));
    for (size_t i = 0; i < weights_tensor_count(at->weights) && at->scale != 0; i++) {
        const struct tensor *t = weights_tensor_at(at->weights, i);
        int64_t first;
        TRY(base_name(at->weights, t, base, err));
        if (t->name[strlen(t->name) - 1] != 'a') continue;
        float scale = alpha != 0 ? at->scale * alpha / (float)t->ne[1] : at->scale;
        for (int k = 0; k < op->n_weight; k++)
            if (is_of(op->weight[k], base, &first))
                TRY(op->kind == OP_EXPERTS ? add_expert_pair(m, op, k, adapter, base, scale, err)
                                           : add_pair(m, op, k, adapter, base, first, scale, err));
    }
    return 0;
}

int adapters_insert(struct model *m, struct lutra_error *err)
{
    int n = m->list.n_op, rc = 0;
    if (!m->n_adapter) return 0;
    for (int i = 0; i < m->n_adapter; i++) TRY(check_adapter(m, &m->adapter[i], err));
    struct op *old = malloc((size_t)n * sizeof *old);
    if (!old) return lutra_fail(err, LUTRA_E_NO_MEMORY, "model: out of memory");
    memcpy(old, m->list.op, (size_t)n * sizeof *old);
    m->list.n_op = 0;
    for (int i = 0; i < n && rc == 0; i++) {
        m->list.op[m->list.n_op++] = old[i];
        for (int a = 0; multiplies(&old[i]) && a < m->n_adapter && rc == 0; a++) rc = add_adapter(m, &old[i], a, err);
    }
    free(old);
    return rc;
}
