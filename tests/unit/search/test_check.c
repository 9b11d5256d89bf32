/* SPDX-License-Identifier: MIT
 *
 * Searches with a function as their verifier: what it is asked, what its failures cost, ending at the first pass.
 */
#include "unit/engine/engine_fixture.h"

#include <limits.h>

enum { MAX_CAND = 200, WIDTH = 8 };

struct heard {
    char text[MAX_CAND][2048]; /* bytes as generated */
    size_t n_text[MAX_CAND];
    double score[MAX_CAND];
    char why[MAX_CAND][64];
    int n_step[MAX_CAND], n_finish, n_prune, n_asked, n_whole;
    unsigned pass_mod, fail_mod; /* texts whose hash is a multiple pass, or get no reward; 0 = none */
    bool sloppy;                 /* one text did not end with the step, or another question came */
};

static struct heard a, b; /* large: not on the stack */
static struct fixture f;
static char text_a[4096], text_b[4096];

static unsigned hash(const char *text)
{
    unsigned h = 2166136261u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
    return h >> 3;
}

static double ask(void *user, const struct lutra_check *c, char *why, size_t n_why)
{
    struct heard *h = user;
    size_t n_text = strlen(c->text), n_step = strlen(c->step);
    h->n_asked++;
    h->n_whole += c->whole;
    h->sloppy |= n_step > n_text || strcmp(c->text + n_text - n_step, c->step) || strcmp(c->question, "how many?") ||
                 strcmp(c->expected, "7");
    unsigned x = hash(c->text);
    if (h->fail_mod && x % h->fail_mod == 0) {
        snprintf(why, n_why, "unlucky %u", x);
        return x % 2 ? NAN : 7;
    }
    if (h->pass_mod && x % h->pass_mod == 0) return 1;
    return (double)(x % 1000) / 1001;
}

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    size_t n = 0, at = h->n_text[p->sample];
    if (p->token >= 0)
        OK(lutra_token_text(f.model, p->token, false, h->text[p->sample] + at, sizeof h->text[0] - 1 - at, &n));
    for (size_t i = 0; i < n; i++)
        if (!h->text[p->sample][at + i]) h->text[p->sample][at + i] = ' ';
    h->n_text[p->sample] += n;
    return 0;
}

static void on_event(void *user, const struct lutra_search_event *e)
{
    struct heard *h = user;
    h->n_finish += e->kind == LUTRA_EVENT_FINISH;
    h->n_prune += e->kind == LUTRA_EVENT_PRUNE;
    if (e->kind != LUTRA_EVENT_STEP) {
        assert_string_equal(e->why, "");
        return;
    }
    h->score[e->candidate] = e->score;
    h->n_step[e->candidate] = e->n_step;
    snprintf(h->why[e->candidate], sizeof h->why[0], "%s", e->why);
}

static struct lutra_search settings(enum lutra_search_method method, lutra_verifier *v)
{
    struct lutra_search set;
    lutra_search_init(&set, sizeof set);
    set.method = method;
    set.width = WIDTH;
    set.expand = 4;
    set.step = "e"; /* frequent in random text */
    set.verifier = v;
    set.question = "how many?";
    set.expected = "7";
    return set;
}

static struct lutra_search_result run(struct lutra_search *set, struct heard *h, bool beside, char *text)
{
    static int32_t prompt[40];
    int32_t other[] = {5, 6, 7};
    unsigned pass_mod = h->pass_mod, fail_mod = h->fail_mod;
    struct lutra_sampling sampling;
    struct lutra_request r;
    lutra_search_run *search;
    int active = 1;
    memset(h, 0, sizeof *h);
    h->pass_mod = pass_mod;
    h->fail_mod = fail_mod;
    for (int i = 0; i < 40; i++) prompt[i] = token_at(i);
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.seed = 9;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = 40;
    r.max_tokens = 50;
    r.sampling = &sampling;
    r.on_text = on_text;
    r.user = set->user = h;
    set->on_event = on_event;
    if (beside) {
        struct lutra_request o;
        lutra_request_init(&o, sizeof o);
        o.prompt = other;
        o.n_prompt = 3;
        o.max_tokens = 30;
        o.n_samples = 2;
        OK(lutra_submit(f.s, &o, NULL, err));
    }
    OK(lutra_search_submit(&search, f.s, &r, set, err));
    while (active) OK(lutra_step(f.s, &active, err));
    struct lutra_search_result res = *lutra_search_done(search);
    assert_non_null(res.text);
    snprintf(text, 4096, "%s", res.text);
    lutra_search_close(&search);
    assert_false(h->sloppy);
    return res;
}

static int open_function(lutra_verifier **v, lutra_check_fn check, void *user, struct lutra_error *why)
{
    struct lutra_verifier_settings set;
    lutra_verifier_settings_init(&set, sizeof set);
    set.check = check;
    set.check_user = user;
    return lutra_verifier_open(v, "function", &set, why);
}

static lutra_verifier *open_with(struct heard *h, unsigned pass_mod, unsigned fail_mod)
{
    lutra_verifier *v;
    h->pass_mod = pass_mod;
    h->fail_mod = fail_mod;
    OK(open_function(&v, ask, h, err));
    return v;
}

