/* SPDX-License-Identifier: MIT
 *
 * The solver against exhaustive search, against [HETERO Table 3], and where memory is short.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "laws.h"
#include "sanitized.h"

enum { CHAINS = SANITIZED ? 200 : 1000, OPS = 6, CHOICES = 8, GRID = 7 };

static uint32_t seed;

static int below(int n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)(((uint64_t)seed * (uint32_t)n) >> 32);
}

static struct solve_choice choice[OPS][CHOICES];
static struct solve_op op[OPS];

/* Any choices: one, two or three devices, any times. */
static void random_chain(struct solve_problem *p)
{
    *p = (struct solve_problem){.n_device = 2 + below(2), .n_op = OPS, .grid = GRID, .op = op, .sync_us = below(200)};
    p->start = (unsigned)below(1 << p->n_device);
    for (int i = 0; i < OPS; i++) {
        for (int k = 0; k < CHOICES; k++) {
            struct solve_choice *c = &choice[i][k];
            memset(c, 0, sizeof *c);
            unsigned set = 1 + (unsigned)below((1 << p->n_device) - 1);
            for (int d = 0; d < p->n_device; d++)
                if (set >> d & 1) c->part[d] = 1 + below(GRID), c->us[d] = 1 + below(1000);
        }
        op[i] = (struct solve_op){choice[i], CHOICES, below(100), 1 + below(1000)};
    }
}

static unsigned parts_of(const struct solve_choice *c)
{
    unsigned set = 0;
    for (int d = 0; d < SOLVE_DEVICES; d++) set |= (unsigned)(c->part[d] > 0) << d;
    return set;
}

/* The definition: us of operation i as choice k, where the devices `held` have its input. */
static double cost_of(const struct solve_problem *p, int i, int k, unsigned held)
{
    const struct solve_choice *c = &choice[i][k];
    double slowest = 0;
    for (int d = 0; d < SOLVE_DEVICES; d++) slowest = c->us[d] > slowest ? c->us[d] : slowest;
    unsigned set = parts_of(c);
    bool one = (set & (set - 1)) == 0;
    return slowest + (one && held & set ? 0 : p->sync_us + op[i].copy_us);
}

/* Who holds the values before the first operation, when the last is choice `last`. */
static unsigned before(const struct solve_problem *p, int last)
{
    return p->start ? (unsigned)p->start : parts_of(&choice[OPS - 1][last]);
}

static double time_of(const struct solve_problem *p, const int *k)
{
    double sum = 0;
    unsigned held = before(p, k[OPS - 1]);
    for (int i = 0; i < OPS; held = parts_of(&choice[i][k[i]]), i++) sum += cost_of(p, i, k[i], held);
    return sum;
}

/* The best of all ways to go on from operation i to the last as choice `last`: each is tried. */
static double search_from(const struct solve_problem *p, int i, unsigned held, int last)
{
    double best = INFINITY;
    for (int k = i < OPS - 1 ? 0 : last; k < (i < OPS - 1 ? CHOICES : last + 1); k++) {
        double us = cost_of(p, i, k, held);
        if (i < OPS - 1) us += search_from(p, i + 1, parts_of(&choice[i][k]), last);
        if (us < best) best = us;
    }
    return best;
}

static double search(const struct solve_problem *p)
{
    double best = INFINITY;
    for (int last = 0; last < CHOICES; last++) best = fmin(best, search_from(p, 0, before(p, last), last));
    return best;
}

static void equals_exhaustive_search(void **state)
{
    struct solve_problem p;
    struct solve_answer a;
    struct lutra_error err = {0};
    (void)state;
    for (seed = 1; seed <= CHAINS;) {
        uint32_t at = seed;
        seed *= 2654435761u;
        random_chain(&p);
        assert_int_equal(solve(&p, &a, &err), 0);
        double best = search(&p);
        if (fabs(a.us - best) > 1e-9 * best) fail_msg("chain %u: %f, exhaustive search finds %f", at, a.us, best);
        assert_true(fabs(time_of(&p, a.choice) - a.us) < 1e-9 * best);
        seed = at + 1;
    }
}

