/* SPDX-License-Identifier: MIT
 *
 * The sampler chain written the slow, obvious way, in double: copy, change, sort everything, cut, normalise.
 */
#ifndef LUTRA_TESTS_DECODE_REFERENCE_H
#define LUTRA_TESTS_DECODE_REFERENCE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decode/sample/sampler.h"

struct ref_cand {
    int id;
    double logit, p;
};

struct ref_dist {
    struct ref_cand *cand;
    int n;
    double edge; /* how close top-p came to cutting elsewhere: |cumulative - p| at the nearest of both ends */
};

static int ref_order(const void *a, const void *b)
{
    const struct ref_cand *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id - y->id;
}

static void ref_normalise(struct ref_dist *d, double temperature)
{
    double sum = 0;
    for (int i = 0; i < d->n; i++) sum += exp((d->cand[i].logit - d->cand[0].logit) / temperature);
    for (int i = 0; i < d->n; i++) d->cand[i].p = exp((d->cand[i].logit - d->cand[0].logit) / temperature) / sum;
}

/* Changed logits are f32 by definition: ties that rounding makes are ties. */
static void ref_change(
    struct ref_dist *d, const struct sample_settings *set, const int32_t *history, int n_history, int n_vocab)
{
    int look = set->penalty_last_n < 0 || set->penalty_last_n > n_history ? n_history : set->penalty_last_n;
    for (int t = 0; t < n_vocab; t++) {
        int count = 0;
        float x = (float)d->cand[t].logit;
        for (int i = 0; i < set->n_bias; i++)
            if (set->bias[i].token == t) x += set->bias[i].bias;
        for (int i = n_history - look; i < n_history; i++) count += history[i] == t;
        if (count) {
            x = x <= 0 ? x * set->repeat_penalty : x / set->repeat_penalty;
            x -= (float)count * set->frequency_penalty + set->presence_penalty;
        }
        d->cand[t].logit = (double)x;
    }
}

/* The final distribution, best first.  cand has room for n_vocab entries. */
static struct ref_dist ref_distribution(const struct sample_settings *set, const float *logits, int n_vocab,
    const int32_t *history, int n_history, struct ref_cand *cand)
{
    struct ref_dist d = {cand, n_vocab, 1};
    for (int i = 0; i < n_vocab; i++) cand[i] = (struct ref_cand){i, (double)logits[i], 0};
    ref_change(&d, set, history, n_history, n_vocab);
    qsort(cand, (size_t)n_vocab, sizeof *cand, ref_order);
    while (d.n > 0 && cand[d.n - 1].logit == -INFINITY) d.n--;
    if (set->top_k > 0 && set->top_k < d.n) d.n = set->top_k;
    ref_normalise(&d, 1);
    if (set->top_p < 1) {
        double sum = 0;
        for (int i = 0; i < d.n; i++) {
            sum += cand[i].p;
            double gap = fabs(sum - (double)set->top_p);
            if (gap < d.edge) d.edge = gap;
            if (sum >= (double)set->top_p) d.n = i + 1;
        }
    }
    if (set->min_p > 0) {
        double floor = cand[0].logit + log((double)set->min_p);
        int keep = 1;
        while (keep < d.n && cand[keep].logit >= floor) keep++;
        if (keep < d.n && fabs(cand[keep].logit - floor) < d.edge) d.edge = fabs(cand[keep].logit - floor);
        if (fabs(cand[keep - 1].logit - floor) < d.edge) d.edge = fabs(cand[keep - 1].logit - floor);
        d.n = keep;
    }
    ref_normalise(&d, (double)set->temperature);
    return d;
}

#endif
