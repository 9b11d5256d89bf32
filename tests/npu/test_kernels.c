/* SPDX-License-Identifier: MIT
 *
 * Kernels against plain C: integer results bit for bit, floats within the bounds written here against f64; and every
 * result of the emulator bit for bit against the Hexagon binary where one can be run.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/f16.h"
#include "bench.h"
#include "npu/dsp/kernels.h"
#include "npu/host/pack.h"
#include "npu/host/tables.h"
#include "npu/sim/tile.h"
#include "ops/ref/ref.h"
#include "quant/formats.h"
#include "quant/quant.h"
#include "quant/zero_point.h"

enum { BOTH = NPU_FROM_HOST | NPU_TO_HOST, MEMORY_BYTES = 4 << 20 };

static const struct {
    uint32_t type, kind;
} kinds[] = {{QUANT_Q4_0, NPU_W_Q4_0}, {QUANT_Q4_1, NPU_W_Q4_1}, {QUANT_IQ4_NL, NPU_W_IQ4_NL}, {QUANT_Q8_0, NPU_W_Q8_0},
    {QUANT_F32, NPU_W_SUPER4}, {QUANT_F16, NPU_W_F16}, {QUANT_MXFP4, NPU_W_MXFP4}, {QUANT_Q2_0, NPU_W_W2},
    {QUANT_W2, NPU_W_W2}, {QUANT_W3, NPU_W_W3}, {QUANT_W4, NPU_W_W4}, {QUANT_Q2_0, NPU_W_TERNARY}};
enum { N_KINDS = 12, N_GGUF_KINDS = 4 };

static uint64_t seed = 2026;

static uint64_t next(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static float uniform(void)
{
    return (float)(int64_t)next() * 0x1p-63f;
}

static float *floats(uint32_t n, float scale)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (uint32_t i = 0; i < n; i++) x[i] = uniform() * scale;
    return x;
}

/* Scales that groups with a zero may have: the least, the largest, none, roundings of three times, ordinary ones. */
static const uint16_t scales[] = {0x0400, 0x5fff, 0x0000, 0x8000, 0x8401, 0xdfff, 0x2955, 0x2956, 0xa957, 0x3401};
enum { N_SCALES = 10, N_ORDINARY = 4 };

/* A row of groups of 64 with any zero and code; of the ordinary scales, or any. */
static void random_groups(uint32_t type, int any, uint8_t *row, uint32_t k)
{
    for (uint32_t i = 0; i < k; i += QUANT_GROUP64, row += quant_info_of(type)->block_bytes) {
        const uint16_t d = any ? scales[next() % N_SCALES] : scales[N_SCALES - 1 - next() % N_ORDINARY];
        const int last = type == QUANT_W4 ? 15 : type == QUANT_W3 ? 7 : 3;
        uint8_t code[QUANT_GROUP64];
        for (int j = 0; j < QUANT_GROUP64; j++) code[j] = (uint8_t)(next() & (unsigned)last);
        if (type == QUANT_Q2_0) {
            struct quant_q2_0 q = {.d = d};
            for (int j = 0; j < QUANT_GROUP64; j++) q.qs[j / 4] |= (uint8_t)(code[j] << j % 4 * 2);
            memcpy(row, &q, sizeof q);
        } else {
            quant_zero_point_pack((enum quant_type)type, d, (int)(next() & (unsigned)last), code, row);
        }
    }
}

/* Values of the last weights that were put, of a type with a zero: those of the file, as halves. */
static float file_value[256 * 1088];

