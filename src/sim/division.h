/* SPDX-License-Identifier: MIT
 *
 * What a pass of a model is made of and how the executor divides it: division.c and ops.c.  Pure functions over the
 * executor's own (npu/wire/layout.h); tests/npu_cost/test_division.c compares them with what the emulator and a device
 * do.
 */
#ifndef LUTRA_SIM_DIVISION_H
#define LUTRA_SIM_DIVISION_H

#include "npu/wire/message.h"
#include "sim/cost.h"

/* How the executor divides an operation (npu/wire/layout.h: its own functions), with all of 8 MiB of TCM: the work's
 * parts, stages and meets.  kv_heads: of attention, whose keys are those of the work; else 0. */
void npu_divide(const struct npu_op *op, int keys, int kv_heads, int heads, struct npu_work *work);
/* A product on tiles by a plan.  Parts of a chunk; a chunk is a stage.  Phases that are of no chunk of their own hide
 * behind nothing. */
struct npu_weights;
struct npu_gemm_plan;
void npu_divide_plan(const struct npu_weights *weights, const struct npu_gemm_plan *p, uint32_t m, struct npu_work *w);
/* Whether 128 outputs fit into TCM beside 32 rows; else their product is two of half of k, and an addition. */
int npu_fits_tiles(uint32_t kind, int k, int n);
uint32_t npu_kind_of(const char *name);      /* enum npu_weight_kind; 0: none */
const char *npu_name_of_kind(uint32_t kind); /* NULL: none */

/* How layers multiply few rows: on tiles, by table lookup, by masks.  The last is a baseline that no device has, with
 * operations of its own (bench/npu/act8.c, fields.c). */
enum npu_way { NPU_WAY_TILES, NPU_WAY_LOOKUP, NPU_WAY_MASKS };
enum { NPU_OP_ACT8 = NPU_OPS, NPU_OP_MASKS };

/* A model as far as its cost goes.  Weights: of the layers, of ffn_down, of the head (and the embedding). */
struct npu_model {
    const char *name, *weights, *down, *head;
    int n_layer, d_model, d_ff, n_head, n_kv_head, d_head, n_vocab;
    int tied; /* the head is the embedding */
    enum npu_way way;
    int bitnet;    /* a norm before the last matrix of each sub-layer, a squared ReLU */
    int head_norm; /* queries and keys have a norm of their own */
    /* Others' weights that the tile unit takes as they are: products are those of F16 but for these bytes per weight
     * and this part of a tile product's cycles.  0: weights are what they are called. */
    double bytes_per_weight, tile_share;
};
extern const struct npu_model npu_models[];
enum { NPU_PAPER_MODELS = 5, NPU_MODELS = 11 };
/* Those of [TMAN 6.1]; what their layers hold is chosen later. */
extern const struct npu_model npu_tman_models[];
enum { NPU_TMAN_BITNET = 2, NPU_TMAN_MODELS = 3 };

/* Models whose layers have 1 or 2 bits, as they can be packed and multiplied. */
struct npu_low_bits {
    const char *weights; /* what the file holds */
    const char *way;     /* packing and product */
    struct npu_model model;
};
enum { NPU_LOW_BITS = 16 };
struct npu_low_bits npu_low_bits(int i); /* 0 .. NPU_LOW_BITS - 1 */

/* A pass's operations as the device sends them, n of each; without those that only keep memory coherent. */
struct npu_pass_op {
    uint32_t code, kind;
    int m, k, n; /* as in struct npu_op */
    int param;   /* of a rotation: its period */
    int times;
};
enum { NPU_PASS_OPS_MAX = 32 };
/* out [NPU_PASS_OPS_MAX]; how many.  rows of the pass, of which the head takes n_out. */
int npu_pass_ops(const struct npu_model *m, int rows, int n_out, struct npu_pass_op *out);
int npu_pass_messages(const struct npu_model *m); /* of NPU_RUN_OPS operations */

#endif