static void whole_texts_or_steps(void **state)
{
    (void)state;
    lutra_verifier *v = open_with(&a, 0, 0);
    fixture_session(&f, WIDTH, 128);
    struct lutra_search set = settings(LUTRA_SEARCH_BEST, v);
    struct lutra_search_result res = run(&set, &a, false, text_a);
    assert_int_equal(a.n_asked, WIDTH);
    assert_int_equal(a.n_whole, WIDTH);
    assert_int_equal(res.verifier_rows, 0);
    double best = -1;
    for (int i = 0; i < WIDTH; i++) {
        assert_true(a.score[i] == (double)(hash(a.text[i]) % 1000) / 1001);
        best = fmax(best, a.score[i]);
    }
    assert_true(res.score == best);
    for (int m = LUTRA_SEARCH_BEAM; m <= LUTRA_SEARCH_REBASE; m++) {
        set = settings((enum lutra_search_method)m, v);
        run(&set, &a, false, text_a);
        assert_true(a.n_asked > a.n_whole);
        assert_int_equal(a.n_whole, a.n_finish);
    }
    lutra_verifier_close(&v);
}

static void a_failure_costs_its_own_score(void **state)
{
    (void)state;
    fixture_session(&f, WIDTH, 128);
    lutra_verifier *good = open_with(&a, 0, 0), *bad = open_with(&b, 0, 3);
    struct lutra_search set = settings(LUTRA_SEARCH_BEST, good);
    run(&set, &a, false, text_a);
    set.verifier = bad;
    run(&set, &b, false, text_b);
    int n_fail = 0;
    for (int i = 0; i < WIDTH; i++) {
        char why[64];
        unsigned x = hash(a.text[i]);
        bool fails = x % 3 == 0;
        assert_string_equal(a.text[i], b.text[i]);
        assert_true(b.score[i] == (fails ? 0 : a.score[i]));
        snprintf(why, sizeof why, "unlucky %u", x);
        assert_string_equal(b.why[i], fails ? why : "");
        assert_string_equal(a.why[i], "");
        n_fail += fails;
    }
    assert_true(n_fail > 0 && n_fail < WIDTH);
    b.fail_mod = 1; /* all of them: the search ends, the first wins */
    struct lutra_search_result res = run(&set, &b, false, text_b);
    assert_int_equal(res.candidate, 0);
    assert_true(res.score == 0);
    lutra_verifier_close(&good);
    lutra_verifier_close(&bad);
}

/* The winner is the first that passes, by number, however many run at once and whatever runs beside. */
static void the_first_pass_ends_it(void **state)
{
    (void)state;
    static const int n_seq[] = {WIDTH, 3, 1, 2 * WIDTH};
    int64_t all = 0;
    int n_early = 0;
    lutra_verifier *v = open_with(&a, 0, 0);
    for (unsigned mod = 2; mod < 10; mod++) {
        struct lutra_search set = settings(LUTRA_SEARCH_BEST, v);
        int first = INT_MAX;
        fixture_session(&f, WIDTH, 128);
        a.pass_mod = mod;
        struct lutra_search_result whole = run(&set, &a, false, text_a);
        for (int i = WIDTH; i-- > 0;)
            if (hash(a.text[i]) % mod == 0) first = i;
        set.until_pass = true;
        for (int i = 0; i < 4; i++) {
            fixture_session(&f, n_seq[i], 128);
            struct lutra_search_result res = run(&set, &a, i % 2, text_b);
            assert_string_equal(text_a, text_b);
            assert_int_equal(res.candidate, whole.candidate);
            assert_true(first == INT_MAX || res.candidate == first);
            assert_true(res.generated_tokens <= whole.generated_tokens);
            if (n_seq[i] == 1 && first != INT_MAX) assert_int_equal(res.n_finished, first + 1);
            n_early += res.generated_tokens < whole.generated_tokens;
        }
        all += whole.generated_tokens;
    }
    assert_true(n_early > 4);
    for (int m = LUTRA_SEARCH_BEAM; m <= LUTRA_SEARCH_REBASE; m++) {
        struct lutra_search set = settings((enum lutra_search_method)m, v);
        fixture_session(&f, WIDTH, 128);
        a.pass_mod = 5;
        run(&set, &a, false, text_a);
        set.until_pass = true;
        struct lutra_search_result res = run(&set, &a, false, text_a);
        fixture_session(&f, 2 * WIDTH, 128);
        struct lutra_search_result again = run(&set, &a, true, text_b);
        assert_string_equal(text_a, text_b);
        assert_true(res.score == again.score && res.candidate == again.candidate);
    }
    lutra_verifier_close(&v);
}

