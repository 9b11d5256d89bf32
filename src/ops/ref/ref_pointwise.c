/* SPDX-License-Identifier: MIT
 *
 * Operations on one row of activations: norm, rotation, gates, sums, and picking rows.
 */
#include "ops/ref/ref.h"

#include <math.h>
#include <string.h>

void ref_rms_norm(const float *x, const float *weight, float eps, float *out, int n, int n_norm)
{
    for (int first = 0; first < n; first += n_norm) {
        double sum = 0;
        for (int i = 0; i < n_norm; i++) sum += (double)x[first + i] * x[first + i];
        double scale = 1 / sqrt(sum / n_norm + (double)eps);
        for (int i = 0; i < n_norm; i++) out[first + i] = (float)(x[first + i] * scale * weight[i]);
    }
}

void ref_layer_norm(const float *x, const float *weight, const float *bias, float eps, float *out, int n, int n_norm)
{
    for (int first = 0; first < n; first += n_norm) {
        double sum = 0, squares = 0;
        for (int i = 0; i < n_norm; i++) sum += x[first + i];
        double mean = sum / n_norm;
        for (int i = 0; i < n_norm; i++) squares += (x[first + i] - mean) * (x[first + i] - mean);
        double scale = 1 / sqrt(squares / n_norm + (double)eps);
        for (int i = 0; i < n_norm; i++)
            out[first + i] = (float)((x[first + i] - mean) * scale * weight[i] + (bias ? bias[i] : 0));
    }
}

static double power_of(const struct op_rope *p, int i)
{
    return pow(p->freq_base, -2.0 * i / p->n_rot);
}

static void turn(const struct op_rope *p, double power, int32_t pos, int i, double *c, double *s)
{
    double theta = pos * (double)p->freq_scale * power;
    if (p->factors) theta /= p->factors[i];
    double magnitude = p->magnitude;
    if (p->growth != 0) magnitude *= 1 + p->growth * log1p(floor(pos / (double)p->growth_every));
    *c = cos(theta) * magnitude;
    *s = sin(theta) * magnitude;
}

void ref_rope(const struct op_rope *p, int32_t pos, float *x)
{
    int half = p->n_rot / 2;
    for (int i = 0; i < half; i++) {
        double c, s;
        turn(p, power_of(p, i), pos, i, &c, &s);
        int ia = p->kind == ROPE_NORM ? 2 * i : i, ib = p->kind == ROPE_NORM ? 2 * i + 1 : i + half;
        for (int h = 0; h < p->n_head; h++) {
            float *head = x + h * p->d_head;
            double a = head[ia], b = head[ib];
            head[ia] = (float)(a * c - b * s);
            head[ib] = (float)(a * s + b * c);
        }
    }
}

struct op_rope ref_rope_in(const struct op_rope *p, int n_ctx)
{
    struct op_rope now = *p;
    if (p->long_factors && n_ctx > p->short_ctx) now.factors = p->long_factors;
    now.long_factors = NULL;
    return now;
}

void ref_rope_powers(const struct op_rope *p, double *power)
{
    for (int i = 0; i < p->n_rot / 2; i++) power[i] = power_of(p, i);
}

/* Of pair i: cos and sin, as the tables hold them. */
static void store_turn(const struct op_rope *p, double power, int32_t pos, int i, float *cs)
{
    double c, s;
    turn(p, power, pos, i, &c, &s);
    cs[2 * i] = (float)c;
    cs[2 * i + 1] = (float)s;
}

void ref_rope_turns(const struct op_rope *p, const double *power, int32_t pos, float *cs)
{
    for (int i = 0; i < p->n_rot / 2; i++) store_turn(p, power[i], pos, i, cs);
}

void ref_rope_table(const struct op_rope *p, int32_t pos, float *cs)
{
    for (int i = 0; i < p->n_rot / 2; i++) store_turn(p, power_of(p, i), pos, i, cs);
}

void ref_swiglu(const float *gate, const float *up, float *out, int n)
{
    for (int i = 0; i < n; i++) {
        double g = gate[i];
        out[i] = (float)(g / (1 + exp(-g)) * up[i]);
    }
}

/* 0.5 (1 + tanh u) = 1 / (1 + e^-2u), which does not cancel for negative u; u = sqrt(2/pi) (g + 0.044715 g^3). */
static double gelu(double g)
{
    const double root_2_over_pi = 0.79788456080286535588;
    return g / (1 + exp(-2 * root_2_over_pi * (g + 0.044715 * g * g * g)));
}

void ref_geglu(const float *gate, const float *up, float *out, int n)
{
    for (int i = 0; i < n; i++) out[i] = (float)(gelu(gate[i]) * up[i]);
}

void ref_gelu(const float *x, float *out, int n)
{
    for (int i = 0; i < n; i++) out[i] = (float)gelu(x[i]);
}

/* By erfc, which does not cancel for negative x. */
void ref_gelu_erf(const float *x, float *out, int n)
{
    const double root_half = 0.70710678118654752440;
    for (int i = 0; i < n; i++) out[i] = (float)(0.5 * x[i] * erfc(-root_half * x[i]));
}

void ref_relu2(const float *gate, const float *up, float *out, int n)
{
    for (int i = 0; i < n; i++) {
        double g = gate[i] > 0 ? gate[i] : 0;
        out[i] = (float)(g * g * up[i]);
    }
}

void ref_swiglu_oai(const float *gate, const float *up, float *out, int n)
{
    const double limit = 7, alpha = 1.702;
    for (int i = 0; i < n; i++) {
        double g = gate[i] > limit ? limit : gate[i], u = up[i];
        u = u > limit ? limit : u < -limit ? -limit : u;
        out[i] = (float)(g / (1 + exp(-alpha * g)) * (u + 1));
    }
}

void ref_add(const float *a, const float *b, float *out, int n)
{
    for (int i = 0; i < n; i++) out[i] = a[i] + b[i];
}

void ref_scale(const float *x, float by, float *out, int n)
{
    for (int i = 0; i < n; i++) out[i] = x[i] * by;
}

void ref_add_scaled(const float *a, const float *b, float scale, float *out, int n)
{
    for (int i = 0; i < n; i++) out[i] = (float)(a[i] + (double)scale * b[i]);
}

void ref_permute(const float *x, const int32_t *order, float *out, int n)
{
    for (int i = 0; i < n; i++) out[i] = x[order[i]];
}

void ref_take(const float *x, const int32_t *out_row, int n_out, int dim, float *out)
{
    for (int i = 0; i < n_out; i++) {
        memcpy(out + (size_t)i * dim, x + (size_t)out_row[i] * dim, (size_t)dim * sizeof *out);
    }
}
