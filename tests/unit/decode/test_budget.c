/* SPDX-License-Identifier: MIT
 *
 * The row budget against the best chain of fixed length in hindsight, on a machine made of numbers: the time of a pass by its
 * rows is that of the 1.5B shape (docs/SPECULATION.md), and of a machine that is flat up to 32 rows.  Drafts are right with
 * probability a, and known to be.  Twice: while costs are learnt, and with what was learnt; and where every pass is disturbed
 * by up to a fifth.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decode/speculate/drafter_impl.h"

enum { VOCAB = 100, SAMPLES = 4, DRAFTS = 15, N_TEXT = 1500, PROMPT = 256 };

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

static int guess(void *guesser, const struct row_tip *tip, int most, struct draft_guess *out)
{
    (void)guesser;
    int n = 0, at = tip->n_token;
    for (; n < most && n < DRAFTS && at + n < N_TEXT; n++)
        out[n] =
            (struct draft_guess){text_at(at + n) + (is_right(tip->sample, at + n, rate) ? 0 : 50), n - 1, (float)rate};
    return n;
}

/* Milliseconds for n_samples texts, by the budget. */
static double budgeted(const struct machine *m, int n_samples, double noise, struct row_cost *cost)
{
    static int32_t text[N_TEXT];
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
    for (int i = 0; i < N_TEXT; i++) text[i] = text_at(i);
    for (int s = 0; s < n_samples; s++) at[s] = PROMPT;
    for (int n_pass = 0; left > 0; n_pass++) {
        pass_begin(&pass, &b, tip, VOCAB, (struct row_room){128, 128, 64});
        for (int s = 0; s < n_samples; s++)
            if (at[s] < N_TEXT)
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
            left -= at[s] >= N_TEXT;
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
                if (at[s] >= N_TEXT) continue;
                while (n < k && at[s] + n < N_TEXT && is_right(s, at[s] + n, rate)) n++;
                at[s] += n + 1;
                left -= at[s] >= N_TEXT;
            }
        }
        if (k == 0 || sum < best) best = sum, *length = k;
    }
    return best;
}

static void the_budget_is_near_the_best_chain(void **state)
{
    (void)state;
    static const double rates[] = {0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95};
    for (size_t k = 0; k < sizeof machines / sizeof *machines; k++)
        for (int n = 1; n <= SAMPLES; n += SAMPLES - 1)
            for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
                int length = 0;
                rate = rates[i];
                double best = best_chain(&machines[k], n, &length), of[2][2];
                for (int noisy = 0; noisy < 2; noisy++) {
                    struct row_cost cost;
                    row_cost_init(&cost, 0.7 / machines[k].flat_rows, 1e-6);
                    for (int again = 0; again < 2; again++)
                        of[noisy][again] = budgeted(&machines[k], n, noisy * 0.2, &cost) / best;
                }
                print_message(
                    "%s, %d samples, a = %.2f: %.3f of the best chain (%d), then %.3f; with noise %.3f, %.3f\n",
                    machines[k].name, n, rate, of[0][0], length, of[0][1], of[1][0], of[1][1]);
                assert_true(of[0][0] < 1.1 && of[0][1] < 1.05 && of[1][0] < 1.1 && of[1][1] < 1.07);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_budget_is_near_the_best_chain)};
    return cmocka_run_group_tests_name("decode/budget", tests, NULL, NULL);
}
