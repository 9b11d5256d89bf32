/* SPDX-License-Identifier: MIT
 *
 * Products on the GPU for every weight type that it has: against the reference; bit for bit against what the class
 * promises, which for class i8x32 are the CPU's; and a row alone against the same row among others.
 */
#include "unit/gpu/gpu_fixture.h"

#include <math.h>
#include <string.h>

#include "base/cpuinfo.h"
#include "cpu/device.h"
#include "ops/ref/ref.h"
#include "quant/quant.h"

enum { MOST_IN = 1024, MOST_OUT = 80, MOST_ROWS = 40 };

struct product {
    struct device *d;
    struct op op;
    struct op_list list;
    struct weight weight;
    struct row row[MOST_ROWS];
    struct kv_view kv;
    struct batch batch;
    struct buffer value[2];
    struct pass_args pass;
    float bias[MOST_OUT];
    void *rows; /* the weight's bytes begin at an odd place, as files have them */
};

static float noise(uint32_t i, uint32_t seed)
{
    uint32_t x = i * 0x9e3779b1u ^ seed * 0x85ebca77u;
    x ^= x >> 15, x *= 0x2c1b3c6du, x ^= x >> 12, x *= 0x297a2d39u, x ^= x >> 15;
    return (float)(x >> 8) * 0x1p-23f - 1;
}

static void open_weight(struct product *p, enum quant_type type, int n_in, int n_out, size_t skew)
{
    const struct quant_info *q = quant_info_of(type);
    size_t row_bytes;
    float x[MOST_IN];
    assert_int_equal(quant_row_bytes(type, n_in, &row_bytes), 0);
    p->rows = malloc(row_bytes * (size_t)n_out + skew);
    uint8_t *data = (uint8_t *)p->rows + skew, *aligned = aligned_alloc(64, (row_bytes + 63) / 64 * 64);
    for (int o = 0; o < n_out; o++) {
        for (int i = 0; i < n_in; i++) x[i] = noise((uint32_t)(o * n_in + i), 7) * (i % 37 == 5 ? 4 : 1);
        q->quantize(x, aligned, (size_t)n_in);
        memcpy(data + (size_t)o * row_bytes, aligned, row_bytes);
    }
    free(aligned);
    p->weight = (struct weight){
        .use = WEIGHT_MATMUL, .tensor = {"w", type, 2, {n_in, n_out, 1, 1}, data, row_bytes * (size_t)n_out}};
}

static void open_product(
    struct product *p, struct device *d, enum quant_type type, int n_in, int n_out, int n_row, bool bias)
{
    struct lutra_error err = {0};
    bool keeps;
    memset(p, 0, sizeof *p);
    p->d = d;
    open_weight(p, type, n_in, n_out, type == QUANT_F32 ? 0 : 2);
    for (int o = 0; o < n_out; o++) p->bias[o] = noise((uint32_t)o, 3);
    p->op = op_make(OP_MATMUL, 0, 0, -1, -1);
    op_add_part(&p->op, &p->weight, bias ? p->bias : NULL, 1);
    p->list = (struct op_list){.op = &p->op, .n_op = 1, .n_value = 2, .value = {{n_in, ROWS_ALL}, {n_out, ROWS_ALL}}};
    p->batch = (struct batch){.row = p->row, .n_row = n_row};
    p->pass = (struct pass_args){.batch = &p->batch, .kv = &p->kv, .value = p->value};
    if (d->ops->prepare(d, &p->weight, &keeps, &err) < 0) fail_msg("%s", err.what);
    if (d->ops->reserve(d, &p->list, n_row, 1, KV_BLOCK, &err) < 0) fail_msg("%s", err.what);
    assert_int_equal(d->memory->load(d, &p->list, &err), 0);
    for (int v = 0; v < 2; v++) {
        size_t bytes = sizeof(float) * (size_t)n_row * (size_t)p->list.value[v].dim;
        assert_int_equal(d->ops->buffer_alloc(d, bytes, &p->value[v], &err), 0);
    }
    float *x = p->value[0].host;
    for (int i = 0; i < n_row * n_in; i++) x[i] = noise((uint32_t)i, 11) * (i % 61 == 7 ? 30 : 1);
}

