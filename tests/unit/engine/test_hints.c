/* SPDX-License-Identifier: MIT
 *
 * Hints: what a prompt's rows hold likely, and that asking them changes nothing.
 */
#include "engine/session_impl.h"
#include "engine_fixture.h"

enum { N_PROMPT = 150, N_VOCAB_MAX = 4096, N_LIKELY = 3 };

static int32_t prompt[N_PROMPT];
static const int32_t likely[N_LIKELY] = {400, 401, 3};

/* prompt: the first `same` tokens are always the same. */
static void make_prompt(int same)
{
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = token_at(i < same ? i : i + 1);
}

static void open_session(struct fixture *f, const char *spec, int shortlist, int n_batch, int n_out)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 2;
    ss.n_ctx = 256;
    ss.n_batch = n_batch;
    ss.n_out = n_out;
    ss.spec_type = spec;
    ss.spec_shortlist = shortlist;
    lutra_session_close(&f->s);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

static struct lutra_hints told[N_PROMPT];
static int n_told, n_calls;

static void on_hints(void *user, int32_t request, int first, const struct lutra_hints *hints, int n)
{
    (void)user, (void)request;
    assert_int_equal(first, n_told);
    assert_in_range(n, 1, N_PROMPT - 1 - first);
    memcpy(told + first, hints, (size_t)n * sizeof *hints);
    n_told += n;
    n_calls++;
}

static const struct lutra_hints *known; /* [N_PROMPT] given with the request, or NULL */

static void evaluate(struct fixture *f, int max_tokens)
{
    n_told = n_calls = 0;
    struct lutra_request r;
    struct lutra_request_experiment x;
    lutra_request_init(&r, sizeof r);
    lutra_request_experiment_init(&x, sizeof x);
    r.prompt = prompt;
    r.n_prompt = N_PROMPT;
    r.max_tokens = max_tokens;
    r.ignore_end = true;
    x.likely = likely;
    x.n_likely = N_LIKELY;
    x.on_hints = on_hints;
    x.known_hints = known;
    r.experiment = &x;
    OK(lutra_generate(f->s, &r, err));
}

static const struct row_hints *hints_of(const struct fixture *f)
{
    return f->s->sample[0].seq.hints;
}

/* ---- what they say ---- */

/* The shortlist as the header of hints.c has it. */
static void mark_shortlist(int n_vocab, int n_short, bool *in)
{
    int n = 0;
    memset(in, n_short == 0, (size_t)n_vocab);
    for (int i = 0; n < n_short && i < N_PROMPT; i++) n += !in[prompt[i]], in[prompt[i]] = true;
    for (int i = 0; n < n_short && i < N_LIKELY; i++) n += !in[likely[i]], in[likely[i]] = true;
    for (int i = 0; n < n_short; i++) n += !in[i], in[i] = true;
}

static void check_row(const float *logit, int n_vocab, const bool *in, const struct row_hints *h, bool exact, int pos)
{
    bool used[N_VOCAB_MAX] = {false};
    double sum = 0, max = -INFINITY;
    for (int t = 0; t < n_vocab; t++) max = in[t] && (double)logit[t] > max ? (double)logit[t] : max;
    for (int t = 0; t < n_vocab; t++) sum += in[t] ? exp((double)logit[t] - max) : 0;
    for (int k = 0; k < ROW_HINTS; k++) {
        int best = -1;
        for (int t = 0; t < n_vocab; t++)
            if (in[t] && !used[t] && (best < 0 || logit[t] > logit[best])) best = t;
        used[best] = true;
        double p = exp((double)logit[best] - max) / sum;
        assert_true(in[h->token[k]]);
        if (exact && h->token[k] != best) fail_msg("position %d, rank %d: %d, not %d", pos, k, h->token[k], best);
        assert_float_equal(h->p[k], p, exact ? 1e-5 * p : 0.1);
    }
}

