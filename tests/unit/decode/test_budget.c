/* SPDX-License-Identifier: MIT
 *
 * The row budget against the best chain of fixed length in hindsight, on a machine made of numbers: the time of a pass
 * by its rows is that of the 1.5B shape (docs/SPECULATION.md), and of a machine that is flat up to 32 rows.  Drafts are
 * right with probability a, and known to be.  Long texts and short ones; twice each: while costs are learnt, and with
 * what was learnt; and where every pass is disturbed by up to a fifth.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decode/speculate/drafter_impl.h"

enum { VOCAB = 100, SAMPLES = 4, DRAFTS = 15, N_MOST = 1500, PROMPT = 256 };

static int n_text = N_MOST;

/* Milliseconds of a pass. */
struct machine {
    const char *name;
    int flat_rows; /* as the device says */
    int rows[8];
    double ms[8];
};

static const struct machine machines[] = {
    {"1.5B", 8, {1, 2, 4, 8, 16, 32, 64, 0}, {35.9, 37.5, 42.4, 66.6, 129.8, 245, 480}},
    {"flat", 32, {1, 8, 32, 64, 0}, {20, 20.4, 22, 60}},
};

static double time_of(const struct machine *m, int n_row)
{
    int k = 1;
    while (m->rows[k + 1] && m->rows[k] < n_row) k++;
    return m->ms[k - 1] + (m->ms[k] - m->ms[k - 1]) * (n_row - m->rows[k - 1]) / (m->rows[k] - m->rows[k - 1]);
}

static uint64_t hash(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

static bool is_right(int sample, int at, double a)
{
    return (double)(hash((uint64_t)(at + 100000 * sample + 1)) >> 11) * 0x1p-53 < a;
}

static int32_t text_at(int at)
{
    return at % 50;
}

static double rate;

static int guess(void *guesser, const struct row_tip *tip, const float *known, int most, struct draft_guess *out)
{
    (void)guesser, (void)known;
    int n = 0, at = tip->n_token;
    for (; n < most && n < DRAFTS && at + n < n_text; n++)
        out[n] = (struct draft_guess){.token = text_at(at + n) + (is_right(tip->sample, at + n, rate) ? 0 : 50),
            .parent = n - 1,
            .p = (float)rate};
    return n;
}

/* Milliseconds for n_samples texts, by the budget. */
static double budgeted(const struct machine *m, int n_samples, double noise, struct row_cost *cost)
{
    static int32_t text[N_MOST];
    static struct row row[128];
    const struct spec_settings set = {NULL, 16, 0, 0.01f, 12};
    struct clock clock = clock_real();
    struct spec_limits lim = {.n_draft = 64, .n_seq = SAMPLES, .n_vocab = VOCAB, .cost = cost, .clock = &clock};
    struct speculator *sp;
    struct row_tip tip[SAMPLES];
    struct batch b = {.row = row};
    struct pass pass;
    int at[SAMPLES], left = n_samples;
    double sum = 0;
    assert_int_equal(speculator_open(&sp, &set, &lim, NULL), 0);
    const struct row_source *source = speculator_source(sp);
    for (int i = 0; i < n_text; i++) text[i] = text_at(i);
    for (int s = 0; s < n_samples; s++) at[s] = PROMPT;
    for (int n_pass = 0; left > 0; n_pass++) {
        pass_begin(&pass, &b, tip, VOCAB, (struct row_room){128, 128, 64});
        for (int s = 0; s < n_samples; s++)
            if (at[s] < n_text)
                pass_tip(&pass, (struct row){.token = text[at[s] - 1], .pos = at[s] - 1, .seq = s, .parent = -1},
                    (struct row_tip){.sample = s, .token = text, .n_token = at[s], .max_tok = 1 << 20, .guess = guess});
        source->ops->offer(source->self, &pass);
        double ms = time_of(m, b.n_row) * (1 + noise * (double)(hash((uint64_t)n_pass) % 1000) / 1000), seen = 0;
        sum += time_of(m, b.n_row);
        for (int r = 0; r < b.n_row; r++) seen += row[r].pos + 1;
        row_cost_learn(cost, b.n_row, seen, (uint64_t)(1000 * ms));
        for (int i = 0; i < pass.n_tip; i++) {
            int s = tip[i].sample;
            for (int32_t r; (r = pass_child(&pass, tip[i].taken, text_at(at[s]))) >= 0; at[s]++) tip[i].taken = r;
            tip[i].picked = text_at(at[s]++);
            left -= at[s] >= n_text;
        }
        assert_int_equal(source->ops->take(source->self, &pass, NULL), 0);
    }
    speculator_close(&sp);
    return sum;
}

static double best_chain(const struct machine *m, int n_samples, int *length)
{
    double best = 0;
    for (int k = 0; k <= DRAFTS; k++) {
        int at[SAMPLES], left = n_samples;
        double sum = 0;
        for (int s = 0; s < n_samples; s++) at[s] = PROMPT;
        while (left > 0) {
            sum += time_of(m, left * (k + 1));
            for (int s = 0, n = 0; s < n_samples; s++, n = 0) {
                if (at[s] >= n_text) continue;
                while (n < k && at[s] + n < n_text && is_right(s, at[s] + n, rate)) n++;
                at[s] += n + 1;
                left -= at[s] >= n_text;
            }
        }
        if (k == 0 || sum < best) best = sum, *length = k;
    }
    return best;
}

/* Of the best chain: while costs are learnt and with what was learnt, then the same with noise. */
static void budget_over_best(const struct machine *m, int n_samples, double of[4])
{
    int length = 0;
    double best = best_chain(m, n_samples, &length);
    for (int k = 0; k < 4; k += 2) {
        struct row_cost cost;
        row_cost_init(&cost, 0.7 / m->flat_rows, 1e-6);
        for (int again = 0; again < 2; again++) of[k + again] = budgeted(m, n_samples, k * 0.1, &cost) / best;
    }
    print_message("%s, %d samples, a = %.2f: %.3f of the best chain (%d), then %.3f; with noise %.3f, %.3f\n", m->name,
        n_samples, rate, of[0], length, of[1], of[2], of[3]);
}

static void the_budget_is_near_the_best_chain(void **state)
{
    static const double rates[] = {0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95};
    bool is_short = *state != NULL;
    n_text = is_short ? PROMPT + 128 : N_MOST;
    for (size_t k = 0; k < sizeof machines / sizeof *machines; k++) {
        double sum[4] = {0}, of[4];
        int n_case = 0;
        for (int n = 1; n <= SAMPLES; n += SAMPLES - 1)
            for (size_t i = 0; i < sizeof rates / sizeof *rates; i++, n_case++) {
                rate = rates[i];
                budget_over_best(&machines[k], n, of);
                for (int c = 0; c < 4; c++) sum[c] += of[c];
                if (is_short) continue; /* a first try of 64 rows is a tenth of it */
                assert_true(of[0] < 1.1 && of[1] < 1.05 && of[2] < 1.1 && of[3] < 1.07);
            }
        for (int c = 0; c < 4; c++) assert_true(sum[c] / n_case < (c % 2 ? 1.03 : 1.08));
    }
}

int main(void)
{
    static char short_text[] = "128 tokens";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_budget_is_near_the_best_chain),
        cmocka_unit_test_prestate(the_budget_is_near_the_best_chain, short_text),
    };
    return cmocka_run_group_tests_name("decode/budget", tests, NULL, NULL);
}
