/* SPDX-License-Identifier: MIT
 *
 * How much TCM a model's operations take at most: the plans that the NPU makes, made here beforehand.
 */
#include "npu/host/device_impl.h"
#include "npu/wire/planes.h"

static uint32_t of_product(const struct npu_machine *m, const struct packed *w, uint32_t n, int n_row)
{
    struct npu_weights part;
    struct npu_gemm_plan plan;
    struct npu_lookup_plan lookup;
    if (npu_weights_layout(w->layout.kind, w->layout.k, n < w->layout.n ? n : w->layout.n, &part)) return 0;
    uint32_t most = npu_gemm_plan(&part, (uint32_t)n_row, m->tcm_kept, m->tcm_bytes, &plan) ? 0 : plan.bytes;
    if (!w->lookup_rows || npu_lookup_plan(&part, w->lookup_rows, m, &lookup)) return most;
    return lookup.bytes > most ? lookup.bytes : most;
}

static uint32_t of_attention(const struct npu_machine *m, uint32_t d_head)
{
    uint32_t area, n = npu_attention_threads(d_head, m, &area);
    return n ? m->tcm_kept + n * area : 0;
}

static uint32_t of_scratch(const struct npu_machine *m, uint64_t bytes)
{
    struct npu_scratch_plan plan;
    return npu_scratch_plan(bytes, m, &plan) ? 0 : plan.bytes;
}

static uint32_t of_op(const struct npu_device *d, const struct op_list *list, const struct op *op)
{
    const struct npu_machine *m = &d->window[0].link->machine;
    uint32_t most = 0;
    for (int i = 0; i < op->n_weight; i++)
        if (!npu_packed_of(d, op->weight[i])) return 0; /* another device's */
    switch (op->kind) {
    case OP_MATMUL:
        for (int i = 0; i < op->n_weight; i++) {
            uint32_t bytes = of_product(m, npu_packed_of(d, op->weight[i]), UINT32_MAX, d->most.max_rows);
            most = bytes > most ? bytes : most;
        }
        return most;
    case OP_HEAD: return of_product(m, npu_packed_of(d, op->weight[0]), NPU_HEAD_SLICE, d->most.max_out);
    case OP_EMBED: return of_scratch(m, npu_embed_scratch(&npu_packed_of(d, op->weight[0])->layout));
    case OP_ROPE: return of_scratch(m, npu_machine_threads(m) * npu_rope_scratch((uint32_t)list->value[op->in[0]].dim));
    case OP_ATTENTION: return of_attention(m, (uint32_t)op->attention.d_head);
    default: return 0;
    }
}

void npu_tcm_note(struct npu_device *d, const struct op_list *list)
{
    for (int i = 0; i < list->n_op; i++) {
        if (d->base.ops->supports(&d->base, list, &list->op[i], NULL) < 0) continue;
        uint32_t bytes = of_op(d, list, &list->op[i]);
        if (bytes <= d->tcm.bytes) continue;
        d->tcm.bytes = bytes, d->tcm.kind = list->op[i].kind, d->tcm.layer = list->op[i].layer;
    }
}
