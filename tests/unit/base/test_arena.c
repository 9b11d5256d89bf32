/* SPDX-License-Identifier: MIT
 *
 * base/arena: alignment, the books it keeps, refusal with a status that names the arena.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"

static void test_take_and_books(void **state)
{
    struct arena arena;
    unsigned char *a, *b;
    (void)state;
    assert_int_equal(arena_open(&arena, "session", 10000, ARENA_HUGE_PAGES, NULL), LUTRA_OK);
    assert_int_equal(arena_take(&arena, 1, "a", (void **)&a, NULL), LUTRA_OK);
    assert_int_equal(arena_take(&arena, 100, "b", (void **)&b, NULL), LUTRA_OK);
    assert_int_equal((uintptr_t)a % ARENA_ALIGN, 0);
    assert_ptr_equal(b, a + 64);
    assert_int_equal(arena.used_bytes, 64 + 128);
    for (int i = 0; i < 100; i++) assert_int_equal(b[i], 0);
    memset(b, 1, 100);

    arena_close(&arena);
    arena_close(&arena);
}

static void test_full(void **state)
{
    struct arena arena;
    struct lutra_error err = {0};
    void *p;
    (void)state;
    assert_int_equal(arena_open(&arena, "step", 4096, 0, NULL), LUTRA_OK);
    assert_int_equal(arena_take(&arena, arena.size_bytes - 64, "most", &p, NULL), LUTRA_OK);
    assert_int_equal(arena_take(&arena, 65, "one row more", &p, &err), LUTRA_E_NO_MEMORY);
    assert_null(p);
    assert_non_null(strstr(err.what, "step"));
    assert_non_null(strstr(err.what, "one row more"));
    assert_int_equal(arena_take(&arena, 64, "last", &p, NULL), LUTRA_OK);
    memset(p, 1, 64);
    assert_int_equal(arena_take(&arena, SIZE_MAX, "overflow", &p, NULL), LUTRA_E_NO_MEMORY);
    assert_int_equal(arena_take(&arena, 0, "nothing", &p, NULL), LUTRA_OK);
    arena_close(&arena);
}

/* Whether the mapping that begins at p is advised to have huge pages; *known: the system says. */
static bool is_advised(const void *p, bool *known)
{
    char line[4096], first[32];
    bool mine = false, advised = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    snprintf(first, sizeof first, "%lx-", (unsigned long)(uintptr_t)p);
    while (f && fgets(line, sizeof line, f)) {
        if (strchr(line, '-') && strspn(line, "0123456789abcdef") == strcspn(line, "-"))
            mine = !strncmp(line, first, strlen(first));
        if (mine && !strncmp(line, "VmFlags:", 8)) advised = strstr(line, " hg") != NULL;
    }
    *known = f && !access("/sys/kernel/mm/transparent_hugepage", F_OK);
    if (f) fclose(f);
    return advised;
}

static void test_huge_pages_later(void **state)
{
    struct arena arena;
    bool known;
    (void)state;
    assert_int_equal(arena_open(&arena, "scratch", 8 << 20, ARENA_HUGE_LATER, NULL), LUTRA_OK);
    assert_int_equal((uintptr_t)arena.start % (2 << 20), 0);
    assert_false(is_advised(arena.start, &known));
    arena.start[0] = 1;
    arena_want_huge_pages(arena.start, arena.size_bytes);
    assert_true(is_advised(arena.start, &known) || !known);
    assert_int_equal(arena.start[0], 1);
    arena_close(&arena);
}

static void test_cannot_reserve(void **state)
{
    struct arena arena;
    struct lutra_error err = {0};
    void *p;
    (void)state;
    assert_int_equal(arena_open(&arena, "model", SIZE_MAX / 2 - 4096, 0, &err), LUTRA_E_NO_MEMORY);
    assert_int_equal(arena_open(&arena, "model", SIZE_MAX, 0, &err), LUTRA_E_NO_MEMORY);
    assert_non_null(strstr(err.what, "model"));
    assert_int_equal(arena_take(&arena, 1, "a", &p, NULL), LUTRA_E_NO_MEMORY);
    arena_close(&arena);
    assert_int_equal(arena_open(&arena, "empty", 0, 0, &err), LUTRA_OK);
    assert_int_equal(arena_take(&arena, 1, "a", &p, NULL), LUTRA_E_NO_MEMORY);
    arena_close(&arena);
}

static void test_cost(void **state)
{
    (void)state;
    assert_int_equal(arena_cost(0), 0);
    assert_int_equal(arena_cost(64), 64);
    assert_int_equal(arena_cost(65), 128);
    assert_int_equal(arena_cost(SIZE_MAX), SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take_and_books),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_huge_pages_later),
        cmocka_unit_test(test_cannot_reserve),
        cmocka_unit_test(test_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
