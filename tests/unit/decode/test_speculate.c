/* SPDX-License-Identifier: MIT
 *
 * Drafters on histories made by hand; what pays; what is learnt.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decode/speculate/drafter_impl.h"
#include "suffix_automaton.h"

enum { VOCAB = 100, N_HISTORY = 300 };

static const struct spec_settings usual = {"suffix", 16, 0, 0.25f, 12};
static float sure[DRAFT_KINDS];

#define TOKENS(...) (const int32_t[]){__VA_ARGS__}, (int)(sizeof(int32_t[]){__VA_ARGS__} / sizeof(int32_t))

static int draft(const struct drafter *d, const int32_t *token, int n_token, int most, struct draft_node *node)
{
    struct row_tip tip = {.token = token, .n_token = n_token};
    for (int i = 0; i < DRAFT_KINDS; i++) sure[i] = 1;
    return d->draft(&(struct draft_ask){NULL, &usual, sure, &tip, most}, node);
}

/* All against the plain definition: every end, every length. */
static void matches_are_the_longest_and_latest(void **state)
{
    (void)state;
    static int32_t token[N_HISTORY];
    srand(7);
    for (int trial = 0; trial < 2000; trial++) {
        int n = 1 + rand() % N_HISTORY, kinds = 1 + rand() % 4, cap = 1 + rand() % 20, room = 1 + rand() % 40;
        int end[40], len, longest = 0, k = 0;
        for (int i = 0; i < n; i++) token[i] = rand() % kinds;
        int got = draft_matches(token, n, cap, room, end, &len);
        for (int round = 0; round < 2; round++)
            for (int e = n - 1; e > 0; e--) {
                int m = 0;
                while (m < cap && m < e && token[e - 1 - m] == token[n - 1 - m]) m++;
                if (round == 0 && m > longest) longest = m;
                if (round == 1 && m > 0 && m == longest && k < room) assert_true(k < got && end[k++] == e);
            }
        assert_int_equal(len, longest);
        assert_int_equal(got, k);
    }
}

/* A text of 32k tokens at most: a few kinds at random, one period, or words of many kinds with stretches of its own. */
static void write_text(int32_t *token, int n, int kind)
{
    int period = 1 + rand() % 40;
    for (int i = 0, from = 0, left = 0; i < n; i++) {
        if (left == 0 && i > 0 && rand() % 16 == 0) from = rand() % i, left = rand() % 100;
        left -= left > 0;
        if (kind == 0) token[i] = rand() % period;
        if (kind == 1) token[i] = i % period + (rand() % 1000 == 0);
        if (kind == 2) token[i] = left > 0 ? token[from++] : rand() % (1 + rand() % 2000);
    }
}

/* Against a suffix automaton, at each length of short texts and at some of long ones. */
static void scans_find_what_an_automaton_does(void **state)
{
    (void)state;
    enum { MOST = 32768, ROOM = 32 };
    static int32_t token[MOST];
    int n_found = 0;
    srand(9);
    for (int trial = 0; trial < 60; trial++) {
        struct automaton a;
        int n = trial < 54 ? 1 + rand() % 400 : MOST, cap = trial % 2 ? 16 : 1 + rand() % 20;
        assert_true(automaton_open(&a, cap, n));
        write_text(token, n, trial % 3);
        for (int i = 0; i < n; i++) {
            int end[2][ROOM], len[2], got[2], room = 1 + rand() % ROOM;
            automaton_push(&a, token[i]);
            if (n == MOST && rand() % 64) continue;
            got[0] = draft_matches(token, i + 1, cap, room, end[0], &len[0]);
            got[1] = automaton_matches(&a, room, end[1], &len[1]);
            if (len[0] != len[1] || got[0] != got[1] || memcmp(end[0], end[1], (size_t)got[0] * sizeof *end[0]))
                fail_msg(
                    "trial %d, %d tokens: %d of %d tokens, not %d of %d", trial, i + 1, got[0], len[0], got[1], len[1]);
            n_found += got[0];
        }
        automaton_close(&a);
    }
    print_message("%d ends found\n", n_found);
    assert_true(n_found > 20000);
}

static void ngram_takes_what_followed_last(void **state)
{
    (void)state;
    struct draft_node node[SPEC_DRAFT_MOST];
    /* 1 2 stood twice before: the later one was followed by 8 9 1 2, and so on from there */
    assert_int_equal(draft(&drafter_ngram_simple, TOKENS(1, 2, 5, 1, 2, 8, 9, 1, 2), 6, node), 6);
    const int32_t follows[] = {8, 9, 1, 2, 8, 9};
    for (int i = 0; i < 6; i++) assert_true(node[i].token == follows[i] && node[i].parent == i - 1);
    /* the longer match wins over the later one */
    assert_int_equal(draft(&drafter_ngram_simple, TOKENS(7, 1, 2, 5, 3, 1, 2, 8, 7, 1, 2), 1, node), 1);
    assert_int_equal(node[0].token, 5);
    /* one token alone is no ground, nor is nothing */
    assert_int_equal(draft(&drafter_ngram_simple, TOKENS(4, 2, 8, 9, 2), 6, node), 0);
    assert_int_equal(draft(&drafter_ngram_simple, TOKENS(4), 6, node), 0);
}

