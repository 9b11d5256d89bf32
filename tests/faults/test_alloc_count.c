/* SPDX-License-Identifier: MIT
 *
 * The counter itself: it sees what is asked for directly, through the C library and by rooms, and fails what it is
 * told to fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/pool.h"
#include "faults/alloc_count.h"

static void *volatile keep; /* so that the compiler drops no allocation */

static void test_counts(void **state)
{
    (void)state;
    alloc_count_begin();
    keep = malloc(1000);
    keep = realloc(keep, 5000);
    free(keep);
    keep = calloc(10, 10);
    struct alloc_count count = alloc_count_end();
    assert_int_equal(count.n_alloc, 3);
    assert_int_equal(count.n_free, 1);
    assert_in_range(count.live_bytes, 100, 200);
    assert_in_range(count.peak_bytes, 5000, 6500);
    free(keep);
    assert_int_equal(alloc_count_end().live_bytes, 0);
}

static void test_sees_the_c_library_and_mmap(void **state)
{
    struct arena arena;
    (void)state;
    alloc_count_begin();
    FILE *file = fopen("/dev/null", "r");
    assert_non_null(file);
    fclose(file);
    assert_true(alloc_count_end().n_alloc >= 1);
    alloc_count_begin();
    assert_int_equal(arena_open(&arena, "test", 4096, 0, NULL), LUTRA_OK);
    arena_close(&arena);
    struct alloc_count count = alloc_count_end();
    assert_int_equal(count.n_map, 1);
    assert_int_equal(count.n_unmap, 1);
    assert_int_equal(count.n_alloc, 0);
}

static void test_fails_the_chosen_one(void **state)
{
    struct arena arena;
    (void)state;
    alloc_fail_at(2);
    void *a = malloc(1);
    keep = a;
    assert_non_null(keep);
    assert_false(alloc_fail_reached());
    keep = malloc(1);
    assert_null(keep);
    assert_true(alloc_fail_reached());
    keep = malloc(1);
    assert_non_null(keep);
    free(keep);
    free(a);
    alloc_fail_at(1);
    assert_int_equal(arena_open(&arena, "test", 4096, 0, NULL), LUTRA_E_NO_MEMORY);
    alloc_fail_at(0);
    assert_false(alloc_fail_reached());
}

static int two_clean(void *arg)
{
    (void)arg;
    char *volatile a = malloc(10);
    if (!a) return LUTRA_E_NO_MEMORY;
    char *volatile b = malloc(10);
    free(a);
    if (!b) return LUTRA_E_NO_MEMORY;
    free(b);
    return LUTRA_OK;
}

static int two_leaking(void *arg)
{
    void **leaked = arg;
    *leaked = malloc(10);
    if (!*leaked) return LUTRA_E_NO_MEMORY;
    void *volatile b = malloc(10);
    if (!b) return LUTRA_E_NO_MEMORY;
    free(b);
    free(*leaked);
    return LUTRA_OK;
}

static int open_pool(void *arg)
{
    struct pool *pool;
    (void)arg;
    TRY(pool_open(&pool, &(struct pool_settings){.n_thread = 1}, NULL));
    pool_close(&pool);
    return LUTRA_OK;
}

static void test_fail_each(void **state)
{
    void *leaked = NULL;
    (void)state;
    assert_int_equal(alloc_fail_each(two_clean, NULL, 100), 2);
    assert_int_equal(alloc_fail_each(two_clean, NULL, 1), 0);
    assert_int_equal(alloc_fail_each(two_leaking, &leaked, 100), -2);
    free(leaked);
    assert_true(alloc_fail_each(open_pool, NULL, 100) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_sees_the_c_library_and_mmap),
        cmocka_unit_test(test_fails_the_chosen_one),
        cmocka_unit_test(test_fail_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
