/* SPDX-License-Identifier: MIT
 *
 * Weights that are prepared while a pass runs: a layer's are asked for when the layers before it have been computed,
 * while nothing is under way, and once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/waits.h"
#include "unit/sched/clocked_world.h"

static struct clocked_world w;

/* What has been asked for. */
static struct {
    int n_op[CLOCKED_OPS], n_call, fails_at; /* fails_at: a layer; -2: none */
} asked;

/* Of the others nothing is counted. */
static bool is_counted(int op)
{
    return w.op[op].n_out > 0 || w.op[op].kind == OP_HEAD;
}

static bool has_run(int op)
{
    for (int d = 0; d < w.n_device; d++)
        if (w.device[d].columns[op] > 0) return true;
    return false;
}

static int hold(void *user, const struct op *op, int n, struct lutra_error *err)
{
    const int first = (int)(op - w.op);
    assert_ptr_equal(user, &asked);
    asked.n_call++;
    for (int d = 0; d < w.n_device; d++) {
        const struct clocked *c = &w.device[d];
        if (c->n_job) assert_true(c->waited[c->n_job - 1] && c->end_us[c->n_job - 1] <= w.time.now_us);
    }
    for (int i = 0; i < first; i++) assert_true(!is_counted(i) || has_run(i) || w.op[i].layer == op->layer);
    for (int i = 0; i < n; i++) {
        assert_int_equal(op[i].layer, op->layer);
        asked.n_op[first + i]++;
        if (op->layer == asked.fails_at) return lutra_fail(err, LUTRA_E_IO, "tensor of layer %d", op->layer);
        for (int k = 0; k < op[i].n_weight; k++)
            op[i].weight[k]->held[0] = (struct held){.device = w.devices[0], .packed = (struct packed *)&w};
    }
    return 0;
}

static const struct plan_rescue rescue = {.hold = hold, .user = &asked};

static void open_world(struct plan *plan, struct waits *waits, int n_device, int fails_at)
{
    struct lutra_error err = {.what = ""};
    clocked_open(&w, n_device);
    memset(&asked, 0, sizeof asked);
    asked.fails_at = fails_at;
    if (plan_open(plan, &w.list, w.devices, n_device, &err)) fail_msg("%s", err.what);
    waits_init(waits, clock_virtual(&w.time), WAIT_PREDICT);
}

static void a_layer_is_asked_for_when_it_is_reached(void **state)
{
    static struct plan plan;
    static struct waits waits;
    struct lutra_error err = {.what = ""};
    (void)state;
    for (int n_device = 1; n_device <= CLOCKED_DEVICES; n_device++) {
        open_world(&plan, &waits, n_device, -2);
        if (plan_run(&plan, &w.pass, &waits, &rescue, &err)) fail_msg("%s", err.what);
        for (int i = 0; i < w.list.n_op; i++)
            for (int k = 0; k < w.op[i].n_weight; k++) {
                assert_true(weight_is_ready(w.op[i].weight[k], NULL));
                assert_int_equal(asked.n_op[i], 1);
            }
        assert_true(asked.n_call >= CLOCKED_LAYERS + 2);
        long before[CLOCKED_OPS];
        memcpy(before, w.device[0].columns, sizeof before);
        const int n_call = asked.n_call;
        assert_int_equal(plan_run(&plan, &w.pass, &waits, &rescue, &err), 0);
        assert_int_equal(asked.n_call, n_call); /* all are there */
        for (int i = 0; i < w.list.n_op; i++)   /* the same is computed as without holding */
            assert_int_equal(w.device[0].columns[i], 2 * before[i]);
    }
}

static void what_fails_late_fails_the_pass(void **state)
{
    static struct plan plan;
    static struct waits waits;
    struct lutra_error err = {.what = ""};
    (void)state;
    for (int n_device = 1; n_device <= CLOCKED_DEVICES; n_device++) {
        open_world(&plan, &waits, n_device, 1);
        assert_int_equal(plan_run(&plan, &w.pass, &waits, &rescue, &err), LUTRA_E_IO);
        assert_string_equal(err.what, "tensor of layer 1");
        for (int i = 0; i < w.list.n_op; i++) assert_true(w.op[i].layer < 2 || !has_run(i));
        assert_true(has_run(1) && !has_run(w.list.n_op - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_is_asked_for_when_it_is_reached), cmocka_unit_test(what_fails_late_fails_the_pass)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
