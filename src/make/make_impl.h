/* SPDX-License-Identifier: MIT
 *
 * Parts of make_model.c.
 */
#ifndef LUTRA_MAKE_MAKE_IMPL_H
#define LUTRA_MAKE_MAKE_IMPL_H

#include "files/gguf_write.h"
#include "make/make.h"

#include <jansson.h>

enum { MAKE_MIN_VOCAB = 512, MAKE_MAX_LAYER = 1024 };

/* Puts the tokenizer.* keys of a made vocabulary; n_vocab >= MAKE_MIN_VOCAB.  The writer's own failures stick. */
int make_vocab(struct gguf_writer *w, const struct weights_shape *shape, struct lutra_error *err);
/* The same as a folder has it: tokenizer.json and tokenizer_config.json, to be released. */
int make_vocab_json(const char *arch, uint32_t n_vocab, json_t **tokenizer, json_t **config, struct lutra_error *err);
/* Puts those of another file. */
int make_vocab_copy(struct gguf_writer *w, const struct weights *from);

/* What weights_make_model does where there are groups; `shape` with the overrides applied. */
int make_folder(const char *path, const struct weights_make_settings *s, const struct weights_shape *shape,
    struct lutra_error *err);

/* What files of an architecture hold beside the plain block's tensors and keys. */
enum {
    MAKE_NORM_BEFORE = 1,
    MAKE_NORM_BEHIND = 2,
    MAKE_QK_NORM = 4,
    MAKE_QK_ROW = 8, /* these norms are of whole rows */
    MAKE_QKV_BIAS = 16,
    MAKE_FUSED = 32,      /* one matrix for q, k and v, and one for gate and up */
    MAKE_ALL_BIASES = 64, /* of all matrices and norms */
    MAKE_NO_GATE = 128,
    MAKE_LAYER_NORM = 256,
    MAKE_ONE_NORM = 512, /* before both sub-layers */
    MAKE_LONG_ROPE = 1024,
    MAKE_SUB_NORMS = 2048, /* before the last matrix of each sub-layer */
    MAKE_EXPERTS = 4096,
    MAKE_EXPERT_BIASES = 8192, /* of router and experts */
    MAKE_SINKS = 16384,
    MAKE_MIXED_LAYERS = 131072, /* weights_shape_mixed: sizes by layer, put by put_keys */
    MAKE_OUTPUT_BIAS = 65536,   /* of attention's output matrix */
    MAKE_CONV_LAYERS = 524288,  /* short convolutions; the last norm is the embedding's; biases for choosing experts */
    MAKE_GATED_ATTENTION = 262144, /* each head's gate behind its query in attn_q */
    MAKE_ENCODER = 1048576,        /* rows see the whole text; no head */
    MAKE_SUM_NORMS = 2097152,      /* of the embeddings and behind each sub-layer's sum, none before the head */
    MAKE_SEGMENTS = 4194304,       /* token_types */
    MAKE_POSITIONS = 8388608,      /* position_embd */
    MAKE_NORM_BIASES = 16777216,   /* of norms alone */
    MAKE_FUSED_QKV = 33554432,
    MAKE_MAMBA = 67108864,         /* Mamba-2 layers */
    MAKE_SECOND_NORM_POST = 32768, /* the norm before the feed-forward is called post_attention_norm */
};
struct make_arch {
    const char *name;
    uint32_t has;                                                           /* set of MAKE_* */
    void (*put_keys)(struct gguf_writer *w, const struct weights_shape *s); /* NULL: none */
};
const struct make_arch *make_arch_find(const char *name);

/* Elements of each head that turn: all, or Phi-4-mini's three quarters. */
uint32_t make_rotated(const struct weights_shape *s);

/* How many of the last layers read the cache of earlier ones (weights_shape_mixed). */
uint32_t make_shared_layers(const struct weights_shape *s);

/* `{arch}.name` */
void make_put_u32(struct gguf_writer *w, const struct weights_shape *s, const char *name, uint32_t value);
void make_put_f32(struct gguf_writer *w, const struct weights_shape *s, const char *name, float value);

/* 2^20 normal numbers of one deviation, in f32 and in the file's type, drawn from in runs of 256. */
enum { POOL_ELEMS = 1 << 20, POOL_RUN = 256, POOL_RUNS = POOL_ELEMS / POOL_RUN };
struct make_pool {
    float deviation;
    enum quant_type type;
    float *f32;   /* [POOL_ELEMS] */
    uint8_t *raw; /* the same, quantized */
};

int make_pool_open(struct make_pool *pool, uint64_t seed, float deviation, enum quant_type type);
void make_pool_close(struct make_pool *pool);

/* Which run of the pool stands at run `at` of the tensor numbered `tensor`. */
uint32_t make_pool_pick(uint64_t seed, uint32_t tensor, uint64_t at);

/* Numbers first, first + 1, ... of a stream of standard normal ones (sums of 12 uniforms): a function of (seed, stream)
 * alone, the same on every machine.  `first` is even. */
void make_normals(uint64_t seed, uint32_t stream, uint64_t first, float *x, size_t n);

#endif
