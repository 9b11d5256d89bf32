/* SPDX-License-Identifier: MIT
 *
 * Doubles of devices on a virtual clock, and the op list of a small transformer for them.
 *
 *     struct clocked_world w;
 *     clocked_open(&w, 2);                 device 0 computes inside submit, the others beside it
 *     ... plan_run(&plan, &w.pass, ...) ...
 *     w.device[1].columns[op]              outputs of operation `op` that device 1 was given
 */
#ifndef TESTS_CLOCKED_WORLD_H
#define TESTS_CLOCKED_WORLD_H

#include "unit/sched/clocked.h"

struct clocked_world {
    struct virtual_time time;
    long n_share;
    struct clocked device[CLOCKED_DEVICES];
    struct device *devices[CLOCKED_DEVICES];
    int n_device;
    struct weight weight[CLOCKED_OPS];
    int n_weight;
    struct op op[CLOCKED_OPS];
    struct op_layer layer[CLOCKED_LAYERS];
    struct op_list list;
    struct row row[CLOCKED_ROWS];
    struct batch batch;
    struct buffer value[VALUE_MAX];
    struct row_result result[1];
    int32_t out_row[1];
    struct pass_args pass;
};

/* ---- the list ---- */

enum { CV_X, CV_NORM, CV_Q, CV_K, CV_V, CV_HEADS, CV_GATE, CV_UP, CV_LAST, CV_LAST_NORM, CV_COUNT };

static inline struct op *clocked_push(struct clocked_world *w, struct op op)
{
    w->op[w->list.n_op] = op;
    return &w->op[w->list.n_op++];
}

static inline struct weight *clocked_weight(struct clocked_world *w, int n_in, int n_out)
{
    static const char some[1];
    struct weight *weight = &w->weight[w->n_weight++];
    *weight = (struct weight){
        .use = WEIGHT_MATMUL, .tensor = {.name = "w", .n_dim = 2, .ne = {n_in, n_out, 1, 1}, .data = some, .bytes = 1}};
    return weight;
}

static inline void clocked_matmul(struct clocked_world *w, int layer, int in, const int *out, int n)
{
    struct op *op = clocked_push(w, op_make(OP_MATMUL, layer, in, -1, -1));
    op->n_out = op->n_weight = 0;
    for (int i = 0; i < n; i++)
        op_add_part(op, clocked_weight(w, w->list.value[in].dim, w->list.value[out[i]].dim), NULL, out[i]);
}

static inline void clocked_layer(struct clocked_world *w, int l)
{
    static const float ones[CLOCKED_DIM];
    struct op norm = op_make(OP_RMS_NORM, l, CV_X, -1, CV_NORM), rope = op_make(OP_ROPE, l, CV_Q, -1, CV_Q);
    struct op attention = op_make(OP_ATTENTION, l, CV_Q, -1, CV_HEADS);
    norm.norm.weight = ones, norm.norm.n_norm = CLOCKED_DIM, norm.norm.eps = 1e-5f;
    rope.rope = (struct op_rope){.kind = ROPE_NEOX,
        .n_head = CLOCKED_HEADS,
        .d_head = CLOCKED_HEAD_DIM,
        .n_rot = CLOCKED_HEAD_DIM,
        .freq_base = 10000,
        .freq_scale = 1,
        .magnitude = 1};
    attention.attention = (struct op_attention){
        .n_head = CLOCKED_HEADS, .n_kv_head = CLOCKED_KV_HEADS, .d_head = CLOCKED_HEAD_DIM, .scale = 0.125f};
    clocked_push(w, norm);
    clocked_matmul(w, l, CV_NORM, (const int[]){CV_Q, CV_K, CV_V}, 3);
    clocked_push(w, rope);
    clocked_push(w, op_make(OP_KV_APPEND, l, CV_K, CV_V, -1));
    clocked_push(w, attention);
    clocked_matmul(w, l, CV_HEADS, (const int[]){CV_NORM}, 1);
    clocked_push(w, op_make(OP_ADD, l, CV_X, CV_NORM, CV_X));
    clocked_push(w, norm);
    clocked_matmul(w, l, CV_NORM, (const int[]){CV_GATE, CV_UP}, 2);
    clocked_push(w, op_make(OP_SWIGLU, l, CV_GATE, CV_UP, CV_GATE));
    clocked_matmul(w, l, CV_GATE, (const int[]){CV_NORM}, 1);
    clocked_push(w, op_make(OP_ADD, l, CV_X, CV_NORM, CV_X));
    w->layer[l] = (struct op_layer){.cache = l, .n_kv_head = CLOCKED_KV_HEADS, .d_head = CLOCKED_HEAD_DIM};
}

static inline void clocked_list(struct clocked_world *w)
{
    enum { KV = CLOCKED_KV_HEADS * CLOCKED_HEAD_DIM };
    static const int dim[CV_COUNT] = {
        CLOCKED_DIM, CLOCKED_DIM, CLOCKED_DIM, KV, KV, CLOCKED_DIM, CLOCKED_FF, CLOCKED_FF, CLOCKED_DIM, CLOCKED_DIM};
    w->list = (struct op_list){.op = w->op,
        .n_value = CV_COUNT,
        .layer = w->layer,
        .n_layer = CLOCKED_LAYERS,
        .d_model = CLOCKED_DIM,
        .n_vocab = CLOCKED_VOCAB};
    for (int v = 0; v < CV_COUNT; v++) w->list.value[v] = (struct value){dim[v], v < CV_LAST ? ROWS_ALL : ROWS_OUT};
    struct op *embed = clocked_push(w, op_make(OP_EMBED, -1, -1, -1, CV_X));
    embed->weight[0] = clocked_weight(w, CLOCKED_DIM, CLOCKED_VOCAB);
    embed->weight[0]->use = WEIGHT_GATHER;
    embed->embed.scale = 1;
    for (int l = 0; l < CLOCKED_LAYERS; l++) clocked_layer(w, l);
    clocked_push(w, op_make(OP_TAKE, -1, CV_X, -1, CV_LAST));
    clocked_push(w, op_make(OP_HEAD, -1, CV_LAST, CV_LAST, -1))->weight[0] =
        clocked_weight(w, CLOCKED_DIM, CLOCKED_VOCAB);
}

static inline void clocked_open(struct clocked_world *w, int n_device)
{
    static const char *const names[CLOCKED_DEVICES] = {"home", "second", "third"};
    memset(w, 0, sizeof *w);
    w->n_device = n_device;
    clocked_list(w);
    for (int i = 0; i < n_device; i++) {
        struct clocked *d = &w->device[i];
        *d = (struct clocked){.device = {.ops = &clocked_ops, .extras = &clocked_extras, .name = names[i]},
            .time = &w->time,
            .n_share = &w->n_share,
            .ns_per_kmac = 100,
            .fixed_us = 2,
            .beside = 1};
        d->device.caps = (struct device_caps){
            .max_rows = CLOCKED_ROWS, .flat_rows = 1, .speed = 1, .async = i > 0, .shares = SHARED_BY_OUTPUTS};
        d->device.store = i ? &w->device[0].device : NULL;
        w->devices[i] = &d->device;
    }
    w->batch = (struct batch){.row = w->row, .n_row = 1};
    w->row[0].want = WANT_LOGITS;
    w->pass = (struct pass_args){
        .batch = &w->batch, .value = w->value, .out_row = w->out_row, .n_out = 1, .result = w->result};
}

#endif
