/* SPDX-License-Identifier: MIT
 *
 * Bit planes and table lookup (npu/wire/planes.h, npu/dsp/lookup.c), and beside it the product by masks (fields.c,
 * act8.c) and lookup in tables of bytes (vlut32.c): the layout against its words, tables and products against plain C,
 * bit for bit, in the emulator and as Hexagon binaries.
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
#include "npu/wire/planes.h"

enum { N_MAX = 900, K_MAX = 640, ELEMENTS = 300 * K_MAX };

static uint64_t seed = 5;

static uint32_t next(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}

static struct npu_weights w;
static uint32_t bits, group, form; /* of its kind */
static uint32_t n_in;              /* its k before it was rounded up */
static uint8_t code[ELEMENTS], packed[1 << 20];
static uint16_t scale[ELEMENTS / 32], least[ELEMENTS / 32]; /* least: minima or zeros */
static float x[K_MAX];

static void draw(uint32_t kind, uint32_t k, uint32_t n)
{
    assert_int_equal(npu_weights_layout(kind, k, n, &w), 0);
    assert_true(n <= N_MAX && k <= K_MAX && n * k <= ELEMENTS && w.bytes <= sizeof packed);
    bits = npu_planes_bits(kind), group = npu_planes_group(kind), form = npu_planes_form(kind), n_in = k;
    for (uint32_t i = 0; i < n * k; i++) code[i] = (uint8_t)(next() % (form == NPU_PLANES_TERNARY ? 3 : 1u << bits));
    for (uint32_t i = 0; i < n * k / group; i++) {
        scale[i] = (uint16_t)(0x2c00 + next() % 2048 + (next() & 0x8000)); /* 2^-4 .. 2^-2, either sign */
        if (form == NPU_PLANES_TERNARY) scale[i] &= 0x7fff;
        least[i] = (uint16_t)(0x2c00 + next() % 2048 + (next() & 0x8000));
        if (form == NPU_PLANES_ZEROS) least[i] &= (uint16_t)((1u << bits) - 1);
    }
    for (uint32_t i = 0; i < k; i++) x[i] = (float)(int32_t)next() * 0x1p-30f * (next() % 50 ? 1 : 20);
}

static void pack(void)
{
    memset(packed, 0, w.bytes);
    for (uint32_t n = 0; n < w.n; n++)
        for (uint32_t k = 0; k < n_in; k++) {
            uint32_t q = code[n * n_in + k], g = n * (n_in / group) + k / group, bit;
            for (uint32_t p = 0; p < bits; p++) {
                uint32_t at = npu_planes_bit(&w, p, k, n, &bit);
                packed[at] |= (uint8_t)((q >> p & 1) << bit);
            }
            memcpy(packed + npu_planes_scale(&w, k, n), scale + g, 2);
            if (npu_planes_offset(w.kind)) memcpy(packed + npu_planes_scale(&w, k, n) + 256, least + g, 2);
        }
}

/* The layout's words, read from the front: every bit of every vector, once. */
static void bits_are_in_their_places(void **state)
{
    (void)state;
    const uint32_t n_all = 900, k_all = 160, groups = k_all / 32; /* two panels of 4 blocks */
    const uint8_t *p = packed;
    draw(npu_planes_tiled(NPU_PLANES(4, 32, NPU_PLANES_MINIMA), 4, 6), k_all, n_all);
    assert_int_equal(w.panel, 4);
    pack();
    for (uint32_t unit = 0; unit < 16; unit++)
        for (uint32_t group_in = 0; group_in < 4; group_in++) {
            uint32_t tile = unit / 4 % 2, block = unit / 8 * 4 + unit % 4, first = 128 * tile + 32 * group_in;
            for (int plane = 3; plane >= 0; plane--)
                for (uint32_t j = 0; j < 4; j++, p += 128)
                    for (uint32_t b = 0; b < 128 * 8; b++) {
                        uint32_t byte = b / 8, n = 128 * block + byte / 4 + 32 * (byte >> 1 & 1) + 64 * (byte & 1);
                        uint32_t k = first + 8 * j + b % 4 * 2 + (b % 8 > 3);
                        int want = n < n_all && k < k_all ? code[n * k_all + k] >> plane & 1 : 0;
                        assert_int_equal(p[byte] >> b % 8 & 1, want);
                    }
            for (uint32_t what = 0; what < 2; what++)
                for (uint32_t i = 0; i < 128; i++, p += 2) {
                    uint32_t n = 128 * block + 64 * (i / 64) + i % 64 / 2 + 32 * (i % 2);
                    uint16_t got, want = 0;
                    memcpy(&got, p, 2);
                    if (n < n_all && first < k_all) want = (what ? least : scale)[n * groups + first / 32];
                    assert_int_equal(got, want);
                }
        }
    assert_int_equal(p - packed, w.bytes);
}

