/* SPDX-License-Identifier: MIT
 *
 * quant/quant.h: the table, and blocks computed by hand.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/f16.h"
#include "quant/quant.h"
#include "lutra/status.h"

static uint32_t random_state = 1;
static uint32_t random_u32(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8 ^ random_state << 24;
}

/* ---- the table ---- */

static void table_is_complete_and_consistent(void **state)
{
    (void)state;
    static const uint32_t ids[] = {
        0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23, 29, 30, 34, 35, 39, 40, 41, 42};
    size_t n = sizeof ids / sizeof *ids;
    assert_null(quant_info_at(n));
    for (size_t i = 0; i < n; i++) {
        const struct quant_info *q = quant_info_at(i);
        assert_int_equal(q->type, ids[i]);
        assert_ptr_equal(quant_info_of(ids[i]), q);
        assert_ptr_equal(quant_info_by_name(q->name), q);
        assert_string_equal(quant_type_name(ids[i]), q->name);
        assert_non_null(q->dequantize);
        bool codebook = strncmp(q->name, "IQ", 2) == 0 && q->type != QUANT_IQ4_NL && q->type != QUANT_IQ4_XS;
        assert_int_equal(!q->quantize, codebook || q->type == QUANT_NVFP4);
    }
    assert_ptr_equal(quant_info_by_name("q4_k"), quant_info_of(QUANT_Q4_K));
    assert_ptr_equal(quant_info_by_name("Bf16"), quant_info_of(QUANT_BF16));
    assert_null(quant_info_by_name("Q4"));
    assert_null(quant_info_by_name("Q4_KM"));
    assert_null(quant_info_by_name(""));
}

static void other_types_have_names_only(void **state)
{
    (void)state;
    assert_null(quant_info_of(QUANT_I32));
    assert_string_equal(quant_type_name(QUANT_I32), "I32");
    assert_string_equal(quant_type_name(QUANT_IQ2_XXS), "IQ2_XXS");
    static const uint32_t removed[] = {4, 5, 31, 32, 33, 36, 37, 38, QUANT_TYPE_END, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
        assert_null(quant_info_of(removed[i]));
        assert_null(quant_type_name(removed[i]));
    }
}

static void row_bytes_checks_its_input(void **state)
{
    (void)state;
    size_t bytes = 7;
    assert_int_equal(quant_row_bytes(QUANT_Q4_0, 64, &bytes), 0);
    assert_int_equal(bytes, 36);
    assert_int_equal(quant_row_bytes(QUANT_Q6_K, 512, &bytes), 0);
    assert_int_equal(bytes, 420);
    bytes = 7;
    assert_int_equal(quant_row_bytes(QUANT_Q4_0, 33, &bytes), LUTRA_E_ARGUMENT);
    assert_int_equal(quant_row_bytes(QUANT_F32, 0, &bytes), LUTRA_E_ARGUMENT);
    assert_int_equal(quant_row_bytes(QUANT_F32, -4, &bytes), LUTRA_E_ARGUMENT);
    assert_int_equal(quant_row_bytes(QUANT_F32, INT64_MAX, &bytes), LUTRA_E_ARGUMENT);
    assert_int_equal(quant_row_bytes(QUANT_I32, 32, &bytes), LUTRA_E_UNSUPPORTED);
    assert_int_equal(quant_row_bytes(99, 32, &bytes), LUTRA_E_UNSUPPORTED);
    assert_int_equal(bytes, 7);
}

/* ---- blocks by hand ---- */

static void q4_0_by_hand(void **state)
{
    (void)state;
    /* d = 0.5; e0 has code 15, e16 code 0, all others 8 (zero). */
    uint8_t block[18] = {0x00, 0x38, 0x0f};
    memset(block + 3, 0x88, 15);
    float x[32];
    quant_info_of(QUANT_Q4_0)->dequantize(block, x, 32);
    assert_true(x[0] == 3.5f && x[16] == -4.0f && x[1] == 0 && x[31] == 0);
    uint8_t again[18];
    quant_info_of(QUANT_Q4_0)->quantize(x, again, 32);
    assert_memory_equal(again, block, 18);
}

