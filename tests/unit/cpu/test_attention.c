/* SPDX-License-Identifier: MIT
 *
 * Attention on the paged cache, every level of kernels this CPU has: right within a bound of the reference, and a
 * row's bits the same whatever stands beside it, wherever its K and V lie, and however the work is shared out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpuinfo.h"
#include "base/pool.h"
#include "cpu/attention.h"
#include "sanitized.h"
#include "unit/ops/kv_fixture.h"

enum { MAX_THREAD = 3, CANARY = 64 };

static struct cpu_attention levels[4];
static int n_level;

/* Largest error of an output, in units of the largest |v| (here 1): scores are sums of d_head products, and an error
 * of a score moves a probability by as much. */
static double bound_of(const struct cpu_attention *kernels, const enum quant_type *type)
{
    return !attention_is_f16(type) || !strcmp(kernels->numerics, "f32") ? 4e-6 : 4e-5;
}

static struct kv_fixture fix, other;

struct run_args {
    const struct cpu_attention *kernels;
    struct attention_args a;
    struct pool *pool;
};

static void run_thread(void *arg, int ith, int nth)
{
    struct run_args *r = arg;
    attention_run(r->kernels, &r->a, r->pool, ith, nth);
}

static struct pool *pools[MAX_THREAD + 1];

static size_t next_unit(void *context)
{
    return atomic_fetch_add((atomic_size_t *)context, 1);
}

/* Runs all rows of a fixture; out has room for them. */
static void attend(const struct cpu_attention *kernels, const struct kv_fixture *f, const struct op_attention *op,
    const float *q, float *out, int n_thread)
{
    size_t bytes = attention_scratch_bytes(op, f->n_row, FIX_TABLE * KV_BLOCK, n_thread);
    assert_true(bytes > 0);
    uint8_t *scratch = aligned_alloc(64, bytes + CANARY);
    memset(scratch, 0xff, bytes + CANARY); /* NaN: nothing may be read before it is written */
    struct run_args r = {.kernels = kernels,
        .pool = pools[n_thread],
        .a = {.op = op,
            .kv = &f->view,
            .n_row = f->n_row,
            .q = q,
            .out = out,
            .scratch = scratch,
            .scratch_bytes = bytes}};
    atomic_size_t units = 0;
    if (n_thread == 3) { /* handed out; otherwise in turns */
        r.a.next = next_unit;
        r.a.next_context = &units;
    }
    pool_run(r.pool, run_thread, &r);
    for (int i = 0; i < CANARY; i++) assert_int_equal(scratch[bytes + (size_t)i], 0xff);
    free(scratch);
}

static float *new_floats(size_t n)
{
    float *p = malloc((n + CANARY) * sizeof *p);
    memset(p, 0xee, (n + CANARY) * sizeof *p);
    return p;
}

static void check_canary(const float *p, size_t n)
{
    const uint8_t *b = (const uint8_t *)(p + n);
    for (size_t i = 0; i < CANARY * sizeof *p; i++) assert_int_equal(b[i], 0xee);
}

static size_t row_floats(const struct op_attention *op)
{
    return (size_t)op->n_head * (size_t)op->d_head;
}

/* Queries of a row: a function of `content`, so that two fixtures can ask the same. */
static void ask(const struct op_attention *op, float *q, uint32_t content)
{
    for (size_t i = 0; i < row_floats(op); i++) q[i] = 3 * fixture_noise(content, (uint32_t)i, 99);
}

static void check_against_reference(
    const struct op_attention *op, const float *q, const float *out, const struct cpu_attention *kernels)
{
    double bound = bound_of(kernels, fix.view.type);
    double *scratch = malloc(((size_t)FIX_TABLE * KV_BLOCK + 2 * (size_t)op->d_head) * sizeof *scratch);
    float *want = malloc(row_floats(op) * sizeof *want);
    for (int r = 0; r < fix.n_row; r++) {
        ref_attention(&fix.view, 0, op, r, q + (size_t)r * row_floats(op), want, scratch);
        for (size_t i = 0; i < row_floats(op); i++) {
            double error = fabs((double)out[(size_t)r * row_floats(op) + i] - want[i]);
            if (!(error <= bound)) fail_msg("%s: row %d element %zu: error %g", kernels->name, r, i, error);
        }
    }
    free(want);
    free(scratch);
}

