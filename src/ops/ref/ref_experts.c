/* SPDX-License-Identifier: MIT
 *
 * Mixtures of experts: which experts a row goes to, their matrices, and the sum of what they say.
 */
#include "ops/ref/ref.h"

#include <math.h>

/* Whether expert a comes before b: the larger one, of equal ones that with the lower id.  NaN is the smallest. */
static bool beats(const struct op_route *p, const float *scores, int a, int b)
{
    double x = scores[a], y = scores[b];
    if (p->score == ROUTE_SIGMOID && p->bias) x = 1 / (1 + exp(-x)), y = 1 / (1 + exp(-y));
    if (p->bias) x += p->bias[a], y += p->bias[b];
    if (isnan(x) || isnan(y)) return isnan(y) && (!isnan(x) || a < b);
    return x > y || (x == y && a < b);
}

/* Ids of the n_used best: kept in the order of their ranks while experts are looked at, ascending in the end. */
static void choose(const struct op_route *p, const float *scores, float *id)
{
    int n = 0;
    for (int e = 0; e < p->n_expert; e++) {
        if (n == p->n_used && !beats(p, scores, e, (int)id[n - 1])) continue;
        int at = n < p->n_used ? n++ : n - 1;
        for (; at > 0 && beats(p, scores, e, (int)id[at - 1]); at--) id[at] = id[at - 1];
        id[at] = (float)e;
    }
    for (int i = 1; i < n; i++) {
        float moved = id[i];
        int at = i;
        for (; at > 0 && id[at - 1] > moved; at--) id[at] = id[at - 1];
        id[at] = moved;
    }
}

/* exp(score - max) summed over all experts, or the chosen ones. */
static double sum_of(const struct op_route *p, const float *scores, const float *id, double *max)
{
    int n = p->score == ROUTE_SOFTMAX ? p->n_expert : p->n_used;
    double sum = 0;
    *max = -INFINITY;
    for (int i = 0; i < n; i++) {
        double x = scores[p->score == ROUTE_SOFTMAX ? i : (int)id[i]];
        if (x > *max || isnan(x)) *max = x;
    }
    for (int i = 0; i < n; i++) sum += exp(scores[p->score == ROUTE_SOFTMAX ? i : (int)id[i]] - *max);
    return sum;
}

void ref_route(const struct op_route *p, const float *scores, float *out)
{
    float *weight = out + p->n_used;
    double max = 0, sum = 1, all = 0;
    choose(p, scores, out);
    if (p->score != ROUTE_SIGMOID) sum = sum_of(p, scores, out, &max);
    for (int j = 0; j < p->n_used; j++) {
        double x = scores[(int)out[j]];
        double w = p->score == ROUTE_SIGMOID ? 1 / (1 + exp(-x)) : exp(x - max) / sum;
        weight[j] = (float)w;
        all += w;
    }
    for (int j = 0; j < p->n_used; j++) weight[j] = (float)(weight[j] / (p->normalize ? all : 1) * p->scale);
    for (int j = 0; j < p->n_used && p->each; j++) weight[j] *= p->each[(int)out[j]];
}

void ref_experts(const struct op *op, int i, const float *x, const float *route, float *out)
{
    const struct op_experts *e = &op->matmul.experts;
    struct tensor one = op->weight[i]->tensor;
    const float *bias = op->matmul.bias[i];
    size_t bytes = one.bytes / (size_t)e->n_expert;
    const uint8_t *first = one.data;
    int64_t n_out = one.ne[1] / e->n_expert;
    one.ne[1] = n_out;
    one.bytes = bytes;
    for (int j = 0; j < e->n_used; j++) {
        int id = (int)route[j];
        one.data = first + (size_t)id * bytes;
        ref_matmul(&one, bias ? bias + id * n_out : NULL, x + (e->by_slot ? j * one.ne[0] : 0), out + j * n_out, 1);
    }
}

void ref_combine(const float *x, const float *route, int n_used, int n, float *out)
{
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < n_used; j++) sum += (double)route[n_used + j] * x[(size_t)j * (size_t)n + (size_t)i];
        out[i] = (float)sum;
    }
}