static void impossible_shapes_are_refused(void **state)
{
    (void)state;
    static const uint32_t bad[][3] = {{NPU_PLANES(0, 32, 0), 256, 1}, {NPU_PLANES(5, 32, 0), 256, 1},
        {NPU_PLANES(1, 16, 0), 256, 1}, {NPU_PLANES(1, 32, NPU_PLANES_TERNARY), 256, 1},
        {NPU_PLANES(1, 32, NPU_PLANES_ZEROS), 256, 1}, {NPU_PLANES(1, 32, 0), 0, 1}, {NPU_PLANES(1, 32, 0), 256, 0},
        {NPU_PLANES(4, 32, 1), 1 << 20, 1 << 14}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(npu_weights_layout(bad[i][0], bad[i][1], bad[i][2], &w), -1);
}

/* What a code stands for, without its scale; zero: its group's. */
static int32_t meaning(uint32_t q, int32_t zero)
{
    if (form == NPU_PLANES_ZEROS) return (int32_t)q - zero;
    if (form == NPU_PLANES_MINIMA) return (int32_t)q;
    return bits == 1 ? 2 * (int32_t)q - 1 : (int32_t)q - (int32_t)npu_planes_centre(bits);
}

static float f32_at(const uint8_t *p)
{
    float f;
    memcpy(&f, p, 4);
    return f;
}

/* Entry e of table t, that of inputs 8 (t / 2) + (t & 1) + 0, 2, 4, 6. */
static int32_t entry(const uint8_t *lut, uint32_t t, uint32_t e)
{
    int16_t h;
    memcpy(&h, lut + t / 4 * 128 + 2 * (2 * (e + 16 * (t & 1)) + (t >> 1 & 1)), 2);
    return h;
}

/* Inputs as integers, out of the tables; all 16 sums, the side's words and the rounding are checked. */
static void check_tables(const uint8_t *lut, const float *row, uint32_t k, int32_t *q)
{
    for (uint32_t tile = 0; tile < w.n_units; tile++) {
        const uint8_t *side = lut + npu_lut_side(w.n_units) + 128 * tile;
        float d = f32_at(side + 28), most = 0;
        int32_t sum[7] = {0};
        for (uint32_t i = 0; i < 128; i++) {
            uint32_t at = 128 * tile + i;
            float there = at < k ? row[at] : 0;
            most = fabsf(there) > most ? fabsf(there) : most;
            q[at] = entry(lut, at / 8 * 2 + at % 2, 1u << at % 8 / 2);
            assert_true(fabs(q[at] * (double)d - there) <= d * 0.502);
            sum[i / 32] += q[at], sum[4 + i / 64] += q[at], sum[6] += q[at];
        }
        assert_true(fabs(d * 8191.0 - most) <= most * 1e-6);
        assert_memory_equal(side, sum, sizeof sum);
        for (uint32_t t = 32 * tile; t < 32 * tile + 32; t++)
            for (uint32_t e = 0; e < 16; e++) {
                int32_t want = 0;
                for (uint32_t i = 0; i < 4; i++) want += e >> i & 1 ? q[t / 2 * 8 + t % 2 + 2 * i] : 0;
                assert_int_equal(entry(lut, t, e), want);
            }
    }
}

static float product(const uint8_t *lut, const int32_t *q, uint32_t n)
{
    float y = 0;
    for (uint32_t first = 0; first < n_in; first += group) {
        float s = f32_at(lut + npu_lut_side(w.n_units) + first / 128 * 128 + 28);
        int32_t i = 0, inputs = 0;
        uint32_t at = n * (n_in / group) + first / group;
        for (uint32_t j = first; j < first + group; j++)
            i += meaning(code[n * n_in + j], least[at]) * q[j], inputs += q[j];
        volatile float p = (float)i * s, m = (float)inputs * s; /* volatile: nothing is fused */
        p *= f16_to_f32(scale[at]), m *= f16_to_f32(least[at]);
        if (form == NPU_PLANES_MINIMA) p += m;
        y += p;
    }
    return y;
}

/* Rows times weights, against plain C: row r is x times r + 1, its tables stand in TCM for both products. */
static void run(struct bench *b, uint32_t m)
{
    static int32_t q[K_MAX + 128];
    static float rows[NPU_LOOKUP_ROWS * K_MAX], bias[N_MAX];
    const uint32_t k = n_in, lut_bytes = npu_lut_bytes(w.n_units), stride = 128 * w.n_blocks;
    struct npu_lookup_plan plan;
    for (uint32_t i = 0; i < m * k; i++) rows[i] = x[i % k] * (float)(i / k + 1);
    for (uint32_t i = 0; i < w.n; i++) bias[i] = (float)i;
    uint32_t src = bench_put(b, rows, 4 * m * k), y = bench_put(b, NULL, m * stride), at = b->machine.tcm_start;
    pack();
    assert_int_equal(npu_lookup_plan(&w, m, &b->machine, &plan), 0);
    at += plan.tables;
    struct npu_op op = {.code = NPU_OP_TABLES, .flags = NPU_FROM_HOST | NPU_TO_HOST, .m = m, .k = k, .src = src};
    op.src_stride = 4 * k;
    bench_run(b, &op, src, 4); /* what it makes is read by what follows */
    op = (struct npu_op){.code = NPU_OP_LOOKUP, .flags = NPU_FROM_HOST | NPU_TO_HOST, .m = m, .k = k, .n = w.n};
    op.kind = w.kind, op.dst = y, op.dst_stride = stride, op.weights = bench_put(b, packed, w.bytes);
    for (int biased = 0; biased < 2; biased++) {
        if (biased) op.bias = bench_put(b, bias, 4 * N_MAX);
        bench_run(b, &op, y, m * stride);
        for (uint32_t r = 0; r < m; r++) {
            const uint8_t *tables = (const uint8_t *)npu_sim_host(b->sim, at) + r * lut_bytes;
            check_tables(tables, rows + r * k, k, q);
            for (uint32_t n = 0; n < w.n; n++) {
                float want = product(tables, q, n), got;
                if (biased) want += bias[n];
                memcpy(&got, (const uint8_t *)npu_sim_host(b->sim, y) + r * stride + 4 * n, 4);
                if (memcmp(&want, &got, 4))
                    fail_msg("%u bits, group %u, form %u, k %u, row %u, output %u: %.9g, wanted %.9g", bits, group,
                        form, k, r, n, (double)got, (double)want);
            }
        }
    }
}

static void products_are_exact(void **state)
{
    (void)state;
    static const uint32_t groups[] = {32, 64, 128};
    struct bench b;
    bench_open(&b, 16 << 20);
    for (uint32_t i = 1; i <= 4; i++)
        for (uint32_t g = 0; g < 3; g++) {
            draw(NPU_PLANES(i, groups[g], (i + g) % 2), i == 1 ? 128 : 512 + groups[g] % 128, 300);
            run(&b, 1);
            if (i == 1) continue;
            draw(NPU_PLANES(i, groups[g], NPU_PLANES_ZEROS), 512 + groups[g] % 128, 300), run(&b, 1 + i % 2);
            /* The largest integers: inputs and codes alike, zeros at the other end. */
            for (uint32_t end = 0; end < 2; end++) {
                draw(NPU_PLANES(i, groups[g], NPU_PLANES_ZEROS), 128, 130);
                for (uint32_t j = 0; j < 128; j++) x[j] = -3;
                for (uint32_t j = 0; j < 128 * 130; j++) code[j] = (uint8_t)(end ? (1u << i) - 1 : 0);
                for (uint32_t j = 0; j < 128 * 130 / groups[g]; j++) least[j] = (uint16_t)(end ? 0 : (1u << i) - 1);
                run(&b, 1);
            }
        }
    draw(NPU_PLANES(4, 32, NPU_PLANES_MINIMA), 160, 900), run(&b, 3); /* two panels, which threads share across */
    draw(NPU_PLANES(2, 128, NPU_PLANES_TERNARY), 128, 130), run(&b, NPU_LOOKUP_ROWS);
    bench_close(&b);
}

/* Tables of bytes: an entry, 4 inputs of one nibble of vector v of a tile. */
static uint32_t entry8(const uint8_t *lut, uint32_t tile, uint32_t v, uint32_t high, uint32_t e)
{
    return lut[1024 * tile + v / 4 * 256 + 128 * high + 2 * (e + 32 * (v & 1)) + (v >> 1 & 1)];
}

static void check_bytes(const uint8_t *lut, const float *row, uint32_t k)
{
    for (uint32_t tile = 0; tile < w.n_units; tile++) {
        const uint8_t *side = lut + npu_lut_side(w.n_units) + 128 * tile;
        double most = 0, unit = f32_at(side + 28), sum[2][3] = {{0}, {0}};
        for (uint32_t t = 0; t < 32; t++) {
            double in[4], low = 0, size = 0;
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t at = 128 * tile + t / 2 * 8 + t % 2 + 2 * i;
                in[i] = at < k ? row[at] : 0, size += fabs(in[i]), low += in[i] < 0 ? in[i] : 0;
                for (uint32_t j = t / 16; j < 3; j += 2 - t / 16)
                    sum[0][j] += in[i], sum[1][j] += in[i] < 0 ? in[i] : 0;
            }
            most = size > most ? size : most;
            for (uint32_t e = 0; e < 32; e++) {
                double want = -low;
                for (uint32_t i = 0; i < 4; i++) want += e >> i & 1 ? in[i] : 0;
                assert_true(fabs(entry8(lut, tile, t / 2, t % 2, e) * unit - want) <= 0.54 * unit);
            }
        }
        assert_true(fabs(unit * 255 - most) <= most * 1e-6);
        for (uint32_t i = 0; i < 6; i++) {
            int32_t got;
            memcpy(&got, side + 16 * (i / 3) + 4 * (i % 3), 4);
            assert_true(fabs(got / 64.0 * unit - sum[i / 3][i % 3]) <= 1.1 * unit);
        }
    }
}

