/* SPDX-License-Identifier: MIT
 *
 * cpu/slab: pieces lie side by side in regions, never overlap, and a region lives exactly as long as its pieces.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdint.h>
#include <string.h>

#include "cpu/slab.h"

enum { REGION = 64 << 20 };

static unsigned char *take(struct slab **list, size_t bytes, struct slab **from)
{
    void *p;
    assert_int_equal(slab_take(list, bytes, "tensor", from, &p, NULL), 0);
    assert_int_equal((uintptr_t)p % 64, 0);
    return p;
}

static void test_side_by_side(void **state)
{
    struct slab *list = NULL, *from[4];
    (void)state;
    unsigned char *a = take(&list, 100, &from[0]), *b = take(&list, 3 << 20, &from[1]);
    assert_ptr_equal(b, a + 128);
    assert_ptr_equal(from[0], from[1]);
    memset(b, 1, 3 << 20);
    unsigned char *large = take(&list, REGION + 1, &from[2]), *c = take(&list, 64, &from[3]);
    assert_ptr_not_equal(from[2], from[1]);
    large[REGION] = 2;
    assert_int_equal(large[0] + c[0], 0);
    for (int i = 0; i < 4; i++) slab_give(&list, from[i]);
    assert_null(list);
}

static void test_regions_go_with_their_pieces(void **state)
{
    struct slab *list = NULL, *from[3];
    (void)state;
    take(&list, REGION / 2, &from[0]);
    take(&list, REGION / 4, &from[1]);
    take(&list, REGION / 2, &from[2]);
    assert_ptr_equal(from[0], from[1]);
    assert_ptr_equal(list, from[2]);
    assert_ptr_equal(list->older, from[0]);
    slab_give(&list, from[0]);
    assert_ptr_equal(list->older, from[1]);
    slab_give(&list, from[1]);
    assert_null(list->older);
    slab_give(&list, NULL);
    slab_give(&list, from[2]);
    assert_null(list);
}

static void test_no_memory(void **state)
{
    struct slab *list = NULL, *from = NULL;
    struct lutra_error err = {0};
    void *p;
    (void)state;
    assert_int_equal(slab_take(&list, SIZE_MAX - 64, "huge.weight", &from, &p, &err), LUTRA_E_NO_MEMORY);
    assert_null(list);
    assert_non_null(strstr(err.what, "packed weight"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_regions_go_with_their_pieces), cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
