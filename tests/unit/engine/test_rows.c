/* SPDX-License-Identifier: MIT
 *
 * Forward passes over rows: a row's bits depend on its own history and on nothing else.
 */
#include "engine_fixture.h"
#include "sanitized.h"

enum { N_PROMPT = 70, N_CHAIN = 160, N_MAX = 64 };

static int n_vocab(const struct fixture *f)
{
    struct lutra_model_info info;
    lutra_model_info_get(f->model, &info, sizeof info);
    return info.n_vocab;
}

/* Feeds tokens [from, to) of token_at() to seq in one chain; the last row's logits are copied when out is given. */
static void feed(struct fixture *f, int32_t seq, int from, int to, float *out)
{
    struct lutra_row row[N_CHAIN];
    assert_true(to - from <= N_CHAIN);
    for (int i = from; i < to; i++)
        row[i - from] = (struct lutra_row){
            token_at(i), i, seq, i == from ? -1 : i - from - 1, i == to - 1 ? LUTRA_WANT_LOGITS : 0, 0};
    OK(lutra_forward(f->s, row, to - from, sizeof *row, err));
    if (out) memcpy(out, lutra_forward_result(f->s, 0)->logits, (size_t)n_vocab(f) * sizeof *out);
}

static void same_bits(const float *a, const float *b, int n, const char *what, int rows)
{
    if (memcmp(a, b, (size_t)n * sizeof *a)) fail_msg("%s: bits differ with %d rows", what, rows);
}

/* Where a pass takes most of a second: fewer of them. */
static bool emulated(const struct where *where)
{
    return where->device && !strncmp(where->device, "npu", 3);
}

/* "K/V", or one type for both. */
static void set_cache(struct lutra_session_settings *ss, const char *cache)
{
    static char k[8];
    const char *v = strchr(cache, '/');
    snprintf(k, sizeof k, "%.*s", (int)strcspn(cache, "/"), cache);
    ss->cache_type = k;
    ss->cache_type_v = v ? v + 1 : NULL;
}

static void check_type_on(
    const struct where *where, const char *shape, const char *type, const char *cache, const int *n_rows)
{
    struct fixture f;
    fixture_open_on(&f, where, shape, type, where->device ? 1 : 2);
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = N_MAX + 2;
    ss.n_ctx = 128;
    set_cache(&ss, cache);
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    int n = n_vocab(&f);
    float *alone = malloc((size_t)n * sizeof *alone), *other = malloc((size_t)n * sizeof *other);
    int32_t seq, fork[N_MAX];

    /* One token at a time, and the whole prompt in one chain. */
    OK(lutra_seq_open(f.s, 128, &seq, err));
    int single = emulated(where) ? N_PROMPT - 4 : 0;
    if (single) feed(&f, seq, 0, single, NULL);
    for (int i = single; i < N_PROMPT; i++) feed(&f, seq, i, i + 1, alone);
    float sum = 0;
    for (int i = 0; i < n; i++) sum += alone[i] * alone[i];
    assert_true(sum > 1e-6f && sum < 1e12f);
    int32_t chunk;
    OK(lutra_seq_open(f.s, 128, &chunk, err));
    feed(&f, chunk, 0, N_PROMPT, other);
    same_bits(alone, other, n, type, N_PROMPT);

    /* The same next token in 1..64 sequences, forked at different places, at once. */
    feed(&f, seq, N_PROMPT, N_PROMPT + 1, alone);
    for (int rows; (rows = *n_rows); n_rows++) {
        struct lutra_row row[N_MAX];
        for (int i = 0; i < rows; i++) {
            int from = i % 3 == 0 || emulated(where)
                           ? N_PROMPT
                           : 64 + i % 7; /* a shared tail, or an earlier fork fed to the same end */
            from = lutra_seq_reach(f.s, chunk, from);
            assert_true(from >= 64);
            OK(lutra_seq_fork(f.s, chunk, from, 128, &fork[i], err));
            if (from < N_PROMPT) feed(&f, fork[i], from, N_PROMPT, NULL);
            row[i] = (struct lutra_row){
                i == rows / 2 ? token_at(i) + 1 : token_at(N_PROMPT), N_PROMPT, fork[i], -1, LUTRA_WANT_LOGITS, 0};
        }
        OK(lutra_forward(f.s, row, rows, sizeof *row, err));
        for (int i = 0; i < rows; i++)
            if (row[i].token == token_at(N_PROMPT))
                same_bits(alone, lutra_forward_result(f.s, i)->logits, n, type, rows);
        for (int i = 0; i < rows; i++) lutra_seq_close(f.s, fork[i]);
    }
    free(alone);
    free(other);
    fixture_close(&f);
}