static void by_name(void **state)
{
    (void)state;
    static const struct {
        const char *name, *question, *expected, *text;
        double reward; /* < 0: none */
    } cases[] = {{"countdown", "Use 4, 2 to make 8.", "", "4*2=8", 1},
        {"countdown", "Use 4, 2 to make 8.", "", "4+2=6", 0}, {"equation", "", "", "4*2=8.\n#### 8", 1},
        {"equation", "", "", "4*2=9", 0}, {"answer", "", "1,200", "so #### 1200", 1}, {"answer", "", "7", "#### 8", 0},
        {"answer", "", "", "#### 8", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lutra_verifier *v;
        struct lutra_verifier_settings set;
        struct lutra_check check;
        struct lutra_error why;
        double reward = -1;
        lutra_verifier_settings_init(&set, sizeof set);
        set.command = cases[i].name;
        OK(lutra_verifier_open(&v, "program", &set, err));
        lutra_check_init(&check, sizeof check);
        check.question = cases[i].question;
        check.expected = cases[i].expected;
        check.text = cases[i].text;
        int rc = lutra_verifier_check(v, &check, &reward, &why);
        assert_int_equal(rc, cases[i].reward < 0 ? LUTRA_E_NOT_FOUND : 0);
        if (rc == 0) assert_true(reward == cases[i].reward);
        lutra_verifier_close(&v);
    }
}

static void refused(void **state)
{
    (void)state;
    struct lutra_error why;
    lutra_verifier *v;
    lutra_search_run *search;
    struct lutra_request r;
    int32_t prompt[] = {1, 2, 3};
    assert_int_equal(open_function(&v, NULL, NULL, &why), LUTRA_E_ARGUMENT);
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = 3;
    fixture_session(&f, WIDTH, 128);
    struct lutra_search set = settings(LUTRA_SEARCH_VOTE, NULL);
    set.until_pass = true;
    assert_int_equal(lutra_search_submit(&search, f.s, &r, &set, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "until_pass"));
    v = open_with(&a, 0, 0);
    int end = 1;
    double reward;
    assert_int_equal(lutra_verifier_score(v, prompt, 3, prompt, &end, 1, &reward, &why), LUTRA_E_ARGUMENT);
    lutra_verifier_close(&v);
}

static int open_fixture(void **state)
{
    (void)state;
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    fixture_close(&f);
    return 0;
}

/* ---- equal solutions ---- */

struct solutions {
    char text[64][64];
    int n, n_distinct;
};

/* Whole solutions are better than unfinished ones. */
static double ask_whole(void *user, const struct lutra_check *c, char *why, size_t n_why)
{
    struct solutions *h = user;
    (void)why, (void)n_why;
    if (!c->whole) return .5;
    bool known = false;
    for (int i = 0; i < h->n; i++) known |= !strcmp(h->text[i], c->text);
    assert_in_range(h->n, 0, 63);
    snprintf(h->text[h->n++], sizeof h->text[0], "%s", c->text);
    h->n_distinct += !known;
    return 1;
}

static int32_t find_letter(const char *letter)
{
    char text[64];
    size_t n;
    for (int32_t t = 0;; t++) {
        OK(lutra_token_text(f.model, t, false, text, sizeof text, &n));
        if (n == 1 && text[0] == letter[0]) return t;
    }
}

/* Only x, e (ends a step) and z (ends a solution) can be drawn, so most solutions are short and equal: two beams that a
 * solution and its like would fill have to go on. */
static void equal_solutions_leave_a_beam(void **state)
{
    (void)state;
    static struct solutions h;
    struct lutra_logit_bias bias[] = {{find_letter("x"), 98}, {find_letter("e"), 102}, {find_letter("z"), 98}};
    const char *stop[] = {"z"};
    struct lutra_sampling sampling;
    struct lutra_request r;
    lutra_verifier *v;
    lutra_sampling_init(&sampling, sizeof sampling);
    lutra_request_init(&r, sizeof r);
    OK(open_function(&v, ask_whole, &h, err));
    fixture_session(&f, WIDTH, 128);
    sampling.bias = bias, sampling.n_bias = 3;
    r.prompt = (int32_t[]){5, 6, 7}, r.n_prompt = 3, r.max_tokens = 40, r.sampling = &sampling;
    r.stop = stop, r.n_stop = 1;
    struct lutra_search set = settings(LUTRA_SEARCH_BEAM, v);
    int n_equal = 0;
    for (sampling.seed = 1; sampling.seed <= 60; sampling.seed++) {
        lutra_search_run *search;
        int active = 1;
        memset(&h, 0, sizeof h);
        OK(lutra_search_submit(&search, f.s, &r, &set, err));
        while (active) OK(lutra_step(f.s, &active, err));
        const struct lutra_search_result *res = lutra_search_done(search);
        if (h.n_distinct < WIDTH / 4 && res->n_pruned > 0)
            fail_msg("seed %u: %d solutions, all alike", (unsigned)sampling.seed, h.n);
        lutra_search_close(&search);
        n_equal += h.n > h.n_distinct;
    }
    assert_true(n_equal > 20);
    lutra_verifier_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_texts_or_steps),
        cmocka_unit_test(a_failure_costs_its_own_score), cmocka_unit_test(the_first_pass_ends_it),
        cmocka_unit_test(equal_solutions_leave_a_beam), cmocka_unit_test(by_name), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
