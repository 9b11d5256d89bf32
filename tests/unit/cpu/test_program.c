/* SPDX-License-Identifier: MIT
 *
 * Programs of the CPU device: compiled once and found again, for whole lists and for parts; anew where weights have
 * changed; apart for lists that take turns; refused where nothing was reserved.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cpuinfo.h"
#include "cpu/program_impl.h"
#include "unit/ops/random_list.h"

enum { LISTS = 40 };

struct bench {
    struct pool *pool;
    struct device *device;
};

static void open_device(struct bench *b, int n_thread)
{
    assert_int_equal(pool_open(&b->pool, &(struct pool_settings){.n_thread = n_thread, .all = true}, NULL), 0);
    assert_int_equal(cpu_device_open(&b->device, b->pool, &(struct cpu_device_settings){.isa = cpu_isa()}, NULL), 0);
}

static void close_device(struct bench *b)
{
    b->device->ops->close(b->device);
    pool_close(&b->pool);
}

static void prepare(struct bench *b, struct random_list *r)
{
    bool keeps;
    for (int i = 0; i < r->n_weight; i++)
        assert_int_equal(b->device->ops->prepare(b->device, &r->weight[i], &keeps, NULL), 0);
}

static void release(struct bench *b, struct random_list *r)
{
    for (int i = 0; i < r->n_weight; i++) b->device->ops->release(b->device, &r->weight[i]);
}

static void reserve(struct bench *b, struct random_list *r)
{
    assert_int_equal(b->device->ops->reserve(b->device, &r->list, RL_ROWS, RL_ROWS, FIX_TABLE * KV_BLOCK, NULL), 0);
}

static int submit(struct bench *b, struct random_list *r, int first, int n, struct lutra_error *err)
{
    struct segment segment = {&r->op[first], n, &r->list, &r->pass, {0}, 0};
    struct ticket ticket;
    return b->device->ops->submit(b->device, &segment, NULL, 0, &ticket, err);
}

/* A hash of the bits that all values have after the list was run in segments of n operations. */
static uint64_t bits_of(struct bench *b, struct random_list *r, int n)
{
    struct lutra_error err = {0};
    uint64_t sum = 14695981039346656037u;
    for (int v = 0; v < RL_VALUES; v++) memset(r->value[v].host, 0, r->value[v].bytes);
    for (int at = 0; at < r->list.n_op; at += n) {
        int left = r->list.n_op - at;
        if (submit(b, r, at, n < left ? n : left, &err) < 0) fail_msg("submit: %s", err.what);
    }
    for (int v = 0; v < RL_VALUES; v++)
        for (size_t i = 0; i < r->value[v].bytes; i++)
            sum = (sum ^ ((const uint8_t *)r->value[v].host)[i]) * 1099511628211u;
    return sum;
}

/* Segments that lie across each other: what was compiled for one stays right for the other. */
static void parts_and_wholes_give_the_same_bits(void **state)
{
    static struct random_list r;
    struct bench b;
    (void)state;
    open_device(&b, 3);
    for (uint32_t seed = 0; seed < LISTS; seed++) {
        random_list_open(&r, seed);
        prepare(&b, &r);
        reserve(&b, &r);
        uint64_t whole = bits_of(&b, &r, RL_OPS);
        assert_true(bits_of(&b, &r, 1) == whole && bits_of(&b, &r, 3) == whole && bits_of(&b, &r, 7) == whole);
        assert_true(bits_of(&b, &r, RL_OPS) == whole);
        b.device->extras->forget(b.device, &r.list);
        release(&b, &r);
        random_list_close(&r);
    }
    close_device(&b);
}

static const struct program *program_of(struct bench *b, const struct op_list *list)
{
    const struct program *p = ((struct cpu_device *)b->device)->programs;
    while (p && p->list != list) p = p->next;
    return p;
}

static void lists_take_turns(void **state)
{
    static struct random_list one, two;
    struct lutra_error err = {0};
    struct bench b;
    (void)state;
    open_device(&b, 2);
    random_list_open(&one, 1);
    random_list_open(&two, 2);
    prepare(&b, &one);
    prepare(&b, &two);
    reserve(&b, &one);
    uint64_t alone = bits_of(&b, &one, RL_OPS);
    const struct program *p = program_of(&b, &one.list);
    assert_int_equal(p->plan[0].span[0].n_op, one.list.n_op);
    assert_int_equal(submit(&b, &two, 0, 1, &err), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(err.what, "reserved"));
    reserve(&b, &two);
    for (int i = 0; i < 3; i++) {
        bits_of(&b, &two, RL_OPS);
        assert_true(bits_of(&b, &one, RL_OPS) == alone);
    }
    assert_ptr_equal(program_of(&b, &one.list), p);
    b.device->extras->forget(b.device, &two.list);
    assert_int_equal(submit(&b, &two, 0, 1, &err), LUTRA_E_ARGUMENT);
    release(&b, &two); /* all programs are compiled again */
    assert_true(bits_of(&b, &one, RL_OPS) == alone);
    release(&b, &one);
    assert_int_equal(submit(&b, &one, 0, one.list.n_op, &err), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(err.what, "not prepared"));
    prepare(&b, &one);
    assert_true(bits_of(&b, &one, RL_OPS) == alone);
    release(&b, &one);
    random_list_close(&one);
    random_list_close(&two);
    close_device(&b);
}

/* The list in segments of random lengths; of products that are segments of their own a share. */
static void run_cut(struct bench *b, struct random_list *r, uint32_t cut)
{
    for (int at = 0, n; at < r->list.n_op; at += n) {
        int left = r->list.n_op - at, want = 1 + (int)(cut >> (at % 16) & 3);
        n = want < left ? want : left;
        struct segment s = {&r->op[at], n, &r->list, &r->pass, {0}, 0};
        struct ticket ticket;
        if (n == 1 && s.op->kind == OP_MATMUL) s.share.to = (int16_t)(SHARE_WHOLE / 2 + (cut >> 20));
        assert_int_equal(b->device->ops->submit(b->device, &s, NULL, 0, &ticket, NULL), 0);
    }
}

/* A model's two plans take turns, and nothing is compiled after their first passes; a third one makes room for itself,
 * and leaves the bits as they are. */
static void two_plans_are_kept(void **state)
{
    static struct random_list r;
    struct bench b;
    (void)state;
    open_device(&b, 2);
    for (uint32_t seed = 0; seed < LISTS; seed++) {
        random_list_open(&r, seed);
        prepare(&b, &r);
        reserve(&b, &r);
        const struct program *p = program_of(&b, &r.list);
        uint64_t bits = bits_of(&b, &r, RL_OPS);
        const uint32_t one = seed * 2654435761u, two = ~one, third = one ^ 0x5a5a5a5a;
        for (int round = 0; round < 6; round++) {
            run_cut(&b, &r, one);
            run_cut(&b, &r, two);
            if (round != 1 && round != 5) continue;
            uint64_t n = p->n_compiled;
            run_cut(&b, &r, one);
            run_cut(&b, &r, two);
            assert_int_equal(p->n_compiled, n);
            if (round == 1) run_cut(&b, &r, third);
        }
        assert_true(bits_of(&b, &r, 2) == bits && bits_of(&b, &r, 5) == bits && bits_of(&b, &r, 2) == bits);
        b.device->extras->forget(b.device, &r.list);
        release(&b, &r);
        random_list_close(&r);
    }
    close_device(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_and_wholes_give_the_same_bits),
        cmocka_unit_test(lists_take_turns), cmocka_unit_test(two_plans_are_kept)};
    return cmocka_run_group_tests_name("cpu/program", tests, NULL, NULL);
}