/* Random weights of a kind, packed, in a new buffer; `any`: with the strangest scales that the kind takes. */
static uint32_t put_weights(struct bench *b, int i, const struct npu_weights *w, int any)
{
    uint32_t bytes = w->n_blocks * w->block_bytes;
    uint8_t *packed = malloc(bytes);
    float *x = floats(w->k * w->n, 0.1f);
    if (w->kind == NPU_W_SUPER4) {
        npu_pack_supergroup(w, x, w->k, packed, 0, w->n_blocks);
    } else {
        size_t row_bytes;
        assert_int_equal(quant_row_bytes(kinds[i].type, w->k, &row_bytes), 0);
        uint8_t *rows = malloc(row_bytes * w->n);
        const struct quant_info *q = quant_info_of(kinds[i].type);
        for (uint32_t r = 0; r < w->n; r++) {
            float *value = file_value + r * w->k;
            if (!npu_weights_zero(w->kind)) {
                q->quantize(x + r * w->k, rows + r * row_bytes, w->k);
                continue;
            }
            random_groups(kinds[i].type, any, rows + r * row_bytes, w->k);
            q->dequantize(rows + r * row_bytes, value, w->k);
            for (uint32_t k = 0; k < w->k; k++) value[k] = f16_to_f32(f32_to_f16(value[k]));
        }
        assert_int_equal(npu_pack_kind_of_rows(kinds[i].type, w->kind, rows, row_bytes * w->n), w->kind);
        npu_pack_tile32(w, kinds[i].type, rows, row_bytes, packed, 0, w->n_blocks);
        free(rows);
    }
    if (w->kind == NPU_W_TERNARY) /* codes 3 become 1 */
        for (uint32_t j = 0; j < bytes; j++)
            if (j % w->unit_bytes < w->code_bytes) packed[j] &= (uint8_t) ~((packed[j] & packed[j] >> 1 & 0x55) << 1);
    uint32_t at = bench_put(b, packed, bytes);
    free(packed), free(x);
    return at;
}

static uint16_t half_at(const uint8_t *p, uint32_t offset)
{
    uint16_t h;
    memcpy(&h, p + offset, 2);
    return h;
}

/* What the code of (k, n) stands for, and its scale and minimum. */
static int code_at(const struct npu_weights *w, const uint8_t *p, uint32_t k, uint32_t n, float *d, float *m)
{
    static const int8_t nl[16] = QUANT_IQ4_NL_VALUES, fp4[16] = QUANT_MXFP4_VALUES;
    uint32_t shift, at = npu_code_offset(w, k, n, &shift), scale = npu_scale_offset(w, k, n);
    int q = p[at] >> shift & ((1 << npu_weights_bits(w->kind)) - 1);
    *d = f16_to_f32(half_at(p, scale));
    *m = w->kind == NPU_W_Q4_1 ? f16_to_f32(half_at(p, scale + 128)) : 0;
    switch (w->kind) {
    case NPU_W_Q4_1: return q;
    case NPU_W_IQ4_NL: return nl[q];
    case NPU_W_MXFP4: return fp4[q];
    case NPU_W_TERNARY: return q - 1;
    case NPU_W_Q8_0: return p[at] - 128;
    default: return q - 8;
    }
}

/* The half that dequantization must give. */
static float tile_value(const struct npu_weights *w, const uint8_t *p, uint32_t k, uint32_t n)
{
    float d, m;
    uint32_t shift;
    if (w->kind == NPU_W_F16) return f16_to_f32(half_at(p, npu_code_offset(w, k, n, &shift)));
    if (npu_weights_zero(w->kind)) return file_value[n * w->k + k];
    int q = code_at(w, p, k, n, &d, &m);
    float x = f16_to_f32(f32_to_f16((float)q * d));
    return w->kind == NPU_W_Q4_1 ? f16_to_f32(f32_to_f16(x + m)) : x;
}

static void dequantization_is_exact(void **state)
{
    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        struct bench b;
        struct npu_weights w;
        bench_open(&b, MEMORY_BYTES);
        assert_int_equal(npu_weights_layout(kinds[i].kind, 192, 70, &w), 0);
        uint32_t stride = 192 * 64, bytes = w.n_blocks * stride;
        uint32_t at = put_weights(&b, i, &w, 1), dst = bench_put(&b, NULL, bytes);
        struct npu_op op = {.code = NPU_OP_DEQUANT,
            .flags = BOTH,
            .kind = w.kind,
            .k = 192,
            .n = 70,
            .weights = at,
            .dst = dst,
            .dst_stride = stride};
        bench_run(&b, &op, dst, bytes);
        const uint8_t *packed = npu_sim_host(b.sim, at), *tiles = npu_sim_host(b.sim, dst);
        for (uint32_t n = 0; n < 70; n++)
            for (uint32_t k = 0; k < 192; k++) {
                uint16_t h = half_at(tiles, n / 32 * stride + k / 32 * 2048 + npu_tile_offset(k % 32, n % 32));
                float want = tile_value(&w, packed, k, n);
                if (f16_to_f32(h) != want)
                    fail_msg("%s%s, input %u, output %u: %g, wanted %g", quant_type_name(kinds[i].type),
                        npu_weights_zero(w.kind) ? ", zeros" : "", k, n, f16_to_f32(h), want);
            }
        bench_close(&b);
    }
}

