/* SPDX-License-Identifier: MIT
 *
 * The CPU device on a one-layer model with mixed weight types: reference and every level, thread counts, batches,
 * results of the head, cancelling, and what it refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpuinfo.h"
#include "base/hash.h"
#include "cpu/device.h"
#include "ops/ref/ref.h"
#include "quant/quant.h"
#include "unit/ops/kv_fixture.h"

enum { D = 256, HEADS = 4, KV_HEADS = 2, D_HEAD = 64, FF = 512, VOCAB = 3001, CTX = 256, ROWS = 24 };
enum { V_X, V_H, V_Q, V_K, V_V, V_A, V_O, V_GATE, V_UP, V_OUT, V_N, N_VALUES };
enum { W_EMBED, W_Q, W_K, W_V, W_O, W_GATE, W_UP, W_DOWN, N_WEIGHTS };

static const struct {
    enum quant_type type;
    int n_out, n_in, use;
} SHAPE[N_WEIGHTS] = {{QUANT_Q6_K, VOCAB, D, WEIGHT_MATMUL | WEIGHT_GATHER}, {QUANT_Q4_K, D, D, WEIGHT_MATMUL},
    {QUANT_Q8_0, KV_HEADS *D_HEAD, D, WEIGHT_MATMUL}, {QUANT_F16, KV_HEADS *D_HEAD, D, WEIGHT_MATMUL},
    {QUANT_Q4_0, D, D, WEIGHT_MATMUL}, {QUANT_Q4_0, FF, D, WEIGHT_MATMUL}, {QUANT_Q4_1, FF, D, WEIGHT_MATMUL},
    {QUANT_Q5_1, D, FF, WEIGHT_MATMUL}};

static struct weight weights[N_WEIGHTS];
static float norm_weight[D], bias[D];
static struct op ops[24];
static const struct op_layer layer = {.cache = 0, .n_kv_head = KV_HEADS, .d_head = D_HEAD};
static struct op_list list;

static void make_weight(int i)
{
    const struct quant_info *q = quant_info_of(SHAPE[i].type);
    size_t n = (size_t)SHAPE[i].n_out * (size_t)SHAPE[i].n_in;
    float *x = malloc(n * sizeof *x);
    for (size_t e = 0; e < n; e++) x[e] = 0.15f * fixture_noise((uint32_t)e, (uint32_t)i, 3);
    struct tensor *t = &weights[i].tensor;
    *t = (struct tensor){.name = "w", .type = q->type, .n_dim = 2, .ne = {SHAPE[i].n_in, SHAPE[i].n_out, 1, 1}};
    t->bytes = n / q->block_elems * q->block_bytes;
    void *data = malloc(t->bytes);
    q->quantize(x, data, n);
    t->data = data;
    weights[i].use = SHAPE[i].use;
    free(x);
}

static struct op *add_op(enum op_kind kind, int in, int in2, int out)
{
    struct op *op = &ops[list.n_op++];
    *op = op_make(kind, 0, in, in2, out);
    return op;
}

static void add_norm(int in, int out)
{
    struct op *op = add_op(OP_RMS_NORM, in, -1, out);
    op->norm.weight = norm_weight;
    op->norm.n_norm = D;
    op->norm.eps = 1e-5f;
}

static void add_matmul(int in, int n, const int (*part)[2])
{
    struct op *op = add_op(OP_MATMUL, in, -1, -1);
    for (int i = 0; i < n; i++) op_add_part(op, &weights[part[i][0]], part[i][0] == W_Q ? bias : NULL, part[i][1]);
}

static void add_rope(int value, int heads)
{
    struct op *op = add_op(OP_ROPE, value, -1, value);
    op->rope = (struct op_rope){.kind = ROPE_NEOX,
        .n_head = heads,
        .d_head = D_HEAD,
        .n_rot = D_HEAD,
        .freq_base = 10000,
        .freq_scale = 1,
        .magnitude = 1};
}

static int make_model(void **state)
{
    static const int DIM[N_VALUES] = {D, D, D, KV_HEADS * D_HEAD, KV_HEADS * D_HEAD, D, D, FF, FF, D, D};
    (void)state;
    for (int i = 0; i < N_WEIGHTS; i++) make_weight(i);
    for (int i = 0; i < D; i++)
        norm_weight[i] = 1 + 0.1f * fixture_noise((uint32_t)i, 5, 5), bias[i] = 0.1f * (float)(i % 3);
    list =
        (struct op_list){.op = ops, .n_value = N_VALUES, .layer = &layer, .n_layer = 1, .d_model = D, .n_vocab = VOCAB};
    for (int i = 0; i < N_VALUES; i++) list.value[i] = (struct value){DIM[i], i >= V_OUT ? ROWS_OUT : ROWS_ALL};
    struct op *op = add_op(OP_EMBED, -1, -1, V_X);
    op->weight[0] = &weights[W_EMBED];
    op->embed.scale = 2;
    add_norm(V_X, V_H);
    add_matmul(V_H, 3, (const int[][2]){{W_Q, V_Q}, {W_K, V_K}, {W_V, V_V}});
    add_rope(V_Q, HEADS);
    add_rope(V_K, KV_HEADS);
    add_op(OP_KV_APPEND, V_K, V_V, -1);
    op = add_op(OP_ATTENTION, V_Q, -1, V_A);
    op->attention = (struct op_attention){.n_head = HEADS, .n_kv_head = KV_HEADS, .d_head = D_HEAD, .scale = 0.125f};
    add_matmul(V_A, 1, (const int[][2]){{W_O, V_O}});
    add_op(OP_ADD, V_X, V_O, V_X);
    add_norm(V_X, V_H);
    add_matmul(V_H, 2, (const int[][2]){{W_GATE, V_GATE}, {W_UP, V_UP}});
    add_op(OP_SWIGLU, V_GATE, V_UP, V_GATE);
    add_matmul(V_GATE, 1, (const int[][2]){{W_DOWN, V_O}});
    add_op(OP_ADD, V_X, V_O, V_X);
    add_op(OP_TAKE, V_X, -1, V_OUT);
    add_norm(V_OUT, V_N);
    op = add_op(OP_HEAD, V_N, V_N, -1);
    op->weight[0] = &weights[W_EMBED];
    op->head.softcap = 30;
    return op_list_check(&list, NULL);
}

static int free_model(void **state)
{
    (void)state;
    for (int i = 0; i < N_WEIGHTS; i++) free((void *)(uintptr_t)weights[i].tensor.data);
    return 0;
}

/* A device with everything prepared, and a batch of rows in three sequences. */
struct bench {
    struct pool *pool;
    struct device *device;
    struct kv_fixture kv;
    struct row row[ROWS];
    int32_t listed[ROWS][3];
    struct batch batch;
    struct buffer value[N_VALUES];
    int32_t out_row[ROWS];
    struct row_result result[ROWS];
    struct pass_args pass;
    struct segment segment;
};

