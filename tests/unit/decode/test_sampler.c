/* SPDX-License-Identifier: MIT
 *
 * decode/sample against a slow reference, known distributions, and its promises about history, forks and errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/cpuinfo.h"
#include "base/rng.h"
#include "decode/sample/sampler_impl.h"
#include "ops/ref/ref.h"
#include "unit/decode/reference.h"

static uint32_t rolls;

static uint32_t roll(uint32_t below)
{
    return rng_u32((struct rng_key){.seed = 20261120}, rolls++) % below;
}

static float bell(float sigma)
{
    float sum = -6;
    for (int i = 0; i < 12; i++) sum += (float)roll(1u << 24) * 0x1p-24f;
    return sum * sigma;
}

static struct sampler *open_sampler(int n_vocab, int n_seq, int n_history)
{
    struct sampler *s;
    struct sampler_limits lim = {
        .n_vocab = n_vocab, .n_seq = n_seq, .n_history = n_history, .n_bias = 8, .n_thread = 1};
    struct lutra_error err = {0};
    if (sampler_open(&s, &lim, &err) < 0) fail_msg("%s", err.what);
    return s;
}

static void start(struct sampler *s, int seq, const struct sample_settings *set, uint32_t sample)
{
    struct lutra_error err = {0};
    if (sampler_init_sequence(s, seq, set, sample, &err) < 0) fail_msg("%s", err.what);
}

/* What a head reports: all logits, or what the sampler lists. */
struct head {
    struct row_result result;
    int32_t top_id[ROW_TOPK];
    float top_logit[ROW_TOPK], listed_logit[ROW_LISTED];
};

static const struct row_result *all_logits(struct head *h, const float *logits, int n_vocab)
{
    h->result = (struct row_result){.logits = (float *)logits, .log_sum_exp = ref_log_sum_exp(logits, n_vocab)};
    return &h->result;
}

static const struct row_result *best_logits(
    struct head *h, const float *logits, int n_vocab, const struct sample_list *list)
{
    const int32_t *listed = list->token;
    int n_listed = list->n;
    struct row row = {.want = WANT_TOPK | WANT_LOGPROB, .n_listed = n_listed, .listed = listed, .allow = list->allow};
    h->result = (struct row_result){.top_id = h->top_id,
        .top_logit = h->top_logit,
        .n_listed = n_listed,
        .listed = listed,
        .listed_logit = h->listed_logit};
    ref_head_result(logits, n_vocab, &row, &h->result);
    return &h->result;
}

static int pick_row(struct sampler *s, const float *logits, int pos, struct sample_pick *pick, struct lutra_error *err)
{
    struct head h;
    return sampler_pick(s, 0, 0, all_logits(&h, logits, s->lim.n_vocab), pos, pick, err);
}

static int32_t pick_at(struct sampler *s, int seq, const float *logits, int pos)
{
    struct head h;
    struct sample_pick pick = {-1, 0};
    struct lutra_error err = {0};
    if (sampler_pick(s, seq, 0, all_logits(&h, logits, s->lim.n_vocab), pos, &pick, &err) < 0) fail_msg("%s", err.what);
    return pick.token;
}

static struct sample_settings random_settings(struct sample_bias *bias, int n_vocab)
{
    struct sample_settings set = sample_settings_default();
    const float heat[] = {0.1f, 0.8f, 1, 3}, nucleus[] = {0, 0.3f, 0.95f, 0.999f, 1}, least[] = {0, 0.05f, 0.5f, 1};
    const int best[] = {0, 1, 5, 40, 300, 100000}, look[] = {-1, 0, 1, 7, 64};
    set.temperature = heat[roll(4)];
    set.top_p = nucleus[roll(5)];
    set.min_p = least[roll(4)];
    set.top_k = best[roll(6)];
    set.penalty_last_n = look[roll(5)];
    if (roll(2)) set.repeat_penalty = 1.3f;
    if (roll(2)) set.frequency_penalty = 0.2f;
    if (roll(2)) set.presence_penalty = -0.4f;
    set.bias = bias;
    set.n_bias = (int)roll(5);
    for (int i = 0; i < set.n_bias; i++)
        bias[i] = (struct sample_bias){(int32_t)roll((uint32_t)n_vocab), roll(4) ? bell(3) : -INFINITY};
    return set;
}

