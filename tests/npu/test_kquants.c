/* SPDX-License-Identifier: MIT
 *
 * K-quants and 8-bit supergroups: packing keeps codes and scales, tiles are what plain C gives,
 * and emulator and Hexagon binary agree bit for bit.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/f16.h"
#include "bench.h"
#include "npu/dsp/kernels.h"
#include "npu/host/pack.h"
#include "npu/sim/tile.h"
#include "quant/quant.h"

enum { BOTH = NPU_FROM_HOST | NPU_TO_HOST, MEMORY_BYTES = 8 << 20 };

static const uint32_t types[] = {QUANT_Q4_K, QUANT_Q5_K, QUANT_Q6_K, QUANT_Q2_K, QUANT_Q3_K};
enum { N_TYPES = 5, N_INTEGER = 3 };

static uint64_t seed = 31;

static uint64_t next(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static float *floats(uint32_t n, float scale)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (uint32_t i = 0; i < n; i++) x[i] = (float)(int64_t)next() * 0x1p-63f * scale;
    return x;
}

/* Random rows [n][k] in a GGUF type, with its row size. */
static uint8_t *rows_of(uint32_t type, uint32_t k, uint32_t n, size_t *row_bytes)
{
    float *x = floats(k * n, 0.1f);
    assert_int_equal(quant_row_bytes(type, k, row_bytes), 0);
    uint8_t *rows = malloc(*row_bytes * n);
    for (uint32_t r = 0; r < n; r++) quant_info_of(type)->quantize(x + r * k, rows + r * *row_bytes, k);
    free(x);
    return rows;
}

static void layout_of(uint32_t type, uint32_t k, uint32_t n, struct npu_weights *w)
{
    uint32_t kind;
    assert_int_equal(npu_pack_kind(type, &kind, NULL), 0);
    assert_int_equal(npu_weights_layout(kind, k, n, w), 0);
}

static float half_at(const uint8_t *p, uint32_t offset)
{
    uint16_t h;
    memcpy(&h, p + offset, 2);
    return f16_to_f32(h);
}

struct part {
    int code, scale, minimum;
    float d, dmin;
};

static struct part part_of(const struct npu_weights *w, const uint8_t *p, uint32_t k, uint32_t n)
{
    uint32_t shift, code = npu_code_offset(w, k, n, &shift), scale = npu_scale_offset(w, k, n);
    uint32_t super = npu_super_offset(w, k, n);
    struct part v = {.d = half_at(p, super), .dmin = half_at(p, super + 2)};
    if (w->kind == NPU_W_Q2_K) {
        v.code = p[code] >> shift & 3, v.scale = p[scale] & 15, v.minimum = p[scale] >> 4;
        return v;
    }
    if (w->kind == NPU_W_Q3_K) {
        v.code = (p[code] >> shift & 15) - 8, v.scale = (int8_t)p[scale];
        return v;
    }
    v.code = w->kind == NPU_W_Q4_K ? p[code] >> shift & 15 : p[code] - (w->kind == NPU_W_Q6_K ? 32 : 0);
    v.scale = w->kind == NPU_W_Q6_K ? (int8_t)p[scale] : p[scale];
    v.minimum = w->kind == NPU_W_Q6_K ? 0 : p[scale + 256];
    return v;
}

static bool has_minima(const struct npu_weights *w)
{
    return w->kind != NPU_W_Q6_K && w->kind != NPU_W_Q3_K;
}

static void packing_loses_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < N_TYPES; i++) {
        struct npu_weights w;
        uint32_t k = 768, n = 45;
        size_t row_bytes;
        uint8_t *rows = rows_of(types[i], k, n, &row_bytes);
        layout_of(types[i], k, n, &w);
        uint8_t *packed = malloc((size_t)w.n_blocks * w.block_bytes);
        float *back = malloc(k * sizeof *back);
        npu_pack_tile32(&w, types[i], rows, row_bytes, packed, 0, 1);
        npu_pack_tile32(&w, types[i], rows, row_bytes, packed, 1, w.n_blocks);
        for (uint32_t r = 0; r < n; r++) {
            quant_info_of(types[i])->dequantize(rows + r * row_bytes, back, k);
            for (uint32_t j = 0; j < k; j++) {
                struct part v = part_of(&w, packed, j, r);
                float x = v.d * (float)v.scale * (float)v.code;
                if (has_minima(&w)) x -= v.dmin * (float)v.minimum;
                assert_true(f32_bits(x) == f32_bits(back[j]));
            }
        }
        free(rows), free(packed), free(back);
    }
}

