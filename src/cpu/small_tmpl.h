/* SPDX-License-Identifier: MIT
 *
 * The kernels of one row of activations for one ISA: norm, rotation, gates, conversions, sums over logits.
 * cpu/kernels.h says what each computes.
 *
 * A tail is one more vector of which some lanes are not stored: the same arithmetic for every element.
 *
 * Needs: the vectors of a vec_*_impl.h and vec_math_tmpl.h.
 * Gives: what small_slots_tmpl.h puts into the table.
 */
#ifndef LUTRA_CPU_SMALL_TMPL_H
#define LUTRA_CPU_SMALL_TMPL_H

#include <string.h>

#include "cpu/kernels.h"

LUTRA_INLINE int tail_of(size_t n)
{
    return (int)(n % VEC);
}

/* The sum of squares in f32: four accumulators of VEC lanes each, added up in double.  A row of massive activations
 * keeps its precision, because squares only add. */
static void rms_norm(const float *x, const float *w, size_t n, float eps, float *out)
{
    vec sum[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
    size_t i = 0;
    for (; i + 4 * VEC <= n; i += 4 * VEC) {
        for (int v = 0; v < 4; v++) {
            vec a = vec_load(x + i + (size_t)v * VEC);
            sum[v] = vec_fma(a, a, sum[v]);
        }
    }
    for (; i < n; i += VEC) {
        vec a = n - i < VEC ? vec_load_part(x + i, tail_of(n)) : vec_load(x + i);
        sum[0] = vec_fma(a, a, sum[0]);
    }
    double squares = vec_sum_double(sum[0]) + vec_sum_double(sum[1]) + vec_sum_double(sum[2]) + vec_sum_double(sum[3]);
    vec scale = vec_set1((float)(1 / sqrt(squares / (double)n + (double)eps)));
    for (i = 0; i + VEC <= n; i += VEC) {
        vec_store(out + i, vec_mul(vec_mul(vec_load(x + i), scale), vec_load(w + i)));
    }
    if (i < n) {
        vec a = vec_mul(vec_load_part(x + i, tail_of(n)), scale);
        vec_store_part(out + i, vec_mul(a, vec_load_part(w + i, tail_of(n))), tail_of(n));
    }
}

/* Lanes i .. of x, less `less`; lanes behind the end are 0. */
LUTRA_INLINE vec load_less(const float *x, size_t i, size_t n, vec less)
{
    if (n - i >= VEC) return vec_sub(vec_load(x + i), less);
    return vec_select(vec_lanes(0, tail_of(n)), vec_sub(vec_load_part(x + i, tail_of(n)), less), vec_zero());
}

/* Sums in f32 of four accumulators, as above; the mean is taken off before squares are added up. */
static void layer_norm(const float *x, const float *w, const float *bias, size_t n, float eps, float *out)
{
    vec sum[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()}, square[4] = {sum[0], sum[0], sum[0], sum[0]};
    for (size_t i = 0, v = 0; i < n; i += VEC, v = (v + 1) % 4)
        sum[v] = vec_add(sum[v], load_less(x, i, n, vec_zero()));
    double all = vec_sum_double(sum[0]) + vec_sum_double(sum[1]) + vec_sum_double(sum[2]) + vec_sum_double(sum[3]);
    vec mean = vec_set1((float)(all / (double)n));
    for (size_t i = 0, v = 0; i < n; i += VEC, v = (v + 1) % 4) {
        vec a = load_less(x, i, n, mean);
        square[v] = vec_fma(a, a, square[v]);
    }
    all = vec_sum_double(square[0]) + vec_sum_double(square[1]) + vec_sum_double(square[2]) + vec_sum_double(square[3]);
    vec scale = vec_set1((float)(1 / sqrt(all / (double)n + (double)eps)));
    for (size_t i = 0; i < n; i += VEC) {
        int lanes = n - i < VEC ? tail_of(n) : VEC;
        vec a = vec_mul(vec_mul(load_less(x, i, n, mean), scale), vec_load_part(w + i, lanes));
        vec_store_part(out + i, bias ? vec_add(a, vec_load_part(bias + i, lanes)) : a, lanes);
    }
}

/* ---- rotation ---- */

/* (a, b) turned by (c, s). */
LUTRA_INLINE void turn(vec *a, vec *b, vec c, vec s)
{
    vec x = *a, y = *b;
    *a = vec_fnma(y, s, vec_mul(x, c));
    *b = vec_fma(x, s, vec_mul(y, c));
}

/* The first n of 2 VEC consecutive floats. */
LUTRA_INLINE void load_two(const float *p, int n, vec *a, vec *b)
{
    *a = vec_load_part(p, n < VEC ? n : VEC);
    *b = vec_load_part(p + (n > VEC ? VEC : 0), n > VEC ? n - VEC : 0);
}

/* Pairs i .. i + n - 1 (n <= VEC) of every head. */
LUTRA_INLINE void rope_pairs(const struct op_rope *op, const float *cs, float *x, int i, int n)
{
    vec a, b, c, s;
    load_two(cs + 2 * i, 2 * n, &a, &b);
    vec_split_pairs(a, b, &c, &s);
    for (int h = 0; h < op->n_head; h++) {
        float *head = x + h * op->d_head;
        if (op->kind == ROPE_NEOX) {
            float *lo = head + i, *hi = head + i + op->n_rot / 2;
            a = vec_load_part(lo, n);
            b = vec_load_part(hi, n);
            turn(&a, &b, c, s);
            vec_store_part(lo, a, n);
            vec_store_part(hi, b, n);
        } else {
            vec even, odd;
            float *p = head + 2 * i;
            load_two(p, 2 * n, &a, &b);
            vec_split_pairs(a, b, &even, &odd);
            turn(&even, &odd, c, s);
            vec_join_pairs(even, odd, &a, &b);
            vec_store_part(p, a, 2 * n < VEC ? 2 * n : VEC);
            if (2 * n > VEC) vec_store_part(p + VEC, b, 2 * n - VEC);
        }
    }
}

static void rope(const struct op_rope *op, const float *cs, float *x)
{
    int half = op->n_rot / 2;
    for (int i = 0; i < half; i += VEC) rope_pairs(op, cs, x, i, half - i < VEC ? half - i : VEC);
}

/* ---- elementwise, of two arrays ---- */

LUTRA_INLINE vec swiglu_of(vec a, vec b)
{
    return vec_mul(vec_gate(a, a), b);
}

/* gelu's tanh form is a gate: 0.5 (1 + tanh u) = 1 / (1 + e^-2u), u = sqrt(2/pi) (a + 0.044715 a^3). */
LUTRA_INLINE vec gelu_of(vec a)
{
    vec inner = vec_fma(vec_mul(a, a), vec_set1(0.044715f), vec_set1(1));
    vec u = vec_mul(vec_mul(a, vec_set1(1.5957691216f)), inner);
    return vec_gate(a, u);
}

/* max(a, 0) - |a| erfc(|a| / sqrt(2)) / 2, with erfc(z) = (a1 t + .. + a5 t^5) e^-z^2, t = 1 / (1 + 0.3275911 z)
 * [Abramowitz and Stegun 7.1.26]: erfc is off by at most 1.5e-7.  A NaN stays NaN. */
LUTRA_INLINE vec gelu_erf_of(vec a)
{
    vec size = vec_select(vec_less(a, vec_zero()), vec_sub(vec_zero(), a), a), one = vec_set1(1);
    vec t = vec_div(one, vec_fma(size, vec_set1(0.23164189f), one));
    vec p = vec_fma(vec_set1(1.061405429f), t, vec_set1(-1.453152027f));
    p = vec_fma(p, t, vec_set1(1.421413741f));
    p = vec_fma(p, t, vec_set1(-0.284496736f));
    p = vec_mul(vec_fma(p, t, vec_set1(0.254829592f)), t);
    p = vec_mul(p, vec_exp(vec_mul(vec_mul(size, size), vec_set1(-0.5f))));
    return vec_fnma(vec_mul(size, vec_set1(0.5f)), p, vec_select(vec_less(vec_zero(), a), a, vec_zero()));
}

LUTRA_INLINE vec geglu_of(vec a, vec b)
{
    return vec_mul(gelu_of(a), b);
}

LUTRA_INLINE vec relu2_of(vec a, vec b)
{
    vec m = vec_max(a, vec_zero());
    return vec_mul(vec_mul(m, m), b);
}

/* min(a, 7); a NaN stays one. */
LUTRA_INLINE vec below_7(vec a)
{
    return vec_sub(vec_zero(), vec_max(vec_set1(-7), vec_sub(vec_zero(), a)));
}

LUTRA_INLINE vec swiglu_oai_of(vec a, vec b)
{
    vec g = below_7(a), u = vec_max(vec_set1(-7), below_7(b));
    return vec_mul(vec_gate(g, vec_mul(g, vec_set1(1.702f))), vec_add(u, vec_set1(1)));
}

LUTRA_INLINE vec add_of(vec a, vec b)
{
    return vec_add(a, b);
}

LUTRA_INLINE void each(vec (*f)(vec a, vec b), const float *a, const float *b, size_t n, float *out)
{
    size_t i = 0;
    for (; i + VEC <= n; i += VEC) vec_store(out + i, f(vec_load(a + i), vec_load(b + i)));
    if (i < n) {
        vec y = f(vec_load_part(a + i, tail_of(n)), vec_load_part(b + i, tail_of(n)));
        vec_store_part(out + i, y, tail_of(n));
    }
}

static void swiglu(const float *a, const float *b, size_t n, float *out)
{
    each(swiglu_of, a, b, n, out);
}

static void geglu(const float *a, const float *b, size_t n, float *out)
{
    each(geglu_of, a, b, n, out);
}

static void relu2(const float *a, const float *b, size_t n, float *out)
{
    each(relu2_of, a, b, n, out);
}

static void swiglu_oai(const float *a, const float *b, size_t n, float *out)
{
    each(swiglu_oai_of, a, b, n, out);
}

static void add(const float *a, const float *b, size_t n, float *out)
{
    each(add_of, a, b, n, out);
}

LUTRA_INLINE vec mul_of(vec a, vec b)
{
    return vec_mul(a, b);
}

LUTRA_INLINE vec gate_of(vec a, vec b)
{
    return vec_gate(b, a);
}

static void mul(const float *a, const float *b, size_t n, float *out)
{
    each(mul_of, a, b, n, out);
}

static void gate(const float *a, const float *b, size_t n, float *out)
{
    each(gate_of, a, b, n, out);
}

static void gelu(const float *x, size_t n, float *out)
{
    size_t i = 0;
    for (; i + VEC <= n; i += VEC) vec_store(out + i, gelu_of(vec_load(x + i)));
    if (i < n) vec_store_part(out + i, gelu_of(vec_load_part(x + i, tail_of(n))), tail_of(n));
}

static void gelu_erf(const float *x, size_t n, float *out)
{
    size_t i = 0;
    for (; i + VEC <= n; i += VEC) vec_store(out + i, gelu_erf_of(vec_load(x + i)));
    if (i < n) vec_store_part(out + i, gelu_erf_of(vec_load_part(x + i, tail_of(n))), tail_of(n));
}

static void add_scaled(const float *a, const float *b, float scale, size_t n, float *out)
{
    vec s = vec_set1(scale);
    size_t i = 0;
    for (; i + VEC <= n; i += VEC) vec_store(out + i, vec_fma(vec_load(b + i), s, vec_load(a + i)));
    if (i < n) {
        vec y = vec_fma(vec_load_part(b + i, tail_of(n)), s, vec_load_part(a + i, tail_of(n)));
        vec_store_part(out + i, y, tail_of(n));
    }
}

/* ---- recurrent layers ---- */

LUTRA_INLINE vec load_lanes(const float *p, int lanes)
{
    return lanes == VEC ? vec_load(p) : vec_load_part(p, lanes);
}

LUTRA_INLINE vec conv_of(const struct op_conv *op, const float *const *x, size_t n, size_t i, int lanes)
{
    vec sum = op->bias ? load_lanes(op->bias + i, lanes) : vec_zero();
    for (int j = 0; j < op->n_tap; j++)
        sum = vec_fma(load_lanes(op->weight + (size_t)j * n + i, lanes), load_lanes(x[j] + i, lanes), sum);
    return op->silu ? vec_gate(sum, sum) : sum;
}

static void conv(const struct op_conv *op, const float *const *x, size_t n, float *out)
{
    size_t i = 0;
    for (; i + VEC <= n; i += VEC) vec_store(out + i, conv_of(op, x, n, i, VEC));
    if (i < n) vec_store_part(out + i, conv_of(op, x, n, i, tail_of(n)), tail_of(n));
}

/* Sums as in rms_norm; n is a multiple of DELTA_TILE. */
static void l2_norm(const float *x, size_t n, float eps, float scale, float *out)
{
    vec sum[2] = {vec_zero(), vec_zero()};
    for (size_t i = 0, v = 0; i < n; i += VEC, v ^= 1) {
        vec a = vec_load(x + i);
        sum[v] = vec_fma(a, a, sum[v]);
    }
    double squares = vec_sum_double(sum[0]) + vec_sum_double(sum[1]);
    vec by = vec_set1((float)((double)scale / sqrt(squares + (double)eps)));
    for (size_t i = 0; i < n; i += VEC) vec_store(out + i, vec_mul(vec_load(x + i), by));
}

/* Four sums over rows i, i + 4, ... each, added up as (0 + 1) + (2 + 3): the same for every width of vectors. */
static void delta_step(
    float *state, int d_k, const float *k, const float *q, const float *v, float decay, float step, float *out)
{
    vec by = vec_set1(decay);
    for (int c = 0; c < DELTA_TILE; c += VEC) {
        float *s = state + c;
        vec sum[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()}, all;
        for (int i = 0; i < d_k; i += 4)
            for (int a = 0; a < 4; a++)
                sum[a] = vec_fma(vec_load(s + (i + a) * DELTA_TILE), vec_set1(k[i + a]), sum[a]);
        all = vec_add(vec_add(sum[0], sum[1]), vec_add(sum[2], sum[3]));
        vec more = vec_mul(vec_set1(step), vec_fnma(by, all, vec_load(v + c)));
        for (int a = 0; a < 4; a++) sum[a] = vec_zero();
        for (int i = 0; i < d_k; i += 4)
            for (int a = 0; a < 4; a++) {
                vec next = vec_fma(vec_set1(k[i + a]), more, vec_mul(vec_load(s + (i + a) * DELTA_TILE), by));
                vec_store(s + (i + a) * DELTA_TILE, next);
                sum[a] = vec_fma(next, vec_set1(q[i + a]), sum[a]);
            }
        vec_store(out + c, vec_add(vec_add(sum[0], sum[1]), vec_add(sum[2], sum[3])));
    }
}

/* ---- half floats ---- */

static void to_f16(const float *x, size_t n, uint16_t *out)
{
    size_t i = 0;
    for (; i + VEC <= n; i += VEC) vec_store_f16(out + i, vec_load(x + i));
    if (i < n) {
        uint16_t part[VEC];
        vec_store_f16(part, vec_load_part(x + i, tail_of(n)));
        memcpy(out + i, part, (n - i) * sizeof *part);
    }
}

static void to_f32(const uint16_t *x, size_t n, float *out)
{
    size_t i = 0;
    for (; i + VEC <= n; i += VEC) vec_store(out + i, vec_load_f16(x + i));
    if (i < n) vec_store_part(out + i, vec_load_f16_part(x + i, tail_of(n)), tail_of(n));
}

/* ---- logits ---- */

/* NaN is passed over. */
static float max_row(const float *x, size_t n)
{
    vec low = vec_set1(-INFINITY), max[4] = {low, low, low, low};
    size_t i = 0;
    for (; i + 4 * VEC <= n; i += 4 * VEC) {
        for (int v = 0; v < 4; v++) max[v] = vec_max(vec_load(x + i + (size_t)v * VEC), max[v]);
    }
    for (; i + VEC <= n; i += VEC) max[0] = vec_max(vec_load(x + i), max[0]);
    if (i < n) {
        vec a = vec_select(vec_lanes(0, tail_of(n)), vec_load_part(x + i, tail_of(n)), low);
        max[0] = vec_max(a, max[0]);
    }
    return vec_largest(vec_max(vec_max(max[0], max[1]), vec_max(max[2], max[3])));
}

/* f32 lanes over runs of 64 vectors, the runs in double. */
static double sum_exp(const float *x, size_t n, float max)
{
    enum { RUN = 64 * VEC };
    double total = 0;
    vec top = vec_set1(max);
    for (size_t first = 0; first < n; first += RUN) {
        size_t i = first, end = n - first < RUN ? n : first + RUN;
        vec sum = vec_zero();
        for (; i + VEC <= end; i += VEC) sum = vec_add(sum, vec_exp(vec_sub(vec_load(x + i), top)));
        if (i < end) {
            vec e = vec_exp(vec_sub(vec_load_part(x + i, tail_of(n)), top));
            sum = vec_add(sum, vec_select(vec_lanes(0, tail_of(n)), e, vec_zero()));
        }
        total += vec_sum_double(sum);
    }
    return total;
}

#endif
