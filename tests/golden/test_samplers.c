/* SPDX-License-Identifier: MIT
 *
 * Sampler chains beside llama.cpp's: which tokens they keep of 1,000 rows, and with which probabilities.  samplers.txt
 * has 125 chains; samplers.bin what libllama's samplers left of 8 rows of each, one after the other, and the token
 * drawn.  Logits and texts are made from numbers, here as there.
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

#include "decode/sample/sampler_impl.h"

enum { N_CASE = 125, N_ROW = 8, N_VOCAB = 300, N_SAID = 40, N_BETWEEN = 3, N_BREAKER = 4, N_TAIL = 8 };

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static float logit(uint64_t seed, int row, int token, float sigma)
{
    uint64_t h = mix(mix(seed * 1000 + (uint64_t)row) + (uint64_t)token);
    int sum = (int)(h & 0xffff) + (int)(h >> 16 & 0xffff) + (int)(h >> 32 & 0xffff) + (int)(h >> 48) - 131070;
    return (float)sum * (sigma / 32768);
}

static int32_t said(uint64_t seed, int i)
{
    return (int32_t)(mix(seed * 77777 + (uint64_t)i) % 4);
}

struct recorded {
    int number, n_vocab;
    float sigma;
    struct sample_settings set;
    struct sample_bias bias[2];
    struct sample_breaker breaker[N_BREAKER];
    int32_t tail[N_BREAKER][N_TAIL];
};

static int by_head(const void *a, const void *b)
{
    const struct sample_breaker *x = a, *y = b;
    return (x->head > y->head) - (x->head < y->head);
}

static void read_breakers(FILE *f, struct recorded *r)
{
    assert_int_equal(fscanf(f, " breakers %d", &r->set.n_breaker), 1);
    assert_in_range(r->set.n_breaker, 0, N_BREAKER);
    for (int i = 0; i < r->set.n_breaker; i++) {
        int n;
        assert_int_equal(fscanf(f, "%d %d", &n, &r->breaker[i].head), 2);
        assert_in_range(n, 1, N_TAIL);
        r->breaker[i].n_tail = n - 1;
        r->breaker[i].tail = r->tail[i];
        for (int k = 0; k < n - 1; k++) assert_int_equal(fscanf(f, "%d", &r->tail[i][k]), 1);
    }
    qsort(r->breaker, (size_t)r->set.n_breaker, sizeof *r->breaker, by_head);
    r->set.breaker = r->breaker;
}

static void read_case(FILE *f, struct recorded *r)
{
    char list[200];
    struct sample_settings *s = &r->set;
    struct lutra_error err = {0};
    *s = sample_settings_default();
    r->bias[0] = (struct sample_bias){7, 1.5f};
    r->bias[1].token = 9;
    assert_int_equal(fscanf(f, " case %d n_vocab %d sigma %f bias %f samplers %199s", &r->number, &r->n_vocab,
                         &r->sigma, &r->bias[1].bias, list),
        5);
    assert_in_range(r->n_vocab, 1, N_VOCAB);
    assert_int_equal(fscanf(f, " penalties %d %f %f %f dry %f %f %d %d", &s->penalty_last_n, &s->repeat_penalty,
                         &s->frequency_penalty, &s->presence_penalty, &s->dry_multiplier, &s->dry_base,
                         &s->dry_allowed_length, &s->dry_last_n),
        8);
    assert_int_equal(fscanf(f, " cuts %f %d %f %f %f xtc %f %f temp %f %f %f", &s->top_n_sigma, &s->top_k,
                         &s->typical_p, &s->top_p, &s->min_p, &s->xtc_probability, &s->xtc_threshold, &s->temperature,
                         &s->dynatemp_range, &s->dynatemp_exponent),
        10);
    assert_int_equal(fscanf(f, " mirostat %d %f %f adaptive %f %f", &s->mirostat, &s->mirostat_tau, &s->mirostat_eta,
                         &s->adaptive_target, &s->adaptive_decay),
        5);
    read_breakers(f, r);
    if (sample_stages_parse(s, list, &err) < 0) fail_msg("%s", err.what);
    s->bias = r->bias;
    s->n_bias = 2;
}

/* Of samplers.bin; little-endian. */
static uint32_t read_number(FILE *f, int n_bytes)
{
    uint8_t b[4] = {0};
    assert_int_equal(fread(b, 1, (size_t)n_bytes, f), n_bytes);
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Compares what is left with the next row: u16 n, n times u16 token and u32 probability in 1e-7; returns where the
 * recorded token is. */
static int check_choice(FILE *f, const struct recorded *r, int row, const struct sample_choice *c, int32_t picked)
{
    double want[N_VOCAB] = {0};
    int n = (int)read_number(f, 2), at = -1;
    for (int i = 0; i < n; i++) {
        uint32_t id = read_number(f, 2);
        assert_in_range(id, 0, N_VOCAB - 1);
        want[id] = read_number(f, 4) * 1e-7;
    }
    if (c->n != n) fail_msg("case %d, row %d: %d candidates, llama.cpp keeps %d", r->number, row, c->n, n);
    for (int i = 0; i < c->n; i++) {
        int32_t id = c->cand[i].id;
        double p = (double)c->cand[i].logit / c->total;
        if (!(fabs(p - want[id]) <= 1e-5))
            fail_msg("case %d, row %d: token %d has %.7f, llama.cpp says %.7f", r->number, row, id, p, want[id]);
        if (id == picked) at = i;
    }
    assert_true(at >= 0);
    return at;
}

/* The short ways of plain chains choose the same. */
static void check_plain(const struct sampler *s, const float *row, const struct sample_choice *by_chain)
{
    const struct sample_state *st = &s->seq[0];
    struct sample_cand kept[N_VOCAB];
    if (!st->plain || st->set.temperature <= 0 || st->set.top_k <= 0) return; /* else one token, or a draw in passes */
    memcpy(kept, by_chain->cand, (size_t)by_chain->n * sizeof *kept);
    const float *adjusted = sample_adjust(st, s->lim.n_vocab, row, &s->scratch[0]);
    float max = adjusted[0];
    for (int i = 1; i < s->lim.n_vocab; i++) max = adjusted[i] > max ? adjusted[i] : max;
    struct sample_choice c = sample_choose(&st->set, s->lim.n_vocab, adjusted, max, &s->scratch[0]);
    assert_int_equal(c.n, by_chain->n);
    for (int i = 0; i < c.n; i++) {
        int k = 0;
        while (k < c.n && kept[k].id != c.cand[i].id) k++;
        assert_true(k < c.n);
        assert_true(fabs((double)kept[k].logit / by_chain->total - (double)c.cand[i].logit / c.total) < 1e-6);
    }
}

static void run_case(FILE *rows, const struct recorded *r)
{
    struct sampler *s;
    struct lutra_error err = {0};
    struct sampler_limits lim = {.n_vocab = r->n_vocab, .n_seq = 1, .n_history = 256, .n_bias = 2, .n_thread = 1};
    int n_said = 0;
    if (sampler_open(&s, &lim, &err) < 0 || sampler_init_sequence(s, 0, &r->set, 0, &err) < 0)
        fail_msg("case %d: %s", r->number, err.what);
    struct sample_state *st = &s->seq[0];
    struct sample_scratch *tmp = &s->scratch[0];
    while (n_said < N_SAID) sampler_accept(s, 0, said((uint64_t)r->number, n_said++));
    for (int i = 0; i < N_ROW; i++) {
        float row[N_VOCAB];
        struct sample_choice choice;
        for (int t = 0; t < r->n_vocab; t++) {
            row[t] = logit((uint64_t)r->number, i, t, r->sigma);
            tmp->cand[t] = (struct sample_cand){t, row[t]};
        }
        for (int b = 0; b < r->set.n_bias; b++) tmp->cand[r->set.bias[b].token].logit += r->set.bias[b].bias;
        /* XTC is sure or off in the recorded chains */
        if (chain_apply(st, r->n_vocab, tmp, r->n_vocab, r->n_vocab, 0, &choice, &err) < 0)
            fail_msg("case %d: %s", r->number, err.what);
        int32_t picked = (int32_t)read_number(rows, 2);
        int at = check_choice(rows, r, i, &choice, picked);
        st->picked = picked;
        st->picked_p = chain_probability(st, &choice, at, tmp);
        check_plain(s, row, &choice);
        sampler_accept(s, 0, picked);
        for (int k = 0; k < N_BETWEEN; k++) sampler_accept(s, 0, said((uint64_t)r->number, n_said++));
    }
    sampler_close(&s);
}

static void chains_keep_what_llama_cpp_keeps(void **state)
{
    (void)state;
    static struct recorded r;
    FILE *f = fopen(LUTRA_SOURCE_DIR "/tests/golden/samplers.txt", "r");
    FILE *rows = fopen(LUTRA_SOURCE_DIR "/tests/golden/samplers.bin", "rb");
    assert_true(f && rows);
    assert_int_not_equal(fscanf(f, "#%*[^\n]"), EOF);
    for (int i = 0; i < N_CASE; i++) {
        read_case(f, &r);
        assert_int_equal(r.number, i);
        run_case(rows, &r);
    }
    assert_int_equal(fgetc(rows), EOF);
    fclose(rows);
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chains_keep_what_llama_cpp_keeps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
