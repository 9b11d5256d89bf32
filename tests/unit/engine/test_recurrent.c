/* SPDX-License-Identifier: MIT
 *
 * Requests to models with recurrent layers: states are reused between turns of a chat, and texts are those of a fresh
 * session, whatever waits, is forked or was drafted.
 */
#include "engine_fixture.h"

enum { TURNS = 10, FIRST = 100, ANSWER = 40, THOUGHT = 15, WORDS = 30, MOST = 8, TEXT = 34 };

struct heard {
    int32_t token[MOST][ANSWER];
    int n_token[MOST], n_cached, n_accepted, n_end, n_prompt;
    const struct heard *right; /* what its samples will say, which is drafted; or NULL */
};

/* The next three tokens, and a wrong one beside each. */
static int on_draft(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int most)
{
    const struct heard *h = user;
    int n = 0, at = tip->n_token - h->n_prompt;
    for (int i = at, up = -1; i < at + 3 && i < ANSWER && n + 2 <= most; i++) {
        int32_t right = h->right->token[tip->sample][i];
        draft[n] = (struct lutra_draft){.token = right, .parent = up, .p = 0.9f};
        draft[n + 1] = (struct lutra_draft){.token = (right + 1) % 512, .parent = up, .p = 0.5f};
        up = n;
        n += 2;
    }
    return n;
}

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    if (p->token >= 0) h->token[p->sample][h->n_token[p->sample]++] = p->token;
    return 0;
}

static void on_end(void *user, const struct lutra_end *e)
{
    struct heard *h = user;
    h->n_cached = e->n_cached;
    h->n_accepted += e->n_accepted;
    h->n_end++;
}

static void ask(lutra_session *s, const int32_t *prompt, int n_prompt, int n_samples, struct heard *h)
{
    struct lutra_request r;
    struct lutra_sampling sampling;
    *h = (struct heard){.right = h->right, .n_prompt = n_prompt};
    lutra_request_init(&r, sizeof r);
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.seed = 42;
    r.prompt = prompt;
    r.n_prompt = n_prompt;
    r.n_samples = n_samples;
    r.max_tokens = ANSWER;
    r.sampling = &sampling;
    r.ignore_end = true;
    r.on_text = on_text;
    r.on_end = on_end;
    r.on_draft = h->right ? on_draft : NULL;
    r.user = h;
    OK(lutra_generate(s, &r, err));
    assert_int_equal(h->n_end, n_samples);
}

static lutra_session *open_session(const struct fixture *f, int n_seq)
{
    lutra_session *s;
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = n_seq;
    ss.n_ctx = 1024;
    ss.experiment = fixture_row_cost(0.01f); /* every draft pays */
    OK(lutra_session_open(&s, f->model, &ss, err));
    return s;
}

/* Logits behind each token of a text, evaluated `step` rows at a time in a sequence of its own. */
static void evaluate(const struct fixture *f, int step, float (*out)[512])
{
    lutra_session *s = open_session(f, 2);
    struct lutra_row row[TEXT];
    int32_t seq;
    OK(lutra_seq_open(s, TEXT, &seq, err));
    for (int first = 0, n; first < TEXT; first += n) {
        n = step < TEXT - first ? step : TEXT - first;
        for (int i = 0; i < n; i++)
            row[i] = (struct lutra_row){token_at(first + i), first + i, seq, i - 1, LUTRA_WANT_LOGITS, 0};
        OK(lutra_forward(s, row, n, sizeof *row, err));
        for (int i = 0; i < n; i++) memcpy(out[first + i], lutra_forward_result(s, i)->logits, sizeof *out);
    }
    lutra_session_close(&s);
}

/* A delta rule, a short convolution, Mamba-2: token by token or many at once, on each instruction set. */
static void check_states(const struct where *where)
{
    static const char *const shapes[] = {"tiny-granitehybrid", "tiny-qwen35", "tiny-lfm2"};
    static const int steps[] = {17, TEXT};
    static float want[TEXT][512], got[TEXT][512];
    if (where->device && !strcmp(where->device, "npu-qemu"))
        return; /* the CPU keeps the states: as npu-sim, and slow */
    for (size_t k = 0; k < (where->isa ? sizeof shapes / sizeof *shapes : 1); k++) {
        struct fixture f;
        fixture_open_on(&f, where, shapes[k], "Q8_0", 1 + (int)k % 2);
        evaluate(&f, 1, want);
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            evaluate(&f, steps[i], got);
            for (int t = 0; t < TEXT; t++)
                if (memcmp(want[t], got[t], sizeof *got) != 0)
                    fail_msg("%s, %s %s: token %d in a pass of %d differs", shapes[k],
                        where->device ? where->device : "", where->isa ? where->isa : "", t, steps[i]);
        }
        fixture_close(&f);
    }
}

/* Without a layer that attends, nothing counts a sequence's tokens. */
static void a_model_that_never_attends_is_refused(void **state)
{
    struct fixture f;
    struct lutra_error why = {.what = ""};
    (void)state;
    fixture_make(&f, &(struct where){0}, "tiny-granitehybrid", "Q8_0", 1, 1);
    OK(lutra_model_open(&f.model, f.rt, f.path, NULL, err));
    assert_int_equal(lutra_session_open(&f.s, f.model, NULL, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "keeps no keys and values"));
    fixture_close(&f);
}

static void rows_do_not_depend_on_their_pass(void **state)
{
    (void)state;
    fixture_everywhere(check_states);
}

/* The next turn's prompt has the last answer without its thoughts, as templates of reasoning models write it: a turn
 * evaluates what is new and less than a block and a half more. */
