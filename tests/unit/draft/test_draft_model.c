/* SPDX-License-Identifier: MIT
 *
 * A second model that drafts: that it changes nothing, what it is refused for, and what it evaluates.
 */
#include "unit/engine/drafts_fixture.h"

/* A second model: itself is always right, at any temperature, alone and as several samples; another changes nothing,
 * either. */
static void a_model_drafts(void **state)
{
    (void)state;
    struct fixture f, other;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    struct lutra_make_model_settings ms;
    lutra_make_model_settings_init(&ms, sizeof ms);
    memset(&other, 0, sizeof other);
    snprintf(other.path, sizeof other.path, "%.40s.2", f.path);
    ms.shape = "tiny-qwen2";
    ms.seed = 6;
    OK(lutra_make_model(f.rt, other.path, &ms, err));
    OK(lutra_model_open(&other.model, f.rt, other.path, NULL, err));
    stop_time(&f);
    for (int i = 0; i < 8; i++) {
        int n_samples = i % 2 ? 4 : 1;
        float temperature = i / 2 % 2 ? 0.8f : 0;
        struct lutra_session_settings ss;
        spec_session(&f, 4, NULL);
        generate(&f, NULL, n_samples, 0, temperature, &plain);
        lutra_session_settings_init(&ss, sizeof ss);
        ss.n_seq = 4;
        ss.n_ctx = 256;
        ss.draft_max = 7;
        ss.experiment = fixture_row_cost(LIKE_AVX512);
        ss.draft_p_min = 0; /* of random weights none is likely */
        ss.spec_type = i % 3 ? "draft" : NULL;
        ss.draft_model = i < 4 ? f.model : other.model;
        lutra_session_close(&f.s);
        OK(lutra_session_open(&f.s, f.model, &ss, err));
        generate(&f, NULL, n_samples, 0, temperature, &drafted);
        assert_same(&plain, &drafted, i);
        print_message("%s, %d samples, temperature %g: %llu passes, %llu drafted, %llu accepted\n",
            i < 4 ? "itself" : "another", n_samples, (double)temperature, (unsigned long long)f.s->stats.n_pass,
            (unsigned long long)f.s->stats.rows_drafted, (unsigned long long)f.s->stats.rows_accepted);
        assert_true(f.s->stats.rows_drafted > 0);
        if (i < 4) assert_true(f.s->stats.rows_wasted <= (uint64_t)n_samples); /* the last guess nobody needs */
        /* A kind of draft that is not known yet is tried at one sample first: beside others it begins later. */
        if (i < 4) assert_true(f.s->stats.n_pass <= (n_samples > 1 ? 64 / 3 : 64 / 4));
    }
    lutra_session_close(&f.s);
    lutra_model_close(&other.model);
    unlink(other.path);
    ms.shape = "tiny-llama"; /* another vocabulary */
    OK(lutra_make_model(f.rt, other.path, &ms, err));
    OK(lutra_model_open(&other.model, f.rt, other.path, NULL, err));
    struct lutra_session_settings ss;
    struct lutra_error why;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.draft_model = other.model;
    assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "not one vocabulary"));
    lutra_model_close(&other.model);
    unlink(other.path);
    fixture_close(&f);
}

/* The second model finds what samples of a prompt share in its own cache, as the first does, and what the samples of
 * an earlier request had. */
static void a_second_model_sees_a_prompt_once(void **state)
{
    (void)state;
    enum { LONG_PROMPT = 200, N_SAMPLE = 4, N_NEW = 12 };
    static int32_t text[LONG_PROMPT];
    struct fixture f;
    struct lutra_session_settings ss;
    struct lutra_request r;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    for (int i = 0; i < LONG_PROMPT; i++) text[i] = 1 + 7 * i % 200;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = N_SAMPLE;
    ss.n_ctx = 256;
    ss.spec_type = "draft";
    ss.draft_p_min = 0;
    ss.draft_model = f.model;
    ss.experiment = fixture_row_cost(0.01f);
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    lutra_request_init(&r, sizeof r);
    r.prompt = text;
    r.n_prompt = LONG_PROMPT;
    r.n_samples = N_SAMPLE;
    r.max_tokens = N_NEW;
    r.ignore_end = true;
    const struct lutra_stats *second = &f.s->drafter[DRAFTER_MODEL].own->stats;
    for (int i = 0; i < 2; i++) {
        uint64_t before = second->rows_valid;
        OK(lutra_generate(f.s, &r, err));
        uint64_t rows = second->rows_valid - before;
        print_message("%llu rows of the second model\n", (unsigned long long)rows);
        assert_true(rows > 0 && f.s->stats.rows_accepted > 0);
        assert_true(rows < (i ? 0 : LONG_PROMPT) + N_SAMPLE * (KV_BLOCK + 2 * N_NEW));
    }
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_drafts), cmocka_unit_test(a_second_model_sees_a_prompt_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
