/* SPDX-License-Identifier: MIT
 *
 * A gated feed-forward of the CPU device: run as one where nobody sees what lies between (bulk rows), it leaves the
 * bits that its operations leave one by one.  Only AMX has kernels for bulk rows; elsewhere plain loops take their
 * place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpuinfo.h"
#include "cpu/device_impl.h"
#include "quant/quant.h"
#include "unit/ops/kv_fixture.h"
#include "sanitized.h"

enum { ROWS = 600 };
enum { V_IN, V_GATE, V_UP, V_OUT, V_SEEN, N_VALUES };
enum { W_GATE, W_UP, W_DOWN, N_WEIGHTS };

/* ---- a class for bulk rows: activations as they are, [n_in][n_row] ---- */

static size_t loop_act_bytes(size_t n_in, size_t n_row)
{
    return (n_in * n_row * sizeof(float) + 63) & ~(size_t)63;
}

static void loop_act_row(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    (void)row_max;
    for (size_t k = 0; k < n_in; k++) ((float *)act)[k * n_row + row] = x[k];
}

/* Output o of a weight for all rows. */
static void loop_output(const struct cpu_gemm_args *a, const void *packed, const float *bias, size_t o, float *sum)
{
    float w[2048];
    a->gemm->unpack_row(a->gemm, packed, a->n_out, a->n_in, o, w);
    for (size_t r = 0; r < a->n_row; r++) sum[r] = 0;
    for (size_t k = 0; k < a->n_in; k++)
        for (size_t r = 0; r < a->n_row; r++) sum[r] += w[k] * ((const float *)a->act)[k * a->n_row + r];
    for (size_t r = 0; bias && r < a->n_row; r++) sum[r] += bias[o];
}

static void loop_run(const struct cpu_gemm_args *a)
{
    size_t first = a->panel * (size_t)a->gemm->mr, last = first + a->n_panel * (size_t)a->gemm->mr;
    float sum[ROWS], up[ROWS];
    for (size_t o = first; o < last && o < a->n_out; o++) {
        loop_output(a, a->packed, a->bias, o, sum);
        if (a->gate) loop_output(a, a->gate->packed, a->gate->bias, o, up);
        for (size_t r = 0; r < a->n_row && !a->gate; r++) a->out[r * a->out_stride + o - first] = sum[r];
        for (size_t r = 0; r < a->n_row && a->gate; r++)
            a->gate->f(&sum[r], &up[r], 1, (float *)a->gate->act + o * a->n_row + r);
    }
}

static void add_loops(struct device *d, enum quant_type type)
{
    struct cpu_kernels *k = &((struct cpu_device *)d)->kernels;
    if (k->bulk[type].run || type == QUANT_F16) return;
    k->bulk[type] = k->gemm[type];
    k->bulk[type].act_bytes = loop_act_bytes;
    k->bulk[type].act_row = loop_act_row;
    k->bulk[type].run = loop_run;
    k->bulk[type].run_few = NULL;
    k->bulk[type].unit_panels = 4;
    k->bulk[type].takes_gate = true;
}

/* ---- the device ---- */

/* The operations, their weights, and a device that has them. */
struct bench {
    struct pool *pool;
    struct device *device;
    struct weight weight[N_WEIGHTS];
    float *bias; /* [d_ff] */
    int d, d_ff;
    struct op op[4];
    struct op_list list;
    struct row row[ROWS];
    struct buffer value[N_VALUES];
};

static void make_weight(struct bench *b, int i, enum quant_type type, int n_out, int n_in)
{
    const struct quant_info *q = quant_info_of(type);
    size_t n = (size_t)n_out * (size_t)n_in;
    float *x = malloc(n * sizeof *x);
    for (size_t e = 0; e < n; e++) x[e] = 0.15f * fixture_noise((uint32_t)e, (uint32_t)i, 3);
    struct tensor *t = &b->weight[i].tensor;
    *t = (struct tensor){.name = "w", .type = q->type, .n_dim = 2, .ne = {n_in, n_out, 1, 1}};
    t->bytes = n / q->block_elems * q->block_bytes;
    void *data = malloc(t->bytes);
    q->quantize(x, data, n);
    t->data = data;
    b->weight[i].use = WEIGHT_MATMUL;
    free(x);
}