static void places_are_apart(void **state)
{
    (void)state;
    for (uint32_t kind = NPU_W_SUPER8; kind < NPU_W_END; kind++) {
        struct npu_weights w;
        assert_int_equal(npu_weights_layout(kind, 512, 70, &w), 0);
        assert_int_equal(w.unit_bytes % 128, 0);
        uint8_t *used = calloc(w.n_blocks * w.block_bytes, 1);
        for (uint32_t n = 0; n < w.n_blocks * NPU_COLS; n++)
            for (uint32_t k = 0; k < w.k; k++) {
                uint32_t shift, at = npu_code_offset(&w, k, n, &shift);
                uint8_t mask = (uint8_t)(((1u << npu_weights_bits(kind)) - 1) << shift);
                assert_int_equal(used[at] & mask, 0);
                used[at] |= mask;
            }
        for (uint32_t i = 0; i < w.n_blocks * w.block_bytes; i++)
            assert_int_equal(used[i], i % w.unit_bytes < w.code_bytes ? 0xff : 0);
        free(used);
    }
}

static float half(float x)
{
    return f16_to_f32(f32_to_f16(x));
}

/* The half that dequantization must give: scale, minimum, product and sum each rounded to half. */
static float tile_value(const struct npu_weights *w, const uint8_t *p, uint32_t k, uint32_t n)
{
    if (w->kind == NPU_W_SUPER8) {
        uint32_t shift, at = npu_code_offset(w, k, n, &shift);
        return half((float)(p[at] - 128) * half_at(p, npu_scale_offset(w, k, n)));
    }
    struct part v = part_of(w, p, k, n);
    float x = half((float)v.code * half(v.d * (float)v.scale));
    float got = !has_minima(w) ? x : half(x + half(-v.dmin * (float)v.minimum));
    double exact = (double)v.d * v.scale * v.code - (double)v.dmin * v.minimum;
    double size = fabs((double)v.d * v.scale * v.code) + fabs((double)v.dmin * v.minimum);
    assert_true(fabs(got - exact) <= 3 * 0x1p-11 * size + 0x1p-22);
    return got;
}

static uint32_t put_packed(struct bench *b, const struct npu_weights *w, uint32_t type)
{
    uint32_t at, bytes = w->n_blocks * w->block_bytes;
    uint8_t *packed = malloc(bytes);
    if (w->kind == NPU_W_SUPER8) {
        float *x = floats(w->k * w->n, 0.1f);
        npu_pack_supergroup(w, x, w->k, packed, 0, w->n_blocks);
        for (uint32_t n = 0; n < w->n; n++)
            for (uint32_t k = 0; k < w->k; k++)
                assert_true(fabsf(tile_value(w, packed, k, n) - x[n * w->k + k]) <= 0.1f / 127 * 0.51f + 0x1p-14f);
        free(x);
    } else {
        size_t row_bytes;
        uint8_t *rows = rows_of(type, w->k, w->n, &row_bytes);
        npu_pack_tile32(w, type, rows, row_bytes, packed, 0, w->n_blocks);
        free(rows);
    }
    at = bench_put(b, packed, bytes);
    free(packed);
    return at;
}

static void dequantization_rounds_as_written(void **state)
{
    (void)state;
    for (uint32_t i = 0; i <= N_TYPES; i++) {
        struct bench b;
        struct npu_weights w;
        uint32_t k = 512, n = 70;
        bench_open(&b, MEMORY_BYTES);
        if (i < N_TYPES)
            layout_of(types[i], k, n, &w);
        else
            assert_int_equal(npu_weights_layout(NPU_W_SUPER8, k, n, &w), 0);
        uint32_t stride = k * 64, bytes = w.n_blocks * stride;
        uint32_t at = put_packed(&b, &w, types[i % N_TYPES]), dst = bench_put(&b, NULL, bytes);
        struct npu_op op = {NPU_OP_DEQUANT, BOTH, .kind = w.kind, .k = k, .n = n, .weights = at, .dst = dst};
        op.dst_stride = stride;
        bench_run(&b, &op, dst, bytes);
        const uint8_t *packed = npu_sim_host(b.sim, at), *tiles = npu_sim_host(b.sim, dst);
        for (uint32_t c = 0; c < n; c++)
            for (uint32_t j = 0; j < k; j++) {
                float h = half_at(tiles, c / 32 * stride + j / 32 * 2048 + npu_tile_offset(j % 32, c % 32));
                assert_true(h == tile_value(&w, packed, j, c));
            }
        bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(packing_loses_nothing), cmocka_unit_test(places_are_apart),
        cmocka_unit_test(dequantization_rounds_as_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
