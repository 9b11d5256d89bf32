/* SPDX-License-Identifier: MIT
 *
 * The integer product of several rows: every row has the bits it has alone, for every kind and row count; and of more
 * blocks than a chunk of DMA has, whose last chunk is less than one.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "npu/dsp/kernels.h"
#include "npu/host/pack.h"
#include "quant/quant.h"

enum { BOTH = NPU_FROM_HOST | NPU_TO_HOST, K = 768, N = 70, ROWS = 9, K_MOST = 1536, BLOCKS = 33 };

static uint64_t seed = 77;

static float uniform(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (float)(int64_t)seed * 0x1p-63f;
}

static uint32_t put_weights(struct bench *b, uint32_t type, const struct npu_weights *w)
{
    size_t row_bytes;
    float row[K_MOST];
    assert_int_equal(quant_row_bytes(type, w->k, &row_bytes), 0);
    uint8_t *rows = malloc(row_bytes * w->n), *packed = malloc((size_t)w->n_blocks * w->block_bytes);
    for (uint32_t r = 0; r < w->n; r++) {
        for (uint32_t i = 0; i < w->k; i++) row[i] = uniform() * 0.1f;
        quant_info_of(type)->quantize(row, rows + r * row_bytes, w->k);
    }
    npu_pack_tile32(w, type, rows, row_bytes, packed, 0, w->n_blocks);
    uint32_t at = bench_put(b, packed, w->n_blocks * w->block_bytes);
    free(rows), free(packed);
    return at;
}

static void every_row_has_the_bits_it_has_alone(void **state)
{
    (void)state;
    static const uint32_t types[] = {QUANT_Q4_0, QUANT_Q4_1, QUANT_IQ4_NL, QUANT_Q8_0, QUANT_Q4_K, QUANT_Q6_K};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct bench b;
        struct npu_weights w;
        struct npu_act8 l;
        uint32_t kind;
        float x[K];
        bench_open(&b, 4 << 20);
        assert_int_equal(npu_pack_kind(types[t], &kind, NULL), 0);
        assert_int_equal(npu_weights_layout(kind, K, N, &w), 0);
        npu_act8_layout(K, &l);
        uint32_t out = 128 * w.n_blocks, weights = put_weights(&b, types[t], &w);
        uint32_t act = bench_put(&b, NULL, ROWS * l.bytes), alone = bench_put(&b, NULL, ROWS * out);
        uint32_t together = bench_put(&b, NULL, ROWS * out);
        for (uint32_t r = 0; r < ROWS; r++) {
            for (uint32_t i = 0; i < K; i++) x[i] = uniform() * (float)(1 << r);
            struct npu_op q = {
                .code = NPU_OP_QUANTIZE, .flags = BOTH, .m = 1, .k = K, .src = bench_put(&b, x, sizeof x)};
            q.dst = act + r * l.bytes;
            bench_run(&b, &q, q.dst, l.bytes);
        }
        struct npu_op op = {
            .code = NPU_OP_GEMV, .flags = BOTH, .kind = kind, .m = 1, .k = K, .n = N, .weights = weights};
        op.src_stride = l.bytes, op.dst_stride = out;
        for (uint32_t r = 0; r < ROWS; r++) {
            op.src = act + r * l.bytes, op.dst = alone + r * out;
            bench_run(&b, &op, op.dst, out);
        }
        op.src = act, op.dst = together;
        for (op.m = 2; op.m <= ROWS; op.m++) {
            bench_run(&b, &op, together, op.m * out);
            assert_memory_equal(npu_sim_host(b.sim, together), npu_sim_host(b.sim, alone), op.m * out);
        }
        bench_close(&b);
    }
}

/* Every block as it is alone; with one thread and with four the last chunk is less than a whole one. */
static void a_last_chunk_is_what_is_left(void **state)
{
    (void)state;
    struct bench b;
    struct npu_weights w;
    struct npu_act8 l;
    struct npu_gemv_plan plan;
    float x[K_MOST];
    bench_open(&b, 4 << 20);
    assert_int_equal(npu_weights_layout(NPU_W_Q4_0, K_MOST, 32 * BLOCKS, &w), 0);
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        assert_int_equal(npu_gemv_plan(&w, 0, b.machine.tcm_bytes, threads, &plan), 0);
        assert_int_not_equal(BLOCKS / threads % plan.chunk_blocks, 0); /* of the last thread */
    }
    npu_act8_layout(K_MOST, &l);
    for (uint32_t i = 0; i < K_MOST; i++) x[i] = uniform();
    struct npu_op op = {.code = NPU_OP_QUANTIZE, .flags = BOTH, .m = 1, .k = K_MOST};
    op.src = bench_put(&b, x, sizeof x), op.dst = bench_put(&b, NULL, l.bytes);
    bench_sim(&b, &op, op.dst, l.bytes);
    uint32_t weights = put_weights(&b, QUANT_Q4_0, &w), all = bench_put(&b, NULL, 128 * BLOCKS);
    uint32_t alone = bench_put(&b, NULL, 128 * BLOCKS);
    op = (struct npu_op){.code = NPU_OP_GEMV, .flags = BOTH, .kind = w.kind, .m = 1, .k = K_MOST, .src = op.dst};
    op.n = 32 * BLOCKS, op.weights = weights, op.dst = all;
    bench_run(&b, &op, all, 128 * BLOCKS);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        op.n = 32, op.weights = weights + i * w.block_bytes, op.dst = alone + 128 * i;
        bench_sim(&b, &op, op.dst, 128);
    }
    assert_memory_equal(npu_sim_host(b.sim, all), npu_sim_host(b.sim, alone), 128 * BLOCKS);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_the_bits_it_has_alone), cmocka_unit_test(a_last_chunk_is_what_is_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
