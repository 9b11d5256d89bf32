/* SPDX-License-Identifier: MIT
 *
 * Cuts of operations are those that were said: each device computes its part of the outputs, and nothing else of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sched/waits.h"
#include "unit/sched/clocked_world.h"

enum { WHOLE = 16, ROUNDS = 100 };

static uint32_t below(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)*seed * n) >> 32);
}

/* Sixteenths of a product's outputs for each device; a zero leaves it out, and it is not named then. */
static void random_parts(uint32_t *seed, int n_device, int part[CLOCKED_DEVICES])
{
    memset(part, 0, CLOCKED_DEVICES * sizeof *part);
    for (int i = 0, d = (int)below(seed, (uint32_t)n_device); i < WHOLE; i++) {
        part[d]++;
        if (below(seed, 8) == 0) d = (int)below(seed, (uint32_t)n_device);
    }
}

static void said(struct plan_cut *cut, struct clocked_world *w, const int *part)
{
    *cut = (struct plan_cut){0};
    for (int d = 0; d < w->n_device; d++) {
        if (!part[d]) continue;
        cut->device[cut->n] = w->devices[d];
        cut->part[cut->n++] = (float)part[d] * 3; /* in proportion, whatever the sum */
    }
}

static long outputs_of(const struct op_list *list, const struct op *op)
{
    long n = 0;
    for (int i = 0; i < op->n_out; i++) n += list->value[op->out[i]].dim;
    return n;
}

static void each_device_has_its_part(void **state)
{
    static struct clocked_world w;
    static struct plan plan;
    static struct waits waits;
    struct plan_cut cut[CLOCKED_OPS];
    int part[CLOCKED_OPS][CLOCKED_DEVICES];
    struct lutra_error err = {.what = ""};
    uint32_t seed = 1;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        clocked_open(&w, 2 + round % 2);
        assert_int_equal(op_list_check(&w.list, &err), 0);
        waits_init(&waits, clock_virtual(&w.time), (enum wait_mode)(round % 3));
        for (int i = 0; i < w.list.n_op; i++) {
            random_parts(&seed, w.n_device, part[i]);
            said(&cut[i], &w, part[i]);
        }
        assert_int_equal(plan_open_cut(&plan, &w.list, w.devices, w.n_device, cut, &err), 0);
        assert_int_equal(plan_run(&plan, &w.pass, &waits, NULL, &err), 0);
        for (int i = 0; i < w.list.n_op; i++) {
            int of = w.op[i].kind == OP_SWIGLU ? i - 1 : i; /* a gate stays where its inputs are */
            if (w.op[of].kind != OP_MATMUL) continue;
            for (int d = 0; d < w.n_device; d++)
                assert_int_equal(w.device[d].columns[i], outputs_of(&w.list, &w.op[i]) * part[of][d] / WHOLE);
        }
    }
}

/* A device that is not left has no part, and one that is not named gets none in its place. */
static void parts_of_lost_devices_go_to_the_others(void **state)
{
    static struct clocked_world w;
    static struct plan plan;
    struct plan_cut cut[CLOCKED_OPS];
    struct lutra_error err = {.what = ""};
    (void)state;
    clocked_open(&w, 3);
    for (int i = 0; i < w.list.n_op; i++) said(&cut[i], &w, (const int[]){4, 8, 4});
    assert_int_equal(plan_open_cut(&plan, &w.list, w.devices, 2, cut, &err), 0);
    assert_int_equal(plan_run(&plan, &w.pass, NULL, NULL, &err), 0);
    for (int i = 0; i < w.list.n_op; i++) {
        if (w.op[i].kind != OP_MATMUL) continue;
        long n = outputs_of(&w.list, &w.op[i]);
        assert_int_equal(w.device[0].columns[i] + w.device[1].columns[i], n);
        assert_true(labs(w.device[0].columns[i] - n / 3) <= 3 * SHARE_OUTPUTS);
        assert_int_equal(w.device[2].columns[i], 0);
    }
}

/* Nothing is said: by speed. */
static void nothing_said_is_by_speed(void **state)
{
    static struct clocked_world w;
    static struct plan plan;
    struct lutra_error err = {.what = ""};
    (void)state;
    clocked_open(&w, 2);
    w.device[1].device.caps.speed = 3;
    assert_int_equal(plan_open(&plan, &w.list, w.devices, 2, &err), 0);
    assert_int_equal(plan_run(&plan, &w.pass, NULL, NULL, &err), 0);
    for (int i = 0; i < w.list.n_op; i++)
        if (w.op[i].kind == OP_MATMUL) assert_int_equal(w.device[1].columns[i], outputs_of(&w.list, &w.op[i]) * 3 / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_device_has_its_part),
        cmocka_unit_test(parts_of_lost_devices_go_to_the_others), cmocka_unit_test(nothing_said_is_by_speed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
