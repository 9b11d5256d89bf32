/* SPDX-License-Identifier: MIT
 *
 * What an operation asks of whoever runs it, counted from its operands.
 */
#include <string.h>

#include "ops/device.h"

static uint64_t rows_of(const struct op_list *list, const struct step *step, int value)
{
    return (uint64_t)(list->value[value].rows == ROWS_OUT ? step->n_out : step->batch->n_row);
}

static void add_product(const struct weight *w, uint64_t n_row, struct demand *out)
{
    uint64_t n_in = (uint64_t)w->tensor.ne[0], n_out = (uint64_t)w->tensor.ne[1];
    out->weight_bytes += w->packed_bytes ? w->packed_bytes : w->tensor.bytes;
    out->act_bytes += n_row * (n_in + n_out) * sizeof(float);
    out->mac += n_in * n_out * n_row;
}

/* Each block once, and two dot products with every position that a row sees. */
static void add_attention(const struct op *op, const struct step *step, struct demand *out)
{
    const struct kv_view *kv = step->kv;
    uint64_t vectors = 0;
    for (int r = 0; r < step->batch->n_row; r++) vectors += (uint64_t)kv->row[r].n_paged + (uint64_t)kv->row[r].n_path;
    out->cache_bytes += (uint64_t)kv->n_item * 2 * kv->layer[op->layer].side_bytes;
    out->mac += vectors * 2 * (uint64_t)op->attention.n_head * (uint64_t)op->attention.d_head;
}

void op_demand(const struct op_list *list, const struct op *op, const struct step *step, struct demand *out)
{
    const struct op_info *info = op_info_of(op->kind);
    memset(out, 0, sizeof *out);
    uint64_t n_row = rows_of(list, step, op->n_in ? op->in[0] : op->out[0]);
    if (!n_row) return;
    for (int i = 0; i < op->n_weight && info->use & WEIGHT_MATMUL; i++) add_product(op->weight[i], n_row, out);
    if (info->use & WEIGHT_GATHER) out->act_bytes = n_row * (uint64_t)op->weight[0]->tensor.ne[0] * sizeof(float);
    if (info->reads_cache) add_attention(op, step, out);
}
