/* SPDX-License-Identifier: MIT
 *
 * Drafters that do not pay for their own time are left out, tried again now and then, and let in again when they do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "decode/speculate/drafter_impl.h"
#include "decode/speculate/worth_impl.h"

enum { VOCAB = 100, CHAIN = 4, N_PASS = 1000, N_TEXT = N_PASS * (CHAIN + 1) + 1 };

static struct virtual_time now;

/* ---- two that guess the same ---- */

/* Each takes 10 us.  What both have guessed neither has brought. */
static int count_asked(struct worth *w, double alone_us, int n_pass, double pass_us)
{
    int n = 0;
    for (int i = 0; i < n_pass; i++) {
        worth_choose(w, 2);
        bool both = w[0].asked && w[1].asked;
        for (int k = 0; k < 2; k++) {
            if (!w[k].asked) continue;
            worth_learn(&w[k], 10, both ? 0 : alone_us);
            n++;
        }
        worth_settle(w, 2, pass_us);
    }
    return n;
}

static void of_two_that_say_the_same_one_stays(void **state)
{
    (void)state;
    struct worth w[2];
    worth_begin(w, 2);
    int n = count_asked(w, 30, 2000, 100);
    assert_in_range(n, 2000, 2250);
    assert_int_equal(w[0].out + w[1].out, 1);
    worth_begin(w, 2); /* neither pays */
    n = count_asked(w, 9, 4000, 100);
    assert_in_range(n, 100, 320);
    assert_true(w[0].out && w[1].out);
    n = count_asked(w, 11, 4000, 100); /* now one does */
    assert_in_range(n, 2000, 4500);
    worth_begin(w, 2); /* in passes of 3 ms nobody asks */
    assert_int_equal(count_asked(w, 0, 1000, 3000), 2000);
}

/* One pass in a hundred is interrupted for 4 ms by other programs: no time of the drafter's. */
static void interruptions_are_not_the_drafters(void **state)
{
    (void)state;
    struct worth w;
    worth_begin(&w, 1);
    for (int i = 0; i < 2000; i++) {
        worth_choose(&w, 1);
        assert_true(w.asked);
        worth_learn(&w, i % 100 == 50 ? 4000 : 10, 15);
        worth_settle(&w, 1, 100);
    }
    assert_in_range((int)w.us, 10, 14);
}

/* ---- a speculator ---- */

struct slow {
    uint64_t us; /* that a call takes */
    int right_in_8, n_call;
};

static int32_t text_at(int i)
{
    return i * 7 % 50;
}

/* The text goes on 0 7 14 ...; a chain of four is right up to some guess. */
static int guess(void *guesser, const struct row_tip *tip, const float *known, int most, struct draft_guess *out)
{
    struct slow *g = guesser;
    (void)known;
    clock_virtual_advance(&now, g->us);
    g->n_call++;
    for (int i = 0; i < CHAIN && i < most; i++) {
        bool right = (tip->n_token + i) * 5 % 8 < g->right_in_8;
        out[i] = (struct draft_guess){
            .token = right ? text_at(tip->n_token + i) : 99, .parent = i - 1, .p = (float)g->right_in_8 / 8};
    }
    return most < CHAIN ? most : CHAIN;
}

/* Passes of 100 us and 10 for each further row; returns microseconds a token. */
static double run(struct slow *g, struct speculator *sp, struct row_cost *cost, bool fixed)
{
    static int32_t token[N_TEXT];
    static struct row row[64];
    int n = 1;
    uint64_t start = clock_now_us(clock_virtual(&now));
    for (int i = 0; i < N_TEXT; i++) token[i] = text_at(i);
    for (int i = 0; i < N_PASS; i++) {
        struct row_tip tip[1];
        struct batch b = {.row = row};
        struct pass pass;
        const struct row_source *source = speculator_source(sp);
        pass_begin(&pass, &b, tip, VOCAB, (struct row_room){64, 64, 32});
        pass_tip(&pass, (struct row){.token = token[n - 1], .pos = n - 1, .parent = -1},
            (struct row_tip){.token = token, .n_token = n, .max_tok = N_TEXT, .guess = guess, .guesser = g});
        source->ops->offer(source->self, &pass);
        uint64_t us = 90 + 10 * (uint64_t)b.n_row;
        clock_virtual_advance(&now, us);
        if (!fixed) row_cost_learn(cost, b.n_row, 0, us);
        for (int32_t child; (child = pass_child(&pass, tip[0].taken, token[n])) >= 0; n++) tip[0].taken = child;
        tip[0].picked = token[n++];
        assert_int_equal(source->ops->take(source->self, &pass, NULL), 0);
    }
    return (double)(clock_now_us(clock_virtual(&now)) - start) / n;
}

static double run_new(struct slow *g, bool fixed)
{
    struct spec_settings set = {NULL, 16, 0, 0.01f, 12};
    struct row_cost cost;
    struct clock clock = clock_virtual(&now);
    struct spec_limits lim = {.n_draft = 32, .n_seq = 1, .n_vocab = VOCAB, .cost = &cost, .clock = &clock};
    struct speculator *sp;
    row_cost_init(&cost, 0.1, 0);
    assert_int_equal(speculator_open(&sp, &set, &lim, NULL), 0);
    double us = run(g, sp, &cost, fixed);
    if (!fixed && g->us > 0 && g->n_call < N_PASS / 2) { /* it gets faster: it is found out, and let in */
        struct slow fast = *g;
        fast.us = 0, fast.n_call = 0;
        run(&fast, sp, &cost, false);
        run(&fast, sp, &cost, false);
        assert_in_range(fast.n_call, N_PASS / 2, 2 * N_PASS);
    }
    speculator_close(&sp);
    return us;
}

static void drafting_has_to_pay_its_time(void **state)
{
    (void)state;
    struct slow cheap = {1, 6, 0}, dear = {800, 6, 0}, fixed = {800, 6, 0}, useless = {20, 0, 0};
    double us = run_new(&cheap, false);
    assert_int_equal(cheap.n_call, N_PASS); /* the first, too: what counts say pays */
    assert_true(us < 70);
    us = run_new(&dear, false); /* the first 32 passes, then now and then */
    assert_in_range(dear.n_call, 30, 120);
    assert_true(us < 150);
    us = run_new(&useless, false);
    assert_in_range(useless.n_call, 30, 120);
    assert_true(us < 105);
    run_new(&fixed, true); /* nothing is measured: counts are the same however long it takes */
    assert_int_equal(fixed.n_call, N_PASS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_that_say_the_same_one_stays),
        cmocka_unit_test(interruptions_are_not_the_drafters),
        cmocka_unit_test(drafting_has_to_pay_its_time),
    };
    return cmocka_run_group_tests_name("decode/worth", tests, NULL, NULL);
}