/* Rows of every kind: samples over a shared prompt, a prompt chunk, a draft tree across a segment's end. */
static void add_mixed_rows(struct kv_fixture *f, int n_chunk)
{
    int prompt = fixture_sequence(f, 200, -1, 0);
    for (int s = 0; s < 3; s++) {
        int fork = fixture_sequence(f, 210 + 40 * s, prompt, 3);
        fixture_row(f, fork, -1, false);
    }
    int chunk = fixture_sequence(f, 30, -1, 0);
    for (int i = 0; i < n_chunk; i++) fixture_row(f, chunk, -1, false);
    int tree = fixture_sequence(f, 190, prompt, 2), empty = fixture_sequence(f, 0, -1, 0);
    int a = fixture_row(f, tree, -1, true), b = fixture_row(f, tree, a, true), c = fixture_row(f, tree, a, true);
    int d = fixture_row(f, tree, b, true);
    fixture_row(f, tree, c, true);
    fixture_row(f, tree, d, true);
    int first = fixture_row(f, empty, -1, true);
    fixture_row(f, empty, first, true);
    fixture_finish(f);
}

/* Of K and V; the first three take heads of any size. */
static const enum quant_type types[][2] = {{QUANT_F32, QUANT_F32}, {QUANT_F16, QUANT_F16}, {QUANT_F32, QUANT_F16},
    {QUANT_Q8_0, QUANT_Q8_0}, {QUANT_Q4_0, QUANT_Q4_0}, {QUANT_Q4_1, QUANT_Q4_1}, {QUANT_Q5_0, QUANT_Q5_0},
    {QUANT_F16, QUANT_Q4_0}, {QUANT_Q5_0, QUANT_F32}, {QUANT_Q8_0, QUANT_Q4_1}};
enum { N_TYPES = sizeof types / sizeof *types };

static void close_to_reference_at_all_shapes(void **state)
{
    (void)state;
    static const int sizes[] = {8, 10, 16, 24, 30, 32, 40, 64, 72, 80, 96, 100, 108, 128, 136, 192, 256};
    static const int groups[] = {1, 2, 3, 6, 7, 8};
    float sinks[32];
    for (int i = 0; i < 32; i++) sinks[i] = (float)(i % 7) - 3;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i += SANITIZED ? 2 : 1) {
        for (size_t g = SANITIZED ? i % 3 : 0; g < sizeof groups / sizeof *groups; g += SANITIZED ? 3 : 1) {
            int variant = (int)(i + g) % 4, n_kv_head = 1 + (int)(i % 3);
            struct op_attention op = {.n_head = n_kv_head * groups[g],
                .n_kv_head = n_kv_head,
                .d_head = sizes[i],
                .scale = 1 / sqrtf((float)sizes[i])};
            if (variant == 1) op.softcap = 2;
            if (variant == 2) op.window = 70;
            if (variant == 3) op.sinks = sinks;
            const enum quant_type *type = types[(i + g) % (sizes[i] % 32 == 0 ? N_TYPES : 3)];
            fixture_open_types(
                &fix, type[0], type[1], &(struct op_layer){.n_kv_head = n_kv_head, .d_head = sizes[i]}, 1, FIX_BLOCKS);
            add_mixed_rows(&fix, 5 + (int)g * 7);
            size_t n = row_floats(&op) * (size_t)fix.n_row;
            float *q = new_floats(n), *out = new_floats(n);
            for (int r = 0; r < fix.n_row; r++) ask(&op, q + (size_t)r * row_floats(&op), (uint32_t)r);
            for (int k = 0; k < n_level; k++) {
                attend(&levels[k], &fix, &op, q, out, 1 + (int)(i + g + (size_t)k) % MAX_THREAD);
                check_canary(out, n);
                check_against_reference(&op, q, out, &levels[k]);
            }
            free(q);
            free(out);
            fixture_close(&fix);
        }
    }
}

