/* SPDX-License-Identifier: MIT
 *
 * Products that the NPU and the CPU share by outputs: every element has the bits that it has where its device runs the
 * whole operation, whoever stands first; each device has prepared its outputs only.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "devices/devices.h"
#include "npu/host/device_impl.h"
#include "npu/host/session.h"
#include "quant/quant.h"
#include "sanitized.h"
#include "sched/plan.h"
#include "unit/ops/kv_fixture.h"

enum { ROWS = 40, IN_MOST = 256, OUT_MOST = 384, CUTS = 12, CUTS_LONG = 200 };
enum { V_IN, V_GATE, V_UP, V_ACT, V_DOWN, V_LAST, N_VALUES };
enum { W_GATE, W_UP, W_DOWN, W_LAST, N_WEIGHTS, N_OPS = 5 };

struct bench {
    struct device_set set;
    struct clock clock;
    struct device *device[2]; /* in the plan's order */
    struct weight part[N_WEIGHTS], all[N_WEIGHTS];
    struct op op[N_OPS], op_all[N_OPS];
    struct op_list list, list_all;
    struct plan_cut cut[N_OPS];
    struct plan plan;
    struct row row[ROWS];
    struct batch batch;
    struct kv_view kv;
    struct buffer value[N_VALUES];
    struct step step;
    float bias[OUT_MOST], want[N_VALUES][ROWS * OUT_MOST];
    uint32_t seed;
    uint64_t ran_until_us;
};

static struct lutra_error err;
#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) < 0) fail_msg("%s", err.what);                                                                      \
    } while (0)

static uint32_t below(struct bench *b, uint32_t n)
{
    b->seed = b->seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)b->seed * n) >> 32);
}

static void make_weight(struct bench *b, int i, enum quant_type type, int n_in, int n_out)
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

static void make_list(struct bench *b, struct weight *w, struct op *op, struct op_list *list)
{
    const int n_in = (int)w[W_GATE].tensor.ne[0], n_out = (int)w[W_GATE].tensor.ne[1];
    op[0] = op_make(OP_MATMUL, 0, V_IN, -1, -1);
    op_add_part(&op[0], &w[W_GATE], b->bias, V_GATE);
    op_add_part(&op[0], &w[W_UP], NULL, V_UP);
    op[1] = op_make(OP_SWIGLU, 0, V_GATE, V_UP, V_ACT);
    op[2] = op_make(OP_MATMUL, 0, V_ACT, -1, -1);
    op_add_part(&op[2], &w[W_DOWN], NULL, V_DOWN);
    op[3] = op_make(OP_ADD, 0, V_DOWN, V_IN, V_DOWN);
    op[4] = op_make(OP_MATMUL, 0, V_DOWN, -1, -1);
    op_add_part(&op[4], &w[W_LAST], b->bias, V_LAST);
    *list = (struct op_list){.op = op, .n_op = N_OPS, .n_value = N_VALUES, .d_model = n_in};
    const int dim[N_VALUES] = {n_in, n_out, n_out, n_out, n_in, n_out};
    for (int v = 0; v < N_VALUES; v++) list->value[v] = (struct value){dim[v], ROWS_ALL};
}

static size_t bytes_of(const struct bench *b, int v)
{
    return sizeof(float) * (size_t)b->batch.n_row * (size_t)b->list.value[v].dim;
}

/* It says when the segment ran: behind the one before. */
static void check_ran(struct bench *b, struct device *d, const struct ticket *ticket)
{
    uint64_t begin_us, end_us;
    assert_true(d->extras->ran(d, ticket, &begin_us, &end_us));
    assert_true(b->ran_until_us <= begin_us && begin_us <= end_us && end_us <= clock_now_us(b->clock));
    b->ran_until_us = end_us;
}