static void make_ops(struct bench *b, enum op_kind gate)
{
    b->op[0] = op_make(OP_MATMUL, 0, V_IN, -1, -1);
    op_add_part(&b->op[0], &b->weight[W_GATE], NULL, V_GATE);
    op_add_part(&b->op[0], &b->weight[W_UP], b->bias, V_UP);
    b->op[1] = op_make(gate, 0, V_GATE, V_UP, V_GATE);
    b->op[2] = op_make(OP_MATMUL, 0, V_GATE, -1, -1);
    op_add_part(&b->op[2], &b->weight[W_DOWN], NULL, V_OUT);
    b->op[3] = op_make(OP_ADD, 0, V_GATE, V_UP, V_SEEN); /* sees both */
    b->list = (struct op_list){.op = b->op, .n_value = N_VALUES, .d_model = b->d};
    for (int i = 0; i < N_VALUES; i++)
        b->list.value[i] = (struct value){i == V_IN || i == V_OUT ? b->d : b->d_ff, ROWS_ALL};
}

static void open_bench(struct bench *b, enum quant_type type, enum quant_type up, int d, int d_ff, int threads)
{
    struct lutra_error err = {0};
    bool keeps;
    *b = (struct bench){.d = d, .d_ff = d_ff, .bias = malloc((size_t)d_ff * sizeof(float))};
    for (int i = 0; i < d_ff; i++) b->bias[i] = fixture_noise((uint32_t)i, 1, 1);
    make_weight(b, W_GATE, type, d_ff, d);
    make_weight(b, W_UP, up, d_ff, d);
    make_weight(b, W_DOWN, type, d, d_ff);
    assert_int_equal(pool_open(&b->pool, &(struct pool_settings){.n_thread = threads, .all = true}, &err), 0);
    assert_int_equal(cpu_device_open(&b->device, b->pool, &(struct cpu_device_settings){.isa = cpu_isa()}, &err), 0);
    add_loops(b->device, type);
    add_loops(b->device, up);
    for (int i = 0; i < N_WEIGHTS; i++)
        assert_int_equal(b->device->ops->prepare(b->device, &b->weight[i], &keeps, &err), 0);
    make_ops(b, OP_SWIGLU);
    b->list.n_op = 4;
    assert_int_equal(b->device->ops->reserve(b->device, &b->list, ROWS, 1, 1, &err), 0);
    for (int i = 0; i < N_VALUES; i++) {
        size_t bytes = sizeof(float) * ROWS * (size_t)b->list.value[i].dim;
        assert_int_equal(b->device->ops->buffer_alloc(b->device, bytes, &b->value[i], &err), 0);
    }
    float *x = b->value[V_IN].host;
    for (int i = 0; i < ROWS * d; i++) x[i] = 3 * fixture_noise((uint32_t)i, 7, 7);
}

static void close_bench(struct bench *b)
{
    for (int i = 0; i < N_VALUES; i++) b->device->ops->buffer_free(b->device, &b->value[i]);
    for (int i = 0; i < N_WEIGHTS; i++) {
        b->device->ops->release(b->device, &b->weight[i]);
        free((void *)(uintptr_t)b->weight[i].tensor.data);
    }
    b->device->ops->close(b->device);
    pool_close(&b->pool);
    free(b->bias);
}

/* The first n_op operations, as all of a model, on n rows. */
static void run(struct bench *b, enum op_kind gate, int n_op, int n)
{
    struct lutra_error err = {0};
    struct ticket ticket;
    struct batch batch = {.row = b->row, .n_row = n};
    struct pass_args pass = {.batch = &batch, .value = b->value};
    make_ops(b, gate);
    b->list.n_op = n_op;
    assert_int_equal(b->device->ops->reserve(b->device, &b->list, ROWS, 1, 1, &err), 0);
    struct segment segment = {.op = b->op, .n_op = n_op, .list = &b->list, .pass = &pass};
    for (int i = V_GATE; i < N_VALUES; i++) memset(b->value[i].host, 0x5a, b->value[i].bytes);
    int rc = b->device->ops->submit(b->device, &segment, NULL, 0, &ticket, &err);
    if (rc < 0) fail_msg("submit: %s", err.what);
}