/* Row `row` of `many` has the bits of the same computed alone, or behind nothing but the drafts above it. */
static void expect_alone(
    const struct op_attention *op, const struct cpu_attention *kernels, const float *q, const float *many, int row)
{
    struct kv_fixture *alone = &other;
    int n = fix.row[row].n_path > 1 ? fix.row[row].n_path : 1;
    size_t each = row_floats(op), last = (size_t)(n - 1) * each;
    float *own = new_floats((size_t)n * each), *out = new_floats((size_t)n * each);
    *alone = fix;
    alone->n_row = n;
    for (int i = n - 1, from = row; i >= 0; i--, from = fix.row[from].up) {
        alone->row[i] = fix.row[from];
        alone->row[i].up = i - 1;
        memcpy(own + (size_t)i * each, q + (size_t)from * each, each * sizeof *q);
    }
    fixture_finish(alone);
    alone->view.row = alone->row;
    alone->view.item = alone->item;
    alone->view.item_row = alone->item_row;
    for (int t = 1; t <= MAX_THREAD; t++) {
        attend(kernels, alone, op, own, out, t);
        if (memcmp(out + last, many + (size_t)row * each, each * sizeof *out) != 0) {
            fail_msg("%s: row %d alone on %d threads has other bits", kernels->name, row, t);
        }
    }
    free(own);
    free(out);
}

static void check_batch(const enum quant_type *type, int n_head, int n_kv_head, int d_head, int window, int n_chunk)
{
    struct op_attention op = {
        .n_head = n_head, .n_kv_head = n_kv_head, .d_head = d_head, .scale = 0.2f, .window = window};
    fixture_open_types(
        &fix, type[0], type[1], &(struct op_layer){.n_kv_head = n_kv_head, .d_head = d_head}, 1, FIX_BLOCKS);
    add_mixed_rows(&fix, n_chunk);
    size_t n = row_floats(&op) * (size_t)fix.n_row;
    float *q = new_floats(n), *out = new_floats(n), *again = new_floats(n);
    for (int r = 0; r < fix.n_row; r++) ask(&op, q + (size_t)r * row_floats(&op), (uint32_t)r);
    for (int k = 0; k < n_level; k++) {
        attend(&levels[k], &fix, &op, q, out, 1);
        for (int t = 2; t <= MAX_THREAD; t++) {
            attend(&levels[k], &fix, &op, q, again, t);
            assert_memory_equal(out, again, n * sizeof *out);
        }
        memcpy(again, q, n * sizeof *q); /* in place */
        attend(&levels[k], &fix, &op, again, again, 2);
        assert_memory_equal(out, again, n * sizeof *out);
        for (int r = 0; r < fix.n_row; r += 1 + fix.n_row / (SANITIZED ? 5 : 20))
            expect_alone(&op, &levels[k], q, out, r);
    }
    free(q);
    free(out);
    free(again);
    fixture_close(&fix);
}

/* Groups that fill a tile of queries, leave it half empty, or end anywhere in it: a row's queries stand in other
 * columns alone than beside others. */
