/* SPDX-License-Identifier: MIT
 *
 * What a second model evaluates.
 */
#include "engine/session_impl.h"
#include "unit/engine/engine_fixture.h"

/* The second model finds what samples of a prompt share in its own cache, as the first does, and what the samples of
 * an earlier request had. */
static void a_second_model_sees_a_prompt_once(void **state)
{
    (void)state;
    enum { LONG_PROMPT = 200, N_SAMPLE = 4, N_NEW = 12 };
    static int32_t prompt[LONG_PROMPT];
    struct fixture f;
    struct lutra_session_settings ss;
    struct lutra_request r;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    for (int i = 0; i < LONG_PROMPT; i++) prompt[i] = 1 + 7 * i % 200;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = N_SAMPLE;
    ss.n_ctx = 256;
    ss.spec_type = "draft";
    ss.draft_p_min = 0;
    ss.draft_model = f.model;
    ss.experiment = fixture_row_cost(0.01f);
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_second_model_sees_a_prompt_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
