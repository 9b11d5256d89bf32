/* SPDX-License-Identifier: MIT
 *
 * What the headers promise: a program and a library of different age fit, or part by name; what may be NULL, 0, called
 * twice or from a signal handler.
 */
#include <signal.h>
#include <stdbool.h>

#include "engine_fixture.h"

enum { GUARD = 0x5a, KNOWN_MORE = 64 };

/* A program's struct, older (shorter) or newer (longer) than the library's, before a canary. */
union grown {
    struct lutra_request request;
    struct lutra_sampling sampling;
    struct lutra_request_experiment asked;
    struct lutra_session_experiment tried;
    struct lutra_session_settings session;
    struct lutra_search search;
    struct lutra_stats stats;
    unsigned char byte[512];
};

static void init_keeps_to_its_size(void **state)
{
    (void)state;
    for (size_t size = sizeof(size_t); size <= sizeof(struct lutra_sampling) + KNOWN_MORE; size += sizeof(size_t)) {
        union grown u;
        struct lutra_sampling all;
        memset(&u, GUARD, sizeof u);
        lutra_sampling_init(&u.sampling, size);
        lutra_sampling_init(&all, sizeof all);
        assert_true(u.sampling.size == size);
        all.size = size;
        size_t both = size < sizeof all ? size : sizeof all;
        assert_memory_equal(&u, &all, both);
        for (size_t i = both; i < size; i++) assert_int_equal(u.byte[i], 0);
        for (size_t i = size; i < sizeof u; i++) assert_int_equal(u.byte[i], GUARD);
    }
}

static void size_zero_writes_nothing(void **state)
{
    (void)state;
    union grown u;
    memset(&u, GUARD, sizeof u);
    lutra_request_init(&u.request, 0);
    lutra_search_init(&u.search, sizeof(size_t) - 1);
    for (size_t i = 0; i < sizeof u; i++) assert_int_equal(u.byte[i], GUARD);
}

static void what_is_filled_in_keeps_to_its_size(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, 1, 64);
    size_t cases[] = {offsetof(struct lutra_stats, rows_wasted), sizeof(struct lutra_stats) + KNOWN_MORE};
    for (int i = 0; i < 2; i++) {
        union grown u;
        memset(&u, GUARD, sizeof u);
        lutra_session_stats_get(f.s, &u.stats, cases[i]);
        assert_true(u.stats.size == cases[i]);
        assert_int_equal(u.stats.n_pass, 0);
        for (size_t k = sizeof u.stats; k < cases[i]; k++) assert_int_equal(u.byte[k], 0);
        for (size_t k = cases[i]; k < sizeof u; k++) assert_int_equal(u.byte[k], GUARD);
    }
    fixture_close(&f);
}

/* Opens a session with settings of any size; the error's code. */
static int open_with(struct fixture *f, union grown *u, struct lutra_error *why)
{
    lutra_session_close(&f->s);
    *why = (struct lutra_error){0};
    return lutra_session_open(&f->s, f->model, &u->session, why);
}

static void older_and_newer_settings(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_error why;
    union grown u;
    fixture_open(&f, "tiny-llama", "F16", 1);

    memset(&u, GUARD, sizeof u); /* what is behind an older program's struct is not read */
    lutra_session_settings_init(&u.session, offsetof(struct lutra_session_settings, n_batch));
    u.session.n_ctx = 64;
    assert_int_equal(open_with(&f, &u, &why), 0);

    lutra_session_settings_init(&u.session, sizeof u.session + KNOWN_MORE);
    u.session.n_ctx = 64;
    assert_int_equal(open_with(&f, &u, &why), 0);
    u.byte[sizeof u.session + KNOWN_MORE - 1] = 1; /* a field that this library does not know is used */
    assert_int_equal(open_with(&f, &u, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "session"));
    assert_int_equal(why.where, sizeof u.session + KNOWN_MORE - 1);

    size_t never[] = {0, 4, sizeof u.session - 1, (size_t)1 << 30, SIZE_MAX};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        lutra_session_settings_init(&u.session, sizeof u.session);
        u.session.size = never[i];
        assert_int_equal(open_with(&f, &u, &why), LUTRA_E_ARGUMENT);
        assert_null(f.s);
    }
    fixture_close(&f);
}

