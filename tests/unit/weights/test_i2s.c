/* SPDX-License-Identifier: MIT
 *
 * I2_S of bitnet.cpp's files: each value against the format's definition, and what is refused.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quant/quant.h"
#include "unit/weights/build.h"
#include "weights/weights.h"

enum { COLS = 512, ROWS = 3, N = COLS * ROWS, I2_S = 36, F32 = 0, STRING = 8 };

static struct build f;

/* 0, 1 or 2 at element i. */
static int code_at(int i)
{
    return (int)((uint32_t)i * 2654435761u >> 16) % 3;
}

/* A file with an I2_S matrix and a vector behind it; file_type 0: none. */
static void write_file(const char *arch, uint32_t file_type, uint64_t cols, float scale)
{
    uint64_t ne[2] = {cols, ROWS}, two = 2;
    const float after[2] = {3, 4};
    add_head(&f, 3, 2, file_type ? 2 : 1);
    add_str(&f, "general.architecture");
    add_u32(&f, STRING);
    add_str(&f, arch);
    if (file_type) add_kv_u32(&f, "general.file_type", file_type);
    add_tensor(&f, "w", 2, ne, I2_S, 0);
    add_tensor(&f, "after", 1, &two, F32, N / 4 + 32);
    add_padding(&f, 32);
    for (int b = 0; b < N; b += 128)
        for (int l = 0; l < 32; l++) {
            uint8_t byte = 0;
            for (int k = 0; k < 4; k++) byte = (uint8_t)(byte | code_at(b + 32 * k + l) << (6 - 2 * k));
            add(&f, &byte, 1);
        }
    add(&f, &scale, sizeof scale);
    add_zeros(&f, 28);
    add(&f, after, sizeof after);
    save(in_folder("i2s.gguf"), f.b, f.n);
}

static void values_are_the_definition_s(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        uint32_t file_type;
        float scale, want;
        bool exact;
    } cases[] = {{"bitnet-b1.58", 0, 1.21875f, 1.21875f, true}, {"bitnet-25", 40, -0.375f, -0.375f, true},
        {"llama", 40, 0.1f, 0.0999755859375f, false}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct weights *w;
        struct lutra_error err;
        const struct tensor *t, *after;
        float x[N];
        write_file(cases[k].arch, cases[k].file_type, COLS, cases[k].scale);
        if (weights_open(&w, in_folder("i2s.gguf"), &err) < 0) fail_msg("%s", err.what);
        assert_int_equal(weights_tensor_get(w, "w", &t, &err), 0);
        assert_int_equal(weights_tensor_get(w, "after", &after, &err), 0);
        assert_int_equal(t->type, QUANT_TQ2_0);
        assert_int_equal(t->ne[0], COLS);
        assert_int_equal(t->ne[1], ROWS);
        for (int again = 0; again < 2; again++) {
            weights_fetch(w, t);
            quant_info_of(t->type)->dequantize(t->data, x, N);
            for (int i = 0; i < N; i++) assert_true(x[i] == (float)(code_at(i) - 1) * cases[k].want);
            weights_drop_pages(w, t); /* and back again */
        }
        assert_int_equal(weights_loose(w, t) == NULL, cases[k].exact);
        assert_true(((const float *)after->data)[0] == 3 && ((const float *)after->data)[1] == 4);
        weights_close(&w);
    }
}

static void expect(int status, const char *text)
{
    struct weights *w;
    struct lutra_error err = {0};
    save(in_folder("i2s.gguf"), f.b, f.n);
    assert_int_equal(weights_open(&w, in_folder("i2s.gguf"), &err), status);
    if (!strstr(err.what, text)) fail_msg("%s", err.what);
}

static void others_are_refused(void **state)
{
    (void)state;
    write_file("llama", 0, COLS, 1);
    expect(LUTRA_E_UNSUPPORTED, "type 36, which was removed");
    write_file("bitnet", 0, COLS / 4, 1);
    expect(LUTRA_E_UNSUPPORTED, "rows of 128 in I2_S");
    write_file("bitnet", 0, COLS, NAN);
    expect(LUTRA_E_FORMAT, "'w': a scale");
    write_file("bitnet", 0, COLS, 1e5f);
    expect(LUTRA_E_FORMAT, "'w': a scale of 100000");
    write_file("bitnet", 0, COLS, 1e-7f);
    expect(LUTRA_E_FORMAT, "'w': a scale of 1e-07");
    write_file("bitnet", 0, COLS, 1);
    f.n -= 8 + 29; /* the vector, and into the scale */
    expect(LUTRA_E_FORMAT, "outside the file");
    write_file("bitnet", 0, COLS * 2, 1);
    expect(LUTRA_E_FORMAT, "outside the file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_the_definition_s),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
