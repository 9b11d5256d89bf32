/* SPDX-License-Identifier: MIT
 *
 * Plans of graph switches against a model that moves time tick by tick, against all plans and all orders of loads, and
 * against each other.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/blocks.h"

enum { INSTANCES = 1000, N = BLOCKS_EXACT_BLOCKS, C = BLOCKS_EXACT_CHUNKS };

static uint32_t seed;

static int below(int n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)(((uint64_t)seed * (uint32_t)n) >> 32);
}

/* Whole us.  Half of the problems have equal blocks, like a model's; a load takes up to some 4 chunks. */
static struct blocks_problem random_problem(int n_block, int n_chunk)
{
    struct blocks_problem p = {.n_block = n_block, .n_chunk = n_chunk};
    bool equal = below(2);
    for (int b = 0; b < n_block; b++) {
        if (equal && b) {
            p.prefill_us[b] = p.prefill_us[0], p.decode_us[b] = p.decode_us[0], p.load_us[b] = p.load_us[0];
            continue;
        }
        p.prefill_us[b] = 1 + below(20);
        p.decode_us[b] = p.prefill_us[b] + below((int)p.prefill_us[b] + 1);
        p.load_us[b] = below(80);
    }
    return p;
}

/* The definition: at every tick the next slot begins if its block is there and nothing computes, and the next load of
 * `order` begins if its block has computed its chunks and nothing loads. */
static double ticks(const struct blocks_problem *p, const int *before, const int *order)
{
    int done[N] = {0}, slot = 0, next = 0, computing = -1, loading = -1, left = 0, load_left = 0;
    bool switched[N] = {false};
    for (int t = 0;; t++) {
        bool again = true;
        while (again) { /* what takes no time ends in the same tick */
            again = false;
            if (computing >= 0 && !left) done[computing]++, slot++, computing = -1, again = true;
            if (loading >= 0 && !load_left) switched[loading] = true, next++, loading = -1, again = true;
            if (loading < 0 && next < p->n_block && done[order[next]] == before[order[next]])
                loading = order[next], load_left = (int)p->load_us[loading], again = true;
            int b = slot % p->n_block;
            bool there = done[b] < before[b] || switched[b];
            if (computing < 0 && slot < p->n_block * p->n_chunk && there) {
                if (b == loading) fail_msg("block %d computes while it loads", b);
                computing = b, left = (int)(switched[b] ? p->decode_us[b] : p->prefill_us[b]), again = true;
            }
        }
        if (computing < 0 && loading < 0) return slot == p->n_block * p->n_chunk && next == p->n_block ? t : INFINITY;
        if (computing >= 0) left--;
        if (loading >= 0) load_left--;
    }
}

/* The least time of all plans and all orders of loads. */
static double search(const struct blocks_problem *p)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    double best = INFINITY;
    for (int i = 0; i < 64; i++) {
        int before[3] = {i & 3, i >> 2 & 3, i >> 4};
        bool fits = before[0] <= p->n_chunk && before[1] <= p->n_chunk && before[2] <= p->n_chunk;
        for (int o = 0; fits && o < 6; o++) best = fmin(best, ticks(p, before, orders[o]));
    }
    return best;
}

static void exact_is_the_least_of_all_orders(void **state)
{
    struct blocks_plan plan;
    struct lutra_error err = {0};
    (void)state;
    seed = 1;
    for (int i = 0; i < INSTANCES; i++) {
        struct blocks_problem p = random_problem(3, 1 + below(3));
        assert_int_equal(blocks_plan_by(&p, BLOCKS_EXACT, &plan, &err), 0);
        double us = blocks_time(&p, &plan).us, best = search(&p);
        if (us != best) fail_msg("problem %d: exact %f, all orders %f", i, us, best);
    }
}