static void fill_row(float *row, int n)
{
    float sigma = roll(2) ? 0.5f : 4.0f;
    for (int i = 0; i < n; i++) row[i] = roll(5) ? bell(sigma) : (float)roll(4); /* ties as well */
    for (int i = 0; i < n / 10; i++) row[roll((uint32_t)n)] = -INFINITY;
    row[roll((uint32_t)n)] = 5;
}

/* Same tokens, and the same probability for each. */
static void compare(const struct sample_choice *got, const struct ref_dist *want, int n_vocab)
{
    double *p = calloc((size_t)n_vocab, sizeof *p);
    assert_int_equal(got->n, want->n);
    for (int i = 0; i < got->n; i++) p[got->cand[i].id] += (double)got->cand[i].logit / got->total;
    for (int i = 0; i < want->n; i++)
        if (fabs(p[want->cand[i].id] - want->cand[i].p) > 1e-5)
            fail_msg("token %d: %g instead of %g", want->cand[i].id, p[want->cand[i].id], want->cand[i].p);
    free(p);
}

static int32_t draw_with(struct sampler *s, const float *row, struct row_extent extent, double u)
{
    struct sample_scratch *tmp = &s->scratch[0];
    return nucleus_draw(&tmp->nucleus, tmp->passes, &s->seq[0].set, row, s->lim.n_vocab, extent, u);
}

static int by_id(const void *a, const void *b)
{
    return ((const struct ref_cand *)a)->id - ((const struct ref_cand *)b)->id;
}

/* In the middle of a token's share of the distribution that token is drawn. */
static void draws_cover(struct sampler *s, const float *row, struct row_extent extent, struct ref_dist *want)
{
    double before = 0;
    qsort(want->cand, (size_t)want->n, sizeof *want->cand, by_id);
    for (int i = 0; i < want->n; i++) {
        double p = want->cand[i].p;
        if (p > 1e-5 && (i < 20 || i == want->n - 1 || roll(20) == 0))
            assert_int_equal(draw_with(s, row, extent, before + p / 2), want->cand[i].id);
        before += p;
    }
}

static void distribution_equals_reference(void **state)
{
    (void)state;
    enum { ROUNDS = 3000 };
    int n_compared = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n_vocab = roll(10) ? 1 + (int)roll(700) : 5000, n_history = (int)roll(100);
        float *row = malloc((size_t)n_vocab * sizeof *row);
        struct ref_cand *cand = malloc((size_t)n_vocab * sizeof *cand);
        int32_t history[100];
        struct sample_bias bias[8];
        fill_row(row, n_vocab);
        struct sample_settings set = random_settings(bias, n_vocab);
        struct sampler *s = open_sampler(n_vocab, 1, 100);
        start(s, 0, &set, 0);
        for (int i = 0; i < n_history; i++) {
            history[i] = (int32_t)roll((uint32_t)(n_vocab < 30 ? n_vocab : 30));
            sampler_accept(s, 0, history[i]);
        }
        struct ref_dist want = ref_distribution(&set, row, n_vocab, history, n_history, cand);
        const float *changed = sample_adjust(&s->seq[0], n_vocab, row, &s->scratch[0]);
        struct row_extent extent = s->scratch[0].passes->extent(changed, n_vocab);
        float max = extent.max;
        /* Where f32 and f64 may rightly cut at different places there is nothing to compare. */
        if (want.n > 0 && want.edge > 1e-5 && set.top_k <= 0) { /* no list: plain_definition_draws_the_same */
            draws_cover(s, changed, extent, &want);
            n_compared++;
        } else if (want.n > 0 && want.edge > 1e-5) {
            struct sample_choice got = sample_choose(&set, n_vocab, changed, max, &s->scratch[0]);
            compare(&got, &want, n_vocab);
            n_compared++;
        }
        sampler_close(&s);
        free(row);
        free(cand);
    }
    assert_true(n_compared > ROUNDS / 2);
}