static void suffix_counts_continuations(void **state)
{
    (void)state;
    struct draft_node node[SPEC_DRAFT_MOST];
    /* behind 1 2: 5 twice, then 6 and 7; 8 once, then 9 */
    int n = draft(&drafter_suffix, TOKENS(1, 2, 5, 6, 1, 2, 8, 9, 1, 2, 5, 7, 3, 1, 2), 5, node);
    assert_int_equal(n, 5);
    assert_true(node[0].token == 5 && node[0].parent == -1);
    assert_float_equal(node[0].p, 2.0 / 3, 1e-6);
    for (int i = 1; i < n; i++) {
        const struct draft_node *up = node[i].parent < 0 ? NULL : &node[node[i].parent];
        assert_true(node[i].p <= node[i - 1].p && node[i].parent < i);
        assert_float_equal(node[i].p, (up ? up->p : 1) * node[i].share, 1e-6);
        assert_float_equal(node[i].p, 1.0 / 3, 1e-6);
        if (node[i].token == 8) assert_int_equal(node[i].parent, -1);
        if (node[i].token == 6 || node[i].token == 7) assert_int_equal(node[i].parent, 0);
    }
    /* a longer match alone is heard */
    n = draft(&drafter_suffix, TOKENS(3, 1, 2, 5, 1, 2, 8, 1, 2, 8, 3, 1, 2), 1, node);
    assert_true(n == 1 && node[0].token == 5 && node[0].share == 1 && node[0].kind == draft_match_kind(3, 0, 0));
    assert_int_equal(draft(&drafter_suffix, TOKENS(4, 5, 6), 5, node), 0);
    assert_int_equal(draft(&drafter_suffix, TOKENS(4), 5, node), 0);
}

/* What was expected is drafted, not what stood there: behind the longest match, then from each of that on. */
static void calibrated_says_what_was_expected(void **state)
{
    (void)state;
    /* 3 1 stood there twice and the text said 5; the model had 7 in mind, and behind 7 it was sure of 8 */
    static const int32_t token[] = {3, 1, 5, 7, 6, 1, 9, 3, 1, 5, 2, 3, 1};
    enum { N = sizeof token / sizeof *token };
    static const struct row_hints at_3_1 = {{7, 5}, {0.7f, 0.3f}}, again = {{7, 4}, {0.5f, 0.5f}}, at_1 = {{11}, {1}},
                                  at_7 = {{8}, {0.9f}};
    struct row_hints hints[N] = {{{0}, {0}}};
    struct draft_node node[SPEC_DRAFT_MOST];
    struct row_tip tip = {.token = token, .n_token = N, .hints = hints};
    struct spec_settings set = usual;
    hints[1] = at_3_1, hints[8] = again, hints[5] = at_1, hints[3] = at_7;
    set.p_min = 0.1f;
    for (int i = 0; i < DRAFT_KINDS; i++) sure[i] = 1;
    struct draft_ask ask = {NULL, &set, sure, &tip, 16};
    int n = drafter_calibrated.draft(&ask, node);
    const int32_t tokens[] = {7, 8, 4, 5};
    const int parents[] = {-1, 0, -1, -1};
    const float p[] = {0.6f, 0.54f, 0.25f, 0.15f};
    assert_int_equal(n, 4); /* nothing is known behind 8, 4 and 5 */
    for (int i = 0; i < n; i++) {
        assert_int_equal(node[i].token, tokens[i]);
        assert_int_equal(node[i].parent, parents[i]);
        assert_float_equal(node[i].p, p[i], 1e-6);
    }
    set.p_min = 0.2f;
    assert_int_equal(drafter_calibrated.draft(&ask, node), 3);
    ask.most = 1;
    assert_int_equal(drafter_calibrated.draft(&ask, node), 1);
    tip.n_token = 1; /* a first token, and no hints at all */
    assert_int_equal(drafter_calibrated.draft(&ask, node), 0);
    tip.hints = NULL;
    assert_int_equal(drafter_calibrated.draft(&ask, node), 0);
}

/* From counts, then from times: noise of a busy machine does not lift it, gaps lie between, more rows never cost
 * less. */
