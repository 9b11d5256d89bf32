/* SPDX-License-Identifier: MIT
 *
 * The reference operations against closed forms and values worked out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/f16.h"
#include "ops/batch.h"
#include "ops/ref/ref.h"
#include "unit/ops/kv_fixture.h"

static void close_to(double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound)) fail_msg("got %.9g, want %.9g +- %.1g", got, want, bound);
}

/* ---- weights ---- */

static void embed_reads_unaligned_rows(void **state)
{
    (void)state;
    uint8_t bytes[3 * 4 * 2 + 1];
    for (int i = 0; i < 12; i++) {
        uint16_t h = f32_to_f16((float)(i - 5) * 0.5f);
        memcpy(bytes + 1 + 2 * i, &h, 2);
    }
    struct tensor w = {.type = QUANT_F16, .n_dim = 2, .ne = {4, 3, 1, 1}, .data = bytes + 1, .bytes = 24};
    float out[4];
    ref_embed(&w, 2, 3.0f, out);
    for (int i = 0; i < 4; i++) close_to(out[i], (8 + i - 5) * 0.5 * 3, 0);
}

static void embed_reads_blocks(void **state)
{
    (void)state;
    /* Q8_0: value = d * q.  Two rows of 32. */
    struct quant_q8_0 w_data[2];
    for (int r = 0; r < 2; r++) {
        w_data[r].d = f32_to_f16(r ? 0.25f : 1.0f);
        for (int i = 0; i < 32; i++) w_data[r].qs[i] = (int8_t)(i - 16);
    }
    struct tensor w = {.type = QUANT_Q8_0, .n_dim = 2, .ne = {32, 2, 1, 1}, .data = w_data, .bytes = sizeof w_data};
    float out[32];
    ref_embed(&w, 1, 1.0f, out);
    for (int i = 0; i < 32; i++) close_to(out[i], (i - 16) * 0.25, 0);
}

static void matmul_of_small_integers(void **state)
{
    (void)state;
    /* w[o][i] = o - i, x[r][i] = r + 1: sum over i of (o - i)(r + 1) = (r + 1)(n o - n (n - 1) / 2). */
    enum { N_IN = 300, N_OUT = 5, N_ROW = 19 }; /* N_IN is not a whole number of runs, N_ROW not of row tiles */
    static float wd[N_OUT][N_IN], x[N_ROW][N_IN], out[N_ROW][N_OUT];
    float bias[N_OUT];
    for (int o = 0; o < N_OUT; o++) {
        bias[o] = 0.5f * o;
        for (int i = 0; i < N_IN; i++) wd[o][i] = (float)(o - i);
    }
    for (int r = 0; r < N_ROW; r++) {
        for (int i = 0; i < N_IN; i++) x[r][i] = (float)(r + 1);
    }
    struct tensor w = {.type = QUANT_F32, .n_dim = 2, .ne = {N_IN, N_OUT, 1, 1}, .data = wd, .bytes = sizeof wd};
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        ref_matmul(&w, with_bias ? bias : NULL, x[0], out[0], N_ROW);
        for (int r = 0; r < N_ROW; r++) {
            for (int o = 0; o < N_OUT; o++) {
                double want = (r + 1) * (N_IN * o - N_IN * (N_IN - 1) / 2.0) + (with_bias ? 0.5 * o : 0);
                close_to(out[r][o], want, fabs(want) * 1e-7);
            }
        }
    }
}

/* ---- rows ---- */

static void rms_norm_by_hand(void **state)
{
    (void)state;
    float x[4] = {3, 4, 0, 0}, w[4] = {1, 2, 3, 4}, out[4];
    ref_rms_norm(x, w, 0, out, 4, 4); /* mean square 25/4, scale 0.4 */
    close_to(out[0], 1.2, 1e-7);
    close_to(out[1], 3.2, 3e-7);
    close_to(out[2], 0, 0);
    ref_rms_norm(x, w, 0, x, 4, 2); /* groups of 2, in place: scale sqrt(2)/5 of the first */
    close_to(x[0], 3 * sqrt(2) / 5, 1e-6);
    close_to(x[1], 2 * 4 * sqrt(2) / 5, 1e-6);
    float zero[2] = {0, 0};
    ref_rms_norm(zero, w, 1e-6f, out, 2, 2);
    close_to(out[0], 0, 0);
}