static void open_bench(struct bench *b, uint32_t isa, int threads, int first, int n)
{
    struct lutra_error err = {0};
    bool keeps;
    memset(b, 0, sizeof *b);
    assert_int_equal(pool_open(&b->pool, &(struct pool_settings){.n_thread = threads, .all = true}, &err), 0);
    assert_int_equal(cpu_device_open(&b->device, b->pool, &(struct cpu_device_settings){.isa = isa}, &err), 0);
    for (int i = 0; i < N_WEIGHTS; i++) {
        assert_int_equal(b->device->ops->prepare(b->device, &weights[i], &keeps, &err), 0);
        assert_false(keeps);
    }
    for (int i = 0; i < list.n_op; i++) assert_int_equal(b->device->ops->supports(b->device, &list, &ops[i], &err), 0);
    assert_int_equal(b->device->ops->reserve(b->device, &list, ROWS, ROWS, CTX, &err), 0);
    fixture_open(&b->kv, QUANT_F16, KV_HEADS, D_HEAD);
    int seq[3] = {fixture_sequence_of(&b->kv, 70, -1, 0, 1), 0, 0};
    seq[1] = fixture_sequence_of(&b->kv, 90, seq[0], 1, 2);
    seq[2] = fixture_sequence_of(&b->kv, 3, -1, 0, 3);
    b->kv.n_row = 0;
    for (int i = 0; i < n; i++) {
        int r = fixture_row_of(&b->kv, seq[(first + i) % 3], -1, true, 9);
        uint32_t want = WANT_LOGITS | WANT_HIDDEN | WANT_TOPK | WANT_LOGPROB;
        b->row[i] = (struct row){.token = (int32_t)(7 * (first + i) % VOCAB),
            .pos = b->kv.row[r].n_paged,
            .seq = seq[(first + i) % 3],
            .parent = -1,
            .want = (first + i) % 4 == 3 ? WANT_NOTHING : want,
            .n_listed = 3,
            .listed = b->listed[i]};
        for (int k = 0; k < 3; k++) b->listed[i][k] = ((first + i) * 100 + k * 333) % VOCAB;
        if (b->row[i].want) b->out_row[b->pass.n_out++] = i;
    }
    fixture_finish(&b->kv);
    b->batch = (struct batch){.row = b->row, .n_row = n};
    for (int i = 0; i < N_VALUES; i++) {
        assert_int_equal(b->device->ops->buffer_alloc(
                             b->device, sizeof(float) * (size_t)(ROWS * list.value[i].dim), &b->value[i], &err),
            0);
    }
    for (int i = 0; i < b->pass.n_out; i++) {
        b->result[i] = (struct row_result){.row = b->out_row[i],
            .logits = malloc(VOCAB * sizeof(float)),
            .hidden = malloc(D * sizeof(float)),
            .top_id = malloc(ROW_TOPK * sizeof(int32_t)),
            .top_logit = malloc(ROW_TOPK * sizeof(float)),
            .listed_logit = malloc(ROW_LISTED * sizeof(float))};
    }
    b->pass = (struct pass_args){.batch = &b->batch,
        .kv = &b->kv.view,
        .value = b->value,
        .out_row = b->out_row,
        .n_out = b->pass.n_out,
        .result = b->result};
    b->segment = (struct segment){.op = ops, .n_op = list.n_op, .list = &list, .pass = &b->pass};
}