static void turns_of_a_chat_reuse_states(void **state)
{
    static int32_t prompt[1024];
    static struct heard here, fresh;
    struct fixture f;
    int n = FIRST, shared = 0;
    (void)state;
    fixture_open(&f, "tiny-qwen35", "F16", 2);
    lutra_session *s = open_session(&f, 1);
    for (int i = 0; i < n; i++) prompt[i] = token_at(i);
    for (int turn = 0; turn < TURNS; turn++) {
        struct lutra_stats stats;
        lutra_session_stats_reset(s);
        ask(s, prompt, n, 1, &here);
        lutra_session_stats_get(s, &stats, sizeof stats);
        if ((int)stats.prompt_tokens > n - shared + 96)
            fail_msg("turn %d: %d rows for %d new tokens", turn, (int)stats.prompt_tokens, n - shared);
        lutra_session *alone = open_session(&f, 1);
        ask(alone, prompt, n, 1, &fresh);
        lutra_session_close(&alone);
        assert_int_equal(fresh.n_cached, 0);
        assert_memory_equal(here.token[0], fresh.token[0], sizeof here.token[0]);
        shared = n;
        for (int i = THOUGHT; i < ANSWER; i++) prompt[n++] = here.token[0][i];
        for (int i = 0; i < WORDS; i++, n++) prompt[n] = token_at(n);
    }
    lutra_session_close(&s);
    fixture_close(&f);
}

/* Samples that wait for a slot start from the state one token before the prompt's end. */
static void samples_that_wait_say_the_same(void **state)
{
    static int32_t prompt[FIRST];
    static struct heard together, waiting;
    struct fixture f;
    (void)state;
    fixture_open(&f, "tiny-qwen35", "F16", 2);
    for (int i = 0; i < FIRST; i++) prompt[i] = token_at(i);
    lutra_session *wide = open_session(&f, MOST), *narrow = open_session(&f, 2);
    ask(wide, prompt, FIRST, MOST, &together);
    ask(narrow, prompt, FIRST, MOST, &waiting);
    for (int i = 0; i < MOST; i++) assert_memory_equal(together.token[i], waiting.token[i], sizeof together.token[i]);
    for (int i = 1; i < MOST; i++)
        assert_memory_not_equal(together.token[i], together.token[0], sizeof together.token[i]);
    lutra_session_close(&wide);
    lutra_session_close(&narrow);
    fixture_close(&f);
}

/* Right and wrong drafts of two samples change no token. */
static void drafts_change_nothing(void **state)
{
    static int32_t prompt[FIRST];
    static struct heard plain, drafted = {.right = &plain};
    struct fixture f;
    (void)state;
    fixture_open(&f, "tiny-qwen35", "F16", 2);
    for (int i = 0; i < FIRST; i++) prompt[i] = token_at(i);
    lutra_session *s = open_session(&f, 2);
    ask(s, prompt, FIRST, 2, &plain);
    lutra_session_close(&s);
    s = open_session(&f, 2);
    ask(s, prompt, FIRST, 2, &drafted);
    for (int i = 0; i < 2; i++) assert_memory_equal(plain.token[i], drafted.token[i], sizeof plain.token[i]);
    assert_true(drafted.n_accepted > ANSWER);
    lutra_session_close(&s);
    fixture_close(&f);
}

/* Prompts that share a system prompt and nothing behind it, as those of a conversation that rolls do: the second
 * evaluates it once more and leaves a state where they part; from then on it is evaluated no more. */
static void a_conversation_that_rolls_keeps_its_system_prompt(void **state)
{
    enum { SYSTEM = 200, TURNS_KEPT = 300, ROLLS = 5 };
    static int32_t prompt[1024];
    static struct heard here, fresh;
    struct fixture f;
    int rows[ROLLS];
    (void)state;
    fixture_open(&f, "tiny-qwen35", "F16", 2);
    lutra_session *s = open_session(&f, 1);
    for (int roll = 0; roll < ROLLS; roll++) {
        struct lutra_stats stats;
        int n = 0;
        while (n < SYSTEM) prompt[n] = token_at(n), n++;
        for (int i = 0; i < TURNS_KEPT; i++) prompt[n++] = token_at(1000 * (roll + 1) + 3 * i) + 250;
        lutra_session_stats_reset(s);
        ask(s, prompt, n, 1, &here);
        lutra_session_stats_get(s, &stats, sizeof stats);
        rows[roll] = (int)stats.prompt_tokens;
        lutra_session *alone = open_session(&f, 1);
        ask(alone, prompt, n, 1, &fresh);
        lutra_session_close(&alone);
        assert_memory_equal(here.token[0], fresh.token[0], sizeof here.token[0]);
    }
    print_message("rows of each roll: %d %d %d %d %d\n", rows[0], rows[1], rows[2], rows[3], rows[4]);
    assert_true(rows[0] >= SYSTEM + TURNS_KEPT && rows[1] >= SYSTEM + TURNS_KEPT - 64);
    for (int roll = 2; roll < ROLLS; roll++) assert_in_range(rows[roll], TURNS_KEPT, TURNS_KEPT + 63);
    lutra_session_close(&s);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_do_not_depend_on_their_pass),
        cmocka_unit_test(a_model_that_never_attends_is_refused), cmocka_unit_test(turns_of_a_chat_reuse_states),
        cmocka_unit_test(a_conversation_that_rolls_keeps_its_system_prompt),
        cmocka_unit_test(samples_that_wait_say_the_same), cmocka_unit_test(drafts_change_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
