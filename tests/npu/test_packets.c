/* SPDX-License-Identifier: MIT
 *
 * Packets that QEMU counts for whole kernels, exact for clang 19.1 at -O2: loads, scales, loops and stores included.
 * Bars are asserted; the table is printed.  Figures are counted, not timed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "bench.h"
#include "npu/wire/layout.h"

enum { MEMORY_BYTES = 40 << 20 };

static double show(const char *name, uint32_t packets, double units, const char *unit)
{
    printf("%-28s %10u packets  %7.3f per %s\n", name, packets, packets / units, unit);
    return packets / units;
}

/* Packets per 256 weights of one operation over n x k. */
static double weights(struct bench *b, const char *name, uint32_t code, uint32_t kind, uint32_t k, uint32_t n)
{
    struct npu_weights w;
    assert_int_equal(npu_weights_layout(kind, k, n, &w), 0);
    struct npu_op op = {.code = code, .kind = kind, .m = 1, .k = k, .n = n};
    op.weights = npu_sim_buffer(b->sim, w.n_blocks * w.block_bytes);
    op.src = npu_sim_buffer(b->sim, 4 * k);
    op.dst = npu_sim_buffer(b->sim, 128 * w.n_blocks + 128 * k); /* blocks of tiles overwrite each other */
    assert_true(op.weights && op.src && op.dst);
    return show(name, bench_count(b, &op), (double)k * n / 256, "256 weights");
}

static void weight_kernels(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t code, kind;
        double bar; /* 0: none */
    } rows[] = {
        {"dequant Q4_0", NPU_OP_DEQUANT, NPU_W_Q4_0, 9},
        {"dequant IQ4_NL", NPU_OP_DEQUANT, NPU_W_IQ4_NL, 9},
        {"dequant Q4_1", NPU_OP_DEQUANT, NPU_W_Q4_1, 0},
        {"dequant Q8_0", NPU_OP_DEQUANT, NPU_W_Q8_0, 0},
        {"dequant supergroup", NPU_OP_DEQUANT, NPU_W_SUPER4, 0},
        {"gemv Q4_0", NPU_OP_GEMV, NPU_W_Q4_0, 3.5},
        {"gemv Q4_1", NPU_OP_GEMV, NPU_W_Q4_1, 0},
        {"gemv IQ4_NL", NPU_OP_GEMV, NPU_W_IQ4_NL, 0},
        {"gemv Q8_0", NPU_OP_GEMV, NPU_W_Q8_0, 0},
        {"gemm Q4_0, 1 row", NPU_OP_GEMM, NPU_W_Q4_0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int turn = 0; turn < 2; turn++) {
            struct bench b;
            char name[64];
            uint32_t k = turn ? 8960 : 1536, n = turn ? 1536 : 8960;
            bench_open(&b, MEMORY_BYTES);
            snprintf(name, sizeof name, "%s %ux%u", rows[i].name, k, n);
            double packets = weights(&b, name, rows[i].code, rows[i].kind, k, n);
            if (rows[i].bar > 0) assert_true(packets <= rows[i].bar);
            bench_close(&b);
        }
}

static void row_kernels(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t code, kind;
    } rows[] = {
        {"add", NPU_OP_ADD, 0},
        {"swiglu", NPU_OP_SWIGLU, 0},
        {"rms_norm", NPU_OP_RMS_NORM, 0},
        {"exp16 table", NPU_OP_EXP16, NPU_EXP_TABLE},
        {"exp16 f16 polynomial", NPU_OP_EXP16, NPU_EXP_F16},
        {"exp16 f32", NPU_OP_EXP16, NPU_EXP_F32},
    };
    struct bench b;
    bench_open(&b, 4 << 20);
    b.machine.tcm_kept = 65536;
    uint32_t x = npu_sim_buffer(b.sim, 65536), y = npu_sim_buffer(b.sim, 65536), z = npu_sim_buffer(b.sim, 65536);
    double per[6];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct npu_op op = {
            .code = rows[i].code, .kind = rows[i].kind, .m = 1, .n = 8192, .src = x, .weights = y, .dst = z};
        per[i] = show(rows[i].name, bench_count(&b, &op), 8192 / 64.0, "64 elements");
    }
    /* The order of the paper's Figure 14 before any latency: table, half polynomial, f32. */
    assert_true(per[3] < per[4] && per[4] < per[5]);
    bench_close(&b);
}

int main(void)
{
    if (bench_skip()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(weight_kernels), cmocka_unit_test(row_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
