/* SPDX-License-Identifier: MIT
 *
 * Searches over random models: the verifier's cached scores against scores from scratch, determinism, every end.
 */
#include "engine_fixture.h"

enum { MAX_CAND = 600, WIDTH = 8 };

struct heard {
    int32_t token[MAX_CAND][256];
    int n_token[MAX_CAND];
    double score[MAX_CAND];
    int n_step[MAX_CAND], n_end, n_fork, n_prune, n_finish, alive, most_alive;
    char log[1 << 16];
};

static struct heard a, b; /* large: not on the stack */
static int32_t prompt[40];

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    assert_in_range(p->sample, 0, MAX_CAND - 1);
    if (p->token >= 0) h->token[p->sample][h->n_token[p->sample]++] = p->token;
    return 0;
}

static void on_end(void *user, const struct lutra_end *e)
{
    (void)e;
    ((struct heard *)user)->n_end++;
}

static void on_event(void *user, const struct lutra_search_event *e)
{
    struct heard *h = user;
    char line[128];
    snprintf(line, sizeof line, "%d %d %d %d %.17g %.17g\n", (int)e->kind, e->candidate, e->parent, e->n_step,
        e->reward, e->score);
    if (strlen(h->log) + strlen(line) < sizeof h->log) strcat(h->log, line);
    h->n_fork += e->kind == LUTRA_EVENT_FORK;
    h->n_prune += e->kind == LUTRA_EVENT_PRUNE;
    h->n_finish += e->kind == LUTRA_EVENT_FINISH;
    if (e->kind == LUTRA_EVENT_STEP) h->score[e->candidate] = e->score;
    if (e->kind == LUTRA_EVENT_STEP) h->n_step[e->candidate] = e->n_step;
}

static struct lutra_request make_request(struct heard *h)
{
    memset(h, 0, sizeof *h);
    for (int i = 0; i < 40; i++) prompt[i] = token_at(i);
    struct lutra_request r = lutra_request_default();
    r.prompt = prompt;
    r.n_prompt = 40;
    r.max_tokens = 60;
    r.sampling.seed = 9;
    r.ignore_end = true;
    r.on_text = on_text;
    r.on_end = on_end;
    r.user = h;
    return r;
}

static lutra_verifier *open_verifier(struct fixture *f, const char *mark)
{
    lutra_verifier *v;
    struct lutra_verifier_settings vs = lutra_verifier_settings_default();
    vs.n_seq = WIDTH;
    vs.n_batch = 48; /* jobs are cut in the middle */
    vs.mark = mark;
    struct lutra_error why;
    assert_int_equal(lutra_verifier_open(&v, f->model, &vs, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "no reward model"));
    vs.positive = "+";
    vs.negative = "-";
    OK(lutra_verifier_open(&v, f->model, &vs, err));
    return v;
}

/* Runs a search to its end; `beside`: another request shares the steps. */
static struct lutra_search_result run(
    struct fixture *f, struct lutra_search *set, struct heard *h, bool beside, char *text)
{
    struct lutra_request r = make_request(h);
    lutra_search_run *search;
    int32_t other[] = {5, 6, 7};
    int active = 1;
    set->on_event = on_event;
    set->user = h;
    if (beside) {
        struct lutra_request o = lutra_request_default();
        o.prompt = other;
        o.n_prompt = 3;
        o.max_tokens = 30;
        o.n_samples = 2;
        OK(lutra_submit(f->s, &o, NULL, err));
    }
    OK(lutra_search_submit(&search, f->s, &r, set, err));
    while (active) {
        OK(lutra_step(f->s, &active, err));
        assert_true((lutra_search_done(search) == NULL) || active <= 2);
    }
    struct lutra_search_result res = *lutra_search_done(search);
    assert_non_null(res.text);
    snprintf(text, 4096, "%s", res.text);
    lutra_search_close(&search);
    return res;
}

static struct lutra_search settings(enum lutra_search_method method, lutra_verifier *v)
{
    struct lutra_search set = lutra_search_default();
    set.method = method;
    set.width = WIDTH;
    set.expand = 4;
    set.step = "e"; /* frequent in random text */
    set.score = LUTRA_SCORE_PRODUCT;
    set.verifier = v;
    return set;
}

/* Step ends of a token list, as the search sees them. */
static int steps_of(const struct fixture *f, const int32_t *token, int n, int *end)
{
    int n_step = 0;
    for (int i = 0; i < n; i++) {
        char text[256];
        size_t bytes;
        OK(lutra_token_text(f->model, token[i], false, text, sizeof text, &bytes));
        if (memchr(text, 'e', bytes) || i == n - 1) end[n_step++] = i + 1;
    }
    return n_step;
}

static void cached_scores_are_the_scores(void **state)
{
    const char *mark = *state;
    struct fixture f;
    char text[4096];
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    fixture_session(&f, WIDTH, 128);
    lutra_verifier *v = open_verifier(&f, mark);
    struct lutra_search set = settings(LUTRA_SEARCH_BEST, v);
    struct lutra_search_result res = run(&f, &set, &a, false, text);
    assert_int_equal(res.n_finished, WIDTH);
    double best = 0;
    for (int i = 0; i < WIDTH; i++) {
        int end[256], n = steps_of(&f, a.token[i], a.n_token[i], end);
        double reward[256], product = 1;
        assert_int_equal(n, a.n_step[i]);
        OK(lutra_verifier_score(v, prompt, 40, a.token[i], end, n, reward, err)); /* one step at a time, alone */
        for (int k = 0; k < n; k++) product *= reward[k];
        assert_true(product == a.score[i]);
        if (a.score[i] > best) best = a.score[i];
    }
    assert_true(res.score == best && a.score[res.candidate] == best);
    lutra_verifier_close(&v);
    fixture_close(&f);
}

