/* SPDX-License-Identifier: MIT
 *
 * Small models with recurrent layers against their makers' formula in 64 bits: formula.py, which shares nothing with
 * the engine and is asked here.
 */
#include "engine_fixture.h"

enum { N_TOK = 33, N_VOCAB = 512 };

static void ask(const char *path, double want[N_VOCAB])
{
    char command[256];
    int n = 0;
    snprintf(command, sizeof command, "python3 " LUTRA_SOURCE_DIR "/tests/golden/formula.py %s %d", path, (int)N_TOK);
    FILE *said = popen(command, "r");
    assert_non_null(said);
    while (n < N_VOCAB && fscanf(said, "%lf", &want[n]) == 1) n++;
    assert_int_equal(pclose(said), 0);
    assert_int_equal(n, N_VOCAB);
}

/* The largest difference of a row, in deviations of what is wanted. */
static double error_of(const float *got, const double *want)
{
    double sum = 0, sum2 = 0, worst = 0;
    for (int i = 0; i < N_VOCAB; i++) {
        sum += want[i];
        sum2 += want[i] * want[i];
        if (!(fabs(got[i] - want[i]) <= worst)) worst = fabs(got[i] - want[i]);
    }
    return worst / sqrt(sum2 / N_VOCAB - sum / N_VOCAB * (sum / N_VOCAB));
}

/* Python is slow: it is asked the first time. */
static void check(const char *shape, const char *device, double want[N_VOCAB], bool first)
{
    struct fixture f;
    struct lutra_row row[N_TOK];
    struct lutra_session_settings ss;
    int32_t seq;
    fixture_open_on(&f, &(struct where){device, NULL}, shape, "F32", 2);
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 64;
    ss.cache_type = "f32";
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    OK(lutra_seq_open(f.s, 0, &seq, err));
    for (int i = 0; i < N_TOK; i++)
        row[i] = (struct lutra_row){token_at(i), i, seq, i - 1, i == N_TOK - 1 ? LUTRA_WANT_LOGITS : 0, 0};
    OK(lutra_forward(f.s, row, N_TOK, sizeof *row, err));
    if (first) ask(f.path, want);
    double error = error_of(lutra_forward_result(f.s, 0)->logits, want);
    print_message("%s, %s: largest difference %.2g of the standard deviation\n", shape, device ? device : "cpu", error);
    assert_true(error < 1e-4);
    fixture_close(&f);
}

static void recurrent_models_are_their_formula(void **state)
{
    static const char *const shapes[] = {"tiny-qwen35", "tiny-qwen35moe", "tiny-lfm2", "tiny-lfm2moe"};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        double want[N_VOCAB];
        check(shapes[i], NULL, want, true);
        check(shapes[i], "cpu-ref", want, false);
    }
}

int main(void)
{
    if (system("python3 --version >/dev/null") != 0) {
        puts("skipped: no python3");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(recurrent_models_are_their_formula)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
