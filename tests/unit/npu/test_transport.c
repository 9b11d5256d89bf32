/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "npu/host/transport.h"

static struct npu_transport *open_small(void)
{
    struct npu_transport *npu;
    struct lutra_error err;
    struct npu_transport_settings s = {.tcm_bytes = 1 << 20, .memory_bytes = 1 << 20, .seed = 1};
    if (npu_local_open(&npu, &s, &err) < 0) fail_msg("%s", err.what);
    return npu;
}

struct sum {
    uint32_t a, b, y, n;
};

static struct sum put_sum(struct npu_transport *npu, uint32_t n)
{
    struct sum s = {
        npu_transport_alloc(npu, 4 * n), npu_transport_alloc(npu, 4 * n), npu_transport_alloc(npu, 4 * n), n};
    float *a = (float *)(void *)(npu->base + s.a), *b = (float *)(void *)(npu->base + s.b);
    for (uint32_t i = 0; i < n; i++) a[i] = (float)i, b[i] = 0.5f;
    return s;
}

static struct npu_op add(const struct sum *s)
{
    return (struct npu_op){.code = NPU_OP_ADD,
        .flags = NPU_FROM_HOST | NPU_TO_HOST,
        .m = 1,
        .n = s->n,
        .src = s->a,
        .weights = s->b,
        .dst = s->y,
        .src_stride = 4 * s->n,
        .dst_stride = 4 * s->n};
}

static int run(struct npu_transport *npu, const struct npu_op *op, uint32_t n, struct lutra_error *err)
{
    uint64_t ticket;
    assert_int_equal(npu_transport_submit(npu, op, n, &ticket, err), 0);
    return npu_transport_wait(npu, ticket, CLOCK_NEVER_US, err);
}

static float last(struct npu_transport *npu, const struct sum *s)
{
    return ((float *)(void *)(npu->base + s->y))[s->n - 1];
}

static void publish_and_acquire_carry_bytes(void **state)
{
    struct npu_transport *npu = open_small();
    struct lutra_error err;
    struct sum s = put_sum(npu, 64);
    struct npu_op op = add(&s);
    (void)state;
    npu_transport_publish(npu, s.a, 256);
    npu_transport_publish(npu, s.b, 256);
    assert_int_equal(run(npu, &op, 1, &err), 0);
    assert_true(last(npu, &s) == 0); /* not acquired */
    npu_transport_acquire(npu, s.y, 256);
    assert_true(last(npu, &s) == 63.5f);
    ((float *)(void *)(npu->base + s.a))[63] = 100; /* not published */
    assert_int_equal(run(npu, &op, 1, &err), 0);
    npu_transport_acquire(npu, s.y, 256);
    assert_true(last(npu, &s) == 63.5f);
    npu_transport_close(&npu);
    assert_null(npu);
}

static void a_broken_rule_is_named(void **state)
{
    struct npu_transport *npu = open_small();
    struct lutra_error err;
    struct sum s = put_sum(npu, 64);
    struct npu_op op = add(&s);
    (void)state;
    npu_transport_publish(npu, s.a, 256);
    npu_transport_publish(npu, s.b, 256);
    op.flags = NPU_TO_HOST; /* nobody invalidates */
    assert_int_equal(run(npu, &op, 1, &err), LUTRA_E_INTERNAL);
    assert_non_null(strstr(err.what, "STALE_READ"));
    assert_non_null(strstr(err.what, "npu_add"));
    op.flags = NPU_FROM_HOST; /* nobody flushes */
    assert_int_equal(run(npu, &op, 1, &err), 0);
    npu_transport_acquire(npu, s.y, 256);
    assert_int_equal(npu_transport_wait(npu, 1, CLOCK_NEVER_US, &err), LUTRA_E_INTERNAL);
    assert_non_null(strstr(err.what, "NOT_FLUSHED"));
    npu_transport_free(npu, s.y);
    op.flags = NPU_FROM_HOST | NPU_TO_HOST; /* into freed memory */
    assert_int_equal(run(npu, &op, 1, &err), LUTRA_E_INTERNAL);
    assert_non_null(strstr(err.what, "OUT_OF_BOUNDS"));
    npu_transport_close(&npu);
}

/* What does not fit into TCM is refused by name, and the NPU goes on. */
static void too_much_for_tcm_is_refused_by_name(void **state)
{
    (void)state;
    enum { K = 32768 };
    struct npu_transport *npu;
    struct lutra_error err;
    struct npu_transport_settings set = {.tcm_bytes = 1 << 20, .memory_bytes = 8 << 20};
    assert_int_equal(npu_local_open(&npu, &set, &err), 0);
    uint32_t w = npu_transport_alloc(npu, 2 << 20), x = npu_transport_alloc(npu, 4 * K);
    struct npu_op op[2] = {{.code = NPU_OP_NOP},
        {.code = NPU_OP_GEMM, .m = 1, .n = 32, .k = K, .kind = 1 /* Q4_0 */, .src = x, .weights = w, .dst = x}};
    assert_int_equal(run(npu, op, 2, &err), LUTRA_E_INTERNAL);
    assert_non_null(strstr(err.what, "operation 1 of message 1, gemm, was refused: it does not fit into TCM"));
    assert_int_equal(run(npu, op, 1, &err), 0);
    npu_transport_close(&npu);
}

static void buffers_do_not_overlap(void **state)
{
    struct npu_transport *npu = open_small();
    struct rng_key rng = {.seed = 3};
    uint32_t drawn = 0;
    uint32_t at[200] = {0}, bytes[200] = {0};
    uint64_t all = npu_transport_free_bytes(npu);
    (void)state;
    for (int round = 0; round < 20000; round++) {
        int i = (int)(rng_u32(rng, drawn++) % 200);
        if (at[i]) {
            npu_transport_free(npu, at[i]);
            at[i] = 0;
            continue;
        }
        bytes[i] = 1 + rng_u32(rng, drawn++) % 20000;
        at[i] = npu_transport_alloc(npu, bytes[i]);
        if (!at[i]) continue;
        assert_true(at[i] % 128 == 0 && at[i] >= npu->first && at[i] + bytes[i] <= npu->end);
        for (int j = 0; j < 200; j++)
            if (j != i && at[j]) assert_true(at[i] + bytes[i] + 128 <= at[j] || at[j] + bytes[j] + 128 <= at[i]);
    }
    for (int i = 0; i < 200; i++) npu_transport_free(npu, at[i]);
    assert_int_equal(npu_transport_free_bytes(npu), all);
    assert_int_equal(npu_transport_alloc(npu, 0), 0);
    assert_int_equal(npu_transport_alloc(npu, (1 << 20) - 127), 0);
    assert_int_not_equal(npu_transport_alloc(npu, (1 << 20) - 128), 0);
    assert_int_equal(npu_transport_alloc(npu, UINT32_MAX), 0);
    npu_transport_close(&npu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(publish_and_acquire_carry_bytes),
        cmocka_unit_test(a_broken_rule_is_named),
        cmocka_unit_test(too_much_for_tcm_is_refused_by_name),
        cmocka_unit_test(buffers_do_not_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
