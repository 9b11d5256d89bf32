/* SPDX-License-Identifier: MIT
 *
 * The engine's plans on a phone: by class of rows as long as counted by hand, the rows and outputs of every piece, and
 * plans that processors cannot run.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/report.h"

static struct soc_profile gen3;
static struct sim_shape llama;

static int open_case(void **state)
{
    struct lutra_error err;
    (void)state;
    if (soc_profile_open(&gen3, "8gen3", &err) || sim_shape_named(&llama, "Llama-8B", "w4", &err))
        fail_msg("%s", err.what);
    return 0;
}

static struct sim_question ask(enum sim_plan plan, int rows)
{
    return (struct sim_question){.profile = &gen3,
        .shape = &llama,
        .plan = plan,
        .rows = rows,
        .n_out = 1,
        .device = {SIM_NPU, SIM_GPU},
        .n_device = 2};
}

static struct sim_result answer(const struct sim_question *q)
{
    struct sim_result r;
    struct lutra_error err;
    if (sim_pass(q, &r, &err)) fail_msg("%s", err.what);
    return r;
}

static double figure(enum soc_figure f)
{
    return sim_figure(&gen3, f, SIM_MIDDLE);
}

/* ---- by hand ---- */

struct matrix {
    int k, n;
};

/* Weights of one operation, one after the other; both processors read them. */
static double product(enum sim_device d, const struct matrix *m, int n, int rows, bool both)
{
    double us = 0;
    for (int i = 0; rows && i < n; i++) {
        const double floor_us = both ? 2 * (double)m[i].k * m[i].n / 2 / 1e3 / figure(SOC_TWO_GBS) : 0;
        us += fmax(sim_product_us(&gen3, false, SIM_MIDDLE, d, m[i].k, m[i].n, 4, rows, 1), floor_us);
    }
    return us;
}

static double moved(double halves)
{
    return 2 * halves / 1e3 / figure(SOC_ONE_GBS);
}

/* A layer on NPU and GPU: blocks and others at the same time, the rest on the GPU.  The host waits once before a
 * product and once behind it, but between the gate and ffn_down: each processor has made its own rows' inputs. */
static double layer_us(int blocks, int others)
{
    const struct matrix m[4][2] = {{{4096, 6144}}, {{4096, 4096}}, {{4096, 14336}, {4096, 14336}}, {{14336, 4096}}};
    const double n = blocks + others, seen = n * (n + 1) / 2, sync = round(figure(SOC_FAST_SYNC_US));
    const double rope = moved(2 * n * 6144), flop_rate = 2e6 * 256 / figure(SOC_GPU_US_256);
    const double attention = fmax(moved(2 * n * 1024), 4 * seen * 4096 / flop_rate), add_norm = moved(5 * n * 4096);
    double us = rope + attention + 2 * add_norm, npu[4], gpu[4];
    for (int i = 0; i < 4; i++) {
        const int weights = i == 2 ? 2 : 1;
        const double swiglu = i == 2 ? moved(3 * 14336) : 0;
        npu[i] = product(SIM_NPU, m[i], weights, blocks, others > 0) + blocks * swiglu;
        gpu[i] = product(SIM_GPU, m[i], weights, others, blocks > 0) + others * swiglu;
    }
    if (!blocks) return us + gpu[0] + gpu[1] + gpu[2] + gpu[3];
    for (int i = 0; i < 2; i++) us += fmax(npu[i] + sync, gpu[i]) + sync;
    return us + fmax(npu[2] + npu[3] + sync, gpu[2] + gpu[3]) + sync;
}

static void takes_as_long_as_by_hand(void **state)
{
    static const int rows[] = {1, 20, 33, 135, 300, 525, 1000, 1024};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sim_shape few = llama;
        struct sim_question q = ask(SIM_CLASS, rows[i]);
        double us[2];
        for (int n = 0; n < 2; n++) {
            few.n_layer = n ? 40 : 20;
            q.shape = &few;
            us[n] = answer(&q).us.middle;
        }
        /* the last row is wanted: no row of a block */
        const int others = rows[i] % 32 ? rows[i] % 32 : 1;
        const double layer = (us[1] - us[0]) / 20, hand = layer_us(rows[i] - others, others);
        if (fabs(layer / hand - 1) > 0.001) fail_msg("%d rows: a layer of %g us, by hand %g", rows[i], layer, hand);
    }
}

/* Layers that are left out take as long as those that are run. */
static void deep_models_are_as_many_layers(void **state)
{
    (void)state;
    for (int plan = SIM_ONE; plan < SIM_PLANS; plan++) {
        struct sim_question q = ask((enum sim_plan)plan, 300);
        struct sim_shape few = llama;
        double us[6];
        q.shape = &few;
        for (few.n_layer = 1; few.n_layer < 6; few.n_layer++) us[few.n_layer] = answer(&q).us.middle;
        for (int n = 3; n < 6; n++) assert_true(fabs(us[n] - us[n - 1] - (us[2] - us[1])) < 8); /* whole us */
    }
}

/* The solver's law and the executor's agree where both have the plan. */
static void the_gpu_alone_is_the_gpu_alone(void **state)
{
    static const int rows[] = {1, 64, 1000, 5000};
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct sim_question q = ask(SIM_ONE, rows[i]);
        q.device[0] = SIM_GPU, q.n_device = 1, q.beside = i, q.beside_past = 500;
        const struct sim_result one = answer(&q);
        q.plan = SIM_GPU_ONLY;
        const struct sim_result gpu = answer(&q);
        if (fabs(one.us.middle / gpu.us.middle - 1) > 0.01 || fabs(one.mj.middle / gpu.mj.middle - 1) > 0.02)
            fail_msg("%d rows: %g us, %g mJ, not %g, %g", rows[i], one.us.middle, one.mj.middle, gpu.us.middle,
                gpu.mj.middle);
    }
}

