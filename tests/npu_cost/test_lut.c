/* SPDX-License-Identifier: MIT
 *
 * Bit planes and table lookup (bench/npu/bitplane.h, lut.c) and the integer product beside it (fields.c): the layout
 * against its words, tables and products against plain C, bit for bit, in the emulator and as Hexagon binaries.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ablation.h"
#include "base/f16.h"
#include "bench.h"
#include "bitplane.h"

enum { N = 300, K_MAX = 640 };

static uint64_t seed = 5;

static uint32_t next(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}

static struct bitplane w;
static uint8_t code[N * K_MAX];
static uint16_t scale[N * K_MAX / 32], least[N * K_MAX / 32];
static float x[K_MAX];

static void draw(uint32_t bits, uint32_t group, uint32_t minima, uint32_t k)
{
    assert_int_equal(bitplane_layout(BITPLANE_KIND(bits, group, minima), k, N, &w), 0);
    for (uint32_t i = 0; i < N * k; i++) code[i] = (uint8_t)(next() % (1u << bits));
    for (uint32_t i = 0; i < N * k / group; i++) {
        scale[i] = (uint16_t)(0x2c00 + next() % 2048 + (next() & 0x8000)); /* 2^-4 .. 2^-2, either sign */
        least[i] = (uint16_t)(0x2c00 + next() % 2048 + (next() & 0x8000));
    }
    for (uint32_t i = 0; i < k; i++) x[i] = (float)(int32_t)next() * 0x1p-30f * (next() % 50 ? 1 : 20);
}

/* The layout's words, read from the front: every bit of every vector, once. */
static void bits_are_in_their_places(void **state)
{
    (void)state;
    draw(3, 64, 1, 320);
    uint8_t *packed = malloc(w.bytes), *p = packed;
    bitplane_pack(&w, packed, code, scale, least);
    for (uint32_t tile = 0; tile < 3; tile++)
        for (uint32_t block = 0; block < 3; block++)
            for (uint32_t group = 0; group < 2; group++) {
                for (int plane = 2; plane >= 0; plane--)
                    for (uint32_t j = 0; j < 8; j++, p += 128)
                        for (uint32_t b = 0; b < 128 * 8; b++) {
                            uint32_t byte = b / 8, n = 128 * block + byte / 4 + 32 * (byte >> 1 & 1) + 64 * (byte & 1);
                            uint32_t k = 128 * tile + 64 * group + 8 * j + b % 8;
                            int want = n < N && k < 320 ? code[n * 320 + k] >> plane & 1 : 0;
                            assert_int_equal(p[byte] >> b % 8 & 1, want);
                        }
                for (uint32_t what = 0; what < 2; what++)
                    for (uint32_t i = 0; i < 128; i++, p += 2) {
                        uint32_t n = 128 * block + 64 * (i / 64) + i % 64 / 2 + 32 * (i % 2), g = tile * 2 + group;
                        uint16_t got, want = 0;
                        memcpy(&got, p, 2);
                        if (n < N && g < 5) want = (what ? least : scale)[n * 5 + g];
                        assert_int_equal(got, want);
                    }
            }
    assert_int_equal(p - packed, w.bytes);
    free(packed);
}

