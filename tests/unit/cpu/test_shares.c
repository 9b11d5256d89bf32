/* SPDX-License-Identifier: MIT
 *
 * Shares of products and gates: computed in parts, by one device or by an asynchronous one beside it, every element has
 * the bits that it has where one device runs the whole operation; and nothing else is written.
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
#include "quant/quant.h"
#include "sanitized.h"
#include "unit/ops/kv_fixture.h"

enum { ROWS = 300, OUT_MOST = 512, IN = 256, CUTS = SANITIZED ? 10 : 60, CUTS_LONG = 200, SHARES = 3, DEVICES = 3 };
enum { ROW_MOST = 2048, CUTS_MOST = 20 }; /* with LUTRA_TEST_LONG=1 */
enum { V_IN, V_GATE, V_UP, V_OUT, N_VALUES };

struct bench {
    struct pool *pool[DEVICES];
    struct device *device[DEVICES]; /* those behind [0] are asynchronous and use its weights */
    int rows;                       /* at most, as many each time where it is ROW_MOST */
    struct weight weight[2];
    struct op op[2];
    struct op_list list;
    struct row row[ROW_MOST];
    struct batch batch;
    struct buffer value[N_VALUES];
    struct pass_args pass;
    uint32_t seed;
};

static int n_cuts(void)
{
    return getenv("LUTRA_TEST_LONG") ? CUTS_LONG : CUTS;
}

static uint32_t below(struct bench *b, uint32_t n)
{
    b->seed = b->seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)b->seed * n) >> 32);
}

static void make_weight(struct bench *b, int i, enum quant_type type, int n_out)
{
    const struct quant_info *q = quant_info_of(type);
    size_t n = (size_t)n_out * IN;
    assert_non_null(q->quantize);
    float *x = malloc(n * sizeof *x);
    for (size_t e = 0; e < n; e++) x[e] = 0.15f * fixture_noise((uint32_t)e, (uint32_t)i + b->seed, 3);
    struct tensor *t = &b->weight[i].tensor;
    b->weight[i] = (struct weight){.use = WEIGHT_MATMUL};
    *t = (struct tensor){.name = "w", .type = q->type, .n_dim = 2, .ne = {IN, n_out, 1, 1}};
    t->bytes = n / q->block_elems * q->block_bytes;
    void *data = malloc(t->bytes);
    q->quantize(x, data, n);
    t->data = data;
    free(x);
}

static void open_devices_of(struct bench *b, int rows)
{
    struct lutra_error err = {0};
    memset(b, 0, sizeof *b);
    b->rows = rows;
    for (int i = 0; i < DEVICES; i++) {
        struct cpu_device_settings set = {.isa = cpu_isa(), .store = b->device[0], .async = i > 0};
        assert_int_equal(pool_open(&b->pool[i], &(struct pool_settings){.n_thread = 2, .all = true}, &err), 0);
        assert_int_equal(cpu_device_open(&b->device[i], b->pool[i], &set, &err), 0);
    }
    for (int v = 0; v < N_VALUES; v++) {
        size_t bytes = sizeof(float) * (size_t)rows * (v == V_IN ? IN : OUT_MOST);
        assert_int_equal(b->device[0]->ops->buffer_alloc(b->device[0], bytes, &b->value[v], &err), 0);
    }
    float *x = b->value[V_IN].host;
    for (int i = 0; i < rows * IN; i++) x[i] = 3 * fixture_noise((uint32_t)i, 7, 7);
}

static void open_devices(struct bench *b)
{
    open_devices_of(b, ROWS);
}

static void close_devices(struct bench *b)
{
    for (int v = 0; v < N_VALUES; v++) b->device[0]->ops->buffer_free(b->device[0], &b->value[v]);
    for (int i = DEVICES - 1; i >= 0; i--) {
        b->device[i]->ops->close(b->device[i]);
        pool_close(&b->pool[i]);
    }
}