/* |error| of an output of the tile product: inputs are halves, sums f32 in k order, one half at the end. */
static void check_product(
    const struct npu_weights *w, const uint8_t *p, const float *x, const float *y, uint32_t r, uint32_t n)
{
    double sum = 0, size = 0;
    for (uint32_t k = 0; k < w->k; k++) {
        double t = (double)f16_to_f32(f32_to_f16(x[k])) * tile_value(w, p, k, n);
        sum += t, size += fabs(t);
    }
    double bound = size * (w->k + 1) * 0x1p-24 + fabs(sum) * 0x1p-11 + 0x1p-25;
    if (!(fabs(*y - sum) <= bound)) fail_msg("row %u, output %u: %g, wanted %g within %g", r, n, *y, sum, bound);
}

static void tile_product_of_any_row_count(void **state)
{
    (void)state;
    /* The last shape is given so little TCM that it takes several passes and chunks. */
    static const uint32_t shapes[][4] = {
        {1, 64, 32, 8}, {5, 192, 70, 8}, {32, 320, 64, 8}, {33, 64, 200, 8}, {130, 1088, 96, 1}};
    for (int i = 0; i < N_KINDS; i++) {
        struct bench b; /* one for a kind: a guest is slow to start */
        bench_open(&b, MEMORY_BYTES);
        for (int s = 0; s < 5; s++) {
            struct npu_weights w;
            uint32_t m = shapes[s][0], k = shapes[s][1], n = shapes[s][2];
            if (s == 4 && i) continue;
            b.machine.tcm_bytes = shapes[s][3] << 20;
            if (s == 4) b.machine.tcm_bytes = 512 << 10;
            assert_int_equal(npu_weights_layout(kinds[i].kind, k, n, &w), 0);
            struct npu_gemm_plan plan;
            assert_int_equal(npu_gemm_plan(&w, m, 0, b.machine.tcm_bytes, &plan), 0);
            assert_int_equal(plan.n_passes > 1, s == 4);
            float *x = floats(m * k, 2);
            uint32_t src = bench_put(&b, x, 4 * m * k), at = put_weights(&b, i, &w, 0);
            uint32_t stride = 128 * w.n_blocks, dst = bench_put(&b, NULL, m * stride);
            struct npu_op op = {.code = NPU_OP_GEMM,
                .flags = BOTH,
                .kind = w.kind,
                .m = m,
                .k = k,
                .n = n,
                .src = src,
                .weights = at,
                .dst = dst,
                .src_stride = 4 * k,
                .dst_stride = stride};
            bench_run(&b, &op, dst, m * stride);
            const uint8_t *packed = npu_sim_host(b.sim, at);
            for (uint32_t r = 0; r < m; r++)
                for (uint32_t c = 0; c < n; c++)
                    check_product(&w, packed, x + r * k, (float *)npu_sim_host(b.sim, dst) + r * stride / 4 + c, r, c);
            free(x);
        }
        bench_close(&b);
    }
}

static void check_close(double got, double want, double relative, double absolute)
{
    if (!(fabs(got - want) <= fabs(want) * relative + absolute)) fail_msg("%.9g, wanted %.9g", got, want);
}

/* ---- ternary weights times integers of 8 bits: integer sums ---- */

enum { EXACT_K = 1 << 17 }; /* 2^24 / 128 */

/* An integer of 8 bits and a weight, each a function of where it stands, so that they need no memory. */
static int integer_at(uint32_t row, uint32_t k)
{
    return row ? (int)(((k + 1) * 2654435761u >> row % 24) % 256) - 128 : -128;
}

static int ternary_at(uint32_t k, uint32_t n)
{
    return n ? (int)(((k + 7) * 2246822519u ^ n * 3266489917u) >> 15) % 3 - 1 : 1;
}

/* A tile pair: inputs k .. k + 31 of 32 rows and of 32 outputs. */
static void integer_tiles(uint8_t *act, uint8_t *weight, uint32_t k)
{
    for (uint32_t i = 0; i < 32; i++)
        for (uint32_t j = 0; j < 32; j++) {
            uint16_t x = f32_to_f16((float)integer_at(i, k + j)), y = f32_to_f16((float)ternary_at(k + j, i));
            memcpy(act + npu_tile_offset(i, j), &x, 2);
            memcpy(weight + npu_tile_offset(j, i), &y, 2);
        }
}

