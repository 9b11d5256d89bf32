/* SPDX-License-Identifier: MIT
 *
 * The row kernels of every level this CPU has against ops/ref, at every tail length, between canaries, in place, and
 * with an element's bits the same at every place of a row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpuinfo.h"
#include "base/f16.h"
#include "cpu/kernels.h"
#include "unit/ops/kv_fixture.h"

enum { MAX_N = 4099, CANARY = 16 };

static struct cpu_kernels levels[3];
static int n_level;
static float a[MAX_N + 16], b[MAX_N + 16], want[MAX_N + 16], got_buffer[MAX_N + 2 * CANARY];
static float *const got = got_buffer + CANARY;

static const int sizes[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 63, 64, 65, 100, 127, 128, 896, 1536, MAX_N};
#define N_SIZES (sizeof sizes / sizeof *sizes)

static void fill(float scale)
{
    for (int i = 0; i < MAX_N + 16; i++) {
        a[i] = scale * fixture_noise((uint32_t)i, 1, 7);
        b[i] = 2 * fixture_noise((uint32_t)i, 2, 7);
    }
}

static void arm(void)
{
    memset(got_buffer, 0xee, sizeof got_buffer);
}

static void check_canaries(const char *name, int n)
{
    const uint8_t *before = (const uint8_t *)got_buffer, *after = (const uint8_t *)(got + n);
    for (size_t i = 0; i < CANARY * sizeof(float); i++) {
        if (before[i] != 0xee || after[i] != 0xee) fail_msg("%s wrote outside its %d elements", name, n);
    }
}

/* |got - want| <= relative |want| + absolute. */
static void check_close(const char *name, int n, double relative, double absolute)
{
    for (int i = 0; i < n; i++) {
        double error = fabs((double)got[i] - want[i]);
        if (!(error <= relative * fabs((double)want[i]) + absolute)) {
            fail_msg("%s of %d: element %d is %.9g, not %.9g", name, n, i, got[i], want[i]);
        }
    }
}

/* ---- elementwise ---- */

typedef void (*ref_pair)(const float *x, const float *y, float *out, int n);
typedef void (*fast_pair)(const float *x, const float *y, size_t n, float *out);

static void check_pair(const char *name, fast_pair fast, ref_pair ref, double relative, double absolute)
{
    for (size_t s = 0; s < N_SIZES; s++) {
        int n = sizes[s];
        arm();
        fast(a, b, (size_t)n, got);
        ref(a, b, want, n);
        check_close(name, n, relative, absolute);
        check_canaries(name, n);
        memcpy(got, a, (size_t)n * sizeof *got); /* in place */
        fast(got, b, (size_t)n, got);
        check_close(name, n, relative, absolute);
        /* The last element, alone. */
        float alone;
        fast(a + n - 1, b + n - 1, 1, &alone);
        assert_memory_equal(&alone, &got[n - 1], sizeof alone);
        check_canaries(name, n);
    }
}

static void gate(const float *x, const float *y, float *out, int n)
{
    ref_gate(x, n, y, out, n);
}

static void gates_and_sums(void **state)
{
    (void)state;
    for (int k = 0; k < n_level; k++) {
        for (int scale = 1; scale <= 100; scale *= 10) {
            fill((float)scale);
            /* Relative 1e-6, and nothing below 1e-36: exp leaves the subnormal range out. */
            check_pair(levels[k].small_isa, levels[k].swiglu, ref_swiglu, 1e-6, 1e-34);
            check_pair(levels[k].small_isa, levels[k].geglu, ref_geglu, 4e-5, 1e-30);
            check_pair(levels[k].small_isa, levels[k].relu2, ref_relu2, 3e-7, 0);
            check_pair(levels[k].small_isa, levels[k].add, ref_add, 0, 0);
            check_pair(levels[k].small_isa, levels[k].mul, ref_mul, 0, 0);
            check_pair(levels[k].small_isa, levels[k].gate, gate, 1e-6, 1e-34);
        }
        fill(1);
        a[0] = 1e30f, a[1] = -1e30f, a[2] = 0, a[3] = -0.0f, a[4] = 87.5f, a[5] = -88.9f, a[6] = 1e-30f;
        arm();
        levels[k].swiglu(a, b, 7, got);
        ref_swiglu(a, b, want, 7);
        check_close("swiglu of extremes", 7, 1e-6, 1e-34);
    }
}

/* ---- norm ---- */

static void norms(void **state)
{
    (void)state;
    for (int k = 0; k < n_level; k++) {
        for (size_t s = 0; s < N_SIZES; s++) {
            int n = sizes[s];
            fill(3);
            if (n > 100) a[n / 2] = 3e4f; /* a massive activation */
            ref_rms_norm(a, b, 1e-6f, want, n, n);
            arm();
            levels[k].rms_norm(a, b, (size_t)n, 1e-6f, got);
            check_close(levels[k].small_isa, n, 1e-6, 1e-30);
            check_canaries(levels[k].small_isa, n);
            memcpy(got, a, (size_t)n * sizeof *got);
            levels[k].rms_norm(got, b, (size_t)n, 1e-6f, got);
            check_close(levels[k].small_isa, n, 1e-6, 1e-30);
        }
    }
}

/* ---- rope ---- */