static void impossible_shapes_are_refused(void **state)
{
    (void)state;
    static const uint32_t bad[][3] = {{BITPLANE_KIND(0, 32, 0), 256, 1}, {BITPLANE_KIND(5, 32, 0), 256, 1},
        {BITPLANE_KIND(1, 16, 0), 256, 1}, {BITPLANE_KIND(1, 32, 2), 256, 1}, {BITPLANE_KIND(1, 128, 0), 192, 1},
        {BITPLANE_KIND(1, 32, 0), 0, 1}, {BITPLANE_KIND(1, 32, 0), 256, 0},
        {BITPLANE_KIND(4, 32, 1), 1 << 20, 1 << 14}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(bitplane_layout(bad[i][0], bad[i][1], bad[i][2], &w), -1);
}

static float f32_at(const uint8_t *p)
{
    float f;
    memcpy(&f, p, 4);
    return f;
}

/* Entry e of the table of inputs 4 t .. 4 t + 3. */
static int32_t entry(const uint8_t *lut, uint32_t t, uint32_t e)
{
    int16_t h;
    memcpy(&h, lut + t / 4 * 128 + 2 * (2 * (e + 16 * (t & 1)) + (t >> 1 & 1)), 2);
    return h;
}

/* Inputs as integers, out of the tables; all 16 sums, the side's words and the rounding are checked. */
static void check_tables(const uint8_t *lut, uint32_t k, int32_t *q)
{
    for (uint32_t tile = 0; tile < w.n_tiles; tile++) {
        const uint8_t *side = lut + lut_side(w.n_tiles) + 128 * tile;
        float d = f32_at(side + 28), most = 0;
        int32_t sum[7] = {0};
        for (uint32_t i = 0; i < 128; i++) {
            uint32_t at = 128 * tile + i;
            float there = at < k ? x[at] : 0;
            most = fabsf(there) > most ? fabsf(there) : most;
            q[at] = entry(lut, at / 4, 1u << at % 4);
            assert_true(fabs(q[at] * (double)d - there) <= d * 0.502);
            sum[i / 32] += q[at], sum[4 + i / 64] += q[at], sum[6] += q[at];
        }
        assert_true(fabs(d * 8191.0 - most) <= most * 1e-6);
        for (uint32_t i = 0; i < 7; i++) assert_true(f32_at(side + 4 * i) == (float)sum[i]);
        for (uint32_t t = 32 * tile; t < 32 * tile + 32; t++)
            for (uint32_t e = 0; e < 16; e++) {
                int32_t want = 0;
                for (uint32_t i = 0; i < 4; i++) want += e >> i & 1 ? q[4 * t + i] : 0;
                assert_int_equal(entry(lut, t, e), want);
            }
    }
}

static float product(const uint8_t *lut, const int32_t *q, uint32_t k, uint32_t n)
{
    float y = 0;
    for (uint32_t first = 0; first < k; first += w.group) {
        float s = f32_at(lut + lut_side(w.n_tiles) + first / 128 * 128 + 28);
        int32_t i = 0, inputs = 0;
        uint32_t at = n * (k / w.group) + first / w.group;
        for (uint32_t j = first; j < first + w.group; j++) i += code[n * k + j] * q[j], inputs += q[j];
        volatile float p = (float)i * s, m = (float)inputs * s; /* volatile: nothing is fused */
        p *= f16_to_f32(scale[at]), m *= f16_to_f32(least[at]);
        if (w.minima) p += m;
        y += p;
    }
    return y;
}

/* The product by tables of the weights, against plain C and against the same weights and inputs in f64. */
static void run(struct bench *b, uint32_t k)
{
    static int32_t q[K_MAX + 128];
    static uint8_t packed[1 << 20];
    uint32_t src = bench_put(b, x, 4 * k), lut = bench_put(b, NULL, lut_bytes(w.n_tiles));
    uint32_t y = bench_put(b, NULL, 512 * w.n_blocks);
    assert_true(w.bytes <= sizeof packed);
    bitplane_pack(&w, packed, code, scale, least);
    struct npu_op op = {.code = ABLATION_LUT_TABLES, .flags = NPU_FROM_HOST | NPU_TO_HOST, .m = 1, .k = k, .src = src};
    op.dst = lut;
    bench_run(b, &op, lut, lut_bytes(w.n_tiles));
    const uint8_t *tables = npu_sim_host(b->sim, lut);
    check_tables(tables, k, q);
    op = (struct npu_op){.code = ABLATION_LUT_GEMV, .flags = NPU_FROM_HOST | NPU_TO_HOST, .m = 1, .k = k, .n = N};
    op.kind = BITPLANE_KIND(w.bits, w.group, w.minima);
    op.src = lut, op.dst = y, op.weights = bench_put(b, packed, w.bytes);
    bench_run(b, &op, y, 512 * w.n_blocks);
    for (uint32_t n = 0; n < N; n++) {
        float want = product(tables, q, k, n), got = f32_at((const uint8_t *)npu_sim_host(b->sim, y) + 4 * n);
        if (memcmp(&want, &got, 4))
            fail_msg("%u bits, group %u, minima %u, k %u, output %u: %.9g, wanted %.9g", w.bits, w.group, w.minima, k,
                n, (double)got, (double)want);
    }
}

static void products_are_exact(void **state)
{
    (void)state;
    static const uint32_t groups[] = {32, 64, 128};
    struct bench b;
    bench_open(&b, 16 << 20);
    for (uint32_t bits = 1; bits <= 4; bits++)
        for (uint32_t g = 0; g < 3; g++) {
            uint32_t k = bits == 1 ? 128 : 512 + groups[g];
            draw(bits, groups[g], (bits + g) % 2, k);
            run(&b, k);
        }
    bench_close(&b);
}

/* The integer product that lookup is compared with (fields.c), against plain C. */
static const uint32_t place[4] = {0, 2, 1, 3}; /* of four codes in a word */

static void pack_fields(uint8_t *p, uint32_t k_all, uint32_t n_all)
{
    const uint32_t per_vector = 32 / w.bits, groups = k_all / w.group;
    memset(p, 0, (size_t)n_all * groups * w.group_bytes / 128);
    for (uint32_t n = 0; n < n_all; n++)
        for (uint32_t k = 0; k < k_all; k++) {
            uint8_t *at = p + (n / 64 * groups + k / w.group) * (w.group_bytes / 2);
            uint32_t i = k % w.group, vector = i / per_vector * 2 + n / 32 % 2, g = n * groups + k / w.group;
            at[128 * vector + 4 * (n % 32) + place[k % 4]] |=
                (uint8_t)(code[n * k_all + k] << w.bits * (i % per_vector / 4));
            memcpy(at + w.code_bytes / 2 + 2 * (n % 32 * 2 + n / 32 % 2), scale + g, 2);
            if (w.minima) memcpy(at + w.code_bytes / 2 + 128 + 2 * (n % 32 * 2 + n / 32 % 2), least + g, 2);
        }
}

static float product_of_fields(const uint8_t *act8, const struct npu_act8 *a, uint32_t k, uint32_t n)
{
    float y = 0;
    for (uint32_t first = 0; first < k; first += w.group) {
        float s = f32_at(act8 + a->scales + first / 256 * 4);
        int32_t i = 0, inputs = 0;
        uint32_t at = n * (k / w.group) + first / w.group;
        for (uint32_t j = first; j < first + w.group; j++) {
            int32_t q = (int8_t)act8[j / 4 * 4 + place[j % 4]];
            i += code[n * k + j] * q, inputs += q;
        }
        volatile float p = (float)i * s, m = (float)inputs * s;
        p *= f16_to_f32(scale[at]), m *= f16_to_f32(least[at]);
        y += p;
        if (w.minima) y += m;
    }
    return y;
}

static void fields_are_exact(void **state)
{
    (void)state;
    static const uint32_t kinds[][3] = {{1, 128, 0}, {2, 128, 0}, {2, 64, 1}, {4, 128, 1}};
    enum { OUTPUTS = 256, K = 640 };
    static uint8_t packed[1 << 18];
    struct bench b;
    struct npu_act8 a;
    bench_open(&b, 16 << 20);
    npu_act8_layout(K, &a);
    for (int i = 0; i < 4; i++) {
        draw(kinds[i][0], kinds[i][1], kinds[i][2], K);
        pack_fields(packed, K, OUTPUTS);
        uint32_t act8 = bench_put(&b, NULL, a.bytes), y = bench_put(&b, NULL, 4 * OUTPUTS);
        struct npu_op op = {.code = NPU_OP_QUANTIZE, .flags = NPU_FROM_HOST | NPU_TO_HOST, .m = 1, .k = K, .dst = act8};
        op.src = bench_put(&b, x, 4 * K);
        bench_run(&b, &op, act8, a.bytes);
        op.code = ABLATION_FIELDS, op.n = OUTPUTS, op.src = act8, op.dst = y;
        op.kind = BITPLANE_KIND(kinds[i][0], kinds[i][1], kinds[i][2]);
        op.weights = bench_put(&b, packed, OUTPUTS * (K / w.group) * (w.group_bytes / 128));
        bench_run(&b, &op, y, 4 * OUTPUTS);
        for (uint32_t n = 0; n < OUTPUTS; n++) {
            float want = product_of_fields(npu_sim_host(b.sim, act8), &a, K, n);
            float got = f32_at((const uint8_t *)npu_sim_host(b.sim, y) + 4 * n);
            if (memcmp(&want, &got, 4))
                fail_msg("%u bits, output %u: %.9g, wanted %.9g", w.bits, n, (double)got, (double)want);
        }
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_in_their_places),
        cmocka_unit_test(impossible_shapes_are_refused), cmocka_unit_test(products_are_exact),
        cmocka_unit_test(fields_are_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
