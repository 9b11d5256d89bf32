/* SPDX-License-Identifier: MIT
 *
 * Drafts of the library's drafters and of callers, in sessions of one request: how many are taken, what is refused, and
 * that they change nothing.
 */
#include "drafts_fixture.h"

/* Who offers what will be said gets it in fewer passes, and what was taken is in the cache. */
static void right_drafts_are_taken(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    for (int n_samples = 1; n_samples <= 4; n_samples += 3) {
        struct guesser g = {.most = 7, .right_in_8 = 8, .right = said, .text = &plain};
        fixture_session(&f, 4, 256);
        generate(&f, NULL, n_samples, 0, 0.8f, &plain);
        assert_int_equal(plain.n_pass, 64);
        fixture_session(&f, 4, 256);
        generate(&f, &g, n_samples, 0, 0.8f, &drafted);
        assert_same(&plain, &drafted, n_samples);
        assert_int_equal(drafted.n_pass, 1 + 63 / 8 + 1); /* the prompt's token, then eight at a time */
        assert_int_equal(g.n_right, n_samples * (63 - 63 / 8 - 1));
        assert_int_equal(f.s->stats.rows_wasted, n_samples); /* the last token is a right guess that nobody needs */
        assert_int_equal(n_kept(&f, plain.who[0].token[0], 64), N_PROMPT + 63); /* all but the last token */
    }
    fixture_close(&f);
}

/* A text that repeats itself takes far fewer passes, alone and as four samples. */
static void repetition_is_drafted(void **state)
{
    static const char *const specs[] = {"ngram-simple", "suffix", "calibrated,suffix", "auto"};
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    stop_time(&f);
    for (int i = 0; i < 8; i++) {
        int n_samples = i < 4 ? 1 : 4;
        spec_session(&f, 4, NULL);
        generate(&f, NULL, n_samples, 0, 0, &plain);
        assert_int_equal(plain.n_pass, 64);
        spec_session_at(&f, 4, specs[i % 4], LIKE_AVX512);
        generate(&f, NULL, n_samples, 0, 0, &drafted);
        assert_same(&plain, &drafted, i);
        struct lutra_stats s;
        lutra_session_stats_get(f.s, &s, sizeof s);
        print_message("%s, %d samples: %llu passes, %llu drafted, %llu accepted\n", specs[i % 4], n_samples,
            (unsigned long long)s.n_pass, (unsigned long long)s.rows_drafted, (unsigned long long)s.rows_accepted);
        assert_true(s.n_pass < 32);
        assert_int_equal(s.rows_wasted, s.rows_drafted - s.rows_accepted);
        assert_int_equal(drafted.who[0].n_drafted, s.rows_drafted);
        assert_int_equal(drafted.who[0].n_accepted, s.rows_accepted);
        for (int k = 0; k < n_samples; k++) assert_in_range(drafted.who[0].n_pass[k], 4, s.n_pass);
    }
    fixture_close(&f);
}

/* With every instruction set of this machine, on one thread and two; the prompt found in the cache the second time. */
static void no_machine_makes_a_difference(void **state)
{
    (void)state;
    for (uint32_t bit = 1; bit & CPU_ISA_ALL; bit <<= 1) {
        if (!(cpu_isa() & bit) || (SANITIZED && bit > 1)) continue;
        for (int n_threads = SANITIZED ? 2 : 1; n_threads <= 2; n_threads++) {
            struct fixture f;
            fixture_open_on(&f, &(struct where){"cpu", cpu_isa_name(bit)}, "tiny-qwen2", "Q4_0", n_threads);
            stop_time(&f);
            spec_session(&f, 3, NULL);
            generate(&f, NULL, 3, 0, 0.8f, &plain);
            spec_session(&f, 3, "auto");
            for (int again = 0; again < 2; again++) {
                struct guesser g = {.state = bit, .most = 9, .right_in_8 = 5, .right = said, .text = &plain};
                f.s->inbox.next_id = 0; /* as the guesser knows it */
                generate(&f, &g, 3, 0, 0.8f, &drafted);
                source_remove(&f.s->sources, &g.source);
                assert_same(&plain, &drafted, again);
                print_message("%s, %d threads: %llu accepted\n", cpu_isa_name(bit), n_threads,
                    (unsigned long long)f.s->stats.rows_accepted);
                assert_true(f.s->stats.rows_accepted > 30);
                assert_true(again == 0 || f.s->stats.cached_tokens > 0);
            }
            fixture_close(&f);
        }
    }
}

