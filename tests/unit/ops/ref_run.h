/* SPDX-License-Identifier: MIT
 *
 * Operations of a list run by the reference, one after the other, on a pass's values: what every device has to leave.
 */
#ifndef TESTS_REF_RUN_H
#define TESTS_REF_RUN_H

#include <stdlib.h>
#include <string.h>

#include "ops/device.h"
#include "ops/ref/ref.h"

enum { REF_POSITIONS = 8192 }; /* that a row sees, with room for two heads */

static inline float *value_row(const struct op_list *list, const struct pass_args *pass, int value, int row)
{
    return (float *)pass->value[value].host + (size_t)row * (size_t)list->value[value].dim;
}

static inline void ref_run_head(const struct op_list *list, const struct op *op, const struct pass_args *pass)
{
    int dim = list->value[op->in[0]].dim;
    float *logits = malloc(sizeof *logits * (size_t)list->n_vocab);
    for (int i = 0; i < pass->n_out; i++) {
        struct row_result *result = &pass->result[i];
        const struct row *row = &pass->batch->row[pass->out_row[i]];
        const float *x = value_row(list, pass, op->in[0], i);
        ref_matmul(&op->weight[0]->tensor, NULL, x, logits, 1);
        if (op->head.softcap != 0) ref_softcap(logits, list->n_vocab, op->head.softcap);
        if (row->want & WANT_HIDDEN)
            memcpy(result->hidden, value_row(list, pass, op->in[1], i), sizeof *x * (size_t)dim);
        if (row->want & WANT_LOGITS) memcpy(result->logits, logits, sizeof *logits * (size_t)list->n_vocab);
        ref_head_result(logits, list->n_vocab, row, result);
    }
    free(logits);
}

/* One row of an operation that is no head. */
static inline void ref_run_row(const struct op_list *list, const struct op *op, const struct pass_args *pass, int r)
{
    const float *a = op->n_in ? value_row(list, pass, op->in[0], op->kind == OP_TAKE ? pass->out_row[r] : r) : NULL;
    const float *b = op->n_in > 1 ? value_row(list, pass, op->in[1], r) : NULL;
    float *out = op->n_out ? value_row(list, pass, op->out[0], r) : NULL;
    int n = list->value[op->n_in ? op->in[0] : op->out[0]].dim;
    const struct row *row = &pass->batch->row[r];
    double scratch[REF_POSITIONS];
    switch (op->kind) {
    case OP_EMBED:
        ref_embed_part(
            &op->weight[0]->tensor, ref_embed_index(op->embed.by, row), op->embed.first, n, op->embed.scale, out);
        break;
    case OP_SCALE: ref_scale(a, op->scale.by, out, n); break;
    case OP_RMS_NORM: ref_rms_norm(a, op->norm.weight, op->norm.eps, out, n, op->norm.n_norm); break;
    case OP_LAYER_NORM: ref_layer_norm(a, op->norm.weight, op->norm.bias, op->norm.eps, out, n, op->norm.n_norm); break;
    case OP_GELU: ref_gelu(a, out, n); break;
    case OP_GELU_ERF: ref_gelu_erf(a, out, n); break;
    case OP_ADD_SCALED: ref_add_scaled(a, b, op->add.scale, out, n); break;
    case OP_MATMUL:
        for (int i = 0; i < op->n_weight; i++)
            ref_matmul(&op->weight[i]->tensor, op->matmul.bias[i], a, value_row(list, pass, op->out[i], r), 1);
        break;
    case OP_EXPERTS:
        for (int i = 0; i < op->n_weight; i++) ref_experts(op, i, a, b, value_row(list, pass, op->out[i], r));
        break;
    case OP_ROUTE: ref_route(&op->route, a, out); break;
    case OP_COMBINE: ref_combine(a, b, op->combine.n_used, list->value[op->out[0]].dim, out); break;
    case OP_SWIGLU_OAI: ref_swiglu_oai(a, b, out, n); break;
    case OP_ROPE:
        memmove(out, a, sizeof *a * (size_t)n);
        ref_rope(&op->rope, row->pos, out);
        break;
    case OP_KV_APPEND: ref_kv_append(pass->kv, op->layer, r, a, b); break;
    case OP_ATTENTION: ref_attention(pass->kv, op->layer, &op->attention, r, a, out, scratch); break;
    case OP_SWIGLU: ref_swiglu(a, b, out, n); break;
    case OP_GEGLU: ref_geglu(a, b, out, n); break;
    case OP_RELU2: ref_relu2(a, b, out, n); break;
    case OP_ADD: ref_add(a, b, out, n); break;
    case OP_PERMUTE: ref_permute(a, op->permute.order, out, list->value[op->out[0]].dim); break;
    case OP_MUL: ref_mul(a, b, out, n); break;
    case OP_GATE: ref_gate(a, n, b, out, list->value[op->out[0]].dim); break;
    default: memmove(out, a, sizeof *a * (size_t)n); break; /* take */
    }
}

static inline void ref_run(const struct op_list *list, int first, int n, const struct pass_args *pass)
{
    for (const struct op *op = list->op + first; op < list->op + first + n; op++) {
        int value = op->n_out ? op->out[0] : op->in[0];
        int rows = list->value[value].rows == ROWS_OUT ? pass->n_out : pass->batch->n_row;
        if (op_info_of(op->kind)->recurrent) {
            float *all[VALUE_MAX];
            for (int v = 0; v < list->n_value; v++) all[v] = pass->value[v].host;
            float *scratch = malloc(sizeof *scratch * ref_recurrent_floats(list, op, pass->kv->n_draft));
            ref_recurrent(list, op, pass->kv, all, scratch);
            free(scratch);
            continue;
        }
        if (op->kind == OP_HEAD) ref_run_head(list, op, pass);
        for (int r = 0; op->kind != OP_HEAD && r < rows; r++) ref_run_row(list, op, pass, r);
    }
}

#endif