static void bits_do_not_depend_on_the_batch(void **state)
{
    (void)state;
    static const int counts[] = {1, 2, 3, 5, 8, 16, 33, 64, 200};
    static const int shapes[][3] = {{12, 2, 128}, {7, 1, 64}, {4, 4, 16}, {16, 2, 32}, {9, 1, 96}};
    enum { N_COUNT = sizeof counts / sizeof *counts, N_SHAPE = sizeof shapes / sizeof *shapes };
    for (int c = 0; c < N_COUNT; c += SANITIZED ? 2 : 1) check_batch(types[1], 6, 2, 40, c & 1 ? 100 : 0, counts[c]);
    for (int i = 0; i < N_SHAPE; i += SANITIZED ? 2 : 1) {
        for (int c = i % 2; c < N_COUNT - 1; c += 2) {
            check_batch(types[1], shapes[i][0], shapes[i][1], shapes[i][2], i & 1 ? 100 : 0, counts[c]);
        }
    }
}

static void bits_of_rotated_types_do_not_depend_on_the_batch(void **state)
{
    (void)state;
    static const int counts[] = {1, 5, 16, 64};
    for (int t = 4; t < N_TYPES; t += SANITIZED ? 2 : 1)
        for (int c = SANITIZED ? t % 4 : 0; c < 4; c += SANITIZED ? 4 : 1)
            check_batch(types[t], 6, 2, t & 1 ? 96 : 64, c & 1 ? 100 : 0, counts[c]);
}

/* An element ten times the others takes the codes of its 32, unless vectors are rotated before they are rounded. */
static void rotation_spreads_what_is_large(void **state)
{
    (void)state;
    enum { D = 128 };
    const struct quant_info *q4 = quant_info_of(QUANT_Q4_0);
    double error[2] = {0};
    for (int v = 0; v < 20; v++)
        for (int rotated = 0; rotated < 2; rotated++) {
            uint8_t block[D / 32 * sizeof(struct quant_q4_0)];
            float x[D], y[D];
            for (int i = 0; i < D; i++) x[i] = (i % 32 == 5 ? 10 : 1) * fixture_noise((uint32_t)v, (uint32_t)i, 1);
            if (rotated) kv_round(QUANT_Q4_0, x, block, D);
            if (!rotated) q4->quantize(x, block, D);
            q4->dequantize(block, y, D);
            if (rotated) kv_rotate(y, D);
            for (int i = 0; i < D; i++) error[rotated] += pow((double)y[i] - (double)x[i], 2);
        }
    assert_true(error[1] < error[0] / 2);
}

/* Its own inverse, and it keeps lengths: 96 elements are three stretches of 32. */
static void rotation_is_its_own_inverse(void **state)
{
    (void)state;
    static const int sizes[] = {32, 64, 96, 160, 256, 512};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        float x[512], y[512];
        double before = 0, after = 0;
        for (int i = 0; i < sizes[s]; i++) y[i] = x[i] = fixture_noise(9, (uint32_t)i, (uint32_t)s);
        kv_rotate(y, sizes[s]);
        int moved = 0;
        for (int i = 0; i < sizes[s]; i++) before += x[i] * x[i], after += y[i] * y[i], moved += x[i] != y[i];
        assert_true(moved > sizes[s] / 2 && fabs(after / before - 1) < 1e-6);
        kv_rotate(y, sizes[s]);
        for (int i = 0; i < sizes[s]; i++) assert_true(fabsf(y[i] - x[i]) < 1e-6f);
    }
    float one[96] = {0};
    one[33] = 1;
    kv_rotate(one, 96);
    for (int i = 0; i < 96; i++) assert_true(i / 32 == 1 ? fabsf(fabsf(one[i]) - 0.1767767f) < 1e-6f : one[i] == 0);
}

