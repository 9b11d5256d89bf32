/* SPDX-License-Identifier: MIT
 *
 * Weights as bit planes (npu/wire/planes.h) against the same weights as tile32: the tiles made of them, and products on
 * tiles, bit for bit, in the emulator and as Hexagon binaries.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/f16.h"
#include "bench.h"
#include "npu/dsp/kernels.h"
#include "npu/host/pack.h"
#include "npu/wire/layout.h"
#include "quant/quant.h"

enum { BOTH = NPU_FROM_HOST | NPU_TO_HOST };

static const uint32_t types[] = {
    QUANT_Q1_0, QUANT_Q2_0, QUANT_TQ1_0, QUANT_TQ2_0, QUANT_Q4_0, QUANT_Q4_1, QUANT_W2, QUANT_W3, QUANT_W4};
enum { N_TYPES = sizeof types / sizeof *types };

static uint64_t seed = 2026;

static uint64_t next(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static bool is_zero_point(uint32_t type)
{
    return type == QUANT_W2 || type == QUANT_W3 || type == QUANT_W4;
}

/* Random weights of a type in both layouts, in new buffers. */
struct pair {
    struct npu_weights tiles, planes;
    uint32_t at_tiles, at_planes;
};

static struct pair put_pair(struct bench *b, uint32_t type, uint32_t k, uint32_t n)
{
    const struct quant_info *q = quant_info_of(type);
    struct pair p;
    uint32_t kind;
    size_t row_bytes;
    float *x = malloc(k * sizeof *x);
    assert_int_equal(npu_pack_kind(type, &kind, NULL), 0);
    assert_int_equal(npu_weights_layout(kind, npu_weights_k(k), n, &p.tiles), 0);
    assert_int_equal(quant_row_bytes(type, (k + 127) / 128 * 128, &row_bytes), 0);
    uint8_t *rows = calloc(n, row_bytes);
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t i = 0; i < k; i++) x[i] = (float)(int64_t)next() * 0x1p-66f;
        if (q->quantize)
            q->quantize(x, rows + r * row_bytes, k);
        else
            quant_random_blocks(q, next(), 0.1f, rows + r * row_bytes, k);
        if (type == QUANT_Q2_0) /* files may have any code and sign */
            for (uint32_t i = 0; i < k / 64; i++) {
                struct quant_q2_0 *block = (struct quant_q2_0 *)(void *)(rows + r * row_bytes) + i;
                for (uint32_t j = 0; j < sizeof block->qs; j++) block->qs[j] = (uint8_t)next();
                block->d ^= (uint16_t)(next() & 0x8000);
            }
        if (type == QUANT_TQ2_0)
            ((struct quant_tq2_0 *)(void *)(rows + r * row_bytes))->d ^= (uint16_t)(next() & 0x8000);
        if (type == QUANT_Q1_0) ((struct quant_q1_0 *)(void *)(rows + r * row_bytes))->d ^= (uint16_t)(next() & 0x8000);
    }
    if (is_zero_point(type) && k % 512 == 0) { /* groups of 128 */
        const size_t block = q->block_bytes;
        uint8_t *last = rows + n * row_bytes - block;
        for (uint8_t *at = rows; at < last; at += 2 * block) memcpy(at + block, at, 3);
        last[2] ^= 1; /* one zero, or one scale, that does not repeat the one before it */
        assert_int_equal(npu_planes_group(npu_pack_planes_of_rows(type, rows, n * row_bytes, k)), 64);
        last[2] ^= 1, last[0] ^= 1;
        assert_int_equal(npu_planes_group(npu_pack_planes_of_rows(type, rows, n * row_bytes, k)), 64);
        last[0] ^= 1;
    }
    kind = npu_pack_planes_of_rows(type, rows, n * row_bytes, k);
    if (is_zero_point(type)) assert_int_equal(npu_planes_group(kind), k % 512 ? 64 : 128);
    assert_int_equal(npu_weights_layout(kind, npu_weights_k(k), n, &p.planes), 0);
    uint8_t *tiles = malloc(p.tiles.bytes), *planes = malloc(p.planes.bytes);
    memset(planes, 0xaa, p.planes.bytes);
    npu_pack_tile32(&p.tiles, type, rows, row_bytes, tiles, 0, p.tiles.n_blocks);
    uint32_t blocks = npu_planes_blocks(&p.planes);
    for (uint32_t i = blocks; i--;) npu_pack_planes(&p.planes, type, rows, row_bytes, planes, i, i + 1);
    p.at_tiles = bench_put(b, tiles, p.tiles.bytes), p.at_planes = bench_put(b, planes, p.planes.bytes);
    free(x), free(rows), free(tiles), free(planes);
    return p;
}