static void costs_are_measured(void **state)
{
    (void)state;
    struct row_cost c;
    assert_float_equal(row_cost_counted(8, 32, 18), 0.7 / 8, 1e-9);               /* Q4_0 */
    assert_float_equal(row_cost_counted(8, 1000, 2000), 0.7 / 8 * 18 / 64, 1e-9); /* F16 */
    assert_float_equal(row_cost_counted(4, 0, 0), 0.7 / 4, 1e-9);
    row_cost_init(&c, 0.1, 0.001);
    assert_float_equal(row_cost_of(&c, 8, 100), 1.9, 1e-9);
    assert_int_equal(row_cost_flat(&c, 5, 64), 5);
    srand(5);
    for (int i = 0; i < 300;
         i++) { /* truly flat up to 8 rows, then two for the price of one; every third pass is disturbed */
        const int rows[] = {1, 4, 8, 16};
        int n = rows[i % 4], us = 10000 + (n > 8 ? 2500 * (n - 8) : 0);
        row_cost_learn(&c, n, 0, (uint64_t)(rand() % 3 ? us : us * (2 + rand() % 10)));
    }
    for (int n = 1; n < 40; n++) assert_true(row_cost_of(&c, n + 1, 0) >= row_cost_of(&c, n, 0));
    assert_in_range((int)row_cost_of(&c, 1, 0), 9500, 11500);
    assert_in_range((int)row_cost_of(&c, 8, 0), 9500, 11500);
    assert_in_range((int)row_cost_of(&c, 6, 0), 9500, 12500);
    assert_in_range((int)row_cost_of(&c, 16, 0), 29000, 34500);
    assert_in_range((int)row_cost_of(&c, 12, 0), 9500, 11500); /* never tried: as cheap as may be */
    assert_in_range((int)row_cost_of(&c, 15, 0), 9500, 11500);
    assert_in_range((int)row_cost_of(&c, 17, 0), 30000, 40000);
    assert_in_range(row_cost_flat(&c, 5, 64), 8, 11);
    assert_int_equal(row_cost_flat(&c, 5, 6), 6);
    double before = row_cost_of(&c, 16, 0);
    row_cost_learn(&c, 16, 0, 10000000); /* once, then never again: in time it is as cheap as counts say */
    for (int i = 0; i < 50; i++) row_cost_learn(&c, 1, 0, 10000);
    assert_true(row_cost_of(&c, 16, 0) >= before);
    for (int i = 0; i < 400; i++) row_cost_learn(&c, 1, 0, 10000);
    assert_true(row_cost_of(&c, 16, 0) < 1.02 * 2.6 / 1.1 * 10000);
}

/* A pass made by hand: row i's token, parent and best tokens. */
struct by_hand {
    struct row row[8];
    struct row_result result[8];
    int32_t top_id[8][4];
    float top_logit[8][4];
    struct row_tip tip;
    struct batch batch;
    struct pass pass;
};

static void add_row(struct by_hand *h, int32_t token, int parent, const int32_t best[4])
{
    int i = h->batch.n_row++;
    h->row[i] = (struct row){token, 10 + i, 0, parent, (i ? ROW_DRAFT : 0) | WANT_DRAW_BEST, 0, NULL, NULL, NULL};
    memcpy(h->top_id[i], best, sizeof h->top_id[i]);
    for (int k = 0; k < 4; k++) h->top_logit[i][k] = logf((float)(4 - k)); /* 0.4, 0.3, 0.2, 0.1 */
    h->result[i] = (struct row_result){
        .row = i, .log_sum_exp = logf(10), .n_top = 4, .top_id = h->top_id[i], .top_logit = h->top_logit[i]};
    h->batch.row = h->row;
    h->pass = (struct pass){.n_vocab = VOCAB,
        .batch = &h->batch,
        .tip = &h->tip,
        .n_tip = 1,
        .draft_end = i + 1,
        .result = h->result,
        .n_result = i + 1};
}

static int draft_of(
    const struct drafter *d, void *self, const int32_t *token, int n_token, float p_min, struct draft_node *node)
{
    struct spec_settings set = usual;
    struct row_tip tip = {.token = token, .n_token = n_token, .request = 3, .sample = 1};
    set.p_min = p_min;
    for (int i = 0; i < DRAFT_KINDS; i++) sure[i] = 1;
    return d->draft(&(struct draft_ask){self, &set, sure, &tip, SPEC_DRAFT_MOST}, node);
}

