/* SPDX-License-Identifier: MIT
 *
 * op_list_check: the one place where an op list is judged.
 */
#include "ops/op.h"

#include <stdarg.h>
#include <stdio.h>

#include "quant/quant.h"

struct check {
    const struct op_list *list;
    const struct op *op; /* under judgement */
    bool written[VALUE_MAX];
    struct lutra_error *err;
};

/* "add of layer 2: ..." */
LUTRA_PRINTF(2, 3) static int refuse(const struct check *c, const char *fmt, ...)
{
    char why[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    return lutra_fail(c->err, LUTRA_E_ARGUMENT, "operation %d, %s of layer %d: %s", (int)(c->op - c->list->op),
        op_name(c->op->kind), c->op->layer, why);
}

static int check_layer(const struct op_list *list, int i, struct lutra_error *err)
{
    const struct op_layer *l = &list->layer[i];
    if (l->state_bytes % 64 || l->draft_bytes % 64)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "layer %d: a state of %zu and drafts of %zu bytes, no multiples of 64",
            i, l->state_bytes, l->draft_bytes);
    if (l->cache < -1 || l->cache > i)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "layer %d reads the cache of layer %d", i, l->cache);
    const struct op_layer *of = l->cache < 0 ? l : &list->layer[l->cache];
    bool there = l->cache >= 0;
    if (there && of->cache != l->cache)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "layer %d reads the cache of layer %d, which has none", i, l->cache);
    if (of->n_kv_head == l->n_kv_head && of->d_head == l->d_head && (l->n_kv_head > 0) == there &&
        (l->d_head > 0) == there)
        return 0;
    return lutra_fail(err, LUTRA_E_ARGUMENT, "layer %d: a cache of %d heads of %d, in that of layer %d", i,
        l->n_kv_head, l->d_head, l->cache);
}

/* Values: in range, written before they are read, of the rows that the kind has. */
static int check_value(struct check *c, int v, enum value_rows rows)
{
    if (v < 0 || v >= c->list->n_value) return refuse(c, "there is no value %d", v);
    if (c->list->value[v].rows != rows) return refuse(c, "value %d has the wrong rows", v);
    return 0;
}

static int check_values(struct check *c, const struct op_info *info)
{
    const struct op *op = c->op;
    const struct value *value = c->list->value;
    int first = op->n_in ? op->in[0] : op->out[0];
    enum value_rows in = info->rows == OP_OUT_ROWS ? ROWS_OUT : ROWS_ALL;
    if (first < 0 || first >= c->list->n_value) return refuse(c, "there is no value %d", first);
    if (info->rows == OP_SAME_ROWS) in = value[first].rows;
    enum value_rows out = info->rows == OP_TAKES_ROWS ? ROWS_OUT : in;
    for (int i = 0; i < op->n_in; i++) {
        TRY(check_value(c, op->in[i], in));
        if (!c->written[op->in[i]] && !(c->list->given >> op->in[i] & 1))
            return refuse(c, "it reads value %d, which nothing has written", op->in[i]);
    }
    for (int i = 0; i < op->n_out; i++) {
        TRY(check_value(c, op->out[i], out));
        c->written[op->out[i]] = true;
    }
    return 0;
}

static int want_dim(const struct check *c, int value, int64_t dim)
{
    int has = c->list->value[value].dim;
    return has == dim ? 0 : refuse(c, "value %d has %d elements, not %lld", value, has, (long long)dim);
}

/* Every value of the operation has as many elements as the first. */
static int want_same_dims(const struct check *c, int dim)
{
    for (int i = 0; i < c->op->n_in; i++) TRY(want_dim(c, c->op->in[i], dim));
    for (int i = 0; i < c->op->n_out; i++) TRY(want_dim(c, c->op->out[i], dim));
    return 0;
}

static int check_weight(const struct check *c, int i, int64_t n_in, int64_t n_out)
{
    const struct weight *w = c->op->weight[i];
    int use = op_info_of(c->op->kind)->use;
    if (!w) return refuse(c, "weight %d is not there", i);
    const struct tensor *t = &w->tensor;
    if ((w->use & use) != use) return refuse(c, "tensor '%s' is not meant for it", t->name);
    if (w->i8row && (t->type == QUANT_F32 || t->type == QUANT_F16 || t->type == QUANT_BF16))
        return refuse(c, "tensor '%s' is of floats, whose inputs are not rounded", t->name);
    if (t->ne[0] == n_in && t->ne[1] == n_out) return 0;
    return refuse(c, "tensor '%s' has %lld inputs and %lld outputs, not %lld and %lld", t->name, (long long)t->ne[0],
        (long long)t->ne[1], (long long)n_in, (long long)n_out);
}