/* Every half of every tile; what is nothing may have either sign. */
static void tiles_are_equal(void **state)
{
    (void)state;
    for (int t = 0; t < N_TYPES; t++) {
        struct bench b;
        const uint32_t k = quant_info_of(types[t])->block_elems == 64 && t % 2 ? 320 : 512, n = 200;
        bench_open(&b, 8 << 20);
        struct pair p = put_pair(&b, types[t], k, n);
        uint32_t bytes = 64 * p.planes.k, tiles = bench_put(&b, NULL, 8 * bytes),
                 planes = bench_put(&b, NULL, 8 * bytes);
        struct npu_op op = {.code = NPU_OP_DEQUANT, .flags = BOTH, .kind = p.tiles.kind, .k = k, .n = n};
        op.weights = p.at_tiles, op.dst = tiles, op.dst_stride = bytes;
        bench_run(&b, &op, tiles, 7 * bytes);
        op.kind = p.planes.kind, op.weights = p.at_planes, op.dst = planes;
        bench_run(&b, &op, planes, 8 * bytes);
        const uint16_t *x = npu_sim_host(b.sim, tiles), *y = npu_sim_host(b.sim, planes);
        for (uint32_t i = 0; i < 8 * bytes / 2; i++) {
            uint32_t block = i / (bytes / 2), at = i % (bytes / 2) / 2 % 32 + 32 * block;
            int there = at < n && i % (bytes / 2) / 1024 < k / 32;
            if ((there || block < 7) && x[i] != y[i] && ((x[i] | y[i]) & 0x7fff))
                fail_msg("%s, half %u: %04x %04x", quant_type_name(types[t]), i, x[i], y[i]);
            if (!there && (y[i] & 0x7fff)) fail_msg("%s, half %u is beyond the matrix", quant_type_name(types[t]), i);
        }
        bench_close(&b);
    }
}

/* One code and what it stands for, as both kinds have it. */
static void put_code(struct bench *b, const struct npu_weights *w, uint32_t at, uint32_t code, const uint16_t scale[2],
    uint32_t k, uint32_t n)
{
    uint8_t *to = (uint8_t *)npu_sim_host(b->sim, at);
    for (uint32_t plane = 0; plane < npu_planes_bits(w->kind); plane++) {
        uint32_t bit, byte = npu_planes_bit(w, plane, k, n, &bit);
        to[byte] = (uint8_t)(to[byte] | (code >> plane & 1) << bit);
    }
    memcpy(to + npu_planes_scale(w, k, n), &scale[0], 2);
    if (npu_planes_form(w->kind) == NPU_PLANES_MINIMA) memcpy(to + npu_planes_scale(w, k, n) + 256, &scale[1], 2);
}

/* Kinds that no file's type has, against the same values in 4 bits and groups of 32. */
static void kinds_are_as_four_bits(void **state)
{
    (void)state;
    enum { K = 256, N = 160, BYTES = 64 * K };
    static const uint32_t kinds[] = {NPU_PLANES(2, 64, NPU_PLANES_MINIMA), NPU_PLANES(3, 128, NPU_PLANES_MINIMA),
        NPU_PLANES(4, 128, NPU_PLANES_MINIMA), NPU_PLANES(1, 32, NPU_PLANES_MINIMA),
        NPU_PLANES(3, 64, NPU_PLANES_CENTRED), NPU_PLANES(4, 128, NPU_PLANES_CENTRED),
        NPU_PLANES(2, 32, NPU_PLANES_CENTRED)};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const uint32_t bits = npu_planes_bits(kinds[i]), form = npu_planes_form(kinds[i]),
                       per = npu_planes_group(kinds[i]);
        const uint32_t more = form == NPU_PLANES_MINIMA ? 0 : 8 - npu_planes_centre(bits);
        struct bench b;
        struct npu_weights few, four;
        bench_open(&b, 8 << 20);
        assert_int_equal(npu_weights_layout(kinds[i], K, N, &few), 0);
        assert_int_equal(npu_weights_layout(NPU_PLANES(4, 32, form), K, N, &four), 0);
        uint32_t at[2] = {bench_put(&b, NULL, few.bytes), bench_put(&b, NULL, four.bytes)};
        uint32_t to[2] = {bench_put(&b, NULL, 8 * BYTES), bench_put(&b, NULL, 8 * BYTES)};
        for (uint32_t n = 0; n < N; n++)
            for (uint32_t k = 0; k < K; k++) {
                static uint16_t scale[2];
                if (k % per == 0)
                    for (int j = 0; j < 2; j++) scale[j] = (uint16_t)(0x2c00 + next() % 2048 + (next() & 0x8000));
                uint32_t code = (uint32_t)next() >> 7 & ((1u << bits) - 1);
                put_code(&b, &few, at[0], code, scale, k, n);
                put_code(&b, &four, at[1], code + more, scale, k, n);
            }
        for (int j = 0; j < 2; j++) {
            struct npu_op op = {
                .code = NPU_OP_DEQUANT, .flags = BOTH, .kind = j ? four.kind : few.kind, .k = K, .n = N};
            op.weights = at[j], op.dst = to[j], op.dst_stride = BYTES;
            bench_run(&b, &op, to[j], 8 * BYTES);
        }
        if (memcmp(npu_sim_host(b.sim, to[0]), npu_sim_host(b.sim, to[1]), 5 * BYTES))
            fail_msg("%u bits, groups of %u, form %u", bits, per, form);
        bench_close(&b);
    }
}

