/* SPDX-License-Identifier: MIT
 *
 * Attention of the NPU against f64, with limits and trees; its rows do not know each other; emulator and Hexagon binary
 * agree bit for bit.
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
#include "attention_box.h"
#include "bench.h"

enum { BOTH = NPU_FROM_HOST | NPU_TO_HOST };

static uint64_t seed = 77;

static uint64_t next(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static float uniform(void)
{
    return (float)(int64_t)next() * 0x1p-63f;
}

/* A row sees key j if j < limit, or if bit j - base of its tree is set: its ancestors among the drafts. */
struct seen {
    uint32_t limit, base;
    uint64_t tree;
};

struct problem {
    uint32_t m, n, n_keys;   /* rows, head size, keys */
    float *q;                /* [m][n] */
    uint16_t *keys, *values; /* [n_keys rounded up to 64][n] */
    struct seen *rows;
    float scale, cap; /* cap of scores; 0: none */
    const float *sink;
};

static void make(struct problem *p, uint32_t m, uint32_t n, uint32_t n_keys)
{
    uint32_t all = (n_keys + 63) / 64 * 64;
    *p = (struct problem){m, n, n_keys, malloc(4 * m * n), malloc(2 * all * n), malloc(2 * all * n),
        malloc(m * sizeof *p->rows), 1 / sqrtf((float)n), 0, NULL};
    p->q = realloc(p->q, 4 * m * n + 128);
    for (uint32_t i = 0; i < m * n; i++) p->q[i] = uniform() * 4;
    for (uint32_t i = 0; i < all * n; i++) {
        /* Past the last key stands anything: not numbers. */
        p->keys[i] = i < n_keys * n ? f32_to_f16(uniform() * 2) : 0x7e00;
        p->values[i] = i < n_keys * n ? f32_to_f16(uniform() * 3) : 0x7c00;
    }
    for (uint32_t r = 0; r < m; r++) {
        uint32_t limit = (uint32_t)(next() % (n_keys + 1));
        uint64_t tree = next() & next();
        if (r % 4 == 0) limit = 0xffffffffu, tree = 0; /* everything */
        if (r % 4 == 1) tree = 0;                      /* a prefix, perhaps empty */
        p->rows[r] = (struct seen){limit, (uint32_t)(next() % (n_keys + 10)), tree};
    }
}

static void drop(struct problem *p)
{
    free(p->q), free(p->keys), free(p->values), free(p->rows);
}

static int sees(const struct seen *r, uint32_t key)
{
    return key < r->limit || (key >= r->base && key - r->base < 64 && r->tree >> (key - r->base) & 1);
}

static uint64_t mask_of(const void *user, uint32_t row, uint32_t segment)
{
    const struct problem *p = user;
    uint64_t mask = 0;
    for (uint32_t i = 0; i < 64; i++)
        mask |= (uint64_t)(segment * 64 + i < p->n_keys && sees(&p->rows[row], segment * 64 + i)) << i;
    return mask;
}

/* One row in f64, from the halves the NPU sees. */
static void reference(const struct problem *p, uint32_t r, double *out)
{
    double *s = malloc(p->n_keys * sizeof *s), most = -INFINITY, sum = 0;
    for (uint32_t k = 0; k < p->n_keys; k++) {
        s[k] = -INFINITY;
        if (!sees(&p->rows[r], k)) continue;
        s[k] = 0;
        for (uint32_t i = 0; i < p->n; i++)
            s[k] += (double)f16_to_f32(f32_to_f16(p->q[r * p->n + i] * p->scale)) * f16_to_f32(p->keys[k * p->n + i]);
        if (p->cap != 0) s[k] = p->cap * tanh(s[k] / p->cap);
        most = fmax(most, s[k]);
    }
    if (p->sink) most = fmax(most, *p->sink), sum = exp(*p->sink - most);
    memset(out, 0, p->n * sizeof *out);
    for (uint32_t k = 0; k < p->n_keys; k++) {
        if (!sees(&p->rows[r], k)) continue;
        double e = exp(s[k] - most);
        sum += e;
        for (uint32_t i = 0; i < p->n; i++) out[i] += e * f16_to_f32(p->values[k * p->n + i]);
    }
    for (uint32_t i = 0; i < p->n; i++) out[i] /= sum > 0 ? sum : 1;
    free(s);
}

