/* SPDX-License-Identifier: MIT
 *
 * How an operation is divided: nothing is known here that the executor does not use itself (npu/wire/layout.h), and
 * tests/npu_cost/test_division.c compares the outcome with what its threads do in the emulator.
 */
#include "sim/counts.h"

#include <string.h>

#include "sim/kinds.h"
#include "npu/wire/layout.h"
#include "npu/wire/message.h"

enum { TCM_BYTES = 8 << 20, KEPT = 65536, THREADS = 6, TILE_PAIRS = 32 /* of a call */ };

static const struct npu_machine machine = {0, TCM_BYTES, KEPT, THREADS, 0, 0};

uint32_t npu_kind_of(const char *name)
{
    for (size_t i = 0; i < N_NPU_KINDS; i++)
        if (strcmp(npu_kinds[i].name, name) == 0) return npu_kinds[i].kind;
    return 0;
}

const char *npu_name_of_kind(uint32_t kind)
{
    if (npu_is_planes(kind)) kind = npu_planes_untiled(kind);
    for (size_t i = 0; i < N_NPU_KINDS; i++)
        if (npu_kinds[i].kind == kind) return npu_kinds[i].name;
    return NULL;
}

void npu_divide_plan(const struct npu_weights *weights, const struct npu_gemm_plan *p, uint32_t m, struct npu_work *w)
{
    w->parts = (weights->panel ? p->chunk_blocks / 4 : p->chunk_blocks) * weights->n_units;
    w->stages = p->n_chunks * p->n_passes;
    w->meets = 3.0 * p->n_passes;
    w->lead = p->lead;
    w->starts = (double)p->n_chunks * p->n_passes;
    w->hands = w->starts + (p->lead - 1.0) * p->n_passes;
    w->tile_calls = (double)((m + 31) / 32) * weights->n_blocks * (2 + (weights->k / 32 + TILE_PAIRS - 1) / TILE_PAIRS);
}

int npu_fits_tiles(uint32_t kind, int k, int n)
{
    struct npu_weights w;
    struct npu_gemm_plan p;
    return !npu_weights_layout(kind, npu_weights_k((uint32_t)k), (uint32_t)n, &w) &&
           !npu_gemm_plan(&w, NPU_COLS, KEPT, TCM_BYTES, &p);
}

static void divide_gemm(const struct npu_op *op, uint32_t n, struct npu_work *w)
{
    struct npu_weights weights;
    struct npu_gemm_plan p;
    if (npu_weights_layout(op->kind, npu_weights_k(op->k), n, &weights)) return;
    if (!npu_gemm_plan(&weights, op->m, KEPT, TCM_BYTES, &p)) npu_divide_plan(&weights, &p, op->m, w);
}

/* A product for each slice of the vocabulary, then two sections. */
static void divide_head(const struct npu_op *op, struct npu_work *w)
{
    uint32_t slices = (op->n + NPU_HEAD_SLICE - 1) / NPU_HEAD_SLICE;
    divide_gemm(op, op->n < NPU_HEAD_SLICE ? op->n : NPU_HEAD_SLICE, w);
    w->alone_parts = npu_op_parts(op);
    w->starts *= slices, w->hands *= slices;
    w->tile_calls *= (double)op->n / (op->n < NPU_HEAD_SLICE ? op->n : NPU_HEAD_SLICE);
    w->meets = slices *
               (w->meets + 1.0 + (op->m > 1)); /* a slice's first chunk waits for the one before: its stages, not all */
}

/* The device's operations have the executor's parts; by masks (bench/npu/fields.c) a part has 64 outputs, and before it
 * (act8.c) 256 inputs of a row. */
static uint32_t parts_of(const struct npu_op *op)
{
    enum { OUTPUTS = 64, INPUTS = 256 };
    if (op->code == NPU_OP_MASKS) return (op->n + OUTPUTS - 1) / OUTPUTS;
    if (op->code == NPU_OP_ACT8) return op->m * ((op->k + INPUTS - 1) / INPUTS);
    return npu_op_parts(op);
}

/* Four parts by one DMA. */
static void divide_masks(struct npu_work *w)
{
    enum { CHUNK = 4 };
    w->starts = w->stages = (w->parts + CHUNK * THREADS - 1) / (CHUNK * THREADS);
}

