/* SPDX-License-Identifier: MIT
 *
 * Products, attention, recurrent operations and mixtures of experts of random_list.h, which includes this where its
 * helpers are known.
 */
#ifndef TESTS_RANDOM_PARTS_H
#define TESTS_RANDOM_PARTS_H

static inline void rl_add_matmul(struct random_list *r, int in, int layer)
{
    struct op op = op_make(OP_MATMUL, layer, in, -1, -1);
    if (in < 0) return;
    for (int part = 1 + rl_below(r, 3); part > 0 && r->n_weight + 4 < RL_WEIGHTS; part--) {
        int out = rl_value(r, r->list.value[in].rows, 0, false);
        if (out < 0 || out == in || op_writes(&op, out)) continue;
        struct weight *w = rl_weight(r, r->list.value[in].dim, r->list.value[out].dim, WEIGHT_MATMUL);
        op_add_part(&op, w, rl_below(r, 2) ? r->vector + RL_DIM : NULL, out);
    }
    if (op.n_weight) rl_push(r, &op);
    bool pair = op.n_weight > 1 && r->list.value[op.out[0]].dim == r->list.value[op.out[1]].dim;
    if (!pair || r->list.n_op > RL_OPS - 4 || rl_below(r, 4) == 0) return;
    struct op gate = op_make(OP_SWIGLU, layer, op.out[0], op.out[1], op.out[rl_below(r, 2)]);
    rl_push(r, &gate);
}

static inline void rl_push_attention(struct random_list *r, int layer)
{
    const struct op_layer *l = &r->layer[layer];
    int in = rl_value(r, ROWS_ALL, 0, true), dim = in < 0 ? 1 : r->list.value[in].dim;
    struct op op = op_make(OP_ATTENTION, layer, in, -1, rl_value(r, ROWS_ALL, dim, false));
    op.attention = (struct op_attention){.n_head = dim / l->d_head,
        .n_kv_head = l->n_kv_head,
        .d_head = l->d_head,
        .scale = 0.2f,
        .window = rl_below(r, 3) ? 0 : 20,
        .sinks = rl_below(r, 3) ? NULL : r->vector};
    if (dim % (l->n_kv_head * l->d_head) == 0) rl_push(r, &op);
}

/* `alone`: the cache is used by one append and the attention behind it, and by nobody else. */
static inline void rl_add_attention(struct random_list *r, int layer, bool append)
{
    const struct op_layer *l = &r->layer[layer];
    int n = l->n_kv_head * l->d_head;
    if (l->cache >= 0 && r->alone[l->cache]) return;
    if (append && l->cache == layer) {
        struct op op = op_make(OP_KV_APPEND, layer, rl_value(r, ROWS_ALL, n, true), rl_value(r, ROWS_ALL, n, true), -1);
        bool first = !r->appended[layer];
        for (int i = 0; i < r->list.n_layer; i++) first &= i == layer || r->layer[i].cache != layer;
        rl_push(r, &op);
        r->alone[layer] = first && r->appended[layer] && r->list.n_op < RL_OPS - 2 && rl_below(r, 4);
        if (r->alone[layer]) rl_push_attention(r, layer);
    } else if (!append && l->cache >= 0 && r->appended[l->cache]) {
        rl_push_attention(r, layer);
    }
}

/* A layer has a convolution and a delta rule at most. */
static inline void rl_add_conv(struct random_list *r, int layer, int in, int out)
{
    struct op op = op_make(OP_CONV, layer, in, -1, out);
    if (in < 0 || out < 0 || in == out || r->list.value[in].rows != ROWS_ALL || r->recurs[0][layer]) return;
    op.conv = (struct op_conv){.n_tap = 2 + rl_below(r, 3),
        .silu = rl_below(r, 2),
        .weight = r->vector,
        .bias = rl_below(r, 2) ? r->vector + RL_DIM : NULL};
    r->recurs[0][layer] = true;
    rl_push(r, &op);
}

