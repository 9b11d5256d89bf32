/* SPDX-License-Identifier: MIT
 *
 * Random op lists that op_list_check accepts, and a pass over a random cache for them:
 *
 *     struct random_list r;
 *     random_list_open(&r, seed);            layers of different geometry, some sharing a cache, some without one
 *     ref_run(&r.list, 0, r.list.n_op, &r.pass);      (ref_run.h)
 *     random_list_close(&r);
 */
#ifndef TESTS_RANDOM_LIST_H
#define TESTS_RANDOM_LIST_H

#include "ops/device.h"
#include "unit/ops/kv_fixture.h"
#include "unit/ops/state_fixture.h"

enum {
    RL_OPS = 60,
    RL_VALUES = 22,
    RL_PLAIN = 12 /* values of any operation; the others are experts', and gates of a delta rule */,
    RL_GATES = 20,
    RL_WEIGHTS = 30,
    RL_ROWS = 10,
    RL_DIM = 64,
    RL_MOST_DIM = 3 * RL_DIM /* experts' */,
    RL_VOCAB = 40
};
enum { RL_SEQS = 3, RL_TOKENS = 150, RL_BLOCKS = RL_SEQS * ((RL_TOKENS + RL_ROWS) / KV_BLOCK + 1) };

struct random_list {
    uint32_t seed;
    struct op op[RL_OPS];
    struct op_layer layer[FIX_LAYERS];
    struct op_list list;
    struct weight weight[RL_WEIGHTS];
    int n_weight;
    bool written[RL_VALUES], appended[FIX_LAYERS], recurs[2][FIX_LAYERS], alone[FIX_LAYERS];
    float vector[RL_DIM * 8]; /* norms and biases, experts' too */
    float decay[2];           /* of a delta rule */
    int32_t order[2][RL_DIM]; /* of RL_DIM / 2 and RL_DIM elements */

    struct kv_fixture kv;
    struct state_fixture states;
    struct row row[RL_ROWS];
    struct batch batch;
    struct buffer value[RL_VALUES];
    int32_t out_row[RL_ROWS];
    struct row_result result[RL_ROWS];
    float logits[RL_ROWS][RL_VOCAB], hidden[RL_ROWS][RL_DIM], top_logit[RL_ROWS][ROW_TOPK];
    int32_t top_id[RL_ROWS][ROW_TOPK];
    struct pass_args pass;
};

static inline int rl_below(struct random_list *r, int n)
{
    r->seed = r->seed * 1664525u + 1013904223u;
    return (int)(((uint64_t)r->seed * (uint32_t)n) >> 32);
}

static inline struct weight *rl_weight(struct random_list *r, int n_in, int n_out, int use)
{
    struct weight *w = &r->weight[r->n_weight++];
    float *x = malloc(sizeof *x * (size_t)(n_in * n_out));
    for (int i = 0; i < n_in * n_out; i++) x[i] = 0.3f * fixture_noise((uint32_t)i, r->seed, 3);
    *w = (struct weight){
        .use = use, .tensor = {"w", QUANT_F32, 2, {n_in, n_out, 1, 1}, x, sizeof *x * (size_t)(n_in * n_out)}};
    return w;
}

/* A value of these rows and this size (0: any) that has been written, or may be; -1 after a few tries. */
static inline int rl_value(struct random_list *r, enum value_rows rows, int dim, bool written)
{
    for (int i = 0; i < 40; i++) {
        int v = rl_below(r, RL_PLAIN);
        const struct value *value = &r->list.value[v];
        if (value->rows == rows && (!dim || value->dim == dim) && (!written || r->written[v])) return v;
    }
    return -1;
}

static inline void rl_push(struct random_list *r, const struct op *op)
{
    for (int i = 0; i < op->n_in; i++)
        if (op->in[i] < 0) return;
    for (int i = 0; i < op->n_out; i++)
        if (op->out[i] < 0) return;
    for (int i = 0; i < op->n_out; i++) r->written[op->out[i]] = true;
    if (op->kind == OP_KV_APPEND) r->appended[op->layer] = true;
    r->op[r->list.n_op++] = *op;
}

#include "unit/ops/random_parts.h"

