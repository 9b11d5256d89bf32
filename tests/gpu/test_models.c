/* SPDX-License-Identifier: MIT
 *
 * Small models of several architectures on the GPU: logits near the reference's or the CPU's, and their
 * greedy answers.
 */
#include "model_fixture.h"

enum { N_ANSWER = 12 };

static int32_t best(const float *x, int n)
{
    int most = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[most]) most = i;
    return most;
}

static double rms_error(const float *a, const float *b, int n)
{
    double error = 0, mean = 0, squares = 0;
    for (int i = 0; i < n; i++) error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]), mean += b[i] / (double)n;
    for (int i = 0; i < n; i++) squares += (b[i] - mean) * (b[i] - mean);
    return sqrt(error / squares);
}

/* A prompt, then an answer: the GPU chooses after the tokens that the reference has chosen.  Returns how many choices
 * agree. */
static int answer(struct model *gpu, struct model *ref, double bound, const char *what)
{
    int32_t token[N_PROMPT], a, b;
    int agreed = 0;
    for (int i = 0; i < N_PROMPT; i++) token[i] = token_at(i);
    OK(lutra_seq_open(gpu->f.s, 128, &a, err));
    OK(lutra_seq_open(ref->f.s, 128, &b, err));
    for (int n = 0, at = 0; n < N_ANSWER; n++) {
        int rows = n ? 1 : N_PROMPT;
        const float *y = feed(gpu, a, at, token, rows), *want = feed(ref, b, at, token, rows);
        double error = rms_error(y, want, ref->n_vocab);
        if (!(error < bound)) fail_msg("%s: logits of position %d are off by %g", what, at, error);
        agreed += best(y, gpu->n_vocab) == best(want, ref->n_vocab);
        at += rows;
        token[0] = best(want, ref->n_vocab);
    }
    lutra_seq_close(gpu->f.s, a);
    lutra_seq_close(ref->f.s, b);
    return agreed;
}

struct place {
    const char *shape, *type, *cache, *beside;
    double bound; /* of logits' error, in their deviations */
};

/* Beside the reference where the GPU multiplies floats, beside the CPU where both have class i8x32. */
static const struct place places[] = {
    {"tiny-llama", "F16", "f16", "cpu-ref", 1e-3},
    {"tiny-qwen3", "F32", "f32", "cpu-ref", 1e-4},
    {"tiny-gemma2", "BF16", "f16", "cpu-ref", 1e-3},
    {"tiny-phi", "Q4_0", "f16", "cpu", 2e-2},
    {"tiny-starcoder2", "F16", "q8_0", "cpu-ref", 2e-2},
    {"tiny-gpt-oss", "F16", "f16", "cpu-ref", 1e-3},
    {"tiny-cohere2", "Q8_0", "f16", "cpu", 2e-2},
    {"tiny-qwen2", "Q4_K", "f16", "cpu-ref", 1e-3},
    {"tiny-llama-100", "F16", "f16", "cpu-ref", 1e-3},
};

static void models_answer_as_on_the_cpu(void **state)
{
    int agreed = 0, all = 0;
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const struct place *p = &places[i];
        struct model gpu, ref;
        char what[64];
        snprintf(what, sizeof what, "%s, %s", p->shape, p->type);
        open_model(&gpu, "vulkan", p->shape, p->type, p->cache);
        open_model(&ref, p->beside, p->shape, p->type, p->cache);
        agreed += answer(&gpu, &ref, p->bound, what);
        all += N_ANSWER;
        fixture_close(&gpu.f);
        fixture_close(&ref.f);
    }
    print_message("%d of %d choices agree\n", agreed, all);
    assert_true(agreed * 100 >= 98 * all);
}

int main(void)
{
    gpu_need();
    const struct CMUnitTest tests[] = {cmocka_unit_test(models_answer_as_on_the_cpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
