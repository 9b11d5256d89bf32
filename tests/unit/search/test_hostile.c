/* SPDX-License-Identifier: MIT
 *
 * Searches with a hostile program as their verifier: whatever it does to one candidate, the others' texts and scores
 * are those beside a polite one, and the search ends; the same on any number of threads and beside other requests.
 */
#include "unit/engine/engine_fixture.h"
#include "hostile_checker.h"
#include "sanitized.h"

enum { MAX_CAND = 200, WIDTH = 8, MAX_TOKENS = 50 };

struct heard {
    unsigned text[MAX_CAND]; /* hashes of the steps so far */
    double score[MAX_CAND];
    int n_step[MAX_CAND], n_fault;
    char won[4096];
    int32_t candidate;
    double won_score;
};

static struct heard a, b, c; /* large: not on the stack */

static void on_event(void *user, const struct lutra_search_event *e)
{
    struct heard *h = user;
    assert_in_range(e->candidate, 0, MAX_CAND - 1);
    if (e->kind == LUTRA_EVENT_FORK) h->text[e->candidate] = h->text[e->parent];
    if (e->kind != LUTRA_EVENT_STEP) return;
    h->text[e->candidate] = h->text[e->candidate] * 31 + hash(e->text, strlen(e->text));
    h->score[e->candidate] = e->score;
    h->n_step[e->candidate]++;
    h->n_fault += *e->why != 0;
}

static lutra_verifier *open_checker(const char *mode, uint64_t timeout_us)
{
    lutra_verifier *v;
    char command[512];
    struct lutra_verifier_settings set;
    lutra_verifier_settings_init(&set, sizeof set);
    snprintf(command, sizeof command, CHECKER " %s", mode);
    set.command = command;
    set.timeout_us = timeout_us;
    set.memory_bytes = 0;
    OK(lutra_verifier_open(&v, "program", &set, err));
    return v;
}

static lutra_search_run *submit(
    struct fixture *f, enum lutra_search_method method, lutra_verifier *v, uint64_t seed, struct heard *h)
{
    int32_t prompt[40];
    struct lutra_sampling sampling;
    struct lutra_request r;
    struct lutra_search set;
    lutra_search_run *search;
    memset(h, 0, sizeof *h);
    for (int i = 0; i < 40; i++) prompt[i] = token_at(i);
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.seed = seed;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = 40;
    r.max_tokens = MAX_TOKENS;
    r.sampling = &sampling;
    lutra_search_init(&set, sizeof set);
    set.method = method;
    set.width = WIDTH;
    set.expand = 4;
    set.step = "e"; /* frequent in random text */
    set.verifier = v;
    set.on_event = on_event;
    set.user = h;
    OK(lutra_search_submit(&search, f->s, &r, &set, err));
    return search;
}

static void take(lutra_search_run **search, struct heard *h)
{
    const struct lutra_search_result *res = lutra_search_done(*search);
    assert_non_null(res);
    assert_non_null(res->text);
    snprintf(h->won, sizeof h->won, "%s", res->text);
    h->candidate = res->candidate;
    h->won_score = res->score;
    lutra_search_close(search);
}

static void run(struct fixture *f, enum lutra_search_method method, lutra_verifier *v, uint64_t seed, struct heard *h)
{
    int active = 1;
    lutra_search_run *search = submit(f, method, v, seed, h);
    while (active) OK(lutra_step(f->s, &active, err));
    take(&search, h);
}

static void compare(const struct heard *x, const struct heard *y)
{
    for (int i = 0; i < MAX_CAND; i++) {
        assert_int_equal(x->n_step[i], y->n_step[i]);
        assert_int_equal(x->text[i], y->text[i]);
        if (x->score[i] != y->score[i]) fail_msg("candidate %d: %g and %g", i, x->score[i], y->score[i]);
    }
    assert_string_equal(x->won, y->won);
    assert_int_equal(x->candidate, y->candidate);
    assert_true(x->won_score == y->won_score);
}

/* Long: 1,000 faults, also of those that take their time limit. */
static void others_are_as_beside_a_polite_one(void **state)
{
    (void)state;
    struct fixture f;
    int n_fault = 0, wanted = is_long() ? 1000 : SANITIZED ? 20 : 60;
    lutra_verifier *polite = open_checker(is_long() ? "polite-slow" : "polite", 60000000),
                   *hostile = open_checker(is_long() ? "hostile-slow" : "hostile", is_long() ? 2000000 : 60000000);
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    fixture_session(&f, WIDTH, 128);
    for (uint64_t seed = 1; n_fault < wanted; seed++) {
        enum lutra_search_method method = LUTRA_SEARCH_BEST + (enum lutra_search_method)(seed % 4);
        run(&f, method, polite, seed, &a);
        run(&f, method, hostile, seed, &b);
        compare(&a, &b);
        assert_int_equal(a.n_fault, 0);
        n_fault += b.n_fault;
        assert_true(seed < 1000);
    }
    lutra_verifier_close(&polite);
    lutra_verifier_close(&hostile);
    fixture_close(&f);
}

/* Two searches at once, with checkers of their own or one for both, and a plain request between them. */
static void threads_and_neighbours_change_nothing(void **state)
{
    (void)state;
    struct fixture f[2];
    lutra_verifier *v = open_checker("hostile", 60000000), *other = open_checker("hostile", 60000000);
    for (int t = 0; t < 2; t++) {
        fixture_open(&f[t], "tiny-qwen2", "F16", t + 1);
        fixture_session(&f[t], 2 * WIDTH + 2, 128);
    }
    for (int m = LUTRA_SEARCH_BEST; m <= LUTRA_SEARCH_REBASE; m += SANITIZED ? 3 : 1) {
        run(&f[0], (enum lutra_search_method)m, v, 7, &a);
        run(&f[1], (enum lutra_search_method)m, v, 7, &b);
        compare(&a, &b);
        for (int shared = 0; shared < 2; shared++) {
            int32_t plain[] = {5, 6, 7};
            int active = 1;
            struct lutra_request r;
            lutra_request_init(&r, sizeof r);
            r.prompt = plain;
            r.n_prompt = 3;
            r.max_tokens = 30;
            r.n_samples = 2;
            lutra_search_run *first = submit(&f[1], LUTRA_SEARCH_BEST, shared ? v : other, 8, &c);
            OK(lutra_submit(f[1].s, &r, NULL, err));
            lutra_search_run *second = submit(&f[1], (enum lutra_search_method)m, v, 7, &b);
            while (active) OK(lutra_step(f[1].s, &active, err));
            take(&first, &c);
            take(&second, &b);
            compare(&a, &b);
        }
    }
    for (int t = 0; t < 2; t++) fixture_close(&f[t]);
    lutra_verifier_close(&v);
    lutra_verifier_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_are_as_beside_a_polite_one), cmocka_unit_test(threads_and_neighbours_change_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