static inline void rl_add_random(struct random_list *r)
{
    enum op_kind kind = (enum op_kind)rl_below(r, OP_COUNT);
    int layer = rl_below(r, r->list.n_layer);
    enum value_rows rows = rl_below(r, 4) ? ROWS_ALL : ROWS_OUT;
    int in = rl_value(r, rows, 0, true), dim = in < 0 ? 1 : r->list.value[in].dim;
    int same = rl_value(r, rows, dim, true), out = rl_value(r, rows, dim, false);
    struct op op = op_make(kind, layer, in, same, out);
    switch (kind) {
    case OP_MATMUL: rl_add_matmul(r, in, layer); return;
    case OP_KV_APPEND:
    case OP_ATTENTION: rl_add_attention(r, layer, kind == OP_KV_APPEND); return;
    case OP_CONV: rl_add_conv(r, layer, in, out); return;
    case OP_DELTA_NET: rl_add_delta(r, layer); return;
    case OP_EXPERTS: rl_add_experts(r, layer, in, out); return;
    case OP_ROUTE:
    case OP_COMBINE: return; /* with experts */
    case OP_EMBED:
    case OP_HEAD: return; /* at the ends */
    case OP_RMS_NORM:
        op.norm.weight = r->vector;
        op.norm.n_norm = rl_below(r, 2) ? dim : 32;
        op.norm.eps = 1e-5f;
        break;
    case OP_LAYER_NORM:
        op.norm.weight = r->vector;
        op.norm.bias = rl_below(r, 2) ? r->vector + RL_DIM : NULL;
        op.norm.n_norm = rl_below(r, 2) ? dim : 32;
        op.norm.eps = 1e-5f;
        break;
    case OP_ADD_SCALED: op.add.scale = 0.22f; break;
    case OP_SCALE: op.scale.by = 0.7f; break;
    case OP_PERMUTE:
        out = op.out[0] = rl_value(r, rows, rl_below(r, 2) ? dim : RL_DIM / 2, false);
        if (out == in) return;
        op.permute.order = r->order[dim == RL_DIM];
        break;
    case OP_ROPE:
        if (rows == ROWS_OUT) return;
        op.rope = (struct op_rope){.kind = ROPE_NEOX,
            .n_head = dim / 16,
            .d_head = 16,
            .n_rot = 8,
            .freq_base = 10000,
            .freq_scale = 1,
            .magnitude = 1};
        break;
    case OP_TAKE:
        op.in[0] = rl_value(r, ROWS_ALL, 0, true);
        op.out[0] = op.in[0] < 0 ? -1 : rl_value(r, ROWS_OUT, r->list.value[op.in[0]].dim, false);
        break;
    default: break;
    }
    rl_push(r, &op);
}

static inline void rl_make_list(struct random_list *r)
{
    static const int shape[][2] = {{1, 32}, {2, 16}, {4, 8}, {2, 32}, {1, 64}, {2, 32}, {2, 32}};
    r->list = (struct op_list){.op = r->op,
        .n_value = RL_VALUES,
        .layer = r->layer,
        .n_layer = 1 + rl_below(r, FIX_LAYERS),
        .d_model = RL_DIM,
        .n_vocab = RL_VOCAB};
    for (int i = 0; i < r->list.n_layer; i++) {
        const int *s = shape[rl_below(r, 7)];
        int with = i && rl_below(r, 3) == 0 ? rl_below(r, i) : i;
        r->layer[i] = rl_below(r, 6) == 0            ? (struct op_layer){.cache = -1}
                      : r->layer[with].cache != with ? (struct op_layer){i, s[0], s[1], 0, 0, 0}
                      : with < i                     ? r->layer[with]
                                                     : (struct op_layer){i, s[0], s[1], 0, 0, 0};
        r->layer[i].state_bytes = RL_CONV_STATE + RL_DELTA_STATE;
        r->layer[i].draft_bytes = RL_CONV_DRAFT + RL_DELTA_DRAFT;
    }
    for (int v = 0; v < RL_PLAIN; v++)
        r->list.value[v] = (struct value){v % 2 ? RL_DIM : RL_DIM / 2, v < 8 ? ROWS_ALL : ROWS_OUT};
    for (int v = RL_PLAIN, experts = 4 + rl_below(r, 3), used = 1 + rl_below(r, 3); v < RL_GATES; v++) {
        const int dim[] = {experts, 2 * used, 32 * used, RL_DIM * used};
        r->list.value[v] = (struct value){dim[(v - RL_PLAIN) % 4], v < RL_PLAIN + 4 ? ROWS_ALL : ROWS_OUT};
    }
    for (int i = 0; i < 2; i++)
        r->list.value[RL_GATES + i] = (struct value){2, ROWS_ALL}, r->decay[i] = -0.5f - (float)i;
    for (int i = 0; i < RL_DIM * 8; i++) r->vector[i] = 1 + 0.2f * fixture_noise((uint32_t)i, r->seed, 9);
    for (int k = 0; k < 2; k++)
        for (int i = 0, n = RL_DIM / 2 << k; i < n; i++) {
            int at = rl_below(r, i + 1);
            r->order[k][i] = r->order[k][at];
            r->order[k][at] = i;
        }
    for (int v = 0; v < 2; v++) {
        struct op op = op_make(OP_EMBED, -1, -1, -1, v);
        op.weight[0] = rl_weight(r, r->list.value[v].dim, RL_VOCAB, WEIGHT_GATHER);
        op.embed.scale = 1.5f;
        rl_push(r, &op);
    }
    for (int i = 0; i < 200 && r->list.n_op < RL_OPS - 2; i++) rl_add_random(r);
    struct op take = op_make(OP_TAKE, -1, 1, -1, 9), head = op_make(OP_HEAD, -1, 9, 9, -1);
    rl_push(r, &take);
    head.weight[0] = rl_weight(r, RL_DIM, RL_VOCAB, WEIGHT_MATMUL);
    head.head.softcap = rl_below(r, 2) ? 0 : 20;
    rl_push(r, &head);
}