static void close_bench(struct bench *b)
{
    for (int i = 0; i < b->pass.n_out; i++) {
        free(b->result[i].logits);
        free(b->result[i].hidden);
        free(b->result[i].top_id);
        free(b->result[i].top_logit);
        free(b->result[i].listed_logit);
    }
    for (int i = 0; i < N_VALUES; i++) b->device->ops->buffer_free(b->device, &b->value[i]);
    for (int i = 0; i < N_WEIGHTS; i++) b->device->ops->release(b->device, &weights[i]);
    fixture_close(&b->kv);
    b->device->ops->close(b->device);
    pool_close(&b->pool);
}

static void run(struct bench *b)
{
    struct lutra_error err = {0};
    struct ticket ticket;
    int rc = b->device->ops->submit(b->device, &b->segment, NULL, 0, &ticket, &err);
    if (rc < 0) fail_msg("submit: %s", err.what);
    assert_int_equal(ticket.id, 0);
}

static void assert_same(const struct row_result *a, const struct row_result *b)
{
    assert_memory_equal(a->logits, b->logits, VOCAB * sizeof(float));
    assert_memory_equal(a->hidden, b->hidden, D * sizeof(float));
    assert_memory_equal(&a->log_sum_exp, &b->log_sum_exp, sizeof(float));
    assert_memory_equal(a->listed_logit, b->listed_logit, 3 * sizeof(float));
    assert_int_equal(a->n_top, b->n_top);
    assert_memory_equal(a->top_id, b->top_id, (size_t)a->n_top * sizeof(int32_t));
}