/* Against all logits of each position, in passes of any size. */
static void hints_are_the_best_of_the_shortlist(void **state)
{
    static const int shortlists[] = {0, 64, 200, 512};
    static bool in[N_VOCAB_MAX];
    static float logit[N_PROMPT][N_VOCAB_MAX];
    const char *type = *state;
    struct fixture f;
    struct lutra_model_info info;
    fixture_open(&f, "tiny-qwen2", type, 2);
    lutra_model_info_get(f.model, &info, sizeof info);
    bool exact = strstr(lutra_runtime_device_text(f.rt), "amx") == NULL; /* else bulk rows are of another class */
    make_prompt(N_PROMPT);
    fixture_session(&f, 1, 256);
    int32_t seq;
    OK(lutra_seq_open(f.s, 0, &seq, err));
    for (int i = 0; i < N_PROMPT; i++) {
        struct lutra_row row = {.token = prompt[i], .pos = i, .seq = seq, .parent = -1, .want = LUTRA_WANT_LOGITS};
        OK(lutra_forward(f.s, &row, 1, sizeof row, err));
        memcpy(logit[i], lutra_forward_result(f.s, 0)->logits, (size_t)info.n_vocab * sizeof **logit);
    }
    for (int k = 0; k < 8; k++) {
        mark_shortlist(info.n_vocab, shortlists[k / 2], in);
        open_session(&f, "calibrated", shortlists[k / 2], k % 2 ? 512 : 37, 0);
        evaluate(&f, 1);
        for (int i = 0; i < N_PROMPT - 1; i++) check_row(logit[i], info.n_vocab, in, &hints_of(&f)[i], exact, i);
        assert_int_equal(n_told, N_PROMPT - 1);
        assert_int_equal(n_calls, k % 2 ? 1 : (N_PROMPT + 36) / 37);
        assert_memory_equal(told, hints_of(&f), (N_PROMPT - 1) * sizeof *told);
        memset(in, true, (size_t)info.n_vocab); /* of the last one the draw has all */
        check_row(logit[N_PROMPT - 1], info.n_vocab, in, &hints_of(&f)[N_PROMPT - 1], exact, N_PROMPT - 1);
    }
    fixture_close(&f);
}

/* ---- what they change ---- */

/* Keys and values of the prompt: blocks lie where they lay, since nothing but the prompt has been evaluated. */
static void check_cache(const struct where *where)
{
    struct fixture f;
    const char *specs[] = {NULL, "calibrated,auto"};
    uint8_t *kv[2];
    size_t bytes = 0;
    make_prompt(N_PROMPT);
    for (int i = 0; i < 2; i++) {
        fixture_open_on(&f, where, "tiny-qwen2", "Q4_0", where->device ? 1 : 2);
        open_session(&f, specs[i], 128, 100, 1); /* one result a pass: hints take no place among them */
        evaluate(&f, 1);
        bytes = f.s->kv_memory.bytes;
        kv[i] = malloc(bytes);
        memcpy(kv[i], f.s->kv_memory.host, bytes);
        fixture_close(&f);
    }
    if (memcmp(kv[0], kv[1], bytes)) fail_msg("hints have changed keys or values");
    for (int i = 0; i < 2; i++) free(kv[i]);
}

static void keys_and_values_stay(void **state)
{
    (void)state;
    for (uint32_t bit = 1; bit & CPU_ISA_ALL; bit <<= 1)
        if (cpu_isa() & bit) check_cache(&(struct where){"cpu", cpu_isa_name(bit)});
    check_cache(&(struct where){"cpu-ref", NULL});
    check_cache(&(struct where){"npu-sim", NULL});
}

/* What a prefix brings need not be evaluated again: of two prompts the second's hints are those it has by itself. */
static void a_prefix_keeps_its_hints(void **state)
{
    (void)state;
    enum { SAME = 100 };
    static struct row_hints alone[N_PROMPT];
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    make_prompt(SAME);
    open_session(&f, "calibrated", 128, 512, 0);
    evaluate(&f, 1);
    memcpy(alone, hints_of(&f), sizeof alone);
    open_session(&f, "calibrated", 128, 512, 0);
    make_prompt(N_PROMPT);
    evaluate(&f, 1);
    make_prompt(SAME);
    uint64_t mac = f.s->stats.mac;
    evaluate(&f, 1);
    assert_in_range(f.s->stats.cached_tokens, SAME - 32, SAME);
    assert_true(f.s->stats.mac - mac < mac / 2);
    assert_int_equal(n_told, N_PROMPT - 1); /* those of the prefix, too */
    /* Shortlists hold other tokens of the two prompts: what stood first in both is the same. */
    int n_same = 0;
    for (int i = 0; i < N_PROMPT - 1; i++) {
        assert_true(hints_of(&f)[i].p[0] > 0);
        n_same += hints_of(&f)[i].token[0] == alone[i].token[0];
    }
    assert_in_range(n_same, N_PROMPT * 9 / 10, N_PROMPT);
    fixture_close(&f);
}