/* ---- [HETERO Table 3] ---- */

/* Two weights: [4096][4096] and [4096][14336], and [28672][4096] for one row.  The GPU's law goes through one row; the
 * NPU's stages have 32 rows. */
static const struct cost_law square_gpu = {0, 3, {{1, 511}, {128, 7306}, {256, 10841}}},
                             square_npu = {32, 2, {{128, 912}, {256, 1884}}}, up_gpu = {0, 1, {{1, 1903}}},
                             up_npu = {0, 1, {{1, 3886}}}, row_gpu = {0, 1, {{1, 511}}}, row_npu = {0, 1, {{1, 693}}},
                             down_row_npu = {0, 1, {{1, 6506}}},
                             down_gpu = {0, 3, {{1, 1467}, {256, 35231}, {384, 50000}}},
                             down_npu = {32, 2, {{256, 23445}, {384, 32000}}};

static const struct {
    const struct cost_law *gpu, *npu;
    int first, last; /* rows */
    enum solve_kind kind;
    int gpu_part, npu_part; /* as published; 0, 0: not said */
} table3[] = {{&row_gpu, &row_npu, 1, 1, SOLVE_OUTPUTS, 1, 1}, {&up_gpu, &up_npu, 1, 1, SOLVE_OUTPUTS, 3, 1},
    {&down_gpu, &down_row_npu, 1, 1, SOLVE_ONE, 1, 0}, {&square_gpu, &square_npu, 128, 128, SOLVE_ONE, 0, 1},
    {&square_gpu, &square_npu, 193, 255, SOLVE_PADDED, 0, 1}, {&square_gpu, &square_npu, 256, 256, SOLVE_ONE, 0, 1},
    {&square_gpu, &square_npu, 257, 272, SOLVE_ROWS, 0, 0}, {&down_gpu, &down_npu, 256, 256, SOLVE_OUTPUTS, 2, 3},
    {&down_gpu, &down_npu, 257, 384, SOLVE_HYBRID, 2, 3}};

enum { ROWS_OF_TABLE = sizeof table3 / sizeof *table3 };

/* What the solver takes for one operation whose values the GPU holds. */
static struct solve_choice best_of(int i, int rows, int grid, double sync_us)
{
    static struct solve_choice all[SOLVE_CHOICES];
    struct solve_question q = {.n_device = 2, .rows = rows, .grid = grid, .block = 256};
    q.law[0] = table3[i].gpu, q.law[1] = table3[i].npu;
    struct solve_op one = {all, solve_choices(&q, all, SOLVE_CHOICES), 0, 0};
    struct solve_problem p = {.n_device = 2, .n_op = 1, .grid = grid, .op = &one, .sync_us = sync_us, .start = 1};
    struct solve_answer a;
    assert_int_equal(solve(&p, &a, NULL), 0);
    return all[a.choice[0]];
}

/* Rows of the table of which every length gets the published strategy. */
static int n_right(int grid, double sync_us, bool tell)
{
    int n = 0;
    for (int i = 0; i < ROWS_OF_TABLE; i++) {
        bool right = true;
        struct solve_choice c = {0};
        for (int rows = table3[i].first; rows <= table3[i].last; rows++) {
            c = best_of(i, rows, grid, sync_us);
            /* a length that is a multiple of the stage needs no padding */
            bool exact = rows % 32 == 0 && rows > 1;
            enum solve_kind want = table3[i].kind;
            if (exact && want == SOLVE_HYBRID) want = SOLVE_OUTPUTS;
            if (exact && want == SOLVE_PADDED) want = SOLVE_ONE;
            right &= c.kind == want;
            if (want == SOLVE_ONE || want == SOLVE_PADDED) right &= (c.part[0] > 0) == (table3[i].gpu_part > 0);
        }
        n += right;
        if (tell)
            printf("grid %d, T_sync + T_copy %.0f us: row %d: %s, %d : %d (published %d : %d)\n", grid, sync_us, i + 1,
                solve_kind_name(c.kind), c.part[0], c.part[1], table3[i].gpu_part, table3[i].npu_part);
    }
    return n;
}