/* Next level of this CPU after isa; the same when there is none. */
static uint32_t next_level(uint32_t isa)
{
    for (uint32_t bit = 1; bit <= CPU_AVX512; bit <<= 1) {
        if (cpu_isa() & bit && !(isa & bit)) return isa | bit;
    }
    return isa;
}

static void levels_agree_with_reference(void **state)
{
    struct bench ref, b;
    (void)state;
    open_bench(&ref, 0, 1, 0, ROWS);
    run(&ref);
    /* Weights belong to one device at a time. */
    for (int i = 0; i < N_WEIGHTS; i++) ref.device->ops->release(ref.device, &weights[i]);
    for (uint32_t isa = next_level(0), last = 0; isa != last; last = isa, isa = next_level(isa)) {
        open_bench(&b, isa, 2, 0, ROWS);
        run(&b);
        double error = 0, power = 0;
        for (int i = 0; i < b.pass.n_out; i++) {
            for (int v = 0; v < VOCAB; v++) {
                double d = (double)b.result[i].logits[v] - ref.result[i].logits[v];
                error += d * d;
                power += (double)ref.result[i].logits[v] * ref.result[i].logits[v];
            }
        }
        /* int8 activations through six matmuls and a softmax: about 1 % here. */
        if (!(error < 0.02 * 0.02 * power)) fail_msg("isa %#x: relative error %g", isa, sqrt(error / power));
        close_bench(&b);
    }
    close_bench(&ref);
}

static void threads_give_the_same_bits(void **state)
{
    (void)state;
    for (uint32_t isa = 0, last = 1; isa != last; last = isa, isa = next_level(isa)) {
        struct bench one, more;
        open_bench(&one, isa, 1, 0, ROWS);
        run(&one);
        for (int i = 0; i < N_WEIGHTS; i++) one.device->ops->release(one.device, &weights[i]);
        for (int threads = 2; threads <= 3; threads++) {
            open_bench(&more, isa, threads, 0, ROWS);
            run(&more);
            run(&more);
            for (int i = 0; i < one.pass.n_out; i++) assert_same(&one.result[i], &more.result[i]);
            close_bench(&more);
        }
        close_bench(&one);
    }
}

static void rows_do_not_know_their_batch(void **state)
{
    struct bench all, alone;
    (void)state;
    open_bench(&all, cpu_isa(), 2, 0, ROWS);
    run(&all);
    for (int i = 0; i < N_WEIGHTS; i++) all.device->ops->release(all.device, &weights[i]);
    for (int i = 0; i < all.pass.n_out; i++) {
        open_bench(&alone, cpu_isa(), 2, all.out_row[i], 1);
        run(&alone);
        assert_int_equal(alone.pass.n_out, 1);
        assert_same(&all.result[i], &alone.result[0]);
        close_bench(&alone);
    }
    close_bench(&all);
}

/* Rows with masks, one without between: the best are the allowed ones, all else as before. */
static void best_of_masks(struct bench *b)
{
    static uint64_t allow[ROWS][(VOCAB + 63) / 64];
    static float sum[ROWS];
    int32_t id[ROW_TOPK];
    float logit[ROW_TOPK];
    srand(3);
    for (int i = 0; i < b->pass.n_out; i++) {
        struct row *row = &b->row[b->result[i].row];
        int one_of = i == 1 ? VOCAB : i == 2 ? 1 : i == 3 ? 40 : 2;
        memset(allow[i], 0, sizeof allow[i]);
        for (int v = 0; v < VOCAB; v++)
            if (rand() % one_of == 0) allow[i][v / 64] |= UINT64_C(1) << v % 64;
        if (i == 4) memset(allow[i], 0, sizeof allow[i]);
        row->allow = i == 0 ? NULL : allow[i];
        sum[i] = b->result[i].log_sum_exp;
    }
    run(b);
    for (int i = 0; i < b->pass.n_out; i++) {
        const struct row_result *r = &b->result[i];
        struct row *row = &b->row[r->row];
        int n = ref_top_k(r->logits, row->allow, VOCAB, ROW_TOPK, id, logit);
        assert_int_equal(n, r->n_top);
        assert_memory_equal(id, r->top_id, (size_t)n * sizeof *id);
        assert_memory_equal(logit, r->top_logit, (size_t)n * sizeof *logit);
        assert_true(r->log_sum_exp == sum[i]);
        for (int k = 0; k < 3; k++) assert_true(r->listed_logit[k] == r->logits[row->listed[k]]);
        row->allow = NULL;
    }
}

