/* SPDX-License-Identifier: MIT
 *
 * What is known of each kind of operation, and the walks over what operations touch.
 */
#include "ops/op.h"

static const struct op_info infos[OP_COUNT + 1] = {
    [OP_EMBED] = {"embed", .n_out = 1, .n_weight = 1, .rows = OP_ALL_ROWS, .use = WEIGHT_GATHER, .by_row = true},
    [OP_RMS_NORM] = {"rms_norm", .n_in = 1, .n_out = 1, .by_row = true},
    [OP_LAYER_NORM] = {"layer_norm", .n_in = 1, .n_out = 1, .by_row = true},
    [OP_MATMUL] = {"matmul", .n_in = 1, .n_out = 3, .n_weight = 3, .has_parts = true, .use = WEIGHT_MATMUL},
    [OP_ROPE] = {"rope", .n_in = 1, .n_out = 1, .rows = OP_ALL_ROWS, .by_row = true},
    [OP_KV_APPEND] = {"kv_append", .n_in = 2, .rows = OP_ALL_ROWS, .by_row = true, .writes_cache = true},
    [OP_ATTENTION] = {"attention", .n_in = 1, .n_out = 1, .rows = OP_ALL_ROWS, .reads_cache = true},
    [OP_SWIGLU] = {"swiglu", .n_in = 2, .n_out = 1, .by_row = true},
    [OP_GEGLU] = {"geglu", .n_in = 2, .n_out = 1, .by_row = true},
    [OP_GELU] = {"gelu", .n_in = 1, .n_out = 1, .by_row = true},
    [OP_RELU2] = {"relu2", .n_in = 2, .n_out = 1, .by_row = true},
    [OP_SWIGLU_OAI] = {"swiglu_oai", .n_in = 2, .n_out = 1, .by_row = true},
    [OP_ADD] = {"add", .n_in = 2, .n_out = 1, .by_row = true},
    [OP_SCALE] = {"scale", .n_in = 1, .n_out = 1, .by_row = true},
    [OP_ADD_SCALED] = {"add_scaled", .n_in = 2, .n_out = 1, .by_row = true},
    [OP_TAKE] = {"take", .n_in = 1, .n_out = 1, .rows = OP_TAKES_ROWS, .by_row = true},
    [OP_PERMUTE] = {"permute", .n_in = 1, .n_out = 1, .by_row = true},
    [OP_HEAD] = {"head", .n_in = 2, .n_weight = 1, .rows = OP_OUT_ROWS, .use = WEIGHT_MATMUL},
    [OP_ROUTE] = {"route", .n_in = 1, .n_out = 1, .by_row = true},
    [OP_EXPERTS] = {"experts", .n_in = 2, .n_out = 3, .n_weight = 3, .has_parts = true, .use = WEIGHT_MATMUL},
    [OP_COMBINE] = {"combine", .n_in = 2, .n_out = 1, .by_row = true},
    [OP_MUL] = {"mul", .n_in = 2, .n_out = 1, .by_row = true},
    [OP_GATE] = {"gate", .n_in = 2, .n_out = 1, .by_row = true},
    [OP_CONV] = {"conv", .n_in = 1, .n_out = 1, .rows = OP_ALL_ROWS, .recurrent = true},
    [OP_DELTA_NET] = {"delta_net", .n_in = 3, .n_out = 1, .rows = OP_ALL_ROWS, .recurrent = true},
    [OP_GELU_ERF] = {"gelu_erf", .n_in = 1, .n_out = 1, .by_row = true},
};

const struct op_info *op_info_of(enum op_kind kind)
{
    return &infos[(unsigned)kind < OP_COUNT ? kind : OP_COUNT];
}

const char *op_name(enum op_kind kind)
{
    const char *name = op_info_of(kind)->name;
    return name ? name : "unknown";
}

struct op op_make(enum op_kind kind, int layer, int in, int in2, int out)
{
    const struct op_info *info = op_info_of(kind);
    return (struct op){.kind = kind,
        .layer = layer,
        .n_in = info->n_in,
        .n_out = info->has_parts ? 0 : info->n_out,
        .n_weight = info->has_parts ? 0 : info->n_weight,
        .in = {in, in2, -1},
        .out = {out}};
}

