/* SPDX-License-Identifier: MIT */
#include "ops/head.h"

#include <math.h>

float head_log_sum_exp(const struct head_part *part, int64_t n_part)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n_part; i++) {
        if (isnan(part[i].sum)) return NAN; /* a maximum passes NaN over, a sum does not */
        if (part[i].max > max) max = part[i].max;
    }
    if (isinf(max)) return (float)max;
    for (int64_t i = 0; i < n_part; i++) sum += part[i].sum * exp(part[i].max - max);
    return (float)(max + log(sum));
}

/* Takes the best of the lists' first entries until there are ROW_TOPK. */
static int merge_top(const struct head_top *list, int n_share, struct row_result *out)
{
    int at[HEAD_SHARES] = {0}, n = 0;
    while (n < ROW_TOPK) {
        int best = -1;
        for (int s = 0; s < n_share; s++) {
            if (at[s] == list[s].n) continue;
            if (best < 0 || head_is_worse(list[best].logit[at[best]], list[best].id[at[best]], list[s].logit[at[s]],
                                list[s].id[at[s]]))
                best = s;
        }
        if (best < 0) break;
        out->top_id[n] = list[best].id[at[best]];
        out->top_logit[n++] = list[best].logit[at[best]++];
    }
    return n;
}

void head_merge(const struct pass_args *pass, const struct op *op, int n_share)
{
    int64_t n_part = head_units(op->weight[0]->tensor.ne[1]);
    for (int r = 0; r < pass->n_out; r++) {
        uint32_t want = pass->batch->row[pass->out_row[r]].want;
        struct row_result *out = &pass->result[r];
        if (want & (WANT_TOPK | WANT_LOGPROB))
            out->log_sum_exp = head_log_sum_exp(pass->head->part + r * n_part, n_part);
        if (want & WANT_TOPK) out->n_top = merge_top(pass->head->top + r * HEAD_SHARES, n_share, out);
    }
}
