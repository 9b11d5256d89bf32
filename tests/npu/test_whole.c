/* SPDX-License-Identifier: MIT
 *
 * What a whole model needs beside products: embeddings, the cache, chosen rows, gates, biases, the head, attention from
 * the tables of a pass.  Against plain C, and emulator and Hexagon binary bit for bit.
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
#include "ops/batch.h"
#include "ops/ref/ref.h"
#include "quant/quant.h"

enum { BOTH = NPU_FROM_HOST | NPU_TO_HOST, MEMORY_BYTES = 2 << 20 };

static uint64_t seed = 4711;

static float uniform(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (float)(int64_t)seed * 0x1p-63f;
}

/* Random rows of a GGUF type, a fifth of them twice, and the same packed; k is rounded up with zeros. */
static uint8_t *weights(struct bench *b, uint32_t type, uint32_t k, uint32_t n, struct npu_weights *w, uint32_t *at)
{
    uint32_t kind, padded = npu_weights_k(k);
    size_t row_bytes, padded_bytes;
    assert_int_equal(npu_pack_kind(type, &kind, NULL), 0);
    assert_int_equal(npu_weights_layout(kind, padded, n, w), 0);
    assert_int_equal(quant_row_bytes(type, k, &row_bytes), 0);
    assert_int_equal(quant_row_bytes(type, padded, &padded_bytes), 0);
    uint8_t *rows = calloc(n, row_bytes), *wide = calloc(n, padded_bytes);
    uint8_t *packed = malloc((size_t)w->n_blocks * w->block_bytes);
    float *x = malloc(k * sizeof *x);
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t i = 0; i < k; i++) x[i] = uniform() * 0.2f;
        if (quant_info_of(type)->quantize) quant_info_of(type)->quantize(x, rows + r * row_bytes, k);
        if (!quant_info_of(type)->quantize) quant_random_blocks(quant_info_of(type), r, 0.1f, rows + r * row_bytes, k);
        if (r % 5 == 4) memcpy(rows + r * row_bytes, rows + r / 2 * row_bytes, row_bytes); /* equal outputs */
        memcpy(wide + r * padded_bytes, rows + r * row_bytes, row_bytes);
    }
    npu_pack_tile32(w, type, wide, padded_bytes, packed, 0, w->n_blocks);
    *at = bench_put(b, packed, w->n_blocks * w->block_bytes);
    free(x), free(wide), free(packed);
    return rows;
}

static float *put_floats(struct bench *b, uint32_t n, float scale, uint32_t *at)
{
    float *x = malloc(n * sizeof *x);
    for (uint32_t i = 0; i < n; i++) x[i] = uniform() * scale;
    *at = bench_put(b, x, 4 * n);
    return x;
}

static void check_close(double got, double want, double relative, double absolute)
{
    if (!(fabs(got - want) <= fabs(want) * relative + absolute)) fail_msg("%.9g, wanted %.9g", got, want);
}

static const uint32_t types[] = {QUANT_Q4_0, QUANT_Q4_1, QUANT_IQ4_NL, QUANT_Q8_0, QUANT_F16, QUANT_MXFP4, QUANT_Q2_0,
    QUANT_Q2_K, QUANT_Q3_K, QUANT_Q4_K, QUANT_Q5_K, QUANT_Q6_K, QUANT_IQ4_XS, QUANT_Q1_0, QUANT_TQ1_0, QUANT_TQ2_0,
    QUANT_W2, QUANT_W3, QUANT_W4};
enum { N_TYPES = 7, N_ALL = 19 };

