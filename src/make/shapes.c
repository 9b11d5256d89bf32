/* SPDX-License-Identifier: MIT
 *
 * Hyperparameters of real models, from their published config.json, and small ones for tests.
 */
#include "make/make.h"

#include <string.h>
#include <strings.h>

static const struct weights_shape shapes[] = {
    /* name, arch, d_model, n_layer, n_head, n_kv_head, d_head, d_ff, n_vocab, n_ctx, tied, rope base, factor, eps */
    {"qwen2.5-0.5b", "qwen2", 896, 24, 14, 2, 64, 4864, 151936, 32768, true, 1e6f, 0, 1e-6f},
    {"qwen2.5-1.5b", "qwen2", 1536, 28, 12, 2, 128, 8960, 151936, 32768, true, 1e6f, 0, 1e-6f},
    {"qwen2.5-3b", "qwen2", 2048, 36, 16, 2, 128, 11008, 151936, 32768, true, 1e6f, 0, 1e-6f},
    {"qwen2.5-7b", "qwen2", 3584, 28, 28, 4, 128, 18944, 152064, 32768, false, 1e6f, 0, 1e-6f},
    {"llama3.2-1b", "llama", 2048, 16, 32, 8, 64, 8192, 128256, 131072, true, 5e5f, 32, 1e-5f},
    {"llama3.2-3b", "llama", 3072, 28, 24, 8, 128, 8192, 128256, 131072, true, 5e5f, 32, 1e-5f},
    {"llama3.1-8b", "llama", 4096, 32, 32, 8, 128, 14336, 128256, 131072, false, 5e5f, 8, 1e-5f},
    {"qwen3-0.6b", "qwen3", 1024, 28, 16, 8, 128, 3072, 151936, 40960, true, 1e6f, 0, 1e-6f},
    {"qwen3-1.7b", "qwen3", 2048, 28, 16, 8, 128, 6144, 151936, 40960, true, 1e6f, 0, 1e-6f},
    {"qwen3-4b", "qwen3", 2560, 36, 32, 8, 128, 9728, 151936, 40960, true, 1e6f, 0, 1e-6f},
    {"qwen3-8b", "qwen3", 4096, 36, 32, 8, 128, 12288, 151936, 40960, false, 1e6f, 0, 1e-6f},
    {"gemma2-2b", "gemma2", 2304, 26, 8, 4, 256, 9216, 256000, 8192, true, 1e4f, 0, 1e-6f},
    {"gemma3-1b", "gemma3", 1152, 26, 4, 1, 256, 6912, 262144, 32768, true, 1e6f, 0, 1e-6f},
    {"gemma3-4b", "gemma3", 2560, 34, 8, 4, 256, 10240, 262144, 131072, true, 1e6f, 0, 1e-6f},
    {"gemma4-e2b", "gemma4", 1536, 35, 8, 1, 256, 6144, 262144, 131072, true, 1e6f, 0, 1e-6f},
    {"gemma4-31b", "gemma4", 5376, 60, 32, 16, 256, 21504, 262144, 262144, true, 1e6f, 0, 1e-6f},
    {"gemma4-26b-a4b", "gemma4", 2816, 30, 16, 8, 256, 2112, 262144, 262144, true, 1e6f, 0, 1e-6f},
    {"ministral3-3b", "mistral3", 3072, 26, 32, 8, 128, 9216, 131072, 262144, true, 1e6f, 0, 1e-5f},
    {"smollm3-3b", "smollm3", 2048, 36, 16, 4, 128, 11008, 128256, 65536, true, 5e6f, 0, 1e-6f},
    {"olmo2-1b", "olmo2", 2048, 16, 16, 16, 128, 8192, 100352, 4096, false, 5e5f, 0, 1e-6f},
    {"olmo3-7b", "olmo2", 4096, 32, 32, 32, 128, 11008, 100352, 65536, false, 5e5f, 0, 1e-6f},
    {"qwen2.5-vl-3b", "qwen2vl", 2048, 36, 16, 2, 128, 11008, 151936, 128000, true, 1e6f, 0, 1e-6f},
    {"qwen3-vl-4b", "qwen3vl", 2560, 36, 32, 8, 128, 9728, 151936, 262144, true, 5e6f, 0, 1e-6f},
    {"phi-3.5-mini", "phi3", 3072, 32, 32, 32, 96, 8192, 32064, 131072, false, 1e4f, 0, 1e-5f},
    {"phi-4-mini", "phi3", 3072, 32, 24, 8, 128, 8192, 200064, 131072, true, 1e4f, 0, 1e-5f},
    {"granite3.3-2b", "granite", 2048, 40, 32, 8, 64, 8192, 49159, 131072, true, 1e7f, 0, 1e-5f},
    {"granite3.1-1b-a400m", "granitemoe", 1024, 24, 16, 8, 64, 512, 49152, 131072, true, 1.5e6f, 0, 1e-6f},
    {"granite4-h-1b", "granitehybrid", 1536, 40, 12, 4, 128, 4096, 100352, 131072, true, 1e4f, 0, 1e-5f},
    {"granite4-h-tiny", "granitehybrid", 1536, 40, 12, 4, 128, 512, 100352, 131072, true, 1e4f, 0, 1e-5f},
    {"starcoder2-3b", "starcoder2", 3072, 30, 24, 2, 128, 12288, 49152, 16384, true, 999999.4420358813f, 0, 1e-5f},
    {"command-r-35b", "command-r", 8192, 40, 64, 64, 128, 22528, 256000, 131072, true, 8e6f, 0, 1e-5f},
    {"command-r7b", "cohere2", 4096, 32, 32, 8, 128, 14336, 256000, 132096, true, 5e4f, 0, 1e-5f},
    {"gemma-2b", "gemma", 2048, 18, 8, 1, 256, 16384, 256000, 8192, true, 1e4f, 0, 1e-6f},
    {"bitnet-2b-4t", "bitnet-b1.58", 2560, 30, 20, 5, 128, 6912, 128256, 4096, true, 5e5f, 0, 1e-5f},
    {"falcon3-1b", "llama", 2048, 18, 8, 4, 256, 8192, 131072, 4096, false, 1000042, 0, 1e-6f},
    {"qwen3-30b-a3b", "qwen3moe", 2048, 48, 32, 4, 128, 6144, 151936, 40960, false, 1e6f, 0, 1e-6f},
    {"gpt-oss-20b", "gpt-oss", 2880, 24, 64, 8, 64, 2880, 201088, 131072, false, 150000, 0, 1e-5f},
    {"moe-4b-a0.6b", "qwen3moe", 1024, 24, 16, 4, 64, 3072, 151936, 40960, true, 1e6f, 0, 1e-6f},
    {"qwen3.5-0.8b", "qwen35", 1024, 24, 8, 2, 256, 3584, 248320, 262144, true, 1e7f, 0, 1e-6f},
    {"qwen3.5-4b", "qwen35", 2560, 32, 16, 4, 256, 9216, 248320, 262144, true, 1e7f, 0, 1e-6f},
    {"qwen3.5-35b-a3b", "qwen35moe", 2048, 40, 16, 2, 256, 512, 248320, 262144, false, 1e7f, 0, 1e-6f},
    {"lfm2-1.2b", "lfm2", 2048, 16, 32, 8, 64, 8192, 65536, 128000, true, 1e6f, 0, 1e-5f},
    {"lfm2-8b-a1b", "lfm2moe", 2048, 24, 32, 8, 64, 7168, 65536, 128000, true, 1e6f, 0, 1e-5f},
    {"minilm-l6", "bert", 384, 6, 12, 12, 32, 1536, 30522, 512, true, 1e4f, 0, 1e-12f},
    {"bge-small", "bert", 384, 12, 12, 12, 32, 1536, 30522, 512, true, 1e4f, 0, 1e-12f},
    {"bge-base", "bert", 768, 12, 12, 12, 64, 3072, 30522, 512, true, 1e4f, 0, 1e-12f},
    {"minilm-l6-rank", "bert", 384, 6, 12, 12, 32, 1536, 30522, 512, true, 1e4f, 0, 1e-12f},
    {"nomic-embed-v1.5", "nomic-bert", 768, 12, 12, 12, 64, 3072, 30528, 2048, true, 1e3f, 0, 1e-12f},
    {"embeddinggemma-300m", "gemma-embedding", 768, 24, 3, 1, 256, 1152, 262144, 2048, true, 1e6f, 0, 1e-6f},
    {"qwen3-embedding-0.6b", "qwen3", 1024, 28, 16, 8, 128, 3072, 151669, 32768, true, 1e6f, 0, 1e-6f},
    {"qwen3-reranker-0.6b", "qwen3", 1024, 28, 16, 8, 128, 3072, 151669, 40960, true, 1e6f, 0, 1e-6f},
    /* For tests.  The first of each architecture has rows of whole 256-blocks, so that it exists in every type;
     * the others have odd head sizes and GQA ratios 1, 2, 3, 7. */
    {"tiny-llama", "llama", 256, 2, 4, 4, 64, 512, 512, 1024, false, 5e5f, 8, 1e-5f},
    {"tiny-qwen2", "qwen2", 256, 2, 4, 2, 64, 512, 512, 1024, true, 1e6f, 0, 1e-6f},
    {"tiny-qwen3", "qwen3", 256, 2, 8, 4, 64, 512, 512, 1024, true, 1e6f, 0, 1e-6f},
    {"tiny-qwen3moe", "qwen3moe", 256, 2, 8, 4, 64, 768, 512, 1024, true, 1e6f, 0, 1e-6f},
    {"tiny-qwen35", "qwen35", 256, 4, 4, 2, 64, 512, 512, 1024, true, 1e7f, 0, 1e-6f},
    {"tiny-qwen35moe", "qwen35moe", 256, 4, 4, 2, 64, 512, 512, 1024, false, 1e7f, 0, 1e-6f},
    {"tiny-lfm2", "lfm2", 256, 4, 4, 2, 64, 512, 512, 1024, true, 1e6f, 0, 1e-5f},
    {"tiny-lfm2moe", "lfm2moe", 256, 3, 4, 2, 64, 768, 512, 1024, true, 1e6f, 0, 1e-5f},
    {"tiny-gpt-oss", "gpt-oss", 256, 4, 4, 2, 64, 256, 512, 512, false, 150000, 0, 1e-5f},
    {"tiny-gemma2", "gemma2", 256, 2, 4, 2, 64, 512, 512, 128, true, 1e4f, 0, 1e-6f},
    {"tiny-gemma3", "gemma3", 256, 6, 4, 1, 64, 512, 512, 128, true, 1e6f, 0, 1e-6f},
    {"tiny-gemma4", "gemma4", 256, 6, 4, 1, 64, 512, 512, 128, true, 1e6f, 0, 1e-6f},
    {"tiny-gemma4-kv", "gemma4", 256, 4, 4, 4, 64, 512, 512, 256, true, 1e6f, 0, 1e-6f},
    {"tiny-gemma4-moe", "gemma4", 256, 4, 4, 2, 64, 512, 512, 128, true, 1e6f, 0, 1e-6f},
    {"tiny-bert", "bert", 256, 2, 4, 4, 64, 512, 512, 512, true, 1e4f, 0, 1e-12f},
    {"tiny-bert-rank", "bert", 256, 2, 8, 8, 32, 512, 512, 256, true, 1e4f, 0, 1e-12f},
    {"tiny-nomic-bert", "nomic-bert", 256, 2, 4, 4, 64, 512, 512, 512, true, 1e3f, 0, 1e-12f},
    {"tiny-gemma-embedding", "gemma-embedding", 256, 6, 4, 1, 64, 512, 512, 512, true, 1e6f, 0, 1e-6f},
    {"tiny-qwen3-embedding", "qwen3", 256, 2, 8, 4, 64, 512, 512, 512, true, 1e6f, 0, 1e-6f},
    {"tiny-qwen3-rank", "qwen3", 256, 2, 8, 4, 64, 512, 512, 512, true, 1e6f, 0, 1e-6f},
    {"tiny-mistral3", "mistral3", 256, 2, 4, 2, 64, 512, 512, 512, true, 1e6f, 0, 1e-5f},
    {"tiny-smollm3", "smollm3", 256, 4, 4, 2, 64, 512, 512, 1024, true, 5e6f, 0, 1e-6f},
    {"tiny-olmo2", "olmo2", 256, 2, 4, 2, 64, 512, 512, 4096, false, 5e5f, 0, 1e-6f},
    {"tiny-olmo3", "olmo2", 256, 4, 4, 4, 64, 512, 512, 256, false, 5e5f, 0, 1e-6f},
    /* llama.cpp 0.7.0 takes 0 for qwen2vl's epsilon, whatever the file says. */
    {"tiny-qwen2vl", "qwen2vl", 256, 2, 4, 2, 64, 512, 512, 1024, true, 1e6f, 0, 1e-12f},
    {"tiny-qwen3vl", "qwen3vl", 256, 2, 8, 4, 64, 512, 512, 1024, true, 5e6f, 0, 1e-6f},
    /* Not tiny-phi3: llama.cpp wants special tokens of models whose name says so. */
    {"tiny-phi", "phi3", 256, 2, 4, 2, 64, 512, 512, 512, true, 1e4f, 0, 1e-5f},
    {"tiny-granite", "granite", 256, 2, 4, 2, 64, 512, 512, 1024, true, 1e7f, 0, 1e-5f},
    {"tiny-granitemoe", "granitemoe", 256, 2, 4, 2, 64, 256, 512, 1024, true, 1.5e6f, 0, 1e-6f},
    {"tiny-granitemoe-shared", "granitemoe", 256, 2, 4, 4, 64, 256, 512, 1024, false, 1e4f, 0, 1e-6f},
    {"tiny-granitehybrid", "granitehybrid", 256, 4, 4, 2, 64, 512, 512, 1024, true, 1e4f, 0, 1e-5f},
    {"tiny-granitehybrid-moe", "granitehybrid", 256, 3, 4, 2, 64, 256, 512, 1024, true, 1e4f, 0, 1e-5f},
    {"tiny-starcoder2", "starcoder2", 256, 2, 4, 2, 64, 512, 512, 1024, true, 1e5f, 0, 1e-5f},
    {"tiny-command-r", "command-r", 256, 2, 4, 4, 64, 512, 512, 1024, true, 8e6f, 0, 1e-5f},
    {"tiny-cohere2", "cohere2", 256, 4, 4, 2, 64, 512, 512, 256, true, 5e4f, 0, 1e-5f},
    {"tiny-bitnet", "bitnet", 256, 2, 4, 4, 64, 512, 512, 512, true, 1e4f, 0, 1e-5f},
    {"tiny-bitnet-b1.58", "bitnet-b1.58", 256, 2, 4, 2, 64, 512, 512, 512, true, 5e5f, 0, 1e-5f},
    {"tiny-gemma", "gemma", 256, 2, 4, 1, 64, 512, 512, 512, true, 1e4f, 0, 1e-6f},
    {"tiny-llama-24", "llama", 96, 2, 12, 4, 24, 160, 512, 512, true, 1e4f, 0, 1e-5f},
    {"tiny-llama-80", "llama", 160, 2, 4, 2, 80, 224, 512, 512, false, 1e4f, 32, 1e-5f},
    {"tiny-llama-100", "llama", 200, 2, 2, 2, 100, 256, 512, 512, true, 1e4f, 0, 1e-6f},
    {"tiny-qwen2-16", "qwen2", 224, 2, 14, 2, 16, 352, 512, 512, false, 1e6f, 0, 1e-6f},
    {"tiny-qwen3-40", "qwen3", 64, 2, 8, 8, 40, 160, 512, 512, true, 1e6f, 0, 1e-6f},
    {"tiny-qwen3-8", "qwen3", 64, 3, 28, 4, 8, 96, 512, 512, false, 1e6f, 0, 1e-6f},
    /* Norms per head, and sizes whose NPU kernels were counted (bench/npu). */
    {"counted-32", "qwen3", 128, 4, 4, 2, 32, 384, 1024, 512, true, 1e6f, 0, 1e-6f},
    {"counted-64", "qwen3", 256, 2, 4, 2, 64, 768, 512, 512, true, 1e6f, 0, 1e-6f},
    {"counted-64-untied", "qwen3", 256, 3, 4, 2, 64, 768, 2048, 512, false, 1e6f, 0, 1e-6f},
};