static void check_type(const char *shape, const char *type, const char *cache)
{
    static const int n_rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 41, N_MAX, 0};
    static const int fewer[] = {1, 2, 9, 16, 0};
    check_type_on(&(struct where){0}, shape, type, cache, SANITIZED ? fewer : n_rows);
}

/* The kernels are those of check_type: what differs is where rows find one another. */
static void check_shape(const char *shape, const char *cache)
{
    static const int n_rows[] = {1, 2, 3, 9, 16, 33, 0};
    check_type_on(&(struct where){0}, shape, "F16", cache, SANITIZED ? n_rows + 3 : n_rows);
}

static void bits_of_every_type(void **state)
{
    (void)state;
    static const char *const types[] = {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K",
        "Q6_K", "IQ4_NL", "TQ1_0", "TQ2_0", "MXFP4", "Q2_K", "Q3_K", "IQ4_XS", "Q1_0", "Q2_0"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i += SANITIZED ? 5 : 1)
        check_type("tiny-qwen2", types[i], i % 2 ? "f16" : "f32");
    check_type("tiny-bitnet-b1.58", "TQ2_0", "f16"); /* activations with one scale per row */
    check_type("tiny-bitnet-b1.58", "Q2_0", "f32");
}

/* A kernel's form differs between formats only in how a tile is read: few batches. */
static void bits_of_codebooks(void **state)
{
    (void)state;
    static const char *const types[] = {"IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M"};
    static const int n_rows[] = {1, 2, 9, 17, 0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i += SANITIZED ? 4 : 1)
        check_type_on(&(struct where){0}, "tiny-qwen2", types[i], "f16", n_rows);
}

/* From shape *i on, which it moves behind it; every fourth or so under a sanitizer.  NULL: no more. */
static const char *next_tiny(int *i)
{
    const char *shape;
    while ((shape = lutra_make_model_shape(*i)) && !is_tiny_generator(shape)) ++*i;
    *i += SANITIZED ? 4 : 1;
    return shape;
}

static void bits_of_every_shape(void **state)
{
    (void)state;
    const char *shape;
    for (int i = 0; (shape = next_tiny(&i));) check_shape(shape, "f16");
}

/* Models whose heads are whole blocks of 32 have it; the others are told why not. */
static void check_caches(const char *const *caches, int n_cache)
{
    int n_checked = 0, n_refused = 0;
    const char *shape;
    for (int i = 0, at; at = i, (shape = next_tiny(&i));) {
        const char *cache = caches[at % n_cache];
        struct fixture f;
        struct lutra_error why = {0};
        fixture_open(&f, shape, "F16", 1);
        struct lutra_session_settings ss;
        lutra_session_settings_init(&ss, sizeof ss);
        set_cache(&ss, cache);
        int rc = lutra_session_open(&f.s, f.model, &ss, &why);
        fixture_close(&f);
        if (rc == 0) {
            check_shape(shape, cache);
            n_checked++;
        } else {
            assert_int_equal(rc, LUTRA_E_UNSUPPORTED);
            assert_non_null(strstr(why.what, "blocks of 32"));
            n_refused++;
        }
    }
    assert_true(n_checked > 0 && n_refused > 0);
}

static void bits_over_a_cache_of_q8_0(void **state)
{
    (void)state;
    static const char *const caches[] = {"q8_0"};
    check_caches(caches, 1);
}

static void bits_over_small_caches(void **state)
{
    (void)state;
    static const char *const caches[] = {"q4_0", "q5_0/q4_1", "f16/q4_0", "q4_1", "q5_0", "q8_0/q4_0", "q4_0/f32"};
    check_caches(caches, 7);
}

/* A tree of drafts gives each row the bits of plain decoding, and a commit leaves the same cache.  For sequences of
 * `from` to `to` tokens: drafts before, across and behind a block's end. */
