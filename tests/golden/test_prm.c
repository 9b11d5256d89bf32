/* SPDX-License-Identifier: MIT
 *
 * Step rewards of all kinds of verifier against those that others computed from the same weights: PyTorch in f32 for
 * the value and token kinds (tools/train/golden_prm.py), NumPy in float64 for the likelihood kind (likelihood.py).
 */
#include "engine_fixture.h"

#include <jansson.h>

#define GOLDEN LUTRA_SOURCE_DIR "/tests/golden/"
#define MODELS LUTRA_SOURCE_DIR "/models/"

enum { MAX_IDS = 1024, MAX_STEPS = 64 };

static int read_ids(const json_t *list, int32_t *ids)
{
    int n = (int)json_array_size(list);
    assert_in_range(n, 1, MAX_IDS);
    for (int i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return n;
}

/* Largest difference of one solution's rewards. */
static double compare(lutra_verifier *v, const json_t *one, const char *kind, int *n_reward)
{
    static int32_t prompt[MAX_IDS], solution[MAX_IDS], end[MAX_IDS];
    double reward[MAX_STEPS], worst = 0;
    const json_t *want = json_object_get(one, kind);
    int n_prompt = read_ids(json_object_get(one, "prompt"), prompt);
    int n_solution = read_ids(json_object_get(one, "solution"), solution);
    int n = read_ids(json_object_get(one, "step_end"), end);
    assert_in_range(n, 1, MAX_STEPS);
    assert_int_equal(n, json_array_size(want));
    assert_true(end[n - 1] <= n_solution);
    OK(lutra_verifier_score(v, prompt, n_prompt, solution, end, n, reward, err));
    for (int i = 0; i < n; i++) worst = fmax(worst, fabs(reward[i] - json_real_value(json_array_get(want, (size_t)i))));
    *n_reward += n;
    return worst;
}

struct source {
    const char *kind, *file, *golden;
    bool name_kind; /* the file does not say what kind it is */
    double tolerance;
};

static void rewards_of(void **state)
{
    const struct source *source = *state;
    char path[512];
    struct fixture f = {0};
    lutra_verifier *v;
    snprintf(path, sizeof path, "%s%s", GOLDEN, source->golden);
    json_t *golden = json_load_file(path, 0, NULL);
    assert_non_null(golden);
    snprintf(path, sizeof path, "%s%s", MODELS, source->file);
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    struct lutra_verifier_settings vs;
    lutra_verifier_settings_init(&vs, sizeof vs);
    rs.n_threads = 2;
    vs.n_seq = 1;
    OK(lutra_runtime_open(&f.rt, &rs, err));
    OK(lutra_model_open(&f.model, f.rt, path, NULL, err));
    vs.model = f.model;
    OK(lutra_verifier_open(&v, source->name_kind ? source->kind : NULL, &vs, err));
    double worst = 0;
    int n_reward = 0;
    size_t n = json_array_size(golden);
    for (size_t i = 0; i < n; i++) worst = fmax(worst, compare(v, json_array_get(golden, i), source->kind, &n_reward));
    print_message("%s: %d rewards of %zu solutions, largest difference %.2g\n", source->kind, n_reward, n, worst);
    assert_true(n >= 20 && n_reward > 100);
    assert_true(worst < source->tolerance);
    json_decref(golden);
    lutra_verifier_close(&v);
    lutra_model_close(&f.model);
    lutra_runtime_close(&f.rt);
}

static void kinds_are_checked(void **state)
{
    static const struct {
        const char *file, *kind, *positive, *mark, *why;
        enum lutra_status code;
    } bad[] = {
        {"abacus-xs-f16.gguf", NULL, NULL, NULL, "no reward model", LUTRA_E_UNSUPPORTED},
        {"abacus-xs-f16.gguf", "value", NULL, NULL, "no tensor 'cls.output'", LUTRA_E_UNSUPPORTED},
        {"abacus-xs-f16.gguf", "oracle", NULL, NULL, "'oracle' is not known", LUTRA_E_ARGUMENT},
        {"abacus-xs-f16.gguf", "likelihood", "+", NULL, "no use for tokens", LUTRA_E_ARGUMENT},
        {"abacus-xs-f16.gguf", "likelihood", NULL, "+", "needs no mark", LUTRA_E_ARGUMENT},
    };
    struct fixture f = {0};
    (void)state;
    OK(lutra_runtime_open(&f.rt, NULL, err));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char path[512];
        lutra_verifier *v;
        struct lutra_error why = {0};
        struct lutra_verifier_settings vs;
        lutra_verifier_settings_init(&vs, sizeof vs);
        vs.positive = bad[i].positive;
        vs.mark = bad[i].mark;
        snprintf(path, sizeof path, "%s%s", MODELS, bad[i].file);
        OK(lutra_model_open(&f.model, f.rt, path, NULL, err));
        vs.model = f.model;
        assert_int_equal(lutra_verifier_open(&v, bad[i].kind, &vs, &why), bad[i].code);
        if (!strstr(why.what, bad[i].why)) fail_msg("'%s' does not say '%s'", why.what, bad[i].why);
        lutra_model_close(&f.model);
    }
    lutra_runtime_close(&f.rt);
}

/* The bundled value head, its kind misspelt. */
static void unknown_kind_is_refused(void **state)
{
    static char data[1 << 20];
    struct fixture f = {.path = "/tmp/lutra-test-XXXXXX"};
    struct lutra_error why = {0};
    lutra_verifier *v;
    (void)state;
    FILE *in = fopen(MODELS "abacus-xs-prm-f16.gguf", "rb"), *out = fdopen(mkstemp(f.path), "wb");
    assert_true(in && out);
    size_t n = fread(data, 1, sizeof data, in);
    char *key = memmem(data, n, "lutra.prm.kind", 14);
    assert_non_null(key);
    memcpy(key + 14 + 4 + 8, "vague", 5); /* behind the key: u32 type, u64 length */
    assert_int_equal(fwrite(data, 1, n, out), n);
    fclose(in);
    fclose(out);
    OK(lutra_runtime_open(&f.rt, NULL, err));
    OK(lutra_model_open(&f.model, f.rt, f.path, NULL, err));
    struct lutra_verifier_settings vs;
    lutra_verifier_settings_init(&vs, sizeof vs);
    vs.model = f.model;
    assert_int_equal(lutra_verifier_open(&v, NULL, &vs, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "'vague' is not known"));
    fixture_close(&f);
}

int main(void)
{
    static struct source value = {"value", "abacus-xs-prm-f16.gguf", "prm_scores.json", false, 1e-3},
                         reach = {"value", "countdown-s-prm-f16.gguf", "countdown_prm.json", false,
                             2e-3}, /* the F16 cache: its odds are steep */
        token = {"token", "abacus-xs-prm-token-f16.gguf", "prm_scores.json", false, 1e-3},
                         likelihood = {"likelihood", "abacus-xs-long-f16.gguf", "prm_scores.json", true, 2e-4};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(rewards_of, &value),
        cmocka_unit_test_prestate(rewards_of, &reach),
        cmocka_unit_test_prestate(rewards_of, &token),
        cmocka_unit_test_prestate(rewards_of, &likelihood),
        cmocka_unit_test(kinds_are_checked),
        cmocka_unit_test(unknown_kind_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
