/* SPDX-License-Identifier: MIT
 *
 * base/f16.h: every half float both ways, and f32 -> f16 against the processor where it has F16C.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/f16.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
__attribute__((target("f16c"))) static uint16_t hardware_to_f16(float x)
{
    return (uint16_t)_mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT), 0);
}
__attribute__((target("f16c"))) static float hardware_to_f32(uint16_t h)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}
static int have_hardware(void)
{
    return __builtin_cpu_supports("f16c");
}
#else
static uint16_t hardware_to_f16(float x)
{
    return f32_to_f16(x);
}
static float hardware_to_f32(uint16_t h)
{
    return f16_to_f32(h);
}
static int have_hardware(void)
{
    return 0;
}
#endif

/* The value of a finite half float, by its definition. */
static double value_of(uint16_t h)
{
    int e = h >> 10 & 31, frac = h & 1023;
    double mag = e ? ldexp(1024 + frac, e - 25) : ldexp(frac, -24);
    return h & 0x8000 ? -mag : mag;
}

static void halves_have_their_value_and_come_back(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float x = f16_to_f32((uint16_t)h);
        if ((h & 0x7c00) == 0x7c00) {
            assert_true((h & 1023) ? isnan(x) : isinf(x));
            assert_int_equal(f32_to_f16(x), (h & 1023) ? (h | 0x200) : h);
        } else {
            assert_true((double)x == value_of((uint16_t)h));
            assert_int_equal(f32_to_f16(x), h);
        }
    }
}

/* Around every half float and every midpoint between two: the tie goes to the even one, neighbours to the nearest. */
static void rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float mid = (float)((value_of((uint16_t)h) + value_of((uint16_t)(h + 1))) / 2);
        assert_int_equal(f32_to_f16(mid), h & 1 ? h + 1 : h);
        assert_int_equal(f32_to_f16(nextafterf(mid, 0)), h);
        assert_int_equal(f32_to_f16(nextafterf(mid, INFINITY)), h + 1);
        assert_int_equal(f32_to_f16(-mid), 0x8000 | (h & 1 ? h + 1 : h));
    }
    assert_int_equal(f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(f32_to_f16(1e30f), 0x7c00);
    assert_int_equal(f32_to_f16(0x1p-25f), 0);
    assert_int_equal(f32_to_f16(0x1.000002p-25f), 1);
    assert_int_equal(f32_to_f16(-0.0f), 0x8000);
}

/* Steps of an odd stride over all f32 patterns; every half float; all patterns when asked by the environment. */
static void agrees_with_the_processor(void **state)
{
    (void)state;
    if (!have_hardware()) skip();
    uint64_t stride = getenv("LUTRA_TEST_LONG") ? 1 : 251;
    for (uint64_t u = 0; u <= UINT32_MAX; u += stride) {
        float x = f32_from_bits((uint32_t)u);
        if (f32_to_f16(x) != hardware_to_f16(x)) fail_msg("f32 0x%08x: %04x", (unsigned)u, f32_to_f16(x));
    }
    for (uint32_t h = 0; h < 65536; h++)
        assert_int_equal(f32_bits(f16_to_f32((uint16_t)h)), f32_bits(hardware_to_f32((uint16_t)h)));
}

static void bfloat16_is_the_rounded_top_half(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float x = bf16_to_f32((uint16_t)h);
        assert_int_equal(f32_bits(x), h << 16);
        assert_int_equal(f32_to_bf16(x), isnan(x) ? (h | 0x40) : h);
        if (isnan(x) || isinf(x)) continue;
        assert_int_equal(f32_to_bf16(f32_from_bits(h << 16 | 0x7fff)), h);
        assert_int_equal(f32_to_bf16(f32_from_bits(h << 16 | 0x8000)), h & 1 ? h + 1 : h);
        assert_int_equal(f32_to_bf16(f32_from_bits(h << 16 | 0x8001)), h + 1);
    }
}

static void e8m0_is_half_of_its_power_of_two(void **state)
{
    (void)state;
    for (int e = 0; e < 256; e++) assert_true((double)e8m0_half_to_f32((uint8_t)e) == ldexp(1, e - 128));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_have_their_value_and_come_back),
        cmocka_unit_test(rounds_to_nearest_even),
        cmocka_unit_test(agrees_with_the_processor),
        cmocka_unit_test(bfloat16_is_the_rounded_top_half),
        cmocka_unit_test(e8m0_is_half_of_its_power_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