static int plain_order(const void *a, const void *b)
{
    const struct sample_cand *x = a, *y = b;
    return select_is_worse(*x, *y) ? 1 : select_is_worse(*y, *x) ? -1 : 0;
}

/* The definition in nucleus_impl.h, word by word. */
struct plain {
    struct sample_cand *cand;
    int n;
    double total;
};

static int plain_by_id(const void *a, const void *b)
{
    return ((const struct sample_cand *)a)->id - ((const struct sample_cand *)b)->id;
}

static struct plain plain_nucleus(const struct sample_settings *set, const float *row, int n_vocab, float max)
{
    struct plain p = {malloc((size_t)n_vocab * sizeof *p.cand), 0, 0};
    double all = 0, sum = 0;
    for (int i = 0; i < n_vocab; i++) {
        if (row[i] > -INFINITY) p.cand[p.n++] = (struct sample_cand){i, row[i]};
        all += (double)weight_of(row[i], max, LOG2_E);
    }
    qsort(p.cand, (size_t)p.n, sizeof *p.cand, plain_order);
    int keep = 0;
    do sum += (double)weight_of(p.cand[keep++].logit, max, LOG2_E);
    while (keep < p.n && (set->top_p >= 1 || sum < (double)set->top_p * all));
    if (set->min_p > 0)
        while (keep > 1 && p.cand[keep - 1].logit < max + logf(set->min_p)) keep--;
    p.n = keep;
    qsort(p.cand, (size_t)p.n, sizeof *p.cand, plain_by_id);
    for (int i = 0; i < p.n; i++) {
        p.cand[i].logit = weight_of(p.cand[i].logit, max, heat_of(set->temperature));
        p.total += (double)p.cand[i].logit;
    }
    return p;
}

static int32_t plain_draw(const struct plain *p, double u)
{
    double sum = 0;
    int32_t last = -1;
    for (int i = 0; i < p->n && !(sum > u * p->total); i++) {
        if (p->cand[i].logit <= 0) continue;
        last = p->cand[i].id;
        sum += (double)p->cand[i].logit;
    }
    return last;
}

/* Flat, peaked, tied, stepped, with forbidden tokens, spread over many magnitudes. */
static void shape_row(float *row, int n, int shape)
{
    float sigma = (const float[]){0.01f, 1, 3, 12}[roll(4)], offset = (float)roll(3) * 50 - 50;
    for (int i = 0; i < n; i++) {
        float x = bell(sigma);
        row[i] = shape == 0   ? 0.5f
                 : shape == 1 ? x
                 : shape == 2 ? floorf(x * 2) / 2
                 : shape == 3 ? x - (float)(roll(50) ? 40 : 0)
                 : shape == 4 ? -ldexpf(1, -(int)roll(140)) * (float)(roll(3) ? 1 : -1)
                              : (roll(2) ? 0.0f : -0.0f);
        row[i] += shape < 4 ? offset : 0;
    }
    for (int i = 0; roll(2) && i < n / 3; i++) row[roll((uint32_t)n)] = -INFINITY;
    row[roll((uint32_t)n)] = roll(2) ? row[0] > -INFINITY ? row[0] : offset : offset + sigma * (float)roll(6);
}