/* Rejected rows teach, too; a later row of the same token replaces what an earlier one said. */
static void recycle_walks_what_was_likely(void **state)
{
    (void)state;
    static struct by_hand h;
    struct draft_node node[SPEC_DRAFT_MOST];
    struct spec_limits lim = {.n_vocab = VOCAB, .n_seq = 1};
    void *self;
    assert_int_equal(drafter_recycle.open(&self, &lim, NULL), 0);
    assert_int_equal(draft_of(&drafter_recycle, self, TOKENS(1), 0.01f, node), 0);
    add_row(&h, 1, -1, (int32_t[]){90, 91, 92, 93});
    add_row(&h, 2, 0, (int32_t[]){3, 4, 5, 6});
    add_row(&h, 1, 1, (int32_t[]){2, 7, 8, 9});
    drafter_recycle.see(self, &h.pass);
    int n = draft_of(&drafter_recycle, self, TOKENS(60, 1), 0.1f - 1e-6f, node);
    const int32_t want[][2] = {{2, -1}, {7, -1}, {8, -1}, {3, 0}, {4, 0}, {9, -1}}; /* .4 .3 .2 .16 .12 .1 */
    const float p[] = {0.4f, 0.3f, 0.2f, 0.16f, 0.12f, 0.1f};
    assert_int_equal(n, 6);
    for (int i = 0; i < n; i++) {
        assert_true(node[i].token == want[i][0] && node[i].parent == want[i][1]);
        assert_float_equal(node[i].p, p[i], 1e-5);
    }
    drafter_recycle.close(self);
}

static int recycle_at(void *self, uint64_t domain, int32_t token)
{
    struct spec_settings set = {.p_min = 0.01f};
    struct row_tip tip = {.token = &token, .n_token = 1, .domain = domain};
    struct draft_node node[SPEC_DRAFT_MOST];
    for (int i = 0; i < DRAFT_KINDS; i++) sure[i] = 1;
    return drafter_recycle.draft(&(struct draft_ask){self, &set, sure, &tip, SPEC_DRAFT_MOST}, node);
}

/* What one domain's rows teach shows in its own drafts only; of more domains than tables the idle ones give theirs. */
static void recycle_keeps_domains_apart(void **state)
{
    (void)state;
    static struct by_hand h;
    static uint64_t domain[64];
    struct spec_limits lim = {.n_vocab = VOCAB, .n_seq = 1};
    void *self;
    assert_int_equal(drafter_recycle.open(&self, &lim, NULL), 0);
    add_row(&h, 1, -1, (int32_t[]){2, 3, 4, 5});
    h.pass.domain = domain;
    for (uint64_t d = 1; d <= 8; d++) {
        domain[0] = d;
        drafter_recycle.see(self, &h.pass);
        for (uint64_t other = 0; other <= 9; other++)
            assert_int_equal(recycle_at(self, other, 1) > 0, other >= 1 && other <= d);
    }
    domain[0] = 9; /* no table is idle */
    drafter_recycle.see(self, &h.pass);
    assert_int_equal(recycle_at(self, 9, 1), 0);
    assert_true(recycle_at(self, 1, 1) > 0);
    domain[0] = 8;
    for (int i = 0; i < 256; i++) drafter_recycle.see(self, &h.pass);
    domain[0] = 9;
    drafter_recycle.see(self, &h.pass);
    assert_true(recycle_at(self, 9, 1) > 0);
    assert_int_equal(recycle_at(self, 1, 1), 0); /* the one written longest ago, emptied */
    assert_true(recycle_at(self, 2, 1) > 0);
    drafter_recycle.close(self);
}

/* Behind a rejection the longest stretch that ranks high is offered again, from its start or behind where the text has
 * come to, for four passes. */
static void extend_offers_a_rejected_stretch(void **state)
{
    (void)state;
    static struct by_hand h;
    struct draft_node node[SPEC_DRAFT_MOST];
    struct spec_limits lim = {.n_vocab = VOCAB, .n_seq = 2};
    void *self;
    assert_int_equal(drafter_extend.open(&self, &lim, NULL), 0);
    add_row(&h, 1, -1, (int32_t[]){50, 51, 52, 53}); /* 10 does not rank here, so it is not kept */
    add_row(&h, 10, 0, (int32_t[]){50, 11, 52, 53});
    add_row(&h, 11, 1, (int32_t[]){50, 51, 12, 53});
    add_row(&h, 12, 2, (int32_t[]){13, 51, 52, 53});
    add_row(&h, 13, 3, (int32_t[]){50, 51, 52, 53});
    add_row(&h, 20, 4, (int32_t[]){50, 51, 52, 53}); /* nor does 20 */
    h.tip = (struct row_tip){.request = 3, .sample = 1, .row = 0, .taken = 0, .picked = 50};
    drafter_extend.see(self, &h.pass);
    for (int pass = 0; pass < 5; pass++) {
        int n = draft_of(&drafter_extend, self, TOKENS(1, 50), 0, node);
        assert_int_equal(n, pass < 4 ? 3 : 0);
        for (int i = 0; i < n; i++) assert_true(node[i].token == 11 + i && node[i].parent == i - 1);
        n = draft_of(&drafter_extend, self, TOKENS(1, 50, 12), 0, node);
        assert_int_equal(n, pass < 4 ? 1 : 0);
        if (n) assert_int_equal(node[0].token, 13);
        h.pass.n_tip = 0; /* passes of others */
        drafter_extend.see(self, &h.pass);
    }
    drafter_extend.close(self);
}

