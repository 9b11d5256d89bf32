/* SPDX-License-Identifier: MIT
 *
 * Prompts that begin alike are evaluated once, whether they come one after another or at the same time, and give the
 * text that each gives alone; within one domain only.
 */
#include "engine_fixture.h"

enum { N_CLIENT = 32, N_SYSTEM = 2000, N_ASKED = 9, N_PROMPT = N_SYSTEM + N_ASKED, N_SAID = 6 };

struct heard {
    int32_t token[N_SAID];
    int n, n_cached;
};
static struct heard alone[N_CLIENT], together[N_CLIENT];
static int32_t prompt[N_CLIENT][N_PROMPT];

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    if (p->token >= 0 && h->n < N_SAID) h->token[h->n++] = p->token;
    return 0;
}

static void on_end(void *user, const struct lutra_end *e)
{
    ((struct heard *)user)->n_cached = e->n_cached;
}

static void submit(lutra_session *s, int client, int n_prompt, uint64_t domain, struct heard *h)
{
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    for (int i = 0; i < N_PROMPT; i++) prompt[client][i] = token_at(i < N_SYSTEM ? i : i + 100 * client);
    r.prompt = prompt[client], r.n_prompt = n_prompt, r.max_tokens = N_SAID, r.ignore_end = true;
    r.cache_domain = domain;
    r.on_text = on_text, r.on_end = on_end, r.user = h;
    memset(h, 0, sizeof *h);
    OK(lutra_submit(s, &r, NULL, err));
}

static uint64_t run(lutra_session *s)
{
    struct lutra_stats stats;
    for (int n_active = 1; n_active;) OK(lutra_step(s, &n_active, err));
    lutra_session_stats_get(s, &stats, sizeof stats);
    lutra_session_stats_reset(s);
    return stats.prompt_tokens;
}

static void a_system_prompt_is_evaluated_once(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    for (int i = 0; i < N_CLIENT; i += 5) {
        fixture_session(&f, 1, N_PROMPT + N_SAID);
        submit(f.s, i, N_PROMPT, 0, &alone[i]);
        assert_int_equal(run(f.s), N_PROMPT);
        assert_int_equal(alone[i].n_cached, 0);
    }
    fixture_session(&f, N_CLIENT, N_PROMPT + N_SAID);
    for (int i = 0; i < N_CLIENT; i++) submit(f.s, i, N_PROMPT, 0, &together[i]);
    uint64_t rows = run(f.s);
    print_message("%d prompts of %d tokens: %d rows\n", N_CLIENT, N_PROMPT, (int)rows);
    assert_int_equal(rows, N_SYSTEM + N_CLIENT * N_ASKED);
    for (int i = 0; i < N_CLIENT; i += 5) assert_memory_equal(alone[i].token, together[i].token, sizeof alone[i].token);
    fixture_close(&f);
}

/* While one still speaks, the next with its prompt begins behind what it shares. */
static void a_running_sample_shares(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    fixture_session(&f, 2, 256);
    submit(f.s, 0, 200, 0, &alone[0]);
    for (int i = 0; i < 3; i++) OK(lutra_step(f.s, NULL, err));
    submit(f.s, 1, 200, 0, &alone[1]);
    submit(f.s, 2, 150, 0, &alone[2]); /* of which all is there; the last row is evaluated again */
    assert_int_equal(run(f.s), 200 + 1 + 1);
    assert_int_equal(alone[1].n_cached, 199);
    assert_int_equal(alone[2].n_cached, 149);
    assert_memory_equal(alone[0].token, alone[1].token, sizeof alone[0].token);
    fixture_close(&f);
}