/* The accumulator holds the integer sum of any 2^17 inputs, up to 2^24, and of no more. */
static void sums_of_integers_are_exact(void **state)
{
    (void)state;
    static struct npu_tile_acc acc;
    static int32_t want[32][32];
    uint8_t act[2048], weight[2048];
    npu_tile_clear(&acc);
    for (uint32_t k = 0; k < EXACT_K; k += 32) {
        integer_tiles(act, weight, k);
        npu_tile_mac(&acc, act, weight, 1);
        for (uint32_t i = 0; i < 32; i++)
            for (uint32_t r = 0; r < 32; r++)
                for (uint32_t n = 0; n < 32; n++) want[r][n] += integer_at(r, k + i) * ternary_at(k + i, n);
    }
    for (uint32_t r = 0; r < 32; r++)
        for (uint32_t n = 0; n < 32; n++)
            if (acc.c[r][n] != (float)want[r][n])
                fail_msg("row %u, output %u: %.9g, wanted %d", r, n, acc.c[r][n], want[r][n]);
    assert_int_equal(want[0][0], -(1 << 24));
    for (uint32_t i = 0; i < 32; i++)
        for (uint32_t j = 0; j < 32; j++) { /* one input more, of -1 */
            uint16_t x = j || i ? 0 : f32_to_f16(-1);
            memcpy(act + npu_tile_offset(i, j), &x, 2);
        }
    npu_tile_mac(&acc, act, weight, 1);
    assert_true((int32_t)acc.c[0][0] == want[0][0]);
}

/* Weights with which every second output's sum only rises. */
static int rising_at(uint32_t k, uint32_t n)
{
    if (n % 2) return integer_at(1, k) < 0 ? -1 : 1;
    return ternary_at(k, n);
}

/* The largest k whose tiles TCM holds, as whole products: -128 times 1 everywhere, which a half holds times the scale;
 * and sums that rise for half of k and fall to what the first 8 inputs give, which a half holds, too. */
static void ternary_products_are_exact(void **state)
{
    (void)state;
    struct bench b;
    struct npu_weights w;
    struct npu_gemm_plan plan;
    uint32_t k = EXACT_K, shift;
    bench_open(&b, 16 << 20);
    assert_int_equal(npu_weights_layout(NPU_W_TERNARY, k, 32, &w), 0);
    while (npu_gemm_plan(&w, 2, 0, b.machine.tcm_bytes, &plan))
        assert_int_equal(npu_weights_layout(NPU_W_TERNARY, k -= 64, 32, &w), 0);
    assert_in_range(k, 32768, EXACT_K);
    float *x = malloc(2 * k * sizeof *x);
    uint8_t *packed = calloc(w.bytes, 1);
    for (uint32_t i = 0; i < k; i++) {
        x[i] = -128, x[k + i] = (float)integer_at(1, i < k / 2 ? i : k - 1 - i);
        for (uint32_t n = 0; n < 32; n++) {
            int q = rising_at(i < k / 2 ? i : k - 1 - i, n);
            if (n && i >= k / 2) q = i < k - 8 ? -q : 0;
            uint32_t at = npu_code_offset(&w, i, n, &shift);
            packed[at] |= (uint8_t)((q + 1) << shift);
            memcpy(packed + npu_scale_offset(&w, i, n), &(uint16_t){n ? 0x3c00 : 0x1800}, 2); /* 1; 2^-9 */
        }
    }
    struct npu_op op = {.code = NPU_OP_GEMM, .flags = BOTH, .kind = w.kind, .m = 2, .k = k, .n = 32};
    op.src = bench_put(&b, x, 8 * k), op.weights = bench_put(&b, packed, w.bytes), op.dst = bench_put(&b, NULL, 256);
    op.src_stride = 4 * k, op.dst_stride = 128;
    bench_run(&b, &op, op.dst, 256);
    const float *y = npu_sim_host(b.sim, op.dst);
    assert_true(y[0] == -128 * (float)k / 512);
    for (uint32_t n = 1; n < 32; n++) {
        int want[2] = {0};
        for (uint32_t i = 0; i < 8; i++)
            want[0] -= 128 * rising_at(i, n), want[1] += integer_at(1, i) * rising_at(i, n);
        for (int r = 0; r < 2; r++)
            if (y[32 * r + n] != (float)want[r])
                fail_msg("k %u, row %d, output %u: %g, wanted %d", k, r, n, y[32 * r + n], want[r]);
    }
    print_message("ternary weights times 8 bits: exact at k %u\n", k);
    free(x), free(packed);
    bench_close(&b);
}

