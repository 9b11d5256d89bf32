/* SPDX-License-Identifier: MIT
 *
 * Any sampler chain: from the best as from all logits, state that forks with its sequence, DRY against a slow
 * definition, how often XTC acts, lists of stages.  What each stage keeps is compared with llama.cpp's in
 * tests/golden/test_samplers.c.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "decode/sample/sampler_impl.h"

static uint32_t rolls;

static uint32_t roll(uint32_t below)
{
    return rng_u32((struct rng_key){.seed = 20261122}, rolls++) % below;
}

static float roll_float(float low, float high)
{
    return low + (high - low) * (float)roll(1u << 20) * 0x1p-20f;
}

static struct sampler *open_sampler(int n_vocab, int n_seq)
{
    struct sampler *s;
    struct sampler_limits lim = {.n_vocab = n_vocab, .n_seq = n_seq, .n_history = 100, .n_bias = 4, .n_thread = 1};
    assert_int_equal(sampler_open(&s, &lim, NULL), 0);
    return s;
}

static void start(struct sampler *s, int seq, const struct sample_settings *set)
{
    struct lutra_error err = {0};
    if (sampler_init_sequence(s, seq, set, 0, &err) < 0) fail_msg("%s", err.what);
}

/* Any chain of which no two settings contradict. */
static struct sample_settings random_chain(struct sample_bias *bias, struct sample_breaker *breaker, int n_vocab)
{
    static const int32_t tail[] = {1, 2};
    struct sample_settings set = sample_settings_default();
    set.temperature = roll(5) ? roll_float(0.2f, 2) : 0;
    set.top_k = roll(3) ? 1 + (int)roll(50) : 0;
    set.top_p = roll(2) ? 1 : roll_float(0.3f, 1);
    if (roll(2)) set.repeat_penalty = 1.2f, set.penalty_last_n = (int)roll(20);
    if (roll(2)) set.dry_multiplier = roll_float(-1, 2), set.dry_allowed_length = (int)roll(4);
    if (roll(3) == 0) set.top_n_sigma = roll_float(0.5f, 3);
    if (roll(3) == 0) set.typical_p = roll_float(0.2f, 1);
    if (roll(3) == 0) set.xtc_probability = 0.5f, set.xtc_threshold = roll_float(0, 0.4f);
    if (roll(3) == 0) set.dynatemp_range = roll_float(0, 1), set.dynatemp_exponent = roll_float(0, 2);
    if (roll(5) == 0) set.mirostat = 1 + (int)roll(2), set.dynatemp_range = 0;
    if (roll(2))
        for (int i = set.n_stage - 1; i > 0; i--) {
            uint32_t k = roll((uint32_t)i + 1);
            uint8_t was = set.stage[i];
            set.stage[i] = set.stage[k];
            set.stage[k] = was;
        }
    if (roll(4) == 0) set.n_stage = (int)roll((uint32_t)set.n_stage + 1);
    if (!set.mirostat && roll(4) == 0) set.stage[set.n_stage++] = STAGE_ADAPTIVE_P, set.adaptive_target = 0.4f;
    for (int i = 0; i < 2; i++) bias[i] = (struct sample_bias){(int32_t)roll((uint32_t)n_vocab), roll_float(-9, 9)};
    breaker[0] = (struct sample_breaker){3, (int)roll(3), tail};
    set.bias = bias;
    set.n_bias = (int)roll(3);
    set.breaker = breaker;
    set.n_breaker = (int)roll(2);
    return set;
}

/* A row of the head: the best, and those listed; log_sum_exp is not looked at. */
struct head {
    struct row_result r;
    float listed_logit[ROW_LISTED];
    struct sample_cand cand[3000];
    int32_t id[ROW_TOPK];
    float logit[ROW_TOPK];
};

static const struct row_result *best_of(struct head *h, const float *row, int n_vocab, const struct sample_list *list)
{
    for (int32_t i = 0; i < n_vocab; i++) h->cand[i] = (struct sample_cand){i, row[i]};
    select_sort(h->cand, n_vocab);
    h->r = (struct row_result){.n_top = n_vocab < ROW_TOPK ? n_vocab : ROW_TOPK, .n_listed = list->n};
    for (int i = 0; i < h->r.n_top; i++) h->id[i] = h->cand[i].id, h->logit[i] = h->cand[i].logit;
    for (int i = 0; i < list->n; i++) h->listed_logit[i] = row[list->token[i]];
    h->r.top_id = h->id;
    h->r.top_logit = h->logit;
    h->r.listed = list->token;
    h->r.listed_logit = h->listed_logit;
    return &h->r;
}

static void fill_row(float *row, int n)
{
    float sigma = roll(2) ? 1 : 4;
    for (int i = 0; i < n; i++) row[i] = roll(6) ? roll_float(-sigma, sigma) : (float)roll(4);
    row[roll((uint32_t)n)] = 5;
}