static void head_reports_what_is_wanted(void **state)
{
    (void)state;
    for (uint32_t isa = 0, last = 1; isa != last; last = isa, isa = next_level(isa)) {
        struct bench b;
        int32_t id[ROW_TOPK];
        float logit[ROW_TOPK];
        open_bench(&b, isa, 2, 0, ROWS);
        run(&b);
        for (int i = 0; i < b.pass.n_out; i++) {
            const struct row_result *r = &b.result[i];
            assert_int_equal(ref_top_k(r->logits, NULL, VOCAB, ROW_TOPK, id, logit), r->n_top);
            assert_memory_equal(id, r->top_id, sizeof id);
            assert_memory_equal(logit, r->top_logit, sizeof logit);
            assert_true(fabsf(r->log_sum_exp - ref_log_sum_exp(r->logits, VOCAB)) < 2e-6f * fabsf(r->log_sum_exp));
            for (int k = 0; k < 3; k++) assert_true(r->listed_logit[k] == r->logits[b.row[r->row].listed[k]]);
            for (int v = 0; v < VOCAB; v++) assert_true(fabsf(r->logits[v]) <= 30);
            assert_memory_equal(r->hidden, (float *)b.value[V_N].host + i * D, D * sizeof(float));
        }
        best_of_masks(&b);
        close_bench(&b);
    }
}

static void cancelling_stops_the_pass(void **state)
{
    struct bench b;
    struct lutra_error err = {0};
    struct ticket ticket;
    atomic_bool cancel = true;
    (void)state;
    open_bench(&b, cpu_isa(), 2, 0, 4);
    b.pass.cancel = &cancel;
    assert_int_equal(b.device->ops->submit(b.device, &b.segment, NULL, 0, &ticket, &err), LUTRA_E_CANCELLED);
    cancel = false;
    run(&b);
    close_bench(&b);
}

static void refuses_with_the_reason(void **state)
{
    struct bench b;
    struct lutra_error err = {0};
    struct ticket ticket;
    struct weight odd = {.tensor = {.name = "blk.0.odd", .type = QUANT_Q8_K, .n_dim = 2, .ne = {256, 4, 1, 1}}};
    struct op op = op_make(OP_HEAD, -1, V_N, V_N, -1);
    bool keeps;
    (void)state;
    op.weight[0] = &odd;
    open_bench(&b, cpu_isa(), 1, 0, 2);
    assert_int_equal(b.device->ops->supports(b.device, &list, &op, &err), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "blk.0.odd"));
    assert_int_equal(b.device->ops->prepare(b.device, &odd, &keeps, &err), LUTRA_E_UNSUPPORTED);
    assert_null(weight_packed(&odd, b.device));
    op = ops[6];
    op.attention.d_head = 61;
    assert_int_equal(b.device->ops->supports(b.device, &list, &op, &err), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "61"));
    op = ops[3];
    op.rope.n_rot = 128;
    assert_int_equal(b.device->ops->supports(b.device, &list, &op, &err), LUTRA_E_UNSUPPORTED);
    op = (struct op){.kind = OP_COUNT};
    assert_int_equal(b.device->ops->supports(b.device, &list, &op, &err), LUTRA_E_UNSUPPORTED);
    assert_int_equal(b.device->ops->prepare(b.device, &weights[0], &keeps, &err), LUTRA_E_ARGUMENT);
    b.batch.n_row = ROWS + 1;
    assert_int_equal(b.device->ops->submit(b.device, &b.segment, NULL, 0, &ticket, &err), LUTRA_E_ARGUMENT);
    b.batch.n_row = 2;
    b.device->ops->release(b.device, &weights[W_DOWN]);
    assert_int_equal(b.device->ops->submit(b.device, &b.segment, NULL, 0, &ticket, &err), LUTRA_E_ARGUMENT);
    close_bench(&b);
}