static const struct weights_experts experts[] = {
    {"qwen3-30b-a3b", 128, 8, 768},
    {"gpt-oss-20b", 32, 4, 2880},
    {"moe-4b-a0.6b", 64, 8, 768}, /* nobody's: of a size that is quick to measure */
    {"tiny-qwen3moe", 8, 3, 256},
    {"qwen3.5-35b-a3b", 256, 8, 512},
    {"tiny-qwen35moe", 8, 3, 256},
    {"lfm2-8b-a1b", 32, 4, 1792},
    {"tiny-lfm2moe", 8, 3, 256},
    {"tiny-gpt-oss", 6, 2, 256},
    {"gemma4-26b-a4b", 128, 8, 704},
    {"tiny-gemma4-moe", 8, 3, 256},
    {"granite3.1-1b-a400m", 32, 8, 512},
    {"tiny-granitemoe", 8, 3, 256},
    {"tiny-granitemoe-shared", 6, 2, 256},
    {"granite4-h-tiny", 64, 6, 512},
    {"tiny-granitehybrid-moe", 8, 3, 256},
};

static const struct weights_mixed_layers mixed[] = {
    {"gemma4-e2b", 5, 512, 1, 20, 256, false},
    {"gemma4-31b", 6, 512, 4, 0, 0, true},
    {"gemma4-26b-a4b", 6, 512, 2, 0, 0, true},
    {"tiny-gemma4-moe", 2, 128, 1, 0, 0, true},
    {"tiny-gemma4", 2, 128, 1, 2, 256, false},
    {"tiny-gemma4-kv", 2, 128, 2, 0, 0, true},
};