/* Values as dequantization makes them: code times scale to the nearest half (Q4_1: twice), times the factor. */
static void embeddings_are_those_of_the_file(void **state)
{
    (void)state;
    static const uint32_t token[4] = {0, 69, 31, 32};
    for (int t = 0; t < N_ALL; t++)
        for (uint32_t k = quant_info_of(types[t])->block_elems <= 32 ? 96 : 256; k <= 320; k += 224) {
            struct bench b;
            struct npu_weights w;
            uint32_t at, dst;
            float scale = 1.5f, want[320];
            bench_open(&b, MEMORY_BYTES);
            uint8_t *rows = weights(&b, types[t], k, 70, &w, &at);
            dst = bench_put(&b, NULL, 4 * 4 * k);
            struct npu_op op = {.code = NPU_OP_EMBED, .flags = BOTH, .m = 4, .n = 70, .k = k, .kind = w.kind};
            op.weights = at, op.dst = dst, op.dst_stride = 4 * k, op.param = f32_bits(scale);
            op.rows = bench_put(&b, token, sizeof token);
            bench_run(&b, &op, dst, 16 * k);
            const float *y = npu_sim_host(b.sim, dst);
            const struct quant_info *q = quant_info_of(types[t]);
            for (uint32_t r = 0; r < 4; r++) {
                q->dequantize(rows + token[r] * (k / q->block_elems * q->block_bytes), want, k);
                for (uint32_t i = 0; i < k; i++)
                    check_close(y[r * k + i], want[i] * scale, 0x1p-10, 2e-3 * (t == 1 || t >= N_TYPES));
            }
            free(rows);
            bench_close(&b);
        }
}

static void gates_are_close(void **state)
{
    (void)state;
    enum { N = 256 };
    struct bench b;
    uint32_t a, c;
    float want[N];
    bench_open(&b, MEMORY_BYTES);
    float *x = put_floats(&b, N, 8, &a), *z = put_floats(&b, N, 2, &c);
    uint32_t dst = bench_put(&b, NULL, 4 * N);
    struct npu_op op = {.flags = BOTH, .m = 1, .n = N, .src = a, .weights = c, .dst = dst};
    for (op.code = NPU_OP_GEGLU; op.code <= NPU_OP_RELU2; op.code++) {
        bench_run(&b, &op, dst, 4 * N);
        (op.code == NPU_OP_GEGLU ? ref_geglu : ref_relu2)(x, z, want, N);
        const float *y = npu_sim_host(b.sim, dst);
        for (int i = 0; i < N; i++) check_close(y[i], want[i], 3e-6, 1e-7);
    }
    free(x), free(z);
    bench_close(&b);
}

/* A power of two brings massive rows below 2^13 and back; other rows, infinities and NaN keep every bit. */
static void massive_rows_fit_halves(void **state)
{
    (void)state;
    enum { N = 96, M = 10 };
    static const float most[M] = {0, 1, 8191.9f, 8192, -60000, 65520, -1e9f, 3e38f, INFINITY, NAN};
    struct bench b;
    uint32_t at;
    bench_open(&b, MEMORY_BYTES);
    float *x = put_floats(&b, M * (N + 32), 1, &at);
    for (uint32_t r = 0; r < M; r++) x[r * N + 7 * r] = most[r];
    memcpy(npu_sim_host(b.sim, at), x, 4 * M * N);
    npu_sim_host_wrote(b.sim, at, 4 * M * N);
    struct npu_op op = {.code = NPU_OP_FIT, .flags = BOTH, .m = M, .n = N, .dst = at, .dst_stride = 4 * N};
    op.weights = at + 4 * M * N;
    bench_run(&b, &op, at, 4 * M * (N + 32));
    const float *y = npu_sim_host(b.sim, at), *factor = y + M * N;
    for (uint32_t r = 0; r < M; r++) {
        int fits = r < 3 || r >= 8;
        float largest = 0;
        for (uint32_t i = 0; i < N; i++) largest = fmaxf(largest, fabsf(y[r * N + i]));
        if (fits) assert_memory_equal(y + r * N, x + r * N, 4 * N);
        assert_true(fits ? factor[32 * r] == 1 : factor[32 * r] > 1 && largest >= 4096 && largest < 8192);
        for (uint32_t i = 0; !fits && i < N; i++)
            check_close(y[r * N + i] * factor[32 * r], x[r * N + i], 0, fabs(most[r]) * 0x1p-126);
    }
    op.code = NPU_OP_UNFIT;
    bench_run(&b, &op, at, 4 * M * N);
    for (uint32_t i = 0; i < 7 * N; i++) assert_true(y[i] == x[i]);
    for (uint32_t i = 0; i < N; i++) check_close(y[7 * N + i], x[7 * N + i], 0, 1e-30);
    free(x);
    bench_close(&b);
}