/* Whatever order a caller's guesses come in, they leave best first and parents first. */
static int backwards(void *guesser, const struct row_tip *tip, const float *known, int most, struct draft_guess *out)
{
    (void)guesser, (void)tip, (void)known;
    const struct draft_guess all[] = {{1, -1, 0.2f, 0, 0}, {2, 0, 1, 0, 0}, {3, -1, 0.7f, 0, 0}, {4, 2, 0.9f, 0, 0},
        {5, 2, 0.1f, 0, 0}, {6, 3, 0.5f, 0, 0}};
    assert_true(most >= 6);
    memcpy(out, all, sizeof all);
    return 6;
}

static void outside_guesses_are_put_in_order(void **state)
{
    (void)state;
    struct draft_node node[SPEC_DRAFT_MOST];
    struct row_tip tip = {.guess = backwards};
    const int32_t want[][2] = {{3, -1}, {4, 0}, {6, 1}, {1, -1}, {2, 3}, {5, 0}};
    for (int i = 0; i < DRAFT_KINDS; i++) sure[i] = 1;
    assert_int_equal(drafter_outside.draft(&(struct draft_ask){NULL, &usual, sure, &tip, 16}, node), 6);
    for (int i = 0; i < 6; i++) {
        assert_true(node[i].token == want[i][0] && node[i].parent == want[i][1]);
        assert_true(i == 0 || node[i].p <= node[i - 1].p);
    }
}

/* Kinds that a caller names have the rate he says until one was seen, then the one that was seen. */
static int by_kind(void *guesser, const struct row_tip *tip, const float *known, int most, struct draft_guess *out)
{
    (void)guesser, (void)tip, (void)most;
    out[0] = (struct draft_guess){7, -1, 0.8f, 3, 0.5f};
    out[1] = (struct draft_guess){8, -1, 0.8f, GUESS_KINDS, known[GUESS_KINDS - 1] > 0 ? 1 : 0.25f};
    return 2;
}

static void outside_guesses_name_their_kind(void **state)
{
    (void)state;
    struct draft_node node[SPEC_DRAFT_MOST];
    struct row_tip tip = {.guess = by_kind};
    float rate[DRAFT_KINDS] = {0};
    struct draft_ask ask = {NULL, &usual, rate, &tip, 16};
    assert_int_equal(drafter_outside.draft(&ask, node), 2);
    assert_true(node[0].token == 7 && node[1].token == 8);
    assert_float_equal(node[0].p, 0.8f * 0.5f, 1e-6);
    assert_float_equal(node[1].p, 0.8f * 0.25f, 1e-6);
    rate[node[1].kind] = 0.75f;
    assert_int_equal(drafter_outside.draft(&ask, node), 2);
    assert_true(node[0].token == 8 && node[1].token == 7);
    assert_float_equal(node[0].p, 0.8f * 0.75f, 1e-6);
}

static struct row_cost cost;
static struct clock clock_now;

static int open_drafters(struct speculator **sp, const struct spec_settings *set, int n_draft)
{
    row_cost_init(&cost, 0.09, 0);
    clock_now = clock_real();
    struct spec_limits lim = {.n_draft = n_draft, .n_seq = 4, .n_vocab = VOCAB, .cost = &cost, .clock = &clock_now};
    return speculator_open(sp, set, &lim, NULL);
}

/* What somebody outside guesses in one_pass, at the tip alone; -1: nobody does.  And how many rows that was. */
static int32_t outside = -1;
static int n_outside;
static uint64_t domain_now; /* of one_pass */

static int say_one(void *guesser, const struct row_tip *tip, const float *known, int most, struct draft_guess *out)
{
    (void)guesser, (void)tip, (void)known, (void)most;
    *out = (struct draft_guess){.token = outside, .parent = -1, .p = 0.9f};
    return 1;
}