/* A thread's blocks, panel by panel: it starts a transfer for each chunk, and the one that has fewest waits longest for
 * its first. */
static void divide_lookup(const struct npu_op *op, struct npu_work *w)
{
    struct npu_weights weights;
    uint32_t n = npu_op_threads(op, &machine), all = 0, fewest = UINT32_MAX;
    struct npu_shares parts = npu_shares(w->parts, n);
    if (npu_weights_layout(op->kind, op->k, op->n, &weights)) return;
    for (uint32_t t = 0; t < n; t++) {
        uint32_t end = npu_share_start(parts, t + 1), chunks = 0;
        for (uint32_t at = npu_share_start(parts, t), next; at < end; at = next) {
            next = (at / weights.panel + 1) * weights.panel;
            if (next > end) next = end;
            uint32_t each = npu_lookup_tiles(&weights, next - at);
            chunks += (weights.n_units + each - 1) / each;
        }
        all += chunks;
        if (chunks < fewest) fewest = chunks;
    }
    w->starts = (all + n - 1) / n, w->stages = fewest;
}

/* Tiles of up to 32 rows times heads, each segment a stage: keys and values are a transfer each, scores two tiles,
 * outputs of 32 one. */
static void divide_attention(const struct npu_op *op, int keys, int kv_heads, int heads, struct npu_work *w)
{
    uint32_t per = NPU_ATTENTION_ROWS / (uint32_t)heads, area, n = npu_attention_threads(op->n, &machine, &area);
    w->parts = (uint32_t)kv_heads * ((op->m + per - 1) / per);
    w->stages = keys > NPU_SEGMENT ? (uint32_t)keys / NPU_SEGMENT : 1;
    w->part_starts = 2.0 * w->stages;
    w->tile_calls = 3.0 * (2 + npu_weights_k(op->n) / 32) * w->stages * w->parts;
    if (n < THREADS) w->parts = n < w->parts ? n : w->parts;
}

void npu_divide(const struct npu_op *op, int keys, int kv_heads, int heads, struct npu_work *w)
{
    w->parts = parts_of(op), w->stages = 1, w->meets = w->parts > 1;
    w->starts = w->part_starts = w->tile_calls = w->hands = w->lead = 0;
    switch (op->code) {
    case NPU_OP_GEMM: divide_gemm(op, op->n, w); break;
    case NPU_OP_HEAD: divide_head(op, w); break;
    case NPU_OP_MASKS: divide_masks(w); break;
    case NPU_OP_LOOKUP: divide_lookup(op, w); break;
    case NPU_OP_ATTENTION:
        divide_attention(op, keys, kv_heads, heads, w);
        w->meets = 1;
        break;
    default: break;
    }
}

void npu_divide_count(struct npu_count *c)
{
    static const struct {
        const char *name;
        uint32_t code;
    } kernels[] = {{"gemm", NPU_OP_GEMM}, {"masks", NPU_OP_MASKS}, {"head", NPU_OP_HEAD}, {"add", NPU_OP_ADD},
        {"swiglu", NPU_OP_SWIGLU}, {"relu2", NPU_OP_RELU2}, {"rms_norm", NPU_OP_RMS_NORM}, {"rope", NPU_OP_ROPE},
        {"fit", NPU_OP_FIT}, {"unfit", NPU_OP_UNFIT}, {"quantize", NPU_OP_ACT8}, {"tables", NPU_OP_TABLES},
        {"lookup", NPU_OP_LOOKUP}, {"exp16", NPU_OP_EXP16}, {"attention", NPU_OP_ATTENTION},
        {"attention pass", NPU_OP_ATTENTION}};
    enum { PERIOD = 128 }; /* of the counted rotation */
    struct npu_op op = {.m = (uint32_t)c->m, .k = (uint32_t)c->k, .n = (uint32_t)c->n, .kind = npu_kind_of(c->kind)};
    int heads = 1, kv_heads = 1;
    op.param = PERIOD;
    c->work.parts = 0, c->work.stages = 1, c->work.meets = 0; /* of what is no operation of the device: any number */
    sscanf(c->kind, "%d x %d heads", &heads, &kv_heads);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (strcmp(kernels[i].name, c->kernel) != 0) continue;
        op.code = kernels[i].code;
        npu_divide(&op, c->k, kv_heads, heads, &c->work);
    }
}