static float half(float v)
{
    return f16_to_f32(f32_to_f16(v));
}

/* What vlut32.c computes of output n, out of its tables; *exact: without them. */
static float product8(const uint8_t *lut, const float *row, uint32_t n, double *exact)
{
    const uint32_t each = bits > 3 ? 64 : group, most = (1u << bits) - 1, minima = form == NPU_PLANES_MINIMA;
    const int32_t centre = bits == 1 ? 1 : bits == 2 && minima ? 0 : 2 * (int32_t)npu_planes_centre(bits);
    volatile float y = 0;
    *exact = 0;
    for (uint32_t tile = 0; tile < w.n_units; tile++) {
        const uint8_t *side = lut + npu_lut_side(w.n_units) + 128 * tile;
        const float unit = f32_at(side + 28) * (bits == 1 ? 2 : 1);
        volatile float z = 0, p;
        for (uint32_t first = 0; first < 128; first += each) {
            int32_t words[8], sum = 0, at = (int32_t)(each == 128 ? 2 : first / 64);
            uint32_t k = 128 * tile + first, there = k < n_in, g = n * (n_in / group) + k / group;
            memcpy(words, side, 32);
            for (uint32_t v = first / 8; there && v < (first + each) / 8; v++)
                for (uint32_t high = 0; high < 2; high++)
                    for (uint32_t plane = 0; plane < bits; plane++) {
                        uint32_t e = 0;
                        const uint8_t *c = code + n * n_in + 128 * tile + 8 * v + high;
                        for (uint32_t i = 0; i < 4; i++) e |= (uint32_t)(c[2 * i] >> plane & 1) << i;
                        sum += (int32_t)(entry8(lut, tile, v, high, e) << plane);
                    }
            sum += (2 * (int32_t)most * words[4 + at] - centre * words[at] + 64) >> 7;
            if (there) assert_in_range(sum + 32768, 0, 65535); /* fits 16 bits */
            float q = half((float)sum);
            if (minima && bits > 2) q = half(q + half((float)((centre * words[at] + 64) >> 7)));
            p = there ? q * f16_to_f32(scale[g]) : 0;
            z = first ? z + p : p;
            p = there ? half((float)((words[at] + 32) >> 6)) * f16_to_f32(least[g]) : 0;
            if (minima) z += p;
            for (uint32_t j = k; there && j < k + each; j++)
                *exact += (double)row[j] *
                          (meaning(code[n * n_in + j], 0) * f16_to_f32(scale[g]) + (minima ? f16_to_f32(least[g]) : 0));
        }
        p = z * unit;
        y += p;
    }
    return y;
}