static void what_is_not_built_is_refused(void **state)
{
    static const char *const names[] = {"draft", "suffix,draft", "eagle", "store", "recycler", "suffix,automatic",
        "suffix,,ngram-simple", "suffixes", "suff", ","};
    (void)state;
    struct fixture f;
    struct lutra_error why;
    struct lutra_session_settings ss;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 64;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ss.spec_type = names[i];
        assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_UNSUPPORTED);
        assert_non_null(strstr(why.what, "is not built"));
    }
    ss.spec_type = "suffix,suffix";
    assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_ARGUMENT);
    ss.spec_type = "recycle,auto";
    assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_ARGUMENT);
    ss.spec_type = "suffix";
    for (int i = 0; i < 4; i++) {
        struct lutra_session_settings bad = ss;
        if (i == 0) bad.draft_max = 65;
        if (i == 1) bad.draft_min = 17;
        if (i == 2) bad.draft_p_min = NAN;
        if (i == 3) bad.spec_ngram_size_n = 1;
        assert_int_equal(lutra_session_open(&f.s, f.model, &bad, &why), LUTRA_E_ARGUMENT);
        bad.spec_type = "none";
        OK(lutra_session_open(&f.s, f.model, &bad, err));
        lutra_session_close(&f.s);
    }
    fixture_close(&f);
}

/* A text that one cache domain has had is drafted from for that domain; another one's drafts know nothing of it. */
static void domains_learn_apart(void **state)
{
    (void)state;
    struct fixture f;
    int n_drafted[3];
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    stop_time(&f);
    spec_session(&f, 2, "recycle");
    for (int i = 0; i < 3; i++) {
        struct lutra_request r;
        struct heard h = {0};
        lutra_request_init(&r, sizeof r);
        r.prompt = (int32_t[]){token_at(3)};
        r.n_prompt = 1;
        r.max_tokens = 12;
        r.ignore_end = true;
        r.cache_domain = i < 2 ? 7 : 8;
        r.on_end = on_end;
        r.user = &h;
        OK(lutra_generate(f.s, &r, err));
        n_drafted[i] = h.n_drafted;
    }
    assert_true(n_drafted[1] > n_drafted[0] && n_drafted[2] < n_drafted[1]);
    fixture_close(&f);
}

/* What is likely behind each token goes with a fork. */
static void forks_have_the_hints(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_request r;
    int active;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 1);
    spec_session(&f, 2, "calibrated");
    for (int i = 0; i < N_PROMPT; i++) prompt[0][i] = token_at(i);
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt[0];
    r.n_prompt = N_PROMPT;
    r.ignore_end = true;
    OK(lutra_submit(f.s, &r, NULL, err));
    for (int i = 0; i < 10; i++) OK(lutra_step(f.s, &active, err));
    struct sample *from = &f.s->sample[0], *to = sample_fork(f.s, from);
    assert_non_null(to);
    size_t n = (size_t)(N_PROMPT + sample_length(from) - 1);
    assert_true(from->seq.hints[0].p[0] > 0 && from->seq.hints[n - 1].p[0] > 0);
    assert_memory_equal(to->seq.hints, from->seq.hints, n * sizeof *from->seq.hints);
    fixture_close(&f);
}

/* An NPU, and one that has two classes: rows of prompts on tiles, all others, drafts too, by lookup. */
static void npus_say_the_same(void **state)
{
    static const char *const devices[] = {"npu-sim", "npu-sim:lookup"}, *const specs[] = {"suffix", "auto"};
    (void)state;
    for (int i = SANITIZED ? 3 : 0; i < 4; i += 3) {
        struct fixture f;
        float temperature = i < 2 ? 0 : 0.8f;
        fixture_open_on(&f, &(struct where){devices[i % 2], NULL}, "tiny-qwen2", "Q4_0", 2);
        stop_time(&f);
        spec_session(&f, 3, NULL);
        assert_true((f.s->batch.bulk > 0) == (i % 2 == 1));
        generate(&f, NULL, 3, 0, temperature, &plain);
        spec_session(&f, 3, specs[i / 2]);
        struct guesser g = {.state = 1, .most = 9, .right_in_8 = 5, .right = said, .text = &plain};
        generate(&f, &g, 3, 0, temperature, &drafted);
        assert_same(&plain, &drafted, i);
        assert_true(f.s->stats.rows_accepted > 30 && f.s->stats.rows_wasted > 30);
        fixture_close(&f);
    }
}

