/* SPDX-License-Identifier: MIT
 *
 * Replies to a prompt are drafted from earlier replies to it: of the same request, where samples come in waves, and of
 * earlier requests.  The texts are those without drafts.
 */
#include "engine_fixture.h"

enum { N_PROMPT = 20, N_TOK = 40, MOST = 8 };

struct said {
    int32_t token[MOST][N_TOK];
    int n[MOST];
};

static int on_text(void *user, const struct lutra_piece *piece)
{
    struct said *said = user;
    if (piece->token >= 0 && said->n[piece->sample] < N_TOK)
        said->token[piece->sample][said->n[piece->sample]++] = piece->token;
    return 0;
}

/* Passes of a request in the fixture's session. */
static int generate(struct fixture *f, int first, int n_samples, float temperature, struct said *said)
{
    struct lutra_request r;
    struct lutra_sampling sampling;
    struct lutra_stats before, after;
    int32_t prompt[N_PROMPT];
    memset(said, 0, sizeof *said);
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = first + i;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = N_PROMPT;
    r.max_tokens = N_TOK;
    r.n_samples = n_samples;
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = temperature;
    r.sampling = &sampling;
    r.on_text = on_text;
    r.user = said;
    lutra_session_stats_get(f->s, &before, sizeof before);
    OK(lutra_submit(f->s, &r, NULL, err));
    for (int active = 1; active;) OK(lutra_step(f->s, &active, err));
    lutra_session_stats_get(f->s, &after, sizeof after);
    return (int)(after.n_pass - before.n_pass);
}

static void session(struct fixture *f, const char *type)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 1;
    ss.n_ctx = 256;
    ss.spec_type = type;
    ss.experiment = fixture_row_cost(0.05f);
    lutra_session_close(&f->s);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

static void earlier_replies_are_drafted(void **state)
{
    (void)state;
    struct fixture f;
    struct said plain, said;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    session(&f, NULL);
    int n_plain = generate(&f, 100, 4, 0, &plain);
    session(&f, "siblings");
    int waves = generate(&f, 100, 4, 0, &said);
    assert_memory_equal(&said, &plain, sizeof said);
    int again = generate(&f, 100, 1, 0, &said);
    assert_memory_equal(said.token[0], plain.token[0], sizeof plain.token[0]);
    int other = generate(&f, 200, 1, 0, &said);
    print_message("four waves: %d passes for %d; again: %d; another prompt: %d\n", waves, n_plain, again, other);
    assert_true(n_plain >= 4 * (N_TOK - 1));
    assert_in_range(waves, N_TOK, N_TOK + 3 * N_TOK / 4); /* the first as ever, the others four tokens a pass or more */
    assert_in_range(again, 1, N_TOK / 4);
    assert_in_range(other, N_TOK - 1, N_TOK + 2);
    for (int i = 0; i < 2; i++) { /* at a temperature: the same texts */
        session(&f, i ? "auto" : NULL);
        generate(&f, 100, 4, 0.8f, i ? &said : &plain);
    }
    assert_memory_equal(&said, &plain, sizeof said);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(earlier_replies_are_drafted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