static void close_product(struct product *p)
{
    p->d->memory->unload(p->d, &p->list);
    for (int v = 0; v < 2; v++) p->d->ops->buffer_free(p->d, &p->value[v]);
    p->d->ops->release(p->d, &p->weight);
    free(p->rows);
}

static void run(struct product *p, int n_row)
{
    struct lutra_error err = {0};
    struct segment segment = {.op = &p->op, .n_op = 1, .list = &p->list, .pass = &p->pass};
    struct ticket ticket;
    p->batch.n_row = n_row;
    if (p->d->ops->submit(p->d, &segment, NULL, 0, &ticket, &err) < 0) fail_msg("%s", err.what);
    if (p->d->ops->wait(p->d, &ticket, &err) < 0) fail_msg("%s", err.what);
}

/* ---- what the classes promise ---- */

/* gpu-f32: weights as floats; per input, ascending, one fused multiply-add, or a product and a sum where the driver has
 * no fused one. */
static float chain(const float *w, const float *x, int n_in, bool fused)
{
    volatile float product;
    float sum = 0;
    for (int i = 0; i < n_in; i++) {
        product = w[i] * x[i];
        sum = fused ? fmaf(w[i], x[i], sum) : sum + product;
    }
    return sum;
}

static void dequantize(const struct product *p, int o, float *out)
{
    const struct tensor *t = &p->weight.tensor;
    size_t row_bytes = t->bytes / (size_t)t->ne[1];
    static uint64_t aligned[MOST_IN];
    memcpy(aligned, (const uint8_t *)t->data + (size_t)o * row_bytes, row_bytes);
    quant_info_of(t->type)->dequantize(aligned, out, (size_t)t->ne[0]);
}

static int count_other_bits(const struct product *p, const float *got, int n_row, bool fused)
{
    int n_in = p->list.value[0].dim, n_out = p->list.value[1].dim, n_other = 0;
    float w[MOST_IN];
    for (int o = 0; o < n_out; o++) {
        dequantize(p, o, w);
        for (int r = 0; r < n_row; r++) {
            float want = chain(w, (const float *)p->value[0].host + r * n_in, n_in, fused);
            if (p->op.matmul.bias[0]) want += p->bias[o];
            n_other += memcmp(&want, &got[r * n_out + o], sizeof want) != 0;
        }
    }
    return n_other;
}

static void check_bits(const struct product *p, const float *got, int n_row)
{
    int fused = count_other_bits(p, got, n_row, true), apart = count_other_bits(p, got, n_row, false);
    if (fused && apart)
        fail_msg("%s, %d x %d: %d or %d elements are not those of their chain", quant_type_name(p->weight.tensor.type),
            p->list.value[1].dim, p->list.value[0].dim, fused, apart);
}

static void check_reference(const struct product *p, const float *got, int n_row, double bound)
{
    static float want[MOST_ROWS * MOST_OUT];
    int n_out = p->list.value[1].dim;
    double error = 0, sum = 0;
    ref_matmul(&p->weight.tensor, p->op.matmul.bias[0], p->value[0].host, want, n_row);
    for (int i = 0; i < n_row * n_out; i++) {
        error += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        sum += (double)want[i] * want[i];
    }
    if (!(error <= bound * bound * sum))
        fail_msg("%s: off by %g of its size", quant_type_name(p->weight.tensor.type), sqrt(error / sum));
}

static bool has_groups_of_32(enum quant_type type)
{
    const struct quant_info *q = quant_info_of(type);
    return q->block_elems >= 32 && q->block_elems < QUANT_SUPER;
}

