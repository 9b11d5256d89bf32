/* SPDX-License-Identifier: MIT
 *
 * Static graphs of a phone's NPU under the real executor [SDNPU 4.2]: how many passes of blocks each graph computes,
 * what is loaded and waited for, and that switching during a prompt ends no later than switching behind it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "phone/device.h"
#include "sched/waits.h"
#include "unit/sched/clocked_world.h"

enum { BLOCKS = CLOCKED_LAYERS, SUBS = GRAPHS_MANY / GRAPHS_FEW };

static struct soc_profile gen3;
static struct clocked_world world;
static struct virtual_time now;
static struct kv_row seen[CLOCKED_ROWS];
static struct kv_view view = {.row = seen};
static struct device *gpu, *npu;
static struct plan plan;
static struct waits waits;

/* Files are read at so many MB/s. */
static void open_phone(enum sim_graphs graphs, double mbs)
{
    struct lutra_error err = {.what = ""};
    if (soc_profile_open(&gen3, "8gen3", &err)) fail_msg("%s", err.what);
    gen3.figure[SOC_STORAGE_MBS] = (struct npu_interval){mbs, mbs};
    struct sim_device_settings s = {
        .profile = &gen3, .kind = SIM_GPU, .end = SIM_MIDDLE, .graphs = graphs, .time = &now};
    now.now_us = 0;
    clocked_open(&world, 1);
    for (int i = 0; i < world.list.n_op; i++)
        for (int k = 0; k < world.list.op[i].n_weight; k++) {
            struct tensor *t = &world.list.op[i].weight[k]->tensor;
            t->bytes = (size_t)(t->ne[0] * t->ne[1] / 2);
        }
    for (int r = 0; r < CLOCKED_ROWS; r++) seen[r].n_paged = r + 1;
    world.pass.kv = &view;
    assert_int_equal(sim_device_open(&gpu, &s, &err), 0);
    s.kind = SIM_NPU;
    assert_int_equal(sim_device_open(&npu, &s, &err), 0);
    assert_int_equal(npu->caps.max_rows, graphs == SIM_GRAPHS_ALL ? 4096 : GRAPHS_MANY);
    struct device *d[] = {npu, gpu};
    if (plan_open(&plan, &world.list, d, 2, &err)) fail_msg("%s", err.what);
    for (int i = 0; i < 2; i++) assert_int_equal(d[i]->ops->reserve(d[i], &world.list, CLOCKED_ROWS, 1, 512, &err), 0);
    waits_init(&waits, clock_virtual(&now), WAIT_PREDICT);
}

static void close_phone(void)
{
    gpu->ops->close(gpu);
    npu->ops->close(npu);
}

static void run(int n_row, int n_ahead)
{
    struct lutra_error err = {.what = ""};
    world.batch.n_row = n_row, world.pass.n_ahead = n_ahead;
    if (plan_run(&plan, &world.pass, &waits, NULL, &err)) fail_msg("%s", err.what);
}

static void run_prompt(int n_chunk)
{
    for (int c = 0; c < n_chunk; c++) run(GRAPHS_MANY, (n_chunk - 1 - c) * GRAPHS_MANY);
}

static const struct graphs_count *count(void)
{
    return sim_device_graphs(npu, &world.list);
}

/* us until a prompt of n_chunk chunks is evaluated and all graphs for what follows are there. */
static double prompt_us(enum sim_graphs graphs, double mbs, int n_chunk, struct graphs_count *c)
{
    open_phone(graphs, mbs);
    run_prompt(n_chunk);
    double us = (double)now.now_us;
    run(1, 0);
    if (count()) {
        *c = *count();
        us = fmax(us, (double)c->loaded_us);
    }
    close_phone();
    return us;
}

static void every_pass_is_counted(void **state)
{
    static const double mbs[] = {100, 400, 1600, 6400};
    int n_mixed = 0;
    (void)state;
    for (int n_chunk = 1; n_chunk <= 16; n_chunk *= 2)
        for (int i = 0; i < 4; i++) {
            struct graphs_count sync, early, none = {0};
            const double all = prompt_us(SIM_GRAPHS_ALL, mbs[i], n_chunk, &none);
            const double late = prompt_us(SIM_GRAPHS_SYNCHRONOUS, mbs[i], n_chunk, &sync);
            const double best = prompt_us(SIM_GRAPHS_PROGRESSIVE, mbs[i], n_chunk, &early);
            assert_int_equal(none.n_prompt, 0);
            assert_int_equal(sync.many, BLOCKS * n_chunk); /* nothing switches before the prompt ends */
            assert_int_equal(sync.few + sync.runs, 0);
            assert_int_equal(early.many + early.few, BLOCKS * n_chunk);
            assert_int_equal(early.runs, early.few * SUBS);
            assert_int_equal(sync.decoding, BLOCKS);
            assert_int_equal(early.decoding, BLOCKS);
            assert_true(early.n_prompt == 1 && sync.n_prompt == 1);
            /* Each graph is loaded once, and half a byte per weight. */
            double bytes = 0;
            for (int k = 0; k < world.list.n_op; k++)
                for (int p = 0; world.op[k].kind == OP_MATMUL && p < world.op[k].n_weight; p++)
                    bytes += (double)world.op[k].weight[p]->tensor.bytes;
            assert_true(fabs(sync.load_us / (bytes / mbs[i]) - 1) < 1e-9);
            assert_true(fabs(early.load_us - sync.load_us) < 1e-6);
            /* Loads behind the prompt are waited for. */
            assert_true((double)sync.wait_us <= sync.load_us + BLOCKS);
            assert_true(late >= all && best >= 0.98 * all);
            if (best > late * 1.02) fail_msg("%d chunks, %g MB/s: %g us, %g behind", n_chunk, mbs[i], best, late);
            assert_true(early.predicted_us <= early.synchronous_us);
            n_mixed += early.many > 0 && early.few > 0;
            if (n_chunk == 16 && mbs[i] == 1600) { /* 16 chunks hide the loads of a fast disk */
                assert_true((double)early.wait_us < 0.1 * early.load_us);
                assert_true(best < late - 0.5 * sync.load_us);
            }
        }
    assert_true(n_mixed >= 4);
}