static void row_operations_are_close(void **state)
{
    (void)state;
    enum { M = 3, N = 96 };
    struct bench b;
    bench_open(&b, MEMORY_BYTES);
    float *x = floats(M * N, 20), *z = floats(M * N, 2), eps = 1e-6f;
    uint32_t src = bench_put(&b, x, 4 * M * N), second = bench_put(&b, z, 4 * M * N),
             dst = bench_put(&b, NULL, 4 * M * N);
    struct npu_op op = {.flags = BOTH,
        .m = M,
        .n = N,
        .src = src,
        .weights = second,
        .dst = dst,
        .src_stride = 4 * N,
        .dst_stride = 4 * N,
        .param = f32_bits(eps)};
    const float *y = npu_sim_host(b.sim, dst);
    op.code = NPU_OP_ADD;
    bench_run(&b, &op, dst, 4 * M * N);
    for (int i = 0; i < M * N; i++) assert_true(y[i] == x[i] + z[i]);
    op.code = NPU_OP_SWIGLU;
    bench_run(&b, &op, dst, 4 * M * N);
    for (int i = 0; i < M * N; i++) check_close(y[i], x[i] / (1 + exp(-(double)x[i])) * z[i], 2e-6, 1e-30);
    op.code = NPU_OP_RMS_NORM;
    bench_run(&b, &op, dst, 4 * M * N);
    for (int r = 0; r < M; r++) {
        double sum = 0;
        for (int i = 0; i < N; i++) sum += (double)x[r * N + i] * x[r * N + i];
        for (int i = 0; i < N; i++) check_close(y[r * N + i], x[r * N + i] / sqrt(sum / N + eps) * z[i], 2e-6, 1e-30);
    }
    free(x), free(z);
    bench_close(&b);
}

/* Every head size and part of it that models rotate, in place. */
static void rope_rotates_both_kinds_of_pairs(void **state)
{
    (void)state;
    struct bench b;
    enum { M = 2, HEADS = 4 };
    static const int sizes[][2] = {{128, 128}, {64, 64}, {16, 16}, {32, 32}, {80, 80}, {96, 96}, {80, 32}, {64, 16}};
    bench_open(&b, MEMORY_BYTES); /* one for all: a guest is slow to start */
    for (int i = 0; i < 16; i++) {
        struct op_rope p = {.kind = i % 2 ? ROPE_NEOX : ROPE_NORM,
            .n_head = HEADS,
            .d_head = sizes[i / 2][0],
            .n_rot = sizes[i / 2][1],
            .freq_base = 10000,
            .freq_scale = 1,
            .magnitude = i % 3 ? 1 : 1.2f};
        uint32_t n = (uint32_t)(HEADS * p.d_head), period = npu_rope_period(&p);
        float *x = floats(M * n, 5), *t = calloc(period * (1 + 2 * M), 4), *want = malloc(4 * M * n);
        npu_rope_mask(&p, (uint32_t *)t);
        memcpy(want, x, 4 * M * n);
        for (int r = 0; r < M; r++) {
            npu_rope_row(&p, 7 + 100 * r, t + period * (uint32_t)(1 + 2 * r));
            ref_rope(&p, 7 + 100 * r, want + (uint32_t)r * n);
        }
        uint32_t src = bench_put(&b, x, 4 * M * n), table = bench_put(&b, t, 4 * period * (1 + 2 * M));
        struct npu_op op = {.code = NPU_OP_ROPE,
            .flags = BOTH,
            .m = i % 4 < 2 ? M : 1, /* or row by row */
            .n = n,
            .k = npu_rope_distance(&p),
            .param = period,
            .weights = table,
            .src_stride = 4 * n,
            .dst_stride = 4 * n};
        for (; op.rows < M; op.rows += op.m) {
            op.src = op.dst = src + 4 * op.rows * n;
            bench_run(&b, &op, op.dst, 4 * op.m * n);
        }
        const float *y = npu_sim_host(b.sim, src);
        for (uint32_t j = 0; j < M * n; j++) check_close(y[j], want[j], 3e-7, 3e-6);
        free(x), free(t), free(want);
    }
    bench_close(&b);
}

/* Every half <= 0: table and f32 are the nearest half or one beside it; the half polynomial is off by up to 1 percent
 * of the value (its argument is rounded to a half first), and absolutely by 2^-11. */
