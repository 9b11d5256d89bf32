/* SPDX-License-Identifier: MIT
 *
 * Types of other engines' files, I2_S of bitnet.cpp's and Q2_0 with one scale for 128: each value against the format's
 * definition, and what is refused.
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
static uint32_t of_matrix = I2_S; /* type */

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
    add_tensor(&f, "w", 2, ne, of_matrix, 0);
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
        assert_int_equal(weights_f32_reason(w, t) == NULL, cases[k].exact);
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

/* Two matrices of type 42, the second of little more than nothing, and a vector; each: elements of a scale. */
static void write_q2_0(int each, uint64_t cols)
{
    enum { Q2_0 = 42 };
    const uint64_t ne[2] = {cols, ROWS}, one = 128, two = 2;
    const float after[2] = {3, 4};
    const size_t bytes = cols * ROWS / (size_t)each * (2 + (size_t)each / 4), padded = (bytes + 31) / 32 * 32;
    add_head(&f, 3, 3, 1);
    add_str(&f, "general.architecture");
    add_u32(&f, STRING);
    add_str(&f, "qwen3");
    add_tensor(&f, "w", 2, ne, Q2_0, 0);
    add_tensor(&f, "small", 1, &one, Q2_0, padded);
    add_tensor(&f, "after", 1, &two, F32, padded + 64);
    add_padding(&f, 32);
    for (int tensor = 0; tensor < 2; tensor++) {
        int n = tensor ? 128 : (int)cols * ROWS;
        for (int b = 0; b < n; b += each) {
            uint16_t d = (uint16_t)(0x3c00 + b / 128); /* the same in both halves of 128 */
            add(&f, &d, sizeof d);
            for (int i = b; i < b + each; i += 4) {
                uint8_t byte = 0;
                for (int k = 0; k < 4; k++) byte = (uint8_t)(byte | code_at(i + k) << 2 * k);
                add(&f, &byte, 1);
            }
        }
        add_padding(&f, 32);
    }
    add(&f, after, sizeof after);
    save(in_folder("q2.gguf"), f.b, f.n);
}

static void one_scale_for_64_or_128(void **state)
{
    (void)state;
    static float x[2][N], small[2][128];
    for (int i = 0; i < 2; i++) {
        struct weights *w;
        struct lutra_error err;
        const struct tensor *t, *s, *after;
        write_q2_0(i ? 128 : 64, COLS);
        if (weights_open(&w, in_folder("q2.gguf"), &err) < 0) fail_msg("%s", err.what);
        assert_int_equal(weights_tensor_get(w, "w", &t, &err), 0);
        assert_int_equal(weights_tensor_get(w, "small", &s, &err), 0);
        assert_int_equal(weights_tensor_get(w, "after", &after, &err), 0);
        assert_int_equal(t->type, QUANT_Q2_0);
        assert_int_equal(s->type, QUANT_Q2_0);
        weights_fetch(w, t), weights_fetch(w, s);
        quant_info_of(t->type)->dequantize(t->data, x[i], N);
        quant_info_of(s->type)->dequantize(s->data, small[i], 128);
        assert_null(weights_f32_reason(w, t));
        assert_true(((const float *)after->data)[0] == 3 && ((const float *)after->data)[1] == 4);
        weights_close(&w);
    }
    for (int i = 0; i < N; i++)
        assert_true(x[1][i] == (float)(code_at(i) - 1) * (1 + (float)(i / 128) / 1024) && x[0][i] == x[1][i]);
    assert_memory_equal(small[0], small[1], sizeof small[0]);
}

/* A matrix of NVFP4, its scale and that of its activations, and a scale of something else. */
static void write_nvfp4(const float *scale, uint64_t n_scale)
{
    enum { NVFP4 = 40 };
    const uint64_t ne[2] = {COLS, ROWS}, one = 1;
    const float others[8] = {7};
    const size_t bytes = N / 64 * sizeof(struct quant_nvfp4), padded = (bytes + 31) / 32 * 32;
    add_head(&f, 3, 4, 1);
    add_str(&f, "general.architecture");
    add_u32(&f, STRING);
    add_str(&f, "qwen3");
    add_tensor(&f, "blk.0.attn_q.weight", 2, ne, NVFP4, 0);
    add_tensor(&f, "blk.0.attn_q.scale", 1, &n_scale, F32, padded);
    add_tensor(&f, "blk.0.attn_q.input_scale", 1, &one, F32, padded + 32);
    add_tensor(&f, "blk.0.attn_k.scale", 1, &one, F32, padded + 64);
    add_padding(&f, 32);
    for (size_t i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)(i % sizeof(struct quant_nvfp4) < 4 ? 0x20 + i % 32 : i * 37);
        add(&f, &byte, 1);
    }
    add_padding(&f, 32);
    for (int i = 0; i < 8; i++) add(&f, &scale[i % (int)n_scale], sizeof *scale);
    add(&f, others, sizeof others);
    add(&f, others, sizeof others);
    save(in_folder("nv.gguf"), f.b, f.n);
}