/* As run(), by vlut32.c; its error is the RMS of all outputs, over the exact products'. */
static void run_bytes(struct bench *b, uint32_t m, double limit)
{
    static float rows[NPU_LOOKUP_ROWS * K_MAX], bias[N_MAX];
    const uint32_t k = n_in, stride = 128 * w.n_blocks;
    struct npu_lookup_plan plan;
    double error = 0, size = 0;
    for (uint32_t i = 0; i < m * k; i++) rows[i] = x[i % k] * (float)(i / k + 1);
    for (uint32_t i = 0; i < w.n; i++) bias[i] = (float)i;
    uint32_t src = bench_put(b, rows, 4 * m * k), y = bench_put(b, NULL, m * stride);
    pack();
    assert_int_equal(npu_lookup_plan(&w, m, &b->machine, &plan), 0);
    struct npu_op op = {.code = ABLATION_VLUT32_TABLES, .flags = NPU_FROM_HOST, .m = m, .k = k, .src = src};
    op.src_stride = 4 * k;
    bench_run(b, &op, src, 4);
    op = (struct npu_op){
        .code = ABLATION_VLUT32, .flags = NPU_FROM_HOST | NPU_TO_HOST, .m = m, .k = k, .n = w.n, .kind = w.kind};
    op.dst = y, op.dst_stride = stride, op.weights = bench_put(b, packed, w.bytes);
    for (int biased = 0; biased < 2; biased++) {
        if (biased) op.bias = bench_put(b, bias, 4 * N_MAX);
        bench_run(b, &op, y, m * stride);
        for (uint32_t r = 0; r < m; r++) {
            const uint8_t *lut =
                npu_sim_host(b->sim, b->machine.tcm_start + plan.tables + r * npu_lut_bytes(w.n_units));
            check_bytes(lut, rows + r * k, k);
            for (uint32_t n = 0; n < w.n; n++) {
                double exact;
                float want = product8(lut, rows + r * k, n, &exact);
                float got = f32_at((const uint8_t *)npu_sim_host(b->sim, y) + r * stride + 4 * n);
                error += (want - exact) * (want - exact), size += exact * exact;
                if (biased) want += bias[n];
                if (memcmp(&want, &got, 4))
                    fail_msg("%u bits, group %u, form %u, k %u, row %u, output %u: %.9g, wanted %.9g", bits, group,
                        form, k, r, n, (double)got, (double)want);
            }
        }
    }
    if (limit > 0.01)
        print_message(
            "%u bits, group %u, form %u: tables of bytes are %.2g off\n", bits, group, form, sqrt(error / size));
    if (sqrt(error / size) > limit) fail_msg("%u bits, group %u: error %g", bits, group, sqrt(error / size));
}

