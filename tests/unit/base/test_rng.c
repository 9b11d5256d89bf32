/* SPDX-License-Identifier: MIT
 *
 * base/rng: the published known answers of Philox4x32-10, and that keys and counters give different numbers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "base/rng.h"

/* The three vectors of the authors' Random123 distribution for philox4x32 with 10 rounds. */
static void test_known_answers(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
            {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        rng_philox(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

/* The layout of seed, sample, position and counter is part of what a seed means: it must not drift. */
static void test_layout(void **state)
{
    struct rng_key key = {.seed = 0x299f31d0a4093822, .sample = 0x13198a2e, .position = 0x85a308d3};
    uint32_t out[4];
    (void)state;
    rng_philox((uint32_t[4]){5, 0x85a308d3, 0x13198a2e, 0}, (uint32_t[2]){0xa4093822, 0x299f31d0}, out);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(rng_u32(key, 20 + i), out[i]);
}

static void test_every_part_matters(void **state)
{
    struct rng_key key = {.seed = 1, .sample = 2, .position = 3};
    struct rng_key seed = key, high = key, sample = key, position = key;
    (void)state;
    seed.seed++;
    high.seed += 1ull << 32;
    sample.sample++;
    position.position++;
    uint32_t first = rng_u32(key, 0);
    assert_int_not_equal(first, rng_u32(seed, 0));
    assert_int_not_equal(first, rng_u32(high, 0));
    assert_int_not_equal(first, rng_u32(sample, 0));
    assert_int_not_equal(first, rng_u32(position, 0));
    assert_int_not_equal(first, rng_u32(key, 1));
    assert_int_equal(first, rng_u32(key, 0));
}

/* 16 bins x 65536 draws over positions: chi-square with 15 degrees of freedom stays below 44.3 (p = 1e-4). */
static void test_uniform(void **state)
{
    enum { BINS = 16, DRAWS = 65536 };
    int bin[BINS] = {0};
    double chi2 = 0, sum = 0;
    (void)state;
    for (uint32_t i = 0; i < DRAWS; i++) {
        float u = rng_float((struct rng_key){.seed = 42, .sample = 7, .position = i}, 0);
        assert_true(u >= 0 && u < 1);
        bin[(int)(u * BINS)]++;
        sum += rng_double((struct rng_key){.seed = 42, .sample = 8, .position = i}, 0);
    }
    for (int i = 0; i < BINS; i++) {
        double d = bin[i] - (double)DRAWS / BINS;
        chi2 += d * d / ((double)DRAWS / BINS);
    }
    assert_true(chi2 < 44.3);
    assert_true(sum / DRAWS > 0.495 && sum / DRAWS < 0.505);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_every_part_matters),
        cmocka_unit_test(test_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
