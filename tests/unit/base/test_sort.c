/* SPDX-License-Identifier: MIT
 *
 * Sorting against the definition: every number once, none before one that comes first; any length, with equal ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/sort.h"

enum { MOST = 600 };

static int by_key(uint32_t x, uint32_t y, const void *user)
{
    const int *key = user;
    return (key[x] > key[y]) - (key[x] < key[y]);
}

static void sorts_any_length(void **state)
{
    int key[MOST];
    uint32_t id[MOST];
    uint64_t seed = 1;
    (void)state;
    for (size_t n = 0; n <= MOST; n += n < 40 ? 1 : 35)
        for (int kind = 0; kind < 5; kind++) { /* ordered, the other way round, few values, many, all equal */
            bool there[MOST] = {false};
            for (size_t i = 0; i < n; i++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                const int random = (int)(seed >> 40);
                key[i] = kind == 0 ? (int)i : kind == 1 ? -(int)i : kind == 2 ? random % 7 : kind == 3 ? random : 5;
                id[i] = (uint32_t)i;
            }
            sort_ids(id, n, by_key, key);
            for (size_t i = 0; i < n; i++) {
                assert_true(id[i] < n && !there[id[i]]);
                there[id[i]] = true;
                if (i) assert_true(key[id[i - 1]] <= key[id[i]]);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sorts_any_length)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