static void rows_are_taken(void **state)
{
    (void)state;
    static const uint32_t row[3] = {4, 0, 2};
    struct bench b;
    uint32_t a;
    bench_open(&b, MEMORY_BYTES);
    float *x = put_floats(&b, 5 * 100 + 32, 1, &a);
    uint32_t dst = bench_put(&b, NULL, 1280);
    struct npu_op op = {
        .code = NPU_OP_TAKE, .m = 3, .n = 100, .src = a, .src_stride = 400, .dst = dst, .dst_stride = 400};
    op.rows = bench_put(&b, row, sizeof row);
    struct npu_op all = {.code = NPU_OP_INVALIDATE, .src = a, .k = 4 * (5 * 100 + 32)};
    bench_sim(&b, &all, 0, 0);
    op.flags = BOTH;
    bench_run(&b, &op, dst, 1200);
    for (int r = 0; r < 3; r++) assert_memory_equal((float *)npu_sim_host(b.sim, dst) + 100 * r, x + 100 * row[r], 400);
    free(x);
    bench_close(&b);
}

/* A bias, an odd number of 32 k, several rows: the same as without, moved. */
static void products_with_bias(void **state)
{
    (void)state;
    for (int t = 0; t < N_TYPES; t++)
        for (uint32_t m = 1; m < 4; m++) {
            struct bench b;
            struct npu_weights w;
            uint32_t at, a, c, k = t % 2 ? 96 : 256, n = 64;
            bench_open(&b, MEMORY_BYTES);
            uint8_t *rows = weights(&b, types[t], k, n, &w, &at);
            float *x = put_floats(&b, m * k, 1, &a), *bias = put_floats(&b, n, 3, &c), *want = malloc(4 * m * n);
            struct tensor source = {.type = (enum quant_type)types[t], .ne = {k, n}, .data = rows};
            struct npu_op op = {.code = NPU_OP_GEMM, .flags = BOTH, .m = m, .n = n, .k = k, .kind = w.kind};
            op.src = a, op.weights = at, op.bias = c, op.src_stride = 4 * k, op.dst_stride = 4 * n;
            op.dst = bench_put(&b, NULL, 4 * m * n);
            bench_run(&b, &op, op.dst, 4 * m * n);
            ref_matmul(&source, bias, x, want, (int)m);
            for (uint32_t i = 0; i < m * n; i++)
                check_close(((float *)npu_sim_host(b.sim, op.dst))[i], want[i], 2e-3, 5e-3);
            free(x), free(bias), free(want), free(rows);
            bench_close(&b);
        }
}

/* Results are those of the reference over the NPU's own logits; logits those of a product. */
static void head_reports_what_is_asked(void **state)
{
    (void)state;
    enum { K = 64, N = 3000, ALL = 3008 };
    for (int t = 0; t < 2 * N_TYPES; t++) {
        struct bench b;
        uint32_t m = t % 4 < 2 ? 1 : 3;
        struct npu_weights w;
        uint32_t at, a;
        float cap = t % 2 ? 2 : 0;
        bench_open(&b, MEMORY_BYTES);
        uint8_t *rows = weights(&b, types[t / 2], K, N, &w, &at);
        float *x = put_floats(&b, m * K, 4, &a), *want = malloc(4 * m * N);
        struct npu_head_row row[3];
        for (uint32_t r = 0; r < m; r++)
            row[r] = (struct npu_head_row){NPU_HEAD_TOPK | NPU_HEAD_SUM, 2049 + r, bench_put(&b, NULL, 4 * ALL)};
        struct npu_op op = {.code = NPU_OP_HEAD, .flags = BOTH, .m = m, .n = N, .k = K, .kind = w.kind};
        op.src = a, op.src_stride = 4 * K, op.weights = at, op.param2 = f32_bits(cap);
        op.rows = bench_put(&b, row, m * sizeof *row);
        op.dst = bench_put(&b, NULL, m * sizeof(struct npu_head_result));
        op.scratch = bench_put(&b, NULL, m * (NPU_HEAD_SCRATCH + 256));
        struct npu_op fresh = {.code = NPU_OP_INVALIDATE, .src = op.scratch, .k = m * (NPU_HEAD_SCRATCH + 256)};
        bench_sim(&b, &fresh, 0, 0);
        fresh.src = op.dst, fresh.k = m * sizeof(struct npu_head_result);
        bench_sim(&b, &fresh, 0, 0);
        bench_run(&b, &op, op.dst, m * sizeof(struct npu_head_result));
        struct tensor source = {.type = (enum quant_type)types[t / 2], .ne = {K, N}, .data = rows};
        ref_matmul(&source, NULL, x, want, (int)m);
        for (uint32_t r = 0; r < m; r++) {
            const struct npu_head_result *got = (struct npu_head_result *)npu_sim_host(b.sim, op.dst) + r;
            struct npu_op out = {.code = NPU_OP_FLUSH, .src = row[r].logits, .k = 4 * ALL};
            bench_sim(&b, &out, row[r].logits, 4 * ALL);
            const float *logits = npu_sim_host(b.sim, row[r].logits);
            int32_t id[NPU_HEAD_TOP];
            float top[NPU_HEAD_TOP];
            if (cap > 0) ref_softcap(want + r * N, N, cap);
            for (int i = 0; i < N; i++) check_close(logits[i], want[r * N + i], 0.01, 0.05);
            assert_int_equal(got->n_top, ref_top_k(logits, NULL, N, NPU_HEAD_TOP, id, top));
            assert_memory_equal(got->id, id, sizeof id);
            assert_memory_equal(got->logit, top, sizeof top);
            assert_true(f32_from_bits(got->target) == logits[row[r].target]);
            check_close(
                f32_from_bits(got->most) + log(f32_from_bits(got->sum)), ref_log_sum_exp(logits, N), 1e-6, 1e-5);
        }
        free(rows), free(x), free(want);
        bench_close(&b);
    }
}