static bool was_written(const struct bench *b, int value, int row)
{
    int dim = b->list.value[value].dim;
    const uint32_t *x = (const uint32_t *)b->value[value].host + (size_t)row * (size_t)dim;
    for (int i = 0; i < dim; i++)
        if (x[i] == 0x5a5a5a5a) return false;
    return true;
}

/* Rows whose class changes at every place of `at`, beginning with ordinary ones; at the end of it every 2 rows, if it
 * says so. */
static void set_classes(struct bench *b, const int *at, int n)
{
    bool bulk = false;
    for (int r = 0, i = 0; r < n; r++) {
        for (; at[i] == r; i++) bulk = !bulk;
        if (at[i] < 0 && r % 2 == 0) bulk = !bulk;
        b->row[r].want = bulk ? ROW_BULK : 0;
    }
}

static const struct {
    int n, at[6]; /* at: 0 ends it, -1 likewise, and classes change every 2 rows from there */
    bool together;
} BATCH[] = {{1, {0, ROWS}, true}, {130, {0, ROWS}, true}, {64, {0, 63, ROWS}, true}, {600, {0, 599, ROWS}, true},
    {115, {5, 69, 76, 109, ROWS}, true}, {50, {0, 17, 18, 49, ROWS}, true}, {90, {-1}, false}, {40, {ROWS}, false}};

static void compare(struct bench *b, enum op_kind gate, bool may)
{
    size_t bytes = b->value[V_OUT].bytes;
    uint8_t *apart = malloc(bytes);
    for (size_t i = 0; i < sizeof BATCH / sizeof *BATCH; i++) {
        int n = BATCH[i].n;
        bool together = BATCH[i].together && may;
        set_classes(b, BATCH[i].at, n);
        run(b, gate, 4, n);
        memcpy(apart, b->value[V_OUT].host, bytes);
        for (int r = 0; r < n; r++) assert_true(was_written(b, V_UP, r) && was_written(b, V_SEEN, r));
        run(b, gate, 3, n);
        assert_memory_equal(b->value[V_OUT].host, apart, bytes);
        for (int r = 0; r < n; r++) assert_int_equal(was_written(b, V_UP, r), !(together && b->row[r].want & ROW_BULK));
    }
    free(apart);
}

static void same_bits_together_and_apart(void **state)
{
    static const struct {
        enum quant_type type, up;
        int d, d_ff, threads;
    } SHAPE[] = {{QUANT_Q4_0, QUANT_Q4_0, 96, 1056, 1}, {QUANT_Q4_0, QUANT_Q4_0, 544, 480, 3},
        {QUANT_Q5_1, QUANT_Q5_1, 64, 96, 2}, {QUANT_Q6_K, QUANT_Q6_K, 256, 768, 2},
        {QUANT_Q4_0, QUANT_Q8_0, 96, 480, 2}, {QUANT_F16, QUANT_F16, 64, 96, 2}};
    static const enum op_kind GATE[] = {OP_SWIGLU, OP_GEGLU, OP_RELU2};
    (void)state;
    for (size_t i = 0; i < sizeof SHAPE / sizeof *SHAPE; i += SANITIZED ? 3 : 1) {
        struct bench b;
        open_bench(&b, SHAPE[i].type, SHAPE[i].up, SHAPE[i].d, SHAPE[i].d_ff, SHAPE[i].threads);
        bool may = SHAPE[i].type == SHAPE[i].up && SHAPE[i].type != QUANT_F16;
        for (int k = 0; k < (SANITIZED ? 1 : 3); k++) compare(&b, GATE[k], may);
        close_bench(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits_together_and_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