static void rotations(void **state)
{
    (void)state;
    static const struct {
        int d_head, n_rot;
    } shapes[] = {{8, 8}, {16, 12}, {24, 24}, {40, 32}, {64, 64}, {80, 20}, {96, 96}, {128, 128}, {256, 64}, {72, 70}};
    float cs[256];
    for (int k = 0; k < n_level; k++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            for (int kind = ROPE_NORM; kind <= ROPE_NEOX; kind++) {
                struct op_rope op = {.kind = kind,
                    .n_head = 3,
                    .d_head = shapes[s].d_head,
                    .n_rot = shapes[s].n_rot,
                    .freq_base = 10000,
                    .freq_scale = 1,
                    .magnitude = 1.1f};
                int n = 3 * op.d_head;
                fill(1);
                memcpy(want, a, sizeof want);
                ref_rope(&op, 1234, want);
                ref_rope_table(&op, 1234, cs);
                arm();
                memcpy(got, a, (size_t)n * sizeof *got);
                levels[k].rope(&op, cs, got);
                check_close(levels[k].small_isa, n, 0, 4e-7); /* |x| <= 1: a few roundings of values up to 1.6 */
                check_canaries(levels[k].small_isa, n);
            }
        }
    }
}

/* ---- half floats ---- */

static void half_floats_are_exact(void **state)
{
    (void)state;
    static uint16_t half[MAX_N + 16];
    for (int k = 0; k < n_level; k++) {
        for (size_t s = 0; s < N_SIZES; s++) {
            int n = sizes[s];
            fill(s & 1 ? 1e-6f : 7e4f); /* subnormal halves; overflow */
            memset(half, 0xee, sizeof half);
            levels[k].f32_to_f16(a, (size_t)n, half);
            for (int i = 0; i < n; i++) assert_int_equal(half[i], f32_to_f16(a[i]));
            assert_int_equal(half[n], 0xeeee);
            arm();
            levels[k].f16_to_f32(half, (size_t)n, got);
            for (int i = 0; i < n; i++) want[i] = f16_to_f32(half[i]);
            assert_memory_equal(got, want, (size_t)n * sizeof *got);
            check_canaries(levels[k].small_isa, n);
        }
        for (uint32_t h = 0; h < 0x10000; h += 16) { /* every half float, 16 at a time; NaNs are quieted alike */
            for (uint32_t i = 0; i < 16; i++) half[i] = (uint16_t)(h + i);
            levels[k].f16_to_f32(half, 16, got);
            for (uint32_t i = 0; i < 16; i++) assert_int_equal(f32_bits(got[i]), f32_bits(f16_to_f32(half[i])));
        }
    }
}

/* ---- logits ---- */

static void logit_sums(void **state)
{
    (void)state;
    for (int k = 0; k < n_level; k++) {
        for (size_t s = 0; s < N_SIZES; s++) {
            int n = sizes[s];
            fill(20);
            for (int i = 0; i < n; i++) a[i] -= 50; /* a tail filled with 0 would be the largest */
            float max = levels[k].max_row(a, (size_t)n), expect = a[0];
            double sum = 0;
            for (int i = 0; i < n; i++) expect = a[i] > expect ? a[i] : expect;
            for (int i = 0; i < n; i++) sum += exp((double)a[i] - expect);
            assert_true(max == expect);
            double got_sum = levels[k].sum_exp(a, (size_t)n, max);
            if (!(fabs(got_sum / sum - 1) < 1e-6)) fail_msg("%s: %g, not %g", levels[k].small_isa, got_sum, sum);
        }
        a[3] = NAN;
        assert_true(levels[k].max_row(a, 64) > -71);
    }
}

/* ---- the exponential, through swiglu: f(x) = x / (1 + e^-x), and through sum_exp of one element ---- */

static void exponential_is_within_its_bound(void **state)
{
    (void)state;
    for (int k = 0; k < n_level; k++) {
        double worst = 0;
        for (float x = -87.29f; x <= 0; x += 0.000731f) {
            double e = levels[k].sum_exp(&x, 1, 0), error = fabs(e / exp((double)x) - 1);
            if (error > worst) worst = error;
        }
        if (!(worst < 1e-7)) fail_msg("%s: relative error %g", levels[k].small_isa, worst);
        float x[4] = {0, -INFINITY, -87.31f, NAN};
        assert_true(levels[k].sum_exp(&x[0], 1, 0) == 1);
        assert_true(levels[k].sum_exp(&x[1], 1, 0) == 0);
        if (k > 0) assert_true(levels[k].sum_exp(&x[2], 1, 0) == 0);
        assert_true(isnan(levels[k].sum_exp(&x[3], 1, 0)));
    }
}

static int open_levels(void **state)
{
    (void)state;
    cpu_small_init_ref(&levels[n_level++]);
#if defined(__x86_64__)
    uint32_t isa = cpu_isa();
    if (isa & CPU_AVX2) cpu_small_init_avx2(&levels[n_level++]);
    if (isa & CPU_AVX512) cpu_small_init_avx512(&levels[n_level++]);
#endif
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gates_and_sums),
        cmocka_unit_test(norms),
        cmocka_unit_test(rotations),
        cmocka_unit_test(half_floats_are_exact),
        cmocka_unit_test(logit_sums),
        cmocka_unit_test(exponential_is_within_its_bound),
    };
    return cmocka_run_group_tests(tests, open_levels, NULL);
}