/* ---- the cache ---- */

enum { BLOCKS = 8, DRAFTS = 64, LAYERS = 2, KV_HEADS = 2, ROWS = 12 };

struct cache {
    struct kv_view view;
    struct kv_layer layer[LAYERS];
    struct kv_row row[ROWS];
    int32_t table[16];
    uint32_t at; /* window offset */
};

static void open_cache(struct cache *c, struct bench *b, int d_head)
{
    size_t each = (size_t)d_head * 2, pool = (size_t)LAYERS * BLOCKS * 2 * KV_HEADS * KV_BLOCK * each;
    size_t draft = (size_t)LAYERS * 2 * KV_HEADS * DRAFTS * each;
    memset(c, 0, sizeof *c);
    c->at = bench_put(b, NULL, (uint32_t)(pool + draft));
    uint8_t *host = npu_sim_host(b->sim, c->at);
    c->view = (struct kv_view){.type = {QUANT_F16, QUANT_F16},
        .n_layer = LAYERS,
        .n_block = BLOCKS,
        .n_draft = DRAFTS,
        .layer = c->layer,
        .pool = host,
        .draft = host + pool,
        .row = c->row,
        .table = c->table};
    for (int i = 0; i < LAYERS; i++)
        c->layer[i] = (struct kv_layer){.cache = i,
            .n_kv_head = KV_HEADS,
            .d_head = d_head,
            .vec_bytes = {each, each},
            .side_bytes = {KV_HEADS * KV_BLOCK * each, KV_HEADS * KV_BLOCK * each},
            .pool = (size_t)i * pool / LAYERS,
            .block_bytes = 2 * KV_HEADS * KV_BLOCK * each,
            .draft = (size_t)i * draft / LAYERS};
    for (size_t i = 0; i < (pool + draft) / 2; i++) ((uint16_t *)(void *)host)[i] = f32_to_f16(uniform() * 2);
    npu_sim_host_wrote(b->sim, c->at, (uint32_t)(pool + draft));
}

static uint32_t draft_at(const struct cache *c)
{
    return c->at + (uint32_t)(c->view.draft - c->view.pool);
}

/* Two sequences with a common first block; drafts as a tree under the first. */
static void fill_rows(struct cache *c)
{
    static const int32_t table[] = {3, 1, 3, 5};
    memcpy(c->table, table, sizeof table);
    const struct kv_row row[ROWS] = {{100, 0, 0, 0, 1, 35, 0}, {101, 0, 0, 0, 1, 36, 0}, {66, 0, 0, 2, 5, 1, 0},
        {1, 0, 0, 2, 3, 0, 0}, {101, 1, -1, 0, -1, 9, 0}, {101, 2, 4, 0, -1, 2, 0}, {101, 3, 5, 0, -1, 3, 0},
        {101, 4, 6, 0, -1, 4, 0}, {101, 3, 5, 0, -1, 7, 0}, {64, 3, 5, 0, -1, 11, 0}, {128, 1, -1, 0, -1, 12, 0},
        {126, 4, 6, 0, -1, 13, 0}};
    memcpy(c->row, row, sizeof row);
}