static void q4_1_and_q5_by_hand(void **state)
{
    (void)state;
    float x[32];
    uint8_t q41[20] = {0x00, 0x3c, 0x00, 0xc0, 0x2f}; /* d 1, m -2; e0 15, e16 2 */
    quant_info_of(QUANT_Q4_1)->dequantize(q41, x, 32);
    assert_true(x[0] == 13 && x[16] == 0 && x[1] == -2);

    uint8_t q50[22] = {0x00, 0x3c, 0x01, 0x00, 0x02, 0x80, 0x21}; /* d 1; fifth bits of e0, e17, e31 */
    quant_info_of(QUANT_Q5_0)->dequantize(q50, x, 32);
    assert_true(x[0] == 1 && x[16] == -14 && x[17] == 0 && x[31] == 0 && x[2] == -16);

    uint8_t q51[24] = {0x00, 0x40, 0x00, 0x3c, 0x01, 0, 0, 0, 0x03}; /* d 2, m 1; e0 = 16 + 3 */
    quant_info_of(QUANT_Q5_1)->dequantize(q51, x, 32);
    assert_true(x[0] == 39 && x[16] == 1 && x[1] == 1);
}

static void q8_0_by_hand(void **state)
{
    (void)state;
    float x[32] = {-127.0f, 63.5f, 0.5f, -0.5f};
    uint8_t block[34];
    quant_info_of(QUANT_Q8_0)->quantize(x, block, 32);
    static const uint8_t want[7] = {0x00, 0x3c, 0x81, 64, 1, 0xff, 0}; /* d 1; halves away from zero */
    assert_memory_equal(block, want, 7);
}

/* Halves go up: x / d + 8.5 and its like are truncated. */
static void rounding_by_hand(void **state)
{
    (void)state;
    float x[32] = {-8, 0.5f, 0.49f, -0.5f, -0.51f, 7.9f};
    struct quant_q4_0 q40;
    quant_info_of(QUANT_Q4_0)->quantize(x, &q40, 32);
    static const uint8_t want40[6] = {0x80, 0x89, 0x88, 0x88, 0x87, 0x8f};
    assert_int_equal(q40.d, 0x3c00);
    assert_memory_equal(q40.qs, want40, 6);

    float y[32] = {-16, 0.5f, 0.49f, -0.5f, -0.51f, 15.9f};
    struct quant_q5_0 q50;
    quant_info_of(QUANT_Q5_0)->quantize(y, &q50, 32);
    static const uint8_t want50[6] = {0x00, 0x01, 0x00, 0x00, 0x0f, 0x0f};
    assert_memory_equal(q50.qs, want50, 6);
    assert_int_equal(q50.qh[0], 0xee); /* e0 and e4 are below 16 */

    float z[32] = {-1, 14, -0.5f, -0.51f, 6.5f};
    struct quant_q4_1 q41;
    quant_info_of(QUANT_Q4_1)->quantize(z, &q41, 32);
    static const uint8_t want41[5] = {0x10, 0x1f, 0x11, 0x10, 0x18};
    assert_true(q41.d == 0x3c00 && q41.m == 0xbc00);
    assert_memory_equal(q41.qs, want41, 5);

    float v[32] = {-1, 30, -0.5f, -0.51f, 20.5f};
    struct quant_q5_1 q51;
    quant_info_of(QUANT_Q5_1)->quantize(v, &q51, 32);
    static const uint8_t want51[5] = {0x10, 0x1f, 0x11, 0x10, 0x16};
    assert_memory_equal(q51.qs, want51, 5);
    assert_int_equal(q51.qh[0], 1 << 1 | 1 << 4);
}