static void check_drafts(const struct where *where, const char *shape, const char *type, int from, int to)
{
    struct fixture f;
    fixture_open_on(&f, where, shape, type, where->device ? 1 : 2);
    fixture_session(&f, 4, 256);
    int n = n_vocab(&f);
    for (int len = from; len <= to; len++) {
        int32_t plain, tree;
        float want[6][4096];
        assert_true(n <= 4096);
        OK(lutra_seq_open(f.s, 256, &plain, err));
        feed(&f, plain, 0, len, NULL);
        OK(lutra_seq_fork(f.s, plain, -1, 256, &tree, err));
        for (int i = 0; i < 6; i++) feed(&f, plain, len + i, len + i + 1, want[i]);
        /* One ordinary row, then drafts: the right path 1-3-5 among wrong ones. */
        const int right[] = {0, 1, 3, 5};
        struct lutra_row row[] = {
            {token_at(len), len, tree, -1, LUTRA_WANT_LOGITS, 0},
            {token_at(len + 1), len + 1, tree, 0, LUTRA_WANT_LOGITS | LUTRA_ROW_DRAFT, 0},
            {token_at(len + 1) + 1, len + 1, tree, 0, LUTRA_WANT_LOGITS | LUTRA_ROW_DRAFT, 0},
            {token_at(len + 2), len + 2, tree, 1, LUTRA_WANT_LOGITS | LUTRA_ROW_DRAFT, 0},
            {token_at(len + 2) + 2, len + 2, tree, 2, LUTRA_WANT_LOGITS | LUTRA_ROW_DRAFT, 0},
            {token_at(len + 3), len + 3, tree, 3, LUTRA_WANT_LOGITS | LUTRA_ROW_DRAFT, 0},
            {token_at(len + 3) + 3, len + 3, tree, 3, LUTRA_WANT_LOGITS | LUTRA_ROW_DRAFT, 0},
        };
        OK(lutra_forward(f.s, row, 7, sizeof *row, err));
        assert_int_equal(lutra_seq_length(f.s, tree), len + 1);
        for (int i = 0; i < 4; i++) same_bits(want[i], lutra_forward_result(f.s, right[i])->logits, n, "draft", len);
        OK(lutra_commit(f.s, 5, err));
        assert_int_equal(lutra_commit(f.s, 6, NULL), LUTRA_E_ARGUMENT);
        assert_int_equal(lutra_seq_length(f.s, tree), len + 4);
        for (int i = 4; i < 6; i++) {
            float got[4096];
            feed(&f, tree, len + i, len + i + 1, got);
            same_bits(want[i], got, n, "after commit", len);
        }
        lutra_seq_close(f.s, plain);
        lutra_seq_close(f.s, tree);
    }
    struct lutra_stats stats;
    lutra_session_stats_get(f.s, &stats, sizeof stats);
    assert_int_equal(stats.rows_wasted, (to - from + 1) * 3);
    fixture_close(&f);
}

static void drafts_are_lossless(void **state)
{
    (void)state;
    check_drafts(&(struct where){0}, "tiny-qwen2", "Q4_0", 60, 66);
}

/* Behind 150 tokens, beyond the smallest windows. */
static void drafts_are_lossless_in_every_shape(void **state)
{
    (void)state;
    const char *shape;
    for (int i = 0; (shape = next_tiny(&i));) check_drafts(&(struct where){0}, shape, "F16", 150, 150);
}

/* Recurrent layers: drafts behind drafts that were accepted, forks of a sequence with accepted drafts, cuts among them,
 * several sequences at once, all against the same tokens one by one. */