static void bytes_are_exact(void **state)
{
    (void)state;
    static const uint32_t kinds[] = {NPU_PLANES(1, 128, NPU_PLANES_CENTRED), NPU_PLANES(2, 128, NPU_PLANES_TERNARY),
        NPU_PLANES(2, 64, NPU_PLANES_CENTRED), NPU_PLANES(2, 64, NPU_PLANES_MINIMA),
        NPU_PLANES(3, 128, NPU_PLANES_MINIMA), NPU_PLANES(4, 64, NPU_PLANES_MINIMA),
        NPU_PLANES(4, 128, NPU_PLANES_MINIMA)};
    struct bench b;
    bench_open(&b, 16 << 20);
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        draw(kinds[i], npu_planes_group(kinds[i]) == 64 ? 576 : 512, 300), run_bytes(&b, i % 3 + 1, 0.02);
        /* The ends of 16 bits: inputs alike, codes at either end. */
        for (int end = 0; end < 4; end++) {
            draw(kinds[i], 128, 130);
            for (uint32_t j = 0; j < 128; j++) x[j] = end & 1 ? -3 : 3;
            for (uint32_t j = 0; j < 128 * 130; j++)
                code[j] = (uint8_t)(end & 2 ? 0 : form == NPU_PLANES_TERNARY ? 2 : (1u << bits) - 1);
            run_bytes(&b, 1, 0.001);
        }
    }
    draw(NPU_PLANES(2, 64, NPU_PLANES_MINIMA), 640, 300), memset(x, 0, sizeof x), run_bytes(&b, 1, 0);
    struct npu_op op = {.code = ABLATION_VLUT32, .m = 1, .k = 128, .n = 64, .kind = NPU_PLANES(4, 32, 0)};
    assert_int_equal(npu_execute(npu_sim_isa(b.sim), &b.machine, &op), NPU_BAD_SHAPE);
    bench_close(&b);
}