/* Segments are placed in reverse order, so that the table of them matters. */
static uint32_t put_tables(struct bench *b, const struct problem *p)
{
    static struct attention_box box;
    uint32_t count = (p->n_keys + 63) / 64, bytes = 64 * 2 * p->n;
    struct npu_slot at[64] = {0};
    for (uint32_t i = count; i-- > 0;) {
        at[i].keys = bench_put(b, p->keys + i * 64 * p->n, bytes);
        at[i].values = bench_put(b, p->values + i * 64 * p->n, bytes);
    }
    attention_box_fill(&box, p->m, 1, 1, count, at, mask_of, p);
    return bench_put(b, &box, sizeof box);
}

static struct npu_op put(struct bench *b, const struct problem *p, uint32_t way)
{
    uint32_t bytes = 4 * p->m * p->n;
    struct npu_op op = {.code = NPU_OP_ATTENTION,
        .flags = BOTH,
        .kind = way,
        .m = p->m,
        .n = p->n,
        .src_stride = 4 * p->n,
        .dst_stride = 4 * p->n,
        .param = f32_bits(p->scale),
        .param2 = f32_bits(p->cap)};
    op.src = bench_put(b, p->q, bytes + 128);
    op.rows = put_tables(b, p);
    op.bias = p->sink ? bench_put(b, p->sink, 4) : 0;
    op.dst = bench_put(b, NULL, bytes);
    return op;
}

static void make_table(struct bench *b)
{
    b->machine.tcm_kept = 65536;
    struct npu_op op = {.code = NPU_OP_EXP_TABLE};
    bench_run(b, &op, 0, 0);
}

static void attention_is_close(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {{1, 64, 1}, {7, 64, 64}, {33, 64, 100}, {32, 128, 200}, {5, 128, 65},
        {9, 16, 70}, {40, 32, 130}, {3, 80, 65}, {4, 96, 64}, {5, 256, 90}};
    enum { N_SHAPES = sizeof shapes / sizeof *shapes };
    static const float sink = 1.5f;
    /* Scores of up to 16 are halves with a step of 2^-7: probabilities are off by up to 0.4 percent. */
    static const double bound[] = {[NPU_EXP_TABLE] = 0.012, [NPU_EXP_F16] = 0.03, [NPU_EXP_F32] = 0.012};
    /* Beyond the first three, a shape is with a cap and a sink or without. */
    for (int s = 0; s < 2 * N_SHAPES; s += s < 6 || getenv("LUTRA_TEST_LONG") ? 1 : s % 4 == 0 ? 3 : 1)
        for (uint32_t way = NPU_EXP_TABLE; way <= (s < 6 ? NPU_EXP_F32 : NPU_EXP_TABLE); way++) {
            struct bench b;
            struct problem p;
            double want[256], worst = 0;
            bench_open(&b, 1 << 20);
            make_table(&b);
            make(&p, shapes[s / 2][0], shapes[s / 2][1], shapes[s / 2][2]);
            if (s % 2) p.cap = 5, p.sink = &sink;
            struct npu_op op = put(&b, &p, way);
            bench_run(&b, &op, op.dst, 4 * p.m * p.n);
            const float *y = npu_sim_host(b.sim, op.dst);
            for (uint32_t r = 0; r < p.m; r++) {
                reference(&p, r, want);
                for (uint32_t i = 0; i < p.n; i++) {
                    double error = fabs(y[r * p.n + i] - want[i]);
                    if (!(error <= bound[way]))
                        fail_msg("way %u row %u: %g, wanted %g", way, r, y[r * p.n + i], want[i]);
                    worst = fmax(worst, error);
                }
            }
            printf("attention %2u rows, head %3u, %3u keys, exp %u: largest error %.5f of values up to 3\n", p.m, p.n,
                p.n_keys, way, worst);
            drop(&p);
            bench_close(&b);
        }
}

/* The same row alone and among 40 others gives the same bits. */
static void rows_do_not_know_each_other(void **state)
{
    (void)state;
    struct problem all;
    make(&all, 41, 64, 150);
    for (uint32_t way = NPU_EXP_TABLE; way <= NPU_EXP_F32; way++) {
        struct bench b;
        bench_open(&b, 1 << 20);
        make_table(&b);
        struct npu_op op = put(&b, &all, way);
        bench_sim(&b, &op, op.dst, 4 * all.m * all.n);
        for (uint32_t r = 0; r < all.m; r += 8) {
            struct problem one = all;
            one.m = 1, one.q = all.q + r * all.n, one.rows = all.rows + r;
            struct npu_op single = put(&b, &one, way);
            bench_sim(&b, &single, single.dst, 4 * one.n);
            const float *x = npu_sim_host(b.sim, op.dst), *y = npu_sim_host(b.sim, single.dst);
            assert_memory_equal(x + r * all.n, y, 4 * all.n);
        }
        bench_close(&b);
    }
    drop(&all);
}

