/* SPDX-License-Identifier: MIT
 *
 * Peaks: every instruction set has some, the reference has none, and a stream needs memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cpuinfo.h"
#include "cpu/peaks.h"

static struct pool *pool;

static int open_pool(void **state)
{
    (void)state;
    return pool_open(&pool, &(struct pool_settings){.n_thread = 2}, NULL);
}

static int close_pool(void **state)
{
    (void)state;
    pool_close(&pool);
    return 0;
}

static void every_level_has_peaks(void **state)
{
    (void)state;
    uint32_t isa = 0;
    for (uint32_t bit = 1; bit <= CPU_ISA_ALL; bit <<= 1) {
        struct cpu_kernels k;
        if (!(cpu_isa() & bit)) continue;
        isa |= bit;
        cpu_kernels_init(&k, isa);
        struct cpu_peaks p = cpu_peaks_measure(&k, pool);
        if (!k.peaks) fail_msg("%s has no peaks", k.name);
        assert_non_null(p.int8_name);
        assert_true(p.int8_gmac > 0 && p.f32_gmac > 0);
        if (p.bf16_name && p.bf16_gmac < p.int8_gmac) fail_msg("%s: a matrix unit of %.1f", k.name, p.bf16_gmac);
        if (p.int8_gmac < p.f32_gmac) fail_msg("%s: int8 %.1f, f32 %.1f", k.name, p.int8_gmac, p.f32_gmac);
    }
}

static void the_reference_has_none(void **state)
{
    (void)state;
    struct cpu_kernels k;
    cpu_kernels_init(&k, 0);
    struct cpu_peaks p = cpu_peaks_measure(&k, pool);
    assert_null(p.int8_name);
    assert_true(p.int8_gmac == 0 && p.f32_gmac == 0);
}

static void memory_streams(void **state)
{
    (void)state;
    assert_true(cpu_stream_measure(pool, 1 << 20) > 0);
    assert_true(cpu_stream_measure(pool, 0) == 0);
    assert_true(cpu_stream_measure(pool, SIZE_MAX / 4) == 0); /* no memory is no failure */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_level_has_peaks),
        cmocka_unit_test(the_reference_has_none), cmocka_unit_test(memory_streams)};
    return cmocka_run_group_tests(tests, open_pool, close_pool);
}