/* ---- what is known beforehand ---- */

/* Rows with known hints keep them and are not evaluated for others; all others have what they have without. */
static void known_hints_are_not_evaluated_again(void **state)
{
    (void)state;
    enum { FIRST = 20, END = 120 };
    static struct lutra_hints all[N_PROMPT], some[N_PROMPT];
    struct fixture f;
    struct lutra_stats st;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    make_prompt(N_PROMPT);
    open_session(&f, "calibrated", 128, 512, 0);
    evaluate(&f, 1);
    memcpy(all, told, sizeof all);
    lutra_session_stats_get(f.s, &st, sizeof st);
    assert_int_equal(st.hint_rows, N_PROMPT - 1);
    assert_int_equal(st.known_hint_rows, 0);
    for (int i = FIRST; i < END; i++) some[i] = (struct lutra_hints){{i, 7}, {0.5f, 0.25f}};
    known = some;
    for (int n_batch = 37; n_batch <= 512; n_batch += 475) {
        open_session(&f, "calibrated", 128, n_batch, 0);
        evaluate(&f, 1);
        lutra_session_stats_get(f.s, &st, sizeof st);
        assert_int_equal(st.hint_rows, N_PROMPT - 1 - (END - FIRST));
        assert_int_equal(st.known_hint_rows, END - FIRST);
        assert_int_equal(n_told, N_PROMPT - 1);
        for (int i = 0; i < N_PROMPT - 1; i++) {
            const struct lutra_hints *want = i >= FIRST && i < END ? &some[i] : &all[i];
            assert_memory_equal(&told[i], want, sizeof *want);
        }
    }
    open_session(&f, NULL, 128, 512, 0); /* nobody wants them */
    evaluate(&f, 1);
    known = NULL;
    fixture_close(&f);
}

static char text[2][1024];
static int which_text;

static int keep_text(void *user, const struct lutra_piece *piece)
{
    (void)user;
    strncat(text[which_text], piece->text, sizeof *text - strlen(text[which_text]) - 1);
    return 0;
}

/* Hints of another text, or of none: the same text, by all drafters. */
static void known_hints_change_no_text(void **state)
{
    (void)state;
    static struct lutra_hints lies[N_PROMPT];
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    make_prompt(N_PROMPT);
    for (int i = 0; i < N_PROMPT; i++)
        for (int k = 0; k < 8; k++) lies[i].token[k] = prompt[(i * 3 + k * 11) % N_PROMPT], lies[i].p[k] = 1.0f / 8;
    for (which_text = 0; which_text < 2; which_text++) {
        struct lutra_request r;
        struct lutra_request_experiment x;
        open_session(&f, which_text ? "calibrated,auto" : NULL, 128, 512, 0);
        lutra_request_init(&r, sizeof r);
        r.prompt = prompt;
        r.n_prompt = N_PROMPT;
        r.max_tokens = 60;
        r.ignore_end = true;
        lutra_request_experiment_init(&x, sizeof x);
        x.known_hints = lies;
        r.experiment = &x;
        r.on_text = keep_text;
        OK(lutra_generate(f.s, &r, err));
        if (which_text) assert_true(f.s->stats.rows_drafted > 0);
    }
    assert_true(strlen(text[0]) > 20);
    assert_string_equal(text[0], text[1]);
    fixture_close(&f);
}

