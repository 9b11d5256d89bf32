/* SPDX-License-Identifier: MIT
 *
 * Small encoders and rankers against their makers' formula in 64 bits: encoder.py, which shares nothing with the engine
 * and is asked here.
 */
#include "engine_fixture.h"

enum { MOST = 320, D = 256 };

static double want[MOST + 1][D];
static float got[MOST][D];

/* States of n tokens, and what they are pooled to: n_pooled numbers. */
static void ask(const char *path, int n, int n_first, int n_pooled)
{
    char command[256];
    snprintf(
        command, sizeof command, "python3 " LUTRA_SOURCE_DIR "/tests/golden/encoder.py %s %d %d", path, n, n_first);
    FILE *said = popen(command, "r");
    assert_non_null(said);
    for (int i = 0; i <= n; i++)
        for (int d = 0; d < (i < n ? D : n_pooled); d++) assert_int_equal(fscanf(said, "%lf", &want[i][d]), 1);
    assert_int_equal(pclose(said), 0);
}

/* The largest difference of the states, in deviations of what is wanted. */
static double error_of(int n)
{
    double sum = 0, sum2 = 0, worst = 0, all = (double)n * D;
    for (int i = 0; i < n; i++)
        for (int d = 0; d < D; d++) {
            sum += want[i][d];
            sum2 += want[i][d] * want[i][d];
            if (!(fabs(got[i][d] - want[i][d]) <= worst)) worst = fabs(got[i][d] - want[i][d]);
        }
    return worst / sqrt(sum2 / all - sum / all * (sum / all));
}

static void open_with(struct fixture *f, const char *cache, int n)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 256 < n ? MOST : 256;
    ss.n_out = ss.n_ctx;
    if (strcmp(cache, "f32") == 0) ss.cache_type = "f32";
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

/* The states of all rows of one pass. */
static void evaluate(struct fixture *f, int n, int n_first, bool segments)
{
    struct lutra_row row[MOST];
    int32_t seq;
    OK(lutra_seq_open(f->s, 0, &seq, err));
    for (int i = 0; i < n; i++) {
        uint32_t flags = LUTRA_WANT_HIDDEN | (segments && i >= n_first ? LUTRA_ROW_SECOND : 0);
        row[i] = (struct lutra_row){token_at(i), i, seq, i - 1, flags, 0};
    }
    OK(lutra_forward(f->s, row, n, sizeof *row, err));
    for (int i = 0; i < n; i++) memcpy(got[i], lutra_forward_result(f->s, i)->hidden, sizeof got[i]);
    lutra_seq_close(f->s, seq);
}

/* What the file pools to: a vector's cosine, or a score. */
static void check_pooled(struct fixture *f, const char *shape, int n, int n_first)
{
    int32_t token[MOST];
    struct lutra_model_info info;
    lutra_model_info_get(f->model, &info, sizeof info);
    for (int i = 0; i < n; i++) token[i] = token_at(i);
    if (info.ranks) {
        float score;
        OK(lutra_rerank(
            f->s, &(struct lutra_rerank_pair){token, n, n_first}, 1, sizeof(struct lutra_rerank_pair), &score, err));
        print_message("%s, %d tokens: score %.6g, by the formula %.6g\n", shape, n, (double)score, want[n][0]);
        assert_true(fabs((double)score - want[n][0]) < 2e-3);
        return;
    }
    double product = 0, squares = 0;
    float out[D];
    OK(lutra_embed(f->s, &(struct lutra_embed_text){token, n}, 1, LUTRA_POOL_MODEL, out, err));
    for (int d = 0; d < D; d++) product += out[d] * want[n][d], squares += want[n][d] * want[n][d];
    print_message("%s, %d tokens: cosine 1 - %.2g\n", shape, n, 1 - product / sqrt(squares));
    assert_true(product / sqrt(squares) > 0.99999);
}

static void check(const char *shape, int n, int n_first, bool segments, int n_pooled)
{
    static const char *const devices[] = {NULL, "cpu-ref"};
    for (int k = 0; k < 2; k++) {
        struct fixture f;
        fixture_open_on(&f, &(struct where){devices[k], NULL}, shape, "F32", 2);
        if (k == 0) ask(f.path, n, n_first, n_pooled);
        open_with(&f, "f32", n);
        evaluate(&f, n, n_first, segments);
        print_message("%s, %s, %d tokens: largest difference %.2g of the standard deviation\n", shape,
            devices[k] ? devices[k] : "cpu", n, error_of(n));
        assert_true(error_of(n) < 1e-4);
        lutra_session_close(&f.s);
        open_with(&f, "f16", n);
        check_pooled(&f, shape, n, n_first);
        fixture_close(&f);
    }
}

static void encoders_are_their_formula(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        int n = i ? 33 : 1;
        check("tiny-bert", n, n, true, D);
        check("tiny-nomic-bert", n, n, true, D);
        check("tiny-gemma-embedding", n, n, false, D);
        check("tiny-qwen3-embedding", n, n, false, D);
    }
    check("tiny-bert", 70, 70, true, D);
}

/* Beyond 64 positions of a block, and beyond the window to both sides. */
static void windows_reach_to_both_sides(void **state)
{
    (void)state;
    check("tiny-gemma-embedding", 100, 100, false, D);
}

static void rankers_are_their_formula(void **state)
{
    (void)state;
    check("tiny-bert-rank", 33, 12, true, 1);
    check("tiny-bert-rank", 70, 69, true, 1);
    check("tiny-qwen3-rank", 33, 33, false, 1);
}

static void long_texts(void **state)
{
    (void)state;
    if (!getenv("LUTRA_TEST_LONG")) skip();
    check("tiny-bert", 300, 300, true, D);
    check("tiny-nomic-bert", 300, 300, true, D);
    check("tiny-gemma-embedding", 300, 300, false, D);
}

int main(void)
{
    if (system("python3 --version >/dev/null") != 0) {
        puts("skipped: no python3");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(encoders_are_their_formula),
        cmocka_unit_test(windows_reach_to_both_sides), cmocka_unit_test(rankers_are_their_formula),
        cmocka_unit_test(long_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
