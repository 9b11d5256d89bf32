/* SPDX-License-Identifier: MIT
 *
 * OP_HEAD's results, taken on the host from the logits that the GPU left.
 */
#include <string.h>

#include "gpu/device_impl.h"
#include "ops/ref/ref.h"

static void deliver_row(const struct gpu_device *d, int i)
{
    const struct gpu_head *h = &d->head;
    struct row_result *result = &h->pass->result[i];
    const struct row *row = &h->pass->batch->row[h->pass->out_row[i]];
    size_t n = (size_t)h->n_vocab;
    float *logits = (float *)(void *)d->logits.mapped + (size_t)i * n;
    if (row->want & WANT_HIDDEN)
        memcpy(result->hidden, d->hidden.mapped + (size_t)i * h->hidden_dim * sizeof(float),
            h->hidden_dim * sizeof(float));
    if (!(row->want & (WANT_LOGITS | WANT_TOPK | WANT_LOGPROB))) return;
    for (size_t k = 0; h->op->head.scale != 0 && k < n; k++) logits[k] *= h->op->head.scale;
    if (h->op->head.softcap != 0) ref_softcap(logits, (int)n, h->op->head.softcap);
    if (row->want & WANT_LOGITS) memcpy(result->logits, logits, n * sizeof *logits);
    ref_head_result(logits, (int)n, row, result);
}

void gpu_head_deliver(struct gpu_device *d)
{
    for (int i = 0; d->head.op && i < d->head.pass->n_out; i++) deliver_row(d, i);
    d->head.op = NULL;
}