static void the_best_is_never_later_than_synchronous(void **state)
{
    enum { POLICIES = BLOCKS_EXACT };
    double mean[POLICIES + 1] = {0}, worst[POLICIES + 1] = {0}; /* of the policies, and of the best of them */
    struct blocks_plan plan;
    struct lutra_error err = {0};
    (void)state;
    seed = 2;
    for (int i = 0; i < INSTANCES; i++) {
        struct blocks_problem p = random_problem(2 + below(N - 1), 1 + below(C));
        double us[POLICIES + 1], least = INFINITY;
        assert_int_equal(blocks_plan_by(&p, BLOCKS_EXACT, &plan, &err), 0);
        double exact = blocks_time(&p, &plan).us;
        for (int k = 0; k < POLICIES; k++) {
            assert_int_equal(blocks_plan_by(&p, (enum blocks_policy)k, &plan, &err), 0);
            us[k] = blocks_time(&p, &plan).us, least = fmin(least, us[k]);
        }
        assert_int_equal(blocks_best(&p, &plan, &err), 0);
        us[POLICIES] = blocks_time(&p, &plan).us;
        assert_true(us[POLICIES] == least && us[POLICIES] <= us[0] && us[1] <= us[0] && exact <= us[POLICIES]);
        for (int k = 0; k <= POLICIES; k++) mean[k] += us[k] / exact - 1, worst[k] = fmax(worst[k], us[k] / exact - 1);
    }
    for (int k = 0; k <= POLICIES; k++)
        printf("%s: over exact by %.1f %% on average of %d, %.1f %% at worst\n",
            k < POLICIES ? blocks_policy_name((enum blocks_policy)k) : "best", 100 * mean[k] / INSTANCES, INSTANCES,
            100 * worst[k]);
    assert_true(mean[2] < mean[1] && mean[1] < mean[0]);
    assert_true(mean[POLICIES] < 0.005 * INSTANCES && worst[POLICIES] < 0.10);
}

/* [SDNPU Figure 9]: four blocks, two chunks; a load takes as long as the computing of two blocks.  In four rounds of
 * two blocks each, blocks 3, 1, 2 and 0 load.  Two blocks are switched when the first chunk ends, as in the paper. */
static void has_the_papers_example(void **state)
{
    struct blocks_problem p = {.n_block = 4, .n_chunk = 2};
    struct blocks_plan plan;
    struct lutra_error err = {0};
    (void)state;
    for (int b = 0; b < 4; b++) p.prefill_us[b] = p.decode_us[b] = 10, p.load_us[b] = 20;
    assert_int_equal(blocks_plan_by(&p, BLOCKS_PROGRESSIVE, &plan, &err), 0);
    static const int before[] = {2, 1, 1, 0};
    for (int b = 0; b < 4; b++) assert_int_equal(plan.before[b], before[b]);
    struct blocks_time t = blocks_time(&p, &plan);
    assert_true(t.prefill_us == 80 && t.load_us == 80 && t.us == 80);
    assert_int_equal(blocks_plan_by(&p, BLOCKS_SYNCHRONOUS, &plan, &err), 0);
    assert_true(blocks_time(&p, &plan).us == 160);
    assert_int_equal(blocks_plan_by(&p, BLOCKS_ASYNCHRONOUS, &plan, &err), 0);
    assert_true(blocks_time(&p, &plan).us == 130); /* loads from 50 on */
    assert_int_equal(blocks_best(&p, &plan, &err), 0);
    assert_int_equal(plan.policy, BLOCKS_PROGRESSIVE);
}

static void impossible_problems_are_refused(void **state)
{
    static const struct blocks_problem bad[] = {{.n_block = 0, .n_chunk = 1}, {.n_block = BLOCKS_MAX + 1, .n_chunk = 1},
        {.n_block = 1, .n_chunk = 0}, {.n_block = 1, .n_chunk = BLOCKS_CHUNKS_MAX + 1},
        {.n_block = 1, .n_chunk = 1, .load_us = {NAN}}, {.n_block = 2, .n_chunk = 1, .prefill_us = {1, -1}},
        {.n_block = 1, .n_chunk = 1, .decode_us = {INFINITY}}};
    struct blocks_plan plan;
    struct lutra_error err = {0};
    (void)state;
    for (int i = 0; i < (int)(sizeof bad / sizeof *bad); i++)
        assert_int_equal(blocks_best(&bad[i], &plan, &err), LUTRA_E_ARGUMENT);
    struct blocks_problem large = {.n_block = N + 1, .n_chunk = 1};
    assert_int_equal(blocks_plan_by(&large, BLOCKS_EXACT, &plan, &err), LUTRA_E_ARGUMENT);
    large = (struct blocks_problem){.n_block = BLOCKS_MAX, .n_chunk = 100};
    assert_int_equal(blocks_best(&large, &plan, &err), 0);
    assert_true(blocks_time(&large, &plan).us == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(exact_is_the_least_of_all_orders),
        cmocka_unit_test(the_best_is_never_later_than_synchronous), cmocka_unit_test(has_the_papers_example),
        cmocka_unit_test(impossible_problems_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
