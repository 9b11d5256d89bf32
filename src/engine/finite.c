/* SPDX-License-Identifier: MIT
 *
 * Results that are no numbers: a score made of them would look like one.  The error names the position and, where the
 * model's file has a value that is no number, the tensor it is in.
 */
#include <math.h>

#include "engine/session_impl.h"

static bool all_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

static bool is_number(const lutra_session *s, const struct row_result *r)
{
    const struct op_list *list = model_ops(s->model->model);
    uint32_t want = s->batch.row[r->row].want;
    if ((want & (WANT_TOPK | WANT_LOGPROB)) && !isfinite(r->log_sum_exp)) return false;
    if ((want & WANT_LOGPROB) && !isfinite(r->listed_logit[0])) return false;
    if (want & WANT_LOGITS)
        for (int i = 0; i < list->n_vocab; i++)
            if (isnan(r->logits[i]) || r->logits[i] == INFINITY) return false; /* -inf: a token that cannot come */
    return !(want & WANT_HIDDEN) || all_finite(r->hidden, (size_t)model_hparams(s->model->model)->d_model);
}

int session_check_numbers(const lutra_session *s, struct lutra_error *err)
{
    for (int i = 0; i < s->n_result; i++) {
        if (is_number(s, &s->result[i])) continue;
        const struct row *row = &s->batch.row[s->result[i].row];
        const char *name = weights_not_finite(s->model->weights);
        return lutra_fail_at(err, LUTRA_E_INTERNAL, (uint64_t)row->pos,
            "%s: what the model predicts at position %d is not a number%s%s%s", weights_path(s->model->weights),
            row->pos, name ? "; the tensor '" : "", name ? name : "", name ? "' holds NaN or infinity" : "");
    }
    return 0;
}