static const struct weights_recurrent recurrent[] = {
    {"qwen3.5-0.8b", 4, 4, 0, 16, 16, 128, 0, 0, 0},
    {"qwen3.5-4b", 4, 4, 0, 16, 32, 128, 0, 0, 0},
    {"qwen3.5-35b-a3b", 4, 4, 0, 16, 32, 128, 0, 512, 0},
    {"lfm2-1.2b", 3, 0, 1 << 2 | 1 << 5 | 1 << 8 | 1 << 10 | 1 << 12 | 1 << 14, 0, 0, 0, 0, 0, 0},
    {"lfm2-8b-a1b", 3, 0, 1 << 2 | 1 << 6 | 1 << 10 | 1 << 14 | 1 << 18 | 1 << 21, 0, 0, 0, 2, 0, 0},
    {"tiny-qwen35", 4, 4, 0, 2, 4, 64, 0, 0, 0},
    {"tiny-qwen35moe", 4, 4, 0, 2, 4, 64, 0, 512, 0},
    {"tiny-lfm2", 3, 0, 1 << 1 | 1 << 2, 0, 0, 0, 0, 0, 0},
    {"tiny-lfm2moe", 3, 0, 1 << 1, 0, 0, 0, 1, 0, 0},
    {"granite4-h-1b", 4, 0, 1ull << 5 | 1ull << 15 | 1ull << 25 | 1ull << 35, 1, 48, 128, 0, 0, 64},
    {"granite4-h-tiny", 4, 0, 1ull << 5 | 1ull << 15 | 1ull << 25 | 1ull << 35, 1, 48, 128, 0, 1024, 64},
    {"tiny-granitemoe-shared", 0, 1, 0, 0, 0, 0, 0, 512, 0},
    {"tiny-granitehybrid", 4, 0, 1 << 1, 1, 4, 64, 0, 0, 32},
    {"tiny-granitehybrid-moe", 4, 0, 1 << 2, 1, 8, 128, 0, 512, 64},
};

