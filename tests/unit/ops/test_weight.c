/* SPDX-License-Identifier: MIT
 *
 * ops/weight.h: who has what of a weight.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/device.h"

static struct device device[WEIGHT_HOLDERS + 1];
static char some;

static struct weight make(void)
{
    return (struct weight){.tensor = {"blk.0.ffn_up.weight", QUANT_F32, 2, {32, 256, 1, 1}, NULL, 4L * 32 * 256}};
}

static void prepare(struct weight *w, const struct device *d, size_t bytes)
{
    struct held *h = weight_held(w, d);
    h->packed = (struct packed *)(void *)&some, h->has = h->want, h->bytes = bytes;
}

static void ranges_grow_and_are_each_devices_own(void **state)
{
    struct weight w = make();
    (void)state;
    assert_null(weight_held(&w, &device[0]));
    assert_false(weight_is_ready(&w, NULL));
    assert_int_equal(weight_give(&w, &device[0], (struct columns){64, 32}, NULL), 0);
    assert_int_equal(weight_give(&w, &device[1], (struct columns){128, 128}, NULL), 0);
    assert_false(weight_is_ready(&w, &device[0]));
    prepare(&w, &device[0], 10);
    assert_true(weight_is_ready(&w, &device[0]) && !weight_is_ready(&w, &device[1]) && !weight_is_ready(&w, NULL));
    assert_null(weight_packed(&w, &device[1]));
    prepare(&w, &device[1], 20);
    assert_true(weight_is_ready(&w, NULL));
    assert_int_equal(weight_bytes(&w), 30);
    /* Within what it has; then more, with all between. */
    assert_int_equal(weight_give(&w, &device[0], (struct columns){64, 16}, NULL), 0);
    assert_true(weight_is_ready(&w, &device[0]));
    assert_int_equal(weight_give(&w, &device[0], (struct columns){0, 32}, NULL), 0);
    assert_false(weight_is_ready(&w, &device[0]));
    assert_int_equal(weight_held(&w, &device[0])->want.first, 0);
    assert_int_equal(weight_held(&w, &device[0])->want.n, 96);
    assert_int_equal(weight_give(&w, &device[0], (struct columns){224, 32}, NULL), 0);
    assert_int_equal(weight_held(&w, &device[0])->want.n, 256);
    prepare(&w, &device[0], 80); /* all of it: others have what is there twice */
    assert_int_equal(weight_bytes(&w), 80);
    weight_forget(weight_held(&w, &device[0]));
    assert_null(weight_packed(&w, &device[0]));
    assert_int_equal(weight_held(&w, &device[0])->want.n, 256);
    assert_int_equal(weight_bytes(&w), 20);
}

static void who_prepares_without_being_asked_prepares_all(void **state)
{
    struct weight w = make();
    (void)state;
    assert_int_equal(weight_to_prepare(&w, &device[3], NULL)->want.n, 256);
    assert_int_equal(weight_bytes(&w), 4 * 32 * 256);
}

static void more_devices_than_places_are_refused(void **state)
{
    struct weight w = make();
    struct lutra_error err;
    (void)state;
    for (int i = 0; i < WEIGHT_HOLDERS; i++) {
        assert_int_equal(weight_give(&w, &device[i], (struct columns){0, 256}, NULL), 0);
        prepare(&w, &device[i], 1);
    }
    assert_int_equal(weight_give(&w, &device[WEIGHT_HOLDERS], (struct columns){0, 32}, &err), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "ffn_up"));
    assert_null(weight_to_prepare(&w, &device[WEIGHT_HOLDERS], NULL));
    weight_forget(weight_held(&w, &device[5])); /* it has nothing: its place is given away */
    assert_int_equal(weight_give(&w, &device[WEIGHT_HOLDERS], (struct columns){0, 32}, &err), 0);
    assert_null(weight_held(&w, &device[5]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_grow_and_are_each_devices_own),
        cmocka_unit_test(who_prepares_without_being_asked_prepares_all),
        cmocka_unit_test(more_devices_than_places_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