static void make_list(struct bench *b, int n_out)
{
    b->op[0] = op_make(OP_MATMUL, 0, V_IN, -1, -1);
    op_add_part(&b->op[0], &b->weight[0], NULL, V_GATE);
    op_add_part(&b->op[0], &b->weight[1], NULL, V_UP);
    b->op[1] = op_make(OP_SWIGLU, 0, V_GATE, V_UP, V_OUT);
    b->list = (struct op_list){.op = b->op, .n_op = 2, .n_value = N_VALUES, .d_model = IN};
    for (int v = 0; v < N_VALUES; v++) b->list.value[v] = (struct value){v == V_IN ? IN : n_out, ROWS_ALL};
    for (int i = 0; i < DEVICES; i++)
        assert_int_equal(b->device[i]->ops->reserve(b->device[i], &b->list, b->rows, 1, 1, NULL), 0);
}

/* Some blocks of a prompt in bulk between other rows. */
static void make_pass(struct bench *b, int n_row)
{
    b->batch = (struct batch){.row = b->row, .n_row = n_row, .bulk = 32};
    for (int r = 0; r < n_row; r++) b->row[r] = (struct row){.pos = r, .parent = r - 1};
    for (int at = (int)below(b, 40); at + 32 <= n_row; at += 32 + (int)below(b, 3) * 16)
        for (int r = at; r < at + 32; r++) b->row[r].want = ROW_BULK;
    b->pass = (struct pass_args){.batch = &b->batch, .value = b->value};
}

static void run(struct bench *b, int device, struct share share, struct ticket *ticket)
{
    struct segment s = {b->op, 2, &b->list, &b->pass, share, 0};
    struct device *d = b->device[device];
    assert_int_equal(d->ops->submit(d, &s, NULL, 0, ticket, NULL), 0);
}

static void run_shares(struct bench *b)
{
    int n = 2 + (int)below(b, SHARES - 1), from = 0;
    struct ticket ticket[SHARES];
    int of[SHARES];
    for (int i = 0; i < n; i++) {
        int to = i == n - 1 ? SHARE_WHOLE : from + (int)below(b, (uint32_t)(SHARE_WHOLE - from));
        of[i] = (int)below(b, DEVICES);
        if (to > from)
            run(b, of[i], (struct share){.from = (int16_t)from, .to = (int16_t)to}, &ticket[i]);
        else
            ticket[i] = (struct ticket){b->device[of[i]], 0};
        from = to;
    }
    for (int i = 0; i < n; i++) {
        assert_int_equal(b->device[of[i]]->ops->wait(b->device[of[i]], &ticket[i], NULL), 0);
        assert_true(b->device[of[i]]->ops->done(b->device[of[i]], &ticket[i]));
    }
}

static void fill(struct bench *b)
{
    for (int v = V_GATE; v < N_VALUES; v++) memset(b->value[v].host, 0x7f, b->value[v].bytes);
}

static void check_cut(struct bench *b, enum quant_type type)
{
    static float whole[3][ROW_MOST * OUT_MOST];
    int n_out = 32 * (1 + (int)below(b, OUT_MOST / 32)),
        n_row = 1 + (int)below(b, below(b, 4) ? 12 : (uint32_t)b->rows);
    if (b->rows == ROW_MOST) n_row = ROW_MOST;
    bool keeps;
    for (int i = 0; i < 2; i++) {
        make_weight(b, i, type, n_out);
        assert_int_equal(b->device[0]->ops->prepare(b->device[0], &b->weight[i], &keeps, NULL), 0);
    }
    make_list(b, n_out);
    make_pass(b, n_row);
    struct ticket ticket;
    fill(b);
    run(b, 0, (struct share){0}, &ticket);
    for (int v = V_GATE; v < N_VALUES; v++) memcpy(whole[v - V_GATE], b->value[v].host, b->value[v].bytes);
    fill(b);
    run_shares(b);
    for (int v = V_GATE; v < N_VALUES; v++)
        if (memcmp(whole[v - V_GATE], b->value[v].host, b->value[v].bytes))
            fail_msg("%s: %d outputs, %d rows: other bits in value %d", quant_info_of(type)->name, n_out, n_row, v);
    for (int i = 0; i < 2; i++) {
        b->device[0]->ops->release(b->device[0], &b->weight[i]);
        free((void *)b->weight[i].tensor.data);
    }
}

