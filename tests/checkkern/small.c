/* SPDX-License-Identifier: MIT
 *
 * Checks of the row kernels against ops/ref, and of their tails: an element's bits do not depend on where the row ends.
 * Bounds: relative 2e-6 of the value's terms (norm, rope, gates), exact for add and half floats.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/f16.h"
#include "checkkern.h"
#include "ops/ref/ref.h"

enum { N = 261 };

static void fill(float *x, int n, uint64_t *seed)
{
    for (int i = 0; i < n; i++) x[i] = random_u64(seed) % 31 == 0 ? 40 * random_normal(seed) : 3 * random_normal(seed);
}

static void compare(
    struct tally *t, const char *name, const char *what, const float *got, const float *want, int n, double scale)
{
    double worst = 0;
    for (int i = 0; i < n; i++)
        worst = fmax(worst, fabs((double)got[i] - want[i]) / (fabs(want[i]) * 2e-6 + scale * 2e-7));
    expect(t, name, worst <= 1, "%s: error %g times the bound", what, worst);
}

typedef void gate(const float *a, const float *b, size_t n, float *out);
typedef void ref_pointwise(const float *a, const float *b, float *out, int n);

static void check_gate(
    struct tally *t, const char *name, const char *what, gate *new, ref_pointwise *ref, uint64_t *seed)
{
    float a[N], b[N], want[N];
    fill(a, N, seed);
    fill(b, N, seed);
    ref(a, b, want, N);
    for (int n = 1; n < N; n += n < 40 ? 1 : 37) {
        struct guarded out = guard((size_t)n * 4, 0x22);
        float whole[N];
        new (a, b, (size_t)n, (float *)(void *)out.data);
        new (a, b, N, whole);
        compare(t, name, what, (float *)(void *)out.data, want, n, 40);
        expect(t, name, memcmp(out.data, whole, (size_t)n * 4) == 0, "%s: the tail of %d differs", what, n);
        expect(t, name, unguard(&out), "%s: wrote outside %d", what, n);
    }
    a[5] = b[11] = NAN; /* in either, it stays where the definition keeps it */
    ref(a, b, want, N);
    new (a, b, N, a);
    for (int i = 0; i < N; i++) expect(t, name, !isnan(a[i]) == !isnan(want[i]), "%s: a NaN of element %d", what, i);
}

static void check_norm(struct tally *t, const char *name, const struct cpu_kernels *k, uint64_t *seed)
{
    float x[N], w[N], want[N], got[N];
    for (int n = 1; n < N; n += n < 40 ? 1 : 37) {
        fill(x, n, seed);
        fill(w, n, seed);
        ref_rms_norm(x, w, 1e-5f, want, n, n);
        k->rms_norm(x, w, (size_t)n, 1e-5f, got);
        compare(t, name, "rms_norm", got, want, n, 1);
    }
}

static void check_layer_norm(struct tally *t, const char *name, const struct cpu_kernels *k, uint64_t *seed)
{
    float x[N + 1], w[N + 1], bias[N + 1], want[N + 1], got[N + 1]; /* the largest size */
    for (int n = 2; n < 2 * N; n += n < 40 ? 1 : 37) {
        int size = n < N ? n : n - N + 2; /* every size without and, later, with a mean far from 0 */
        fill(x, size, seed);
        fill(w, size, seed);
        fill(bias, size, seed);
        for (int i = 0; i < size && n >= N; i++) x[i] += 50;
        ref_layer_norm(x, w, n % 2 ? bias : NULL, 1e-5f, want, size, size);
        struct guarded out = guard((size_t)size * 4, 0x22);
        k->layer_norm(x, w, n % 2 ? bias : NULL, (size_t)size, 1e-5f, (float *)(void *)out.data);
        memcpy(got, out.data, (size_t)size * 4);
        compare(t, name, "layer_norm", got, want, size, 200); /* of a product and a bias that may cancel */
        expect(t, name, unguard(&out), "layer_norm: wrote outside %d", size);
    }
}

static void check_one(struct tally *t, const char *name, const struct cpu_kernels *k, uint64_t *seed)
{
    float a[N], b[N], want[N];
    fill(a, N, seed);
    fill(b, N, seed);
    for (int n = 1; n < N; n += n < 40 ? 1 : 37) {
        struct guarded out = guard((size_t)n * 4, 0x22);
        ref_gelu(a, want, n);
        k->gelu(a, (size_t)n, (float *)(void *)out.data);
        compare(t, name, "gelu", (float *)(void *)out.data, want, n, 1);
        ref_gelu_erf(a, want, n);
        k->gelu_erf(a, (size_t)n, (float *)(void *)out.data);
        compare(t, name, "gelu_erf", (float *)(void *)out.data, want, n, 3);
        ref_add_scaled(a, b, 0.22f, want, n);
        k->add_scaled(a, b, 0.22f, (size_t)n, (float *)(void *)out.data);
        compare(t, name, "add_scaled", (float *)(void *)out.data, want, n, 10);
        expect(t, name, unguard(&out), "gelu, add_scaled: wrote outside %d", n);
    }
}

