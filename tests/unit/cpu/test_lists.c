/* SPDX-License-Identifier: MIT
 *
 * The CPU device on random op lists, over layers whose caches differ in heads and head size, are shared or missing:
 * each operation, given the reference's inputs, leaves what the reference leaves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cpuinfo.h"
#include "cpu/device.h"
#include "sanitized.h"
#include "unit/ops/near.h"
#include "unit/ops/ref_run.h"

enum { LISTS = SANITIZED ? 20 : 60 };

/* What a recurrent operation leaves beside values: states, and drafts' inputs bit for bit. */
static void compare_states(struct random_list *r, const uint8_t *want, uint32_t seed)
{
    const struct kv_states *st = &r->kv.view.state;
    assert_near(
        (const float *)st->pool, (const float *)want, r->states.pool_bytes / sizeof(float), 1e-4, "a state", seed);
    assert_memory_equal(st->left, want + r->states.pool_bytes, r->states.left_bytes);
    memcpy(st->pool, want, r->states.pool_bytes);
}

/* Runs operation i both ways from the same values and cache. */
static void compare(struct device *d, struct random_list *r, int i, uint32_t seed)
{
    static float before[RL_VALUES][RL_ROWS * RL_MOST_DIM], want[RL_VALUES][RL_ROWS * RL_MOST_DIM];
    const struct op *op = &r->op[i];
    struct lutra_error err = {0};
    struct segment segment = {op, 1, &r->list, &r->pass, {0}, 0};
    struct ticket ticket;
    bool tame = is_tame(r, op);
    const struct kv_states *st = &r->kv.view.state;
    uint8_t *states = malloc(r->states.pool_bytes + r->states.left_bytes);
    for (int v = 0; v < RL_VALUES; v++) memcpy(before[v], r->value[v].host, r->value[v].bytes);
    ref_run(&r->list, i, 1, &r->pass);
    memcpy(states, st->pool, r->states.pool_bytes);
    memcpy(states + r->states.pool_bytes, st->left, r->states.left_bytes);
    for (int v = 0; v < RL_VALUES; v++) {
        memcpy(want[v], r->value[v].host, r->value[v].bytes);
        memcpy(r->value[v].host, before[v], r->value[v].bytes);
    }
    if (d->ops->submit(d, &segment, NULL, 0, &ticket, &err) < 0) fail_msg("list %u: %s", seed, err.what);
    for (int v = 0; v < RL_VALUES; v++) {
        const struct value *value = &r->list.value[v];
        size_t rows = (size_t)(value->rows == ROWS_OUT ? r->pass.n_out : r->batch.n_row);
        if (tame &&
            op_writes(op, v)) /* weights of f32 are multiplied as they are; a cache of f16 holds the same bits */
            assert_near(r->value[v].host, want[v], rows * (size_t)value->dim, 1e-4, op_name(op->kind), seed);
        memcpy(r->value[v].host, want[v], r->value[v].bytes);
    }
    if (tame) compare_states(r, states, seed);
    free(states);
}

static void operations_agree_with_the_reference(void **state)
{
    static struct random_list r;
    struct pool *pool;
    struct lutra_error err = {0};
    (void)state;
    assert_int_equal(pool_open(&pool, &(struct pool_settings){.n_thread = 2}, &err), 0);
    for (uint32_t seed = 0; seed < LISTS; seed++) {
        struct device *d;
        bool keeps;
        uint32_t isa = seed % 3 ? cpu_isa() : 0;
        random_list_open(&r, seed);
        assert_int_equal(op_list_check(&r.list, &err), 0);
        assert_int_equal(cpu_device_open(&d, pool, &(struct cpu_device_settings){.isa = isa}, &err), 0);
        for (int i = 0; i < r.n_weight; i++) assert_int_equal(d->ops->prepare(d, &r.weight[i], &keeps, &err), 0);
        for (int i = 0; i < r.list.n_op; i++) assert_int_equal(d->ops->supports(d, &r.list, &r.op[i], &err), 0);
        assert_int_equal(d->ops->reserve(d, &r.list, RL_ROWS, RL_ROWS, FIX_TABLE * KV_BLOCK, &err), 0);
        for (int i = 0; i < r.list.n_op; i++) compare(d, &r, i, seed);
        for (int i = 0; i < r.n_weight; i++) d->ops->release(d, &r.weight[i]);
        d->ops->close(d);
        random_list_close(&r);
    }
    pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(operations_agree_with_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