/* Cancelled in the middle of a tree: not one token more than without drafts. */
static void a_cancel_drops_the_rest(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    fixture_session(&f, 1, 256);
    generate(&f, NULL, 1, 0, 0.8f, &plain);
    struct guesser g = {.most = 7, .right_in_8 = 8, .right = said, .text = &plain};
    fixture_session(&f, 1, 256);
    generate(&f, &g, 1, 20, 0.8f, &drafted);
    assert_int_equal(drafted.who[0].reason[0], LUTRA_STOP_CANCELLED);
    assert_int_equal(drafted.who[0].n_tok[0], 20);
    assert_int_equal(n_kept(&f, drafted.who[0].token[0], 20), N_PROMPT + 19);
    fixture_close(&f);
}

/* A caller's drafts: n of them, the text's own tokens in a chain or wrong ones beside it, or one that cannot be. */
struct caller {
    int n, wrong; /* wrong: what is wrong with the last */
    long n_asked;
};

static struct caller caller;

static int on_draft(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    const struct heard *h = user;
    struct row_tip at = {.request = tip->request, .sample = tip->sample, .n_token = tip->n_token};
    int n = caller.n < n_max ? caller.n : n_max;
    caller.n_asked++;
    assert_memory_equal(tip->token, prompt[0], (size_t)h->n_prompt * sizeof *tip->token);
    for (int i = 0; i < n; i++) {
        int32_t token = said(&plain, &at, i + 1);
        draft[i] = (struct lutra_draft){.token = token < 0 ? 5 : token, .parent = i - 1, .p = 0.9f};
    }
    if (caller.wrong == 1) draft[n - 1].token = 1 << 20;
    if (caller.wrong == 2) draft[n - 1].parent = n - 1;
    if (caller.wrong == 3) draft[n - 1].p = NAN;
    if (caller.wrong == 4) return n_max + 1;
    if (caller.wrong == 5) return -1;
    return n;
}

static int generate_with_caller(struct fixture *f, const char *spec, struct lutra_error *why)
{
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    spec_session(f, 4, spec);
    memset(&drafted, 0, sizeof drafted);
    drafted.who[0].n_prompt = r.n_prompt = N_PROMPT;
    r.prompt = prompt[0];
    r.n_samples = 4;
    r.max_tokens = 64;
    r.ignore_end = true;
    r.on_text = on_text;
    r.on_end = on_end;
    r.on_draft = on_draft;
    r.user = &drafted.who[0];
    int rc = lutra_generate(f->s, &r, why);
    drafted.n_pass = f->s->stats.n_pass;
    return rc;
}

static void a_caller_may_draft(void **state)
{
    static const char *const words[] = {"", "draft 3: token 1048576", "draft 3: parent 3", "draft 3: p is nan",
        "17 drafts, outside 0..16", "-1 drafts, outside 0..16"};
    (void)state;
    struct fixture f;
    struct lutra_error why;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    stop_time(&f);
    fixture_session(&f, 4, 256);
    generate(&f, NULL, 4, 0, 0.8f, &plain);
    for (int i = 0; i < 4; i++) {
        caller = (struct caller){.n = i < 2 ? 0 : 4};
        OK(generate_with_caller(&f, i % 2 ? "auto" : NULL, err));
        assert_same(&plain, &drafted, i);
        assert_true(caller.n_asked > 0);
        if (i >= 2) assert_true(drafted.n_pass < 64 / 3);
    }
    for (int wrong = 1; wrong <= 5; wrong++) {
        caller = (struct caller){.n = 4, .wrong = wrong};
        assert_int_equal(generate_with_caller(&f, NULL, &why), LUTRA_E_ARGUMENT);
        assert_non_null(strstr(why.what, words[wrong]));
        for (int i = 0; i < 4; i++) assert_int_equal(drafted.who[0].reason[i], LUTRA_STOP_ERROR);
        caller = (struct caller){0};
        OK(generate_with_caller(&f, NULL, err)); /* the session goes on */
    }
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_drafts_are_taken),
        cmocka_unit_test(repetition_is_drafted),
        cmocka_unit_test(no_machine_makes_a_difference),
        cmocka_unit_test(what_is_not_built_is_refused),
        cmocka_unit_test(domains_learn_apart),
        cmocka_unit_test(forks_have_the_hints),
        cmocka_unit_test(npus_say_the_same),
        cmocka_unit_test(a_cancel_drops_the_rest),
        cmocka_unit_test(a_caller_may_draft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