static void plain_definition_draws_the_same(void **state)
{
    (void)state;
    enum { ROUNDS = 1500, DRAWS = 24 };
    const float nucleus[] = {0, 0.1f, 0.5f, 0.9f, 0.95f, 0.999f, 0.99999994f, 1};
    const uint32_t isas[] = {0, CPU_AVX2, CPU_AVX512};
    int n_tokens = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n_vocab = roll(20) ? 1 + (int)roll(3000) : 30000, n_history = (int)roll(60);
        float *row = malloc((size_t)n_vocab * sizeof *row);
        struct sample_bias bias[8];
        struct sample_settings set = random_settings(bias, n_vocab);
        shape_row(row, n_vocab, round % 6);
        set.top_k = 0;
        set.top_p = nucleus[roll(8)];
        set.temperature = (const float[]){0.05f, 0.8f, 1, 2, 50}[roll(5)];
        set.min_p = roll(2) ? 0 : set.min_p;
        struct sampler *s = open_sampler(n_vocab, 1, 100);
        start(s, 0, &set, 0);
        uint32_t isa = isas[roll(3)];
        if ((isa & ~cpu_isa()) == 0) s->scratch[0].passes = nucleus_passes_for(isa);
        for (int i = 0; i < n_history; i++) sampler_accept(s, 0, (int32_t)roll((uint32_t)n_vocab));
        const float *changed = sample_adjust(&s->seq[0], n_vocab, row, &s->scratch[0]);
        struct row_extent extent = s->scratch[0].passes->extent(changed, n_vocab);
        float max = extent.max;
        struct plain want = {NULL, 0, 0};
        if (max > -INFINITY) want = plain_nucleus(&set, changed, n_vocab, max);
        for (int i = 0; i < DRAWS && want.n > 0; i++, n_tokens++) {
            double u = i == 0   ? 0
                       : i == 1 ? 1 - 0x1p-20
                                : rng_double((struct rng_key){.seed = 7, .position = (uint32_t)round}, (uint32_t)i);
            int32_t got = draw_with(s, changed, extent, u), expect = plain_draw(&want, u);
            if (got != expect) fail_msg("round %d, u %.17g: token %d, not %d", round, u, got, expect);
        }
        free(want.cand);
        free(row);
        sampler_close(&s);
    }
    assert_true(n_tokens > ROUNDS * DRAWS / 2);
}

static void best_k_of_a_long_row(void **state)
{
    (void)state;
    enum { N = 20000 };
    float *row = malloc(N * sizeof *row);
    struct ref_cand *all = malloc(N * sizeof *all);
    struct sample_cand *cand = malloc(N * sizeof *cand);
    struct select_scratch *tmp = malloc(sizeof *tmp);
    const int ks[] = {1, 2, 40, 256, 257, 1000, N - 1, N};
    for (int shape = 0; shape < 3; shape++) {
        for (int i = 0; i < N; i++) {
            row[i] = shape == 0 ? bell(2) : shape == 1 ? (float)roll(3) : (float)i * 1e-3f;
            all[i] = (struct ref_cand){i, (double)row[i], 0};
        }
        qsort(all, N, sizeof *all, ref_order);
        for (size_t j = 0; j < sizeof ks / sizeof *ks; j++) {
            assert_int_equal(select_top_k(row, N, ks[j], (float)all[0].logit, cand, tmp), ks[j]);
            for (int i = 0; i < ks[j]; i++) assert_int_equal(cand[i].id, all[i].id);
        }
    }
    free(row);
    free(all);
    free(cand);
    free(tmp);
}

static void exponential_is_close(void **state)
{
    (void)state;
    for (float z = 0; z < 125; z += 0.00173f) {
        double want = exp2((double)-z);
        if (fabs((double)exp2_minus(z) - want) > 3e-7 * want) fail_msg("2^-%g", (double)z);
    }
    assert_true(exp2_minus(0) == 1 && exp2_minus(1e30f) == 0x1p-125f && exp2_minus(INFINITY) == 0x1p-125f);
    assert_true(weight_of(3, 3, heat_of(1e-40f)) == 1 && weight_of(2.5f, 3, heat_of(1e-40f)) == 0x1p-125f);
}