/* What a cache holds is appended earlier in the list, by its own layer. */
static int check_cache(const struct check *c, const struct op_info *info)
{
    const struct op_list *list = c->list;
    const struct op *op = c->op, *before = list->op;
    if (op->layer < 0) return refuse(c, "it needs a layer");
    const struct op_layer *l = &list->layer[op->layer];
    if (l->cache < 0) return refuse(c, "the layer has no cache");
    if (info->writes_cache) {
        if (l->cache != op->layer) return refuse(c, "the cache is that of layer %d", l->cache);
        return want_same_dims(c, l->n_kv_head * l->d_head);
    }
    const struct op_attention *a = &op->attention;
    if (a->n_kv_head != l->n_kv_head || a->d_head != l->d_head)
        return refuse(
            c, "%d heads of %d over a cache of %d heads of %d", a->n_kv_head, a->d_head, l->n_kv_head, l->d_head);
    if (list->whole && list->layer[op->layer].state_bytes) return refuse(c, "a state of a sequence in an encoder");
    if (a->n_head < 1 || a->n_head % a->n_kv_head)
        return refuse(c, "%d query heads over %d key heads", a->n_head, a->n_kv_head);
    while (before < op && !(op_info_of(before->kind)->writes_cache && op_uses_cache(list, before, l->cache))) before++;
    if (before == op) return refuse(c, "nothing has been appended to the cache of layer %d", l->cache);
    return want_same_dims(c, a->n_head * a->d_head);
}

static int check_permute(const struct check *c)
{
    const struct op *op = c->op;
    int dim = c->list->value[op->in[0]].dim, n = c->list->value[op->out[0]].dim;
    if (op->out[0] == op->in[0]) return refuse(c, "it writes its input");
    if (!op->permute.order) return refuse(c, "no order");
    if (n > dim) return want_dim(c, op->out[0], dim);
    for (int i = 0; i < n; i++)
        if (op->permute.order[i] < 0 || op->permute.order[i] >= dim)
            return refuse(c, "element %d of %d", (int)op->permute.order[i], dim);
    return 0;
}

