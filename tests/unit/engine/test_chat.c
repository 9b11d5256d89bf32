/* SPDX-License-Identifier: MIT
 *
 * Chats keep their past: a turn evaluates what is new, however much it is allowed to say.
 */
#include "engine_fixture.h"
#include "sanitized.h"

enum { N_TURN = SANITIZED ? 6 : 16, N_CTX = 1024, N_SAID = 21, N_ASKED = 30, N_CHAT = 3, N_PAST = SANITIZED ? 4 : 12 };

struct chat {
    int32_t token[N_CTX];
    int n_token, n_said;
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct chat *c = user;
    if (p->token < 0) return 0;
    c->token[c->n_token++] = p->token;
    return ++c->n_said == N_SAID; /* an answer ends by itself; max_tokens stays what it is */
}

static void ask(struct chat *c, int turn, int who)
{
    for (int i = 0; i < N_ASKED; i++) c->token[c->n_token++] = token_at(1000 * who + 40 * turn + i);
    c->n_said = 0;
}

static struct lutra_request make_request(struct chat *c)
{
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    r.prompt = c->token;
    r.n_prompt = c->n_token;
    r.ignore_end = true;
    r.on_text = on_text;
    r.user = c;
    assert_int_equal(r.max_tokens, -1);
    return r;
}

static struct lutra_stats stats_of(lutra_session *s)
{
    struct lutra_stats stats;
    lutra_session_stats_get(s, &stats, sizeof stats);
    return stats;
}

/* Default settings: one sequence, and room for no more. */
static void a_chat_keeps_its_past(void **state)
{
    (void)state;
    struct fixture f;
    static struct chat kept, fresh;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    fixture_session(&f, 1, N_CTX);
    kept = (struct chat){.n_token = 0};
    for (int turn = 0; turn < N_TURN; turn++) {
        int n_new = N_ASKED + (turn ? 1 : 0), n_before = kept.n_token; /* the last answer's last token is new, too */
        ask(&kept, turn, 0);
        lutra_session_stats_reset(f.s);
        struct lutra_request r = make_request(&kept);
        OK(lutra_generate(f.s, &r, err));
        struct lutra_stats now = stats_of(f.s);
        assert_in_range(now.prompt_tokens, n_new, n_new + 64);
        assert_int_equal(now.prompt_tokens + now.cached_tokens, n_before + N_ASKED);
        assert_int_equal(now.rows_valid, now.prompt_tokens + N_SAID - 1);
    }
    fresh = kept; /* and it said what it says without a past */
    fresh.n_token -= N_SAID;
    fresh.n_said = 0;
    fixture_session(&f, 1, N_CTX);
    struct lutra_request r = make_request(&fresh);
    OK(lutra_generate(f.s, &r, err));
    assert_memory_equal(fresh.token, kept.token, sizeof kept.token);
    fixture_close(&f);
}

/* Several chats take turns, one at a time or all at once. */
static void chats_beside_each_other(void **state)
{
    (void)state;
    struct fixture f;
    static struct chat chat[N_CHAT];
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    for (int at_once = 0; at_once < 2; at_once++) {
        fixture_session(&f, N_CHAT, N_CTX);
        memset(chat, 0, sizeof chat);
        for (int turn = 0; turn < N_TURN; turn++) {
            lutra_session_stats_reset(f.s);
            for (int c = 0; c < N_CHAT; c++) {
                ask(&chat[c], turn, c);
                struct lutra_request r = make_request(&chat[c]);
                OK(lutra_submit(f.s, &r, NULL, err));
                for (int active = 1; active && !at_once;) OK(lutra_step(f.s, &active, err));
            }
            for (int active = 1; active;) OK(lutra_step(f.s, &active, err));
            int n_new = N_CHAT * (N_ASKED + (turn ? 1 : 0));
            assert_in_range(stats_of(f.s).prompt_tokens, n_new, n_new + 64 * N_CHAT);
        }
    }
    fixture_close(&f);
}

/* What was kept goes when the running need it, and not one pass fails. */
static void the_past_gives_way(void **state)
{
    (void)state;
    struct fixture f;
    static struct chat chat, again;
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    fixture_session(&f, 2, 256);
    for (int i = 0; i < N_PAST; i++) { /* so many that have nothing in common, each as long as the context */
        chat.n_token = again.n_token = 0;
        ask(&chat, 7 * i, i);
        again = chat;
        struct lutra_request a = make_request(&chat), b = make_request(&again);
        a.on_text = b.on_text = NULL;
        a.n_samples = 2;
        OK(lutra_submit(f.s, &a, NULL, err));
        OK(lutra_generate(f.s, &b, err));
    }
    assert_int_equal(stats_of(f.s).generated_tokens, N_PAST * 3 * (256 - N_ASKED + 1));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_keeps_its_past),
        cmocka_unit_test(chats_beside_each_other),
        cmocka_unit_test(the_past_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