/* 100,000 draws of a fixed seed against the exact probabilities. */
static void draws_follow_the_distribution(void **state)
{
    (void)state;
    enum { V = 24, DRAWS = 100000 };
    float row[V];
    int seen[V] = {0};
    struct ref_cand cand[V];
    for (int i = 0; i < V; i++) row[i] = bell(1.5f);
    struct sample_settings set = sample_settings_default();
    set.seed = 7;
    set.top_k = 20;
    set.temperature = 1.2f;
    struct sampler *s = open_sampler(V, 1, 0);
    struct ref_dist want = ref_distribution(&set, row, V, NULL, 0, cand);
    for (int i = 0; i < DRAWS; i++) {
        if (i % 1000 == 0) start(s, 0, &set, (uint32_t)(i / 1000));
        seen[pick_at(s, 0, row, i % 1000)]++;
    }
    double chi = 0;
    int n_in = 0;
    for (int i = 0; i < want.n; i++) {
        double expect = want.cand[i].p * DRAWS, d = seen[want.cand[i].id] - expect;
        chi += d * d / expect;
        n_in += seen[want.cand[i].id];
    }
    assert_int_equal(n_in, DRAWS);
    /* 99.9 % point of chi-square with at most 19 degrees of freedom; the seed is fixed, so this cannot flicker. */
    if (chi > 43.8) fail_msg("chi-square %g over %d tokens", chi, want.n);
    sampler_close(&s);
}

static void samples_and_seeds_differ(void **state)
{
    (void)state;
    enum { V = 1000 };
    float row[V] = {0};
    struct sample_settings set = sample_settings_default();
    set.top_k = 0;
    set.top_p = 1;
    set.min_p = 0;
    struct sampler *s = open_sampler(V, 2, 0);
    int same_sample = 0, same_seed = 0;
    for (int i = 0; i < 200; i++) {
        set.seed = 1;
        start(s, 0, &set, 0);
        start(s, 1, &set, 1);
        same_sample += pick_at(s, 0, row, i) == pick_at(s, 1, row, i);
        set.seed = 2;
        start(s, 1, &set, 0);
        same_seed += pick_at(s, 0, row, i) == pick_at(s, 1, row, i);
    }
    assert_in_range(same_sample, 0, 5);
    assert_in_range(same_seed, 0, 5);
    sampler_close(&s);
}

/* The text of a sample is the same alone, among others in any order, and after any other draws. */
static void draw_depends_on_key_only(void **state)
{
    (void)state;
    enum { V = 300, STEPS = 50, SEQS = 5 };
    float row[V];
    int32_t alone[SEQS][STEPS];
    for (int i = 0; i < V; i++) row[i] = bell(1);
    struct sample_settings set = sample_settings_default();
    set.seed = 99;
    set.repeat_penalty = 1.5f;
    struct sampler *one = open_sampler(V, 1, 100), *many = open_sampler(V, SEQS, 100);
    for (int q = 0; q < SEQS; q++) {
        start(one, 0, &set, (uint32_t)q);
        start(many, q, &set, (uint32_t)q);
        for (int i = 0; i < STEPS; i++) sampler_accept(one, 0, alone[q][i] = pick_at(one, 0, row, i));
    }
    for (int i = 0; i < STEPS; i++)
        for (int q = SEQS - 1; q >= 0; q--) {
            int32_t token = pick_at(many, q, row, i);
            assert_int_equal(token, pick_at(many, q, row, i));
            assert_int_equal(token, alone[q][i]);
            sampler_accept(many, q, token);
        }
    sampler_close(&one);
    sampler_close(&many);
}

static void fork_continues_like_its_source(void **state)
{
    (void)state;
    enum { V = 40, LOOK = 16 };
    float row[V];
    for (int i = 0; i < V; i++) row[i] = bell(0.3f);
    struct sample_bias bias[2] = {{3, 2.5f}, {4, -INFINITY}};
    struct sample_settings set = sample_settings_default();
    set.penalty_last_n = LOOK;
    set.frequency_penalty = 0.7f;
    set.bias = bias;
    set.n_bias = 2;
    for (int before = 0; before < 3 * LOOK; before++) {
        struct sampler *s = open_sampler(V, 3, 64);
        start(s, 0, &set, 5);
        for (int i = 0; i < before; i++) sampler_accept(s, 0, pick_at(s, 0, row, i));
        sampler_fork(s, 2, 0, 5);
        for (int i = before; i < before + 40; i++) {
            int32_t a = pick_at(s, 0, row, i);
            assert_int_equal(a, pick_at(s, 2, row, i));
            assert_int_not_equal(a, 4);
            sampler_accept(s, 0, a);
            sampler_accept(s, 2, a);
        }
        /* And apart from then on: another token in one history changes that one only. */
        sampler_fork(s, 1, 0, 5);
        for (int i = 0; i < LOOK; i++) sampler_accept(s, 1, 9);
        assert_int_equal(pick_at(s, 0, row, 200), pick_at(s, 2, row, 200));
        sampler_close(&s);
    }
}

