/* SPDX-License-Identifier: MIT
 *
 * Samples that say a given text: it comes whatever the weights, drafts meet it, and how much is drafted can be a matter
 * of counts.
 */
#include "engine_fixture.h"

enum { N_PROMPT = 40, N_FORCED = 60 };

struct heard {
    int32_t said[N_FORCED];
    int n;
    const int32_t *forced; /* what on_draft guesses from, each fourth guess wrong; NULL: no guesses */
    struct lutra_end end;
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    if (p->token < 0) return 0;
    assert_in_range(h->n, 0, N_FORCED - 1);
    h->said[h->n++] = p->token;
    assert_true(p->log_prob == 0);
    return 0;
}

static void on_end(void *user, const struct lutra_end *end)
{
    ((struct heard *)user)->end = *end;
}

static int on_draft(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    const struct heard *h = user;
    int n = 0;
    for (int at = tip->n_token - N_PROMPT; n < n_max && at + n < N_FORCED; n++)
        draft[n] = (struct lutra_draft){h->forced[at + n] ^ ((at + n) % 4 == 3), n - 1, 0.9f};
    return n;
}

static void say(struct fixture *f, struct heard *h, const int32_t *forced, bool drafts)
{
    int32_t prompt[N_PROMPT];
    struct lutra_request r;
    *h = (struct heard){.forced = forced};
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = 7 * i % 200;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = N_PROMPT;
    r.forced = forced;
    r.n_forced = N_FORCED;
    r.ignore_end = true;
    r.on_text = on_text;
    r.on_end = on_end;
    if (drafts) r.on_draft = on_draft;
    r.user = h;
    OK(lutra_generate(f->s, &r, err));
    assert_int_equal(h->n, N_FORCED);
    assert_int_equal(h->end.reason, LUTRA_STOP_LENGTH);
    assert_memory_equal(h->said, forced, sizeof h->said);
}

static void the_text_comes_with_and_without_drafts(void **state)
{
    (void)state;
    struct fixture f;
    static struct heard h;
    int32_t forced[N_FORCED];
    int n_pass[2];
    for (int i = 0; i < N_FORCED; i++) forced[i] = 11 * i * i % 199 + 20;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    for (int round = 0; round < 2; round++) {
        struct lutra_session_settings ss;
        lutra_session_settings_init(&ss, sizeof ss);
        ss.n_ctx = 256;
        ss.draft_row_cost = 0.09f;
        lutra_session_close(&f.s);
        OK(lutra_session_open(&f.s, f.model, &ss, err));
        say(&f, &h, forced, false);
        assert_int_equal(h.end.n_pass, N_FORCED);
        say(&f, &h, forced, true);
        assert_in_range(h.end.n_pass, N_FORCED / 4, N_FORCED / 2);
        assert_in_range(h.end.n_accepted, N_FORCED / 2, N_FORCED);
        n_pass[round] = h.end.n_pass;
    }
    assert_int_equal(n_pass[0], n_pass[1]); /* whatever the passes took */
    fixture_close(&f);
}

static void what_cannot_be_said_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_error why;
    struct lutra_request r;
    struct lutra_session_settings ss;
    int32_t forced[2] = {1, 1 << 20};
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    fixture_session(&f, 1, 64);
    lutra_request_init(&r, sizeof r);
    r.prompt = forced;
    r.n_prompt = 1;
    r.forced = forced;
    r.n_forced = 2;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "forced token 1 is 1048576"));
    r.n_forced = 0;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    r.n_forced = 1;
    OK(lutra_submit(f.s, &r, NULL, err));
    lutra_session_close(&f.s);
    lutra_session_settings_init(&ss, sizeof ss);
    ss.draft_row_cost = NAN;
    assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_ARGUMENT);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_comes_with_and_without_drafts),
        cmocka_unit_test(what_cannot_be_said_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