/* A device that has some outputs computes those with the bits of the whole; when it is to have all, what it has is not
 * packed again: the source of that is gone. */
static void check_slice(struct bench *b, struct device *d, enum quant_type type)
{
    static float whole[3][ROWS * OUT_MOST];
    int n_out = 32 * (2 + (int)below(b, OUT_MOST / 32 - 1)), n_row = 1 + (int)below(b, below(b, 4) ? 12 : ROWS);
    int from = (int)below(b, SHARE_WHOLE - 1), to = from + 1 + (int)below(b, (uint32_t)(SHARE_WHOLE - from));
    const struct share share = {.from = (int16_t)from, .to = (int16_t)to};
    const struct columns own = share_columns(share, n_out);
    struct ticket ticket;
    bool keeps;
    for (int i = 0; i < 2; i++) {
        make_weight(b, i, type, n_out);
        assert_int_equal(b->device[0]->ops->prepare(b->device[0], &b->weight[i], &keeps, NULL), 0);
        if (own.n == 0) continue;
        assert_int_equal(weight_give(&b->weight[i], d, own, NULL), 0);
        assert_int_equal(d->ops->prepare(d, &b->weight[i], &keeps, NULL), 0);
        const struct held *all = weight_held(&b->weight[i], b->device[0]), *some = weight_held(&b->weight[i], d);
        assert_true(some->has.first == own.first && some->has.n == own.n);
        assert_true(some->bytes < all->bytes || own.n == n_out);
    }
    make_list(b, n_out);
    assert_int_equal(d->ops->reserve(d, &b->list, ROWS, 1, 1, NULL), 0);
    make_pass(b, n_row);
    run(b, 0, (struct share){0}, &ticket);
    for (int v = V_GATE; v < N_VALUES; v++) memcpy(whole[v - V_GATE], b->value[v].host, b->value[v].bytes);
    struct segment s = {b->op, 2, &b->list, &b->pass, share, 0};
    fill(b);
    if (own.n) assert_int_equal(d->ops->submit(d, &s, NULL, 0, &ticket, NULL), 0);
    for (int v = V_GATE; v < N_VALUES; v++)
        for (int r = 0; r < n_row; r++) {
            const size_t at = (size_t)r * (size_t)n_out + (size_t)own.first;
            if (memcmp(whole[v - V_GATE] + at, (float *)b->value[v].host + at, (size_t)own.n * sizeof(float)))
                fail_msg("%s: outputs %d to %d of %d: other bits in value %d", quant_info_of(type)->name,
                    (int)own.first, (int)(own.first + own.n), n_out, v);
        }
    s.share = (struct share){0};
    if (own.n && own.n < n_out) assert_int_equal(d->ops->submit(d, &s, NULL, 0, &ticket, NULL), LUTRA_E_ARGUMENT);
    for (int i = 0; own.n && own.n < n_out && i < 2; i++) {
        struct tensor *t = &b->weight[i].tensor;
        size_t row = t->bytes / (size_t)n_out;
        memset((uint8_t *)t->data + (size_t)own.first * row, 0, (size_t)own.n * row);
        assert_int_equal(weight_give(&b->weight[i], d, (struct columns){0, n_out}, NULL), 0);
        assert_int_equal(d->ops->prepare(d, &b->weight[i], &keeps, NULL), 0);
    }
    fill(b);
    if (own.n) assert_int_equal(d->ops->submit(d, &s, NULL, 0, &ticket, NULL), 0);
    for (int v = V_GATE; own.n && v < N_VALUES; v++)
        if (memcmp(whole[v - V_GATE], b->value[v].host, sizeof(float) * (size_t)n_row * (size_t)n_out))
            fail_msg("%s: %d outputs of which %d were there: other bits in value %d", quant_info_of(type)->name, n_out,
                (int)own.n, v);
    for (int i = 0; i < 2; i++) {
        b->device[0]->ops->release(b->device[0], &b->weight[i]);
        d->ops->release(d, &b->weight[i]);
        free((void *)b->weight[i].tensor.data);
    }
}