static void gather_only_keeps_its_source(void **state)
{
    struct bench b;
    struct lutra_error err = {0};
    struct weight w = weights[W_EMBED];
    bool keeps = false;
    (void)state;
    open_bench(&b, cpu_isa(), 1, 0, 3);
    memset(w.held, 0, sizeof w.held);
    w.use = WEIGHT_GATHER;
    assert_int_equal(b.device->ops->prepare(b.device, &w, &keeps, &err), 0);
    assert_true(keeps);
    run(&b);
    float first[D];
    b.segment.n_op = 1;
    run(&b);
    memcpy(first, b.value[V_X].host, sizeof first);
    memset(b.value[V_X].host, 0, sizeof first);
    ops[0].weight[0] = &w;
    assert_int_equal(b.device->ops->reserve(b.device, &list, ROWS, ROWS, CTX, &err), 0);
    run(&b);
    assert_memory_equal(first, b.value[V_X].host, sizeof first);
    ops[0].weight[0] = &weights[W_EMBED];
    b.device->ops->release(b.device, &w);
    close_bench(&b);
}

/* A damaged copy is used only where nobody reads it before the pass: in place, unchecked. */
static void stored_copies_are_checked_where_they_are_read(void **state)
{
    struct pool *pool;
    struct device *d;
    const struct pool_settings ps = {.n_thread = 3};
    const struct cpu_device_settings set = {.isa = cpu_isa()};
    (void)state;
    assert_int_equal(pool_open(&pool, &ps, NULL), 0);
    assert_int_equal(cpu_device_open(&d, pool, &set, NULL), 0);
    for (int i = 0; i < N_WEIGHTS; i++) {
        struct weight w = weights[i];
        struct packed_view good, v;
        bool keeps;
        assert_int_equal(d->ops->prepare(d, &w, &keeps, NULL), 0);
        assert_true(d->extras->packed(d, &w, &good));
        uint8_t *stored = aligned_alloc(64, (good.bytes + 63) / 64 * 64);
        for (int round = 0; round < 8; round++) {
            struct weight from = weights[i];
            memset(from.held, 0, sizeof from.held);
            bool damaged = round & 1;
            from.stored_sum = hash_parts(good.data, good.bytes);
            from.stored = memcpy(stored, good.data, good.bytes);
            from.copy_stored = round & 2, from.check_stored = round & 4;
            if (damaged) stored[good.bytes - 1 - (size_t)i * 64] ^= 0x10;
            assert_int_equal(d->ops->prepare(d, &from, &keeps, NULL), 0);
            assert_true(d->extras->packed(d, &from, &v));
            bool told = damaged && round > 1;
            assert_ptr_equal(from.stored, told ? NULL : stored);
            assert_true((v.data == stored) == (from.stored && !from.copy_stored));
            if (v.data != stored) assert_memory_equal(v.data, good.data, good.bytes);
            d->ops->release(d, &from);
        }
        d->ops->release(d, &w);
        free(stored);
    }
    d->ops->close(d);
    pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stored_copies_are_checked_where_they_are_read),
        cmocka_unit_test(levels_agree_with_reference), cmocka_unit_test(threads_give_the_same_bits),
        cmocka_unit_test(rows_do_not_know_their_batch), cmocka_unit_test(head_reports_what_is_wanted),
        cmocka_unit_test(cancelling_stops_the_pass), cmocka_unit_test(refuses_with_the_reason),
        cmocka_unit_test(gather_only_keeps_its_source)};
    return cmocka_run_group_tests_name("cpu/device", tests, make_model, free_model);
}