static void check_rope(
    struct tally *t, const char *name, const struct cpu_kernels *k, const struct cpu_kernels *lower, uint64_t *seed)
{
    float x[2 * 64], y[2 * 64], cs[64];
    for (int n_rot = 2; n_rot <= 64; n_rot += 2) {
        for (int kind = ROPE_NORM; kind <= ROPE_NEOX; kind++) {
            struct op_rope op = {.kind = (enum rope_kind)kind, .n_head = 2, .d_head = 64, .n_rot = n_rot};
            fill(x, 128, seed);
            memcpy(y, x, sizeof x);
            for (int i = 0; i < n_rot / 2; i++) cs[2 * i] = cosf((float)i), cs[2 * i + 1] = sinf((float)i);
            k->rope(&op, cs, x);
            lower->rope(&op, cs, y);
            compare(t, name, "rope", x, y, 128, 100);
        }
    }
}

static void check_halves(struct tally *t, const char *name, const struct cpu_kernels *k)
{
    static uint16_t half[65536 + 16], back[65536];
    static float wide[65536];
    for (int i = 0; i < 65536; i++) half[i] = (uint16_t)i;
    k->f16_to_f32(half, 65533, wide);
    k->f32_to_f16(wide, 65533, back);
    int bad = 0;
    for (int i = 0; i < 65533; i++) {
        uint32_t a, b = f32_bits(f16_to_f32(half[i]));
        memcpy(&a, &wide[i], 4);
        bad += a != b || back[i] != f32_to_f16(f16_to_f32(half[i]));
    }
    expect(t, name, bad == 0, "%d half floats differ", bad);
}

static void check_head(struct tally *t, const char *name, const struct cpu_kernels *k, uint64_t *seed)
{
    float x[N];
    for (int n = 1; n < N; n++) {
        fill(x, n, seed);
        float max = x[0];
        for (int i = 1; i < n; i++) max = fmaxf(max, x[i]);
        expect(t, name, k->max_row(x, (size_t)n) == max, "max_row of %d", n);
        double sum = 0, got = k->sum_exp(x, (size_t)n, max);
        for (int i = 0; i < n; i++) sum += exp((double)x[i] - max);
        expect(t, name, fabs(got - sum) <= 1e-5 * sum, "sum_exp of %d: %g, not %g", n, got, sum);
        x[n / 2] = NAN;
        max = -INFINITY;
        for (int i = 0; i < n; i++) max = fmaxf(max, x[i]);
        expect(t, name, k->max_row(x, (size_t)n) == max, "max_row of %d: a NaN is not passed over", n);
        expect(t, name, isnan(k->sum_exp(x, (size_t)n, max)), "sum_exp of %d: a NaN got lost", n);
    }
}

struct job {
    struct tally *t;
    const struct cpu_kernels *k, *lower;
    uint64_t seed;
    char name[32]; /* of the slot with its ISA */
};

static void norm_job(void *arg)
{
    struct job *j = arg;
    check_norm(j->t, j->name, j->k, &j->seed);
    check_layer_norm(j->t, j->name, j->k, &j->seed);
}

static void rope_job(void *arg)
{
    struct job *j = arg;
    check_rope(j->t, j->name, j->k, j->lower, &j->seed);
}

static void gate_job(void *arg)
{
    struct job *j = arg;
    check_gate(j->t, j->name, "swiglu", j->k->swiglu, ref_swiglu, &j->seed);
    check_gate(j->t, j->name, "geglu", j->k->geglu, ref_geglu, &j->seed);
    check_gate(j->t, j->name, "relu2", j->k->relu2, ref_relu2, &j->seed);
    check_gate(j->t, j->name, "swiglu_oai", j->k->swiglu_oai, ref_swiglu_oai, &j->seed);
    check_gate(j->t, j->name, "add", j->k->add, ref_add, &j->seed);
    check_one(j->t, j->name, j->k, &j->seed);
}

static void halves_job(void *arg)
{
    struct job *j = arg;
    check_halves(j->t, j->name, j->k);
}

static void head_job(void *arg)
{
    struct job *j = arg;
    check_head(j->t, j->name, j->k, &j->seed);
}

void check_small(struct tally *t, const struct cpu_kernels *k, const struct cpu_kernels *lower, const struct options *o)
{
    struct job job = {t, k, lower, o->seed, ""};
    const struct {
        const char *name;
        bool new;
        void (*run)(void *arg);
    } slots[] = {{"rms_norm", k->rms_norm != lower->rms_norm, norm_job}, {"rope", k->rope != lower->rope, rope_job},
        {"glu", k->swiglu != lower->swiglu, gate_job}, {"convert", k->f32_to_f16 != lower->f32_to_f16, halves_job},
        {"head", k->sum_exp != lower->sum_exp, head_job}};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        snprintf(job.name, sizeof job.name, "%s_%s", slots[i].name, k->small_isa);
        if (!slots[i].new || (o->only && !strstr(job.name, o->only))) continue;
        t->kernels++;
        survive(t, job.name, slots[i].run, &job);
    }
}