/* One sample that goes on with `next`, and with a period as far as its drafts do; returns how many drafts it got. */
static int one_pass(struct speculator *sp, int32_t *token, int *n_token, int room, int32_t next, int period)
{
    static struct row row[64];
    struct row_tip tip[1];
    struct batch b = {.row = row};
    struct pass pass;
    pass_begin(&pass, &b, tip, VOCAB, (struct row_room){64, 64, room});
    pass_tip(&pass, (struct row){.token = token[*n_token - 1], .pos = *n_token - 1, .parent = -1},
        (struct row_tip){.token = token,
            .n_token = *n_token,
            .max_tok = N_HISTORY,
            .domain = domain_now,
            .guess = outside < 0 ? NULL : say_one});
    const struct row_source *source = speculator_source(sp);
    source->ops->offer(source->self, &pass);
    assert_true(b.n_row - 1 <= room);
    for (int r = 1; r < b.n_row; r++) n_outside += row[r].token == outside;
    for (int32_t child; period && (child = pass_child(&pass, tip[0].taken, next)) >= 0; next = (next + 1) % period) {
        tip[0].taken = child;
        token[(*n_token)++] = next;
    }
    tip[0].picked = next;
    assert_int_equal(source->ops->take(source->self, &pass, NULL), 0);
    token[(*n_token)++] = next;
    return b.n_row - 1;
}

/* Tips whose texts know what follows, and one that knows nothing: the first share the rows, the last has none.  Where
 * rows are dear, or everything fails, nobody drafts; where eight cost what one does, all eight are taken or none. */
static void rows_go_where_they_pay(void **state)
{
    (void)state;
    static struct row row[64];
    static int32_t known_text[60], unknown[60], taught[N_HISTORY];
    struct row_tip tip[4];
    struct speculator *sp;
    for (int i = 0; i < 60; i++) known_text[i] = i % 5, unknown[i] = i;
    for (int dear = 0; dear < 3; dear++) {
        assert_int_equal(open_drafters(&sp, &usual, 32), 0);
        int n_taught = 20; /* a kind of guess that nothing is known of is tried at one tip only */
        for (int i = 0; i < n_taught; i++) taught[i] = i % 5;
        for (int i = 0; i < 4 && dear == 0; i++) one_pass(sp, taught, &n_taught, 8, n_taught % 5, 5);
        if (dear == 1) row_cost_init(&cost, 0.9, 0);
        if (dear == 2) row_cost_init(&cost, 1, 0), row_cost_learn(&cost, 4, 0, 5000), row_cost_learn(&cost, 8, 0, 5001);
        if (dear == 2) row_cost_learn(&cost, 16, 0, 50000), row_cost_learn(&cost, 3, 0, 2000);
        struct batch b = {.row = row};
        struct pass pass;
        pass_begin(&pass, &b, tip, VOCAB, (struct row_room){64, 64, 32});
        for (int i = 0; i < 3; i++)
            pass_tip(&pass, (struct row){.token = 4, .pos = 59, .seq = i, .parent = -1},
                (struct row_tip){.token = i == 1 ? unknown : known_text, .n_token = 60, .max_tok = 100});
        for (int i = 0; i < 3; i++) tip[i].request = i;
        const struct row_source *source = speculator_source(sp);
        source->ops->offer(source->self, &pass);
        int n[3] = {0};
        for (int r = 3; r < b.n_row; r++) n[row[r].seq]++;
        if (dear == 0) assert_true(n[0] >= 2 && n[2] >= 2 && abs(n[0] - n[2]) <= 1 && n[1] == 0);
        if (dear == 1) assert_int_equal(b.n_row, 3);
        if (dear == 2) assert_int_equal(b.n_row, 3); /* 2.5 times the cost for five more rows: p falls too fast */
        assert_true(
            pass.left.rows == 64 - b.n_row && pass.left.outs == 64 - b.n_row && pass.left.drafts == 35 - b.n_row);
        speculator_close(&sp);
    }
}

/* Tokens of a reply: as all others but for one in `differs` of them. */
static int32_t replied(int reply, int pos, int differs)
{
    uint32_t h = (uint32_t)(reply * 7919 + pos * 104729 + 12345) * 2654435761u;
    return (h >> 16) % (uint32_t)differs == 0 ? 50 + (int32_t)(h >> 8) % 10
                                              : (int32_t)((uint32_t)pos * 2654435761u >> 24) % 50;
}

