/* SPDX-License-Identifier: MIT
 *
 * Drafters on histories made by hand; what pays; what is learnt.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decode/speculate/drafter_impl.h"

enum { VOCAB = 100, N_HISTORY = 300 };

static const struct spec_settings usual = {"suffix", 16, 0, 0.25f, 12};
static const float sure[DRAFT_BUCKETS] = {1, 1, 1, 1, 1, 1};

#define TOKENS(...) (const int32_t[]){__VA_ARGS__}, (int)(sizeof(int32_t[]){__VA_ARGS__} / sizeof(int32_t))

static int draft(const struct drafter *d, const int32_t *token, int n_token, int most, struct draft_node *node)
{
    return d->draft(&usual, sure, token, n_token, most, node);
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
    assert_true(n == 1 && node[0].token == 5 && node[0].share == 1 && node[0].bucket == 2);
    assert_int_equal(draft(&drafter_suffix, TOKENS(4, 5, 6), 5, node), 0);
    assert_int_equal(draft(&drafter_suffix, TOKENS(4), 5, node), 0);
}

static void a_row_pays_while_tokens_per_cost_rise(void **state)
{
    (void)state;
    assert_true(spec_row_pays(0.1f, 1, 1) && !spec_row_pays(0.08f, 1, 1));
    assert_true(spec_row_pays(0.7f, 16, 16) && !spec_row_pays(0.5f, 16, 16)); /* sixteen samples: rows are dear */
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
        (struct row_tip){.token = token, .n_token = *n_token, .max_tok = N_HISTORY});
    const struct row_source *source = speculator_source(sp);
    source->ops->offer(source->self, &pass);
    assert_true(b.n_row - 1 <= room);
    for (int32_t child; period && (child = pass_child(&pass, tip[0].taken, next)) >= 0; next = (next + 1) % period) {
        tip[0].taken = child;
        token[(*n_token)++] = next;
    }
    tip[0].picked = next;
    assert_int_equal(source->ops->take(source->self, &pass, NULL), 0);
    token[(*n_token)++] = next;
    return b.n_row - 1;
}

/* Rightly guessed texts are drafted further and further; random ones hardly at all. */
static void acceptance_is_learnt(void **state)
{
    (void)state;
    static int32_t token[N_HISTORY];
    struct speculator *sp;
    assert_int_equal(speculator_open(&sp, &usual, 8, NULL), 0);
    for (int i = 0; i < 20; i++) token[i] = i % 5;
    int n = 20, first = one_pass(sp, token, &n, 8, 0, 5), last = 0;
    for (int i = 1; i < 25; i++) last = one_pass(sp, token, &n, 8, n % 5, 5);
    assert_in_range(first, 2, 6);
    assert_int_equal(last, 8);
    assert_true(n > 25 * 5);
    speculator_close(&sp);
    assert_null(sp);

    assert_int_equal(speculator_open(&sp, &usual, 8, NULL), 0);
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

static void fewer_than_draft_min_are_not_tried(void **state)
{
    (void)state;
    int32_t token[32] = {1, 2, 3, 1, 2, 3, 1, 2, 3};
    int n = 9;
    struct spec_settings set = usual;
    struct speculator *sp;
    set.types = "ngram-simple,suffix";
    set.draft_min = 10;
    assert_int_equal(speculator_open(&sp, &set, 16, NULL), 0);
    assert_int_equal(one_pass(sp, token, &n, 16, 1, 0), 0);
    speculator_close(&sp);
    set.types = "none";
    assert_int_equal(speculator_open(&sp, &set, 16, NULL), 0);
    assert_null(sp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_are_the_longest_and_latest),
        cmocka_unit_test(ngram_takes_what_followed_last),
        cmocka_unit_test(suffix_counts_continuations),
        cmocka_unit_test(a_row_pays_while_tokens_per_cost_rise),
        cmocka_unit_test(acceptance_is_learnt),
        cmocka_unit_test(fewer_than_draft_min_are_not_tried),
    };
    return cmocka_run_group_tests_name("decode/speculate", tests, NULL, NULL);
}
