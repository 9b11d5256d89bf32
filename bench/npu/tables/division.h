/* SPDX-License-Identifier: MIT
 *
 * What a step of a model is made of and how the executor divides it: division.c and ops.c.  Pure functions over the
 * executor's own (npu/wire/layout.h); tests/npu_cost/test_division.c compares them with what the emulator and a device
 * do.
 */
#ifndef LUTRA_NPU_TABLES_DIVISION_H
#define LUTRA_NPU_TABLES_DIVISION_H

#include "cost.h"

/* How the executor divides an operation (npu/wire/layout.h: its own functions), with all of 8 MiB of TCM: the work's
 * parts, stages and meets.  kv_heads: of attention, whose keys are those of the work; else 0. */
struct npu_op;
void npu_divide(const struct npu_op *op, int keys, int kv_heads, int heads, struct npu_work *work);
uint32_t npu_kind_of(const char *name); /* enum npu_weight_kind; 0: none */

/* A model as far as its cost goes.  Weights: of the layers, of ffn_down, of the head (and the embedding). */
struct npu_model {
    const char *name, *weights, *down, *head;
    int n_layer, d_model, d_ff, n_head, n_kv_head, d_head, n_vocab;
    int tied; /* the head is the embedding */
};
extern const struct npu_model npu_models[];
enum { NPU_PAPER_MODELS = 5, NPU_MODELS = 11 };

/* A step's operations as the device sends them, n of each; without those that only keep memory coherent. */
struct npu_step_op {
    uint32_t code, kind;
    int m, k, n; /* as in struct npu_op */
    int param;   /* of a rotation: its period */
    int times;
};
enum { NPU_STEP_OPS_MAX = 32 };
/* out [NPU_STEP_OPS_MAX]; how many.  rows of the step, of which the head takes n_out. */
int npu_step_ops(const struct npu_model *m, int rows, int n_out, struct npu_step_op *out);
int npu_step_messages(const struct npu_model *m); /* of NPU_RUN_OPS operations */

#endif
