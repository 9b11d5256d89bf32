/* SPDX-License-Identifier: MIT
 *
 * The scalar kernels of one row of activations: ops/ref behind the signatures of the table.
 */
#include "cpu/kernels.h"

#include <math.h>

#include "base/f16.h"
#include "ops/ref/ref.h"

static void rms_norm(const float *x, const float *w, size_t n, float eps, float *out)
{
    ref_rms_norm(x, w, eps, out, (int)n, (int)n);
}

static void layer_norm(const float *x, const float *w, const float *bias, size_t n, float eps, float *out)
{
    ref_layer_norm(x, w, bias, eps, out, (int)n, (int)n);
}

static void rope(const struct op_rope *op, const float *cs, float *x)
{
    int half = op->n_rot / 2;
    for (int h = 0; h < op->n_head; h++, x += op->d_head) {
        for (int i = 0; i < half; i++) {
            float *a = op->kind == ROPE_NORM ? x + 2 * i : x + i;
            float *b = op->kind == ROPE_NORM ? a + 1 : a + half;
            double c = cs[2 * i], s = cs[2 * i + 1], ra = *a * c - *b * s, rb = *a * s + *b * c;
            *a = (float)ra;
            *b = (float)rb;
        }
    }
}

static void swiglu(const float *a, const float *b, size_t n, float *out)
{
    ref_swiglu(a, b, out, (int)n);
}

static void geglu(const float *a, const float *b, size_t n, float *out)
{
    ref_geglu(a, b, out, (int)n);
}

static void relu2(const float *a, const float *b, size_t n, float *out)
{
    ref_relu2(a, b, out, (int)n);
}

static void swiglu_oai(const float *a, const float *b, size_t n, float *out)
{
    ref_swiglu_oai(a, b, out, (int)n);
}

static void add(const float *a, const float *b, size_t n, float *out)
{
    ref_add(a, b, out, (int)n);
}

static void mul(const float *a, const float *b, size_t n, float *out)
{
    ref_mul(a, b, out, (int)n);
}

static void gate(const float *a, const float *b, size_t n, float *out)
{
    ref_gate(a, (int)n, b, out, (int)n);
}

static void conv(const struct op_conv *op, const float *const *x, size_t n, float *out)
{
    ref_conv(op, x, out, (int)n);
}

static void l2_norm(const float *x, size_t n, float eps, float scale, float *out)
{
    ref_l2_norm(x, eps, scale, out, (int)n);
}

static void delta_step(
    float *state, int d_k, const float *k, const float *q, const float *v, float decay, float step, float *out)
{
    ref_delta_step(state, d_k, k, q, v, decay, step, out);
}

static void gelu(const float *x, size_t n, float *out)
{
    ref_gelu(x, out, (int)n);
}

static void gelu_erf(const float *x, size_t n, float *out)
{
    ref_gelu_erf(x, out, (int)n);
}

static void add_scaled(const float *a, const float *b, float scale, size_t n, float *out)
{
    ref_add_scaled(a, b, scale, out, (int)n);
}

static void to_f16(const float *x, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i++) out[i] = f32_to_f16(x[i]);
}

static void to_f32(const uint16_t *x, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = f16_to_f32(x[i]);
}

static float max_row(const float *x, size_t n)
{
    float max = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (x[i] > max) max = x[i];
    }
    return max;
}

static double sum_exp(const float *x, size_t n, float max)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - max);
    return sum;
}

#include "cpu/small_slots_tmpl.h"

void cpu_small_init_ref(struct cpu_kernels *out)
{
    fill_small(out, "ref");
    attention_init_ref(&out->attention);
}