static void bias_list_is_copied(void **state)
{
    (void)state;
    float row[4] = {0, 1, 2, 3};
    struct sample_bias bias = {3, -INFINITY};
    struct sample_settings set = sample_settings_default();
    set.temperature = 0;
    set.bias = &bias;
    set.n_bias = 1;
    struct sampler *s = open_sampler(4, 2, 0);
    start(s, 0, &set, 0);
    sampler_fork(s, 1, 0, 0);
    bias = (struct sample_bias){2, -INFINITY};
    assert_int_equal(pick_at(s, 0, row, 0), 2);
    start(s, 0, &set, 0);
    assert_int_equal(pick_at(s, 0, row, 0), 3);
    assert_int_equal(pick_at(s, 1, row, 0), 2);
    sampler_close(&s);
}

static void greedy_is_the_first_largest(void **state)
{
    (void)state;
    float row[6] = {1, 7, -3, 7, 7, 2};
    struct sample_settings set = sample_settings_default();
    set.temperature = 0;
    set.presence_penalty = 0.5f;
    struct sampler *s = open_sampler(6, 1, 8);
    start(s, 0, &set, 0);
    const int32_t want[] = {1, 3, 4, 1};
    for (int i = 0; i < 4; i++) {
        int32_t token = pick_at(s, 0, row, i);
        assert_int_equal(token, want[i]);
        sampler_accept(s, 0, token);
    }
    sampler_close(&s);
}

static void log_prob_is_the_models(void **state)
{
    (void)state;
    enum { V = 3000 };
    float row[V];
    double sum = 0;
    for (int i = 0; i < V; i++) sum += exp((double)(row[i] = bell(3)));
    struct sample_bias bias = {17, 100};
    struct sample_settings set = sample_settings_default();
    set.bias = &bias;
    set.n_bias = 1;
    struct sampler *s = open_sampler(V, 1, 0);
    start(s, 0, &set, 0);
    struct sample_pick pick;
    assert_int_equal(pick_row(s, row, 3, &pick, NULL), 0);
    assert_int_equal(pick.token, 17);
    assert_true(fabs((double)pick.log_prob - ((double)row[17] - log(sum))) < 1e-5);
    sampler_close(&s);
}

/* Tokens that are allowed: most, few or none. */
static const uint64_t *fill_mask(uint64_t *allow, int n_vocab)
{
    uint32_t one_of = roll(3) ? 1 + roll(100) : (uint32_t)n_vocab;
    memset(allow, 0, ((size_t)n_vocab + 63) / 64 * sizeof *allow);
    for (int t = 0; t < n_vocab; t++)
        if (roll(one_of) == 0) allow[t / 64] |= UINT64_C(1) << t % 64;
    return allow;
}