static inline void rl_make_pass(struct random_list *r)
{
    static const uint32_t wants[] = {WANT_LOGITS, WANT_HIDDEN, WANT_TOPK, WANT_ALL & ~WANT_LOGPROB};
    int n = 1 + rl_below(r, RL_ROWS), n_out = 0, seq[RL_SEQS];
    fixture_open_layers(&r->kv, QUANT_F16, r->layer, r->list.n_layer, RL_BLOCKS);
    for (int s = 0; s < RL_SEQS; s++) seq[s] = fixture_sequence(&r->kv, rl_below(r, RL_TOKENS), -1, 0);
    r->kv.n_row = 0;
    for (int i = 0; i < n; i++) {
        int s = seq[rl_below(r, RL_SEQS)], row = fixture_row(&r->kv, s, -1, rl_below(r, 2));
        const struct kv_row *k = &r->kv.row[row];
        r->row[i] = (struct row){rl_below(r, RL_VOCAB), k->n_paged + k->n_path - 1, s, -1, 0, 0, NULL, NULL, NULL};
        if (i && rl_below(r, 2)) continue;
        r->row[i].want = wants[rl_below(r, 4)];
        r->result[n_out] = (struct row_result){.row = i,
            .logits = r->logits[n_out],
            .hidden = r->hidden[n_out],
            .top_id = r->top_id[n_out],
            .top_logit = r->top_logit[n_out]};
        r->out_row[n_out++] = i;
    }
    fixture_finish(&r->kv);
    state_fixture_open(&r->states, &r->kv, r->layer, r->list.n_layer, r->seed >> 8);
    r->batch = (struct batch){.row = r->row, .n_row = n};
    for (int v = 0; v < RL_VALUES; v++) {
        r->value[v].bytes = sizeof(float) * RL_ROWS * (size_t)r->list.value[v].dim;
        r->value[v].host = aligned_alloc(64, (r->value[v].bytes + 63) / 64 * 64);
        fixture_fill_nan(r->value[v].host, r->value[v].bytes);
    }
    r->pass = (struct pass_args){.batch = &r->batch,
        .kv = &r->kv.view,
        .value = r->value,
        .out_row = r->out_row,
        .n_out = n_out,
        .result = r->result};
}

static inline void random_list_open(struct random_list *r, uint32_t seed)
{
    memset(r, 0, sizeof *r);
    r->seed = seed * 2654435761u + 1;
    rl_make_list(r);
    rl_make_pass(r);
}

static inline void random_list_close(struct random_list *r)
{
    for (int i = 0; i < r->n_weight; i++) free((void *)(uintptr_t)r->weight[i].tensor.data);
    for (int v = 0; v < RL_VALUES; v++) free(r->value[v].host);
    state_fixture_close(&r->states);
    fixture_close(&r->kv);
}

#endif