static void impossible_hints_are_refused(void **state)
{
    (void)state;
    static struct lutra_hints bad[N_PROMPT];
    static const struct lutra_hints cases[] = {
        {{1 << 20}, {0.5f}}, {{-1}, {0.5f}}, {{1}, {1.5f}}, {{1}, {-0.5f}}, {{1}, {NAN}}, {{1, -5}, {0.5f, 0.1f}}};
    struct fixture f;
    struct lutra_error why;
    struct lutra_request r;
    struct lutra_request_experiment x;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 1);
    make_prompt(N_PROMPT);
    open_session(&f, "calibrated", 128, 512, 0);
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = N_PROMPT;
    r.max_tokens = 1;
    lutra_request_experiment_init(&x, sizeof x);
    x.known_hints = bad;
    r.experiment = &x;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bad[77] = cases[i];
        assert_int_equal(lutra_generate(f.s, &r, &why), LUTRA_E_ARGUMENT);
        assert_non_null(strstr(why.what, "known_hints of token 77"));
    }
    bad[77] = (struct lutra_hints){{1, -5}, {1, 0}}; /* what is behind the end is nobody's */
    OK(lutra_generate(f.s, &r, err));
    fixture_close(&f);
}

/* The same model and shortlist have the same number, another shortlist or model another one. */
static void hints_say_what_they_are_of(void **state)
{
    (void)state;
    struct fixture f;
    uint64_t of[4];
    static const int shortlists[] = {128, 200, 0, 128};
    fixture_open(&f, "tiny-qwen2", "Q4_0", 1);
    for (int i = 0; i < 4; i++) {
        open_session(&f, i == 3 ? "auto,calibrated" : "calibrated", shortlists[i], 512, 0);
        of[i] = lutra_session_hints(f.s);
        assert_true(of[i] != 0);
        for (int k = 0; k < i; k++) assert_int_equal(of[k] == of[i], k == 0 && i == 3);
    }
    open_session(&f, "auto", 128, 512, 0);
    assert_int_equal(lutra_session_hints(f.s), 0);
    fixture_close(&f);
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    open_session(&f, "calibrated", 128, 512, 0);
    assert_true(lutra_session_hints(f.s) != of[0]);
    fixture_close(&f);
}

/* ---- other devices ---- */

/* Their plan is one like any other: an NPU's hints are the CPU's, as far as its numbers are. */
static void every_device_gives_them(void **state)
{
    (void)state;
    static const struct where places[] = {{"cpu", NULL}, {"npu-sim", NULL}, {"cpu-ref", NULL}};
    static struct row_hints of[3][N_PROMPT];
    struct fixture f;
    make_prompt(N_PROMPT);
    for (int shortlist = 0; shortlist <= 128; shortlist += 128) {
        for (int k = 0; k < 3; k++) {
            fixture_open_on(&f, &places[k], "tiny-qwen2", "F16", 1);
            open_session(&f, "calibrated", shortlist, 100, 1);
            evaluate(&f, 1);
            assert_int_equal(f.s->stats.hint_rows, N_PROMPT - 1);
            memcpy(of[k], hints_of(&f), sizeof of[k]);
            fixture_close(&f);
        }
        for (int k = 1; k < 3; k++) {
            int n_same = 0;
            for (int i = 0; i < N_PROMPT - 1; i++) {
                n_same += of[k][i].token[0] == of[0][i].token[0];
                assert_float_equal(of[k][i].p[0], of[0][i].p[0], 0.02);
            }
            assert_in_range(n_same, N_PROMPT * 9 / 10, N_PROMPT);
        }
    }
}

static void settings_are_checked(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_error why;
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 256;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    ss.spec_type = "calibrated";
    ss.spec_shortlist = 4097;
    assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_ARGUMENT);
    ss.spec_type = NULL;
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    fixture_close(&f);
}

int main(void)
{
    static char q4[] = "Q4_0", f16[] = "F16", q6[] = "Q6_K";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(hints_are_the_best_of_the_shortlist, q4),
        cmocka_unit_test_prestate(hints_are_the_best_of_the_shortlist, f16),
        cmocka_unit_test_prestate(hints_are_the_best_of_the_shortlist, q6),
        cmocka_unit_test(keys_and_values_stay),
        cmocka_unit_test(a_prefix_keeps_its_hints),
        cmocka_unit_test(known_hints_are_not_evaluated_again),
        cmocka_unit_test(known_hints_change_no_text),
        cmocka_unit_test(impossible_hints_are_refused),
        cmocka_unit_test(hints_say_what_they_are_of),
        cmocka_unit_test(every_device_gives_them),
        cmocka_unit_test(settings_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