static void a_row_that_sees_nothing_is_zero(void **state)
{
    (void)state;
    for (uint32_t way = NPU_EXP_TABLE; way <= NPU_EXP_F32; way++) {
        struct bench b;
        struct problem p;
        bench_open(&b, 1 << 20);
        make_table(&b);
        make(&p, 2, 64, 70);
        p.rows[0] = (struct seen){0, 70, ~0ull}; /* the tree lies past the keys */
        p.rows[1] = (struct seen){1, 0, 0};
        struct npu_op op = put(&b, &p, way);
        bench_run(&b, &op, op.dst, 4 * p.m * p.n);
        const float *y = npu_sim_host(b.sim, op.dst);
        for (int i = 0; i < 64; i++) {
            assert_true(y[i] == 0);
            assert_true(fabsf(y[64 + i] - f16_to_f32(p.values[i])) < 1e-5f); /* one key: its value, weight exactly 1 */
        }
        drop(&p);
        bench_close(&b);
    }
}

/* Between keys that rows see, too. */
static void keys_that_nobody_sees_may_hold_anything(void **state)
{
    (void)state;
    static const uint64_t tree = 0x8421000300c00011;
    for (uint32_t way = NPU_EXP_TABLE; way <= NPU_EXP_F32; way++) {
        struct bench b;
        struct problem p;
        double want[64];
        bench_open(&b, 1 << 20);
        make_table(&b);
        make(&p, 3, 64, 128);
        p.rows[0] = (struct seen){0, 0, tree};
        p.rows[1] = (struct seen){0, 0, tree & 0xffffffff};
        p.rows[2] = (struct seen){0, 64, tree};
        for (uint32_t k = 0; k < 128; k++)
            if (!(tree >> k % 64 & 1))
                for (uint32_t i = 0; i < p.n; i++) p.keys[k * p.n + i] = 0x7e00, p.values[k * p.n + i] = 0xfc00;
        struct npu_op op = put(&b, &p, way);
        bench_run(&b, &op, op.dst, 4 * p.m * p.n);
        const float *y = npu_sim_host(b.sim, op.dst);
        for (uint32_t r = 0; r < p.m; r++) {
            reference(&p, r, want);
            for (uint32_t i = 0; i < p.n; i++)
                if (!(fabs(y[r * p.n + i] - want[i]) <= 0.03))
                    fail_msg("way %u row %u: %g, wanted %g", way, r, y[r * p.n + i], want[i]);
        }
        drop(&p);
        bench_close(&b);
    }
}

/* Runs of a segment may name more keys than it has: those past its last are nobody's, and their place in TCM is not. */
static void keys_past_a_segment_are_left_alone(void **state)
{
    (void)state;
    struct bench b;
    struct problem p;
    bench_open(&b, 1 << 20);
    make_table(&b);
    make(&p, 5, 64, 192);
    struct npu_op op = put(&b, &p, NPU_EXP_TABLE);
    uint32_t bytes = 4 * p.m * p.n, want[5 * 64];
    bench_sim(&b, &op, op.dst, bytes);
    memcpy(want, npu_sim_host(b.sim, op.dst), bytes);
    struct attention_box *box = npu_sim_host(b.sim, op.rows);
    box->segments[1].n_runs = 2; /* its own 64 keys, then the next one's: behind its buffers lie tiles in use */
    npu_sim_host_wrote(b.sim, op.rows, sizeof *box);
    bench_sim(&b, &op, op.dst, bytes);
    if (memcmp(want, npu_sim_host(b.sim, op.dst), bytes)) fail_msg("keys past a segment's last changed the output");
    drop(&p);
    bench_close(&b);
}

int main(void)
{
    if (bench_missing()) printf("emulator only: %s\n", bench_missing());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_close),
        cmocka_unit_test(rows_do_not_know_each_other),
        cmocka_unit_test(a_row_that_sees_nothing_is_zero),
        cmocka_unit_test(keys_that_nobody_sees_may_hold_anything),
        cmocka_unit_test(keys_past_a_segment_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