static void has_the_papers_strategies(void **state)
{
    (void)state;
    assert_int_equal(n_right(5, 185, true), ROWS_OF_TABLE);
    assert_int_equal(n_right(5, 167, false), ROWS_OF_TABLE);
    assert_int_equal(n_right(5, 204, false), ROWS_OF_TABLE);
    assert_true(n_right(5, 165, false) < ROWS_OF_TABLE && n_right(5, 205, false) < ROWS_OF_TABLE);
    /* quarters: all but the last row, whose strategy they have up to 357 rows */
    assert_int_equal(n_right(4, 100, true), ROWS_OF_TABLE - 1);
    assert_int_equal(n_right(4, 164, false), ROWS_OF_TABLE - 1);
    assert_true(n_right(4, 165, false) < ROWS_OF_TABLE - 1);
    for (int rows = 257; rows <= 357; rows++) {
        enum solve_kind kind = best_of(ROWS_OF_TABLE - 1, rows, 4, 100).kind;
        assert_true(kind == (rows % 32 ? SOLVE_HYBRID : SOLVE_OUTPUTS));
    }
    for (int grid = 6; grid <= SOLVE_GRID; grid++)
        for (double sync_us = 0; sync_us <= 400; sync_us += 2)
            assert_true(n_right(grid, sync_us, false) < ROWS_OF_TABLE);
    printf("the plain formula, without a grid: %.2f : 1 and %.2f : 1 where 1 : 1 and 3 : 1 are published\n", 693 / 511.,
        3886 / 1903.);
}

static void has_the_formulas_value(void **state)
{
    (void)state;
    for (double sync_us = 0; sync_us < 600; sync_us += 20) {
        double least = fmin(511, 693 + sync_us);
        for (int k = 1; k < 4; k++) least = fmin(least, fmax(511 * k / 4., 693 * (4 - k) / 4.) + sync_us);
        struct solve_choice c = best_of(0, 1, 4, sync_us);
        double us = fmax(c.us[0], c.us[1]);
        if (c.part[1]) us += sync_us;
        assert_true(fabs(us - least) < 1e-9);
    }
}

static void laws_are_lines_and_stages(void **state)
{
    (void)state;
    assert_true(fabs(cost_at(&square_gpu, 192) - (7306 + 10841) / 2.) < 1e-9);
    assert_true(cost_at(&square_gpu, 512) > cost_at(&square_gpu, 511));
    assert_true(cost_at(&square_npu, 129) == cost_at(&square_npu, 160) &&
                cost_at(&square_npu, 161) > cost_at(&square_npu, 160));
    assert_true(cost_at(&square_npu, 0) == 0);
    struct cost_law none = {0};
    assert_true(isinf(cost_at(&none, 1)));
}

static void three_devices_share(void **state)
{
    static struct solve_choice all[SOLVE_CHOICES];
    const struct cost_law law = {0, 1, {{1, 9000}}}, twice = {0, 1, {{1, 4500}}};
    struct solve_question q = {.n_device = 3, .rows = 1, .grid = 4, .law = {&law, &twice, &law}};
    struct solve_op one = {all, solve_choices(&q, all, SOLVE_CHOICES), 0, 0};
    struct solve_problem p = {.n_device = 3, .n_op = 1, .grid = 4, .op = &one, .sync_us = 10, .start = 1};
    struct solve_answer a;
    (void)state;
    assert_int_equal(one.n_choice, 15); /* 3 alone, and all others of 15 sums */
    assert_int_equal(solve(&p, &a, NULL), 0);
    const struct solve_choice *c = &all[a.choice[0]];
    assert_int_equal(c->part[0], 1);
    assert_int_equal(c->part[1], 2);
    assert_int_equal(c->part[2], 1);
    assert_true(fabs(a.us - 2260) < 1e-9);
}

