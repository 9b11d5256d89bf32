/* SPDX-License-Identifier: MIT
 *
 * Typed access: missing, wrong type and out of range are three different answers, each naming file and key.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/weights/build.h"
#include "files/gguf_write.h"
#include "weights/weights.h"

static struct weights *w;
static struct lutra_error err;

static int open_sample(void **state)
{
    struct gguf_writer *out;
    if (test_folder_make(state) < 0 || gguf_writer_open(&out, in_folder("m.gguf"), NULL) < 0) return -1;
    int64_t big = (int64_t)1 << 40, minus = -3;
    double d = 2.5, huge = 1e300;
    uint16_t u16 = 65535;
    uint8_t per_layer[3] = {8, 4, 2};
    int32_t mixed[2] = {5, -5};
    struct gguf_str strs[1] = {{"x", 1}};
    gguf_writer_put_u32(out, "u32", 7);
    gguf_writer_put_scalar(out, "u16", GGUF_U16, &u16);
    gguf_writer_put_scalar(out, "big", GGUF_I64, &big);
    gguf_writer_put_scalar(out, "minus", GGUF_I64, &minus);
    gguf_writer_put_scalar(out, "f64", GGUF_F64, &d);
    gguf_writer_put_scalar(out, "huge", GGUF_F64, &huge);
    gguf_writer_put_f32(out, "f32", 0.5f);
    gguf_writer_put_bool(out, "bool", true);
    gguf_writer_put_str(out, "str", "text");
    gguf_writer_put_array(out, "layers", GGUF_U8, per_layer, 3);
    gguf_writer_put_array(out, "mixed", GGUF_I32, mixed, 2);
    gguf_writer_put_array(out, "wide", GGUF_I64, &big, 1);
    gguf_writer_put_strs(out, "strs", strs, 1);
    if (gguf_writer_commit(&out, NULL) < 0) return -1;
    return weights_open(&w, in_folder("m.gguf"), NULL);
}

static int close_sample(void **state)
{
    weights_close(&w);
    return test_folder_remove(state);
}

static void expect_text(int rc, int status, const char *text)
{
    if (rc != status || !strstr(err.what, text) || !strstr(err.what, "m.gguf: key '"))
        fail_msg("want %d '%s', got %d '%s'", status, text, rc, err.what);
}

static void integers(void **state)
{
    (void)state;
    uint32_t u = 1;
    uint64_t n = 1;
    assert_int_equal(weights_get_u32(w, "u32", &u, &err), 0);
    assert_int_equal(u, 7);
    assert_int_equal(weights_get_u32(w, "u16", &u, &err), 0);
    assert_int_equal(u, 65535);
    assert_int_equal(weights_get_u64(w, "big", &n, &err), 0);
    assert_true(n == (uint64_t)1 << 40);
    u = 99;
    expect_text(weights_get_u32(w, "big", &u, &err), LUTRA_E_FORMAT, "'big' holds a value that does not fit");
    expect_text(weights_get_u32(w, "minus", &u, &err), LUTRA_E_FORMAT, "does not fit in an unsigned 32-bit");
    expect_text(weights_get_u64(w, "minus", &n, &err), LUTRA_E_FORMAT, "does not fit");
    expect_text(weights_get_u32(w, "f32", &u, &err), LUTRA_E_FORMAT, "'f32' is of type f32, not an integer");
    expect_text(weights_get_u32(w, "bool", &u, &err), LUTRA_E_FORMAT, "of type bool, not an integer");
    expect_text(weights_get_u32(w, "str", &u, &err), LUTRA_E_FORMAT, "of type string, not an integer");
    expect_text(weights_get_u32(w, "layers", &u, &err), LUTRA_E_FORMAT, "an array of u8, not an integer");
    assert_int_equal(u, 99);
}

static void other_types(void **state)
{
    (void)state;
    float f;
    bool b = false;
    struct gguf_str s;
    assert_int_equal(weights_get_f32(w, "f32", &f, &err), 0);
    assert_true(f == 0.5f);
    assert_int_equal(weights_get_f32(w, "f64", &f, &err), 0);
    assert_true(f == 2.5f);
    expect_text(weights_get_f32(w, "huge", &f, &err), LUTRA_E_FORMAT, "does not fit in a float");
    expect_text(weights_get_f32(w, "u32", &f, &err), LUTRA_E_FORMAT, "of type u32, not a float");
    assert_int_equal(weights_get_bool(w, "bool", &b, &err), 0);
    assert_true(b);
    expect_text(weights_get_bool(w, "u32", &b, &err), LUTRA_E_FORMAT, "not a bool");
    assert_int_equal(weights_get_str(w, "str", &s, &err), 0);
    assert_int_equal(s.n, 4);
    assert_memory_equal(s.s, "text", 4);
    expect_text(weights_get_str(w, "strs", &s, &err), LUTRA_E_FORMAT, "an array of string, not a string");
}

static void missing_keys(void **state)
{
    (void)state;
    uint32_t u = 5;
    uint64_t n = 5;
    float f = 5;
    bool b = true;
    struct gguf_str s = {"d", 1};
    const struct gguf_kv *kv;
    expect_text(weights_get_u32(w, "none", &u, &err), LUTRA_E_NOT_FOUND, "key 'none' is missing");
    expect_text(weights_get_u64(w, "none", &n, &err), LUTRA_E_NOT_FOUND, "is missing");
    expect_text(weights_get_f32(w, "none", &f, &err), LUTRA_E_NOT_FOUND, "is missing");
    expect_text(weights_get_bool(w, "none", &b, &err), LUTRA_E_NOT_FOUND, "is missing");
    expect_text(weights_get_str(w, "none", &s, &err), LUTRA_E_NOT_FOUND, "is missing");
    expect_text(weights_get_array(w, "none", GGUF_U8, &kv, &err), LUTRA_E_NOT_FOUND, "is missing");
    expect_text(weights_get_layer_u32(w, "none", 0, &u, &err), LUTRA_E_NOT_FOUND, "is missing");
    assert_int_equal(weights_opt_u32(w, "none", &u, &err), 0);
    assert_int_equal(weights_opt_f32(w, "none", &f, &err), 0);
    assert_int_equal(weights_opt_bool(w, "none", &b, &err), 0);
    assert_int_equal(weights_opt_str(w, "none", &s, &err), 0);
    assert_int_equal(weights_opt_layer_u32(w, "none", 3, &u, &err), 0);
    assert_true(u == 5 && n == 5 && f == 5 && b && s.n == 1);
    assert_int_equal(weights_opt_u32(w, "u32", &u, &err), 0);
    assert_int_equal(u, 7);
    expect_text(weights_opt_u32(w, "str", &u, &err), LUTRA_E_FORMAT, "not an integer");
    assert_int_equal(weights_get_u32(w, "none", &u, NULL), LUTRA_E_NOT_FOUND);
}

static void per_layer_values(void **state)
{
    (void)state;
    uint32_t u;
    for (uint32_t layer = 0; layer < 3; layer++) {
        assert_int_equal(weights_get_layer_u32(w, "layers", layer, &u, &err), 0);
        assert_int_equal(u, 8 >> layer);
        assert_int_equal(weights_get_layer_u32(w, "u32", layer, &u, &err), 0);
        assert_int_equal(u, 7);
    }
    expect_text(weights_get_layer_u32(w, "layers", 3, &u, &err), LUTRA_E_FORMAT, "has 3 values, none for layer 3");
    expect_text(weights_get_layer_u32(w, "mixed", 1, &u, &err), LUTRA_E_FORMAT, "does not fit");
    expect_text(weights_get_layer_u32(w, "strs", 0, &u, &err), LUTRA_E_FORMAT, "not an integer");
}

static void arrays(void **state)
{
    (void)state;
    uint64_t n = 0;
    int32_t i32[3];
    float f32[3];
    const struct gguf_kv *kv;
    assert_int_equal(weights_copy_i32(w, "layers", NULL, UINT64_MAX, &n, &err), 0);
    assert_int_equal(n, 3);
    assert_int_equal(weights_copy_i32(w, "layers", i32, 3, &n, &err), 0);
    assert_true(i32[0] == 8 && i32[2] == 2);
    assert_int_equal(weights_copy_i32(w, "mixed", i32, 3, &n, &err), 0);
    assert_true(n == 2 && i32[1] == -5);
    expect_text(weights_copy_i32(w, "layers", i32, 2, &n, &err), LUTRA_E_FORMAT, "has 3 values, at most 2");
    expect_text(weights_copy_i32(w, "wide", i32, 3, &n, &err), LUTRA_E_FORMAT, "does not fit in a signed 32-bit");
    expect_text(weights_copy_f32(w, "layers", f32, 3, &n, &err), LUTRA_E_FORMAT, "an array of u8, not a float");
    expect_text(weights_copy_i32(w, "u32", i32, 3, &n, &err), LUTRA_E_FORMAT, "of type u32, not an array");
    expect_text(weights_get_array(w, "layers", GGUF_STRING, &kv, &err), LUTRA_E_FORMAT, "not an array of string");
    assert_null(kv);
    assert_string_equal(gguf_kind_name(GGUF_F64), "f64");
    assert_string_equal(gguf_kind_name(13), "?");
}

/* Control bytes of a key do not reach the message. */
static void messages_are_one_line(void **state)
{
    (void)state;
    uint32_t u;
    expect_text(weights_get_u32(w, "evil\nkey\x1b[31m", &u, &err), LUTRA_E_NOT_FOUND, "'evil?key?[31m'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),
        cmocka_unit_test(other_types),
        cmocka_unit_test(missing_keys),
        cmocka_unit_test(per_layer_values),
        cmocka_unit_test(arrays),
        cmocka_unit_test(messages_are_one_line),
    };
    return cmocka_run_group_tests(tests, open_sample, close_sample);
}