static void q4_k_by_hand(void **state)
{
    (void)state;
    struct quant_q4_k b = {.d = 0x3c00, .dmin = 0x3800}; /* 1 and 0.5 */
    b.scales[1] = 3 | 2 << 6;                            /* sc(1) = 3, bits 5..4 of sc(5) = 2 */
    b.scales[5] = 4 | 1 << 6;                            /* mn(1) = 4, bits 5..4 of mn(5) = 1 */
    b.scales[9] = 1 | 5 << 4;                            /* sc(5) = 33, mn(5) = 21 */
    b.qs[7] = 0xa9;                                      /* group 0 element 7: 9; group 1 element 7: 10 */
    b.qs[64 + 31] = 0xc2;                                /* group 4: 2; group 5: 12 */
    float x[256];
    quant_info_of(QUANT_Q4_K)->dequantize(&b, x, 256);
    assert_true(x[7] == 0);
    assert_true(x[32 + 7] == 3 * 10 - 2.0f);
    assert_true(x[32] == -2.0f);
    assert_true(x[160 + 31] == 33 * 12 - 10.5f);
    assert_true(x[128 + 31] == 0);
}

static void q5_k_by_hand(void **state)
{
    (void)state;
    struct quant_q5_k b = {.d = 0x3c00, .dmin = 0x3c00};
    b.scales[3] = 2, b.scales[7] = 1; /* group 3: scale 2, minimum 1 */
    b.qs[32 + 5] = 0x70;              /* group 3 element 5: low bits 7 */
    b.qh[5] = 1 << 3;
    float x[256];
    quant_info_of(QUANT_Q5_K)->dequantize(&b, x, 256);
    assert_true(x[96 + 5] == 2 * 23 - 1);
    assert_true(x[96 + 4] == -1 && x[5] == 0);
}

static void q6_k_by_hand(void **state)
{
    (void)state;
    struct quant_q6_k b = {.d = 0x3c00};
    memset(b.scales, 1, 16);
    b.scales[8 + 6] = -2;           /* elements 128 + 96 .. 128 + 111 */
    b.ql[64 + 32 + 3] = 0x51;       /* e 128+32+3 low 1; e 128+96+3 low 5 */
    b.qh[32 + 3] = 3 << 6 | 1 << 2; /* high: 3 and 1 */
    float x[256];
    quant_info_of(QUANT_Q6_K)->dequantize(&b, x, 256);
    assert_true(x[128 + 96 + 3] == -2 * (0x35 - 32));
    assert_true(x[128 + 32 + 3] == 0x11 - 32);
    assert_true(x[0] == -32 && x[128 + 97] == 64);
}

static void low_k_by_hand(void **state)
{
    (void)state;
    float x[256];
    struct quant_q2_k two = {.d = 0x3c00, .dmin = 0x3800}; /* 1 and 0.5 */
    two.scales[9] = 3 | 5 << 4;                            /* elements 144 .. 159 */
    two.qs[32 + 16 + 2] = 2 | 3 << 2;                      /* elements 128 + 18 and 128 + 32 + 18 */
    quant_info_of(QUANT_Q2_K)->dequantize(&two, x, 256);
    assert_true(x[146] == 3 * 2 - 2.5f && x[145] == -2.5f && x[128 + 50] == 0 && x[0] == 0);

    struct quant_q3_k three = {.d = 0x3c00};
    memset(three.scales, 0xaa, 12); /* scales 32 + 10, that is 10 */
    three.scales[1] = 7 | 9 << 4;   /* low bits of groups 1 and 9 */
    three.scales[8 + 1] = 0x06;     /* high bits of groups 1, 5, 9, 13: 2, 1, 0, 0 */
    three.qs[16] = 3;               /* element 16 of group 1 */
    three.hmask[16] = 1 | 1 << 4;   /* elements 16 and 144 */
    quant_info_of(QUANT_Q3_K)->dequantize(&three, x, 256);
    assert_true(x[16] == 7 * 3 && x[17] == 7 * -4 && x[144] == 0 && x[145] == (9 - 32) * -4);
    assert_true(x[80] == (0x1a - 32) * -4 && x[208] == (10 - 32) * -4 && x[0] == -40);

    struct quant_iq4_xs four = {.d = 0x3c00, .scales_h = 2 | 1 << 6, .scales_l = {5, 0xc0, 0, 0}};
    four.qs[0] = 0xf0;      /* elements 0 and 16 */
    four.qs[16 * 3] = 0x08; /* elements 96 and 112 */
    quant_info_of(QUANT_IQ4_XS)->dequantize(&four, x, 256);
    assert_true(x[0] == 5 * -127 && x[16] == 5 * 113 && x[96] == (16 + 12 - 32) && x[112] == -4 * -127);
    assert_true(x[32] == -32 * -127);
}