/* Passes of `n` replies of 40 tokens to one prompt, or to one each, in sequence. */
static int passes_of(const char *types, int n, bool one_prompt)
{
    enum { PROMPT = 20, LENGTH = 40 };
    static int32_t token[N_HISTORY];
    static struct row row[64];
    struct spec_settings set = usual;
    struct speculator *sp;
    int n_pass = 0;
    set.types = types;
    assert_int_equal(open_drafters(&sp, &set, 16), 0);
    const struct row_source *source = speculator_source(sp);
    for (int i = 0; i < n; i++) {
        uint64_t prompt_hash = one_prompt ? 5 : (uint64_t)i;
        int n_token = PROMPT;
        for (int t = 0; t < PROMPT; t++) token[t] = (t * 7 + (one_prompt ? 0 : i)) % 50;
        token[n_token++] = replied(i, PROMPT, 12);
        for (; n_token < PROMPT + LENGTH; n_pass++) {
            struct row_tip tip[1];
            struct batch b = {.row = row};
            struct pass pass;
            pass_begin(&pass, &b, tip, VOCAB, (struct row_room){64, 64, 16});
            pass_tip(&pass, (struct row){.token = token[n_token - 1], .pos = n_token - 1, .parent = -1},
                (struct row_tip){.token = token,
                    .n_token = n_token,
                    .n_prompt = PROMPT,
                    .prompt_hash = prompt_hash,
                    .request = i,
                    .max_tok = N_HISTORY});
            source->ops->offer(source->self, &pass);
            for (int32_t child;
                 (child = pass_child(&pass, tip[0].taken, replied(i, n_token, 12))) >= 0 && n_token < PROMPT + LENGTH;
                 n_token++) {
                token[n_token] = replied(i, n_token, 12);
                tip[0].taken = child;
            }
            tip[0].picked = token[n_token] = replied(i, n_token, 12);
            n_token++;
            assert_int_equal(source->ops->take(source->self, &pass, NULL), 0);
        }
        speculator_keep(sp, &(struct spec_text){prompt_hash, token, PROMPT, n_token});
    }
    speculator_close(&sp);
    return n_pass;
}

/* Replies to one prompt that say mostly the same are drafted from those before; replies to other prompts are not. */
static void siblings_say_what_follows(void **state)
{
    (void)state;
    int plain = passes_of("none", 16, true), alone = passes_of("siblings", 16, false);
    int before = passes_of("siblings", 16, true), all = passes_of("auto", 16, true);
    print_message(
        "16 replies: %d passes, %d by other prompts' replies, %d by siblings, %d by all\n", plain, alone, before, all);
    assert_int_equal(alone, plain);
    assert_true(before < plain * 2 / 5 && all < plain * 2 / 5);
}

/* The ring of texts: the oldest go, the others stay whole; a reply longer than a quarter of it keeps its beginning. */
static void siblings_keep_the_latest(void **state)
{
    (void)state;
    enum { LONG = 30000 };
    static int32_t token[LONG];
    struct draft_node node[SPEC_DRAFT_MOST];
    struct pass pass = {.n_tip = 0};
    void *self;
    assert_int_equal(drafter_siblings.open(&self, NULL, NULL), 0);
    drafter_siblings.begin(self, &pass, NULL);
    for (int text = 0; text < 300; text++) { /* each has 100 to 30,000 tokens that are its own */
        int n = text % 10 == 9 ? LONG : 100 + text;
        for (int i = 0; i < n; i++) token[i] = text * 100000 + i;
        drafter_siblings.keep(self, &(struct spec_text){0, token, 1, n});
        for (int back = 0; back < 60 && back <= text; back++) {
            int was = text - back, base = was * 100000;
            int got = draft_of(&drafter_siblings, self, TOKENS(base + 40, base + 41), 0, node);
            if (back == 0) assert_in_range(got, 1, SPEC_DRAFT_MOST);
            for (int i = 0; i < got; i++) assert_int_equal(node[i].token, base + 42 + i);
        }
    }
    assert_int_equal(draft_of(&drafter_siblings, self, TOKENS(40, 41), 0, node), 0);
    drafter_siblings.close(self);
}

/* Rightly guessed texts are drafted further and further; random ones hardly at all. */
static void acceptance_is_learnt(void **state)
{
    (void)state;
    static int32_t token[N_HISTORY];
    struct speculator *sp;
    assert_int_equal(open_drafters(&sp, &usual, 8), 0);
    for (int i = 0; i < 20; i++) token[i] = i % 5;
    int n = 20, first = one_pass(sp, token, &n, 8, 0, 5), last = 0;
    for (int i = 1; i < 25; i++) last = one_pass(sp, token, &n, 8, n % 5, 5);
    assert_in_range(first, 2, 6);
    assert_int_equal(last, 8);
    assert_true(n > 25 * 5);
    speculator_close(&sp);
    assert_null(sp);

    assert_int_equal(open_drafters(&sp, &usual, 8), 0);
    srand(11);
    n = 20, last = 0;
    for (int i = 0; i < 250; i++) {
        int got =
            one_pass(sp, token, &n, 8, 90, 0); /* never what it guesses: 90 is followed by a random token each time */
        if (i >= 150) last += got;
        token[n - 1] = rand() % 5;
    }
    assert_in_range(last, 0, 10);
    speculator_close(&sp);
}

/* Drafts of a domain's next pass where a period has just been seen; and what becomes of n_pass of them. */
static int drafts_in(struct speculator *sp, uint64_t domain, int n_pass, bool right)
{
    static int32_t token[N_HISTORY];
    int n_draft = 0;
    domain_now = domain;
    for (int i = 0; i < n_pass; i++) {
        int n = 20;
        for (int k = 0; k < n; k++) token[k] = k % 5;
        int now = one_pass(sp, token, &n, 8, right ? 0 : 90, right ? 5 : 0);
        if (i == 0) n_draft = now;
    }
    domain_now = 0;
    return n_draft;
}

