/* SPDX-License-Identifier: MIT
 *
 * Drafts: whatever a source guesses, text, log-probs, ends and events are those of plain decoding, bit for bit.
 */
#include "drafts_fixture.h"

/* A trial's random choices: the same numbers for both runs. */
struct dice {
    struct guesser g;
};

static int roll(struct dice *d, int n)
{
    return guess_below(&d->g, n);
}

/* Samplers with a state, or that look at the text. */
static void choose_chain(struct dice *d, struct lutra_sampling *sp)
{
    static const char *const breakers[] = {"e", " t"};
    if (roll(d, 3) == 0) sp->dry_multiplier = 1, sp->dry_allowed_length = roll(d, 3), sp->dry_penalty_last_n = -1;
    if (roll(d, 2) == 0) sp->dry_sequence_breakers = breakers, sp->n_dry_sequence_breakers = 2;
    if (roll(d, 5) == 0) sp->xtc_probability = 0.5f, sp->xtc_threshold = 0.05f;
    if (roll(d, 5) == 0) sp->typical_p = 0.8f;
    if (roll(d, 5) == 0) sp->top_n_sigma = 2;
    switch (roll(d, 6)) {
    case 0: sp->mirostat = 1 + roll(d, 2), sp->mirostat_eta = 0.5f; break;
    case 1: sp->adaptive_target = 0.3f, sp->samplers = "top_k;adaptive_p"; break;
    case 2: sp->dynatemp_range = 0.4f, sp->samplers = "temperature;penalties;top_k;dry;min_p"; break;
    default: break;
    }
}

static struct lutra_request make_request(struct dice *d, lutra_session *s, struct heard *h, int who)
{
    static const char *const stops[] = {"e", "\xff\xfe", "ing"};
    static struct lutra_logit_bias bias[3];
    static struct lutra_sampling all[N_WHO], *sp;
    sp = &all[who];
    lutra_sampling_init(sp, sizeof *sp);
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    h->n_prompt = 1 + roll(d, N_PROMPT);
    h->s = s;
    for (int i = 0; i < N_PROMPT; i++) prompt[who][i] = token_at(i + 100 * who);
    for (int i = 0; i < 3; i++) bias[i] = (struct lutra_logit_bias){7 * i + 60, (float)(3 * i)};
    r.sampling = sp;
    r.prompt = prompt[who];
    r.n_prompt = h->n_prompt;
    r.n_samples = 1 + roll(d, 6);
    r.max_tokens = roll(d, 3) ? 1 + roll(d, 40) : -1;
    sp->seed = (uint64_t)roll(d, 1000);
    sp->temperature = (float)roll(d, 4) / 2;
    if (roll(d, 3) == 0) sp->top_k = 0;
    if (roll(d, 3) == 0) sp->repeat_penalty = 1.3f, sp->presence_penalty = 0.4f;
    if (roll(d, 3) == 0) sp->penalty_last_n = roll(d, 80) - 1;
    if (roll(d, 3) == 0) sp->bias = bias, sp->n_bias = 3;
    choose_chain(d, sp);
    if (roll(d, 4) == 0) r.stop = stops, r.n_stop = 1 + roll(d, 3);
    if (roll(d, 6) == 0) h->enough = 1 + roll(d, 20);
    r.ignore_end = roll(d, 2);
    r.on_text = on_text;
    r.on_end = on_end;
    r.user = h;
    return r;
}

/* A judge: the generator's own likelihood, or one with rows of its own. */
static lutra_verifier *open_judge(struct fixture *f, bool own)
{
    struct lutra_verifier_settings vs;
    lutra_verifier *v;
    lutra_verifier_settings_init(&vs, sizeof vs);
    vs.model = f->model;
    vs.n_seq = own ? 0 : 8;
    vs.positive = own ? NULL : "+";
    vs.negative = own ? NULL : "-";
    OK(lutra_verifier_open(&v, own ? "likelihood" : "token", &vs, err));
    return v;
}

/* budget: tokens; 0: none; -1: none, and no early stop, since how far the others have come then depends on the load. */
static lutra_search_run *submit_search(struct dice *d, struct fixture *f, struct lutra_request *r, lutra_verifier *v,
    enum lutra_search_method method, int n_seq, int budget)
{
    struct lutra_search set;
    lutra_search_init(&set, sizeof set);
    lutra_search_run *search;
    int width = 1 + roll(d, n_seq < 8 ? n_seq : 8);
    set.method = method;
    set.width = width;
    set.expand = width % 2 ? 1 : 2;
    set.step = roll(d, 2) ? "e" : " ";
    set.max_steps = 2 + roll(d, 20);
    set.early_stop = budget >= 0;
    set.token_budget = budget > 0 ? budget : 0;
    set.score = LUTRA_SCORE_MEAN;
    set.verifier = v;
    set.on_event = on_event;
    set.user = r->user;
    r->max_tokens = 10 + roll(d, 30);
    OK(lutra_search_submit(&search, f->s, r, &set, err));
    return search;
}

