/* SPDX-License-Identifier: MIT
 *
 * quantize/weighted.h, quant_plain: properties that every format must have.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/quant.h"
#include "quantize/weighted.h"

static uint32_t random_state = 1;
static uint32_t random_u32(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8 ^ random_state << 24;
}

/* About normal, deviation 1. */
static float random_normal(void)
{
    float sum = 0;
    for (int i = 0; i < 12; i++) sum += (float)(random_u32() & 0xffff) / 65536.0f;
    return sum - 6;
}

static void all_are_written_but_those_that_are_only_read(void **state)
{
    (void)state;
    for (size_t i = 0; quant_info_at(i); i++) {
        const struct quant_info *q = quant_info_at(i);
        bool imprecise = strncmp(q->name, "IQ1", 3) == 0;
        assert_int_equal(!quant_plain(q->type), imprecise || q->type == QUANT_NVFP4);
        if (q->quantize) assert_true(quant_plain(q->type) == q->quantize);
    }
}

enum { N = 4096 };

/* Largest allowed squared error relative to the data's, for normal data: measured values plus a tenth. */
static double error_bound(enum quant_type type)
{
    switch (type) {
    case QUANT_F32: return 0;
    case QUANT_F16: return 1e-7;
    case QUANT_BF16: return 4e-6;
    case QUANT_Q8_0: return 4e-5;
    case QUANT_Q6_K: return 3.6e-4;
    case QUANT_Q5_K: return 1.6e-3;
    case QUANT_Q5_0: return 2e-3;
    case QUANT_Q5_1: return 2e-3;
    case QUANT_Q4_K: return 6.0e-3;
    case QUANT_IQ4_NL: return 7e-3;
    case QUANT_Q4_0: return 9e-3;
    case QUANT_Q4_1: return 8e-3;
    case QUANT_MXFP4: return 1.5e-2;
    case QUANT_IQ4_XS: return 6e-3;
    case QUANT_Q3_K: return 2.3e-2;
    case QUANT_Q2_K: return 7.5e-2;
    case QUANT_IQ3_S: return 2.2e-2;
    case QUANT_IQ3_XXS: return 3.5e-2;
    case QUANT_IQ2_S: return 6.3e-2;
    case QUANT_IQ2_XS: return 8.3e-2;
    case QUANT_IQ2_XXS: return 0.11;
    case QUANT_Q1_0: return 0.39;
    case QUANT_Q2_0: return 0.56;
    default: return 0.75; /* ternary: made for ternary weights, poor on others */
    }
}

static double relative_error(const float *x, const float *y)
{
    double e = 0, s = 0;
    for (int i = 0; i < N; i++) {
        e += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        s += (double)x[i] * x[i];
    }
    return e / s;
}

static void random_data_stays_within_bounds(void **state)
{
    (void)state;
    float x[N], y[N];
    static uint8_t bytes[N * 4 + 16];
    for (int i = 0; i < N; i++) x[i] = 0.02f * random_normal();
    for (size_t i = 0; quant_info_at(i); i++) {
        const struct quant_info *q = quant_info_at(i);
        size_t size;
        if (!quant_plain(q->type)) continue;
        assert_int_equal(quant_row_bytes(q->type, N, &size), 0);
        memset(bytes, 0xa5, sizeof bytes);
        quant_plain(q->type)(x, bytes, N);
        for (int j = 0; j < 16; j++) assert_int_equal(bytes[size + j], 0xa5);
        q->dequantize(bytes, y, N);
        double e = relative_error(x, y);
        print_message("%-7s relative squared error %.2e\n", q->name, e);
        assert_true(e <= error_bound(q->type));
    }
}

/* Values that came out of a format go back in with no further loss: exactly for formats whose scale is determined by
 * a code that is present, closely for searched ones. */
static void requantizing_is_stable(void **state)
{
    (void)state;
    float x[N], y[N], z[N];
    static uint8_t one[N * 4], two[N * 4];
    for (int i = 0; i < N; i++) x[i] = random_normal();
    for (size_t i = 0; quant_info_at(i); i++) {
        const struct quant_info *q = quant_info_at(i);
        size_t size;
        if (!quant_plain(q->type)) continue;
        quant_row_bytes(q->type, N, &size);
        quant_plain(q->type)(x, one, N);
        q->dequantize(one, y, N);
        quant_plain(q->type)(y, two, N);
        q->dequantize(two, z, N);
        double again = relative_error(y, z);
        print_message("%-7s second pass %.2e\n", q->name, again);
        switch (q->type) {
        case QUANT_F32:
        case QUANT_F16:
        case QUANT_BF16:
        case QUANT_MXFP4:
        case QUANT_TQ1_0:
        case QUANT_TQ2_0: assert_memory_equal(one, two, size); break;
        default: assert_true(again <= 0.05 * error_bound(q->type)); break;
        }
    }
}