static void states_follow_accepted_drafts(void **state)
{
    static float want[40][512], got[512];
    struct fixture f;
    int32_t plain, a, b, c;
    (void)state;
    fixture_open(&f, "tiny-qwen35", "F16", 2);
    fixture_session(&f, 6, 256);
    OK(lutra_seq_open(f.s, 256, &plain, err));
    feed(&f, plain, 0, 70, NULL);
    OK(lutra_seq_fork(f.s, plain, -1, 256, &a, err));
    for (int i = 0; i < 40; i++) feed(&f, plain, 70 + i, 71 + i, want[i]);
    for (int at = 70; at < 94; at += 4) { /* an ordinary row, three right drafts and a wrong one beside each */
        struct lutra_row row[7] = {{token_at(at), at, a, -1, LUTRA_WANT_LOGITS, 0}};
        for (int i = 1; i <= 3; i++) {
            int up = i == 1 ? 0 : 2 * i - 2;
            row[2 * i - 1] =
                (struct lutra_row){token_at(at + i) + 1, at + i, a, up, LUTRA_WANT_LOGITS | LUTRA_ROW_DRAFT, 0};
            row[2 * i] = (struct lutra_row){token_at(at + i), at + i, a, up, LUTRA_WANT_LOGITS | LUTRA_ROW_DRAFT, 0};
        }
        OK(lutra_forward(f.s, row, 7, sizeof *row, err));
        same_bits(want[at - 70], lutra_forward_result(f.s, 0)->logits, 512, "the row", at);
        for (int i = 1; i <= 3; i++)
            same_bits(want[at + i - 70], lutra_forward_result(f.s, 2 * i)->logits, 512, "its drafts", at);
        OK(lutra_commit(f.s, 6, err));
    }
    OK(lutra_seq_fork(f.s, a, -1, 256, &b, err)); /* with 3 drafts that are in no state yet */
    OK(lutra_seq_fork(f.s, a, 92, 256, &c, err)); /* with one of them */
    OK(lutra_seq_truncate(f.s, a, 93, err));
    assert_int_equal(lutra_seq_reach(f.s, a, 91), 91);
    feed(&f, b, 94, 95, got); /* a and c wait */
    same_bits(want[24], got, 512, "a fork", 1);
    feed(&f, c, 92, 93, got);
    same_bits(want[22], got, 512, "a fork of a part", 1);
    feed(&f, a, 93, 97, got);
    same_bits(want[26], got, 512, "what was cut", 1);
    fixture_close(&f);
}

/* A pass that is cancelled leaves the state as it was. */
static void a_cancelled_pass_changes_no_state(void **state)
{
    static float want[512], got[512];
    struct fixture f;
    int32_t a, b;
    (void)state;
    fixture_open(&f, "tiny-qwen35", "F16", 2);
    fixture_session(&f, 3, 256);
    OK(lutra_seq_open(f.s, 256, &a, err));
    feed(&f, a, 0, 70, NULL);
    OK(lutra_seq_fork(f.s, a, -1, 256, &b, err));
    feed(&f, b, 70, 80, want);
    struct lutra_row row[10];
    for (int i = 0; i < 10; i++)
        row[i] = (struct lutra_row){token_at(70 + i), 70 + i, a, i - 1, i == 9 ? LUTRA_WANT_LOGITS : 0, 0};
    lutra_cancel(f.s);
    assert_int_equal(lutra_forward(f.s, row, 10, sizeof *row, NULL), LUTRA_E_CANCELLED);
    assert_int_equal(lutra_seq_length(f.s, a), 70);
    feed(&f, a, 70, 80, got);
    same_bits(want, got, 512, "after a cancelled pass", 10);
    fixture_close(&f);
}

/* The logits of the last of n tokens fed in chains, with so many threads. */
static void logits_with(int n_threads, const char *shape, int n, float *out)
{
    struct fixture f;
    int32_t seq;
    fixture_open_on(&f, &(struct where){0}, shape, "F16", n_threads);
    fixture_session(&f, 1, 256);
    OK(lutra_seq_open(f.s, 256, &seq, err));
    feed(&f, seq, 0, n - 1, NULL);
    feed(&f, seq, n - 1, n, out);
    fixture_close(&f);
}

static void threads_change_no_bit_in_any_shape(void **state)
{
    (void)state;
    static float one[512], two[512];
    const char *shape;
    for (int i = 0; (shape = next_tiny(&i));) {
        logits_with(1, shape, 150, one);
        logits_with(2, shape, 150, two);
        same_bits(one, two, 512, shape, 2);
    }
}

static void check_quantized(const struct where *where)
{
    static const char *const types[] = {"Q4_0", "Q8_0", "Q4_K", "Q6_K", "TQ2_0"};
    static const int n_rows[] = {N_MAX, 1, 2, 3, 0};
    bool slow = where->device && !strcmp(where->device, "npu-qemu");
    int step = SANITIZED ? 3 : where->isa ? 1 : 2; /* what is no CPU is slow here */
    for (size_t i = 0; i < (slow ? 1 : sizeof types / sizeof *types); i += (size_t)step) {
        check_type_on(where, "tiny-qwen2", types[i], "f16", slow || SANITIZED ? n_rows + 1 : n_rows);
        check_drafts(where, "tiny-qwen2", types[i], 63, 63);
    }
    if (!slow) check_type_on(where, "tiny-bitnet-b1.58", "TQ2_0", "f16", n_rows + 1);
}

