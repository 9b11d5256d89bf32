/* SPDX-License-Identifier: MIT
 *
 * Sums of products of columns against the definition: whole numbers, so that every order of additions gives the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>

#include "base/cpuinfo.h"
#include "quantize/gram.h"
#include "quantize/gram_impl.h"

enum { MAX_N = 401, MAX_ROWS = 130, LD = MAX_N + 3 };

static double x[MAX_ROWS * LD], c[MAX_N * LD];
static float xf[MAX_ROWS * LD];

static void fill(void)
{
    srand(3);
    for (int i = 0; i < MAX_ROWS * LD; i++) x[i] = xf[i] = (float)(rand() % 17 - 8);
    for (int i = 0; i < MAX_N * LD; i++) c[i] = 5;
}

/* Backwards: jobs may come in any order. */
static void backwards(void *user, void (*fn)(void *arg, int i), void *arg, int n)
{
    (void)user;
    while (n-- > 0) fn(arg, n);
}

static void sums(void **state)
{
    static const int size[][2] = {{1, 1}, {8, 3}, {24, 64}, {100, 65}, {192, 2}, {401, 70}, {49, 130}};
    const struct quant_parallel on = {backwards, NULL};
    (void)state;
    for (int s = 0; s < 14; s++) {
        int n = size[s / 2][0], n_row = size[s / 2][1], sign = s % 2 ? 1 : -1;
        fill();
        quant_gram(c, LD, s % 2 ? NULL : x, xf, LD, (size_t)n, (size_t)n_row, sign, s % 2 ? &on : NULL);
        for (int i = 0; i < n; i++)
            for (int k = i; k < n; k++) {
                double want = 5;
                for (int p = 0; p < n_row; p++) want += sign * x[p * LD + i] * x[p * LD + k];
                if (c[i * LD + k] != want) fail_msg("%d x %d: element %d, %d", n, n_row, i, k);
            }
        for (int i = 0; i < n; i++) assert_true(c[i * LD + n] == 5); /* nothing beside it */
    }
}

#if defined(__x86_64__)
static void tiles(void **state)
{
    const struct {
        gram_tile_fn tile;
        bool floats;
    } all[] = {{cpu_isa() & CPU_AVX2 ? gram_tile_avx2 : NULL, false},
        {cpu_isa() & CPU_AVX512 ? gram_tile_avx512 : NULL, false},
        {cpu_isa() & CPU_AVX2 ? gram_tile_f32_avx2 : NULL, true},
        {cpu_isa() & CPU_AVX512 ? gram_tile_f32_avx512 : NULL, true}};
    (void)state;
    for (int t = 0; t < 4; t++) {
        int width = all[t].floats ? GRAM_KF : GRAM_K;
        fill();
        if (!all[t].tile) continue;
        if (all[t].floats)
            all[t].tile(xf, xf + 3000, 50, c, LD);
        else
            all[t].tile(x, x + 3000, 50, c, LD);
        for (int i = 0; i < GRAM_I; i++) {
            for (int k = 0; k < width; k++) {
                double want = 5;
                for (int p = 0; p < 50; p++) want += x[p * GRAM_I + i] * x[3000 + p * width + k];
                if (c[i * LD + k] != want) fail_msg("tile %d: element %d, %d", t, i, k);
            }
            assert_true(c[i * LD + width] == 5);
        }
    }
}

static void errors(void **state)
{
    void (*add[])(const float *a, size_t n, const float *e, float *sum) = {
        cpu_isa() & CPU_AVX2 ? gram_errors_avx2 : NULL, cpu_isa() & CPU_AVX512 ? gram_errors_avx512 : NULL};
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int n = 0; n < 40 && add[t]; n++) {
            float sum[GRAM_ROWS] = {0};
            fill();
            add[t](xf, (size_t)n, xf + 100, sum);
            for (int r = 0; r < GRAM_ROWS; r++) {
                float want = 0;
                for (int j = 0; j < n; j++) want += xf[j] * xf[100 + j * GRAM_ROWS + r];
                if (sum[r] != want) fail_msg("%d errors, row %d", n, r);
            }
        }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
#if defined(__x86_64__)
        cmocka_unit_test(tiles),
        cmocka_unit_test(errors),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
