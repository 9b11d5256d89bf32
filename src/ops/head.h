/* SPDX-License-Identifier: MIT
 *
 * OP_HEAD cut between devices: each computes a range of the outputs and leaves what is merged into the results.
 *
 *     pass.head = &parts;                     room for the wanted rows
 *     ... every share runs as a segment ...   (segment.share, segment.place)
 *     head_merge(&pass, op, n_share);
 *
 * The log-sum-exp of a row is a sum over units of HEAD_OUTPUTS outputs, in ascending order; its best outputs are
 * ordered totally, by logit and then by lower id.  So the bits are those of one device that computes all units,
 * whatever the shares are: merging adds the same numbers in the same order.
 */
#ifndef LUTRA_OPS_HEAD_H
#define LUTRA_OPS_HEAD_H

#include "ops/device.h"

enum { HEAD_OUTPUTS = 1024, HEAD_SHARES = 8 };

/* Of one row and one unit. */
struct head_part {
    double sum; /* of exp(logit - max) */
    float max;
};

/* Of one row and one share: its best outputs, best first, ties by lower id. */
struct head_top {
    int n;
    int32_t id[ROW_TOPK];
    float logit[ROW_TOPK];
};

struct head_parts {
    struct head_part *part; /* [rows][head_units(outputs)] */
    struct head_top *top;   /* [rows][HEAD_SHARES], by segment.place */
};

static inline int64_t head_units(int64_t n_out)
{
    return (n_out + HEAD_OUTPUTS - 1) / HEAD_OUTPUTS;
}

/* Units first .. first + n - 1 of a share. */
static inline struct columns head_share(struct share p, int64_t n_out)
{
    if (share_is_whole(p)) return (struct columns){0, head_units(n_out)};
    int64_t first = share_at(n_out, p.from) / HEAD_OUTPUTS;
    int64_t end = p.to >= SHARE_WHOLE ? head_units(n_out) : share_at(n_out, p.to) / HEAD_OUTPUTS;
    return (struct columns){first, end - first};
}

/* log(sum(exp(logits))) from all units of a row; NaN when a logit is. */
float head_log_sum_exp(const struct head_part *part, int64_t n_part);

/* Whether an output belongs before another one that has a higher id. */
static inline bool head_is_worse(float logit, int32_t id, float than, int32_t than_id)
{
    return logit < than || (logit == than && id > than_id);
}

/* Fills log_sum_exp and the best outputs of every wanted row from what n_share shares, places 0 .. n_share - 1, have
 * left in pass->head; the logits, listed logits and hidden states are there already. */
void head_merge(const struct pass_args *pass, const struct op *op, int n_share);

#endif