static const struct weights_pooling poolings[] = {
    {"minilm-l6", 1, 0, false, 0},
    {"bge-small", 2, 0, false, 0},
    {"bge-base", 2, 0, false, 0},
    {"minilm-l6-rank", 4, 1, true, 0},
    {"nomic-embed-v1.5", 1, 0, false, 0},
    {"embeddinggemma-300m", 1, 0, false, 3072},
    {"qwen3-embedding-0.6b", 3, 0, false, 0},
    {"qwen3-reranker-0.6b", 4, 2, false, 0},
    {"tiny-bert", 2, 0, false, 0},
    {"tiny-bert-rank", 4, 1, true, 0},
    {"tiny-nomic-bert", 1, 0, false, 0},
    {"tiny-gemma-embedding", 1, 0, false, 512},
    {"tiny-qwen3-embedding", 3, 0, false, 0},
    {"tiny-qwen3-rank", 4, 2, false, 0},
};

enum { N_SHAPES = sizeof shapes / sizeof *shapes };

const struct weights_shape *weights_shape_at(size_t i)
{
    return i < N_SHAPES ? &shapes[i] : NULL;
}

const struct weights_shape *weights_shape_find(const char *name)
{
    for (size_t i = 0; i < N_SHAPES; i++)
        if (strcasecmp(shapes[i].name, name) == 0) return &shapes[i];
    return NULL;
}

