/* SPDX-License-Identifier: MIT
 *
 * Parts of the head and of attentions: computed by two devices, in any shares, results, values and cache have the bits
 * that they have where one device runs the whole operation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpuinfo.h"
#include "cpu/device.h"
#include "ops/head.h"
#include "quant/quant.h"
#include "sanitized.h"
#include "sched/plan.h"
#include "unit/ops/kv_fixture.h"

enum { CUTS = SANITIZED ? 30 : 200 };

static uint32_t seed = 5;

static uint32_t below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)seed * n) >> 32);
}

/* [1] computes beside its caller and uses the weights of [0]. */
struct pair {
    struct pool *pool[2];
    struct device *device[2];
};

static void open_pair(struct pair *p)
{
    memset(p, 0, sizeof *p);
    for (int i = 0; i < 2; i++) {
        struct cpu_device_settings set = {.isa = cpu_isa(), .store = p->device[0], .async = i, .speed = 1};
        set.name = i ? "second" : "first";
        assert_int_equal(pool_open(&p->pool[i], &(struct pool_settings){.n_thread = 2, .all = true}, NULL), 0);
        assert_int_equal(cpu_device_open(&p->device[i], p->pool[i], &set, NULL), 0);
    }
}

static void close_pair(struct pair *p)
{
    for (int i = 1; i >= 0; i--) {
        p->device[i]->ops->close(p->device[i]);
        pool_close(&p->pool[i]);
    }
}

static void reserve(struct pair *p, const struct op_list *list, int n_row, int n_out, int n_ctx)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(p->device[i]->ops->reserve(p->device[i], list, n_row, n_out, n_ctx, NULL), 0);
}

/* A pass whose shares are as said: all on the first device where it has all parts. */
static int run(struct pair *p, const struct op_list *list, const struct pass_args *pass, float first, float second)
{
    static struct plan plan;
    struct plan_cut cut[8];
    struct lutra_error err = {.what = ""};
    for (int i = 0; i < list->n_op; i++)
        cut[i] = (struct plan_cut){.n = 2, .device = {p->device[0], p->device[1]}, .part = {first, second}};
    if (plan_open_cut(&plan, list, p->device, 2, cut, &err) < 0) fail_msg("plan: %s", err.what);
    if (plan_run(&plan, pass, NULL, NULL, &err) < 0) fail_msg("run: %s", err.what);
    return plan.n_piece;
}

/* ---- the head ---- */

enum { IN = 64, ROWS = 90, VOCAB = 5000, LISTED = 5 };
enum { V_STATE, V_HIDDEN, N_VALUES };

struct results {
    struct row_result row[ROWS];
    float logits[ROWS][VOCAB], hidden[ROWS][IN], listed[ROWS][LISTED], top_logit[ROWS][ROW_TOPK];
    int32_t top_id[ROWS][ROW_TOPK];
};

static void clear(struct results *r, int n_out)
{
    memset(r, 0, sizeof *r);
    for (int i = 0; i < n_out; i++)
        r->row[i] = (struct row_result){.row = i,
            .logits = r->logits[i],
            .hidden = r->hidden[i],
            .listed_logit = r->listed[i],
            .top_id = r->top_id[i],
            .top_logit = r->top_logit[i]};
}

static bool same_results(const struct results *a, const struct results *b, int n_out)
{
    for (int i = 0; i < n_out; i++)
        if (memcmp(&a->row[i].log_sum_exp, &b->row[i].log_sum_exp, sizeof(float)) || a->row[i].n_top != b->row[i].n_top)
            return false;
    return !memcmp(a->logits, b->logits, sizeof a->logits) && !memcmp(a->hidden, b->hidden, sizeof a->hidden) &&
           !memcmp(a->listed, b->listed, sizeof a->listed) && !memcmp(a->top_id, b->top_id, sizeof a->top_id) &&
           !memcmp(a->top_logit, b->top_logit, sizeof a->top_logit);
}

/* Ties, infinities and NaN are among the logits: whole outputs have the same weights, or such ones. */
static void make_weight(struct weight *w, int n_out)
{
    float *x = malloc(sizeof *x * (size_t)n_out * IN);
    for (int o = 0; o < n_out; o++) {
        uint32_t like = below(4) ? (uint32_t)o : below(8);
        for (int i = 0; i < IN; i++) x[o * IN + i] = fixture_noise((uint32_t)i, like, 3);
        if (below(700) == 0) x[o * IN] = below(3) ? -INFINITY : NAN;
    }
    *w = (struct weight){.use = WEIGHT_MATMUL,
        .tensor = {.name = "w", .type = QUANT_F32, .n_dim = 2, .ne = {IN, n_out, 1, 1}, .data = x}};
    w->tensor.bytes = sizeof *x * (size_t)n_out * IN;
}