static void keys_and_values_go_to_their_slots(void **state)
{
    (void)state;
    static const int sizes[] = {16, 32, 64, 80, 128};
    for (int i = 0; i < 5; i++) {
        struct bench b;
        struct cache c;
        uint32_t d = (uint32_t)sizes[i], n = KV_HEADS * d, k, v, bytes;
        bench_open(&b, MEMORY_BYTES);
        open_cache(&c, &b, sizes[i]);
        fill_rows(&c);
        float *x = put_floats(&b, ROWS * n + 32, 3, &k), *y = put_floats(&b, ROWS * n + 32, 3, &v);
        struct npu_slot slot[ROWS];
        npu_kv_slots(&c.view, c.at, draft_at(&c), ROWS, slot);
        bytes = (uint32_t)((size_t)LAYERS * 2 * KV_HEADS * (BLOCKS * KV_BLOCK + DRAFTS) * d * 2);
        struct npu_op op = {.code = NPU_OP_INVALIDATE, .src = k, .k = 4 * (ROWS * n + 32)};
        bench_sim(&b, &op, 0, 0);
        op.src = v;
        bench_sim(&b, &op, 0, 0);
        op = (struct npu_op){.code = NPU_OP_KV_APPEND, .flags = NPU_FROM_HOST, .m = ROWS, .n = d, .k = KV_HEADS};
        op.src = k, op.weights = v, op.src_stride = 4 * n, op.param = 1;
        op.rows = bench_put(&b, slot, sizeof slot);
        bench_run(&b, &op, c.at, bytes);
        for (int r = 0; r < ROWS; r++)
            for (int h = 0; h < KV_HEADS; h++)
                for (uint32_t e = 0; e < d; e++) {
                    const uint16_t *key = (void *)kv_slot_at(&c.view, 1, KV_K, h, r);
                    const uint16_t *value = (void *)kv_slot_at(&c.view, 1, KV_V, h, r);
                    assert_int_equal(key[e], f32_to_f16(x[(uint32_t)r * n + (uint32_t)h * d + e]));
                    assert_int_equal(value[e], f32_to_f16(y[(uint32_t)r * n + (uint32_t)h * d + e]));
                }
        free(x), free(y);
        bench_close(&b);
    }
}

/* Attention over such a cache: f64 within a bound. */
static void attention_over_blocks_and_drafts(void **state)
{
    (void)state;
    static const int sizes[] = {16, 64, 80};
    for (int i = 0; i < 12; i++) {
        struct bench b;
        struct cache c;
        bench_open(&b, MEMORY_BYTES);
        b.machine.tcm_kept = 65536;
        struct npu_op op = {.code = NPU_OP_EXP_TABLE};
        bench_run(&b, &op, 0, 0);
        open_cache(&c, &b, sizes[i % 3]);
        fill_rows(&c);
        struct op_attention p = {.n_head = 6, .n_kv_head = KV_HEADS, .d_head = sizes[i % 3]};
        p.scale = 1 / sqrtf((float)p.d_head);
        p.window = i / 3 % 2 ? 40 : 0;
        if (i >= 6) p.n_head = 2; /* one per KV head */
        uint32_t n = (uint32_t)(p.n_head * p.d_head), q;
        float *x = put_floats(&b, ROWS * n + 32, 3, &q), *want = malloc(4 * n);
        struct npu_attention_request r = {&c.view, c.at, draft_at(&c), ROWS, p.n_head / KV_HEADS, p.window};
        size_t bytes = npu_attention_bytes(ROWS, 192, p.n_head / KV_HEADS);
        void *tables = calloc(1, bytes);
        npu_attention_tables(&r, tables, bytes);
        assert_true(((struct npu_attention *)tables)->bytes > sizeof(struct npu_attention));
        op = (struct npu_op){.code = NPU_OP_ATTENTION, .flags = BOTH, .m = ROWS, .n = (uint32_t)p.d_head, .k = 1};
        op.rows = bench_put(&b, tables, ((struct npu_attention *)tables)->bytes);
        op.src = q, op.src_stride = op.dst_stride = 4 * n, op.param = f32_bits(p.scale);
        op.dst = bench_put(&b, NULL, 4 * ROWS * n);
        bench_run(&b, &op, op.dst, 4 * ROWS * n);
        for (int row = 0; row < ROWS; row++) {
            double scratch[512];
            ref_attention(&c.view, 1, &p, row, x + (uint32_t)row * n, want, scratch);
            for (uint32_t e = 0; e < n; e++)
                check_close(((float *)npu_sim_host(b.sim, op.dst))[(uint32_t)row * n + e], want[e], 0, 0.01);
        }
        free(x), free(want), free(tables);
        bench_close(&b);
    }
}

