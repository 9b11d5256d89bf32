/* SPDX-License-Identifier: MIT
 *
 * A conversation that is longer than the context: what is left out, and what is then evaluated.
 */
#include "engine_fixture.h"

enum { MOST = 400, N_TURN = 60, N_SAID_MOST = 2 * N_TURN + 1 };

#define CHATML                                                                                                         \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"                         \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

struct talk {
    struct fixture f;
    struct lutra_message message[N_SAID_MOST];
    char text[N_SAID_MOST][160];
    int n;
};

static void say(struct talk *t, const char *role, const char *text)
{
    snprintf(t->text[t->n], sizeof t->text[0], "%s", text);
    t->message[t->n] = (struct lutra_message){.role = role, .content = t->text[t->n]};
    t->n++;
}

/* Turns of different lengths. */
static void say_turn(struct talk *t, const char *role, int i)
{
    char text[160];
    snprintf(text, sizeof text, "%s %d%.*s", role, i, 5 * (1 + i * 7 % 11),
        " one, two, three, four, five, six, seven, eight");
    say(t, role, text);
}

static int roll(const struct talk *t, int most, int *first, int *n)
{
    struct lutra_chat chat;
    lutra_chat_init(&chat, sizeof chat);
    chat.messages = t->message, chat.n_message = t->n, chat.chat_template = CHATML;
    OK(lutra_chat_roll(t->f.model, &chat, most, first, n, err));
    assert_true(*first + *n <= t->n);
    return *n;
}

/* Tokens of the prompt of what is kept. */
static int tokens_of(const struct talk *t, int first, int n, int32_t *token, int n_most)
{
    struct lutra_message kept[N_SAID_MOST];
    struct lutra_chat chat;
    int n_tok;
    memcpy(kept, t->message, (size_t)first * sizeof *kept);
    memcpy(kept + first, t->message + first + n, (size_t)(t->n - first - n) * sizeof *kept);
    lutra_chat_init(&chat, sizeof chat);
    chat.messages = kept, chat.n_message = t->n - n, chat.chat_template = CHATML;
    OK(lutra_chat_tokenize(t->f.model, &chat, token, n_most, &n_tok, err));
    return n_tok;
}

static int open_talk(void **state)
{
    struct talk *t = *state = calloc(1, sizeof *t);
    fixture_open(&t->f, "tiny-qwen2", "F16", 1);
    return 0;
}

static int close_talk(void **state)
{
    struct talk *t = *state;
    fixture_close(&t->f);
    free(t);
    return 0;
}

/* It fits, it begins with a turn and keeps the system message and the last turn; and the beginning stays. */
static void the_oldest_turns_are_left_out(void **state)
{
    struct talk *t = *state;
    int n_before = 0, n_rolled = 0;
    t->n = 0;
    say(t, "system", "You count.");
    for (int i = 0; i < N_TURN; i++) {
        int first, n;
        say_turn(t, "user", i);
        roll(t, MOST, &first, &n);
        assert_int_equal(first, 1);
        assert_true(n % 2 == 0 && n < t->n - 1);
        assert_true(tokens_of(t, first, n, NULL, 0) <= MOST);
        if (n != n_before) {
            assert_true(n > n_before && tokens_of(t, first, n, NULL, 0) <= MOST / 2 + 40); /* a turn more or less */
            n_rolled++;
        }
        n_before = n;
        say_turn(t, "assistant", i);
    }
    /* Some 1,900 tokens, of which each time half of 400 go. */
    int all = tokens_of(t, 0, 0, NULL, 0);
    assert_in_range(n_rolled, 2, all / (MOST / 2 - 60) + 1);
}

static void what_fits_stays_whole(void **state)
{
    struct talk *t = *state;
    int first, n;
    t->n = 0;
    say(t, "system", "You count.");
    for (int i = 0; i < 3; i++) say_turn(t, "user", i), say_turn(t, "assistant", i);
    say_turn(t, "user", 3);
    int all = tokens_of(t, 0, 0, NULL, 0);
    assert_int_equal(roll(t, all, &first, &n), 0);
    assert_true(roll(t, all - 1, &first, &n) > 0);
    assert_true(tokens_of(t, first, n, NULL, 0) < all);
    /* Nothing but the last turn, however little there is room for; and without a system message. */
    assert_int_equal(roll(t, 1, &first, &n), 6);
    t->message[0].role = "user";
    roll(t, 1, &first, &n);
    assert_int_equal(first, 0);
    assert_int_equal(n, 7);
    t->n = 0;
    assert_int_equal(roll(t, 0, &first, &n), 0);
}

/* Messages of tools belong to the turn of the user before them. */
static void a_turn_leaves_whole(void **state)
{
    struct talk *t = *state;
    int first, n;
    t->n = 0;
    say(t, "system", "You count.");
    for (int i = 0; i < 20; i++) {
        say_turn(t, "user", i);
        say_turn(t, "assistant", i);
        say_turn(t, "tool", i);
        say_turn(t, "assistant", i);
    }
    say_turn(t, "user", 20);
    assert_true(roll(t, MOST, &first, &n) > 0);
    assert_int_equal(n % 4, 0);
    assert_string_equal(t->message[first + n].role, "user");
}

/* Rows that prompts evaluate: new tokens, and after a roll what follows the system message. */
static void what_changed_is_evaluated(void **state)
{
    struct talk *t = *state;
    struct lutra_session_settings ss;
    struct lutra_stats stats;
    int32_t token[MOST], before[MOST];
    int n_before = 0, n_rolled = 0, n_system = 0;
    int64_t sum = 0;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = MOST + 16;
    OK(lutra_session_open(&t->f.s, t->f.model, &ss, err));
    t->n = 0;
    say(t, "system", "You count, and you say so in few words, one after another, as they come.");
    n_system = tokens_of(t, 0, 0, NULL, 0);
    for (int i = 0, n_was = 0; i < N_TURN; i++) {
        int first, n, same = 0;
        say_turn(t, "user", i);
        roll(t, MOST, &first, &n);
        int n_tok = tokens_of(t, first, n, token, MOST);
        while (same < n_before && same < n_tok && token[same] == before[same]) same++;
        struct lutra_request r;
        lutra_request_init(&r, sizeof r);
        r.prompt = token, r.n_prompt = n_tok, r.max_tokens = 1;
        lutra_session_stats_reset(t->f.s);
        OK(lutra_generate(t->f.s, &r, err));
        lutra_session_stats_get(t->f.s, &stats, sizeof stats);
        assert_in_range(stats.prompt_tokens, n_tok - same, n_tok - same + 1);
        if (i && n != n_was) assert_true(same >= n_system - 4 && stats.cached_tokens >= (uint64_t)n_system - 5);
        n_rolled += n != n_was;
        n_was = n;
        sum += (int64_t)stats.prompt_tokens;
        memcpy(before, token, sizeof before);
        n_before = n_tok;
        say_turn(t, "assistant", i);
    }
    int64_t all = tokens_of(t, 0, 0, NULL, 0);
    print_message("%d turns, %lld tokens: %d rolls, %lld rows\n", N_TURN, (long long)all, n_rolled, (long long)sum);
    assert_true(n_rolled > 2 && sum < all + n_rolled * (MOST / 2 + 40));
    lutra_session_close(&t->f.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_turns_are_left_out),
        cmocka_unit_test(what_fits_stays_whole),
        cmocka_unit_test(a_turn_leaves_whole),
        cmocka_unit_test(what_changed_is_evaluated),
    };
    return cmocka_run_group_tests(tests, open_talk, close_talk);
}