/* What a device makes of a whole operation with the inputs in `want`, into the values' own memory. */
static void run_whole(struct bench *b, struct device *d, int i)
{
    const struct op *op = &b->op_all[i];
    struct segment s = {.op = op, .n_op = 1, .list = &b->list_all, .step = &b->step};
    struct ticket ticket;
    for (int v = 0; v < N_VALUES; v++) {
        const int dim = b->list.value[v].dim;
        memcpy(b->value[v].host, b->want[v], bytes_of(b, v));
        if (d->memory) d->memory->acquire(d, &b->value[v], (struct area){{0, dim}, dim, b->batch.n_row});
    }
    OK(d->ops->submit(d, &s, NULL, 0, &ticket, &err));
    OK(d->ops->wait(d, &ticket, &err));
    if (ticket.id) check_ran(b, d, &ticket);
    for (int k = 0; k < op->n_out && d->memory; k++) {
        const int dim = b->list.value[op->out[k]].dim;
        OK(d->memory->publish(d, &b->value[op->out[k]], (struct area){{0, dim}, dim, b->batch.n_row}, &err));
    }
}

/* Operation by operation: from each device the columns of its share. */
static void find_wanted(struct bench *b)
{
    static float now[OP_OUTS][ROWS * OUT_MOST];
    for (int i = 0; i < N_OPS; i++) {
        for (int p = 0; p < b->plan.n_piece; p++) {
            const struct plan_piece *piece = &b->plan.piece[p];
            if (i < piece->first || i >= piece->first + piece->n) continue;
            run_whole(b, b->plan.device[piece->device], i);
            for (int k = 0; k < b->op[i].n_out; k++) {
                const int v = b->op[i].out[k], dim = b->list.value[v].dim;
                const struct columns own = share_columns(piece->share, dim);
                for (int r = 0; r < b->batch.n_row; r++)
                    memcpy(now[k] + r * dim + own.first, (float *)b->value[v].host + r * dim + own.first,
                        (size_t)own.n * sizeof(float));
            }
        }
        for (int k = 0; k < b->op[i].n_out; k++) memcpy(b->want[b->op[i].out[k]], now[k], bytes_of(b, b->op[i].out[k]));
    }
}

static void prepare(struct weight *w)
{
    bool keeps;
    for (int i = 0; i < WEIGHT_HOLDERS; i++)
        if (w->held[i].device) OK(w->held[i].device->ops->prepare(w->held[i].device, w, &keeps, &err));
}

/* Whether each device has its share of the outputs, and nothing more. */
static void check_held(const struct bench *b)
{
    for (int i = 0; i < N_WEIGHTS; i++) {
        int64_t sum = 0;
        for (int k = 0; k < WEIGHT_HOLDERS; k++) sum += b->part[i].held[k].has.n;
        assert_int_equal(sum, b->part[i].tensor.ne[1]);
    }
}

static void open_case(struct bench *b, enum quant_type type)
{
    const uint32_t block = quant_info_of(type)->block_elems > 64 ? 256 : 64;
    const int n_in = (int)(block * (1 + below(b, IN_MOST / block))),
              n_out = 32 * (2 + (int)below(b, OUT_MOST / 32 - 1));
    const int n_hidden = (int)block * ((n_out + (int)block - 1) / (int)block);
    b->batch = (struct batch){.row = b->row, .n_row = 1 + (int)below(b, below(b, 3) ? 5 : ROWS)};
    make_weight(b, W_GATE, type, n_in, n_hidden > OUT_MOST ? (int)block : n_hidden);
    const int n_act = (int)b->part[W_GATE].tensor.ne[1];
    make_weight(b, W_UP, type, n_in, n_act);
    make_weight(b, W_DOWN, type, n_act, n_in);
    make_weight(b, W_LAST, type, n_in, n_act);
    make_list(b, b->part, b->op, &b->list);
    make_list(b, b->all, b->op_all, &b->list_all);
    for (int i = 0; i < N_OPS; i++) {
        b->cut[i] = (struct plan_cut){.n = 2, .device = {b->device[0], b->device[1]}};
        for (int d = 0; d < 2; d++) b->cut[i].part[d] = (float)(1 + below(b, 7));
    }
    OK(plan_open_cut(&b->plan, &b->list, b->device, 2, b->cut, &err));
    OK(plan_give_weights(&b->plan, &err));
    for (int i = 0; i < N_WEIGHTS; i++) {
        prepare(&b->part[i]);
        for (int d = 0; d < 2; d++)
            OK(weight_give(&b->all[i], b->device[d], (struct columns){0, b->all[i].tensor.ne[1]}, &err));
        prepare(&b->all[i]);
    }
    check_held(b);
    for (int d = 0; d < 2; d++) {
        struct device *of = b->device[d];
        OK(of->ops->reserve(of, &b->list, ROWS, 1, 64, &err));
        OK(of->ops->reserve(of, &b->list_all, ROWS, 1, 64, &err));
        if (!of->memory) continue;
        OK(of->memory->load(of, &b->list, &err));
        OK(of->memory->load(of, &b->list_all, &err));
        for (int v = 0; v < N_VALUES; v++) OK(of->memory->join(of, NULL, &b->value[v], &err));
    }
}

