/* SPDX-License-Identifier: MIT
 *
 * quant/zero_point.h: blocks by hand, every code over every zero, and the same values in GGUF's types.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/f16.h"
#include "quant/zero_point.h"

enum { N = QUANT_GROUP64 };
static const enum quant_type types[] = {QUANT_W2, QUANT_W3, QUANT_W4};

static void they_are_no_file_types(void **state)
{
    (void)state;
    static const char *const names[] = {"W2", "W3", "W4"};
    for (int i = 0; i < 3; i++) {
        assert_false(quant_in_gguf(types[i]));
        assert_string_equal(quant_type_name(types[i]), names[i]);
        assert_int_equal(quant_info_of(types[i])->type, types[i]);
        assert_null(quant_info_by_name(names[i]));
        for (size_t k = 0; quant_info_at(k); k++) assert_int_not_equal(quant_info_at(k)->type, types[i]);
    }
    assert_true(quant_in_gguf(QUANT_Q2_0));
    assert_int_equal(quant_gguf_type(QUANT_Q2_0), QUANT_Q2_0);
    assert_int_equal(quant_gguf_type(QUANT_NVFP4_SCALED), QUANT_NVFP4_SCALED);
    assert_null(quant_info_of(QUANT_TYPE_END));
}

static void blocks_by_hand(void **state)
{
    (void)state;
    uint8_t block[36];
    float x[N];
    memset(block, 0, sizeof block); /* W2: scale 0.5, zero 3 */
    block[1] = 0x38, block[2] = 3;
    block[3] = 0xe4, block[18] = 0xc0; /* codes 0 1 2 3 first, the last 3 */
    quant_info_of(QUANT_W2)->dequantize(block, x, N);
    assert_true(x[0] == -1.5f && x[1] == -1 && x[2] == -0.5f && x[3] == 0 && x[4] == -1.5f && x[63] == 0);
    memset(block, 0, sizeof block); /* W3: scale -2, zero 1 */
    block[1] = 0xc0, block[2] = 1;
    block[3] = 0x81, block[10] = 0x80; /* bit 2 of elements 0, 7 and 63 */
    block[11] = 0x02;                  /* low bits of element 0 */
    quant_info_of(QUANT_W3)->dequantize(block, x, N);
    assert_true(x[0] == -10 && x[1] == 2 && x[7] == -6 && x[8] == 2 && x[63] == -6);
    memset(block, 0, sizeof block); /* W4: scale 1, zero 15 */
    block[1] = 0x3c, block[2] = 15;
    block[3] = 0xf1, block[34] = 0x20; /* elements 0 and 16; 63 */
    quant_info_of(QUANT_W4)->dequantize(block, x, N);
    assert_true(x[0] == -14 && x[16] == 0 && x[1] == -15 && x[63] == -13 && x[47] == -15);
}

static void every_code_over_every_zero(void **state)
{
    (void)state;
    uint8_t code[N], back[N], block[2 * 36], wide[2 * 4 * 22];
    float x[2 * N], y[2 * N];
    for (int t = 0; t < 3; t++) {
        const int n_code = 4 << t;
        const struct quant_info *q = quant_info_of(types[t]), *file = quant_info_of(quant_gguf_type(types[t]));
        for (int zero = 0; zero < n_code; zero++) {
            const uint16_t d = f32_to_f16(zero % 2 ? -0.3f : 0.7f);
            uint16_t got;
            int got_zero;
            for (int b = 0; b < 2; b++) {
                for (int i = 0; i < N; i++) code[i] = (uint8_t)((i * 7 + i / 16 + b) % n_code);
                memset(block + (uint32_t)b * q->block_bytes, 0xa5, q->block_bytes);
                quant_zero_point_pack(types[t], d, zero, code, block + (uint32_t)b * q->block_bytes);
                quant_zero_point_unpack(types[t], block + (uint32_t)b * q->block_bytes, &got, &got_zero, back);
                assert_int_equal(got, d);
                assert_int_equal(got_zero, zero);
                assert_memory_equal(back, code, N);
            }
            q->dequantize(block, x, 2 * N);
            for (int i = 0; i < N; i++) assert_true(x[N + i] == (float)(code[i] - zero) * f16_to_f32(d));
            quant_zero_point_widen(types[t], block, wide, 2 * N);
            file->dequantize(wide, y, 2 * N);
            for (int i = 0; i < 2 * N; i++) assert_true(x[i] == y[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_no_file_types),
        cmocka_unit_test(blocks_by_hand),
        cmocka_unit_test(every_code_over_every_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