/* A newer program's structs inside a request, and a session's settings, that this library knows. */
static void inner_structs_grow_by_themselves(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_error why;
    struct lutra_request r;
    struct lutra_session_settings ss;
    lutra_session *other;
    union grown u;
    int32_t prompt[] = {1, 2, 3};
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, 1, 64);
    lutra_request_init(&r, sizeof r);
    lutra_sampling_init(&u.sampling, sizeof u.sampling + KNOWN_MORE);
    r.prompt = prompt, r.n_prompt = 3, r.max_tokens = 2;
    OK(lutra_generate(f.s, &r, err)); /* no sampling: its defaults */
    r.sampling = &u.sampling;
    OK(lutra_generate(f.s, &r, err));
    u.byte[sizeof u.sampling] = 1;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "sampling"));
    r.sampling = NULL;
    r.experiment = &u.asked;
    lutra_request_experiment_init(&u.asked, sizeof u.asked + KNOWN_MORE);
    OK(lutra_generate(f.s, &r, err));
    u.byte[sizeof u.asked] = 1;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "request's experiment"));
    lutra_session_settings_init(&ss, sizeof ss);
    ss.experiment = &u.tried;
    lutra_session_experiment_init(&u.tried, sizeof u.tried + KNOWN_MORE);
    u.byte[sizeof u.tried] = 1;
    assert_int_equal(lutra_session_open(&other, f.model, &ss, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "session's experiment"));
    fixture_close(&f);
}

static void rows_may_be_longer(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_error why;
    struct {
        struct lutra_row row;
        int32_t more[2];
    } rows[3] = {{.row = {.token = 1, .parent = -1}}, {.row = {.token = 2, .pos = 1, .parent = 0}},
        {.row = {.token = 3, .pos = 2, .parent = 1, .want = LUTRA_WANT_LOGPROB, .target = 4}}};
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, 1, 64);
    int32_t seq;
    OK(lutra_seq_open(f.s, 0, &seq, err));
    for (int i = 0; i < 3; i++) rows[i].row.seq = seq;
    rows[2].more[1] = 7;
    assert_int_equal(lutra_forward(f.s, &rows[0].row, 3, sizeof *rows, &why), LUTRA_E_UNSUPPORTED);
    assert_int_equal(lutra_forward(f.s, &rows[0].row, 3, sizeof(struct lutra_row *), &why), LUTRA_E_ARGUMENT);
    assert_int_equal(lutra_seq_length(f.s, seq), 0);
    rows[2].more[1] = 0;
    OK(lutra_forward(f.s, &rows[0].row, 3, sizeof *rows, err));
    assert_int_equal(lutra_seq_length(f.s, seq), 3);
    assert_int_equal(lutra_forward_result(f.s, 0)->row, 2);
    fixture_close(&f);
}

/* What was an environment variable once. */
static void npu_settings_are_checked(void **state)
{
    (void)state;
    struct lutra_runtime_settings rs;
    struct lutra_error why;
    lutra_runtime *rt;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.device = "npu-sim";
    rs.npu_window_bytes = (uint64_t)1 << 32;
    assert_int_equal(lutra_runtime_open(&rt, &rs, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "npu_window_bytes"));
    assert_null(rt);
    rs.npu_window_bytes = 0;
    rs.device = "npu-qemu";
    rs.npu_program = "/nowhere";
    assert_int_equal(lutra_runtime_open(&rt, &rs, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "/nowhere"));
    rs.device = "npu";
    rs.npu_library = "/nowhere/libcdsprpc.so";
    assert_int_equal(lutra_runtime_open(&rt, &rs, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "/nowhere/libcdsprpc.so"));
}

/* ---- what an embedding program may do ---- */

static void counts_without_lists_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_error why;
    struct lutra_request good, r;
    struct lutra_sampling sampling;
    int32_t prompt[] = {1, 2, 3};
    int active = -1;
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, 1, 64);
    lutra_request_init(&good, sizeof good);
    lutra_sampling_init(&sampling, sizeof sampling);
    good.prompt = prompt, good.n_prompt = 3, good.max_tokens = 2;
    r = good, r.prompt = NULL;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    r = good, r.n_stop = 1;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    r = good, r.sampling = &sampling, sampling.n_bias = 1;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    assert_int_equal(lutra_submit(f.s, NULL, NULL, &why), LUTRA_E_ARGUMENT);
    assert_int_equal(lutra_forward(f.s, NULL, 1, sizeof(struct lutra_row), &why), LUTRA_E_ARGUMENT);
    OK(lutra_step(f.s, &active, err)); /* nothing to do */
    assert_int_equal(active, 0);
    fixture_close(&f);
}