/* The same operation with 1 to 6 threads in the emulator, in whatever order they come: the same bits, no race. */
static void same_bits(struct bench *b, const struct npu_op *op, uint32_t bytes)
{
    uint8_t *want = malloc(bytes);
    for (b->n_threads = 1; b->n_threads <= 6; b->n_threads++) {
        bench_sim(b, op, op->dst, bytes);
        if (b->n_threads == 1) memcpy(want, npu_sim_host(b->sim, op->dst), bytes);
        assert_memory_equal(npu_sim_host(b->sim, op->dst), want, bytes);
        memset(npu_sim_host(b->sim, op->dst), 0, bytes);
        npu_sim_host_wrote(b->sim, op->dst, bytes);
    }
    b->n_threads = 0;
    free(want);
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    enum { M = 40, K = 256, N = 224 };
    struct bench b;
    struct npu_weights w;
    struct cache c;
    uint32_t at, a, q;
    bench_open(&b, MEMORY_BYTES);
    b.machine.tcm_kept = 65536;
    struct npu_op op = {.code = NPU_OP_EXP_TABLE};
    bench_sim(&b, &op, 0, 0);
    float *x = put_floats(&b, M * K, 1, &a);
    for (int t = 0; t < N_TYPES; t += 4) {
        free(weights(&b, types[t], K, N, &w, &at));
        op = (struct npu_op){.code = NPU_OP_GEMM, .flags = BOTH, .m = M, .n = N, .k = K, .kind = w.kind, .src = a};
        op.weights = at, op.src_stride = 4 * K, op.dst_stride = 4 * N, op.dst = bench_put(&b, NULL, 4 * M * N);
        same_bits(&b, &op, 4 * M * N);
    }
    op = (struct npu_op){.code = NPU_OP_SWIGLU, .flags = BOTH, .m = M, .n = K / 2, .src = a, .weights = a};
    op.src_stride = op.dst_stride = 2 * K, op.dst = bench_put(&b, NULL, 4 * M * K);
    same_bits(&b, &op, 2 * M * K);
    op.code = NPU_OP_RMS_NORM;
    same_bits(&b, &op, 2 * M * K);
    open_cache(&c, &b, 80);
    fill_rows(&c);
    float *y = put_floats(&b, ROWS * 6 * 80 + 32, 3, &q);
    struct npu_attention_request r = {&c.view, c.at, draft_at(&c), ROWS, 3, 0};
    size_t bytes = npu_attention_bytes(ROWS, 192, 3);
    void *tables = calloc(1, bytes);
    npu_attention_tables(&r, tables, bytes);
    op = (struct npu_op){.code = NPU_OP_ATTENTION, .flags = BOTH, .m = ROWS, .n = 80, .k = 1, .src = q};
    op.rows = bench_put(&b, tables, ((struct npu_attention *)tables)->bytes);
    op.src_stride = op.dst_stride = 4 * 6 * 80, op.param = f32_bits(0.1f), op.dst = bench_put(&b, NULL, 4 * ROWS * 480);
    same_bits(&b, &op, 4 * ROWS * 480);
    free(x), free(y), free(tables);
    bench_close(&b);
}

int main(void)
{
    if (bench_missing()) printf("emulator only: %s\n", bench_missing());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings_are_those_of_the_file),
        cmocka_unit_test(gates_are_close),
        cmocka_unit_test(massive_rows_fit_halves),
        cmocka_unit_test(rows_are_taken),
        cmocka_unit_test(products_with_bias),
        cmocka_unit_test(head_reports_what_is_asked),
        cmocka_unit_test(keys_and_values_go_to_their_slots),
        cmocka_unit_test(attention_over_blocks_and_drafts),
        cmocka_unit_test(threads_do_not_change_a_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