/* Tables end with the next operation that may use TCM; a product of other rows than theirs is refused. */
static void tables_end(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 << 20);
    uint32_t at = bench_put(&b, NULL, 1 << 20);
    struct npu_op tables = {.code = NPU_OP_TABLES, .m = 2, .k = 128, .src = at, .src_stride = 512};
    struct npu_op lookup = {.code = NPU_OP_LOOKUP, .m = 2, .k = 128, .n = 64, .kind = NPU_PLANES(1, 128, 0), .dst = at};
    struct npu_op flush = {.code = NPU_OP_FLUSH, .src = at, .k = 128};
    struct npu_op other = {.code = NPU_OP_ADD, .m = 1, .n = 32, .src = at, .weights = at, .dst = at};
    lookup.weights = at + 65536, lookup.dst_stride = 256, tables.flags = NPU_FROM_HOST;
    struct isa *isa = npu_sim_isa(b.sim);
    assert_int_equal(npu_execute(isa, &b.machine, &lookup), NPU_NO_TABLES);
    assert_int_equal(npu_execute(isa, &b.machine, &tables), NPU_OK);
    uint32_t keeps = npu_tcm_keeps(&b.machine);
    assert_int_equal(keeps, 4096);
    npu_sim_end(b.sim, keeps);
    assert_int_equal(npu_execute(isa, &b.machine, &flush), NPU_OK);
    assert_int_equal(npu_execute(isa, &b.machine, &lookup), NPU_OK);
    lookup.m = 1;
    assert_int_equal(npu_execute(isa, &b.machine, &lookup), NPU_NO_TABLES);
    lookup.m = 2, lookup.k = 64;
    assert_int_equal(npu_execute(isa, &b.machine, &lookup), NPU_NO_TABLES);
    lookup.k = 128;
    size_t n_faults;
    npu_sim_faults(b.sim, &n_faults);
    if (n_faults) fail_msg("%s", npu_sim_fault_name(npu_sim_faults(b.sim, &n_faults)->kind));
    npu_sim_end(b.sim, 0); /* an executor that does not keep them */
    assert_int_equal(npu_execute(isa, &b.machine, &lookup), NPU_OK);
    assert_int_equal(npu_sim_faults(b.sim, &n_faults)->kind, NPU_SIM_UNINITIALIZED);
    assert_int_equal(npu_execute(isa, &b.machine, &other), NPU_OK);
    assert_int_equal(npu_tcm_keeps(&b.machine), 0);
    assert_int_equal(npu_execute(isa, &b.machine, &lookup), NPU_NO_TABLES);
    tables.m = NPU_LOOKUP_ROWS + 1;
    assert_int_equal(npu_execute(isa, &b.machine, &tables), NPU_BAD_SHAPE);
    bench_close(&b);
}