static void same_search_whatever_runs_beside(void **state)
{
    (void)state;
    static const enum lutra_search_method methods[] = {
        LUTRA_SEARCH_VOTE, LUTRA_SEARCH_WEIGHTED, LUTRA_SEARCH_BEAM, LUTRA_SEARCH_DVTS, LUTRA_SEARCH_REBASE};
    struct fixture two, one;
    char text_a[4096], text_b[4096];
    fixture_open(&two, "tiny-qwen2", "Q4_0", 2);
    fixture_open(&one, "tiny-qwen2", "Q4_0", 1);
    fixture_session(&two, WIDTH, 128);
    fixture_session(&one, WIDTH + 3, 128);
    lutra_verifier *v2 = open_verifier(&two, NULL), *v1 = open_verifier(&one, NULL);
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        struct lutra_search set = settings(methods[m], v2);
        set.early_stop = false;
        struct lutra_search_result ra = run(&two, &set, &a, false, text_a);
        set.verifier = v1;
        struct lutra_search_result rb = run(&one, &set, &b, true, text_b);
        assert_string_equal(text_a, text_b);
        if (methods[m] >= LUTRA_SEARCH_BEAM) assert_string_equal(a.log, b.log); /* others end in the order of slots */
        assert_true(ra.score == rb.score);
        assert_int_equal(ra.candidate, rb.candidate);
        assert_int_equal(ra.n_candidates, a.n_end);
        if (methods[m] >= LUTRA_SEARCH_BEAM) {
            assert_true(a.n_fork > 5 && a.n_prune > 5);
            assert_int_equal(ra.n_candidates, WIDTH + a.n_fork);
            assert_true(ra.verifier_rows > 0);
        }
    }
    lutra_verifier_close(&v2);
    lutra_verifier_close(&v1);
    fixture_close(&two);
    fixture_close(&one);
}

static void early_ends(void **state)
{
    (void)state;
    struct fixture f;
    char text[4096];
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    fixture_session(&f, WIDTH, 128);
    lutra_verifier *v = open_verifier(&f, NULL);

    struct lutra_search set = settings(LUTRA_SEARCH_BEAM, v);
    set.token_budget = 100;
    struct lutra_request r = make_request(&a);
    lutra_search_run *search;
    int active = 1;
    OK(lutra_search_submit(&search, f.s, &r, &set, err));
    while (active) OK(lutra_step(f.s, &active, err));
    const struct lutra_search_result *res = lutra_search_done(search);
    assert_in_range(res->generated_tokens, 100, 400);
    lutra_search_close(&search);

    r = make_request(&a); /* cancelled half way */
    OK(lutra_search_submit(&search, f.s, &r, &set, err));
    for (int i = 0; i < 10; i++) OK(lutra_step(f.s, &active, err));
    lutra_cancel(f.s);
    OK(lutra_step(f.s, &active, err));
    assert_int_equal(active, 0);
    assert_non_null(lutra_search_done(search));
    assert_null(lutra_search_done(search)->text);
    lutra_search_close(&search);

    r = make_request(&a); /* closed half way */
    OK(lutra_search_submit(&search, f.s, &r, &set, err));
    for (int i = 0; i < 10; i++) OK(lutra_step(f.s, &active, err));
    lutra_search_close(&search);
    OK(lutra_step(f.s, &active, err));
    assert_int_equal(active, 0);

    set = settings(LUTRA_SEARCH_BEAM, v); /* and everything still works */
    set.max_steps = 3;
    struct lutra_search_result after = run(&f, &set, &b, false, text);
    assert_true(after.n_finished > 0);
    for (int i = 0; i < MAX_CAND; i++) assert_true(b.n_step[i] <= 3);

    struct lutra_error why;
    set = settings(LUTRA_SEARCH_BEAM, NULL);
    assert_int_equal(lutra_search_submit(&search, f.s, &r, &set, &why), LUTRA_E_ARGUMENT);
    set = settings(LUTRA_SEARCH_BEAM, v);
    set.width = 3;
    assert_int_equal(lutra_search_submit(&search, f.s, &r, &set, &why), LUTRA_E_ARGUMENT);
    set.width = 64;
    assert_int_equal(lutra_search_submit(&search, f.s, &r, &set, &why), LUTRA_E_ARGUMENT);
    struct fixture other;
    fixture_open(&other, "tiny-llama-24", "F16", 1);
    lutra_verifier *stranger = open_verifier(&other, NULL);
    set = settings(LUTRA_SEARCH_BEAM, stranger);
    assert_int_equal(lutra_search_submit(&search, f.s, &r, &set, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "another vocabulary"));
    lutra_verifier_close(&stranger);
    fixture_close(&other);
    lutra_verifier_close(&v);
    fixture_close(&f);
}

int main(void)
{
    static char mark[] = "+-";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(cached_scores_are_the_scores, NULL),
        cmocka_unit_test_prestate(cached_scores_are_the_scores, mark),
        cmocka_unit_test(same_search_whatever_runs_beside),
        cmocka_unit_test(early_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