/* The largest and least values of every setting with a bound are refused by name, and nothing overflows. */
static void numbers_far_outside_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_error why;
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, 2, 64);
    static const int64_t caches[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX - 63, INT64_MAX - 64, INT64_MAX - 65,
        INT64_MAX / 2, (int64_t)1 << 37, INT64_MIN, -1};
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        lutra_session *s = NULL;
        struct lutra_session_settings set;
        lutra_session_settings_init(&set, sizeof set);
        set.n_ctx = 64;
        set.n_cache = caches[i];
        assert_int_equal(lutra_session_open(&s, f.model, &set, &why), LUTRA_E_ARGUMENT);
        assert_null(s);
        assert_non_null(strstr(why.what, "n_cache is "));
    }
    struct lutra_request r;
    struct lutra_search good, bad[7];
    int32_t prompt[] = {1, 2, 3};
    lutra_search_run *run;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt, r.n_prompt = 3, r.max_tokens = 2;
    lutra_search_init(&good, sizeof good);
    good.width = 2;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) bad[i] = good;
    bad[0].width = INT32_MAX;
    bad[1].max_steps = INT32_MAX;
    bad[2].token_budget = INT64_MAX;
    bad[3].time_budget_us = UINT64_MAX;
    bad[4].prune_below = 0.0f / 0.0f;
    bad[5].temperature = 0.0f / 0.0f;
    bad[6].n_option = INT32_MAX;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (lutra_search_submit(&run, f.s, &r, &bad[i], &why) != LUTRA_E_ARGUMENT) fail_msg("setting %zu is taken", i);
    lutra_verifier *v;
    struct lutra_verifier_settings checker;
    lutra_verifier_settings_init(&checker, sizeof checker);
    checker.command = "cat";
    checker.timeout_us = UINT64_MAX;
    assert_int_equal(lutra_verifier_open(&v, "program", &checker, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "timeout_us"));
    fixture_close(&f);
}

/* Sizes of 0, NULL where there is nothing to say, closing twice. */
static void nothing_is_fine(void **state)
{
    (void)state;
    struct fixture f;
    char answer[8] = "x", *text;
    int n = -1;
    size_t n_bytes;
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, 1, 64);
    lutra_free(NULL);
    OK(lutra_tokenize(f.model, "abc", 3, 0, NULL, 0, &n, err));
    assert_true(n > 0);
    OK(lutra_tokenize(f.model, "", 0, 0, NULL, 0, &n, err));
    assert_int_equal(n, 0);
    OK(lutra_detokenize(f.model, NULL, 0, false, &text, NULL, err));
    assert_string_equal(text, "");
    lutra_free(text);
    assert_int_equal(lutra_token_text(f.model, 1, true, NULL, 0, &n_bytes), 0);
    assert_int_equal(lutra_token_text(f.model, -1, true, NULL, 0, &n_bytes), LUTRA_E_ARGUMENT);
    assert_false(lutra_token_is_end(f.model, -1));
    lutra_answer("so 8", answer, 0);
    assert_string_equal(answer, "x");
    lutra_session_sizes_get(f.s, NULL, NULL, NULL);
    assert_int_equal(lutra_seq_length(f.s, -1), -1);
    assert_int_equal(lutra_seq_length(f.s, 1000), -1);
    assert_null(lutra_forward_result(f.s, -1));
    assert_null(lutra_forward_result(f.s, 0));
    lutra_session_close(&f.s);
    lutra_session_close(&f.s);
    fixture_close(&f);
    lutra_model_close(&f.model);
    lutra_runtime_close(&f.rt);
}