static void domains_are_apart(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_session_settings ss;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 3, ss.n_ctx = 256, ss.n_cache = 2048; /* room for all that is kept */
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    submit(f.s, 0, 200, 7, &alone[0]); /* finished */
    run(f.s);
    submit(f.s, 0, 200, 8, &alone[0]); /* running */
    OK(lutra_step(f.s, NULL, err));
    OK(lutra_step(f.s, NULL, err));
    submit(f.s, 0, 200, 9, &alone[1]); /* and in one pass with these */
    submit(f.s, 0, 200, 10, &alone[2]);
    assert_int_equal(run(f.s), 3 * 200);
    for (int i = 0; i < 3; i++) assert_int_equal(alone[i].n_cached, 0);
    submit(f.s, 0, 200, 7, &alone[0]);
    run(f.s);
    assert_int_equal(alone[0].n_cached, 199);
    fixture_close(&f);
}

/* A prompt that waits for another's is not held by it: cancelled, it goes on by itself. */
static void a_cancelled_prompt_holds_nobody(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_session_settings ss;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 2, ss.n_ctx = 256, ss.n_batch = 16;
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    submit(f.s, 0, 200, 0, &alone[0]);
    submit(f.s, 1, 200, 0, &alone[1]);
    for (int i = 0; i < 5; i++) OK(lutra_step(f.s, NULL, err));
    assert_int_equal(lutra_request_cancel(f.s, 0), 0);
    assert_int_equal(run(f.s), 200); /* what it had evaluated is found */
    assert_int_equal(alone[0].n, 0);
    assert_int_equal(alone[1].n, N_SAID);
    fixture_close(&f);
}

/* Two conversations of ten turns, by turns: each turn evaluates what is new, and the last token that was said. */
static void chats_evaluate_what_is_new(void **state)
{
    (void)state;
    enum { N_TURN = 10, N_NEW = 37, N_CHAT = 2 };
    struct fixture f;
    int32_t chat[N_CHAT][N_TURN * (N_NEW + N_SAID)];
    int n[N_CHAT] = {0};
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    fixture_session(&f, 2, 1024);
    for (int turn = 0; turn < N_TURN; turn++)
        for (int c = 0; c < N_CHAT; c++) {
            struct heard h = {0};
            struct lutra_request r;
            lutra_request_init(&r, sizeof r);
            for (int i = 0; i < N_NEW; i++) chat[c][n[c]++] = token_at(1000 * c + 100 * turn + i);
            r.prompt = chat[c], r.n_prompt = n[c], r.max_tokens = N_SAID, r.ignore_end = true;
            r.on_text = on_text, r.on_end = on_end, r.user = &h;
            OK(lutra_submit(f.s, &r, NULL, err));
            assert_int_equal(run(f.s), turn ? N_NEW + 1 : N_NEW);
            for (int i = 0; i < N_SAID; i++) chat[c][n[c]++] = h.token[i];
        }
    fixture_close(&f);
}

/* As many prompts as there is memory for stay, and all samples of a request. */
static void all_that_fits_stays(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_session_settings ss;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 2, ss.n_ctx = 1024, ss.n_cache = 8192;
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 600; k++) prompt[i][k] = (int32_t)((k * 31 + i * 77) % 251);
        struct lutra_request r;
        lutra_request_init(&r, sizeof r);
        r.prompt = prompt[i], r.n_prompt = 600, r.max_tokens = N_SAID, r.ignore_end = true;
        OK(lutra_submit(f.s, &r, NULL, err));
        assert_int_equal(run(f.s), 600);
    }
    struct heard h = {0};
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt[0], r.n_prompt = 600, r.max_tokens = 1, r.ignore_end = true, r.on_end = on_end, r.user = &h;
    OK(lutra_submit(f.s, &r, NULL, err));
    assert_int_equal(run(f.s), 1);
    assert_int_equal(h.n_cached, 599);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_system_prompt_is_evaluated_once),
        cmocka_unit_test(a_running_sample_shares),
        cmocka_unit_test(domains_are_apart),
        cmocka_unit_test(a_cancelled_prompt_holds_nobody),
        cmocka_unit_test(chats_evaluate_what_is_new),
        cmocka_unit_test(all_that_fits_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
