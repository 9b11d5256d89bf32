/* SPDX-License-Identifier: MIT
 *
 * A phone's processors under the real executor: the same plan, timeline and counts as doubles with those times; as long
 * as a pass of phone.h says; and the values of the device inside.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sched/waits.h"
#include "phone/device.h"
#include "sim/report.h"
#include "unit/sched/clocked_world.h"

enum { ROUNDS = 60, WHOLE = 20, JOBS = 512 };

static struct soc_profile gen3;

static int open_profile(void **state)
{
    struct lutra_error err;
    (void)state;
    if (soc_profile_open(&gen3, "8gen3", &err)) fail_msg("%s", err.what);
    return 0;
}

/* ---- doubles that know each operation's time from a table ---- */

struct twin {
    struct device device;
    struct virtual_time *time;
    double us[CLOCKED_OPS][WHOLE + 1]; /* by part of its outputs */
    uint64_t sync_us, begin_us[JOBS], end_us[JOBS];
    int first[JOBS], n_op[JOBS], n_job;
    bool waited[JOBS];
};

static struct twin twin[SIM_DEVICES];

static int twin_supports(struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    (void)list;
    if (self == &twin[SIM_GPU].device || op->kind == OP_MATMUL || op->kind == OP_HEAD || op->kind == OP_SWIGLU)
        return 0;
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "no");
}

static int twin_submit(struct device *self, const struct segment *s, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    struct twin *t = (struct twin *)self;
    int k = t->n_job++, first = (int)(s->op - s->list->op);
    double us = 0;
    (void)after, (void)n_after, (void)err;
    assert_true(k < JOBS);
    /* bounds of shares are 4096ths; parts here are twentieths, rounded to outputs */
    int part =
        share_is_whole(s->share) ? WHOLE : (int)lround((s->share.to - s->share.from) * WHOLE / (double)SHARE_WHOLE);
    for (int i = 0; i < s->n_op; i++) us += t->us[first + i][part];
    uint64_t idle = k ? t->end_us[k - 1] : 0;
    t->begin_us[k] = t->time->now_us > idle ? t->time->now_us : idle;
    t->end_us[k] = t->begin_us[k] + (uint64_t)(us + 0.5);
    t->first[k] = first, t->n_op[k] = s->n_op, t->waited[k] = false;
    *out = (struct ticket){self, (uint64_t)k + 1};
    return 0;
}

static bool twin_done(struct device *self, const struct ticket *ticket)
{
    const struct twin *t = (const struct twin *)self;
    return t->time->now_us >= t->end_us[ticket->id - 1];
}

static int twin_wait(struct device *self, const struct ticket *ticket, struct lutra_error *err)
{
    struct twin *t = (struct twin *)self;
    (void)err;
    if (t->waited[ticket->id - 1]) return 0;
    clock_sleep_until(clock_virtual(t->time), t->end_us[ticket->id - 1]);
    clock_virtual_advance(t->time, t->sync_us);
    t->waited[ticket->id - 1] = true;
    return 0;
}

static const struct device_ops twin_ops = {
    .supports = twin_supports, .submit = twin_submit, .wait = twin_wait, .done = twin_done};

/* ---- a small transformer on both ---- */

static struct clocked_world world;
static struct virtual_time sim_time, twin_time;
static struct kv_row seen[CLOCKED_ROWS];
static struct kv_view view;

static void open_world(int rows)
{
    clocked_open(&world, 1);
    for (int i = 0; i < world.list.n_op; i++)
        for (int w = 0; w < world.list.op[i].n_weight; w++) {
            struct tensor *t = &world.list.op[i].weight[w]->tensor;
            t->bytes = (size_t)(t->ne[0] * t->ne[1] / 2);
        }
    memset(&view, 0, sizeof view);
    for (int r = 0; r < rows; r++) seen[r].n_paged = r + 1;
    view.row = seen;
    world.batch.n_row = rows, world.pass.kv = &view;
}

static void open_devices(struct device *d[SIM_DEVICES])
{
    struct sim_device_settings s = {.profile = &gen3, .kind = SIM_GPU, .end = SIM_MIDDLE, .time = &sim_time};
    sim_time.now_us = twin_time.now_us = 0;
    assert_int_equal(sim_device_open(&d[SIM_GPU], &s, NULL), 0);
    s.kind = SIM_NPU, s.store = d[SIM_GPU];
    assert_int_equal(sim_device_open(&d[SIM_NPU], &s, NULL), 0);
    for (int i = 0; i < SIM_DEVICES; i++) {
        memset(&twin[i], 0, sizeof twin[i]);
        twin[i].device = (struct device){.ops = &twin_ops, .name = d[i]->name, .caps = d[i]->caps};
        twin[i].time = &twin_time;
        twin[i].sync_us = (uint64_t)(sim_figure(&gen3, SOC_FAST_SYNC_US, SIM_MIDDLE) + 0.5);
        twin[i].device.store = i == SIM_NPU ? &twin[SIM_GPU].device : NULL;
    }
}

static uint32_t below(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)*seed * n) >> 32);
}