static void exponentials_of_every_half(void **state)
{
    (void)state;
    enum { N = 0x7c00 + 64 };
    struct bench b;
    uint16_t *x = malloc(2 * N);
    bench_open(&b, MEMORY_BYTES);
    b.machine.tcm_kept = 65536;
    for (int i = 0; i < N; i++) x[i] = (uint16_t)(0x8000 | (i <= 0x7c00 ? i : 0x3c00));
    uint32_t src = bench_put(&b, x, 2 * N), dst = bench_put(&b, NULL, 2 * N);
    struct npu_op op = {.code = NPU_OP_EXP_TABLE, .flags = BOTH, .n = N, .src = src, .dst = dst};
    bench_run(&b, &op, dst, 2 * N);
    op.code = NPU_OP_EXP16;
    for (op.kind = NPU_EXP_TABLE; op.kind <= NPU_EXP_F32; op.kind++) {
        bench_run(&b, &op, dst, 2 * N);
        const uint16_t *y = npu_sim_host(b.sim, dst);
        for (int i = 0; i < N; i++) {
            double want = exp(f16_to_f32(x[i]));
            uint16_t nearest = f32_to_f16((float)want);
            if (op.kind == NPU_EXP_F16)
                check_close(f16_to_f32(y[i]), want, 0.01, 0x1p-11);
            else if (y[i] > nearest + 1 || y[i] + 1 < nearest)
                fail_msg("exp(%g): %04x, wanted %04x", f16_to_f32(x[i]), y[i], nearest);
        }
    }
    free(x);
    bench_close(&b);
}

/* Every vector is read once, of DMA the first of each piece. */
static void memory_is_read_once(void **state)
{
    (void)state;
    enum { PIECES = 21, WORDS = NPU_READ_PIECE / 4, BYTES = PIECES * NPU_READ_PIECE };
    struct bench b;
    uint32_t *x = malloc(BYTES);
    bench_open(&b, MEMORY_BYTES);
    for (uint32_t i = 0; i < BYTES / 4; i++) x[i] = (uint32_t)next();
    uint32_t src = bench_put(&b, x, BYTES), dst = bench_put(&b, NULL, 128 * (1 + NPU_THREADS_MAX));
    for (uint32_t way = NPU_READ_LOADS; way <= NPU_READ_DMA; way++)
        for (uint32_t pieces = 1; pieces <= PIECES; pieces += 4) {
            uint32_t want[32] = {0};
            struct npu_op op = {.code = NPU_OP_READ, .flags = BOTH, .kind = way, .src = src, .dst = dst};
            op.k = pieces * NPU_READ_PIECE;
            for (uint32_t i = 0; i < op.k / 4; i++) want[i % 32] ^= way == NPU_READ_DMA && i % WORDS >= 32 ? 0 : x[i];
            bench_run(&b, &op, dst, 128);
            assert_memory_equal(npu_sim_host(b.sim, dst), want, 128);
        }
    free(x);
    bench_close(&b);
}

static void bad_operations_are_refused(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 1 << 20);
    static const struct npu_op bad[] = {{.code = NPU_OPS}, {.code = NPU_OP_GEMM, .kind = NPU_W_Q4_0, .k = 64, .n = 32},
        {.code = NPU_OP_GEMM, .kind = NPU_W_Q4_0, .m = 1, .k = 63, .n = 32},
        {.code = NPU_OP_GEMM, .kind = NPU_W_SUPER4, .k = 64, .n = 32}, {.code = NPU_OP_ADD, .m = 1, .n = 31},
        {.code = NPU_OP_EXP16, .kind = NPU_EXP_TABLE, .n = 64},
        {.code = NPU_OP_ROPE, .m = 1, .k = 1, .n = 48, .param = 32}, {.code = NPU_OP_READ, .k = NPU_READ_PIECE / 2},
        {.code = NPU_OP_READ, .kind = NPU_READ_DMA + 1, .k = NPU_READ_PIECE},
        {.code = NPU_OP_GEMM, .kind = NPU_W_Q8_0, .m = 1, .k = 1 << 20, .n = 32}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_not_equal(npu_execute(npu_sim_isa(b.sim), &b.machine, &bad[i]), NPU_OK);
    }
    bench_close(&b);
}

int main(void)
{
    if (bench_missing()) printf("emulator only: %s\n", bench_missing());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dequantization_is_exact),
        cmocka_unit_test(tile_product_of_any_row_count),
        cmocka_unit_test(sums_of_integers_are_exact),
        cmocka_unit_test(ternary_products_are_exact),
        cmocka_unit_test(row_operations_are_close),
        cmocka_unit_test(rope_rotates_both_kinds_of_pairs),
        cmocka_unit_test(exponentials_of_every_half),
        cmocka_unit_test(memory_is_read_once),
        cmocka_unit_test(bad_operations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
