/* SPDX-License-Identifier: MIT
 *
 * Packets that QEMU counts for whole kernels, exact for clang 19.1 at -O2: loads, scales, loops and stores included.
 * Beside them the emulator's lower bound from its counters of issue resources, and how far it is off.
 * Bars are asserted; the tables are printed.  Figures are counted, not timed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_box.h"
#include "bench.h"
#include "npu/dsp/kernels.h"
#include "npu/wire/layout.h"

enum { MEMORY_BYTES = 40 << 20 };

/* One operation under QEMU and in the emulator; packets per unit. */
static double show(struct bench *b, const char *name, const struct npu_op *op, double units, const char *unit)
{
    size_t n;
    uint32_t packets = bench_count(b, op);
    struct npu_sim_counters *c = npu_sim_counts(b->sim);
    memset(c, 0, sizeof *c);
    assert_int_equal(npu_execute(npu_sim_isa(b->sim), &b->machine, op), NPU_OK);
    npu_sim_end(b->sim, b->machine.tcm_kept);
    npu_sim_faults(b->sim, &n);
    assert_int_equal(n, 0);
    uint64_t bound = npu_sim_packet_bound(c);
    printf("%-27s %9u packets %8.3f per %-11s  emulator %9llu (%+5.1f %%)  DMA %8llu B  tiles %llu\n", name, packets,
        packets / units, unit, (unsigned long long)bound, 100.0 * ((double)bound - packets) / packets,
        (unsigned long long)(c->dma_read_bytes + c->dma_write_bytes), (unsigned long long)c->tile_pairs);
    assert_true(bound <= packets); /* or it is no lower bound */
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
    return show(b, name, &op, (double)k * n / 256, "256 weights");
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
        {"dequant MXFP4", NPU_OP_DEQUANT, NPU_W_MXFP4, 9},
        {"dequant W2, a zero per 64", NPU_OP_DEQUANT, NPU_W_W2, 6},
        {"dequant W3, a zero per 64", NPU_OP_DEQUANT, NPU_W_W3, 9},
        {"dequant W4, a zero per 64", NPU_OP_DEQUANT, NPU_W_W4, 9},
        {"dequant TQ2_0", NPU_OP_DEQUANT, NPU_W_TERNARY, 4.7},
        {"dequant Q8_0", NPU_OP_DEQUANT, NPU_W_Q8_0, 0},
        {"dequant supergroup", NPU_OP_DEQUANT, NPU_W_SUPER4, 9},
        {"dequant supergroup 8", NPU_OP_DEQUANT, NPU_W_SUPER8, 0},
        {"dequant Q4_K", NPU_OP_DEQUANT, NPU_W_Q4_K, 0},
        {"dequant Q2_K", NPU_OP_DEQUANT, NPU_W_Q2_K, 0},
        {"dequant Q3_K", NPU_OP_DEQUANT, NPU_W_Q3_K, 0},
        {"dequant Q5_K", NPU_OP_DEQUANT, NPU_W_Q5_K, 0},
        {"dequant Q6_K", NPU_OP_DEQUANT, NPU_W_Q6_K, 0},
        {"gemm Q4_0, 1 row", NPU_OP_GEMM, NPU_W_Q4_0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int turn = 0; turn < (rows[i].bar > 0 ? 2 : 1); turn++) {
            struct bench b;
            char name[64];
            const int all = getenv("LUTRA_TEST_LONG") != NULL; /* fewer outputs cost as much each */
            uint32_t k = turn ? 8960 : 1536, n = !all ? (turn ? 256 : 1024) : turn ? 1536 : 8960;
            if (rows[i].code == NPU_OP_GEMM) n = 1024;
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
        {"rope", NPU_OP_ROPE, 1},
        {"exp16 table", NPU_OP_EXP16, NPU_EXP_TABLE},
        {"exp16 f16 polynomial", NPU_OP_EXP16, NPU_EXP_F16},
        {"exp16 f32", NPU_OP_EXP16, NPU_EXP_F32},
    };
    enum { N_ROWS = sizeof rows / sizeof *rows };
    struct bench b;
    bench_open(&b, 4 << 20);
    b.machine.tcm_kept = 65536;
    uint32_t x = npu_sim_buffer(b.sim, 65536), y = npu_sim_buffer(b.sim, 65536), z = npu_sim_buffer(b.sim, 65536);
    struct npu_op op = {.code = NPU_OP_EXP_TABLE};
    double per[N_ROWS];
    show(&b, "exp table, once", &op, 512, "64 elements");
    for (size_t i = 0; i < N_ROWS; i++) {
        op = (struct npu_op){
            .code = rows[i].code, .kind = rows[i].kind, .m = 1, .n = 8192, .k = 8192, .src = x, .weights = y, .dst = z};
        if (op.code == NPU_OP_ROPE) op.param = 128, op.k = 64; /* 64 heads of 128, neox pairs */
        per[i] = show(&b, rows[i].name, &op, 8192 / 64.0, "64 elements");
    }
    /* The order of the paper's Figure 14 before any latency: table, half polynomial, f32. */
    assert_true(per[4] < per[5] && per[5] < per[6]);
    bench_close(&b);
}

static uint64_t sees_all(const void *user, uint32_t row, uint32_t segment)
{
    (void)user, (void)row, (void)segment;
    return ~0ull;
}

/* Head of 128, one block of 32 rows, all keys seen. */
static void attention(void **state)
{
    (void)state;
    static const char *const ways[] = {"table", "f16", "f32"};
    static const uint32_t n_keys[] = {1024, 4096};
    for (int i = 0; i < 2; i++)
        for (uint32_t way = 0; way < 3; way++) {
            struct bench b;
            char name[64];
            bench_open(&b, 4 << 20);
            b.machine.tcm_kept = 65536;
            static struct attention_box box;
            struct npu_slot at[64];
            uint32_t keys = npu_sim_buffer(b.sim, 16384), values = npu_sim_buffer(b.sim, 16384);
            for (uint32_t j = 0; j < 64; j++) at[j] = (struct npu_slot){keys, values, 0, 0};
            attention_box_fill(&box, 32, 1, 1, n_keys[i] / 64, at, sees_all, NULL);
            struct npu_op op = {.code = NPU_OP_EXP_TABLE};
            assert_int_equal(npu_execute(npu_sim_isa(b.sim), &b.machine, &op), NPU_OK);
            op = (struct npu_op){.code = NPU_OP_ATTENTION,
                .flags = NPU_FROM_HOST,
                .kind = way,
                .m = 32,
                .n = 128,
                .src = npu_sim_buffer(b.sim, 32 * 512),
                .dst = npu_sim_buffer(b.sim, 32 * 512),
                .src_stride = 512,
                .dst_stride = 512,
                .rows = bench_put(&b, &box, sizeof box)};
            snprintf(name, sizeof name, "attention %s, %u keys", ways[way], n_keys[i]);
            show(&b, name, &op, n_keys[i] * 32 / 64.0, "64 scores");
            bench_close(&b);
        }
}

int main(void)
{
    if (bench_skip()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weight_kernels), cmocka_unit_test(row_kernels), cmocka_unit_test(attention)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