/* Twentieths of each product's outputs for the GPU. */
static void say_cuts(uint32_t *seed, struct device *const *d, struct plan_cut *cut)
{
    for (int i = 0; i < world.list.n_op; i++) {
        float gpu = (float)below(seed, WHOLE + 1);
        cut[i] = (struct plan_cut){0};
        for (int k = 0; k < SIM_DEVICES; k++) {
            float part = k == SIM_GPU ? gpu : WHOLE - gpu;
            if (part > 0) cut[i].device[cut[i].n] = d[k], cut[i].part[cut[i].n++] = part;
        }
    }
}

/* What the doubles are told: each share that the plan has, as the laws see it. */
static void tell_times(const struct plan *plan, struct device *const *d)
{
    for (int p = 0; p < plan->n_piece; p++) {
        const struct plan_piece *piece = &plan->piece[p];
        const struct segment s = {&world.list.op[piece->first], piece->n, &world.list, &world.pass, piece->share, 0};
        int part =
            share_is_whole(s.share) ? WHOLE : (int)lround((s.share.to - s.share.from) * WHOLE / (double)SHARE_WHOLE);
        int who = plan->device[piece->device] == d[SIM_GPU] ? SIM_GPU : SIM_NPU;
        for (int i = 0; i < piece->n; i++)
            twin[who].us[piece->first + i][part] = sim_device_op_us(d[who], &s, &s.op[i]);
    }
}

static void has_the_plan_and_timeline_of_doubles(void **state)
{
    static struct plan plan[2];
    static struct waits waits[2];
    struct plan_cut cut[2][CLOCKED_OPS];
    struct device *d[SIM_DEVICES], *t[SIM_DEVICES] = {&twin[SIM_GPU].device, &twin[SIM_NPU].device};
    struct lutra_error err = {.what = ""};
    uint32_t seed = 7;
    int n_shared = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        static const int rows[] = {1, 33, 256};
        open_world(rows[round % 3]);
        open_devices(d);
        uint32_t at = seed;
        say_cuts(&seed, d, cut[0]);
        say_cuts(&at, t, cut[1]);
        if (plan_open_cut(&plan[0], &world.list, d, SIM_DEVICES, cut[0], &err)) fail_msg("%s", err.what);
        assert_int_equal(plan_open_cut(&plan[1], &world.list, t, SIM_DEVICES, cut[1], &err), 0);
        tell_times(&plan[0], d);
        waits_init(&waits[0], clock_virtual(&sim_time), (enum wait_mode)(round % 3));
        waits_init(&waits[1], clock_virtual(&twin_time), (enum wait_mode)(round % 3));
        for (int pass = 0; pass < 3; pass++) {
            assert_int_equal(plan_run(&plan[0], &world.pass, &waits[0], NULL, &err), 0);
            assert_int_equal(plan_run(&plan[1], &world.pass, &waits[1], NULL, &err), 0);
        }
        assert_int_equal(plan[0].n_piece, plan[1].n_piece);
        for (int k = 0; k < SIM_DEVICES; k++) {
            const struct sim_event *e;
            int n = sim_device_events(d[k], &e);
            assert_int_equal(n, twin[k].n_job);
            for (int i = 0; i < n; i++) {
                assert_int_equal(e[i].first, twin[k].first[i]);
                assert_int_equal(e[i].n, twin[k].n_op[i]);
                assert_int_equal(e[i].begin_us, twin[k].begin_us[i]);
                assert_int_equal(e[i].end_us, twin[k].end_us[i]);
                n_shared += !share_is_whole(e[i].share);
            }
        }
        assert_int_equal(sim_time.now_us, twin_time.now_us);
        for (int k = 0; k < SIM_DEVICES; k++) d[k]->ops->close(d[k]);
    }
    assert_true(n_shared > ROUNDS);
}

/* The executor takes as long for the list as a pass of the same sizes on the GPU. */
static void takes_as_long_as_a_pass(void **state)
{
    static struct plan plan;
    struct device *d[SIM_DEVICES];
    struct lutra_error err = {.what = ""};
    const struct sim_shape shape = {.n_layer = CLOCKED_LAYERS,
        .d_model = CLOCKED_DIM,
        .d_ff = CLOCKED_FF,
        .n_head = 8,
        .n_kv_head = 8,
        .d_head = 64,
        .n_vocab = CLOCKED_VOCAB,
        .layer_bits = 4,
        .down_bits = 4,
        .head_bits = 4};
    (void)state;
    for (int rows = 64; rows <= CLOCKED_ROWS; rows *= 2) {
        struct sim_result r;
        const struct sim_question q = {
            .profile = &gen3, .shape = &shape, .plan = SIM_GPU_ONLY, .rows = rows, .n_out = 1};
        open_world(rows);
        open_devices(d);
        assert_int_equal(plan_open(&plan, &world.list, d, 1, &err), 0);
        assert_int_equal(plan_run(&plan, &world.pass, NULL, NULL, &err), 0);
        assert_int_equal(sim_pass(&q, &r, &err), 0);
        double us = (double)sim_time.now_us;
        if (fabs(us / r.us.middle - 1) > 0.05) fail_msg("%d rows: %g us, a pass %g", rows, us, r.us.middle);
        for (int k = 0; k < SIM_DEVICES; k++) d[k]->ops->close(d[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_plan_and_timeline_of_doubles), cmocka_unit_test(takes_as_long_as_a_pass)};
    return cmocka_run_group_tests(tests, open_profile, NULL);
}