/* The product by masks that lookup is compared with (fields.c), against plain C. */
static const uint32_t place[4] = {0, 2, 1, 3}; /* of four codes in a word */

static void pack_fields(uint8_t *p, uint32_t k_all, uint32_t n_all)
{
    const uint32_t per_vector = 32 / bits, groups = k_all / group;
    memset(p, 0, (size_t)n_all * groups * npu_planes_group_bytes(&w) / 128);
    for (uint32_t n = 0; n < n_all; n++)
        for (uint32_t k = 0; k < k_all; k++) {
            uint8_t *at = p + (n / 64 * groups + k / group) * (npu_planes_group_bytes(&w) / 2);
            uint32_t i = k % group, vector = i / per_vector * 2 + n / 32 % 2, g = n * groups + k / group;
            at[128 * vector + 4 * (n % 32) + place[k % 4]] |=
                (uint8_t)(code[n * k_all + k] << bits * (i % per_vector / 4));
            memcpy(at + w.code_bytes / 2 + 2 * (n % 32 * 2 + n / 32 % 2), scale + g, 2);
            if (form == NPU_PLANES_MINIMA)
                memcpy(at + w.code_bytes / 2 + 128 + 2 * (n % 32 * 2 + n / 32 % 2), least + g, 2);
        }
}

static int act_code(const uint8_t *act8, uint32_t k)
{
    return (int8_t)act8[k / 4 * 4 + place[k % 4]];
}

/* Codes are within half a step of their inputs, and sums are those of the codes. */
static void check_act8(const uint8_t *act8, const struct ablation_act8 *a, uint32_t k)
{
    for (uint32_t i = 0; i < k; i += 32) {
        int32_t sum = 0, stored;
        double step = f32_at(act8 + a->scales + i / 256 * 4);
        memcpy(&stored, act8 + a->sums + i / 8, 4);
        for (uint32_t j = i; j < i + 32; j++) {
            sum += act_code(act8, j);
            assert_true(fabs((double)x[j] - act_code(act8, j) * step) <= 0.501 * step);
        }
        assert_int_equal(sum, stored);
    }
}