static void close_case(struct bench *b)
{
    for (int d = 0; d < 2; d++) {
        struct device *of = b->device[d];
        for (int v = 0; of->memory && v < N_VALUES; v++) of->memory->leave(of, &b->value[v]);
        if (of->memory) of->memory->unload(of, &b->list), of->memory->unload(of, &b->list_all);
        if (of->extras && of->extras->forget) of->extras->forget(of, &b->list), of->extras->forget(of, &b->list_all);
        for (int i = 0; i < N_WEIGHTS; i++) of->ops->release(of, &b->part[i]), of->ops->release(of, &b->all[i]);
    }
    for (int i = 0; i < N_WEIGHTS; i++) free((void *)b->part[i].tensor.data);
}

/* A row of massive activations makes the NPU scale it where it lies: others still read it. */
static void fill(struct bench *b)
{
    float *x = b->want[V_IN];
    const int n = b->batch.n_row * b->list.value[V_IN].dim;
    for (int i = 0; i < n; i++) x[i] = 3 * fixture_noise((uint32_t)i, 7, b->seed);
    for (int i = 0; below(b, 2) && i < b->list.value[V_IN].dim; i++) x[i] *= 300;
    for (int r = 0; r < b->batch.n_row; r++) b->row[r] = (struct row){.pos = r, .parent = r - 1};
}

static void check_case(struct bench *b, enum quant_type type)
{
    open_case(b, type);
    b->kv = (struct kv_view){.type = {QUANT_F16, QUANT_F16}};
    b->step = (struct step){.batch = &b->batch, .kv = &b->kv, .value = b->value};
    fill(b);
    find_wanted(b);
    for (int v = 0; v < N_VALUES; v++) {
        if (v != V_IN) memset(b->value[v].host, 0x7f, b->value[v].bytes);
    }
    memcpy(b->value[V_IN].host, b->want[V_IN], bytes_of(b, V_IN));
    OK(plan_run(&b->plan, &b->step, NULL, NULL, &err));
    for (int v = 0; v < N_VALUES; v++) {
        if (v == V_ACT) continue; /* nobody reads it any more: the NPU has scaled its massive rows */
        OK(plan_share(&b->plan, &b->step, v, &err));
        const int dim = b->list.value[v].dim;
        for (int i = 0; i < b->batch.n_row * dim; i++)
            if (memcmp(&b->want[v][i], (float *)b->value[v].host + i, sizeof(float)))
                fail_msg("%s, %s first, %d rows: value %d: column %d of %d of row %d is %g, not %g",
                    quant_info_of(type)->name, b->device[0]->name, b->batch.n_row, v, i % dim, dim, i / dim,
                    (double)((float *)b->value[v].host)[i], (double)b->want[v][i]);
    }
    close_case(b);
}

static bool has_qemu(void)
{
    struct npu_transport *npu;
    struct npu_transport_settings set = {.program = NPU_PROGRAM, .memory_bytes = 1 << 20};
    int rc = npu_child_open(&npu, &set, &err);
    npu_transport_close(&npu);
    return rc == 0;
}

static void open_bench(struct bench *b, const char *devices)
{
    struct lutra_runtime_settings set;
    memset(b, 0, sizeof *b);
    lutra_runtime_settings_init(&set, sizeof set);
    set.device = devices, set.n_threads = 2, set.npu_window_bytes = 32 << 20, set.npu_program = NPU_PROGRAM;
    b->clock = clock_real();
    OK(device_set_open(&b->set, &set, &b->clock, &err));
    for (int d = 0; d < 2; d++) b->device[d] = b->set.device[d];
    for (int v = 0; v < N_VALUES; v++)
        OK(b->set.cpu->ops->buffer_alloc(b->set.cpu, sizeof(float) * ROWS * OUT_MOST, &b->value[v], &err));
    for (int i = 0; i < OUT_MOST; i++) b->bias[i] = fixture_noise((uint32_t)i, 3, 5);
}