/* Errors without an error struct, outputs that are NULL after a failure. */
static void failures_leave_nothing(void **state)
{
    (void)state;
    lutra_runtime *rt = (void *)&rt;
    lutra_model *model = (void *)&model;
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.device = "abacus";
    assert_int_equal(lutra_runtime_open(&rt, &rs, NULL), LUTRA_E_UNSUPPORTED);
    assert_null(rt);
    OK(lutra_runtime_open(&rt, NULL, err));
    assert_int_equal(lutra_model_open(&model, rt, "/nowhere/model.gguf", NULL, NULL), LUTRA_E_IO);
    assert_null(model);
    assert_int_equal(lutra_model_open(&model, rt, NULL, NULL, NULL), LUTRA_E_ARGUMENT);
    lutra_runtime_close(&rt);
    assert_null(rt);
}

static lutra_session *to_cancel;
static struct lutra_end last_end;

static void on_signal(int number)
{
    (void)number;
    lutra_cancel(to_cancel);
}

static int signal_at_third(void *user, const struct lutra_piece *piece)
{
    (void)piece;
    if (++*(int *)user == 3) raise(SIGUSR1);
    return 0;
}

static void keep_end(void *user, const struct lutra_end *end)
{
    (void)user;
    last_end = *end;
}

static void a_signal_handler_may_cancel(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_request r;
    int32_t prompt[] = {1, 2, 3};
    int n_piece = 0;
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, 1, 64);
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt, r.n_prompt = 3, r.max_tokens = 20, r.ignore_end = true;
    r.on_text = signal_at_third, r.on_end = keep_end, r.user = &n_piece;
    to_cancel = f.s;
    signal(SIGUSR1, on_signal);
    struct lutra_error why;
    int rc = lutra_generate(f.s, &r, &why);
    assert_int_equal(rc, LUTRA_E_CANCELLED);
    assert_non_null(strstr(why.what, "cancelled"));
    assert_int_equal(last_end.reason, LUTRA_STOP_CANCELLED);
    assert_int_equal(last_end.n_tok, 3);
    OK(lutra_generate(f.s, &r, err)); /* the next request begins afresh */
    assert_int_equal(last_end.reason, LUTRA_STOP_LENGTH);
    signal(SIGUSR1, SIG_DFL);
    fixture_close(&f);
}

/* What comes before a pass stops it, once; what has stopped requests stops nothing more. */
static void a_cancel_waits_for_a_pass(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_error why;
    struct lutra_request r;
    int32_t seq, prompt[] = {1, 2, 3};
    int n_piece = 0, n_active;
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, 1, 64);
    OK(lutra_seq_open(f.s, 0, &seq, err));
    struct lutra_row row = {.token = 1, .pos = 0, .seq = seq, .parent = -1};
    lutra_cancel(f.s);
    assert_int_equal(lutra_forward(f.s, &row, 1, sizeof row, &why), LUTRA_E_CANCELLED);
    assert_int_equal(lutra_seq_length(f.s, seq), 0);
    OK(lutra_forward(f.s, &row, 1, sizeof row, err));
    lutra_seq_close(f.s, seq);
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt, r.n_prompt = 3, r.on_end = keep_end, r.user = &n_piece;
    OK(lutra_submit(f.s, &r, NULL, err));
    lutra_cancel(f.s);
    OK(lutra_step(f.s, &n_active, err));
    assert_int_equal(n_active, 0);
    assert_int_equal(last_end.reason, LUTRA_STOP_CANCELLED);
    OK(lutra_seq_open(f.s, 0, &seq, err));
    row.seq = seq;
    OK(lutra_forward(f.s, &row, 1, sizeof row, err));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancel_waits_for_a_pass),
        cmocka_unit_test(init_keeps_to_its_size),
        cmocka_unit_test(size_zero_writes_nothing),
        cmocka_unit_test(what_is_filled_in_keeps_to_its_size),
        cmocka_unit_test(older_and_newer_settings),
        cmocka_unit_test(inner_structs_grow_by_themselves),
        cmocka_unit_test(rows_may_be_longer),
        cmocka_unit_test(npu_settings_are_checked),
        cmocka_unit_test(counts_without_lists_are_refused),
        cmocka_unit_test(numbers_far_outside_are_refused),
        cmocka_unit_test(nothing_is_fine),
        cmocka_unit_test(failures_leave_nothing),
        cmocka_unit_test(a_signal_handler_may_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
