/* SPDX-License-Identifier: MIT
 *
 * A list of products, and of what stands between them, with random weights, for two devices or three
 * (shared_products.h).
 */
#ifndef TESTS_SHARED_LIST_H
#define TESTS_SHARED_LIST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "devices/devices.h"
#include "quant/quant.h"
#include "sanitized.h"
#include "sched/plan.h"
#include "unit/ops/kv_fixture.h"

enum { ROWS = 40, IN_MOST = 256, OUTS = 384, CUTS = 12, DEVICES = 3 };
enum { ROWS_LONG = 300, OUT_MOST = 512, CUTS_LONG = 200, ROW_MOST = 2048, CUTS_MOST = 20 }; /* LUTRA_TEST_LONG=1 */
enum { V_IN, V_GATE, V_UP, V_ACT, V_DOWN, V_LAST, N_VALUES };
enum { W_GATE, W_UP, W_DOWN, W_LAST, N_WEIGHTS, N_OPS = 7, D_HEAD = 32 };

struct bench {
    struct device_set set;
    struct clock clock;
    struct device *device[DEVICES]; /* in the plan's order */
    int n_device;
    int rows, outs; /* at most */
    struct weight part[N_WEIGHTS], all[N_WEIGHTS];
    struct op op[N_OPS], op_all[N_OPS];
    struct op_list list, list_all;
    struct plan_cut cut[N_OPS];
    struct plan plan;
    struct row row[ROW_MOST];
    struct batch batch;
    struct kv_view kv;
    struct buffer value[N_VALUES];
    struct pass_args pass;
    float bias[OUT_MOST], gain[OUT_MOST], want[N_VALUES][ROW_MOST * OUT_MOST];
    uint32_t seed;
    uint64_t ran_until_us;
    int n_class, n_follow; /* cases with shares of rows of one class, and of them norms and rotations, too */
};

static struct lutra_error err;
#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) < 0) fail_msg("%s", err.what);                                                                      \
    } while (0)

static inline uint32_t below(struct bench *b, uint32_t n)
{
    b->seed = b->seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)b->seed * n) >> 32);
}

static inline void make_weight(struct bench *b, int i, enum quant_type type, int n_in, int n_out)
{
    const struct quant_info *q = quant_info_of(type);
    size_t n = (size_t)n_out * (size_t)n_in;
    float *x = malloc(n * sizeof *x);
    for (size_t e = 0; e < n; e++) x[e] = 0.15f * fixture_noise((uint32_t)e, (uint32_t)i + b->seed, 3);
    struct tensor t = {.name = "blk.0.w", .type = q->type, .n_dim = 2, .ne = {n_in, n_out, 1, 1}};
    t.bytes = n / q->block_elems * q->block_bytes;
    void *data = malloc(t.bytes);
    q->quantize(x, data, n);
    t.data = data;
    free(x);
    b->part[i] = b->all[i] = (struct weight){.tensor = t, .use = WEIGHT_MATMUL};
}

static inline void make_list(struct bench *b, struct weight *w, struct op *op, struct op_list *list)
{
    const int n_in = (int)w[W_GATE].tensor.ne[0], n_out = (int)w[W_GATE].tensor.ne[1];
    op[0] = op_make(OP_MATMUL, 0, V_IN, -1, -1);
    op_add_part(&op[0], &w[W_GATE], b->bias, V_GATE);
    op_add_part(&op[0], &w[W_UP], NULL, V_UP);
    op[1] = op_make(OP_SWIGLU, 0, V_GATE, V_UP, V_ACT);
    op[2] = op_make(OP_MATMUL, 0, V_ACT, -1, -1);
    op_add_part(&op[2], &w[W_DOWN], NULL, V_DOWN);
    op[3] = op_make(OP_ADD, 0, V_DOWN, V_IN, V_DOWN);
    op[4] = op_make(OP_RMS_NORM, 0, V_DOWN, -1, V_DOWN);
    op[4].norm.weight = b->gain, op[4].norm.n_norm = n_in, op[4].norm.eps = 1e-5f;
    op[5] = op_make(OP_ROPE, 0, V_DOWN, -1, V_DOWN);
    op[5].rope = (struct op_rope){.n_head = n_in / D_HEAD, .d_head = D_HEAD, .n_rot = D_HEAD};
    op[5].rope.freq_base = 1e4f, op[5].rope.freq_scale = op[5].rope.magnitude = 1;
    op[6] = op_make(OP_MATMUL, 0, V_DOWN, -1, -1);
    op_add_part(&op[6], &w[W_LAST], b->bias, V_LAST);
    *list = (struct op_list){.op = op, .n_op = N_OPS, .n_value = N_VALUES, .d_model = n_in};
    const int dim[N_VALUES] = {n_in, n_out, n_out, n_out, n_in, n_out};
    for (int v = 0; v < N_VALUES; v++) list->value[v] = (struct value){dim[v], ROWS_ALL};
}

static inline size_t bytes_of(const struct bench *b, int v)
{
    return sizeof(float) * (size_t)b->batch.n_row * (size_t)b->list.value[v].dim;
}

#endif