static void rope_turns_pairs(void **state)
{
    (void)state;
    /* freq_base 10000, n_rot 4: pair 0 turns by pos, pair 1 by pos/100. */
    struct op_rope p = {
        .kind = ROPE_NORM, .n_head = 2, .d_head = 6, .n_rot = 4, .freq_base = 10000, .freq_scale = 1, .magnitude = 1};
    float x[12] = {1, 0, 0, 1, 7, 8, 0, 2, 1, 1, 9, 10};
    ref_rope(&p, 3, x);
    close_to(x[0], cos(3), 1e-7);
    close_to(x[1], sin(3), 1e-7);
    close_to(x[2], -sin(0.03), 1e-7);
    close_to(x[3], cos(0.03), 1e-7);
    close_to(x[4], 7, 0); /* beyond n_rot */
    close_to(x[6], -2 * sin(3), 3e-7);
    close_to(x[11], 10, 0);

    float factors[2] = {2, 8};
    p = (struct op_rope){.kind = ROPE_NEOX,
        .n_head = 1,
        .d_head = 4,
        .n_rot = 4,
        .freq_base = 100,
        .freq_scale = 0.5f,
        .factors = factors,
        .magnitude = 1.5f};
    float y[4] = {1, 0, 0, 1}; /* pairs (0,2) and (1,3) */
    ref_rope(&p, 8, y);        /* theta = 8 * 0.5 / 2 = 2, and 8 * 0.5 * 0.1 / 8 = 0.05 */
    close_to(y[0], 1.5 * cos(2), 3e-7);
    close_to(y[2], 1.5 * sin(2), 3e-7);
    close_to(y[1], -1.5 * sin(0.05), 3e-7);
    close_to(y[3], 1.5 * cos(0.05), 3e-7);
    float cs[4];
    ref_rope_table(&p, 8, cs);
    close_to(cs[1], 1.5 * sin(2), 2e-7);
    close_to(cs[2], 1.5 * cos(0.05), 2e-7);
}

static void gates_at_known_points(void **state)
{
    (void)state;
    float g[5] = {0, 1, -1, 100, -100}, u[5] = {5, 2, 2, 1, 1}, out[5];
    ref_swiglu(g, u, out, 5);
    close_to(out[0], 0, 0);
    close_to(out[1], 2 * 0.7310585786300049, 3e-7);
    close_to(out[2], 2 * -0.2689414213699951, 1e-7);
    close_to(out[3], 100, 0);
    close_to(out[4], 0, 1e-30);
    ref_geglu(g, u, out, 5);
    close_to(out[1], 2 * 0.8411919906082768, 3e-7);
    close_to(out[2], 2 * -0.15880800939172324, 1e-7);
    close_to(out[3], 100, 0);
    ref_relu2(g, u, out, 5);
    close_to(out[1], 2, 0);
    close_to(out[2], 0, 0);
    close_to(out[3], 10000, 0);
    ref_add(g, u, out, 5);
    close_to(out[3], 101, 0);
}

static void take_picks_rows(void **state)
{
    (void)state;
    float x[4][3], out[2][3];
    for (int i = 0; i < 12; i++) x[i / 3][i % 3] = (float)i;
    ref_take(x[0], (int32_t[]){1, 3}, 2, 3, out[0]);
    close_to(out[0][2], 5, 0);
    close_to(out[1][0], 9, 0);
}

static void permute_puts_in_order(void **state)
{
    (void)state;
    float x[4] = {10, 11, 12, 13}, out[4];
    ref_permute(x, (int32_t[]){2, 0, 3, 1}, out, 4);
    close_to(out[0], 12, 0);
    close_to(out[1], 10, 0);
    close_to(out[2], 13, 0);
    close_to(out[3], 11, 0);
}

/* ---- attention ---- */

/* By brute force in position order, with nothing but the vectors a row must see.  seen: content ids per position. */
static void expect_attention(
    const struct kv_fixture *f, const struct op_attention *p, int row, const float *q, const float *out)
{
    const struct kv_row *r = &f->row[row];
    int n = r->n_paged + r->n_path, dh = p->d_head;
    float vec[256];
    for (int h = 0; h < p->n_head; h++) {
        int kvh = h / (p->n_head / p->n_kv_head);
        double sum = p->sinks ? exp(p->sinks[h]) : 0, o[256] = {0};
        for (int pos = 0; pos < n; pos++) {
            if (p->window && pos <= n - 1 - p->window) continue;
            double s = 0;
            ref_kv_read(&f->view, 0, KV_K, kvh, row, pos, vec);
            for (int d = 0; d < dh; d++) s += (double)q[h * dh + d] * vec[d];
            s *= p->scale;
            if (p->softcap != 0) s = p->softcap * tanh(s / p->softcap);
            ref_kv_read(&f->view, 0, KV_V, kvh, row, pos, vec);
            for (int d = 0; d < dh; d++) o[d] += exp(s) * vec[d];
            sum += exp(s);
        }
        for (int d = 0; d < dh; d++) close_to(out[h * dh + d], o[d] / sum, 1e-6);
    }
}