static void a_head_in_shares_has_the_bits_of_the_whole(void **state)
{
    static struct results whole, cut;
    static struct row row[ROWS];
    static int32_t out_row[ROWS], listed[ROWS][LISTED];
    static struct head_part part[ROWS * (VOCAB / HEAD_OUTPUTS + 1)];
    static struct head_top top[ROWS * HEAD_SHARES];
    struct head_parts parts = {part, top};
    struct pair p;
    int n_cut = 0;
    (void)state;
    open_pair(&p);
    for (int round = 0; round < CUTS; round++) {
        int n_out = 1 + (int)below(VOCAB), n_row = 1 + (int)below(below(3) ? 4 : ROWS);
        bool keeps;
        struct weight weight;
        struct buffer value[N_VALUES];
        struct op op = op_make(OP_HEAD, -1, V_STATE, V_HIDDEN, -1);
        make_weight(&weight, n_out);
        op.weight[0] = &weight;
        op.head.softcap = below(3) ? 0 : 20;
        op.head.scale = below(3) ? 0 : 0.5f;
        assert_int_equal(p.device[0]->ops->prepare(p.device[0], &weight, &keeps, NULL), 0);
        struct op_list list = {.op = &op, .n_op = 1, .n_value = N_VALUES, .d_model = IN, .n_vocab = n_out};
        for (int v = 0; v < N_VALUES; v++) {
            list.value[v] = (struct value){IN, ROWS_OUT};
            assert_int_equal(
                p.device[0]->ops->buffer_alloc(p.device[0], sizeof(float) * ROWS * IN, &value[v], NULL), 0);
            for (int i = 0; i < ROWS * IN; i++)
                ((float *)value[v].host)[i] = fixture_noise((uint32_t)i, (uint32_t)v, seed);
        }
        for (int r = 0; r < n_row; r++) {
            for (int k = 0; k < LISTED; k++) listed[r][k] = (int32_t)below((uint32_t)n_out);
            row[r] = (struct row){.want = 1 + below(WANT_ALL), .n_listed = LISTED, .listed = listed[r]};
            out_row[r] = r;
        }
        struct batch batch = {.row = row, .n_row = n_row};
        struct pass_args pass = {
            .batch = &batch, .value = value, .out_row = out_row, .n_out = n_row, .result = whole.row, .head = &parts};
        reserve(&p, &list, ROWS, ROWS, 1);
        clear(&whole, n_row);
        assert_int_equal(run(&p, &list, &pass, 1, 0), 1);
        for (int again = 0; again < 2; again++) {
            memset(part, 0x7f, sizeof part); /* nothing of another pass is taken */
            memset(top, 0x7f, sizeof top);
            clear(&cut, n_row);
            pass.result = cut.row;
            n_cut += run(&p, &list, &pass, 1 + (float)below(9), 1 + (float)below(9)) == 2;
            if (!same_results(&whole, &cut, n_row)) fail_msg("%d outputs, %d rows: other results", n_out, n_row);
        }
        for (int v = 0; v < N_VALUES; v++) p.device[0]->ops->buffer_free(p.device[0], &value[v]);
        for (int i = 0; i < 2; i++) p.device[i]->extras->forget(p.device[i], &list);
        p.device[0]->ops->release(p.device[0], &weight);
        free((void *)weight.tensor.data);
    }
    assert_true(n_cut > CUTS / 2);
    close_pair(&p);
}

/* ---- attention by heads ---- */

enum { HEADS = 12, D_HEAD = 32, ATT_ROWS = 40 };
enum { A_Q, A_K, A_V, A_OUT, A_VALUES };

struct heads {
    struct kv_fixture kv;
    struct row row[ATT_ROWS];
    struct op op[6];
    struct op_layer layer;
    struct op_list list;
    struct batch batch;
    struct buffer value[A_VALUES];
    struct pass_args pass;
    float norm[D_HEAD], first[A_VALUES][ATT_ROWS * HEADS * D_HEAD];
};

/* Norms and rotations in place, the append, the attention: some of them, as models have them. */
static void make_heads(struct heads *h, int n_head, int n_kv_head)
{
    const int dim[A_VALUES] = {n_head * D_HEAD, n_kv_head * D_HEAD, n_kv_head * D_HEAD, n_head * D_HEAD};
    int n = 0;
    h->layer = (struct op_layer){.cache = 0, .n_kv_head = n_kv_head, .d_head = D_HEAD};
    for (int i = 0; i < D_HEAD; i++) h->norm[i] = 1 + 0.2f * fixture_noise((uint32_t)i, 1, 1);
    for (int k = 0, with = (int)below(2); with && k < 2; k++) {
        h->op[n] = op_make(OP_RMS_NORM, 0, A_Q + k, -1, A_Q + k);
        h->op[n].norm.weight = h->norm, h->op[n].norm.n_norm = D_HEAD, h->op[n++].norm.eps = 1e-5f;
    }
    for (int k = 0; k < 2; k++) {
        h->op[n] = op_make(OP_ROPE, 0, A_Q + k, -1, A_Q + k);
        h->op[n++].rope = (struct op_rope){.kind = ROPE_NEOX,
            .n_head = dim[k] / D_HEAD,
            .d_head = D_HEAD,
            .n_rot = D_HEAD,
            .freq_base = 10000,
            .freq_scale = 1,
            .magnitude = 1};
    }
    h->op[n++] = op_make(OP_KV_APPEND, 0, A_K, A_V, -1);
    h->op[n] = op_make(OP_ATTENTION, 0, A_Q, -1, below(2) ? A_Q : A_OUT);
    h->op[n++].attention = (struct op_attention){
        .n_head = n_head, .n_kv_head = n_kv_head, .d_head = D_HEAD, .scale = 0.2f, .window = below(3) ? 0 : 70};
    h->list = (struct op_list){
        .op = h->op, .n_op = n, .n_value = A_VALUES, .layer = &h->layer, .n_layer = 1, .d_model = dim[0]};
    for (int v = 0; v < A_VALUES; v++) {
        h->list.value[v] = (struct value){dim[v], ROWS_ALL};
        for (int i = 0; i < ATT_ROWS * dim[v]; i++) h->first[v][i] = fixture_noise((uint32_t)i, (uint32_t)v, seed);
    }
}