static bool overlap(size_t a, size_t a_bytes, size_t b, size_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* A recurrent operation has a place of its own in its layer's state and in what drafts leave. */
static int check_share(const struct check *c)
{
    const struct op *op = c->op;
    if (op->layer < 0) return refuse(c, "it needs a layer");
    const struct op_layer *l = &c->list->layer[op->layer];
    struct op_share s = op_share_of(c->list, op);
    if (s.state % 64 || s.draft % 64 || s.state > l->state_bytes || s.state_bytes > l->state_bytes - s.state ||
        s.draft > l->draft_bytes || s.draft_bytes > l->draft_bytes - s.draft)
        return refuse(c, "a state of %zu bytes at %zu, drafts of %zu at %zu: the layer has %zu and %zu", s.state_bytes,
            s.state, s.draft_bytes, s.draft, l->state_bytes, l->draft_bytes);
    for (const struct op *o = c->list->op; o < op; o++) {
        struct op_share other = op_share_of(c->list, o);
        if (o->layer == op->layer && op_info_of(o->kind)->recurrent &&
            (overlap(s.state, s.state_bytes, other.state, other.state_bytes) ||
                overlap(s.draft, s.draft_bytes, other.draft, other.draft_bytes)))
            return refuse(c, "its state is that of operation %d", (int)(o - c->list->op));
    }
    return 0;
}

static int check_conv(const struct check *c)
{
    const struct op *op = c->op;
    if (op->conv.n_tap < 2 || op->conv.n_tap > CONV_TAPS || !op->conv.weight)
        return refuse(c, "%d taps, outside 2..%d, or no weight", op->conv.n_tap, CONV_TAPS);
    if (op->out[0] == op->in[0]) return refuse(c, "it writes its input");
    TRY(want_dim(c, op->out[0], c->list->value[op->in[0]].dim));
    return check_share(c);
}

static int check_delta(const struct check *c)
{
    const struct op *op = c->op;
    const struct op_delta *d = &op->delta;
    if (d->n_k_head < 1 || d->n_v_head < 1 || d->n_v_head % d->n_k_head || d->d_k < 1 || d->d_k > DELTA_MOST ||
        d->d_k % DELTA_TILE || d->d_v < 1 || d->d_v > DELTA_MOST || d->d_v % DELTA_TILE || !d->a || !d->dt)
        return refuse(c, "%d key heads of %d, %d value heads of %d", d->n_k_head, d->d_k, d->n_v_head, d->d_v);
    if (op_reads(op, op->out[0])) return refuse(c, "it writes its input");
    TRY(want_dim(c, op->in[0], 2 * (int64_t)d->n_k_head * d->d_k + (int64_t)d->n_v_head * d->d_v));
    TRY(want_dim(c, op->in[1], d->n_v_head));
    TRY(want_dim(c, op->in[2], d->n_v_head));
    TRY(want_dim(c, op->out[0], (int64_t)d->n_v_head * d->d_v));
    return check_share(c);
}

static int check_gate(const struct check *c)
{
    const struct op *op = c->op;
    const struct value *value = c->list->value;
    if (value[op->in[0]].dim == 1 && op->in[0] == op->out[0] && value[op->in[1]].dim > 1)
        return refuse(c, "it writes its input");
    if (value[op->in[0]].dim != 1) TRY(want_dim(c, op->in[0], value[op->in[1]].dim));
    return want_dim(c, op->out[0], value[op->in[1]].dim);
}

static int check_route(const struct check *c)
{
    const struct op_route *r = &c->op->route;
    if (r->n_used < 1 || r->n_used > r->n_expert || (unsigned)r->score >= ROUTE_SCORES)
        return refuse(c, "%d of %d experts, score %d", r->n_used, r->n_expert, (int)r->score);
    if (c->op->out[0] == c->op->in[0]) return refuse(c, "it writes its input");
    TRY(want_dim(c, c->op->in[0], r->n_expert));
    return want_dim(c, c->op->out[0], 2 * (int64_t)r->n_used);
}

/* The routes that an operation reads are those of an OP_ROUTE, which keeps ids in range. */
static int check_routes(const struct check *c, int n_used, int n_expert)
{
    const struct op *op = c->op, *from = op - 1;
    while (from >= c->list->op && !op_writes(from, op->in[1])) from--;
    if (from < c->list->op || from->kind != OP_ROUTE || from->route.n_used != n_used ||
        (n_expert && from->route.n_expert != n_expert))
        return refuse(c, "value %d is not the route of %d experts", op->in[1], n_used);
    return 0;
}

static int check_experts(const struct check *c)
{
    const struct op *op = c->op;
    const struct op_experts *e = &op->matmul.experts;
    const struct value *value = c->list->value;
    if (e->n_used < 1 || e->n_used > e->n_expert) return refuse(c, "%d of %d experts", e->n_used, e->n_expert);
    int n_in = value[op->in[0]].dim, slots = e->by_slot ? e->n_used : 1;
    TRY(check_routes(c, e->n_used, e->n_expert));
    if (n_in % slots) return refuse(c, "%d inputs for %d slots", n_in, slots);
    for (int i = 0; i < op->n_weight; i++) {
        int n_out = value[op->out[i]].dim;
        if (op_reads(op, op->out[i])) return refuse(c, "it writes its input");
        if (n_out % e->n_used) return refuse(c, "%d outputs for %d slots", n_out, e->n_used);
        TRY(check_weight(c, i, n_in / slots, (int64_t)e->n_expert * (n_out / e->n_used)));
    }
    return 0;
}

static int check_combine(const struct check *c)
{
    const struct op *op = c->op;
    int n = op->combine.n_used;
    if (n < 1) return refuse(c, "%d slots", n);
    if (op_reads(op, op->out[0])) return refuse(c, "it writes its input");
    TRY(check_routes(c, n, 0));
    return want_dim(c, op->in[0], (int64_t)n * c->list->value[op->out[0]].dim);
}

/* A row of the weight, or whole blocks of it. */
static int check_embed(const struct check *c)
{
    const struct op *op = c->op;
    int dim = c->list->value[op->out[0]].dim, first = op->embed.first;
    const struct tensor *t = op->weight[0] ? &op->weight[0]->tensor : NULL;
    const struct op_list *list = c->list;
    int n_row = op->embed.by == EMBED_TOKEN      ? list->n_vocab
                : op->embed.by == EMBED_POSITION ? list->n_position
                                                 : list->n_segment;
    if (n_row < 1) return refuse(c, "its table has %d rows", n_row);
    if (!t || (first == 0 && t->ne[0] == dim)) return check_weight(c, 0, dim, n_row);
    const struct quant_info *q = quant_info_of(t->type);
    int block = q ? (int)q->block_elems : 1;
    if (op->weight[0]->use != WEIGHT_GATHER || first < 0 || first % block || dim % block || first > t->ne[0] - dim)
        return refuse(c, "columns %d .. of tensor '%s' of %lld", first, t->name, (long long)t->ne[0]);
    return check_weight(c, 0, t->ne[0], n_row);
}

static int check_shapes(const struct check *c)
{
    const struct op_list *list = c->list;
    const struct op *op = c->op;
    const struct value *value = list->value;
    switch (op->kind) {
    case OP_EMBED: return check_embed(c);
    case OP_HEAD:
        TRY(want_dim(c, op->in[1], value[op->in[0]].dim));
        if (op->n_weight == 0) return 0;
        return check_weight(c, 0, value[op->in[0]].dim, list->n_vocab);
    case OP_PERMUTE: return check_permute(c);
    case OP_ROUTE: return check_route(c);
    case OP_EXPERTS: return check_experts(c);
    case OP_COMBINE: return check_combine(c);
    case OP_GATE: return check_gate(c);
    case OP_CONV: return check_conv(c);
    case OP_DELTA_NET: return check_delta(c);
    case OP_MATMUL:
        for (int i = 0; i < op->n_weight; i++) {
            if (op->out[i] == op->in[0]) return refuse(c, "it writes its input");
            TRY(check_weight(c, i, value[op->in[0]].dim, value[op->out[i]].dim));
        }
        return 0;
    case OP_RMS_NORM:
    case OP_LAYER_NORM:
        if (!op->norm.weight || op->norm.n_norm < 1 || value[op->in[0]].dim % op->norm.n_norm)
            return refuse(c, "groups of %d in %d elements", op->norm.n_norm, value[op->in[0]].dim);
        return want_same_dims(c, value[op->in[0]].dim);
    case OP_ROPE: return want_same_dims(c, op->rope.n_head * op->rope.d_head);
    case OP_KV_APPEND:
    case OP_ATTENTION: return check_cache(c, op_info_of(op->kind));
    default: return want_same_dims(c, value[op->in[0]].dim);
    }
}

static int check_op(struct check *c)
{
    const struct op *op = c->op;
    const struct op_info *info = op_info_of(op->kind);
    if (!info->name) return refuse(c, "there is no kind %d", (int)op->kind);
    if (op->layer < -1 || op->layer >= c->list->n_layer) return refuse(c, "there is no such layer");
    bool parts = info->has_parts && op->n_weight >= 1 && op->n_weight <= OP_WEIGHTS && op->n_out == op->n_weight;
    if (op->kind == OP_HEAD && op->n_weight == 0 && op->n_in == info->n_in && op->n_out == 0) parts = true;
    if (op->n_in != info->n_in || (!parts && (op->n_out != info->n_out || op->n_weight != info->n_weight)))
        return refuse(c, "%d inputs, %d outputs, %d weights", op->n_in, op->n_out, op->n_weight);
    TRY(check_values(c, info));
    return check_shapes(c);
}

int op_list_check(const struct op_list *list, struct lutra_error *err)
{
    struct check c = {.list = list, .err = err};
    if (list->n_value < 0 || list->n_value > VALUE_MAX)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%d values, at most %d", list->n_value, VALUE_MAX);
    for (int v = 0; v < list->n_value; v++)
        if (list->value[v].dim < 1)
            return lutra_fail(err, LUTRA_E_ARGUMENT, "value %d has %d elements", v, list->value[v].dim);
    for (int i = 0; i < list->n_layer; i++) TRY(check_layer(list, i, err));
    for (int i = 0; i < list->n_op; i++) {
        c.op = &list->op[i];
        TRY(check_op(&c));
    }
    return 0;
}
