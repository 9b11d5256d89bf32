/* SPDX-License-Identifier: MIT
 *
 * Suffix arrays against comparing every pair, and lookups against a scan.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rag/suffixes.h"

enum { N_MOST = 400 };

static uint64_t random_state = 7;
static int32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((random_state >> 33) % n);
}

static const int32_t *now;
static int32_t n_now;

static int by_suffix(const void *x, const void *y)
{
    int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    for (; a < n_now && b < n_now; a++, b++)
        if (now[a] != now[b]) return now[a] < now[b] ? -1 : 1;
    return a < n_now ? 1 : -1;
}

/* Random symbols, runs, repeated pieces, Fibonacci words: what takes several rounds of names. */
static void fill(int32_t *symbol, int32_t n, int32_t n_symbol, int kind)
{
    int32_t period = 1 + random_below(9);
    for (int32_t i = 0; i < n; i++) {
        symbol[i] = random_below((uint32_t)n_symbol);
        if (kind == 1 && i > 0 && random_below(8)) symbol[i] = symbol[i - 1];
        if (kind == 2 && i >= period && random_below(40)) symbol[i] = symbol[i - period];
        if (kind == 3)
            symbol[i] =
                n_symbol > 1 && (int32_t)((i + 2) * 0.6180339887498949) > (int32_t)((i + 1) * 0.6180339887498949);
    }
}

static void order_is_that_of_all_pairs(void **state)
{
    (void)state;
    int32_t symbol[N_MOST], order[N_MOST], want[N_MOST];
    for (int round = 0; round < 4000; round++) {
        int32_t n = random_below(round < 2000 ? 24 : N_MOST), n_symbol = 1 + random_below(round % 3 ? 4 : 300);
        fill(symbol, n, n_symbol, round % 4);
        for (int32_t i = 0; i < n; i++) want[i] = i;
        now = symbol;
        n_now = n;
        qsort(want, (size_t)n, sizeof *want, by_suffix);
        assert_int_equal(suffixes_sort(symbol, n, n_symbol, order), 0);
        assert_memory_equal(order, want, (size_t)n * sizeof *order);
    }
}

static void lookups_find_what_a_scan_finds(void **state)
{
    (void)state;
    int32_t symbol[N_MOST], order[N_MOST];
    for (int round = 0; round < 2000; round++) {
        int32_t n = 1 + random_below(N_MOST - 1), n_symbol = 1 + random_below(5), pattern[6];
        fill(symbol, n, n_symbol, round % 4);
        assert_int_equal(suffixes_sort(symbol, n, n_symbol, order), 0);
        struct suffixes t = {symbol, order, n};
        struct span s = {0, n};
        int32_t n_pattern = 1 + random_below(6);
        for (int32_t d = 0; d < n_pattern; d++) {
            pattern[d] = random_below((uint32_t)n_symbol);
            s = suffixes_narrow(&t, s, d, pattern[d]);
        }
        int32_t count = 0;
        for (int32_t i = 0; i + n_pattern <= n; i++) {
            int32_t d = 0;
            while (d < n_pattern && symbol[i + d] == pattern[d]) d++;
            count += d == n_pattern;
        }
        assert_int_equal(s.to - s.from, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_that_of_all_pairs),
        cmocka_unit_test(lookups_find_what_a_scan_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