static void attention_of_chosen_values(void **state)
{
    (void)state;
    /* One head of size 8; K equal everywhere, so the output is the mean of the V seen: V = position. */
    static struct kv_fixture f;
    fixture_open(&f, QUANT_F32, 1, 8);
    int s = fixture_sequence(&f, 70, -1, 0);
    int r = fixture_row(&f, s, -1, false);
    fixture_finish(&f);
    for (int pos = 0; pos <= 70; pos++) {
        float *k = (float *)kv_block_at(&f.view, 0, KV_K, f.table[pos / 64]) + pos % 64 * 8;
        float *v = (float *)kv_block_at(&f.view, 0, KV_V, f.table[pos / 64]) + pos % 64 * 8;
        for (int d = 0; d < 8; d++) k[d] = 1, v[d] = (float)(pos * (d + 1));
    }
    float q[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8];
    double scratch[71 + 16];
    struct op_attention p = {.n_head = 1, .n_kv_head = 1, .d_head = 8, .scale = 0.25f};
    ref_attention(&f.view, 0, &p, r, q, out, scratch);
    for (int d = 0; d < 8; d++) close_to(out[d], 35.0 * (d + 1), 1e-4); /* mean of 0..70 */
    p.window = 11;
    ref_attention(&f.view, 0, &p, r, q, out, scratch);
    close_to(out[0], 65, 1e-5); /* mean of 60..70 */
    /* A sink as strong as the 11 scores together halves the output: score = 36 / 4 = 9. */
    float sink = (float)(9 + log(11));
    p.sinks = &sink;
    ref_attention(&f.view, 0, &p, r, q, out, scratch);
    close_to(out[0], 32.5, 1e-4);
    fixture_close(&f);
}

static void attention_sees_prompt_and_ancestors_only(void **state)
{
    (void)state;
    static struct kv_fixture f;
    fixture_open(&f, QUANT_F16, 2, 16);
    int a = fixture_sequence(&f, 126, -1, 0), b = fixture_sequence(&f, 130, a, 1);
    /* a: a tree over the end of block 1;  b: two direct rows.
     *   0 - 1 - 2 - 3
     *    \- 4 - 5       */
    int r0 = fixture_row(&f, a, -1, true), r1 = fixture_row(&f, a, r0, true), r2 = fixture_row(&f, a, r1, true);
    int r3 = fixture_row(&f, a, r2, true), r4 = fixture_row(&f, a, r0, true), r5 = fixture_row(&f, a, r4, true);
    int r6 = fixture_row(&f, b, -1, false), r7 = fixture_row(&f, b, r6, false);
    fixture_finish(&f);
    assert_int_equal(f.row[r3].n_path, 4);
    assert_int_equal(f.row[r5].n_path, 3);
    assert_int_equal(kv_draft_row(&f.view, r5, 127), r4); /* not r1 */
    assert_int_equal(f.row[r7].n_paged, 132);

    float q[6 * 16], out[6 * 16];
    double scratch[200];
    float sinks[6] = {0, 1, -1, 0.5f, 2, -3};
    for (int i = 0; i < 96; i++) q[i] = 2 * fixture_noise(77, (uint32_t)i, 0);
    for (int variant = 0; variant < 4; variant++) {
        struct op_attention p = {.n_head = 6, .n_kv_head = 2, .d_head = 16, .scale = 0.25f};
        if (variant == 1) p.window = 5;
        if (variant == 2) p.softcap = 0.7f;
        if (variant == 3) p.sinks = sinks;
        for (int r = 0; r < f.n_row; r++) {
            ref_attention(&f.view, 0, &p, r, q, out, scratch);
            expect_attention(&f, &p, r, q, out);
        }
    }
    fixture_close(&f);
}

static void commit_gives_the_cache_of_direct_rows(void **state)
{
    (void)state;
    /* Draft rows 0 - 1 of one sequence, and the same tokens written straight into another. */
    static struct kv_fixture f;
    fixture_open(&f, QUANT_F16, 2, 8);
    int a = fixture_sequence_of(&f, 63, -1, 0, 5), b = fixture_sequence_of(&f, 63, -1, 0, 5);
    int d0 = fixture_row_of(&f, a, -1, true, 100), d1 = fixture_row_of(&f, a, d0, true, 101);
    int e0 = fixture_row_of(&f, b, -1, false, 100), e1 = fixture_row_of(&f, b, e0, false, 101);
    fixture_finish(&f);
    float q[16], from_draft[16], from_block[16];
    double scratch[100];
    struct op_attention p = {.n_head = 2, .n_kv_head = 2, .d_head = 8, .scale = 1};
    for (int i = 0; i < 16; i++) q[i] = fixture_noise(3, (uint32_t)i, 1);
    ref_attention(&f.view, 0, &p, d1, q, from_draft, scratch);
    ref_attention(&f.view, 0, &p, e1, q, from_block, scratch);
    assert_memory_equal(from_draft, from_block, sizeof from_draft);
    fixture_close(&f);
}

