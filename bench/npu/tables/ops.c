/* SPDX-License-Identifier: MIT
 *
 * The models, and a step's operations as the device sends them (npu/host/program.c): tests/npu_cost/test_division.c
 * compares the list with the messages of a model of this project.
 */
#include "tables.h"

#include "npu/wire/message.h"

/* [TTS 7.1]: Q4_0, ffn_down Q8_0; the models of this project as they are, F16. */
const struct npu_model npu_models[NPU_MODELS] = {
    {"Qwen2.5-1.5B", "Q4_0", "Q8_0", "Q8_0", 28, 1536, 8960, 12, 2, 128, 151936, 1},
    {"Qwen2.5-3B", "Q4_0", "Q8_0", "Q8_0", 36, 2048, 11008, 16, 2, 128, 151936, 1},
    {"Qwen2.5-7B", "Q4_0", "Q8_0", "Q8_0", 28, 3584, 18944, 28, 4, 128, 152064, 0},
    {"Llama-3.2-1B", "Q4_0", "Q8_0", "Q8_0", 16, 2048, 8192, 32, 8, 64, 128256, 1},
    {"Llama-3.2-3B", "Q4_0", "Q8_0", "Q8_0", 28, 3072, 8192, 24, 8, 128, 128256, 1},
    {"abacus-xs", "F16", "F16", "F16", 3, 64, 192, 4, 2, 16, 1024, 1},
    {"abacus-1m", "F16", "F16", "F16", 4, 128, 384, 4, 2, 32, 1024, 1},
    {"abacus-3m", "F16", "F16", "F16", 4, 256, 768, 4, 2, 64, 1024, 1},
    {"countdown-s", "F16", "F16", "F16", 3, 64, 192, 4, 2, 16, 320, 1},
    {"countdown-l", "F16", "F16", "F16", 4, 128, 384, 4, 2, 32, 320, 1},
    {"countdown-x", "F16", "F16", "F16", 4, 256, 768, 4, 2, 64, 320, 1},
};

/* A list in the making. */
struct list {
    struct npu_step_op *op;
    int n;
};

static struct npu_step_op *put(struct list *l, uint32_t code, int m, int k, int n, int times)
{
    l->op[l->n] = (struct npu_step_op){.code = code, .m = m, .k = k, .n = n, .times = times};
    return &l->op[l->n++];
}

static void product(struct list *l, const char *kind, int m, int k, int n, int times)
{
    put(l, NPU_OP_GEMM, m, k, n, times)->kind = npu_kind_of(kind);
}

/* Periods are those of heads, at least one vector. */
static void rope(struct list *l, int m, int n, int d_head, int times)
{
    put(l, NPU_OP_ROPE, m, d_head / 2, n, times)->param = d_head < 32 ? 32 : d_head;
}

int npu_step_ops(const struct npu_model *m, int rows, int n_out, struct npu_step_op *out)
{
    struct list l = {out, 0};
    int d = m->d_model, kv = m->n_kv_head * m->d_head, layers = m->n_layer;
    put(&l, NPU_OP_EMBED, rows, d, m->n_vocab, 1)->kind = npu_kind_of(m->head);
    put(&l, NPU_OP_RMS_NORM, rows, 0, d, 2 * layers);
    product(&l, m->weights, rows, d, d, 2 * layers);
    product(&l, m->weights, rows, d, kv, 2 * layers);
    rope(&l, rows, d, m->d_head, layers);
    rope(&l, rows, kv, m->d_head, layers);
    put(&l, NPU_OP_KV_APPEND, rows, m->n_kv_head, m->d_head, layers);
    put(&l, NPU_OP_ATTENTION, rows, 0, m->d_head, layers);
    put(&l, NPU_OP_ADD, 1, 0, rows * d, 2 * layers);
    product(&l, m->weights, rows, d, m->d_ff, 2 * layers);
    put(&l, NPU_OP_SWIGLU, 1, 0, rows * m->d_ff, layers);
    put(&l, NPU_OP_FIT, rows, 0, m->d_ff, layers);
    product(&l, m->down, rows, m->d_ff, d, layers);
    put(&l, NPU_OP_UNFIT, rows, 0, d, layers);
    put(&l, NPU_OP_TAKE, n_out, 0, d, 2);
    put(&l, NPU_OP_RMS_NORM, n_out, 0, d, 1);
    put(&l, NPU_OP_HEAD, n_out, d, m->n_vocab, 1)->kind = npu_kind_of(m->head);
    return l.n;
}

/* With one that publishes the step's tables and one for the results. */
int npu_step_messages(const struct npu_model *m)
{
    struct npu_step_op op[NPU_STEP_OPS_MAX];
    int n = npu_step_ops(m, 1, 1, op), all = 2;
    for (int i = 0; i < n; i++) all += op[i].times;
    return (all + NPU_RUN_OPS - 1) / NPU_RUN_OPS;
}