void op_add_part(struct op *op, struct weight *weight, const float *bias, int out)
{
    op->matmul.bias[op->n_weight] = bias;
    op->weight[op->n_weight++] = weight;
    op->out[op->n_out++] = out;
}

bool op_reads(const struct op *op, int value)
{
    for (int i = 0; i < op->n_in; i++)
        if (op->in[i] == value) return true;
    return false;
}

bool op_writes(const struct op *op, int value)
{
    for (int i = 0; i < op->n_out; i++)
        if (op->out[i] == value) return true;
    return false;
}

bool op_list_is_dead(const struct op_list *list, int i, int value)
{
    for (; i < list->n_op; i++) {
        if (op_reads(&list->op[i], value)) return false;
        if (op_writes(&list->op[i], value)) return true;
    }
    return true;
}

bool op_constant(const struct op *op, int i, struct op_constant *out)
{
    *out = (struct op_constant){.weight = -1};
    if (op_info_of(op->kind)->has_parts) {
        if (i >= op->n_weight) return false;
        *out = (struct op_constant){op->matmul.bias[i], (size_t)op->weight[i]->tensor.ne[1], i};
        return true;
    }
    switch (op->kind) {
    case OP_LAYER_NORM: out->x = i ? op->norm.bias : op->norm.weight, out->n = (size_t)op->norm.n_norm; return i <= 1;
    case OP_RMS_NORM: out->x = op->norm.weight, out->n = (size_t)op->norm.n_norm; break;
    case OP_ROPE:
        out->x = i ? op->rope.long_factors : op->rope.factors, out->n = (size_t)op->rope.n_rot / 2;
        return i <= 1;
    case OP_ATTENTION: out->x = op->attention.sinks, out->n = (size_t)op->attention.n_head; break;
    case OP_ROUTE: out->x = i ? op->route.each : op->route.bias, out->n = (size_t)op->route.n_expert; return i <= 1;
    case OP_DELTA_NET:
        out->x = i == 2 ? op->delta.skip : i ? op->delta.dt : op->delta.a;
        out->n = (size_t)op->delta.n_v_head;
        return i <= 2;
    default: return false;
    }
    return i == 0;
}

struct op_share op_share_of(const struct op_list *list, const struct op *op)
{
    size_t sum = 0;
    if (!op_info_of(op->kind)->recurrent) return (struct op_share){0};
    for (int i = 0; i < op->n_in; i++) sum += (size_t)list->value[op->in[i]].dim * sizeof(float);
    if (op->kind == OP_CONV)
        return (struct op_share){op->conv.state, sum * (size_t)(op->conv.n_tap - 1), op->conv.draft, sum};
    const struct op_delta *d = &op->delta;
    return (struct op_share){
        d->state, (size_t)d->n_v_head * (size_t)d->d_k * (size_t)d->d_v * sizeof(float), d->draft, sum};
}

bool op_by_head(const struct op_list *list, const struct op *op, int d_head)
{
    switch (op->kind) {
    case OP_ROPE: return op->rope.d_head == d_head;
    case OP_RMS_NORM: return op->norm.n_norm == d_head && list->value[op->in[0]].rows == ROWS_ALL;
    case OP_KV_APPEND: return list->layer[op->layer].d_head == d_head;
    case OP_ATTENTION: return op->attention.d_head == d_head;
    default: return false;
    }
}

bool op_uses_cache(const struct op_list *list, const struct op *op, int layer)
{
    const struct op_info *info = op_info_of(op->kind);
    return (info->reads_cache || info->writes_cache) && list->layer[op->layer].cache == layer;
}

int op_list_tail(const struct op_list *list, uint64_t *given)
{
    int first = 0;
    uint64_t written = 0;
    while (first < list->n_op && op_info_of(list->op[first].kind)->rows != OP_TAKES_ROWS) first++;
    *given = 0;
    for (int i = first; i < list->n_op; i++) {
        const struct op *op = &list->op[i];
        for (int k = 0; k < op->n_in; k++) *given |= (uint64_t)1 << op->in[k] & ~written;
        for (int k = 0; k < op->n_out; k++) written |= (uint64_t)1 << op->out[k];
    }
    return first;
}