static void side_by_side_by_hand(void **state)
{
    (void)state;
    float x[128];
    uint8_t one[18] = {0x00, 0x40, 0x05, 0x80}, two[18] = {0x00, 0x40, 0xe4, 0x01}; /* d 2 */
    quant_info_of(QUANT_Q1_0)->dequantize(one, x, 128);
    assert_true(x[0] == 2 && x[1] == -2 && x[2] == 2 && x[8] == -2 && x[15] == 2 && x[127] == -2);
    quant_info_of(QUANT_Q2_0)->dequantize(two, x, 64);
    assert_true(x[0] == -2 && x[1] == 0 && x[2] == 2 && x[3] == 4 && x[4] == 0 && x[5] == -2 && x[63] == -2);
}

static void ternary_by_hand(void **state)
{
    (void)state;
    float x[256], y[256];
    for (int i = 0; i < 256; i++) x[i] = (float)(i * 7 % 3 - 1) * 0.5f;
    uint8_t t1[54], t2[66];
    quant_info_of(QUANT_TQ1_0)->quantize(x, t1, 256);
    quant_info_of(QUANT_TQ2_0)->quantize(x, t2, 256);
    assert_true(t1[52] == 0x00 && t1[53] == 0x38 && t2[64] == 0x00 && t2[65] == 0x38);
    /* Byte 0 of TQ2_0: elements 0, 32, 64, 96 have digits 0, 2, 1, 0. */
    assert_int_equal(t2[0], 0 | 2 << 2 | 1 << 4 | 0 << 6);
    /* Byte 0 of TQ1_0: elements 0, 32, 64, 96, 128, digits 0 2 1 0 2 -> 0*81 + 2*27 + 9 + 0 + 2 = 65. */
    assert_int_equal(t1[0], (65 * 256 + 242) / 243);
    quant_info_of(QUANT_TQ1_0)->dequantize(t1, y, 256);
    assert_memory_equal(x, y, sizeof x);
    quant_info_of(QUANT_TQ2_0)->dequantize(t2, y, 256);
    assert_memory_equal(x, y, sizeof x);
}

static void codebooks_by_hand(void **state)
{
    (void)state;
    float x[32];
    uint8_t nl[18] = {0x00, 0x3c, 0xf0, 0x87};
    quant_info_of(QUANT_IQ4_NL)->dequantize(nl, x, 32);
    assert_true(x[0] == -127 && x[16] == 113 && x[1] == -10 && x[17] == 1);
    uint8_t mx[17] = {128, 0xf7, 0x9a};
    quant_info_of(QUANT_MXFP4)->dequantize(mx, x, 32);
    assert_true(x[0] == 12 && x[16] == -12 && x[1] == -2 && x[17] == -1 && x[2] == 0);
    mx[0] = 0;
    quant_info_of(QUANT_MXFP4)->dequantize(mx, x, 32);
    assert_true(x[0] == 0x1.8p-125f);
}

/* Blocks of pseudo-random bytes with sane half floats have the values that ggml gives them (libggml-base 0.27, Debian):
 * hashes (FNV-1a) of its floats for 16 blocks. */