/* ---- head ---- */

static void rows_are_rounded_to_127_steps(void **state)
{
    (void)state;
    float x[] = {-254, 3, 5, 0.9f, 252.9f}, small[] = {1e-6f, -4e-8f, 0};
    const float want[] = {-254, 4, 4, 0, 252}; /* steps of 2, the middle to the even code */
    ref_round_row(x, 5, x);
    for (int i = 0; i < 5; i++) close_to(x[i], want[i], 1e-4);
    ref_round_row(small, 3, small); /* a row of almost nothing counts as one of 1e-5 */
    close_to(small[0], 13 * 1e-5 / 127, 1e-12);
    close_to(small[1], -1e-5 / 127, 1e-12);
    assert_true(small[2] == 0);
    x[3] = NAN;
    ref_round_row(x, 5, x);
    assert_true(isnan(x[3]));
}

static void head_ranks_and_sums(void **state)
{
    (void)state;
    float logits[] = {1, 3, 3, -INFINITY, NAN, 2, 3};
    int32_t id[7];
    float top[7];
    assert_int_equal(ref_top_k(logits, NULL, 7, 4, id, top), 4);
    assert_int_equal(id[0], 1); /* ties by lower id */
    assert_int_equal(id[1], 2);
    assert_int_equal(id[2], 6);
    assert_int_equal(id[3], 5);
    assert_int_equal(ref_top_k(logits, NULL, 7, 64, id, top), 7);
    assert_int_equal(id[4], 0);
    assert_int_equal(id[5], 3);
    assert_int_equal(id[6], 4);

    assert_int_equal(ref_top_k(logits, &(uint64_t){1 << 0 | 1 << 2 | 1 << 3 | 1 << 6}, 7, 3, id, top), 3);
    assert_memory_equal(id, ((int32_t[]){2, 6, 0}), 3 * sizeof *id);
    assert_int_equal(ref_top_k(logits, &(uint64_t){0}, 7, 3, id, top), 0);

    float many[1000];
    for (int i = 0; i < 1000; i++) many[i] = 500;
    close_to(ref_log_sum_exp(many, 1000), 500 + log(1000), 1e-4);
    close_to(ref_log_sum_exp((float[]){0, 1}, 2), 1.3132616875182228, 1e-6);

    float top64[64];
    int32_t id64[64];
    float listed[2];
    struct row_result result = {.top_id = id64, .top_logit = top64, .listed_logit = listed};
    many[9] = 499;
    struct row row = {.want = WANT_TOPK | WANT_LOGPROB, .n_listed = 2, .listed = (int32_t[]){7, 9}};
    ref_head_result(many, 100, &row, &result);
    assert_int_equal(result.n_top, 64);
    assert_int_equal(result.top_id[63], 64); /* 9 is not among them */
    close_to(listed[0] - result.log_sum_exp, -log(99 + exp(-1)), 1e-4);
    close_to(listed[1], 499, 0);
    assert_true(isnan(ref_log_sum_exp((float[]){0, NAN, 1}, 3)));
    assert_true(isnan(ref_log_sum_exp((float[]){NAN, -INFINITY}, 2)));
    assert_true(ref_log_sum_exp((float[]){-INFINITY, -INFINITY}, 2) == -INFINITY);

    float cap[3] = {0, 30, -1e9f};
    ref_softcap(cap, 3, 30);
    close_to(cap[0], 0, 0);
    close_to(cap[1], 30 * tanh(1), 2e-6);
    close_to(cap[2], -30, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embed_reads_unaligned_rows),
        cmocka_unit_test(embed_reads_blocks),
        cmocka_unit_test(matmul_of_small_integers),
        cmocka_unit_test(rms_norm_by_hand),
        cmocka_unit_test(rope_turns_pairs),
        cmocka_unit_test(gates_at_known_points),
        cmocka_unit_test(take_picks_rows),
        cmocka_unit_test(permute_puts_in_order),
        cmocka_unit_test(attention_of_chosen_values),
        cmocka_unit_test(attention_sees_prompt_and_ancestors_only),
        cmocka_unit_test(commit_gives_the_cache_of_direct_rows),
        cmocka_unit_test(rows_are_rounded_to_127_steps),
        cmocka_unit_test(head_ranks_and_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