/* One key head and two value heads of 16, whose decays and steps are products of another value. */
static inline void rl_add_delta(struct random_list *r, int layer)
{
    int in = rl_value(r, ROWS_ALL, RL_DIM, true), from = rl_value(r, ROWS_ALL, 0, true),
        out = rl_value(r, ROWS_ALL, RL_DIM / 2, false);
    struct op op = op_make(OP_DELTA_NET, layer, in, RL_GATES, out), gates = op_make(OP_MATMUL, layer, from, -1, -1);
    if (in < 0 || from < 0 || out < 0 || r->recurs[1][layer] || r->n_weight + 2 > RL_WEIGHTS) return;
    if (r->list.n_op + 2 > RL_OPS - 2) return;
    for (int i = 0; i < 2; i++)
        op_add_part(&gates, rl_weight(r, r->list.value[from].dim, 2, WEIGHT_MATMUL), NULL, RL_GATES + i);
    op.in[2] = RL_GATES + 1;
    op.delta = (struct op_delta){.n_k_head = 1,
        .n_v_head = 2,
        .d_k = 16,
        .d_v = 16,
        .eps = 1e-6f,
        .a = r->decay,
        .dt = r->vector,
        .state = RL_CONV_STATE,
        .draft = RL_CONV_DRAFT};
    if (rl_below(r, 2)) op.delta.skip = r->vector + 2;
    r->recurs[1][layer] = true;
    rl_push(r, &gates), rl_push(r, &op);
}

/* A mixture of experts over value `in`: scores, routes, gate and up, and down again, which are values of their own.  Of
 * four to six experts up to three are used. */
static inline void rl_add_experts(struct random_list *r, int layer, int in, int out)
{
    enum { SCORES, ROUTE, WIDE, BACK, RL_MIXTURE };
    if (in < 0 || out < 0 || r->n_weight + 4 > RL_WEIGHTS || r->list.n_op + 5 > RL_OPS - 2) return;
    const struct value *value = r->list.value;
    enum value_rows rows = value[in].rows;
    int at = RL_PLAIN + (rows == ROWS_OUT) * RL_MIXTURE, used = value[at + ROUTE].dim / 2;
    int n = value[at + SCORES].dim, d_in = value[in].dim, d_out = value[out].dim, wide = value[at + WIDE].dim / used;
    struct op scores = op_make(OP_MATMUL, layer, in, -1, -1), route = op_make(OP_ROUTE, layer, at, -1, at + ROUTE);
    struct op up = op_make(OP_EXPERTS, layer, in, at + ROUTE, -1),
              down = op_make(OP_EXPERTS, layer, at + WIDE, at + ROUTE, -1);
    struct op sum = op_make(OP_COMBINE, layer, at + BACK, at + ROUTE, out);
    if (d_out != value[at + BACK].dim / used) return;
    op_add_part(&scores, rl_weight(r, d_in, n, WEIGHT_MATMUL), NULL, at + SCORES);
    route.route = (struct op_route){.score = (enum route_score)rl_below(r, ROUTE_SCORES),
        .n_expert = n,
        .n_used = used,
        .normalize = rl_below(r, 2),
        .scale = 1.5f,
        .bias = rl_below(r, 2) ? r->vector : NULL};
    if (rl_below(r, 2)) route.route.each = r->vector + 8;
    op_add_part(&up, rl_weight(r, d_in, n * wide, WEIGHT_MATMUL), rl_below(r, 2) ? r->vector : NULL, at + WIDE);
    op_add_part(&down, rl_weight(r, wide, n * d_out, WEIGHT_MATMUL), rl_below(r, 2) ? r->vector : NULL, at + BACK);
    up.matmul.experts = (struct op_experts){n, used, false};
    down.matmul.experts = (struct op_experts){n, used, true};
    sum.combine.n_used = used;
    rl_push(r, &scores), rl_push(r, &route), rl_push(r, &up), rl_push(r, &down), rl_push(r, &sum);
}

#endif
