/* SPDX-License-Identifier: MIT
 *
 * What OP_HEAD reports of a row of logits.
 */
#include "ops/ref/ref.h"

#include <math.h>

#include "ops/batch.h"

void ref_softcap(float *logits, int n, float cap)
{
    for (int i = 0; i < n; i++) logits[i] = (float)(cap * tanh((double)logits[i] / cap));
}

float ref_log_sum_exp(const float *logits, int n)
{
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) {
        if (logits[i] > max) max = logits[i];
    }
    if (isinf(max)) max = 0; /* the sum shows what there is: 0, infinity or NaN */
    for (int i = 0; i < n; i++) sum += exp(logits[i] - max);
    return (float)(max + log(sum));
}

int ref_top_k(const float *logits, const uint64_t *allow, int n, int k, int32_t *id, float *logit)
{
    int n_top = 0;
    for (int32_t i = 0; i < n; i++) {
        float x = isnan(logits[i]) ? -INFINITY : logits[i];
        if (allow && !(allow[i / 64] >> i % 64 & 1)) continue;
        if (n_top == k && !(x > logit[k - 1])) continue;
        /* Insertion from the end; an equal one that came earlier has the lower id and stays in front. */
        int at = n_top < k ? n_top++ : k - 1;
        for (; at > 0 && x > logit[at - 1]; at--) {
            id[at] = id[at - 1];
            logit[at] = logit[at - 1];
        }
        id[at] = i;
        logit[at] = x;
    }
    return n_top;
}

void ref_head_result(const float *logits, int n_vocab, const struct row *row, struct row_result *result)
{
    if (row->want & (WANT_TOPK | WANT_LOGPROB)) result->log_sum_exp = ref_log_sum_exp(logits, n_vocab);
    for (int i = 0; row->want & WANT_LOGPROB && i < row->n_listed; i++)
        result->listed_logit[i] = logits[row->listed[i]];
    if (row->want & WANT_TOPK)
        result->n_top = ref_top_k(logits, row->allow, n_vocab, ROW_TOPK, result->top_id, result->top_logit);
}