/* Whatever the settings: where the best are enough, they give the token, the log-prob and the error that all give. */
static void best_are_as_good_as_all(void **state)
{
    (void)state;
    enum { ROUNDS = 4000 };
    static uint64_t allow[2100 / 64 + 1];
    int n_best = 0, n_all = 0, n_outside = 0, n_error = 0, n_masked = 0, n_none = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n_vocab = roll(4) ? 65 + (int)roll(2000) : 1 + (int)roll(80);
        float *row = malloc((size_t)n_vocab * sizeof *row);
        struct sample_bias bias[8];
        fill_row(row, n_vocab);
        if (roll(50) == 0) row[roll((uint32_t)n_vocab)] = roll(2) ? NAN : INFINITY;
        struct sample_settings set = random_settings(bias, n_vocab);
        if (roll(4) == 0) set.temperature = 0;
        if (roll(2)) set.top_k = 1 + (int)roll(70);
        struct sampler *s = open_sampler(n_vocab, 1, 100);
        start(s, 0, &set, 0);
        for (uint32_t i = roll(30); i > 0; i--) sampler_accept(s, 0, (int32_t)roll((uint32_t)n_vocab));
        if (roll(2)) sampler_allow(s, 0, fill_mask(allow, n_vocab));
        struct sample_list list = sampler_listed(s, 0);
        !list.token ? n_all++ : n_best++;
        if (list.token) {
            struct head all, best;
            struct sample_pick a = {-1, 0}, b = {-1, 0};
            for (uint32_t i = roll(20); i > 0;
                 i--) { /* a row down a tree: the penalties may have forgotten what its list has */
                int32_t token = (int32_t)roll((uint32_t)n_vocab);
                if (!sample_list_add(&list, token)) break;
                sampler_accept(s, 0, token);
            }
            const struct row_result *r = best_logits(&best, row, n_vocab, &list);
            int rc = sampler_pick(s, 0, 0, all_logits(&all, row, n_vocab), round, &a, NULL);
            assert_int_equal(sampler_pick(s, 0, 0, r, round, &b, NULL), rc);
            n_error += rc < 0;
            if (rc == 0 && (a.token != b.token || a.log_prob != b.log_prob))
                fail_msg("round %d: token %d (%.9g), not %d (%.9g)", round, b.token, b.log_prob, a.token, a.log_prob);
            n_outside += rc == 0 && r->n_top == ROW_TOPK && row[a.token] < best.top_logit[r->n_top - 1];
            n_masked += rc == 0 && list.allow;
            n_none += rc == LUTRA_E_NOT_FOUND && list.allow;
        }
        sampler_close(&s);
        free(row);
    }
    assert_true(n_best > ROUNDS / 4 && n_all > ROUNDS / 4 && n_error > 10);
    assert_true(n_outside > 0); /* a bias lifted a token from below the best */
    assert_true(n_masked > ROUNDS / 10 && n_none > 10);
}

static int listed_of(struct sampler *s, const int32_t **listed)
{
    struct sample_list list = sampler_listed(s, 0);
    *listed = list.token;
    return list.token ? list.n : -1;
}

static void what_needs_all_logits(void **state)
{
    (void)state;
    struct sampler *s = open_sampler(1000, 1, 100);
    struct sample_bias bias[4] = {{5, 1}, {6, 1}, {5, 2}, {900, -INFINITY}};
    struct sample_settings set = sample_settings_default();
    const int32_t *listed;
    start(s, 0, &set, 0);
    assert_int_equal(listed_of(s, &listed), 0);
    set.bias = bias;
    set.n_bias = 4;
    start(s, 0, &set, 0);
    assert_int_equal(listed_of(s, &listed), 3);
    assert_memory_equal(listed, ((int32_t[]){5, 6, 900}), 3 * sizeof *listed);
    set.repeat_penalty = 1.1f; /* 40 best, 4 biases: room for 20 tokens of the window */
    start(s, 0, &set, 0);
    for (int32_t t = 0; t < 20; t++) sampler_accept(s, 0, t);
    assert_int_equal(listed_of(s, &listed), 21);
    sampler_accept(s, 0, 20);
    assert_int_equal(listed_of(s, &listed), -1);
    set.temperature = 0;
    start(s, 0, &set, 0);
    for (int32_t t = 0; t < 59; t++) sampler_accept(s, 0, t);
    assert_int_equal(listed_of(s, &listed), 60);
    sampler_accept(s, 0, 59);
    assert_int_equal(listed_of(s, &listed), -1);
    set = sample_settings_default();
    set.top_k = 65;
    start(s, 0, &set, 0);
    assert_int_equal(listed_of(s, &listed), -1);
    set.top_k = 0;
    start(s, 0, &set, 0);
    assert_int_equal(listed_of(s, &listed), -1);
    sampler_close(&s);
}