static void slices_have_the_bits_of_the_whole(void **state)
{
    static struct bench b;
    static const enum quant_type types[] = {
        QUANT_F32, QUANT_F16, QUANT_BF16, QUANT_Q4_0, QUANT_Q4_1, QUANT_Q8_0, QUANT_Q2_K, QUANT_Q4_K, QUANT_Q6_K};
    const struct cpu_device_settings set = {.isa = cpu_isa(), .name = "other"};
    struct device *d;
    (void)state;
    open_devices(&b);
    assert_int_equal(cpu_device_open(&d, b.pool[0], &set, NULL), 0);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int i = 0; i < n_cuts() / 2; i++) check_slice(&b, d, types[t]);
    d->ops->close(d);
    close_devices(&b);
}

static void any_cut_has_the_bits_of_the_whole(void **state)
{
    static struct bench b;
    static const enum quant_type types[] = {QUANT_F32, QUANT_F16, QUANT_BF16, QUANT_Q4_0, QUANT_Q4_1, QUANT_Q8_0,
        QUANT_Q2_K, QUANT_Q3_K, QUANT_Q4_K, QUANT_Q5_K, QUANT_Q6_K, QUANT_TQ2_0};
    (void)state;
    open_devices(&b);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int i = 0; i < n_cuts(); i++) check_cut(&b, types[t]);
    close_devices(&b);
    if (!getenv("LUTRA_TEST_LONG")) return;
    open_devices_of(&b, ROW_MOST);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int i = 0; i < CUTS_MOST; i++) check_cut(&b, types[t]);
    close_devices(&b);
}

/* A failure of an asynchronous segment is told at its wait, or that of one behind it, once. */
static void a_failure_is_told_once(void **state)
{
    static struct bench b;
    struct lutra_error err = {0};
    struct ticket first, second;
    bool keeps;
    (void)state;
    open_devices(&b);
    for (int i = 0; i < 2; i++) {
        make_weight(&b, i, QUANT_Q4_0, 64);
        assert_int_equal(b.device[0]->ops->prepare(b.device[0], &b.weight[i], &keeps, NULL), 0);
    }
    make_list(&b, 64);
    make_pass(&b, 5);
    struct pass_args wide = b.pass;
    struct batch many = {.row = b.row, .n_row = ROWS + 1};
    wide.batch = &many;
    struct segment bad = {b.op, 2, &b.list, &wide, {0}, 0}, good = {b.op, 2, &b.list, &b.pass, {0}, 0};
    struct device *d = b.device[1];
    assert_int_equal(d->ops->submit(d, &bad, NULL, 0, &first, &err), 0);
    assert_int_equal(d->ops->submit(d, &good, &first, 1, &second, &err), 0);
    assert_int_equal(d->ops->wait(d, &second, &err), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(err.what, "301 rows"));
    assert_int_equal(d->ops->wait(d, &second, &err), 0);
    assert_int_equal(d->ops->wait(d, &first, &err), 0);
    for (int i = 0; i < 200; i++) assert_int_equal(d->ops->submit(d, &good, NULL, 0, &second, &err), 0);
    assert_int_equal(d->ops->wait(d, &second, &err), 0);
    for (int i = 0; i < 2; i++) {
        b.device[0]->ops->release(b.device[0], &b.weight[i]);
        free((void *)b.weight[i].tensor.data);
    }
    close_devices(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(slices_have_the_bits_of_the_whole),
        cmocka_unit_test(any_cut_has_the_bits_of_the_whole), cmocka_unit_test(a_failure_is_told_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
