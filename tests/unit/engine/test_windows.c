/* SPDX-License-Identifier: MIT
 *
 * Layers with a window whose past is freed: the same bits and texts in less memory, and no cut beyond what is kept.
 */
#include "engine_fixture.h"
#include "sanitized.h"

enum { N_CTX = 1024, N_PROMPT = 700, N_VOCAB = 512, WINDOW = 64, N_TREE = 5 };

/* Two sessions of one model: all of the past, and what windows need. */
struct pair {
    struct fixture f;
    lutra_session *s[2];
};

static void open_pair(struct pair *p, const char *shape, int n_seq)
{
    struct lutra_session_settings ss;
    fixture_open(&p->f, shape, "Q4_0", 2);
    lutra_session_settings_init(&ss, sizeof ss);
    assert_false(ss.swa_trim);
    ss.n_ctx = N_CTX;
    ss.n_seq = n_seq;
    ss.n_batch = 128;
    for (int i = 0; i < 2; i++) {
        ss.swa_trim = i;
        OK(lutra_session_open(&p->s[i], p->f.model, &ss, err));
    }
}

static void close_pair(struct pair *p)
{
    lutra_session_close(&p->s[0]);
    lutra_session_close(&p->s[1]);
    fixture_close(&p->f);
}

/* Feeds tokens from .. to - 1 in chains of `step`; logits of the last in out. */
static void feed(lutra_session *s, int32_t seq, int from, int to, int step, float *out)
{
    struct lutra_row row[128];
    for (int at = from; at < to; at += step) {
        int n = to - at < step ? to - at : step;
        for (int i = 0; i < n; i++) row[i] = (struct lutra_row){token_at(at + i), at + i, seq, i - 1, 0, 0};
        row[n - 1].want = LUTRA_WANT_LOGITS;
        OK(lutra_forward(s, row, n, sizeof *row, err));
    }
    memcpy(out, lutra_forward_result(s, 0)->logits, N_VOCAB * sizeof *out);
}

/* A tree of drafts behind n tokens, of which the path 1-3 is right and committed; logits of all of it in out. */
static void draft(lutra_session *s, int32_t seq, int n, float out[N_TREE][N_VOCAB])
{
    const uint32_t want = LUTRA_WANT_LOGITS | LUTRA_ROW_DRAFT;
    struct lutra_row row[N_TREE] = {{token_at(n), n, seq, -1, LUTRA_WANT_LOGITS, 0},
        {token_at(n + 1), n + 1, seq, 0, want, 0}, {3, n + 1, seq, 0, want, 0},
        {token_at(n + 2), n + 2, seq, 1, want, 0}, {4, n + 2, seq, 2, want, 0}};
    OK(lutra_forward(s, row, N_TREE, sizeof *row, err));
    for (int i = 0; i < N_TREE; i++) memcpy(out[i], lutra_forward_result(s, i)->logits, N_VOCAB * sizeof(float));
    OK(lutra_commit(s, 3, err));
}

static void check_shape(const char *shape)
{
    static float a[N_VOCAB], b[N_VOCAB], tree[2][N_TREE][N_VOCAB];
    static const int steps[] = {1, 17, 128};
    struct pair p;
    struct lutra_error why;
    uint64_t bytes[2];
    int32_t seq[2], fork[2];
    open_pair(&p, shape, 4);
    for (int i = 0; i < 2; i++) lutra_session_sizes_get(p.s[i], NULL, NULL, &bytes[i]);
    assert_true(bytes[1] < bytes[0]);
    for (size_t k = SANITIZED; k < sizeof steps / sizeof *steps; k++) {
        for (int i = 0; i < 2; i++) {
            OK(lutra_seq_open(p.s[i], 0, &seq[i], err));
            feed(p.s[i], seq[i], 0, N_PROMPT - 9 * (int)k, steps[k], i ? b : a);
        }
        assert_memory_equal(a, b, sizeof a);
        for (int i = 0; i < 2; i++) { /* forks, one of them a little behind the tip, and a pass of each */
            int n = N_PROMPT - 9 * (int)k - 60 * (int)(k % 2);
            OK(lutra_seq_fork(p.s[i], seq[i], n, 0, &fork[i], err));
            draft(p.s[i], fork[i], n, tree[i]);
            feed(p.s[i], fork[i], n + 3, n + 140, 1, i ? b : a);
        }
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(tree[0], tree[1], sizeof tree[0]);
        for (int i = 0; i < 2; i++) { /* the parent still has its own past */
            OK(lutra_seq_truncate(p.s[i], seq[i], N_PROMPT - 9 * (int)k - 64, err));
            feed(p.s[i], seq[i], N_PROMPT - 9 * (int)k - 64, N_PROMPT, 7, i ? b : a);
        }
        assert_memory_equal(a, b, sizeof a);
        OK(lutra_seq_truncate(p.s[0], seq[0], 100, err));
        assert_int_equal(lutra_seq_truncate(p.s[1], seq[1], 100, &why), LUTRA_E_ARGUMENT);
        assert_non_null(strstr(why.what, "swa_trim"));
        assert_int_equal(lutra_seq_length(p.s[1], seq[1]), N_PROMPT);
        assert_int_equal(lutra_seq_fork(p.s[1], seq[1], 100, 0, &fork[0], &why), LUTRA_E_ARGUMENT);
        OK(lutra_seq_truncate(p.s[1], seq[1], 0, err));
        for (int i = 0; i < 2; i++) {
            lutra_seq_close(p.s[i], seq[i]);
            lutra_seq_close(p.s[i], fork[i]);
        }
    }
    struct lutra_stats stats[2];
    for (int i = 0; i < 2; i++) lutra_session_stats_get(p.s[i], &stats[i], sizeof stats[i]);
    assert_int_equal(stats[0].cache_bytes, stats[1].cache_bytes);
    close_pair(&p);
}