/* The same product by the CPU's kernels. */
static void run_on_cpu(const struct product *gpu, struct pool *pool, int n_row, float *out)
{
    struct lutra_error err = {0};
    struct product p = *gpu;
    struct ticket ticket;
    bool keeps;
    assert_int_equal(cpu_device_open(&p.d, pool, &(struct cpu_device_settings){.isa = cpu_isa()}, &err), 0);
    memset(p.weight.held, 0, sizeof p.weight.held);
    p.op.weight[0] = &p.weight;
    p.list.op = &p.op;
    p.value[1] = (struct buffer){.host = out, .bytes = gpu->value[1].bytes};
    p.batch.n_row = n_row;
    p.pass.batch = &p.batch;
    p.pass.value = p.value;
    assert_int_equal(p.d->ops->prepare(p.d, &p.weight, &keeps, &err), 0);
    assert_int_equal(p.d->ops->reserve(p.d, &p.list, n_row, 1, KV_BLOCK, &err), 0);
    struct segment segment = {.op = &p.op, .n_op = 1, .list = &p.list, .pass = &p.pass};
    assert_int_equal(p.d->ops->submit(p.d, &segment, NULL, 0, &ticket, &err), 0);
    p.d->ops->release(p.d, &p.weight);
    p.d->ops->close(p.d);
}

static void check_cpu_bits(const struct product *p, struct pool *pool, const float *got, int n_row)
{
    static float want[MOST_ROWS * MOST_OUT];
    int n_out = p->list.value[1].dim;
    run_on_cpu(p, pool, n_row, want);
    for (int i = 0; i < n_row * n_out; i++)
        if (memcmp(&got[i], &want[i], sizeof *got))
            fail_msg("%s: output %d of row %d is %.9g, the CPU's %.9g", quant_type_name(p->weight.tensor.type),
                i % n_out, i / n_out, got[i], want[i]);
}

/* ---- shapes ---- */

static void check_shape(
    struct device *d, struct pool *pool, enum quant_type type, int n_in, int n_out, int n_row, bool bias)
{
    static float all[MOST_ROWS * MOST_OUT];
    struct product p;
    size_t row = sizeof(float) * (size_t)n_out;
    const bool i8 = has_groups_of_32(type);
    open_product(&p, d, type, n_in, n_out, n_row, bias);
    run(&p, n_row);
    memcpy(all, p.value[1].host, row * (size_t)n_row);
    check_reference(&p, all, n_row, i8 ? 6e-2 : 2e-6);
    if (!i8)
        check_bits(&p, all, n_row);
    else if (cpu_isa())
        check_cpu_bits(&p, pool, all, n_row);
    for (int n = 1; n < n_row; n = 3 * n + 2) { /* the same rows among fewer others */
        memset(p.value[1].host, 0xff, p.value[1].bytes);
        run(&p, n);
        assert_memory_equal(p.value[1].host, all, row * (size_t)n);
        assert_int_equal(((uint32_t *)p.value[1].host)[n * n_out], 0xffffffff);
    }
    close_product(&p);
}

static const enum quant_type types[] = {QUANT_F32, QUANT_F16, QUANT_BF16, QUANT_Q4_0, QUANT_Q4_1, QUANT_Q5_0,
    QUANT_Q5_1, QUANT_Q8_0, QUANT_IQ4_NL, QUANT_MXFP4, QUANT_Q1_0, QUANT_Q2_0, QUANT_Q2_K, QUANT_Q3_K, QUANT_Q4_K,
    QUANT_Q5_K, QUANT_Q6_K, QUANT_IQ4_XS, QUANT_TQ2_0};

static void products_have_the_bits_of_their_class(void **state)
{
    struct lutra_error err = {0};
    struct device *d = gpu_open();
    struct pool *pool;
    (void)state;
    assert_int_equal(pool_open(&pool, &(struct pool_settings){.n_thread = 1}, &err), 0);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        int block = (int)quant_info_of(types[t])->block_elems;
        check_shape(d, pool, types[t], block, 1, 1, false);
        check_shape(d, pool, types[t], block * (300 / block), 33, 3, true);
        check_shape(d, pool, types[t], block * (128 / block + 1), 80, 40, true);
        if (block == 1) check_shape(d, pool, types[t], 77, 31, 5, false);
    }
    char line[128];
    assert_true(d->extras->report(d, 2, line, sizeof line));
    print_message("%s\n", line);
    pool_close(&pool);
    d->ops->close(d);
}

int main(void)
{
    gpu_need();
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_have_the_bits_of_their_class)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