/* Chains of real choices: two devices, quarters. */
static void lawful_chain(struct solve_problem *p, struct cost_law law[OPS][2])
{
    *p = (struct solve_problem){.n_device = 2, .n_op = OPS, .grid = 4, .op = op, .sync_us = below(100), .start = 1};
    for (int i = 0; i < OPS; i++) {
        for (int d = 0; d < 2; d++) law[i][d] = (struct cost_law){.n = 1, .point = {{1, 100 + below(1000)}}};
        struct solve_question q = {.n_device = 2, .rows = 1, .grid = 4, .law = {&law[i][0], &law[i][1]}};
        op[i] = (struct solve_op){choice[i], solve_choices(&q, choice[i], CHOICES), below(20), 1 + below(1000)};
    }
}

/* The least time of what fits into device d. */
static double search_fitting(const struct solve_problem *p, int d)
{
    double best = INFINITY;
    for (int n = 0; n < 15625; n++) {
        int k[OPS], rest = n;
        double bytes = 0;
        for (int i = 0; i < OPS; i++, rest /= 5) {
            k[i] = rest % 5;
            bytes += op[i].bytes * choice[i][k[i]].part[d] / 4;
        }
        if (bytes <= p->memory[d]) best = fmin(best, time_of(p, k));
    }
    return best;
}

/* Never over the limit; memory to spare changes nothing; what cannot fit is said. */
static void memory_is_kept(void **state)
{
    struct solve_problem p;
    struct solve_answer a, unlimited;
    struct cost_law law[OPS][2];
    struct lutra_error err = {0};
    double excess = 0;
    int n_bound = 0;
    (void)state;
    for (uint32_t i = 1; i <= CHAINS / 4; i++) {
        seed = i * 2654435761u;
        lawful_chain(&p, law);
        assert_int_equal(op[0].n_choice, 5);
        assert_int_equal(solve(&p, &unlimited, &err), 0);
        int d = below(2);
        p.memory[d] = unlimited.bytes[d] + 1;
        assert_int_equal(solve(&p, &a, &err), 0);
        assert_true(a.us == unlimited.us);
        p.memory[d] = 1 + unlimited.bytes[d] * below(100) / 100;
        assert_int_equal(solve(&p, &a, &err), 0);
        assert_true(a.bytes[d] <= p.memory[d]);
        double best = search_fitting(&p, d);
        assert_true(a.us >= best - 1e-6 && a.us < 1.5 * best);
        excess += a.us / best - 1;
        n_bound += a.us > unlimited.us;
    }
    printf("%d of %d chains took another plan, to fit; mean excess over the best that fits: %.1f %%\n", n_bound,
        CHAINS / 4, 100 * excess / (CHAINS / 4));
    assert_true(n_bound > CHAINS / 8 && excess < 0.05 * CHAINS / 4);
    for (int d = 0; d < 2; d++) p.memory[d] = 1;
    assert_int_equal(solve(&p, &a, &err), LUTRA_E_NO_MEMORY);
    op[2].n_choice = 0;
    assert_int_equal(solve(&p, &a, &err), LUTRA_E_UNSUPPORTED);
    p.n_device = 4;
    assert_int_equal(solve(&p, &a, &err), LUTRA_E_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_exhaustive_search),
        cmocka_unit_test(has_the_papers_strategies), cmocka_unit_test(has_the_formulas_value),
        cmocka_unit_test(laws_are_lines_and_stages), cmocka_unit_test(three_devices_share),
        cmocka_unit_test(memory_is_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
