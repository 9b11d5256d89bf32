/* SPDX-License-Identifier: MIT
 *
 * The models, and a pass's operations as the device sends them (npu/host/program.c): tests/npu_cost/test_division.c
 * compares the list with the messages of a model of this project.
 */
#include "sim/division.h"

#include <stdbool.h>

#include "npu/wire/planes.h"

/* [TTS 7.1]: Q4_0, ffn_down Q8_0; the models of this project as they are, F16. */
const struct npu_model npu_models[NPU_MODELS] = {
    {"Qwen2.5-1.5B", "Q4_0", "Q8_0", "Q8_0", 28, 1536, 8960, 12, 2, 128, 151936, .tied = 1},
    {"Qwen2.5-3B", "Q4_0", "Q8_0", "Q8_0", 36, 2048, 11008, 16, 2, 128, 151936, .tied = 1},
    {"Qwen2.5-7B", "Q4_0", "Q8_0", "Q8_0", 28, 3584, 18944, 28, 4, 128, 152064, .tied = 0},
    {"Llama-3.2-1B", "Q4_0", "Q8_0", "Q8_0", 16, 2048, 8192, 32, 8, 64, 128256, .tied = 1},
    {"Llama-3.2-3B", "Q4_0", "Q8_0", "Q8_0", 28, 3072, 8192, 24, 8, 128, 128256, .tied = 1},
    {"abacus-xs", "F16", "F16", "F16", 3, 64, 192, 4, 2, 16, 1024, .tied = 1},
    {"abacus-1m", "F16", "F16", "F16", 4, 128, 384, 4, 2, 32, 1024, .tied = 1},
    {"abacus-3m", "F16", "F16", "F16", 4, 256, 768, 4, 2, 64, 1024, .tied = 1},
    {"countdown-s", "F16", "F16", "F16", 3, 64, 192, 4, 2, 16, 320, .tied = 1},
    {"countdown-l", "F16", "F16", "F16", 4, 128, 384, 4, 2, 32, 320, .tied = 1},
    {"countdown-x", "F16", "F16", "F16", 4, 256, 768, 4, 2, 64, 320, .tied = 1},
};

const struct npu_model npu_tman_models[NPU_TMAN_MODELS] = {
    {"Qwen3-8B", "", "", "Q8_0", 36, 4096, 12288, 32, 8, 128, 151936, .head_norm = 1},
    {"Llama-3.1-8B", "", "", "Q8_0", 32, 4096, 14336, 32, 8, 128, 128256, .tied = 0},
    {"BitNet-2B-4T", "", "", "Q8_0", 30, 2560, 6912, 20, 5, 128, 128256, .tied = 1, .bitnet = 1},
};

struct npu_low_bits npu_low_bits(int i)
{
    const struct npu_model *qwen = &npu_models[0], *bitnet = &npu_tman_models[NPU_TMAN_BITNET];
    const struct {
        const struct npu_model *model;
        const char *weights, *packed[2]; /* in tile32, as bit planes */
    } files[] = {{qwen, "2 bit, groups of 64", {"W2", "Q2_0 planes"}}, {qwen, "ternary", {"TQ2_0", "TQ2_0 planes"}},
        {qwen, "1 bit", {"TQ2_0", "Q1_0 planes"}}, {bitnet, "ternary", {"TQ2_0", "TQ2_0 planes"}}};
    static const struct {
        const char *name;
        int planes;
        enum npu_way way;
    } ways[] = {{"tile32", 0, NPU_WAY_TILES}, {"planes, tiles", 1, NPU_WAY_TILES},
        {"planes, lookup", 1, NPU_WAY_LOOKUP}, {"masks", 1, NPU_WAY_MASKS}};
    struct npu_low_bits x = {files[i / 4].weights, ways[i % 4].name, *files[i / 4].model};
    x.model.weights = x.model.down = files[i / 4].packed[ways[i % 4].planes];
    x.model.way = ways[i % 4].way;
    return x;
}

/* A list in the making. */
struct list {
    struct npu_pass_op *op;
    int n;
};

static struct npu_pass_op *put(struct list *l, uint32_t code, int m, int k, int n, int times)
{
    l->op[l->n] = (struct npu_pass_op){.code = code, .m = m, .k = k, .n = n, .times = times};
    return &l->op[l->n++];
}