static void scales_beside_nvfp4(void **state)
{
    (void)state;
    static float x[N], plain[N];
    const float scale = 0.3f, two[2] = {1, 2}, nan = NAN;
    struct weights *w;
    struct lutra_error err;
    const struct tensor *t, *other;
    write_nvfp4(&scale, 1);
    const size_t bytes = N / 64 * sizeof(struct quant_nvfp4), at = f.n - 96 - (bytes + 31) / 32 * 32;
    quant_info_of(QUANT_NVFP4)->dequantize(f.b + at, plain, N);
    if (weights_open(&w, in_folder("nv.gguf"), &err) < 0) fail_msg("%s", err.what);
    assert_int_equal(weights_tensor_count(w), 2);
    assert_int_equal(weights_tensor_get(w, "blk.0.attn_q.weight", &t, &err), 0);
    assert_int_equal(weights_tensor_get(w, "blk.0.attn_k.scale", &other, &err), 0);
    assert_null(weights_tensor_find(w, "blk.0.attn_q.scale"));
    assert_null(weights_tensor_find(w, "blk.0.attn_q.input_scale"));
    assert_ptr_equal(weights_tensor_at(w, 0), t);
    assert_ptr_equal(weights_tensor_at(w, 1), other);
    assert_int_equal(t->type, QUANT_NVFP4_SCALED);
    assert_int_equal(weights_tensor_bytes(w), t->bytes + 4);
    assert_non_null(weights_f32_reason(w, t));
    for (int again = 0; again < 2; again++) {
        weights_fetch(w, t);
        quant_info_of(t->type)->dequantize(t->data, x, N);
        for (int i = 0; i < N; i++) assert_true(x[i] == plain[i] * scale);
        weights_drop_pages(w, t);
    }
    assert_true(plain[0] != 0 || plain[1] != 0);
    weights_close(&w);
    write_nvfp4(two, 2);
    assert_int_equal(weights_open(&w, in_folder("nv.gguf"), &err), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "'blk.0.attn_q.scale' is no single float"));
    write_nvfp4(&nan, 1);
    assert_int_equal(weights_open(&w, in_folder("nv.gguf"), &err), LUTRA_E_FORMAT);
    assert_non_null(strstr(err.what, "NaN"));
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
    write_q2_0(64, COLS); /* not one of 128 with something behind it */
    f.n -= 200;
    expect(LUTRA_E_FORMAT, "outside the file");
    write_q2_0(128, COLS);
    f.n -= 8 + 31;
    expect(LUTRA_E_FORMAT, "outside the file");
}

/* By the architecture or by the file type; where that is one of GGUF's, too, by the room. */
static void other_types_of_bitnet_cpp(void **state)
{
    static const struct {
        uint32_t type, file_type;
        const char *arch, *text;
    } cases[] = {{37, 0, "bitnet", "type I8_S of bitnet.cpp (37)"},
        {38, 0, "bitnet-b1.58", "type TL1 of bitnet.cpp (38)"}, {38, 38, "llama", "type TL1 of bitnet.cpp (38)"},
        {38, 40, "llama", "type TL1 of bitnet.cpp (38)"}, {38, 1, "llama", "type 38, which was removed"},
        {39, 0, "bitnet-b1.58", "type TL2 of bitnet.cpp (39)"}, {39, 39, "llama", "type TL2 of bitnet.cpp (39)"},
        {39, 40, "llama", "type TL2 of bitnet.cpp (39)"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        of_matrix = cases[i].type;
        write_file(cases[i].arch, cases[i].file_type, COLS, 1);
        expect(LUTRA_E_UNSUPPORTED, cases[i].text);
    }
    of_matrix = 39; /* MXFP4 that is cut short */
    write_file("llama", 38, COLS, 1);
    expect(LUTRA_E_FORMAT, "outside the file");
    for (uint32_t file_type = 38; file_type <= 41; file_type++) { /* and whole, in files of something else */
        const uint64_t ne[2] = {COLS, ROWS};
        struct weights *w;
        struct lutra_error err;
        add_head(&f, 3, 1, 2);
        add_str(&f, "general.architecture");
        add_u32(&f, STRING);
        add_str(&f, file_type == 41 ? "bitnet" : "llama");
        add_kv_u32(&f, "general.file_type", file_type);
        add_tensor(&f, "w", 2, ne, of_matrix, 0);
        add_padding(&f, 32);
        add_zeros(&f, N / 32 * 17);
        save(in_folder("i2s.gguf"), f.b, f.n);
        if (weights_open(&w, in_folder("i2s.gguf"), &err) < 0) fail_msg("%s", err.what);
        weights_close(&w);
    }
    of_matrix = I2_S;
}

static void add_text(void *user, const char *sentence)
{
    strcat(user, sentence);
}

/* Nothing in a file tells the order of its codes. */
static void i2s_warns(void **state)
{
    struct weights *w;
    struct lutra_error err;
    char told[1024] = "";
    (void)state;
    write_file("bitnet", 0, COLS, 1);
    assert_int_equal(weights_open(&w, in_folder("i2s.gguf"), &err), 0);
    weights_tell_warnings(w, add_text, told);
    weights_close(&w);
    assert_non_null(strstr(told, "tensors of bitnet.cpp's I2_S (1) are read in the order of its x86 builds"));
    told[0] = 0;
    write_q2_0(128, COLS);
    assert_int_equal(weights_open(&w, in_folder("q2.gguf"), &err), 0);
    weights_tell_warnings(w, add_text, told);
    weights_close(&w);
    assert_string_equal(told, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_the_definition_s),
        cmocka_unit_test(one_scale_for_64_or_128),
        cmocka_unit_test(scales_beside_nvfp4),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(other_types_of_bitnet_cpp),
        cmocka_unit_test(i2s_warns),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