static void bad_logits_are_errors(void **state)
{
    (void)state;
    enum { V = 50 };
    float row[V];
    struct lutra_error err;
    struct sample_pick pick;
    struct sample_bias ban[2] = {{0, -INFINITY}, {1, -INFINITY}};
    struct sampler *s = open_sampler(V, 1, 8), *two = open_sampler(2, 1, 8);
    for (int heat = 0; heat < 2; heat++) {
        struct sample_settings set = sample_settings_default();
        set.temperature = (float)heat;
        start(s, 0, &set, 0);
        for (int i = 0; i < V; i++) row[i] = -INFINITY;
        assert_int_equal(pick_row(s, row, 0, &pick, &err), LUTRA_E_NOT_FOUND);
        assert_non_null(strstr(err.what, "no token left to sample"));
        row[49] = -1e30f;
        assert_int_equal(pick_at(s, 0, row, 0), 49);
        row[20] = NAN;
        assert_int_equal(pick_row(s, row, 0, &pick, &err), LUTRA_E_INTERNAL);
        assert_int_equal(err.where, 20);
        row[20] = INFINITY;
        assert_int_equal(pick_row(s, row, 0, &pick, &err), LUTRA_E_INTERNAL);
        row[20] = 3e38f;
        assert_int_equal(pick_at(s, 0, row, 0), 20);
        set.bias = ban;
        set.n_bias = 2;
        start(two, 0, &set, 0);
        assert_int_equal(pick_row(two, (float[]){1, 2}, 0, &pick, &err), LUTRA_E_NOT_FOUND);
        set.n_bias = 0;
        set.repeat_penalty = 0.001f;
        start(s, 0, &set, 0);
        sampler_accept(s, 0, 20);
        assert_int_equal(pick_row(s, row, 0, &pick, &err), LUTRA_E_ARGUMENT);
    }
    sampler_close(&s);
    sampler_close(&two);
}

static void bad_settings_are_named(void **state)
{
    (void)state;
    struct sampler *s = open_sampler(10, 1, 8);
    struct lutra_error err;
    struct sample_bias bias[9] = {{0, 0}};
    struct sample_settings good = sample_settings_default(), set = good;
#define REFUSED(change, word)                                                                                          \
    do {                                                                                                               \
        set = good;                                                                                                    \
        change;                                                                                                        \
        assert_int_equal(sampler_init_sequence(s, 0, &set, 0, &err), LUTRA_E_ARGUMENT);                                \
        assert_non_null(strstr(err.what, word));                                                                       \
    } while (0)
    REFUSED(set.temperature = NAN, "temperature");
    REFUSED(set.top_p = -0.1f, "top_p");
    REFUSED(set.min_p = 2, "min_p");
    REFUSED(set.repeat_penalty = 0, "repeat_penalty");
    REFUSED(set.penalty_last_n = -2, "penalty_last_n");
    REFUSED((set.bias = bias, set.n_bias = 1, bias[0].token = 10), "token 10");
    REFUSED((set.bias = bias, set.n_bias = 1, bias[0] = (struct sample_bias){1, INFINITY}), "token 1");
    bias[0].bias = 0;
    REFUSED((set.bias = bias, set.n_bias = 9), "at most 8");
    assert_int_equal(sampler_init_sequence(s, 1, &good, 0, &err), LUTRA_E_ARGUMENT);
    sampler_close(&s);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distribution_equals_reference),
        cmocka_unit_test(plain_definition_draws_the_same),
        cmocka_unit_test(best_k_of_a_long_row),
        cmocka_unit_test(exponential_is_close),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(samples_and_seeds_differ),
        cmocka_unit_test(draw_depends_on_key_only),
        cmocka_unit_test(fork_continues_like_its_source),
        cmocka_unit_test(bias_list_is_copied),
        cmocka_unit_test(greedy_is_the_first_largest),
        cmocka_unit_test(log_prob_is_the_models),
        cmocka_unit_test(best_are_as_good_as_all),
        cmocka_unit_test(what_needs_all_logits),
        cmocka_unit_test(bad_logits_are_errors),
        cmocka_unit_test(bad_settings_are_named),
    };
    return cmocka_run_group_tests_name("decode/sampler", tests, NULL, NULL);
}