/* What rows become before the products that share them; nothing on tiles. */
static void prepare(struct list *l, enum npu_way way, int m, int k, int times)
{
    if (way == NPU_WAY_LOOKUP) put(l, NPU_OP_TABLES, m, k, 0, times);
    if (way == NPU_WAY_MASKS) put(l, NPU_OP_ACT8, m, k, 0, times);
}

static void product(struct list *l, enum npu_way way, const char *kind, int m, int k, int n, int times)
{
    static const uint32_t codes[] = {NPU_OP_GEMM, NPU_OP_LOOKUP, NPU_OP_MASKS};
    int halves = way == NPU_WAY_TILES && !npu_fits_tiles(npu_kind_of(kind), k, n);
    put(l, codes[way], m, halves ? k / 2 : k, n, halves ? 2 * times : times)->kind = npu_kind_of(kind);
    if (halves) put(l, NPU_OP_ADD, 1, 0, m * n, times);
}

/* Periods are those of heads, at least one vector. */
static void rope(struct list *l, int m, int n, int d_head, int times)
{
    put(l, NPU_OP_ROPE, m, d_head / 2, n, times)->param = d_head < 32 ? 32 : d_head;
}

int npu_pass_ops(const struct npu_model *m, int rows, int n_out, struct npu_pass_op *out)
{
    struct list l = {out, 0};
    int d = m->d_model, kv = m->n_kv_head * m->d_head, layers = m->n_layer;
    enum npu_way way = rows <= NPU_LOOKUP_ROWS ? m->way : NPU_WAY_TILES;
    put(&l, NPU_OP_EMBED, rows, d, m->n_vocab, 1)->kind = npu_kind_of(m->head);
    put(&l, NPU_OP_RMS_NORM, rows, 0, d, (2 + m->bitnet) * layers);
    prepare(&l, way, rows, d, 3 * layers);
    product(&l, way, m->weights, rows, d, d, 2 * layers);
    product(&l, way, m->weights, rows, d, kv, 2 * layers);
    if (m->head_norm) put(&l, NPU_OP_RMS_NORM, rows * m->n_head, 0, m->d_head, layers);
    if (m->head_norm) put(&l, NPU_OP_RMS_NORM, rows * m->n_kv_head, 0, m->d_head, layers);
    rope(&l, rows, d, m->d_head, layers);
    rope(&l, rows, kv, m->d_head, layers);
    put(&l, NPU_OP_KV_APPEND, rows, m->n_kv_head, m->d_head, layers);
    put(&l, NPU_OP_ATTENTION, rows, 0, m->d_head, layers);
    put(&l, NPU_OP_ADD, 1, 0, rows * d, 2 * layers);
    product(&l, way, m->weights, rows, d, m->d_ff, 2 * layers);
    put(&l, m->bitnet ? NPU_OP_RELU2 : NPU_OP_SWIGLU, 1, 0, rows * m->d_ff, layers);
    if (m->bitnet) put(&l, NPU_OP_RMS_NORM, rows, 0, m->d_ff, layers);
    bool fit = way == NPU_WAY_TILES && !m->bitnet && !m->bytes_per_weight; /* rows that may be massive */
    if (fit) put(&l, NPU_OP_FIT, rows, 0, m->d_ff, layers);
    prepare(&l, way, rows, m->d_ff, layers);
    product(&l, way, m->down, rows, m->d_ff, d, layers);
    if (fit) put(&l, NPU_OP_UNFIT, rows, 0, d, layers);
    put(&l, NPU_OP_TAKE, n_out, 0, d, 2);
    put(&l, NPU_OP_RMS_NORM, n_out, 0, d, 1);
    put(&l, NPU_OP_HEAD, n_out, d, m->n_vocab, 1)->kind = npu_kind_of(m->head);
    return l.n;
}

/* With one that publishes the pass's tables and one for the results. */
int npu_pass_messages(const struct npu_model *m)
{
    struct npu_pass_op op[NPU_PASS_OPS_MAX];
    int n = npu_pass_ops(m, 1, 1, op), all = 2;
    for (int i = 0; i < n; i++) all += op[i].times;
    return (all + NPU_RUN_OPS - 1) / NPU_RUN_OPS;
}