/* The same tokens as drafts over 100 committed ones, as rows of a chunk, and in private blocks. */
static void check_places(enum quant_type type)
{
    enum { N = 40 };
    struct op_attention op = {.n_head = 7, .n_kv_head = 1, .d_head = 64, .scale = 0.125f};
    fixture_open(&fix, type, 1, 64);
    int drafts = fixture_sequence_of(&fix, 100, -1, 0, 5), shares = fixture_sequence_of(&fix, 100, drafts, 1, 5);
    int private = fixture_sequence_of(&fix, 100, -1, 0, 5);
    for (int i = 0, parent = -1; i < N; i++) parent = fixture_row_of(&fix, drafts, parent, true, 500);
    for (int i = 0; i < N; i++) fixture_row_of(&fix, shares, -1, false, 500);
    for (int i = 0; i < N; i++) fixture_row_of(&fix, private, -1, false, 500);
    fixture_finish(&fix);
    size_t n = row_floats(&op) * (size_t)fix.n_row;
    float *q = new_floats(n), *out = new_floats(n);
    for (int r = 0; r < fix.n_row; r++) ask(&op, q + (size_t)r * row_floats(&op), (uint32_t)(r % N));
    for (int k = 0; k < n_level; k++) {
        for (int t = 1; t <= MAX_THREAD; t++) {
            attend(&levels[k], &fix, &op, q, out, t);
            assert_memory_equal(out, out + n / 3, n / 3 * sizeof *out);
            assert_memory_equal(out, out + 2 * n / 3, n / 3 * sizeof *out);
        }
    }
    free(q);
    free(out);
    fixture_close(&fix);
}

static void bits_do_not_depend_on_where_the_cache_lies(void **state)
{
    (void)state;
    check_places(QUANT_F16);
    check_places(QUANT_Q8_0);
    check_places(QUANT_Q4_0);
    check_places(QUANT_Q5_0);
}

/* A neighbour whose K and V are infinite must not reach a row that does not see it. */
static void check_masked(enum quant_type type)
{
    struct op_attention op = {.n_head = 2, .n_kv_head = 1, .d_head = 16, .scale = 0.25f};
    fixture_open(&fix, type, 1, 16);
    int s = fixture_sequence(&fix, 10, -1, 0);
    for (int i = 0; i < 6; i++) fixture_row(&fix, s, -1, false);
    fixture_finish(&fix);
    float k[16], v[16], *q = new_floats(6 * 32), *out = new_floats(6 * 32);
    for (int d = 0; d < 16; d++) k[d] = v[d] = INFINITY;
    for (int r = 0; r < 6; r++) ask(&op, q + r * 32, 7);
    ref_kv_append(&fix.view, 0, 5, k, v);
    for (int level = 0; level < n_level; level++) {
        attend(&levels[level], &fix, &op, q, out, 1);
        for (int i = 0; i < 5 * 32; i++) assert_true(isfinite(out[i]));
        assert_false(isfinite(out[5 * 32]));
        for (int r = 0; r < 5; r++) expect_alone(&op, &levels[level], q, out, r);
    }
    free(q);
    free(out);
    fixture_close(&fix);
}

static void masked_positions_are_never_multiplied(void **state)
{
    (void)state;
    check_masked(QUANT_F32);
    check_masked(QUANT_F16);
}

static atomic_int n_load;
static struct cpu_attention counted_kernels;

static void counted_load(const struct attention_load *a, struct attention_segment *s)
{
    atomic_fetch_add(&n_load, 1);
    counted_kernels.load(a, s);
}

/* 8 samples over one prompt of 40 blocks: each of its blocks is loaded once per kv head, not once per sample. */
static void a_shared_prompt_is_read_once(void **state)
{
    (void)state;
    enum { SHARED = 40, SAMPLES = 8 };
    struct op_attention op = {.n_head = 12, .n_kv_head = 2, .d_head = 16, .scale = 0.25f};
    fixture_open(&fix, QUANT_F16, 2, 16);
    int prompt = fixture_sequence(&fix, SHARED * KV_BLOCK, -1, 0);
    for (int i = 0; i < SAMPLES; i++) {
        fixture_row(&fix, fixture_sequence(&fix, SHARED * KV_BLOCK + 20, prompt, SHARED), -1, false);
    }
    fixture_finish(&fix);
    size_t n = row_floats(&op) * SAMPLES;
    float *q = new_floats(n), *out = new_floats(n);
    for (int r = 0; r < SAMPLES; r++) ask(&op, q + (size_t)r * row_floats(&op), (uint32_t)r);
    counted_kernels = levels[n_level - 1];
    struct cpu_attention counting = counted_kernels;
    counting.load = counted_load;
    for (int t = 1; t <= MAX_THREAD; t++) {
        atomic_store(&n_load, 0);
        attend(&counting, &fix, &op, q, out, t);
        assert_int_equal(atomic_load(&n_load), (SHARED + SAMPLES) * op.n_kv_head);
    }
    check_against_reference(&op, q, out, &counting);
    free(q);
    free(out);
    fixture_close(&fix);
}