static void bits_are_the_same(void **state)
{
    (void)state;
    static const char *const shapes[] = {"tiny-gemma3", "tiny-gemma2", "tiny-cohere2", "tiny-olmo3"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += SANITIZED ? 3 : 1) check_shape(shapes[i]);
}

struct said {
    int32_t token[2][256];
    int n[2];
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct said *said = user;
    if (p->token >= 0) said->token[p->sample][said->n[p->sample]++] = p->token;
    return 0;
}

static void ask(lutra_session *s, const int32_t *prompt, int n, struct said *said)
{
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    memset(said, 0, sizeof *said);
    r.prompt = prompt;
    r.n_prompt = n;
    r.n_samples = 2;
    r.max_tokens = 150;
    r.ignore_end = true;
    r.on_text = on_text;
    r.user = said;
    OK(lutra_generate(s, &r, err));
    assert_int_equal(said->n[0] + said->n[1], 300);
}

/* Two samples a question, with speculation; the second question goes on from the first answer, the third from another
 * past. */
static void chats_say_the_same(void **state)
{
    (void)state;
    static struct said said[2];
    static int32_t prompt[N_CTX];
    struct pair p;
    struct lutra_session_settings ss;
    open_pair(&p, "tiny-gemma3", 2);
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = N_CTX, ss.n_seq = 2, ss.spec_type = "calibrated,auto";
    for (int i = 0; i < 2; i++) {
        ss.swa_trim = i;
        lutra_session_close(&p.s[i]);
        OK(lutra_session_open(&p.s[i], p.f.model, &ss, err));
    }
    for (int i = 0; i < 300; i++) prompt[i] = token_at(i % 40);
    for (int turn = 0, n = 300; turn < 3; turn++) {
        struct lutra_stats before[2], after[2];
        for (int i = 0; i < 2; i++) {
            lutra_session_stats_get(p.s[i], &before[i], sizeof before[i]);
            ask(p.s[i], prompt, n, &said[i]);
            lutra_session_stats_get(p.s[i], &after[i], sizeof after[i]);
            int cached = (int)(after[i].cached_tokens - before[i].cached_tokens);
            if (turn == 1) assert_in_range(cached, n - 11 - 64, n);
            if (turn == 2) assert_true(i ? cached == 0 : cached >= 32);
        }
        assert_memory_equal(&said[0], &said[1], sizeof *said);
        memcpy(prompt + n, said[0].token[0], 150 * sizeof *prompt);
        for (int i = 0; i < 10; i++) prompt[n + 150 + i] = token_at(i);
        n += 160;
        if (turn == 1) prompt[100]++; /* the past changed */
    }
    close_pair(&p);
}

static void an_npu_keeps_all(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_error why;
    struct lutra_session_settings ss;
    fixture_open_on(&f, &(struct where){"npu-sim", NULL}, "tiny-gemma3", "F16", 1);
    lutra_session_settings_init(&ss, sizeof ss);
    ss.swa_trim = true;
    assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "swa_trim"));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_the_same),
        cmocka_unit_test(chats_say_the_same),
        cmocka_unit_test(an_npu_keeps_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