static void best_are_as_good_as_all(void **state)
{
    (void)state;
    enum { ROUNDS = 3000 };
    static struct head h;
    static float row[3000];
    int n_best = 0, n_dry = 0, n_deeper = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct sample_bias bias[2];
        struct sample_breaker breaker[1];
        int n_vocab = roll(4) ? 65 + (int)roll(2000) : 5 + (int)roll(80);
        struct sampler *s = open_sampler(n_vocab, 1);
        struct sample_settings set = random_chain(bias, breaker, n_vocab);
        start(s, 0, &set);
        for (uint32_t i = roll(40); i > 0; i--) sampler_accept(s, 0, (int32_t)roll(5));
        struct sample_list list = sampler_listed(s, 0);
        if (list.token) {
            struct sample_pick a = {-1, 0}, b = {-1, 0};
            n_best++;
            n_dry += s->seq[0].dry_window > 0 && list.n > set.n_bias;
            if (list.here) { /* a row further on says that it needs all */
                struct sample_list next = list;
                assert_false(sample_list_add(&next, 4));
            } else {
                for (uint32_t i = roll(4); i > 0; i--) {
                    if (!sample_list_add(&list, (int32_t)(5 + i))) break;
                    sampler_accept(s, 0, (int32_t)(5 + i));
                    n_deeper++;
                }
            }
            fill_row(row, n_vocab);
            struct row_result all = {.logits = row};
            assert_int_equal(sampler_pick(s, 0, 0, &all, round, &a, NULL), 0);
            float p = s->seq[0].picked_p;
            assert_int_equal(sampler_pick(s, 0, 0, best_of(&h, row, n_vocab, &list), round, &b, NULL), 0);
            if (a.token != b.token || (!s->seq[0].plain && p != s->seq[0].picked_p))
                fail_msg("round %d: token %d, not %d", round, b.token, a.token);
        }
        sampler_close(&s);
    }
    assert_true(n_best > ROUNDS / 5 && n_dry > 20 && n_deeper > 100);
}

/* A fork goes on as what it was forked from, and picks that were not accepted leave no trace. */
static void state_is_the_history(void **state)
{
    (void)state;
    enum { V = 200, STEPS = 30 };
    static float row[STEPS][V];
    for (int i = 0; i < STEPS; i++) fill_row(row[i], V);
    for (int round = 0; round < 60; round++) {
        struct sample_bias bias[2];
        struct sample_breaker breaker[1];
        struct sample_settings set = random_chain(bias, breaker, V);
        struct sampler *s = open_sampler(V, 3);
        int fork_at = (int)roll(STEPS);
        start(s, 0, &set);
        start(s, 1, &set);
        for (int i = 0; i < STEPS; i++) {
            struct row_result r = {.logits = row[i]}, other = {.logits = row[(i + 7) % STEPS]};
            struct sample_pick a, b, c;
            assert_int_equal(sampler_pick(s, 0, 0, &r, i, &a, NULL), 0);
            assert_int_equal(sampler_pick(s, 1, 0, &other, i + 1000, &b, NULL), 0);
            assert_int_equal(sampler_pick(s, 1, 0, &r, i, &b, NULL), 0);
            assert_int_equal(a.token, b.token);
            if (i > fork_at) {
                assert_int_equal(sampler_pick(s, 2, 0, &r, i, &c, NULL), 0);
                assert_int_equal(a.token, c.token);
                sampler_accept(s, 2, c.token);
            }
            sampler_accept(s, 0, a.token);
            sampler_accept(s, 1, a.token);
            assert_true(s->seq[0].mu == s->seq[1].mu && s->seq[0].near_sum == s->seq[1].near_sum);
            if (i == fork_at) sampler_fork(s, 2, 0, 0);
        }
        if (set.mirostat) assert_true(s->seq[0].mu != 2 * set.mirostat_tau);
        sampler_close(&s);
    }
}

/* DRY by its definition: each earlier place, each length. */
static int longest_match(const int32_t *text, int n, int32_t next, int last_n)
{
    int longest = -1, from = n > last_n ? n - last_n : 0;
    for (int at = from; at < n - 1; at++) { /* text[at + 1] followed a match that ends at `at` */
        int m = 0;
        while (at - m >= from && text[at - m] == text[n - 1 - m]) m++;
        if (text[at + 1] == next && m > longest) longest = m;
    }
    return longest;
}