/* The definition of a switch: it begins behind the block's last chunk under the old graph, and nothing of the block
 * computes before it ends. */
static void a_block_waits_for_its_graph(void **state)
{
    struct graphs g;
    struct lutra_error err = {.what = ""};
    (void)state;
    clocked_open(&world, 1);
    assert_true(graphs_open(&g, &world.list));
    assert_int_equal(g.cost.n_block, BLOCKS);
    assert_true(graphs_begin(&g, 256, 256));
    for (int b = 0; b < BLOCKS; b++) g.cost.prefill_us[b] = 10, g.cost.decode_us[b] = 15, g.cost.load_us[b] = 40;
    assert_int_equal(graphs_prompt(&g, 0, &err), 0);
    assert_int_equal(g.cost.n_chunk, 2);
    struct blocks_problem p = g.cost;
    const double expected = blocks_time(&p, &g.plan).us;
    uint64_t at = 0;
    for (int c = 0; c < 2; c++) {
        if (c) assert_false(graphs_begin(&g, 256, 0));
        for (int b = 0; b < BLOCKS; b++) {
            int runs;
            if (at < g.block[b].ready_us) at = g.block[b].ready_us;
            assert_int_equal(graphs_rows(&g, b, 256, &runs), c < g.plan.before[b] ? GRAPHS_MANY : GRAPHS_FEW);
            assert_int_equal(runs, c < g.plan.before[b] ? 1 : SUBS);
            at += runs == 1 ? 10 : 15;
            graphs_computed(&g, g.block[b].last, 1, 256, at);
        }
    }
    const uint64_t end = at > g.count.loaded_us ? at : g.count.loaded_us;
    assert_int_equal(end, (uint64_t)expected);
    for (int b = 0; b < BLOCKS; b++) assert_true(g.block[b].few);
    assert_false(graphs_begin(&g, 1, 0)); /* a decoding pass is no prompt */
    assert_true(graphs_begin(&g, 40, 0)); /* a few rows more are */
}

static void a_second_prompt_gets_the_faster_graphs(void **state)
{
    (void)state;
    open_phone(SIM_GRAPHS_PROGRESSIVE, 1e6); /* loads that take nothing */
    run_prompt(2);
    run(1, 0);
    const struct graphs_count first = *count();
    run_prompt(4);
    assert_int_equal(count()->n_prompt, 2);
    assert_true(count()->load_us > first.load_us && count()->many > first.many); /* back, and again to few */
    run(1, 0);
    close_phone();
    open_phone(SIM_GRAPHS_PROGRESSIVE, 1); /* loads that take for ever */
    run_prompt(2);
    run(1, 0);
    const struct graphs_count slow = *count();
    run_prompt(4);
    assert_int_equal(count()->few - slow.few, 4 * BLOCKS);
    assert_true(count()->load_us == slow.load_us && count()->many == slow.many);
    close_phone();
}

/* A prompt that is cancelled leaves no block with the graph for many rows. */
static void what_was_begun_ends(void **state)
{
    (void)state;
    open_phone(SIM_GRAPHS_PROGRESSIVE, 400);
    run(GRAPHS_MANY, 15 * GRAPHS_MANY);
    run(1, 0); /* the rest never comes */
    const struct graphs_count c = *count();
    assert_true(c.load_us > 0);
    for (int i = 0; i < 20; i++) run(1, 0);
    assert_int_equal(count()->decoding - c.decoding, 20 * BLOCKS);
    assert_true(count()->load_us == c.load_us);
    close_phone();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pass_is_counted),
        cmocka_unit_test(a_block_waits_for_its_graph), cmocka_unit_test(a_second_prompt_gets_the_faster_graphs),
        cmocka_unit_test(what_was_begun_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