static void run_to_end(struct fixture *f, lutra_search_run *search, struct run *out)
{
    for (int active = 1; active;) OK(lutra_step(f->s, &active, err));
    const struct lutra_search_result *res = lutra_search_done(search);
    snprintf(out->winner, sizeof out->winner, "%s", res->text ? res->text : "");
    out->score = res->score;
    out->n_pass = f->s->stats.n_pass;
    lutra_search_close(&search);
}

/* Two requests and a search in a session of random sizes; with drafts where g or spec is given. */
static void run_trial(
    struct fixture *f, lutra_verifier *v, int trial, struct guesser *g, const char *spec, struct run *out)
{
    struct dice d = {.g.state = (uint64_t)trial * 977 + 5};
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 1 + roll(&d, 9);
    ss.n_ctx = 64;
    ss.n_batch = 1 + roll(&d, roll(&d, 2) ? 12 : 120);
    ss.n_out = roll(&d, 2) ? 0 : 1 + roll(&d, 40);
    ss.n_draft = roll(&d, 2) ? 0 : 1 + roll(&d, 100);
    ss.spec_type = spec;
    if (spec && strstr(spec, "draft")) ss.draft_model = f->model;
    ss.draft_max = 1 + trial % 20;
    ss.draft_p_min = 0;
    lutra_session_close(&f->s);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
    memset(out, 0, sizeof *out);
    if (g) guess_begin(g, f->s);
    for (int w = 0; w < N_WHO - 1; w++) {
        struct lutra_request r = make_request(&d, f->s, &out->who[w], w);
        OK(lutra_submit(f->s, &r, NULL, err));
    }
    struct lutra_request r = make_request(&d, f->s, &out->who[N_WHO - 1], N_WHO - 1);
    enum lutra_search_method method = (enum lutra_search_method)roll(&d, LUTRA_SEARCH_REBASE + 1);
    run_to_end(f, submit_search(&d, f, &r, v, method, ss.n_seq, -1), out);
}

static void random_trees_change_nothing(void **state)
{
    const char *type = *state;
    struct fixture f;
    long n_tree = 0, n_right = 0;
    if (SANITIZED && !strcmp(type, "Q6_K")) skip(); /* the code of Q4_0 but for its kernels */
    fixture_open(&f, "tiny-qwen2", type, 2);
    lutra_verifier *own = open_judge(&f, true);
    bool all = getenv("LUTRA_TEST_LONG") != NULL; /* 10,000 trees of each type */
    for (int trial = 0; trial < (SANITIZED ? 10 : 30) || (all && n_tree < 10000); trial++) {
        struct guesser g = {.state = (uint64_t)trial,
            .most = 1 + trial % GUESS_MOST,
            .right_in_8 = trial % 9,
            .right = said,
            .text = &plain};
        run_trial(&f, own, trial, NULL, NULL, &plain);
        run_trial(&f, own, trial, &g, NULL, &drafted);
        assert_same(&plain, &drafted, trial);
        n_tree += g.n_tree;
        n_right += g.n_right;
    }
    print_message("%s: %ld trees, %ld drafts taken\n", type, n_tree, n_right);
    assert_true(n_tree > (SANITIZED ? 500 : 2000) && n_right > (SANITIZED ? 100 : 500));
    lutra_verifier_close(&own);
    fixture_close(&f);
}

/* The same with drafters of the library, as passes are measured here and as counts say. */
static void speculation_changes_nothing(void **state)
{
    static const char *const specs[] = {"ngram-simple", "suffix", "auto", "recycle", "calibrated,auto", "draft,suffix"};
    const char *type = *state;
    struct fixture f;
    uint64_t n_drafted = 0, n_accepted = 0;
    if (SANITIZED && !strcmp(type, "Q6_K")) skip();
    fixture_open(&f, "tiny-qwen2", type, 2);
    lutra_verifier *own = open_judge(&f, true);
    int n_trial = SANITIZED ? 12 : 40;
    for (int trial = 0; trial < n_trial; trial++) {
        if (trial == n_trial / 4) stop_time(&f);
        run_trial(&f, own, trial, NULL, NULL, &plain);
        run_trial(&f, own, trial, NULL, specs[trial % 6], &drafted);
        assert_same(&plain, &drafted, trial);
        n_drafted += f.s->stats.rows_drafted;
        n_accepted += f.s->stats.rows_accepted;
    }
    print_message("%s: %llu drafts, %llu taken\n", type, (unsigned long long)n_drafted, (unsigned long long)n_accepted);
    assert_true(n_drafted > 7 * (uint64_t)n_trial && n_accepted > 2 * (uint64_t)n_trial && n_accepted < n_drafted);
    lutra_verifier_close(&own);
    fixture_close(&f);
}

