/* SPDX-License-Identifier: MIT
 *
 * Every operation of isa.h: the emulator against a Hexagon binary, bit for bit, on random bits, extremes and floats.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/f16.h"
#include "bench.h"
#include "isa_ops.h"

enum { ROUNDS = 60 };

static uint64_t next(uint64_t *s)
{
    *s ^= *s << 13, *s ^= *s >> 7, *s ^= *s << 17;
    return *s;
}

/* Round by round: any bits; bytes at the ends of their ranges; halves and floats of moderate size. */
static void fill(uint8_t *p, uint32_t bytes, int round, uint64_t *seed)
{
    static const uint8_t ends[] = {0x00, 0x7f, 0x80, 0xff, 0x01, 0x7c, 0xfc, 0x3c};
    for (uint32_t i = 0; i < bytes; i++) p[i] = (uint8_t)(round % 4 == 1 ? ends[next(seed) % 8] : next(seed) >> 24);
    for (uint32_t i = 0; round % 4 == 2 && i < bytes; i += 2) {
        uint16_t h = f32_to_f16((float)(int64_t)next(seed) * 0x1p-61f);
        memcpy(p + i, &h, 2);
    }
    for (uint32_t i = 0; round % 4 == 3 && i < bytes; i += 4) {
        float f = (float)(int64_t)next(seed) * (round % 8 == 3 ? 0x1p-60f : 0x1p-40f);
        memcpy(p + i, &f, 4);
    }
}

static void emulator_and_binary_agree(void **state)
{
    (void)state;
    struct bench b;
    uint64_t seed = 12345;
    bench_open(&b, 1 << 20);
    uint32_t src = bench_put(&b, NULL, 512), dst = bench_put(&b, NULL, 128 * ISA_OPS_RESULTS);
    struct isa *isa = npu_sim_isa(b.sim);
    for (int round = 0; round < ROUNDS; round++) {
        fill(npu_sim_host(b.sim, src), 512, round, &seed);
        npu_sim_host_wrote(b.sim, src, 512);
        memset(npu_sim_host(b.sim, dst), 0, 128 * ISA_OPS_RESULTS);
        npu_sim_host_wrote(b.sim, dst, 128 * ISA_OPS_RESULTS);
        bench_isa_ops(&b, dst, src);
        cache_invalidate(isa_ptr(src), 512);
        cache_invalidate(isa_ptr(dst), 128 * ISA_OPS_RESULTS);
        isa_ops_run(isa, isa_ptr(dst), isa_ptr(src), isa_ptr(b.machine.tcm_start));
        cache_flush(isa_ptr(dst), 128 * ISA_OPS_RESULTS);
        npu_sim_end(b.sim, 0);
        const uint8_t *x = npu_sim_host(b.sim, dst), *y = (const uint8_t *)b.values.box + dst;
        for (int i = 0; i < 128 * ISA_OPS_RESULTS; i++)
            if (x[i] != y[i]) fail_msg("round %d, result %d, byte %d: %02x %02x", round, i / 128, i % 128, x[i], y[i]);
    }
    size_t n;
    const struct npu_sim_fault *f = npu_sim_faults(b.sim, &n);
    if (n) fail_msg("%s in %s line %d", npu_sim_fault_name(f->kind), f->kernel, f->line);
    bench_close(&b);
}

int main(void)
{
    if (bench_skip()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(emulator_and_binary_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
