/* SPDX-License-Identifier: MIT
 *
 * Step rewards of both bundled verifiers against those that PyTorch computed in f32 from the same weights
 * (tools/train/golden_prm.py).
 */
#include "engine_fixture.h"

#include <jansson.h>

#define GOLDEN LUTRA_SOURCE_DIR "/tests/golden/prm_scores.json"
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

static void rewards_of(void **state)
{
    const char *kind = *state;
    char path[512];
    struct fixture f = {0};
    lutra_verifier *v;
    json_t *golden = json_load_file(GOLDEN, 0, NULL);
    assert_non_null(golden);
    snprintf(path, sizeof path, "%s",
        !strcmp(kind, "value") ? MODELS "abacus-xs-prm-f16.gguf" : MODELS "abacus-xs-prm-token-f16.gguf");
    struct lutra_runtime_settings rs = lutra_runtime_settings_default();
    struct lutra_verifier_settings vs = lutra_verifier_settings_default();
    rs.n_threads = 2;
    vs.n_seq = 1;
    OK(lutra_runtime_open(&f.rt, &rs, err));
    OK(lutra_model_open(&f.model, f.rt, path, NULL, err));
    OK(lutra_verifier_open(&v, f.model, &vs, err));
    double worst = 0;
    int n_reward = 0;
    size_t n = json_array_size(golden);
    for (size_t i = 0; i < n; i++) worst = fmax(worst, compare(v, json_array_get(golden, i), kind, &n_reward));
    print_message("%s: %d rewards of %zu solutions, largest difference %.2g\n", kind, n_reward, n, worst);
    assert_true(n >= 20 && n_reward > 100);
    assert_true(worst < 1e-3);
    json_decref(golden);
    lutra_verifier_close(&v);
    lutra_model_close(&f.model);
    lutra_runtime_close(&f.rt);
}

int main(void)
{
    static char value[] = "value", token[] = "token";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(rewards_of, value),
        cmocka_unit_test_prestate(rewards_of, token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