/* What one domain's texts teach shows in its own passes only; of more domains than places the idle ones give theirs. */
static void domains_learn_apart(void **state)
{
    (void)state;
    struct speculator *sp;
    assert_int_equal(open_drafters(&sp, &usual, 8), 0);
    int fresh = drafts_in(sp, 100, 100, false), wrong = drafts_in(sp, 100, 1, false);
    assert_int_equal(drafts_in(sp, 101, 100, true), fresh);
    int right = drafts_in(sp, 101, 1, true);
    print_message("%d drafts, %d where they fail, %d where they are right\n", fresh, wrong, right);
    assert_true(wrong < fresh && fresh < right);
    for (uint64_t d = 1; d <= 62; d++) assert_int_equal(drafts_in(sp, d, 1, d % 2), fresh);
    assert_int_equal(drafts_in(sp, 63, 30, true), fresh); /* no place is idle: it learns nothing */
    assert_int_equal(drafts_in(sp, 63, 1, true), fresh);
    assert_int_equal(drafts_in(sp, 101, 256, true), right);
    assert_int_equal(drafts_in(sp, 63, 100, true), fresh); /* the place of 100, as it began */
    assert_int_equal(drafts_in(sp, 63, 1, true), right);
    speculator_close(&sp);
}

/* One who is right whenever another says the same, and never against it, is heard then and not else. */
static void agreement_is_learnt(void **state)
{
    (void)state;
    int32_t token[N_HISTORY];
    struct speculator *sp;
    int n_alike = 0, n_against = 0;
    assert_int_equal(open_drafters(&sp, &usual, 8), 0);
    srand(12);
    for (int i = 0; i < 200; i++) {
        int n = 22; /* 4 0 and something, again and again, then 4 */
        for (int k = 0; k < n; k++) token[k] = k % 3 == 0 ? 4 : k % 3 == 1 ? 0 : 70 + rand() % 20;
        bool alike = rand() % 2;
        outside = alike ? 0 : 60;
        n_outside = 0;
        one_pass(sp, token, &n, 8, 0, 0);
        if (i >= 100) *(alike ? &n_alike : &n_against) += n_outside > 0;
    }
    outside = -1;
    print_message("against another %d times, alike %d times\n", n_against, n_alike);
    assert_in_range(n_alike, 30, 70);
    assert_in_range(n_against, 0, 5);
    speculator_close(&sp);
}

static void fewer_than_draft_min_are_not_tried(void **state)
{
    (void)state;
    int32_t token[32] = {1, 2, 3, 1, 2, 3, 1, 2, 3};
    int n = 9;
    struct spec_settings set = usual;
    struct speculator *sp;
    set.types = "ngram-simple,suffix";
    set.draft_max = 8;
    set.draft_min = 9;
    assert_int_equal(open_drafters(&sp, &set, 16), LUTRA_E_ARGUMENT);
    set.draft_max = 16;
    set.draft_min = 10;
    token[8] = 50;
    assert_int_equal(open_drafters(&sp, &set, 16), 0);
    assert_int_equal(one_pass(sp, token, &n, 16, 1, 0), 0);
    speculator_close(&sp);
    set.types = "none";
    assert_false(spec_settings_any(&set));
    set.types = "recycle";
    assert_true(spec_settings_any(&set));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_are_the_longest_and_latest),
        cmocka_unit_test(scans_find_what_an_automaton_does),
        cmocka_unit_test(ngram_takes_what_followed_last),
        cmocka_unit_test(suffix_counts_continuations),
        cmocka_unit_test(calibrated_says_what_was_expected),
        cmocka_unit_test(recycle_walks_what_was_likely),
        cmocka_unit_test(recycle_keeps_domains_apart),
        cmocka_unit_test(extend_offers_a_rejected_stretch),
        cmocka_unit_test(outside_guesses_are_put_in_order),
        cmocka_unit_test(outside_guesses_name_their_kind),
        cmocka_unit_test(costs_are_measured),
        cmocka_unit_test(rows_go_where_they_pay),
        cmocka_unit_test(siblings_say_what_follows),
        cmocka_unit_test(siblings_keep_the_latest),
        cmocka_unit_test(acceptance_is_learnt),
        cmocka_unit_test(domains_learn_apart),
        cmocka_unit_test(agreement_is_learnt),
        cmocka_unit_test(fewer_than_draft_min_are_not_tried),
    };
    return cmocka_run_group_tests_name("decode/speculate", tests, NULL, NULL);
}