static void make_past(struct heads *h)
{
    int n_row = 1 + (int)below(below(2) ? 3 : ATT_ROWS), s[3];
    fixture_open_layers(&h->kv, QUANT_F16, &h->layer, 1, FIX_BLOCKS);
    for (int i = 0; i < 3; i++) s[i] = fixture_sequence(&h->kv, (int32_t)below(300), -1, 0);
    h->kv.n_row = 0;
    for (int r = 0; r < n_row; r++) {
        int row = fixture_row(&h->kv, s[below(3)], -1, below(4) == 0);
        const struct kv_row *k = &h->kv.row[row];
        h->row[r] = (struct row){.pos = k->n_paged + k->n_path - 1, .parent = -1};
    }
    fixture_finish(&h->kv);
    h->batch = (struct batch){.row = h->row, .n_row = n_row};
    h->pass =
        (struct pass_args){.batch = &h->batch, .kv = &h->kv.view, .value = h->value, .n_ctx = FIX_TABLE * KV_BLOCK};
}

static void rewind_heads(struct heads *h, const uint8_t *pool, const uint8_t *draft)
{
    for (int v = 0; v < A_VALUES; v++) memcpy(h->value[v].host, h->first[v], h->value[v].bytes);
    memcpy(h->kv.view.pool, pool, h->kv.pool_bytes);
    memcpy(h->kv.view.draft, draft, h->kv.draft_bytes);
}

static void *copy_of(const void *p, size_t bytes)
{
    void *copy = malloc(bytes);
    memcpy(copy, p, bytes);
    return copy;
}

static void an_attention_by_heads_has_the_bits_of_the_whole(void **state)
{
    static struct heads h;
    static const int shape[][2] = {{12, 3}, {8, 2}, {4, 4}, {10, 5}, {12, 12}, {6, 1}};
    static float want[A_VALUES][ATT_ROWS * HEADS * D_HEAD];
    struct pair p;
    int n_cut = 0;
    (void)state;
    open_pair(&p);
    for (int round = 0; round < CUTS; round++) {
        const int *s = shape[below(6)];
        make_heads(&h, s[0], s[1]);
        make_past(&h);
        for (int v = 0; v < A_VALUES; v++) {
            size_t bytes = sizeof(float) * ATT_ROWS * (size_t)h.list.value[v].dim;
            assert_int_equal(p.device[0]->ops->buffer_alloc(p.device[0], bytes, &h.value[v], NULL), 0);
        }
        uint8_t *pool = copy_of(h.kv.view.pool, h.kv.pool_bytes), *draft = copy_of(h.kv.view.draft, h.kv.draft_bytes);
        reserve(&p, &h.list, ATT_ROWS, 1, FIX_TABLE * KV_BLOCK);
        rewind_heads(&h, pool, draft);
        assert_int_equal(run(&p, &h.list, &h.pass, 1, 0), 1);
        uint8_t *pool_after = copy_of(h.kv.view.pool, h.kv.pool_bytes),
                *draft_after = copy_of(h.kv.view.draft, h.kv.draft_bytes);
        for (int v = 0; v < A_VALUES; v++) memcpy(want[v], h.value[v].host, h.value[v].bytes);
        rewind_heads(&h, pool, draft);
        n_cut += run(&p, &h.list, &h.pass, 1 + (float)below(4), 1 + (float)below(4)) == 2;
        for (int v = 0; v < A_VALUES; v++)
            if (memcmp(want[v], h.value[v].host, h.value[v].bytes))
                fail_msg("%d heads over %d, %d rows: other bits in value %d", s[0], s[1], h.batch.n_row, v);
        assert_memory_equal(pool_after, h.kv.view.pool, h.kv.pool_bytes);
        assert_memory_equal(draft_after, h.kv.view.draft, h.kv.draft_bytes);
        for (int v = 0; v < A_VALUES; v++) p.device[0]->ops->buffer_free(p.device[0], &h.value[v]);
        for (int i = 0; i < 2; i++) p.device[i]->extras->forget(p.device[i], &h.list);
        free(pool), free(draft), free(pool_after), free(draft_after);
        fixture_close(&h.kv);
    }
    assert_true(n_cut > CUTS / 2);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_head_in_shares_has_the_bits_of_the_whole),
        cmocka_unit_test(an_attention_by_heads_has_the_bits_of_the_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