static void values_of_ggml(void **state)
{
    (void)state;
    static const struct {
        enum quant_type type;
        int d, dmin; /* where the half floats lie; dmin < 0: there is none */
        uint64_t hash;
    } cases[] = {{QUANT_Q4_K, 0, 2, 0xb93e6e4284e5bf52}, {QUANT_Q6_K, 208, -1, 0x5bbaca3f40373afe},
        {QUANT_Q2_K, 80, 82, 0xacbb5e2812c29ed8}, {QUANT_Q3_K, 108, -1, 0x45a32ba923dac503},
        {QUANT_IQ4_XS, 0, -1, 0xf97d6bb856bef58f}, {QUANT_Q1_0, 0, -1, 0x92d4f718c103cfa5},
        {QUANT_Q2_0, 0, -1, 0xff061caa5bab8dcb}, {QUANT_IQ2_XXS, 0, -1, 0x85d70d3c28990517},
        {QUANT_IQ2_XS, 0, -1, 0xd2c8ca88d5f5aaff}, {QUANT_IQ2_S, 0, -1, 0x4a0e02226ef4ca49},
        {QUANT_IQ3_XXS, 0, -1, 0x8dd8ac305c198953}, {QUANT_IQ3_S, 0, -1, 0x73f14fd64c4072dd},
        {QUANT_IQ1_S, 0, -1, 0xed92f70336c07cb0}, {QUANT_IQ1_M, 54, -1, 0x78074c7da5cdbe7d},
        {QUANT_NVFP4, 0, -1, 0x8180995979013455}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct quant_info *q = quant_info_of(cases[c].type);
        uint64_t hash = 14695981039346656037u;
        random_state = 1;
        for (int k = 0; k < 16; k++) {
            uint8_t block[256], *high[2] = {block + cases[c].d + 1, block + cases[c].dmin + 1};
            float x[QUANT_SUPER];
            for (uint32_t i = 0; i < q->block_bytes; i++) block[i] = (uint8_t)random_u32();
            for (int i = 0; i < (cases[c].dmin < 0 ? 1 : 2); i++) *high[i] = (uint8_t)((*high[i] & 0x83) | 0x28);
            q->dequantize(block, x, q->block_elems);
            for (size_t i = 0; i < q->block_elems * sizeof *x; i++)
                hash = (hash ^ ((const uint8_t *)x)[i]) * 1099511628211u;
        }
        if (hash != cases[c].hash) fail_msg("%s: values hash to %#llx", q->name, (unsigned long long)hash);
    }
}

/* Whole blocks, none of them NaN, of the deviation asked for. */
static void random_blocks(void **state)
{
    (void)state;
    float y[4096];
    for (size_t i = 0; quant_info_at(i); i++) {
        const struct quant_info *q = quant_info_at(i);
        uint8_t bytes[4096];
        size_t size;
        double square = 0;
        if (q->quantize) continue;
        quant_row_bytes(q->type, 4096, &size);
        memset(bytes, 0xa5, sizeof bytes);
        quant_random_blocks(q, 5, 0.02f, bytes, 4096);
        for (size_t k = size; k < sizeof bytes; k++) assert_int_equal(bytes[k], 0xa5);
        q->dequantize(bytes, y, 4096);
        for (int k = 0; k < 4096; k++) square += (double)y[k] * y[k];
        double most = q->type == QUANT_NVFP4 ? 2e-3 : 1e-4; /* its small scales have two bits or three */
        if (!(fabs(sqrt(square / 4096) - 0.02) < most)) fail_msg("%s: deviation %g", q->name, sqrt(square / 4096));
        quant_random_blocks(q, 6, 0.02f, bytes + size, 256);
        assert_memory_not_equal(bytes, bytes + size, q->block_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_complete_and_consistent),
        cmocka_unit_test(other_types_have_names_only),
        cmocka_unit_test(row_bytes_checks_its_input),
        cmocka_unit_test(q4_0_by_hand),
        cmocka_unit_test(q4_1_and_q5_by_hand),
        cmocka_unit_test(q8_0_by_hand),
        cmocka_unit_test(rounding_by_hand),
        cmocka_unit_test(q4_k_by_hand),
        cmocka_unit_test(q5_k_by_hand),
        cmocka_unit_test(q6_k_by_hand),
        cmocka_unit_test(low_k_by_hand),
        cmocka_unit_test(side_by_side_by_hand),
        cmocka_unit_test(values_of_ggml),
        cmocka_unit_test(random_blocks),
        cmocka_unit_test(ternary_by_hand),
        cmocka_unit_test(codebooks_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