static void constant_and_zero_blocks(void **state)
{
    (void)state;
    static const float values[] = {0.0f, 1.0f, -1.0f, 0.25f, -3.0f};
    float x[256], y[256];
    uint8_t bytes[1024];
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        for (int i = 0; i < 256; i++) x[i] = values[v];
        for (size_t i = 0; quant_info_at(i); i++) {
            const struct quant_info *q = quant_info_at(i);
            if (!quant_plain(q->type)) continue;
            quant_plain(q->type)(x, bytes, 256);
            q->dequantize(bytes, y, 256);
            for (int j = 0; j < 256; j++)
                if (!(fabsf(y[j] - x[j]) <= 0.01f * fabsf(x[j]))) fail_msg("%s of %g: %g", q->name, x[j], y[j]);
        }
    }
}

/* Hostile sources: no trap under UBSan, and whole blocks are written, nothing behind them. */
static void extreme_sources_are_defined(void **state)
{
    (void)state;
    static const float extremes[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-45f, -1e-40f, 0.0f, 1e10f};
    float x[256], y[256];
    uint8_t bytes[1280], again[1280];
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < 256; i++) {
            uint32_t r = random_u32();
            x[i] = r % (uint32_t)(1 + round % 5) ? random_normal() : extremes[r / 64 % 9];
        }
        for (size_t i = 0; quant_info_at(i); i++) {
            const struct quant_info *q = quant_info_at(i);
            size_t n = 256 / q->block_elems * q->block_bytes;
            if (!quant_plain(q->type)) continue;
            memset(bytes, 0x5a, sizeof bytes);
            memset(again, 0xa5, sizeof again);
            quant_plain(q->type)(x, bytes, 256);
            quant_plain(q->type)(x, again, 256);
            if (memcmp(bytes, again, n)) fail_msg("%s: a block is not written whole", q->name);
            for (size_t b = n; b < sizeof bytes; b++)
                if (bytes[b] != 0x5a || again[b] != 0xa5) fail_msg("%s: byte %zu of %zu written", q->name, b, n);
            q->dequantize(bytes, y, 256);
        }
    }
    for (int round = 0; round < 2000; round++) { /* and any bytes can be read */
        for (int i = 0; i < 1024; i++) bytes[i] = (uint8_t)random_u32();
        for (size_t i = 0; quant_info_at(i); i++) quant_info_at(i)->dequantize(bytes, y, 256);
    }
}

/* The searched formats must beat the plain ones of the same code width, else the search is broken. */
static void searches_pay(void **state)
{
    (void)state;
    static const enum quant_type pairs[][2] = {
        {QUANT_Q4_K, QUANT_Q4_1}, {QUANT_Q5_K, QUANT_Q5_1}, {QUANT_IQ4_NL, QUANT_Q4_0}};
    float x[N], y[N];
    static uint8_t bytes[N * 4];
    for (int i = 0; i < N; i++) x[i] = random_normal() * (i % 97 ? 1.0f : 5.0f);
    for (size_t p = 0; p < 3; p++) {
        double e[2];
        for (int k = 0; k < 2; k++) {
            const struct quant_info *q = quant_info_of(pairs[p][k]);
            quant_plain(q->type)(x, bytes, N);
            q->dequantize(bytes, y, N);
            e[k] = relative_error(x, y);
        }
        print_message("%s %.2e, %s %.2e\n", quant_type_name(pairs[p][0]), e[0], quant_type_name(pairs[p][1]), e[1]);
        assert_true(e[0] < 0.95 * e[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_written_but_those_that_are_only_read),
        cmocka_unit_test(random_data_stays_within_bounds),
        cmocka_unit_test(requantizing_is_stable),
        cmocka_unit_test(constant_and_zero_blocks),
        cmocka_unit_test(extreme_sources_are_defined),
        cmocka_unit_test(searches_pay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
