/* SPDX-License-Identifier: MIT
 *
 * Small models with recurrent layers, or experts beside a feed-forward, against their makers' formula in 64 bits:
 * formula.py, which shares nothing with the engine and is asked here.
 */
#include "engine_fixture.h"

#include "engine/model_impl.h"
#include "engine/session_impl.h"
#include "mtp_block.h"

enum { N_TOK = 33, N_VOCAB = 512, D_MODEL = 256 };

static void ask(const char *path, int n_tok, const char *how, double want[N_VOCAB])
{
    char command[256];
    int n = 0;
    snprintf(
        command, sizeof command, "python3 " LUTRA_SOURCE_DIR "/tests/golden/formula.py %s %d %s", path, n_tok, how);
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
    if (first) ask(f.path, N_TOK, "", want);
    double error = error_of(lutra_forward_result(f.s, 0)->logits, want);
    print_message("%s, %s: largest difference %.2g of the standard deviation\n", shape, device ? device : "cpu", error);
    assert_true(error < 1e-4);
    fixture_close(&f);
}

static void recurrent_models_are_their_formula(void **state)
{
    static const char *const shapes[] = {"tiny-qwen35", "tiny-qwen35moe", "tiny-lfm2", "tiny-lfm2moe",
        "tiny-granitehybrid", "tiny-granitehybrid-moe", "tiny-granitemoe", "tiny-granitemoe-shared", "tiny-gemma4-moe"};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        double want[N_VOCAB];
        check(shapes[i], NULL, want, true);
        check(shapes[i], "cpu-ref", want, false);
    }
}

/* What llama.cpp said of a shape (tiny-logits.txt); returns behind how many tokens. */
static int recorded(const char *shape, float said[N_VOCAB])
{
    FILE *f = fopen(LUTRA_SOURCE_DIR "/tests/golden/tiny-logits.txt", "r");
    char *line = NULL, name[32];
    size_t cap = 0;
    int n_vocab, n_tok = 0, n = 0;
    assert_non_null(f);
    while (n_tok == 0 && getline(&line, &cap, f) > 0)
        if (sscanf(line, "%31s %d %d", name, &n_vocab, &n_tok) != 3 || strcmp(name, shape) != 0) n_tok = 0;
    while (n_tok > 0 && n < N_VOCAB && fscanf(f, "%f", &said[n]) == 1) n++;
    assert_int_equal(n, N_VOCAB);
    free(line);
    fclose(f);
    return n_tok;
}

/* The largest difference of any shape, 7.5e-3 deviations, is that of its table: with it the formula is within 1e-3. */
static void llama_cpp_differs_by_its_table_of_gelu(void **state)
{
    struct fixture f;
    double exact[N_VOCAB], table[N_VOCAB];
    float said[N_VOCAB];
    (void)state;
    int n_tok = recorded("tiny-gemma4-moe", said);
    fixture_make(&f, &(struct where){0}, "tiny-gemma4-moe", "F32", 0, 2);
    ask(f.path, n_tok, "", exact);
    ask(f.path, n_tok, "gelu", table);
    print_message(
        "llama.cpp from the formula %.2g, with its table %.2g\n", error_of(said, exact), error_of(said, table));
    assert_true(error_of(said, exact) > 5e-3);
    assert_true(error_of(said, table) < 1e-3);
    fixture_close(&f);
}

/* The states that the model leaves behind the first N_TOK tokens. */
static void states_of(lutra_model *model, float state[N_TOK][D_MODEL])
{
    lutra_session *s;
    struct lutra_row row[N_TOK];
    struct lutra_session_settings ss;
    int32_t seq;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 64;
    ss.cache_type = "f32";
    OK(lutra_session_open(&s, model, &ss, err));
    OK(lutra_seq_open(s, 0, &seq, err));
    for (int i = 0; i < N_TOK; i++) row[i] = (struct lutra_row){token_at(i), i, seq, i - 1, LUTRA_WANT_HIDDEN, 0};
    OK(lutra_forward(s, row, N_TOK, sizeof *row, err));
    for (int i = 0; i < N_TOK; i++) memcpy(state[i], lutra_forward_result(s, i)->hidden, sizeof state[i]);
    lutra_session_close(&s);
}

/* One pass over a block's rows first .. first + n - 1 of a sequence; its last state goes to `said`. */
static const float *draft(lutra_session *s, int32_t seq, int first, int n, float (*state)[D_MODEL], float said[D_MODEL])
{
    const float *given[N_TOK];
    for (int i = 0; i < n; i++) {
        s->batch.row[i] = (struct row){.token = token_at(first + i + 1),
            .pos = first + i,
            .seq = seq,
            .parent = i - 1,
            .want = i == n - 1 ? WANT_LOGITS | WANT_HIDDEN : 0};
        given[i] = state[i];
    }
    s->given = given;
    OK(session_forward(s, n, true, err));
    memcpy(said, s->result[0].hidden, D_MODEL * sizeof *said);
    return s->result[0].logits;
}

static void check_block(const char *shape, const char *device, double want[N_VOCAB], bool first)
{
    static float state[N_TOK][D_MODEL];
    float said[1][D_MODEL];
    struct fixture f;
    struct lutra_session_settings ss;
    lutra_model *block;
    int32_t seq;
    fixture_make(&f, &(struct where){device, NULL}, shape, "F32", 0, 2);
    add_mtp_block(f.path, &(struct mtp_form){0});
    OK(lutra_model_open(&f.model, f.rt, f.path, NULL, err));
    states_of(f.model, state);
    OK(model_open_block(&block, f.model, err));
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 64;
    ss.cache_type = "f32";
    OK(lutra_session_open(&f.s, block, &ss, err));
    OK(lutra_seq_open(f.s, 0, &seq, err));
    draft(f.s, seq, 0, N_TOK - 5, state, said[0]); /* the past in two passes */
    draft(f.s, seq, N_TOK - 5, 5, state + N_TOK - 5, said[0]);
    const float *logits = draft(f.s, seq, N_TOK, 1, said, said[0]);
    if (first) ask(f.path, N_TOK, "mtp", want);
    double error = error_of(logits, want);
    print_message("%s's MTP block, %s: largest difference %.2g of the standard deviation\n", shape,
        device ? device : "cpu", error);
    assert_true(error < 1e-4);
    lutra_session_close(&f.s);
    lutra_model_close(&block);
    fixture_close(&f);
}

static void mtp_blocks_are_their_formula(void **state)
{
    static const char *const shapes[] = {"tiny-qwen35", "tiny-qwen35moe"};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        double want[N_VOCAB];
        check_block(shapes[i], NULL, want, true);
        check_block(shapes[i], "cpu-ref", want, false);
    }
}

int main(void)
{
    if (system("python3 --version >/dev/null") != 0) {
        puts("skipped: no python3");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recurrent_models_are_their_formula),
        cmocka_unit_test(mtp_blocks_are_their_formula),
        cmocka_unit_test(llama_cpp_differs_by_its_table_of_gelu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
