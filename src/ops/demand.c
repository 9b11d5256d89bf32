/* SPDX-License-Identifier: MIT
 *
 * Bytes and multiplications of operations, counted from their operands: added up once per list, multiplied out per
 * pass.
 */
#include "ops/device.h"

#include <math.h>

void demand_add(struct demand_rates *rates, const struct op_list *list, const struct op *op)
{
    const struct op_info *info = op_info_of(op->kind);
    enum value_rows rows = list->value[op->n_in ? op->in[0] : op->out[0]].rows;
    struct demand *of = &rates->rows[rows];
    const struct op_experts *e = op->kind == OP_EXPERTS ? &op->matmul.experts : NULL;
    for (int i = 0; i < op->n_weight && info->use & WEIGHT_MATMUL; i++) {
        const struct weight *w = op->weight[i];
        uint64_t bytes = weight_bytes(w);
        uint64_t mac = (uint64_t)w->tensor.ne[0] * (uint64_t)w->tensor.ne[1];
        *(e ? &rates->expert_bytes[rows] : &of->weight_bytes) += bytes;
        of->mac += e ? mac / (uint64_t)e->n_expert * (uint64_t)e->n_used : mac;
        if (e) rates->expert_share = (double)e->n_used / e->n_expert;
    }
    if (info->recurrent) of->mac += 3 * op_share_of(list, op).state_bytes / sizeof(float); /* read, written, read */
    if (!info->reads_cache) return;
    /* Two dot products with every position; of two windows, the second is counted as none. */
    const struct op_attention *a = &op->attention;
    bool swa = a->window > 0 && (rates->window == 0 || rates->window == a->window);
    if (swa) rates->window = a->window;
    *(swa ? &rates->swa_mac : &rates->seen_mac) += 2 * (uint64_t)a->n_head * (uint64_t)a->d_head;
}

/* The part of all experts' bytes that n rows read if each chooses for itself, all experts equally often. */
static uint64_t expected_bytes(const struct demand_rates *rates, enum value_rows rows, uint64_t n)
{
    if (!n || !rates->expert_bytes[rows]) return 0;
    return (uint64_t)((double)rates->expert_bytes[rows] * (1 - pow(1 - rates->expert_share, (double)n)));
}

void demand_of(const struct demand_rates *rates, const struct pass_args *pass, struct demand *out)
{
    const struct demand *all = &rates->rows[ROWS_ALL], *wanted = &rates->rows[ROWS_OUT];
    uint64_t n_row = (uint64_t)pass->batch->n_row, n_out = (uint64_t)pass->n_out, seen = 0, swa = 0;
    for (uint64_t r = 0; r < n_row; r++) {
        int32_t first, end;
        kv_row_sees(&pass->kv->row[r], rates->window, &first, &end);
        seen += (uint64_t)(pass->kv->row[r].n_paged + pass->kv->row[r].n_path);
        swa += (uint64_t)(end - first);
    }
    out->weight_bytes = (n_row ? all->weight_bytes : 0) + (n_out ? wanted->weight_bytes : 0) +
                        expected_bytes(rates, ROWS_ALL, n_row) + expected_bytes(rates, ROWS_OUT, n_out);
    out->mac = all->mac * n_row + wanted->mac * n_out + rates->seen_mac * seen + rates->swa_mac * swa;
}