/* One search over a text that a drafter knows: many steps end in the middle of a chain, several in one pass. */
static void steps_end_within_a_pass(void **state)
{
    (void)state;
    static const enum lutra_search_method methods[] = {
        LUTRA_SEARCH_VOTE, LUTRA_SEARCH_WEIGHTED, LUTRA_SEARCH_BEST, LUTRA_SEARCH_BEAM, LUTRA_SEARCH_REBASE};
    struct fixture f;
    long n_right = 0;
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    lutra_verifier *judge[] = {open_judge(&f, true), open_judge(&f, false)};
    for (size_t m = 0; m < 2 * sizeof methods / sizeof *methods; m++) {
        struct guesser g = {.most = 12, .right_in_8 = 8, .right = said, .text = &plain};
        for (int drafts = 0; drafts < 2; drafts++) {
            struct dice d = {.g.state = m};
            struct run *out = drafts ? &drafted : &plain;
            memset(out, 0, sizeof *out);
            fixture_session(&f, 4, 128);
            if (drafts) guess_begin(&g, f.s);
            struct lutra_request r = make_request(&d, f.s, &out->who[0], 0);
            run_to_end(&f, submit_search(&d, &f, &r, judge[m % 2], methods[m / 2], 4, -1), out);
        }
        assert_same(&plain, &drafted, (int)m);
        n_right += g.n_right;
    }
    print_message("%ld drafts taken\n", n_right);
    assert_true(n_right > 200);
    for (int i = 0; i < 2; i++) lutra_verifier_close(&judge[i]);
    fixture_close(&f);
}

/* What a budget of tokens pays for, and when a vote is decided, does not depend on how far candidates had run that
 * others have made vain: the same winner, and the same text of all that counted. */
static void budgets_choose_the_same(void **state)
{
    (void)state;
    static const enum lutra_search_method methods[] = {LUTRA_SEARCH_VOTE, LUTRA_SEARCH_WEIGHTED, LUTRA_SEARCH_BEST,
        LUTRA_SEARCH_BEAM, LUTRA_SEARCH_DVTS, LUTRA_SEARCH_REBASE};
    enum { METHODS = sizeof methods / sizeof *methods, TRIALS = SANITIZED ? 2 : 8 };
    struct fixture f;
    long n_right = 0;
    int n_cut = 0;
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    lutra_verifier *judge = open_judge(&f, true);
    for (int trial = 0; trial < METHODS * TRIALS; trial++) {
        struct guesser g = {.most = 12, .right_in_8 = 8, .right = said, .text = &plain};
        int budget = trial / METHODS % 2 ? 40 + 60 * (trial / METHODS) : 0;
        for (int drafts = 0; drafts < 2; drafts++) {
            struct dice d = {.g.state = (uint64_t)trial};
            struct run *out = drafts ? &drafted : &plain;
            memset(out, 0, sizeof *out);
            fixture_session(&f, 8, 128);
            if (drafts) guess_begin(&g, f.s);
            struct lutra_request r = make_request(&d, f.s, &out->who[0], 0);
            run_to_end(&f, submit_search(&d, &f, &r, judge, methods[trial % METHODS], 8, budget), out);
        }
        if (strcmp(plain.winner, drafted.winner) || plain.score != drafted.score)
            fail_msg(
                "trial %d: '%s' (%g), not '%s' (%g)", trial, drafted.winner, drafted.score, plain.winner, plain.score);
        for (int c = 0; c < MAX_CAND; c++) {
            const struct heard *a = &plain.who[0], *b = &drafted.who[0];
            n_cut += a->reason[c] == LUTRA_STOP_PRUNED;
            if (a->reason[c] == LUTRA_STOP_PRUNED || b->reason[c] == LUTRA_STOP_PRUNED) continue;
            if (strcmp(a->text[c], b->text[c]) || a->reason[c] != b->reason[c])
                fail_msg("trial %d: candidate %d has another text", trial, c);
        }
        n_right += g.n_right;
    }
    print_message("%ld drafts taken, %d candidates cut off\n", n_right, n_cut);
    assert_true(n_right > 100 && n_cut > 5);
    lutra_verifier_close(&judge);
    fixture_close(&f);
}

int main(void)
{
    static char q4[] = "Q4_0", f16[] = "F16", q6[] = "Q6_K";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(random_trees_change_nothing, q4),
        cmocka_unit_test_prestate(random_trees_change_nothing, f16),
        cmocka_unit_test_prestate(random_trees_change_nothing, q6),
        cmocka_unit_test_prestate(speculation_changes_nothing, q4),
        cmocka_unit_test_prestate(speculation_changes_nothing, f16),
        cmocka_unit_test_prestate(speculation_changes_nothing, q6),
        cmocka_unit_test(steps_end_within_a_pass),
        cmocka_unit_test(budgets_choose_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