const struct weights_experts *weights_shape_experts(const struct weights_shape *shape)
{
    for (size_t i = 0; i < sizeof experts / sizeof *experts; i++)
        if (strcmp(experts[i].shape, shape->name) == 0) return &experts[i];
    return NULL;
}

const struct weights_recurrent *weights_shape_recurrent(const struct weights_shape *shape)
{
    for (size_t i = 0; i < sizeof recurrent / sizeof *recurrent; i++)
        if (strcmp(recurrent[i].shape, shape->name) == 0) return &recurrent[i];
    return NULL;
}

bool weights_shape_attends(const struct weights_shape *shape, uint32_t layer)
{
    const struct weights_recurrent *r = weights_shape_recurrent(shape);
    return !r || (r->period ? (layer + 1) % r->period == 0 : layer < 64 && (r->attends >> layer & 1));
}

const struct weights_pooling *weights_shape_pooling(const struct weights_shape *shape)
{
    for (size_t i = 0; i < sizeof poolings / sizeof *poolings; i++)
        if (strcmp(poolings[i].shape, shape->name) == 0) return &poolings[i];
    return NULL;
}

const struct weights_mixed_layers *weights_shape_mixed(const struct weights_shape *shape)
{
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++)
        if (strcmp(mixed[i].shape, shape->name) == 0) return &mixed[i];
    return NULL;
}