/* Below 2^-100 everything is 0; nothing else may come of a row whose reciprocal is no number. */
static void rows_of_almost_nothing_are_zeros(void **state)
{
    enum { K = 256 };
    static const float most[] = {0, 0x1p-149f, 0x1p-126f, 0x1p-101f};
    struct ablation_act8 l;
    struct bench b;
    (void)state;
    ablation_act8_layout(K, &l);
    bench_open(&b, 16 << 20);
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        for (uint32_t k = 0; k < K; k++) x[k] = k % 2 ? -most[i] : most[i];
        struct npu_op op = {.code = ABLATION_ACT8, .flags = NPU_FROM_HOST | NPU_TO_HOST, .m = 1, .k = K};
        op.src = bench_put(&b, x, 4 * K), op.dst = bench_put(&b, NULL, l.bytes);
        bench_run(&b, &op, op.dst, l.bytes);
        const uint8_t *act8 = npu_sim_host(b.sim, op.dst);
        for (uint32_t k = 0; k < l.scales + 4; k++)
            if (act8[k]) fail_msg("a row of %g: byte %u of its codes, sums and scale is %#x", most[i], k, act8[k]);
    }
    bench_close(&b);
}

static float product_of_fields(const uint8_t *act8, const struct ablation_act8 *a, uint32_t k, uint32_t n)
{
    float y = 0;
    for (uint32_t first = 0; first < k; first += group) {
        float s = f32_at(act8 + a->scales + first / 256 * 4);
        int32_t i = 0, inputs = 0;
        uint32_t at = n * (k / group) + first / group;
        for (uint32_t j = first; j < first + group; j++) {
            int32_t q = act_code(act8, j);
            i += code[n * k + j] * q, inputs += q;
        }
        volatile float p = (float)i * s, m = (float)inputs * s;
        p *= f16_to_f32(scale[at]), m *= f16_to_f32(least[at]);
        y += p;
        if (form == NPU_PLANES_MINIMA) y += m;
    }
    return y;
}

static void fields_are_exact(void **state)
{
    (void)state;
    static const uint32_t kinds[] = {
        NPU_PLANES(1, 128, 0), NPU_PLANES(2, 128, 0), NPU_PLANES(2, 64, 1), NPU_PLANES(4, 128, 1)};
    enum { OUTPUTS = 256, K = 640 };
    struct bench b;
    struct ablation_act8 a;
    bench_open(&b, 16 << 20);
    ablation_act8_layout(K, &a);
    for (int i = 0; i < 4; i++) {
        draw(kinds[i], K, OUTPUTS);
        pack_fields(packed, K, OUTPUTS);
        uint32_t act8 = bench_put(&b, NULL, a.bytes), y = bench_put(&b, NULL, 4 * OUTPUTS);
        struct npu_op op = {.code = ABLATION_ACT8, .flags = NPU_FROM_HOST | NPU_TO_HOST, .m = 1, .k = K, .dst = act8};
        op.src = bench_put(&b, x, 4 * K);
        bench_run(&b, &op, act8, a.bytes);
        check_act8(npu_sim_host(b.sim, act8), &a, K);
        op.code = ABLATION_FIELDS, op.n = OUTPUTS, op.src = act8, op.dst = y;
        op.kind = kinds[i];
        op.weights = bench_put(&b, packed, OUTPUTS * (K / group) * (npu_planes_group_bytes(&w) / 128));
        bench_run(&b, &op, y, 4 * OUTPUTS);
        for (uint32_t n = 0; n < OUTPUTS; n++) {
            float want = product_of_fields(npu_sim_host(b.sim, act8), &a, K, n);
            float got = f32_at((const uint8_t *)npu_sim_host(b.sim, y) + 4 * n);
            if (memcmp(&want, &got, 4))
                fail_msg("%u bits, output %u: %.9g, wanted %.9g", bits, n, (double)got, (double)want);
        }
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_in_their_places),
        cmocka_unit_test(impossible_shapes_are_refused), cmocka_unit_test(products_are_exact),
        cmocka_unit_test(tables_end), cmocka_unit_test(rows_of_almost_nothing_are_zeros),
        cmocka_unit_test(fields_are_exact), cmocka_unit_test(bytes_are_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