/* ---- pieces ---- */

/* Sums of a product's pieces: rows of blocks on each processor, others, and parts of the blocks. */
struct seen {
    int blocks[SIM_UNITS], others[SIM_UNITS], part[SIM_UNITS], n;
};

static struct seen see(const struct sim_result *r, const char *name)
{
    struct seen s = {0};
    for (int i = 0; i < SIM_ENTRIES; i++) {
        const struct sim_op *op = &r->op[i];
        if (!op->of || !strstr(op->name, name)) continue;
        s.n++;
        for (int d = 0; d < SIM_UNITS; d++) {
            if (!op->choice.us[d]) continue;
            if (op->of[0] == 'b') s.blocks[d] = op->choice.rows[d], s.part[d] = op->choice.part[d];
            if (op->of[0] == 'o') s.others[d] = op->choice.rows[d];
        }
    }
    return s;
}

static void rows_go_where_their_class_says(void **state)
{
    static const int rows[] = {1000, 1024, 31, 1}, blocks[] = {992, 1023, 0, 0};
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int beside = 0; beside <= 8; beside += 8)
            for (int plan = SIM_CLASS; plan <= SIM_HYBRID; plan++) {
                struct sim_question q = ask((enum sim_plan)plan, rows[i]);
                q.beside = beside, q.beside_past = 100;
                const struct sim_result r = answer(&q);
                const struct seen s = see(&r, "down");
                assert_int_equal(s.blocks[SIM_NPU], blocks[i]);
                assert_int_equal(s.others[SIM_GPU], rows[i] - blocks[i] + beside);
                assert_int_equal(s.others[SIM_NPU], 0);
                if (blocks[i]) assert_int_equal(s.part[SIM_NPU] + s.part[SIM_GPU], SIM_GRID);
                if (blocks[i]) assert_true((s.part[SIM_GPU] > 0) == (plan == SIM_HYBRID));
                if (!blocks[i]) assert_true(r.busy_us[SIM_NPU].middle == 0);
            }
    /* Decoding has no blocks, and three processors share those of a prompt. */
    struct sim_question q = ask(SIM_HYBRID, 1000);
    q.device[2] = SIM_CPU, q.n_device = 3;
    struct sim_result r = answer(&q);
    struct seen s = see(&r, "down");
    assert_true(s.part[SIM_CPU] > 0 && s.part[SIM_NPU] + s.part[SIM_GPU] + s.part[SIM_CPU] == SIM_GRID);
    assert_true(s.others[SIM_CPU] == 8 && s.others[SIM_GPU] == 0 && s.n == 4);
    q.many = true, q.rows = q.n_out = 16, q.past = 1000;
    r = answer(&q);
    assert_true(r.busy_us[SIM_NPU].middle == 0 && r.busy_us[SIM_CPU].middle > 0 && r.busy_us[SIM_GPU].middle > 0);
}

static void beside_sequences_cost_something(void **state)
{
    (void)state;
    for (int plan = SIM_FREE; plan < SIM_PLANS; plan++) {
        struct sim_question q = ask((enum sim_plan)plan, 1000);
        const double alone = answer(&q).us.middle;
        q.beside = 8, q.beside_past = 1000;
        if (!(answer(&q).us.middle > alone)) fail_msg("%s: eight sequences cost nothing", sim_plan_name(q.plan));
    }
}

/* By the driver a wait takes 400 us, and what others wrote is copied. */
static void slow_hand_overs_wait_and_copy(void **state)
{
    struct sim_question q = ask(SIM_CLASS, 1000);
    struct soc_profile quick = gen3;
    (void)state;
    const struct sim_result fast = answer(&q);
    q.slow_sync = true;
    const double slow = answer(&q).us.middle;
    quick.figure[SOC_COPY_GBS].low *= 1e3, quick.figure[SOC_COPY_GBS].high *= 1e3;
    q.profile = &quick;
    const double waits = answer(&q).us.middle, each = (waits - fast.us.middle) / fast.hand_overs;
    const double most = figure(SOC_SYNC_US) - figure(SOC_FAST_SYNC_US);
    assert_true(fast.hand_overs >= 6 * llama.n_layer && each > most / 2 && each < most * 2);
    /* Blocks alone: what the GPU makes for qkv, o and gate, up; what it takes of qkv, o and down. */
    const double halves = 992. * (4096 + 6144 + 4096 + 4096 + 4096 + 4096),
                 copied = 2 * halves * llama.n_layer / 1e3 / figure(SOC_COPY_GBS);
    if (fabs((slow - waits) / copied - 1) > 0.02) fail_msg("copies of %g us, by hand %g", slow - waits, copied);
}

static void refused_by_name(void **state)
{
    struct sim_question q = ask(SIM_CLASS, 100);
    struct sim_result r;
    struct lutra_error err = {0};
    (void)state;
    q.n_device = 1;
    assert_int_equal(sim_pass(&q, &r, &err), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "'class' needs two processors"));
    q.plan = SIM_ONE;
    assert_int_equal(sim_pass(&q, &r, &err), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "sim.npu: graphs of products have no rms_norm"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(takes_as_long_as_by_hand),
        cmocka_unit_test(deep_models_are_as_many_layers), cmocka_unit_test(the_gpu_alone_is_the_gpu_alone),
        cmocka_unit_test(rows_go_where_their_class_says), cmocka_unit_test(beside_sequences_cost_something),
        cmocka_unit_test(slow_hand_overs_wait_and_copy), cmocka_unit_test(refused_by_name)};
    return cmocka_run_group_tests(tests, open_case, NULL);
}