/* A tree of 16 drafts with 4 leaves, offered best first as drafters do: its 20 blocks once, and the segments with
 * drafts once for each leaf, not for each row. */
static void a_path_of_drafts_is_read_once(void **state)
{
    (void)state;
    enum { DRAFTS = 16, LEAVES = 4, WHOLE = 20, ROWS = DRAFTS + 1 };
    struct op_attention op = {.n_head = 12, .n_kv_head = 2, .d_head = 16, .scale = 0.25f};
    fixture_open(&fix, QUANT_F16, 2, 16);
    int seq = fixture_sequence(&fix, WHOLE * KV_BLOCK + 62, -1, 0),
        row[DRAFTS]; /* drafts reach into the next segment */
    for (int i = 0; i < DRAFTS; i++) row[i] = fixture_row(&fix, seq, i < LEAVES ? -1 : row[i - LEAVES], true);
    fixture_row(&fix, fixture_sequence(&fix, 40, -1, 0), -1, false);
    fixture_finish(&fix);
    size_t n = row_floats(&op) * ROWS;
    float *q = new_floats(n), *out = new_floats(n);
    for (int r = 0; r < ROWS; r++) ask(&op, q + (size_t)r * row_floats(&op), (uint32_t)r);
    counted_kernels = levels[n_level - 1];
    struct cpu_attention counting = counted_kernels;
    counting.load = counted_load;
    for (int t = 1; t <= 2; t++) { /* more threads cut the rows into tiles */
        atomic_store(&n_load, 0);
        attend(&counting, &fix, &op, q, out, t);
        assert_int_equal(atomic_load(&n_load), (WHOLE + 1 + 2 * LEAVES) * op.n_kv_head);
    }
    check_against_reference(&op, q, out, &counting);
    free(q);
    free(out);
    fixture_close(&fix);
}

static int open_levels(void **state)
{
    (void)state;
    attention_init_ref(&levels[n_level++]);
    uint32_t isa = cpu_isa();
#if defined(__x86_64__)
    if (isa & CPU_AVX2) attention_init_avx2(&levels[n_level++]);
    if (isa & CPU_AVX512) attention_init_avx512(&levels[n_level++]);
    if (isa & CPU_AMX) attention_init_amx(&levels[n_level++]);
#endif
    for (int t = 1; t <= MAX_THREAD; t++) {
        if (pool_open(&pools[t], &(struct pool_settings){.n_thread = t, .all = true}, NULL) < 0) return -1;
    }
    return 0;
}

static int close_levels(void **state)
{
    (void)state;
    for (int t = 1; t <= MAX_THREAD; t++) pool_close(&pools[t]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_to_reference_at_all_shapes),
        cmocka_unit_test(bits_do_not_depend_on_the_batch),
        cmocka_unit_test(bits_of_rotated_types_do_not_depend_on_the_batch),
        cmocka_unit_test(rotation_spreads_what_is_large),
        cmocka_unit_test(rotation_is_its_own_inverse),
        cmocka_unit_test(bits_do_not_depend_on_where_the_cache_lies),
        cmocka_unit_test(masked_positions_are_never_multiplied),
        cmocka_unit_test(a_shared_prompt_is_read_once),
        cmocka_unit_test(a_path_of_drafts_is_read_once),
    };
    return cmocka_run_group_tests(tests, open_levels, close_levels);
}