static void dry_is_its_definition(void **state)
{
    (void)state;
    enum { V = 12, N = 60 };
    int n_punished = 0;
    for (int round = 0; round < 2000; round++) {
        int32_t text[N];
        int n = 1 + (int)roll(N);
        struct sampler *s = open_sampler(V, 1);
        struct sample_settings set = sample_settings_default();
        set.dry_multiplier = 1;
        set.dry_allowed_length = (int)roll(4);
        set.dry_last_n = 1 + (int)roll(70);
        start(s, 0, &set);
        for (int i = 0; i < n; i++) sampler_accept(s, 0, text[i] = (int32_t)roll(1 + (uint32_t)round % 4));
        dry_find(&s->seq[0], V, &s->scratch[0]);
        int seen = n < set.dry_last_n ? n : set.dry_last_n;
        for (int32_t t = 0; t < V; t++) {
            int want = longest_match(text, n, t, set.dry_last_n);
            bool punished = want >= set.dry_allowed_length && seen > set.dry_allowed_length;
            assert_int_equal(s->scratch[0].seen[t], punished ? want + 1 : 0);
            n_punished += punished;
        }
        dry_clear(&s->seq[0], V, &s->scratch[0]);
        for (int32_t t = 0; t < V; t++) assert_int_equal(s->scratch[0].seen[t], 0);
        sampler_close(&s);
    }
    assert_true(n_punished > 1000);
}

static void xtc_acts_as_often_as_it_says(void **state)
{
    (void)state;
    enum { N = 4000 };
    const float row[4] = {3, 2.9f, 0, -1};
    struct sampler *s = open_sampler(4, 1);
    struct sample_settings set = sample_settings_default();
    struct row_result r = {.logits = (float *)row};
    int n_first = 0;
    set.xtc_probability = 0.3f;
    set.xtc_threshold = 0.2f;
    set.top_k = 0, set.top_p = 1, set.min_p = 0, set.temperature = 0.05f; /* the first of those left, nearly always */
    start(s, 0, &set);
    for (int i = 0; i < N; i++) {
        struct sample_pick pick;
        assert_int_equal(sampler_pick(s, 0, 0, &r, i, &pick, NULL), 0);
        n_first += pick.token == 0;
    }
    /* e^(0.1 / 0.05) to 1 are the odds of token 0 where XTC does not act: 0.7 x 0.881 */
    assert_true(fabs((double)n_first / N - 0.7 * 0.8808) < 0.03);
    sampler_close(&s);
}

static void lists_are_read(void **state)
{
    (void)state;
    struct sample_settings set = sample_settings_default();
    struct lutra_error err = {0};
    assert_int_equal(sample_stages_parse(&set, "temp;top-k;nucleus;typical", &err), 0);
    const uint8_t want[] = {STAGE_TEMPERATURE, STAGE_TOP_K, STAGE_TOP_P, STAGE_TYPICAL};
    assert_int_equal(set.n_stage, 4);
    assert_memory_equal(set.stage, want, sizeof want);
    assert_int_equal(sample_stages_parse(&set, "", &err), 0);
    assert_int_equal(set.n_stage, 0);
    const struct {
        const char *list, *says;
    } bad[] = {{"top_k;infill", "infill"}, {"top_k;;x", "'x'"}, {"Temp", "'Temp'"},
        {"xtc;xtc;xtc;xtc;xtc;xtc;xtc;xtc;xtc;xtc;xtc;xtc;xtc;xtc;xtc;xtc;xtc", "more than 16"}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sample_stages_parse(&set, bad[i].list, &err), LUTRA_E_ARGUMENT);
        if (!strstr(err.what, bad[i].says)) fail_msg("%s", err.what);
    }
}

static void what_makes_no_sense_is_named(void **state)
{
    (void)state;
    struct sample_settings good = sample_settings_default(), set;
    struct lutra_error err;
#define REFUSED(field, value, name)                                                                                    \
    do {                                                                                                               \
        set = good;                                                                                                    \
        set.field = value;                                                                                             \
        assert_int_equal(sample_settings_check(&set, 10, &err), LUTRA_E_ARGUMENT);                                     \
        assert_non_null(strstr(err.what, name));                                                                       \
    } while (0)
    REFUSED(mirostat, 3, "mirostat");
    REFUSED(adaptive_target, 0.5f, "adaptive_p is not among");
    REFUSED(xtc_probability, 1.5f, "xtc_probability");
    REFUSED(dry_base, NAN, "dry_base");
    REFUSED(dry_allowed_length, -1, "dry_allowed_length");
    REFUSED(dry_last_n, -2, "dry_penalty_last_n");
    REFUSED(dynatemp_range, -1, "dynatemp_range");
    REFUSED(adaptive_decay, 1, "adaptive_decay");
    good.mirostat = 2;
    REFUSED(dynatemp_range, 0.5f, "dynatemp_range: mirostat 2");
#undef REFUSED
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_are_as_good_as_all),
        cmocka_unit_test(state_is_the_history),
        cmocka_unit_test(dry_is_its_definition),
        cmocka_unit_test(xtc_acts_as_often_as_it_says),
        cmocka_unit_test(lists_are_read),
        cmocka_unit_test(what_makes_no_sense_is_named),
    };
    return cmocka_run_group_tests_name("decode/chain", tests, NULL, NULL);
}