static void close_bench(struct bench *b)
{
    for (int v = 0; v < N_VALUES; v++) b->set.cpu->ops->buffer_free(b->set.cpu, &b->value[v]);
    device_set_close(&b->set);
}

static void any_cut_has_the_bits_of_its_devices(void **state)
{
    static struct bench b;
    static const char *const devices[] = {"npu-sim,cpu", "cpu,npu-sim", "npu-sim:bitplane,cpu", "cpu,npu-sim:lookup"};
    static const enum quant_type types[] = {QUANT_Q4_0, QUANT_Q8_0, QUANT_F16, QUANT_Q4_1, QUANT_Q4_K, QUANT_TQ2_0};
    const int cuts = getenv("LUTRA_TEST_LONG") ? CUTS_LONG : SANITIZED ? 1 : CUTS;
    (void)state;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        open_bench(&b, devices[d]);
        b.seed = (uint32_t)d;
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int i = 0; i < cuts; i++) check_case(&b, types[t]);
        close_bench(&b);
    }
}

/* The NPU's program has answered all that was sent, and nobody has waited for it. */
static void await_answers(struct device *npu)
{
    struct npu_session *s = (struct npu_session *)((struct npu_device *)npu)->window[0].link;
    struct npu_ring *ring = s->ring.view.ring;
    uint64_t give_up_us = clock_now_us(clock_real()) + 120 * 1000000ull;
    while (__atomic_load_n(&ring->npu.answered, __ATOMIC_ACQUIRE) != (uint32_t)s->ring.sent) {
        if (clock_now_us(clock_real()) > give_up_us) fail_msg("the NPU stands still while nobody waits for it");
        clock_sleep_until(clock_real(), clock_now_us(clock_real()) + 1000);
    }
}

/* Products by tiles on the NPU end while the host computes: QEMU's tile unit is the host's. */
static void an_npu_goes_on_while_nobody_waits(void **state)
{
    static struct bench b;
    struct ticket ticket;
    (void)state;
    if (!has_qemu()) {
        print_message("skipped: %s\n", err.what);
        skip();
    }
    open_bench(&b, "npu-qemu,cpu");
    do {
        open_case(&b, QUANT_Q4_0);
        if (b.batch.n_row < 32) close_case(&b); /* no tiles */
    } while (b.batch.n_row < 32);
    b.kv = (struct kv_view){.type = {QUANT_F16, QUANT_F16}};
    b.step = (struct step){.batch = &b.batch, .kv = &b.kv, .value = b.value};
    fill(&b);
    memcpy(b.value[V_IN].host, b.want[V_IN], bytes_of(&b, V_IN));
    const struct plan_piece *piece = &b.plan.piece[0];
    struct device *npu = b.plan.device[piece->device];
    struct segment s = {.op = b.op, .n_op = 1, .list = &b.list, .step = &b.step, .share = piece->share};
    assert_string_equal(npu->name, "npu-qemu");
    const int dim = b.list.value[V_IN].dim;
    npu->memory->acquire(npu, &b.value[V_IN], (struct area){{0, dim}, dim, b.batch.n_row});
    OK(npu->ops->submit(npu, &s, NULL, 0, &ticket, &err));
    await_answers(npu);
    OK(npu->ops->wait(npu, &ticket, &err));
    close_case(&b);
    close_bench(&b);
}

static void a_cpu_that_nobody_named_shares_nothing(void **state)
{
    static struct bench b;
    (void)state;
    for (int named = 0; named < 2; named++) {
        open_bench(&b, named ? "npu-sim,cpu" : "npu-sim");
        assert_ptr_equal(b.device[1], b.set.cpu);
        assert_int_equal(plan_devices_differ(b.device, 2), named);
        assert_int_equal(plan_cut_evenly(b.device, 2).n, 1 + named);
        close_bench(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_npu_goes_on_while_nobody_waits),
        cmocka_unit_test(any_cut_has_the_bits_of_its_devices),
        cmocka_unit_test(a_cpu_that_nobody_named_shares_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