static void check_by_class(const struct where *where)
{
    static const int n_rows[] = {9, 2, 0};
    check_type_on(where, "tiny-qwen2", "Q4_0", "f16", n_rows);
}

static void quantized_bits_on_every_device(void **state)
{
    (void)state;
    fixture_everywhere(check_quantized);
    fixture_by_class(check_by_class);
}

static void results_by_want(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-llama", "F16", 2);
    fixture_session(&f, 1, 64);
    int n = n_vocab(&f);
    int32_t seq;
    OK(lutra_seq_open(f.s, 0, &seq, err));
    struct lutra_row row[] = {{1, 0, seq, -1, 0, 0},
        {2, 1, seq, 0, LUTRA_WANT_LOGITS | LUTRA_WANT_TOPK | LUTRA_WANT_LOGPROB | LUTRA_WANT_HIDDEN, 77},
        {3, 2, seq, 1, LUTRA_WANT_LOGPROB, 78}};
    OK(lutra_forward(f.s, row, 3, sizeof *row, err));
    const struct lutra_row_result *a = lutra_forward_result(f.s, 0), *b = lutra_forward_result(f.s, 1);
    assert_null(lutra_forward_result(f.s, 2));
    assert_int_equal(a->row, 1);
    assert_int_equal(b->row, 2);
    assert_null(b->logits);
    assert_null(b->hidden);
    assert_non_null(a->hidden);
    assert_true(a->target_logit == a->logits[77]);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += exp((double)a->logits[i]);
    assert_float_equal(log(sum), a->log_sum_exp, 1e-4);
    assert_int_equal(a->n_top, 64);
    for (int i = 0; i < n; i++) assert_true(a->logits[i] <= a->top_logit[0]);
    for (int i = 1; i < a->n_top; i++) assert_true(a->top_logit[i] <= a->top_logit[i - 1]);
    assert_true(b->target_logit < b->log_sum_exp);
    fixture_close(&f);
}

static void bad_rows_change_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_error why;
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, 1, 64);
    int32_t seq;
    OK(lutra_seq_open(f.s, 8, &seq, err));
    struct lutra_row row = {1, 0, seq, -1, 0, 0};
    struct lutra_row bad[] = {{-1, 0, seq, -1, 0, 0}, {n_vocab(&f), 0, seq, -1, 0, 0}, {1, 1, seq, -1, 0, 0},
        {1, 0, 3, -1, 0, 0}, {1, 0, -1, -1, 0, 0}, {1, 0, seq, 0, 0, 0}, {1, 0, seq, -1, 64, 0},
        {1, 0, seq, -1, LUTRA_WANT_LOGPROB, -5}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(lutra_forward(f.s, &bad[i], 1, sizeof bad[i], &why), LUTRA_E_ARGUMENT);
        assert_non_null(strstr(why.what, "row 0"));
        assert_int_equal(lutra_seq_length(f.s, seq), 0);
    }
    assert_int_equal(lutra_forward(f.s, &row, 0, sizeof row, &why), LUTRA_E_ARGUMENT);
    for (int i = 0; i < 8; i++) {
        row.pos = i;
        OK(lutra_forward(f.s, &row, 1, sizeof row, err));
    }
    row.pos = 8;
    assert_int_equal(lutra_forward(f.s, &row, 1, sizeof row, &why), LUTRA_E_CTX_FULL);
    assert_int_equal(lutra_seq_length(f.s, seq), 8);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_every_type),
        cmocka_unit_test(bits_of_codebooks),
        cmocka_unit_test(bits_of_every_shape),
        cmocka_unit_test(bits_over_a_cache_of_q8_0),
        cmocka_unit_test(bits_over_small_caches),
        cmocka_unit_test(drafts_are_lossless),
        cmocka_unit_test(drafts_are_lossless_in_every_shape),
        cmocka_unit_test(states_follow_accepted_drafts),
        cmocka_unit_test(a_cancelled_pass_changes_no_state),
        cmocka_unit_test(threads_change_no_bit_in_any_shape),
        cmocka_unit_test(quantized_bits_on_every_device),
        cmocka_unit_test(results_by_want),
        cmocka_unit_test(bad_rows_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