/* Rows that fill several blocks; outputs that fill no block of 128, several chunks of one, and more than a panel. */
static void products_are_equal(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {{1, 512, 96}, {40, 256, 160}, {3, 1280, 512}, {1, 256, 1920}};
    for (int t = 0; t < N_TYPES; t++)
        for (int s = 0; s < 4; s++) {
            if (s > 1 && t != s - 2) continue;
            struct bench b;
            const uint32_t m = shapes[s][0], k = shapes[s][1] - (quant_info_of(types[t])->block_elems == 64 ? 64 : 0),
                           n = shapes[s][2];
            const uint32_t stride = 128 * ((n + 31) / 32), bytes = m * stride;
            bench_open(&b, 16 << 20);
            struct pair p = put_pair(&b, types[t], k, n);
            float *x = malloc(m * k * sizeof *x);
            for (uint32_t i = 0; i < m * k; i++) x[i] = (float)(int64_t)next() * 0x1p-63f;
            uint32_t tiles = bench_put(&b, NULL, bytes), planes = bench_put(&b, NULL, bytes);
            struct npu_op op = {.code = NPU_OP_GEMM, .flags = BOTH, .m = m, .k = k, .n = n, .src_stride = 4 * k};
            op.kind = p.tiles.kind, op.weights = p.at_tiles, op.dst = tiles, op.dst_stride = stride;
            op.src = bench_put(&b, x, 4 * m * k);
            bench_run(&b, &op, tiles, bytes);
            op.kind = p.planes.kind, op.weights = p.at_planes, op.dst = planes;
            bench_run(&b, &op, planes, bytes);
            if (memcmp(npu_sim_host(b.sim, tiles), npu_sim_host(b.sim, planes), bytes))
                fail_msg("%s, %u x %u, %u rows", quant_type_name(types[t]), k, n, m);
            free(x);
            bench_close(&b);
        }
}

/* Kinds that there are not, and operations that take outputs one by one. */
static void others_are_refused(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 << 20);
    uint32_t at = bench_put(&b, NULL, 1 << 20);
    struct npu_op op = {.m = 1, .k = 256, .n = 128, .src = at, .weights = at, .dst = at, .rows = at, .scratch = at};
    static const uint32_t bad[][2] = {{NPU_OP_GEMM, NPU_PLANES(5, 128, 0)}, {NPU_OP_GEMM, NPU_PLANES(1, 64, 2)},
        {NPU_OP_DEQUANT, NPU_PLANES(3, 48, 0)}, {NPU_OP_EMBED, NPU_PLANES(1, 128, 0)},
        {NPU_OP_HEAD, NPU_PLANES(1, 128, 0)}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        op.code = bad[i][0], op.kind = bad[i][1];
        assert_int_equal(npu_execute(npu_sim_isa(b.sim), &b.machine, &op), NPU_BAD_SHAPE);
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles_are_equal), cmocka_unit_test(kinds_are_as_four_bits),
        cmocka_unit_test(products_are_equal), cmocka_unit_test(others_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
